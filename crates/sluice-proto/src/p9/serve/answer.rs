//! Replies in the making.

use crate::p9::wire::{
    Dialect, ERROR_MAX, Failure, HEADER_LEN, Reply, Str, encode_failure, encode_reply,
};
use sluice_vfs::{Errno, Result};

/// Enough for every reply but the few that carry strings: an Rwalk has the most.
const SMALL: usize = 256;

/// Bytes of the longest reply, its payload not counted: an Rstat with four
/// names, or an Rgetlock whose peer has a long name for itself.
pub(super) const REPLY_MAX: usize = 24 * 1024;

/// A reply: the message, and how much of the sink follows it.
pub(super) struct Answer {
    tag: u16,
    dialect: Dialect,
    small: [u8; SMALL],
    large: Vec<u8>,
    len: usize,
    payload_len: usize,
}

impl Answer {
    /// To the request with this tag.
    pub(super) fn new(tag: u16, dialect: Dialect) -> Self {
        Answer {
            tag,
            dialect,
            small: [0; SMALL],
            large: Vec::new(),
            len: 0,
            payload_len: 0,
        }
    }

    /// Sets the reply, in place of whatever was there.
    pub(super) fn set(&mut self, reply: &Reply<'_>) -> Result<()> {
        self.payload_len = match reply {
            Reply::Read { data } | Reply::Readdir { entries: data } => data.len,
            _ => 0,
        };
        let (tag, dialect) = (self.tag, self.dialect);
        if let Ok(len) = encode_reply(tag, reply, dialect, &mut self.small) {
            self.large.clear();
            self.len = len;
            return Ok(());
        }
        self.large.resize(REPLY_MAX, 0);
        let len = encode_reply(tag, reply, dialect, &mut self.large);
        self.len = len.map_err(|_| Errno::EMSGSIZE)?;
        Ok(())
    }

    /// Makes it an error.
    pub(super) fn fail(&mut self, errno: Errno) {
        self.large.clear();
        self.payload_len = 0;
        let mut text = [0; ERROR_MAX];
        let failure = Failure {
            ename: Str(error_text(errno, self.dialect, &mut text)),
            errno: wire_errno(errno),
        };
        let len = encode_failure(self.tag, &failure, self.dialect, &mut self.small);
        // The texts are short enough.
        self.len = len.unwrap_or(HEADER_LEN);
    }

    /// The message.
    pub(super) fn message(&self) -> &[u8] {
        let buf: &[u8] = match self.large.is_empty() {
            true => &self.small,
            false => &self.large,
        };
        buf.get(..self.len).unwrap_or_default()
    }

    /// Bytes of all of it.
    pub(super) fn len(&self) -> usize {
        self.message().len().saturating_add(self.payload_len)
    }

    /// Bytes of the sink that follow it.
    pub(super) fn payload_len(&self) -> usize {
        self.payload_len
    }
}

/// Linux takes numbers from 512 on for nonsense.
fn wire_errno(errno: Errno) -> u32 {
    match errno.raw() {
        number @ 1..512 => number.cast_unsigned(),
        _ => Errno::EIO.raw().cast_unsigned(),
    }
}

/// What happened, in the words of strerror(3), which Linux finds the number by.
fn error_text(errno: Errno, dialect: Dialect, buf: &mut [u8; ERROR_MAX]) -> &[u8] {
    use std::io::Write;
    if dialect.is_linux() {
        return b"";
    }
    let mut rest = &mut buf[..];
    // What doesn't fit is cut off.
    let _ = write!(rest, "{errno}");
    let len = ERROR_MAX - rest.len();
    let text = buf.get(..len).unwrap_or_default();
    let end = text.windows(5).position(|window| window == b" (os ");
    text.get(..end.unwrap_or(len)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_words_of_the_c_library() {
        let text = |errno| {
            let mut buf = [0; ERROR_MAX];
            String::from_utf8(error_text(errno, Dialect::Unix, &mut buf).to_vec()).unwrap()
        };
        assert_eq!(text(Errno::ENOENT), "No such file or directory");
        assert_eq!(text(Errno::EACCES), "Permission denied");
        assert_eq!(text(Errno::from_raw(4000)), "Unknown error 4000");
        assert_eq!(wire_errno(Errno::ESTALE), 116);
        assert_eq!(wire_errno(Errno::from_raw(4000)), 5);
    }

    #[test]
    fn an_error_takes_the_place_of_a_reply() {
        let mut answer = Answer::new(1, Dialect::Linux);
        let target = vec![b'x'; 4000];
        let reply = Reply::Readlink {
            target: Str(&target),
        };
        answer.set(&reply).unwrap();
        assert_eq!(answer.message().len(), 4009);
        answer.fail(Errno::EIO);
        assert_eq!(answer.message(), [11, 0, 0, 0, 7, 1, 0, 5, 0, 0, 0]);
        let beyond = vec![b'x'; REPLY_MAX];
        let reply = Reply::Readlink {
            target: Str(&beyond),
        };
        assert_eq!(answer.set(&reply), Err(Errno::EMSGSIZE));
    }
}
