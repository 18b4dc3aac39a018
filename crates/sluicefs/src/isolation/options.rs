//! What a process can be asked to take from itself.

use super::id_maps::{self, IdMapping};
use rustix::process::geteuid;
use rustix::thread::CapabilitySet;
use std::str::FromStr;

/// How a serving process is isolated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IsolationOptions {
    /// What it sees of the file system.
    pub sandbox: Sandbox,
    /// What happens to system calls that serving does not make.
    pub seccomp: SeccompMode,
    /// User ids of its own user name space; none for no such name space, or,
    /// if an ordinary user needs one, for that user alone.
    pub uid_map: Vec<IdMapping>,
    /// The same for groups.
    pub gid_map: Vec<IdMapping>,
    /// Capabilities to keep beyond, or besides, what serving needs.
    pub capabilities: CapabilityChanges,
}

/// What a serving process sees of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Its shares, in mount, process, network and IPC name spaces of its own.
    #[default]
    Namespace,
    /// Its share as its root directory.
    Chroot,
    /// What any process sees; Landlock and seccomp apply all the same.
    None,
}

/// What happens to a system call that serving does not make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeccompMode {
    /// It ends the process.
    #[default]
    Kill,
    /// It is made, and the kernel logs it.
    Log,
    /// The process gets SIGSYS.
    Trap,
    /// It is made.
    None,
}

impl IsolationOptions {
    /// No isolation at all but what costs nothing: Landlock, and capabilities.
    pub fn none() -> Self {
        IsolationOptions {
            sandbox: Sandbox::None,
            seccomp: SeccompMode::None,
            ..IsolationOptions::default()
        }
    }

    /// Refuses what cannot be, for so many shares.
    pub fn check(&self, shares: usize) -> Result<(), String> {
        if self.sandbox == Sandbox::Chroot && shares > 1 {
            return Err("--sandbox chroot is for one share; \
                give --sandbox namespace, or none"
                .into());
        }
        let has_maps = !self.uid_map.is_empty() || !self.gid_map.is_empty();
        if has_maps && self.sandbox != Sandbox::Namespace {
            return Err("--uid-map and --gid-map need --sandbox namespace".into());
        }
        id_maps::check("--uid-map", &self.uid_map)?;
        id_maps::check("--gid-map", &self.gid_map)
    }

    /// Whether a user name space is needed.
    pub(super) fn needs_user_namespace(&self) -> bool {
        !self.uid_map.is_empty() || !self.gid_map.is_empty() || !geteuid().is_root()
    }

    /// Whether the process serves as the ordinary user that started it, whose
    /// user name space gives powers over nothing but itself.
    pub(super) fn is_plain_user(&self) -> bool {
        self.needs_user_namespace() && self.uid_map.is_empty()
    }
}

/// Capabilities to add to, and to take from, what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilityChanges {
    add: CapabilitySet,
    remove: CapabilitySet,
}

impl Default for CapabilityChanges {
    fn default() -> Self {
        CapabilityChanges {
            add: CapabilitySet::empty(),
            remove: CapabilitySet::empty(),
        }
    }
}

impl CapabilityChanges {
    /// Adds what opens files by handle, unless that is to be given up.
    pub(crate) fn keep_handles(&mut self) {
        self.add |= CapabilitySet::DAC_READ_SEARCH;
    }

    /// Whether what opens files by handle is given up, whatever else was said.
    pub(crate) fn give_up_handles(&self) -> bool {
        self.remove.contains(CapabilitySet::DAC_READ_SEARCH)
    }

    /// The names of those to be added that this process does not have; to be asked
    /// before it gives any up.
    pub(crate) fn lacking(&self) -> Vec<&'static str> {
        let had = rustix::thread::capabilities(None).map(|sets| sets.permitted);
        let had = had.unwrap_or(CapabilitySet::empty());
        let lacking = (self.add - self.remove) - had;
        lacking.iter_names().map(|(name, _)| name).collect()
    }

    /// What is left of `set`.
    pub(super) fn apply(&self, set: CapabilitySet) -> CapabilitySet {
        (set | self.add) - self.remove
    }
}

impl FromStr for CapabilityChanges {
    type Err = String;

    /// `+NAME` and `-NAME` with colons between, the names in lower or upper
    /// case and without `CAP_`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut changes = CapabilityChanges::default();
        for word in text.split(':') {
            let (set, name) = match word.split_at_checked(1) {
                Some(("+", name)) => (&mut changes.add, name),
                Some(("-", name)) => (&mut changes.remove, name),
                _ => return Err(format!("'{word}' begins with neither + nor -")),
            };
            let capability = CapabilitySet::from_name(&name.to_ascii_uppercase());
            *set |= capability.ok_or_else(|| format!("there is no capability '{name}'"))?;
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_added_and_removed() {
        let changes: CapabilityChanges = "+sys_admin:-MKNOD".parse().unwrap();
        let set = CapabilitySet::MKNOD | CapabilitySet::CHOWN;
        let expected = CapabilitySet::SYS_ADMIN | CapabilitySet::CHOWN;
        assert_eq!(changes.apply(set), expected);
        for bad in ["", "sys_admin", "+", "+flying", "+chown:"] {
            assert!(bad.parse::<CapabilityChanges>().is_err(), "{bad}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let good = IsolationOptions::default();
        assert_eq!(good.check(3), Ok(()));
        let chroot = IsolationOptions {
            sandbox: Sandbox::Chroot,
            ..good.clone()
        };
        assert_eq!(chroot.check(1), Ok(()));
        assert!(chroot.check(2).is_err());
        let map: IdMapping = ":0:100000:10:".parse().unwrap();
        let mapped = IsolationOptions {
            uid_map: vec![map],
            ..good.clone()
        };
        assert_eq!(mapped.check(1), Ok(()));
        let unsandboxed = IsolationOptions {
            sandbox: Sandbox::None,
            ..mapped.clone()
        };
        assert!(unsandboxed.check(1).is_err());
        let twice = IsolationOptions {
            gid_map: vec![map, map],
            ..good
        };
        assert!(twice.check(1).is_err());
    }
}
