//! What the options of `sluice serve` say about 9P on a ring.

use crate::common::serving::announced;
use crate::common::{Daemon, skip, sluice, text};
use crate::guest::*;
use sluice_proto::p9::serve::{NumericUsers, ServeOptions, User, Users};
use sluice_proto::p9::wire::*;
use sluice_vfs::{AccessChecks, Errno};
use sluicefs::serve::{DeviceOptions, P9DeviceOptions};
use sluicefs::share::{self, SharePolicy};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A share that anybody may write to, with a file for its owner and group alone.
fn share_of_several() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let mode = |path: &Path, bits| {
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
    };
    mode(&root, 0o777);
    mode(dir.path(), 0o755);
    fs::write(root.join("secret"), "x").unwrap();
    mode(&root.join("secret"), 0o640);
    dir
}

/// `sluice serve` of a share on a ring.
fn served(dir: &TempDir, options: &[&str]) -> (Daemon, PathBuf) {
    let socket = dir.path().join("socket");
    let root = dir.path().join("root");
    let arguments = ["serve", text(&root), "--virtio-9p", text(&socket)];
    let (daemon, _) = announced(&mut sluice(&[&arguments, options].concat()), 1);
    (daemon, socket)
}

/// Whether a user reads root's file.
fn reads_secret(guest: &mut Guest) -> Result<(), Errno> {
    guest.walk(0, 1, &[b"secret"]).unwrap();
    let (fid, flags) = (1, LopenFlags::empty());
    guest.ask(1, &Request::Lopen { fid, flags }).map(drop)
}

#[test]
fn requests_count_as_whom_the_options_say() {
    if !rustix::process::geteuid().is_root() {
        return skip("acting for others needs root");
    }
    let refused = Err(Errno::EACCES);
    for (options, uid, expected) in [
        (&[][..], 12345, (Ok(()), 12345)),
        (&["--access=client"], 12345, (Ok(()), 12345)),
        (&["--access=user"], 12345, (refused, 12345)),
        (&["--access=any"], 12345, (Ok(()), 0)),
        (&["--squash=root"], 0, (refused, 65534)),
        (&["--squash=root"], 12345, (refused, 12345)),
        (&["--squash=all:55:55"], 0, (refused, 55)),
        (&["--access=client", "--squash=all:55:55"], 0, (Ok(()), 55)),
    ] {
        let dir = share_of_several();
        let (_daemon, socket) = served(&dir, options);
        let mut guest = Guest::connect(&socket, Dialect::Linux);
        guest.version();
        guest.attach(0, uid);
        let secret = reads_secret(&mut guest);
        guest.create(2, "made");
        let owner = fs::metadata(dir.path().join("root/made")).unwrap().uid();
        assert_eq!((secret, owner), expected, "{options:?} as {uid}");
    }
}

/// A machine on which everybody is in group 77.
struct AllIn77;

impl Users for AllIn77 {
    fn by_id(&self, uid: u32) -> User {
        User {
            groups: vec![77],
            ..User::new(uid, uid)
        }
    }

    fn by_name(&self, name: &[u8]) -> Option<User> {
        NumericUsers.by_name(name)
    }

    fn group_by_name(&self, name: &[u8]) -> Option<u32> {
        NumericUsers.group_by_name(name)
    }

    fn user_name(&self, uid: u32) -> Vec<u8> {
        NumericUsers.user_name(uid)
    }

    fn group_name(&self, gid: u32) -> Vec<u8> {
        NumericUsers.group_name(gid)
    }
}

#[test]
fn users_have_their_groups() {
    if !rustix::process::geteuid().is_root() {
        return skip("acting for others needs root");
    }
    for (group, expected) in [(77, Ok(())), (78, Err(Errno::EACCES))] {
        let dir = share_of_several();
        let root = dir.path().join("root");
        std::os::unix::fs::chown(root.join("secret"), Some(0), Some(group)).unwrap();
        let service = share::open(&root, &SharePolicy::default()).unwrap();
        let options = P9DeviceOptions {
            checks: AccessChecks::Service,
            users: Arc::new(AllIn77),
            ..ServeOptions::default().into()
        };
        let share = serve(dir, service, DeviceOptions::P9(options));
        let mut guest = Guest::connect(&share.socket, Dialect::Linux);
        guest.version();
        guest.attach(0, 12345);
        assert_eq!(reads_secret(&mut guest), expected, "{group}");
    }
}

#[test]
fn messages_are_as_long_as_the_options_say() {
    for (options, expected) in [(&[][..], MSIZE), (&["--msize=64K"], 65536)] {
        let dir = share_of_several();
        let (_daemon, socket) = served(&dir, options);
        let mut guest = Guest::connect(&socket, Dialect::Linux);
        assert_eq!(guest.version(), expected);
    }
}

/// The qid that a walk to `name` brings.
fn qid(guest: &mut Guest, fid: u32, name: &[u8]) -> Qid {
    let mut room = [0; 64];
    let names = Names::new(&[name], &mut room).unwrap();
    let walk = Request::Walk {
        fid: 0,
        newfid: fid,
        names,
    };
    let reply = guest.ask(1, &walk).unwrap();
    match decode_reply(&reply, 0, Dialect::Linux).unwrap().result {
        Ok(Reply::Walk { qids }) => qids.iter().next().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn versions_of_files_are_what_the_options_say() {
    for (options, changes) in [(&[][..], false), (&["--qid-version=content"], true)] {
        let dir = share_of_several();
        let (_daemon, socket) = served(&dir, options);
        let mut guest = Guest::mounted(&socket, Dialect::Linux);
        let before = qid(&mut guest, 1, b"secret");
        fs::write(dir.path().join("root/secret"), "longer").unwrap();
        let after = qid(&mut guest, 2, b"secret");
        assert_eq!(before.path, after.path);
        assert_eq!(before.version != after.version, changes, "{options:?}");
    }
}
