//! The shared file with the record of chains in flight, one record for each ring.

use super::error::Error;
use super::message::Inflight;
use crate::memory::{Region, RegionSpec, Window};
use crate::queue::layout::MAX_QUEUE_SIZE;
use crate::queue::record_bytes;
use rustix::fs::MemfdFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct InflightArea {
    region: Arc<Region>,
    shape: Inflight,
}

impl InflightArea {
    /// Makes an empty area for as many rings of such a size as `wanted` says
    /// (`GET_INFLIGHT_FD`). Returns its file, too.
    pub(super) fn create(wanted: &Inflight) -> Result<(Self, Inflight, OwnedFd), Error> {
        let bytes = needed_bytes(wanted)?;
        let failed = |error: rustix::io::Errno| Error::Io("cannot make a memfd", error.into());
        let fd = rustix::fs::memfd_create("vhost-inflight", MemfdFlags::CLOEXEC).map_err(failed)?;
        rustix::fs::ftruncate(&fd, bytes).map_err(failed)?;
        let shape = Inflight {
            mmap_size: bytes,
            mmap_offset: 0,
            ..*wanted
        };
        Ok((Self::open(&shape, fd.as_fd())?, shape, fd))
    }

    /// Maps an area that a back-end made (`SET_INFLIGHT_FD`).
    pub(super) fn open(shape: &Inflight, fd: BorrowedFd<'_>) -> Result<Self, Error> {
        if shape.mmap_size < needed_bytes(shape)? {
            return Err(Error::BadInflightArea);
        }
        let spec = RegionSpec {
            guest_addr: 0,
            user_addr: 0,
            size: shape.mmap_size,
            file_offset: shape.mmap_offset,
        };
        Ok(InflightArea {
            region: Arc::new(Region::map(spec, fd)?),
            shape: *shape,
        })
    }

    /// The record of ring `index`, which has `size` descriptors; `None` if the area
    /// was made for fewer rings.
    pub(super) fn record(&self, index: u16, size: u16) -> Result<Option<Window>, Error> {
        if index >= self.shape.num_queues {
            return Ok(None);
        }
        if size > self.shape.queue_size {
            return Err(Error::BadInflightArea);
        }
        let bytes = record_bytes(self.shape.queue_size);
        let offset = u64::from(index) * bytes as u64;
        Window::new(&self.region, offset, bytes)
            .map(Some)
            .ok_or(Error::BadInflightArea)
    }
}

fn needed_bytes(shape: &Inflight) -> Result<u64, Error> {
    let sizes = 1..=MAX_QUEUE_SIZE;
    if shape.num_queues == 0 || !sizes.contains(&shape.queue_size) {
        return Err(Error::BadInflightArea);
    }
    Ok(u64::from(shape.num_queues) * record_bytes(shape.queue_size) as u64)
}
