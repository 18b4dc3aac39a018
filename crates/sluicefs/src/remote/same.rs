//! Whether a file on the server is one of this machine's, which the server shares.

use sluice_client::{Attr, AttrMask, Timestamp};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// Of an inode number, what is the same here and there: where an export spans several
/// file systems, the server says above it which one is meant.
const INO_BITS: u64 = (1 << 48) - 1;

/// Goes by all that both sides tell of a regular file that is not empty.
pub(super) fn is_same_file(here: &Metadata, there: &Attr) -> bool {
    let is_same_time = |field, (sec, nsec): (i64, i64), there_at: Timestamp| {
        let is_told = there.mask.contains(field);
        // The older dialects have whole seconds.
        let is_same_nsec = there_at.nsec == 0 || nsec == i64::from(there_at.nsec);
        !is_told || sec == there_at.sec && is_same_nsec
    };
    here.is_file()
        && here.size() > 0
        && here.size() == there.size
        && (here.ino() ^ there.ino) & INO_BITS == 0
        && is_same_time(
            AttrMask::MTIME,
            (here.mtime(), here.mtime_nsec()),
            there.mtime,
        )
        && is_same_time(
            AttrMask::CTIME,
            (here.ctime(), here.ctime_nsec()),
            there.ctime,
        )
}

/// What stdin or stdout is.
pub(super) fn about(stream: impl AsFd) -> io::Result<Metadata> {
    let own = stream.as_fd().try_clone_to_owned()?;
    File::from(own).metadata()
}
