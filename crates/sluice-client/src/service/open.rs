//! Opening, making what is opened, and closing.

use super::fid::{Fid, OpenFile};
use super::session::Inner;
use super::turn::{Doubt, Turn, errno};
use crate::error::Result;
use crate::ops::{OpenFid, Tree};
use sluice_vfs::{
    Attr, CreateArgs, Created, Ctx, Entry, Errno, FileType, HandleId, Name, NodeId, OpenFlags,
    OpenHints, Opened, Release, Stamp,
};
use std::sync::Arc;

impl Inner {
    pub(super) fn open(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        flags: OpenFlags,
    ) -> sluice_vfs::Result<Opened> {
        self.run(ctx, |turn| {
            let flags = opening_flags(self.nodes.identity(node)?.file_type(), flags)?;
            let room = self.handles.reserve()?;
            let file = turn.open_node(node, flags)?;
            Ok(opened(room.fill(turn, node, flags, file)))
        })
    }

    pub(super) fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> sluice_vfs::Result<Created> {
        let create = |turn: &Turn<'_>, doubt: &Doubt| {
            let room = self.handles.reserve()?;
            let dir = turn.fid(parent)?;
            self.nodes.check_room(parent, name.as_bytes())?;
            let (bits, flags) = (turn.bits(dir.number(), &args.new)?, args.flags);
            let ids = (bits, ctx.caller.gid);
            let create = |tree: &Tree| {
                let made = tree.create_and_keep(dir.number(), name.as_bytes(), flags, ids);
                made.map(|(open, kept)| (open, kept.map(|fid| fid.keep())))
            };
            let is_new = flags.contains(OpenFlags::EXCLUSIVE);
            // One that may be there already may be made twice.
            let (open, kept) = match is_new {
                true => turn.once_in(doubt, create)?,
                false => create(turn.tree)?,
            };
            let file = OpenFile::new(turn.tree, open);
            let kept = kept.map(|number| Arc::new(Fid::new(turn.tree, number)));
            let attr = turn.attr_of_open(&open)?;
            let node = self.nodes.refer(
                &attr,
                Some((parent, name.as_bytes())),
                kept.as_ref().map(|fid| (turn.user, fid)),
            )?;
            Ok(Created {
                entry: entry(node, attr),
                opened: opened(room.fill(turn, node, flags, file)),
                is_new,
            })
        };
        let look = |turn: &Turn<'_>| turn.is_missing(parent, name.as_bytes());
        self.run_once(ctx, create, look)
    }

    pub(super) fn lookup_open(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        flags: OpenFlags,
    ) -> sluice_vfs::Result<Created> {
        self.run(ctx, |turn| {
            let room = self.handles.reserve()?;
            let found = turn.find(parent, name.as_bytes())?;
            let node = found.node;
            let opened_with_attr = || {
                let flags = opening_flags(found.attr.mode.file_type(), flags)?;
                let file = turn.open_node(node, flags)?;
                // Opening may have changed them.
                let attr = turn.attr_of_open(&file.open)?;
                Ok((file, attr, flags))
            };
            match opened_with_attr() {
                Ok((file, attr, flags)) => Ok(Created {
                    entry: entry(node, attr),
                    opened: opened(room.fill(turn, node, flags, file)),
                    is_new: false,
                }),
                Err(error) => {
                    self.nodes.forget(node, 1);
                    Err(error)
                }
            }
        })
    }

    /// What was written was answered; locks are all that close(2) ends.
    pub(super) fn flush(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
    ) -> sluice_vfs::Result<()> {
        let handle = self.handles.get(node, handle).map_err(|e| errno(&e))?;
        self.unlock_all(ctx, &handle)
    }

    /// Nobody waits for a file that was only read, unless others wait for its locks.
    pub(super) fn release(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        id: HandleId,
        how: &Release,
    ) -> sluice_vfs::Result<()> {
        let handle = self.handles.get(node, id).map_err(|e| errno(&e))?;
        let unlocked = match how.flush {
            true => self.unlock_all(ctx, &handle),
            false => Ok(()),
        };
        let unlocked = match how.unlock_flock {
            true => unlocked.and(self.unlock_flock(ctx, &handle)),
            false => unlocked,
        };
        let had_locks = self.locks.forget_handle(&handle);
        self.handles.remove(node, id).map_err(|e| errno(&e))?;
        if !handle.was_written() && !had_locks {
            return unlocked;
        }
        // One of a connection before this one is closed.
        let file = self.link.current().and_then(|tree| handle.current(&tree));
        let closed = file.map_or(Ok(()), |file| file.close());
        unlocked.and(closed.map_err(|error| errno(&error)))
    }
}

impl Turn<'_> {
    /// Attributes of what was just opened.
    fn attr_of_open(&self, open: &OpenFid) -> Result<Attr> {
        let attr = match open.attr {
            Some(attr) => attr,
            None => self.tree.getattr(open.fid)?,
        };
        match attr.ino == open.qid.path {
            true => Ok(self.owned(attr)),
            false => Err(Errno::ESTALE.into()),
        }
    }
}

/// How such a file is opened; a directory as one, whether or not that is said. What may
/// not be opened is not even asked for: some servers would wait for a pipe's other end.
fn opening_flags(file_type: Option<FileType>, flags: OpenFlags) -> Result<OpenFlags> {
    match file_type {
        Some(FileType::Directory) => Ok(flags | OpenFlags::DIRECTORY),
        Some(FileType::Symlink) => Err(Errno::ELOOP.into()),
        _ if flags.contains(OpenFlags::DIRECTORY) => Err(Errno::ENOTDIR.into()),
        Some(FileType::Regular) | None => Ok(flags),
        Some(_) => Err(Errno::EOPNOTSUPP.into()),
    }
}

fn opened(handle: HandleId) -> Opened {
    Opened {
        handle,
        hints: OpenHints::NO_FLUSH,
        stamp: Stamp::NONE,
    }
}

/// An entry that nothing is known about the version of.
pub(super) fn entry(node: NodeId, attr: Attr) -> Entry {
    Entry {
        node,
        attr,
        stamp: Stamp::NONE,
        dir_stamp: Stamp::NONE,
    }
}
