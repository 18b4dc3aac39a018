//! Servers that answer at once, from memory: the floor below which no server gets.
//! [`serve`] is a virtio-fs device, [`p9`] speaks 9P.
//!
//! They hold a copy of the tree that the others serve. Names, attributes and the
//! content of small files are what they would be; large files read as zeros,
//! and what is written to them is taken and dropped. A new session finds the
//! tree as it was loaded.

mod answer;
pub mod p9;
mod tree;

use super::error::{BenchError, Context};
use answer::{Answer, Validity};
use sluice_proto::fuse::wire::{InHeader, Operation, Request, prefix_len};
use sluice_virtio::queue::Chain;
use sluice_virtio::vhost_user::{Backend, Device, Listener};
use std::borrow::Cow;
use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tree::Tree;

/// hiprio and one request queue.
const QUEUES: u16 = 2;

/// Room for a tag in a virtio-fs device's configuration; the number of request
/// queues follows (Virtual I/O Device 1.3, 5.11.4).
const TAG_BYTES: usize = 36;

/// Room for the longest request but for its payload: a rename, a symlink.
const INPUT: usize = 8 * 1024;

/// Serves one connection after the other at `socket`, until killed: a device
/// called `tag`, with a copy of `share`.
///
/// # Errors
/// When it cannot read the share or cannot listen.
pub fn serve(
    socket: &Path,
    share: &Path,
    tag: &str,
    is_trusted_for_ever: bool,
) -> Result<(), BenchError> {
    let loaded = Tree::load(share).context(share.display())?;
    let device = NullDevice {
        config: config(tag)?,
        validity: Validity::new(is_trusted_for_ever),
        tree: Mutex::new(loaded.clone()),
        loaded,
    };
    let listener = Listener::bind(socket).context(socket.display())?;
    let backend = Backend::new(Arc::new(device)).context("device")?;
    loop {
        backend.serve_next(&listener).context("connection")?;
    }
}

fn config(tag: &str) -> Result<Vec<u8>, BenchError> {
    let mut config = vec![0; TAG_BYTES];
    config
        .get_mut(..tag.len())
        .ok_or(BenchError::new("the tag is too long"))?
        .copy_from_slice(tag.as_bytes());
    config.extend(u32::from(QUEUES - 1).to_le_bytes());
    Ok(config)
}

struct NullDevice {
    config: Vec<u8>,
    validity: Validity,
    /// What a session begins with.
    loaded: Tree,
    tree: Mutex<Tree>,
}

impl NullDevice {
    /// Answers the request in `chain`; the bytes of the reply.
    fn answer(&self, chain: &Chain, input: &mut [u8], output: &mut Vec<u8>) -> Option<usize> {
        let mut reader = chain.reader();
        let total = reader.remaining();
        let have = reader.read(input);
        let start = input.get(..have)?;
        let prefix = start.get(..prefix_len(start).ok()?)?;
        let payload = total.checked_sub(prefix.len())?;
        let Ok(request) = Request::decode(prefix, payload, Default::default()) else {
            let unique = InHeader::peek(prefix).ok()?.unique;
            return answer::refuse(unique, chain);
        };
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(request.operation, Operation::Init { .. }) {
            *tree = self.loaded.clone();
        }
        Answer {
            tree: &mut tree,
            validity: self.validity,
            chain,
            payload_at: prefix.len(),
            output,
        }
        .to(&request)
    }
}

impl Device for NullDevice {
    fn config_space(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.config)
    }

    fn queues(&self) -> u16 {
        QUEUES
    }

    fn process(&self, _queue: u16, chain: Chain) {
        thread_local! {
            static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> =
                RefCell::new((vec![0; INPUT], Vec::new()));
        }
        let written = BUFFERS.with_borrow_mut(|(input, output)| self.answer(&chain, input, output));
        chain.complete(written.unwrap_or(0));
    }
}
