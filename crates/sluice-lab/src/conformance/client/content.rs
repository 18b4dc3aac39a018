//! Opening and closing, content and listings.

use super::{Client, File, Listed, opened};
use sluice_vfs::{
    Cancel, CopyRange, CopySide, CreateArgs, Created, DirEntry, DirSink, DirWant, FallocateMode,
    FileIoctl, FileIoctlReply, HandleId, Name, NewNode, NodeId, OpenFlags, Release, Result,
    SliceSource, Stamp, VecSink, Whence, WriteArgs, Written,
};
use std::ops::Range;

impl Client {
    /// Opens a node.
    pub fn open(&self, node: NodeId, flags: OpenFlags) -> Result<File> {
        let opened = self.session.open(&self.ctx(), node, flags)?;
        Ok(File {
            node,
            handle: opened.handle,
        })
    }

    /// Opens a directory.
    pub fn opendir(&self, node: NodeId) -> Result<File> {
        self.open(node, OpenFlags::READ | OpenFlags::DIRECTORY)
    }

    /// Makes a file that isn't there, and opens it for reading and writing.
    pub fn create(&self, parent: NodeId, name: impl AsRef<[u8]>, perm: u32) -> Result<File> {
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::EXCLUSIVE;
        let created = self.create_with(parent, name, flags, &NewNode::with_perm(perm))?;
        Ok(opened(&created))
    }

    /// Opens a name, making it first if need be.
    pub fn create_with(
        &self,
        parent: NodeId,
        name: impl AsRef<[u8]>,
        flags: OpenFlags,
        new: &NewNode<'_>,
    ) -> Result<Created> {
        let name = Name::new(name.as_ref())?;
        let args = CreateArgs { flags, new: *new };
        self.session.create(&self.ctx(), parent, name, &args)
    }

    /// Opens a name that exists.
    pub fn lookup_open(
        &self,
        parent: NodeId,
        name: impl AsRef<[u8]>,
        flags: OpenFlags,
    ) -> Result<Created> {
        let name = Name::new(name.as_ref())?;
        self.session.lookup_open(&self.ctx(), parent, name, flags)
    }

    /// Makes a file without a name.
    pub fn tmpfile(&self, parent: NodeId, flags: OpenFlags, perm: u32) -> Result<File> {
        let new = NewNode::with_perm(perm);
        let args = CreateArgs { flags, new };
        let created = self.session.tmpfile(&self.ctx(), parent, &args)?;
        Ok(opened(&created))
    }

    /// What close(2) does first.
    pub fn flush(&self, file: File) -> Result<()> {
        self.session.flush(&self.ctx(), file.node, file.handle)
    }

    /// What the last close(2) does: flush, then release.
    pub fn close(&self, file: File) -> Result<()> {
        let how = Release {
            unlock_flock: true,
            flush: true,
        };
        self.release(file, how)
    }

    /// Gives a handle back.
    pub fn release(&self, file: File, how: Release) -> Result<()> {
        self.session
            .release(&self.ctx(), file.node, file.handle, &how)
    }

    /// Reads from an open file.
    pub fn read(&self, file: File, offset: u64, len: usize) -> Result<Vec<u8>> {
        self.read_from(file.node, Some(file.handle), offset, len)
    }

    /// Reads, with or without a handle.
    pub fn read_from(
        &self,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>> {
        let mut sink = VecSink::new(len);
        let count = self
            .session
            .read(&self.ctx(), node, handle, offset, len, &mut sink)?;
        let bytes = sink.into_bytes();
        assert_eq!(count, bytes.len(), "the count is that of the bytes");
        Ok(bytes)
    }

    /// Writes to an open file; how much went.
    pub fn write(&self, file: File, offset: u64, bytes: &[u8]) -> Result<usize> {
        let args = WriteArgs {
            offset,
            ..WriteArgs::default()
        };
        self.write_with(file.node, Some(file.handle), &args, bytes)
            .map(|written| written.len)
    }

    /// Writes, with all there is to say about it.
    pub fn write_with(
        &self,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        bytes: &[u8],
    ) -> Result<Written> {
        let mut source = SliceSource::new(bytes);
        self.session
            .write(&self.ctx(), node, handle, args, &mut source)
    }

    /// One reading of a directory, with room for `room` entries.
    pub fn readdir(
        &self,
        dir: File,
        cookie: u64,
        want: DirWant,
        room: usize,
    ) -> Result<Vec<Listed>> {
        self.readdir_from(dir.node, Some(dir.handle), cookie, want, room)
    }

    /// One reading of a directory, with or without a handle.
    pub fn readdir_from(
        &self,
        node: NodeId,
        handle: Option<HandleId>,
        cookie: u64,
        want: DirWant,
        room: usize,
    ) -> Result<Vec<Listed>> {
        let mut sink = ListSink {
            listed: Vec::new(),
            room,
        };
        self.session
            .readdir(&self.ctx(), node, handle, cookie, want, &mut sink)?;
        Ok(sink.listed)
    }

    /// A directory from start to end.
    pub fn list(&self, dir: File, want: DirWant) -> Result<Vec<Listed>> {
        self.list_from(dir, 0, want)
    }

    /// A directory from a cookie to the end.
    pub fn list_from(&self, dir: File, cookie: u64, want: DirWant) -> Result<Vec<Listed>> {
        let mut all: Vec<Listed> = Vec::new();
        let mut cookie = cookie;
        loop {
            let mut more = self.readdir(dir, cookie, want, 64)?;
            let Some(last) = more.last() else {
                return Ok(all);
            };
            cookie = last.next_cookie;
            all.append(&mut more);
        }
    }

    /// Brings a file to the disk.
    pub fn fsync(&self, file: File, data_only: bool) -> Result<()> {
        self.session
            .fsync(&self.ctx(), file.node, Some(file.handle), data_only)
    }

    /// Allocates, frees or moves space.
    pub fn fallocate(&self, file: File, mode: FallocateMode, range: Range<u64>) -> Result<Stamp> {
        let handle = Some(file.handle);
        self.session
            .fallocate(&self.ctx(), file.node, handle, mode, range)
    }

    /// Finds data, a hole or the end.
    pub fn lseek(&self, file: File, offset: u64, whence: Whence) -> Result<u64> {
        let handle = Some(file.handle);
        self.session
            .lseek(&self.ctx(), file.node, handle, offset, whence)
    }

    /// Copies within the service; how much went.
    pub fn copy_range(&self, from: (File, u64), to: (File, u64), len: u64) -> Result<usize> {
        let copy = copy_args(from, to, len);
        self.session
            .copy_range(&self.ctx(), &copy)
            .map(|written| written.len)
    }

    /// As [`Client::copy_range`], taken back from the start.
    pub fn copy_range_cancelled(
        &self,
        from: (File, u64),
        to: (File, u64),
        len: u64,
    ) -> Result<usize> {
        let cancel = Cancel::new();
        cancel.cancel();
        let ctx = self.ctx();
        let copy = copy_args(from, to, len);
        self.session
            .copy_range(&ctx.with_cancel(&cancel), &copy)
            .map(|written| written.len)
    }

    /// Reads or sets file flags of an open file.
    pub fn ioctl(&self, file: File, request: FileIoctl) -> Result<FileIoctlReply> {
        let handle = Some(file.handle);
        self.session.ioctl(&self.ctx(), file.node, handle, &request)
    }
}

fn copy_args(from: (File, u64), to: (File, u64), len: u64) -> CopyRange {
    let side = |(file, offset): (File, u64)| CopySide {
        node: file.node,
        handle: file.handle,
        offset,
    };
    CopyRange {
        from: side(from),
        to: side(to),
        len,
    }
}

/// Takes up to `room` entries.
struct ListSink {
    listed: Vec<Listed>,
    room: usize,
}

impl DirSink for ListSink {
    fn fits(&self, _name_len: usize) -> bool {
        self.listed.len() < self.room
    }

    fn push(&mut self, entry: &DirEntry<'_>) {
        assert!(self.listed.len() < self.room, "only what fits is pushed");
        self.listed.push(Listed {
            name: entry.name.to_vec(),
            ino: entry.ino,
            file_type: entry.file_type,
            next_cookie: entry.next_cookie,
            entry: entry.entry,
        });
    }
}
