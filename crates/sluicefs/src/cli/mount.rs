//! `sluice mount`.

use super::legacy;
use crate::failure::Failure;
use crate::mount::{self, MetricsAddress, MountConfig, MountOptions, Source, daemon};
use clap::Args;
use sluice_client::Address;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Mount an export of a 9P server, or a directory, on this machine.
///
/// Returns once the mount is usable, and mounts nothing if it is interrupted before;
/// the file system is served in the background until it is unmounted, with umount or
/// fusermount3 -u, or until SIGTERM asks it to unmount itself. Root mounts directly,
/// anybody else through fusermount3. mount(8) calls it for the types sluice and
/// fuse.sluice.
#[derive(Debug, Args)]
#[command(override_usage = USAGE, after_help = OPTION_HELP)]
pub struct MountArgs {
    /// What to mount, ADDRESS[#ANAME][:PATH] of a 9P server or a directory's path (with
    /// a slash or a dot in front), and where
    #[arg(value_names = ["SRC", "MNT"], num_args = 0..=2)]
    places: Vec<OsString>,

    /// Mount this directory of this machine, instead of SRC
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,

    /// Mount options, separated by commas; may be repeated
    #[arg(short, value_name = "OPT,…")]
    options: Vec<String>,

    /// Stay in the foreground
    #[arg(short, long)]
    foreground: bool,

    /// Answer GET /metrics (Prometheus) on this address: unix:PATH or tcp:HOST:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    metrics: Option<Address>,

    /// Metrics may be had from other machines
    #[arg(long, requires = "metrics")]
    allow_remote: bool,

    /// Options that are not known mean nothing.
    #[arg(long, hide = true)]
    sloppy: bool,

    /// Do all but mounting.
    #[arg(long, hide = true)]
    fake: bool,

    #[arg(long = daemon::DAEMON_FLAG, hide = true)]
    is_daemon: bool,
}

fn metrics_address(text: &str) -> Result<Address, String> {
    let kind = text.split_once(':').map(|(kind, _)| kind);
    match kind {
        None | Some("vsock" | "fd") => Err("write unix:PATH or tcp:HOST:PORT".to_owned()),
        Some(_) => text.parse(),
    }
}

const USAGE: &str = "\
sluice mount [OPTIONS] <SRC> <MNT>
       sluice mount [OPTIONS] --export <DIR> <MNT>";

const OPTION_HELP: &str = "\
Sources:
  unix:PATH        a 9P server's unix socket (whose path has no colon in it)
  tcp:HOST:PORT    an IPv6 address stands in brackets
  vsock:CID:PORT   CID 2 is the host of a virtual machine
  fd:N             a connected socket that this process was started with
  /PATH, ./PATH    a directory of this machine
  #ANAME behind an address says which of the server's exports, and :PATH behind that
  which directory in it, if not all is to be seen.

Mount options:
  ro, rw               refuse changes, or not (default)
  allow_other          let other users in (see user_allow_other in fuse.conf(5))
  allow_root           let root in, and nobody else (user_allow_other as well; nothing is
                       cached, lest others see it); from root it means nothing
  remount              change ro or rw and what is for mount(8) below of a mount that is
                       there; what is not named stays as it is, and what would change
                       anything else is refused
  default_permissions  accepted; the kernel always checks permissions
  cache=MODE           never (none), metadata, auto (default), always (loose)
  negtimeout=MS        remember missing names for so many milliseconds; -1 for ever
  writeback            let the kernel collect writes; only with cache=always
  locks=PLACE          keep POSIX and flock locks on the host, or in the guest
                       (this mount); guest is the default with cache=always
  [no_]allow_mmap      shared mappings where content is not cached (default)
  allow_direct_io      open files with O_DIRECT where programs do
  no_readdirplus       listings of names alone
  noxattr              no extended attributes
  xattrmap=RULES       other names for extended attributes, by virtiofsd's rules
                       (with no comma in them)
  posixacl             keep and obey POSIX ACLs
  security_label       label what is made (SELinux) in the moment it is made
  poll=HOW             how to look for requests before sleeping: auto (default: up to
                       200 µs where that pays off), off, or a duration such as 30us
  fsname=NAME          what the mount table shows as the source
  [no]suid, [no]dev, [no]exec, [no]atime, [no]diratime, [no]relatime,
  [no]strictatime, [no]lazytime, [no]symfollow, [a]sync, dirsync, silent, loud
                       as for mount(8); nosuid and nodev are the default
  [fs|def|root]context=LABEL
                       for the kernel's security modules
  defaults, [no]auto, nofail, _netdev, user, users, owner, group, x-…, comment=…
                       accepted; they are for mount(8) and systemd

Mount options for servers:
  aname=NAME           which export, as #NAME behind the address
  access=WHO           as whom requests are sent: user or client (default), each by
                       the number of who asks; any, all as one
  dfltuid=UID          that one (default: whoever mounts)
  uname=NAME           its name, for servers that go by names
  msize=BYTES          largest message (default 1052672; the server may want less)
  version=DIALECT      the best to offer: 9p2000.L.sluice (default), 9p2000.L,
                       9p2000.u or 9p2000
  zerocopy=FROM        receive payloads from so many bytes on without a copy:
                       auto (default), never, or a number of bytes
  orderly              the server takes messages in their order, which 9P does not ask
                       for: files are opened in one trip then, where that is two messages
  hard, soft           while the server is away, requests wait (default), unless who asks
                       is killed, or fail
  timeo=N              how long a reply may take, in tenths of a second (default 600);
                       with soft also how long the server may be away
  trans=tcp|unix|fd, port=N, rfdno=N, wfdno=N
                       as in v9fs's lines of fstab, where the source is a host, the
                       path of a socket, or nothing

Mount options for directories:
  preserve_noatime     fail where O_NOATIME is refused

Files:
  /dev/fuse       the kernel's side; whoever mounts must be allowed to open it
  /etc/fuse.conf  user_allow_other there lets ordinary users give allow_other and allow_root
  /etc/fstab      such as: tcp:host:564#code /mnt sluice _netdev,nofail 0 0

Examples:
    sluice mount tcp:localhost:5640#code /mnt -o cache=never
    mount -t sluice unix:/run/code.sock /mnt
    sluice mount --export ~/src /mnt -o ro,cache=metadata
    umount /mnt";

impl MountArgs {
    pub(super) fn check(&self) -> Result<(), String> {
        let options = self.options()?;
        options.policy.check()?;
        if let Some(metrics) = self.metrics() {
            metrics.check()?;
        }
        match options.remount {
            true => self.target().map(drop),
            false => self.places(&options).map(drop),
        }
    }

    pub(super) fn run(self) -> Result<(), Failure> {
        if self.fake {
            return Ok(());
        }
        let options = self.options().map_err(Failure::misuse)?;
        if options.remount {
            let target = self.target().map_err(Failure::misuse)?;
            return mount::remount(target, &options);
        }
        let (source, target) = self.places(&options).map_err(Failure::misuse)?;
        if !self.foreground && !self.is_daemon {
            let words = legacy::spelled_out(std::env::args_os()).map_err(Failure::misuse)?;
            return daemon::start(words, source.descriptor());
        }
        let config = MountConfig {
            source,
            target,
            options,
            metrics: self.metrics(),
        };
        mount::run(&config, self.is_daemon)
    }

    fn metrics(&self) -> Option<MetricsAddress> {
        Some(MetricsAddress {
            address: self.metrics.clone()?,
            allow_remote: self.allow_remote,
        })
    }

    fn options(&self) -> Result<MountOptions, String> {
        let mut options = MountOptions::default();
        for list in &self.options {
            match self.sloppy {
                true => options.add_sloppily(list)?,
                false => options.add(list)?,
            }
        }
        options.settle(rustix::process::geteuid().is_root())?;
        Ok(options)
    }

    /// Where there is a mount already; what it shows does not matter.
    fn target(&self) -> Result<&Path, String> {
        let target = self.places.last().map(Path::new);
        target.ok_or_else(|| "<MNT> is missing: write which mount".to_owned())
    }

    /// What is mounted, and where.
    fn places(&self, options: &MountOptions) -> Result<(Source, PathBuf), String> {
        let (source, target) = match (&self.places[..], &self.export) {
            ([target], Some(dir)) => (Source::directory(dir, options)?, target),
            ([source, target], None) => (Source::parse(source, options)?, target),
            ([], _) => return Err("<MNT> is missing: write where to mount it".to_owned()),
            ([_], None) => return Err("<MNT> is missing: write SRC and MNT".to_owned()),
            _ => return Err("with '--export <DIR>' there is no SRC: write MNT alone".to_owned()),
        };
        Ok((source, target.into()))
    }
}
