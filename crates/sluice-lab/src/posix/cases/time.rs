//! Timestamps.

use super::fails;
use crate::posix::Place;
use rustix::fs::{
    AtFlags, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens, utimensat,
};
use rustix::io::{Errno, write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

cases!("time":
    times_are_kept_to_the_nanosecond,
    times_before_1970_are_kept,
    times_after_2038_are_kept,
    one_time_is_left_alone,
    now_is_now,
    a_links_times_are_its_own,
    descriptors_have_times,
    directories_have_times,
    a_write_moves_the_modification,
    truncation_moves_the_modification,
    making_a_name_moves_the_directorys_modification,
    chmod_moves_only_the_change,
    a_hard_link_moves_only_the_change,
    a_rename_leaves_the_modification,
    invalid_nanoseconds_are_einval,
    set_times_survive_closing_a_writer,
);

/// A whole second: not every client keeps more.
const OLD: Timespec = Timespec {
    tv_sec: 1_000_000_000,
    tv_nsec: 0,
};

fn mtime(p: &Place, name: &str) -> (i64, u64) {
    let stat = p.lstat(name).unwrap();
    (stat.st_mtime, stat.st_mtime_nsec)
}

fn ctime(p: &Place, name: &str) -> (i64, u64) {
    let stat = p.lstat(name).unwrap();
    (stat.st_ctime, stat.st_ctime_nsec)
}

fn is_old(p: &Place, name: &str) -> bool {
    mtime(p, name) == (OLD.tv_sec, OLD.tv_nsec as u64)
}

fn keeps(p: &Place, time: Timespec) {
    p.write("f", "");
    p.set_times(
        "f",
        Timespec {
            tv_sec: time.tv_sec + 5,
            ..time
        },
        time,
    )
    .unwrap();
    let stat = p.stat("f").unwrap();
    assert_eq!(
        (stat.st_mtime, stat.st_mtime_nsec as i64),
        (time.tv_sec, time.tv_nsec)
    );
    assert_eq!(
        (stat.st_atime, stat.st_atime_nsec as i64),
        (time.tv_sec + 5, time.tv_nsec)
    );
}

fn times_are_kept_to_the_nanosecond(p: &Place) {
    keeps(
        p,
        Timespec {
            tv_sec: 1_000_000_000,
            tv_nsec: 123_456_789,
        },
    );
    keeps(
        p,
        Timespec {
            tv_sec: 0,
            tv_nsec: 999_999_999,
        },
    );
}

fn times_before_1970_are_kept(p: &Place) {
    keeps(
        p,
        Timespec {
            tv_sec: -1_000_000,
            tv_nsec: 0,
        },
    );
}

fn times_after_2038_are_kept(p: &Place) {
    keeps(
        p,
        Timespec {
            tv_sec: 5_000_000_000,
            tv_nsec: 0,
        },
    );
}

fn one_time_is_left_alone(p: &Place) {
    p.write("f", "");
    p.set_times("f", OLD, OLD).unwrap();
    let omit = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_OMIT,
    };
    let other = Timespec {
        tv_sec: 2_000_000_000,
        tv_nsec: 1,
    };
    p.set_times("f", other, omit).unwrap();
    assert!(is_old(p, "f"));
    assert_eq!(p.stat("f").unwrap().st_atime, 2_000_000_000);
    p.set_times("f", omit, other).unwrap();
    let stat = p.stat("f").unwrap();
    assert_eq!(
        (stat.st_atime, stat.st_mtime),
        (2_000_000_000, 2_000_000_000)
    );
}

fn now_is_now(p: &Place) {
    p.write("f", "");
    p.set_times("f", OLD, OLD).unwrap();
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    p.set_times("f", now, now).unwrap();
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs() as i64;
    let stat = p.stat("f").unwrap();
    assert!(
        (stat.st_mtime - clock).abs() < 60,
        "{} is not {clock}",
        stat.st_mtime
    );
    assert!(
        (stat.st_atime - clock).abs() < 60,
        "{} is not {clock}",
        stat.st_atime
    );
}

fn a_links_times_are_its_own(p: &Place) {
    p.write("f", "");
    p.symlink("f", "l").unwrap();
    p.set_times("l", OLD, OLD).unwrap();
    assert!(is_old(p, "l"));
    assert!(!is_old(p, "f"));
    let times = Timestamps {
        last_access: OLD,
        last_modification: OLD,
    };
    utimensat(p.dir(), "l", &times, AtFlags::empty()).unwrap();
    assert!(is_old(p, "f"));
}

fn descriptors_have_times(p: &Place) {
    let file = p.create("f", OFlags::WRONLY, 0o644).unwrap();
    futimens(
        &file,
        &Timestamps {
            last_access: OLD,
            last_modification: OLD,
        },
    )
    .unwrap();
    assert!(is_old(p, "f"));
}

fn directories_have_times(p: &Place) {
    p.mkdir("d", 0o755).unwrap();
    p.set_times("d", OLD, OLD).unwrap();
    assert!(is_old(p, "d"));
}

fn a_write_moves_the_modification(p: &Place) {
    p.write("f", "");
    p.set_times("f", OLD, OLD).unwrap();
    let file = p.open("f", OFlags::WRONLY).unwrap();
    assert!(is_old(p, "f"));
    write(&file, b"x").unwrap();
    drop(file);
    assert!(!is_old(p, "f"));
}

fn truncation_moves_the_modification(p: &Place) {
    p.write("f", "content");
    p.set_times("f", OLD, OLD).unwrap();
    p.create("f", OFlags::WRONLY, 0o644).unwrap();
    assert!(!is_old(p, "f"));
}

fn making_a_name_moves_the_directorys_modification(p: &Place) {
    let d = p.directory("d", 0o755);
    let moves = |what: &str, act: &dyn Fn()| {
        p.set_times("d", OLD, OLD).unwrap();
        assert!(is_old(p, "d"));
        act();
        assert!(!is_old(p, "d"), "{what}");
    };
    moves("create", &|| d.write("f", ""));
    moves("mkdir", &|| d.mkdir("e", 0o755).unwrap());
    moves("symlink", &|| d.symlink("f", "l").unwrap());
    moves("link", &|| d.link("f", "g").unwrap());
    moves("rename", &|| d.rename("g", "h").unwrap());
    moves("unlink", &|| d.unlink("f").unwrap());
    moves("rmdir", &|| d.rmdir("e").unwrap());
}

/// Does `act` again until the clock has moved, for clocks tick.
fn moves_the_change(p: &Place, name: &str, mut act: impl FnMut()) {
    let before = ctime(p, name);
    let started = Instant::now();
    while ctime(p, name) == before {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "the change time stands still"
        );
        act();
    }
}

fn chmod_moves_only_the_change(p: &Place) {
    p.write("f", "");
    p.set_times("f", OLD, OLD).unwrap();
    moves_the_change(p, "f", || p.chmod("f", 0o600).unwrap());
    assert!(is_old(p, "f"));
}

fn a_hard_link_moves_only_the_change(p: &Place) {
    p.write("f", "");
    p.set_times("f", OLD, OLD).unwrap();
    moves_the_change(p, "f", || {
        p.link("f", "g").unwrap();
        p.unlink("g").unwrap();
    });
    assert!(is_old(p, "f"));
}

fn a_rename_leaves_the_modification(p: &Place) {
    p.write("f", "");
    p.set_times("f", OLD, OLD).unwrap();
    p.rename("f", "g").unwrap();
    assert!(is_old(p, "g"));
}

fn invalid_nanoseconds_are_einval(p: &Place) {
    p.write("f", "");
    let invalid = Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000_000,
    };
    fails(p.set_times("f", OLD, invalid), Errno::INVAL);
}

/// As tar and rsync do it.
fn set_times_survive_closing_a_writer(p: &Place) {
    let file = p.create("f", OFlags::WRONLY, 0o644).unwrap();
    write(&file, &[1; 100_000]).unwrap();
    futimens(
        &file,
        &Timestamps {
            last_access: OLD,
            last_modification: OLD,
        },
    )
    .unwrap();
    drop(file);
    assert!(is_old(p, "f"));
    rustix::fs::fsync(p.open("f", OFlags::RDONLY).unwrap()).unwrap();
    assert!(is_old(p, "f"));
}
