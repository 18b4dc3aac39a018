//! `sluice virtiofsd`, and what this program is when it is called `virtiofsd`:
//! the options, files, messages and exit statuses of virtiofsd 1.14, which
//! libvirt, Kata, Incus, virtme-ng and others count on.

use super::isolation_args::IsolationArgs;
use super::share_args::{cache_mode, lock_place, offer};
use crate::failure::Failure;
use crate::isolation::IsolationOptions;
use crate::layers::xattr_map::XattrMap;
use crate::logging::{self, Destination};
use crate::serve::{
    self, DeviceKind, Ended, Endpoint, Lifetime, P9Options, ServeConfig, ServedDevice, ServedShare,
    Tag,
};
use crate::share::{LockPlace, SharePolicy};
use crate::translate::IdTranslation;
use clap::Args;
use clap::builder::PossibleValuesParser;
use rustix::fs::Gid;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluice_crew::Polling;
use sluice_proto::fuse::serve::{CacheMode, Offer};
use sluice_vfs::Errno;
use std::path::PathBuf;
use std::process::ExitCode;

/// Serve one directory to one virtual machine, as virtiofsd does.
///
/// Takes the options of virtiofsd 1.14; those that this program has nothing for
/// are refused. Also what it does when it is called by the name virtiofsd.
#[derive(Debug, Args)]
#[command(version, args_override_self = true, override_usage = USAGE, after_long_help = MORE)]
pub struct VirtiofsdArgs {
    /// The directory to share
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "print_capabilities"
    )]
    shared_dir: Option<PathBuf>,

    /// The unix socket to listen on; its file goes in the end, SOCKET.pid stays
    #[arg(long, alias = "socket", value_name = "SOCKET",
        required_unless_present_any = ["fd", "print_capabilities"])]
    socket_path: Option<PathBuf>,

    /// Let this group connect too, by name or number
    #[arg(long, value_name = "GROUP", value_parser = group, conflicts_with = "fd")]
    socket_group: Option<Gid>,

    /// A unix socket that listens already
    #[arg(long, value_name = "N", conflicts_with = "socket_path",
        value_parser = clap::value_parser!(i32).range(0..))]
    fd: Option<i32>,

    /// The name under which the guest mounts it, where the monitor lets the
    /// device say
    #[arg(long, default_value = "virtiofs")]
    tag: Tag,

    /// How long the guest trusts what it was told
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = cache_mode())]
    cache: CacheMode,

    /// Let the guest collect writes; only with --cache=always
    #[arg(long, overrides_with = "no_writeback")]
    writeback: bool,

    /// Let the guest map files shared where content is not cached
    #[arg(long)]
    allow_mmap: bool,

    /// Open files with O_DIRECT where the guest does
    #[arg(long, overrides_with = "no_allow_direct_io")]
    allow_direct_io: bool,

    /// Refuse every change
    #[arg(long)]
    readonly: bool,

    /// Pass extended attributes through
    #[arg(long, overrides_with = "no_xattr")]
    xattr: bool,

    /// Give extended attributes other names in the guest, by virtiofsd's rules
    #[arg(long, value_name = "RULES")]
    xattrmap: Option<XattrMap>,

    /// Keep and obey POSIX ACLs [default: never; by itself: always]
    #[arg(long, value_name = "WHEN", value_parser = offer(), default_value = "never",
        default_missing_value = "always", num_args = 0..=1, require_equals = true,
        hide_default_value = true)]
    posix_acl: Offer,

    /// Label what the guest makes (SELinux) in the moment it is made [default:
    /// never; by itself: always]
    #[arg(long, value_name = "WHEN", value_parser = offer(), default_value = "never",
        default_missing_value = "always", num_args = 0..=1, require_equals = true,
        hide_default_value = true)]
    security_label: Offer,

    /// Tell the guest which directories are mount points (default)
    #[arg(long, overrides_with = "no_announce_submounts")]
    announce_submounts: bool,

    /// Do not tell
    #[arg(long, overrides_with = "announce_submounts")]
    no_announce_submounts: bool,

    /// List names alone, without attributes
    #[arg(long, overrides_with = "readdirplus")]
    no_readdirplus: bool,

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

    /// Fail where O_NOATIME is refused, instead of opening without it
    #[arg(long)]
    preserve_noatime: bool,

    /// Where POSIX and flock locks are kept [default: guest with
    /// --cache=always, else host]; virtiofsd keeps them in the guest
    #[arg(long, value_name = "PLACE", value_parser = lock_place())]
    locks: Option<LockPlace>,

    /// The limit of open files; 0 leaves it [default: as high as allowed]
    #[arg(long, value_name = "N")]
    rlimit_nofile: Option<u64>,

    /// How much to say; RUST_LOG comes first
    #[arg(long, value_name = "LEVEL", default_value = "info",
        ignore_case = true, value_parser = PossibleValuesParser::new(LEVELS))]
    log_level: String,

    /// Short for --log-level=debug
    #[arg(short = 'd')]
    debug: bool,

    /// Say it to the system's log, if there is one
    #[arg(long)]
    syslog: bool,

    /// Print what this program can do, for a vhost-user JSON file, and exit
    #[arg(long)]
    print_capabilities: bool,

    /// Whether to keep the right to open files by handle, so that the guest keeps
    /// those that the host moves; `mandatory` refuses a share that lacks it.
    /// Descriptors are bounded anyway
    #[arg(long, value_name = "WHEN", default_value = "prefer",
        value_parser = ["never", "prefer", "fallback", "mandatory"])]
    inode_file_handles: String,

    #[command(flatten)]
    isolation: IsolationArgs,

    #[command(flatten)]
    accepted: Accepted,
}

/// What virtiofsd needs to be told and this program does not.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted, without a difference here")]
struct Accepted {
    /// Each queue has a thread of its own, and others stand by
    #[arg(long, value_name = "N")]
    thread_pool_size: Option<u32>,

    /// Set-id bits are always cleared as Linux does it
    #[arg(long, overrides_with = "no_killpriv_v2")]
    killpriv_v2: bool,

    /// The same
    #[arg(long, overrides_with = "killpriv_v2")]
    no_killpriv_v2: bool,

    /// About migrations, which monitors are not offered
    #[arg(long, value_name = "MODE", value_parser = ["find-paths", "file-handles"])]
    migration_mode: Option<String>,

    /// The same
    #[arg(long, value_name = "ACTION", value_parser = ["abort", "guest-error"])]
    migration_on_error: Option<String>,

    /// The same
    #[arg(long)]
    migration_verify_handles: bool,

    /// The same
    #[arg(long)]
    migration_confirm_paths: bool,

    // The opposites of switches, which -o has.
    #[arg(long, hide = true, overrides_with = "xattr")]
    no_xattr: bool,
    #[arg(long, hide = true, overrides_with = "writeback")]
    no_writeback: bool,
    #[arg(long, hide = true, overrides_with = "allow_direct_io")]
    no_allow_direct_io: bool,
    #[arg(long, hide = true, overrides_with = "no_readdirplus")]
    readdirplus: bool,

    /// Options in the form of QEMU's old virtiofsd, separated by commas:
    /// source=DIR, cache=, log_level=, sandbox=, [no_]xattr, [no_]posix_acl,
    /// [no_]writeback, [no_]readdirplus, [no_]flock, [no_]posix_lock, …
    #[arg(short = 'o', value_name = "OPT,…")]
    legacy: Vec<String>,

    /// It never leaves the foreground
    #[arg(short = 'f')]
    foreground: bool,
}

const USAGE: &str = "\
virtiofsd --shared-dir DIR --socket-path SOCKET [OPTIONS]
       virtiofsd --shared-dir DIR --fd N [OPTIONS]";

const MORE: &str = "\
Exit status:
  0  the client that was served has disconnected
  1  a signal ended it, or it could not serve
  2  the command line makes no sense

One client:
  When it has disconnected, this ends. 'sluice serve' goes on with the next one,
  and has more options.

Files:
  SOCKET.pid  the number of this process, which holds a lock on it; it stays

Examples:
    virtiofsd --shared-dir /srv/code --socket-path /run/code.sock --cache auto";

/// As virtiofsd names them.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// What `--print-capabilities` announces (QEMU's docs/interop/vhost-user.json).
const FEATURES: [&str; 3] = [
    "posix-acl-negotiation-mode",
    "security-label-negotiation-mode",
    "separate-options",
];

impl VirtiofsdArgs {
    /// What the definitions alone cannot say about a command line.
    pub(super) fn check(&self) -> Result<(), String> {
        let policy = self.policy();
        if policy.require_handles && self.isolation().capabilities.give_up_handles() {
            return Err("mandatory file handles need the capability dac_read_search".into());
        }
        self.isolation().check(1)?;
        policy.check()
    }

    /// How much to say, and where.
    pub(super) fn start_logging(&self) {
        let level = if self.debug { "debug" } else { &self.log_level };
        let destination = if self.syslog {
            Destination::Syslog
        } else {
            Destination::VirtiofsdStderr
        };
        logging::init(level, destination);
    }

    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        if self.print_capabilities {
            return super::docs::print(capabilities().as_bytes()).map(|()| ExitCode::SUCCESS);
        }
        limit_files(self.rlimit_nofile)?;
        let config = ServeConfig {
            shares: vec![self.share()?],
            lifetime: Lifetime::OneConnection,
            isolation: self.isolation(),
        };
        match serve::run(&config)? {
            Ended::ClientGone => Ok(ExitCode::SUCCESS),
            Ended::Asked => Ok(ExitCode::FAILURE),
        }
    }

    /// virtiofsd, too, keeps what opens files by handle.
    fn isolation(&self) -> IsolationOptions {
        let mut options = self.isolation.options();
        if self.inode_file_handles != "never" {
            options.capabilities.keep_handles();
        }
        options
    }

    fn share(&self) -> Result<ServedShare, Failure> {
        // The definitions require both.
        let lacks = |what: &str| Failure::misuse(format!("{what} is missing"));
        let dir = self.shared_dir.clone();
        Ok(ServedShare {
            dir: dir.ok_or_else(|| lacks("--shared-dir"))?,
            devices: vec![ServedDevice {
                kind: DeviceKind::Fs,
                endpoint: self.endpoint().ok_or_else(|| lacks("--socket-path"))?,
            }],
            p9: None,
            p9_options: P9Options::default(),
            tag: self.tag.clone(),
            policy: self.policy(),
            poll: Polling::default(),
        })
    }

    fn endpoint(&self) -> Option<Endpoint> {
        match (&self.socket_path, self.fd) {
            (Some(path), _) => Some(Endpoint::Private {
                path: path.clone(),
                group: self.socket_group,
            }),
            (None, number) => number.map(Endpoint::Inherited),
        }
    }

    fn policy(&self) -> SharePolicy {
        let offers = [self.posix_acl, self.security_label];
        let needs_xattr = offers != [Offer::Never; 2] || self.xattrmap.is_some();
        SharePolicy {
            cache: self.cache,
            negative_timeout: None,
            writeback: self.writeback,
            read_only: self.readonly,
            locks: self.locks,
            allow_mmap: self.allow_mmap,
            allow_direct_io: self.allow_direct_io,
            preserve_noatime: self.preserve_noatime,
            require_handles: self.inode_file_handles == "mandatory",
            announce_submounts: !self.no_announce_submounts,
            readdirplus: !self.no_readdirplus,
            xattr: self.xattr || needs_xattr,
            xattr_map: self.xattrmap.clone(),
            posix_acl: self.posix_acl,
            security_label: self.security_label,
            translate_uid: self.translate_uid.clone(),
            translate_gid: self.translate_gid.clone(),
        }
    }
}

/// For `/usr/share/qemu/vhost-user/`.
fn capabilities() -> String {
    let features = FEATURES.map(|feature| format!("    \"{feature}\""));
    let features = features.join(",\n");
    format!("{{\n  \"type\": \"fs\",\n  \"features\": [\n{features}\n  ]\n}}\n")
}

/// Serving raises the soft limit to the hard one, so the hard one is what says.
fn limit_files(limit: Option<u64>) -> Result<(), Failure> {
    let Some(limit) = limit else { return Ok(()) };
    let before = getrlimit(Resource::Nofile);
    let limit = match limit {
        0 => before.current,
        limit => Some(limit),
    };
    let now = Rlimit {
        current: limit,
        maximum: limit,
    };
    setrlimit(Resource::Nofile, now).map_err(|_| {
        let highest = before.maximum.unwrap_or(u64::MAX);
        Failure::new(format!(
            "cannot raise the limit of open files above {highest}"
        ))
        .advise("give a lower --rlimit-nofile")
    })
}

fn group(name: &str) -> Result<Gid, String> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    sluice_sys::group_id(name).map_err(|error| match error {
        Errno::ENOENT => "there is no such group".to_owned(),
        error => error.to_string(),
    })
}

#[cfg(test)]
mod tests;
