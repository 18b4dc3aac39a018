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

/// Most pipes at a time, of two descriptors each: peers that do not read keep theirs, and
/// must leave descriptors to others.
const PIPES_MAX: usize = 128;

/// Empty pipes that are kept for the next payload.
const KEPT_MAX: usize = 8;

static PIPES: Pipes = Pipes::new(PIPES_MAX);

#[derive(Debug)]
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipe {
    fn new() -> Result<Self, Errno> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A user who has many gets small ones, which are as good for less.
        let _ = fcntl_setpipe_size(&writer, CAPACITY);
        Ok(Pipe { reader, writer })
    }
}

/// The pipes that there are.
struct Pipes {
    max: usize,
    state: Mutex<PipesState>,
}

struct PipesState {
    kept: Vec<Pipe>,
    /// Of those in use and those that are kept.
    count: usize,
}

impl Pipes {
    const fn new(max: usize) -> Self {
        let state = PipesState {
            kept: Vec::new(),
            count: 0,
        };
        Pipes {
            max,
            state: Mutex::new(state),
        }
    }

    /// An empty one. `EMFILE` if there are too many.
    fn take(&self) -> Result<Pipe, Errno> {
        let mut state = self.lock();
        if let Some(pipe) = state.kept.pop() {
            return Ok(pipe);
        }
        if state.count >= self.max {
            return Err(Errno::MFILE);
        }
        state.count += 1;
        drop(state);
        Pipe::new().inspect_err(|_| self.lock().count -= 1)
    }

    /// What is not empty is not for others.
    fn give_back(&self, pipe: Pipe, is_empty: bool) {
        let mut state = self.lock();
        if is_empty && state.kept.len() < KEPT_MAX {
            return state.kept.push(pipe);
        }
        drop(state);
        drop(pipe); // before another one is made in its place
        self.lock().count -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, PipesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a payload is in a pipe.
#[derive(Debug)]
pub(super) struct Piped {
    /// `None` once it was given back.
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
        let pipe = PIPES.take()?;
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
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            PIPES.give_back(pipe, self.len == 0 && !self.has_rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_pipes_than_there_may_be() {
        let pipes = Pipes::new(2);
        let (one, other) = (pipes.take().unwrap(), pipes.take().unwrap());
        assert_eq!(pipes.take().err(), Some(Errno::MFILE));
        pipes.give_back(one, true);
        pipes.give_back(other, false);
        let _both = (pipes.take().unwrap(), pipes.take().unwrap());
        assert_eq!(pipes.take().err(), Some(Errno::MFILE));
    }
}
