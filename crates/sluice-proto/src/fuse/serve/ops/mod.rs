//! Arguments translated from the wire, results translated to it.

pub(super) mod attrs;
pub(super) mod dirs;
pub(super) mod files;
pub(super) mod locks;
pub(super) mod names;
pub(super) mod open;
pub(super) mod xattrs;

use sluice_vfs::{ReadSink, Result};
use zerocopy::{Immutable, IntoBytes};

/// Puts a structure into the body of a reply.
fn put<T: IntoBytes + Immutable>(sink: &mut dyn ReadSink, out: &T) -> Result<()> {
    sink.put(out.as_bytes())
}
