//! The operations, one module for each family. They own no state: what outlasts
//! a request is in the tables.

pub(crate) mod attr;
pub(crate) mod create;
pub(crate) mod dir;
pub(crate) mod io;
pub(crate) mod ioctl;
pub(crate) mod lock;
pub(crate) mod lookup;
pub(crate) mod open;
pub(crate) mod remove;
pub(crate) mod space;
pub(crate) mod xattr;

use sluice_vfs::{HandleId, NodeId};

/// A node, and the handle if the peer has it open.
pub(crate) type Target = (NodeId, Option<HandleId>);
