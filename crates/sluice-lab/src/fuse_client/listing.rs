//! READDIR and READDIRPLUS.

use super::client::FuseClient;
use super::translate;
use super::transport::FuseTransport;
use sluice_proto::fuse::wire::{Direntpluses, Dirents, EntryOut, Operation, ReadIn, Reply};
use sluice_vfs::{Ctx, DirEntry, DirSink, DirWant, Entry, FileType, NodeId, Result};

/// What the kernel asks for at a time, in bytes.
const PAGE_LEN: u32 = 4096;

/// An entry out of a reply.
struct Record<'a> {
    name: &'a [u8],
    ino: u64,
    kind: u32,
    next_cookie: u64,
    entry: Option<Entry>,
}

impl<T: FuseTransport> FuseClient<T> {
    /// Lists until the sink is full or the end is reached. What is not taken
    /// is given back, as a kernel does with what it can't use.
    pub(super) fn list(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        fh: u64,
        mut cookie: u64,
        want: DirWant,
        sink: &mut dyn DirSink,
    ) -> Result<()> {
        loop {
            let args = ReadIn {
                fh,
                offset: cookie,
                size: PAGE_LEN,
                ..ReadIn::default()
            };
            let operation = match want {
                DirWant::Names => Operation::Readdir { args },
                DirWant::Entries(_) => Operation::Readdirplus { args },
            };
            let reply = self.call_with_room(ctx, node, &operation, PAGE_LEN as usize)?;
            let records = match reply.get() {
                Reply::Readdir { entries } => names(entries.0),
                Reply::Readdirplus { entries } => entries_of(entries.0),
                other => panic!("{other:?} answers a listing"),
            };
            let Some(last) = records.last() else {
                return Ok(());
            };
            cookie = last.next_cookie;
            if !self.take(&records, sink) {
                return Ok(());
            }
        }
    }

    /// Pushes what fits; whether that was all.
    fn take(&self, records: &[Record<'_>], sink: &mut dyn DirSink) -> bool {
        let mut is_full = false;
        for record in records {
            is_full |= !sink.fits(record.name.len());
            if !is_full {
                sink.push(&DirEntry {
                    name: record.name,
                    ino: record.ino,
                    file_type: FileType::from_dirent_type(record.kind as u8),
                    next_cookie: record.next_cookie,
                    entry: record.entry,
                });
            } else if let Some(entry) = record.entry {
                self.give_back(entry.node, 1);
            }
        }
        !is_full
    }
}

fn names(bytes: &[u8]) -> Vec<Record<'_>> {
    Dirents(bytes)
        .map(|record| {
            let record = record.expect("a listing is well-formed");
            Record {
                name: record.name,
                ino: record.dirent.ino,
                kind: record.dirent.kind,
                next_cookie: record.dirent.off,
                entry: None,
            }
        })
        .collect()
}

fn entries_of(bytes: &[u8]) -> Vec<Record<'_>> {
    Direntpluses(bytes)
        .map(|record| {
            let record = record.expect("a listing is well-formed");
            let dirent = record.entry.dirent;
            let entry = record.entry.entry_out;
            let is_given = entry != EntryOut::default();
            Record {
                name: record.name,
                ino: dirent.ino,
                kind: dirent.kind,
                next_cookie: dirent.off,
                entry: is_given.then(|| translate::entry(&entry)),
            }
        })
        .collect()
}
