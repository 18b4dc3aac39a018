//! This program under the name by which mount(8) calls it for file systems of
//! type `sluice` or `fuse.sluice`: `mount.sluice SOURCE DIR [-sfnv] [-o OPT,…]`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether this program goes by a name of mount(8)'s helpers.
pub(super) fn is_called(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().map(OsStr::as_bytes);
    matches!(name, Some(b"mount.sluice" | b"mount.fuse.sluice"))
}

/// What follows `sluice` for the words behind such a name.
///
/// # Errors
/// An option that mount(8) has not, or that cannot be done.
pub(super) fn spelled_out(
    mut words: impl Iterator<Item = OsString>,
) -> Result<Vec<OsString>, String> {
    let mut options: Vec<OsString> = vec!["mount".into()];
    let mut places: Vec<OsString> = Vec::new();
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--" => places.extend(words.by_ref()),
            b"-o" => options.extend([Some(word), words.next()].into_iter().flatten()),
            b"-t" => drop(words.next()),
            b"-N" => return Err("-N: other name spaces are entered before mounting".to_owned()),
            b"-V" | b"--version" => return Ok(vec!["--version".into()]),
            [b'-', b'-', ..] | b"-h" => options.push(word),
            [b'-', b'o', ..] => options.push(word),
            [b'-', letters @ ..] if !letters.is_empty() => {
                for letter in letters {
                    options.extend(letter_spelled_out(*letter)?.iter().map(OsString::from));
                }
            }
            _ => places.push(word),
        }
    }
    options.push("--".into());
    options.extend(places);
    Ok(options)
}

fn letter_spelled_out(letter: u8) -> Result<&'static [&'static str], String> {
    Ok(match letter {
        b's' => &["--sloppy"],
        b'f' => &["--fake"],
        b'r' => &["-o", "ro"],
        b'w' => &["-o", "rw"],
        // No table to write to; little to say.
        b'n' | b'v' => &[],
        _ => return Err(format!("unknown option '-{}'", char::from(letter))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(words: &[&str]) -> Result<Vec<String>, String> {
        let words = spelled_out(words.iter().map(OsString::from))?;
        Ok(words
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect())
    }

    #[test]
    fn mounts_words_become_ours() {
        for (words, expected) in [
            (
                &["unix:s", "/mnt", "-o", "rw,aname=x"][..],
                "mount -o rw,aname=x -- unix:s /mnt",
            ),
            (
                &["s", "d", "-nvs", "-f", "-t", "fuse.sluice", "-oro"],
                "mount --sloppy --fake -oro -- s d",
            ),
            (&["-r", "--", "-s", "d"], "mount -o ro -- -s d"),
            (&["--help"], "mount --help --"),
            (&["-V"], "--version"),
            (&["s", "d", "-o"], "mount -o -- s d"),
        ] {
            assert_eq!(spelled(words).unwrap().join(" "), expected);
        }
        assert_eq!(spelled(&["-x"]).unwrap_err(), "unknown option '-x'");
        spelled(&["s", "d", "-N", "/proc/1/ns/mnt"]).unwrap_err();
    }

    #[test]
    fn the_name_counts() {
        for name in ["mount.sluice", "/sbin/mount.fuse.sluice"] {
            assert!(is_called(OsStr::new(name)), "{name}");
        }
        for name in ["sluice", "mount", "/mount.sluice/x", ""] {
            assert!(!is_called(OsStr::new(name)), "{name}");
        }
    }
}
