//! The driver's side of one ring.

use super::{DriverError, WaitMode};
use crate::memory::{GuestMemory, Window};
use crate::notify;
use crate::queue::RingLayout;
use crate::queue::layout::*;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Alignment of the buffers of a request.
const BUFFER_ALIGN: u64 = 64;
/// Descriptors of an indirect table.
pub(super) const INDIRECT_DESCRIPTORS: usize = 288;

/// Where a queue's parts lie, in guest addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuePlace {
    pub(super) slots: u64,
    pub(super) slot_bytes: u64,
    pub(super) slot_count: u16,
    pub(super) tables: u64,
}

/// One ring, which may be used on a thread of its own.
#[derive(Debug)]
pub struct DriverQueue {
    index: u16,
    layout: RingLayout,
    memory: Arc<GuestMemory>,
    descriptors: Window,
    avail: Window,
    used: Window,
    place: QueuePlace,
    pub(super) kick: Arc<OwnedFd>,
    pub(super) call: Arc<OwnedFd>,
    event_idx: bool,
    indirect: bool,
    wait_mode: WaitMode,
    timeout: Duration,
    next_avail: u16,
    kicked_at: u16,
    next_used: u16,
    free_descriptors: Vec<u16>,
    free_slots: Vec<u16>,
    in_flight: HashMap<u16, InFlight>,
    next_token: u64,
    /// Descriptors of the request being put together.
    scratch: Vec<Descriptor>,
}

/// Names a request of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(u64);

/// A request that the device completed. Its reply can be read until the next request is
/// submitted.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Which request.
    pub token: Token,
    /// Bytes that the device says it wrote.
    pub written: u32,
    /// Address and length of the writable buffers.
    buffers: Vec<(u64, u32)>,
}

#[derive(Debug)]
struct InFlight {
    token: Token,
    slot: u16,
    descriptors: Vec<u16>,
    buffers: Vec<(u64, u32)>,
}

/// What a queue is made of.
pub(super) struct QueueParts {
    pub(super) index: u16,
    pub(super) layout: RingLayout,
    pub(super) place: QueuePlace,
    pub(super) memory: Arc<GuestMemory>,
    pub(super) kick: Arc<OwnedFd>,
    pub(super) call: Arc<OwnedFd>,
    pub(super) event_idx: bool,
    pub(super) indirect: bool,
    pub(super) wait_mode: WaitMode,
    pub(super) timeout: Duration,
}

impl DriverQueue {
    pub(super) fn new(parts: QueueParts) -> Result<Self, DriverError> {
        let QueueParts { layout, memory, .. } = parts;
        let size = layout.size;
        let window = |addr, len| memory.window_at_user(addr, len);
        let mut queue = DriverQueue {
            index: parts.index,
            descriptors: window(layout.descriptors, descriptor_table_bytes(size))?,
            avail: window(layout.available, avail_bytes(size))?,
            used: window(layout.used, used_bytes(size))?,
            layout,
            place: parts.place,
            kick: parts.kick,
            call: parts.call,
            event_idx: parts.event_idx,
            indirect: parts.indirect,
            wait_mode: parts.wait_mode,
            timeout: parts.timeout,
            next_avail: 0,
            kicked_at: 0,
            next_used: 0,
            free_descriptors: Vec::new(),
            free_slots: Vec::new(),
            in_flight: HashMap::new(),
            next_token: 0,
            scratch: Vec::new(),
            memory,
        };
        queue.clear();
        Ok(queue)
    }

    /// Index of the queue.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Requests that are not completed yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Submits a request and waits for its reply; other requests in flight stay so, but
    /// completions of theirs that come first are lost. Returns the bytes written.
    pub fn roundtrip(
        &mut self,
        readable: &[&[u8]],
        writable: &[u32],
    ) -> Result<Completion, DriverError> {
        let token = self.submit(readable, writable)?;
        self.kick();
        loop {
            let completion = self.wait()?;
            if completion.token == token {
                return Ok(completion);
            }
        }
    }

    /// Puts a request on the ring: buffers that the device reads, then buffers that it
    /// writes, by length. The device need not notice before [`DriverQueue::kick`].
    pub fn submit(&mut self, readable: &[&[u8]], writable: &[u32]) -> Result<Token, DriverError> {
        let slot = *self.free_slots.last().ok_or(DriverError::QueueFull)?;
        let needed = readable.len() + writable.len();
        let buffers = self.fill_slot(slot, readable, writable)?;
        let (head, descriptors) = match self.indirect {
            true => self.write_indirect(slot, needed)?,
            false => self.write_direct(needed)?,
        };
        self.free_slots.pop();
        self.next_token += 1;
        let token = Token(self.next_token);
        let request = InFlight {
            token,
            slot,
            descriptors,
            buffers,
        };
        self.in_flight.insert(head, request);
        self.write_avail(self.next_avail, head);
        self.set_avail_idx(self.next_avail.wrapping_add(1));
        Ok(token)
    }

    /// Kicks the device for what was submitted, if it wants to be.
    pub fn kick(&mut self) {
        let (old, new) = (self.kicked_at, self.next_avail);
        self.kicked_at = new;
        // The device stores its wish and then looks at the available index; we store the
        // index and then look at its wish.
        fence(Ordering::SeqCst);
        let wanted = if self.event_idx {
            let offset = avail_event_offset(self.layout.size);
            let event = self.used.load_le16(offset, Ordering::Relaxed);
            passed_event(event, new, old)
        } else {
            self.used.load_le16(RING_FLAGS, Ordering::Relaxed) & USED_NO_NOTIFY == 0
        };
        if wanted {
            self.kick_anyway();
        }
    }

    /// Kicks the device whether it wants to be or not.
    pub fn kick_anyway(&self) {
        notify::signal(&self.kick);
    }

    /// The next completion, if there is one.
    pub fn poll(&mut self) -> Result<Option<Completion>, DriverError> {
        if self.used_idx() == self.next_used {
            return Ok(None);
        }
        let (id, written) = self.used_element(self.next_used);
        self.next_used = self.next_used.wrapping_add(1);
        let head = u16::try_from(id).map_err(|_| DriverError::UnknownUsed(id))?;
        let request = self.in_flight.remove(&head);
        let request = request.ok_or(DriverError::UnknownUsed(id))?;
        self.free_slots.push(request.slot);
        self.free_descriptors.extend(request.descriptors);
        Ok(Some(Completion {
            token: request.token,
            written,
            buffers: request.buffers,
        }))
    }

    /// Waits for the next completion, in the way that was chosen.
    pub fn wait(&mut self) -> Result<Completion, DriverError> {
        let deadline = Instant::now() + self.timeout;
        let mut rounds = 0u32;
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(completion);
            }
            match self.wait_mode {
                WaitMode::Event => self.sleep(deadline)?,
                WaitMode::Spin => std::hint::spin_loop(),
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(1024) && Instant::now() > deadline {
                return Err(DriverError::TimedOut);
            }
        }
    }

    /// All of the reply, as far as the device says it wrote.
    pub fn reply(&self, completion: &Completion) -> Vec<u8> {
        let mut bytes = vec![0; completion.written as usize];
        let count = self.read_reply(completion, 0, &mut bytes);
        bytes.truncate(count);
        bytes
    }

    /// Copies the writable buffers from `offset` bytes on, whatever the device says it
    /// wrote; returns how many bytes there were for `buf`.
    pub fn read_reply(&self, completion: &Completion, offset: usize, buf: &mut [u8]) -> usize {
        let mut skip = offset;
        let mut done = 0;
        for (addr, len) in &completion.buffers {
            let len = *len as usize;
            let from = skip.min(len);
            skip -= from;
            let count = (len - from).min(buf.len() - done);
            let part = buf.get_mut(done..done + count).unwrap_or_default();
            if self.memory.read(addr + from as u64, part).is_err() {
                break;
            }
            done += count;
        }
        done
    }

    /// Chooses how to wait from now on.
    pub fn set_wait_mode(&mut self, mode: WaitMode) {
        self.wait_mode = mode;
        let flag = match mode {
            WaitMode::Spin => AVAIL_NO_INTERRUPT,
            WaitMode::Event => 0,
        };
        if self.event_idx {
            self.set_used_event(self.next_used.wrapping_sub(1));
        } else {
            self.avail.store_le16(RING_FLAGS, flag, Ordering::Relaxed);
        }
    }

    /// Asks for a signal with the next completion, for who waits by other means than
    /// [`DriverQueue::wait`].
    pub fn want_signal(&self) {
        if self.event_idx {
            self.set_used_event(self.next_used);
        } else {
            self.avail.store_le16(RING_FLAGS, 0, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// Descriptor that the device signals.
    pub fn call_fd(&self) -> BorrowedFd<'_> {
        self.call.as_fd()
    }

    fn sleep(&mut self, deadline: Instant) -> Result<(), DriverError> {
        self.want_signal();
        if self.used_idx() != self.next_used {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| DriverError::TimedOut)?;
        let mut fds = [PollFd::new(&*self.call, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&left)) {
            Ok(0) => return Err(DriverError::TimedOut),
            Ok(_) => notify::drain(&self.call),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Whether the device signalled since the last wait.
    pub fn was_signalled(&self) -> bool {
        let mut count = [0; 8];
        rustix::io::read(self.call.as_fd(), &mut count).is_ok()
    }

    /// Forgets everything and empties the ring, as a driver does at a reset. The device
    /// must have stopped the ring.
    pub fn clear(&mut self) {
        let size = self.layout.size;
        self.next_avail = 0;
        self.kicked_at = 0;
        self.next_used = 0;
        self.free_descriptors = (0..size).rev().collect();
        self.free_slots = (0..self.place.slot_count).rev().collect();
        self.in_flight.clear();
        self.avail.write(0, &vec![0; avail_bytes(size)]);
        self.used.write(0, &vec![0; used_bytes(size)]);
        self.set_wait_mode(self.wait_mode);
    }

    pub(super) fn layout(&self) -> &RingLayout {
        &self.layout
    }

    // Building requests

    fn fill_slot(
        &mut self,
        slot: u16,
        readable: &[&[u8]],
        writable: &[u32],
    ) -> Result<Vec<(u64, u32)>, DriverError> {
        let start = self.place.slots + u64::from(slot) * self.place.slot_bytes;
        let end = start + self.place.slot_bytes;
        let mut at = start;
        let mut take = |len: u64| {
            let addr = at.next_multiple_of(BUFFER_ALIGN);
            at = addr + len;
            match at <= end {
                true => Ok(addr),
                false => Err(DriverError::RequestTooLarge),
            }
        };
        self.scratch.clear();
        for bytes in readable {
            let addr = take(bytes.len() as u64)?;
            self.memory.write(addr, bytes)?;
            self.scratch.push(Descriptor {
                addr,
                len: bytes.len() as u32,
                ..Descriptor::default()
            });
        }
        let mut buffers = Vec::with_capacity(writable.len());
        for len in writable {
            let addr = take(u64::from(*len))?;
            buffers.push((addr, *len));
            self.scratch.push(Descriptor {
                addr,
                len: *len,
                flags: DescriptorFlags::WRITE,
                next: 0,
            });
        }
        Ok(buffers)
    }

    fn write_direct(&mut self, needed: usize) -> Result<(u16, Vec<u16>), DriverError> {
        let from = self.free_descriptors.len().checked_sub(needed.max(1));
        let from = from.ok_or(DriverError::QueueFull)?;
        let indices = self.free_descriptors.split_off(from);
        if self.scratch.is_empty() {
            self.scratch.push(Descriptor::default());
        }
        for (at, index) in indices.iter().enumerate() {
            let mut descriptor = self.scratch.get(at).copied().unwrap_or_default();
            if let Some(next) = indices.get(at + 1) {
                descriptor.flags |= DescriptorFlags::NEXT;
                descriptor.next = *next;
            }
            self.write_descriptor(*index, descriptor);
        }
        let head = *indices.first().ok_or(DriverError::QueueFull)?;
        Ok((head, indices))
    }

    fn write_indirect(&mut self, slot: u16, needed: usize) -> Result<(u16, Vec<u16>), DriverError> {
        if needed > INDIRECT_DESCRIPTORS {
            return Err(DriverError::RequestTooLarge);
        }
        let index = self.free_descriptors.pop().ok_or(DriverError::QueueFull)?;
        let stride = descriptor_table_bytes(INDIRECT_DESCRIPTORS as u16) as u64;
        let table = self.place.tables + u64::from(slot) * stride;
        let last = needed.saturating_sub(1);
        for (at, descriptor) in self.scratch.iter().enumerate() {
            let mut descriptor = *descriptor;
            if at < last {
                descriptor.flags |= DescriptorFlags::NEXT;
                descriptor.next = at as u16 + 1;
            }
            let addr = table + (at * DESCRIPTOR_BYTES) as u64;
            self.memory.write(addr, &descriptor.to_bytes())?;
        }
        let indirect = Descriptor {
            addr: table,
            len: descriptor_table_bytes(needed as u16) as u32,
            flags: DescriptorFlags::INDIRECT,
            next: 0,
        };
        self.write_descriptor(index, indirect);
        Ok((index, vec![index]))
    }

    fn set_used_event(&self, value: u16) {
        let offset = used_event_offset(self.layout.size);
        self.avail.store_le16(offset, value, Ordering::Relaxed);
    }
}

/// What a well-behaved driver does not need: the ring's parts, to be written at will.
impl DriverQueue {
    /// Writes an entry of the descriptor table.
    pub fn write_descriptor(&self, index: u16, descriptor: Descriptor) {
        let offset = usize::from(index) * DESCRIPTOR_BYTES;
        self.descriptors.write(offset, &descriptor.to_bytes());
    }

    /// Writes `head` where the available ring has the entry number `position`.
    pub fn write_avail(&self, position: u16, head: u16) {
        let offset = avail_element_offset(position & (self.layout.size - 1));
        self.avail.store_le16(offset, head, Ordering::Relaxed);
    }

    /// Index of the available ring that this side will publish next.
    pub fn avail_idx(&self) -> u16 {
        self.next_avail
    }

    /// Publishes everything before `index`.
    pub fn set_avail_idx(&mut self, index: u16) {
        self.next_avail = index;
        self.avail.store_le16(RING_IDX, index, Ordering::Release);
    }

    /// The device's index of the used ring.
    pub fn used_idx(&self) -> u16 {
        self.used.load_le16(RING_IDX, Ordering::Acquire)
    }

    /// Id and length of the used ring's entry number `position`.
    pub fn used_element(&self, position: u16) -> (u32, u32) {
        let mut bytes = [0; USED_ELEMENT_BYTES];
        let offset = used_element_offset(position & (self.layout.size - 1));
        self.used.read(offset, &mut bytes);
        let [i0, i1, i2, i3, l0, l1, l2, l3] = bytes;
        (
            u32::from_le_bytes([i0, i1, i2, i3]),
            u32::from_le_bytes([l0, l1, l2, l3]),
        )
    }

    /// Guest address of the buffers of slot `slot`, and their number of bytes, for
    /// descriptors written by hand.
    pub fn slot(&self, slot: u16) -> (u64, u64) {
        let bytes = self.place.slot_bytes;
        (self.place.slots + u64::from(slot) * bytes, bytes)
    }

    /// Waits until the device's used index is `index`.
    pub fn wait_used_idx(&mut self, index: u16) -> Result<(), DriverError> {
        let deadline = Instant::now() + self.timeout;
        while self.used_idx() != index {
            if Instant::now() > deadline {
                return Err(DriverError::TimedOut);
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}
