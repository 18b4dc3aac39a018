//! Operations on fids: requests and replies, in whichever dialect is spoken.
//!
//! A fid is used once the request that makes it is answered: a server may run what
//! it is asked side by side, and one that meets a fid before it means something may
//! say so, answer about a directory on the way, or end the connection. Where the
//! server is told to take messages in their order, a walk and what is asked of its
//! end are sent at once. What makes something never is: a walk that stops half-way
//! would have it made elsewhere. Our own server has messages that do all of it
//! (docs/9p-extension.md).

mod attr;
mod content;
mod dirs;
mod fid;
mod follow;
mod fused;
mod lock;
mod names;
mod open;
mod walk;
mod xattr;

pub(crate) use content::count_written;
pub(crate) use dirs::Entry;
pub(crate) use fid::Fid;
pub(crate) use lock::{LockWait, RETRY as LOCK_RETRY, check_range};
pub(crate) use open::OpenFid;
pub(crate) use walk::Stopped;

use crate::connection::Connection;
use crate::error::{Error, Lost, Result, Violation};
use crate::options::ConnectOptions;
use crate::requests::Answer;
use crate::transport::Transport;
use sluice_proto::p9::wire::{Dialect, Extended, NOFID, Qid, Reply, Request, Str, UnixId};
use std::sync::atomic::AtomicBool;

/// An export that the connection is attached to.
pub(crate) struct Tree {
    pub(crate) connection: Connection,
    /// The fid of its root.
    pub(crate) root: u32,
    /// The group that what is made belongs to.
    pub(crate) gid: u32,
    /// The server takes messages that depend on each other in their order.
    is_orderly: bool,
    /// The server has messages that do what takes several elsewhere.
    is_fused: AtomicBool,
}

impl Tree {
    /// Connects and attaches to an export. A server that does not stand versions
    /// that it does not know is offered lesser ones, on connections of their own.
    pub(crate) fn connect(
        connect: &dyn Fn() -> Result<Box<dyn Transport>>,
        options: &ConnectOptions,
    ) -> Result<Self> {
        let first = Connection::open(connect()?, options)
            .and_then(|connection| Tree::attach(connection, options));
        match first {
            Err(Error::Lost(Lost::Closed)) if options.dialects.len() > 1 => {
                let mut lesser = options.clone();
                lesser.dialects.remove(0);
                Tree::connect(connect, &lesser)
            }
            other => other,
        }
    }

    /// Attaches to an export.
    pub(crate) fn attach(connection: Connection, options: &ConnectOptions) -> Result<Self> {
        let root = attach_user(&connection, options, options.uid, &options.uname)?.keep();
        let is_fused = connection.agreed.dialect == Dialect::Sluice;
        let mut tree = Tree {
            connection,
            root,
            gid: rustix::process::getegid().as_raw(),
            is_orderly: options.is_orderly,
            is_fused: AtomicBool::new(is_fused),
        };
        let root = Fid::known(&tree.connection, root);
        let dir = tree.dir_within(root, &options.dir)?.keep();
        tree.root = dir;
        Ok(tree)
    }

    /// A fid for the root that belongs to another user.
    pub(crate) fn attach_as(&self, uid: u32, options: &ConnectOptions) -> Result<Fid<'_>> {
        let root = attach_user(&self.connection, options, uid, b"")?;
        self.dir_within(root, &options.dir)
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.connection.agreed.dialect
    }

    /// Whether Linux's calls are spoken.
    pub(crate) fn is_linux(&self) -> bool {
        self.dialect().is_linux()
    }

    /// Fails unless Linux's calls are spoken.
    fn require_linux(&self, what: &'static str) -> Result<()> {
        match self.is_linux() {
            true => Ok(()),
            false => Err(Error::not_in(self.dialect(), what)),
        }
    }

    fn new_fid(&self) -> Fid<'_> {
        Fid::new(&self.connection)
    }

    /// Gives a fid back that nothing was done through; nobody waits.
    pub(crate) fn clunk(&self, fid: u32) {
        drop(Fid::known(&self.connection, fid));
    }

    /// Gives a fid back, and hears what close(2) would say. It is gone in any
    /// case.
    pub(crate) fn clunk_and_wait(&self, fid: u32) -> Result<()> {
        Fid::known(&self.connection, fid).end_by(&Request::Clunk { fid })
    }
}

/// A fid for the root as a user sees it, who is told by number unless by name.
fn attach_user<'c>(
    connection: &'c Connection,
    options: &ConnectOptions,
    uid: u32,
    uname: &[u8],
) -> Result<Fid<'c>> {
    let mut root = Fid::new(connection);
    let digits = uid.to_string();
    let request = Request::Attach {
        fid: root.number(),
        afid: NOFID,
        uname: Str(if uname.is_empty() {
            digits.as_bytes()
        } else {
            uname
        }),
        aname: Str(&options.aname),
        n_uname: Extended(match uname.is_empty() {
            true => UnixId(uid),
            false => UnixId::NONE,
        }),
    };
    let attached = connection.call(&request);
    let attached = attached.and_then(|answer| qid_of(&answer));
    root.note(attached.as_ref().err());
    attached.map(|_| root)
}

/// The qid in a reply that has one.
fn qid_of(answer: &Answer) -> Result<Qid> {
    match answer.get()? {
        Reply::Attach { qid }
        | Reply::Lopen { qid, .. }
        | Reply::Lcreate { qid, .. }
        | Reply::Open { qid, .. }
        | Reply::Create { qid, .. }
        | Reply::Symlink { qid }
        | Reply::Mknod { qid }
        | Reply::Mkdir { qid } => Ok(qid),
        other => Err(odd(&other)),
    }
}

/// Kinds of replies are checked when they come, so that this does not happen.
fn odd(reply: &Reply<'_>) -> Error {
    let (asked, got) = (reply.kind(), reply.kind() as u8 | 1);
    Violation::Kind { asked, got }.into()
}
