//! The words behind `-o`: v9fs's for caching and for servers, FUSE's and
//! mount(8)'s for the rest.

mod flags;
mod server;

pub use server::{ServerOptions, Trans};

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
    /// Those that words have set or cleared.
    pub named_flags: MountFlags,
    /// Users other than the mounting one may enter.
    pub allow_other: bool,
    /// Root may enter beside the mounting user, and nobody else.
    pub allow_root: bool,
    /// A mount that is there gets other flags.
    pub remount: bool,
    /// What the mount table shows as the source, if not the exported directory.
    pub fsname: Option<String>,
    /// What is served, and how long the kernel may trust it.
    pub policy: SharePolicy,
    /// How its threads look for requests before they sleep.
    pub poll: Polling,
    /// How the server is used that the mount shows, if it shows one.
    pub server: ServerOptions,
    /// A cache mode was named.
    pub is_cache_named: bool,
    /// Words for the kernel's security modules.
    pub contexts: Vec<String>,
    /// All words that were given, but for those that tell a file system nothing.
    pub words: Vec<String>,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            flags: MountFlags::NOSUID | MountFlags::NODEV,
            named_flags: MountFlags::empty(),
            allow_other: false,
            allow_root: false,
            remount: false,
            fsname: None,
            policy: SharePolicy::default(),
            poll: Polling::default(),
            server: ServerOptions::default(),
            is_cache_named: false,
            contexts: Vec::new(),
            words: Vec::new(),
        }
    }
}

impl MountOptions {
    /// All that are known; `=` is behind those that take a value.
    pub(crate) fn words() -> impl Iterator<Item = &'static str> {
        let own = Self::OWN_WORDS.iter().chain(ServerOptions::WORDS).copied();
        own.chain(flags::words())
    }

    const OWN_WORDS: &[&str] = &[
        "allow_other",
        "allow_root",
        "remount",
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
        "subtype=",
        "context=",
        "fscontext=",
        "defcontext=",
        "rootcontext=",
    ];

    /// Adds a comma-separated list; a later word wins over an earlier one.
    ///
    /// # Errors
    /// A sentence naming the first word that is not known or has a bad value.
    pub fn add(&mut self, list: &str) -> Result<(), String> {
        self.add_each(list, Err)
    }

    /// The same, but words that are not known mean nothing: mount(8)'s `-s`.
    ///
    /// # Errors
    /// A sentence naming the first word that has a bad value.
    pub fn add_sloppily(&mut self, list: &str) -> Result<(), String> {
        self.add_each(list, |_| Ok(()))
    }

    /// Settles what depends on whether root mounts. The kernel knows no `allow_root`:
    /// it lets everybody in, and others are refused when they ask, so it must keep
    /// nothing that it could show them. Root as the one who mounts enters anyway.
    ///
    /// # Errors
    /// A sentence about words that contradict it.
    pub fn settle(&mut self, is_root: bool) -> Result<(), String> {
        if is_root {
            self.allow_root = false;
        }
        match self.allow_root {
            true if self.allow_other => {
                Err("mount option 'allow_root': allow_other lets in more than that".to_owned())
            }
            true if self.is_cache_named && self.policy.cache != CacheMode::Never => Err(
                "mount option 'allow_root' needs cache=never: what is cached everybody sees"
                    .to_owned(),
            ),
            true => {
                self.policy.cache = CacheMode::Never;
                Ok(())
            }
            false => Ok(()),
        }
    }

    /// Whether the kernel lets users in who are not the mounting one.
    pub(super) fn lets_others_in(&self) -> bool {
        self.allow_other || self.allow_root
    }

    /// The first word about servers.
    pub(super) fn server_word(&self) -> Option<&str> {
        let mut words = self.words.iter();
        let word = words.find(|word| ServerOptions::is_word(name(word)))?;
        Some(word)
    }

    /// Of these words the last one that a mount which was made with the words of the list
    /// `made_with` cannot follow: it is not about what the kernel changes of a mount.
    /// mount(8) repeats to a remount what fstab(5) says, and that is no change.
    pub(super) fn only_for_new(&self, made_with: &str) -> Option<&str> {
        let mut made = MountOptions::default();
        made.add_sloppily(made_with).ok()?;
        let with = |words: &[String]| {
            let mut options = made.clone();
            let added = options.add_sloppily(&words.join(","));
            added.map(|()| options.without_changeable())
        };
        let is_change = |words: &[String]| with(words) != Ok(made.without_changeable());
        if !is_change(&self.words) {
            return None;
        }
        let mut words = self.words.iter();
        let word = words.rfind(|word| is_change(std::slice::from_ref(word)))?;
        Some(word)
    }

    /// What stays as it is for as long as there is the mount.
    fn without_changeable(&self) -> MountOptions {
        let mut contexts = self.contexts.clone();
        contexts.sort();
        contexts.dedup();
        MountOptions {
            flags: MountFlags::empty(),
            named_flags: MountFlags::empty(),
            remount: false,
            // The mount table, and so mount(8), does not tell them apart.
            allow_other: self.lets_others_in(),
            allow_root: false,
            is_cache_named: false,
            contexts,
            words: Vec::new(),
            ..self.clone()
        }
    }

    fn add_each(
        &mut self,
        list: &str,
        of_unknown: impl Fn(String) -> Result<(), String>,
    ) -> Result<(), String> {
        self.remount |= split(list).any(|word| word == "remount");
        for word in split(list) {
            let name = name(word);
            let mut names = Self::words().map(|known| known.trim_end_matches('='));
            match flags::is_for_others(word) {
                true => {}
                false if self.remount && OF_THE_KERNEL.contains(&name) => {}
                false if names.any(|known| known == name) => {
                    self.add_word(word)?;
                    self.words.push(word.to_owned());
                }
                false => of_unknown(unknown(word))?,
            }
        }
        Ok(())
    }

    fn add_word(&mut self, word: &str) -> Result<(), String> {
        if self.add_flag(word) {
            return Ok(());
        }
        if self.add_server_word(word)? {
            return Ok(());
        }
        match word.split_once('=').unwrap_or((word, "")) {
            ("cache" | "locks" | "poll" | "negtimeout" | "xattrmap" | "subtype", "") => {
                return Err(unknown(word));
            }
            ("allow_other", "") => self.allow_other = true,
            ("allow_root", "") => self.allow_root = true,
            ("remount", "") => {}
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
            // Always fuse.sluice.
            ("subtype", _) => {}
            ("context" | "fscontext" | "defcontext" | "rootcontext", label)
                if !label.is_empty() =>
            {
                self.contexts.push(word.to_owned());
            }
            ("fsname", name) if !name.is_empty() => self.fsname = Some(name.to_owned()),
            ("cache", mode) => {
                let mode: CacheMode = mode.parse().map_err(|_| {
                    format!("{word}: a cache mode is never, metadata, auto or always")
                })?;
                self.policy.cache = mode;
                self.is_cache_named = true;
            }
            ("poll", how) => self.poll = how.parse().map_err(|e| format!("poll={how}: {e}"))?,
            ("negtimeout", ms) => self.policy.negative_timeout = Some(negative_timeout(ms)?),
            _ => return Err(unknown(word)),
        }
        Ok(())
    }
}

impl MountOptions {
    /// Takes a word about the server, if it is one.
    fn add_server_word(&mut self, word: &str) -> Result<bool, String> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let mut words = ServerOptions::WORDS.iter();
        let Some(known) = words.find(|known| known.trim_end_matches('=') == name) else {
            return Ok(false);
        };
        if known.ends_with('=') == value.is_empty() || known.ends_with('=') != word.contains('=') {
            return Err(unknown(word));
        }
        let added = self.server.add(name, value);
        added.map_err(|why| format!("mount option '{word}': {why}"))?;
        Ok(true)
    }
}

/// What mount(8) reads from the mount table and says again when it remounts.
const OF_THE_KERNEL: &[&str] = &["user_id", "group_id", "max_read", "blksize"];

/// At commas that are not within quotes, as SELinux's labels have them.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let words = list.split(move |c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    words.filter(|word| !word.is_empty())
}

/// What stands in front of a value.
fn name(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

/// A word that is not known, or has a value too many or too few.
fn unknown(word: &str) -> String {
    let name = name(word);
    let known = |option: &&str| option.trim_end_matches('=') == name;
    if let Some(option) = MountOptions::words().find(known) {
        let wants = if option.ends_with('=') {
            "a value"
        } else {
            "no value"
        };
        return format!("mount option '{word}': '{name}' takes {wants}");
    }
    let names = MountOptions::words().map(|option| option.trim_end_matches('='));
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
mod tests;
