//! vhost-user messages, descriptors and memory tables, as a monitor that was taken over
//! sends them. Each may be refused, or end its connection, which then is the only one
//! that ends.

use crate::scene::Scene;
use rustix::fs::OFlags;
use sluice_lab::raw_guest::{Guest, ROOT};
use sluice_virtio::driver::{Driver, Options, notifier};
use sluice_virtio::memory::RegionSpec;
use sluice_virtio::vhost_user::message::{
    Config, Header, Inflight, MemoryTable, Payload, SingleRegion, VringAddr, VringFd, VringState,
    request,
};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A connection that says nothing of its own accord and waits for little.
fn driver(scene: &Scene) -> Driver {
    let stream = UnixStream::connect(scene.socket()).unwrap();
    let options = Options {
        timeout: Duration::from_secs(20),
        ..Options::default()
    };
    Driver::unshared(stream, options).unwrap()
}

/// A connection whose queues run.
fn running(scene: &Scene) -> Guest {
    let mut guest = Guest::connect(scene.socket());
    guest.init().unwrap();
    guest
}

/// Sends one message to a fresh connection and to one whose queues run.
fn send_everywhere(scene: &Scene, number: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) {
    for is_running in [false, true] {
        let guest = is_running.then(|| running(scene));
        let fresh = (!is_running).then(|| driver(scene));
        let driver = guest.as_ref().map(|guest| &guest.driver).or(fresh.as_ref());
        // Refused, granted or closed: what counts is who is served next.
        let _ = driver
            .unwrap()
            .channel()
            .send(number, Header::NEED_REPLY, payload, fds);
    }
}

/// Every message there is and some that are not, with payloads of all lengths.
#[test]
fn messages_with_any_payload() {
    Scene::play(|scene| {
        let memory = notifier().unwrap();
        for number in (0..48).chain([100, 1 << 16, u32::MAX]) {
            for payload in [
                vec![],
                vec![0; 4],
                vec![0; 8],
                vec![0xff; 8],
                vec![0xff; 40],
            ] {
                send_everywhere(scene, number, &payload, &[]);
            }
            send_everywhere(scene, number, &[0; 8], &[memory.as_fd()]);
        }
    });
}

#[test]
fn headers_that_lie() {
    Scene::play(|scene| {
        for size in [1, 4096, 4097, 1 << 31, u32::MAX] {
            for flags in [0, 1, 2, 3, 5, 9, u32::MAX] {
                let driver = driver(scene);
                let header = Header {
                    request: request::GET_FEATURES,
                    flags,
                    size,
                };
                let _ = driver.channel().send_bytes(&header.to_bytes(), &[]);
            }
        }
        // Cut short anywhere.
        for len in 0..12 {
            let driver = driver(scene);
            let header = Header::new(request::GET_FEATURES, 0, 0).to_bytes();
            let _ = driver.channel().send_bytes(&header[..len], &[]);
        }
    });
}

/// Descriptors of every kind, where memory or a notifier is due.
#[test]
fn descriptors_that_are_no_memory_and_no_notifier() {
    Scene::play(|scene| {
        let (socket, _peer) = UnixStream::pair().unwrap();
        let (pipe_end, _other) = std::io::pipe().unwrap();
        let canary = File::open(scene.top.join("canary")).unwrap();
        let fds: Vec<OwnedFd> = vec![
            File::open("/dev/null").unwrap().into(),
            File::open("/dev/zero").unwrap().into(),
            File::open("/proc/self/mem").unwrap().into(),
            File::open(&scene.top).unwrap().into(),
            canary.into(),
            socket.into(),
            pipe_end.into(),
            notifier().unwrap(),
            rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap(),
        ];
        let region = RegionSpec {
            guest_addr: 0,
            user_addr: 0x1000,
            size: 0x1000,
            file_offset: 0,
        };
        let table = MemoryTable(vec![region]).to_bytes();
        let ring = VringFd {
            index: 1,
            without_fd: false,
        };
        let inflight = Inflight {
            mmap_size: 0x1000,
            mmap_offset: 0,
            num_queues: 2,
            queue_size: 128,
        };
        for fd in &fds {
            let fds = [fd.as_fd()];
            send_everywhere(scene, request::SET_MEM_TABLE, &table, &fds);
            send_everywhere(
                scene,
                request::ADD_MEM_REG,
                &SingleRegion(region).to_bytes(),
                &fds,
            );
            send_everywhere(scene, request::SET_INFLIGHT_FD, &inflight.to_bytes(), &fds);
            send_everywhere(scene, request::SET_BACKEND_REQ_FD, &[], &fds);
            send_everywhere(scene, request::SET_LOG_FD, &[], &fds);
            for number in [
                request::SET_VRING_KICK,
                request::SET_VRING_CALL,
                request::SET_VRING_ERR,
            ] {
                send_everywhere(scene, number, &ring.to_bytes(), &fds);
            }
        }
        let many: Vec<_> = fds.iter().cycle().take(60).map(AsFd::as_fd).collect();
        for number in 0..45 {
            send_everywhere(scene, number, &[0; 8], &many);
        }
    });
}

/// Regions that are empty, too long for their file, at the end of everything, on top of
/// each other, and too many.
#[test]
fn memory_tables_that_lie() {
    Scene::play(|scene| {
        let page = 0x1000;
        let edges = [
            0,
            1,
            page - 1,
            page,
            1 << 32,
            (1 << 47) - page,
            1 << 63,
            u64::MAX,
        ];
        let memory = rustix::fs::memfd_create("lies", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, 4 * page).unwrap();
        let fd = memory.as_fd();
        for place in edges {
            for size in edges {
                for file_offset in [0, 1, page, 4 * page, 1 << 63, u64::MAX] {
                    let region = RegionSpec {
                        guest_addr: place,
                        user_addr: place,
                        size,
                        file_offset,
                    };
                    let driver = driver(scene);
                    let table = MemoryTable(vec![region]).to_bytes();
                    let _ = driver
                        .channel()
                        .send(request::SET_MEM_TABLE, 0, &table, &[fd]);
                    let added = SingleRegion(region).to_bytes();
                    let _ = driver
                        .channel()
                        .send(request::ADD_MEM_REG, 0, &added, &[fd]);
                    let _ = driver.channel().send(request::REM_MEM_REG, 0, &added, &[]);
                }
            }
        }
        let same = RegionSpec {
            guest_addr: 0,
            user_addr: 0,
            size: page,
            file_offset: 0,
        };
        for count in [0, 2, 8, 9, 32, 33, 100] {
            let table = MemoryTable(vec![same; count]).to_bytes();
            for fds in [0, 1, count.min(60)] {
                send_everywhere(scene, request::SET_MEM_TABLE, &table, &vec![fd; fds]);
            }
        }
        for count in [u32::MAX, 1 << 31, 33] {
            let mut table = MemoryTable(vec![same]).to_bytes();
            table[..4].copy_from_slice(&count.to_ne_bytes());
            send_everywhere(scene, request::SET_MEM_TABLE, &table, &[fd]);
        }
    });
}

#[test]
fn rings_that_are_nowhere() {
    Scene::play(|scene| {
        for index in [0, 1, 64, 65, 255, 1 << 16, u32::MAX] {
            for num in [0, 1, 3, 128, 1024, 1 << 15, 1 << 16, u32::MAX] {
                let state = VringState { index, num }.to_bytes();
                for number in [
                    request::SET_VRING_NUM,
                    request::SET_VRING_BASE,
                    request::GET_VRING_BASE,
                    request::SET_VRING_ENABLE,
                ] {
                    let driver = driver(scene);
                    let _ = driver
                        .channel()
                        .send(number, Header::NEED_REPLY, &state, &[]);
                }
            }
        }
        for place in [
            0,
            1,
            0xfff,
            0x10_0000,
            1 << 47,
            1 << 63,
            u64::MAX - 15,
            u64::MAX,
        ] {
            for index in [0, 1] {
                let addr = VringAddr {
                    index,
                    flags: u32::MAX,
                    descriptor: place,
                    used: place,
                    available: place,
                    log: place,
                };
                send_everywhere(scene, request::SET_VRING_ADDR, &addr.to_bytes(), &[]);
            }
        }
    });
}

#[test]
fn areas_of_impossible_sizes() {
    Scene::play(|scene| {
        for (num_queues, queue_size) in [(0, 0), (1, 0), (0, 1), (u16::MAX, u16::MAX), (65, 3)] {
            for (mmap_size, mmap_offset) in [(0, 0), (u64::MAX, 0), (0, u64::MAX), (4096, 1)] {
                let area = Inflight {
                    mmap_size,
                    mmap_offset,
                    num_queues,
                    queue_size,
                };
                send_everywhere(scene, request::GET_INFLIGHT_FD, &area.to_bytes(), &[]);
            }
        }
        for (offset, len) in [
            (0, 0),
            (0, 256),
            (0, 257),
            (256, 1),
            (u32::MAX, 1),
            (u32::MAX, 256),
        ] {
            let config = Config {
                offset,
                flags: u32::MAX,
                bytes: vec![0; len],
            };
            send_everywhere(scene, request::GET_CONFIG, &config.to_bytes(), &[]);
            send_everywhere(scene, request::SET_CONFIG, &config.to_bytes(), &[]);
        }
    });
}

/// Steps of the set-up in every wrong order.
#[test]
fn messages_out_of_order() {
    Scene::play(|scene| {
        let kick = notifier().unwrap();
        let state = |num| VringState { index: 1, num }.to_bytes();
        let addr = VringAddr {
            index: 1,
            flags: 0,
            descriptor: 0x5000_0000_0000,
            used: 0x5000_0000_2000,
            available: 0x5000_0000_1000,
            log: 0,
        };
        let ring = VringFd {
            index: 1,
            without_fd: false,
        };
        let steps: [(u32, Vec<u8>, Vec<BorrowedFd<'_>>); 8] = [
            (request::SET_VRING_ENABLE, state(1), vec![]),
            (request::SET_VRING_KICK, ring.to_bytes(), vec![kick.as_fd()]),
            (request::SET_VRING_CALL, ring.to_bytes(), vec![kick.as_fd()]),
            (request::SET_VRING_NUM, state(128), vec![]),
            (request::SET_VRING_ADDR, addr.to_bytes(), vec![]),
            (request::GET_VRING_BASE, state(0), vec![]),
            (request::RESET_DEVICE, vec![], vec![]),
            (request::SET_FEATURES, (1u64 << 30).to_bytes(), vec![]),
        ];
        for first in 0..steps.len() {
            for stride in [1, 3, 5, 7] {
                let driver = driver(scene);
                for nth in 0..steps.len() * 2 {
                    let (number, payload, fds) = &steps[(first + nth * stride) % steps.len()];
                    let _ = driver.channel().send(*number, 0, payload, fds);
                }
            }
        }
    });
}

/// A notifier is shared with whoever gave it: its owner makes it block again, and full,
/// and fills it whenever it is emptied. The ring's thread then hangs in it, and must come
/// free for the next connection.
#[test]
fn a_call_descriptor_that_blocks() {
    Scene::play(|scene| {
        let mut guest = running(scene);
        let call = notifier().unwrap();
        let ring = VringFd {
            index: 1,
            without_fd: false,
        };
        let set = [call.as_fd()];
        guest
            .driver
            .request(request::SET_VRING_CALL, &ring.to_bytes(), &set)
            .unwrap();
        let fill = || {
            // One more than fits: it waits until the counter is emptied.
            let _ = rustix::io::write(&call, &(u64::MAX - 1).to_ne_bytes());
        };
        let _ = rustix::io::read(&call, &mut [0; 8]);
        fill();
        rustix::fs::fcntl_setfl(&call, OFlags::empty()).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let fillers = [(); 4].map(|()| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        fill();
                    }
                })
            });
            let header = sluice_lab::raw_guest::header(3, ROOT, 16);
            let sent = [zerocopy::IntoBytes::as_bytes(&header), &[0; 16]];
            let done = guest.requests.used_idx().wrapping_add(1);
            guest.requests.want_signal();
            guest.requests.submit(&sent, &[200]).unwrap();
            guest.requests.kick();
            guest.requests.wait_used_idx(done).unwrap();
            drop(guest);
            // `call` is full, and filled, until the next guest was served.
            let mut next = running(scene);
            assert!(next.getattr(ROOT).is_ok());
            is_over.store(true, Ordering::Relaxed);
            rustix::fs::fcntl_setfl(&call, OFlags::NONBLOCK).unwrap();
            while fillers.iter().any(|filler| !filler.is_finished()) {
                let _ = rustix::io::read(&call, &mut [0; 8]);
                std::thread::yield_now();
            }
        });
    });
}

/// Connections that come and go, some of them without a word.
#[test]
fn connections_without_end() {
    Scene::play(|scene| {
        for round in 0..500 {
            let stream = UnixStream::connect(scene.socket()).unwrap();
            if round % 5 == 0 {
                let _ = (&stream).write_all(&[0xff; 7]);
            }
        }
        let waiting: Vec<_> = (0..50)
            .map(|_| UnixStream::connect(scene.socket()))
            .collect();
        drop(waiting);
    });
}
