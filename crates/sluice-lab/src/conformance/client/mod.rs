//! A thin hand on a session: a caller, its lock owner, and fewer words per call.

mod content;
mod locks;
mod names;
mod nodes;

use super::recorder::Recorder;
use sluice_vfs::{
    AccessChecks, AttachOptions, Caller, Created, Ctx, DirWant, Entry, Errno, EventSink, Features,
    FileService, FileType, HandleId, LockOwner, NodeId, OpenFlags, Peer, Result, Session,
    SessionLimits, Stat,
};
use std::sync::Arc;

/// The root of every tree.
pub(super) const ROOT: NodeId = NodeId::ROOT;

/// A session in the hands of one caller. Operations return what the session
/// returns; the few that don't (`dir`, `file`, `content`, `names`) are for
/// setting the scene and panic when they fail.
#[derive(Clone)]
pub struct Client {
    session: Arc<dyn Session>,
    /// What the session was told.
    pub events: Arc<Recorder>,
    /// Attributes of the root when the session was attached.
    pub root: Stat,
    /// What the session says that it can do.
    pub features: Features,
    pub(super) uid: u32,
    pub(super) gid: u32,
    groups: Vec<u32>,
    owner: LockOwner,
}

/// An open file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its node.
    pub node: NodeId,
    /// Its handle.
    pub handle: HandleId,
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: Vec<u8>,
    /// Inode number.
    pub ino: u64,
    /// Kind of object, where told.
    pub file_type: Option<FileType>,
    /// Where to go on behind it.
    pub next_cookie: u64,
    /// The entry, where asked for.
    pub entry: Option<Entry>,
}

impl Client {
    /// Attaches to `service`. The caller is the superuser where `is_root`, else
    /// the user that runs the tests.
    #[track_caller]
    pub fn attach(
        service: &dyn FileService,
        checks: AccessChecks,
        limits: SessionLimits,
        is_root: bool,
    ) -> Self {
        let events = Arc::new(Recorder::default());
        let attached = service.attach(AttachOptions {
            peer: Peer {
                label: "conformance".to_owned(),
                checks,
            },
            export: b"",
            events: Arc::clone(&events) as Arc<dyn EventSink>,
            limits,
        });
        let attached = attached.expect("attaching works");
        let (uid, gid) = match is_root {
            true => (0, 0),
            false => (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
        };
        Client {
            session: attached.session,
            events,
            root: attached.root,
            features: attached.features,
            uid,
            gid,
            groups: Vec::new(),
            owner: LockOwner(1),
        }
    }

    /// The same session in the hands of another user.
    pub fn as_user(&self, uid: u32, gid: u32, groups: &[u32]) -> Client {
        Client {
            uid,
            gid,
            groups: groups.to_vec(),
            ..self.clone()
        }
    }

    /// The same session and caller with another lock owner.
    pub fn as_owner(&self, owner: u64) -> Client {
        Client {
            owner: LockOwner(owner),
            ..self.clone()
        }
    }

    /// The session itself.
    pub fn session(&self) -> &dyn Session {
        self.session.as_ref()
    }

    /// The context that calls are made with.
    pub fn ctx(&self) -> Ctx<'_> {
        Ctx::new(Caller {
            uid: self.uid,
            gid: self.gid,
            groups: &self.groups,
            pid: 4711,
        })
        .with_lock_owner(self.owner)
    }

    // ---- setting the scene -----------------------------------------------

    /// A new directory, mode 0755.
    #[track_caller]
    pub fn dir(&self, parent: NodeId, name: &str) -> NodeId {
        self.mkdir(parent, name, 0o755).expect("mkdir").node
    }

    /// A new file, mode 0644, with this content.
    #[track_caller]
    pub fn file(&self, parent: NodeId, name: &str, content: &[u8]) -> NodeId {
        let file = self.create(parent, name, 0o644).expect("create");
        if !content.is_empty() {
            let written = self.write(file, 0, content).expect("write");
            assert_eq!(written, content.len(), "all is written");
        }
        self.close(file).expect("close");
        file.node
    }

    /// All of a file's content.
    #[track_caller]
    pub fn content(&self, node: NodeId) -> Vec<u8> {
        let file = self.open(node, OpenFlags::READ).expect("open");
        let size = self.getattr(node).expect("getattr").size;
        let bytes = self.read(file, 0, size as usize + 1).expect("read");
        self.close(file).expect("close");
        bytes
    }

    /// The names in a directory, sorted, without dots.
    #[track_caller]
    pub fn names(&self, node: NodeId) -> Vec<String> {
        let dir = self.opendir(node).expect("opendir");
        let listed = self.list(dir, DirWant::Names).expect("readdir");
        self.close(dir).expect("close");
        let mut names: Vec<String> = listed
            .into_iter()
            .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
            .filter(|name| name != "." && name != "..")
            .collect();
        names.sort();
        names
    }
}

/// The open file in what create and its kin return.
pub(super) fn opened(created: &Created) -> File {
    File {
        node: created.entry.node,
        handle: created.opened.handle,
    }
}

/// Asserts that an operation fails with `errno`.
#[track_caller]
pub(super) fn fails<T: std::fmt::Debug>(outcome: Result<T>, errno: Errno) {
    match outcome {
        Err(error) if error == errno => {}
        other => panic!("expected {errno:?}, got {other:?}"),
    }
}

/// Asserts that an operation fails with one of `errnos`, where Linux's own file
/// systems differ.
#[track_caller]
pub(super) fn fails_with_one<T: std::fmt::Debug>(outcome: Result<T>, errnos: &[Errno]) {
    match outcome {
        Err(error) if errnos.contains(&error) => {}
        other => panic!("expected one of {errnos:?}, got {other:?}"),
    }
}
