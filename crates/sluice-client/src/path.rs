//! Paths on the server: names between slashes, beginning at the export's root.

use crate::error::{Error, Result};
use sluice_vfs::{Errno, Name};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Symlinks that are followed on one way, as in Linux.
pub(crate) const LINKS_MAX: usize = 40;

/// Names that lead somewhere from the root; `..` may be among them.
pub(crate) type Names = Vec<Vec<u8>>;

/// The names of a path.
///
/// # Errors
/// A name that is too long, or has a NUL.
pub(crate) fn names(path: &Path) -> Result<Names> {
    split(path.as_os_str().as_bytes())
}

fn split(path: &[u8]) -> Result<Names> {
    let parts = path.split(|byte| *byte == b'/');
    let parts = parts.filter(|name| !matches!(*name, b"" | b"."));
    parts
        .map(|name| match name {
            b".." => Ok(name.to_vec()),
            _ => Ok(Name::new(name)?.as_bytes().to_vec()),
        })
        .collect()
}

/// The directory of a path, and the last name, which is one.
///
/// # Errors
/// `EBUSY` for the root, which has no name; `EINVAL` if `..` comes last.
pub(crate) fn dir_and_name(path: &Path) -> Result<(Names, Vec<u8>)> {
    let mut names = names(path)?;
    match names.pop() {
        None => Err(Error::Refused(Errno::EBUSY)),
        Some(name) if name == b".." => Err(Error::Refused(Errno::EINVAL)),
        Some(name) => Ok((names, name)),
    }
}

/// The way on, where the name at `at` is a symlink to `target`. Links that begin
/// with a slash begin at the export's root.
pub(crate) fn follow(names: &Names, at: usize, target: &[u8]) -> Result<Names> {
    let before = match target.first() {
        // It would be the directory that the link is in.
        None => return Err(Error::Refused(Errno::ENOENT)),
        Some(b'/') => &[],
        _ => names.get(..at).unwrap_or_default(),
    };
    let mut out = before.to_vec();
    out.extend(split(target)?);
    out.extend_from_slice(names.get(at + 1..).unwrap_or_default());
    Ok(out)
}

/// A name or path of bytes, as the standard library has it.
pub(crate) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(names: &Names) -> String {
        let list: Vec<_> = names
            .iter()
            .map(|name| String::from_utf8_lossy(name))
            .collect();
        list.join("/")
    }

    #[test]
    fn paths_are_names_from_the_root() {
        for (path, expected) in [
            ("", ""),
            ("/", ""),
            ("a/b", "a/b"),
            ("//a/./b/", "a/b"),
            ("/a/../b", "a/../b"),
        ] {
            assert_eq!(shown(&names(Path::new(path)).unwrap()), expected, "{path}");
        }
        let long = "x".repeat(256);
        assert_eq!(
            names(Path::new(&long)).unwrap_err().errno(),
            Errno::ENAMETOOLONG
        );
        assert!(dir_and_name(Path::new("/")).is_err());
        assert!(dir_and_name(Path::new("a/..")).is_err());
        let (dir, name) = dir_and_name(Path::new("/a/b")).unwrap();
        assert_eq!((shown(&dir).as_str(), &name[..]), ("a", &b"b"[..]));
    }

    #[test]
    fn links_lead_on_from_where_they_stand() {
        let way = names(Path::new("a/link/c")).unwrap();
        for (target, expected) in [("x/y", "a/x/y/c"), ("/x", "x/c"), ("..", "a/../c")] {
            assert_eq!(
                shown(&follow(&way, 1, target.as_bytes()).unwrap()),
                expected
            );
        }
        assert_eq!(follow(&way, 1, b"").unwrap_err().errno(), Errno::ENOENT);
    }
}
