//! Extended attributes under other names: a layer that translates between the
//! names that clients use and those on the host.
//!
//! Rules and syntax are virtiofsd's (its `xattr-mapping.md`): the first rule
//! that fits a name decides, and a name that none fits is treated as `bad`.
//!
//! - [`XattrMap`]: the rules, and what they make of a name.
//! - `parse`: rules as text.
//! - `session`: the layer.

mod parse;
mod session;

pub use parse::BadRule;
pub use session::XattrMapped;

use sluice_vfs::{Errno, InvalidName, XATTR_NAME_MAX, XattrName};

/// Names that POSIX ACLs have in the client's kernel and on the host.
const ACL_NAMES: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// Name of a file's capabilities, which a kernel drops when the file is changed.
const CAPABILITIES: &[u8] = b"security.capability";

/// What names become. Made from text, such as `:map::user.virtiofs.:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XattrMap {
    rules: Vec<Rule>,
}

/// One rule. A name from a client fits if it begins with `key`, one from the
/// host if it begins with `prepend`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    action: Action,
    for_client: bool,
    for_host: bool,
    key: Box<[u8]>,
    prepend: Box<[u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// `prepend` goes before a client's name, and is taken off one of the host.
    Prefix,
    /// The name passes as it is.
    Ok,
    /// The name is hidden, and a client may not use it.
    Bad,
    /// The name is hidden, and a client is told that there is no such thing.
    Unsupported,
}

/// Why a client may not use a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The attribute is not there and can't be made.
    Bad,
    /// There is no such kind of attribute.
    Unsupported,
    /// The name that it has on the host is longer than names may be.
    TooLong,
}

impl Refusal {
    /// For an operation that changes the attribute.
    fn of_a_change(self) -> Errno {
        match self {
            Refusal::Bad => Errno::EPERM,
            Refusal::Unsupported => Errno::EOPNOTSUPP,
            Refusal::TooLong => Errno::ERANGE,
        }
    }

    /// For an operation that looks at it.
    fn of_a_look(self) -> Errno {
        match self {
            Refusal::Bad => Errno::ENODATA,
            other => other.of_a_change(),
        }
    }
}

/// A name on the host.
struct HostName {
    bytes: [u8; XATTR_NAME_MAX],
    len: usize,
}

impl HostName {
    fn new(prefix: &[u8], name: &[u8]) -> Result<Self, Refusal> {
        let mut host = HostName {
            bytes: [0; XATTR_NAME_MAX],
            len: prefix.len() + name.len(),
        };
        let room = host.bytes.get_mut(..host.len).ok_or(Refusal::TooLong)?;
        let (before, behind) = room.split_at_mut(prefix.len());
        before.copy_from_slice(prefix);
        behind.copy_from_slice(name);
        Ok(host)
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn as_xattr(&self) -> Result<XattrName<'_>, InvalidName> {
        XattrName::new(self.as_bytes())
    }
}

impl XattrMap {
    /// Whether POSIX ACLs keep their names, without which the host's kernel
    /// does not know them.
    pub fn keeps_acls(&self) -> bool {
        ACL_NAMES.into_iter().all(|name| self.keeps(name))
    }

    /// Whether the host's kernel knows a file's capabilities and drops them
    /// when it should.
    fn keeps_capabilities(&self) -> bool {
        self.keeps(CAPABILITIES)
    }

    fn keeps(&self, name: &[u8]) -> bool {
        self.to_host(name).is_ok_and(|host| host.as_bytes() == name)
    }

    /// The name on the host for one that a client uses.
    fn to_host(&self, name: &[u8]) -> Result<HostName, Refusal> {
        let rule = self
            .rules
            .iter()
            .find(|rule| rule.for_client && name.starts_with(&rule.key))
            .ok_or(Refusal::Bad)?;
        match rule.action {
            Action::Prefix => HostName::new(&rule.prepend, name),
            Action::Ok => HostName::new(&[], name),
            Action::Bad => Err(Refusal::Bad),
            Action::Unsupported => Err(Refusal::Unsupported),
        }
    }

    /// The name that clients are shown for one on the host, if any.
    fn to_client<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        let rule = self
            .rules
            .iter()
            .find(|rule| rule.for_host && name.starts_with(&rule.prepend))?;
        match rule.action {
            Action::Prefix => name.strip_prefix(&*rule.prepend),
            Action::Ok => Some(name),
            Action::Bad | Action::Unsupported => None,
        }
        .filter(|shown| !shown.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rules: &str) -> XattrMap {
        rules.parse().unwrap()
    }

    fn host(map: &XattrMap, name: &str) -> Result<String, Errno> {
        match map.to_host(name.as_bytes()) {
            Ok(host) => Ok(String::from_utf8(host.as_bytes().to_vec()).unwrap()),
            Err(refusal) => Err(refusal.of_a_change()),
        }
    }

    fn client<'n>(map: &XattrMap, name: &'n str) -> Option<&'n str> {
        map.to_client(name.as_bytes())
            .map(|shown| std::str::from_utf8(shown).unwrap())
    }

    /// Examples 1 and 2 of virtiofsd's description, in both spellings.
    #[test]
    fn shorthands_mean_what_they_stand_for() {
        assert_eq!(
            map(":map::user.virtiofs.:"),
            map(":prefix:all::user.virtiofs.::bad:all:::")
        );
        assert_eq!(
            map("/map/trusted./user.virtiofs./"),
            map("/prefix/all/trusted./user.virtiofs./\n\
                 /bad/server//trusted./\n /bad/client/user.virtiofs.//  /ok/all///  ")
        );
    }

    #[test]
    fn a_map_of_everything_shows_only_what_it_prefixed() {
        let map = map(":map::user.virtiofs.:");
        assert_eq!(
            host(&map, "security.selinux").as_deref(),
            Ok("user.virtiofs.security.selinux")
        );
        assert_eq!(
            client(&map, "user.virtiofs.security.selinux"),
            Some("security.selinux")
        );
        assert_eq!(client(&map, "security.selinux"), None);
        assert_eq!(client(&map, "user.virtiofs."), None, "an empty name");
        assert!(!map.keeps_acls());
        assert!(!map.keeps_capabilities());
    }

    #[test]
    fn a_map_of_some_keeps_clients_from_its_target() {
        let map = map("/map/trusted./user.virtiofs./");
        assert_eq!(
            host(&map, "trusted.overlay.opaque").as_deref(),
            Ok("user.virtiofs.trusted.overlay.opaque")
        );
        assert_eq!(
            host(&map, "user.virtiofs.trusted.overlay.opaque"),
            Err(Errno::EPERM)
        );
        assert_eq!(client(&map, "trusted.of.the.host"), None);
        assert_eq!(
            client(&map, "user.virtiofs.trusted.overlay.opaque"),
            Some("trusted.overlay.opaque")
        );
        assert_eq!(host(&map, "user.plain").as_deref(), Ok("user.plain"));
        assert_eq!(client(&map, "user.plain"), Some("user.plain"));
        assert!(map.keeps_acls());
        assert!(map.keeps_capabilities());
    }

    #[test]
    fn the_first_rule_that_fits_decides_in_each_direction() {
        let map = map(":ok:client:user.a::\
             :unsupported:all:security.selinux:security.selinux:\
             :bad:client:user.:user.:\
             :prefix:client::far.:\
             :ok:server::user.a:\
             :bad:server::user.:\
             :ok:server:::");
        assert_eq!(host(&map, "user.abc").as_deref(), Ok("user.abc"));
        assert_eq!(host(&map, "user.b"), Err(Errno::EPERM));
        assert_eq!(host(&map, "security.selinux"), Err(Errno::EOPNOTSUPP));
        assert_eq!(host(&map, "trusted.x").as_deref(), Ok("far.trusted.x"));
        assert_eq!(client(&map, "user.abc"), Some("user.abc"));
        assert_eq!(client(&map, "user.b"), None);
        assert_eq!(client(&map, "security.selinux"), None);
        assert_eq!(client(&map, "far.trusted.x"), Some("far.trusted.x"));
    }

    #[test]
    fn what_no_rule_fits_is_bad() {
        let map = map(":ok:all:user.:user.:");
        assert_eq!(host(&map, "trusted.x"), Err(Errno::EPERM));
        assert_eq!(client(&map, "trusted.x"), None);
        let refusal = map.to_host(b"trusted.x").err().unwrap();
        assert_eq!(refusal.of_a_look(), Errno::ENODATA);
    }

    #[test]
    fn no_name_grows_beyond_what_names_may_have() {
        let map = map(":map::user.virtiofs.:");
        let name = "n".repeat(XATTR_NAME_MAX - "user.virtiofs.".len());
        assert!(host(&map, &name).is_ok());
        assert_eq!(host(&map, &format!("{name}n")), Err(Errno::ERANGE));
    }
}
