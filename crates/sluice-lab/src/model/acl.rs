//! POSIX ACLs in the form that extended attributes carry them
//! (linux/posix_acl_xattr.h), with the algorithms of acl(5).

use sluice_vfs::{Access, Caller, Errno, Result};

/// Attribute that holds a node's own ACL.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
/// Attribute that holds what is made in a directory starts with.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    UserObj = 0x01,
    User = 0x02,
    GroupObj = 0x04,
    Group = 0x08,
    Mask = 0x10,
    Other = 0x20,
}

impl Tag {
    fn from_raw(raw: u16) -> Result<Self> {
        Ok(match raw {
            0x01 => Tag::UserObj,
            0x02 => Tag::User,
            0x04 => Tag::GroupObj,
            0x08 => Tag::Group,
            0x10 => Tag::Mask,
            0x20 => Tag::Other,
            _ => return Err(Errno::EINVAL),
        })
    }
}

#[derive(Clone, Copy)]
struct AclEntry {
    tag: Tag,
    perm: u16,
    id: u32,
}

/// A valid ACL.
#[derive(Clone)]
pub(super) struct Acl {
    entries: Vec<AclEntry>,
}

impl Acl {
    /// `None` for a value without entries, which stands for no ACL at all.
    pub(super) fn parse(value: &[u8]) -> Result<Option<Acl>> {
        let (version, rest) = value.split_at_checked(4).ok_or(Errno::EINVAL)?;
        if version != VERSION.to_le_bytes() {
            return Err(Errno::EOPNOTSUPP);
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let (entries, odd) = rest.as_chunks::<8>();
        if !odd.is_empty() {
            return Err(Errno::EINVAL);
        }
        let entries = entries.iter().map(parse_entry).collect::<Result<_>>()?;
        let acl = Acl { entries };
        acl.check()?;
        Ok(Some(acl))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            bytes.extend((entry.tag as u16).to_le_bytes());
            bytes.extend(entry.perm.to_le_bytes());
            bytes.extend(entry.id.to_le_bytes());
        }
        bytes
    }

    /// Whether permission bits say the same.
    pub(super) fn is_minimal(&self) -> bool {
        self.entries.len() == 3
    }

    /// The permission bits (rwxrwxrwx) that stand for this ACL.
    pub(super) fn to_perm(&self) -> u32 {
        let group = self.find(Tag::Mask).or(self.find(Tag::GroupObj));
        bits(self.find(Tag::UserObj)) << 6 | bits(group) << 3 | bits(self.find(Tag::Other))
    }

    /// What chmod does to an ACL.
    pub(super) fn set_perm(&mut self, perm: u32) {
        let group_class = self.group_class();
        for entry in &mut self.entries {
            let shift = match entry.tag {
                Tag::UserObj => 6,
                Tag::Other => 0,
                tag if tag == group_class => 3,
                _ => continue,
            };
            entry.perm = (perm >> shift & 7) as u16;
        }
    }

    /// What becomes of a default ACL and the permission bits `perm` of
    /// something new: each class has what both allow.
    pub(super) fn restrict(&mut self, perm: u32) -> u32 {
        let both = (self.to_perm() & perm) | (perm & !0o777);
        self.set_perm(both);
        both
    }

    /// Whether `caller` may do this to what belongs to `uid` and `gid`.
    pub(super) fn permits(&self, caller: &Caller<'_>, uid: u32, gid: u32, access: Access) -> bool {
        let wanted = access.bits() as u16;
        let mask = self.find(Tag::Mask).map_or(7, |entry| entry.perm);
        if caller.uid == uid {
            return has(self.find(Tag::UserObj), 7, wanted);
        }
        if let Some(user) = self
            .entries
            .iter()
            .find(|e| e.tag == Tag::User && e.id == caller.uid)
        {
            return has(Some(user), mask, wanted);
        }
        let is_mine = |entry: &&AclEntry| match entry.tag {
            Tag::GroupObj => in_group(caller, gid),
            Tag::Group => in_group(caller, entry.id),
            _ => false,
        };
        let mut groups = self.entries.iter().filter(is_mine).peekable();
        if groups.peek().is_some() {
            return groups.any(|entry| has(Some(entry), mask, wanted));
        }
        has(self.find(Tag::Other), 7, wanted)
    }

    fn group_class(&self) -> Tag {
        self.find(Tag::Mask).map_or(Tag::GroupObj, |mask| mask.tag)
    }

    fn find(&self, tag: Tag) -> Option<&AclEntry> {
        self.entries.iter().find(|entry| entry.tag == tag)
    }

    /// In order, one of each class, and a mask where there are named entries.
    fn check(&self) -> Result<()> {
        let count = |tag| self.entries.iter().filter(|entry| entry.tag == tag).count();
        let named = count(Tag::User) + count(Tag::Group);
        let is_whole = count(Tag::UserObj) == 1
            && count(Tag::GroupObj) == 1
            && count(Tag::Other) == 1
            && count(Tag::Mask) <= 1
            && (named == 0 || count(Tag::Mask) == 1);
        if is_whole && self.entries.is_sorted_by_key(|entry| entry.tag) {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }
}

/// Whether `gid` is one of the caller's groups.
pub(super) fn in_group(caller: &Caller<'_>, gid: u32) -> bool {
    caller.gid == gid || caller.groups.contains(&gid)
}

fn parse_entry(raw: &[u8; 8]) -> Result<AclEntry> {
    let [t0, t1, p0, p1, i0, i1, i2, i3] = *raw;
    let tag = Tag::from_raw(u16::from_le_bytes([t0, t1]))?;
    let perm = u16::from_le_bytes([p0, p1]);
    let id = u32::from_le_bytes([i0, i1, i2, i3]);
    let is_named = matches!(tag, Tag::User | Tag::Group);
    if perm & !7 != 0 || (is_named && id == NO_ID) {
        return Err(Errno::EINVAL);
    }
    Ok(AclEntry {
        tag,
        perm,
        id: if is_named { id } else { NO_ID },
    })
}

fn bits(entry: Option<&AclEntry>) -> u32 {
    entry.map_or(0, |entry| u32::from(entry.perm))
}

fn has(entry: Option<&AclEntry>, mask: u16, wanted: u16) -> bool {
    entry.is_some_and(|entry| entry.perm & mask & wanted == wanted)
}
