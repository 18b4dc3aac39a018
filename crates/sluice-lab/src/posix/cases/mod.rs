//! The cases, by what they are about.

/// The table of a group: its cases and what each needs.
macro_rules! cases {
    ($group:literal: $($run:ident $([$($need:ident),+])?),+ $(,)?) => {
        pub(super) const CASES: &[$crate::posix::Case] = &[$($crate::posix::Case {
            name: concat!($group, "::", stringify!($run)),
            needs: &[$($($crate::posix::Need::$need),+)?],
            run: $run,
        }),+];
    };
}

pub(super) mod acl;
mod attr;
mod content;
mod copy;
mod create;
mod dir;
mod link;
mod lock;
mod names;
mod orphan;
mod permission;
mod rename;
mod space;
mod time;
mod xattr;

use super::Case;
use rustix::io::{Errno, Result};

/// Every case.
pub fn all() -> Vec<Case> {
    [
        names::CASES,
        create::CASES,
        link::CASES,
        rename::CASES,
        dir::CASES,
        content::CASES,
        copy::CASES,
        space::CASES,
        attr::CASES,
        time::CASES,
        permission::CASES,
        xattr::CASES,
        acl::CASES,
        orphan::CASES,
        lock::CASES,
    ]
    .concat()
}

/// It must fail in just this way.
#[track_caller]
fn fails<T>(outcome: Result<T>, errno: Errno) {
    assert_eq!(outcome.err(), Some(errno));
}

/// Bytes in which every place is told from its neighbours.
fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}
