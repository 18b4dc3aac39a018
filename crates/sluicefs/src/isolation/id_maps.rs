//! The ids of a user name space (user_namespaces(7)).

use crate::failure::{Failure, system_words};
use rustix::process::{Pid, getegid, geteuid};
use std::fmt::Write;
use std::io;
use std::process::Command;
use std::str::FromStr;

/// A run of ids that are mapped one to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdMapping {
    inside: u32,
    outside: u32,
    count: u32,
}

impl FromStr for IdMapping {
    type Err = String;

    /// `:INSIDE:OUTSIDE:COUNT:`, with any other character in place of the colon.
    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "expected :INSIDE:OUTSIDE:COUNT:";
        let delimiter = text.chars().next().ok_or(FORM)?;
        let fields: Vec<&str> = text.split(delimiter).collect();
        let ["", inside, outside, count, ""] = fields[..] else {
            return Err(FORM.to_owned());
        };
        let number = |field: &str| field.parse::<u32>().map_err(|_| FORM.to_owned());
        let mapping = IdMapping {
            inside: number(inside)?,
            outside: number(outside)?,
            count: number(count)?,
        };
        let fits = |first: u32| first.checked_add(mapping.count).is_some();
        match mapping.count > 0 && fits(mapping.inside) && fits(mapping.outside) {
            true => Ok(mapping),
            false => Err("there are no such ids".to_owned()),
        }
    }
}

/// Refuses runs that overlap.
pub(super) fn check(option: &str, map: &[IdMapping]) -> Result<(), String> {
    for (at, one) in map.iter().enumerate() {
        for other in map.iter().skip(at + 1) {
            let overlap = |a: u32, b: u32| {
                a < b.saturating_add(other.count) && b < a.saturating_add(one.count)
            };
            if overlap(one.inside, other.inside) || overlap(one.outside, other.outside) {
                return Err(format!("two {option} overlap"));
            }
        }
    }
    Ok(())
}

/// Gives the user name space of `process` its ids; without a map this user's or
/// group's alone. What only a privileged process may write is left to
/// newuidmap(1) and newgidmap(1), which obey subuid(5) and subgid(5).
pub(super) fn write(process: Pid, uids: &[IdMapping], gids: &[IdMapping]) -> Result<(), Failure> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let proc = format!("/proc/{}", process.as_raw_nonzero());
    if !geteuid().is_root() && gids.is_empty() {
        // Else groups could be left that keep somebody out.
        std::fs::write(format!("{proc}/setgroups"), "deny").map_err(|e| failed("group", &e))?;
    }
    for (kind, map, own) in [("uid", uids, uid), ("gid", gids, gid)] {
        let alone = [IdMapping {
            inside: own,
            outside: own,
            count: 1,
        }];
        let is_given = !map.is_empty();
        let map = if is_given { map } else { &alone };
        let outcome = match is_given && !geteuid().is_root() {
            true => by_helper(kind, process, map),
            false => std::fs::write(format!("{proc}/{kind}_map"), lines(map)),
        };
        outcome.map_err(|error| failed(kind, &error))?;
    }
    Ok(())
}

fn failed(kind: &str, error: &io::Error) -> Failure {
    let words = system_words(error);
    Failure::new(format!("cannot map {kind}s: {words}")).advise(
        "give ids that you may use (see subuid(5)), \
        or --sandbox none without --uid-map and --gid-map",
    )
}

fn lines(map: &[IdMapping]) -> String {
    let mut text = String::new();
    for one in map {
        let _ = writeln!(text, "{} {} {}", one.inside, one.outside, one.count);
    }
    text
}

fn by_helper(kind: &str, process: Pid, map: &[IdMapping]) -> io::Result<()> {
    let mut helper = Command::new(format!("new{kind}map"));
    helper.arg(process.as_raw_nonzero().to_string());
    for one in map {
        helper.args([one.inside, one.outside, one.count].map(|id| id.to_string()));
    }
    let output = helper.output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(said.trim().to_owned()))
        }
    }
}

/// Who the serving process is in its name space: the superuser where there is
/// one, else who it was.
pub(super) fn has_root(map: &[IdMapping]) -> bool {
    map.iter().any(|one| one.inside == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_understood() {
        let expected = IdMapping {
            inside: 0,
            outside: 100_000,
            count: 65_536,
        };
        assert_eq!(":0:100000:65536:".parse(), Ok(expected));
        assert_eq!("/0/100000/65536/".parse(), Ok(expected));
        assert_eq!(lines(&[expected]), "0 100000 65536\n");
        for bad in [
            "",
            ":",
            "0:100000:65536",
            ":0:1:",
            ":0:1:2:3:",
            ":0:1:0:",
            ":0:4294967295:2:",
            ":a:1:2:",
        ] {
            assert!(bad.parse::<IdMapping>().is_err(), "{bad}");
        }
    }

    #[test]
    fn runs_may_not_overlap() {
        let map = |text: &str| text.parse::<IdMapping>().unwrap();
        assert_eq!(check("x", &[map(":0:100:10:"), map(":10:110:10:")]), Ok(()));
        assert!(check("x", &[map(":0:100:10:"), map(":9:200:10:")]).is_err());
        assert!(check("x", &[map(":0:100:10:"), map(":10:109:10:")]).is_err());
    }
}
