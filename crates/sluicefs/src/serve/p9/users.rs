//! The users of this machine, and whom a peer may be.

use rustix::net::UCred;
use rustix::process::{getegid, geteuid};
use sluice_proto::p9::serve::{NumericUsers, Squash, User, Users};
use std::collections::HashMap;
use std::sync::Arc;

/// What `/etc/passwd` and `/etc/group` say. They are read once, before the
/// process loses sight of them; users that other services know are numbers.
#[derive(Debug, Default)]
pub(super) struct HostUsers {
    users: HashMap<u32, Known>,
    by_name: HashMap<Vec<u8>, u32>,
    groups: HashMap<u32, Vec<u8>>,
    groups_by_name: HashMap<Vec<u8>, u32>,
}

#[derive(Debug)]
struct Known {
    name: Vec<u8>,
    gid: u32,
    groups: Vec<u32>,
}

impl HostUsers {
    /// Those of this machine; none where the files cannot be read.
    pub(super) fn load() -> Self {
        let read = |path| std::fs::read(path).unwrap_or_default();
        Self::parse(&read("/etc/passwd"), &read("/etc/group"))
    }

    fn parse(passwd: &[u8], group: &[u8]) -> Self {
        let mut all = HostUsers::default();
        for fields in lines(passwd) {
            let [name, _, uid, gid, ..] = fields.as_slice() else {
                continue;
            };
            let (Some(uid), Some(gid)) = (number(uid), number(gid)) else {
                continue;
            };
            all.by_name.entry(name.to_vec()).or_insert(uid);
            // The first of several names is the one that is shown.
            all.users.entry(uid).or_insert_with(|| Known {
                name: name.to_vec(),
                gid,
                groups: Vec::new(),
            });
        }
        for fields in lines(group) {
            let [name, _, gid, members, ..] = fields.as_slice() else {
                continue;
            };
            let Some(gid) = number(gid) else {
                continue;
            };
            all.groups_by_name.entry(name.to_vec()).or_insert(gid);
            all.groups.entry(gid).or_insert_with(|| name.to_vec());
            for member in members.split(|byte| *byte == b',') {
                let known = all
                    .by_name
                    .get(member)
                    .and_then(|uid| all.users.get_mut(uid));
                if let Some(known) = known {
                    known.groups.push(gid);
                }
            }
        }
        all
    }

    /// Everybody as the user that this process is.
    pub(super) fn own() -> Squash {
        Squash::All {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        }
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.map(|line| line.split(|byte| *byte == b':').collect())
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl Users for HostUsers {
    fn by_id(&self, uid: u32) -> User {
        match self.users.get(&uid) {
            Some(known) => User {
                groups: known.groups.clone(),
                ..User::new(uid, known.gid)
            },
            None => NumericUsers.by_id(uid),
        }
    }

    fn by_name(&self, name: &[u8]) -> Option<User> {
        match self.by_name.get(name) {
            Some(uid) => Some(self.by_id(*uid)),
            None => NumericUsers.by_name(name),
        }
    }

    fn group_by_name(&self, name: &[u8]) -> Option<u32> {
        let known = self.groups_by_name.get(name).copied();
        known.or_else(|| NumericUsers.group_by_name(name))
    }

    fn user_name(&self, uid: u32) -> Vec<u8> {
        match self.users.get(&uid) {
            Some(known) => known.name.clone(),
            None => NumericUsers.user_name(uid),
        }
    }

    fn group_name(&self, gid: u32) -> Vec<u8> {
        match self.groups.get(&gid) {
            Some(name) => name.clone(),
            None => NumericUsers.group_name(gid),
        }
    }
}

/// Users as one peer may name them. Nothing in 9P proves who a peer is, but a
/// unix socket tells: an ordinary user counts as itself, whoever it says it is.
pub(super) struct PeerUsers {
    all: Arc<HostUsers>,
    only: Option<User>,
}

impl PeerUsers {
    /// Whom a peer with these credentials may be, and whether it is believed:
    /// root and the user that serves are, and those without credentials.
    pub(super) fn for_peer(all: Arc<HostUsers>, peer: Option<UCred>) -> (Self, bool) {
        let ordinary = peer.filter(|peer| !peer.uid.is_root() && peer.uid != geteuid());
        let only = ordinary.map(|peer| {
            let known = all.by_id(peer.uid.as_raw());
            User {
                gid: peer.gid.as_raw(),
                may_choose_group: false,
                ..known
            }
        });
        let is_believed = only.is_none();
        (PeerUsers { all, only }, is_believed)
    }
}

impl Users for PeerUsers {
    fn by_id(&self, uid: u32) -> User {
        self.only.clone().unwrap_or_else(|| self.all.by_id(uid))
    }

    fn by_name(&self, name: &[u8]) -> Option<User> {
        self.only.clone().or_else(|| self.all.by_name(name))
    }

    fn group_by_name(&self, name: &[u8]) -> Option<u32> {
        self.all.group_by_name(name)
    }

    fn user_name(&self, uid: u32) -> Vec<u8> {
        self.all.user_name(uid)
    }

    fn group_name(&self, gid: u32) -> Vec<u8> {
        self.all.group_name(gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Gid, Pid, Uid};

    const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/:\n\
        ann2:x:1000:50::/:\nbroken\nbad:x:y:1::/:\n";
    const GROUP: &[u8] = b"root:x:0:\nann:x:1000:\nstaff:x:50:bob,ann\nodd:x:z:ann\n";

    fn peer(uid: u32) -> Option<UCred> {
        Some(UCred {
            pid: Pid::INIT,
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(77),
        })
    }

    #[test]
    fn the_files_are_understood() {
        let users = HostUsers::parse(PASSWD, GROUP);
        let ann = users.by_id(1000);
        assert_eq!((ann.uid, ann.gid, ann.groups), (1000, 1000, vec![50]));
        assert_eq!(users.by_name(b"ann2").unwrap().uid, 1000);
        assert_eq!(users.by_name(b"2000").unwrap().uid, 2000);
        assert_eq!(users.by_name(b"bad"), None);
        assert_eq!(users.user_name(1000), b"ann");
        assert_eq!(users.user_name(7), b"7");
        assert_eq!(users.group_name(50), b"staff");
        assert_eq!(users.group_by_name(b"staff"), Some(50));
        assert_eq!(users.group_by_name(b"odd"), None);
    }

    #[test]
    fn an_ordinary_peer_is_nobody_but_itself() {
        let all = Arc::new(HostUsers::parse(PASSWD, GROUP));
        let other = geteuid().as_raw() + 1000;
        let (users, is_believed) = PeerUsers::for_peer(Arc::clone(&all), peer(other));
        assert!(!is_believed);
        for claimed in [users.by_id(0), users.by_name(b"root").unwrap()] {
            assert_eq!((claimed.uid, claimed.gid), (other, 77));
            assert!(!claimed.may_choose_group);
        }
        for trusted in [peer(0), peer(geteuid().as_raw()), None] {
            let (users, is_believed) = PeerUsers::for_peer(Arc::clone(&all), trusted);
            assert!(is_believed);
            assert_eq!(users.by_id(0).uid, 0);
        }
    }
}
