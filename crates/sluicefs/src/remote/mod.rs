//! What the commands for files on a 9P server do: `ls`, `cat`, `put`, `stat`,
//! `rm` and `mkdir`.
//!
//! Each takes places (`ADDRESS[#ANAME]:PATH`), does what it can with each of
//! them, and says one line for what it could not.

mod cat;
mod list;
mod location;
mod progress;
mod put;
mod remove;
mod same;
mod show;

pub use location::Location;

pub(crate) use cat::cat;
pub(crate) use list::{Listing, list};
pub(crate) use put::{PutTo, put};
pub(crate) use remove::{Removal, make_dirs, remove};
pub(crate) use show::stat;

use crate::failure::{Failure, system_words};
use crate::logging::say;
use sluice_client::{Client, ConnectOptions, Errno, Error, ExportAddress};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Connections that were made, for more than one place on a server.
pub(crate) struct Remotes {
    options: ConnectOptions,
    made: Vec<(String, Client)>,
}

impl Remotes {
    /// Connections that are made like this.
    pub(crate) fn new(options: ConnectOptions) -> Self {
        Remotes {
            options,
            made: Vec::new(),
        }
    }

    /// The export of a place.
    pub(crate) fn client(&mut self, place: &Location) -> Result<Client, Failure> {
        let name = place.export.to_string();
        if let Some((_, client)) = self.made.iter().find(|(known, _)| *known == name) {
            return Ok(client.clone());
        }
        let options = ConnectOptions {
            aname: place.export.aname.clone().into_bytes(),
            ..self.options.clone()
        };
        let connected = Client::connect(&place.export.address, &options);
        let client = connected.map_err(|error| cannot_attach(&place.export, &error, AS_ANOTHER))?;
        self.made.push((name, client.clone()));
        Ok(client)
    }
}

/// Connects and attaches once, to say better what is wrong than a mount could.
pub(crate) fn try_to_attach(place: &Location, options: &ConnectOptions) -> Result<(), Failure> {
    match Client::connect(&place.export.address, options) {
        Ok(client) => check_dir(&client, place),
        Err(error) => Err(cannot_mount(&place.export, &error)),
    }
}

/// That an export cannot be mounted, and what to do about it where that is known.
pub(crate) fn cannot_mount(export: &ExportAddress, error: &Error) -> Failure {
    let as_another = "-o access=any,dfltuid=UID asks as another user";
    cannot_attach(export, error, as_another)
}

fn cannot_attach(export: &ExportAddress, error: &Error, as_another: &str) -> Failure {
    if let Error::Connect(words) = error {
        return Failure::new(words);
    }
    let failure = Failure::new(format!("cannot attach to '{export}': {error}"));
    match error {
        Error::Foreign(_) => failure.advise("give the address of one"),
        Error::Lost(_) | Error::TimedOut(_) => failure.advise("is it 9P that is served there?"),
        error if is_refusal(error) => failure.advise(as_another),
        error if error.errno() == Errno::ENOENT => {
            failure.advise("does the server have an export of that name?")
        }
        _ => failure,
    }
}

fn check_dir(client: &Client, place: &Location) -> Result<(), Failure> {
    if place.path.as_os_str().is_empty() {
        return Ok(());
    }
    let found = client.metadata(&place.path);
    match found.map(|attr| attr.mode.is_dir()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(format!(
            "cannot mount '{place}': Not a directory"
        ))),
        Err(error) => Err(Failure::new(format!("cannot mount '{place}': {error}"))
            .advise("is there such a directory in the export?")),
    }
}

/// What was done with each of several things, and could not be done.
#[derive(Default)]
pub(crate) struct Outcome {
    has_failed: bool,
}

impl Outcome {
    /// Notes how one thing went. Whoever closed the pipe has seen enough.
    pub(crate) fn note(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.has_failed = true;
            say(failure);
        }
    }

    /// The exit status: 0 if all went well.
    pub(crate) fn status(&self) -> ExitCode {
        ExitCode::from(u8::from(self.has_failed))
    }
}

const AS_ANOTHER: &str = "ask as another user with --user";

/// Whether somebody else might be let.
fn is_refusal(error: &Error) -> bool {
    matches!(error.errno(), Errno::EACCES | Errno::EPERM)
}

/// `cannot VERB 'WHAT': why`, and what to do about it where that is known whatever
/// was to be done.
fn failed(verb: &str, place: &Location, error: &Error) -> Failure {
    let failure = Failure::new(format!("cannot {verb} '{place}': {error}"));
    match error.errno() {
        _ if matches!(error, Error::Lost(_)) => failure.advise("is the server still running?"),
        Errno::EACCES | Errno::EPERM => failure.advise(AS_ANOTHER),
        Errno::ENOSPC | Errno::EDQUOT => failure.advise("make room on the server"),
        Errno::ETIMEDOUT => failure.advise("--timeout lets it wait longer"),
        _ => failure,
    }
}

/// The same, with what to do about one error of which only who asks knows that.
fn failed_or(
    verb: &str,
    place: &Location,
    error: &Error,
    (errno, advice): (Errno, &str),
) -> Failure {
    let failure = failed(verb, place, error);
    match error.errno() == errno {
        true => failure.advise(advice),
        false => failure,
    }
}

/// What the server answered to a stream.
fn told_by(error: io::Error) -> Error {
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
    match error.downcast::<Error>() {
        Ok(told) => told,
        Err(_) => errno.into(),
    }
}

/// Whether it is a directory, or leads to one.
fn is_dir(client: &Client, path: &Path) -> bool {
    client.metadata(path).is_ok_and(|attr| attr.mode.is_dir())
}

/// What came of writing to stdout: a closed pipe is the reader's choice.
pub(crate) fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(format!(
            "cannot write to stdout: {}",
            system_words(&error)
        ))),
        _ => Ok(()),
    }
}

/// The permissions that new files do not get (umask(2)).
pub(crate) fn umask() -> u32 {
    let none = rustix::fs::Mode::empty();
    let current = rustix::process::umask(none);
    rustix::process::umask(current);
    current.bits()
}
