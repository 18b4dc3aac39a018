//! Listings: entries with Treaddir, whole stats with Tread.

use super::stat::{STAT_MIN, StatOf};
use crate::p9::serve::answer::Answer;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::exchange::Exchange;
use crate::p9::serve::fids::{Fid, Listing, NodeRef, OpenFid, Tree};
use crate::p9::serve::translate::{ATTRS, entry_qid};
use crate::p9::wire::{
    DIRENT_MAX, Dirent, Payload, Reply, Str, dirent_len, encode_dirent, encode_stat,
};
use sluice_vfs::{DirEntry, DirSink, DirWant, Entry, Errno, NAME_MAX, ReadSink, Result};
use std::cell::Cell;
use std::sync::{Arc, PoisonError};

pub(in super::super) fn readdir(
    call: &Call<'_>,
    fid: u32,
    offset: u64,
    count: u32,
    exchange: &mut dyn Exchange,
    answer: &mut Answer,
) -> Result<()> {
    let fid = call.fid(fid)?;
    let handle = Some(fid.require_open()?.handle);
    let sink = exchange.sink();
    let room = (count as usize)
        .min(call.connection.payload_max())
        .min(sink.remaining());
    let mut entries = Entries {
        sink,
        room,
        len: 0,
        has_more: Cell::new(false),
        outcome: Ok(()),
    };
    fid.session().readdir(
        &fid.ctx(),
        fid.node.node,
        handle,
        offset,
        DirWant::Names,
        &mut entries,
    )?;
    let len = entries.finish()?;
    answer.set(&Reply::Readdir {
        entries: Payload { len },
    })
}

/// The data of an Rreaddir.
struct Entries<'a> {
    sink: &'a mut dyn ReadSink,
    room: usize,
    len: usize,
    /// An entry did not fit.
    has_more: Cell<bool>,
    outcome: Result<()>,
}

impl DirSink for Entries<'_> {
    fn fits(&self, name_len: usize) -> bool {
        let fits = name_len <= NAME_MAX && dirent_len(name_len) <= self.room;
        self.has_more.set(!fits);
        fits
    }

    fn push(&mut self, entry: &DirEntry<'_>) {
        if self.outcome.is_ok() {
            self.outcome = self.append(entry);
        }
    }
}

impl Entries<'_> {
    fn append(&mut self, entry: &DirEntry<'_>) -> Result<()> {
        let dirent = Dirent {
            qid: entry_qid(entry.file_type, entry.ino),
            offset: entry.next_cookie,
            kind: entry
                .file_type
                .map_or(0, |file_type| file_type.to_dirent_type()),
            name: Str(entry.name),
        };
        let mut buf = [0; DIRENT_MAX];
        let len = encode_dirent(&dirent, &mut buf).map_err(|_| Errno::ENAMETOOLONG)?;
        self.sink.put(buf.get(..len).unwrap_or_default())?;
        self.room = self.room.saturating_sub(len);
        self.len += len;
        Ok(())
    }

    /// Bytes of all entries. None at all mean the end, so if the first does not
    /// fit that is an error.
    fn finish(self) -> Result<usize> {
        self.outcome?;
        match self.len == 0 && self.has_more.get() {
            true => Err(Errno::EINVAL),
            false => Ok(self.len),
        }
    }
}

/// Reads a directory as 9P2000 and 9P2000.u do: whole stats without `.` and
/// `..`, from the start or from where the last read ended (read(5)).
pub(super) fn read_stats(
    call: &Call<'_>,
    fid: &Fid,
    open: &OpenFid,
    offset: u64,
    room: usize,
    sink: &mut dyn ReadSink,
) -> Result<usize> {
    let mut at = open.listing.lock().unwrap_or_else(PoisonError::into_inner);
    // Where it stands stays as it is should this fail half way.
    let mut cookie = match offset {
        0 => Listing::default().cookie,
        _ if offset == at.offset => at.cookie,
        _ => return Err(Errno::EINVAL),
    };
    let mut len = 0;
    loop {
        let mut found = Found::new(call, &fid.node.tree, room - len);
        fid.session().readdir(
            &fid.ctx(),
            fid.node.node,
            Some(open.handle),
            cookie,
            DirWant::Entries(ATTRS),
            &mut found,
        )?;
        let is_end = found.entries.is_empty() && !found.has_more.get();
        let mut is_full = found.entries.is_empty();
        for entry in &mut found.entries {
            let Some(count) = put_stat(call, fid, entry, room - len, sink)? else {
                is_full = true;
                break;
            };
            len += count;
            cookie = entry.next_cookie;
        }
        if is_full && len == 0 && !is_end {
            return Err(Errno::EINVAL);
        }
        if is_full || is_end {
            break;
        }
    }
    let offset = offset.saturating_add(len as u64);
    *at = Listing { offset, cookie };
    Ok(len)
}

/// Writes the stat of an entry, if there is room; its bytes. Names that are no
/// files' (dots, and what went away) take none.
fn put_stat(
    call: &Call<'_>,
    dir: &Fid,
    entry: &mut FoundEntry,
    room: usize,
    sink: &mut dyn ReadSink,
) -> Result<Option<usize>> {
    let Some((node, stat)) = &mut entry.file else {
        return Ok(Some(0));
    };
    match stat.extend(call, dir, node.node) {
        Ok(()) => {}
        Err(Errno::ENOENT | Errno::ESTALE) => return Ok(Some(0)),
        Err(error) => return Err(error),
    }
    let len = stat.len(call);
    if len > room {
        return Ok(None);
    }
    let mut buf = vec![0; len];
    let dialect = call.connection.dialect;
    let len = encode_stat(&stat.get(call), dialect, &mut buf).map_err(|_| Errno::EIO)?;
    sink.put(buf.get(..len).unwrap_or_default())?;
    Ok(Some(len))
}

/// Entries of a directory: as many as have room, and perhaps one more, whose owner's
/// name is too long.
struct Found<'c> {
    call: &'c Call<'c>,
    tree: &'c Arc<Tree>,
    entries: Vec<FoundEntry>,
    room: usize,
    has_more: Cell<bool>,
}

struct FoundEntry {
    next_cookie: u64,
    /// None for dots, and for names that went away.
    file: Option<(Arc<NodeRef>, StatOf)>,
}

impl<'c> Found<'c> {
    fn new(call: &'c Call<'c>, tree: &'c Arc<Tree>, room: usize) -> Self {
        Found {
            call,
            tree,
            entries: Vec::new(),
            room,
            has_more: Cell::new(false),
        }
    }
}

impl DirSink for Found<'_> {
    fn fits(&self, name_len: usize) -> bool {
        let fits = STAT_MIN + name_len <= self.room;
        self.has_more.set(!fits);
        fits
    }

    fn push(&mut self, entry: &DirEntry<'_>) {
        let taken = |it: Entry| {
            let stat = StatOf::new(self.call, &it.attr, entry.name.to_vec());
            (NodeRef::new(self.tree, &it), stat)
        };
        let file = entry.entry.map(taken);
        // Names that take no room are not taken in without end.
        let least = STAT_MIN + entry.name.len();
        let len = file.as_ref().map(|(_, stat)| stat.len(self.call));
        self.room = self.room.saturating_sub(len.unwrap_or(least));
        self.entries.push(FoundEntry {
            next_cookie: entry.next_cookie,
            file,
        });
    }
}
