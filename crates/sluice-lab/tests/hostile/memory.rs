//! Memory that comes and goes while it is used: tables sent again and again, regions
//! taken from under rings and requests, files that shrink.

use crate::scene::Scene;
use sluice_lab::raw_guest::{Guest, HEADER_LEN, ROOM, ROOT, header};
use sluice_proto::fuse::wire::{Opcode, ReadIn};
use sluice_virtio::driver::{Driver, Options};
use sluice_virtio::memory::RegionSpec;
use sluice_virtio::vhost_user::message::{MemoryTable, Payload, SingleRegion, request};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use zerocopy::IntoBytes;

/// A guest that does not wait long for what may never come.
fn guest(scene: &Scene) -> Guest {
    let options = Options {
        timeout: Duration::from_secs(20),
        ..Options::default()
    };
    let stream = UnixStream::connect(scene.socket()).unwrap();
    let mut guest = Guest::over(Driver::new(stream, options).unwrap());
    guest.init().unwrap();
    guest
}

/// Fills the ring with reads of a long file.
fn read_everything(guest: &mut Guest, scene: &Scene) -> usize {
    std::fs::write(scene.share.join("long"), vec![7; 1 << 20]).unwrap();
    let file = guest.create(ROOT, b"long").unwrap();
    let args = ReadIn {
        fh: file.fh,
        size: ROOM,
        ..ReadIn::default()
    };
    let head = header(Opcode::Read as u32, file.node, 40);
    let sent = [head.as_bytes(), args.as_bytes()];
    let mut count = 0;
    while guest.requests.submit(&sent, &[HEADER_LEN, ROOM]).is_ok() {
        count += 1;
    }
    guest.requests.kick();
    count
}

/// The same table again, and the same with more regions, moves nothing that is in use.
#[test]
fn tables_that_come_while_requests_run() {
    Scene::play(|scene| {
        let mut guest = guest(scene);
        let MemoryTable(regions) = guest.driver.memory_table();
        let end = regions[0].guest_addr + regions[0].size;
        let more = RegionSpec {
            guest_addr: end,
            user_addr: regions[0].user_addr + regions[0].size,
            size: 0x1000,
            file_offset: 0,
        };
        let tables = [
            vec![regions[0]],
            vec![regions[0], more],
            vec![more, regions[0]],
        ];
        for round in 0..30 {
            let count = read_everything(&mut guest, scene);
            let file = guest.driver.memory_file();
            for table in &tables {
                let sent = MemoryTable(table.clone()).to_bytes();
                let fds = vec![file; table.len()];
                let changed = guest.driver.request(request::SET_MEM_TABLE, &sent, &fds);
                changed.unwrap();
            }
            for _ in 0..count {
                let done = guest.requests.wait().unwrap();
                assert_eq!(guest.errno(&done), 0, "round {round}");
            }
        }
    });
}

/// Without the ring's own memory there is no ring: the connection may end, and no other.
#[test]
fn tables_that_take_the_ring_away() {
    Scene::play(|scene| {
        let gone: [fn(&RegionSpec) -> Vec<RegionSpec>; 4] = [
            |_| vec![],
            |all| {
                vec![RegionSpec {
                    size: 0x1000,
                    ..*all
                }]
            },
            |all| {
                vec![RegionSpec {
                    guest_addr: all.guest_addr + (1 << 40),
                    user_addr: all.user_addr + (1 << 40),
                    ..*all
                }]
            },
            |all| {
                vec![RegionSpec {
                    guest_addr: all.guest_addr + 0x1000,
                    size: all.size - 0x1000,
                    ..*all
                }]
            },
        ];
        for table in gone {
            let mut guest = guest(scene);
            read_everything(&mut guest, scene);
            let table = table(&guest.driver.memory_table().0[0]);
            let fds = vec![guest.driver.memory_file(); table.len()];
            let sent = MemoryTable(table).to_bytes();
            let _ = guest.driver.request(request::SET_MEM_TABLE, &sent, &fds);
            guest.requests.kick_anyway();
            let _ = guest.driver.get_u64(request::GET_FEATURES);
        }
        let mut guest = guest(scene);
        read_everything(&mut guest, scene);
        let all = SingleRegion(guest.driver.memory_table().0[0]).to_bytes();
        for _ in 0..3 {
            let _ = guest.driver.request(request::REM_MEM_REG, &all, &[]);
            let _ = guest
                .driver
                .request(request::ADD_MEM_REG, &all, &[guest.driver.memory_file()]);
        }
        let _ = guest.driver.get_u64(request::GET_FEATURES);
    });
}

/// The file behind the memory shrinks at every point of a request's life.
#[test]
fn memory_that_shrinks() {
    Scene::play(|scene| {
        for kept in [0, 1, 0x1000, 0x10_0000] {
            for is_early in [true, false] {
                let mut guest = guest(scene);
                if is_early {
                    rustix::fs::ftruncate(guest.driver.memory_file(), kept).unwrap();
                    guest.requests.kick_anyway();
                } else {
                    // Not looked at from here any more: this process would fault, too.
                    read_everything(&mut guest, scene);
                    rustix::fs::ftruncate(guest.driver.memory_file(), kept).unwrap();
                    guest.requests.kick_anyway();
                    guest.hiprio.kick_anyway();
                }
                // It ends, by whatever it meets.
                let _ = guest.driver.get_u64(request::GET_FEATURES);
            }
        }
    });
}

/// A buffer that lies half in one region and half in the next is one buffer, or none;
/// what is behind in the file of either is not touched.
#[test]
fn buffers_across_regions() {
    Scene::play(|scene| {
        let mut guest = guest(scene);
        let whole = guest.driver.memory_table().0[0];
        let (slot, _) = guest.requests.slot(0);
        let middle = (slot + 0x1_0000) & !0xfff;
        let first = RegionSpec {
            size: middle - whole.guest_addr,
            ..whole
        };
        let offset = middle - whole.guest_addr;
        let second = RegionSpec {
            guest_addr: middle,
            user_addr: whole.user_addr + offset,
            size: whole.size - offset,
            file_offset: whole.file_offset + offset,
        };
        let sent = MemoryTable(vec![first, second]).to_bytes();
        let fds = [guest.driver.memory_file(); 2];
        guest
            .driver
            .request(request::SET_MEM_TABLE, &sent, &fds)
            .unwrap();
        for _ in 0..3 {
            let count = read_everything(&mut guest, scene);
            for _ in 0..count {
                let done = guest.requests.wait().unwrap();
                // Refused as a whole, or whole.
                let reply = guest.requests.reply(&done);
                let is_whole = reply.get(16..).is_some_and(|data| {
                    data.len() == ROOM as usize && data.iter().all(|byte| *byte == 7)
                });
                assert!(is_whole || reply.len() <= 16, "{} bytes", reply.len());
            }
        }
    });
}
