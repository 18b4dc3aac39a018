//! The service and the session that go wrong.

use super::plan::Plan;
use super::transfer::{CutSink, CutSource};
use sluice_vfs::{
    AttachOptions, Attached, Ctx, FileService, HandleId, NodeId, ReadSink, Release, Result,
    Session, WriteArgs, WriteSource, Written, forward_session,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A service whose calls go wrong as a [`Plan`] has it.
pub struct FaultyService {
    inner: Arc<dyn FileService>,
    plan: Arc<Plan>,
}

impl FaultyService {
    /// Over `inner`.
    pub fn new(inner: Arc<dyn FileService>, plan: Arc<Plan>) -> Self {
        FaultyService { inner, plan }
    }
}

impl FileService for FaultyService {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let attached = self.inner.attach(options)?;
        let session = FaultySession {
            inner: attached.session,
            plan: Arc::clone(&self.plan),
            _present: Present::new(&self.plan),
        };
        Ok(Attached {
            session: Arc::new(session),
            ..attached
        })
    }
}

struct FaultySession {
    inner: Arc<dyn Session>,
    plan: Arc<Plan>,
    _present: Present,
}

/// Counted in its plan while it lives.
struct Present(Arc<Plan>);

impl Present {
    fn new(plan: &Arc<Plan>) -> Self {
        plan.sessions.fetch_add(1, Ordering::SeqCst);
        Present(Arc::clone(plan))
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Forwards operations that may go wrong first, and lists their names.
macro_rules! go_wrong {
    ($($method:ident),* $(,)?) => {
        /// What can go wrong.
        pub(super) const OPERATIONS: &[&str] = &["read", "write", "flush", "release", $(stringify!($method)),*];

        impl Session for FaultySession {
            forward_session! { inner, before meet => $($method),* }
            forward_session! { inner => forget, cancel_wait, release_backing }

            /// Like close(2), this and `release` have done all that there is to do when
            /// they fail.
            fn flush(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId) -> Result<()> {
                let met = self.meet("flush", ctx);
                let done = self.inner.flush(ctx, node, handle);
                met.and(done)
            }

            fn release(
                &self,
                ctx: &Ctx<'_>,
                node: NodeId,
                handle: HandleId,
                how: &Release,
            ) -> Result<()> {
                let met = self.meet("release", ctx);
                let done = self.inner.release(ctx, node, handle, how);
                met.and(done)
            }

            fn read(
                &self,
                ctx: &Ctx<'_>,
                node: NodeId,
                handle: Option<HandleId>,
                offset: u64,
                len: usize,
                sink: &mut dyn ReadSink,
            ) -> Result<usize> {
                self.meet("read", ctx)?;
                let mut sink = CutSink::new(sink, self.plan.transfers());
                let count = self.inner.read(ctx, node, handle, offset, len, &mut sink)?;
                self.plan.after_read(count)
            }

            fn write(
                &self,
                ctx: &Ctx<'_>,
                node: NodeId,
                handle: Option<HandleId>,
                args: &WriteArgs,
                source: &mut dyn WriteSource,
            ) -> Result<Written> {
                self.meet("write", ctx)?;
                let mut source = CutSource::new(source, self.plan.transfers());
                self.inner.write(ctx, node, handle, args, &mut source)
            }
        }
    };
}

go_wrong! {
    lookup, parent, walk, remember, getattr, setattr, access, readlink, statfs, getxattr,
    listxattr, setxattr, removexattr, mkdir, mknod, symlink, link, unlink, rmdir, rename, open,
    create, lookup_open, tmpfile, readdir, fsync, syncfs, fallocate, lseek,
    copy_range, ioctl, getlk, setlk, backing,
}

impl FaultySession {
    fn meet(&self, operation: &'static str, _: &Ctx<'_>) -> Result<()> {
        self.plan.meet(operation)
    }
}
