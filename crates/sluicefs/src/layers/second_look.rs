//! A layer that answers the question which Linux repeats: where nothing may be
//! kept, it looks a name up and asks for the attributes of what it found in the same
//! system call, to check permissions or to fill in what stat(2) tells.
//!
//! Such a question is answered from the lookup, once, if it is the next one of the
//! thread that looked, for the same user, and only for as long as a system call takes
//! to get from one to the other. A change through this session that begins meanwhile
//! ends it. A thread that found something without asking about it (`O_PATH`) and then
//! asks may so be told what the server answered [`WINDOW`] ago, and nobody anything
//! older.

use sluice_vfs::{
    AttachOptions, Attached, AttrMask, Caller, Ctx, Entry, FileService, HandleId, Lookup, Name,
    NodeId, OpenFlags, Opened, Result, Session, Stat, forward_session,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For how long a lookup answers, from when it was answered itself.
pub const WINDOW: Duration = Duration::from_micros(250);

/// Lookups that are kept; by thread, the last one to come.
const LOOKS_MAX: usize = 32;

/// A service whose lookups answer the question that follows them.
pub struct SecondLooks {
    inner: Arc<dyn FileService>,
    window: Duration,
}

impl SecondLooks {
    /// Over `inner`, for [`WINDOW`].
    pub fn new(inner: Arc<dyn FileService>) -> Self {
        SecondLooks::within(inner, WINDOW)
    }

    /// Over `inner`, for so long.
    pub fn within(inner: Arc<dyn FileService>, window: Duration) -> Self {
        SecondLooks { inner, window }
    }
}

impl FileService for SecondLooks {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let attached = self.inner.attach(options)?;
        let session = LookedAt {
            inner: attached.session,
            window: self.window,
            changes: AtomicU64::new(0),
            looks: Default::default(),
        };
        Ok(Attached {
            session: Arc::new(session),
            ..attached
        })
    }
}

struct LookedAt {
    inner: Arc<dyn Session>,
    window: Duration,
    /// Begun through this session.
    changes: AtomicU64,
    looks: [Mutex<Option<Look>>; LOOKS_MAX],
}

/// What a thread found.
struct Look {
    pid: u32,
    uid: u32,
    node: NodeId,
    stat: Stat,
    at: Instant,
    /// How many changes there were before.
    changes: u64,
}

impl LookedAt {
    /// Another question comes next.
    fn note(&self, _: &'static str, ctx: &Ctx<'_>) -> Result<()> {
        self.replace(ctx, None);
        Ok(())
    }

    fn note_change(&self, operation: &'static str, ctx: &Ctx<'_>) -> Result<()> {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.note(operation, ctx)
    }

    fn replace(&self, ctx: &Ctx<'_>, look: Option<Look>) -> Option<Look> {
        let slot = self.looks.get(ctx.caller.pid as usize % LOOKS_MAX)?;
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, look)
    }

    fn keep(&self, ctx: &Ctx<'_>, entry: &Entry, changes: u64) {
        let Caller { pid, uid, .. } = ctx.caller;
        // Who is in no name space of the mount has no number: that may be anybody.
        if pid == 0 {
            return;
        }
        let look = Look {
            pid,
            uid,
            node: entry.node,
            stat: Stat {
                attr: entry.attr,
                stamp: entry.stamp,
            },
            at: Instant::now(),
            changes,
        };
        self.replace(ctx, Some(look));
    }

    /// What the thread has just found, if it was this.
    fn take(&self, ctx: &Ctx<'_>, node: NodeId) -> Option<Stat> {
        let look = self.replace(ctx, None)?;
        let Caller { pid, uid, .. } = ctx.caller;
        let is_it = (look.pid, look.uid, look.node) == (pid, uid, node);
        let is_fresh = || {
            look.changes == self.changes.load(Ordering::Acquire) && look.at.elapsed() < self.window
        };
        (is_it && is_fresh()).then_some(look.stat)
    }
}

impl Session for LookedAt {
    forward_session! {
        inner, before note => parent, walk, remember, forget, access, readlink, statfs, getxattr,
        listxattr, flush, release, read, readdir, fsync, syncfs, lseek, getlk, setlk, cancel_wait,
        backing, release_backing
    }

    forward_session! {
        inner, before note_change => setattr, setxattr, removexattr, mkdir, mknod, symlink, link,
        unlink, rmdir, rename, lookup_open, create, tmpfile, write, fallocate, copy_range, ioctl
    }

    fn lookup(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Lookup> {
        self.note("lookup", ctx)?;
        let changes = self.changes.load(Ordering::Acquire);
        let found = self.inner.lookup(ctx, parent, name)?;
        if let Lookup::Found(entry) = &found {
            self.keep(ctx, entry, changes);
        }
        Ok(found)
    }

    fn open(&self, ctx: &Ctx<'_>, node: NodeId, flags: OpenFlags) -> Result<Opened> {
        match flags.contains(OpenFlags::TRUNCATE) {
            true => self.note_change("open", ctx),
            false => self.note("open", ctx),
        }?;
        self.inner.open(ctx, node, flags)
    }

    fn getattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mask: AttrMask,
    ) -> Result<Stat> {
        let seen = match handle {
            None => self.take(ctx, node),
            Some(_) => None,
        };
        match seen {
            Some(stat) => Ok(stat),
            None => self.inner.getattr(ctx, node, handle, mask),
        }
    }
}
