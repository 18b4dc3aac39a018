//! Command lines in other forms: this program under virtiofsd's name, with `-o`,
//! the options of the virtiofsd that came with QEMU, or as a helper of mount(8)'s.

use super::mount_helper;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The command line as today's definitions have it.
///
/// # Errors
/// An option that is not known.
pub(super) fn spelled_out(
    words: impl IntoIterator<Item = OsString>,
) -> Result<Vec<OsString>, String> {
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    let mut out: Vec<OsString> = vec!["sluice".into()];
    if is_virtiofsd(&program) {
        out.push("virtiofsd".into());
    } else if mount_helper::is_called(&program) {
        out.extend(mount_helper::spelled_out(words)?);
        return Ok(out);
    } else {
        out.extend(words.next());
    }
    if out.get(1).is_some_and(|command| command == "virtiofsd") {
        spell_out_options(words, &mut out)?;
    } else {
        out.extend(words);
    }
    Ok(out)
}

/// Whether this program goes by virtiofsd's name.
pub(super) fn is_virtiofsd(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new("virtiofsd"))
}

fn spell_out_options(
    mut words: impl Iterator<Item = OsString>,
    out: &mut Vec<OsString>,
) -> Result<(), String> {
    while let Some(word) = words.next() {
        let list = match word.as_bytes().strip_prefix(b"-o") {
            Some(b"") => words.next().map(OsString::into_vec),
            Some(list) => Some(list.to_vec()),
            None => None,
        };
        match list {
            Some(list) => {
                for option in list.split(|&byte| byte == b',') {
                    out.push(today(OsStr::from_bytes(option))?);
                }
            }
            None => out.push(word), // an -o without a list is the parser's to refuse
        }
    }
    Ok(())
}

/// A legacy option as one of today's.
fn today(option: &OsStr) -> Result<OsString, String> {
    let unknown = || format!("unknown option '-o {}'", option.display());
    let bytes = option.as_bytes();
    let Some(equals) = bytes.iter().position(|&byte| byte == b'=') else {
        return switch(bytes).map(OsString::from).ok_or_else(unknown);
    };
    let (name, value) = bytes.split_at(equals);
    let mut word = valued(name).map(OsString::from).ok_or_else(unknown)?;
    let value = match value {
        b"=err" if word == "--log-level" => b"=error",
        value => value,
    };
    word.push(OsStr::from_bytes(value));
    Ok(word)
}

fn valued(name: &[u8]) -> Option<&'static str> {
    Some(match name {
        b"source" => "--shared-dir",
        b"cache" => "--cache",
        b"loglevel" | b"log_level" => "--log-level",
        b"sandbox" => "--sandbox",
        b"xattrmap" => "--xattrmap",
        b"modcaps" => "--modcaps",
        _ => return None,
    })
}

fn switch(name: &[u8]) -> Option<&'static str> {
    Some(match name {
        b"xattr" => "--xattr",
        b"no_xattr" => "--no-xattr",
        b"posix_acl" => "--posix-acl=always",
        b"no_posix_acl" => "--posix-acl=never",
        b"security_label" => "--security-label=always",
        b"no_security_label" => "--security-label=never",
        b"readdirplus" => "--readdirplus",
        b"no_readdirplus" => "--no-readdirplus",
        b"writeback" => "--writeback",
        b"no_writeback" => "--no-writeback",
        b"allow_direct_io" => "--allow-direct-io",
        b"no_allow_direct_io" => "--no-allow-direct-io",
        b"announce_submounts" => "--announce-submounts",
        b"killpriv_v2" => "--killpriv-v2",
        b"no_killpriv_v2" => "--no-killpriv-v2",
        b"flock" | b"posix_lock" => "--locks=host",
        b"no_flock" | b"no_posix_lock" => "--locks=guest",
        b"debug" => "--log-level=debug",
        _ => return None,
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
    fn the_name_counts() {
        for program in ["virtiofsd", "/usr/libexec/virtiofsd", "./virtiofsd"] {
            let expected = ["sluice", "virtiofsd", "--fd=3"];
            assert_eq!(spelled(&[program, "--fd=3"]).unwrap(), expected);
        }
        let unchanged = ["sluice", "mount", "-o", "ro,cache=none", "/mnt"];
        for program in ["sluice", "/bin/sluice", "virtiofsd.old", ""] {
            let words = [&[program], &unchanged[1..]].concat();
            assert_eq!(spelled(&words).unwrap(), unchanged);
        }
        assert_eq!(spelled(&[]).unwrap(), ["sluice"]);
    }

    #[test]
    fn lists_become_options_in_their_place() {
        let words = spelled(&[
            "virtiofsd",
            "--cache=auto",
            "-o",
            "source=/a=b,no_xattr,cache=none",
            "-d",
            "-ologlevel=err,no_flock",
        ]);
        assert_eq!(
            words.unwrap()[2..],
            [
                "--cache=auto",
                "--shared-dir=/a=b",
                "--no-xattr",
                "--cache=none",
                "-d",
                "--log-level=error",
                "--locks=guest"
            ]
        );
        assert_eq!(
            spelled(&["sluice", "virtiofsd", "-o"]).unwrap()[2..],
            ["-o"]
        );
    }

    #[test]
    fn unknown_options_are_named() {
        for option in ["bogus", "no_xattr=1", "cache", "", "norace"] {
            let error = spelled(&["virtiofsd", "-o", option]).unwrap_err();
            assert_eq!(error, format!("unknown option '-o {option}'"));
        }
    }
}
