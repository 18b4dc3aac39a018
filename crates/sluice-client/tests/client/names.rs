//! Names and attributes.

use crate::server::{PATIENCE, Run, client, only, options, over, serve_service};
use sluice_client::{
    Client, Device, Dialect, Errno, Error, FileType, Lock, LockKind, LockRange, LockStyle,
    OpenFlags, SetAttr, SetTime, Timestamp, XattrFlags,
};
use sluice_lab::model::{ModelOptions, ModelService};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn make(client: &Client, path: &str, content: &[u8]) {
    let file = client.create(path, OpenFlags::WRITE, 0o644).unwrap();
    file.write_all_at(content, 0).unwrap();
    file.close().unwrap();
}

fn listed(client: &Client, path: &str) -> BTreeSet<Vec<u8>> {
    let entries = client.read_dir(path).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .collect()
}

#[test]
fn names_are_made_listed_moved_and_removed_in_every_dialect() {
    for dialect in Dialect::ALL {
        let client = client(&only(dialect));
        client.create_dir("d", 0o755).unwrap();
        client.create_dir("d/e", 0o700).unwrap();
        let names: BTreeSet<Vec<u8>> = (0..500).map(|i| format!("n{i}").into_bytes()).collect();
        for name in &names {
            make(
                &client,
                &format!("d/e/{}", str::from_utf8(name).unwrap()),
                name,
            );
        }
        assert_eq!(listed(&client, "d/e"), names);
        let attr = client.metadata("d/e").unwrap();
        assert_eq!(
            (attr.mode.file_type(), attr.mode.perm()),
            (Some(FileType::Directory), 0o700)
        );
        assert_eq!(client.metadata("d/e/n17").unwrap().size, 3);

        client.rename("d/e/n17", "d/e/m17").unwrap();
        assert_eq!(
            client.metadata("d/e/n17").unwrap_err().errno(),
            Errno::ENOENT
        );
        let moved = client.rename("d/e/m17", "m17");
        match dialect {
            Dialect::Linux | Dialect::Sluice => assert_eq!(moved, Ok(())),
            _ => assert!(matches!(moved, Err(Error::NotInDialect { .. }))),
        }
        assert_eq!(
            client.remove_file("d/e").unwrap_err().errno(),
            Errno::EISDIR
        );
        assert_eq!(
            client.remove_dir("d/e/n1").unwrap_err().errno(),
            Errno::ENOTDIR
        );
        assert_eq!(
            client.remove_dir("d/e").unwrap_err().errno(),
            Errno::ENOTEMPTY
        );
        for entry in client.read_dir("d/e").unwrap().collect::<Vec<_>>() {
            let name = entry.unwrap().file_name().to_owned();
            client
                .remove_file(std::path::Path::new("d/e").join(name))
                .unwrap();
        }
        client.remove_dir("d/e").unwrap();
        assert!(listed(&client, "d").is_empty());
    }
}

#[test]
fn names_may_have_any_bytes() {
    let client = client(&options());
    let name = OsStr::from_bytes(b"\xff\n \\ \x01");
    client.create(name, OpenFlags::WRITE, 0o600).unwrap();
    assert_eq!(listed(&client, "/"), [name.as_bytes().to_vec()].into());
    assert!(client.metadata(name).unwrap().mode.is_file());
}

#[test]
fn links_are_followed_where_they_stand_in_the_way() {
    for dialect in [Dialect::Sluice, Dialect::Linux, Dialect::Unix] {
        let client = client(&only(dialect));
        client.create_dir("a", 0o755).unwrap();
        client.create_dir("a/b", 0o755).unwrap();
        make(&client, "a/b/file", b"content");
        client.symlink("b", "a/relative").unwrap();
        client.symlink("/a/relative/file", "absolute").unwrap();
        client.symlink("loop", "loop").unwrap();
        client.symlink("nowhere", "dangling").unwrap();
        for path in ["a/relative/file", "absolute", "a/relative/../b/file"] {
            assert_eq!(client.metadata(path).unwrap().size, 7, "{path}");
            let file = client.open(path, OpenFlags::READ).unwrap();
            assert_eq!(file.read_at(&mut [0; 9], 0), Ok(7), "{path}");
        }
        assert!(
            client
                .symlink_metadata("absolute")
                .unwrap()
                .mode
                .is_symlink()
        );
        assert_eq!(
            client.read_link("absolute").unwrap().to_str(),
            Some("/a/relative/file")
        );
        make(&client, "a/relative/new", b"");
        assert_eq!(client.metadata("a/b/new").unwrap().size, 0);
        let errno = |path: &str| client.metadata(path).unwrap_err().errno();
        assert_eq!(errno("loop"), Errno::ELOOP);
        assert_eq!(errno("dangling"), Errno::ENOENT);
        assert_eq!(errno("a/b/file/x"), Errno::ENOTDIR);
        assert_eq!(errno("a/c/x"), Errno::ENOENT);
        client.hard_link("a/b/file", "hard").unwrap();
        assert_eq!(
            client.metadata("hard").unwrap().ino,
            client.metadata("absolute").unwrap().ino
        );
        assert_eq!(client.read_link("hard").unwrap_err().errno(), Errno::EINVAL);
        client.remove_file("absolute").unwrap();
    }
}

#[test]
fn long_ways_take_several_messages() {
    for dialect in Dialect::ALL {
        let client = client(&only(dialect));
        let mut path = String::new();
        for index in 0..40 {
            path.push_str(&format!("/{index}"));
            client.create_dir(&path, 0o755).unwrap();
        }
        path.push_str("/file");
        make(&client, &path, b"deep");
        assert_eq!(client.metadata(&path).unwrap().size, 4);
        let file = client.open(&path, OpenFlags::READ).unwrap();
        assert_eq!(file.read_at(&mut [0; 9], 0), Ok(4));
        let missing = path.replace("/20/", "/x/");
        assert_eq!(
            client.metadata(&missing).unwrap_err().errno(),
            Errno::ENOENT
        );
        assert!(client.create(&missing, OpenFlags::WRITE, 0o600).is_err());
    }
}

#[test]
fn attributes_change() {
    for dialect in Dialect::ALL {
        let client = client(&only(dialect));
        make(&client, "f", b"0123456789");
        let changes = SetAttr {
            perm: Some(0o640),
            size: Some(4),
            mtime: Some(SetTime::To(Timestamp { sec: 1000, nsec: 0 })),
            ..SetAttr::default()
        };
        client.set_metadata("f", &changes).unwrap();
        let attr = client.metadata("f").unwrap();
        assert_eq!(
            (attr.mode.perm(), attr.size, attr.mtime.sec),
            (0o640, 4, 1000)
        );
        assert_eq!((attr.uid, attr.gid), (0, 0));
        let again = client.create("f", OpenFlags::WRITE | OpenFlags::EXCLUSIVE, 0o600);
        assert_eq!(again.map(drop).unwrap_err().errno(), Errno::EEXIST);
        client.create("f", OpenFlags::WRITE, 0o600).unwrap();
        assert_eq!(
            client.metadata("f").unwrap().size,
            4,
            "it was there and is opened"
        );
    }
}

#[test]
fn what_only_linux_has() {
    let client = client(&options());
    make(&client, "f", b"");
    client
        .set_xattr("f", b"user.a", b"value", XattrFlags::empty())
        .unwrap();
    client
        .set_xattr("f", b"user.b", &[7; 20_000], XattrFlags::empty())
        .unwrap();
    assert_eq!(client.xattr("f", b"user.a").unwrap(), b"value");
    assert_eq!(client.xattr("f", b"user.b").unwrap(), [7; 20_000]);
    for value in [&b"x"[..], b""] {
        let again = client.set_xattr("f", b"user.a", value, XattrFlags::CREATE);
        assert_eq!(again.unwrap_err().errno(), Errno::EEXIST);
    }
    assert_eq!(client.xattr_names("f").unwrap().len(), 2);
    client.remove_xattr("f", b"user.a").unwrap();
    assert_eq!(
        client.xattr("f", b"user.a").unwrap_err().errno(),
        Errno::ENODATA
    );
    client
        .make_node("pipe", FileType::Fifo, Device::default(), 0o600)
        .unwrap();
    let attr = client.metadata("pipe").unwrap();
    assert_eq!(attr.mode.file_type(), Some(FileType::Fifo));
    assert!(client.statfs("/").unwrap().bsize > 0);
}

#[test]
fn what_a_dialect_lacks_is_said() {
    let client = client(&only(Dialect::Plan9));
    make(&client, "f", b"");
    let changes = SetAttr::default();
    let (uid, perm) = (Some(5), Some(0o4755));
    for outcome in [
        client.set_metadata("f", &SetAttr { uid, ..changes }),
        client.set_metadata("f", &SetAttr { perm, ..changes }),
        client.symlink("x", "y"),
        client.hard_link("f", "g"),
        client.xattr("f", b"user.a").map(drop),
        client.statfs("/").map(drop),
    ] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::NotInDialect { .. }), "{error}");
        assert!(
            error.to_string().starts_with("9P2000 has no message for "),
            "{error}"
        );
    }
}

#[test]
fn locks_are_held_against_other_owners() {
    let client = client(&options());
    make(&client, "f", b"0123456789");
    let file = client
        .open("f", OpenFlags::READ | OpenFlags::WRITE)
        .unwrap();
    let lock = |kind| Lock {
        style: LockStyle::Posix,
        kind,
        range: LockRange { start: 2, end: 5 },
        pid: 1,
    };
    file.try_lock(b"one", &lock(LockKind::Write)).unwrap();
    let at_once = file.try_lock(b"two", &lock(LockKind::Read));
    // Also what is shorter than it takes to notice, and longer.
    let held = [50, 1500].map(|ms| {
        let limit = Duration::from_millis(ms);
        let begin = Instant::now();
        let outcome = file.lock_within(b"two", &lock(LockKind::Read), limit);
        assert!(begin.elapsed() >= limit);
        outcome
    });
    for outcome in [at_once].into_iter().chain(held) {
        assert_eq!(outcome.unwrap_err().errno(), Errno::EAGAIN);
    }
    let in_the_way = file
        .lock_in_the_way(b"two", &lock(LockKind::Read))
        .unwrap()
        .unwrap();
    assert_eq!(
        (in_the_way.kind, in_the_way.range.end),
        (LockKind::Write, 5)
    );
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| file.lock(b"two", &lock(LockKind::Write)));
        // Whether or not it waits already, it gets it after this.
        file.lock(b"one", &lock(LockKind::Unlock)).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(()));
        let limited = scope.spawn(|| file.lock_within(b"one", &lock(LockKind::Write), PATIENCE));
        file.lock(b"two", &lock(LockKind::Unlock)).unwrap();
        assert_eq!(limited.join().unwrap(), Ok(()));
    });
    file.lock(b"one", &lock(LockKind::Unlock)).unwrap();
    assert_eq!(
        file.lock_in_the_way(b"two", &lock(LockKind::Read)),
        Ok(None)
    );
}

/// Plain 9P2000 does not tell where symlinks lead: not to the directory that they are in.
#[test]
fn what_a_symlink_leads_to_is_not_guessed() {
    let service = Arc::new(ModelService::new(ModelOptions::default()));
    let [linux, plain] = [Dialect::Linux, Dialect::Plan9].map(|dialect| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        serve_service(service.clone(), theirs, Run::Inline);
        over(ours, &only(dialect)).unwrap()
    });
    linux.create_dir("dir", 0o755).unwrap();
    make(&linux, "dir/file", b"right");
    make(&linux, "file", b"wrong");
    linux.symlink("dir", "link").unwrap();
    let errno = |outcome: sluice_client::Result<()>| outcome.unwrap_err().errno();
    let opened = plain.open("link/file", OpenFlags::READ).map(drop);
    assert_eq!(errno(opened), Errno::EOPNOTSUPP);
    let opened = plain.open("link", OpenFlags::READ).map(drop);
    assert_eq!(errno(opened), Errno::EOPNOTSUPP);
    assert_eq!(errno(plain.remove_file("link/file")), Errno::EOPNOTSUPP);
    let file = linux.open("link/file", OpenFlags::READ).unwrap();
    let mut content = [0; 5];
    file.read_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"right");
    assert!(linux.metadata("file").is_ok());
}

#[test]
fn a_directory_at_hand_stays_the_same_whatever_its_name_leads_to() {
    for dialect in [Dialect::Sluice, Dialect::Linux] {
        let client = client(&only(dialect));
        client.create_dir("a", 0o755).unwrap();
        client.create_dir("a/sub", 0o755).unwrap();
        make(&client, "a/sub/file", b"");
        let (parent, name) = client.parent("/a/sub/").unwrap();
        assert_eq!(name, "sub");
        let sub = parent.dir(&name).unwrap();
        client.rename("a", "b").unwrap();
        client.create_dir("a", 0o755).unwrap();
        client.symlink("/a", "b/link").unwrap();
        let names: Vec<_> = sub.entries().unwrap().map(Result::unwrap).collect();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].file_name(), "file");
        let errno = |outcome: sluice_client::Result<()>| outcome.unwrap_err().errno();
        assert_eq!(errno(parent.dir("link").map(drop)), Errno::ENOTDIR);
        assert_eq!(errno(parent.dir("..").map(drop)), Errno::EINVAL);
        assert_eq!(errno(sub.remove_dir("file")), Errno::ENOTDIR);
        assert_eq!(errno(parent.remove_file("sub")), Errno::EISDIR);
        sub.remove_file("file").unwrap();
        parent.remove_dir("sub").unwrap();
        assert_eq!(listed(&client, "b"), [b"link".to_vec()].into());
        assert_eq!(errno(client.parent("/").map(drop)), Errno::EBUSY);
    }
}
