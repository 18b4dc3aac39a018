//! Layers over the engine, through the neck.

use rustix::fs::XattrFlags;
use sluice_export::{Export, ExportOptions};
use sluice_vfs::{
    AccessChecks, AttachOptions, Attached, AttrMask, Caller, CreateArgs, Ctx, Errno, Event,
    EventSink, Features, FileService, FileType, HandleId, Name, NewNode, NodeId, OpenFlags, Peer,
    SecurityLabel, Session, SessionLimits, VecSink, XattrName,
};
use sluicefs::layers::second_look::SecondLooks;
use sluicefs::layers::xattr_map::XattrMapped;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

struct Unheard;

impl EventSink for Unheard {
    fn publish(&self, _: &Event<'_>) {}
}

/// A session on `dir` with other names for its attributes.
fn mapped(dir: &Path, rules: &str) -> Attached {
    let rules = rules.parse().unwrap();
    attach(dir, |export| Arc::new(XattrMapped::new(export, rules)))
}

/// A session on `dir` through a layer.
fn attach(
    dir: &Path,
    layer: impl FnOnce(Arc<dyn FileService>) -> Arc<dyn FileService>,
) -> Attached {
    let export = Export::open(dir, ExportOptions::default()).unwrap();
    let service = layer(Arc::new(export));
    let options = AttachOptions {
        peer: Peer {
            label: "test".to_owned(),
            checks: AccessChecks::Peer,
        },
        export: b"",
        events: Arc::new(Unheard),
        limits: SessionLimits::default(),
    };
    service.attach(options).unwrap()
}

/// Whoever runs the test.
fn ctx() -> Ctx<'static> {
    Ctx::new(Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: &[],
        pid: 0,
    })
}

fn name(name: &str) -> Name<'_> {
    Name::try_from(name).unwrap()
}

fn labelled(name: &str) -> NewNode<'_> {
    let label = SecurityLabel {
        name: XattrName::new(name.as_bytes()).unwrap(),
        value: b"label",
    };
    NewNode {
        label: Some(label),
        ..NewNode::with_perm(0o755)
    }
}

#[test]
fn labels_have_their_names_on_the_host_too() {
    let dir = tempfile::tempdir().unwrap();
    let attached = mapped(dir.path(), ":map::user.virtiofs.:");
    let (session, root, ctx) = (&attached.session, NodeId::ROOT, ctx());
    let new = labelled("security.selinux");
    let args = CreateArgs {
        flags: OpenFlags::READ | OpenFlags::WRITE,
        new,
    };
    session.mkdir(&ctx, root, name("dir"), &new).unwrap();
    let node = session.mknod(
        &ctx,
        root,
        name("node"),
        FileType::Regular,
        sluice_vfs::Device::from_u32(0),
        &new,
    );
    node.unwrap();
    session.create(&ctx, root, name("file"), &args).unwrap();
    for child in ["dir", "node", "file"] {
        let mut value = [0; 16];
        let on_host = "user.virtiofs.security.selinux";
        let len = rustix::fs::getxattr(dir.path().join(child), on_host, &mut value[..]);
        assert_eq!(&value[..len.unwrap()], b"label", "{child}");
    }
    let unnamed = session.tmpfile(&ctx, root, &args).unwrap().entry.node;
    let mut value = VecSink::new(16);
    let key = XattrName::new(b"security.selinux").unwrap();
    session
        .getxattr(&ctx, unnamed, key, Some(&mut value))
        .unwrap();
    assert_eq!(value.into_bytes(), b"label");
}

#[test]
fn a_label_that_is_refused_refuses_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let attached = mapped(dir.path(), ":bad:all:security.:security.: :ok:all:::");
    let new = labelled("security.selinux");
    let made = attached
        .session
        .mkdir(&ctx(), NodeId::ROOT, name("dir"), &new);
    assert_eq!(made.map(drop), Err(Errno::EPERM));
    assert!(!dir.path().join("dir").exists());
}

#[test]
fn a_list_is_as_long_as_what_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for key in ["user.hidden.by.the.map", "user.virtiofs.user.a"] {
        rustix::fs::setxattr(&file, key, b"", XattrFlags::empty()).unwrap();
    }
    let session = mapped(dir.path(), ":map::user.virtiofs.:").session;
    let found = session.lookup(&ctx(), NodeId::ROOT, name("file")).unwrap();
    let node = found.found().unwrap().node;
    let list = |room: usize| {
        let mut sink = VecSink::new(room);
        let len = session.listxattr(&ctx(), node, Some(&mut sink))?;
        let list = sink.into_bytes();
        assert_eq!(list.len(), len);
        Ok(list)
    };
    assert_eq!(session.listxattr(&ctx(), node, None), Ok(7));
    assert_eq!(list(7), Ok(b"user.a\0".to_vec()));
    assert_eq!(list(6), Err(Errno::ERANGE));
}

#[test]
fn what_the_hosts_kernel_no_longer_knows_is_not_promised() {
    let dir = tempfile::tempdir().unwrap();
    let promised = |rules| mapped(dir.path(), rules).features;
    let all = promised(":map::user.virtiofs.:");
    assert!(!all.intersects(Features::KILL_SUIDGID | Features::POSIX_ACL));
    let some = promised(":map:trusted.:user.virtiofs.:");
    assert!(some.contains(Features::KILL_SUIDGID));
}

/// A file of a directory, looked at through a layer that answers from a lookup for so
/// long.
struct Looked {
    dir: tempfile::TempDir,
    session: Arc<dyn Session>,
}

impl Looked {
    fn new(window: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let layer = |export| Arc::new(SecondLooks::within(export, window)) as _;
        let session = attach(dir.path(), layer).session;
        Looked { dir, session }
    }

    /// A thread finds the file, and then the host makes it longer.
    fn find(&self, pid: u32) -> NodeId {
        let found = self
            .session
            .lookup(&thread(pid), NodeId::ROOT, name("file"));
        let node = found.unwrap().found().unwrap().node;
        let path = self.dir.path().join("file");
        let file = std::fs::OpenOptions::new().append(true).open(path);
        file.unwrap().write_all(b"x").unwrap();
        node
    }

    fn size(&self, pid: u32, node: NodeId, handle: Option<HandleId>) -> u64 {
        let stat = self
            .session
            .getattr(&thread(pid), node, handle, AttrMask::BASIC);
        stat.unwrap().attr.size
    }
}

fn thread(pid: u32) -> Ctx<'static> {
    let mut ctx = ctx();
    ctx.caller.pid = pid;
    ctx
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_lookup_answers_the_next_question_once() {
    let looked = Looked::new(HOUR);
    let node = looked.find(7);
    assert_eq!(looked.size(7, node, None), 0);
    assert_eq!(looked.size(7, node, None), 1);
}

#[test]
fn a_lookup_answers_nobody_else_nothing_else_and_not_for_long() {
    let looked = Looked::new(HOUR);
    let node = looked.find(7);
    assert_eq!(looked.size(8, node, None), 1, "another thread");
    // One whose number falls into the same place.
    assert_eq!(looked.size(7 + 64, node, None), 1);
    looked.find(7);
    assert_ne!(looked.size(7, NodeId::ROOT, None), 1, "another node");
    assert_eq!(looked.size(7, node, None), 2);
    let flags = OpenFlags::READ;
    let opened = looked.session.open(&thread(8), node, flags).unwrap();
    looked.find(7);
    let size = looked.size(7, node, Some(opened.handle));
    assert_eq!(size, 3, "an open file");

    looked.find(7);
    let mut other = thread(7);
    other.caller.uid += 1;
    let stat = looked
        .session
        .getattr(&other, node, None, AttrMask::BASIC)
        .unwrap();
    assert_eq!(stat.attr.size, 4, "another user");
    looked.find(0);
    assert_eq!(looked.size(0, node, None), 5, "nobody knows who");

    let looked = Looked::new(Duration::ZERO);
    let node = looked.find(7);
    assert_eq!(looked.size(7, node, None), 1, "time has passed");
}

#[test]
fn a_lookup_answers_nothing_after_a_change_or_another_question() {
    let looked = Looked::new(HOUR);
    let root = NodeId::ROOT;
    let new = NewNode::with_perm(0o755);
    let node = looked.find(7);
    looked
        .session
        .mkdir(&thread(8), root, name("dir"), &new)
        .unwrap();
    assert_eq!(looked.size(7, node, None), 1, "somebody changed something");
    looked.find(7);
    looked.session.statfs(&thread(7), root).unwrap();
    assert_eq!(looked.size(7, node, None), 2, "another question was asked");
    looked.find(7);
    looked.session.statfs(&thread(8), root).unwrap();
    assert_eq!(looked.size(7, node, None), 2, "by another thread");
    looked.find(7);
    let missing = looked.session.lookup(&thread(7), root, name("missing"));
    assert_eq!(missing.unwrap().found(), Err(Errno::ENOENT));
    assert_eq!(
        looked.size(7, node, None),
        4,
        "something else was looked for"
    );
    for flags in [OpenFlags::READ, OpenFlags::WRITE | OpenFlags::TRUNCATE] {
        looked.find(7);
        let before = looked.size(7, node, None);
        looked.find(7);
        looked.session.open(&thread(8), node, flags).unwrap();
        let is_cut = flags.contains(OpenFlags::TRUNCATE);
        let expected = if is_cut { 0 } else { before + 1 };
        assert_eq!(looked.size(7, node, None), expected, "{flags:?}");
    }
}
