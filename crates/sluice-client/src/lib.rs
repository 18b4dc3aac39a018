//! A client of 9P servers: Sluice's own, and all others that speak 9P2000.L,
//! 9P2000.u or 9P2000.
//!
//! ```no_run
//! use sluice_client::{Client, ConnectOptions, OpenFlags};
//! use std::io::{BufRead, Write};
//!
//! let address = "unix:/run/share.sock".parse()?;
//! let client = Client::connect(&address, &ConnectOptions::default())?;
//! let file = client.open("/docs/todo.txt", OpenFlags::READ)?;
//! for line in file.reader(0).lines() {
//!     println!("{}", line?);
//! }
//! let out = client.create("/docs/done.txt", OpenFlags::WRITE, 0o644)?;
//! let mut writer = out.writer(0);
//! writer.write_all(b"everything\n")?;
//! writer.finish()?;
//! out.close()?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything blocks, and nothing hangs: a reply that does not come within the
//! time limit of [`ConnectOptions`] is an error. Any number of threads may use
//! one [`Client`] and its files at a time, with as many requests under way; no
//! thread is started for that.
//!
//! What a server sends is checked: counts against what was asked for, tags and
//! kinds against the requests, names for being one component. What is wrong in
//! itself fails one request with [`Error::Violation`]; where replies can no
//! longer be told from each other, the connection is over ([`Error::Lost`]).
//!
//! | module | duty |
//! |---|---|
//! | `client`, `file`, `dir`, `stream` | the interface: paths, open files, listings, sequential streams |
//! | `service` | a server as a [`sluice_vfs::FileService`]: sessions that outlive their connection |
//! | `ops` | operations on fids, in whichever dialect is spoken |
//! | `connection` | one stream for many threads: who reads, who sends, who waits |
//! | `requests`, `version`, `fids` | the protocol's state: tags and what may answer them, the dialect, numbers of fids; no I/O |
//! | `meter` | counters: messages, bytes, waiting |
//! | `transport` | sockets |
//! | `translate` | neutral words to wire words and back |
#![forbid(unsafe_code)]

mod address;
mod client;
mod connection;
mod dir;
mod error;
mod fids;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod meter;
mod ops;
mod options;
mod path;
mod requests;
mod service;
mod stream;
pub mod translate;
mod transport;
mod version;

pub use address::{Address, ExportAddress};
pub use client::Client;
pub use dir::{Dir, DirEntry, ReadDir};
pub use error::{Error, Lost, Result, Violation};
pub use file::File;
pub use meter::{Counts, Histogram, Meter, Reading};
pub use options::{ConnectOptions, MSIZE};
pub use service::{Access, Connect, Persistence, RemoteService, ServiceOptions};
pub use stream::{Reader, Writer};
pub use transport::{Socket, Transport};

// The words in which the interface speaks.
pub use sluice_proto::p9::wire::Dialect;
pub use sluice_vfs::{
    Attr, AttrMask, Device, Errno, FileType, Lock, LockKind, LockRange, LockStyle, OpenFlags,
    SetAttr, SetTime, StatFs, Timestamp, UnixMode, XattrFlags,
};
