//! Modes, owners, and what stat(2) tells.

use super::fails;
use crate::posix::Place;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, StatxFlags, Uid, fchmod, fchown, fstat};
use rustix::io::{Errno, pwrite, write};

cases!("attr":
    chmod_sets_all_bits [Root],
    chmod_works_on_descriptors,
    chmod_follows_links,
    chmod_of_nothing_is_enoent,
    chown_sets_owner_and_group [Root],
    chown_sets_one_of_both [Root],
    chown_of_a_link_is_the_links [Root],
    chown_works_on_descriptors [Root],
    chown_takes_set_id_bits [Root],
    chown_leaves_a_directorys_bits [Root],
    a_write_takes_set_id_bits [Root],
    roots_write_leaves_set_id_bits [Root],
    truncation_takes_set_id_bits [Root],
    chmod_by_a_stranger_is_eperm [Root],
    chown_by_the_owner_is_eperm [Root],
    an_owner_gives_files_to_its_groups [Root],
    a_group_id_bit_needs_the_group [Root],
    stat_and_fstat_agree,
    inode_numbers_are_unique_and_stay,
    all_nodes_are_on_one_device,
    statx_tells_what_stat_tells,
    a_birth_time_stays [Btime],
    sizes_follow_writes,
);

fn chmod_sets_all_bits(p: &Place) {
    p.write("f", "");
    p.mkdir("d", 0o755).unwrap();
    for mode in [0o000, 0o777, 0o1777, 0o2755, 0o4755, 0o7777, 0o644] {
        for name in ["f", "d"] {
            p.chmod(name, mode).unwrap();
            assert_eq!(p.mode(name), mode, "{name}");
        }
    }
}

fn chmod_works_on_descriptors(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    fchmod(&file, Mode::from_raw_mode(0o611)).unwrap();
    assert_eq!(p.mode("f"), 0o611);
    let dir = p.directory("d", 0o755);
    fchmod(dir.dir(), Mode::from_raw_mode(0o711)).unwrap();
    assert_eq!(p.mode("d"), 0o711);
}

fn chmod_follows_links(p: &Place) {
    p.write("f", "");
    p.symlink("f", "l").unwrap();
    p.chmod("l", 0o600).unwrap();
    assert_eq!(p.mode("f"), 0o600);
    assert_eq!(p.mode("l"), 0o777);
}

fn chmod_of_nothing_is_enoent(p: &Place) {
    fails(p.chmod("none", 0o600), Errno::NOENT);
    p.symlink("none", "l").unwrap();
    fails(p.chmod("l", 0o600), Errno::NOENT);
}

fn chown_sets_owner_and_group(p: &Place) {
    p.write("f", "");
    p.mkdir("d", 0o755).unwrap();
    for name in ["f", "d"] {
        p.chown(name, Some(1000), Some(2000)).unwrap();
        assert_eq!(p.owner(name), (1000, 2000));
        p.chown(name, Some(70_000), Some(0xffff_fffe)).unwrap();
        assert_eq!(p.owner(name), (70_000, 0xffff_fffe));
    }
}

fn chown_sets_one_of_both(p: &Place) {
    p.write("f", "");
    p.chown("f", Some(1000), Some(2000)).unwrap();
    p.chown("f", None, Some(3000)).unwrap();
    assert_eq!(p.owner("f"), (1000, 3000));
    p.chown("f", Some(4000), None).unwrap();
    assert_eq!(p.owner("f"), (4000, 3000));
    p.chown("f", None, None).unwrap();
    assert_eq!(p.owner("f"), (4000, 3000));
}

fn chown_of_a_link_is_the_links(p: &Place) {
    p.write("f", "");
    p.symlink("f", "l").unwrap();
    p.chown("l", Some(1000), Some(1000)).unwrap();
    assert_eq!(p.owner("l"), (1000, 1000));
    assert_eq!(p.owner("f").0, 0);
}

fn chown_works_on_descriptors(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    fchown(&file, Some(Uid::from_raw(5)), Some(Gid::from_raw(6))).unwrap();
    assert_eq!(p.owner("f"), (5, 6));
}

fn chown_takes_set_id_bits(p: &Place) {
    p.file_with_mode("f", 0o6755);
    p.chown("f", Some(1000), Some(1000)).unwrap();
    assert_eq!(p.mode("f"), 0o755);
}

fn chown_leaves_a_directorys_bits(p: &Place) {
    p.directory("d", 0o7755);
    p.chown("d", Some(1000), Some(1000)).unwrap();
    assert_eq!(p.mode("d"), 0o7755);
}

fn a_write_takes_set_id_bits(p: &Place) {
    p.file_with_mode("f", 0o6777);
    p.as_user(1000, 1000, &[], |p| {
        let file = p.open("f", OFlags::WRONLY).unwrap();
        assert_eq!(write(&file, b"x"), Ok(1));
    });
    assert_eq!(p.mode("f"), 0o777);
}

fn roots_write_leaves_set_id_bits(p: &Place) {
    p.file_with_mode("f", 0o6755);
    let file = p.open("f", OFlags::WRONLY).unwrap();
    assert_eq!(write(&file, b"x"), Ok(1));
    drop(file);
    assert_eq!(p.mode("f"), 0o6755);
}

fn truncation_takes_set_id_bits(p: &Place) {
    p.file_with_mode("f", 0o6777);
    p.as_user(1000, 1000, &[], |p| {
        let file = p.open("f", OFlags::WRONLY).unwrap();
        rustix::fs::ftruncate(&file, 2).unwrap();
    });
    assert_eq!(p.mode("f"), 0o777);
}

fn chmod_by_a_stranger_is_eperm(p: &Place) {
    p.file_with_mode("f", 0o666);
    p.as_user(1000, 1000, &[], |p| fails(p.chmod("f", 0o777), Errno::PERM));
    assert_eq!(p.mode("f"), 0o666);
}

fn chown_by_the_owner_is_eperm(p: &Place) {
    p.write("f", "");
    p.chown("f", Some(1000), Some(1000)).unwrap();
    p.as_user(1000, 1000, &[], |p| {
        fails(p.chown("f", Some(1001), None), Errno::PERM);
        fails(p.chown("f", None, Some(1001)), Errno::PERM);
        p.chown("f", Some(1000), Some(1000)).unwrap();
    });
    assert_eq!(p.owner("f"), (1000, 1000));
}

fn an_owner_gives_files_to_its_groups(p: &Place) {
    p.write("f", "");
    p.chown("f", Some(1000), Some(1000)).unwrap();
    p.as_user(1000, 1000, &[2000, 3000], |p| {
        p.chown("f", None, Some(3000)).unwrap();
        fails(p.chown("f", None, Some(4000)), Errno::PERM);
    });
    assert_eq!(p.owner("f"), (1000, 3000));
}

fn a_group_id_bit_needs_the_group(p: &Place) {
    p.write("f", "");
    p.chown("f", Some(1000), Some(3000)).unwrap();
    p.as_user(1000, 1000, &[], |p| p.chmod("f", 0o2755).unwrap());
    assert_eq!(p.mode("f"), 0o755);
    p.as_user(1000, 3000, &[], |p| p.chmod("f", 0o2755).unwrap());
    assert_eq!(p.mode("f"), 0o2755);
}

fn stat_and_fstat_agree(p: &Place) {
    p.file_with_mode("f", 0o640);
    let by_name = p.stat("f").unwrap();
    let by_descriptor = fstat(p.open("f", OFlags::RDONLY).unwrap()).unwrap();
    let fields = |stat: &rustix::fs::Stat| {
        let owner = (stat.st_uid, stat.st_gid);
        let times = (
            stat.st_mtime,
            stat.st_mtime_nsec,
            stat.st_ctime,
            stat.st_ctime_nsec,
        );
        (
            stat.st_ino,
            stat.st_dev,
            stat.st_mode,
            stat.st_nlink,
            stat.st_size,
            owner,
            times,
        )
    };
    assert_eq!(fields(&by_name), fields(&by_descriptor));
}

fn inode_numbers_are_unique_and_stay(p: &Place) {
    for nth in 0..50 {
        p.write(format!("f{nth}"), "");
    }
    let inos = || {
        (0..50)
            .map(|nth| p.stat(format!("f{nth}")).unwrap().st_ino)
            .collect::<Vec<_>>()
    };
    let first = inos();
    let unique: std::collections::BTreeSet<_> = first.iter().collect();
    assert_eq!(unique.len(), 50);
    p.write("f7", "more");
    p.chmod("f8", 0o600).unwrap();
    assert_eq!(inos(), first);
}

fn all_nodes_are_on_one_device(p: &Place) {
    p.write("f", "");
    p.mkdir("d", 0o755).unwrap();
    p.symlink("f", "l").unwrap();
    let device = p.stat(".").unwrap().st_dev;
    for name in ["f", "d", "l"] {
        assert_eq!(p.lstat(name).unwrap().st_dev, device, "{name}");
    }
}

fn statx_tells_what_stat_tells(p: &Place) {
    p.file_with_mode("f", 0o640);
    let stat = p.stat("f").unwrap();
    let statx = p.statx("f", StatxFlags::BASIC_STATS).unwrap();
    assert_eq!(statx.stx_ino, stat.st_ino);
    assert_eq!(u32::from(statx.stx_mode), stat.st_mode);
    assert_eq!(statx.stx_size, 7);
    assert_eq!((statx.stx_uid, statx.stx_gid), (stat.st_uid, stat.st_gid));
    assert_eq!(u64::from(statx.stx_nlink), stat.st_nlink);
    assert_eq!(statx.stx_mtime.tv_sec, stat.st_mtime);
    let asked = AtFlags::STATX_FORCE_SYNC;
    let fresh = rustix::fs::statx(p.dir(), "f", asked, StatxFlags::BASIC_STATS).unwrap();
    assert_eq!((fresh.stx_ino, fresh.stx_size), (statx.stx_ino, 7));
}

fn a_birth_time_stays(p: &Place) {
    p.write("f", "");
    let born = |p: &Place| {
        let found = p.statx("f", StatxFlags::BTIME).unwrap().stx_btime;
        (found.tv_sec, found.tv_nsec)
    };
    let first = born(p);
    assert_ne!(first, (0, 0));
    p.write("f", "new");
    p.chmod("f", 0o600).unwrap();
    assert_eq!(born(p), first);
}

fn sizes_follow_writes(p: &Place) {
    let file = p.create("f", OFlags::WRONLY, 0o644).unwrap();
    for round in 1..20_u64 {
        pwrite(&file, &[1; 1000], (round - 1) * 1000).unwrap();
        assert_eq!(p.stat("f").unwrap().st_size as u64, round * 1000);
    }
    let kind = FileType::from_raw_mode(p.stat("f").unwrap().st_mode);
    assert_eq!(kind, FileType::RegularFile);
}
