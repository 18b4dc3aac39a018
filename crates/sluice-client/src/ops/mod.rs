//! Operations on fids: requests and replies, in whichever dialect is spoken.
//!
//! What takes several messages (walk and open, walk and ask) is sent at once,
//! so that it takes one trip. A server that runs such messages side by side
//! instead of in order answers the later ones with errors; then they are sent
//! again one by one, and so from then on. Our own server has messages that do
//! all of it (docs/9p-extension.md).

mod attr;
mod content;
mod dirs;
mod fused;
mod lock;
mod names;
mod open;
mod walk;
mod xattr;

pub(crate) use content::count_written;
pub(crate) use dirs::Entry;
pub(crate) use open::OpenFid;
pub(crate) use walk::Stopped;

use crate::connection::Connection;
use crate::error::{Error, Result, Violation};
use crate::options::ConnectOptions;
use crate::requests::Answer;
use sluice_proto::p9::wire::{Dialect, Extended, NOFID, Qid, Reply, Request, Str, UnixId};
use std::sync::atomic::{AtomicBool, Ordering};

/// An export that the connection is attached to.
pub(crate) struct Tree {
    pub(crate) connection: Connection,
    /// The fid of its root.
    pub(crate) root: u32,
    /// The group that what is made belongs to.
    gid: u32,
    /// The server takes messages that depend on each other in their order.
    is_orderly: AtomicBool,
    /// The server has messages that do what takes several elsewhere.
    is_fused: AtomicBool,
}

impl Tree {
    /// Attaches to an export.
    pub(crate) fn attach(connection: Connection, options: &ConnectOptions) -> Result<Self> {
        let root = connection.take_fid();
        let digits = options.uid.to_string();
        let uname = match options.uname.is_empty() {
            true => digits.as_bytes(),
            false => &options.uname,
        };
        let answer = connection.call(&Request::Attach {
            fid: root,
            afid: NOFID,
            uname: Str(uname),
            aname: Str(&options.aname),
            n_uname: Extended(match options.uname.is_empty() {
                true => UnixId(options.uid),
                false => UnixId::NONE,
            }),
        })?;
        qid_of(&answer)?;
        let is_fused = connection.agreed.dialect == Dialect::Sluice;
        Ok(Tree {
            connection,
            root,
            gid: rustix::process::getegid().as_raw(),
            is_orderly: AtomicBool::new(true),
            is_fused: AtomicBool::new(is_fused),
        })
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.connection.agreed.dialect
    }

    /// Whether Linux's calls are spoken.
    fn is_linux(&self) -> bool {
        self.dialect().is_linux()
    }

    /// Fails unless Linux's calls are spoken.
    fn require_linux(&self, what: &'static str) -> Result<()> {
        match self.is_linux() {
            true => Ok(()),
            false => Err(Error::not_in(self.dialect(), what)),
        }
    }

    fn is_orderly(&self) -> bool {
        self.is_orderly.load(Ordering::Relaxed)
    }

    fn note_disorder(&self) {
        self.is_orderly.store(false, Ordering::Relaxed);
    }

    /// Gives a fid back that nothing was done through; nobody waits.
    pub(crate) fn clunk(&self, fid: u32) {
        // A connection that is over knows no fids.
        let _ = self.connection.post(&Request::Clunk { fid }, Some(fid));
    }

    /// Gives a fid back, and hears what close(2) would say. It is gone in any
    /// case.
    pub(crate) fn clunk_and_wait(&self, fid: u32) -> Result<()> {
        let outcome = self.connection.call(&Request::Clunk { fid });
        if !matches!(outcome, Err(Error::TimedOut(_))) {
            self.connection.give_back_fid(fid);
        }
        outcome.map(drop)
    }
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
