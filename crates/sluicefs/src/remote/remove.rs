//! `sluice rm` and `sluice mkdir`.

use super::{Location, Outcome, Remotes, failed, umask};
use crate::failure::Failure;
use sluice_client::{Client, Errno};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What to remove.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Removal {
    /// Directories too, with all that is in them.
    pub(crate) recursive: bool,
    /// What is not there is no error.
    pub(crate) force: bool,
}

/// Removes files.
pub(crate) fn remove(remotes: &mut Remotes, places: &[Location], how: Removal) -> Outcome {
    let mut outcome = Outcome::default();
    for place in places {
        let removed = remotes
            .client(place)
            .and_then(|client| remove_one(&client, place, how));
        outcome.note(removed);
    }
    outcome
}

fn remove_one(client: &Client, place: &Location, how: Removal) -> Result<(), Failure> {
    match client.remove_file(&place.path) {
        Ok(()) => Ok(()),
        Err(error) if how.force && error.errno() == Errno::ENOENT => Ok(()),
        // Some servers say EPERM, as POSIX lets them.
        Err(error) if how.recursive && matches!(error.errno(), Errno::EISDIR | Errno::EPERM) => {
            remove_tree(client, place)
        }
        Err(error) => Err(failed("remove", &place.to_string(), &error)),
    }
}

/// Names that are taken from a listing at a time: what is kept of a directory,
/// however long it is.
const PIECE: usize = 4096;

/// A directory that is being emptied.
struct Emptied {
    path: PathBuf,
    /// What went first when it was listed last.
    went: Option<OsString>,
}

impl Emptied {
    fn new(path: PathBuf) -> Self {
        Emptied { path, went: None }
    }
}

/// A directory and all that is in it; symlinks are not followed. A listing says
/// nothing certain once names are removed behind its back: after each piece it
/// begins anew.
fn remove_tree(client: &Client, place: &Location) -> Result<(), Failure> {
    let mut way = vec![Emptied::new(place.path.clone())];
    while let Some(dir) = way.last_mut() {
        let below = remove_piece(client, place, dir)?;
        match below {
            Some(dirs) => way.extend(dirs.into_iter().map(Emptied::new)),
            None => {
                let removed = client.remove_dir(&dir.path);
                removed.map_err(|error| cannot_remove(place, &dir.path, &error))?;
                way.pop();
            }
        }
    }
    Ok(())
}

/// Removes some of what a directory holds; the directories among it that have to
/// go first. `None` if nothing is in it any more.
fn remove_piece(
    client: &Client,
    place: &Location,
    dir: &mut Emptied,
) -> Result<Option<Vec<PathBuf>>, Failure> {
    let path = dir.path.clone();
    let mut entries = client
        .read_dir(&path)
        .map_err(|error| cannot_remove(place, &path, &error))?;
    loop {
        let piece: Result<Vec<_>, _> = entries.by_ref().take(PIECE).collect();
        let piece = piece.map_err(|error| cannot_remove(place, &path, &error))?;
        if piece.is_empty() {
            return Ok(None);
        }
        let (mut dirs, mut went) = (Vec::new(), None);
        for entry in &piece {
            let name = entry.file_name();
            let path = path.join(name);
            // A server that does not do what it says would be asked for ever.
            if dir.went.as_deref() == Some(name) {
                let error = Errno::ENOTEMPTY.into();
                return Err(cannot_remove(place, &path, &error));
            }
            match client.remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.errno() == Errno::ENOENT => continue,
                Err(error) if matches!(error.errno(), Errno::EISDIR | Errno::EPERM) => {
                    dirs.push(path);
                }
                Err(error) => return Err(cannot_remove(place, &path, &error)),
            }
            went.get_or_insert_with(|| name.to_owned());
        }
        if went.is_some() {
            dir.went = went;
            return Ok(Some(dirs));
        }
    }
}

fn cannot_remove(place: &Location, path: &Path, error: &sluice_client::Error) -> Failure {
    failed("remove", &place.at(path).to_string(), error)
}

/// Makes directories; with `parents` also those above, and one that is there is
/// no error.
pub(crate) fn make_dirs(
    remotes: &mut Remotes,
    places: &[Location],
    parents: bool,
    mode: Option<u32>,
) -> Outcome {
    let usual = 0o777 & !umask();
    let mode = mode.unwrap_or(usual);
    let mut outcome = Outcome::default();
    for place in places {
        let made = remotes.client(place).and_then(|client| {
            let made = match parents {
                true => make_way(&client, &place.path, usual | 0o300, mode),
                false => client.create_dir(&place.path, mode),
            };
            made.map_err(|error| failed("make", &place.to_string(), &error))
        });
        outcome.note(made);
    }
    outcome
}

fn make_way(client: &Client, path: &Path, above: u32, mode: u32) -> sluice_client::Result<()> {
    if client.metadata(path).is_ok_and(|attr| attr.mode.is_dir()) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_way(client, parent, above, above)?;
    }
    match client.create_dir(path, mode) {
        // Somebody else did meanwhile.
        Err(error) if error.errno() == Errno::EEXIST => {
            match client.metadata(path)?.mode.is_dir() {
                true => Ok(()),
                false => Err(error),
            }
        }
        other => other,
    }
}
