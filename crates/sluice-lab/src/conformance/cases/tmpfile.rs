//! Files made without a name.

use crate::conformance::client::{ROOT, fails, opened};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{CreateArgs, Errno, NewNode, OpenFlags};

const TMPFILE: Needs = Needs::TMPFILE;

pub(super) const CASES: &[Case] = &[
    case!(an_unnamed_file_has_no_name, TMPFILE),
    case!(an_unnamed_file_is_read_and_written, TMPFILE),
    case!(an_unnamed_file_gets_a_name, TMPFILE),
    case!(an_unnamed_file_gets_two_names, TMPFILE),
    case!(an_unnamed_file_gets_a_name_elsewhere, TMPFILE),
    case!(a_name_that_is_taken_is_not_given, TMPFILE),
    case!(an_exclusive_one_gets_no_name, TMPFILE),
    case!(an_unnamed_file_is_open_for_writing, TMPFILE),
    case!(an_unnamed_file_obeys_the_umask, TMPFILE),
    case!(an_unnamed_file_in_a_file_is_enotdir, TMPFILE),
    case!(an_unnamed_file_in_a_removed_directory_gets_no_name, TMPFILE),
    case!(an_unnamed_file_is_truncated, TMPFILE),
    case!(
        an_unnamed_file_belongs_to_the_caller,
        TMPFILE.union(Needs::ROOT)
    ),
    case!(unnamed_files_differ, TMPFILE),
];

const READ_WRITE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);

fn an_unnamed_file_has_no_name(w: &World) {
    let c = w.client();
    let file = c.tmpfile(ROOT, READ_WRITE, 0o600).unwrap();
    assert!(c.names(ROOT).is_empty());
    let attr = c.getattr(file.node).unwrap();
    assert!(attr.mode.is_file());
    assert_eq!((attr.nlink, attr.size), (0, 0));
}

fn an_unnamed_file_is_read_and_written(w: &World) {
    let c = w.client();
    let file = c.tmpfile(ROOT, READ_WRITE, 0o600).unwrap();
    assert_eq!(c.write(file, 0, b"content"), Ok(7));
    assert_eq!(c.read(file, 0, 10).unwrap(), b"content");
    assert_eq!(c.content(file.node), b"content");
    c.close(file).unwrap();
}

fn an_unnamed_file_gets_a_name(w: &World) {
    let c = w.client();
    let file = c.tmpfile(ROOT, READ_WRITE, 0o600).unwrap();
    c.write(file, 0, b"content").unwrap();
    let linked = c.link(file.node, ROOT, "f").unwrap();
    assert_eq!(linked.attr.nlink, 1);
    assert_eq!(c.names(ROOT), ["f"]);
    c.close(file).unwrap();
    assert_eq!(c.content(c.lookup(ROOT, "f").unwrap().node), b"content");
}

fn an_unnamed_file_gets_two_names(w: &World) {
    let c = w.client();
    let file = c.tmpfile(ROOT, READ_WRITE, 0o600).unwrap();
    c.link(file.node, ROOT, "a").unwrap();
    assert_eq!(c.link(file.node, ROOT, "b").unwrap().attr.nlink, 2);
    c.unlink(ROOT, "a").unwrap();
    c.unlink(ROOT, "b").unwrap();
    // It had a name once, and so gets none again.
    fails(c.link(file.node, ROOT, "c"), Errno::ENOENT);
}

fn an_unnamed_file_gets_a_name_elsewhere(w: &World) {
    let c = w.client();
    let (a, b) = (c.dir(ROOT, "a"), c.dir(ROOT, "b"));
    let file = c.tmpfile(a, READ_WRITE, 0o600).unwrap();
    c.link(file.node, b, "f").unwrap();
    assert!(c.names(a).is_empty());
    assert_eq!(c.names(b), ["f"]);
}

fn a_name_that_is_taken_is_not_given(w: &World) {
    let c = w.client();
    let kept = c.file(ROOT, "f", b"kept");
    let file = c.tmpfile(ROOT, READ_WRITE, 0o600).unwrap();
    fails(c.link(file.node, ROOT, "f"), Errno::EEXIST);
    assert_eq!(c.content(kept), b"kept");
    c.link(file.node, ROOT, "g").unwrap();
}

fn an_exclusive_one_gets_no_name(w: &World) {
    let c = w.client();
    let flags = READ_WRITE | OpenFlags::EXCLUSIVE;
    let file = c.tmpfile(ROOT, flags, 0o600).unwrap();
    fails(c.link(file.node, ROOT, "f"), Errno::ENOENT);
    assert!(c.names(ROOT).is_empty());
}

fn an_unnamed_file_is_open_for_writing(w: &World) {
    let c = w.client();
    fails(c.tmpfile(ROOT, OpenFlags::READ, 0o600), Errno::EINVAL);
    let file = c.tmpfile(ROOT, OpenFlags::WRITE, 0o600).unwrap();
    c.write(file, 0, b"x").unwrap();
    fails(c.read(file, 0, 1), Errno::EBADF);
}

fn an_unnamed_file_obeys_the_umask(w: &World) {
    let c = w.client();
    let args = CreateArgs {
        flags: READ_WRITE,
        new: NewNode {
            umask: 0o027,
            ..NewNode::with_perm(0o666)
        },
    };
    let created = c.session().tmpfile(&c.ctx(), ROOT, &args).unwrap();
    assert_eq!(created.entry.attr.mode.perm(), 0o640);
    let linked = c.link(opened(&created).node, ROOT, "f").unwrap();
    assert_eq!(linked.attr.mode.perm(), 0o640);
}

fn an_unnamed_file_in_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.tmpfile(file, READ_WRITE, 0o600), Errno::ENOTDIR);
}

fn an_unnamed_file_in_a_removed_directory_gets_no_name(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.rmdir(ROOT, "d").unwrap();
    // Linux makes one, which nothing can reach; refusing is as good.
    if let Ok(file) = c.tmpfile(dir, READ_WRITE, 0o600) {
        assert_eq!(c.getattr(file.node).unwrap().nlink, 0);
        fails(c.link(file.node, dir, "f"), Errno::ENOENT);
    }
}

fn an_unnamed_file_is_truncated(w: &World) {
    let c = w.client();
    let file = c.tmpfile(ROOT, READ_WRITE, 0o600).unwrap();
    c.write(file, 0, b"content").unwrap();
    assert_eq!(c.truncate(file.node, 3).unwrap().size, 3);
    assert_eq!(c.read(file, 0, 10).unwrap(), b"con");
}

fn an_unnamed_file_belongs_to_the_caller(w: &World) {
    let c = w.client();
    c.chmod(ROOT, 0o777).unwrap();
    let user = c.as_user(1000, 2000, &[]);
    let file = user.tmpfile(ROOT, READ_WRITE, 0o640).unwrap();
    let attr = c.getattr(file.node).unwrap();
    assert_eq!((attr.uid, attr.gid), (1000, 2000));
    assert_eq!(attr.mode.perm(), 0o640);
}

fn unnamed_files_differ(w: &World) {
    let c = w.client();
    let a = c.tmpfile(ROOT, READ_WRITE, 0o600).unwrap();
    let b = c.tmpfile(ROOT, READ_WRITE, 0o600).unwrap();
    c.write(a, 0, b"a").unwrap();
    c.write(b, 0, b"b").unwrap();
    assert_eq!(c.read(a, 0, 2).unwrap(), b"a");
    let ino = |node| c.getattr(node).unwrap().ino;
    assert_ne!(ino(a.node), ino(b.node));
}
