//! Landlock (landlock(7)): no file but those beneath the shares is opened,
//! made, renamed or removed, wherever a descriptor leads.
//!
//! What it does not cover: looking at attributes, and changing modes, owners,
//! times and extended attributes of what a descriptor was had for. And what is
//! opened by handle counts as beneath the mount that it was opened by, wherever
//! it is in the file system (Linux 6.18; earlier ones refuse some of it).

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath,
    RestrictionStatus, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fd::OwnedFd;

/// The newest version whose restrictions are known not to disturb serving.
const KNOWN: ABI = ABI::V7;

/// What may be done where.
pub(super) struct Ruleset<'a> {
    shares: &'a [(OwnedFd, bool)],
    sockets: &'a [OwnedFd],
}

impl<'a> Ruleset<'a> {
    /// Everything beneath `shares`, or reading if they are marked as read-only;
    /// and files removed from the directories `sockets`, since those of
    /// listening sockets are when serving ends.
    pub(super) fn beneath(shares: &'a [(OwnedFd, bool)], sockets: &'a [OwnedFd]) -> Self {
        Ruleset { shares, sockets }
    }

    /// Restricts this thread and those that it will start, as far as the kernel
    /// can.
    pub(super) fn enforce(&self) {
        match self.restrict() {
            Ok(status) => tracing::debug!(?status, "Landlock"),
            Err(error) => tracing::debug!(%error, "no Landlock"),
        }
    }

    fn restrict(&self) -> Result<RestrictionStatus, RulesetError> {
        let mut ruleset = landlock::Ruleset::default()
            // Before version 2 nothing could be renamed to another directory.
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::Refer)?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(KNOWN))?
            .handle_access(AccessNet::from_all(KNOWN))?
            .scope(Scope::from_all(KNOWN))?
            .create()?;
        for (share, read_only) in self.shares {
            let access = match read_only {
                true => AccessFs::from_read(KNOWN),
                false => AccessFs::from_all(KNOWN),
            };
            ruleset = ruleset.add_rule(PathBeneath::new(share, access))?;
        }
        for dir in self.sockets {
            let access: BitFlags<AccessFs> = AccessFs::RemoveFile.into();
            ruleset = ruleset.add_rule(PathBeneath::new(dir, access))?;
        }
        ruleset.restrict_self()
    }
}
