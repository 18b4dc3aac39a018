//! Sequential reading and writing, with several long messages under way.

use crate::connection::Flights;
use crate::error::{Error, Result};
use crate::file::File;
use crate::ops::count_written;
use sluice_proto::p9::wire::{Payload, Request};
use sluice_vfs::Errno;
use std::collections::VecDeque;
use std::io::{self, BufRead, IoSlice, Read, Write};

/// Reads a file ahead of whoever takes the bytes: as many long messages are
/// under way as the connection's window says. Records of any size come out of
/// them; [`BufRead`] hands the received bytes out as they are. Its end is the end that
/// the file had when the reader came there; what is added later takes another reader.
///
/// After an error it can be asked again, and goes on where it was.
pub struct Reader<'f> {
    file: &'f File,
    /// Where the oldest message under way reads from, or else the next one.
    offset: u64,
    under_way: VecDeque<u16>,
    /// How many may be under way; it grows while messages come back full.
    ahead: usize,
    /// Buffers that can be used again.
    spare: Vec<Vec<u8>>,
    current: Vec<u8>,
    used: usize,
    len: usize,
    is_at_end: bool,
}

impl<'f> Reader<'f> {
    pub(crate) fn new(file: &'f File, offset: u64) -> Self {
        Reader {
            file,
            offset,
            under_way: VecDeque::new(),
            ahead: 1,
            spare: Vec::new(),
            current: Vec::new(),
            used: 0,
            len: 0,
            is_at_end: false,
        }
    }

    /// Receives the next message's bytes; none at the end of the file.
    fn advance(&mut self) -> Result<()> {
        self.top_up()?;
        let connection = &self.file.tree().connection;
        self.spare.push(std::mem::take(&mut self.current));
        (self.used, self.len) = (0, 0);
        let Some(tag) = self.under_way.pop_front() else {
            return Ok(());
        };
        let chunk = self.file.open_fid().chunk;
        let mut flights = Flights::take_over(connection, std::iter::once(tag));
        let answer = match flights.wait(tag) {
            Ok(answer) => answer,
            Err(error) => {
                // Whoever asks again must not get what lies behind it.
                self.give_up();
                return Err(error);
            }
        };
        (self.current, self.len) = (answer.data, answer.payload_len);
        self.offset = self.offset.saturating_add(self.len as u64);
        self.ahead = (self.ahead * 2).min(connection.window);
        if self.len < chunk {
            self.ahead = 1;
            // What was asked for behind it would leave a gap, if there is any.
            self.is_at_end = self.len == 0;
            self.give_up();
        }
        Ok(())
    }

    fn top_up(&mut self) -> Result<()> {
        let OpenChunk { fid, chunk } = OpenChunk::of(self.file);
        let connection = &self.file.tree().connection;
        while !self.is_at_end && self.under_way.len() < self.ahead {
            let mut buf = self.spare.pop().unwrap_or_default();
            buf.resize(chunk, 0);
            let ahead = (chunk as u64).saturating_mul(self.under_way.len() as u64);
            let request = Request::Read {
                fid,
                offset: self.offset.saturating_add(ahead),
                count: chunk as u32,
            };
            let mut flights = Flights::new(connection);
            let tag = flights.send_owned(&request, buf)?;
            flights.let_go();
            self.under_way.push_back(tag);
        }
        Ok(())
    }

    fn give_up(&mut self) {
        let connection = &self.file.tree().connection;
        drop(Flights::take_over(connection, self.under_way.drain(..)));
    }
}

/// The fid of a file, and how much a message holds.
struct OpenChunk {
    fid: u32,
    chunk: usize,
}

impl OpenChunk {
    fn of(file: &File) -> Self {
        let open = file.open_fid();
        OpenChunk {
            fid: open.fid,
            chunk: open.chunk,
        }
    }
}

impl BufRead for Reader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.len && !self.is_at_end {
            self.advance()?;
        }
        Ok(self.current.get(self.used..self.len).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.used = (self.used + count).min(self.len);
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buf)?;
        self.consume(count);
        Ok(count)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Writes a file behind whoever brings the bytes: records of any size are put
/// together to long messages, several of which are under way at a time. An
/// error comes up once, at a later call, at the latest from [`Writer::finish`]; what
/// was written from there on may be lost.
pub struct Writer<'f> {
    file: &'f File,
    /// Where the next message writes to.
    offset: u64,
    /// What is not sent yet.
    pending: Vec<u8>,
    /// What was sent last, if it came in smaller pieces.
    last: Vec<u8>,
    /// Messages with their lengths.
    under_way: VecDeque<(u16, usize)>,
}

impl<'f> Writer<'f> {
    pub(crate) fn new(file: &'f File, offset: u64) -> Self {
        Writer {
            file,
            offset,
            pending: Vec::new(),
            last: Vec::new(),
            under_way: VecDeque::new(),
        }
    }

    /// Sends what is left, and waits until the server has written all.
    ///
    /// # Errors
    /// Of any message; `EIO` if the server took only a part of one, and does not say
    /// why.
    pub fn finish(mut self) -> Result<()> {
        self.drain()
    }

    fn drain(&mut self) -> Result<()> {
        let sent = self.send_pending();
        while !self.under_way.is_empty() {
            self.settle()?;
        }
        sent
    }

    fn send_pending(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        let sent = self.send(&pending);
        self.pending = std::mem::replace(&mut self.last, pending);
        self.pending.clear();
        sent
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let window = match self.file.is_append() {
            true => 1,
            false => self.file.tree().connection.window,
        };
        while self.under_way.len() >= window {
            self.settle()?;
        }
        self.file.note_write();
        let (tree, open) = (self.file.tree(), self.file.open_fid());
        let request = Request::Write {
            fid: open.fid,
            offset: tree.place_to_write(open, self.offset, self.file.is_append())?,
            data: Payload { len: bytes.len() },
        };
        let mut flights = Flights::new(&self.file.tree().connection);
        let tag = flights.send(&request, Vec::new(), &[IoSlice::new(bytes)])?;
        flights.let_go();
        self.under_way.push_back((tag, bytes.len()));
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Waits for the oldest message.
    fn settle(&mut self) -> Result<()> {
        let Some((tag, len)) = self.under_way.pop_front() else {
            return Ok(());
        };
        let connection = &self.file.tree().connection;
        let mut flights = Flights::take_over(connection, std::iter::once(tag));
        let answer = flights.wait(tag)?;
        match count_written(&answer, len)? {
            written if written < len => self.write_rest(len, written),
            _ => Ok(()),
        }
    }

    /// The server took in only a part of the oldest message: if it has no room for the
    /// rest, it says so when it is asked for more.
    fn write_rest(&mut self, len: usize, written: usize) -> Result<()> {
        if self.under_way.is_empty() && self.last.len() == len {
            let rest = self.last.get(written..).unwrap_or_default();
            let offset = self.offset.saturating_sub(rest.len() as u64);
            return self.file.write_all_at(rest, offset);
        }
        while !self.under_way.is_empty() {
            self.settle()?;
        }
        Err(Error::Refused(Errno::EIO))
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let chunk = self.file.open_fid().chunk;
        if self.pending.is_empty() && buf.len() >= chunk {
            let now = buf.get(..chunk).unwrap_or_default();
            self.send(now)?;
            self.last.clear();
            return Ok(now.len());
        }
        let count = buf.len().min(chunk - self.pending.len());
        self.pending
            .extend_from_slice(buf.get(..count).unwrap_or_default());
        if self.pending.len() == chunk {
            self.send_pending()?;
        }
        Ok(count)
    }

    /// Waits until the server has written all.
    fn flush(&mut self) -> io::Result<()> {
        Ok(self.drain()?)
    }
}

impl Drop for Writer<'_> {
    /// What is not finished is not sent; what was sent is not waited for.
    fn drop(&mut self) {
        let connection = &self.file.tree().connection;
        let tags = self.under_way.drain(..).map(|(tag, _)| tag);
        drop(Flights::take_over(connection, tags));
    }
}
