//! `serve` behind virtio-9p rings that a driver in this process fills: what a guest
//! does, and what a broken or hostile one does.

#[path = "../common/mod.rs"]
mod common;

mod guest;
mod options;

use guest::*;
use sluice_lab::faults::{FaultyService, Plan};
use sluice_proto::p9::wire::*;
use sluice_vfs::{Errno, LockKind, LockRange};
use sluice_virtio::vhost_user::message::request;
use sluicefs::serve::copied_bytes;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Held for writing by who counts what the whole process copies.
static COPIES: RwLock<()> = RwLock::new(());

#[test]
fn the_configuration_names_the_tag() {
    let _others = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    let share = share();
    let guest = Guest::connect(&share.socket, Dialect::Linux);
    let config = guest.driver.config(0, 6).unwrap().unwrap();
    assert_eq!(config, b"\x04\0test");
    assert_eq!(guest.driver.offered_features() & 1, 1);
}

#[test]
fn content_moves_between_files_and_the_ring_without_a_copy() {
    let _alone = COPIES.write().unwrap_or_else(PoisonError::into_inner);
    let share = share();
    let mut guest = Guest::mounted(&share.socket, Dialect::Linux);
    let data: Vec<u8> = (0..400_000_u32).map(|i| (i % 251) as u8).collect();
    guest.create(1, "f");
    let before = copied_bytes();
    guest.write(1, 7, &data).unwrap();
    assert_eq!(guest.read(1, 7, 400_000).unwrap(), data);
    assert_eq!(guest.read(1, 400_000, 4096).unwrap(), data[399_993..]);
    assert_eq!(guest.read(1, 1 << 40, 4096).unwrap(), b"");
    assert_eq!(copied_bytes() - before, 0);
    assert_eq!(&fs::read(share.root.join("f")).unwrap()[7..], data);
    // Names are copied, and counted.
    guest.walk(0, 2, &[]).unwrap();
    let (fid, flags) = (2, LopenFlags::DIRECTORY);
    guest.ask(1, &Request::Lopen { fid, flags }).unwrap();
    let (offset, count) = (0, 8192);
    let list = Request::Readdir { fid, offset, count };
    let listed = guest.ask_with(1, &list, &[], &[11, 8192]).unwrap();
    let names: Vec<_> = Dirents(split(&listed).1)
        .map(|entry| entry.unwrap().name.0.to_vec())
        .collect();
    assert!(names.contains(&b"f".to_vec()), "{names:?}");
    assert!(copied_bytes() > before);
}

#[test]
fn nothing_of_a_read_that_failed_stays_behind() {
    let _others = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    let plan = Arc::new(Plan::default());
    let layer = Arc::clone(&plan);
    let share = share_through(|inner| Arc::new(FaultyService::new(inner, layer)));
    fs::write(share.root.join("f"), [0x5a; 4096]).unwrap();
    for dialect in [Dialect::Linux, Dialect::Unix] {
        let mut guest = Guest::mounted(&share.socket, dialect);
        guest.walk(0, 1, &[b"f"]).unwrap();
        match dialect {
            Dialect::Linux => {
                let (fid, flags) = (1, LopenFlags::empty());
                guest.ask(1, &Request::Lopen { fid, flags }).unwrap();
            }
            _ => {
                let (fid, mode) = (1, OpenMode::empty());
                guest.ask(1, &Request::Open { fid, mode }).unwrap();
            }
        }
        plan.lose_reads(true);
        let (fid, offset, count) = (1, 0, 4096);
        let message = encoded(1, &Request::Read { fid, offset, count }, dialect);
        let answer = guest.exchange(&[&message], &[11, 4096]).unwrap();
        // The words of an error reach into the buffer for the data.
        assert_eq!(guest.error(&answer.message, 1), Err(Errno::EIO));
        let mut room = [0xff; 4107];
        assert_eq!(
            guest.queue.read_reply(&answer.completion, 0, &mut room),
            4107
        );
        assert_eq!(room[..answer.message.len()], answer.message);
        assert_eq!(room.iter().filter(|byte| **byte == 0x5a).count(), 0);
        plan.lose_reads(false);
        assert_eq!(guest.read(1, 0, 4096).unwrap(), [0x5a; 4096]);
    }
}

#[test]
fn what_makes_no_sense_is_answered_in_its_own_chain() {
    let _others = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    let share = share();
    let mut guest = Guest::connect(&share.socket, Dialect::Linux);
    // Nothing was agreed on yet: the error is Plan 9's.
    let early = guest
        .exchange(&[&raw(120, 9, 11, &[0; 4])], &[8192])
        .unwrap();
    assert_eq!(
        Header::peek(&early.message).map(|it| (it.kind, it.tag)),
        Ok((107, 9))
    );
    guest.mount();
    let clunk = [0, 0, 0, 9];
    for (message, expected) in [
        (raw(120, 2, 10, &clunk), Errno::EINVAL),
        (raw(120, 2, 12, &clunk), Errno::EINVAL),
        (raw(120, 2, 0, &clunk), Errno::EINVAL),
        (raw(120, 2, 7, &clunk), Errno::EINVAL),
        (raw(120, 2, u32::MAX, &clunk), Errno::EINVAL),
        (
            raw(120, 2, MSIZE + 1, &[0; MSIZE as usize - 6]),
            Errno::EINVAL,
        ),
        (raw(110, 2, 20_000, &[0; 19_993]), Errno::EINVAL),
        (raw(110, 2, 7, b""), Errno::EINVAL),
        (raw(110, 2, 17, b"\0\0\0\0\x01\0\0\0\x11\0"), Errno::EINVAL),
        // More data than there is, and less.
        (
            raw(
                118,
                2,
                26,
                &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3],
            ),
            Errno::EINVAL,
        ),
        (
            raw(
                118,
                2,
                26,
                &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3],
            ),
            Errno::EINVAL,
        ),
        (raw(255, 2, 11, &clunk), Errno::EOPNOTSUPP),
        (raw(121, 2, 11, &clunk), Errno::EOPNOTSUPP),
        (raw(120, NOTAG, 11, &clunk), Errno::EINVAL),
    ] {
        let tag = Header::peek(&message).unwrap().tag;
        let answer = guest.exchange(&[&message], &[8192]).unwrap();
        let shown = &message[..message.len().min(20)];
        assert_eq!(
            guest.error(&answer.message, tag),
            Err(expected),
            "{shown:?}"
        );
    }
    guest.root_is_there();
}

#[test]
fn replies_fit_their_buffers_or_are_errors_or_nothing() {
    let _others = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    let share = share();
    fs::write(share.root.join("f"), [0x5a; 4096]).unwrap();
    let mut guest = Guest::mounted(&share.socket, Dialect::Linux);
    let (fid, mask) = (0, GetattrMask::BASIC);
    let getattr = encoded(2, &Request::Getattr { fid, mask }, Dialect::Linux);
    for room in [0, 1, 6, 7, 10] {
        let writable: &[u32] = if room == 0 { &[] } else { &[room] };
        let answer = guest.exchange(&[&getattr], writable).unwrap();
        assert_eq!(answer.message, b"", "{room}");
    }
    for room in [11, 100, 159] {
        let answer = guest.exchange(&[&getattr], &[room]).unwrap();
        let error = guest.error(&answer.message, 2);
        assert_eq!(error, Err(Errno::EMSGSIZE), "{room}");
    }
    let answer = guest.exchange(&[&getattr], &[3, 1, 156]).unwrap();
    assert_eq!(guest.error(&answer.message, 2), Ok(()));
    // A read takes what there is room for.
    guest.walk(0, 1, &[b"f"]).unwrap();
    let (fid, flags) = (1, LopenFlags::empty());
    guest.ask(1, &Request::Lopen { fid, flags }).unwrap();
    for (writable, len) in [
        (&[11][..], 0),
        (&[11, 5], 5),
        (&[5, 5, 5], 4),
        (&[1 << 20], 4096),
    ] {
        let (offset, count) = (0, u32::MAX);
        let read = Request::Read { fid, offset, count };
        let reply = guest.ask_with(1, &read, &[], writable).unwrap();
        assert_eq!(split(&reply).1, vec![0x5a; len], "{writable:?}");
    }
}

#[test]
fn a_message_without_a_header_ends_its_connection_alone() {
    let _others = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    let share = share();
    for message in [&b""[..], b"\x07", b"\x07\0\0\0\x64\0"] {
        let mut guest = Guest::mounted(&share.socket, Dialect::Linux);
        let readable: &[&[u8]] = if message.is_empty() { &[] } else { &[message] };
        let sent = guest.queue.submit(readable, &[8192]).unwrap();
        guest.queue.kick();
        let completion = guest.queue.wait().unwrap();
        assert_eq!(completion.token, sent);
        assert_eq!(guest.queue.reply(&completion), b"");
        // Nothing else is heard soon after.
        let limit = Instant::now() + Duration::from_secs(60);
        while guest.driver.get_u64(request::GET_FEATURES).is_ok() {
            assert!(Instant::now() < limit, "{message:?}");
        }
    }
    Guest::mounted(&share.socket, Dialect::Linux).root_is_there();
}

fn lock(fid: u32, waits: bool) -> Request<'static> {
    let args = LockArgs {
        kind: LockArgs::WRITE,
        flags: match waits {
            true => LockFlags::BLOCK,
            false => LockFlags::empty(),
        },
        start: 0,
        length: 0,
        proc_id: 7,
        client_id: Str(b"guest"),
    };
    Request::Lock { fid, args }
}

/// A guest with the file `lock` open as fid 1, which a host process has locked, and a
/// request with tag 5 that waits for it.
fn waiting(share: &Share) -> (Guest, fs::File) {
    let mut guest = Guest::mounted(&share.socket, Dialect::Linux);
    guest.create(1, "lock");
    let file = fs::File::options()
        .write(true)
        .open(share.root.join("lock"));
    let on_host = file.unwrap();
    assert!(ofd_lock(&on_host));
    let message = encoded(5, &lock(1, true), Dialect::Linux);
    guest.queue.submit(&[&message], &[8192]).unwrap();
    guest.queue.kick();
    // Messages are taken from the ring in their order.
    guest.root_is_there();
    (guest, on_host)
}

/// Whether a lock of all of it is had.
fn ofd_lock(file: &fs::File) -> bool {
    sluice_sys::lock::ofd_lock(file.as_fd(), LockKind::Write, LockRange::ALL, false).is_ok()
}

#[test]
fn a_ring_stops_although_a_lock_waits_on_it_and_starts_again() {
    let _others = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    let share = share();
    let (mut guest, on_host) = waiting(&share);
    let base = guest.driver.stop(0).unwrap();
    let completion = guest.queue.wait().unwrap();
    let reply = guest.queue.reply(&completion);
    assert_eq!(guest.error(&reply, 5), Err(Errno::EINTR));
    guest.driver.start(&guest.queue, base).unwrap();
    guest.root_is_there();
    drop(on_host);
    // Nobody else has it, and a guest that boots again has forgotten everything.
    guest.ask(1, &lock(1, true)).unwrap();
    guest.mount();
    assert!(guest.walk(1, 2, &[]).is_err(), "fids are gone");
}

#[test]
fn a_tag_under_way_is_not_taken_twice_and_a_flush_ends_the_wait() {
    let _others = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    let share = share();
    let (mut guest, _on_host) = waiting(&share);
    let (fid, mask) = (0, GetattrMask::BASIC);
    let twice = encoded(5, &Request::Getattr { fid, mask }, Dialect::Linux);
    guest.queue.submit(&[&twice], &[8192]).unwrap();
    guest.queue.kick();
    let refused = guest.queue.wait().unwrap();
    let reply = guest.queue.reply(&refused);
    assert_eq!(guest.error(&reply, 5), Err(Errno::EINVAL));
    let flush = encoded(6, &Request::Flush { oldtag: 5 }, Dialect::Linux);
    let flush = guest.queue.submit(&[&flush], &[8192]).unwrap();
    guest.queue.kick();
    // The chain of what was flushed comes back empty, and before the answer.
    let flushed = guest.queue.wait().unwrap();
    assert_eq!(guest.queue.reply(&flushed), b"");
    let answered = guest.queue.wait().unwrap();
    assert_eq!(answered.token, flush);
    guest.root_is_there();
}

#[test]
fn requests_that_depend_on_each_other_are_done_in_their_order() {
    let _others = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    let share = share();
    fs::write(share.root.join("f"), [0x5a; 100]).unwrap();
    let mut guest = Guest::mounted(&share.socket, Dialect::Linux);
    for round in 0..200_u32 {
        let fid = 10 + round;
        let mut room = [0; 64];
        let names = Names::new(&[&b"f"[..]], &mut room).unwrap();
        let (flags, offset, count) = (LopenFlags::empty(), 0, 100);
        let chain = [
            Request::Walk {
                fid: 0,
                newfid: fid,
                names,
            },
            Request::Lopen { fid, flags },
            Request::Read { fid, offset, count },
            Request::Clunk { fid },
        ];
        for (tag, request) in (1..).zip(&chain) {
            let message = encoded(tag, request, Dialect::Linux);
            guest.queue.submit(&[&message], &[8192]).unwrap();
        }
        guest.queue.kick();
        for _ in &chain {
            let completion = guest.queue.wait().unwrap();
            let reply = guest.queue.reply(&completion);
            let tag = Header::peek(&reply).unwrap().tag;
            assert_eq!(guest.error(&reply, tag), Ok(()), "tag {tag}, round {round}");
        }
    }
}

/// What the fuzz target's corpus has, on a ring: every chain comes back, and the next
/// connection is served.
#[test]
fn the_corpus_of_sessions_is_harmless_on_a_ring() {
    let _others = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    let share = share();
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../sluice-proto/corpus/p9_session"
    );
    let mut count = 0;
    for file in Path::new(folder).read_dir().unwrap() {
        let data = fs::read(file.unwrap().path()).unwrap();
        let (dialect, messages) = sluice_proto::p9::fuzz::messages(&data);
        let mut guest = Guest::mounted(&share.socket, dialect);
        // What has no header ends a connection, which another test is about.
        let messages = messages.filter(|message| message.len() >= HEADER_LEN);
        for message in messages.take(100) {
            guest.queue.submit(&[&message], &[11, 8192]).unwrap();
        }
        // Nothing waits longer than this but for a lock, and not when the ring stops.
        let oldtag = NOTAG - 1;
        let flush = encoded(oldtag, &Request::Flush { oldtag }, dialect);
        let last = guest.queue.submit(&[&flush], &[8192]).unwrap();
        guest.queue.kick();
        while guest.queue.wait().unwrap().token != last {}
        guest.driver.stop(0).unwrap();
        while guest.queue.in_flight() > 0 {
            guest.queue.wait().unwrap();
        }
        count += 1;
    }
    assert!(count >= 20);
    Guest::mounted(&share.socket, Dialect::Linux).root_is_there();
}
