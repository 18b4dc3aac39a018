//! What an input says: how to connect, and what happens to the answers.

use super::server::Tampering;
use crate::options::ConnectOptions;
use crate::service::Access;
use sluice_proto::p9::wire::{Dialect, MSIZE_MIN};
use std::time::Duration;

/// How to connect, and what the server is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) dialect: Dialect,
    pub(super) msize: u32,
    window: usize,
    is_orderly: bool,
    zero_copy_from: usize,
    time_limit: Duration,
    /// Tversion and Tattach are answered as they should.
    pub(super) begins_well: bool,
    pub(super) ending: Ending,
    /// So often the server can be connected to.
    pub(super) connections: u8,
    pub(super) access: Access,
    pub(super) has_acls: bool,
}

/// What becomes of requests once the script is over.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    Honest,
    Silent,
    Closed,
}

impl Setup {
    /// Bytes of an input that it takes.
    pub(super) const LEN: usize = 6;

    /// `[dialect] [msize] [window, bit 7: orderly] [zero-copy] [flags] [connections]`.
    /// Flags: bit 0, it does not begin well; 1 and 2, the ending; 3, nobody waits; 4, one
    /// user for all; 5, there are ACLs.
    pub(super) fn of(bytes: [u8; Setup::LEN]) -> Self {
        let [dialect, msize, window, zero_copy, flags, connections] = bytes;
        Setup {
            dialect: match dialect % 4 {
                0 => Dialect::Plan9,
                1 => Dialect::Unix,
                2 => Dialect::Linux,
                _ => Dialect::Sluice,
            },
            msize: MSIZE_MIN + u32::from(msize) * 200,
            window: (window & 0x0f).into(),
            is_orderly: window & 0x80 != 0,
            zero_copy_from: usize::from(zero_copy) * 32,
            time_limit: match flags & 8 {
                0 => Duration::from_millis(2),
                _ => Duration::ZERO,
            },
            begins_well: flags & 1 == 0,
            ending: match flags >> 1 & 3 {
                1 => Ending::Silent,
                2 => Ending::Closed,
                _ => Ending::Honest,
            },
            connections: 1 + connections % 3,
            access: match flags & 16 {
                0 => Access::PerUser,
                _ => Access::Single,
            },
            has_acls: flags & 32 != 0,
        }
    }

    pub(super) fn options(&self) -> ConnectOptions {
        ConnectOptions {
            uid: 0,
            msize: self.msize,
            dialects: vec![self.dialect],
            time_limit: Some(self.time_limit),
            zero_copy_from: self.zero_copy_from,
            window: self.window,
            is_orderly: self.is_orderly,
            ..ConnectOptions::default()
        }
    }
}

/// What happens next on a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) what: What,
    pub(super) a: u8,
    pub(super) b: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Honest,
    Tampered(Tampering),
    /// Any bytes, which follow in the script.
    Raw,
    Nothing,
    Closed,
    /// Receiving is by so many bytes from now on, so often.
    Pieces,
    /// So is sending.
    Intake,
    /// It is said that the peer has ended, or that it has not.
    Ended,
}

impl Step {
    pub(super) const HONEST: Step = Step::plain(What::Honest);
    pub(super) const SILENT: Step = Step::plain(What::Nothing);
    pub(super) const CLOSED: Step = Step::plain(What::Closed);

    const fn plain(what: What) -> Self {
        Step { what, a: 0, b: 0 }
    }
}

/// Steps of three bytes each: what, and two more that say how.
#[derive(Debug)]
pub(super) struct Script {
    bytes: Vec<u8>,
    used: usize,
}

impl Script {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Script {
            bytes: bytes.to_vec(),
            used: 0,
        }
    }

    pub(super) fn step(&mut self) -> Option<Step> {
        let (&[what, a, b], _) = self.bytes.get(self.used..)?.split_first_chunk()?;
        self.used += 3;
        let what = match what % 16 {
            0..=2 => What::Honest,
            3 => What::Tampered(Tampering::Byte),
            4 => What::Tampered(Tampering::Longer),
            5 => What::Tampered(Tampering::FalseSize),
            6 => What::Tampered(Tampering::Twice),
            7 => What::Tampered(Tampering::Refusal),
            8 => What::Tampered(Tampering::OtherTag),
            9 => What::Tampered(Tampering::Kind),
            10 => What::Raw,
            11 => What::Nothing,
            12 => What::Closed,
            13 => What::Pieces,
            14 => What::Intake,
            _ => What::Ended,
        };
        Some(Step { what, a, b })
    }

    /// The next `len` bytes.
    pub(super) fn raw(&mut self, len: u8) -> Vec<u8> {
        let rest = self.bytes.get(self.used..).unwrap_or_default();
        let bytes = rest.get(..rest.len().min(len.into())).unwrap_or_default();
        self.used += bytes.len();
        bytes.to_vec()
    }
}
