//! Content on its way from a file to a socket, in a pipe: pages that no process
//! copies (splice(2)). How much there is counts from the moment that the pipe has
//! it, whatever becomes of the file.

use super::buffer::Held;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a pipe is asked to hold, in bytes; the most that any user may ask for.
const CAPACITY: usize = 1 << 20;

/// Empty pipes that are kept for the next payload.
const KEPT_MAX: usize = 8;

static KEPT: Mutex<Vec<Pipe>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipe {
    fn new() -> Result<Self, Errno> {
        if let Some(pipe) = kept().pop() {
            return Ok(pipe);
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A user who has many gets small ones, which are as good for less.
        let _ = fcntl_setpipe_size(&writer, CAPACITY);
        Ok(Pipe { reader, writer })
    }
}

/// What of a payload is in a pipe.
#[derive(Debug)]
pub(super) struct Piped {
    /// `None` once it was put back.
    pipe: Option<Pipe>,
    /// Bytes to be sent.
    len: usize,
    /// There are more than those in it.
    has_rest: bool,
    held: Option<Held>,
}

impl Piped {
    /// Nothing yet of up to `len` bytes, which count as in use: by what was `reserved` for
    /// them, if anything was. That stays where it is if there is no pipe to be had.
    pub(super) fn new(len: usize, reserved: &mut Option<Held>) -> Result<Self, Errno> {
        let pipe = Pipe::new()?;
        Ok(Piped {
            pipe: Some(pipe),
            len: 0,
            has_rest: false,
            held: Some(reserved.take().unwrap_or_else(|| Held::new(len))),
        })
    }

    /// Bytes in it.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What counts for it, which is somebody else's now.
    pub(super) fn take_held(mut self) -> Option<Held> {
        self.held.take()
    }

    /// Leaves out all but the first `len` of them.
    pub(super) fn truncate(&mut self, len: usize) {
        self.has_rest |= len < self.len;
        self.len = self.len.min(len);
    }

    /// Takes up to `len` bytes of a file. `EAGAIN` if it is full, `EINVAL` if the
    /// file system has no pages to give.
    pub(super) fn fill(
        &mut self,
        file: BorrowedFd<'_>,
        mut offset: u64,
        len: usize,
    ) -> Result<usize, Errno> {
        let pipe = self.pipe.as_ref().ok_or(Errno::INVAL)?;
        let flags = SpliceFlags::NONBLOCK;
        let count = splice(file, Some(&mut offset), &pipe.writer, None, len, flags)?;
        self.len += count;
        Ok(count)
    }

    /// Gives what is in it to a socket, as far as that takes it. `EAGAIN` when it
    /// takes nothing.
    pub(super) fn drain(&mut self, socket: BorrowedFd<'_>, has_more: bool) -> Result<(), Errno> {
        let pipe = self.pipe.as_ref().ok_or(Errno::INVAL)?;
        let mut flags = SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, has_more);
        while self.len > 0 {
            match splice(&pipe.reader, None, socket, None, self.len, flags) {
                // It has as many as were counted.
                Ok(0) => return Err(Errno::PIPE),
                Ok(count) => self.len = self.len.saturating_sub(count),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Piped {
    /// What is not empty is not for others.
    fn drop(&mut self) {
        if self.len == 0
            && !self.has_rest
            && let Some(pipe) = self.pipe.take()
        {
            let mut kept = kept();
            if kept.len() < KEPT_MAX {
                kept.push(pipe);
            }
        }
    }
}

fn kept() -> MutexGuard<'static, Vec<Pipe>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}
