//! `sluice ls`.

use super::show::{mode, shown, target_of, time};
use super::{Location, Outcome, Remotes, failed, written};
use crate::failure::Failure;
use sluice_client::{Attr, AttrMask, Client, DirEntry, Errno};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Names that are put in order at a time: what is kept of a directory, however
/// long it is.
const PIECE: usize = 8192;

/// How to list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Listing {
    /// With attributes.
    pub(crate) long: bool,
    /// Names that begin with a dot, too.
    pub(crate) all: bool,
    /// Directories themselves, not what is in them.
    pub(crate) itself: bool,
}

/// Lists directories, and names other files.
pub(crate) fn list(remotes: &mut Remotes, places: &[Location], how: Listing) -> Outcome {
    let mut outcome = Outcome::default();
    for (index, place) in places.iter().enumerate() {
        let title = (places.len() > 1).then_some(index);
        outcome.note(list_one(remotes, place, how, title));
    }
    outcome
}

struct Line {
    name: OsString,
    attr: Option<Attr>,
    target: Option<Vec<u8>>,
}

fn list_one(
    remotes: &mut Remotes,
    place: &Location,
    how: Listing,
    title: Option<usize>,
) -> Result<(), Failure> {
    let client = remotes.client(place)?;
    let cannot = |error| failed("list", place, &error);
    let attr = match how.long || how.itself {
        true => client.symlink_metadata(&place.path),
        false => client.metadata(&place.path),
    };
    let attr = attr.map_err(cannot)?;
    let mut out = Vec::new();
    if !attr.mode.is_dir() || how.itself {
        let target = target_of(&client, &place.path, &attr);
        let name = match place.path.as_os_str() {
            root if root.is_empty() => "/".into(),
            path => path.to_owned(),
        };
        let attr = how.long.then_some(attr);
        print(&mut out, &[Line { name, attr, target }]);
        return written(io::stdout().lock().write_all(&out));
    }
    if let Some(index) = title {
        let gap = if index > 0 { "\n" } else { "" };
        out.extend(format!("{gap}{place}:\n").into_bytes());
    }
    let is_shown = |entry: &DirEntry| how.all || !entry.file_name().as_bytes().starts_with(b".");
    let mut entries = client.read_dir(&place.path).map_err(cannot)?;
    loop {
        let mut names = Vec::new();
        for entry in entries.by_ref() {
            let entry = entry.map_err(cannot)?;
            if is_shown(&entry) {
                names.push(entry.file_name().to_owned());
            }
            if names.len() == PIECE {
                break;
            }
        }
        let is_last = names.len() < PIECE;
        names.sort();
        let lines: Result<Vec<Option<Line>>, _> = names
            .into_iter()
            .map(|name| line(&client, &place.path, name, how.long))
            .collect();
        let lines: Vec<Line> = lines.map_err(cannot)?.into_iter().flatten().collect();
        print(&mut out, &lines);
        let shown = io::stdout().lock().write_all(&out);
        if is_last || shown.is_err() {
            return written(shown);
        }
        out.clear();
    }
}

/// Nothing for a file that is gone meanwhile.
fn line(
    client: &Client,
    dir: &Path,
    name: OsString,
    long: bool,
) -> sluice_client::Result<Option<Line>> {
    if !long {
        let (attr, target) = (None, None);
        return Ok(Some(Line { name, attr, target }));
    }
    let path = dir.join(&name);
    match client.symlink_metadata(&path) {
        Ok(attr) => {
            let target = target_of(client, &path, &attr);
            let attr = Some(attr);
            Ok(Some(Line { name, attr, target }))
        }
        Err(error) if error.errno() == Errno::ENOENT => Ok(None),
        Err(error) => Err(error),
    }
}

/// One line for each, numbers in columns.
fn print(out: &mut Vec<u8>, lines: &[Line]) {
    let figures: Vec<[String; 4]> = lines
        .iter()
        .map(|line| match &line.attr {
            None => Default::default(),
            Some(attr) => [
                attr.nlink.to_string(),
                id(attr, AttrMask::UID, attr.uid),
                id(attr, AttrMask::GID, attr.gid),
                size(attr),
            ],
        })
        .collect();
    let widths = [0, 1, 2, 3].map(|column| {
        let texts = figures.iter().filter_map(|row| row.get(column));
        texts.map(String::len).max().unwrap_or(0)
    });
    for (line, row) in lines.iter().zip(&figures) {
        if let Some(attr) = &line.attr {
            out.extend(mode(attr).into_bytes());
            for (text, width) in row.iter().zip(widths) {
                out.extend(format!(" {text:>width$}").into_bytes());
            }
            out.extend(format!(" {} ", time(attr.mtime, "%Y-%m-%d %H:%M")).into_bytes());
        }
        out.extend(shown(&line.name));
        if let Some(target) = &line.target {
            out.extend(b" -> ");
            out.extend(target);
        }
        out.push(b'\n');
    }
}

/// Plain 9P2000 has names in place of numbers.
fn id(attr: &Attr, field: AttrMask, number: u32) -> String {
    match attr.mask.contains(field) {
        true => number.to_string(),
        false => "-".to_owned(),
    }
}

/// Of a device, which one.
fn size(attr: &Attr) -> String {
    use sluice_client::FileType::{BlockDevice, CharDevice};
    match attr.mode.file_type() {
        Some(BlockDevice | CharDevice) => format!("{},{}", attr.rdev.major, attr.rdev.minor),
        _ => attr.size.to_string(),
    }
}
