//! The tree of the null server: nodes in a vector, names in hash tables.

use rustix::fs::FileType;
use sluice_proto::fuse::wire::{Attr, FattrValid, SetattrIn};
use sluice_vfs::Errno;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Files that get larger than this forget what is in them, and read as zeros:
/// they are there to be measured, not to be kept.
const KEPT_BYTES: u64 = 64 << 20;

/// How much is moved at a time that is not kept: so little that it stays in the
/// processor's cache.
pub(super) const PIECE: usize = 64 * 1024;
static ZEROS: [u8; PIECE] = [0; PIECE];

/// Node id of the root.
pub(super) const ROOT: u64 = 1;

/// Nodes are never forgotten: a clone of the tree that was loaded replaces
/// them when a session begins. The content that clones have in common is
/// shared.
#[derive(Clone, Default)]
pub(super) struct Tree {
    /// The node with id 1 comes first.
    nodes: Vec<Node>,
}

#[derive(Clone)]
pub(super) struct Node {
    pub(super) attr: Attr,
    pub(super) kind: Kind,
}

#[derive(Clone)]
pub(super) enum Kind {
    Directory(Directory),
    File(Content),
    Symlink(Arc<[u8]>),
    Other,
}

#[derive(Clone)]
pub(super) enum Content {
    Kept(Arc<Vec<u8>>),
    Zeros,
}

/// Entries stay where they are, so that a place in a listing stays good.
#[derive(Clone, Default)]
pub(super) struct Directory {
    entries: Vec<Option<(Arc<[u8]>, u64)>>,
    by_name: HashMap<Arc<[u8]>, usize>,
}

impl Directory {
    pub(super) fn find(&self, name: &[u8]) -> Option<u64> {
        let &place = self.by_name.get(name)?;
        Some(self.entries.get(place)?.as_ref()?.1)
    }

    /// Entries from `offset` on: name, node, and where to go on behind it.
    pub(super) fn list(&self, offset: u64) -> impl Iterator<Item = (&[u8], u64, u64)> {
        let places = self.entries.iter().enumerate().skip(offset as usize);
        places.filter_map(|(place, entry)| {
            let (name, node) = entry.as_ref()?;
            Some((&**name, *node, place as u64 + 1))
        })
    }

    fn insert(&mut self, name: &[u8], node: u64) {
        let name: Arc<[u8]> = name.into();
        self.by_name.insert(name.clone(), self.entries.len());
        self.entries.push(Some((name, node)));
    }

    fn remove(&mut self, name: &[u8]) {
        if let Some(entry) = self
            .by_name
            .remove(name)
            .and_then(|place| self.entries.get_mut(place))
        {
            *entry = None;
        }
    }

    fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

/// Bytes of a file, which stay as they are while this lives.
pub(super) enum Data {
    Kept(Arc<Vec<u8>>, Range<usize>),
    Zeros(usize),
}

impl Data {
    pub(super) fn len(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let (kept, zeros) = match self {
            Data::Kept(bytes, range) => (bytes.get(range.clone()), 0),
            Data::Zeros(len) => (None, *len),
        };
        let zeros = (0..zeros).step_by(PIECE).map(move |start| {
            let len = PIECE.min(zeros - start);
            ZEROS.get(..len).unwrap_or_default()
        });
        kept.into_iter().chain(zeros)
    }
}

impl Tree {
    /// A copy of what lies below a host directory.
    pub(super) fn load(root: &Path) -> io::Result<Self> {
        let mut tree = Tree::default();
        tree.add(
            attr_of(&fs::metadata(root)?),
            Kind::Directory(Directory::default()),
        );
        tree.load_into(ROOT, root)?;
        Ok(tree)
    }

    fn load_into(&mut self, parent: u64, dir: &Path) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let path = entry.path();
            let metadata = entry.metadata()?;
            let kind = match FileType::from_raw_mode(metadata.mode()) {
                FileType::Directory => Kind::Directory(Directory::default()),
                FileType::RegularFile if metadata.len() > KEPT_BYTES => Kind::File(Content::Zeros),
                FileType::RegularFile => Kind::File(Content::Kept(fs::read(&path)?.into())),
                FileType::Symlink => {
                    let target = fs::read_link(&path)?.into_os_string().into_vec();
                    Kind::Symlink(target.into())
                }
                _ => Kind::Other,
            };
            let is_directory = matches!(kind, Kind::Directory(_));
            let node = self.add(attr_of(&metadata), kind);
            if let Ok(directory) = self.directory_mut(parent) {
                directory.insert(entry.file_name().as_bytes(), node);
            }
            if is_directory {
                self.load_into(node, &path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, attr: Attr, kind: Kind) -> u64 {
        self.nodes.push(Node { attr, kind });
        self.nodes.len() as u64
    }

    pub(super) fn node(&self, id: u64) -> Result<&Node, Errno> {
        let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        index
            .and_then(|index| self.nodes.get(index))
            .ok_or(Errno::ENOENT)
    }

    fn node_mut(&mut self, id: u64) -> Result<&mut Node, Errno> {
        let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        index
            .and_then(|index| self.nodes.get_mut(index))
            .ok_or(Errno::ENOENT)
    }

    pub(super) fn directory(&self, id: u64) -> Result<&Directory, Errno> {
        match &self.node(id)?.kind {
            Kind::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn directory_mut(&mut self, id: u64) -> Result<&mut Directory, Errno> {
        let node = self.node_mut(id)?;
        (node.attr.mtime, node.attr.mtimensec) = now();
        match &mut node.kind {
            Kind::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn lookup(&self, parent: u64, name: &[u8]) -> Result<u64, Errno> {
        self.directory(parent)?.find(name).ok_or(Errno::ENOENT)
    }

    /// A new node under a new name; its type is in the mode.
    pub(super) fn make(
        &mut self,
        parent: u64,
        name: &[u8],
        mode: u32,
        owner: (u32, u32),
    ) -> Result<u64, Errno> {
        let kind = match FileType::from_raw_mode(mode) {
            FileType::Directory => Kind::Directory(Directory::default()),
            FileType::RegularFile => Kind::File(Content::Kept(Arc::default())),
            _ => Kind::Other,
        };
        self.insert(parent, name, new_attr(mode, owner), kind)
    }

    pub(super) fn make_symlink(
        &mut self,
        parent: u64,
        name: &[u8],
        target: &[u8],
        owner: (u32, u32),
    ) -> Result<u64, Errno> {
        let attr = Attr {
            size: target.len() as u64,
            ..new_attr(SYMLINK | 0o777, owner)
        };
        self.insert(parent, name, attr, Kind::Symlink(target.into()))
    }

    fn insert(&mut self, parent: u64, name: &[u8], attr: Attr, kind: Kind) -> Result<u64, Errno> {
        if self.directory(parent)?.find(name).is_some() {
            return Err(Errno::EEXIST);
        }
        // Far from the numbers of what was loaded.
        let ino = (1 << 40) + self.nodes.len() as u64;
        let (seconds, nanoseconds) = now();
        let node = self.add(
            Attr {
                ino,
                nlink: 1,
                blksize: 4096,
                atime: seconds,
                mtime: seconds,
                ctime: seconds,
                atimensec: nanoseconds,
                mtimensec: nanoseconds,
                ctimensec: nanoseconds,
                ..attr
            },
            kind,
        );
        self.directory_mut(parent)?.insert(name, node);
        Ok(node)
    }

    pub(super) fn link(&mut self, node: u64, parent: u64, name: &[u8]) -> Result<(), Errno> {
        if self.directory(parent)?.find(name).is_some() {
            return Err(Errno::EEXIST);
        }
        self.directory_mut(parent)?.insert(name, node);
        let attr = &mut self.node_mut(node)?.attr;
        attr.nlink = attr.nlink.saturating_add(1);
        Ok(())
    }

    /// Takes a name away: of a directory only if that is empty.
    pub(super) fn unlink(&mut self, parent: u64, name: &[u8]) -> Result<(), Errno> {
        let id = self.lookup(parent, name)?;
        if self
            .directory(id)
            .is_ok_and(|directory| !directory.is_empty())
        {
            return Err(Errno::ENOTEMPTY);
        }
        self.directory_mut(parent)?.remove(name);
        let attr = &mut self.node_mut(id)?.attr;
        attr.nlink = attr.nlink.saturating_sub(1);
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        (parent, name): (u64, &[u8]),
        (new_parent, new_name): (u64, &[u8]),
    ) -> Result<(), Errno> {
        let node = self.lookup(parent, name)?;
        match self.lookup(new_parent, new_name) {
            Ok(there) if there == node => return Ok(()),
            Ok(_) => self.unlink(new_parent, new_name)?,
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
        self.directory_mut(parent)?.remove(name);
        self.directory_mut(new_parent)?.insert(new_name, node);
        Ok(())
    }

    pub(super) fn set_attr(&mut self, id: u64, args: &SetattrIn) -> Result<(), Errno> {
        if args.valid.contains(FattrValid::SIZE) {
            self.resize(id, args.size)?;
        }
        let attr = &mut self.node_mut(id)?.attr;
        if args.valid.contains(FattrValid::MODE) {
            attr.mode = attr.mode & !0o7777 | args.mode & 0o7777;
        }
        if args.valid.contains(FattrValid::UID) {
            attr.uid = args.uid;
        }
        if args.valid.contains(FattrValid::GID) {
            attr.gid = args.gid;
        }
        if args.valid.contains(FattrValid::ATIME_NOW) {
            (attr.atime, attr.atimensec) = now();
        } else if args.valid.contains(FattrValid::ATIME) {
            (attr.atime, attr.atimensec) = (args.atime, args.atimensec);
        }
        if args.valid.contains(FattrValid::MTIME_NOW) {
            (attr.mtime, attr.mtimensec) = now();
        } else if args.valid.contains(FattrValid::MTIME) {
            (attr.mtime, attr.mtimensec) = (args.mtime, args.mtimensec);
        }
        (attr.ctime, attr.ctimensec) = now();
        Ok(())
    }

    pub(super) fn resize(&mut self, id: u64, size: u64) -> Result<(), Errno> {
        let node = self.node_mut(id)?;
        let Kind::File(content) = &mut node.kind else {
            return Err(Errno::EINVAL);
        };
        if size > KEPT_BYTES {
            *content = Content::Zeros;
        } else if let Content::Kept(bytes) = content {
            Arc::make_mut(bytes).resize(size as usize, 0);
        }
        node.set_size(size);
        Ok(())
    }

    /// Up to `size` bytes from `offset` on.
    pub(super) fn read(&self, id: u64, offset: u64, size: u32) -> Result<Data, Errno> {
        let node = self.node(id)?;
        let Kind::File(content) = &node.kind else {
            return Err(Errno::EISDIR);
        };
        let left = node.attr.size.saturating_sub(offset);
        let len = u64::from(size).min(left) as usize;
        Ok(match content {
            Content::Zeros => Data::Zeros(len),
            // What is left is in memory, and so its place is a number of bytes.
            Content::Kept(_) if len == 0 => Data::Zeros(0),
            Content::Kept(bytes) => {
                let start = offset as usize;
                Data::Kept(Arc::clone(bytes), start..start + len)
            }
        })
    }

    /// Writes `size` bytes, which `fill` puts where they belong; it is not
    /// called for a file whose content is not kept.
    pub(super) fn write(
        &mut self,
        id: u64,
        offset: u64,
        size: u32,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Errno> {
        let end = offset.checked_add(size.into()).ok_or(Errno::EFBIG)?;
        let node = self.node_mut(id)?;
        if end > node.attr.size {
            self.resize(id, end)?;
        }
        let node = self.node_mut(id)?;
        if let Kind::File(Content::Kept(bytes)) = &mut node.kind
            && let Some(place) = Arc::make_mut(bytes).get_mut(offset as usize..end as usize)
        {
            fill(place);
        }
        (node.attr.mtime, node.attr.mtimensec) = now();
        Ok(())
    }
}

impl Node {
    fn set_size(&mut self, size: u64) {
        self.attr.size = size;
        self.attr.blocks = size.div_ceil(512);
        (self.attr.mtime, self.attr.mtimensec) = now();
    }
}

/// Types in a mode, as x86-64 Linux has them, where this server runs.
pub(super) const DIRECTORY: u32 = 0o040_000;
pub(super) const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

fn new_attr(mode: u32, (uid, gid): (u32, u32)) -> Attr {
    Attr {
        mode,
        uid,
        gid,
        ..Attr::default()
    }
}

fn attr_of(metadata: &Metadata) -> Attr {
    Attr {
        ino: metadata.ino(),
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: metadata.atime().cast_unsigned(),
        mtime: metadata.mtime().cast_unsigned(),
        ctime: metadata.ctime().cast_unsigned(),
        atimensec: metadata.atime_nsec() as u32,
        mtimensec: metadata.mtime_nsec() as u32,
        ctimensec: metadata.ctime_nsec() as u32,
        mode: metadata.mode(),
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        blksize: 4096,
        ..Attr::default()
    }
}

/// Seconds and nanoseconds.
fn now() -> (u64, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or((0, 0), |since| (since.as_secs(), since.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Tree {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/file"), "content").unwrap();
        Tree::load(dir.path()).unwrap()
    }

    fn names(tree: &Tree, directory: u64, offset: u64) -> Vec<String> {
        let directory = tree.directory(directory).unwrap();
        let name = |(name, ..): (&[u8], u64, u64)| String::from_utf8(name.to_vec()).unwrap();
        let mut names: Vec<_> = directory.list(offset).map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn names_come_and_go() {
        let mut tree = sample();
        let sub = tree.lookup(ROOT, b"sub").unwrap();
        assert_eq!(tree.unlink(ROOT, b"sub"), Err(Errno::ENOTEMPTY));
        let other = tree.make(sub, b"other", REGULAR, (0, 0)).unwrap();
        assert_eq!(
            tree.make(sub, b"other", REGULAR, (0, 0)),
            Err(Errno::EEXIST)
        );
        tree.rename((sub, b"other"), (ROOT, b"moved")).unwrap();
        assert_eq!(tree.lookup(ROOT, b"moved"), Ok(other));
        tree.rename((ROOT, b"moved"), (sub, b"file")).unwrap();
        assert_eq!(names(&tree, sub, 0), ["file"]);
        tree.unlink(sub, b"file").unwrap();
        tree.unlink(ROOT, b"sub").unwrap();
        assert_eq!(tree.lookup(ROOT, b"sub"), Err(Errno::ENOENT));
    }

    #[test]
    fn a_place_in_a_listing_outlives_removals() {
        let mut tree = sample();
        for name in [b"a", b"b", b"c"] {
            tree.make(ROOT, name, REGULAR, (0, 0)).unwrap();
        }
        let all: Vec<_> = tree.directory(ROOT).unwrap().list(0).collect();
        let (_, _, after_a) = *all.iter().find(|(name, ..)| *name == b"a").unwrap();
        tree.unlink(ROOT, b"a").unwrap();
        assert_eq!(names(&tree, ROOT, after_a), ["b", "c"]);
    }

    #[test]
    fn content_is_kept_until_it_is_large() {
        let loaded = sample();
        let mut tree = loaded.clone();
        let sub = tree.lookup(ROOT, b"sub").unwrap();
        let file = tree.lookup(sub, b"file").unwrap();
        let kept = |tree: &Tree| match &tree.node(file).unwrap().kind {
            Kind::File(Content::Kept(bytes)) => Some(bytes.to_vec()),
            _ => None,
        };
        tree.write(file, 9, 2, |place| place.copy_from_slice(b"ed"))
            .unwrap();
        assert_eq!(kept(&tree).unwrap(), b"content\0\0ed");
        assert_eq!(kept(&loaded).unwrap(), b"content");
        let read = |tree: &Tree, offset| {
            let data = tree.read(file, offset, 4).unwrap();
            data.pieces().collect::<Vec<_>>().concat()
        };
        assert_eq!(
            [read(&tree, 8), read(&tree, 11)],
            [b"\0ed".to_vec(), vec![]]
        );
        tree.write(file, KEPT_BYTES, 1, |_| panic!("nowhere to put it"))
            .unwrap();
        assert_eq!(kept(&tree), None);
        let long = tree.read(file, 1, 200_000).unwrap();
        assert_eq!(long.len(), 200_000);
        assert_eq!(tree.node(file).unwrap().attr.size, KEPT_BYTES + 1);
    }
}
