//! A guest's driver of a virtio-9p device, as Linux's or worse.

use sluice_proto::p9::serve::ServeOptions;
use sluice_proto::p9::wire::*;
use sluice_vfs::{Errno, FileService};
use sluice_virtio::driver::{Completion, Driver, DriverError, DriverQueue, Options};
use sluicefs::serve::{DeviceOptions, Serving, Tag};
use sluicefs::share::{self, SharePolicy};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A directory behind a socket.
pub(crate) struct Share {
    _serving: Serving,
    _dir: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) socket: PathBuf,
}

pub(crate) fn share() -> Share {
    share_through(|service| service)
}

pub(crate) fn share_through(
    layer: impl FnOnce(Arc<dyn FileService>) -> Arc<dyn FileService>,
) -> Share {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let service = layer(share::open(&root, &SharePolicy::default()).unwrap());
    serve(dir, service, ServeOptions::default())
}

/// Serves `dir/root`.
pub(crate) fn serve(
    dir: TempDir,
    service: Arc<dyn FileService>,
    options: impl Into<DeviceOptions>,
) -> Share {
    let (root, socket) = (dir.path().join("root"), dir.path().join("socket"));
    let tag: Tag = "test".parse().unwrap();
    let serving = Serving::start(service, &socket, &tag, options).unwrap();
    Share {
        _serving: serving,
        _dir: dir,
        root,
        socket,
    }
}

/// A driver, as Linux's: headers in one buffer, data in another.
pub(crate) struct Guest {
    pub(crate) driver: Driver,
    pub(crate) queue: DriverQueue,
    dialect: Dialect,
}

/// A reply in its bytes, and the room that it had.
pub(crate) struct Answer {
    pub(crate) message: Vec<u8>,
    pub(crate) completion: Completion,
}

pub(crate) const MSIZE: u32 = 512_000;

impl Guest {
    pub(crate) fn connect(socket: &Path, dialect: Dialect) -> Guest {
        let options = Options {
            slots: 128,
            memory_bytes: 512 << 20,
            ..Options::default()
        };
        let mut driver = Driver::connect(socket, options).unwrap();
        let queue = driver.start_queue(0).unwrap();
        Guest {
            driver,
            queue,
            dialect,
        }
    }

    /// With fid 0 for the root.
    pub(crate) fn mounted(socket: &Path, dialect: Dialect) -> Guest {
        let mut guest = Guest::connect(socket, dialect);
        guest.mount();
        guest
    }

    pub(crate) fn mount(&mut self) {
        self.version();
        self.attach(0, 0);
    }

    /// The size of messages that is agreed on.
    pub(crate) fn version(&mut self) -> u32 {
        let version = Str(self.dialect.version());
        let msize = MSIZE;
        let request = Request::Version { msize, version };
        let reply = self.ask(NOTAG, &request).unwrap();
        match decode_reply(&reply, 0, self.dialect).unwrap().result {
            Ok(Reply::Version { msize, .. }) => msize,
            other => panic!("{other:?}"),
        }
    }

    /// Makes `fid` the root, as a user sees it.
    pub(crate) fn attach(&mut self, fid: u32, uid: u32) {
        let attach = Request::Attach {
            fid,
            afid: NOFID,
            uname: Str(b"nobody"),
            aname: Str(b""),
            n_uname: Extended(UnixId(uid)),
        };
        self.ask(1, &attach).unwrap();
    }

    /// Puts buffers on the ring and waits for them.
    pub(crate) fn exchange(
        &mut self,
        readable: &[&[u8]],
        writable: &[u32],
    ) -> Result<Answer, DriverError> {
        let sent = self.queue.submit(readable, writable)?;
        self.queue.kick();
        let completion = self.queue.wait()?;
        assert_eq!(completion.token, sent);
        Ok(Answer {
            message: self.queue.reply(&completion),
            completion,
        })
    }

    pub(crate) fn ask(&mut self, tag: u16, request: &Request<'_>) -> Result<Vec<u8>, Errno> {
        self.ask_with(tag, request, &[], &[8192])
    }

    pub(crate) fn ask_with(
        &mut self,
        tag: u16,
        request: &Request<'_>,
        payload: &[u8],
        writable: &[u32],
    ) -> Result<Vec<u8>, Errno> {
        let message = encoded(tag, request, self.dialect);
        let answer = match payload {
            [] => self.exchange(&[&message], writable),
            payload => self.exchange(&[&message, payload], writable),
        };
        let reply = answer.unwrap().message;
        self.error(&reply, tag).map(|()| reply)
    }

    /// What a reply says went wrong. Its tag must be `tag`.
    pub(crate) fn error(&self, reply: &[u8], tag: u16) -> Result<(), Errno> {
        let (prefix, payload) = split(reply);
        let decoded = decode_reply(prefix, payload.len(), self.dialect);
        let decoded = decoded.unwrap_or_else(|why| panic!("{why}: {reply:?}"));
        assert_eq!(decoded.tag, tag);
        match decoded.result {
            Ok(_) => Ok(()),
            Err(failure) => Err(Errno::from_raw(failure.errno.cast_signed())),
        }
    }

    /// A new file, open for both as `fid`.
    pub(crate) fn create(&mut self, fid: u32, name: &str) {
        self.walk(0, fid, &[]).unwrap();
        let create = Request::Lcreate {
            fid,
            name: Str(name.as_bytes()),
            flags: LopenFlags::RDWR,
            mode: 0o644,
            gid: 0,
        };
        self.ask(1, &create).unwrap();
    }

    pub(crate) fn walk(&mut self, fid: u32, newfid: u32, names: &[&[u8]]) -> Result<(), Errno> {
        let mut room = [0; 4096];
        let names = Names::new(names, &mut room).unwrap();
        self.ask(1, &Request::Walk { fid, newfid, names }).map(drop)
    }

    pub(crate) fn write(&mut self, fid: u32, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let data = Payload { len: bytes.len() };
        let request = Request::Write { fid, offset, data };
        self.ask_with(1, &request, bytes, &[4096]).map(drop)
    }

    pub(crate) fn read(&mut self, fid: u32, offset: u64, count: u32) -> Result<Vec<u8>, Errno> {
        let request = Request::Read { fid, offset, count };
        let room = [REPLY_PAYLOAD_AT as u32, count];
        let reply = self.ask_with(1, &request, &[], &room)?;
        Ok(split(&reply).1.to_vec())
    }

    pub(crate) fn root_is_there(&mut self) {
        let (fid, mask) = (0, GetattrMask::BASIC);
        self.ask(1, &Request::Getattr { fid, mask }).unwrap();
    }
}

pub(crate) fn encoded(tag: u16, request: &Request<'_>, dialect: Dialect) -> Vec<u8> {
    let mut buf = vec![0; 1 << 16];
    let len = encode_request(tag, request, dialect, &mut buf).unwrap();
    buf.truncate(len);
    buf
}

pub(crate) fn split(message: &[u8]) -> (&[u8], &[u8]) {
    let header = Header::peek(message).unwrap();
    assert_eq!(header.size as usize, message.len(), "{message:?}");
    message.split_at(header.prefix_len().min(message.len()))
}

pub(crate) fn raw(kind: u8, tag: u16, size: u32, body: &[u8]) -> Vec<u8> {
    let mut out = size.to_le_bytes().to_vec();
    out.push(kind);
    out.extend(tag.to_le_bytes());
    out.extend(body);
    out
}
