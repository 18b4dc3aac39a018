//! A layer that lets only some users in. What others were handed over while it was
//! open they may use: whoever opened it was let in.

use sluice_vfs::{
    AttachOptions, Attached, AttrMask, Ctx, Errno, FileService, HandleId, NodeId, Result, Session,
    Stat, forward_session,
};
use std::sync::Arc;

/// A service that refuses everybody but a user and root: `EACCES`.
///
/// Clients must keep nothing, as what they keep they show to everybody.
pub struct Entrants {
    inner: Arc<dyn FileService>,
    user: u32,
}

impl Entrants {
    /// Only this user, and root.
    pub fn new(inner: Arc<dyn FileService>, user: u32) -> Self {
        Entrants { inner, user }
    }
}

impl FileService for Entrants {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let attached = self.inner.attach(options)?;
        let session = Guarded {
            inner: attached.session,
            user: self.user,
        };
        Ok(Attached {
            session: Arc::new(session),
            ..attached
        })
    }
}

struct Guarded {
    inner: Arc<dyn Session>,
    user: u32,
}

impl Guarded {
    fn check(&self, _: &'static str, ctx: &Ctx<'_>) -> Result<()> {
        match ctx.caller.uid {
            0 => Ok(()),
            uid if uid == self.user => Ok(()),
            _ => Err(Errno::EACCES),
        }
    }
}

impl Session for Guarded {
    forward_session! {
        inner, before check => lookup, parent, walk, remember, setattr, access, readlink, statfs,
        getxattr, listxattr, setxattr, removexattr, mkdir, mknod, symlink, link, unlink, rmdir,
        rename, open, create, lookup_open, tmpfile, syncfs
    }

    // Of what is open.
    forward_session! {
        inner => forget, flush, release, read, write, readdir, fsync, fallocate, lseek, copy_range,
        ioctl, getlk, setlk, cancel_wait, backing, release_backing
    }

    fn getattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mask: AttrMask,
    ) -> Result<Stat> {
        if handle.is_none() {
            self.check("getattr", ctx)?;
        }
        self.inner.getattr(ctx, node, handle, mask)
    }
}
