//! Listening, reconnecting, stopping, and chains in flight across connections.

mod common;

use common::{Echo, Event, PARK, PATIENCE, connect, echo, wait_for};
use sluice_virtio::driver::{Driver, Options};
use sluice_virtio::queue::Chain;
use sluice_virtio::vhost_user::message::*;
use sluice_virtio::vhost_user::{Backend, Device, Error, Listener, Running, Served};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

struct Daemon {
    device: Arc<Echo>,
    events: Receiver<Event>,
    ends: Receiver<Result<Served, Error>>,
    running: Running,
}

fn daemon(listener: Listener) -> Daemon {
    let (device, events) = Echo::new(2);
    let (sender, ends) = channel();
    let backend = Backend::new(device.clone()).unwrap();
    let running = backend
        .spawn(listener, move |end| {
            let _ = sender.send(end);
            ControlFlow::Continue(())
        })
        .unwrap();
    Daemon {
        device,
        events,
        ends,
        running,
    }
}

fn exercise(path: &Path) {
    let mut driver = Driver::connect(path, Options::default()).unwrap();
    let mut queue = driver.start_queue(1).unwrap();
    for _ in 0..50 {
        assert_eq!(queue.roundtrip(&[b"hello"], &[8]).unwrap().written, 5);
    }
}

#[test]
fn front_ends_are_served_one_after_the_other_whatever_they_did() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let daemon = daemon(Listener::bind(&path).unwrap());
    for _ in 0..5 {
        exercise(&path);
        let end = daemon.ends.recv_timeout(PATIENCE).unwrap();
        assert_eq!(end.unwrap(), Served::Disconnected);
        // One that breaks the rules.
        let mut driver = Driver::connect(&path, Options::default()).unwrap();
        let mut queue = driver.start_queue(1).unwrap();
        queue.set_avail_idx(1000);
        queue.kick_anyway();
        let end = daemon.ends.recv_timeout(PATIENCE).unwrap();
        assert!(matches!(end, Err(Error::Ring { .. })));
    }
    daemon.running.stopper().stop();
    let end = daemon.ends.recv_timeout(PATIENCE).unwrap();
    assert_eq!(end.unwrap(), Served::Stopped);
    daemon.running.join();
    assert!(!path.exists());
}

/// Panics when its configuration space is read for the first time.
#[derive(Default)]
struct Fragile(AtomicBool);

impl Device for Fragile {
    fn config_space(&self) -> Cow<'_, [u8]> {
        assert!(self.0.swap(true, Ordering::Relaxed), "asked to");
        Cow::Borrowed(b"0123456789")
    }

    fn queues(&self) -> u16 {
        2
    }

    fn process(&self, _: u16, chain: Chain) {
        echo(chain);
    }
}

#[test]
fn a_panic_over_a_message_ends_the_connection_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let (sender, ends) = channel();
    let backend = Backend::new(Arc::new(Fragile::default())).unwrap();
    let listener = Listener::bind(&path).unwrap();
    let _running = backend
        .spawn(listener, move |end| {
            let _ = sender.send(end);
            ControlFlow::Continue(())
        })
        .unwrap();
    let mut driver = Driver::connect(&path, Options::default()).unwrap();
    let _queue = driver.start_queue(1).unwrap();
    driver.config(0, 4).unwrap_err();
    let end = ends.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(end, Err(Error::SessionPanicked)));
    exercise(&path);
}

#[test]
fn a_front_end_that_vanishes_leaves_nothing_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let daemon = daemon(Listener::bind(&path).unwrap());
    let mut driver = Driver::connect(&path, Options::default()).unwrap();
    let mut queue = driver.start_queue(1).unwrap();
    queue.submit(&[PARK], &[8]).unwrap();
    queue.kick();
    wait_for(&daemon.events, Event::Parked(1));
    drop(driver);
    wait_for(&daemon.events, Event::Disconnected);
    // Answered when the ring was stopped, before the connection was over.
    assert_eq!(queue.poll().unwrap().unwrap().written, 8);
    assert_eq!(daemon.device.release(), 0);
    exercise(&path);
}

#[test]
fn a_listening_descriptor_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let socket = UnixListener::bind(&path).unwrap();
    let daemon = daemon(Listener::from_fd(socket.into()).unwrap());
    exercise(&path);
    drop(daemon.running);
    assert!(path.exists(), "the path is the giver's");
}

#[test]
fn only_a_listening_unix_socket_is_taken_over() {
    let (connected, _peer) = UnixStream::pair().unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    for fd in [connected.into(), tcp.into(), file.into()] {
        let error = Listener::from_fd(fd).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_listener_removes_its_own_file_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let moved = dir.path().join("moved");
    let listener = Listener::bind(&path).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    drop(listener);
    assert!(path.exists(), "another listens there by now");
    drop(other);
}

#[test]
fn an_abandoned_socket_is_replaced_and_one_in_use_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = Listener::bind(&path).unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    drop(listener);

    std::fs::write(&path, "precious").unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_stop_ends_the_wait_for_a_front_end() {
    let dir = tempfile::tempdir().unwrap();
    let listener = Listener::bind(&dir.path().join("socket")).unwrap();
    let (device, _events) = Echo::new(1);
    let backend = Backend::new(device).unwrap();
    let stopper = backend.stopper();
    let waiting = std::thread::spawn(move || backend.serve_next(&listener));
    stopper.stop();
    assert_eq!(waiting.join().unwrap().unwrap(), Served::Stopped);
}

// Chains in flight across back-ends

fn inflight_options() -> Options {
    Options {
        protocol: ProtocolFeatures::all(),
        ..Options::default()
    }
}

fn get_inflight(driver: &Driver) -> (Inflight, std::os::fd::OwnedFd) {
    let wanted = Inflight {
        mmap_size: 0,
        mmap_offset: 0,
        num_queues: 2,
        queue_size: 128,
    };
    let reply = driver
        .exchange(request::GET_INFLIGHT_FD, &wanted.to_bytes(), &[])
        .unwrap();
    let shape = Inflight::from_bytes(&reply.payload).unwrap();
    let [fd] = <[_; 1]>::try_from(reply.fds).unwrap();
    (shape, fd)
}

fn set_inflight(driver: &Driver, shape: &Inflight, fd: BorrowedFd<'_>) {
    driver
        .request(request::SET_INFLIGHT_FD, &shape.to_bytes(), &[fd])
        .unwrap();
}

fn read_at(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    assert_eq!(rustix::io::pread(fd, &mut bytes, offset).unwrap(), len);
    bytes
}

#[test]
fn the_record_of_chains_in_flight_is_as_the_specification_has_it() {
    let (mut driver, served) = connect(inflight_options());
    let (shape, fd) = get_inflight(&driver);
    assert_eq!(shape.mmap_size, 2 * (16 + 128 * 16 + 48));
    set_inflight(&driver, &shape, fd.as_fd());
    let mut queue = driver.start_queue(1).unwrap();
    let record = shape.mmap_size / 2;
    let read = |offset, len| read_at(fd.as_fd(), record + offset, len);
    let u16_at = |offset| u16::from_ne_bytes(read(offset, 2).try_into().unwrap());

    // version, desc_num, last_batch_head, used_idx
    assert_eq!((u16_at(8), u16_at(10), u16_at(14)), (1, 128, 0));
    queue.roundtrip(&[b"x"], &[8]).unwrap();
    driver.stop(1).unwrap();
    assert_eq!(u16_at(14), 1);
    driver.start(&queue, 1).unwrap();

    queue.submit(&[PARK], &[8]).unwrap();
    queue.submit(&[PARK], &[8]).unwrap();
    queue.kick();
    served.wait_for(Event::Parked(1));
    served.wait_for(Event::Parked(1));
    let states: Vec<_> = (0..128)
        .map(|head| read(16 + head * 16, 16))
        .filter(|state| state[0] == 1)
        .map(|state| u64::from_ne_bytes(state[8..].try_into().unwrap()))
        .collect();
    assert_eq!(states.len(), 2);
    assert_eq!(states[0].abs_diff(states[1]), 1);
    served.device.release();
    while queue.in_flight() > 0 {
        queue.wait().unwrap();
    }
    driver.stop(1).unwrap();
    assert_eq!(u16_at(14), 3);
    assert!((0..128).all(|head| read(16 + head * 16, 1) == [0]));
}

/// A back-end that ends in the middle, and another that gets its memory and its record.
#[test]
fn another_back_end_takes_up_what_was_in_flight_and_repeats_nothing() {
    let (mut driver, served) = connect(inflight_options());
    let (shape, fd) = get_inflight(&driver);
    set_inflight(&driver, &shape, fd.as_fd());
    let mut queue = driver.start_queue(1).unwrap();
    for _ in 0..5 {
        queue.roundtrip(&[b"x"], &[8]).unwrap();
    }
    let first = queue.submit(&[PARK, b"1"], &[8]).unwrap();
    queue.kick();
    served.wait_for(Event::Parked(1));
    let second = queue.submit(&[PARK, b"2"], &[8]).unwrap();
    queue.kick();
    served.wait_for(Event::Parked(1));
    // Answered out of order, while the first one is still there.
    let done = queue.roundtrip(&[b"y"], &[8]).unwrap();
    assert_eq!(queue.reply(&done), b"y");
    // Not kicked, so the first back-end never sees it; and what it does with the parked
    // ones when its connection ends comes after this test.
    let new = queue.submit(&[b"new"], &[8]).unwrap();

    let (stream, heir_served) = common::serve();
    let mut heir = Driver::unshared(stream, inflight_options()).unwrap();
    heir.negotiate().unwrap();
    let payload = driver.memory_table().to_bytes();
    let memory = [driver.memory_file()];
    heir.request(request::SET_MEM_TABLE, &payload, &memory)
        .unwrap();
    set_inflight(&heir, &shape, fd.as_fd());
    // Whatever base the front-end believes in, the record knows better.
    heir.start(&queue, 0).unwrap();
    heir_served.wait_for(Event::Parked(1));
    heir_served.wait_for(Event::Parked(1));
    assert_eq!(heir_served.device.release(), 2);
    let replies: Vec<_> = (0..3)
        .map(|_| {
            let done = queue.wait().unwrap();
            (done.token, queue.reply(&done))
        })
        .collect();
    let of = |token| replies.iter().find(|(t, _)| *t == token).unwrap();
    assert_eq!(of(first).1, b"park1");
    assert_eq!(of(second).1, b"park2");
    assert_eq!(of(new).1, b"new");
    // The oldest was taken up first.
    let place = |token| replies.iter().position(|(t, _)| *t == token);
    assert!(place(first) < place(second));
    assert!(queue.poll().unwrap().is_none());
    assert_eq!(heir.stop(1).unwrap(), 9);
}

#[test]
fn a_record_for_other_rings_is_refused() {
    let (mut driver, served) = connect(inflight_options());
    let (mut shape, fd) = get_inflight(&driver);
    shape.queue_size = 64;
    set_inflight(&driver, &shape, fd.as_fd());
    assert!(driver.start_queue(1).is_err());
    assert!(matches!(served.outcome(), Err(Error::BadInflightArea)));

    let (mut driver, served) = connect(inflight_options());
    let (shape, fd) = get_inflight(&driver);
    let record = shape.mmap_size / 2;
    rustix::io::pwrite(&fd, &7u16.to_ne_bytes(), record + 8).unwrap();
    set_inflight(&driver, &shape, fd.as_fd());
    assert!(driver.start_queue(1).is_err());
    assert!(matches!(
        served.outcome(),
        Err(Error::Inflight { index: 1, .. })
    ));
}

#[test]
fn streams_from_elsewhere_are_served_as_well() {
    let (device, _events) = Echo::new(2);
    let backend = Backend::new(device).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let served = std::thread::spawn(move || backend.serve(theirs));
    let mut driver = Driver::new(ours, Options::default()).unwrap();
    let mut queue = driver.start_queue(1).unwrap();
    assert_eq!(queue.roundtrip(&[b"x"], &[8]).unwrap().written, 1);
    drop(driver);
    assert_eq!(served.join().unwrap().unwrap(), Served::Disconnected);
}
