//! Asking a mount what it did.

use super::place;
use crate::failure::Failure;
use crate::mount::mount_table::MountEntry;
use crate::mount::{kernel, mount_table};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest answer in bytes.
const ANSWER_MAX: u64 = 1 << 20;

/// What the mount at `target` answers. The mount itself is not touched: its
/// server may be away.
///
/// # Errors
/// No mount of ours there, or one that does not answer.
pub(crate) fn fetch(target: &Path) -> Result<Value, Failure> {
    let found = mount_table::find(target, kernel::FS_TYPE);
    let answer = found.map(|found| answer_of(&found.entry));
    if !matches!(answer, Ok(Ok(_))) {
        // Of the mount that one asks about, and maybe of others. It is no matter if
        // that fails.
        let _ = place::sweep();
    }
    let last = match answer? {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let failure = Failure::from_io("ask about the mount on", target, &last);
    Err(match last.kind() {
        io::ErrorKind::PermissionDenied => failure.advise("only its owner and root may"),
        io::ErrorKind::ConnectionRefused => {
            failure.advise("does its process still run? If not, unmount it")
        }
        io::ErrorKind::NotFound => failure.advise(
            "does its process still run? It answers in its $XDG_RUNTIME_DIR, and not without one",
        ),
        _ => failure,
    })
}

/// The words behind `-o` that a mount was made with, if its process can be asked.
pub(in crate::mount) fn options_of(mount: &MountEntry) -> Option<String> {
    let answer = answer_of(mount).ok()?;
    Some(answer.get("options")?.as_str()?.to_owned())
}

fn answer_of(mount: &MountEntry) -> io::Result<Value> {
    let places = place::candidates(&mount.device, mount.user);
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for socket in places {
        match ask(&socket) {
            Ok(answer) => return Ok(answer),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn ask(socket: &Path) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /stats.json HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    serde_json::from_str(body.unwrap_or_default()).map_err(io::Error::from)
}
