//! `sluice serve`.

use super::isolation_args::IsolationArgs;
use super::p9_args::{P9Args, PLACES};
use super::share_args::ShareArgs;
use super::usage::share_explained;
use crate::config::ConfigFile;
use crate::failure::Failure;
use crate::isolation::IsolationOptions;
use crate::logging;
use crate::serve::{
    self, DeviceKind, Endpoint, Lifetime, ServeConfig, ServedDevice, ServedShare, Tag,
};
use clap::{ArgGroup, Args, Parser};
use sluice_crew::Polling;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Serve directories to virtual machines, containers and other clients.
///
/// Runs in the foreground until SIGTERM, SIGINT or SIGHUP ends it (exit
/// status 0). Clients come and go meanwhile: monitors one at a time on each
/// socket, 9P clients as many as want to. Once all sockets listen, a line for
/// each on stderr says so, and systemd is notified.
#[derive(Debug, Args)]
#[command(override_usage = USAGE, after_long_help = MORE)]
pub struct ServeArgs {
    #[command(flatten)]
    first: ShareEntry,

    /// Serve another directory too, on sockets and with options of its own: what
    /// follows is a share like the first one. May be repeated
    #[arg(
        long = "and",
        help_heading = "Several shares",
        value_name = "DIR --virtiofs|--virtio-9p|--9p WHERE [OPTIONS]",
        num_args = 1..,
        allow_hyphen_values = true,
        requires = "dir"
    )]
    others: Vec<OsString>,

    /// Take the shares from this file instead (see "Configuration file" in
    /// --help)
    #[arg(
        long,
        help_heading = "Several shares",
        value_name = "FILE",
        exclusive = true
    )]
    config: Option<PathBuf>,

    #[command(flatten)]
    isolation: IsolationArgs,
}

const USAGE: &str = "\
sluice serve DIR [--virtiofs SOCKET] [--virtio-9p SOCKET] [--9p ADDRESS]… [OPTIONS] [--and DIR …]…
       sluice serve --config FILE";

const MORE: &str = "\
In a Linux guest:
    mount -t virtiofs TAG /mnt
With QEMU (memory must be shared):
    -object memory-backend-memfd,id=mem,size=1G,share=on -machine memory-backend=mem
    -chardev socket,id=fs,path=SOCKET -device vhost-user-fs-pci,chardev=fs,tag=TAG

9P on virtio instead, with QEMU 11.1 or later (config_size is 2 and the length of TAG):
    -chardev socket,id=p9,path=SOCKET
    -device vhost-user-test-device-pci,chardev=p9,virtio-id=9,num_vqs=1,vq_size=256,config_size=8
In the guest, where mount options decide what is cached:
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 TAG /mnt

9P on sockets, from a Linux guest, container or host:
    mount -t 9p -o trans=tcp,port=PORT,version=9p2000.L,msize=1048576 HOST /mnt
    mount -t 9p -o trans=unix,version=9p2000.L,msize=1048576 PATH /mnt
What 9P clients remember and where they keep locks is theirs to say, by mount options:
--cache, --negative-timeout, --locks, --allow-mmap, --allow-direct-io,
--no-announce-submounts, --no-readdirplus and --security-label are about virtio-fs.

Several shares in one process:
    sluice serve /srv/code --virtiofs /run/code.sock --tag code \\
           --and /srv/data --virtiofs /run/data.sock --tag data --read-only
Each share has its own sockets, options and limits: what a guest does to one is
not felt on another. Shares may have a 9P address in common: clients then attach to
them by name (--aname), or by the path of the directory.

Who a 9P client is:
  Nothing in 9P proves it. On a unix socket the kernel tells: root and the user that
  serves are believed whoever they say they are, and others count as themselves.
  Over TCP and vsock everybody is believed who can connect, so have users squashed
  there (--squash=all:UID:GID) unless all of them are trusted. On virtio the guest
  says who its users are, and its kernel checks what they may do: --access=user has
  that checked here, by the rights and groups that these numbers have on this machine,
  and so has --squash. A server that does not run as root does everything as its own
  user.

Configuration file:
  TOML, with a table [[share]] for each share, and one [isolation] for the options
  about that, which are the whole process's. Keys are the long options above
  without dashes in front, and \"dir\". A switch is true or false. A key that is
  not known is an error; errors name file, line and column, and the exit status
  is then 2.
    [[share]]
    dir = \"/srv/code\"
    virtiofs = \"/run/code.sock\"
    tag = \"code\"
    [[share]]
    dir = \"/srv/data\"
    virtiofs = \"/run/data.sock\"
    cache = \"always\"
    read-only = true
    [isolation]
    seccomp = \"log\"

Isolation:
  Before it serves, the process gives up, for good, what serving does not need. It
  may only open, make, rename and remove what lies beneath its shares (Landlock);
  it makes no other system calls than serving does (seccomp); of root's
  capabilities it keeps CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID, MKNOD,
  SETFCAP and LINUX_IMMUTABLE; and in a sandbox it sees nothing else in the first
  place. With --sandbox=namespace a second process, outside, waits for it and cleans
  up. An ordinary user's has a user name space with that user alone in it: files of
  others look like nobody's.
  --modcaps=+sys_admin lets guests set trusted.* attributes. What is added this way is
  kept, not gained: an ordinary user has none.
  --modcaps=+dac_read_search finds files by handle, so that guests keep those that
  the host moves; but who takes the process over finds all others of the same file
  system, too.";

/// A share, as options say it.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new(PLACES).args(["addresses", "virtio_9p"]).multiple(true))]
pub(crate) struct ShareEntry {
    /// The directory to serve
    #[arg(required = true)] // not beside --config, which is exclusive
    dir: Option<PathBuf>,

    /// Serve virtio-fs to a virtual machine monitor that connects to this
    /// unix socket; a stale socket file is replaced
    #[arg(long, value_name = "SOCKET")]
    virtiofs: Option<PathBuf>,

    /// Serve 9P on virtio to a virtual machine monitor that connects to this
    /// unix socket, as well or instead
    #[arg(long, value_name = "SOCKET")]
    virtio_9p: Option<PathBuf>,

    /// The name under which the guest mounts it, 1 to 36 bytes
    #[arg(long, default_value = "sluice")]
    tag: Tag,

    /// How to look for requests before sleeping: auto (up to 200 µs where that
    /// pays off), off, or a duration such as 30us
    #[arg(long, value_name = "auto|off|DURATION", default_value = "auto")]
    poll: Polling,

    #[command(flatten)]
    p9: P9Args,

    #[command(flatten)]
    policy: ShareArgs,
}

/// A share by itself.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct ShareCommand {
    #[command(flatten)]
    share: ShareEntry,
}

impl ServeArgs {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.config {
            Some(_) => Ok(()), // checked when it is read
            None => self.isolation.options().check(self.flagged()?.len()),
        }
    }

    pub(super) fn run(self) -> Result<(), Failure> {
        let (shares, isolation) = match &self.config {
            Some(path) => configured(path)?,
            None => {
                let shares = self.flagged().map_err(Failure::misuse)?;
                (shares, self.isolation.options())
            }
        };
        let lacking = isolation.capabilities.lacking();
        if !lacking.is_empty() {
            let names = lacking.join(", ");
            logging::say(format!(
                "--modcaps: this process has no {names} to keep (start it as root)"
            ));
        }
        let config = ServeConfig {
            shares,
            lifetime: Lifetime::UntilAsked,
            isolation,
        };
        serve::run(&config).map(drop)
    }

    /// The shares that the command line names.
    fn flagged(&self) -> Result<Vec<ServedShare>, String> {
        let mut shares = vec![self.first.share()?];
        if !self.others.is_empty() {
            for words in self.others.split(|word| word == "--and") {
                shares.push(ShareEntry::parse(words)?.share()?);
            }
        }
        for share in &shares {
            share.policy.check()?;
        }
        serve::check_endpoints(&shares)?;
        Ok(shares)
    }
}

/// The shares that a file names, and how the process is to be isolated.
fn configured(path: &Path) -> Result<(Vec<ServedShare>, IsolationOptions), Failure> {
    let file = ConfigFile::read(path)?;
    let mut shares = Vec::new();
    for section in file.sections("share", "isolation")? {
        let refuse = |why: String| file.misuse(&section, &why);
        let share = ShareEntry::share(&section.options).map_err(refuse)?;
        share.policy.check().map_err(refuse)?;
        shares.push(share);
        serve::check_endpoints(&shares).map_err(refuse)?;
    }
    let section = file.table("isolation")?;
    let isolation = IsolationArgs::options(&section.options);
    isolation
        .check(shares.len())
        .map_err(|why| file.misuse(&section, &why))?;
    Ok((shares, isolation))
}

impl ShareEntry {
    /// Understands the words of one share.
    pub(crate) fn parse<W: Into<OsString> + Clone>(
        words: impl IntoIterator<Item = W>,
    ) -> Result<Self, String> {
        match ShareCommand::try_parse_from(words) {
            Ok(command) => Ok(command.share),
            Err(error) => Err(share_explained(&error)),
        }
    }

    /// What they ask for.
    ///
    /// # Errors
    /// The definitions let a share be incomplete only beside --config.
    pub(crate) fn share(&self) -> Result<ServedShare, String> {
        let (devices, p9) = (self.devices(), self.p9.share()?);
        let Some(dir) = &self.dir else {
            return Err("a share needs <DIR>".to_owned());
        };
        if devices.is_empty() && p9.is_none() {
            let dir = dir.display();
            return Err(format!(
                "'{dir}' is served nowhere: give --virtiofs <SOCKET>, --virtio-9p <SOCKET> or \
                --9p <ADDRESS>"
            ));
        }
        Ok(ServedShare {
            dir: dir.clone(),
            devices,
            p9,
            p9_options: self.p9.options(),
            tag: self.tag.clone(),
            policy: self.policy.policy(),
            poll: self.poll,
        })
    }

    fn devices(&self) -> Vec<ServedDevice> {
        let sockets = [
            (DeviceKind::Fs, &self.virtiofs),
            (DeviceKind::P9, &self.virtio_9p),
        ];
        let device = |(kind, socket): (DeviceKind, &Option<PathBuf>)| {
            Some(ServedDevice {
                kind,
                endpoint: Endpoint::Path(socket.clone()?),
            })
        };
        sockets.into_iter().filter_map(device).collect()
    }
}
