//! The words behind `-o`: v9fs's for caching, FUSE's and mount(8)'s for the rest.

use crate::nearest::nearest;
use crate::share::SharePolicy;
use crate::timeout::Timeout;
use rustix::mount::MountFlags;
use sluice_crew::Polling;
use sluice_proto::fuse::serve::{CacheMode, Offer};
use std::time::Duration;

/// What a mount is asked to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Flags of mount(2): `nosuid` and `nodev` unless asked otherwise.
    pub flags: MountFlags,
    /// Users other than the mounting one may enter.
    pub allow_other: bool,
    /// What the mount table shows as the source, if not the exported directory.
    pub fsname: Option<String>,
    /// What is served, and how long the kernel may trust it.
    pub policy: SharePolicy,
    /// How its threads look for requests before they sleep.
    pub poll: Polling,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            flags: MountFlags::NOSUID | MountFlags::NODEV,
            allow_other: false,
            fsname: None,
            policy: SharePolicy::default(),
            poll: Polling::default(),
        }
    }
}

impl MountOptions {
    /// All that are known; `=` is behind those that take a value.
    pub(crate) const WORDS: &[&str] = &[
        "allow_other",
        "default_permissions",
        "cache=",
        "negtimeout=",
        "writeback",
        "locks=",
        "allow_mmap",
        "no_allow_mmap",
        "allow_direct_io",
        "preserve_noatime",
        "no_readdirplus",
        "noxattr",
        "xattrmap=",
        "posixacl",
        "security_label",
        "poll=",
        "fsname=",
        "ro",
        "rw",
        "suid",
        "nosuid",
        "dev",
        "nodev",
        "exec",
        "noexec",
        "atime",
        "noatime",
        "sync",
        "async",
        "dirsync",
    ];

    /// Adds a comma-separated list; a later word wins over an earlier one.
    ///
    /// # Errors
    /// A sentence naming the first word that is not known or has a bad value.
    pub fn add(&mut self, list: &str) -> Result<(), String> {
        list.split(',')
            .filter(|word| !word.is_empty())
            .try_for_each(|word| self.add_word(word))
    }

    fn add_word(&mut self, word: &str) -> Result<(), String> {
        if self.add_flag(word) {
            return Ok(());
        }
        match word.split_once('=').unwrap_or((word, "")) {
            ("cache" | "locks" | "poll" | "negtimeout" | "xattrmap", "") => {
                return Err(unknown(word));
            }
            ("allow_other", "") => self.allow_other = true,
            // Always so: the kernel checks what its users may do.
            ("default_permissions", "") => {}
            ("writeback", "") => self.policy.writeback = true,
            ("allow_mmap", "") => self.policy.allow_mmap = true,
            ("no_allow_mmap", "") => self.policy.allow_mmap = false,
            ("allow_direct_io", "") => self.policy.allow_direct_io = true,
            ("preserve_noatime", "") => self.policy.preserve_noatime = true,
            ("no_readdirplus", "") => self.policy.readdirplus = false,
            ("noxattr", "") => self.policy.xattr = false,
            ("xattrmap", rules) => {
                let rules = rules.parse();
                self.policy.xattr_map = Some(rules.map_err(|why| format!("{word}: {why}"))?);
            }
            ("posixacl", "") => self.policy.posix_acl = Offer::Auto,
            ("security_label", "") => self.policy.security_label = Offer::Auto,
            ("locks", place) => {
                let place = place.parse();
                self.policy.locks = Some(place.map_err(|why| format!("{word}: {why}"))?);
            }
            ("fsname", name) if !name.is_empty() => self.fsname = Some(name.to_owned()),
            ("cache", mode) => {
                let mode: CacheMode = mode.parse().map_err(|_| {
                    format!("{word}: a cache mode is never, metadata, auto or always")
                })?;
                self.policy.cache = mode;
            }
            ("poll", how) => self.poll = how.parse().map_err(|e| format!("poll={how}: {e}"))?,
            ("negtimeout", ms) => self.policy.negative_timeout = Some(negative_timeout(ms)?),
            _ => return Err(unknown(word)),
        }
        Ok(())
    }

    /// Words that set or clear one flag of mount(2).
    fn add_flag(&mut self, word: &str) -> bool {
        let (flag, set) = match word {
            "ro" => (MountFlags::RDONLY, true),
            "rw" => (MountFlags::RDONLY, false),
            "nosuid" => (MountFlags::NOSUID, true),
            "suid" => (MountFlags::NOSUID, false),
            "nodev" => (MountFlags::NODEV, true),
            "dev" => (MountFlags::NODEV, false),
            "noexec" => (MountFlags::NOEXEC, true),
            "exec" => (MountFlags::NOEXEC, false),
            "noatime" => (MountFlags::NOATIME, true),
            "atime" => (MountFlags::NOATIME, false),
            "sync" => (MountFlags::SYNCHRONOUS, true),
            "async" => (MountFlags::SYNCHRONOUS, false),
            "dirsync" => (MountFlags::DIRSYNC, true),
            _ => return false,
        };
        self.flags.set(flag, set);
        self.policy.read_only = self.flags.contains(MountFlags::RDONLY);
        true
    }

    /// [`MountOptions::flags`] in words, for fusermount3.
    pub(super) fn flag_words(&self) -> impl Iterator<Item = &'static str> + '_ {
        [
            (MountFlags::RDONLY, "ro", "rw"),
            (MountFlags::NOSUID, "nosuid", "suid"),
            (MountFlags::NODEV, "nodev", "dev"),
            (MountFlags::NOEXEC, "noexec", "exec"),
            (MountFlags::NOATIME, "noatime", "atime"),
            (MountFlags::SYNCHRONOUS, "sync", "async"),
            (MountFlags::DIRSYNC, "dirsync", ""),
        ]
        .into_iter()
        .map(|(flag, set, clear)| {
            if self.flags.contains(flag) {
                set
            } else {
                clear
            }
        })
        .filter(|word| !word.is_empty())
    }
}

/// A word that is not known, or has a value too many or too few.
fn unknown(word: &str) -> String {
    let name = word.split('=').next().unwrap_or(word);
    let known = |option: &&&str| option.trim_end_matches('=') == name;
    if let Some(option) = MountOptions::WORDS.iter().find(known) {
        let wants = if option.ends_with('=') {
            "a value"
        } else {
            "no value"
        };
        return format!("mount option '{word}': '{name}' takes {wants}");
    }
    let names = MountOptions::WORDS
        .iter()
        .map(|option| option.trim_end_matches('='));
    match nearest(name, names) {
        Some(near) => format!("unknown mount option '{word}' (did you mean '{near}'?)"),
        None => format!("unknown mount option '{word}'"),
    }
}

/// v9fs's own unit: milliseconds, −1 for ever.
fn negative_timeout(ms: &str) -> Result<Timeout, String> {
    if ms == "-1" {
        return Ok(Timeout::Always);
    }
    let ms: u64 = ms
        .parse()
        .map_err(|_| format!("negtimeout={ms} is not a number of milliseconds (-1: for ever)"))?;
    Ok(Timeout::For(Duration::from_millis(ms)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::LockPlace;

    fn parse(list: &str) -> Result<MountOptions, String> {
        let mut options = MountOptions::default();
        options.add(list).map(|()| options)
    }

    #[test]
    fn every_word_is_known_and_a_slip_is_told() {
        let value = |option: &str| match option {
            "cache=" => "auto",
            "negtimeout=" => "5",
            "locks=" => "host",
            "xattrmap=" => ":ok:all:::",
            "poll=" => "off",
            "fsname=" => "a",
            _ => "",
        };
        for option in MountOptions::WORDS {
            assert_eq!(
                parse(&format!("{option}{}", value(option))).err(),
                None,
                "{option}"
            );
        }
        for (word, why) in [
            (
                "cahce=none",
                "unknown mount option 'cahce=none' (did you mean 'cache'?)",
            ),
            (
                "posix_acl",
                "unknown mount option 'posix_acl' (did you mean 'posixacl'?)",
            ),
            ("fast", "unknown mount option 'fast'"),
            ("cache", "mount option 'cache': 'cache' takes a value"),
            ("fsname=", "mount option 'fsname=': 'fsname' takes a value"),
            ("ro=1", "mount option 'ro=1': 'ro' takes no value"),
            (
                "cache=some",
                "cache=some: a cache mode is never, metadata, auto or always",
            ),
        ] {
            assert_eq!(parse(word).unwrap_err(), why);
        }
    }

    #[test]
    fn later_words_win() {
        let options =
            parse("ro,allow_other,cache=none,suid,,cache=loose,rw,negtimeout=-1").unwrap();
        assert!(!options.policy.read_only);
        assert!(options.allow_other);
        assert_eq!(options.policy.cache, CacheMode::Always);
        assert_eq!(options.policy.negative_timeout, Some(Timeout::Always));
        assert_eq!(options.flags, MountFlags::NODEV);
        let words: Vec<_> = options.flag_words().collect();
        assert_eq!(words, ["rw", "suid", "nodev", "exec", "atime", "async"]);
    }

    #[test]
    fn words_about_the_share_reach_its_policy() {
        let words = "no_allow_mmap,allow_direct_io,preserve_noatime,no_readdirplus,locks=guest,\
            posixacl,security_label,cache=metadata,negtimeout=250";
        let expected = SharePolicy {
            cache: CacheMode::Metadata,
            negative_timeout: Some(Timeout::For(Duration::from_millis(250))),
            locks: Some(LockPlace::Guest),
            allow_mmap: false,
            allow_direct_io: true,
            preserve_noatime: true,
            readdirplus: false,
            posix_acl: Offer::Auto,
            security_label: Offer::Auto,
            ..SharePolicy::default()
        };
        assert_eq!(parse(words).unwrap().policy, expected);
        let options = parse("noxattr,no_allow_mmap,allow_mmap").unwrap();
        assert!(!options.policy.xattr && options.policy.allow_mmap);
    }

    #[test]
    fn bad_words_are_named() {
        for (list, named) in [
            ("ro,fast", "'fast'"),
            ("ro=1", "'ro=1'"),
            ("allow_other=yes", "'allow_other=yes'"),
            ("cache=sometimes", "cache=sometimes"),
            ("negtimeout=5s", "negtimeout=5s"),
            ("negtimeout=-2", "negtimeout=-2"),
            ("fsname=", "'fsname='"),
            ("locks=here", "locks=here"),
            ("xattrmap=:map:", "xattrmap=:map:: rule"),
            ("allow_mmap=1", "'allow_mmap=1'"),
            ("poll=50", "poll=50"),
        ] {
            let error = parse(list).unwrap_err();
            assert!(error.contains(named), "{list}: {error}");
        }
    }
}
