//! Bodies of fuzz targets. Each takes any bytes, and panics or hangs if something is
//! wrong. Their corpora in `corpus/` are replayed by the tests.

use crate::driver::notifier;
use crate::memory::{GuestMemory, Region, RegionSpec};
use crate::queue::layout::RING_IDX;
use crate::queue::{Chain, Ring, RingError, RingLayout, SplitQueue};
use crate::vhost_user::channel::Channel;
use crate::vhost_user::{Backend, Device};
use rustix::fs::MemfdFlags;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const MEMORY_BYTES: u64 = 0x8000;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
/// Chains that the ring body keeps without an answer.
const MAX_HELD: usize = 8;

/// A sequence of things that happen to a ring in memory that is noise:
/// `[log2 of size] [features] [steps] [4 bytes for each step] [memory…]`.
pub fn fuzz_ring(data: &[u8]) {
    let Some(([exponent, features, steps], rest)) = data.split_first_chunk() else {
        return;
    };
    let steps = usize::from(steps % 65) * 4;
    let (steps, image) = rest.split_at(steps.min(rest.len()));
    let memory = noise_memory(image);
    let layout = RingLayout {
        size: 1 << (exponent % 8),
        descriptors: 0,
        available: AVAILABLE,
        used: USED,
    };
    let (event_idx, indirect) = (features & 1 != 0, features & 2 != 0);
    let queue = SplitQueue::new(layout, &memory, 0, event_idx).expect("the ring is in memory");
    let start = queue.next_used();
    let ring = Ring::new(0, indirect, queue, memory.clone(), None);
    let mut body = RingBody {
        ring: Arc::new(ring),
        memory,
        held: VecDeque::new(),
        answered: 0,
    };
    for step in steps.chunks_exact(4) {
        if body.step(step).is_err() {
            break;
        }
    }
    body.finish(start);
}

struct RingBody {
    ring: Arc<Ring>,
    memory: Arc<GuestMemory>,
    held: VecDeque<Chain>,
    answered: u16,
}

impl RingBody {
    fn step(&mut self, step: &[u8]) -> Result<(), RingError> {
        let &[what, a, b, c] = step else {
            return Ok(());
        };
        match what % 8 {
            0 => self.publish(a),
            1 if self.held.len() < MAX_HELD => self.held.extend(self.ring.pop()?),
            1 | 2 => {
                if let Some(chain) = self.ring.pop()? {
                    self.answer(chain, usize::from(a));
                }
            }
            3 => self.answered += u16::from(self.held.pop_front().is_some()),
            4 => {
                if let Some(chain) = self.held.pop_back() {
                    self.answer(chain, usize::from(a) << 8);
                }
            }
            5 => drop(self.ring.enable_kicks()?),
            _ => {
                let addr = u64::from(u16::from_le_bytes([a, b])) % MEMORY_BYTES;
                let _ = self.memory.write(addr, &[c]);
            }
        }
        Ok(())
    }

    fn publish(&self, count: u8) {
        let mut index = [0; 2];
        let at = AVAILABLE + RING_IDX as u64;
        if self.memory.read(at, &mut index).is_ok() {
            let index = u16::from_le_bytes(index).wrapping_add(u16::from(count % 4));
            let _ = self.memory.write(at, &index.to_le_bytes());
        }
    }

    fn answer(&mut self, chain: Chain, len: usize) {
        let mut buf = [0; 512];
        let mut reader = chain.reader();
        let mut left = reader.remaining();
        while left > 0 {
            let count = reader.read(&mut buf);
            assert_eq!(count, left.min(buf.len()));
            left -= count;
            assert_eq!(reader.remaining(), left);
        }
        let mut writer = chain.writer();
        let room = writer.remaining();
        let written = writer.write(&[0x5a; 300]);
        assert_eq!(written, room.min(300));
        assert_eq!(writer.remaining(), room - written);
        chain.complete(len);
        self.answered = self.answered.wrapping_add(1);
    }

    /// Every chain that was taken is on the used ring, at the latest now.
    fn finish(mut self, start: u16) {
        self.answered = self.answered.wrapping_add(self.held.len() as u16);
        self.held.clear();
        self.ring.drain();
        let returned = self.ring.next_used().wrapping_sub(start);
        assert!(returned >= self.answered);
    }
}

fn noise_memory(image: &[u8]) -> Arc<GuestMemory> {
    let spec = RegionSpec {
        guest_addr: 0,
        user_addr: 0,
        size: MEMORY_BYTES,
        file_offset: 0,
    };
    let region = Region::map(spec, memfd(MEMORY_BYTES).as_fd()).expect("a memfd can be mapped");
    let memory = GuestMemory::default().with(region);
    let memory = memory.expect("one region overlaps nothing");
    let image = image.get(..MEMORY_BYTES as usize).unwrap_or(image);
    memory.write(0, image).expect("the image fits");
    Arc::new(memory)
}

fn memfd(bytes: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("a memfd");
    rustix::fs::ftruncate(&fd, bytes).expect("room for it");
    fd
}

/// Bytes that a front-end sends, with descriptors:
/// `([bits 0-1: how many descriptors, bit 2: eventfds, not memory] [length] [bytes…])…`.
pub fn fuzz_session(data: &[u8]) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let backend = Backend::new(Arc::new(Mirror)).expect("a back-end");
    let mut replies = ours.try_clone().expect("a second descriptor");
    std::thread::scope(|scope| {
        // Replies that nobody reads would keep the session from reading on.
        let reader = scope.spawn(move || replies.read_to_end(&mut Vec::new()));
        let writer = scope.spawn(move || {
            send_records(data, Channel::new(ours.try_clone().expect("a third")));
            let _ = ours.shutdown(std::net::Shutdown::Write);
        });
        let _ = backend.serve(theirs);
        // The scope's end alone does not wait until the threads' own memory is free.
        for outcome in [writer.join(), reader.join().map(drop)] {
            outcome.expect("neither panics");
        }
    });
}

fn send_records(mut data: &[u8], channel: Channel) {
    let memory = memfd(0x10_0000);
    let event = notifier().expect("an eventfd");
    while let Some((&[kind, len], rest)) = data.split_first_chunk() {
        let (bytes, rest) = rest.split_at(usize::from(len).min(rest.len()));
        let fd = if kind & 4 != 0 { &event } else { &memory };
        let fds = vec![fd.as_fd(); usize::from(kind & 3)];
        if channel.send_bytes(bytes, &fds).is_err() {
            return;
        }
        data = rest;
    }
}

/// A device that answers at once.
struct Mirror;

impl Device for Mirror {
    fn config_space(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[1, 2, 3])
    }

    fn queues(&self) -> u16 {
        2
    }

    fn process(&self, _queue: u16, chain: Chain) {
        let mut buf = [0; 256];
        let count = chain.reader().read(&mut buf);
        let written = chain.writer().write(buf.get(..count).unwrap_or_default());
        chain.complete(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn replay(name: &str, body: impl Fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            body(&std::fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "the corpus is empty");
    }

    #[test]
    fn the_corpus_of_rings() {
        replay("ring", fuzz_ring);
    }

    #[test]
    fn the_corpus_of_sessions() {
        replay("session", fuzz_session);
    }

    proptest! {
        #[test]
        fn rings_of_noise(
            header in any::<[u8; 3]>(),
            steps in proptest::collection::vec(any::<u8>(), 200..260),
            image in proptest::collection::vec(any::<u8>(), 0..512),
        ) {
            let mut data = header.to_vec();
            data.extend(steps);
            data.extend(image);
            fuzz_ring(&data);
        }

        #[test]
        fn sessions_of_noise(data in proptest::collection::vec(any::<u8>(), 0..400)) {
            fuzz_session(&data);
        }
    }
}
