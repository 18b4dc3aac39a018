//! Who may do what. All of these become other users, and so need root.

use super::fails;
use crate::posix::Place;
use rustix::fs::{Access, AtFlags, OFlags, Timespec, UTIME_NOW, accessat};
use rustix::io::Errno;

cases!("permission":
    reading_needs_its_bit [Root],
    writing_needs_its_bit [Root],
    the_first_class_that_fits_decides [Root],
    supplementary_groups_count [Root],
    searching_needs_its_bit [Root],
    listing_needs_its_bit [Root],
    making_names_needs_both_bits [Root],
    removing_names_needs_the_directory [Root],
    renaming_needs_both_directories [Root],
    a_sticky_directory_protects_its_files [Root],
    setting_times_needs_the_owner [Root],
    setting_times_to_now_needs_the_write_bit [Root],
    access_answers_for_the_caller [Root],
    leaving_access_times_needs_the_owner [Root],
    root_may_what_bits_forbid [Root],
    changed_bits_count_at_once [Root],
);

fn denied(p: &Place, name: &str, flags: OFlags) {
    fails(p.open(name, flags), Errno::ACCESS);
}

fn reading_needs_its_bit(p: &Place) {
    p.file_with_mode("yes", 0o604);
    p.file_with_mode("no", 0o640);
    p.as_user(1000, 1000, &[], |p| {
        assert_eq!(p.read("yes"), b"content");
        denied(p, "no", OFlags::RDONLY);
        denied(p, "yes", OFlags::RDWR);
    });
}

fn writing_needs_its_bit(p: &Place) {
    p.file_with_mode("yes", 0o602);
    p.file_with_mode("no", 0o664);
    p.as_user(1000, 1000, &[], |p| {
        p.open("yes", OFlags::WRONLY).unwrap();
        denied(p, "no", OFlags::WRONLY);
        denied(p, "no", OFlags::RDONLY | OFlags::TRUNC);
    });
    assert_eq!(p.read("no"), b"content");
}

fn the_first_class_that_fits_decides(p: &Place) {
    p.file_with_mode("f", 0o077);
    p.chown("f", Some(1000), Some(2000)).unwrap();
    p.chmod("f", 0o077).unwrap();
    p.as_user(1000, 2000, &[], |p| denied(p, "f", OFlags::RDONLY));
    p.as_user(1001, 2000, &[], |p| assert_eq!(p.read("f"), b"content"));
    p.chmod("f", 0o707).unwrap();
    p.as_user(1001, 2000, &[], |p| denied(p, "f", OFlags::RDONLY));
    p.as_user(1001, 2001, &[], |p| assert_eq!(p.read("f"), b"content"));
}

fn supplementary_groups_count(p: &Place) {
    p.file_with_mode("f", 0o640);
    p.chown("f", None, Some(3000)).unwrap();
    p.as_user(1000, 1000, &[2000, 3000, 4000], |p| {
        assert_eq!(p.read("f"), b"content")
    });
    p.as_user(1000, 1000, &[2000, 4000], |p| {
        denied(p, "f", OFlags::RDONLY)
    });
}

fn searching_needs_its_bit(p: &Place) {
    p.directory("d", 0o754).write("f", "inside");
    p.as_user(1000, 1000, &[], |p| {
        denied(p, "d/f", OFlags::RDONLY);
        fails(p.stat("d/f"), Errno::ACCESS);
        fails(p.stat("d/none"), Errno::ACCESS);
    });
    p.chmod("d", 0o751).unwrap();
    p.as_user(1000, 1000, &[], |p| assert_eq!(p.read("d/f"), b"inside"));
}

fn listing_needs_its_bit(p: &Place) {
    p.directory("d", 0o751);
    p.as_user(1000, 1000, &[], |p| {
        denied(p, "d", OFlags::RDONLY | OFlags::DIRECTORY)
    });
    p.chmod("d", 0o754).unwrap();
    p.as_user(1000, 1000, &[], |p| {
        p.open("d", OFlags::RDONLY | OFlags::DIRECTORY).unwrap();
    });
}

fn making_names_needs_both_bits(p: &Place) {
    for mode in [0o755, 0o752, 0o751] {
        let d = p.directory("d", mode);
        p.as_user(1000, 1000, &[], |p| {
            fails(p.create("d/f", OFlags::WRONLY, 0o644), Errno::ACCESS);
            fails(p.mkdir("d/e", 0o755), Errno::ACCESS);
            fails(p.symlink("t", "d/l"), Errno::ACCESS);
        });
        drop(d);
        p.rmdir("d").unwrap();
    }
    p.directory("d", 0o753);
    p.as_user(1000, 1000, &[], |p| p.write("d/f", "made"));
    assert_eq!(p.read("d/f"), b"made");
}

fn removing_names_needs_the_directory(p: &Place) {
    let d = p.directory("d", 0o755);
    d.file_with_mode("f", 0o666);
    p.as_user(1000, 1000, &[], |p| fails(p.unlink("d/f"), Errno::ACCESS));
    d.file_with_mode("f", 0o600);
    p.chmod("d", 0o777).unwrap();
    p.as_user(1000, 1000, &[], |p| p.unlink("d/f").unwrap());
}

fn renaming_needs_both_directories(p: &Place) {
    p.directory("from", 0o777).file_with_mode("f", 0o666);
    p.directory("to", 0o755);
    p.as_user(1000, 1000, &[], |p| {
        fails(p.rename("from/f", "to/f"), Errno::ACCESS)
    });
    p.chmod("from", 0o755).unwrap();
    p.chmod("to", 0o777).unwrap();
    p.as_user(1000, 1000, &[], |p| {
        fails(p.rename("from/f", "to/f"), Errno::ACCESS)
    });
    p.chmod("from", 0o777).unwrap();
    p.as_user(1000, 1000, &[], |p| p.rename("from/f", "to/f").unwrap());
}

fn a_sticky_directory_protects_its_files(p: &Place) {
    let d = p.directory("d", 0o1777);
    d.as_user(1000, 1000, &[], |d| d.write("f", ""));
    d.as_user(1001, 1001, &[], |d| fails(d.unlink("f"), Errno::PERM));
    d.as_user(1000, 1000, &[], |d| d.unlink("f").unwrap());
}

const OLD: Timespec = Timespec {
    tv_sec: 1_000_000_000,
    tv_nsec: 0,
};
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: UTIME_NOW,
};

fn setting_times_needs_the_owner(p: &Place) {
    p.file_with_mode("f", 0o666);
    p.as_user(1000, 1000, &[], |p| {
        fails(p.set_times("f", OLD, OLD), Errno::PERM)
    });
    p.chown("f", Some(1000), None).unwrap();
    p.as_user(1000, 1000, &[], |p| p.set_times("f", OLD, OLD).unwrap());
    assert_eq!(p.stat("f").unwrap().st_mtime, OLD.tv_sec);
}

fn setting_times_to_now_needs_the_write_bit(p: &Place) {
    p.file_with_mode("f", 0o644);
    p.set_times("f", OLD, OLD).unwrap();
    p.as_user(1000, 1000, &[], |p| {
        fails(p.set_times("f", NOW, NOW), Errno::ACCESS)
    });
    p.chmod("f", 0o646).unwrap();
    p.as_user(1000, 1000, &[], |p| p.set_times("f", NOW, NOW).unwrap());
    assert_ne!(p.stat("f").unwrap().st_mtime, OLD.tv_sec);
}

fn access_answers_for_the_caller(p: &Place) {
    p.file_with_mode("f", 0o754);
    let may = |p: &Place, access| accessat(p.dir(), "f", access, AtFlags::empty());
    p.as_user(1000, 1000, &[], |p| {
        may(p, Access::EXISTS).unwrap();
        may(p, Access::READ_OK).unwrap();
        fails(may(p, Access::WRITE_OK), Errno::ACCESS);
        fails(may(p, Access::EXEC_OK), Errno::ACCESS);
    });
    may(p, Access::WRITE_OK | Access::EXEC_OK).unwrap();
}

fn leaving_access_times_needs_the_owner(p: &Place) {
    p.file_with_mode("f", 0o666);
    p.as_user(1000, 1000, &[], |p| {
        fails(p.open("f", OFlags::RDONLY | OFlags::NOATIME), Errno::PERM);
    });
    p.open("f", OFlags::RDONLY | OFlags::NOATIME).unwrap();
}

fn root_may_what_bits_forbid(p: &Place) {
    p.file_with_mode("f", 0o000);
    p.chown("f", Some(1000), Some(1000)).unwrap();
    assert_eq!(p.read("f"), b"content");
    p.open("f", OFlags::RDWR).unwrap();
    p.directory("d", 0o000).write("g", "inside");
    assert_eq!(p.read("d/g"), b"inside");
}

fn changed_bits_count_at_once(p: &Place) {
    p.file_with_mode("f", 0o600);
    for round in 0..10 {
        p.as_user(1000, 1000, &[], |p| denied(p, "f", OFlags::RDONLY));
        p.chmod("f", 0o604).unwrap();
        p.as_user(1000, 1000, &[], |p| {
            assert_eq!(p.read("f"), b"content", "round {round}")
        });
        p.chmod("f", 0o600).unwrap();
    }
}
