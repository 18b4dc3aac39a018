//! Descriptors and indices. The ring's own tests have each with its exact outcome;
//! here they come between requests that have a meaning.

use crate::scene::Scene;
use sluice_lab::raw_guest::{Guest, HEADER_LEN, ROOM, ROOT, header};
use sluice_proto::fuse::wire::Opcode;
use sluice_virtio::driver::{Driver, DriverError, Options};
use sluice_virtio::queue::layout::{Descriptor, DescriptorFlags, F_EVENT_IDX, F_INDIRECT_DESC};
use zerocopy::IntoBytes;

const NEXT: DescriptorFlags = DescriptorFlags::NEXT;
const WRITE: DescriptorFlags = DescriptorFlags::WRITE;
const INDIRECT: DescriptorFlags = DescriptorFlags::INDIRECT;
const NONE: DescriptorFlags = DescriptorFlags::empty();

/// Descriptors of a ring; few, so that loops are short.
const SIZE: u16 = 16;

/// A slot that the ring's own requests do not come to: they take the last one free.
const FREE_SLOT: u16 = 0;

fn guest(scene: &Scene, features: u64) -> Guest {
    let options = Options {
        queue_size: SIZE,
        slots: 4,
        features,
        ..Options::default()
    };
    let mut guest = Guest::over(Driver::connect(scene.socket(), options).unwrap());
    guest.init().unwrap();
    guest
}

type Part = (u64, u32, DescriptorFlags, u16);

fn descriptor(&(addr, len, flags, next): &Part) -> Descriptor {
    Descriptor {
        addr,
        len,
        flags,
        next,
    }
}

/// Puts a chain on the ring that begins at descriptor 0.
fn publish(guest: &mut Guest, table: &[Part]) {
    for (index, part) in (0..).zip(table) {
        guest.requests.write_descriptor(index, descriptor(part));
    }
    let at = guest.requests.avail_idx();
    guest.requests.write_avail(at, 0);
    guest.requests.set_avail_idx(at.wrapping_add(1));
    guest.requests.kick_anyway();
}

/// Chains that no driver makes, from the addresses of a request and of room for its reply.
fn broken_chains(request: u64, room: u64, table: u64) -> Vec<(&'static str, Vec<Part>)> {
    vec![
        (
            "a loop",
            vec![(request, 40, NEXT, 1), (room, 40, WRITE | NEXT, 0)],
        ),
        ("a loop of one", vec![(request, 40, NEXT, 0)]),
        ("nothing", vec![(0, 0, NONE, 0)]),
        (
            "an empty buffer",
            vec![(request, 0, NEXT, 1), (room, 0, WRITE, 0)],
        ),
        (
            "memory that is none",
            vec![(1 << 40, 40, NEXT, 1), (room, 100, WRITE, 0)],
        ),
        (
            "a reply to nowhere",
            vec![(request, 40, NEXT, 1), (1 << 40, 100, WRITE, 0)],
        ),
        (
            "an address that wraps",
            vec![(u64::MAX - 8, 40, NEXT, 1), (room, 100, WRITE, 0)],
        ),
        ("address 0", vec![(0, 40, NEXT, 1), (room, 100, WRITE, 0)]),
        (
            "4 GiB",
            vec![(request, u32::MAX, NEXT, 1), (room, u32::MAX, WRITE, 0)],
        ),
        (
            "written before read",
            vec![(room, 100, WRITE | NEXT, 1), (request, 40, NONE, 0)],
        ),
        ("next outside", vec![(request, 40, NEXT, SIZE)]),
        ("next far outside", vec![(request, 40, NEXT, u16::MAX)]),
        (
            "unknown flags",
            vec![(request, 40, DescriptorFlags::from_bits_retain(!7), 0)],
        ),
        ("a table in a table", vec![(table, 16, INDIRECT, 0)]),
        ("a table of odd length", vec![(table, 17, INDIRECT, 0)]),
        ("a table of nothing", vec![(table, 0, INDIRECT, 0)]),
        (
            "a table of 4 GiB",
            vec![(table, u32::MAX - 15, INDIRECT, 0)],
        ),
        ("a table outside", vec![(1 << 40, 32, INDIRECT, 0)]),
        (
            "a table and more",
            vec![(table, 32, INDIRECT | NEXT, 1), (room, 9, WRITE, 0)],
        ),
        (
            "a table to write to",
            vec![(table, 32, INDIRECT | WRITE, 0)],
        ),
        (
            "the ring itself",
            vec![
                (request - 0x10_0000, 0x10_0000, NEXT, 1),
                (room, 99, WRITE, 0),
            ],
        ),
    ]
}

#[test]
fn chains_that_no_driver_makes() {
    Scene::play(|scene| {
        for features in [0, F_INDIRECT_DESC, F_EVENT_IDX | F_INDIRECT_DESC] {
            let request = header(Opcode::Getattr as u32, ROOT, 16);
            for nth in 0..broken_chains(1 << 30, 0, 0).len() {
                let mut guest = guest(scene, features);
                let (at, _) = guest.requests.slot(FREE_SLOT);
                let (room, table) = (at + 0x1000, at + 0x2000);
                let memory = guest.driver.memory();
                memory.write(at, request.as_bytes()).unwrap();
                let nested = descriptor(&(table, 16, INDIRECT, 0));
                memory.write(table, &nested.to_bytes()).unwrap();
                let (what, chain) = broken_chains(at, room, table).swap_remove(nth);
                let done = guest.requests.used_idx().wrapping_add(1);
                publish(&mut guest, &chain);
                guest.requests.wait_used_idx(done).expect(what);
                let (id, written) = guest.requests.used_element(done.wrapping_sub(1));
                assert_eq!(id, 0, "{what}");
                assert!(
                    written <= HEADER_LEN,
                    "{what} is answered with {written} bytes"
                );
            }
        }
    });
}

/// Tables of descriptors beside the ring, from the address of a request, of room for its
/// reply and of the table itself.
fn broken_tables(request: u64, room: u64, table: u64) -> Vec<(&'static str, Vec<Part>)> {
    let empty = |next| (request, 0, NEXT, next);
    vec![
        (
            "a loop",
            vec![(request, 56, NEXT, 1), (room, 99, WRITE | NEXT, 0)],
        ),
        (
            "a loop behind",
            vec![(request, 56, NEXT, 1), (room, 99, WRITE | NEXT, 1)],
        ),
        (
            "next outside",
            vec![(request, 56, NEXT, 2), (room, 99, WRITE, 0)],
        ),
        ("next far outside", vec![(request, 56, NEXT, u16::MAX)]),
        (
            "a table in it",
            vec![(request, 56, NEXT, 1), (table, 32, INDIRECT, 0)],
        ),
        (
            "itself",
            vec![(table, 32, INDIRECT | NEXT, 1), (room, 99, WRITE, 0)],
        ),
        (
            "written before read",
            vec![(room, 99, WRITE | NEXT, 1), (request, 56, NONE, 0)],
        ),
        (
            "many of nothing",
            (1..400).map(empty).chain([(room, 0, WRITE, 0)]).collect(),
        ),
        (
            "more than a ring may have",
            (1..2000).map(|next| (request, 56, NEXT, next)).collect(),
        ),
        (
            "4 GiB, many times",
            (1..60)
                .map(|next| (room, u32::MAX, WRITE | NEXT, next))
                .collect(),
        ),
        (
            "the ring as a table",
            vec![(table - 0x1_0000, 0x1000, NEXT, 0)],
        ),
    ]
}

#[test]
fn tables_that_no_driver_makes() {
    Scene::play(|scene| {
        let request = header(Opcode::Getattr as u32, ROOT, 16);
        for nth in 0..broken_tables(0, 0, 1 << 20).len() {
            let mut guest = guest(scene, F_INDIRECT_DESC);
            let (at, _) = guest.requests.slot(FREE_SLOT);
            let (room, table) = (at + 0x1000, at + 0x2000);
            let memory = guest.driver.memory();
            memory.write(at, request.as_bytes()).unwrap();
            let (what, parts) = broken_tables(at, room, table).swap_remove(nth);
            let bytes: Vec<u8> = parts
                .iter()
                .flat_map(|part| descriptor(part).to_bytes())
                .collect();
            memory.write(table, &bytes).unwrap();
            let done = guest.requests.used_idx().wrapping_add(1);
            publish(&mut guest, &[(table, bytes.len() as u32, INDIRECT, 0)]);
            guest.requests.wait_used_idx(done).expect(what);
            let (id, written) = guest.requests.used_element(done.wrapping_sub(1));
            assert_eq!(id, 0, "{what}");
            assert!(
                written <= HEADER_LEN,
                "{what} is answered with {written} bytes"
            );
        }
    });
}

/// A chain whose parts overlap, and whose reply is written over the request and over the
/// ring: the driver's loss alone.
#[test]
fn replies_over_what_is_asked() {
    Scene::play(|scene| {
        std::fs::write(scene.share.join("long"), vec![0xff; 1 << 20]).unwrap();
        let mut guest = guest(scene, 0);
        let file = guest.create(ROOT, b"long").unwrap();
        let (at, _) = guest.requests.slot(FREE_SLOT);
        let request = header(Opcode::Getattr as u32, ROOT, 16);
        guest.driver.memory().write(at, request.as_bytes()).unwrap();
        let done = guest.requests.used_idx().wrapping_add(1);
        publish(&mut guest, &[(at, 56, NEXT, 1), (at, 120, WRITE, 0)]);
        guest.requests.wait_used_idx(done).unwrap();
        // A long file over the descriptor table, the rings and everything.
        let read = sluice_proto::fuse::wire::ReadIn {
            fh: file.fh,
            size: 1 << 20,
            ..Default::default()
        };
        let request = header(Opcode::Read as u32, file.node, 40);
        let whole = [request.as_bytes(), read.as_bytes()].concat();
        guest.driver.memory().write(at, &whole).unwrap();
        let first = guest.driver.memory_table().0[0].guest_addr;
        publish(&mut guest, &[(at, 80, NEXT, 1), (first, 1 << 20, WRITE, 0)]);
        // What becomes of this connection is its own business.
        let _ = guest.requests.wait();
    });
}

#[test]
fn indices_that_lie() {
    Scene::play(|scene| {
        for (back, forth) in [(0, SIZE + 1), (1, 0), (0, 0x8000), (1000, 0), (0, u16::MAX)] {
            let mut guest = guest(scene, F_EVENT_IDX);
            for _ in 0..3 {
                guest.getattr(ROOT).unwrap();
            }
            let at = guest.requests.avail_idx();
            guest
                .requests
                .set_avail_idx(at.wrapping_sub(back).wrapping_add(forth));
            guest.requests.kick_anyway();
            assert_closed(&guest);
        }
    });
}

#[test]
fn heads_that_lie() {
    Scene::play(|scene| {
        for head in [SIZE, SIZE + 1, 0x7fff, u16::MAX] {
            let mut guest = guest(scene, 0);
            let at = guest.requests.avail_idx();
            guest.requests.write_avail(at, head);
            guest.requests.set_avail_idx(at.wrapping_add(1));
            guest.requests.kick_anyway();
            assert_closed(&guest);
        }
    });
}

/// The device has nothing to say but that it is gone.
#[track_caller]
fn assert_closed(guest: &Guest) {
    let received = guest.driver.channel().recv();
    assert!(!matches!(received, Ok(Some(_))), "{received:?}");
}

/// Kicks for nothing, on both queues, and calls that nobody takes.
#[test]
fn floods_of_kicks() {
    Scene::play(|scene| {
        let mut guest = guest(scene, F_EVENT_IDX);
        for round in 0..20_000 {
            guest.requests.kick_anyway();
            guest.hiprio.kick_anyway();
            if round % 1000 == 0 {
                assert!(guest.getattr(ROOT).is_ok());
            }
        }
    });
}

/// The queues are as full as they can be, again and again, and then the guest is gone.
#[test]
fn a_guest_that_leaves_with_full_rings() {
    Scene::play(|scene| {
        for _ in 0..30 {
            let mut guest = guest(scene, F_INDIRECT_DESC);
            let file = guest.create(ROOT, b"file").unwrap();
            let args = sluice_proto::fuse::wire::ReadIn {
                fh: file.fh,
                size: ROOM,
                ..Default::default()
            };
            let request = header(Opcode::Read as u32, file.node, 40);
            let sent = [request.as_bytes(), args.as_bytes()];
            loop {
                match guest.requests.submit(&sent, &[HEADER_LEN, ROOM]) {
                    Ok(_) => {}
                    Err(DriverError::QueueFull) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            guest.requests.kick();
            drop(guest);
        }
    });
}
