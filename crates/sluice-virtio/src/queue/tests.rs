//! The ring and the walk against another implementation of both, with rings that are
//! mostly sound and rings that are noise.

use super::layout::*;
use super::ring::Ring;
use super::split::{RingError, RingLayout, SplitQueue};
use super::walk::{ChainError, walk_chain};
use crate::memory::{GuestMemory, Region, RegionSpec, Segments, Storage};
use proptest::prelude::*;
use std::os::fd::AsFd;
use std::sync::Arc;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const MEMORY_BYTES: u64 = 0x6000;
const DESCRIPTORS: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const TABLES: u64 = 0x4000;

/// The same memory twice, with the same ring in both.
struct Twins {
    size: u16,
    memory: Arc<GuestMemory>,
    queue: SplitQueue,
    oracle_memory: GuestMemoryMmap,
    oracle: Queue,
}

impl Twins {
    fn new(size: u16, event_idx: bool, start: u16) -> Self {
        let fd = rustix::fs::memfd_create("twin", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, MEMORY_BYTES).unwrap();
        let spec = RegionSpec {
            guest_addr: 0,
            user_addr: 0,
            size: MEMORY_BYTES,
            file_offset: 0,
        };
        let region = Region::map(spec, fd.as_fd()).unwrap();
        let memory = Arc::new(GuestMemory::default().with(region).unwrap());
        let range = (GuestAddress(0), MEMORY_BYTES as usize);
        let oracle_memory = GuestMemoryMmap::from_ranges(&[range]).unwrap();

        let mut oracle = Queue::new(size).unwrap();
        oracle.set_size(size);
        oracle
            .try_set_desc_table_address(GuestAddress(DESCRIPTORS))
            .unwrap();
        oracle
            .try_set_avail_ring_address(GuestAddress(AVAILABLE))
            .unwrap();
        oracle
            .try_set_used_ring_address(GuestAddress(USED))
            .unwrap();
        oracle.set_event_idx(event_idx);
        oracle.set_next_avail(start);
        oracle.set_next_used(start);
        oracle.set_ready(true);

        // The used index is where the queue goes on.
        memory.write(USED + 2, &start.to_le_bytes()).unwrap();
        let layout = RingLayout {
            size,
            descriptors: DESCRIPTORS,
            available: AVAILABLE,
            used: USED,
        };
        let twins = Twins {
            size,
            queue: SplitQueue::new(layout, &memory, start, event_idx).unwrap(),
            memory,
            oracle_memory,
            oracle,
        };
        let noise: Vec<u8> = (0..MEMORY_BYTES - TABLES)
            .map(|i| (i % 253) as u8)
            .collect();
        twins.write(TABLES, &noise);
        twins.write(USED + 2, &start.to_le_bytes());
        twins.write(AVAILABLE + 2, &start.to_le_bytes());
        twins
    }

    fn write(&self, addr: u64, bytes: &[u8]) {
        self.memory.write(addr, bytes).unwrap();
        self.oracle_memory
            .write_slice(bytes, GuestAddress(addr))
            .unwrap();
    }

    fn publish(&self, position: u16, head: u16) {
        let slot = position & (self.size - 1);
        let at = AVAILABLE + avail_element_offset(slot) as u64;
        self.write(at, &head.to_le_bytes());
        let next = position.wrapping_add(1);
        self.write(AVAILABLE + 2, &next.to_le_bytes());
    }

    /// What the chain at `head` has: readable bytes, and room.
    fn walk(&self, head: u16) -> Result<(Vec<u8>, usize), ChainError> {
        let mut segments = Segments::new(self.memory.clone(), Storage::default());
        walk_chain(&self.queue, &self.memory, head, true, &mut segments)?;
        let mut bytes = vec![0; segments.readable().left()];
        segments.readable().copy_out(&mut bytes);
        Ok((bytes, segments.writable().left()))
    }

    fn used_rings_agree(&self) {
        let bytes = used_bytes(self.size);
        let (mut ours, mut theirs) = (vec![0; bytes], vec![0; bytes]);
        self.memory.read(USED, &mut ours).unwrap();
        self.oracle_memory
            .read_slice(&mut theirs, GuestAddress(USED))
            .unwrap();
        assert_eq!(ours, theirs);
    }
}

/// What the other implementation makes of the chain it popped: `None` if one may not
/// accept it, because it broke off, or is out of order or of bounds.
fn oracle_walk(
    memory: &GuestMemoryMmap,
    chain: virtio_queue::DescriptorChain<&GuestMemoryMmap>,
) -> Option<(Vec<u8>, usize)> {
    let mut bytes = Vec::new();
    let mut room = 0;
    let mut more = true;
    let mut writable_seen = false;
    for descriptor in chain {
        more = descriptor.has_next();
        let len = descriptor.len() as usize;
        if descriptor.is_write_only() {
            room += len;
            writable_seen |= len > 0;
            let end = descriptor.addr().0.checked_add(len as u64)?;
            if len > 0 && end > MEMORY_BYTES {
                return None;
            }
            continue;
        }
        if writable_seen {
            return None;
        }
        if len > MEMORY_BYTES as usize {
            return None;
        }
        let mut part = vec![0; len];
        if len > 0 {
            memory.read_slice(&mut part, descriptor.addr()).ok()?;
        }
        bytes.extend(part);
    }
    (!more).then_some((bytes, room))
}

fn descriptors() -> impl Strategy<Value = Descriptor> {
    let addr = prop_oneof![
        8 => TABLES..MEMORY_BYTES,
        1 => any::<u64>(),
    ];
    let len = prop_oneof![8 => 0u32..300, 1 => any::<u32>()];
    let flags = prop_oneof![
        3 => Just(0u16),
        6 => Just(1u16),
        3 => Just(2u16),
        6 => Just(3u16),
        1 => any::<u16>(),
    ];
    (addr, len, flags, 0u16..9).prop_map(|(addr, len, flags, next)| Descriptor {
        addr,
        len,
        flags: DescriptorFlags::from_bits_retain(flags),
        next,
    })
}

/// A descriptor that names one of the tables, mostly.
fn indirect() -> impl Strategy<Value = Descriptor> {
    (0u64..2, 0u32..5, 0u32..8, any::<bool>()).prop_map(|(table, entries, odd, write)| Descriptor {
        addr: TABLES + table * 0x1000,
        len: entries * 16 + if odd == 0 { 1 } else { 0 },
        flags: match write {
            true => DescriptorFlags::INDIRECT | DescriptorFlags::WRITE,
            false => DescriptorFlags::INDIRECT,
        },
        next: 0,
    })
}

fn table() -> impl Strategy<Value = Vec<Descriptor>> {
    let one = prop_oneof![6 => descriptors().boxed(), 1 => indirect().boxed()];
    prop_oneof![proptest::collection::vec(one, 8), sound_table()]
}

/// A chain from the first descriptor on, of any length, that is as it should be.
fn sound_table() -> impl Strategy<Value = Vec<Descriptor>> {
    let buffer = (TABLES..MEMORY_BYTES - 300, 0u32..300);
    let buffers = proptest::collection::vec(buffer, 8);
    (buffers, 1usize..=8, 0usize..=8).prop_map(|(buffers, count, readable)| {
        let describe = |(at, (addr, len)): (usize, (u64, u32))| {
            let mut flags = DescriptorFlags::empty();
            flags.set(DescriptorFlags::WRITE, at >= readable);
            flags.set(DescriptorFlags::NEXT, at + 1 < count);
            Descriptor {
                addr,
                len,
                flags,
                next: at as u16 + 1,
            }
        };
        buffers.into_iter().enumerate().map(describe).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn chains_are_walked_as_another_implementation_does(
        ring in table(),
        first in table(),
        second in table(),
        head in prop_oneof![Just(0u16), 0u16..8],
    ) {
        let mut twins = Twins::new(8, true, 0);
        let bytes = |table: &[Descriptor]| -> Vec<u8> {
            table.iter().flat_map(|descriptor| descriptor.to_bytes()).collect()
        };
        twins.write(DESCRIPTORS, &bytes(&ring));
        twins.write(TABLES, &bytes(&first));
        twins.write(TABLES + 0x1000, &bytes(&second));
        twins.publish(0, head);

        prop_assert_eq!(twins.queue.take_head(), Ok(Some(head)));
        let ours = twins.walk(head);
        let chain = twins.oracle.pop_descriptor_chain(&twins.oracle_memory).unwrap();
        prop_assert_eq!(chain.head_index(), head);
        let theirs = oracle_walk(&twins.oracle_memory, chain);
        match (ours, theirs) {
            (Ok(ours), Some(theirs)) => prop_assert_eq!(ours, theirs),
            (Err(_), None) => {}
            // The other one takes these; section 2.7.5.3.1 forbids them.
            (Err(ChainError::IndirectWithNext | ChainError::BadIndirectLen(_)), Some(_)) => {}
            (Err(ChainError::NestedIndirect), Some(_)) => {}
            // It looks at the entries of a table that it follows, not at the whole table.
            (Err(ChainError::OutOfRange(_)), Some(_))
                if ring.iter().any(|d| d.flags.contains(DescriptorFlags::INDIRECT)) => {}
            (ours, theirs) => prop_assert!(false, "{:?} but {:?}", ours, theirs),
        }
    }

    #[test]
    fn rings_advance_and_signal_as_another_implementation_does(
        start in any::<u16>(),
        exponent in 0u32..5,
        steps in proptest::collection::vec((0u8..5, any::<u16>()), 1..120),
    ) {
        let size = 1u16 << exponent;
        let mut twins = Twins::new(size, true, start);
        let mut published = start;
        let mut taken = Vec::new();
        let mut decided = false;
        for (step, value) in steps {
            match step {
                0 if published.wrapping_sub(twins.queue.next_avail()) < size => {
                    twins.publish(published, value % size);
                    published = published.wrapping_add(1);
                }
                1 => {
                    let ours = twins.queue.take_head().unwrap();
                    let theirs = twins
                        .oracle
                        .pop_descriptor_chain(&twins.oracle_memory)
                        .map(|chain| chain.head_index());
                    prop_assert_eq!(ours, theirs);
                    taken.extend(ours);
                    prop_assert_eq!(twins.queue.next_avail(), twins.oracle.next_avail());
                }
                2 => {
                    let Some(head) = taken.pop() else { continue };
                    twins.queue.push_used(head, value.into());
                    twins.oracle.add_used(&twins.oracle_memory, head, value.into()).unwrap();
                    prop_assert_eq!(twins.queue.next_used(), twins.oracle.next_used());
                }
                3 => {
                    // Near the index, where decisions differ.
                    let event = twins.queue.next_used().wrapping_add(value % 5).wrapping_sub(3);
                    let at = AVAILABLE + used_event_offset(size) as u64;
                    twins.write(at, &event.to_le_bytes());
                    let ours = twins.queue.wants_signal();
                    let theirs = twins.oracle.needs_notification(&twins.oracle_memory).unwrap();
                    // The first decision is always to signal, if there is anything.
                    prop_assert!(ours == theirs || (!decided && ours));
                    decided |= ours;
                }
                _ => {
                    let ours = twins.queue.enable_kicks().unwrap();
                    let theirs = twins.oracle.enable_notification(&twins.oracle_memory).unwrap();
                    prop_assert_eq!(ours, theirs);
                }
            }
            twins.used_rings_agree();
        }
    }

    #[test]
    fn noise_is_walked_or_refused(
        noise in proptest::collection::vec(any::<u8>(), 16 * 8),
        head in any::<u16>(),
    ) {
        let twins = Twins::new(8, false, 0);
        twins.write(DESCRIPTORS, &noise);
        let _ = twins.walk(head);
    }
}

#[test]
fn an_index_may_be_ahead_by_the_queue_size_and_no_more() {
    for start in [0, 5, 0xfffe] {
        let mut twins = Twins::new(8, false, start);
        let ahead = |count: u16| start.wrapping_add(count);
        twins.write(AVAILABLE + 2, &ahead(8).to_le_bytes());
        assert_eq!(twins.queue.pending(), Ok(8));
        twins.write(AVAILABLE + 2, &ahead(9).to_le_bytes());
        let jump = RingError::IndexJump {
            seen: start,
            now: ahead(9),
        };
        assert_eq!(twins.queue.pending(), Err(jump));
        assert_eq!(twins.queue.take_head(), Err(jump));
        let now = start.wrapping_sub(1);
        twins.write(AVAILABLE + 2, &now.to_le_bytes());
        let jump = RingError::IndexJump { seen: start, now };
        assert_eq!(twins.queue.enable_kicks(), Err(jump));
    }
}

#[test]
fn without_event_idx_the_flags_say_who_wants_to_be_woken() {
    let mut twins = Twins::new(8, false, 0);
    let used_flags = |twins: &Twins| {
        let mut flags = [0; 2];
        twins.memory.read(USED, &mut flags).unwrap();
        u16::from_le_bytes(flags)
    };
    twins.queue.disable_kicks();
    assert_eq!(used_flags(&twins), USED_NO_NOTIFY);
    assert_eq!(twins.queue.enable_kicks(), Ok(false));
    assert_eq!(used_flags(&twins), 0);

    // Left behind by a back-end that was killed.
    twins.write(USED, &USED_NO_NOTIFY.to_le_bytes());
    assert_eq!(twins.queue.enable_kicks(), Ok(false));
    assert_eq!(used_flags(&twins), 0);

    twins.queue.push_used(0, 0);
    assert!(twins.queue.wants_signal());
    assert!(!twins.queue.wants_signal(), "nothing new");
    twins.write(AVAILABLE, &AVAIL_NO_INTERRUPT.to_le_bytes());
    twins.queue.push_used(0, 0);
    assert!(!twins.queue.wants_signal());
}

#[test]
fn who_sleeps_is_woken_though_another_thread_takes_chains() {
    for event_idx in [false, true] {
        let Twins { memory, queue, .. } = Twins::new(8, event_idx, 0);
        let ring = Arc::new(Ring::new(0, false, queue, memory.clone(), None));
        assert_eq!(ring.enable_kicks(), Ok(false));
        memory.write(AVAILABLE + 2, &1u16.to_le_bytes()).unwrap();
        assert!(ring.pop().unwrap().is_some());
        let mut wish = [0; 2];
        let (at, wished) = match event_idx {
            false => (USED, 0),
            true => (USED + avail_event_offset(8) as u64, 0u16),
        };
        memory.read(at, &mut wish).unwrap();
        assert_eq!(u16::from_le_bytes(wish), wished, "event_idx={event_idx}");
    }
}

#[test]
fn the_used_ring_gets_what_the_specification_says() {
    let mut twins = Twins::new(4, true, 0xffff);
    twins.queue.push_used(3, 0x0102_0304);
    let mut bytes = [0; 4 + 4 * 8];
    twins.memory.read(USED, &mut bytes).unwrap();
    // flags, idx: wrapped around
    assert_eq!(bytes[..4], [0, 0, 0, 0]);
    // Element 0xffff % 4: le32 id, le32 len
    assert_eq!(bytes[4 + 3 * 8..], [3, 0, 0, 0, 4, 3, 2, 1]);
}
