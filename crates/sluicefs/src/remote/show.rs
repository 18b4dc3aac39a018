//! Attributes as people read them, and `sluice stat`.

use super::{Location, Outcome, Remotes, failed, written};
use crate::failure::Failure;
use jiff::tz::TimeZone;
use sluice_client::{Attr, AttrMask, Client, FileType, Timestamp};
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Prints what is known of files.
pub(crate) fn stat(remotes: &mut Remotes, places: &[Location]) -> Outcome {
    let mut outcome = Outcome::default();
    for place in places {
        outcome.note(stat_one(remotes, place));
    }
    outcome
}

fn stat_one(remotes: &mut Remotes, place: &Location) -> Result<(), Failure> {
    let client = remotes.client(place)?;
    let asked = client.symlink_metadata(&place.path);
    let attr = asked.map_err(|error| failed("ask for", place, &error))?;
    let mut text = Vec::new();
    text.extend(b"Path: ");
    let path = place.path.as_os_str();
    text.extend(match path.is_empty() {
        true => b"/".to_vec(), // what no path stands for
        false => shown(path),
    });
    if let Some(target) = target_of(&client, &place.path, &attr) {
        text.extend(b" -> ");
        text.extend(target);
    }
    text.extend(lines(&attr).as_bytes());
    written(io::stdout().lock().write_all(&text))
}

fn lines(attr: &Attr) -> String {
    let mut out = format!(
        "\nType: {}\nMode: {:04o} {}\nSize: {}\nBlocks: {} of 512 bytes\nInode: {}\nLinks: {}\n",
        type_name(attr.mode.file_type()),
        attr.mode.perm(),
        mode(attr),
        attr.size,
        attr.blocks,
        attr.ino,
        attr.nlink,
    );
    for (name, field, id) in [
        ("Owner", AttrMask::UID, attr.uid),
        ("Group", AttrMask::GID, attr.gid),
    ] {
        if attr.mask.contains(field) {
            out.push_str(&format!("{name}: {id}\n"));
        }
    }
    for (name, field, at) in [
        ("Accessed", AttrMask::ATIME, attr.atime),
        ("Modified", AttrMask::MTIME, attr.mtime),
        ("Changed", AttrMask::CTIME, attr.ctime),
        ("Born", AttrMask::BTIME, attr.btime),
    ] {
        if attr.mask.contains(field) {
            out.push_str(&format!(
                "{name}: {}\n",
                time(at, "%Y-%m-%d %H:%M:%S%.9f %z")
            ));
        }
    }
    out
}

/// Where a symlink leads, if that is what it is.
pub(super) fn target_of(client: &Client, path: &Path, attr: &Attr) -> Option<Vec<u8>> {
    let target = attr.mode.is_symlink().then(|| client.read_link(path))?;
    target.ok().map(|target| shown(target.as_os_str()))
}

fn type_name(file_type: Option<FileType>) -> &'static str {
    match file_type {
        Some(FileType::Regular) => "regular file",
        Some(FileType::Directory) => "directory",
        Some(FileType::Symlink) => "symbolic link",
        Some(FileType::BlockDevice) => "block device",
        Some(FileType::CharDevice) => "character device",
        Some(FileType::Fifo) => "pipe",
        Some(FileType::Socket) => "socket",
        None => "unknown",
    }
}

/// Kind and permissions as `ls -l` shows them.
pub(super) fn mode(attr: &Attr) -> String {
    let kind = match attr.mode.file_type() {
        Some(FileType::Regular) => '-',
        Some(FileType::Directory) => 'd',
        Some(FileType::Symlink) => 'l',
        Some(FileType::BlockDevice) => 'b',
        Some(FileType::CharDevice) => 'c',
        Some(FileType::Fifo) => 'p',
        Some(FileType::Socket) => 's',
        None => '?',
    };
    let perm = attr.mode.perm();
    let mut out = String::from(kind);
    for (shift, special, with, without) in [
        (6, 0o4000, 's', 'S'),
        (3, 0o2000, 's', 'S'),
        (0, 0o1000, 't', 'T'),
    ] {
        let bits = perm >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, perm & special != 0) {
            (true, true) => with,
            (false, true) => without,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    out
}

/// In the local time zone.
pub(super) fn time(at: Timestamp, format: &str) -> String {
    let nanoseconds = i32::try_from(at.nsec).unwrap_or(0);
    match jiff::Timestamp::new(at.sec, nanoseconds) {
        Ok(moment) => moment
            .to_zoned(TimeZone::system())
            .strftime(format)
            .to_string(),
        Err(_) => at.sec.to_string(),
    }
}

/// A name as it is; to a terminal, without what would move the cursor.
pub(super) fn shown(name: &OsStr) -> Vec<u8> {
    match io::stdout().is_terminal() {
        false => name.as_bytes().to_vec(),
        true => super::progress::printable(&name.to_string_lossy()).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_client::UnixMode;

    #[test]
    fn modes_look_as_in_ls() {
        for (bits, expected) in [
            (0o100_644, "-rw-r--r--"),
            (0o041_777, "drwxrwxrwt"),
            (0o104_755, "-rwsr-xr-x"),
            (0o102_644, "-rw-r-Sr--"),
            (0o120_777, "lrwxrwxrwx"),
        ] {
            let attr = Attr {
                mode: UnixMode(bits),
                ..Attr::default()
            };
            assert_eq!(mode(&attr), expected);
        }
    }
}
