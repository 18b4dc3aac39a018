//! Timestamps.

use crate::conformance::client::{Client, ROOT, fails};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Attr, Errno, NodeId, SetAttr, SetTime, Timestamp};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(super) const CASES: &[Case] = &[
    case!(new_files_are_of_now),
    case!(times_are_set_to_the_nanosecond),
    case!(times_before_1970_are_kept),
    case!(times_of_1970_are_kept),
    case!(one_time_leaves_the_other),
    case!(now_means_the_services_clock),
    case!(times_of_directories_and_symlinks),
    case!(nanoseconds_beyond_a_second_are_einval),
    case!(setting_times_moves_the_change_time),
    case!(writing_moves_the_modification_time),
    case!(chmod_moves_the_change_time_only),
    case!(names_move_the_directorys_times),
    case!(linking_moves_the_files_change_time),
    case!(renaming_leaves_the_modification_time),
    case!(the_change_time_alone, Needs::TOUCH_CTIME),
];

/// Repeats `change` until `is_done` says that a clock of any grain moved.
#[track_caller]
fn until(c: &Client, node: NodeId, change: impl Fn(), is_done: impl Fn(&Attr) -> bool) -> Attr {
    let start = Instant::now();
    loop {
        change();
        let attr = c.getattr(node).unwrap();
        if is_done(&attr) {
            return attr;
        }
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "time doesn't move: {attr:?}"
        );
    }
}

fn set(atime: Option<SetTime>, mtime: Option<SetTime>) -> SetAttr {
    SetAttr {
        atime,
        mtime,
        ..SetAttr::default()
    }
}

fn at(sec: i64, nsec: u32) -> Timestamp {
    Timestamp { sec, nsec }
}

fn clock_sec() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() as i64
}

fn new_files_are_of_now(w: &World) {
    let c = w.client();
    let before = clock_sec();
    let node = c.file(ROOT, "f", b"abc");
    let attr = c.getattr(node).unwrap();
    for time in [attr.atime, attr.mtime, attr.ctime] {
        assert!(
            (before - 1..=clock_sec() + 1).contains(&time.sec),
            "{time:?}"
        );
    }
}

fn times_are_set_to_the_nanosecond(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let (atime, mtime) = (
        at(1_000_000_001, 123_456_789),
        at(1_300_000_000, 999_999_999),
    );
    let changes = set(Some(SetTime::To(atime)), Some(SetTime::To(mtime)));
    let attr = c.setattr(node, changes).unwrap();
    assert_eq!((attr.atime, attr.mtime), (atime, mtime));
    let attr = c.lookup(ROOT, "f").unwrap().attr;
    assert_eq!((attr.atime, attr.mtime), (atime, mtime));
}

fn times_before_1970_are_kept(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let time = at(-1_000_000, 5);
    let changes = set(Some(SetTime::To(time)), Some(SetTime::To(time)));
    let attr = c.setattr(node, changes).unwrap();
    assert_eq!((attr.atime, attr.mtime), (time, time));
}

fn times_of_1970_are_kept(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let time = at(0, 0);
    let changes = set(Some(SetTime::To(time)), Some(SetTime::To(time)));
    let attr = c.setattr(node, changes).unwrap();
    assert_eq!((attr.atime, attr.mtime), (time, time));
}

fn one_time_leaves_the_other(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let before = c.getattr(node).unwrap();
    let attr = c
        .setattr(node, set(Some(SetTime::To(at(5, 6))), None))
        .unwrap();
    assert_eq!((attr.atime, attr.mtime), (at(5, 6), before.mtime));
    let attr = c
        .setattr(node, set(None, Some(SetTime::To(at(7, 8)))))
        .unwrap();
    assert_eq!((attr.atime, attr.mtime), (at(5, 6), at(7, 8)));
}

fn now_means_the_services_clock(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let old = Some(SetTime::To(at(5, 0)));
    c.setattr(node, set(old, old)).unwrap();
    let before = clock_sec();
    let attr = c.setattr(node, set(None, Some(SetTime::Now))).unwrap();
    assert!(
        (before - 1..=clock_sec() + 1).contains(&attr.mtime.sec),
        "{:?}",
        attr.mtime
    );
    assert_eq!(attr.atime, at(5, 0));
}

fn times_of_directories_and_symlinks(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    let link = c.symlink(ROOT, "l", "d").unwrap().node;
    let time = Some(SetTime::To(at(77, 88)));
    for node in [link, dir] {
        let attr = c.setattr(node, set(time, time)).unwrap();
        assert_eq!((attr.atime, attr.mtime), (at(77, 88), at(77, 88)));
    }
}

fn nanoseconds_beyond_a_second_are_einval(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for nsec in [1_000_000_000, 0x3fff_ffff, 0x3fff_fffe, u32::MAX] {
        let time = Some(SetTime::To(at(5, nsec)));
        fails(c.setattr(node, set(None, time)), Errno::EINVAL);
        fails(c.setattr(node, set(time, None)), Errno::EINVAL);
    }
}

fn setting_times_moves_the_change_time(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let before = c.getattr(node).unwrap().ctime;
    let old = Some(SetTime::To(at(5, 0)));
    let touch = || {
        let _ = c.setattr(node, set(old, old)).unwrap();
    };
    until(&c, node, touch, |attr| attr.ctime > before);
}

fn writing_moves_the_modification_time(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    let before = c.getattr(file.node).unwrap();
    let write = || {
        let _ = c.write(file, 0, b"x").unwrap();
    };
    let moved = |attr: &Attr| attr.mtime > before.mtime && attr.ctime > before.ctime;
    until(&c, file.node, write, moved);
}

fn chmod_moves_the_change_time_only(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let before = c.getattr(node).unwrap();
    let chmod = || {
        let _ = c.chmod(node, 0o600).unwrap();
    };
    let after = until(&c, node, chmod, |attr| attr.ctime > before.ctime);
    assert_eq!(after.mtime, before.mtime);
}

fn names_move_the_directorys_times(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    let node = c.file(ROOT, "f", b"");
    let changes: [(&str, &dyn Fn()); 3] = [
        ("mkdir and rmdir", &|| {
            c.mkdir(dir, "x", 0o755).unwrap();
            c.rmdir(dir, "x").unwrap();
        }),
        ("link and unlink", &|| {
            c.link(node, dir, "x").unwrap();
            c.unlink(dir, "x").unwrap();
        }),
        ("rename", &|| {
            c.rename((ROOT, "f"), (dir, "f")).unwrap();
            c.rename((dir, "f"), (ROOT, "f")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let before = c.getattr(dir).unwrap();
        let moved = |attr: &Attr| attr.mtime > before.mtime && attr.ctime > before.ctime;
        let after = until(&c, dir, change, moved);
        assert!(after.mtime.sec >= before.mtime.sec, "{what}");
    }
}

fn linking_moves_the_files_change_time(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let before = c.getattr(node).unwrap();
    let relink = || {
        c.link(node, ROOT, "g").unwrap();
        c.unlink(ROOT, "g").unwrap();
    };
    let after = until(&c, node, relink, |attr| attr.ctime > before.ctime);
    assert_eq!(after.mtime, before.mtime);
}

fn renaming_leaves_the_modification_time(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let before = c.getattr(node).unwrap();
    c.rename((ROOT, "f"), (ROOT, "g")).unwrap();
    let after = c.getattr(node).unwrap();
    assert_eq!(after.mtime, before.mtime);
    assert!(after.ctime >= before.ctime);
}

fn the_change_time_alone(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let before = c.getattr(node).unwrap();
    let changes = SetAttr {
        touch_ctime: true,
        ..SetAttr::default()
    };
    let touch = || {
        let _ = c.setattr(node, changes).unwrap();
    };
    let after = until(&c, node, touch, |attr| attr.ctime > before.ctime);
    assert_eq!((after.mtime, after.mode), (before.mtime, before.mode));
}
