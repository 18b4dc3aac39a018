//! Layers over the engine, through the neck.

use rustix::fs::XattrFlags;
use sluice_export::{Export, ExportOptions};
use sluice_vfs::{
    AccessChecks, AttachOptions, Attached, Caller, CreateArgs, Ctx, Errno, Event, EventSink,
    Features, FileService, FileType, Name, NewNode, NodeId, OpenFlags, Peer, SecurityLabel,
    SessionLimits, VecSink, XattrName,
};
use sluicefs::layers::xattr_map::XattrMapped;
use std::path::Path;
use std::sync::Arc;

struct Unheard;

impl EventSink for Unheard {
    fn publish(&self, _: &Event<'_>) {}
}

/// A session on `dir` with other names for its attributes.
fn mapped(dir: &Path, rules: &str) -> Attached {
    let export = Export::open(dir, ExportOptions::default()).unwrap();
    let service = XattrMapped::new(Arc::new(export), rules.parse().unwrap());
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
