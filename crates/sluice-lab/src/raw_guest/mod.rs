//! A guest's half of virtio-fs with full control: FUSE requests, well-formed or
//! not, on the rings of a driver in this process.
//!
//! What breaks the protocol in a reply is the device's fault, and panics: what
//! uses this are tests.

mod by_hand;

pub use by_hand::{Answer, body, header};

use sluice_proto::fuse::wire::{
    CBytes, CreateIn, Dialect, Extensions, GetattrIn, InitFlags, InitIn, Operation, OutHeader,
    PREFIX_MAX, Payload, ReadIn, Reply, ReplyMessage, RequestHead, WriteIn, decode_reply,
    encode_request,
};
use sluice_vfs::Errno;
use sluice_virtio::driver::{Completion, Driver, DriverError, DriverQueue, Options, Token};
use std::path::Path;

/// Bytes of a reply's header, which Linux gives a descriptor of its own.
pub const HEADER_LEN: u32 = size_of::<OutHeader>() as u32;

/// Room for the body of any reply here, in bytes.
pub const ROOM: u32 = 256 << 10;

/// Node of the share's root.
pub const ROOT: u64 = 1;

/// A connection with its two rings running.
#[derive(Debug)]
pub struct Guest {
    /// The device's other end.
    pub driver: Driver,
    /// The queue for what must not wait.
    pub hiprio: DriverQueue,
    /// The queue for everything else.
    pub requests: DriverQueue,
    /// Who asks: user and group.
    pub caller: (u32, u32),
    unique: u64,
}

/// An open file.
#[derive(Clone, Copy, Debug)]
pub struct OpenFile {
    /// Its node.
    pub node: u64,
    /// Its handle.
    pub fh: u64,
}

impl Guest {
    /// Connects and starts the rings; no INIT yet.
    pub fn connect(socket: &Path) -> Guest {
        Self::over(Driver::connect(socket, Options::default()).unwrap())
    }

    /// The same over a connection that was negotiated.
    pub fn over(mut driver: Driver) -> Guest {
        let hiprio = driver.start_queue(0).unwrap();
        let requests = driver.start_queue(1).unwrap();
        Guest {
            driver,
            hiprio,
            requests,
            caller: (0, 0),
            unique: 0,
        }
    }

    /// The same with INIT behind it.
    pub fn mounted(socket: &Path) -> Guest {
        let mut guest = Guest::connect(socket);
        guest.init().unwrap();
        guest
    }

    /// INIT as a plain client sends it.
    pub fn init(&mut self) -> Result<(), Errno> {
        self.init_offering(InitFlags::INIT_EXT | InitFlags::MAX_PAGES | InitFlags::FLOCK_LOCKS)
    }

    /// INIT with these flags.
    pub fn init_offering(&mut self, offered: InitFlags) -> Result<(), Errno> {
        let args = InitIn {
            major: 7,
            minor: 45,
            max_readahead: 1 << 20,
            flags: offered.bits() as u32,
            flags2: (offered.bits() >> 32) as u32,
            ..InitIn::default()
        };
        self.call(0, &Operation::Init { args }, &[]).map(drop)
    }

    /// The bytes of a request and its number.
    pub fn encode(&mut self, node: u64, operation: &Operation<'_>) -> (u64, Vec<u8>) {
        self.unique += 2;
        let (uid, gid) = self.caller;
        let head = RequestHead {
            unique: self.unique,
            nodeid: node,
            uid,
            gid,
            ..RequestHead::default()
        };
        let mut bytes = vec![0; PREFIX_MAX];
        let len = encode_request(
            &head,
            operation,
            Dialect {
                setxattr_ext: false,
            },
            &mut bytes,
        );
        bytes.truncate(len.unwrap());
        (self.unique, bytes)
    }

    /// Sends a request without waiting for its reply.
    pub fn send(&mut self, node: u64, operation: &Operation<'_>, payload: &[u8]) -> Token {
        let (_, prefix) = self.encode(node, operation);
        let token = self
            .requests
            .submit(&parts(&prefix, payload), &[HEADER_LEN, ROOM])
            .unwrap();
        self.requests.kick();
        token
    }

    /// Runs a request; the body of its reply.
    pub fn call(
        &mut self,
        node: u64,
        operation: &Operation<'_>,
        payload: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let (unique, prefix) = self.encode(node, operation);
        let reply = self
            .bytes(&parts(&prefix, payload), &[HEADER_LEN, ROOM])
            .unwrap();
        let ReplyMessage {
            unique: got,
            result,
        } = decode_reply(operation.opcode(), &reply).unwrap();
        assert_eq!(got, unique);
        result.map(|_| reply[HEADER_LEN as usize..].to_vec())
    }

    /// Runs a request and looks at its decoded reply.
    pub fn ask<T>(
        &mut self,
        node: u64,
        operation: &Operation<'_>,
        payload: &[u8],
        look: impl FnOnce(Reply<'_>) -> T,
    ) -> Result<T, Errno> {
        let (_, prefix) = self.encode(node, operation);
        let reply = self
            .bytes(&parts(&prefix, payload), &[HEADER_LEN, ROOM])
            .unwrap();
        decode_reply(operation.opcode(), &reply)
            .unwrap()
            .result
            .map(look)
    }

    /// Sends any buffers and waits for what comes back.
    pub fn bytes(&mut self, readable: &[&[u8]], writable: &[u32]) -> Result<Vec<u8>, DriverError> {
        let completion = self.requests.roundtrip(readable, writable)?;
        Ok(self.requests.reply(&completion))
    }

    /// The errno of a completed request; 0 for success.
    pub fn errno(&self, completion: &Completion) -> i32 {
        let reply = self.requests.reply(completion);
        -i32::from_ne_bytes(reply[4..8].try_into().unwrap())
    }

    /// GETATTR; the size.
    pub fn getattr(&mut self, node: u64) -> Result<u64, Errno> {
        let args = GetattrIn::default();
        self.ask(
            node,
            &Operation::Getattr { args },
            &[],
            |reply| match reply {
                Reply::Getattr { attr } => attr.attr.size,
                other => panic!("{other:?}"),
            },
        )
    }

    /// LOOKUP; the node, 0 for a name that is remembered as missing.
    pub fn lookup(&mut self, parent: u64, name: &[u8]) -> Result<u64, Errno> {
        let name = CBytes(name);
        self.ask(
            parent,
            &Operation::Lookup { name },
            &[],
            |reply| match reply {
                Reply::Lookup { entry } => entry.nodeid,
                other => panic!("{other:?}"),
            },
        )
    }

    /// CREATE, for reading and writing.
    pub fn create(&mut self, parent: u64, name: &[u8]) -> Result<OpenFile, Errno> {
        const O_RDWR: u32 = 2;
        let operation = Operation::Create {
            args: CreateIn {
                flags: O_RDWR,
                mode: 0o100_644,
                ..CreateIn::default()
            },
            name: CBytes(name),
            extensions: Extensions::default(),
        };
        self.ask(parent, &operation, &[], |reply| match reply {
            Reply::Create { entry, open } => OpenFile {
                node: entry.nodeid,
                fh: open.fh,
            },
            other => panic!("{other:?}"),
        })
    }

    /// WRITE; how much was written.
    pub fn write(&mut self, file: OpenFile, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let operation = write(file, offset, data);
        self.ask(file.node, &operation, data, |reply| match reply {
            Reply::Write { written } => written.size,
            other => panic!("{other:?}"),
        })
    }

    /// READ; what was read.
    pub fn read(&mut self, file: OpenFile, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let args = ReadIn {
            fh: file.fh,
            offset,
            size,
            ..ReadIn::default()
        };
        self.call(file.node, &Operation::Read { args }, &[])
    }
}

/// A WRITE.
pub fn write(file: OpenFile, offset: u64, data: &[u8]) -> Operation<'static> {
    Operation::Write {
        args: WriteIn {
            fh: file.fh,
            offset,
            size: data.len() as u32,
            ..WriteIn::default()
        },
        data: Payload { len: data.len() },
    }
}

fn parts<'a>(prefix: &'a [u8], payload: &'a [u8]) -> Vec<&'a [u8]> {
    match payload {
        [] => vec![prefix],
        _ => vec![prefix, payload],
    }
}
