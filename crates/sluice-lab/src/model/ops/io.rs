//! Content of files and listings of directories.

use super::Call;
use crate::model::content::SIZE_MAX;
use crate::model::directory::{COOKIE_DOT, COOKIE_DOT_DOT};
use sluice_vfs::{
    Access, DirEntry, DirSink, DirWant, Entry, Errno, FileType, HandleId, NodeId, OpenFlags,
    Result, Stamp, WriteArgs, Written,
};

impl Call<'_> {
    pub(in crate::model) fn read(
        &mut self,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        len: u64,
    ) -> Result<Vec<u8>> {
        check_range(offset, 0)?;
        let (ino, flags) = self.opened(node, handle, OpenFlags::READ)?;
        check_range(offset, len)?;
        let bytes = self.state.tree.get(ino)?.content()?.read(offset, len);
        if !bytes.is_empty() && !flags.contains(OpenFlags::NOATIME) {
            self.touch_atime(ino)?;
        }
        Ok(bytes)
    }

    pub(in crate::model) fn write(
        &mut self,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        bytes: &[u8],
    ) -> Result<Written> {
        check_range(args.offset, 0)?;
        let (ino, flags) = self.opened(node, handle, OpenFlags::WRITE)?;
        check_range(args.offset, bytes.len() as u64)?;
        let inode = self.state.tree.get(ino)?;
        let offset = if flags.contains(OpenFlags::APPEND) {
            inode.content()?.size()
        } else {
            args.offset
        };
        check_range(offset, bytes.len() as u64)?;
        if bytes.is_empty() {
            inode.content()?;
            return Ok(Written {
                len: 0,
                stamp: inode.stamp,
            });
        }
        let kills = args.kill_suidgid || (self.is_restricted() && !args.is_writeback);
        self.write_at(ino, offset, bytes, kills)
    }

    /// Writes what there is space for; at least one byte or an error.
    pub(super) fn write_at(
        &mut self,
        ino: u64,
        offset: u64,
        bytes: &[u8],
        kills: bool,
    ) -> Result<Written> {
        let len = self.state.tree.with_space(ino, |inode, free| {
            Ok(inode.content_mut()?.write(offset, bytes, free))
        })?;
        if len == 0 {
            return Err(Errno::ENOSPC);
        }
        if kills {
            self.state.tree.get_mut(ino)?.kill_suidgid();
        }
        let stamp = self.changed(ino, Some(offset..offset + len))?;
        Ok(Written {
            len: len as usize,
            stamp,
        })
    }

    pub(in crate::model) fn readdir(
        &mut self,
        node: NodeId,
        handle: Option<HandleId>,
        cookie: u64,
        want: DirWant,
        sink: &mut dyn DirSink,
    ) -> Result<Stamp> {
        let target = self.target(node, handle)?;
        let above = self.state.tree.get(target)?.directory()?.parent;
        let (ino, _) = self.opened(node, handle, OpenFlags::READ)?;
        let inode = self.state.tree.get(ino)?;
        if inode.is_dead() {
            return Err(Errno::ENOENT);
        }
        let stamp = inode.names_stamp;
        let dots = [(&b"."[..], ino, COOKIE_DOT), (b"..", above, COOKIE_DOT_DOT)];
        for (name, ino, next_cookie) in dots {
            if cookie < next_cookie && !push_dot(sink, name, ino, next_cookie) {
                return Ok(stamp);
            }
        }
        self.list_names(ino, cookie.max(COOKIE_DOT_DOT), want, sink)?;
        Ok(stamp)
    }

    fn list_names(
        &mut self,
        dir: u64,
        mut cookie: u64,
        want: DirWant,
        sink: &mut dyn DirSink,
    ) -> Result<()> {
        loop {
            let directory = self.state.tree.get(dir)?.directory()?;
            let Some((next_cookie, name, ino)) = directory.after(cookie) else {
                return Ok(());
            };
            if !sink.fits(name.len()) {
                return Ok(());
            }
            let name = name.to_vec();
            let entry = match want {
                DirWant::Names => None,
                // A full node table, or a directory that may be listed but not
                // searched, cost the entry and not the listing.
                DirWant::Entries(_) => self.listed_entry(ino, dir).ok(),
            };
            sink.push(&DirEntry {
                name: &name,
                ino,
                file_type: Some(self.state.tree.get(ino)?.file_type),
                next_cookie,
                entry,
            });
            cookie = next_cookie;
        }
    }

    fn listed_entry(&mut self, ino: u64, dir: u64) -> Result<Entry> {
        self.check_access(self.state.tree.get(dir)?, Access::EXEC)?;
        self.entry(ino, dir)
    }

    /// The inode behind a handle opened with `needed`, or behind a node that
    /// could be opened so; and the flags it is open with.
    pub(super) fn opened(
        &self,
        node: NodeId,
        handle: Option<HandleId>,
        needed: OpenFlags,
    ) -> Result<(u64, OpenFlags)> {
        let Some(handle) = handle else {
            let ino = self.ino(node)?;
            self.check_open(self.state.tree.get(ino)?, needed)?;
            return Ok((ino, needed));
        };
        let handle = self.handle(node, handle)?;
        let mut has = handle.flags;
        has.set(
            OpenFlags::READ,
            has.intersects(OpenFlags::READ | OpenFlags::EXEC),
        );
        if !has.contains(needed) {
            return Err(Errno::EBADF);
        }
        Ok((handle.ino, handle.flags))
    }

    /// Moves the access time as `relatime` does: not at every read.
    fn touch_atime(&mut self, ino: u64) -> Result<()> {
        let now = self.state.tree.now();
        let inode = self.state.tree.get_mut(ino)?;
        if inode.atime <= inode.mtime || inode.atime <= inode.ctime {
            inode.atime = now;
        }
        Ok(())
    }
}

/// `EINVAL` for what doesn't fit a signed 64-bit offset, as read(2) and
/// write(2) say.
fn check_range(offset: u64, len: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= SIZE_MAX => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

fn push_dot(sink: &mut dyn DirSink, name: &[u8], ino: u64, next_cookie: u64) -> bool {
    if !sink.fits(name.len()) {
        return false;
    }
    sink.push(&DirEntry {
        name,
        ino,
        file_type: Some(FileType::Directory),
        next_cookie,
        entry: None,
    });
    true
}
