//! A 9P server that answers from memory, on [`serve`]'s sockets, as [`serve_ring`]'s
//! device, or on whatever else carries messages to a [`Session`].

mod answer;
mod ring;
mod session;
mod socket;
mod words;

use super::tree::Tree;
use crate::bench::error::{BenchError, Context};
pub use answer::Answer;
pub use ring::serve_ring;
pub use session::Session;
pub use socket::serve;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A server that answers from memory: what its sessions have in common.
pub struct NullServer {
    /// What is there when there is one session and that begins.
    loaded: Tree,
    tree: Mutex<Tree>,
    sessions: AtomicUsize,
}

impl NullServer {
    /// With a copy of `share`.
    ///
    /// # Errors
    /// When it cannot read that.
    pub fn load(share: &Path) -> Result<Arc<Self>, BenchError> {
        let loaded = Tree::load(share).context(share.display())?;
        Ok(Arc::new(NullServer {
            tree: Mutex::new(loaded.clone()),
            loaded,
            sessions: AtomicUsize::new(0),
        }))
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
