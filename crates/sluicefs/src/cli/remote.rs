//! `sluice ls`, `cat`, `put`, `stat`, `rm` and `mkdir`.

use super::p9_args::parse_msize;
use crate::remote::{self, Listing, Location, PutTo, Remotes, Removal};
use crate::timeout::{Timeout, time_limit};
use clap::builder::{OsStringValueParser, TypedValueParser, ValueParser};
use clap::{Args, ValueEnum};
use sluice_client::{ConnectOptions, Dialect, MSIZE};
use std::path::PathBuf;
use std::process::ExitCode;

const ADDRESS_HELP: &str = "\
Places:
  A place is ADDRESS[#ANAME]:PATH, where ADDRESS is one of
  unix:PATH        a unix socket (whose path has no colon in it)
  tcp:HOST:PORT    an IPv6 address stands in brackets
  vsock:CID:PORT   CID 2 is the host of a virtual machine
  fd:N             a connected socket that this process was started with
  and ANAME says which of the server's exports. PATH begins at the export's root;
  symlinks that begin with a slash begin there, too.

Examples:
    sluice ls -l unix:/run/code.sock:/src
    sluice cat tcp:localhost:5640#code:/README.md
    sluice put -r build tcp:localhost:5640:/srv";

/// How to reach a server.
#[derive(Debug, Args)]
struct ConnectArgs {
    /// Ask as this user, by number or name (default: whoever calls)
    #[arg(long, value_name = "USER", value_parser = parse_user)]
    user: Option<User>,

    /// Largest message, in bytes, or with K or M behind it; from 4K to 16M
    #[arg(long, value_name = "BYTES", default_value_t = MSIZE, value_parser = parse_msize)]
    msize: u32,

    /// The best dialect to offer; the server may speak a lesser one
    #[arg(
        long,
        value_enum,
        value_name = "NAME",
        default_value = "9P2000.L.sluice"
    )]
    dialect: DialectName,

    /// How long a reply may take: a duration such as 5s, or always
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1m",
        allow_negative_numbers = true,
        value_parser = time_limit
    )]
    timeout: Timeout,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum User {
    Number(u32),
    Name(String),
}

fn parse_user(text: &str) -> Result<User, String> {
    if text.is_empty() {
        return Err("write a user's number or name".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(User::Name(text.to_owned()));
    }
    // The last one means nobody at all.
    let number = text.parse().ok().filter(|uid| *uid != u32::MAX);
    let number = number.ok_or_else(|| format!("users have numbers up to {}", u32::MAX - 1))?;
    Ok(User::Number(number))
}

/// Dialects by their names.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DialectName {
    #[value(name = "9P2000.L.sluice")]
    Sluice,
    #[value(name = "9P2000.L")]
    Linux,
    #[value(name = "9P2000.u")]
    Unix,
    #[value(name = "9P2000")]
    Plan9,
}

impl ConnectArgs {
    fn remotes(&self) -> Remotes {
        let best = match self.dialect {
            DialectName::Sluice => Dialect::Sluice,
            DialectName::Linux => Dialect::Linux,
            DialectName::Unix => Dialect::Unix,
            DialectName::Plan9 => Dialect::Plan9,
        };
        let mut options = ConnectOptions {
            msize: self.msize,
            time_limit: match self.timeout {
                Timeout::For(limit) => Some(limit),
                Timeout::Always => None,
            },
            ..ConnectOptions::default()
        };
        options.offer_from(best);
        match &self.user {
            None => {}
            Some(User::Number(uid)) => options.uid = *uid,
            Some(User::Name(name)) => options.uname = name.as_bytes().to_vec(),
        }
        Remotes::new(options)
    }
}

fn place() -> ValueParser {
    ValueParser::new(OsStringValueParser::new().try_map(|word| Location::parse(&word)))
}

/// List directories on a 9P server.
///
/// Names come in order, in long directories 8192 at a time.
#[derive(Debug, Args)]
#[command(after_help = ADDRESS_HELP)]
pub(super) struct LsArgs {
    /// What to list
    #[arg(value_name = "PLACE", required = true, value_parser = place())]
    places: Vec<Location>,

    /// With permissions, links, owner, group, size and time of change
    #[arg(short)]
    long: bool,

    /// Names that begin with a dot, too
    #[arg(short)]
    all: bool,

    /// Directories themselves, not what is in them
    #[arg(short = 'd')]
    itself: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

impl LsArgs {
    pub(super) fn run(self) -> ExitCode {
        let how = Listing {
            long: self.long,
            all: self.all,
            itself: self.itself,
        };
        remote::list(&mut self.connect.remotes(), &self.places, how).status()
    }
}

/// Write files of a 9P server to stdout.
#[derive(Debug, Args)]
#[command(after_help = ADDRESS_HELP)]
pub(super) struct CatArgs {
    /// What to write
    #[arg(value_name = "PLACE", required = true, value_parser = place())]
    places: Vec<Location>,

    #[command(flatten)]
    connect: ConnectArgs,
}

impl CatArgs {
    pub(super) fn run(self) -> ExitCode {
        remote::cat(&mut self.connect.remotes(), &self.places).status()
    }
}

/// Copy files to a 9P server.
///
/// Symlinks in a directory are copied as such. What cannot be read, and what is neither
/// file, directory nor symlink, is said and left out, and the exit status is 1 then.
#[derive(Debug, Args)]
#[command(after_help = ADDRESS_HELP)]
pub(super) struct PutArgs {
    /// Local files; - is stdin
    #[arg(value_name = "FILE", required = true)]
    sources: Vec<PathBuf>,

    /// Where to: a directory that is there, or the name of the copy
    #[arg(value_name = "PLACE", required = true, value_parser = place())]
    place: Location,

    /// Directories too, with all that is in them
    #[arg(short, long)]
    recursive: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

impl PutArgs {
    pub(super) fn run(self) -> ExitCode {
        let to = PutTo {
            place: &self.place,
            recursive: self.recursive,
        };
        remote::put(&mut self.connect.remotes(), &self.sources, &to).status()
    }
}

/// Print what a 9P server knows of files.
#[derive(Debug, Args)]
#[command(after_help = ADDRESS_HELP)]
pub(super) struct StatArgs {
    /// The files; symlinks are not followed
    #[arg(value_name = "PLACE", required = true, value_parser = place())]
    places: Vec<Location>,

    #[command(flatten)]
    connect: ConnectArgs,
}

impl StatArgs {
    pub(super) fn run(self) -> ExitCode {
        remote::stat(&mut self.connect.remotes(), &self.places).status()
    }
}

/// Remove files on a 9P server.
#[derive(Debug, Args)]
#[command(after_help = ADDRESS_HELP)]
pub(super) struct RmArgs {
    /// What to remove
    #[arg(value_name = "PLACE", required = true, value_parser = place())]
    places: Vec<Location>,

    /// Directories too, with all that is in them
    #[arg(short, long)]
    recursive: bool,

    /// What is not there is no error
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

impl RmArgs {
    pub(super) fn run(self) -> ExitCode {
        let how = Removal {
            recursive: self.recursive,
            force: self.force,
        };
        remote::remove(&mut self.connect.remotes(), &self.places, how).status()
    }
}

/// Make directories on a 9P server.
#[derive(Debug, Args)]
#[command(after_help = ADDRESS_HELP)]
pub(super) struct MkdirArgs {
    /// What to make
    #[arg(value_name = "PLACE", required = true, value_parser = place())]
    places: Vec<Location>,

    /// Those above, too; one that is there is no error
    #[arg(short, long)]
    parents: bool,

    /// Permissions, in octal digits (default: 777 without the umask)
    #[arg(short, long, value_name = "MODE", value_parser = octal)]
    mode: Option<u32>,

    #[command(flatten)]
    connect: ConnectArgs,
}

impl MkdirArgs {
    pub(super) fn run(self) -> ExitCode {
        let mut remotes = self.connect.remotes();
        remote::make_dirs(&mut remotes, &self.places, self.parents, self.mode).status()
    }
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| *mode <= 0o7777 && !text.starts_with('+'))
        .ok_or_else(|| "write octal digits such as 755".to_owned())
}
