//! What is opened, how, and what never is.

use crate::harness::{
    RDWR, ROOT, Share, Terms, errno, in_child, is_child, myself, name, require_root, skipped,
};
use rustix::fs::{CWD, FileType as HostType, Mode, mknodat};
use sluice_export::ExportOptions;
use sluice_vfs::{
    Access, CreateArgs, Errno, Features, FileIoctl, FileType, NewNode, NodeId, OpenFlags, Release,
    SetAttr, WriteArgs, XattrFlags, XattrName,
};
use std::fs;
use std::os::unix::fs::symlink;

fn make_fifo(share: &Share) {
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, share.path("fifo"), HostType::Fifo, mode, 0).unwrap();
}

#[test]
fn only_files_and_directories_are_ever_opened() {
    let share = Share::new();
    make_fifo(&share);
    symlink("/etc/passwd", share.path("link")).unwrap();
    fs::create_dir(share.path("dir")).unwrap();
    fs::write(share.path("file"), "").unwrap();
    for (child, flags, expected) in [
        ("fifo", OpenFlags::READ, Errno::EOPNOTSUPP),
        ("fifo", OpenFlags::WRITE, Errno::EOPNOTSUPP),
        ("link", OpenFlags::READ, Errno::ELOOP),
        ("link", OpenFlags::READ | OpenFlags::DIRECTORY, Errno::ELOOP),
        (
            "file",
            OpenFlags::READ | OpenFlags::DIRECTORY,
            Errno::ENOTDIR,
        ),
        ("dir", OpenFlags::WRITE, Errno::EISDIR),
        ("dir", OpenFlags::READ | OpenFlags::TRUNCATE, Errno::EISDIR),
    ] {
        assert_eq!(errno(share.open(share.node(child), flags)), expected);
        let outcome = share
            .s()
            .lookup_open(&ROOT, NodeId::ROOT, name(child), flags);
        assert_eq!(errno(outcome), expected, "{child}");
    }
    assert!(share.open(share.node("dir"), OpenFlags::READ).is_ok());
}

#[test]
fn sockets_and_devices_are_made_but_not_opened() {
    let share = Share::new();
    let new = NewNode::with_perm(0o600);
    let no_device = sluice_vfs::Device::default();
    for (child, file_type) in [("s", FileType::Socket), ("p", FileType::Fifo)] {
        let made = share
            .s()
            .mknod(&ROOT, NodeId::ROOT, name(child), file_type, no_device, &new)
            .unwrap();
        assert_eq!(made.attr.mode.file_type(), Some(file_type));
        assert_eq!(
            errno(share.open(made.node, OpenFlags::READ)),
            Errno::EOPNOTSUPP
        );
    }
    for file_type in [FileType::Directory, FileType::Symlink] {
        let outcome = share
            .s()
            .mknod(&ROOT, NodeId::ROOT, name("x"), file_type, no_device, &new);
        assert_eq!(errno(outcome), Errno::EINVAL);
    }
}

#[test]
fn creating_opens_what_is_there_but_nothing_dangerous() {
    let share = Share::new();
    make_fifo(&share);
    symlink("elsewhere", share.path("link")).unwrap();
    fs::create_dir(share.path("dir")).unwrap();
    fs::write(share.path("file"), "old").unwrap();
    let create = |child, flags| share.create_as(&ROOT, NodeId::ROOT, child, flags);
    assert_eq!(errno(create("fifo", RDWR)), Errno::EOPNOTSUPP);
    assert_eq!(errno(create("link", RDWR)), Errno::ELOOP);
    assert!(!share.path("elsewhere").exists());
    assert_eq!(errno(create("dir", RDWR)), Errno::EISDIR);
    assert_eq!(errno(create("dir", OpenFlags::READ)), Errno::EISDIR);
    for child in ["fifo", "link", "dir", "file"] {
        let outcome = create(child, RDWR | OpenFlags::EXCLUSIVE);
        assert_eq!(errno(outcome), Errno::EEXIST);
    }
    let found = create("file", RDWR).unwrap();
    assert!(!found.is_new);
    let read = share.read(found.entry.node, Some(found.opened.handle));
    assert_eq!(read.unwrap(), b"old");
    let emptied = create("file", RDWR | OpenFlags::TRUNCATE).unwrap();
    assert!(!emptied.is_new);
    assert_eq!(emptied.entry.attr.size, 0);
    assert_eq!(share.attr(emptied.entry.node).size, 0);
    let made = create("new", RDWR | OpenFlags::EXCLUSIVE).unwrap();
    assert!(made.is_new);
}

#[test]
fn a_file_made_unreadable_can_be_used_through_its_first_handle() {
    let share = Share::new();
    let args = CreateArgs {
        flags: RDWR,
        new: NewNode::with_perm(0o000),
    };
    let made = share
        .s()
        .create(&ROOT, NodeId::ROOT, name("f"), &args)
        .unwrap();
    let handle = Some(made.opened.handle);
    share.write(made.entry.node, handle, 0, b"abc").unwrap();
    assert_eq!(share.read(made.entry.node, handle).unwrap(), b"abc");
}

#[test]
fn handles_do_what_they_were_opened_for() {
    let share = Share::new();
    fs::write(share.path("f"), "abc").unwrap();
    let node = share.node("f");
    let reader = share.open(node, OpenFlags::READ).unwrap();
    let writer = share.open(node, OpenFlags::WRITE).unwrap();
    assert_eq!(
        errno(share.write(node, Some(reader), 0, b"x")),
        Errno::EBADF
    );
    assert_eq!(errno(share.read(node, Some(writer))), Errno::EBADF);
    fs::write(share.path("g"), "").unwrap();
    let other = share.node("g");
    assert_eq!(errno(share.read(other, Some(reader))), Errno::EBADF);
    share
        .s()
        .release(&ROOT, node, reader, &Release::default())
        .unwrap();
    assert_eq!(errno(share.read(node, Some(reader))), Errno::EBADF);
    let again = share.s().release(&ROOT, node, reader, &Release::default());
    assert_eq!(errno(again), Errno::EBADF);
    let how = Release {
        flush: true,
        unlock_flock: true,
    };
    share.s().flush(&ROOT, node, writer).unwrap();
    share.s().release(&ROOT, node, writer, &how).unwrap();
}

#[test]
fn a_handle_outlives_name_and_node() {
    let share = Share::new();
    let made = share.create("f");
    let (node, handle) = (made.entry.node, Some(made.opened.handle));
    share.s().unlink(&ROOT, NodeId::ROOT, name("f")).unwrap();
    share.s().forget(node, 1);
    share.write(node, handle, 0, b"still").unwrap();
    assert_eq!(share.read(node, handle).unwrap(), b"still");
    let shrink = SetAttr {
        size: Some(2),
        perm: Some(0o600),
        ..SetAttr::default()
    };
    let stat = share.s().setattr(&ROOT, node, handle, &shrink).unwrap();
    assert_eq!((stat.attr.size, stat.attr.nlink), (2, 0));
    assert_eq!(errno(share.read(node, None)), Errno::ESTALE);
}

#[test]
fn an_unnamed_file_can_get_a_name() {
    let share = Share::new();
    let args = CreateArgs {
        flags: RDWR,
        new: NewNode::with_perm(0o640),
    };
    let made = match share.s().tmpfile(&ROOT, NodeId::ROOT, &args) {
        Err(Errno::EOPNOTSUPP) => {
            skipped("no O_TMPFILE here");
            return;
        }
        outcome => outcome.unwrap(),
    };
    let flags = args.flags | OpenFlags::EXCLUSIVE;
    let nameless = share
        .s()
        .tmpfile(&ROOT, NodeId::ROOT, &CreateArgs { flags, ..args })
        .unwrap();
    let linked = share
        .s()
        .link(&ROOT, nameless.entry.node, NodeId::ROOT, name("never"));
    assert_eq!(errno(linked), Errno::ENOENT);
    share
        .write(made.entry.node, Some(made.opened.handle), 0, b"x")
        .unwrap();
    assert_eq!(share.attr(made.entry.node).nlink, 0);
    share
        .s()
        .link(&ROOT, made.entry.node, NodeId::ROOT, name("named"))
        .unwrap();
    assert_eq!(fs::read(share.path("named")).unwrap(), b"x");
}

#[test]
fn read_only_exports_stay_as_they_are() {
    let share = Share::on(Terms {
        options: ExportOptions {
            read_only: true,
            ..ExportOptions::default()
        },
        ..Terms::default()
    });
    fs::write(share.path("f"), "abc").unwrap();
    fs::create_dir(share.path("d")).unwrap();
    assert!(share.attached.features.contains(Features::READ_ONLY));
    let (s, root, f, new) = (
        share.s(),
        NodeId::ROOT,
        share.node("f"),
        NewNode::with_perm(0o777),
    );
    let erofs = |outcome: sluice_vfs::Result<()>| assert_eq!(outcome, Err(Errno::EROFS));
    let create = |child, flags| share.create_as(&ROOT, root, child, flags).map(drop);
    erofs(share.open(f, OpenFlags::WRITE).map(drop));
    erofs(
        share
            .open(f, OpenFlags::READ | OpenFlags::TRUNCATE)
            .map(drop),
    );
    erofs(create("new", OpenFlags::READ));
    erofs(create("f", RDWR));
    assert_eq!(create("f", OpenFlags::READ), Ok(()));
    assert_eq!(
        create("f", OpenFlags::READ | OpenFlags::EXCLUSIVE),
        Err(Errno::EEXIST)
    );
    erofs(s.mkdir(&ROOT, root, name("x"), &new).map(drop));
    erofs(s.symlink(&ROOT, root, name("x"), b"t", &new).map(drop));
    erofs(s.link(&ROOT, f, root, name("x")).map(drop));
    erofs(s.unlink(&ROOT, root, name("f")).map(drop));
    erofs(s.rmdir(&ROOT, root, name("d")).map(drop));
    let (old, to) = ((root, name("f")), (root, name("g")));
    erofs(s.rename(&ROOT, old, to, Default::default()).map(drop));
    erofs(
        s.setattr(
            &ROOT,
            f,
            None,
            &SetAttr {
                perm: Some(0),
                ..SetAttr::default()
            },
        )
        .map(drop),
    );
    let xattr = XattrName::new(b"user.x").unwrap();
    erofs(
        s.setxattr(&ROOT, f, xattr, b"", XattrFlags::empty())
            .map(drop),
    );
    erofs(s.removexattr(&ROOT, f, xattr).map(drop));
    erofs(share.write(f, None, 0, b"x").map(drop));
    erofs(
        s.fallocate(&ROOT, f, None, Default::default(), 0..10)
            .map(drop),
    );
    erofs(s.ioctl(&ROOT, f, None, &FileIoctl::SetFlags(0)).map(drop));
    erofs(s.access(&ROOT, f, Access::WRITE));
    erofs(
        s.tmpfile(&ROOT, root, &CreateArgs { flags: RDWR, new })
            .map(drop),
    );
    assert_eq!(
        errno(s.backing(&ROOT, f, None, 0..3, true)),
        Errno::EOPNOTSUPP
    );
    assert!(s.backing(&ROOT, f, None, 0..3, false).is_ok());
    assert_eq!(share.read(f, None).unwrap(), b"abc");
}

#[test]
fn writeback_peers_read_through_writers() {
    let share = Share::on(Terms {
        options: ExportOptions {
            writeback: true,
            ..ExportOptions::default()
        },
        ..Terms::default()
    });
    fs::write(share.path("f"), "abc").unwrap();
    let node = share.node("f");
    let writer = Some(share.open(node, OpenFlags::WRITE).unwrap());
    assert_eq!(share.read(node, writer).unwrap(), b"abc");
    let made = share.create_as(&ROOT, NodeId::ROOT, "new", OpenFlags::WRITE);
    let made = made.unwrap();
    let read = share.read(made.entry.node, Some(made.opened.handle));
    assert_eq!(read.unwrap(), b"");
}

#[test]
fn flushed_pages_keep_their_place_in_files_open_for_appending() {
    let share = Share::new();
    fs::write(share.path("f"), "abc").unwrap();
    let node = share.node("f");
    let flags = RDWR | OpenFlags::APPEND;
    let handle = Some(share.open(node, flags).unwrap());
    let placed = WriteArgs {
        offset: 1,
        is_writeback: true,
        ..WriteArgs::default()
    };
    let mut source = sluice_vfs::SliceSource::new(b"B");
    share
        .s()
        .write(&ROOT, node, handle, &placed, &mut source)
        .unwrap();
    assert_eq!(share.read(node, handle).unwrap(), b"aBc");
    share.write(node, handle, 0, b"d").unwrap();
    assert_eq!(share.read(node, handle).unwrap(), b"aBcd");
}

#[test]
fn files_that_can_only_be_appended_to_are_opened_for_that() {
    let share = Share::new();
    fs::write(share.path("f"), "abc").unwrap();
    let node = share.node("f");
    let set = |flags| {
        let request = FileIoctl::SetFlags(flags);
        share.s().ioctl(&ROOT, node, None, &request)
    };
    // FS_APPEND_FL, where the file system has it and we are allowed to set it.
    if let Err(errno) = set(0x20) {
        skipped(&format!("files can't be made append-only here: {errno}"));
        return;
    }
    let appending = share.open(node, OpenFlags::WRITE | OpenFlags::APPEND);
    let written = appending.and_then(|handle| share.write(node, Some(handle), 0, b"d"));
    let plain = share.open(node, OpenFlags::WRITE).map(drop);
    set(0).unwrap();
    assert_eq!(written, Ok(1));
    assert_eq!(plain, Err(Errno::EPERM));
    assert_eq!(fs::read(share.path("f")).unwrap(), b"abcd");
}

#[test]
fn a_loan_is_no_wider_than_asked_for() {
    let share = Share::new();
    fs::write(share.path("f"), "abc").unwrap();
    let node = share.node("f");
    let narrow = share.s().backing(&ROOT, node, None, 1..3, false).unwrap();
    assert_eq!(narrow.offset, 1);
    assert!(rustix::io::pwrite(&narrow.fd, b"x", 0).is_err());
    let wide = share.s().backing(&ROOT, node, None, 0..3, true).unwrap();
    assert_eq!(rustix::io::pwrite(&wide.fd, b"x", 0), Ok(1));
    assert_ne!(narrow.id, wide.id);
    share.s().release_backing(narrow.id);
    make_fifo(&share);
    let outcome = share
        .s()
        .backing(&ROOT, share.node("fifo"), None, 0..1, false);
    assert_eq!(errno(outcome), Errno::EOPNOTSUPP);
}

#[test]
fn the_process_may_move_its_root_afterwards() {
    require_root!();
    if !is_child() {
        let test = "opening::the_process_may_move_its_root_afterwards";
        return in_child(myself(), test);
    }
    let share = Share::new();
    fs::write(share.path("f"), "abc").unwrap();
    let empty = tempfile::tempdir().unwrap();
    rustix::process::chroot(empty.path()).unwrap();
    assert!(!std::path::Path::new("/proc").exists());

    let node = share.node("f");
    let handle = Some(share.open(node, RDWR).unwrap());
    share.write(node, handle, 0, b"A").unwrap();
    assert_eq!(share.read(node, handle).unwrap(), b"Abc");
    share.create("new");
    let linked = share.s().link(&ROOT, node, NodeId::ROOT, name("g"));
    assert_eq!(linked.unwrap().attr.nlink, 2);
    let xattr = XattrName::new(b"trusted.x").unwrap();
    let flags = XattrFlags::empty();
    share.s().setxattr(&ROOT, node, xattr, b"v", flags).unwrap();
    share.s().access(&ROOT, node, Access::READ).unwrap();
}
