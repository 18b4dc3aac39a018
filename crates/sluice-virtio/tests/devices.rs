//! Devices of other kinds than an echo.

mod common;

use sluice_virtio::driver::{Driver, Options, WaitMode};
use sluice_virtio::queue::Chain;
use sluice_virtio::queue::layout::{F_EVENT_IDX, F_INDIRECT_DESC};
use sluice_virtio::vhost_user::{Backend, Device, Served};
use std::borrow::Cow;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;

fn serve(device: Arc<dyn Device>, options: Options) -> (Driver, JoinHandle<Served>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let backend = Backend::new(device).unwrap();
    let served = std::thread::spawn(move || backend.serve(theirs).unwrap());
    (Driver::new(ours, options).unwrap(), served)
}

/// Reads and writes a file as a file system would: `r` and `w`, then the offset, then
/// data; the reply is a header with a length, then data.
struct Disk(File);

const HEADER_BYTES: usize = 8;

impl Device for Disk {
    fn config_space(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }

    fn queues(&self) -> u16 {
        1
    }

    fn process(&self, _queue: u16, chain: Chain) {
        let mut request = [0; 9];
        let mut reader = chain.reader();
        reader.read_exact(&mut request).unwrap();
        let offset = u64::from_le_bytes(request[1..].try_into().unwrap());
        let (header, mut room) = chain.writer().split_at(HEADER_BYTES).unwrap();
        let fd = self.0.as_fd();
        let moved = match request[0] {
            b'r' => room.read_from_fd(fd, offset, usize::MAX),
            _ => reader.write_to_fd(fd, offset, usize::MAX, 0),
        };
        let (count, errno) = match moved {
            Ok(count) => (count, 0),
            Err(error) => (0, error.raw_os_error().unwrap()),
        };
        header.write_at(0, &(count as u32).to_le_bytes()).unwrap();
        header.write_at(4, &errno.to_le_bytes()).unwrap();
        assert!(header.write_at(5, &[0; 4]).is_err());
        let data = if request[0] == b'r' { count } else { 0 };
        chain.complete(HEADER_BYTES + data);
    }
}

#[test]
fn data_goes_between_a_file_and_guest_memory() {
    for features in [F_EVENT_IDX, F_EVENT_IDX | F_INDIRECT_DESC] {
        let options = Options {
            features,
            queue_size: 512,
            regions: 16,
            ..Options::default()
        };
        let disk = Arc::new(Disk(tempfile::tempfile().unwrap()));
        let (mut driver, _served) = serve(disk, options);
        let mut queue = driver.start_queue(0).unwrap();
        let data: Vec<u8> = (0..1_000_000u32).map(|i| (i / 7) as u8).collect();
        let mut parts: Vec<&[u8]> = vec![b"w", &[5, 0, 0, 0, 0, 0, 0, 0]];
        parts.extend(data.chunks(4096));
        let done = queue.roundtrip(&parts, &[3, 5]).unwrap();
        let mut header = 1_000_000u32.to_le_bytes().to_vec();
        header.extend([0; 4]);
        assert_eq!(queue.reply(&done), header);

        let pages = vec![4096; 250];
        let mut room = vec![8];
        room.extend(&pages);
        let done = queue
            .roundtrip(&[b"r", &[5, 0, 0, 0, 0, 0, 0, 0]], &room)
            .unwrap();
        let reply = queue.reply(&done);
        assert_eq!(reply[..8], header);
        assert!(reply[8..] == data);

        // Beyond the end there is nothing, and beyond all ends an error.
        let done = queue
            .roundtrip(&[b"r", &[0, 0, 0, 0, 1, 0, 0, 0]], &[8, 100])
            .unwrap();
        assert_eq!(queue.reply(&done), [0; 8]);
        let done = queue.roundtrip(&[b"r", &[255; 8]], &[8, 100]).unwrap();
        assert_eq!(queue.reply(&done), [0, 0, 0, 0, 22, 0, 0, 0]);
    }
}

/// Hands every chain to a pool of threads.
struct Pool(Mutex<Option<Sender<Chain>>>);

impl Pool {
    fn new(threads: usize) -> Arc<Self> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..threads {
            let receiver = receiver.clone();
            std::thread::spawn(move || work(&receiver));
        }
        Arc::new(Pool(Mutex::new(Some(sender))))
    }
}

fn work(receiver: &Mutex<Receiver<Chain>>) {
    loop {
        let next = receiver.lock().unwrap().recv();
        match next {
            Ok(chain) => common::echo(chain),
            Err(_) => return,
        }
    }
}

impl Device for Pool {
    fn config_space(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }

    fn queues(&self) -> u16 {
        1
    }

    fn process(&self, _queue: u16, chain: Chain) {
        assert_eq!(chain.queue_size(), 128);
        if let Some(pool) = &*self.0.lock().unwrap() {
            pool.send(chain).unwrap();
        }
    }
}

#[test]
fn completions_of_many_threads_are_all_signalled() {
    for features in [0, F_EVENT_IDX, F_EVENT_IDX | F_INDIRECT_DESC] {
        let options = Options {
            features,
            wait_mode: WaitMode::Event,
            ..Options::default()
        };
        let (mut driver, served) = serve(Pool::new(3), options);
        let mut queue = driver.start_queue(0).unwrap();
        let mut left = 3000u32;
        while left > 0 || queue.in_flight() > 0 {
            while left > 0 && queue.in_flight() < (left as usize % 16) + 1 {
                queue.submit(&[&left.to_le_bytes()], &[4]).unwrap();
                queue.kick();
                left -= 1;
            }
            assert_eq!(queue.wait().unwrap().written, 4);
        }
        // A stop waits for what the pool still has.
        for _ in 0..16 {
            queue.submit(&[b"last"], &[4]).unwrap();
        }
        queue.kick();
        queue.wait().unwrap();
        let base = driver.stop(0).unwrap();
        let mut answered = 1;
        while queue.poll().unwrap().is_some() {
            answered += 1;
        }
        assert_eq!(3000 + answered, u32::from(base));
        drop(driver);
        assert_eq!(served.join().unwrap(), Served::Disconnected);
    }
}

/// Answers requests only when as many of them as there are slots meet: each one
/// blocks its thread until the last one comes.
struct Meeting(Barrier);

impl Device for Meeting {
    fn config_space(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }

    fn queues(&self) -> u16 {
        1
    }

    fn process(&self, _queue: u16, chain: Chain) {
        let mut byte = [0];
        chain.reader().read_exact(&mut byte).unwrap();
        if byte == *b"m" {
            self.0.wait();
        }
        common::echo(chain);
    }
}

#[test]
fn requests_that_block_hold_up_nothing_behind_them() {
    for features in [0, F_EVENT_IDX | F_INDIRECT_DESC] {
        let options = Options {
            features,
            wait_mode: WaitMode::Event,
            ..Options::default()
        };
        let blocked = 4;
        let (mut driver, served) = serve(Arc::new(Meeting(Barrier::new(blocked))), options);
        let mut queue = driver.start_queue(0).unwrap();
        for _ in 0..3 {
            // All but one of those that meet; others come back meanwhile.
            for _ in 1..blocked {
                queue.submit(&[b"m"], &[1]).unwrap();
                queue.kick();
                for _ in 0..20 {
                    let done = queue.roundtrip(&[b"x"], &[1]).unwrap();
                    assert_eq!(queue.reply(&done), b"x");
                }
            }
            assert_eq!(queue.in_flight(), blocked - 1);
            queue.submit(&[b"m"], &[1]).unwrap();
            queue.kick();
            for _ in 0..blocked {
                let done = queue.wait().unwrap();
                assert_eq!(queue.reply(&done), b"m");
            }
        }
        drop(driver);
        assert_eq!(served.join().unwrap(), Served::Disconnected);
    }
}
