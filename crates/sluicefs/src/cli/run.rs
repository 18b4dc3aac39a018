//! `sluice run`.

use super::share_args::cache_mode;
use crate::sandbox::{
    self, Guest, GuestRoot, GuestShare, MachineChoice, MachineKind, ShareSource, Virtio9pServer,
};
use crate::share::SharePolicy;
use crate::timeout::{Timeout, time_limit};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use sluice_proto::fuse::serve::CacheMode;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

/// Run a command in a throw-away Linux guest.
///
/// Boots a guest with directories of this host mounted over virtio-fs or 9P, runs
/// the command there as root, and exits with the command's status. Without a
/// command: a shell. On a terminal the guest has a terminal too; otherwise
/// standard input, output and errors are passed through byte by byte. Nothing
/// of the guest outlives the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct RunArgs {
    /// Mount a host directory in the guest, at the same path unless another
    /// is given; may be repeated. Names with a colon in them need :ro or :rw
    /// behind them
    #[arg(long = "share", value_name = "DIR[:MOUNTPOINT][:ro|:rw]", value_parser = OsStringValueParser::new().try_map(|text| parse_share(&text)))]
    shares: Vec<ShareArg>,

    /// Take a host directory as the guest's root; changes stay in the guest's
    /// memory unless :rw lets them through, mount points of shares too
    /// [default: a root with busybox alone]
    #[arg(long, value_name = "DIR[:ro|:rw]", value_parser = OsStringValueParser::new().try_map(|text| parse_root(&text)))]
    root: Option<RootArg>,

    /// Start the command in this directory of the guest [default: where the
    /// first share is, or /]
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(|text| guest_path(&text)))]
    workdir: Option<PathBuf>,

    /// How long the guest trusts what it was told about files
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = cache_mode())]
    cache: CacheMode,

    /// What the guest speaks to reach its shares
    #[arg(long, value_name = "PROTOCOL", value_enum, default_value_t)]
    via: Via,

    /// What the guest runs on
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    machine: MachineKind,

    /// A user-mode Linux program, or a bzImage for QEMU [default: linux.uml
    /// from $PATH, or this host's own kernel]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,

    /// Where the kernel's modules are: DIR, DIR/RELEASE or DIR/lib/modules/RELEASE
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,

    /// Further words for the kernel's command line
    #[arg(long = "append", value_name = "WORDS")]
    kernel_arguments: Vec<String>,

    /// The guest's memory, in MiB or with M or G behind it
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_memory)]
    memory: u32,

    /// How long the guest may take to boot
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2m",
        allow_negative_numbers = true,
        value_parser = time_limit
    )]
    boot_timeout: Timeout,

    /// Keep what the guest's kernel says in this file
    #[arg(long, value_name = "FILE")]
    console_log: Option<PathBuf>,

    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Examples:
    sluice run --share . -- ls -l
    sluice run --root / --share . -- make test
    echo 'uname -a' | sluice run

Exit status:
  that of the command, or
  2      the command line makes no sense
  125    no guest could be started, or it failed, and with it the command
  126    the guest has the command, and cannot execute it
  127    the guest has no such command
  128+N  signal N ended the command, or this program and with it the guest

Where a guest comes from:
  User-mode Linux (Debian's package user-mode-linux) is looked up as linux.uml or
  linux in $PATH; QEMU as qemu-system-x86_64, with this host's kernel from /boot
  and its modules. Either also needs busybox-static.

Environment:
  PATH              where user-mode Linux, QEMU and busybox are looked for
  SLUICE_LAB_CACHE  a directory that lab/prepare filled, which comes before all these
  TMPDIR            where the guest's sockets and first root are made";

impl RunArgs {
    /// What the definitions alone cannot say about a command line.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut seen: Vec<&Path> = Vec::new();
        for share in &self.shares {
            if seen.contains(&share.at.as_path()) {
                return Err(format!("two shares at '{}'", share.at.display()));
            }
            seen.push(&share.at);
        }
        Ok(())
    }

    /// Boots, runs and returns what to exit with.
    pub(super) fn run(self) -> ExitCode {
        sandbox::run(self.guest())
    }

    fn guest(self) -> Guest {
        let source = |dir| self.via.source(dir, self.cache);
        let shares = self.shares.into_iter().map(|share| GuestShare {
            source: source(share.dir),
            at: share.at,
            read_only: share.read_only,
        });
        let command = if self.command.is_empty() {
            shell(sandbox::is_interactive())
        } else {
            self.command
        };
        let mut guest = Guest::new(command);
        guest.shares = shares.collect();
        guest.root = self.root.map(|root| GuestRoot {
            source: source(root.dir),
            writable: root.writable,
        });
        guest.machine = MachineChoice {
            kind: self.machine,
            kernel: self.kernel,
            modules: self.modules,
            lab_cache: None,
        };
        guest.memory_mib = self.memory;
        guest.workdir = self.workdir;
        guest.kernel_arguments = self.kernel_arguments;
        guest.boot_timeout = self.boot_timeout.as_duration();
        guest.console_log = self.console_log;
        guest
    }
}

/// What a guest speaks to reach its shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Via {
    /// FUSE, by the guest's virtio-fs driver
    #[default]
    Virtiofs,
    /// 9P, by the guest's v9fs on virtio; needs QEMU 11.1 or later. --cache=always is
    /// v9fs' cache=loose there, all others are cache=none
    #[value(name = "9p")]
    P9,
}

impl Via {
    fn source(self, dir: PathBuf, cache: CacheMode) -> ShareSource {
        let policy = SharePolicy {
            cache,
            ..SharePolicy::default()
        };
        match self {
            Via::Virtiofs => ShareSource::Directory { dir, policy },
            Via::P9 => ShareSource::Virtio9p {
                server: Virtio9pServer::Directory { dir, policy },
                options: match cache {
                    CacheMode::Always => "cache=loose".to_owned(),
                    // Nothing between notices what the host changes.
                    CacheMode::Never | CacheMode::Metadata | CacheMode::Auto => {
                        "cache=none".to_owned()
                    }
                },
            },
        }
    }
}

/// The best shell that the guest's root has.
fn shell(is_interactive: bool) -> Vec<OsString> {
    let option = if is_interactive { " -i" } else { "" };
    let find = format!("exec \"$(command -v bash || echo sh)\"{option}");
    ["sh".into(), "-c".into(), find.into()].into()
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ShareArg {
    dir: PathBuf,
    at: PathBuf,
    read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RootArg {
    dir: PathBuf,
    writable: bool,
}

/// The mount point begins at the last `:/`.
fn parse_share(text: &OsStr) -> Result<ShareArg, String> {
    let (bytes, writable) = split_access(text);
    match behind_colon(bytes) {
        Some(word) if writable.is_none() && !word.starts_with(b"/") => {
            let nor = ", nor a path in the guest, which begins with a slash";
            return Err(no_access(word, nor));
        }
        _ => {}
    }
    let colon = bytes.windows(2).rposition(|pair| pair == b":/");
    let (dir, at) = match colon {
        Some(colon) => (path(&bytes[..colon]), path(&bytes[colon + 1..])),
        None => {
            let dir = path(bytes);
            let at = std::fs::canonicalize(&dir).or_else(|_| std::path::absolute(&dir));
            (dir, at.map_err(|_| "give a directory".to_owned())?)
        }
    };
    if dir.as_os_str().is_empty() {
        return Err("give a directory".into());
    }
    Ok(ShareArg {
        dir,
        at: checked_guest_path(&at)?,
        read_only: writable == Some(false),
    })
}

fn parse_root(text: &OsStr) -> Result<RootArg, String> {
    let (dir, writable) = split_access(text);
    match behind_colon(dir) {
        Some(word) if writable.is_none() => return Err(no_access(word, "")),
        _ => {}
    }
    if dir.is_empty() {
        return Err("give a directory".into());
    }
    Ok(RootArg {
        dir: path(dir),
        writable: writable == Some(true),
    })
}

/// What stands before `:ro` or `:rw`, and whether it may be written to, if one of
/// them says so.
fn split_access(text: &OsStr) -> (&[u8], Option<bool>) {
    let bytes = text.as_bytes();
    let without = |suffix: &[u8]| bytes.strip_suffix(suffix);
    match (without(b":ro"), without(b":rw")) {
        (Some(rest), _) => (rest, Some(false)),
        (_, Some(rest)) => (rest, Some(true)),
        _ => (bytes, None),
    }
}

fn behind_colon(bytes: &[u8]) -> Option<&[u8]> {
    let colon = bytes.iter().rposition(|byte| *byte == b':')?;
    bytes.get(colon + 1..)
}

/// Taken for a part of the name, a mistyped `ro` would let the guest write.
fn no_access(word: &[u8], nor: &str) -> String {
    let word = String::from_utf8_lossy(word);
    format!(
        "'{word}' is neither ro nor rw{nor}; a name with a colon in it needs :ro or :rw behind it"
    )
}

/// A place in the guest.
fn checked_guest_path(at: &Path) -> Result<PathBuf, String> {
    if !at.is_absolute() {
        return Err(format!(
            "'{}' must begin with a slash: it is a path in the guest",
            at.display()
        ));
    }
    if at.as_os_str().as_bytes().iter().any(u8::is_ascii_control) {
        return Err("a path in the guest cannot hold control characters".into());
    }
    if at
        .components()
        .any(|component| component == Component::ParentDir)
    {
        return Err(format!("'{}' must do without '..'", at.display()));
    }
    let clean: PathBuf = at.components().collect();
    if clean.parent().is_none() {
        return Err("the guest's root is given with --root".into());
    }
    Ok(clean)
}

fn guest_path(text: &OsStr) -> Result<PathBuf, String> {
    match Path::new(text) {
        root if root == Path::new("/") => Ok(root.to_owned()),
        other => checked_guest_path(other),
    }
}

/// Whole MiB.
fn parse_memory(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.strip_suffix(['G', 'g']) {
        Some(number) => (number, 1024),
        None => (text.strip_suffix(['M', 'm']).unwrap_or(text), 1),
    };
    let mib: Option<u32> = number
        .parse()
        .ok()
        .and_then(|number: u32| number.checked_mul(unit));
    match mib {
        Some(mib) if mib >= LEAST_MEMORY_MIB => Ok(mib),
        Some(_) => Err(format!(
            "Linux does not boot in less than {LEAST_MEMORY_MIB}M"
        )),
        None => Err("write a size such as 512M or 2G".into()),
    }
}

const LEAST_MEMORY_MIB: u32 = 64;

fn path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str) -> Result<(PathBuf, PathBuf, bool), String> {
        parse_share(OsStr::new(text)).map(|share| (share.dir, share.at, share.read_only))
    }

    fn is(dir: &str, at: &str, read_only: bool) -> Result<(PathBuf, PathBuf, bool), String> {
        Ok((dir.into(), at.into(), read_only))
    }

    #[test]
    fn shares_name_a_directory_and_a_place() {
        assert_eq!(share("/a:/b"), is("/a", "/b", false));
        assert_eq!(share("a:/b/./c/:ro"), is("a", "/b/c", true));
        assert_eq!(share("/a:/b:rw"), is("/a", "/b", false));
        assert_eq!(share("/a:b:/c"), is("/a:b", "/c", false));
        assert_eq!(share("/a:b:/c:d:rw"), is("/a:b", "/c:d", false));
        assert_eq!(share("/a:b:ro"), is("/a:b", "/a:b", true));
        assert_eq!(share("/none:ro"), is("/none", "/none", true));
        assert_eq!(
            share("/proc/self/../1"),
            is("/proc/self/../1", "/proc/1", false)
        );
        assert_eq!(
            share("/tmp/.."),
            Err("the guest's root is given with --root".into())
        );
        for text in ["", ":ro", ":/b", "/a:/", "/a:/../b", "/a:/b\n", "/a:/b\x7f"] {
            assert!(share(text).is_err(), "{text:?}");
        }
        for text in ["/a:/b:r0", "/a:/b:RO", "/a:/b:", "/a:b", "/a:", "/a:b/c"] {
            assert!(share(text).is_err_and(|why| why.contains(":rw")), "{text}");
        }
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(share(".").unwrap().1, here);
    }

    #[test]
    fn roots_are_kept_as_they_are_unless_told() {
        let root = |text: &str| parse_root(OsStr::new(text)).map(|root| (root.dir, root.writable));
        assert_eq!(root("/"), Ok(("/".into(), false)));
        assert_eq!(root("/a:b:ro"), Ok(("/a:b".into(), false)));
        assert_eq!(root("/a:ro"), Ok(("/a".into(), false)));
        assert_eq!(root("/a:rw"), Ok(("/a".into(), true)));
        assert!(root("").is_err());
        assert!(root(":rw").is_err());
        for text in ["/:wr", "/a:/b", "/a:"] {
            assert!(root(text).is_err_and(|why| why.contains(":ro")), "{text}");
        }
    }

    #[test]
    fn memory_is_in_mib() {
        for (text, mib) in [("64", 64), ("512M", 512), ("2G", 2048), ("1g", 1024)] {
            assert_eq!(parse_memory(text), Ok(mib), "{text}");
        }
        for text in ["", "M", "63", "-1", "1T", "4194304G", "1.5G", "1 G"] {
            assert!(parse_memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn places_in_the_guest_are_absolute() {
        assert_eq!(guest_path(OsStr::new("/")), Ok("/".into()));
        assert_eq!(guest_path(OsStr::new("/a//b/")), Ok("/a/b".into()));
        assert!(guest_path(OsStr::new("a")).is_err());
        assert!(guest_path(OsStr::new("/a/..")).is_err());
    }
}
