//! The fids of a connection, and what they stand for.
//!
//! A fid is a value: what changes its meaning (opening it, walking it
//! elsewhere) puts another one in its place. No two requests do that to one fid
//! at a time (`schedule`), and one that only uses it keeps what it found until
//! it is done. Only the place of its file changes, when it is moved through
//! whatever fid: all fids that came of one finding share it, those that are
//! still being made too.

use super::quota::{Quota, Room};
use super::translate::stable_qid;
use super::users::User;
use crate::p9::wire::{NOFID, Qid};
use crate::parked::ParkedLocks;
use sluice_vfs::{
    Attr, Ctx, Entry, Errno, Features, FileType, HandleId, NodeId, Release, Result, Session,
    XattrFlags,
};
use std::collections::{BTreeSet, HashMap};
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

/// The name by which a fid got to its file. That of the directory itself is no part of
/// it: what is above may move.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) dir: Arc<NodeRef>,
    pub(super) name: Arc<[u8]>,
    /// The same for the same place, and rarely for two.
    key: u64,
}

impl Place {
    pub(super) fn new(dir: &Arc<NodeRef>, name: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        (dir.node, name).hash(&mut hasher);
        Place {
            dir: Arc::clone(dir),
            name: name.into(),
            key: hasher.finish(),
        }
    }

    fn is(&self, other: &Place) -> bool {
        let is_same_dir =
            self.dir.node == other.dir.node && Arc::ptr_eq(&self.dir.tree, &other.dir.tree);
        is_same_dir && self.name == other.name
    }
}

/// What a fid stands for.
pub(super) struct Fid {
    /// Who attached.
    pub(super) user: Arc<User>,
    pub(super) node: Arc<NodeRef>,
    /// Changes only while the table of fids is locked. The root has none, nor has what
    /// was reached by `..`.
    place: Option<Arc<Mutex<Place>>>,
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
    pub(super) flags: XattrFlags,
    /// It is taken away, and has no value.
    pub(super) removes: bool,
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
    /// A file that `user` found at `place`.
    pub(super) fn new(
        user: &Arc<User>,
        node: Arc<NodeRef>,
        place: Option<Place>,
        state: FidState,
    ) -> Self {
        Fid {
            user: Arc::clone(user),
            node,
            place: place.map(|place| Arc::new(Mutex::new(place))),
            state,
        }
    }

    /// The same file, not opened.
    pub(super) fn cloned(&self) -> Fid {
        self.in_state(FidState::Path)
    }

    /// The same file, used for something else.
    pub(super) fn in_state(&self, state: FidState) -> Fid {
        Fid {
            user: Arc::clone(&self.user),
            node: Arc::clone(&self.node),
            place: self.place.clone(),
            state,
        }
    }

    /// By what name it got to its file, with the moves since then that were made
    /// through this connection.
    pub(super) fn place(&self) -> Option<Place> {
        self.lock_place().map(|place| place.clone())
    }

    fn lock_place(&self) -> Option<MutexGuard<'_, Place>> {
        let place = self.place.as_ref()?;
        Some(place.lock().unwrap_or_else(PoisonError::into_inner))
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
    meanings: HashMap<u32, Arc<Fid>>,
    placed: Placed,
    quota: Quota,
}

/// Which fids have a place: pairs of a place's key and a fid.
#[derive(Default)]
struct Placed(BTreeSet<(u64, u32)>);

impl FidTable {
    /// A table for as many fids as `quota` has.
    pub(super) fn new(quota: Quota) -> Self {
        FidTable(Mutex::new(Fids {
            meanings: HashMap::new(),
            placed: Placed::default(),
            quota,
        }))
    }

    /// What `fid` stands for; `EBADF`.
    pub(super) fn get(&self, fid: u32) -> Result<Arc<Fid>> {
        let fids = self.lock();
        let meaning = fids.meanings.get(&fid).ok_or(Errno::EBADF)?;
        Ok(Arc::clone(meaning))
    }

    /// Sets a fid aside that is to get a meaning, so that whatever is made for it will
    /// have one: `EBADF` if it is in use (fids are the client's to choose), `ENFILE` if
    /// there are too many.
    pub(super) fn reserve(&self, fid: u32) -> Result<Reserved<'_>> {
        let mut fids = self.lock();
        match fids.meanings.contains_key(&fid) || fid == NOFID {
            true => Err(Errno::EBADF),
            false if !fids.quota.take(1) => Err(Errno::ENFILE),
            false => Ok(Reserved {
                table: self,
                fid,
                is_used: false,
            }),
        }
    }

    /// Gives a fid that is in use another meaning.
    pub(super) fn replace(&self, fid: u32, meaning: Fid) {
        let before = self.lock().put(fid, Arc::new(meaning));
        drop(before); // outside the lock: it may close a file
    }

    /// A file was moved: whatever fid got to it by its old name goes along.
    pub(super) fn follow(&self, from: &Place, to: &Place) {
        let left = self.lock().follow(from, to);
        drop(left); // outside the lock: it may forget a directory
    }

    /// Takes a fid out; `EBADF`.
    pub(super) fn remove(&self, fid: u32) -> Result<Arc<Fid>> {
        let mut fids = self.lock();
        let meaning = fids.take(fid).ok_or(Errno::EBADF)?;
        fids.quota.give_back(1);
        Ok(meaning)
    }

    fn lock(&self) -> MutexGuard<'_, Fids> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fid that is free, and counts already. Given back when it is dropped.
pub(super) struct Reserved<'t> {
    table: &'t FidTable,
    fid: u32,
    is_used: bool,
}

impl Reserved<'_> {
    /// Gives it its meaning.
    pub(super) fn fill(mut self, meaning: Fid) {
        self.is_used = true;
        let before = self.table.lock().put(self.fid, Arc::new(meaning));
        drop(before); // none: nobody else gives this fid a meaning meanwhile
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.table.lock().quota.give_back(1);
        }
    }
}

impl Fids {
    /// Gives a fid a meaning, instead of the one that it had.
    fn put(&mut self, number: u32, fid: Arc<Fid>) -> Option<Arc<Fid>> {
        let before = self.take(number);
        if let Some(place) = fid.lock_place() {
            self.placed.0.insert((place.key, number));
        }
        self.meanings.insert(number, fid);
        before
    }

    fn take(&mut self, number: u32) -> Option<Arc<Fid>> {
        let fid = self.meanings.remove(&number)?;
        if let Some(place) = fid.lock_place() {
            self.placed.0.remove(&(place.key, number));
        }
        Some(fid)
    }

    /// The places that were left.
    fn follow(&mut self, from: &Place, to: &Place) -> Vec<Place> {
        let mut left = Vec::new();
        for number in self.placed.by(from.key) {
            let fid = self.meanings.get(&number);
            let Some(mut place) = fid.and_then(|fid| fid.lock_place()) else {
                continue;
            };
            // Another fid may have brought it there already.
            if place.is(from) {
                left.push(std::mem::replace(&mut *place, to.clone()));
            }
            if place.key != from.key {
                self.placed.0.remove(&(from.key, number));
                self.placed.0.insert((place.key, number));
            }
        }
        left
    }
}

impl Placed {
    /// The fids whose place has this key; others are not looked at.
    fn by(&self, key: u64) -> Vec<u32> {
        let all = self.0.range((key, 0)..=(key, u32::MAX));
        all.map(|(_, number)| *number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_concerns_the_fids_that_have_its_place_and_no_others() {
        let ends = [0, 1, u32::MAX];
        let keys = [0, 6, 7, 8, u64::MAX].into_iter();
        let all = keys.flat_map(|key| ends.map(|number| (key, number)));
        let placed = Placed(all.collect());
        assert_eq!(placed.by(7), ends);
        assert_eq!(placed.by(u64::MAX), ends);
        assert_eq!(placed.by(5), []);
    }
}
