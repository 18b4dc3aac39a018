//! Extended attributes: Txattrwalk and Txattrcreate.

use super::client::P9Client;
use super::transport::P9Transport;
use sluice_proto::p9::wire::{Payload, Reply, Request, Str};
use sluice_vfs::{Errno, ReadSink, Result};

impl<T: P9Transport> P9Client<T> {
    /// The value of an attribute, or without a name the list of all.
    pub(super) fn read_xattr(&self, fid: u32, name: &[u8]) -> Result<Vec<u8>> {
        let newfid = self.new_fid();
        let answer = self.call(&Request::Xattrwalk {
            fid,
            newfid,
            name: Str(name),
        })?;
        let Reply::Xattrwalk { size } = answer.get() else {
            panic!("Txattrwalk is answered by itself");
        };
        let mut value = Vec::new();
        while (value.len() as u64) < size {
            let reply = self.call(&Request::Read {
                fid: newfid,
                offset: value.len() as u64,
                count: self.payload_max() as u32,
            })?;
            assert!(!reply.payload().is_empty(), "the value is as long as told");
            value.extend(reply.payload());
        }
        self.clunk(newfid)?;
        Ok(value)
    }

    /// Sets an attribute; without a value it is removed.
    pub(super) fn write_xattr(
        &self,
        fid: u32,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let (newfid, _) = self.walk(fid, None)?;
        let begun = self.call(&Request::Xattrcreate {
            fid: newfid,
            name: Str(name),
            size: value.len() as u64,
            flags,
        });
        if let Err(error) = begun {
            self.clunk(newfid)?;
            return Err(error);
        }
        let mut offset = 0;
        for piece in value.chunks(self.payload_max()) {
            let data = Payload { len: piece.len() };
            let request = Request::Write {
                fid: newfid,
                offset,
                data,
            };
            match self.call_with(&request, piece)?.get() {
                Reply::Write { count } => assert_eq!(count as usize, piece.len()),
                other => panic!("{other:?} answers Twrite"),
            }
            offset += piece.len() as u64;
        }
        match self.clunk(newfid) {
            Ok(()) => Ok(()),
            // The fid is gone all the same.
            Err(error) => match self.clunk(newfid) {
                Err(Errno::EBADF) => Err(error),
                other => panic!("a clunked fid answers {other:?}"),
            },
        }
    }
}

/// Gives a value to whoever asked for more than its length.
pub(super) fn hand_out(value: &[u8], sink: Option<&mut dyn ReadSink>) -> Result<usize> {
    if let Some(sink) = sink {
        if value.len() > sink.remaining() {
            return Err(Errno::ERANGE);
        }
        sink.put(value)?;
    }
    Ok(value.len())
}
