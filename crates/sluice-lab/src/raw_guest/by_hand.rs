//! Requests put together by hand, right or wrong.

use super::{Guest, HEADER_LEN, ROOM};
use sluice_proto::fuse::wire::{ERRNO_END, InHeader, OutHeader};
use sluice_vfs::Errno;
use sluice_virtio::driver::DriverError;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What came back for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request that it names.
    pub unique: u64,
    /// The body, or the error.
    pub result: Result<Vec<u8>, Errno>,
}

/// A header whose length fits a body of `body_len` bytes.
pub fn header(opcode: u32, node: u64, body_len: usize) -> InHeader {
    InHeader {
        len: (size_of::<InHeader>() + body_len) as u32,
        opcode,
        unique: 1 << 40,
        nodeid: node,
        ..InHeader::default()
    }
}

/// Arguments and what follows them.
pub fn body(args: &(impl IntoBytes + Immutable), rest: &[u8]) -> Vec<u8> {
    [args.as_bytes(), rest].concat()
}

impl Guest {
    /// Sends a request of any opcode with any body; the reply's body.
    ///
    /// # Errors
    /// As the device answers.
    #[track_caller]
    pub fn ask_raw(&mut self, opcode: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let header = self.stamped(header(opcode, node, body.len()));
        let reply = self.send_raw(&header, body, &[HEADER_LEN, ROOM]);
        reply.expect("a reply was due").result
    }

    /// Sends any header with any body; the answer, if there is one.
    #[track_caller]
    pub fn send_raw(&mut self, header: &InHeader, body: &[u8], room: &[u32]) -> Option<Answer> {
        self.try_raw(&[header.as_bytes(), body], room)
            .expect("the device serves on")
    }

    /// Sends any buffers. No reply is `None`.
    ///
    /// # Errors
    /// The device does not serve this connection any more.
    #[track_caller]
    pub fn try_raw(
        &mut self,
        readable: &[&[u8]],
        room: &[u32],
    ) -> Result<Option<Answer>, DriverError> {
        let reply = self.bytes(readable, room)?;
        Ok((!reply.is_empty()).then(|| answer(&reply)))
    }

    /// The header with who asks, and a number of its own.
    pub fn stamped(&mut self, header: InHeader) -> InHeader {
        self.unique += 2;
        let (uid, gid) = self.caller;
        InHeader {
            unique: self.unique,
            uid,
            gid,
            ..header
        }
    }
}

/// A reply, which must be well-formed.
#[track_caller]
fn answer(reply: &[u8]) -> Answer {
    let (header, body) = OutHeader::read_from_prefix(reply).expect("a whole header");
    assert_eq!(
        header.len as usize,
        reply.len(),
        "the length is the reply's"
    );
    let result = match header.error {
        0 => Ok(body.to_vec()),
        error => {
            assert!((-ERRNO_END + 1..0).contains(&error), "errno {error}");
            assert!(body.is_empty(), "an error has no body");
            Err(Errno::from_raw(-error))
        }
    };
    Answer {
        unique: header.unique,
        result,
    }
}
