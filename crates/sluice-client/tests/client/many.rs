//! Many threads, many requests, and both directions full.

use crate::files::pattern;
use crate::server::{Run, options, over, serve_model};
use sluice_client::{Client, ConnectOptions, OpenFlags};
use std::io::{BufRead, Read};
use std::os::unix::net::UnixStream;

const BOTH: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);

fn threaded(options: &ConnectOptions) -> Client {
    let (ours, theirs) = UnixStream::pair().unwrap();
    serve_model(theirs, Run::Threads);
    over(ours, options).unwrap()
}

#[test]
fn threads_share_a_connection_and_each_gets_its_own() {
    const THREADS: usize = 12;
    let client = threaded(&ConnectOptions {
        msize: 8192,
        window: 3,
        ..options()
    });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = client.clone();
            scope.spawn(move || {
                let path = format!("f{thread}");
                let data: Vec<u8> = pattern(60_000).iter().map(|b| b ^ thread as u8).collect();
                let file = client.create(&path, BOTH, 0o644).unwrap();
                file.write_all_at(&data, 0).unwrap();
                for round in 0..20 {
                    let start = (round * 2741 + thread * 97) % 40_000;
                    let len = [10, 1500, 20_000][round % 3];
                    let mut buf = vec![0; len];
                    assert_eq!(file.read_at(&mut buf, start as u64), Ok(len));
                    assert!(buf == data[start..start + len], "another's data");
                    assert_eq!(client.metadata(&path).unwrap().size, 60_000);
                }
                let mut back = Vec::new();
                file.reader(0).read_to_end(&mut back).unwrap();
                assert!(back == data, "another's data");
            });
        }
    });
}

/// Replies that nobody has read yet must not keep a request from being sent.
#[test]
fn a_stream_that_waits_does_not_stop_others() {
    let client = threaded(&ConnectOptions {
        msize: 256 << 10,
        window: 16,
        ..options()
    });
    let data = pattern(10 << 20);
    let file = client.create("big", BOTH, 0o644).unwrap();
    file.write_all_at(&data, 0).unwrap();
    let mut reader = file.reader(0);
    // So that a whole window is under way.
    let mut seen = 0;
    while seen < (4 << 20) {
        let len = reader.fill_buf().unwrap().len();
        reader.consume(len);
        seen += len;
    }
    let copy = client.create("copy", BOTH, 0o644).unwrap();
    copy.write_all_at(&data, 0).unwrap();
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert!(rest == data[seen..], "other data");
    let mut back = vec![0; data.len()];
    assert_eq!(copy.read_at(&mut back, 0), Ok(data.len()));
    assert!(back == data, "other data");
}

#[test]
fn what_is_given_up_is_nobodys_and_the_connection_goes_on() {
    let client = threaded(&ConnectOptions {
        msize: 16_384,
        ..options()
    });
    let file = client.create("f", BOTH, 0o644).unwrap();
    file.write_all_at(&pattern(1 << 20), 0).unwrap();
    for _ in 0..50 {
        let mut reader = file.reader(0);
        for _ in 0..5 {
            let len = reader.fill_buf().unwrap().len();
            reader.consume(len);
        }
        drop(reader);
        assert_eq!(file.metadata().unwrap().size, 1 << 20);
    }
}
