//! The fids of a connection, and what they stand for.
//!
//! A fid is a value: what changes its meaning (opening it, walking it
//! elsewhere) puts another one in its place. No two requests do that to one fid
//! at a time (`schedule`), and one that only uses it keeps what it found until
//! it is done. Only the name that led to its file changes in place, when it is
//! moved through whatever fid.

use super::quota::{Quota, Room};
use super::translate::stable_qid;
use super::users::User;
use crate::p9::wire::Qid;
use crate::parked::ParkedLocks;
use sluice_vfs::{
    Attr, Ctx, Entry, Errno, Features, FileType, HandleId, NodeId, Release, Result, Session,
};
use std::collections::HashMap;
use std::collections::hash_map;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An export that the connection is attached to.
pub(super) struct Tree {
    pub(super) session: Arc<dyn Session>,
    pub(super) features: Features,
    /// The name it was attached by.
    pub(super) aname: Vec<u8>,
    /// Locks that wait.
    pub(super) parked: Arc<ParkedLocks>,
}

/// A reference to a node, given back with the last fid that shares it.
pub(super) struct NodeRef {
    pub(super) tree: Arc<Tree>,
    pub(super) node: NodeId,
    pub(super) file_type: FileType,
    /// Its qid, with the version that stays.
    pub(super) qid: Qid,
}

impl NodeRef {
    /// Takes over the reference that came with `entry`.
    pub(super) fn new(tree: &Arc<Tree>, entry: &Entry) -> Arc<Self> {
        NodeRef::known(tree, entry.node, &entry.attr)
    }

    /// The root, which needs no reference.
    pub(super) fn root(tree: &Arc<Tree>, attr: &Attr) -> Arc<Self> {
        NodeRef::known(tree, NodeId::ROOT, attr)
    }

    fn known(tree: &Arc<Tree>, node: NodeId, attr: &Attr) -> Arc<Self> {
        Arc::new(NodeRef {
            tree: Arc::clone(tree),
            node,
            file_type: attr.mode.file_type().unwrap_or(FileType::Regular),
            qid: stable_qid(attr),
        })
    }

    pub(super) fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }
}

impl Drop for NodeRef {
    fn drop(&mut self) {
        self.tree.session.forget(self.node, 1);
    }
}

/// The name by which a fid got to its file.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) dir: Arc<NodeRef>,
    pub(super) name: Arc<[u8]>,
}

impl Place {
    pub(super) fn new(dir: &Arc<NodeRef>, name: &[u8]) -> Self {
        Place {
            dir: Arc::clone(dir),
            name: name.into(),
        }
    }

    fn is(&self, other: &Place) -> bool {
        let is_same_dir =
            self.dir.node == other.dir.node && Arc::ptr_eq(&self.dir.tree, &other.dir.tree);
        is_same_dir && self.name == other.name
    }

    /// The same for the same place, and rarely for two.
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.dir.node, &self.name).hash(&mut hasher);
        hasher.finish()
    }
}

/// What a fid stands for.
pub(super) struct Fid {
    /// Who attached.
    pub(super) user: Arc<User>,
    pub(super) node: Arc<NodeRef>,
    place: Mutex<Option<Place>>,
    pub(super) state: FidState,
}

/// What a fid can be used for.
pub(super) enum FidState {
    /// Not opened yet.
    Path,
    /// Reading, writing, listing.
    Open(OpenFid),
    /// Reading the value of an extended attribute, or a list of them.
    XattrRead(XattrRead),
    /// Writing the value of an extended attribute.
    XattrWrite(XattrWrite),
}

/// An open file or directory. Released at the latest when it is dropped.
pub(super) struct OpenFid {
    tree: Arc<Tree>,
    node: NodeId,
    pub(super) handle: HandleId,
    /// Remove the file when the fid goes (ORCLOSE).
    pub(super) removes: bool,
    /// Where Tread stands in a directory.
    pub(super) listing: Mutex<Listing>,
    is_released: bool,
}

/// How far a directory was read with Tread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listing {
    /// Bytes so far, which is the only offset to go on from.
    pub(super) offset: u64,
    /// Where that is in the directory.
    pub(super) cookie: u64,
}

impl OpenFid {
    pub(super) fn new(node: &NodeRef, handle: HandleId, removes: bool) -> Self {
        OpenFid {
            tree: Arc::clone(&node.tree),
            node: node.node,
            handle,
            removes,
            listing: Mutex::default(),
            is_released: false,
        }
    }

    /// Closes it, and says what close(2) has to say.
    fn release(&mut self, ctx: &Ctx<'_>, flush: bool) -> Result<()> {
        if std::mem::replace(&mut self.is_released, true) {
            return Ok(());
        }
        let how = Release {
            unlock_flock: false,
            flush,
        };
        let session = &self.tree.session;
        session.release(ctx, self.node, self.handle, &how)
    }
}

impl Drop for OpenFid {
    fn drop(&mut self) {
        let nobody = Ctx::new(sluice_vfs::Caller::ROOT);
        let _ = self.release(&nobody, false);
    }
}

/// A value that was read when the fid was made.
pub(super) struct XattrRead {
    pub(super) value: Vec<u8>,
    pub(super) _room: Room,
}

/// A value that is set when the fid is clunked.
pub(super) struct XattrWrite {
    pub(super) name: Box<[u8]>,
    pub(super) flags: u32,
    pub(super) size: usize,
    pub(super) value: Mutex<Written>,
    pub(super) _room: Room,
}

/// What came of a value so far.
#[derive(Default)]
pub(super) struct Written {
    pub(super) bytes: Vec<u8>,
    /// How many bytes were written, in whatever order.
    pub(super) count: usize,
}

impl Fid {
    /// A file that `user` found at `place`; the root has none.
    pub(super) fn new(
        user: &Arc<User>,
        node: Arc<NodeRef>,
        place: Option<Place>,
        state: FidState,
    ) -> Self {
        Fid {
            user: Arc::clone(user),
            node,
            place: Mutex::new(place),
            state,
        }
    }

    /// The same file, not opened.
    pub(super) fn cloned(&self) -> Fid {
        self.in_state(FidState::Path)
    }

    /// The same file, used for something else.
    pub(super) fn in_state(&self, state: FidState) -> Fid {
        Fid::new(&self.user, Arc::clone(&self.node), self.place(), state)
    }

    /// By what name it got to its file, with the moves since then that were made
    /// through this connection; none for the root.
    pub(super) fn place(&self) -> Option<Place> {
        self.lock_place().clone()
    }

    fn lock_place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has open, if that is a file or directory.
    pub(super) fn open(&self) -> Option<&OpenFid> {
        match &self.state {
            FidState::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Its handle, for requests that work better with one.
    pub(super) fn handle(&self) -> Option<HandleId> {
        self.open().map(|open| open.handle)
    }

    /// What it has open; `EBADF`.
    pub(super) fn require_open(&self) -> Result<&OpenFid> {
        self.open().ok_or(Errno::EBADF)
    }

    /// Fails with `EBADF` if it is open, or stands for an attribute.
    pub(super) fn require_path(&self) -> Result<()> {
        match self.state {
            FidState::Path => Ok(()),
            _ => Err(Errno::EBADF),
        }
    }

    pub(super) fn session(&self) -> &dyn Session {
        &*self.node.tree.session
    }

    /// A context with the user who attached.
    pub(super) fn ctx(&self) -> Ctx<'_> {
        Ctx::new(self.user.caller())
    }

    /// The same for something that is made, with the group that the peer chose.
    pub(super) fn maker_ctx(&self, gid: u32) -> Ctx<'_> {
        Ctx::new(self.user.maker(gid))
    }

    /// Closes what is open, and says what close(2) has to say.
    pub(super) fn close(self: Arc<Self>) -> Result<()> {
        // Requests that still use the fid are done before it is clunked.
        let Some(mut fid) = Arc::into_inner(self) else {
            return Ok(());
        };
        match &mut fid.state {
            FidState::Open(open) => open.release(&Ctx::new(fid.user.caller()), true),
            _ => Ok(()),
        }
    }
}

/// The fids of a connection.
pub(super) struct FidTable(Mutex<Fids>);

struct Fids {
    meanings: HashMap<u32, Meaning>,
    quota: Quota,
}

/// What a fid stands for, and the key of its place, by which it is found.
struct Meaning {
    fid: Arc<Fid>,
    key: Option<u64>,
}

impl Meaning {
    fn new(fid: Fid) -> Self {
        Meaning {
            key: fid.place().map(|place| place.key()),
            fid: Arc::new(fid),
        }
    }
}

impl FidTable {
    /// A table for as many fids as `quota` has.
    pub(super) fn new(quota: Quota) -> Self {
        FidTable(Mutex::new(Fids {
            meanings: HashMap::new(),
            quota,
        }))
    }

    /// What `fid` stands for; `EBADF`.
    pub(super) fn get(&self, fid: u32) -> Result<Arc<Fid>> {
        let fids = self.lock();
        let meaning = fids.meanings.get(&fid).ok_or(Errno::EBADF)?;
        Ok(Arc::clone(&meaning.fid))
    }

    /// Makes sure that a fid is free to be given a meaning: `EBADF` if it is in
    /// use (fids are the client's to choose), `ENFILE` if there are too many.
    pub(super) fn require_free(&self, fid: u32) -> Result<()> {
        let fids = self.lock();
        match fids.meanings.contains_key(&fid) || fid == crate::p9::wire::NOFID {
            true => Err(Errno::EBADF),
            false if !fids.quota.has_room() => Err(Errno::ENFILE),
            false => Ok(()),
        }
    }

    /// Gives a free fid a meaning; as [`FidTable::require_free`].
    pub(super) fn insert(&self, fid: u32, meaning: Fid) -> Result<()> {
        let meaning = Meaning::new(meaning);
        let Fids { meanings, quota } = &mut *self.lock();
        match meanings.entry(fid) {
            hash_map::Entry::Occupied(_) => Err(Errno::EBADF),
            hash_map::Entry::Vacant(_) if !quota.take(1) => Err(Errno::ENFILE),
            hash_map::Entry::Vacant(free) => {
                free.insert(meaning);
                Ok(())
            }
        }
    }

    /// Gives a fid that is in use another meaning.
    pub(super) fn replace(&self, fid: u32, meaning: Fid) {
        let meaning = Meaning::new(meaning);
        let before = self.lock().meanings.insert(fid, meaning);
        drop(before); // outside the lock: it may close a file
    }

    /// A file was moved: whatever fid got to it by its old name goes along.
    pub(super) fn follow(&self, from: &Place, to: &Place) {
        let keys = (from.key(), to.key());
        let mut fids = self.lock();
        let all = fids.meanings.values_mut();
        let here = all.filter(|meaning| meaning.key == Some(keys.0));
        let left: Vec<Place> = here
            .filter_map(|meaning| {
                let mut place = meaning.fid.lock_place();
                let left = place.take_if(|place| place.is(from))?;
                *place = Some(to.clone());
                meaning.key = Some(keys.1);
                Some(left)
            })
            .collect();
        drop(fids);
        drop(left); // outside the lock: it may forget a directory
    }

    /// Takes a fid out; `EBADF`.
    pub(super) fn remove(&self, fid: u32) -> Result<Arc<Fid>> {
        let mut fids = self.lock();
        let meaning = fids.meanings.remove(&fid).ok_or(Errno::EBADF)?;
        fids.quota.give_back(1);
        Ok(meaning.fid)
    }

    fn lock(&self) -> MutexGuard<'_, Fids> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
