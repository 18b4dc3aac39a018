//! Content: any number of bytes, to and from any number of buffers, in as few
//! messages as can be.

use super::{OpenFid, Tree, odd};
use crate::connection::Flights;
use crate::error::{Error, Result, Violation};
use crate::requests::Answer;
use sluice_proto::p9::wire::{Dialect, Payload, Reply, Request};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};

impl Tree {
    /// Reads from `offset` on until the buffers are full or the file ends; how
    /// many bytes. What is left of the buffers may have been written to.
    ///
    /// An error comes up only if nothing could be read before it.
    pub(crate) fn read(
        &self,
        file: &OpenFid,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<usize> {
        let mut flights = Flights::new(&self.connection);
        let mut under_way: VecDeque<(u16, usize)> = VecDeque::new();
        let mut rest = Gather::new(bufs);
        let (mut asked, mut done) = (0_u64, 0);
        loop {
            while under_way.len() < self.connection.window
                && let Some((slices, count)) = rest.next(file.chunk)
            {
                let request = Request::Read {
                    fid: file.fid,
                    offset: offset.saturating_add(asked),
                    count: count as u32,
                };
                let tag = flights.send(&request, slices, &[])?;
                under_way.push_back((tag, count));
                asked += count as u64;
            }
            let Some((tag, count)) = under_way.pop_front() else {
                return Ok(done);
            };
            match flights.wait(tag) {
                Ok(answer) => {
                    done += answer.payload_len;
                    if answer.payload_len < count {
                        return Ok(done);
                    }
                }
                Err(error) if done == 0 || error.is_fatal() => return Err(error),
                Err(_) => return Ok(done),
            }
        }
    }

    /// Writes all of the buffers from `offset` on; how many bytes, fewer only if
    /// an error came up behind them. What lies behind an error may have been
    /// written all the same.
    pub(crate) fn write(
        &self,
        file: &OpenFid,
        offset: u64,
        bufs: &[IoSlice<'_>],
        is_append: bool,
    ) -> Result<usize> {
        let offset = self.place_to_write(file, offset, is_append)?;
        // Whatever is appended has an order.
        let window = if is_append { 1 } else { self.connection.window };
        let mut flights = Flights::new(&self.connection);
        let mut under_way: VecDeque<(u16, usize)> = VecDeque::new();
        let mut rest = Scatter::new(bufs);
        let (mut given, mut done) = (0_u64, 0);
        loop {
            while under_way.len() < window
                && let Some((slices, count)) = rest.next(file.chunk)
            {
                let request = Request::Write {
                    fid: file.fid,
                    offset: offset.saturating_add(given),
                    data: Payload { len: count },
                };
                let tag = flights.send(&request, Vec::new(), &slices)?;
                under_way.push_back((tag, count));
                given += count as u64;
            }
            let Some((tag, count)) = under_way.pop_front() else {
                return Ok(done);
            };
            let written = flights
                .wait(tag)
                .and_then(|answer| count_written(&answer, count));
            match written {
                Ok(written) => {
                    done += written;
                    if written < count {
                        return Ok(done);
                    }
                }
                Err(error) if done == 0 || error.is_fatal() => return Err(error),
                Err(_) => return Ok(done),
            }
        }
    }

    /// Where a write goes. Plain 9P2000 has no way to append, so it goes to what is
    /// the end now.
    pub(crate) fn place_to_write(
        &self,
        file: &OpenFid,
        offset: u64,
        is_append: bool,
    ) -> Result<u64> {
        match is_append && self.dialect() == Dialect::Plan9 {
            true => Ok(self.getattr(file.fid)?.size),
            false => Ok(offset),
        }
    }
}

/// What an Rwrite says, which is not more than was sent.
pub(crate) fn count_written(answer: &Answer, sent: usize) -> Result<usize> {
    let count = match answer.get()? {
        Reply::Write { count } => count as usize,
        other => return Err(odd(&other)),
    };
    match count > sent {
        true => Err(Error::Violation(Violation::Excess {
            what: "written bytes",
            asked: sent as u64,
            got: count as u64,
        })),
        false => Ok(count),
    }
}

/// Hands buffers to read into out, a message's worth at a time.
struct Gather<'a, 'b> {
    rest: std::slice::IterMut<'a, IoSliceMut<'b>>,
    current: &'a mut [u8],
}

impl<'a, 'b> Gather<'a, 'b> {
    fn new(bufs: &'a mut [IoSliceMut<'b>]) -> Self {
        Gather {
            rest: bufs.iter_mut(),
            current: &mut [],
        }
    }

    /// Up to `chunk` bytes; how many.
    fn next(&mut self, chunk: usize) -> Option<(Vec<IoSliceMut<'a>>, usize)> {
        let (mut slices, mut count) = (Vec::new(), 0);
        while count < chunk {
            if self.current.is_empty() {
                match self.rest.next() {
                    Some(buf) => self.current = buf,
                    None => break,
                }
            }
            let current = std::mem::take(&mut self.current);
            let (now, later) = current.split_at_mut(current.len().min(chunk - count));
            self.current = later;
            count += now.len();
            if !now.is_empty() {
                slices.push(IoSliceMut::new(now));
            }
        }
        (count > 0).then_some((slices, count))
    }
}

/// Hands buffers to write from out, a message's worth at a time.
struct Scatter<'a, 'b> {
    rest: std::slice::Iter<'a, IoSlice<'b>>,
    current: &'a [u8],
}

impl<'a, 'b> Scatter<'a, 'b> {
    fn new(bufs: &'a [IoSlice<'b>]) -> Self {
        Scatter {
            rest: bufs.iter(),
            current: &[],
        }
    }

    /// Up to `chunk` bytes; how many.
    fn next(&mut self, chunk: usize) -> Option<(Vec<IoSlice<'a>>, usize)> {
        let (mut slices, mut count) = (Vec::new(), 0);
        while count < chunk {
            if self.current.is_empty() {
                match self.rest.next() {
                    Some(buf) => self.current = buf,
                    None => break,
                }
            }
            let (now, later) = self.current.split_at(self.current.len().min(chunk - count));
            self.current = later;
            count += now.len();
            if !now.is_empty() {
                slices.push(IoSlice::new(now));
            }
        }
        (count > 0).then_some((slices, count))
    }
}
