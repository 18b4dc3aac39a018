//! How to connect.

use crate::meter::Meter;
use sluice_proto::p9::wire::{Dialect, IO_HEADER_LEN, MSIZE_MIN};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Largest message in bytes that is offered unless options say otherwise: the
/// longest request of Linux's kernel, 1 MiB, and room for a header.
pub const MSIZE: u32 = (1 << 20) + 4096;

/// How to connect, and how the connection is used.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The export to attach to, as the server names it; empty for its first.
    pub aname: Vec<u8>,
    /// The directory of the export that is the root here. Symlinks on the way to it
    /// are followed. Empty for the export's own.
    pub dir: PathBuf,
    /// Who asks, by number; that of this process by default.
    pub uid: u32,
    /// Who asks, by name: what 9P2000 servers go by. Empty for the number in
    /// digits.
    pub uname: Vec<u8>,
    /// Largest message in bytes that is offered, header included, [`MSIZE`] by
    /// default; the server may want smaller ones. At least 4096, or there is no
    /// connection.
    pub msize: u32,
    /// The dialects to offer, the best first.
    pub dialects: Vec<Dialect>,
    /// How long a reply may take to begin, and a message to go on. `None`: for
    /// ever. Looked at four times within that, at least each second, so it may
    /// take as much longer. A request that takes longer is taken back; a server
    /// that does not even answer that ends the connection.
    pub time_limit: Option<Duration>,
    /// Payloads from so many bytes on are received straight into the caller's
    /// buffers; smaller ones come with the message and are copied.
    pub zero_copy_from: usize,
    /// Messages of one stream, or of one read or write that takes several,
    /// that are under way at a time; at least 1.
    pub window: usize,
    /// The server takes messages in their order, as 9P does not say that it must:
    /// opening a file by its path is one trip then, also where it is two messages.
    /// Sluice's own has one for it, and needs no such word.
    pub is_orderly: bool,
    /// Counts what is done. Clones of these options have the same one.
    pub meter: Arc<Meter>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            aname: Vec::new(),
            dir: PathBuf::new(),
            uid: rustix::process::geteuid().as_raw(),
            uname: Vec::new(),
            msize: MSIZE,
            dialects: vec![
                Dialect::Sluice,
                Dialect::Linux,
                Dialect::Unix,
                Dialect::Plan9,
            ],
            time_limit: Some(Duration::from_secs(60)),
            zero_copy_from: 1024,
            window: 8,
            is_orderly: false,
            meter: Arc::default(),
        }
    }
}

impl ConnectOptions {
    /// Offers nothing better than `best`.
    pub fn offer_from(&mut self, best: Dialect) {
        let at = self.dialects.iter().position(|dialect| *dialect == best);
        self.dialects.drain(..at.unwrap_or(0));
    }
}

/// What the two sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) dialect: Dialect,
    pub(crate) msize: u32,
}

impl Agreed {
    /// Most bytes of a read or write.
    pub(crate) fn payload_max(&self) -> usize {
        (self.msize.max(MSIZE_MIN) - IO_HEADER_LEN) as usize
    }
}
