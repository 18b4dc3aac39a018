//! Rings as a guest that means harm would write them, each with its exact outcome.

mod common;

use common::{PARK, Served1, connect};
use sluice_virtio::driver::{Driver, DriverQueue, Options};
use sluice_virtio::queue::RingError;
use sluice_virtio::queue::layout::{Descriptor, DescriptorFlags, F_EVENT_IDX, F_INDIRECT_DESC};
use sluice_virtio::vhost_user::{Error, Served};

const NEXT: DescriptorFlags = DescriptorFlags::NEXT;
const WRITE: DescriptorFlags = DescriptorFlags::WRITE;
const INDIRECT: DescriptorFlags = DescriptorFlags::INDIRECT;

const SIZE: u16 = 16;

struct Setup {
    driver: Driver,
    queue: DriverQueue,
    served: Served1,
    /// Guest address of 1 MiB that the queue does not use by itself.
    room: u64,
}

fn setup(features: u64) -> Setup {
    let options = Options {
        queue_size: SIZE,
        slots: 8,
        slot_bytes: 2 << 20,
        features,
        ..Options::default()
    };
    let (mut driver, served) = connect(options);
    let queue = driver.start_queue(1).unwrap();
    let room = queue.slot(7).0;
    Setup {
        driver,
        queue,
        served,
        room,
    }
}

impl Setup {
    /// A chain in the table: descriptors from 0 on, each leading to the next as their
    /// flags say.
    fn table(&self, descriptors: &[(u64, u32, DescriptorFlags, u16)]) {
        for (index, (addr, len, flags, next)) in (0..).zip(descriptors) {
            let descriptor = Descriptor {
                addr: *addr,
                len: *len,
                flags: *flags,
                next: *next,
            };
            self.queue.write_descriptor(index, descriptor);
        }
    }

    fn indirect_table(&self, descriptors: &[(u64, u32, DescriptorFlags, u16)]) {
        for (index, (addr, len, flags, next)) in (0..).zip(descriptors) {
            let descriptor = Descriptor {
                addr: *addr,
                len: *len,
                flags: *flags,
                next: *next,
            };
            let at = self.room + index * 16;
            self.driver
                .memory()
                .write(at, &descriptor.to_bytes())
                .unwrap();
        }
    }

    fn publish(&mut self, head: u16) {
        let at = self.queue.avail_idx();
        self.queue.write_avail(at, head);
        self.queue.set_avail_idx(at.wrapping_add(1));
        self.queue.kick_anyway();
    }

    /// The chain at head 0 comes back with nothing written, and the ring goes on.
    fn expect_returned_unused(mut self) {
        self.publish(0);
        self.queue.wait_used_idx(1).unwrap();
        assert_eq!(self.queue.used_element(0), (0, 0));
        self.expect_alive();
    }

    /// The ring answers an ordinary request in the table's second half.
    fn expect_alive(mut self) {
        let done = self.queue.used_idx();
        let (addr, to) = (self.room + 0x8000, self.room + 0x9000);
        self.driver.memory().write(addr, b"alive?").unwrap();
        let descriptor = |addr, flags, next| Descriptor {
            addr,
            len: 6,
            flags,
            next,
        };
        self.queue.write_descriptor(14, descriptor(addr, NEXT, 15));
        self.queue.write_descriptor(15, descriptor(to, WRITE, 0));
        self.publish(14);
        self.queue.wait_used_idx(done.wrapping_add(1)).unwrap();
        assert_eq!(self.queue.used_element(done), (14, 6));
        let mut reply = [0; 6];
        self.driver.memory().read(to, &mut reply).unwrap();
        assert_eq!(&reply, b"alive?");
        drop(self.driver);
        assert_eq!(self.served.outcome().unwrap(), Served::Disconnected);
    }

    /// The connection is closed because of the ring.
    fn expect_closed(self, expected: RingError) {
        self.queue.kick_anyway();
        match self.served.outcome() {
            Err(Error::Ring { index: 1, error }) => assert_eq!(error, expected),
            other => panic!("{other:?}"),
        }
        assert!(!matches!(self.driver.channel().recv(), Ok(Some(_))));
    }
}

#[test]
fn a_loop_in_the_table() {
    let setup = setup(0);
    let at = setup.room;
    setup.table(&[(at, 8, NEXT, 1), (at, 8, NEXT, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn a_descriptor_that_leads_to_itself() {
    let setup = setup(0);
    setup.table(&[(setup.room, 8, NEXT | WRITE, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn a_chain_of_the_whole_table_is_allowed() {
    let mut setup = setup(0);
    let at = setup.room;
    let table: Vec<_> = (0..SIZE)
        .map(|i| match i {
            15 => (at + 0x1000, 64, WRITE, 0),
            _ => (at + u64::from(i) * 32, 1, NEXT, i + 1),
        })
        .collect();
    setup.table(&table);
    setup.publish(0);
    setup.queue.wait_used_idx(1).unwrap();
    assert_eq!(setup.queue.used_element(0), (0, 15));
    setup.expect_alive();
}

#[test]
fn a_buffer_outside_of_memory() {
    let setup = setup(0);
    setup.table(&[(1 << 40, 8, DescriptorFlags::empty(), 0)]);
    setup.expect_returned_unused();
}

#[test]
fn a_buffer_that_ends_outside_of_memory() {
    let setup = setup(0);
    let end = 0x10_0000 + (256 << 20);
    setup.table(&[(end - 4, 8, WRITE, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn a_buffer_whose_addresses_wrap() {
    let setup = setup(0);
    setup.table(&[(u64::MAX - 3, 8, WRITE, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn a_buffer_of_4_gib() {
    let setup = setup(0);
    setup.table(&[(setup.room, u32::MAX, WRITE, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn readable_after_writable() {
    let setup = setup(0);
    let at = setup.room;
    setup.table(&[
        (at, 8, WRITE | NEXT, 1),
        (at, 8, DescriptorFlags::empty(), 0),
    ]);
    setup.expect_returned_unused();
}

#[test]
fn next_outside_of_the_table() {
    let setup = setup(0);
    setup.table(&[(setup.room, 8, NEXT, SIZE)]);
    setup.expect_returned_unused();
}

#[test]
fn an_empty_chain_reaches_the_device_as_such() {
    let setup = setup(0);
    setup.table(&[(0, 0, DescriptorFlags::empty(), 0)]);
    setup.expect_returned_unused();
}

#[test]
fn an_indirect_table_without_the_feature() {
    let setup = setup(0);
    setup.indirect_table(&[(setup.room, 8, WRITE, 0)]);
    setup.table(&[(setup.room, 16, INDIRECT, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn an_indirect_table_inside_an_indirect_table() {
    let setup = setup(F_INDIRECT_DESC);
    setup.indirect_table(&[(setup.room, 16, INDIRECT, 0)]);
    setup.table(&[(setup.room, 16, INDIRECT, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn an_indirect_table_whose_length_is_no_multiple_of_a_descriptor() {
    for len in [0, 1, 15, 17, 40] {
        let setup = setup(F_INDIRECT_DESC);
        setup.indirect_table(&[(setup.room, 8, WRITE, 0), (setup.room, 8, WRITE, 0)]);
        setup.table(&[(setup.room, len, INDIRECT, 0)]);
        setup.expect_returned_unused();
    }
}

#[test]
fn an_indirect_table_that_also_has_a_next() {
    let setup = setup(F_INDIRECT_DESC);
    setup.indirect_table(&[(setup.room, 8, WRITE, 0)]);
    setup.table(&[
        (setup.room, 16, INDIRECT | NEXT, 1),
        (setup.room, 8, WRITE, 0),
    ]);
    setup.expect_returned_unused();
}

#[test]
fn an_indirect_table_outside_of_memory() {
    let setup = setup(F_INDIRECT_DESC);
    setup.table(&[(1 << 50, 16, INDIRECT, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn a_loop_in_an_indirect_table() {
    let setup = setup(F_INDIRECT_DESC);
    let at = setup.room;
    setup.indirect_table(&[(at, 8, NEXT, 1), (at, 8, NEXT, 0)]);
    setup.table(&[(at, 32, INDIRECT, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn next_outside_of_an_indirect_table() {
    let setup = setup(F_INDIRECT_DESC);
    let at = setup.room;
    setup.indirect_table(&[(at, 8, NEXT, 2), (at, 8, WRITE, 0), (at, 8, WRITE, 0)]);
    setup.table(&[(at, 32, INDIRECT, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn an_indirect_chain_of_more_buffers_than_one_call_takes() {
    let setup = setup(F_INDIRECT_DESC);
    let at = setup.room;
    let table: Vec<_> = (0..1025u16)
        .map(|i| (at + 0x10_0000 + u64::from(i) * 32, 1, NEXT, i + 1))
        .collect();
    setup.indirect_table(&table);
    setup.table(&[(at, 1025 * 16, INDIRECT, 0)]);
    setup.expect_returned_unused();
}

#[test]
fn a_direct_part_before_an_indirect_table_is_allowed() {
    let mut setup = setup(F_INDIRECT_DESC);
    let at = setup.room;
    setup.driver.memory().write(at + 0x1000, b"abcdef").unwrap();
    setup.indirect_table(&[(at + 0x1003, 3, NEXT, 1), (at + 0x2000, 8, WRITE, 0)]);
    // WRITE is ignored in a descriptor that names a table.
    setup.table(&[(at + 0x1000, 3, NEXT, 1), (at, 32, INDIRECT | WRITE, 0)]);
    setup.publish(0);
    setup.queue.wait_used_idx(1).unwrap();
    assert_eq!(setup.queue.used_element(0), (0, 6));
    let mut reply = [0; 6];
    setup.driver.memory().read(at + 0x2000, &mut reply).unwrap();
    assert_eq!(&reply, b"abcdef");
    setup.expect_alive();
}

#[test]
fn a_head_outside_of_the_table() {
    for features in [0, F_EVENT_IDX] {
        let mut setup = setup(features);
        setup.publish(SIZE);
        setup.expect_closed(RingError::BadHead(SIZE));
    }
}

#[test]
fn an_available_index_that_jumps_by_more_than_the_queue_has() {
    let mut setup = setup(0);
    setup.queue.set_avail_idx(SIZE + 1);
    let now = SIZE + 1;
    setup.expect_closed(RingError::IndexJump { seen: 0, now });
}

#[test]
fn an_available_index_that_runs_backwards() {
    let mut setup = setup(F_EVENT_IDX);
    setup.queue.roundtrip(&[b"x"], &[8]).unwrap();
    setup.queue.set_avail_idx(0);
    setup.expect_closed(RingError::IndexJump { seen: 1, now: 0 });
}

#[test]
fn more_chains_in_flight_than_the_ring_has_descriptors() {
    let mut setup = setup(0);
    let at = setup.room;
    setup.driver.memory().write(at, PARK).unwrap();
    setup.table(&[(at, 4, DescriptorFlags::empty(), 0)]);
    for _ in 0..SIZE {
        setup.publish(0);
        setup.served.wait_for(common::Event::Parked(1));
    }
    setup.publish(0);
    setup.expect_closed(RingError::Overrun);
}

#[test]
fn the_same_head_twice_at_once_is_the_drivers_loss_only() {
    let mut setup = setup(0);
    let at = setup.room;
    setup.driver.memory().write(at, PARK).unwrap();
    setup.table(&[(at, 4, DescriptorFlags::empty(), 0)]);
    setup.publish(0);
    setup.publish(0);
    setup.served.wait_for(common::Event::Parked(1));
    setup.served.wait_for(common::Event::Parked(1));
    assert_eq!(setup.served.device.release(), 2);
    setup.queue.wait_used_idx(2).unwrap();
    setup.expect_alive();
}
