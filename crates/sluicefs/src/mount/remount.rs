//! Changes to a mount that is there.

use super::kernel::FS_TYPE;
use super::options::MountOptions;
use super::{mount_table, stats};
use crate::failure::Failure;
use rustix::io::Errno;
use std::path::Path;

/// Gives the mount of ours on `target` the flags that `options` name. Nothing else of
/// it changes, and the server is not asked: it may be away.
///
/// # Errors
/// No mount of ours there, options that only a new one can have, files that are open for
/// writing, too few rights.
pub fn remount(target: &Path, options: &MountOptions) -> Result<(), Failure> {
    let found = mount_table::find(target, FS_TYPE)?;
    // Who cannot be asked has no such options to change.
    let made_with = stats::options_of(&found.entry);
    if let Some(word) = made_with.and_then(|words| options.only_for_new(&words)) {
        let target = target.display();
        let what = format!("cannot change the mount on '{target}' to mount option '{word}'");
        return Err(Failure::new(what).advise("unmount it, and mount it again with that"));
    }
    let flags = options.flags_over(&found.words);
    rustix::mount::mount_remount(&found.path, flags, c"").map_err(|errno| {
        let failure = Failure::from_io("remount", target, &errno.into());
        match errno {
            Errno::BUSY => failure.advise("files there are open for writing"),
            Errno::PERM => failure.advise("only root may"),
            _ => failure,
        }
    })
}
