//! Fids that are given back when nobody needs them any more.

use crate::connection::Connection;
use crate::error::{Error, Result};
use sluice_proto::p9::wire::Request;

/// A fid, or the number for one that a request is to make. Dropped, it is given back.
pub(crate) struct Fid<'c> {
    connection: &'c Connection,
    number: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The server does not know it.
    Unknown,
    /// Unless the request is answered, it may come to know it at any time.
    AskedFor,
    /// The server knows it, or may.
    Known,
}

impl<'c> Fid<'c> {
    /// A number that no fid has.
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Fid {
            connection,
            number: connection.take_fid(),
            state: State::Unknown,
        }
    }

    /// One that the server knows.
    pub(super) fn known(connection: &'c Connection, number: u32) -> Self {
        Fid {
            connection,
            number,
            state: State::Known,
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Leaves it to somebody who gives it back by its number.
    pub(crate) fn keep(self) -> u32 {
        let number = self.number;
        std::mem::forget(self);
        number
    }

    /// A request that is to make it is under way.
    pub(super) fn is_asked_for(&mut self) {
        self.state = State::AskedFor;
    }

    /// What came of a request that was to make it, or to change what it stands for.
    pub(super) fn note(&mut self, failure: Option<&Error>) {
        self.state = match (failure, self.state) {
            (Some(error), State::Unknown | State::AskedFor) if !is_unclear(error) => State::Unknown,
            _ => State::Known,
        };
    }

    /// Asks for what gives it back, whatever comes of it otherwise.
    pub(super) fn end_by(self, request: &Request<'_>) -> Result<()> {
        let outcome = self.connection.call(request);
        if !outcome.as_ref().is_err_and(is_unclear) {
            self.connection.give_back_fid(self.keep());
        }
        outcome.map(drop)
    }
}

impl Drop for Fid<'_> {
    fn drop(&mut self) {
        let fid = self.number;
        match self.state {
            State::Unknown => self.connection.give_back_fid(fid),
            State::AskedFor => {}
            // Nobody waits, and a connection that is over knows no fids.
            State::Known => drop(self.connection.post(&Request::Clunk { fid }, Some(fid))),
        }
    }
}

/// Whether what was asked for may have been done all the same.
fn is_unclear(error: &Error) -> bool {
    matches!(
        error,
        Error::Violation(_) | Error::TimedOut(_) | Error::Lost(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::with_model;
    use crate::ops::Tree;
    use sluice_proto::p9::wire::Dialect;
    use sluice_vfs::{Errno, OpenFlags};
    use std::collections::BTreeSet;

    /// The numbers that come next.
    fn next(tree: &Tree) -> BTreeSet<u32> {
        let fids = [(); 8].map(|()| Fid::new(&tree.connection));
        fids.iter().map(Fid::number).collect()
    }

    #[test]
    fn what_fails_costs_no_numbers() {
        for dialect in [Dialect::Sluice, Dialect::Linux, Dialect::Plan9] {
            for is_orderly in [false, true] {
                let mut tree = with_model(dialect, 64);
                tree.is_orderly = is_orderly;
                let (tree, root) = (&tree, tree.root);
                let before = next(tree);
                let long = b"x".repeat(256);
                for way in [&[&long[..]][..], &[b"missing"], &[b"..", b"missing", b"x"]] {
                    assert!(tree.walk(root, way).is_err());
                    assert!(tree.lookup(root, way).is_err());
                    assert!(tree.stat_at(root, way).is_err());
                    assert!(tree.open_at(root, way, OpenFlags::READ).is_err());
                    let flags = OpenFlags::WRITE;
                    let made = tree.create_at(root, way, b"f", flags, (0o644, 0));
                    assert!(made.is_err());
                }
                let too_long = Errno::ENAMETOOLONG;
                let kept = tree.create_and_keep(root, &long, OpenFlags::WRITE, (0o644, 0));
                assert_eq!(kept.map(drop).unwrap_err().errno(), too_long);
                let many = [Some(&b"missing"[..]), None, Some(&long)];
                let many = tree.stat_many(root, &many).unwrap();
                let many = many.into_iter().map(|it| Some(it?.unwrap_err().errno()));
                let missing = Some(Errno::ENOENT);
                assert_eq!(Vec::from_iter(many), [missing, None, Some(too_long)]);
                assert!(tree.read_xattr(root, b"user.none").is_err());
                // The answers to what nobody waits for come before this one's.
                tree.getattr(root).unwrap();
                assert_eq!(next(tree), before, "{dialect:?}, {is_orderly}");
            }
        }
    }
}
