//! Files on a server, as users write them.

use sluice_client::{Address, ExportAddress};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::Ipv6Addr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// `ADDRESS[#ANAME]:PATH`: a file on a server. The path begins at the root of
/// the export, with a slash or without, and is any bytes. Without one (and its
/// colon) it is the root. The path of a unix socket has no colon in it here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The server and its export.
    pub export: ExportAddress,
    /// From the root of the export.
    pub path: PathBuf,
}

impl Location {
    /// Takes a word of the command line apart.
    ///
    /// # Errors
    /// What is wrong with it, and how it should be.
    pub fn parse(word: &OsStr) -> Result<Self, String> {
        let bytes = word.as_bytes();
        let end = end_of_address(bytes);
        let (address, rest) = bytes.split_at(end);
        let address = std::str::from_utf8(address)
            .map_err(|_| format!("the address in '{}' is not UTF-8", word.display()))?;
        let path = rest.strip_prefix(b":").unwrap_or(rest);
        let export: ExportAddress = address
            .parse()
            .map_err(|why| ipv6_without_brackets(word).unwrap_or(why))?;
        match export.address {
            Address::Vsock { cid: None, .. } => {
                return Err("write vsock:CID:PORT, where CID 2 is the host".to_owned());
            }
            Address::Activation => {
                return Err("activation is to listen with, not to connect to".to_owned());
            }
            _ => {}
        }
        Ok(Location {
            export,
            path: PathBuf::from(OsString::from_vec(path.to_vec())),
        })
    }

    /// Another file of the same export.
    pub(crate) fn at(&self, path: &Path) -> Location {
        Location {
            export: self.export.clone(),
            path: path.to_owned(),
        }
    }

    /// Whether the path is written as that of a directory.
    pub(crate) fn is_dir_by_name(&self) -> bool {
        let bytes = self.path.as_os_str().as_bytes();
        bytes.is_empty() || bytes.ends_with(b"/")
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.export, self.path.display())
    }
}

/// What to write for `tcp:` and an IPv6 address that has no brackets: it was taken apart
/// at the wrong colons.
fn ipv6_without_brackets(word: &OsStr) -> Option<String> {
    let address = word.to_str()?.split('#').next()?;
    let (host, _) = address.strip_prefix("tcp:")?.rsplit_once(':')?;
    host.parse::<Ipv6Addr>().ok()?;
    address.parse::<Address>().err()
}

/// Where the colon stands that ends the address.
fn end_of_address(bytes: &[u8]) -> usize {
    let colon_behind = |start: usize| {
        let rest = bytes.get(start..).unwrap_or_default();
        let at = rest.iter().position(|byte| *byte == b':');
        at.map_or(bytes.len(), |at| start + at)
    };
    let kind_end = colon_behind(0);
    match bytes.get(..kind_end).unwrap_or_default() {
        b"tcp" => {
            let host = kind_end + 1;
            let rest = bytes.get(host..).unwrap_or_default();
            let bracket = rest.iter().position(|byte| *byte == b']');
            let host_end = match (rest.first(), bracket) {
                (Some(b'['), Some(bracket)) => host + bracket,
                _ => host,
            };
            colon_behind(colon_behind(host_end) + 1)
        }
        b"vsock" => colon_behind(colon_behind(kind_end + 1) + 1),
        _ => colon_behind(kind_end + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_begins_behind_the_address() {
        for (word, export, path) in [
            ("unix:/run/s.sock:/a/b", "unix:/run/s.sock", "/a/b"),
            ("unix:/run/s.sock", "unix:/run/s.sock", ""),
            ("unix:s:a:b", "unix:s", "a:b"),
            ("unix:s#home:x", "unix:s#home", "x"),
            ("tcp:localhost:564:/a:b", "tcp:localhost:564", "/a:b"),
            ("tcp:[::1]:564:/a", "tcp:[::1]:564", "/a"),
            ("tcp:h:564#x:y", "tcp:h:564#x", "y"),
            ("vsock:2:564:a", "vsock:2:564", "a"),
            ("fd:3:/x", "fd:3", "/x"),
        ] {
            let place = Location::parse(OsStr::new(word)).unwrap();
            assert_eq!(place.export.to_string(), export, "{word}");
            assert_eq!(place.path, Path::new(path), "{word}");
        }
        for word in [
            "",
            "/a/b",
            "host:/a",
            "tcp:localhost:/a",
            "unix::/a",
            "fd:x:/a",
            "vsock:564",
            "activation",
        ] {
            assert!(Location::parse(OsStr::new(word)).is_err(), "{word}");
        }
        let bytes = OsStr::from_bytes(b"unix:s:/\xff");
        assert_eq!(
            Location::parse(bytes).unwrap().path.as_os_str().as_bytes(),
            b"/\xff"
        );
    }
}
