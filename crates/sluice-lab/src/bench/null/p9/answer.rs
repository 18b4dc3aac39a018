//! Replies.

use crate::bench::null::tree::Data;
use sluice_proto::p9::wire::{Dialect, Failure, Reply, Str, encode_failure, encode_reply};
use sluice_vfs::Errno;

/// Room for a reply without file data or listing: the longest has a symlink's target.
const SMALL_REPLY: usize = 8 * 1024;

/// A reply in the making; made once and used for all.
#[derive(Default)]
pub struct Answer {
    /// The message, up to the data of a file.
    pub(super) head: Vec<u8>,
    /// That data.
    pub(super) data: Option<Data>,
}

impl Answer {
    /// The message, in pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let data = self.data.iter().flat_map(Data::pieces);
        std::iter::once(self.head.as_slice()).chain(data)
    }

    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    /// Never: a message has a header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn set(&mut self, tag: u16, reply: &Reply<'_>) {
        self.encode(|head| encode_reply(tag, reply, Dialect::Linux, head).ok());
    }

    pub(super) fn fail(&mut self, tag: u16, errno: Errno) {
        let failure = Failure {
            ename: Str(b""),
            errno: errno.raw().cast_unsigned(),
        };
        self.encode(|head| encode_failure(tag, &failure, Dialect::Linux, head).ok());
    }

    fn encode(&mut self, encode: impl FnOnce(&mut [u8]) -> Option<usize>) {
        self.head.resize(SMALL_REPLY, 0);
        let len = encode(&mut self.head).unwrap_or(0);
        self.head.truncate(len);
    }
}
