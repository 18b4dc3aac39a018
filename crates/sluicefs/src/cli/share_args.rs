//! Options about one share, for all commands that serve one.

use crate::layers::xattr_map::XattrMap;
use crate::share::{LockPlace, SharePolicy};
use crate::timeout::Timeout;
use crate::translate::IdTranslation;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sluice_proto::fuse::serve::{CacheMode, Offer};

/// Becomes a [`SharePolicy`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Share")]
pub(super) struct ShareArgs {
    /// How long the guest trusts what it was told
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = cache_mode())]
    cache: CacheMode,

    /// How long the guest remembers that a name does not exist [default: as
    /// long as one that does]
    #[arg(long, value_name = "DURATION|always", allow_negative_numbers = true)]
    negative_timeout: Option<Timeout>,

    /// Let the guest collect writes; only with --cache=always, since the guest
    /// then ignores sizes and times from the host
    #[arg(long)]
    writeback: bool,

    /// Refuse every change
    #[arg(long, visible_alias = "readonly")]
    read_only: bool,

    /// Where POSIX and flock locks are kept [default: guest with
    /// --cache=always, else host]
    #[arg(long, value_name = "PLACE", value_parser = lock_place())]
    locks: Option<LockPlace>,

    /// Let the guest share memory mappings of files whose content it doesn't
    /// cache; their pages it does then (default)
    #[arg(long, overrides_with = "no_allow_mmap")]
    allow_mmap: bool,

    /// No shared mappings where content is not cached (never, metadata)
    #[arg(long, overrides_with = "allow_mmap")]
    no_allow_mmap: bool,

    /// Open files with O_DIRECT where the guest does
    #[arg(long)]
    allow_direct_io: bool,

    /// Fail where O_NOATIME is refused, instead of opening without it
    #[arg(long)]
    preserve_noatime: bool,

    /// Tell the guest which directories are mount points: they get a device
    /// number of their own there (default)
    #[arg(long, overrides_with = "no_announce_submounts")]
    announce_submounts: bool,

    /// One device number for all
    #[arg(long, overrides_with = "announce_submounts")]
    no_announce_submounts: bool,

    /// List directories without attributes, which are then asked for one by one
    #[arg(long)]
    no_readdirplus: bool,

    /// Pass extended attributes through (default)
    #[arg(long, overrides_with = "no_xattr")]
    xattr: bool,

    /// No extended attributes
    #[arg(long, overrides_with = "xattr")]
    no_xattr: bool,

    /// Give extended attributes other names on the host, by virtiofsd's rules:
    /// :map::user.virtiofs.: prefixes all
    #[arg(long, conflicts_with = "no_xattr", value_name = "RULES")]
    xattrmap: Option<XattrMap>,

    /// Keep and obey POSIX ACLs; `always` refuses a guest or share that can't
    #[arg(long, conflicts_with = "no_xattr", value_name = "WHEN", value_parser = offer(),
        default_value = "never", default_missing_value = "auto",
        num_args = 0..=1, require_equals = true)]
    posix_acl: Offer,

    /// Label what the guest makes (SELinux) in the moment it is made; `always`
    /// refuses a guest that can't
    #[arg(long, conflicts_with = "no_xattr", value_name = "WHEN", value_parser = offer(),
        default_value = "never", default_missing_value = "auto",
        num_args = 0..=1, require_equals = true)]
    security_label: Offer,

    /// Translate user ids between guest and host (may be repeated):
    /// map:GUEST:HOST:COUNT both ways, guest:GUEST:HOST:COUNT,
    /// host:HOST:GUEST:COUNT, squash-guest:GUEST:HOST:COUNT and
    /// squash-host:HOST:GUEST:COUNT to one id, forbid-guest:GUEST:COUNT; all
    /// others stay as they are. Not with POSIX ACLs
    #[arg(long, value_name = "HOW:FROM:TO:COUNT")]
    translate_uid: Vec<IdTranslation>,

    /// The same for group ids
    #[arg(long, value_name = "HOW:FROM:TO:COUNT")]
    translate_gid: Vec<IdTranslation>,
}

impl ShareArgs {
    /// What these options ask for.
    pub(super) fn policy(&self) -> SharePolicy {
        SharePolicy {
            cache: self.cache,
            negative_timeout: self.negative_timeout,
            writeback: self.writeback,
            read_only: self.read_only,
            locks: self.locks,
            allow_mmap: !self.no_allow_mmap,
            allow_direct_io: self.allow_direct_io,
            preserve_noatime: self.preserve_noatime,
            require_handles: false,
            announce_submounts: !self.no_announce_submounts,
            readdirplus: !self.no_readdirplus,
            xattr: !self.no_xattr,
            xattr_map: self.xattrmap.clone(),
            posix_acl: self.posix_acl,
            security_label: self.security_label,
            translate_uid: self.translate_uid.clone(),
            translate_gid: self.translate_gid.clone(),
        }
    }
}

/// The modes, with what they mean for the guest.
pub(super) fn cache_mode() -> impl TypedValueParser<Value = CacheMode> {
    PossibleValuesParser::new([
        PossibleValue::new("never")
            .alias("none")
            .help("Not at all: every look is a question, and no content is kept"),
        PossibleValue::new("metadata").help("Names and attributes for good, content not at all"),
        PossibleValue::new("auto")
            .help("Names and attributes for a second, content until the file is seen to change"),
        PossibleValue::new("always")
            .alias("loose")
            .help("For good, without telling of opens: only for trees that nobody else changes"),
    ])
    .try_map(|word| word.parse())
}

pub(super) fn lock_place() -> impl TypedValueParser<Value = LockPlace> {
    PossibleValuesParser::new([
        PossibleValue::new("host").help("Host processes and other guests see them"),
        PossibleValue::new("guest").help("Quicker, and nobody else sees them"),
    ])
    .try_map(|word| word.parse())
}

pub(super) fn offer() -> impl TypedValueParser<Value = Offer> {
    PossibleValuesParser::new(["never", "auto", "always"]).try_map(|word| word.parse())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        share: ShareArgs,
    }

    fn policy(arguments: &[&str]) -> SharePolicy {
        let line = [&["test"], arguments].concat();
        Line::try_parse_from(line).unwrap().share.policy()
    }

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(policy(&[]), SharePolicy::default());
    }

    #[test]
    fn each_option_arrives() {
        let given = policy(&[
            "--cache=loose",
            "--negative-timeout=always",
            "--writeback",
            "--readonly",
            "--locks=host",
            "--no-allow-mmap",
            "--allow-direct-io",
            "--preserve-noatime",
            "--no-announce-submounts",
            "--no-readdirplus",
            "--xattrmap=:map:trusted.:user.virtiofs.:",
            "--posix-acl",
            "--security-label=always",
            "--translate-uid=map:0:1000:1",
            "--translate-gid=squash-guest:0:1000:5",
        ]);
        let expected = SharePolicy {
            cache: CacheMode::Always,
            negative_timeout: Some(Timeout::Always),
            writeback: true,
            read_only: true,
            locks: Some(LockPlace::Host),
            allow_mmap: false,
            allow_direct_io: true,
            preserve_noatime: true,
            require_handles: false,
            announce_submounts: false,
            readdirplus: false,
            xattr: true,
            xattr_map: ":map:trusted.:user.virtiofs.:".parse().ok(),
            posix_acl: Offer::Auto,
            security_label: Offer::Always,
            translate_uid: vec!["map:0:1000:1".parse().unwrap()],
            translate_gid: vec!["squash-guest:0:1000:5".parse().unwrap()],
        };
        assert_eq!(given, expected);
        assert!(!policy(&["--no-xattr"]).xattr);
    }

    #[test]
    fn the_last_of_two_opposites_wins() {
        assert!(policy(&["--no-allow-mmap", "--allow-mmap"]).allow_mmap);
        assert!(!policy(&["--allow-mmap", "--no-allow-mmap"]).allow_mmap);
        assert!(policy(&["--no-announce-submounts", "--announce-submounts"]).announce_submounts);
        assert!(policy(&["--no-xattr", "--xattr"]).xattr);
    }
}
