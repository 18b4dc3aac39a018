//! vhost-user messages, well-formed and not, with the exact answer to each.

mod common;

use common::{Event, connect, serve};
use sluice_virtio::driver::{Driver, DriverError, Options, notifier};
use sluice_virtio::memory::{MAX_REGIONS, MemoryError, RegionSpec};
use sluice_virtio::queue::RingError;
use sluice_virtio::queue::layout::{F_EVENT_IDX, F_INDIRECT_DESC, F_VERSION_1};
use sluice_virtio::vhost_user::channel::{Channel, ChannelError, MAX_FDS};
use sluice_virtio::vhost_user::message::*;
use sluice_virtio::vhost_user::{Error, Served};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

/// Sends one message on a fresh connection; how the connection ended.
fn outcome_of(request: u32, payload: &[u8], fds: usize) -> Result<Served, Error> {
    let (stream, served) = serve();
    let channel = Channel::new(stream);
    let fd = notifier().unwrap();
    let fds = vec![fd.as_fd(); fds];
    channel.send(request, 0, payload, &fds).unwrap();
    drop(channel);
    served.outcome()
}

fn state(index: u32, num: u32) -> Vec<u8> {
    VringState { index, num }.to_bytes()
}

#[test]
fn features_are_those_of_the_transport_and_the_rings() {
    let (driver, _served) = connect(Options::default());
    assert_eq!(
        driver.offered_features(),
        F_VERSION_1 | F_INDIRECT_DESC | F_EVENT_IDX | F_PROTOCOL_FEATURES
    );
    assert_eq!(
        driver.get_u64(request::GET_PROTOCOL_FEATURES).unwrap(),
        // MQ, REPLY_ACK, BACKEND_REQ, CONFIG, INFLIGHT_SHMFD, RESET_DEVICE,
        // CONFIGURE_MEM_SLOTS, STATUS
        1 | 1 << 3 | 1 << 5 | 1 << 9 | 1 << 12 | 1 << 13 | 1 << 15 | 1 << 16
    );
}

#[test]
fn the_number_of_queues_and_slots_is_the_truth() {
    let (driver, _served) = connect(Options::default());
    assert_eq!(driver.get_u64(request::GET_QUEUE_NUM).unwrap(), 2);
    let slots = driver.get_u64(request::GET_MAX_MEM_SLOTS).unwrap();
    assert_eq!(slots, MAX_REGIONS as u64);
}

#[test]
fn the_configuration_is_read_in_any_pieces_and_padded_with_zeros() {
    let (driver, _served) = connect(Options::default());
    let read = |offset, len| driver.config(offset, len).unwrap().unwrap();
    assert_eq!(read(0, 10), b"0123456789");
    for offset in 0..10 {
        assert_eq!(read(offset, 1), [b'0' + offset as u8]);
    }
    assert_eq!(read(8, 5), b"89\0\0\0");
    assert_eq!(read(250, 6), [0; 6]);
    assert_eq!(driver.config(255, 2).unwrap(), None);
    assert_eq!(driver.config(u32::MAX, 2).unwrap(), None);
}

#[test]
fn the_configuration_is_answered_before_any_negotiation() {
    let (stream, _served) = serve();
    let driver = Driver::unshared(stream, Options::default()).unwrap();
    assert_eq!(driver.config(1, 2).unwrap().unwrap(), b"12");
}

#[test]
fn a_write_of_the_configuration_is_refused_and_the_connection_goes_on() {
    let (driver, _served) = connect(Options::default());
    let mut config = Config {
        offset: 0,
        flags: 0,
        bytes: vec![1],
    };
    let refused = driver.request(request::SET_CONFIG, &config.to_bytes(), &[]);
    assert!(matches!(
        refused,
        Err(DriverError::Refused { status: 1, .. })
    ));
    config.flags = 1;
    driver
        .request(request::SET_CONFIG, &config.to_bytes(), &[])
        .unwrap();
    assert_eq!(driver.config(0, 1).unwrap().unwrap(), b"0");
}

#[test]
fn trailing_bytes_in_a_memory_table_are_ignored() {
    let (stream, _served) = serve();
    let mut driver = Driver::unshared(stream, Options::default()).unwrap();
    driver.negotiate().unwrap();
    let mut payload = driver.memory_table().to_bytes();
    assert_eq!(payload.len(), 40);
    payload.resize(72, 0);
    driver
        .request(request::SET_MEM_TABLE, &payload, &[driver.memory_file()])
        .unwrap();
    let mut queue = driver.start_queue(1).unwrap();
    assert_eq!(queue.roundtrip(&[b"x"], &[8]).unwrap().written, 1);
}

#[test]
fn memory_can_be_added_and_removed_slot_by_slot_while_rings_run() {
    let options = Options {
        regions: 4,
        ..Options::default()
    };
    let (stream, _served) = serve();
    let mut driver = Driver::unshared(stream, options).unwrap();
    driver.negotiate().unwrap();
    let specs = driver.memory_table().0;
    let add = |spec: &RegionSpec| {
        let payload = SingleRegion(*spec).to_bytes();
        driver.request(request::ADD_MEM_REG, &payload, &[driver.memory_file()])
    };
    let remove = |driver: &Driver, spec: &RegionSpec| {
        driver.request(request::REM_MEM_REG, &SingleRegion(*spec).to_bytes(), &[])
    };
    specs.iter().try_for_each(add).unwrap();
    let mut queue = driver.start_queue(1).unwrap();
    for _ in 0..50 {
        assert_eq!(queue.roundtrip(&[b"x"], &[8]).unwrap().written, 1);
        remove(&driver, &specs[3]).unwrap();
        assert_eq!(queue.roundtrip(&[b"x"], &[8]).unwrap().written, 1);
        let payload = SingleRegion(specs[3]).to_bytes();
        let fds = [driver.memory_file()];
        driver
            .request(request::ADD_MEM_REG, &payload, &fds)
            .unwrap();
    }
}

#[test]
fn removing_the_memory_of_a_running_ring_closes_the_connection() {
    let (mut driver, served) = connect(Options::default());
    let _queue = driver.start_queue(1).unwrap();
    let spec = driver.memory_table().0[0];
    let removed = driver.request(request::REM_MEM_REG, &SingleRegion(spec).to_bytes(), &[]);
    assert!(matches!(removed, Err(DriverError::Refused { .. })));
    assert!(matches!(
        served.outcome(),
        Err(Error::Ring {
            index: 1,
            error: RingError::OutOfRange(_)
        })
    ));
}

#[test]
fn removing_memory_waits_for_nobody_and_hurts_nobody() {
    // A chain in flight keeps the memory that it was found in.
    let options = Options {
        regions: 2,
        slots: 1,
        memory_bytes: 16 << 20,
        slot_bytes: 12 << 20,
        ..Options::default()
    };
    let (mut driver, served) = connect(options);
    let mut queue = driver.start_queue(1).unwrap();
    // Fills the first region with the ring; the buffers reach into the second.
    let filler = vec![0; 10 << 20];
    let token = queue.submit(&[common::PARK, &filler], &[64]).unwrap();
    queue.kick();
    served.wait_for(Event::Parked(1));
    let spec = driver.memory_table().0[1];
    driver
        .request(request::REM_MEM_REG, &SingleRegion(spec).to_bytes(), &[])
        .unwrap();
    served.device.release();
    let done = queue.wait().unwrap();
    assert_eq!(done.token, token);
    assert_eq!(queue.reply(&done)[..4], *common::PARK);
}

#[test]
fn a_reset_stops_everything_and_the_device_can_be_set_up_again() {
    let options = Options {
        protocol: ProtocolFeatures::all(),
        ..Options::default()
    };
    let (mut driver, served) = connect(options);
    let mut queue = driver.start_queue(1).unwrap();
    queue.roundtrip(&[b"x"], &[8]).unwrap();
    driver
        .request(request::SET_STATUS, &7u64.to_bytes(), &[])
        .unwrap();
    assert_eq!(driver.get_u64(request::GET_STATUS).unwrap(), 7);
    driver.request(request::RESET_DEVICE, &[], &[]).unwrap();
    served.wait_for(Event::Stopped(1));
    served.wait_for(Event::Reset);
    assert_eq!(driver.get_u64(request::GET_STATUS).unwrap(), 0);
    driver.negotiate().unwrap();
    queue.clear();
    driver.start(&queue, 0).unwrap();
    assert_eq!(queue.roundtrip(&[b"x"], &[8]).unwrap().written, 1);
}

#[test]
fn rings_of_a_front_end_without_protocol_features_run_at_once() {
    let (stream, _served) = serve();
    let mut driver = Driver::unshared(stream, Options::default()).unwrap();
    driver.share_memory().unwrap();
    let features = F_VERSION_1;
    driver
        .request(request::SET_FEATURES, &features.to_bytes(), &[])
        .unwrap();
    let mut queue = driver.start_queue(0).unwrap();
    assert_eq!(queue.roundtrip(&[b"x"], &[8]).unwrap().written, 1);
}

#[test]
fn a_ring_without_a_kick_descriptor_is_polled() {
    let (mut driver, _served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    let fd = VringFd {
        index: 1,
        without_fd: true,
    };
    driver
        .request(request::SET_VRING_KICK, &fd.to_bytes(), &[])
        .unwrap();
    queue.submit(&[b"x"], &[8]).unwrap();
    assert_eq!(queue.wait().unwrap().written, 1);
}

/// User-mode Linux has no other signal for its process than a socket's.
#[test]
fn calls_may_go_to_a_socket() {
    let (mut driver, _served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let (ours, theirs) = (OwnedFd::from(ours), OwnedFd::from(theirs));
    let set = VringFd {
        index: 1,
        without_fd: false,
    };
    driver
        .request(request::SET_VRING_CALL, &set.to_bytes(), &[theirs.as_fd()])
        .unwrap();
    let mut buf = [0; 8];
    // The new call descriptor is signalled once, for what the old one may have missed.
    rustix::io::read(&ours, &mut buf).unwrap();
    queue.set_wait_mode(sluice_virtio::driver::WaitMode::Event);
    for _ in 0..10 {
        queue.submit(&[b"x"], &[8]).unwrap();
        queue.want_signal();
        queue.kick();
        rustix::io::read(&ours, &mut buf).unwrap();
        assert_eq!(queue.poll().unwrap().unwrap().written, 1);
    }
}

/// A socket that is full, and blocks, is not waited for: what is done is on the ring.
#[test]
fn a_full_socket_holds_nobody_up() {
    let (mut driver, _served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    let (_ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    while (&theirs).write(&[0; 4096]).is_ok() {}
    theirs.set_nonblocking(false).unwrap();
    let set = VringFd {
        index: 1,
        without_fd: false,
    };
    for number in [request::SET_VRING_CALL, request::SET_VRING_ERR] {
        driver
            .request(number, &set.to_bytes(), &[theirs.as_fd()])
            .unwrap();
    }
    for _ in 0..10 {
        let done = queue.used_idx().wrapping_add(1);
        queue.submit(&[b"x"], &[8]).unwrap();
        queue.want_signal();
        queue.kick();
        queue.wait_used_idx(done).unwrap();
        assert_eq!(queue.poll().unwrap().unwrap().written, 1);
    }
}

/// Whoever holds the other end of a pipe, or a network connection, could hold up who
/// signals it; and what is no eventfd has no say in when a ring is looked at.
#[test]
fn what_could_hold_somebody_up_is_no_notifier() {
    let (pipe_read, pipe_write) = rustix::pipe::pipe().unwrap();
    let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
    let zero = std::fs::File::open("/dev/zero").unwrap();
    let dir = std::fs::File::open("/").unwrap();
    let socket = OwnedFd::from(socket);
    let fds = [
        pipe_read,
        pipe_write,
        epoll,
        tcp.into(),
        zero.into(),
        dir.into(),
    ];
    let set = VringFd {
        index: 1,
        without_fd: false,
    };
    let refused = |number, fd: &OwnedFd| {
        let (stream, served) = serve();
        let channel = Channel::new(stream);
        let sent = channel.send(number, 0, &set.to_bytes(), &[fd.as_fd()]);
        sent.unwrap();
        let outcome = served.outcome();
        let is_refused = matches!(outcome, Err(Error::BadNotifier(_)));
        assert!(is_refused, "message {number} with {fd:?}: {outcome:?}");
    };
    for number in [
        request::SET_VRING_KICK,
        request::SET_VRING_CALL,
        request::SET_VRING_ERR,
    ] {
        fds.iter().for_each(|fd| refused(number, fd));
    }
    refused(request::SET_VRING_KICK, &socket);
}

#[test]
fn the_call_descriptor_can_change_while_the_ring_runs() {
    let (mut driver, _served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    let other = notifier().unwrap();
    let fd = VringFd {
        index: 1,
        without_fd: false,
    }
    .to_bytes();
    driver
        .request(request::SET_VRING_CALL, &fd, &[other.as_fd()])
        .unwrap();
    rustix::io::read(&other, &mut [0; 8]).unwrap();
    queue.submit(&[b"x"], &[8]).unwrap();
    queue.want_signal();
    queue.kick();
    let mut fds = [rustix::event::PollFd::new(
        &other,
        rustix::event::PollFlags::IN,
    )];
    let patience = rustix::event::Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    assert_eq!(rustix::event::poll(&mut fds, Some(&patience)).unwrap(), 1);
}

#[test]
fn the_channel_for_the_back_end_is_accepted() {
    let options = Options {
        protocol: ProtocolFeatures::all(),
        ..Options::default()
    };
    let (driver, _served) = connect(options);
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    driver
        .request(request::SET_BACKEND_REQ_FD, &[], &[ours.as_fd()])
        .unwrap();
}

#[test]
fn messages_that_end_the_connection() {
    use request::*;
    type Check = fn(&Error) -> bool;
    let no_ring: Check = |e| matches!(e, Error::NoSuchRing(_));
    let payload: Check = |e| matches!(e, Error::BadPayload(_));
    let fds: Check = |e| matches!(e, Error::BadFdCount { .. });
    let size: Check = |e| {
        matches!(
            e,
            Error::Ring {
                error: RingError::BadSize(_),
                ..
            }
        )
    };
    let kick = |index, without_fd| VringFd { index, without_fd }.to_bytes();
    let table = MemoryTable(vec![RegionSpec {
        guest_addr: 0,
        user_addr: 0,
        size: 0x1000,
        file_offset: 0,
    }]);
    let cases: Vec<(u32, Vec<u8>, usize, Check)> = vec![
        (0, vec![], 0, |e| matches!(e, Error::UnknownRequest(0))),
        (1000, vec![], 0, |e| {
            matches!(e, Error::UnknownRequest(1000))
        }),
        (
            SET_FEATURES,
            (1u64 << 40).to_bytes(),
            0,
            |e| matches!(e, Error::UnknownFeatures(bits) if *bits == 1 << 40),
        ),
        (SET_PROTOCOL_FEATURES, 2u64.to_bytes(), 0, |e| {
            matches!(e, Error::UnknownFeatures(2))
        }),
        (SET_FEATURES, vec![0; 7], 0, payload),
        (SET_VRING_NUM, state(2, 16), 0, no_ring),
        (SET_VRING_NUM, state(u32::MAX, 16), 0, no_ring),
        (SET_VRING_NUM, state(0, 0), 0, size),
        (SET_VRING_NUM, state(0, 3), 0, size),
        (SET_VRING_NUM, state(0, 2048), 0, size),
        (SET_VRING_NUM, state(0, 65536), 0, size),
        (SET_VRING_BASE, state(0, 65536), 0, payload),
        (GET_VRING_BASE, state(9, 0), 0, no_ring),
        (SET_VRING_ENABLE, state(2, 1), 0, no_ring),
        (SET_VRING_KICK, kick(2, false), 1, no_ring),
        (SET_VRING_KICK, kick(0, false), 0, fds),
        (SET_VRING_KICK, kick(0, false), 2, fds),
        (SET_VRING_CALL, kick(0, true), 1, fds),
        (SET_MEM_TABLE, table.to_bytes(), 0, fds),
        (SET_MEM_TABLE, table.to_bytes(), 2, fds),
        (SET_MEM_TABLE, table.to_bytes(), 1, |e| {
            matches!(e, Error::Memory(MemoryError::NotAFile(_)))
        }),
        (SET_MEM_TABLE, vec![0xff; 100], 1, payload),
        (ADD_MEM_REG, vec![0; 39], 1, payload),
        (SET_BACKEND_REQ_FD, vec![], 0, fds),
        (SET_INFLIGHT_FD, vec![0; 20], 1, |e| {
            matches!(e, Error::BadInflightArea)
        }),
        (GET_INFLIGHT_FD, vec![0xff; 20], 0, |e| {
            matches!(e, Error::BadInflightArea)
        }),
    ];
    for (request, payload, fds, is_expected) in cases {
        let outcome = outcome_of(request, &payload, fds);
        let expected = outcome.as_ref().is_err_and(is_expected);
        assert!(expected, "{request} {payload:?} {fds}: {outcome:?}");
    }
}

#[test]
fn a_file_is_no_notifier() {
    let (driver, served) = connect(Options::default());
    let fd = VringFd {
        index: 1,
        without_fd: false,
    };
    let file = tempfile::tempfile().unwrap();
    let refused = driver.request(request::SET_VRING_KICK, &fd.to_bytes(), &[file.as_fd()]);
    assert!(refused.is_err());
    assert!(matches!(served.outcome(), Err(Error::BadNotifier(_))));
}

#[test]
fn messages_that_a_running_ring_cannot_follow() {
    for request in [request::SET_VRING_NUM, request::SET_VRING_BASE] {
        let (mut driver, served) = connect(Options::default());
        let _queue = driver.start_queue(1).unwrap();
        let refused = driver.request(request, &state(1, 64), &[]);
        assert!(matches!(refused, Err(DriverError::Refused { .. })));
        assert!(matches!(served.outcome(), Err(Error::RingIsRunning(_))));
    }
}

#[test]
fn rings_outside_of_memory_or_unaligned_do_not_start() {
    for (shift, expected) in [(1, "not aligned"), (1 << 40, "not in guest memory")] {
        let (mut driver, served) = connect(Options::default());
        let queue = driver.start_queue(1).unwrap();
        let base = driver.stop(1).unwrap();
        let addr = VringAddr {
            index: 1,
            flags: 0,
            descriptor: driver.memory_table().0[0].user_addr + shift,
            used: driver.memory_table().0[0].user_addr,
            available: driver.memory_table().0[0].user_addr,
            log: 0,
        };
        driver
            .request(request::SET_VRING_ADDR, &addr.to_bytes(), &[])
            .unwrap();
        driver
            .request(request::SET_VRING_BASE, &state(1, base.into()), &[])
            .unwrap();
        let fd = VringFd {
            index: 1,
            without_fd: true,
        };
        let refused = driver.request(request::SET_VRING_KICK, &fd.to_bytes(), &[]);
        assert!(refused.is_err());
        let error = served.outcome().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        drop(queue);
    }
}

#[test]
fn bytes_that_are_no_message() {
    let header = |flags, size| {
        let mut header = Header::new(request::GET_FEATURES, 0, 0);
        (header.flags, header.size) = (flags, size);
        header.to_bytes()
    };
    type Check = fn(&Error) -> bool;
    let cases: Vec<(Vec<u8>, Check)> = vec![
        (vec![1, 2, 3], |e| {
            matches!(e, Error::Channel(ChannelError::CutShort))
        }),
        (header(1, 5), |e| {
            matches!(e, Error::Channel(ChannelError::CutShort))
        }),
        (header(1, 4097), |e| {
            matches!(e, Error::Channel(ChannelError::TooLong { .. }))
        }),
        (header(1, u32::MAX), |e| {
            matches!(e, Error::Channel(ChannelError::TooLong { .. }))
        }),
        (header(0, 0), |e| matches!(e, Error::BadFlags { .. })),
        (header(2, 0), |e| matches!(e, Error::BadFlags { .. })),
        (header(5, 0), |e| matches!(e, Error::BadFlags { .. })),
    ];
    for (bytes, is_expected) in cases {
        let (stream, served) = serve();
        Channel::new(stream).send_bytes(&bytes, &[]).unwrap();
        let outcome = served.outcome();
        assert!(
            outcome.as_ref().is_err_and(is_expected),
            "{bytes:?}: {outcome:?}"
        );
    }
}

#[test]
fn more_descriptors_than_any_message_has() {
    let (stream, served) = serve();
    let fd = notifier().unwrap();
    let fds = vec![fd.as_fd(); MAX_FDS];
    let channel = Channel::new(stream);
    let header = Header::new(request::SET_OWNER, 0, 8).to_bytes();
    channel.send_bytes(&header, &fds).unwrap();
    channel.send_bytes(&[0; 8], &fds).unwrap();
    assert!(matches!(
        served.outcome(),
        Err(Error::Channel(ChannelError::TooManyFds))
    ));
}

#[test]
fn a_front_end_that_stalls_in_a_message_can_be_stopped() {
    let (stream, served) = serve();
    let channel = Channel::new(stream);
    channel.send_bytes(&[1, 0, 0], &[]).unwrap();
    served.stopper.stop();
    assert_eq!(served.outcome().unwrap(), Served::Stopped);
}

#[test]
fn a_front_end_that_reads_no_replies_can_be_stopped() {
    let (stream, served) = serve();
    let channel = Channel::new(stream).with_timeout(std::time::Duration::from_millis(300));
    let ask = Header::new(request::GET_FEATURES, 0, 0).to_bytes();
    while channel.send_bytes(&ask, &[]).is_ok() {}
    served.stopper.stop();
    assert_eq!(served.outcome().unwrap(), Served::Stopped);
}

#[test]
fn a_connection_that_says_nothing_ends_as_disconnected() {
    let (stream, served) = serve();
    served.wait_for(Event::Connected);
    drop(stream);
    served.wait_for(Event::Disconnected);
    assert_eq!(served.outcome().unwrap(), Served::Disconnected);
}
