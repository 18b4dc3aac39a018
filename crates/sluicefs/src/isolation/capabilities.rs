//! Capabilities of a serving process (capabilities(7)).

use super::{IsolationOptions, SharePlace};
use crate::failure::{Failure, system_words};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// To act for any user of a guest, whose own kernel checks access. Not among
/// them is `DAC_READ_SEARCH`: it opens any file of a share's file system by its
/// handle, in whatever sandbox.
const TO_READ: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::FOWNER) // O_NOATIME
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID);

/// To change what users of a guest may change.
const TO_WRITE: CapabilitySet = TO_READ
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::LINUX_IMMUTABLE) // chattr +i, +a
    .union(CapabilitySet::SETFCAP);

/// What serving these shares needs, as far as the process has it.
pub(super) fn to_keep(options: &IsolationOptions, shares: &[SharePlace]) -> CapabilitySet {
    let needed = match shares.iter().all(|share| share.read_only) {
        true => TO_READ,
        false => TO_WRITE,
    };
    options.capabilities.apply(needed)
}

/// Gives up, for good, all that are not in `kept`.
pub(super) fn keep_only(kept: CapabilitySet) -> Result<(), Failure> {
    let failed = |error: rustix::io::Errno| {
        let words = system_words(&error.into());
        Failure::new(format!("cannot give up capabilities: {words}"))
    };
    let had = capabilities(None).map_err(failed)?;
    if had.effective.contains(CapabilitySet::SETPCAP) {
        for other in (!kept).iter() {
            // A kernel may have fewer than have names.
            let _ = remove_capability_from_bounding_set(other);
        }
    }
    // A kernel without ambient capabilities has nothing to clear.
    let _ = clear_ambient_capability_set();
    let sets = CapabilitySets {
        effective: had.effective & kept,
        permitted: had.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(failed)
}
