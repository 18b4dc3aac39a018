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
        let client = connected.map_err(|error| match error {
            Error::Connect(words) => Failure::new(words),
            other => failed("attach to", &name, &other),
        })?;
        self.made.push((name, client.clone()));
        Ok(client)
    }
}

/// Connects and attaches once, to say better what is wrong than a mount could.
pub(crate) fn try_to_attach(place: &Location, options: &ConnectOptions) -> Result<(), Failure> {
    match Client::connect(&place.export.address, options) {
        Ok(client) => check_dir(&client, place),
        Err(error) => Err(cannot_attach(&place.export, &error)),
    }
}

/// That an export cannot be mounted, and what to do about it where that is known.
pub(crate) fn cannot_attach(export: &ExportAddress, error: &Error) -> Failure {
    if let Error::Connect(words) = error {
        return Failure::new(words);
    }
    let failure = Failure::new(format!("cannot attach to '{export}': {error}"));
    match error.errno() {
        Errno::ENOENT => failure.advise("does the server have an export of that name?"),
        Errno::EACCES | Errno::EPERM => {
            failure.advise("-o access=any,dfltuid=UID asks as another user")
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

/// `cannot VERB 'WHAT': why`, and what to do about it where that is known.
pub(crate) fn failed(verb: &str, what: &str, error: &Error) -> Failure {
    let failure = Failure::new(format!("cannot {verb} '{what}': {error}"));
    match error.errno() {
        Errno::EACCES | Errno::EPERM => failure.advise("ask as another user with --user"),
        Errno::EISDIR => failure.advise("-r takes directories"),
        Errno::ETIMEDOUT => failure.advise("--timeout lets it wait longer"),
        _ => failure,
    }
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
