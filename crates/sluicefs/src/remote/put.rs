//! `sluice put`.

use super::same::{about, is_same_file};
use super::{Location, Outcome, Remotes, failed_or, is_dir, progress, told_by, umask};
use crate::failure::Failure;
use crate::logging::say;
use indicatif::ProgressBar;
use sluice_client::{Client, Errno, OpenFlags};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Stands for stdin.
const STDIN: &str = "-";

/// Read at a time.
const PIECE: usize = 1 << 20;

/// Where things are put.
pub(crate) struct PutTo<'a> {
    pub(crate) place: &'a Location,
    /// Directories too, with all that is in them.
    pub(crate) recursive: bool,
}

/// Copies local files to the server: into a directory that is there, or else to
/// the name that is given, which a single file takes over.
pub(crate) fn put(remotes: &mut Remotes, sources: &[PathBuf], to: &PutTo<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let client = match remotes.client(to.place) {
        Ok(client) => client,
        Err(failure) => {
            outcome.note(Err(failure));
            return outcome;
        }
    };
    let is_dir = is_dir(&client, &to.place.path);
    if !is_dir && (sources.len() > 1 || to.place.is_dir_by_name()) {
        let failure = Failure::new(format!("'{}' is no directory on the server", to.place));
        outcome.note(Err(failure.advise("make it with sluice mkdir")));
        return outcome;
    }
    let mut copy = Copy {
        client: &client,
        place: to.place,
        recursive: to.recursive,
        umask: umask(),
        buf: Vec::new(),
        bar: ProgressBar::hidden(),
        skipped: false,
        is_new_dir: false,
    };
    for source in sources {
        outcome.note(copy.one(source, is_dir));
    }
    outcome.has_failed |= copy.skipped;
    outcome
}

struct Copy<'a> {
    client: &'a Client,
    place: &'a Location,
    recursive: bool,
    umask: u32,
    buf: Vec<u8>,
    bar: ProgressBar,
    /// Something was left out.
    skipped: bool,
    /// Nothing is where things are put now.
    is_new_dir: bool,
}

impl Copy<'_> {
    fn one(&mut self, source: &Path, into_dir: bool) -> Result<(), Failure> {
        if source == Path::new(STDIN) {
            if into_dir {
                let what = format!("stdin has no name to get in '{}'", self.place);
                return Err(Failure::new(what).advise("write the name of the file behind it"));
            }
            self.bar = progress::bar(None, STDIN);
            let to = self.place.path.clone();
            let mut stdin = io::stdin().lock();
            let found = about(&stdin).map_err(|error| Failure::from_io("read", source, &error))?;
            self.check_other(&found, source, &to)?;
            return self.content(&mut stdin, source, &to, 0o666);
        }
        let cannot = |error: io::Error| Failure::from_io("read", source, &error);
        // A symlink that is named is followed, as cp does.
        let about = fs::metadata(source).map_err(cannot)?;
        let to = match (into_dir, source.file_name()) {
            (false, _) => self.place.path.clone(),
            (true, Some(name)) => self.place.path.join(name),
            (true, None) => {
                let full = fs::canonicalize(source).map_err(cannot)?;
                self.place.path.join(full.file_name().unwrap_or_default())
            }
        };
        match about.is_dir() {
            false => {
                self.bar = progress::bar(Some(about.len()), &source.to_string_lossy());
                let mut file = File::open(source).map_err(cannot)?;
                let done = self.file(&mut file, &about, source, &to);
                self.bar.finish_and_clear();
                done
            }
            true if self.recursive => {
                self.bar = progress::bar(None, &source.to_string_lossy());
                let done = self.tree(source, &to);
                self.is_new_dir = false;
                self.bar.finish_and_clear();
                done
            }
            true => Err(
                Failure::new(format!("'{}' is a directory", source.display()))
                    .advise("-r takes directories"),
            ),
        }
    }

    /// A directory and all that is in it. Its directories are those that were there
    /// before anything was made: the server may make the copy within it.
    fn tree(&mut self, top: &Path, to: &Path) -> Result<(), Failure> {
        for (source, to) in dirs_of(top, to) {
            let listed = match source == top {
                true => listed(&source, fs::metadata(&source)),
                false => listed(&source, fs::symlink_metadata(&source)),
            };
            let (mode, entries) = match listed {
                Ok(found) => found,
                Err(error) if source == top => {
                    return Err(Failure::from_io("read", top, &error));
                }
                Err(error) => {
                    self.leave_out(Failure::from_io("read", &source, &error));
                    continue;
                }
            };
            self.is_new_dir = self.dir(&to, mode)?;
            for entry in entries {
                self.entry(&entry.path(), &to.join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    /// What a directory holds, except for directories.
    fn entry(&mut self, source: &Path, to: &Path) -> Result<(), Failure> {
        match found_at(source) {
            Ok(Found::File(mut file, about)) => self.file(&mut file, &about, source, to)?,
            Ok(Found::Symlink(target)) => self.link(&target, to)?,
            Ok(Found::Dir) => {}
            Ok(Found::Other) => {
                let why = "neither file, directory nor symlink";
                let what = format!("left out '{}': {why}", source.display());
                self.leave_out(Failure::new(what));
            }
            Err(error) => self.leave_out(Failure::from_io("read", source, &error)),
        }
        Ok(())
    }

    /// The rest is not worse for it.
    fn leave_out(&mut self, why: Failure) {
        self.skipped = true;
        say(why);
    }

    /// Whether it was not there.
    fn dir(&self, to: &Path, mode: u32) -> Result<bool, Failure> {
        // What goes into it must be allowed to.
        let mode = (mode & 0o7777 & !self.umask) | 0o300;
        match self.client.create_dir(to, mode) {
            Err(error) if error.errno() == Errno::EEXIST && is_dir(self.client, to) => Ok(false),
            Err(error) => Err(self.cannot("make", to, &error)),
            Ok(()) => Ok(true),
        }
    }

    fn link(&self, target: &Path, to: &Path) -> Result<(), Failure> {
        let mut made = self.client.symlink(target, to);
        if made
            .as_ref()
            .is_err_and(|error| error.errno() == Errno::EEXIST)
        {
            // Another link is replaced, as a file would be.
            made = self
                .client
                .remove_file(to)
                .and_then(|()| self.client.symlink(target, to));
        }
        made.map_err(|error| self.cannot("make", to, &error))
    }

    fn file(
        &mut self,
        file: &mut File,
        about: &fs::Metadata,
        source: &Path,
        to: &Path,
    ) -> Result<(), Failure> {
        self.check_other(about, source, to)?;
        let mode = about.permissions().mode();
        self.content(file, source, to, mode & 0o777)
    }

    /// A file that takes its own place would be emptied first.
    fn check_other(&self, found: &fs::Metadata, source: &Path, to: &Path) -> Result<(), Failure> {
        let there = match self.is_new_dir {
            true => return Ok(()),
            false => self.client.metadata(to),
        };
        if !there.is_ok_and(|there| is_same_file(found, &there)) {
            return Ok(());
        }
        let (source, to) = (source.display(), self.place.at(to));
        let what = format!("'{source}' and '{to}' are the same file");
        Err(Failure::new(what).advise("give the copy another name"))
    }

    fn content(
        &mut self,
        from: &mut dyn Read,
        source: &Path,
        to: &Path,
        mode: u32,
    ) -> Result<(), Failure> {
        let mut buf = std::mem::take(&mut self.buf);
        buf.resize(PIECE, 0);
        let cannot = |error| self.cannot("write", to, &error);
        let flags = OpenFlags::WRITE | OpenFlags::TRUNCATE;
        let made = self.client.create(to, flags, mode & !self.umask);
        let file = made
            .or_else(|error| self.open_behind_link(to, flags, error))
            .map_err(cannot)?;
        let mut writer = file.writer(0);
        loop {
            let len = match from.read(&mut buf) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::from_io("read", source, &error)),
            };
            let piece = buf.get(..len).unwrap_or_default();
            writer
                .write_all(piece)
                .map_err(|error| cannot(told_by(error)))?;
            self.bar.inc(len as u64);
        }
        writer.finish().map_err(cannot)?;
        file.close().map_err(cannot)?;
        self.buf = buf;
        Ok(())
    }

    /// What is made is not made behind a symlink, but what is there takes the content.
    fn open_behind_link(
        &self,
        to: &Path,
        flags: OpenFlags,
        error: sluice_client::Error,
    ) -> sluice_client::Result<sluice_client::File> {
        if error.errno() != Errno::ELOOP {
            return Err(error);
        }
        match self.client.open(to, flags) {
            Err(other) if other.errno() == Errno::ENOENT => Err(error),
            outcome => outcome,
        }
    }

    fn cannot(&self, verb: &str, to: &Path, error: &sluice_client::Error) -> Failure {
        let is_missing = (Errno::ENOENT, "make the directory with sluice mkdir -p");
        failed_or(verb, &self.place.at(to), error, is_missing)
    }
}

/// What a tree holds.
enum Found {
    File(File, fs::Metadata),
    Symlink(PathBuf),
    Dir,
    Other,
}

fn found_at(source: &Path) -> io::Result<Found> {
    let kind = fs::symlink_metadata(source)?.file_type();
    if kind.is_file() {
        let file = File::open(source)?;
        let about = file.metadata()?;
        return Ok(Found::File(file, about));
    }
    if kind.is_symlink() {
        return fs::read_link(source).map(Found::Symlink);
    }
    Ok(if kind.is_dir() {
        Found::Dir
    } else {
        Found::Other
    })
}

/// Permissions of a directory, and what is in it.
fn listed(source: &Path, about: io::Result<fs::Metadata>) -> io::Result<(u32, Vec<fs::DirEntry>)> {
    let about = about?;
    if !about.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    let entries: io::Result<Vec<_>> = fs::read_dir(source)?.collect();
    Ok((about.permissions().mode(), entries?))
}

/// A local directory and all below it, each before those within it, and where they
/// go. What cannot be listed is there without what it holds.
fn dirs_of(top: &Path, to: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut dirs = vec![(top.to_owned(), to.to_owned())];
    let mut next = 0;
    while let Some((source, to)) = dirs.get(next).cloned() {
        let entries = fs::read_dir(&source).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        dirs.extend(below.map(|entry| (entry.path(), to.join(entry.file_name()))));
        next += 1;
    }
    dirs
}
