//! `sluice serve`.

use super::share_args::ShareArgs;
use crate::failure::Failure;
use crate::serve::{self, ServeConfig, Tag};
use clap::Args;
use sluice_crew::Polling;
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

    /// How to look for requests before sleeping: auto (up to 50 µs where that
    /// pays off), off, or a duration such as 30us
    #[arg(long, value_name = "auto|off|DURATION", default_value = "auto")]
    poll: Polling,

    #[command(flatten)]
    share: ShareArgs,
}

impl ServeArgs {
    pub(super) fn check(&self) -> Result<(), String> {
        self.share.policy().check()
    }

    pub(super) fn run(self) -> Result<(), Failure> {
        let policy = self.share.policy();
        serve::run(&ServeConfig {
            dir: self.dir,
            virtiofs: self.virtiofs,
            tag: self.tag,
            policy,
            poll: self.poll,
        })
    }
}
