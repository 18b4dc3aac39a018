//! Listing directories.

use super::{OpenFid, Tree};
use crate::connection::Flights;
use crate::error::{Result, Violation};
use crate::translate::{attr_of_stat, kind_of};
use sluice_proto::p9::wire::{Dirents, Request, Stats};
use sluice_vfs::{Attr, FileType, Name};

/// What is asked for at a time, in bytes, if a message holds that much.
const PAGE_LEN: usize = 64 << 10;

/// An entry as the server lists it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) ino: u64,
    pub(crate) file_type: Option<FileType>,
    /// Where to go on after it.
    pub(crate) cookie: u64,
    /// Attributes, where the dialect lists them.
    pub(crate) attr: Option<Attr>,
}

impl Entry {
    /// Whether it is `.` or `..`.
    pub(crate) fn is_dot(&self) -> bool {
        matches!(&self.name[..], b"." | b"..")
    }
}

impl Tree {
    /// Entries from `cookie` on and where to go on; none at the end. The dialect
    /// decides whether `.` and `..` are among them. In 9P2000 and 9P2000.u a listing
    /// can only go on where it stood, or begin again.
    pub(crate) fn list(&self, dir: &OpenFid, cookie: u64) -> Result<(Vec<Entry>, Option<u64>)> {
        let (fid, offset) = (dir.fid, cookie);
        // Linux's listings are no reads, and what a read should hold at most says nothing.
        let most = match self.is_linux() {
            true => self.connection.agreed.payload_max(),
            false => dir.chunk,
        };
        let len = PAGE_LEN.min(most);
        let count = len as u32;
        let request = match self.is_linux() {
            true => Request::Readdir { fid, offset, count },
            false => Request::Read { fid, offset, count },
        };
        let mut flights = Flights::new(&self.connection);
        let tag = flights.send_owned(&request, vec![0; len])?;
        let answer = flights.wait(tag)?;
        let data = answer.data.get(..answer.payload_len).unwrap_or_default();
        if data.is_empty() {
            return Ok((Vec::new(), None));
        }
        let entries = match self.is_linux() {
            true => dirents(data)?,
            false => self.stats(data)?,
        };
        let next = match self.is_linux() {
            true => entries.last().map(|entry| entry.cookie),
            false => Some(offset.saturating_add(data.len() as u64)),
        };
        if next == Some(cookie) {
            return Err(Violation::Value("a listing that does not go on").into());
        }
        Ok((entries, next))
    }

    fn stats(&self, data: &[u8]) -> Result<Vec<Entry>> {
        let dialect = self.dialect();
        Stats::new(data, dialect)
            .map(|stat| {
                let stat = stat.map_err(Violation::from)?;
                let attr = attr_of_stat(&stat, dialect);
                Ok(Entry {
                    name: checked(stat.name.0)?,
                    ino: stat.qid.path,
                    file_type: attr.mode.file_type(),
                    cookie: 0,
                    attr: Some(attr),
                })
            })
            .collect()
    }
}

fn dirents(data: &[u8]) -> Result<Vec<Entry>> {
    Dirents(data)
        .map(|dirent| {
            let dirent = dirent.map_err(Violation::from)?;
            let by_qid = kind_of(&dirent.qid);
            Ok(Entry {
                name: checked(dirent.name.0)?,
                ino: dirent.qid.path,
                file_type: match by_qid {
                    FileType::Regular => FileType::from_dirent_type(dirent.kind),
                    other => Some(other),
                },
                cookie: dirent.offset,
                attr: None,
            })
        })
        .collect()
}

/// A name is one component, or else whoever joins it to a path is led astray.
fn checked(name: &[u8]) -> Result<Vec<u8>> {
    match name {
        b"." | b".." => {}
        _ => drop(Name::new(name).map_err(|_| Violation::Value("a name in a listing"))?),
    }
    Ok(name.to_vec())
}
