//! Listing directories.

use super::Target;
use super::lookup::find_in;
use crate::dir_cursor::DirCursor;
use crate::inode::Node;
use crate::service::{ExportSession, File};
use rustix::fd::AsFd;
use rustix::fs::OFlags;
use sluice_sys::Dirent;
use sluice_vfs::{
    Ctx, DirEntry, DirSink, DirWant, Entry, Errno, FileType, Name, NodeId, Result, Stamp,
};

pub(crate) fn readdir(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (node, handle): Target,
    cookie: u64,
    want: DirWant,
    sink: &mut dyn DirSink,
) -> Result<Stamp> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let file = session.file(ctx, node, handle, flags)?;
    if file.inode().file_type != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    let _as_caller = session.as_caller(ctx)?;
    match &file {
        File::Open(handle) => {
            let mut cursor = handle.cursor();
            let outcome = list(session, &file, &mut cursor, cookie, want, sink);
            cursor.rest(&session.listings);
            outcome?;
        }
        File::ForNow(..) => {
            let mut cursor = DirCursor::default();
            list(session, &file, &mut cursor, cookie, want, sink)?;
        }
    }
    Ok(Stamp::NONE)
}

fn list(
    session: &ExportSession,
    file: &File,
    cursor: &mut DirCursor,
    cookie: u64,
    want: DirWant,
    sink: &mut dyn DirSink,
) -> Result<()> {
    cursor.seek(file.as_fd(), cookie)?;
    let mut has_pushed = false;
    loop {
        let found = match cursor.peek(file.as_fd()) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            // The entries before count; the next request meets the error.
            Err(_) if has_pushed => return Ok(()),
            Err(errno) => return Err(errno),
        };
        if !sink.fits(found.name.len()) {
            return Ok(());
        }
        sink.push(&entry_for(session, file, &found, want));
        has_pushed = true;
        let (record_len, next_cookie) = (found.record_len, found.next_cookie);
        cursor.advance(record_len, next_cookie);
    }
}

fn entry_for<'a>(
    session: &ExportSession,
    dir: &File,
    found: &Dirent<'a>,
    want: DirWant,
) -> DirEntry<'a> {
    let entry = match want {
        DirWant::Names => None,
        DirWant::Entries(_) => full_entry(session, dir, found),
    };
    let type_found = FileType::from_dirent_type(found.dirent_type);
    DirEntry {
        name: found.name,
        ino: match &entry {
            Some(entry) => entry.attr.ino,
            None => ino_of(session, dir.inode(), found),
        },
        file_type: entry.map_or(type_found, |entry| entry.attr.mode.file_type()),
        next_cookie: found.next_cookie,
        entry,
    }
}

/// The entry with a reference taken. A name that went away, or for which
/// there is no room, is still listed: asked for by itself, it gets its error.
fn full_entry(session: &ExportSession, dir: &File, found: &Dirent<'_>) -> Option<Entry> {
    // `.` and `..` are no names.
    let name = Name::new(found.name).ok()?;
    find_in(session, (dir.inode().id, dir.as_fd()), name).ok()
}

/// The number that peers see. What lies above the root is not theirs to know.
fn ino_of(session: &ExportSession, dir: &Node, found: &Dirent<'_>) -> u64 {
    let (host, dir_key) = (&session.host, dir.identity.key);
    match found.name {
        b".." if dir.id == NodeId::ROOT => host.inos.to_peer(dir_key.dev, dir_key.ino),
        _ => host.inos.to_peer(dir_key.dev, found.ino),
    }
}
