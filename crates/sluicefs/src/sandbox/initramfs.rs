//! The guest's first root: a busybox, [`init`](INIT), and what init reads
//! (`guest/README.md` describes it).

use super::cpio::Archive;
use super::machine::{Lines, Speech};
use super::modules::Module;
use super::network::GuestNetwork;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The guest's first process, a script for busybox.
const INIT: &[u8] = include_bytes!("guest/init");

/// What one guest is told.
pub(super) struct Orders<'a> {
    /// Goes before every report of init's.
    pub(super) nonce: &'a str,
    pub(super) lines: Lines,
    /// Rows and columns, if there is a terminal.
    pub(super) window: Option<(u16, u16)>,
    /// Set for the command, beside `PATH` and `HOME`.
    pub(super) environment: &'a [(String, OsString)],
    /// Where the command starts.
    pub(super) workdir: &'a Path,
    pub(super) command: &'a [OsString],
    pub(super) mounts: &'a [Mount],
    pub(super) network: Option<&'a GuestNetwork>,
}

/// One line of the guest's file system table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// A tag, or whatever the kind of file system takes for a source.
    pub(super) source: String,
    /// `/` comes before all others.
    pub(super) at: PathBuf,
    pub(super) kind: MountKind,
    pub(super) options: String,
}

/// The guest's name for the kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountKind {
    VirtioFs,
    /// Over TCP.
    P9,
    /// Over virtio.
    Virtio9p,
}

impl MountKind {
    fn name(self) -> &'static str {
        match self {
            MountKind::VirtioFs => "virtiofs",
            MountKind::P9 | MountKind::Virtio9p => "9p",
        }
    }

    /// The kernel modules that the guest needs.
    pub(super) fn modules(self) -> &'static [&'static str] {
        match self {
            MountKind::VirtioFs => &["virtiofs"],
            MountKind::P9 => &["9p", "9pnet_fd"],
            MountKind::Virtio9p => &["9p", "9pnet_virtio"],
        }
    }
}

/// Writes the archive.
pub(super) fn write(
    out: impl Write,
    busybox: &[u8],
    modules: &[Module],
    orders: &Orders<'_>,
) -> io::Result<()> {
    let mut archive = Archive::new(out);
    archive.directory("bin")?;
    archive.file("bin/busybox", 0o755, busybox)?;
    archive.file("init", 0o755, INIT)?;
    archive.directory("sluice")?;
    archive.file("sluice/run", 0o600, &run_file(orders, modules))?;
    archive.file("sluice/fstab", 0o600, &fstab(orders.mounts))?;
    archive.directory("sluice/modules")?;
    for module in modules {
        let path = format!("sluice/modules/{}", module.file_name);
        archive.file(&path, 0o644, &module.content)?;
    }
    archive.finish().map(drop)
}

/// Shell text that init sources.
fn run_file(orders: &Orders<'_>, modules: &[Module]) -> Vec<u8> {
    let modules: Vec<&str> = modules
        .iter()
        .map(|module| module.file_name.as_str())
        .collect();
    let mut text = Vec::new();
    let mut set = |name: &str, value: &[u8]| {
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        quote(value, &mut text);
        text.push(b'\n');
    };
    set("nonce", orders.nonce.as_bytes());
    set("modules", modules.join(" ").as_bytes());
    set("control", orders.lines.control.as_bytes());
    match orders.lines.speech {
        Speech::Terminal(terminal) => set("terminal", terminal.as_bytes()),
        Speech::Streams {
            stdin,
            stdout,
            stderr,
        } => {
            set("stdin", stdin.as_bytes());
            set("stdout", stdout.as_bytes());
            set("stderr", stderr.as_bytes());
        }
    }
    if let Some((rows, columns)) = orders.window {
        set("rows", rows.to_string().as_bytes());
        set("columns", columns.to_string().as_bytes());
    }
    if let Some(network) = orders.network {
        set("address", network.address.as_bytes());
        set("mtu", network.mtu.to_string().as_bytes());
    }
    set("workdir", orders.workdir.as_os_str().as_bytes());
    for (name, value) in orders.environment {
        set(&format!("export {name}"), value.as_bytes());
    }
    text.extend_from_slice(b"set --");
    for word in orders.command {
        text.push(b' ');
        quote(word.as_bytes(), &mut text);
    }
    text.push(b'\n');
    text
}

/// One word for a POSIX shell, whatever is in it.
fn quote(word: &[u8], text: &mut Vec<u8>) {
    text.push(b'\'');
    for &byte in word {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            _ => text.push(byte),
        }
    }
    text.push(b'\'');
}

fn fstab(mounts: &[Mount]) -> Vec<u8> {
    let mut text = Vec::new();
    let (root, others): (Vec<_>, Vec<_>) =
        mounts.iter().partition(|mount| mount.at == Path::new("/"));
    for mount in root.into_iter().chain(others) {
        escape(OsStr::new(&mount.source), &mut text);
        text.push(b' ');
        escape(mount.at.as_os_str(), &mut text);
        text.push(b' ');
        text.extend_from_slice(mount.kind.name().as_bytes());
        text.push(b' ');
        escape(OsStr::new(&mount.options), &mut text);
        text.push(b'\n');
    }
    text
}

/// A field as in fstab(5): what separates fields, and the escape character
/// itself, as octal numbers. The zero in front is for `printf %b`.
fn escape(field: &OsStr, text: &mut Vec<u8>) {
    for &byte in field.as_bytes() {
        match byte {
            0..=b' ' | b'\\' | b'#' | 0x7f => {
                text.extend_from_slice(format!("\\0{byte:03o}").as_bytes());
            }
            _ => text.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn orders<'a>(command: &'a [OsString], mounts: &'a [Mount]) -> Orders<'a> {
        Orders {
            nonce: "word",
            lines: Lines {
                control: "/dev/c",
                speech: Speech::Streams {
                    stdin: "/dev/0",
                    stdout: "/dev/1",
                    stderr: "/dev/2",
                },
            },
            window: None,
            environment: &[],
            workdir: Path::new("/it's here"),
            command,
            mounts,
            network: None,
        }
    }

    #[test]
    fn a_shell_reads_back_every_word() {
        let command: Vec<OsString> = ["a b", "it's", "", "$HOME `x` \\ \"", "two\nlines", "*"]
            .into_iter()
            .map(OsString::from)
            .chain([OsStr::from_bytes(b"\xff\xfe").to_owned()])
            .collect();
        let mut script = run_file(&orders(&command, &[]), &[]);
        script.extend_from_slice(b"printf '%s\\0' \"$nonce\" \"$stdout\" \"$workdir\" \"$@\"");
        let output = Command::new("/bin/sh")
            .arg("-c")
            .arg(OsStr::from_bytes(&script))
            .output();
        let output = output.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut expected = Vec::new();
        let front = ["word", "/dev/1", "/it's here"].map(OsString::from);
        for word in front.iter().chain(&command) {
            expected.extend_from_slice(word.as_bytes());
            expected.push(0);
        }
        assert_eq!(output.stdout, expected);
    }

    #[test]
    fn the_root_is_the_first_mount_and_blanks_are_escaped() {
        let mount = |source: &str, at: &str, kind, options: &str| Mount {
            source: source.into(),
            at: at.into(),
            kind,
            options: options.into(),
        };
        let text = fstab(&[
            mount("share0", "/a b\t\\#c", MountKind::VirtioFs, "rw"),
            mount("10.0.0.1", "/9", MountKind::P9, "rw,aname=a b"),
            mount("root", "/", MountKind::VirtioFs, "ro,x-overlay"),
        ]);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "root / virtiofs ro,x-overlay\nshare0 /a\\0040b\\0011\\0134\\0043c virtiofs rw\n\
             10.0.0.1 /9 9p rw,aname=a\\0040b\n"
        );
    }
}
