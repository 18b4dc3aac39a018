//! A request from a socket until it is answered.

use super::buffer::{Buffer, Bytes, Held, SMALL};
use super::connection::Connection;
use super::output::Payload;
use super::pipe::Piped;
use crate::serve::copied;
use rustix::io::ReadWriteFlags;
use sluice_proto::p9::serve::{Exchange, Parked};
use sluice_vfs::{Errno, ReadSink, Result, WriteFlags, WriteSource};
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Most parts of a payload that one system call writes.
const PARTS_MAX: usize = 16;

/// The request's payload is in buffers that only the kernel wrote to, and so is
/// the reply's if it is a file's content.
pub(super) struct SocketExchange {
    connection: Arc<Connection>,
    source: Source,
    sink: Sink,
    /// What it takes while it waits.
    kept: Held,
}

impl SocketExchange {
    /// A request with this payload, whose reply's has at most `room` bytes. Reads
    /// of `splice_from` bytes or more go through a pipe.
    pub(super) fn new(
        connection: Arc<Connection>,
        payload: Vec<Bytes>,
        room: usize,
        splice_from: usize,
    ) -> Self {
        SocketExchange {
            connection,
            source: Source(payload),
            sink: Sink {
                piped: None,
                buffer: None,
                len: 0,
                reserved: None,
                limit: room,
                splice_from,
            },
            kept: Held::default(),
        }
    }
}

impl Exchange for SocketExchange {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.source
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.sink
    }

    fn is_large(&self, len: usize) -> bool {
        len > SMALL
    }

    fn reserve(&mut self, len: usize) -> bool {
        self.sink.reserved = self.connection.reserve(len);
        self.sink.reserved.is_some()
    }

    /// Parts of a payload are in small buffers, which count for nothing while it runs.
    fn keep(&mut self, len: usize) {
        let small = match self.source.remaining() {
            0 => 0,
            _ => 2 * SMALL,
        };
        self.kept = Held::new(len + small);
    }

    fn finish(self, message: &[u8], payload_len: usize) {
        drop((self.source, self.kept)); // its memory need not wait for the peer
        self.connection
            .send(message, self.sink.payload(payload_len));
    }

    fn discard(self) {}

    fn park(self) -> Box<dyn Parked> {
        Box::new(ParkedRequest(self.connection))
    }
}

/// Waits for a lock, and holds nothing but its connection.
struct ParkedRequest(Arc<Connection>);

impl Parked for ParkedRequest {
    fn finish(self: Box<Self>, message: &[u8]) {
        self.0.send(message, Payload::default());
    }

    fn discard(self: Box<Self>) {}
}

/// The payload of a Twrite.
struct Source(Vec<Bytes>);

impl Source {
    fn advance(&mut self, mut count: usize) {
        for part in &mut self.0 {
            count -= part.split_front(count).len();
        }
        self.0.retain(|part| !part.is_empty());
    }
}

impl WriteSource for Source {
    fn remaining(&self) -> usize {
        self.0.iter().map(|part| part.len()).sum()
    }

    fn write_to(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        flags: WriteFlags,
    ) -> Result<usize> {
        let mut slices = [IoSlice::new(&[]); PARTS_MAX];
        let mut left = len;
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(&self.0) {
            let bytes = part.get(..left.min(part.len())).unwrap_or_default();
            *slice = IoSlice::new(bytes);
            left -= bytes.len();
            count += 1;
        }
        let slices = slices.get(..count).unwrap_or_default();
        let written = match (slices, flags.is_empty()) {
            ([slice], true) => rustix::io::pwrite(fd, slice, offset)?,
            _ => rustix::io::pwritev2(fd, slices, offset, ReadWriteFlags::from(flags))?,
        };
        self.advance(written);
        Ok(written)
    }

    fn take(&mut self, buf: &mut [u8]) -> Result<()> {
        if buf.len() > self.remaining() {
            return Err(Errno::EMSGSIZE);
        }
        let mut rest = &mut *buf;
        for part in &self.0 {
            let (head, tail) = rest.split_at_mut(part.len().min(rest.len()));
            head.copy_from_slice(part.get(..head.len()).unwrap_or_default());
            rest = tail;
        }
        copied::count(buf.len());
        self.advance(buf.len());
        Ok(())
    }
}

/// The payload of an Rread or Rreaddir.
struct Sink {
    /// Its beginning, if that went through a pipe.
    piped: Option<Piped>,
    /// The rest.
    buffer: Option<Buffer>,
    /// Bytes in the buffer.
    len: usize,
    /// For the first of them.
    reserved: Option<Held>,
    limit: usize,
    splice_from: usize,
}

impl Sink {
    /// The first `len` bytes, to be sent: none of those that came before a read failed,
    /// and fewer than came if a service says so.
    fn payload(mut self, len: usize) -> Payload {
        if let Some(piped) = &mut self.piped {
            piped.truncate(len);
        }
        let piped_len = self.piped.as_ref().map_or(0, Piped::len);
        let rest = (len - piped_len).min(self.len);
        let bytes = self.buffer.filter(|_| rest > 0);
        Payload {
            piped: self.piped.filter(|_| piped_len > 0),
            bytes: bytes.map(|mut buffer| {
                buffer.settle();
                Bytes::new(buffer, rest)
            }),
        }
    }

    /// Takes pages of a file, if there is a way to.
    fn splice(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Option<Result<usize>> {
        if self.buffer.is_some() || (self.piped.is_none() && len < self.splice_from) {
            return None;
        }
        if self.piped.is_none() {
            self.piped = Piped::new(len, &mut self.reserved).ok();
        }
        match self.piped.as_mut()?.fill(fd, offset, len) {
            Ok(count) => Some(Ok(count)),
            // Full, or a file system that has none to give.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INVAL) => {
                self.leave_empty_pipe();
                None
            }
            Err(error) => Some(Err(error.into())),
        }
    }

    /// What was to come through the pipe is not counted for it besides the buffer.
    fn leave_empty_pipe(&mut self) {
        if let Some(piped) = self.piped.take_if(|piped| piped.len() == 0) {
            self.reserved = piped.take_held();
        }
    }

    /// Room for `more` bytes behind what is in the buffer.
    fn room(&mut self, more: usize) -> &mut [u8] {
        let end = self.len + more;
        let reserved = &mut self.reserved;
        let buffer = self
            .buffer
            .get_or_insert_with(|| Buffer::with(more, reserved.take()));
        if buffer.len() < end {
            let size = (buffer.len() * 2).min(self.limit);
            buffer.grow(size.max(end), self.len);
            copied::count(self.len);
        }
        buffer.get_mut(self.len..end).unwrap_or_default()
    }
}

impl ReadSink for Sink {
    fn remaining(&self) -> usize {
        let piped = self.piped.as_ref().map_or(0, Piped::len);
        self.limit.saturating_sub(piped + self.len)
    }

    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize> {
        let len = len.min(self.remaining());
        if let Some(outcome) = self.splice(fd, offset, len) {
            return outcome;
        }
        let count = rustix::io::pread(fd, self.room(len), offset)?;
        self.len += count;
        Ok(count)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.remaining() {
            return Err(Errno::EMSGSIZE);
        }
        self.room(bytes.len()).copy_from_slice(bytes);
        copied::count(bytes.len());
        self.len += bytes.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::p9::held_bytes;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::process::Command;

    /// Of a long read, for which there is memory.
    fn sink() -> Sink {
        Sink {
            piped: None,
            buffer: None,
            len: 0,
            reserved: Some(Held::new(2 * SMALL)),
            limit: 2 * SMALL,
            splice_from: 1,
        }
    }

    #[test]
    fn what_cannot_go_through_a_pipe_is_counted_once() {
        let mut sink = sink();
        // The kernel has no splice(2) for it.
        let file = File::open("/proc/self/auxv").unwrap();
        let mut pipe = Piped::new(0, &mut None).unwrap();
        assert_eq!(
            pipe.fill(file.as_fd(), 0, 16),
            Err(rustix::io::Errno::INVAL)
        );
        let count = sink.read_from(file.as_fd(), 0, 2 * SMALL).unwrap();
        assert!(count > 0 && count == sink.len);
        assert!(sink.piped.is_none() && sink.reserved.is_none());
    }

    /// In a process of its own, which may have no more descriptors.
    #[test]
    fn without_a_pipe_there_is_the_buffer_for_which_memory_was_set_aside() {
        const NAME: &str = "serve::p9::exchange::tests::\
            without_a_pipe_there_is_the_buffer_for_which_memory_was_set_aside";
        const IN_CHILD: &str = "SLUICE_P9_TEST_WITHOUT_PIPES";
        if std::env::var_os(IN_CHILD).is_none() {
            let output = Command::new("/proc/self/exe")
                .args(["--exact", NAME, "--test-threads=1"])
                .env(IN_CHILD, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("1 passed"), "{said}");
            return;
        }
        let file = File::open("/proc/self/exe").unwrap();
        let none = Rlimit {
            current: Some(0),
            ..getrlimit(Resource::Nofile)
        };
        setrlimit(Resource::Nofile, none).unwrap();
        let (before, mut sink) = (held_bytes(), sink());
        assert!(sink.splice(file.as_fd(), 0, 2 * SMALL).is_none());
        assert!(sink.reserved.is_some());
        assert_eq!(sink.read_from(file.as_fd(), 0, 2 * SMALL), Ok(2 * SMALL));
        assert!(sink.piped.is_none() && sink.reserved.is_none());
        let buffer = sink.buffer.as_ref().unwrap();
        assert_eq!(held_bytes() - before, buffer.len());
        drop(sink);
        assert_eq!(held_bytes(), before);
    }
}
