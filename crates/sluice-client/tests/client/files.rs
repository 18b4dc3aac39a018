//! Content.

use crate::server::{Script, client, only, options, over, receive};
use sluice_client::{
    ConnectOptions, Dialect, Errno, Error, Lock, LockKind, LockRange, LockStyle, OpenFlags, SetAttr,
};
use sluice_proto::p9::wire::{Header, Payload, Reply};
use std::io::{BufRead, IoSlice, IoSliceMut, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const BOTH: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);

/// Bytes that differ from place to place.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}

#[test]
fn what_is_written_is_read_in_every_dialect() {
    for dialect in Dialect::ALL {
        for msize in [4096, 65_536] {
            let client = client(&ConnectOptions {
                msize,
                ..only(dialect)
            });
            assert_eq!((client.dialect(), client.msize()), (dialect, msize));
            let data = pattern(50_001);
            let file = client.create("f", BOTH, 0o644).unwrap();
            assert_eq!(file.write_at(&data, 7), Ok(data.len()));
            let mut back = vec![0xff; data.len() + 20];
            assert_eq!(file.read_at(&mut back, 0), Ok(data.len() + 7));
            assert_eq!(back[..7], [0; 7]);
            assert_eq!(back[7..data.len() + 7], data);
            assert_eq!(file.read_at(&mut back, 1 << 20), Ok(0));
            assert_eq!(file.metadata().unwrap().size, data.len() as u64 + 7);
            file.close().unwrap();
        }
    }
}

#[test]
fn segments_of_any_length_go_in_as_few_messages_as_one_buffer() {
    let client = client(&ConnectOptions {
        msize: 16_384,
        ..options()
    });
    let data = pattern(40_000);
    let file = client.create("f", BOTH, 0o644).unwrap();
    let (first, rest) = data.split_at(1);
    let (second, rest) = rest.split_at(20_000);
    let before = client.counts().sent;
    let slices = [first, second, b"", rest].map(IoSlice::new);
    assert_eq!(file.write_vectored_at(&slices, 0), Ok(40_000));
    assert_eq!(client.counts().sent - before, 3);

    let (mut one, mut two, mut three) = ([0; 10_001], [0; 3], [0; 30_000]);
    let before = client.counts();
    let mut slices = [&mut one[..], &mut two[..], &mut three[..]].map(IoSliceMut::new);
    assert_eq!(file.read_vectored_at(&mut slices, 0), Ok(40_000));
    let after = client.counts();
    assert_eq!(after.sent - before.sent, 3);
    assert_eq!(after.copied - before.copied, 0, "copied on the way");
    assert_eq!([&one[..], &two, &three[..40_000 - 10_004]].concat(), data);
}

#[test]
fn small_payloads_are_copied_and_large_ones_are_not() {
    let usual = ConnectOptions::default().zero_copy_from;
    for zero_copy_from in [1, usual, usize::MAX] {
        let client = client(&ConnectOptions {
            zero_copy_from,
            ..options()
        });
        let file = client.create("f", BOTH, 0o644).unwrap();
        file.write_all_at(&pattern(100_000), 0).unwrap();
        for len in [1, 100, usual - 1, usual, 50_000] {
            let before = client.counts().copied;
            let mut buf = vec![0; len];
            assert_eq!(file.read_at(&mut buf, 7), Ok(len));
            assert!(buf == pattern(100_000)[7..7 + len], "other data");
            let copied = client.counts().copied - before;
            let expected = if len < zero_copy_from { len } else { 0 };
            assert_eq!(copied, expected as u64, "{len} of {zero_copy_from}");
        }
    }
}

#[test]
fn streams_carry_records_of_any_size_in_long_messages() {
    for dialect in Dialect::ALL {
        let client = client(&ConnectOptions {
            msize: 8192 + 24,
            window: 4,
            ..only(dialect)
        });
        let data = pattern(8192 * 20 + 77);
        let file = client.create("f", BOTH, 0o644).unwrap();
        let before = client.counts().sent;
        let mut writer = file.writer(0);
        for (index, piece) in data.chunks(3001).enumerate() {
            writer.write_all(piece).unwrap();
            if index == 20 {
                writer.write_all(b"").unwrap();
            }
        }
        writer.finish().unwrap();
        assert_eq!(client.counts().sent - before, 21);

        let before = client.counts();
        let (mut back, mut reader) = (Vec::new(), file.reader(0));
        reader.read_to_end(&mut back).unwrap();
        assert!(back == data, "other data");
        // A window that finds the end, and one message that makes sure.
        let messages = client.counts().sent - before.sent;
        assert!((22..=22 + 8).contains(&messages), "{messages}");
        assert_eq!(client.counts().copied, before.copied);

        let mut reader = file.reader(8192 * 20 + 70);
        assert_eq!(reader.fill_buf().unwrap().len(), 7);
        reader.consume(7);
        assert_eq!(reader.fill_buf().unwrap().len(), 0);
    }
}

/// The tag of the Tread that comes next, and the part of the file that it asks for.
fn next_read(server: &mut Script) -> (u16, u64) {
    let message = receive(&mut server.stream).expect("a Tread");
    let offset = message[11..19].try_into().unwrap();
    let tag = Header::peek(&message).unwrap().tag;
    (tag, u64::from_le_bytes(offset) / PART as u64)
}

fn answer_read(server: &mut Script, (tag, part): (u16, u64)) {
    let data = Payload { len: PART };
    let bytes = [part as u8; PART];
    server.reply(tag, &Reply::Read { data }, Dialect::Linux, &bytes);
}

const PART: usize = 8192;

#[test]
fn a_stream_that_fails_goes_on_where_it_failed() {
    let options = ConnectOptions {
        msize: PART as u32 + 24,
        window: 2,
        ..options()
    };
    let client = Script::client(&options, |server| {
        server.let_open();
        let first = next_read(server);
        answer_read(server, first);
        let [(tag, _), behind] = [next_read(server), next_read(server)];
        server.refuse(tag, Errno::EINTR);
        answer_read(server, behind);
        let again = next_read(server);
        answer_read(server, again);
        server.ignore_all();
    });
    let file = client.open("f", OpenFlags::READ).unwrap();
    let mut reader = file.reader(0);
    assert_eq!(reader.fill_buf().unwrap(), [0; PART]);
    reader.consume(PART);
    let error = reader.fill_buf().unwrap_err();
    // Or else whoever reads to the end would ask again by himself.
    assert_ne!(error.kind(), std::io::ErrorKind::Interrupted);
    assert_eq!(reader.fill_buf().unwrap(), [1; PART]);
}

#[test]
fn no_place_is_too_far_away_for_a_stream() {
    let client = client(&options());
    let file = client.create("f", BOTH, 0o644).unwrap();
    for place in [i64::MAX as u64, u64::MAX - 1, u64::MAX] {
        let mut reader = file.reader(place);
        assert!(!matches!(reader.read(&mut [0; 8]), Ok(1..)));
        let mut writer = file.writer(place);
        writer.write_all(b"too far").unwrap();
        assert!(writer.flush().is_err());
        writer.write_all(b"too far").unwrap();
        assert!(writer.finish().is_err());
    }
}

#[test]
fn a_time_limit_without_end_is_none() {
    let client = client(&ConnectOptions {
        time_limit: Some(Duration::MAX),
        ..options()
    });
    assert!(client.metadata("/").is_ok());
}

/// On the wire, no length stands for all to the end.
#[test]
fn no_bytes_are_no_lock() {
    let client = client(&options());
    let file = client.create("f", BOTH, 0o644).unwrap();
    for (start, end) in [(10, 9), (10, 0), (0, u64::MAX)] {
        let lock = Lock {
            style: LockStyle::Posix,
            kind: LockKind::Write,
            range: LockRange { start, end },
            pid: 1,
        };
        let refused = Err(Error::Refused(Errno::EINVAL));
        assert_eq!(file.try_lock(b"me", &lock), refused);
        assert_eq!(file.lock_in_the_way(b"me", &lock).map(drop), refused);
    }
}

/// Or else the server would be blamed for what it answers.
#[test]
fn who_offers_messages_that_are_too_short_is_told_so() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let short = ConnectOptions {
        msize: 4095,
        ..options()
    };
    let error = over(ours, &short).map(drop).unwrap_err();
    assert!(error.to_string().contains("4095 bytes"), "{error}");
}

#[test]
fn what_is_appended_keeps_its_order() {
    for dialect in Dialect::ALL {
        let client = client(&ConnectOptions {
            msize: 4096,
            ..only(dialect)
        });
        let flags = OpenFlags::WRITE | OpenFlags::APPEND;
        let data = pattern(30_000);
        client.create("f", flags, 0o644).unwrap();
        let file = client.open("f", flags).unwrap();
        file.write_all_at(&data[..10], 0).unwrap();
        file.write_all_at(&data[10..10_000], 0).unwrap();
        let mut writer = file.writer(0);
        writer.write_all(&data[10_000..]).unwrap();
        writer.finish().unwrap();
        let mut back = Vec::new();
        let file = client.open("f", OpenFlags::READ).unwrap();
        file.reader(0).read_to_end(&mut back).unwrap();
        assert!(back == data, "other data in {dialect:?}");
    }
}

#[test]
fn the_wrong_way_of_using_a_file_is_an_error_of_that_call() {
    let client = client(&options());
    let file = client.create("f", OpenFlags::WRITE, 0o644).unwrap();
    assert_eq!(
        file.read_at(&mut [0; 9], 0).unwrap_err().errno(),
        Errno::EBADF
    );
    assert_eq!(
        file.write_at(b"x", u64::MAX).unwrap_err().errno(),
        Errno::EINVAL
    );
    let mut stream = file.reader(0);
    assert!(stream.fill_buf().is_err());
    drop(stream);
    let size = SetAttr {
        size: Some(5),
        ..SetAttr::default()
    };
    file.set_metadata(&size).unwrap();
    file.sync(true).unwrap();
    assert_eq!(file.metadata().unwrap().size, 5);
    let dir = client.open("/", OpenFlags::READ).unwrap();
    assert_eq!(
        dir.read_at(&mut [0; 9], 0).unwrap_err().errno(),
        Errno::EISDIR
    );
}
