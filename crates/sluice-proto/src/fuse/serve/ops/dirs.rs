//! Listings.

use crate::fuse::serve::dispatch::Call;
use crate::fuse::serve::translate::Presenter;
use crate::fuse::wire::{
    DIRENT_MAX, Dirent, Direntplus, EntryOut, FsyncFlags, FsyncIn, ReadIn, dirent_len,
    direntplus_len, encode_dirent, encode_direntplus,
};
use sluice_vfs::{AttrMask, DirEntry, DirSink, DirWant, NAME_MAX, ReadSink, Result};

pub(in super::super) fn readdir(
    call: &Call<'_>,
    args: &ReadIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    list(call, args, DirWant::Names, Layout::Names, sink)
}

pub(in super::super) fn readdirplus(
    call: &Call<'_>,
    args: &ReadIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let want = DirWant::Entries(AttrMask::BASIC);
    list(call, args, want, Layout::Entries(call.presenter()), sink)
}

pub(in super::super) fn fsyncdir(call: &Call<'_>, args: &FsyncIn) -> Result<()> {
    call.session().fsync(
        &call.ctx(),
        call.node,
        call.dir_handle(args.fh),
        args.fsync_flags.contains(FsyncFlags::FDATASYNC),
    )
}

fn list(
    call: &Call<'_>,
    args: &ReadIn,
    want: DirWant,
    layout: Layout<'_>,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let mut listing = Listing {
        room: sink.remaining().min(args.size as usize),
        sink,
        layout,
        outcome: Ok(()),
    };
    let handle = call.dir_handle(args.fh);
    call.session().readdir(
        &call.ctx(),
        call.node,
        handle,
        args.offset,
        want,
        &mut listing,
    )?;
    listing.outcome
}

/// How entries are laid out.
enum Layout<'a> {
    /// READDIR.
    Names,
    /// READDIRPLUS.
    Entries(&'a Presenter),
}

/// The body of a listing's reply.
struct Listing<'a> {
    sink: &'a mut dyn ReadSink,
    room: usize,
    layout: Layout<'a>,
    outcome: Result<()>,
}

impl DirSink for Listing<'_> {
    fn fits(&self, name_len: usize) -> bool {
        let len = match self.layout {
            Layout::Names => dirent_len(name_len),
            Layout::Entries(_) => direntplus_len(name_len),
        };
        name_len <= NAME_MAX && len <= self.room
    }

    fn push(&mut self, entry: &DirEntry<'_>) {
        if self.outcome.is_ok() {
            self.outcome = self.append(entry);
        }
    }
}

impl Listing<'_> {
    fn append(&mut self, entry: &DirEntry<'_>) -> Result<()> {
        let dirent = Dirent {
            ino: entry.ino,
            off: entry.next_cookie,
            namelen: 0, // encoding fills it
            kind: entry
                .file_type
                .map_or(0, |file_type| file_type.to_dirent_type().into()),
        };
        let mut buf = [0; DIRENT_MAX];
        let encoded = match self.layout {
            Layout::Names => encode_dirent(&dirent, entry.name, &mut buf),
            Layout::Entries(presenter) => {
                let entry_out = entry
                    .entry
                    .as_ref()
                    .map_or_else(EntryOut::default, |entry| presenter.entry_out(entry));
                encode_direntplus(&Direntplus { entry_out, dirent }, entry.name, &mut buf)
            }
        };
        let len = encoded.map_err(|_| sluice_vfs::Errno::ENAMETOOLONG)?;
        self.sink.put(buf.get(..len).unwrap_or_default())?;
        self.room = self.room.saturating_sub(len);
        Ok(())
    }
}
