//! Who may do what, where the service is the one to decide.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Client, Needs, World};
use sluice_vfs::{
    Access, Device, Errno, FileType, NewNode, NodeId, OpenFlags, RenameFlags, SetAttr, SetTime,
    Timestamp,
};

const CHECKED: Needs = Needs::ROOT.union(Needs::SERVICE_CHECKS);

pub(super) const CASES: &[Case] = &[
    case!(names_are_made_where_one_may_write, CHECKED),
    case!(names_are_not_made_where_one_may_not_write, CHECKED),
    case!(names_are_not_removed_where_one_may_not_write, CHECKED),
    case!(names_are_not_found_where_one_may_not_search, CHECKED),
    case!(names_are_found_where_one_may_not_list, CHECKED),
    case!(sticky_directories_protect_what_is_others, CHECKED),
    case!(sticky_directories_protect_from_renaming, CHECKED),
    case!(files_open_as_their_bits_say, CHECKED),
    case!(the_owners_bits_come_first, CHECKED),
    case!(the_groups_bits_come_second, CHECKED),
    case!(
        supplementary_groups_open_files,
        CHECKED.union(Needs::GROUPS)
    ),
    case!(the_superuser_opens_everything, CHECKED),
    case!(an_open_file_stays_open, CHECKED),
    case!(execution_takes_its_bit, CHECKED),
    case!(access_agrees_with_open, CHECKED),
    case!(only_the_owner_changes_the_mode, CHECKED),
    case!(only_the_superuser_gives_away, CHECKED),
    case!(
        owners_choose_among_their_groups,
        CHECKED.union(Needs::GROUPS)
    ),
    case!(
        strangers_to_the_group_lose_set_group_id,
        CHECKED.union(Needs::GROUPS)
    ),
    case!(only_the_owner_sets_times, CHECKED),
    case!(writers_set_times_to_now, CHECKED),
    case!(truncating_takes_write_permission, CHECKED),
    case!(truncating_an_open_file_takes_none, CHECKED),
    case!(devices_are_for_the_superuser, CHECKED),
    case!(whiteouts_are_for_the_superuser_or_anyone, CHECKED),
    case!(noatime_is_for_the_owner, CHECKED),
    case!(writing_as_another_kills_set_id, CHECKED),
    case!(
        user_attributes_take_permissions,
        CHECKED.union(Needs::XATTR)
    ),
    case!(
        trusted_attributes_are_hidden,
        CHECKED.union(Needs::TRUSTED_XATTR)
    ),
    case!(
        unnamed_files_are_made_where_one_may_write,
        CHECKED.union(Needs::TMPFILE)
    ),
    case!(moving_a_directory_takes_writing_in_it, CHECKED),
];

/// The superuser and the caller 1000:2000 in a root that only the superuser
/// may write.
fn two(w: &World) -> (Client, Client) {
    let c = w.checked_client();
    c.chmod(ROOT, 0o755).unwrap();
    let user = c.as_user(1000, 2000, &[]);
    (c, user)
}

/// A file of this owner and mode.
fn file(c: &Client, name: &str, owner: (u32, u32), perm: u32) -> NodeId {
    let node = c.file(ROOT, name, b"content");
    c.chown(node, Some(owner.0), Some(owner.1)).unwrap();
    c.chmod(node, perm).unwrap();
    node
}

/// A directory of this owner and mode.
fn dir(c: &Client, name: &str, owner: (u32, u32), perm: u32) -> NodeId {
    let node = c.dir(ROOT, name);
    c.chown(node, Some(owner.0), Some(owner.1)).unwrap();
    c.chmod(node, perm).unwrap();
    node
}

fn names_are_made_where_one_may_write(w: &World) {
    let (c, user) = two(w);
    let mine = dir(&c, "mine", (1000, 2000), 0o755);
    let open = dir(&c, "open", (0, 0), 0o777);
    let group = dir(&c, "group", (0, 2000), 0o775);
    for dir in [mine, open, group] {
        user.file(dir, "f", b"content");
        user.dir(dir, "d");
        user.symlink(dir, "l", "x").unwrap();
        user.mknod(dir, "p", FileType::Fifo, 0o600).unwrap();
        user.rename((dir, "f"), (dir, "g")).unwrap();
        user.unlink(dir, "g").unwrap();
        user.rmdir(dir, "d").unwrap();
        assert_eq!(c.names(dir), ["l", "p"]);
    }
}

fn names_are_not_made_where_one_may_not_write(w: &World) {
    let (c, user) = two(w);
    let mine = file(&c, "mine", (1000, 2000), 0o644);
    fails(user.create(ROOT, "f", 0o644), Errno::EACCES);
    fails(user.mkdir(ROOT, "d", 0o755), Errno::EACCES);
    fails(user.symlink(ROOT, "l", "x"), Errno::EACCES);
    fails(user.mknod(ROOT, "p", FileType::Fifo, 0o600), Errno::EACCES);
    fails(user.link(mine, ROOT, "g"), Errno::EACCES);
    fails(user.mkdir(ROOT, "mine", 0o755), Errno::EEXIST);
    assert_eq!(c.names(ROOT), ["mine"]);
}

fn names_are_not_removed_where_one_may_not_write(w: &World) {
    let (c, user) = two(w);
    file(&c, "mine", (1000, 2000), 0o644);
    dir(&c, "d", (1000, 2000), 0o755);
    fails(user.unlink(ROOT, "mine"), Errno::EACCES);
    fails(user.rmdir(ROOT, "d"), Errno::EACCES);
    let open = dir(&c, "open", (0, 0), 0o777);
    fails(user.rename((ROOT, "mine"), (open, "f")), Errno::EACCES);
    fails(user.rename((ROOT, "mine"), (ROOT, "f")), Errno::EACCES);
    user.file(open, "f", b"");
    fails(user.rename((open, "f"), (ROOT, "f")), Errno::EACCES);
    assert_eq!(c.names(ROOT), ["d", "mine", "open"]);
}

fn names_are_not_found_where_one_may_not_search(w: &World) {
    let (c, user) = two(w);
    let closed = dir(&c, "closed", (0, 0), 0o744);
    c.file(closed, "f", b"");
    fails(user.lookup(closed, "f"), Errno::EACCES);
    fails(user.lookup(closed, "missing"), Errno::EACCES);
    assert_eq!(user.names(closed), ["f"]);
}

fn names_are_found_where_one_may_not_list(w: &World) {
    let (c, user) = two(w);
    let closed = dir(&c, "closed", (0, 0), 0o711);
    c.file(closed, "f", b"content");
    let found = user.lookup(closed, "f").unwrap().node;
    assert_eq!(user.content(found), b"content");
    fails(user.opendir(closed), Errno::EACCES);
}

fn sticky_directories_protect_what_is_others(w: &World) {
    let (c, user) = two(w);
    let tmp = dir(&c, "tmp", (0, 0), 0o1777);
    c.file(tmp, "others", b"");
    user.file(tmp, "mine", b"");
    fails(user.unlink(tmp, "others"), Errno::EPERM);
    user.unlink(tmp, "mine").unwrap();
    let own = dir(&c, "own", (1000, 2000), 0o1777);
    c.file(own, "others", b"");
    user.unlink(own, "others").unwrap();
}

fn sticky_directories_protect_from_renaming(w: &World) {
    let (c, user) = two(w);
    let tmp = dir(&c, "tmp", (0, 0), 0o1777);
    c.file(tmp, "others", b"");
    user.file(tmp, "mine", b"");
    fails(user.rename((tmp, "others"), (tmp, "x")), Errno::EPERM);
    fails(user.rename((tmp, "mine"), (tmp, "others")), Errno::EPERM);
    let swap = user.rename_with((tmp, "mine"), (tmp, "others"), RenameFlags::EXCHANGE);
    fails(swap, Errno::EPERM);
    user.rename((tmp, "mine"), (tmp, "x")).unwrap();
}

fn files_open_as_their_bits_say(w: &World) {
    let (c, user) = two(w);
    for (perm, reads, writes) in [
        (0o600, false, false),
        (0o604, true, false),
        (0o602, false, true),
        (0o606, true, true),
    ] {
        let node = file(&c, &format!("{perm:o}"), (0, 0), perm);
        let may = |flags| match user.open(node, flags) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error, Errno::EACCES, "{perm:o}");
                false
            }
        };
        assert_eq!(may(OpenFlags::READ), reads, "{perm:o}");
        assert_eq!(may(OpenFlags::WRITE), writes, "{perm:o}");
        let both = OpenFlags::READ | OpenFlags::WRITE;
        assert_eq!(may(both), reads && writes, "{perm:o}");
    }
}

fn the_owners_bits_come_first(w: &World) {
    let (c, user) = two(w);
    let node = file(&c, "f", (1000, 2000), 0o066);
    fails(user.open(node, OpenFlags::READ), Errno::EACCES);
    fails(user.access(node, Access::READ), Errno::EACCES);
}

fn the_groups_bits_come_second(w: &World) {
    let (c, user) = two(w);
    let node = file(&c, "f", (0, 2000), 0o606);
    fails(user.open(node, OpenFlags::READ), Errno::EACCES);
    c.chmod(node, 0o640).unwrap();
    user.open(node, OpenFlags::READ).unwrap();
}

fn supplementary_groups_open_files(w: &World) {
    let (c, _) = two(w);
    let node = file(&c, "f", (0, 3000), 0o660);
    let member = c.as_user(1000, 2000, &[10, 3000, 20]);
    member
        .open(node, OpenFlags::READ | OpenFlags::WRITE)
        .unwrap();
    let stranger = c.as_user(1000, 2000, &[10, 20]);
    fails(stranger.open(node, OpenFlags::READ), Errno::EACCES);
}

fn the_superuser_opens_everything(w: &World) {
    let (c, _) = two(w);
    let closed = dir(&c, "closed", (1000, 2000), 0);
    let node = file(&c, "f", (1000, 2000), 0);
    assert_eq!(c.content(node), b"content");
    c.file(closed, "f", b"");
    assert_eq!(c.names(closed), ["f"]);
}

fn an_open_file_stays_open(w: &World) {
    let (c, user) = two(w);
    let node = file(&c, "f", (0, 0), 0o666);
    let open = user.open(node, OpenFlags::READ | OpenFlags::WRITE).unwrap();
    c.chmod(node, 0o600).unwrap();
    assert_eq!(user.read(open, 0, 10).unwrap(), b"content");
    user.write(open, 0, b"C").unwrap();
    fails(user.open(node, OpenFlags::READ), Errno::EACCES);
}

fn execution_takes_its_bit(w: &World) {
    let (c, user) = two(w);
    let node = file(&c, "f", (0, 0), 0o744);
    fails(user.access(node, Access::EXEC), Errno::EACCES);
    c.chmod(node, 0o745).unwrap();
    user.access(node, Access::EXEC).unwrap();
    let plain = file(&c, "g", (0, 0), 0o644);
    fails(c.access(plain, Access::EXEC), Errno::EACCES);
}

fn access_agrees_with_open(w: &World) {
    let (c, user) = two(w);
    for perm in [0o600, 0o602, 0o604, 0o606] {
        let node = file(&c, &format!("{perm:o}"), (0, 0), perm);
        for (flags, access) in [
            (OpenFlags::READ, Access::READ),
            (OpenFlags::WRITE, Access::WRITE),
        ] {
            let opens = user.open(node, flags).is_ok();
            let may = user.access(node, access).is_ok();
            assert_eq!(may, opens, "{access:?} of {perm:o}");
        }
    }
}

fn only_the_owner_changes_the_mode(w: &World) {
    let (c, user) = two(w);
    let others = file(&c, "others", (0, 0), 0o666);
    let mine = file(&c, "mine", (1000, 2000), 0o600);
    fails(user.chmod(others, 0o777), Errno::EPERM);
    assert_eq!(user.chmod(mine, 0o640).unwrap().mode.perm(), 0o640);
}

fn only_the_superuser_gives_away(w: &World) {
    let (c, user) = two(w);
    let mine = file(&c, "mine", (1000, 2000), 0o600);
    let others = file(&c, "others", (0, 0), 0o666);
    fails(user.chown(mine, Some(1001), None), Errno::EPERM);
    fails(user.chown(others, Some(1000), None), Errno::EPERM);
    user.chown(mine, Some(1000), None).unwrap();
    c.chown(mine, Some(1001), None).unwrap();
}

fn owners_choose_among_their_groups(w: &World) {
    let (c, _) = two(w);
    let user = c.as_user(1000, 2000, &[3000]);
    let mine = file(&c, "mine", (1000, 2000), 0o600);
    assert_eq!(user.chown(mine, None, Some(3000)).unwrap().gid, 3000);
    assert_eq!(user.chown(mine, None, Some(2000)).unwrap().gid, 2000);
    fails(user.chown(mine, None, Some(4000)), Errno::EPERM);
    let others = file(&c, "others", (0, 2000), 0o666);
    fails(user.chown(others, None, Some(3000)), Errno::EPERM);
}

fn strangers_to_the_group_lose_set_group_id(w: &World) {
    let (c, user) = two(w);
    let node = file(&c, "f", (1000, 3000), 0o755);
    assert_eq!(user.chmod(node, 0o2755).unwrap().mode.perm(), 0o755);
    let member = c.as_user(1000, 2000, &[3000]);
    assert_eq!(member.chmod(node, 0o2755).unwrap().mode.perm(), 0o2755);
}

fn times(atime: SetTime, mtime: SetTime) -> SetAttr {
    SetAttr {
        atime: Some(atime),
        mtime: Some(mtime),
        ..SetAttr::default()
    }
}

const PAST: SetTime = SetTime::To(Timestamp {
    sec: 1_000_000_000,
    nsec: 0,
});

fn only_the_owner_sets_times(w: &World) {
    let (c, user) = two(w);
    let others = file(&c, "others", (0, 0), 0o666);
    let mine = file(&c, "mine", (1000, 2000), 0o400);
    fails(user.setattr(others, times(PAST, PAST)), Errno::EPERM);
    let attr = user.setattr(mine, times(PAST, PAST)).unwrap();
    assert_eq!(attr.mtime.sec, 1_000_000_000);
}

fn writers_set_times_to_now(w: &World) {
    let (c, user) = two(w);
    let open = file(&c, "open", (0, 0), 0o666);
    let closed = file(&c, "closed", (0, 0), 0o644);
    user.setattr(open, times(SetTime::Now, SetTime::Now))
        .unwrap();
    let outcome = user.setattr(closed, times(SetTime::Now, SetTime::Now));
    fails(outcome, Errno::EACCES);
}

fn truncating_takes_write_permission(w: &World) {
    let (c, user) = two(w);
    let closed = file(&c, "closed", (0, 0), 0o644);
    let open = file(&c, "open", (0, 0), 0o622);
    fails(user.truncate(closed, 0), Errno::EACCES);
    assert_eq!(user.truncate(open, 3).unwrap().size, 3);
    let flags = OpenFlags::READ | OpenFlags::TRUNCATE;
    fails(user.open(closed, flags), Errno::EACCES);
    assert_eq!(c.content(closed), b"content");
}

fn truncating_an_open_file_takes_none(w: &World) {
    let (c, user) = two(w);
    let node = file(&c, "f", (0, 0), 0o666);
    let open = user.open(node, OpenFlags::WRITE).unwrap();
    c.chmod(node, 0o600).unwrap();
    let changes = SetAttr {
        size: Some(3),
        ..SetAttr::default()
    };
    assert_eq!(user.fsetattr(open, changes).unwrap().size, 3);
}

fn devices_are_for_the_superuser(w: &World) {
    let (c, user) = two(w);
    let open = dir(&c, "open", (0, 0), 0o777);
    let null = Device { major: 1, minor: 3 };
    let new = NewNode::with_perm(0o666);
    let device = FileType::CharDevice;
    let outcome = user.mknod_with(open, "null", device, null, &new);
    fails(outcome, Errno::EPERM);
    c.mknod_with(open, "null", device, null, &new).unwrap();
}

fn whiteouts_are_for_the_superuser_or_anyone(w: &World) {
    // Since Linux 5.8 anyone may make the device 0:0 on file systems that
    // leave it to the kernel.
    let (c, user) = two(w);
    let open = dir(&c, "open", (0, 0), 0o777);
    user.file(open, "a", b"");
    match user.rename_with((open, "a"), (open, "b"), RenameFlags::WHITEOUT) {
        Ok(_) => assert_eq!(c.names(open), ["a", "b"]),
        Err(error) => {
            assert_eq!(error, Errno::EPERM);
            assert_eq!(c.names(open), ["a"]);
        }
    }
}

fn noatime_is_for_the_owner(w: &World) {
    let (c, user) = two(w);
    let mine = file(&c, "mine", (1000, 2000), 0o600);
    let flags = OpenFlags::READ | OpenFlags::NOATIME;
    let open = user.open(mine, flags).unwrap();
    assert_eq!(user.read(open, 0, 10).unwrap(), b"content");
}

fn writing_as_another_kills_set_id(w: &World) {
    let (c, user) = two(w);
    let node = file(&c, "f", (0, 0), 0o6777);
    let open = user.open(node, OpenFlags::WRITE).unwrap();
    user.write(open, 0, b"x").unwrap();
    assert_eq!(c.getattr(node).unwrap().mode.perm(), 0o777);
}

fn user_attributes_take_permissions(w: &World) {
    let (c, user) = two(w);
    let closed = file(&c, "closed", (0, 0), 0o600);
    let readable = file(&c, "readable", (0, 0), 0o644);
    let open = file(&c, "open", (0, 0), 0o666);
    for node in [closed, readable, open] {
        c.setxattr(node, "user.a", b"x").unwrap();
    }
    fails(user.getxattr(closed, "user.a"), Errno::EACCES);
    assert_eq!(user.getxattr(readable, "user.a").unwrap(), b"x");
    fails(user.setxattr(readable, "user.b", b"y"), Errno::EACCES);
    fails(user.removexattr(readable, "user.a"), Errno::EACCES);
    user.setxattr(open, "user.b", b"y").unwrap();
    user.removexattr(open, "user.a").unwrap();
}

fn trusted_attributes_are_hidden(w: &World) {
    let (c, user) = two(w);
    let node = file(&c, "f", (1000, 2000), 0o666);
    c.setxattr(node, "trusted.a", b"x").unwrap();
    fails(user.getxattr(node, "trusted.a"), Errno::ENODATA);
    fails(user.setxattr(node, "trusted.a", b"y"), Errno::EPERM);
    fails(user.removexattr(node, "trusted.a"), Errno::EPERM);
    assert!(user.listxattr(node).unwrap().is_empty());
}

fn unnamed_files_are_made_where_one_may_write(w: &World) {
    let (c, user) = two(w);
    let open = dir(&c, "open", (0, 0), 0o777);
    let file = user.tmpfile(open, OpenFlags::WRITE, 0o600).unwrap();
    user.link(file.node, open, "f").unwrap();
    fails(user.tmpfile(ROOT, OpenFlags::WRITE, 0o600), Errno::EACCES);
}

fn moving_a_directory_takes_writing_in_it(w: &World) {
    let (c, user) = two(w);
    let (from, to) = (dir(&c, "from", (0, 0), 0o777), dir(&c, "to", (0, 0), 0o777));
    c.dir(from, "others");
    user.dir(from, "mine");
    // Its `..` changes, so it takes permission to write.
    fails(user.rename((from, "others"), (to, "x")), Errno::EACCES);
    user.rename((from, "others"), (from, "x")).unwrap();
    user.rename((from, "mine"), (to, "mine")).unwrap();
    assert_eq!(c.names(to), ["mine"]);
}
