//! What listings of 9P2000 and 9P2000.u ask of the service.

use crate::harness::{Conn, model};
use sluice_proto::p9::wire::*;
use sluice_vfs::{
    AttachOptions, Attached, Ctx, DirEntry, DirSink, DirWant, FileService, HandleId, NodeId,
    Result, Session, Stamp, forward_session,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is looked up for listings.
struct Counting {
    inner: Arc<dyn FileService>,
    count: Arc<AtomicUsize>,
}

impl FileService for Counting {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let attached = self.inner.attach(options)?;
        let session = Arc::new(CountingSession {
            inner: attached.session,
            count: Arc::clone(&self.count),
        });
        Ok(Attached {
            session,
            ..attached
        })
    }
}

struct CountingSession {
    inner: Arc<dyn Session>,
    count: Arc<AtomicUsize>,
}

impl Session for CountingSession {
    forward_session! { inner => lookup, parent, walk, remember, forget, cancel_wait,
        release_backing, getattr, setattr, access, readlink, statfs, getxattr, listxattr,
        setxattr, removexattr, mkdir, mknod, symlink, link, unlink, rmdir, rename, open, create,
        lookup_open, tmpfile, read, write, flush, release, fsync, syncfs, fallocate, lseek,
        copy_range, ioctl, getlk, setlk, backing
    }

    fn readdir(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        cookie: u64,
        want: DirWant,
        sink: &mut dyn DirSink,
    ) -> Result<Stamp> {
        let count = &self.count;
        let mut sink = CountingSink { sink, count };
        let inner = &self.inner;
        inner.readdir(ctx, node, handle, cookie, want, &mut sink)
    }
}

struct CountingSink<'a> {
    sink: &'a mut dyn DirSink,
    count: &'a AtomicUsize,
}

impl DirSink for CountingSink<'_> {
    fn fits(&self, name_len: usize) -> bool {
        self.sink.fits(name_len)
    }

    fn push(&mut self, entry: &DirEntry<'_>) {
        let count = usize::from(entry.entry.is_some());
        self.count.fetch_add(count, Ordering::Relaxed);
        self.sink.push(entry);
    }
}

#[test]
fn a_read_of_a_directory_looks_up_what_it_has_room_for() {
    const FILES: usize = 100;
    for dialect in [Dialect::Plan9, Dialect::Unix] {
        let count = Arc::default();
        let service = Counting {
            inner: model(),
            count: Arc::clone(&count),
        };
        let conn = Conn::over(Arc::new(service), dialect, |_| {});
        // A symlink's stat has its target in it, in 9P2000.u alone.
        let (perm, target) = match dialect {
            Dialect::Unix => (Perm::SYMLINK, "t".repeat(500)),
            _ => (Perm::from_bits_retain(0o600), String::new()),
        };
        for number in 0..FILES {
            conn.walk(0, 1, &[]).unwrap();
            let made = conn.call(&Request::Create {
                fid: 1,
                name: Str(number.to_string().as_bytes()),
                perm,
                mode: OpenMode::empty(),
                extension: Extended(Str(target.as_bytes())),
            });
            made.unwrap();
            conn.clunk(1).unwrap();
        }
        conn.walk(0, 1, &[]).unwrap();
        let mode = OpenMode::empty();
        conn.call(&Request::Open { fid: 1, mode }).unwrap();
        let (mut offset, mut listed) = (0, 0);
        loop {
            let before = count.load(Ordering::Relaxed);
            let data = conn.read(1, offset, 2000).unwrap();
            if data.is_empty() {
                break;
            }
            let got = Stats::new(&data, dialect).count();
            let looked_up = count.load(Ordering::Relaxed) - before;
            assert!(looked_up <= got + 1, "{dialect:?}: {looked_up} for {got}");
            listed += got;
            offset += data.len() as u64;
        }
        assert_eq!(listed, FILES);
    }
}
