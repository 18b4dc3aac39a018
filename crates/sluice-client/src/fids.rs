//! Numbers of fids, which are the client's to choose.

use sluice_proto::p9::wire::NOFID;

/// Which numbers are free.
#[derive(Debug, Default)]
pub(crate) struct Fids {
    next: u32,
    free: Vec<u32>,
}

impl Fids {
    /// A number that no fid has.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let fid = self.next;
            // Memory for four thousand million fids runs out before.
            self.next = (self.next + 1) % NOFID;
            fid
        })
    }

    /// The server knows the number no more.
    pub(crate) fn give_back(&mut self, fid: u32) {
        self.free.push(fid);
    }
}
