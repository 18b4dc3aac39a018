//! Who attaches, and as whom that counts here.
//!
//! Nothing in 9P proves who a peer is: a Tattach states a user, by number or by
//! name. What is done through its fids is done as that user, unless the export
//! is squashed.

use sluice_vfs::Caller;
use std::str::FromStr;

/// A user of the host, with the groups that count for permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// Requests may name another group for what they make.
    pub may_choose_group: bool,
}

impl User {
    /// The ids that stand for nobody (`nobody` and `nogroup`).
    pub const NOBODY: u32 = 65_534;

    /// A user with no more than these.
    pub fn new(uid: u32, gid: u32) -> Self {
        User {
            uid,
            gid,
            groups: Vec::new(),
            may_choose_group: true,
        }
    }

    /// The caller of a request.
    pub(super) fn caller(&self) -> Caller<'_> {
        Caller {
            uid: self.uid,
            gid: self.gid,
            groups: &self.groups,
            pid: 0,
        }
    }

    /// The caller of a request that makes something for `gid`.
    pub(super) fn maker(&self, gid: u32) -> Caller<'_> {
        let caller = self.caller();
        match self.may_choose_group && gid != u32::MAX {
            true => Caller { gid, ..caller },
            false => caller,
        }
    }
}

/// What the host knows of its users. Names are bytes as they stand in messages.
pub trait Users: Send + Sync {
    /// The user with this number; one that is not known still has a number.
    fn by_id(&self, uid: u32) -> User;

    /// The user with this name, if there is one.
    fn by_name(&self, name: &[u8]) -> Option<User>;

    /// The group with this name, if there is one.
    fn group_by_name(&self, name: &[u8]) -> Option<u32>;

    /// The name of a user; a number in digits if there is none.
    fn user_name(&self, uid: u32) -> Vec<u8>;

    /// The name of a group; a number in digits if there is none.
    fn group_name(&self, gid: u32) -> Vec<u8>;
}

/// Users that have numbers and no names, but for root, and nobody, by whose name Linux
/// mounts. A user is in no group that is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumericUsers;

impl Users for NumericUsers {
    fn by_id(&self, uid: u32) -> User {
        let gid = match uid {
            0 => 0,
            _ => User::NOBODY,
        };
        User::new(uid, gid)
    }

    fn by_name(&self, name: &[u8]) -> Option<User> {
        let uid = match name {
            b"root" => Some(0),
            b"nobody" => Some(User::NOBODY),
            _ => number(name),
        };
        uid.map(|uid| self.by_id(uid))
    }

    fn group_by_name(&self, name: &[u8]) -> Option<u32> {
        number(name)
    }

    fn user_name(&self, uid: u32) -> Vec<u8> {
        uid.to_string().into_bytes()
    }

    fn group_name(&self, gid: u32) -> Vec<u8> {
        gid.to_string().into_bytes()
    }
}

fn number(name: &[u8]) -> Option<u32> {
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// Whose requests are done as someone else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Nobody's.
    #[default]
    None,
    /// The superuser's.
    Root {
        /// User in its place.
        uid: u32,
        /// Group in its place.
        gid: u32,
    },
    /// Everybody's.
    All {
        /// User in their place.
        uid: u32,
        /// Group in their place.
        gid: u32,
    },
}

impl Squash {
    /// As whom `user` counts.
    pub(super) fn apply(self, user: User) -> User {
        let (uid, gid) = match self {
            Squash::Root { uid, gid } if user.uid == 0 => (uid, gid),
            Squash::All { uid, gid } => (uid, gid),
            // A group could be the superuser's as well.
            Squash::Root { .. } => {
                return User {
                    may_choose_group: false,
                    ..user
                };
            }
            Squash::None => return user,
        };
        User {
            may_choose_group: false,
            ..User::new(uid, gid)
        }
    }
}

/// A word that names no way of squashing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither none, root nor all, nor one of these with :UID:GID")]
pub struct UnknownSquash(String);

impl FromStr for Squash {
    type Err = UnknownSquash;

    /// `none`, `root` or `all`; the latter two may name whom they make of it, as
    /// in `all:1000:1000`.
    fn from_str(text: &str) -> Result<Self, UnknownSquash> {
        let unknown = || UnknownSquash(text.to_owned());
        let (word, ids) = text.split_once(':').unwrap_or((text, ""));
        let (uid, gid) = match ids {
            "" if text.ends_with(':') => return Err(unknown()),
            "" => (User::NOBODY, User::NOBODY),
            _ => ids
                .split_once(':')
                .and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)))
                .ok_or_else(unknown)?,
        };
        match word {
            "none" if ids.is_empty() => Ok(Squash::None),
            "root" => Ok(Squash::Root { uid, gid }),
            "all" => Ok(Squash::All { uid, gid }),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squashing_takes_rights_and_the_choice_of_groups() {
        let me = User {
            groups: vec![7],
            ..User::new(1000, 1000)
        };
        assert_eq!(Squash::None.apply(me.clone()), me);
        let all = Squash::All { uid: 5, gid: 6 }.apply(me.clone());
        assert_eq!((all.uid, all.gid, all.groups.len()), (5, 6, 0));
        assert_eq!(all.maker(0).gid, 6);
        let root = "root".parse::<Squash>().unwrap();
        assert_eq!(root.apply(User::new(0, 0)).uid, User::NOBODY);
        let kept = root.apply(me);
        assert_eq!((kept.uid, kept.maker(0).gid), (1000, 1000));
        assert_eq!(User::new(1000, 1000).maker(50).gid, 50);
        assert_eq!(User::new(1000, 1000).maker(u32::MAX).gid, 1000);
    }

    #[test]
    fn squashing_is_a_word() {
        let parse = |text: &str| text.parse::<Squash>().ok();
        assert_eq!(parse("none"), Some(Squash::None));
        assert_eq!(parse("all:1:2"), Some(Squash::All { uid: 1, gid: 2 }));
        for text in [
            "",
            "all:",
            "all:1",
            "all:1:2:3",
            "none:1:2",
            "some",
            "root:a:b",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
