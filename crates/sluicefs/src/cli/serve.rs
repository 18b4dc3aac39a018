//! `sluice serve`.

use crate::failure::Failure;
use crate::serve::{self, ServeConfig, Tag};
use crate::share::SharePolicy;
use crate::timeout::Timeout;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sluice_proto::fuse::serve::CacheMode;
use std::path::PathBuf;

/// Serve a directory to virtual machines.
///
/// Runs in the foreground until SIGTERM, SIGINT or SIGHUP ends it (exit
/// status 0). Clients come and go meanwhile, one at a time. Once the socket
/// listens, one line on stderr says so, and systemd is notified.
#[derive(Debug, Args)]
#[command(after_help = "\
In a Linux guest:
  mount -t virtiofs TAG /mnt
With QEMU (memory must be shared):
  -object memory-backend-memfd,id=mem,size=1G,share=on -machine memory-backend=mem
  -chardev socket,id=fs,path=SOCKET -device vhost-user-fs-pci,chardev=fs,tag=TAG")]
pub struct ServeArgs {
    /// The directory to serve
    dir: PathBuf,

    /// Serve virtio-fs to a virtual machine monitor that connects to this
    /// unix socket; a stale socket file is replaced
    #[arg(long, value_name = "SOCKET", required = true)]
    virtiofs: PathBuf,

    /// The name under which the guest mounts it, 1 to 36 bytes
    #[arg(long, default_value = "sluice")]
    tag: Tag,

    /// How long the guest trusts what it was told
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = cache_mode())]
    cache: CacheMode,

    /// How long the guest remembers that a name does not exist [default: as
    /// long as one that does]
    #[arg(long, value_name = "DURATION|always")]
    negative_timeout: Option<Timeout>,

    /// Let the guest collect writes; only with --cache=always, since the guest
    /// then ignores sizes and times from the host
    #[arg(long)]
    writeback: bool,

    /// Refuse every change
    #[arg(long, visible_alias = "readonly")]
    read_only: bool,

    /// Pass extended attributes through (default)
    #[arg(long, overrides_with = "no_xattr")]
    xattr: bool,

    /// No extended attributes
    #[arg(long)]
    no_xattr: bool,

    /// Keep and obey POSIX ACLs
    #[arg(long, conflicts_with = "no_xattr")]
    posix_acl: bool,
}

impl ServeArgs {
    pub(super) fn check(&self) -> Result<(), String> {
        self.policy().check()
    }

    pub(super) fn run(self) -> Result<(), Failure> {
        let policy = self.policy();
        serve::run(&ServeConfig {
            dir: self.dir,
            virtiofs: self.virtiofs,
            tag: self.tag,
            policy,
        })
    }

    fn policy(&self) -> SharePolicy {
        SharePolicy {
            cache: self.cache,
            negative_timeout: self.negative_timeout,
            writeback: self.writeback,
            read_only: self.read_only,
            xattr: !self.no_xattr,
            posix_acl: self.posix_acl,
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
            .help("For good: only for trees that nobody else changes"),
    ])
    .try_map(|word| word.parse())
}
