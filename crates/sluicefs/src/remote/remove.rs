//! `sluice rm` and `sluice mkdir`.

use super::{Location, Outcome, Remotes, failed, failed_or, is_dir, umask};
use crate::failure::Failure;
use sluice_client::{Client, Dir, DirEntry, Errno, FileType};
use std::ffi::OsString;
use std::path::{Component, Path};

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
    let no_name = match place.path.components().next_back() {
        Some(Component::Normal(_)) => None,
        Some(Component::ParentDir) => Some("it ends in '..'; name the directory itself"),
        _ => Some("it is the root of the export; name what is in it"),
    };
    if let Some(why) = no_name {
        return Err(Failure::new(format!("cannot remove '{place}': {why}")));
    }
    match client.remove_file(&place.path) {
        Ok(()) => Ok(()),
        Err(error) if how.force && error.errno() == Errno::ENOENT => Ok(()),
        Err(error) if how.recursive && is_of_dir(&error, || is_dir_itself(client, place)) => {
            remove_tree(client, place)
        }
        Err(error) => {
            let is_dir = (Errno::EISDIR, "-r takes directories");
            Err(failed_or("remove", place, &error, is_dir))
        }
    }
}

/// Whether it says that a directory is no file. Some servers say EPERM then, as POSIX
/// lets them, which has other reasons too.
fn is_of_dir(error: &sluice_client::Error, is_dir: impl FnOnce() -> bool) -> bool {
    match error.errno() {
        Errno::EISDIR => true,
        Errno::EPERM => is_dir(),
        _ => false,
    }
}

fn is_dir_itself(client: &Client, place: &Location) -> bool {
    client
        .symlink_metadata(&place.path)
        .is_ok_and(|attr| attr.mode.is_dir())
}

/// Names that are taken from a listing at a time: what is kept of a directory,
/// however long it is.
const PIECE: usize = 4096;

/// A directory that is being emptied.
struct Emptied {
    dir: Dir,
    name: OsString,
    /// Directories in it that have to go first.
    below: Vec<OsString>,
    /// What went first when it was listed last.
    went: Option<OsString>,
}

impl Emptied {
    fn in_dir(dir: &Dir, name: OsString) -> sluice_client::Result<Self> {
        Ok(Emptied {
            dir: dir.dir(&name)?,
            name,
            below: Vec::new(),
            went: None,
        })
    }
}

/// A directory and all that is in it; symlinks are not followed.
fn remove_tree(client: &Client, place: &Location) -> Result<(), Failure> {
    let mut way = Vec::new();
    empty(client, &place.path, &mut way).map_err(|(name, error)| {
        let names = way.iter().skip(1).map(|dir| dir.name.as_os_str());
        let mut path = place.path.clone();
        path.extend(names.chain(name.as_deref()));
        failed("remove", &place.at(&path), &error)
    })
}

/// What could not be removed: the last directory of the way, or a name in it.
type Stuck = (Option<OsString>, sluice_client::Error);

/// Each directory stays at hand until it is gone: the way from the root to it,
/// however long, is gone once. A listing says nothing certain once names are removed
/// behind its back: after each piece it begins anew.
fn empty(client: &Client, path: &Path, way: &mut Vec<Emptied>) -> Result<(), Stuck> {
    let (parent, name) = client.parent(path).map_err(|error| (None, error))?;
    let top = Emptied::in_dir(&parent, name).map_err(|error| (None, error))?;
    way.push(top);
    while let Some(last) = way.last_mut() {
        if let Some(name) = last.below.pop() {
            let next = Emptied::in_dir(&last.dir, name.clone());
            way.push(next.map_err(|error| (Some(name), error))?);
        } else if !last.remove_piece()? {
            let above = way.iter().rev().nth(1).map_or(&parent, |above| &above.dir);
            let removed = way
                .last()
                .map_or(Ok(()), |last| above.remove_dir(&last.name));
            removed.map_err(|error| (None, error))?;
            way.pop();
        }
    }
    Ok(())
}

impl Emptied {
    /// Removes some of what the directory holds, and notes the directories among it.
    /// Whether anything was in it still.
    fn remove_piece(&mut self) -> Result<bool, Stuck> {
        let mut entries = self.dir.entries().map_err(|error| (None, error))?;
        loop {
            let piece: Result<Vec<_>, _> = entries.by_ref().take(PIECE).collect();
            let piece = piece.map_err(|error| (None, error))?;
            if piece.is_empty() {
                return Ok(false);
            }
            let mut went = None;
            for entry in &piece {
                let name = entry.file_name().to_owned();
                // A server that does not do what it says would be asked for ever.
                if self.went.as_ref() == Some(&name) {
                    return Err((Some(name), Errno::ENOTEMPTY.into()));
                }
                match self.dir.remove_file(&name) {
                    Ok(()) => {}
                    Err(error) if error.errno() == Errno::ENOENT => continue,
                    Err(error) if is_of_dir(&error, || may_be_dir(entry)) => {
                        self.below.push(name.clone());
                    }
                    Err(error) => return Err((Some(name), error)),
                }
                went.get_or_insert(name);
            }
            if went.is_some() {
                self.went = went;
                return Ok(true);
            }
        }
    }
}

/// As far as the listing tells.
fn may_be_dir(entry: &DirEntry) -> bool {
    let file_type = entry.file_type();
    file_type.is_none_or(|file_type| file_type == FileType::Directory)
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
                false if place.path.file_name().is_none() => Err(Errno::EEXIST.into()),
                false => client.create_dir(&place.path, mode),
            };
            let is_missing = (Errno::ENOENT, "-p makes those above, too");
            made.map_err(|error| failed_or("make", place, &error, is_missing))
        });
        outcome.note(made);
    }
    outcome
}

fn make_way(client: &Client, path: &Path, above: u32, mode: u32) -> sluice_client::Result<()> {
    let mut missing = Vec::new();
    for dir in path.ancestors() {
        match client.metadata(dir) {
            Ok(attr) if attr.mode.is_dir() => break,
            Err(error) if error.errno() == Errno::ENOTDIR => return Err(error),
            _ => missing.push(dir),
        }
    }
    while let Some(dir) = missing.pop() {
        let mode = if missing.is_empty() { mode } else { above };
        match client.create_dir(dir, mode) {
            // Somebody else did meanwhile.
            Err(error) if error.errno() == Errno::EEXIST && is_dir(client, dir) => {}
            other => other?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_client::{ConnectOptions, Dialect, Socket};
    use sluice_lab::model::{ModelOptions, ModelService};
    use sluice_lab::p9_stream::{Run, serve_stream};
    use sluice_proto::p9::serve::ServerConfig;
    use sluice_vfs::{AccessChecks, Peer};
    use std::ffi::OsStr;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    fn client(dialect: Dialect) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let peer = Peer {
            label: "test".to_owned(),
            checks: AccessChecks::Peer,
        };
        let service = Arc::new(ModelService::new(ModelOptions::default()));
        serve_stream(service, theirs, Run::Inline, |link| {
            ServerConfig::new(peer, link)
        });
        let socket = Socket::new(ours.into()).unwrap();
        let options = ConnectOptions {
            uid: 0,
            dialects: vec![dialect],
            ..ConnectOptions::default()
        };
        Client::over(Box::new(socket), &options).unwrap()
    }

    /// Messages that it takes to remove so many directories within each other.
    fn messages_for(client: &Client, depth: usize) -> u64 {
        let mut path = "top".to_owned();
        client.create_dir(&path, 0o755).unwrap();
        for _ in 0..depth {
            path.push_str("/dir");
            client.create_dir(&path, 0o755).unwrap();
        }
        let before = client.counts().sent;
        let place = Location::parse(OsStr::new("unix:x:top")).unwrap();
        let how = Removal {
            recursive: true,
            force: false,
        };
        remove_one(client, &place, how).unwrap();
        assert!(client.metadata("top").is_err());
        client.counts().sent - before
    }

    #[test]
    fn a_directory_costs_the_same_at_any_depth() {
        for dialect in [
            Dialect::Sluice,
            Dialect::Linux,
            Dialect::Unix,
            Dialect::Plan9,
        ] {
            let client = client(dialect);
            let (short, long) = (messages_for(&client, 40), messages_for(&client, 80));
            assert!(long <= 2 * short, "{dialect:?}: {short}, {long}");
        }
    }
}
