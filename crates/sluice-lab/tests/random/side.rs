//! One side of the comparison: a session, and what it handed out so far.

use crate::op::{Entry, Node, Op, Open, Step, Who};
use sluice_lab::conformance::{Client, File};
use sluice_vfs::{
    AccessChecks, Attr, AttrMask, CreateArgs, Device, DirWant, Errno, FileService, FileType, Lock,
    NewNode, NodeId, Result, SessionLimits, UnixMode, Whence, WriteArgs,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What both sides must agree on about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    mode: UnixMode,
    nlink: u32,
    uid: u32,
    gid: u32,
    rdev: Device,
    /// Of files and symlinks; file systems differ about directories.
    size: Option<u64>,
}

/// What lies at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    facts: Facts,
    content: Bytes,
    xattrs: BTreeMap<String, Bytes>,
}

/// Bytes that are told in runs.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Bytes(Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Written bytes count up, so a run is what goes on in steps of 0 or 1.
        let is_run = |a: &u8, b: &u8| a == b || a.wrapping_add(1) == *b;
        let runs = self.0.chunk_by(is_run);
        let runs = runs.map(|run| format!("{}x{:?}..{:?}", run.len(), run.first(), run.last()));
        f.debug_list().entries(runs).finish()
    }
}

/// A name, the kind of object behind it, and the node if it was asked for.
type Listed = (String, Option<FileType>, Option<usize>);

/// What a reply says, without numbers that are each side's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// There was nothing to do it on.
    Skipped,
    Failed(Errno),
    Done,
    Count(u64),
    Bytes(Bytes),
    Facts(Facts),
    /// A node by the order in which nodes became known.
    Entry(usize, Facts),
    Names(BTreeSet<String>),
    Listing(Vec<Listed>),
    InTheWay(Option<Lock>),
}

pub(crate) struct Side {
    root: Client,
    user: Client,
    nodes: Vec<Option<NodeId>>,
    files: Vec<File>,
    has_allocated: bool,
}

impl Side {
    pub(crate) fn attach(service: &dyn FileService, checks: AccessChecks) -> Self {
        let root = Client::attach(service, checks, SessionLimits::default(), true);
        // A temporary directory is its owner's alone, the model's root isn't.
        root.chmod(NodeId::ROOT, 0o777).expect("chmod");
        Side {
            user: root.as_user(1000, 2000, &[3000]),
            root,
            nodes: vec![Some(NodeId::ROOT)],
            files: Vec::new(),
            has_allocated: false,
        }
    }

    pub(crate) fn run(&mut self, step: &Step) -> Said {
        let client = match (step.who, &step.op) {
            // Whether users may link what is others' is a setting of the host,
            // and a refused fallocate may have cost set-id bits already.
            (_, Op::Link(..) | Op::Fallocate(..)) | (Who::Root, _) => self.root.clone(),
            (Who::User, _) => self.user.clone(),
        };
        match self.try_run(&client, &step.op) {
            Some(Ok(said)) => said,
            Some(Err(error)) => Said::Failed(error),
            None => Said::Skipped,
        }
    }

    /// `None` if the operation names what isn't there.
    fn try_run(&mut self, c: &Client, op: &Op) -> Option<Result<Said>> {
        Some(match op {
            Op::Lookup(at) => {
                let (dir, name) = self.at(*at)?;
                c.lookup(dir, name).map(|found| self.entry(&found))
            }
            Op::Parent(node) => {
                let node = self.living(*node)?;
                c.parent(node).map(|found| self.entry(&found))
            }
            Op::Forget(node) => self.forget(c, *node),
            Op::Getattr(node) => c.getattr(self.node(*node)?).map(|attr| facts_said(&attr)),
            Op::Fgetattr(open) => c.fgetattr(self.file(*open)?).map(|attr| facts_said(&attr)),
            Op::Setattr(node, changes) => c
                .setattr(self.node(*node)?, *changes)
                .map(|attr| facts_said(&attr)),
            Op::Fsetattr(open, changes) => c
                .fsetattr(self.file(*open)?, *changes)
                .map(|attr| facts_said(&attr)),
            Op::Access(node, access) => done(c.access(self.node(*node)?, *access)),
            Op::Readlink(node) => c.readlink(self.node(*node)?).map(bytes_said),
            Op::Getxattr(node, name) => c.getxattr(self.node(*node)?, name).map(bytes_said),
            Op::Setxattr(node, name, value, flags) => {
                done(c.setxattr_if(self.node(*node)?, name, value, *flags))
            }
            Op::Removexattr(node, name) => done(c.removexattr(self.node(*node)?, name)),
            Op::Listxattr(node) => c
                .listxattr(self.node(*node)?)
                .map(|names| Said::Names(names.into_iter().collect())),
            Op::Mkdir(at, perm, umask) => {
                let (dir, name) = self.at(*at)?;
                let made = c.mkdir_with(dir, name, &new_node(*perm, *umask));
                made.map(|made| self.entry(&made))
            }
            Op::Mknod(at, file_type, perm, umask) => {
                let (dir, name) = self.at(*at)?;
                let new = new_node(*perm, *umask);
                let made = c.mknod_with(dir, name, *file_type, Device::default(), &new);
                made.map(|made| self.entry(&made))
            }
            Op::Symlink(at) => {
                let (dir, name) = self.at(*at)?;
                let made = c.symlink(dir, name, "some/target");
                made.map(|made| self.entry(&made))
            }
            Op::Link(node, at) => {
                let (node, (dir, name)) = (self.node(*node)?, self.at(*at)?);
                c.link(node, dir, name).map(|made| self.entry(&made))
            }
            Op::Unlink(at) => {
                let (dir, name) = self.at(*at)?;
                done(c.unlink(dir, name))
            }
            Op::Rmdir(at) => {
                let (dir, name) = self.at(*at)?;
                done(c.rmdir(dir, name))
            }
            Op::Rename(old, new, flags) => {
                done(c.rename_with(self.at(*old)?, self.at(*new)?, *flags))
            }
            Op::Open(node, flags) => {
                let node = self.node(*node)?;
                c.open(node, *flags).map(|file| self.opened(file))
            }
            Op::Create(at, flags, perm, umask) => {
                let (dir, name) = self.at(*at)?;
                if self.leads_to_a_dir(dir, name) {
                    // `EISDIR` or `EACCES`, whichever is looked at first.
                    return None;
                }
                let made = c.create_with(dir, name, *flags, &new_node(*perm, *umask));
                made.map(|made| self.created(&made))
            }
            Op::Tmpfile(dir, flags, perm) => {
                let args = CreateArgs {
                    flags: *flags,
                    new: new_node(*perm, 0),
                };
                let dir = self.living(*dir)?;
                let made = c.session().tmpfile(&c.ctx(), dir, &args);
                made.map(|made| self.created(&made))
            }
            Op::Flush(open) => done(c.flush(self.file(*open)?)),
            Op::Close(open) => {
                let file = self.file(*open)?;
                self.files.retain(|other| *other != file);
                done(c.close(file))
            }
            Op::Read(open, offset, len) => c.read(self.file(*open)?, *offset, *len).map(bytes_said),
            Op::Write(open, offset, len, kills) => {
                let file = self.file(*open)?;
                let args = WriteArgs {
                    offset: *offset,
                    kill_suidgid: *kills,
                    is_writeback: false,
                };
                let bytes: Vec<u8> = (0..*len).map(|at| (at % 251) as u8 + 1).collect();
                c.write_with(file.node, Some(file.handle), &args, &bytes)
                    .map(|written| Said::Count(written.len as u64))
            }
            Op::List(open, with_entries) => {
                let file = self.file(*open)?;
                self.list(c, file, *with_entries)
            }
            Op::Fallocate(open, mode, start, len) => {
                let range = *start..start.wrapping_add(*len);
                self.has_allocated = true;
                done(c.fallocate(self.file(*open)?, *mode, range))
            }
            Op::Lseek(open, offset, whence) => {
                let file = self.file(*open)?;
                if is_dir(c, file)? {
                    // File systems have positions of their own there.
                    return None;
                }
                if self.has_allocated && *whence != Whence::End {
                    // Allocated space is data or not, as caches have it.
                    return None;
                }
                c.lseek(file, *offset, *whence).map(Said::Count)
            }
            Op::Copy((from, at_from), (to, at_to), len) => {
                let (from, to) = (self.file(*from)?, self.file(*to)?);
                if is_dir(c, from)? || is_dir(c, to)? {
                    // Refused for more than one reason.
                    return None;
                }
                c.copy_range((from, *at_from), (to, *at_to), *len)
                    .map(|count| Said::Count(count as u64))
            }
            Op::Lock(open, owner, kind, start, end) => {
                let c = c.as_owner(*owner);
                done(c.lock(self.file(*open)?, *kind, *start..*end))
            }
            Op::Getlk(open, owner, kind, start, end) => {
                let c = c.as_owner(*owner);
                c.getlk(self.file(*open)?, *kind, *start..*end)
                    .map(Said::InTheWay)
            }
            Op::Flock(open, kind) => done(flock(c, self.file(*open)?, *kind)),
        })
    }

    /// Everything below the root by path, with content and attributes.
    pub(crate) fn tree(&self) -> BTreeMap<String, Leaf> {
        let mut tree = BTreeMap::new();
        let mut left = vec![(String::new(), NodeId::ROOT)];
        while let Some((path, node)) = left.pop() {
            let c = &self.root;
            let attr = c.getattr(node).expect("getattr");
            let content = match attr.mode.file_type() {
                Some(FileType::Regular) => c.content(node),
                Some(FileType::Symlink) => c.readlink(node).expect("readlink"),
                _ => Vec::new(),
            };
            let xattrs = c.listxattr(node).expect("listxattr");
            let xattrs = xattrs.into_iter().map(|name| {
                let value = c.getxattr(node, &name).expect("getxattr");
                (name, Bytes(value))
            });
            let xattrs = xattrs.collect();
            if attr.mode.is_dir() {
                for name in c.names(node) {
                    let found = c.lookup(node, &name).expect("lookup");
                    left.push((format!("{path}/{name}"), found.node));
                }
            }
            let leaf = Leaf {
                facts: facts(&attr),
                content: Bytes(content),
                xattrs,
            };
            tree.insert(path, leaf);
        }
        tree
    }

    fn node(&self, node: Node) -> Option<NodeId> {
        self.nodes[node.0 % self.nodes.len()]
    }

    /// A node that still has a name: file systems differ in what a removed
    /// directory may be asked for.
    fn living(&self, node: Node) -> Option<NodeId> {
        let node = self.node(node)?;
        let attr = self.root.getattr(node).ok()?;
        (attr.nlink > 0).then_some(node)
    }

    fn at<'n>(&self, (dir, name): Entry) -> Option<(NodeId, &'n str)> {
        Some((self.node(dir)?, name))
    }

    fn file(&self, open: Open) -> Option<File> {
        let len = self.files.len();
        (len > 0).then(|| self.files[open.0 % len])
    }

    fn leads_to_a_dir(&self, dir: NodeId, name: &str) -> bool {
        let Ok(found) = self.root.lookup(dir, name) else {
            return false;
        };
        self.root.forget(found.node, 1);
        found.attr.mode.is_dir()
    }

    /// The place of a node in the order of becoming known.
    fn learn(&mut self, node: NodeId) -> usize {
        let known = self.nodes.iter().position(|known| *known == Some(node));
        known.unwrap_or_else(|| {
            self.nodes.push(Some(node));
            self.nodes.len() - 1
        })
    }

    fn entry(&mut self, entry: &sluice_vfs::Entry) -> Said {
        Said::Entry(self.learn(entry.node), facts(&entry.attr))
    }

    fn opened(&mut self, file: File) -> Said {
        self.files.push(file);
        Said::Count(self.files.len() as u64)
    }

    fn created(&mut self, created: &sluice_vfs::Created) -> Said {
        self.opened(File {
            node: created.entry.node,
            handle: created.opened.handle,
        });
        self.entry(&created.entry)
    }

    /// All references at once, unless the node is open: what a peer forgets
    /// while it uses it is nobody's concern.
    fn forget(&mut self, c: &Client, node: Node) -> Result<Said> {
        let index = node.0 % self.nodes.len();
        let Some(id) = self.nodes[index] else {
            return Ok(Said::Skipped);
        };
        if index == 0 || self.files.iter().any(|file| file.node == id) {
            return Ok(Said::Skipped);
        }
        c.forget(id, u64::MAX);
        self.nodes[index] = None;
        c.getattr(id).map(|attr| facts_said(&attr))
    }

    fn list(&mut self, c: &Client, file: File, with_entries: bool) -> Result<Said> {
        let want = match with_entries {
            true => DirWant::Entries(AttrMask::BASIC),
            false => DirWant::Names,
        };
        let mut listed = c.list(file, want)?;
        // Nodes become known in the order of names, which differs else.
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let listing = listed.iter().map(|entry| {
            let node = entry.entry.map(|entry| self.learn(entry.node));
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            (name, entry.file_type, node)
        });
        Ok(Said::Listing(listing.collect()))
    }
}

/// An owner of its own for each handle, as open file descriptions are.
fn flock(c: &Client, file: File, kind: sluice_vfs::LockKind) -> Result<()> {
    c.as_owner(1 << 32 | file.handle.0).flock(file, kind)
}

fn is_dir(c: &Client, file: File) -> Option<bool> {
    Some(c.fgetattr(file).ok()?.mode.is_dir())
}

fn new_node(perm: u32, umask: u32) -> NewNode<'static> {
    NewNode {
        umask,
        ..NewNode::with_perm(perm)
    }
}

fn facts(attr: &Attr) -> Facts {
    let is_sized = attr.mode.is_file() || attr.mode.is_symlink();
    Facts {
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        size: is_sized.then_some(attr.size),
    }
}

fn facts_said(attr: &Attr) -> Said {
    Said::Facts(facts(attr))
}

fn bytes_said(bytes: Vec<u8>) -> Said {
    Said::Bytes(Bytes(bytes))
}

fn done<T>(outcome: Result<T>) -> Result<Said> {
    outcome.map(|_| Said::Done)
}
