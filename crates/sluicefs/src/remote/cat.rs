//! `sluice cat`.

use super::same::{about, is_same_file};
use super::{Location, Outcome, Remotes, failed_or, progress, told_by, written};
use crate::failure::Failure;
use sluice_client::{Errno, Error, File, OpenFlags};
use std::io::{self, BufRead, IsTerminal, Write};

/// Writes files to stdout, one after the other.
pub(crate) fn cat(remotes: &mut Remotes, places: &[Location]) -> Outcome {
    let mut outcome = Outcome::default();
    for place in places {
        outcome.note(cat_one(remotes, place));
    }
    outcome
}

fn cat_one(remotes: &mut Remotes, place: &Location) -> Result<(), Failure> {
    let client = remotes.client(place)?;
    let opened = client.open(&place.path, OpenFlags::READ);
    let file = opened.map_err(|error| cannot("open", place, &error))?;
    copy_out(&file, place)
}

/// The received bytes go out as they are.
fn copy_out(file: &File, place: &Location) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let there = file.metadata().ok();
    if there.is_some_and(|there| there.mode.is_dir()) {
        // The older dialects let directories be read, as what they list.
        return Err(cannot("read", place, &Errno::EISDIR.into()));
    }
    let is_itself = |there| about(&out).is_ok_and(|here| is_same_file(&here, there));
    if there.as_ref().is_some_and(is_itself) {
        let failure = Failure::new(format!("cannot read '{place}': stdout is that file"));
        return Err(failure.advise("write to another one"));
    }
    let total = there.map(|attr| attr.size);
    let bar = match out.is_terminal() {
        true => indicatif::ProgressBar::hidden(),
        false => progress::bar(total.filter(|size| *size > 0), &place.to_string()),
    };
    let mut reader = file.reader(0);
    loop {
        let bytes = reader
            .fill_buf()
            .map_err(|error| cannot("read", place, &told_by(error)))?;
        if bytes.is_empty() {
            break;
        }
        let len = bytes.len();
        if let Err(error) = out.write_all(bytes) {
            return written(Err(error));
        }
        reader.consume(len);
        bar.inc(len as u64);
    }
    bar.finish_and_clear();
    written(out.flush())
}

fn cannot(verb: &str, place: &Location, error: &Error) -> Failure {
    let is_dir = (Errno::EISDIR, "sluice ls shows what is in it");
    failed_or(verb, place, error, is_dir)
}
