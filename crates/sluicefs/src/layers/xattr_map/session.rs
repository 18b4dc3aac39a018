//! The layer.

use super::XattrMap;
use sluice_vfs::{
    AttachOptions, Attached, CreateArgs, Created, Ctx, Device, Entry, Errno, Features, FileService,
    FileType, Name, NewNode, NodeId, ReadSink, Result, SecurityLabel, Session, Stamp, VecSink,
    XATTR_LIST_MAX, XattrFlags, XattrName, forward_session,
};
use std::sync::Arc;

/// A service whose extended attributes have other names.
pub struct XattrMapped {
    inner: Arc<dyn FileService>,
    map: Arc<XattrMap>,
}

impl XattrMapped {
    /// Over `inner`.
    pub fn new(inner: Arc<dyn FileService>, map: XattrMap) -> Self {
        XattrMapped {
            inner,
            map: Arc::new(map),
        }
    }
}

impl FileService for XattrMapped {
    /// Without capabilities under their own name, the host's kernel does not
    /// drop them when a file is changed: then the client's kernel has to, and
    /// does if nobody promises to.
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let mut attached = self.inner.attach(options)?;
        if !self.map.keeps_capabilities() {
            attached.features.remove(Features::KILL_SUIDGID);
        }
        if !self.map.keeps_acls() {
            attached.features.remove(Features::POSIX_ACL);
        }
        let session = MappedSession {
            inner: attached.session,
            map: Arc::clone(&self.map),
        };
        Ok(Attached {
            session: Arc::new(session),
            ..attached
        })
    }
}

struct MappedSession {
    inner: Arc<dyn Session>,
    map: Arc<XattrMap>,
}

impl Session for MappedSession {
    forward_session! {
        inner => lookup, parent, walk, remember, forget, getattr, setattr, access, readlink,
        statfs, link, unlink, rmdir, rename, open, lookup_open, flush, release, read, write,
        readdir, fsync, syncfs, fallocate, lseek, copy_range, ioctl, getlk, setlk, cancel_wait,
        backing, release_backing
    }

    fn getxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        let host = self.map.to_host(name.as_bytes());
        let host = host.map_err(|refusal| refusal.of_a_look())?;
        self.inner.getxattr(ctx, node, host.as_xattr()?, sink)
    }

    fn listxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        let mut on_host = VecSink::new(XATTR_LIST_MAX);
        self.inner.listxattr(ctx, node, Some(&mut on_host))?;
        let mut list = Vec::new();
        for name in on_host.into_bytes().split(|byte| *byte == 0) {
            if let Some(shown) = self.map.to_client(name) {
                list.extend_from_slice(shown);
                list.push(0);
            }
        }
        if let Some(sink) = sink {
            if list.len() > sink.remaining() {
                return Err(Errno::ERANGE);
            }
            sink.put(&list)?;
        }
        Ok(list.len())
    }

    fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp> {
        let host = self.map.to_host(name.as_bytes());
        let host = host.map_err(|refusal| refusal.of_a_change())?;
        self.inner
            .setxattr(ctx, node, host.as_xattr()?, value, flags)
    }

    fn removexattr(&self, ctx: &Ctx<'_>, node: NodeId, name: XattrName<'_>) -> Result<Stamp> {
        let host = self.map.to_host(name.as_bytes());
        let host = host.map_err(|refusal| refusal.of_a_change())?;
        self.inner.removexattr(ctx, node, host.as_xattr()?)
    }

    fn mkdir(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        self.labelled(new, |new| self.inner.mkdir(ctx, parent, name, new))
    }

    fn mknod(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        file_type: FileType,
        rdev: Device,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        self.labelled(new, |new| {
            self.inner.mknod(ctx, parent, name, file_type, rdev, new)
        })
    }

    fn symlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        self.labelled(new, |new| {
            self.inner.symlink(ctx, parent, name, target, new)
        })
    }

    fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> Result<Created> {
        self.labelled(&args.new, |new| {
            let args = CreateArgs { new: *new, ..*args };
            self.inner.create(ctx, parent, name, &args)
        })
    }

    fn tmpfile(&self, ctx: &Ctx<'_>, parent: NodeId, args: &CreateArgs<'_>) -> Result<Created> {
        self.labelled(&args.new, |new| {
            let args = CreateArgs { new: *new, ..*args };
            self.inner.tmpfile(ctx, parent, &args)
        })
    }
}

impl MappedSession {
    /// Makes a node whose label, if it gets one, has its name on the host.
    fn labelled<T>(
        &self,
        new: &NewNode<'_>,
        make: impl FnOnce(&NewNode<'_>) -> Result<T>,
    ) -> Result<T> {
        let Some(label) = new.label else {
            return make(new);
        };
        let host = self.map.to_host(label.name.as_bytes());
        let host = host.map_err(|refusal| refusal.of_a_change())?;
        let label = SecurityLabel {
            name: host.as_xattr()?,
            value: label.value,
        };
        make(&NewNode {
            label: Some(label),
            ..*new
        })
    }
}
