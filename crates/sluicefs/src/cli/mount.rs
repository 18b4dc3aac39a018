//! `sluice mount`.

use crate::failure::Failure;
use crate::mount::{self, MountConfig, MountOptions, daemon};
use clap::Args;
use std::path::PathBuf;

/// Mount a directory through FUSE, on this machine.
///
/// Returns once the mount is usable; the file system is served in the
/// background until it is unmounted, with umount or fusermount3 -u, or until
/// SIGTERM asks it to unmount itself. Root mounts directly, anybody else
/// through fusermount3.
#[derive(Debug, Args)]
#[command(after_help = OPTION_HELP)]
pub struct MountArgs {
    /// The host directory to mount
    #[arg(long, value_name = "DIR")]
    export: PathBuf,

    /// Where to mount it
    #[arg(value_name = "MNT")]
    target: PathBuf,

    /// Mount options, separated by commas; may be repeated
    #[arg(short, value_name = "OPT,…", value_parser = checked_options)]
    options: Vec<String>,

    /// Stay in the foreground
    #[arg(long)]
    foreground: bool,

    #[arg(long = daemon::DAEMON_FLAG, hide = true)]
    is_daemon: bool,
}

const OPTION_HELP: &str = "\
Mount options:
  ro, rw               refuse changes, or not (default)
  allow_other          let other users in (see user_allow_other in fuse.conf(5))
  default_permissions  accepted; the kernel always checks permissions
  cache=MODE           never (none), metadata, auto (default), always (loose)
  negtimeout=MS        remember missing names for so many milliseconds; -1 for ever
  writeback            let the kernel collect writes; only with cache=always
  locks=PLACE          keep POSIX and flock locks on the host, or in the guest
                       (this mount); guest is the default with cache=always
  [no_]allow_mmap      shared mappings where content is not cached (default)
  allow_direct_io      open files with O_DIRECT where programs do
  preserve_noatime     fail where O_NOATIME is refused
  no_readdirplus       listings of names alone
  noxattr              no extended attributes
  xattrmap=RULES       other names for extended attributes, by virtiofsd's rules
                       (with no comma in them)
  posixacl             keep and obey POSIX ACLs
  security_label       label what is made (SELinux) in the moment it is made
  poll=HOW             how to look for requests before sleeping: auto (default: up to
                       200 µs where that pays off), off, or a duration such as 30us
  fsname=NAME          what the mount table shows as the source
  [no]suid, [no]dev, [no]exec, [no]atime, [a]sync, dirsync
                       as for mount(8); nosuid and nodev are the default

Files:
  /dev/fuse       the kernel's side; whoever mounts must be allowed to open it
  /etc/fuse.conf  user_allow_other there lets ordinary users give allow_other

Examples:
    sluice mount --export ~/src /mnt -o ro,cache=metadata
    umount /mnt";

impl MountArgs {
    pub(super) fn check(&self) -> Result<(), String> {
        self.options()?.policy.check()
    }

    pub(super) fn run(self) -> Result<(), Failure> {
        if !self.foreground && !self.is_daemon {
            return daemon::start();
        }
        let config = MountConfig {
            options: self.options().map_err(Failure::new)?,
            export: self.export,
            target: self.target,
        };
        mount::run(&config, self.is_daemon)
    }

    fn options(&self) -> Result<MountOptions, String> {
        let mut options = MountOptions::default();
        for list in &self.options {
            options.add(list)?;
        }
        Ok(options)
    }
}

/// So that a bad word is a usage error before anything happens.
fn checked_options(list: &str) -> Result<String, String> {
    MountOptions::default().add(list)?;
    Ok(list.to_owned())
}
