//! Whom things belong to, and which bits that costs them.

use crate::conformance::client::{ROOT, opened};
use crate::conformance::{Case, Client, Needs, World};
use sluice_vfs::{FileType, NewNode, NodeId, OpenFlags, SetAttr, UnixMode, WriteArgs};

const ROOT_ONLY: Needs = Needs::ROOT;

pub(super) const CASES: &[Case] = &[
    case!(files_belong_to_the_caller, ROOT_ONLY),
    case!(directories_belong_to_the_caller, ROOT_ONLY),
    case!(special_nodes_belong_to_the_caller, ROOT_ONLY),
    case!(a_set_group_id_directory_gives_its_group, ROOT_ONLY),
    case!(a_set_group_id_directory_passes_its_bit_on, ROOT_ONLY),
    case!(
        a_set_group_id_directory_gives_unnamed_files_its_group,
        ROOT_ONLY.union(Needs::TMPFILE)
    ),
    case!(set_group_id_is_not_for_strangers_to_the_group, ROOT_ONLY),
    case!(set_group_id_is_for_members, ROOT_ONLY),
    case!(
        supplementary_groups_count,
        ROOT_ONLY.union(Needs::MAKERS_GROUPS)
    ),
    case!(where_peers_check_anyone_may, ROOT_ONLY),
    case!(opening_what_exists_leaves_its_owner, ROOT_ONLY),
    case!(renaming_and_linking_leave_the_owner, ROOT_ONLY),
    case!(callers_take_turns, ROOT_ONLY),
    case!(callers_on_many_threads, ROOT_ONLY),
    case!(umasks_on_many_threads),
    case!(writing_kills_set_id_if_told, ROOT_ONLY),
    case!(writing_keeps_set_id_if_not_told, ROOT_ONLY),
    case!(
        killing_keeps_set_group_id_without_group_execution,
        ROOT_ONLY
    ),
    case!(truncating_kills_set_id_if_told, ROOT_ONLY),
    case!(opening_with_truncation_kills_set_id_if_told, ROOT_ONLY),
    case!(giving_away_kills_set_id, ROOT_ONLY),
    case!(giving_away_a_directory_keeps_set_group_id, ROOT_ONLY),
];

fn owner(c: &Client, node: NodeId) -> (u32, u32) {
    let attr = c.getattr(node).unwrap();
    (attr.uid, attr.gid)
}

fn mode(c: &Client, node: NodeId) -> UnixMode {
    c.getattr(node).unwrap().mode
}

/// The caller 1000:2000 in a root where everyone may write.
fn user(w: &World) -> (Client, Client) {
    let c = w.client();
    c.chmod(ROOT, 0o777).unwrap();
    let user = c.as_user(1000, 2000, &[]);
    (c, user)
}

fn files_belong_to_the_caller(w: &World) {
    let (_, user) = user(w);
    let file = user.create(ROOT, "f", 0o644).unwrap();
    assert_eq!(owner(&user, file.node), (1000, 2000));
    user.write(file, 0, b"content").unwrap();
    assert_eq!(user.content(file.node), b"content");
}

fn directories_belong_to_the_caller(w: &World) {
    let (_, user) = user(w);
    let dir = user.dir(ROOT, "d");
    assert_eq!(owner(&user, dir), (1000, 2000));
    let file = user.file(dir, "f", b"");
    assert_eq!(owner(&user, file), (1000, 2000));
}

fn special_nodes_belong_to_the_caller(w: &World) {
    let (_, user) = user(w);
    for (name, file_type) in [
        ("p", FileType::Fifo),
        ("s", FileType::Socket),
        ("f", FileType::Regular),
    ] {
        let node = user.mknod(ROOT, name, file_type, 0o644).unwrap();
        assert_eq!((node.attr.uid, node.attr.gid), (1000, 2000), "{name}");
    }
}

/// A directory of group 3000 with set-group-id.
fn group_dir(c: &Client) -> NodeId {
    let dir = c.dir(ROOT, "group");
    c.chown(dir, Some(0), Some(3000)).unwrap();
    c.chmod(dir, 0o2777).unwrap();
    dir
}

fn a_set_group_id_directory_gives_its_group(w: &World) {
    let (c, user) = user(w);
    let dir = group_dir(&c);
    let file = user.file(dir, "f", b"");
    let link = user.symlink(dir, "l", "x").unwrap().node;
    let pipe = user.mknod(dir, "p", FileType::Fifo, 0o600).unwrap().node;
    for node in [file, link, pipe] {
        assert_eq!(owner(&c, node), (1000, 3000));
    }
    assert_eq!(mode(&c, file).perm(), 0o644);
}

fn a_set_group_id_directory_passes_its_bit_on(w: &World) {
    let (c, user) = user(w);
    let dir = group_dir(&c);
    let inner = user.mkdir(dir, "d", 0o755).unwrap();
    assert_eq!((inner.attr.uid, inner.attr.gid), (1000, 3000));
    assert_eq!(inner.attr.mode, UnixMode(0o042_755));
    let innermost = user.mkdir(inner.node, "e", 0o700).unwrap();
    assert_eq!(innermost.attr.mode, UnixMode(0o042_700));
    assert_eq!(innermost.attr.gid, 3000);
}

fn a_set_group_id_directory_gives_unnamed_files_its_group(w: &World) {
    let (c, user) = user(w);
    let dir = group_dir(&c);
    let file = user.tmpfile(dir, OpenFlags::WRITE, 0o600).unwrap();
    assert_eq!(owner(&c, file.node), (1000, 3000));
}

fn set_group_id_is_not_for_strangers_to_the_group(w: &World) {
    let (c, user) = user(w);
    let dir = group_dir(&c);
    let file = user.create(dir, "f", 0o2775).unwrap().node;
    assert_eq!(mode(&c, file).perm(), 0o775);
}

fn set_group_id_is_for_members(w: &World) {
    let (c, _) = user(w);
    let dir = group_dir(&c);
    let member = c.as_user(1000, 3000, &[]);
    let file = member.create(dir, "f", 0o2775).unwrap().node;
    assert_eq!(mode(&c, file).perm(), 0o2775);
    let file = c.create(dir, "g", 0o2775).unwrap().node;
    assert_eq!(mode(&c, file).perm(), 0o2775);
}

fn supplementary_groups_count(w: &World) {
    let (c, _) = user(w);
    let dir = group_dir(&c);
    let member = c.as_user(1000, 2000, &[3000]);
    let file = member.create(dir, "f", 0o2775).unwrap().node;
    assert_eq!(mode(&c, file).perm(), 0o2775);
    assert_eq!(owner(&c, file), (1000, 3000));
}

fn where_peers_check_anyone_may(w: &World) {
    let c = w.client();
    let dir = c.mkdir(ROOT, "d", 0o700).unwrap().node;
    let node = c.file(dir, "f", b"content");
    c.chmod(node, 0o600).unwrap();
    let user = c.as_user(1000, 2000, &[]);
    let found = user.lookup(dir, "f").unwrap().node;
    assert_eq!(user.content(found), b"content");
    let made = user.create(dir, "g", 0o600).unwrap().node;
    assert_eq!(owner(&c, made), (1000, 2000));
    user.unlink(dir, "f").unwrap();
}

fn opening_what_exists_leaves_its_owner(w: &World) {
    let (c, user) = user(w);
    let node = c.file(ROOT, "f", b"");
    let new = NewNode::with_perm(0o600);
    let created = user.create_with(ROOT, "f", OpenFlags::WRITE, &new).unwrap();
    user.write(opened(&created), 0, b"x").unwrap();
    assert_eq!(owner(&c, node), (0, 0));
    assert_eq!(mode(&c, node).perm(), 0o644);
}

fn renaming_and_linking_leave_the_owner(w: &World) {
    let (c, user) = user(w);
    let node = c.file(ROOT, "f", b"");
    c.chown(node, Some(7), Some(8)).unwrap();
    user.rename((ROOT, "f"), (ROOT, "g")).unwrap();
    user.link(node, ROOT, "h").unwrap();
    assert_eq!(owner(&c, node), (7, 8));
}

fn callers_take_turns(w: &World) {
    let (c, _) = user(w);
    for round in 0..30 {
        let uid = [0, 1000, 1001, 65_534][round % 4];
        let caller = c.as_user(uid, uid + 1, &[]);
        let node = caller.dir(ROOT, &format!("d{round}"));
        assert_eq!(owner(&c, node), (uid, uid + 1));
    }
}

fn callers_on_many_threads(w: &World) {
    let (c, _) = user(w);
    std::thread::scope(|scope| {
        for uid in 1..=6 {
            let caller = c.as_user(uid, 100 + uid, &[200 + uid]);
            scope.spawn(move || {
                for index in 0..20 {
                    let name = format!("u{uid}-{index}");
                    let node = caller.file(ROOT, &name, b"");
                    assert_eq!(owner(&caller, node), (uid, 100 + uid));
                }
            });
        }
    });
}

fn umasks_on_many_threads(w: &World) {
    let c = w.client();
    std::thread::scope(|scope| {
        for umask in [0, 0o022, 0o077, 0o007, 0o177] {
            let c = c.clone();
            scope.spawn(move || {
                for index in 0..20 {
                    let new = NewNode {
                        umask,
                        ..NewNode::with_perm(0o777)
                    };
                    let name = format!("{umask:o}-{index}");
                    let made = c.mkdir_with(ROOT, name, &new).unwrap();
                    assert_eq!(made.attr.mode.perm(), 0o777 & !umask);
                }
            });
        }
    });
}

/// A file of mode 6755 and the same for a caller who doesn't own it.
fn set_id_file(w: &World) -> (Client, Client, NodeId) {
    let (c, user) = user(w);
    let node = c.file(ROOT, "f", b"0123456789");
    c.chmod(node, 0o6755).unwrap();
    (c, user, node)
}

fn writing_kills_set_id_if_told(w: &World) {
    let (c, user, node) = set_id_file(w);
    let file = user.open(node, OpenFlags::WRITE).unwrap();
    let args = WriteArgs {
        kill_suidgid: true,
        ..WriteArgs::default()
    };
    user.write_with(node, Some(file.handle), &args, b"x")
        .unwrap();
    assert_eq!(mode(&c, node).perm(), 0o755);
}

fn writing_keeps_set_id_if_not_told(w: &World) {
    let (c, user, node) = set_id_file(w);
    let file = user.open(node, OpenFlags::WRITE).unwrap();
    user.write(file, 0, b"x").unwrap();
    assert_eq!(mode(&c, node).perm(), 0o6755);
}

fn killing_keeps_set_group_id_without_group_execution(w: &World) {
    let (c, user, node) = set_id_file(w);
    c.chmod(node, 0o6745).unwrap();
    let file = user.open(node, OpenFlags::WRITE).unwrap();
    let args = WriteArgs {
        kill_suidgid: true,
        ..WriteArgs::default()
    };
    user.write_with(node, Some(file.handle), &args, b"x")
        .unwrap();
    // Linux 6.2 and later clear it for whoever is not in the group.
    let perm = mode(&c, node).perm();
    assert!(perm == 0o2745 || perm == 0o745, "{perm:o}");
}

fn truncating_kills_set_id_if_told(w: &World) {
    let (c, user, node) = set_id_file(w);
    let changes = SetAttr {
        size: Some(5),
        ..SetAttr::default()
    };
    user.setattr(node, changes).unwrap();
    assert_eq!(mode(&c, node).perm(), 0o6755);
    let changes = SetAttr {
        kill_suidgid: true,
        ..changes
    };
    user.setattr(node, changes).unwrap();
    assert_eq!(mode(&c, node).perm(), 0o755);
}

fn opening_with_truncation_kills_set_id_if_told(w: &World) {
    let (c, user, node) = set_id_file(w);
    let flags = OpenFlags::WRITE | OpenFlags::TRUNCATE;
    user.open(node, flags).unwrap();
    assert_eq!(mode(&c, node).perm(), 0o6755);
    user.open(node, flags | OpenFlags::KILL_SUIDGID).unwrap();
    assert_eq!(mode(&c, node).perm(), 0o755);
}

fn giving_away_kills_set_id(w: &World) {
    let (c, _, node) = set_id_file(w);
    let changes = SetAttr {
        uid: Some(1000),
        kill_suidgid: true,
        ..SetAttr::default()
    };
    let attr = c.setattr(node, changes).unwrap();
    assert_eq!((attr.uid, attr.mode.perm()), (1000, 0o755));
}

fn giving_away_a_directory_keeps_set_group_id(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.chmod(dir, 0o2755).unwrap();
    c.chown(dir, Some(1000), Some(1000)).unwrap();
    assert_eq!(mode(&c, dir).perm(), 0o2755);
}
