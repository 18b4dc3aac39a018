//! `sluice rm` and `sluice mkdir`.

use super::{Location, Outcome, Remotes, failed, umask};
use crate::failure::Failure;
use sluice_client::{Client, Errno};
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

/// A directory and all that is in it; symlinks are not followed.
fn remove_tree(client: &Client, place: &Location) -> Result<(), Failure> {
    let mut way: Vec<PathBuf> = vec![place.path.clone()];
    while let Some(dir) = way.last().cloned() {
        let cannot = |path: &Path| {
            let what = place.at(path).to_string();
            move |error| failed("remove", &what, &error)
        };
        let before = way.len();
        let entries = client.read_dir(&dir).map_err(cannot(&dir))?;
        for entry in entries.collect::<Vec<_>>() {
            let path = dir.join(entry.map_err(cannot(&dir))?.file_name());
            match client.remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.errno() == Errno::ENOENT => {}
                Err(error) if matches!(error.errno(), Errno::EISDIR | Errno::EPERM) => {
                    way.push(path);
                }
                Err(error) => return Err(cannot(&path)(error)),
            }
        }
        if way.len() == before {
            client.remove_dir(&dir).map_err(cannot(&dir))?;
            way.pop();
        }
    }
    Ok(())
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
