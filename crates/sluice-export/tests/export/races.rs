//! Several at once, and a host that plays tricks.

use crate::harness::{RDWR, ROOT, Share, name, user};
use sluice_vfs::{AttrMask, DirWant, Errno, NewNode, NodeId, OpenFlags, Release};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `act` on the host over and over while `requests` lasts.
fn while_host_does(act: impl Fn() + Sync, requests: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                act();
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(requests));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn a_directory_swapped_for_a_symlink_leads_nowhere() {
    let share = Share::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "outside").unwrap();
    fs::create_dir(share.path("d")).unwrap();
    fs::write(share.path("d/secret"), "inside").unwrap();
    symlink(outside.path(), share.path("away")).unwrap();
    let (d, away) = (share.path("d"), share.path("away"));
    let swap = || {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        let cwd = rustix::fs::CWD;
        rustix::fs::renameat_with(cwd, &d, cwd, &away, flags).unwrap();
    };
    let s = share.s();
    let mut seen_inside = 0;
    while_host_does(swap, || {
        for round in 0..3000 {
            let Ok(dir) = share.find("d") else { continue };
            if let Ok(file) = share.find_in(dir.node, "secret") {
                assert_eq!(share.read(file.node, None).unwrap(), b"inside");
                seen_inside += 1;
                s.forget(file.node, 1);
            }
            let child = format!("new-{round}");
            let new = NewNode::with_perm(0o755);
            let made = share.create_as(&ROOT, dir.node, &child, RDWR);
            // It may be neither where it was seen nor anywhere it is looked for.
            assert!(matches!(made, Ok(_) | Err(Errno::ENOTDIR | Errno::ESTALE)));
            if let Ok(made) = made {
                let how = Release::default();
                s.release(&ROOT, made.entry.node, made.opened.handle, &how)
                    .unwrap();
                s.forget(made.entry.node, 1);
            }
            let sub = format!("dir-{round}");
            if let Ok(made) = s.mkdir(&ROOT, dir.node, name(&sub), &new) {
                s.forget(made.node, 1);
            }
            s.forget(dir.node, 1);
        }
    });
    assert!(seen_inside > 0, "the test must see both sides");
    let names: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing was made outside");
}

#[test]
fn a_file_swapped_for_a_symlink_is_never_followed() {
    let share = Share::new();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "outside").unwrap();
    fs::write(share.path("f"), "inside").unwrap();
    symlink(&secret, share.path("away")).unwrap();
    let (f, away) = (share.path("f"), share.path("away"));
    let swap = || {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        let cwd = rustix::fs::CWD;
        rustix::fs::renameat_with(cwd, &f, cwd, &away, flags).unwrap();
    };
    while_host_does(swap, || {
        for _ in 0..3000 {
            for flags in [RDWR, OpenFlags::READ] {
                match share.create_as(&ROOT, NodeId::ROOT, "f", flags) {
                    Ok(made) => {
                        let (node, handle) = (made.entry.node, made.opened.handle);
                        let content = share.read(node, Some(handle));
                        assert_eq!(content.unwrap(), b"inside");
                        let how = Release::default();
                        share.s().release(&ROOT, node, handle, &how).unwrap();
                        share.s().forget(node, 1);
                    }
                    Err(errno) => assert_eq!(errno, Errno::ELOOP),
                }
            }
        }
    });
    assert_eq!(fs::read(&secret).unwrap(), b"outside");
}

#[test]
fn a_name_that_comes_and_goes_is_made_or_opened() {
    let share = Share::new();
    let path = share.path("f");
    let toggle = || {
        let _ = fs::write(&path, "");
        let _ = fs::remove_file(&path);
    };
    while_host_does(toggle, || {
        for _ in 0..2000 {
            match share.create_as(&ROOT, NodeId::ROOT, "f", RDWR) {
                Ok(made) => {
                    let (node, handle) = (made.entry.node, made.opened.handle);
                    let how = Release::default();
                    share.s().release(&ROOT, node, handle, &how).unwrap();
                    share.s().forget(node, 1);
                }
                Err(errno) => assert_eq!(errno, Errno::EBUSY),
            }
        }
    });
}

#[test]
fn many_threads_share_a_session() {
    let share = Share::new();
    let work = |thread: u32| {
        let mine = user(if crate::harness::is_root() { thread } else { 0 }, 0, &[]);
        let s = share.s();
        for round in 0..300 {
            let child = format!("f{}", round % 7);
            if let Ok(made) = share.create_as(&mine, NodeId::ROOT, &child, RDWR) {
                let (node, handle) = (made.entry.node, made.opened.handle);
                share.write(node, Some(handle), 0, b"abc").unwrap();
                let stat = s.getattr(&mine, node, None, AttrMask::BASIC).unwrap();
                assert_eq!(stat.attr.size, 3);
                let how = Release::default();
                s.release(&mine, node, handle, &how).unwrap();
                s.forget(node, 1);
            }
            for listed in share.list(NodeId::ROOT, DirWant::Entries(AttrMask::BASIC)) {
                if let Some(entry) = listed.entry {
                    s.forget(entry.node, 1);
                }
            }
            let outcome = s.unlink(&mine, NodeId::ROOT, name(&child));
            assert!(matches!(outcome, Ok(_) | Err(Errno::ENOENT)));
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..6 {
            scope.spawn(move || work(thread));
        }
    });
    // Nobody holds a reference any more: the next node is a new one.
    share.create("last");
    let id = share.node("last");
    share.s().forget(id, u64::MAX);
    assert_ne!(share.node("last"), id);
}
