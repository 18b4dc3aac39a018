//! Guest memory that is taken away while it is in use.
#![allow(unsafe_code)]

mod common;

use common::{Event, PARK, connect, serve};
use sluice_virtio::driver::{Driver, Options};
use sluice_virtio::memory::{GuestMemory, Region, RegionSpec};
use sluice_virtio::queue::RingError;
use sluice_virtio::vhost_user::{Error, Served};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;

fn memfd(bytes: u64) -> std::os::fd::OwnedFd {
    let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, bytes).unwrap();
    fd
}

fn spec(guest_addr: u64, size: u64) -> RegionSpec {
    RegionSpec {
        guest_addr,
        user_addr: guest_addr,
        size,
        file_offset: 0,
    }
}

#[test]
fn reading_a_lost_page_gives_zeros_and_marks_the_region() {
    let fd = memfd(0x4000);
    let region = Region::map(spec(0x1000, 0x4000), fd.as_fd()).unwrap();
    let memory = GuestMemory::default().with(region).unwrap();
    memory.write(0x2ffe, b"data").unwrap();
    rustix::fs::ftruncate(&fd, 0x2000).unwrap();
    assert!(!memory.is_poisoned());
    let mut bytes = [1; 4];
    memory.read(0x2ffe, &mut bytes).unwrap();
    assert_eq!(&bytes, b"da\0\0");
    assert!(memory.is_poisoned());
    // Another region, even one mapped later where that one was, is not concerned.
    drop(memory);
    let fd = memfd(0x4000);
    let region = Region::map(spec(0x1000, 0x4000), fd.as_fd()).unwrap();
    assert!(!region.is_poisoned());
}

#[test]
fn a_guest_that_shrinks_its_memory_loses_its_connection_only() {
    let (mut other_driver, other_served) = connect(Options::default());
    let mut other_queue = other_driver.start_queue(1).unwrap();

    let (mut driver, served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    queue.roundtrip(&[b"x"], &[8]).unwrap();
    rustix::fs::ftruncate(driver.memory_file(), 0).unwrap();
    queue.kick_anyway();
    match served.outcome() {
        Err(Error::Ring { index: 1, error }) => assert_eq!(error, RingError::MemoryLost),
        other => panic!("{other:?}"),
    }

    assert_eq!(other_queue.roundtrip(&[b"x"], &[8]).unwrap().written, 1);
    drop(other_driver);
    assert_eq!(other_served.outcome().unwrap(), Served::Disconnected);
}

#[test]
fn buffers_that_are_gone_under_a_parked_chain_close_the_connection() {
    let (stream, served) = serve();
    let options = Options {
        slots: 1,
        ..Options::default()
    };
    let mut driver = Driver::new(stream, options).unwrap();
    let mut queue = driver.start_queue(1).unwrap();
    queue.submit(&[PARK], &[0x10_0000]).unwrap();
    queue.kick();
    served.wait_for(Event::Parked(1));
    // The ring lies before the buffers.
    let kept = queue.slot(0).0 - driver.memory_table().0[0].guest_addr;
    rustix::fs::ftruncate(driver.memory_file(), kept).unwrap();
    served.device.release();
    queue.kick_anyway();
    match served.outcome() {
        Err(Error::Ring { index: 1, error }) => assert_eq!(error, RingError::MemoryLost),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_region_must_lie_within_its_file() {
    let fd = memfd(0x4000);
    for (size, file_offset) in [(0x4001, 0), (0x4000, 1), (1, 0x4000), (1, u64::MAX)] {
        let spec = RegionSpec {
            file_offset,
            ..spec(0, size)
        };
        assert!(Region::map(spec, fd.as_fd()).is_err(), "{spec:x?}");
    }
    let tail = RegionSpec {
        file_offset: 0x3fff,
        ..spec(0, 1)
    };
    assert!(Region::map(tail, fd.as_fd()).is_ok());
}

/// The child part of the test below: touches lost memory that nobody watches.
fn die_of_sigbus() {
    let watched = memfd(0x1000);
    let region = Region::map(spec(0, 0x1000), watched.as_fd()).unwrap();
    let fd = memfd(0x1000);
    // SAFETY: a fresh mapping, read while it exists; the read is meant to fault.
    unsafe {
        let start = rustix::mm::mmap(
            std::ptr::null_mut(),
            0x1000,
            rustix::mm::ProtFlags::READ,
            rustix::mm::MapFlags::SHARED,
            &fd,
            0,
        )
        .unwrap();
        rustix::fs::ftruncate(&fd, 0).unwrap();
        start.cast::<u8>().read_volatile();
    }
    drop(region);
}

#[test]
fn a_sigbus_elsewhere_still_ends_the_process() {
    const CHILD: &str = "SLUICE_TEST_DIE_OF_SIGBUS";
    if std::env::var_os(CHILD).is_some() {
        die_of_sigbus();
        return;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_sigbus_elsewhere_still_ends_the_process"])
        .env(CHILD, "1")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(libc::SIGBUS));
}
