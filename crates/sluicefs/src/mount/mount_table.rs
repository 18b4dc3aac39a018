//! What `mountinfo` says of the calling thread's mounts, without touching the mounts themselves.

use crate::failure::Failure;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, statx};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const TABLE: &str = "/proc/thread-self/mountinfo";

/// One line of the mount table (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountEntry {
    /// Unique among the mounts that exist.
    id: u64,
    /// `MAJOR:MINOR` of the mounted file system.
    pub(super) device: String,
    /// Whose mount it is, if it is FUSE's.
    pub(super) user: Option<u32>,
}

/// A mount that somebody named.
#[derive(Debug)]
pub(super) struct Found {
    /// Where it is, as the table has it.
    pub(super) path: PathBuf,
    pub(super) entry: MountEntry,
    /// What the table says of it in mount(8)'s words: of the mount, and of its file
    /// system.
    pub(super) words: String,
}

/// Whether there is a mount table to read.
///
/// # Errors
/// There is none.
pub(super) fn check() -> Result<(), Failure> {
    let read = std::fs::read(TABLE).map(drop);
    read.map_err(|error| {
        Failure::from_io("read the mount table in", Path::new("/proc"), &error)
            .advise("mount -t proc none /proc")
    })
}

/// The mount of type `fs_type` on `target`. The mount itself is not touched: its server
/// may be away.
///
/// # Errors
/// There is none.
pub(super) fn find(target: &Path, fs_type: &str) -> Result<Found, Failure> {
    let path = path_of(target).map_err(|error| Failure::from_io("look at", target, &error))?;
    let table = std::fs::read(TABLE).unwrap_or_default();
    found_in(&table, path, fs_type).ok_or_else(|| {
        let what = format!("no mount of sluice is on '{}'", target.display());
        Failure::new(what).advise("give a directory that 'sluice mount' mounted on")
    })
}

/// The path as the mount table has it: the kernel finds the way to a mount point
/// without asking what is mounted there, unless a dot behind it looks into that.
fn path_of(target: &Path) -> io::Result<PathBuf> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let without_dots = std::path::absolute(target)?;
    let found = rustix::fs::open(without_dots, flags, Mode::empty())?;
    std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// The number of the mount on `target`, which no other mount gets as long as the
/// system runs; none before Linux 6.8. The file system is not asked.
pub(super) fn unique_id(target: &Path) -> Option<u64> {
    /// `STATX_MNT_ID_UNIQUE` of linux/stat.h.
    const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, target, flags, MNT_ID_UNIQUE).ok()?;
    let is_told = found.stx_mask & MNT_ID_UNIQUE.bits() != 0;
    is_told.then_some(found.stx_mnt_id)
}

/// The mount that a path lookup of `target` ends at, if it is of type `fs_type`.
pub(super) fn topmost_at(target: &Path, fs_type: &str) -> Option<MountEntry> {
    let table = std::fs::read(TABLE).ok()?;
    entry_in(&topmost_line(&table, target)?, fs_type)
}

/// Whether the file system `device` (`MAJOR:MINOR`) is mounted on something
/// beneath `dir`.
pub(super) fn is_beneath(dir: &Path, device: &str) -> bool {
    std::fs::read(TABLE).is_ok_and(|table| is_beneath_in(&table, dir, device))
}

fn is_beneath_in(table: &[u8], dir: &Path, device: &str) -> bool {
    table.split(|&byte| byte == b'\n').any(|line| {
        let has_device = line.split(|&byte| byte == b' ').nth(2) == Some(device.as_bytes());
        has_device && mount_point(line).is_some_and(|point| is_within(Path::new(&point), dir))
    })
}

/// Whether `path` lies somewhere in `dir` and is not `dir` itself.
pub(super) fn is_within(path: &Path, dir: &Path) -> bool {
    path != dir && path.starts_with(dir)
}

fn found_in(table: &[u8], path: PathBuf, fs_type: &str) -> Option<Found> {
    let line = topmost_line(table, &path)?;
    let (entry, words) = (entry_in(&line, fs_type)?, words_in(&line)?);
    Some(Found { path, entry, words })
}

fn entry_in(line: &str, fs_type: &str) -> Option<MountEntry> {
    let mut fields = line.split(' ');
    let id = fields.next()?.parse().ok()?;
    let device = fields.nth(1)?.to_owned();
    let (_, after_separator) = line.split_once(" - ")?;
    let found_type = after_separator.split(' ').next()?;
    let user = after_separator
        .split([' ', ','])
        .find_map(|word| word.strip_prefix("user_id="))
        .and_then(|uid| uid.parse().ok());
    (found_type == fs_type).then_some(MountEntry { id, device, user })
}

fn topmost_line(table: &[u8], target: &Path) -> Option<String> {
    // The table is in mounting order: the last line with this mount point hides the others.
    let line = table.split(|&byte| byte == b'\n').rfind(|line| {
        mount_point(line).is_some_and(|point| point.as_bytes() == target.as_os_str().as_bytes())
    })?;
    Some(String::from_utf8_lossy(line).into_owned())
}

fn words_in(line: &str) -> Option<String> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mount = mount.split(' ').nth(5)?;
    let file_system = file_system.split(' ').nth(2)?;
    Some(format!("{mount},{file_system}"))
}

fn mount_point(line: &[u8]) -> Option<OsString> {
    let field = line.split(|&byte| byte == b' ').nth(4)?;
    Some(OsString::from_vec(unescape(field)))
}

/// Undoes the kernel's `\ooo` for space, tab, newline and backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| first == b'\\');
        let byte = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match byte {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &[u8] = b"\
22 1 0:20 / /proc rw shared:5 - proc proc rw\n\
40 1 0:41 / /mnt/a\\040b rw,nosuid - fuse.sluice src rw,user_id=0\n\
41 40 0:42 / /mnt/a\\040b rw - fuse.sluice src rw,user_id=0,group_id=0\n\
42 1 0:43 / /mnt/\\134 rw - tmpfs x rw\n\
43 1 0:44 / /mnt/cut rw,nosuid - fuse.sluice src\n";

    fn found(path: &str, fs_type: &str) -> Option<Found> {
        found_in(LINES, PathBuf::from(path), fs_type)
    }

    #[test]
    fn the_last_mount_on_a_point_counts() {
        let entry = found("/mnt/a b", "fuse.sluice").unwrap().entry;
        assert_eq!((entry.id, entry.device.as_str()), (41, "0:42"));
        assert_eq!(entry.user, Some(0));
        assert!(found("/mnt/\\", "fuse.sluice").is_none());
        assert!(found("/mnt/\\", "tmpfs").is_some());
        assert!(found("/mnt", "tmpfs").is_none());
        assert!(found_in(b"rubbish\n\n1 2", PathBuf::from("/"), "x").is_none());
    }

    #[test]
    fn words_are_the_mounts_and_its_file_systems() {
        let words = |path| Some(found(path, "fuse.sluice")?.words);
        let expected = "rw,rw,user_id=0,group_id=0";
        assert_eq!(words("/mnt/a b").as_deref(), Some(expected));
        // Not that there are none, by which a remount would drop nosuid.
        assert_eq!(words("/mnt/cut"), None);
    }

    #[test]
    fn a_file_system_is_found_beneath_a_directory() {
        for (dir, device, expected) in [
            ("/mnt", "0:41", true),
            ("/", "0:42", true),
            ("/mnt/a b", "0:41", false),
            ("/mn", "0:41", false),
            ("/mnt", "0:20", false),
            ("/mnt", "0:4", false),
        ] {
            let found = is_beneath_in(LINES, Path::new(dir), device);
            assert_eq!(found, expected, "{dir} {device}");
        }
    }
}
