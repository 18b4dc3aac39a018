//! Tversion: what is offered, and what may come back.

use crate::error::{Error, Lost, Result, Violation};
use crate::options::{Agreed, ConnectOptions};
use crate::transport::Transport;
use sluice_proto::p9::wire::{
    Dialect, HEADER_LEN, Header, MSIZE_MIN, NOTAG, Reply, Request, Str, VERSION_UNKNOWN,
    decode_reply, encode_request,
};
use std::borrow::Cow;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::time::{Duration, Instant};

/// Longest Rversion that is taken in, and longest error in its place.
const REPLY_MAX: usize = 1024;

/// Agrees with the server on a dialect: each that may be spoken is offered
/// until one is taken. A server may answer with a lesser one.
pub(crate) fn negotiate(transport: &dyn Transport, options: &ConnectOptions) -> Result<Agreed> {
    if options.msize < MSIZE_MIN {
        return Err(Error::Connect(format!(
            "messages of {} bytes are too short for 9P; offer {MSIZE_MIN} at least",
            options.msize
        )));
    }
    let mut answer = Vec::new();
    for (index, offered) in options.dialects.iter().enumerate() {
        exchange(transport, *offered, options, &mut answer)?;
        let lesser = options.dialects.get(index..).unwrap_or_default();
        if let Some(agreed) = judge(&answer, options.msize, lesser)? {
            return Ok(agreed);
        }
    }
    let said = words_of(&answer).escape_debug().to_string();
    Err(Error::Connect(format!(
        "the server speaks none of the dialects of 9P that were offered (it says \"{said}\")"
    )))
}

/// What an answer comes to: agreement, or that the next dialect is to be tried.
fn judge(answer: &[u8], msize_offered: u32, lesser: &[Dialect]) -> Result<Option<Agreed>> {
    // Errors look different in each dialect, and mean "no" in all.
    let Ok(message) = decode_reply(answer, 0, Dialect::Plan9) else {
        return match is_error(answer) {
            true => Ok(None),
            false => Err(Violation::Version.into()),
        };
    };
    let (msize, version) = match message.result {
        Ok(Reply::Version { msize, version }) => (msize, version.0),
        Ok(_) => return Err(Violation::Version.into()),
        Err(_) => return Ok(None),
    };
    if message.tag != NOTAG {
        return Err(Violation::Tag(message.tag).into());
    }
    if version == VERSION_UNKNOWN {
        return Ok(None);
    }
    let dialect = lesser.iter().find(|dialect| dialect.version() == version);
    let Some(dialect) = dialect.copied() else {
        return Ok(None);
    };
    if msize > msize_offered || msize < MSIZE_MIN {
        return Err(Violation::Value("the msize of its Rversion").into());
    }
    Ok(Some(Agreed { dialect, msize }))
}

/// What an answer that is no agreement says: a version, or why not.
fn words_of(answer: &[u8]) -> Cow<'_, str> {
    let said = match decode_reply(answer, 0, Dialect::Plan9).map(|message| message.result) {
        Ok(Ok(Reply::Version { version, .. })) => version.0,
        Ok(Err(failure)) => failure.ename.0,
        _ => answer.get(HEADER_LEN..).unwrap_or_default(),
    };
    String::from_utf8_lossy(said)
}

/// Whether it is an Rlerror or an Rerror.
fn is_error(answer: &[u8]) -> bool {
    matches!(answer.get(4), Some(7 | 107))
}

/// Whether it is one of these, or an Rversion.
fn is_answer(answer: &[u8]) -> bool {
    is_error(answer) || matches!(answer.get(4), Some(101))
}

/// What speaks no 9P often says in words what it is, and how it began is here.
fn foreign(transport: &dyn Transport, start: &[u8]) -> Error {
    let mut rest = [0; 64];
    let len = transport.receive(&mut [IoSliceMut::new(&mut rest)], false);
    let rest = rest.get(..len.unwrap_or(0)).unwrap_or_default();
    let said = [start, rest].concat();
    let line = said.split(|byte| matches!(byte, b'\r' | b'\n')).next();
    let line = String::from_utf8_lossy(line.unwrap_or_default()).into_owned();
    Error::Foreign(match line.contains(|c: char| !(' '..='~').contains(&c)) {
        true => String::new(),
        false => format!(" (it says \"{line}\")"),
    })
}

fn exchange(
    transport: &dyn Transport,
    dialect: Dialect,
    options: &ConnectOptions,
    answer: &mut Vec<u8>,
) -> Result<()> {
    let request = Request::Version {
        msize: options.msize,
        version: Str(dialect.version()),
    };
    let mut message = [0; 64];
    let len = encode_request(NOTAG, &request, Dialect::Plan9, &mut message);
    let len = len.map_err(|_| Error::TooLong)?;
    let deadline = deadline(options.time_limit);
    let mut rest = message.get(..len).unwrap_or_default();
    while !rest.is_empty() {
        match transport.send(&[IoSlice::new(rest)]) {
            Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                check(deadline, options)?;
                transport
                    .wait_to_send(false, Duration::from_millis(100))
                    .map_err(Lost::from)?;
            }
            // What it said before it went is there to be read.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            Err(error) => return Err(Lost::from(error).into()),
        }
    }
    answer.clear();
    answer.resize(HEADER_LEN, 0);
    fill(transport, answer, deadline, options)?;
    let header = Header::peek(answer).map_err(Violation::from)?;
    let size = header.size as usize;
    if !(HEADER_LEN..=REPLY_MAX).contains(&size) || !is_answer(answer) {
        return Err(foreign(transport, answer));
    }
    answer.resize(size, 0);
    let body = answer.get_mut(HEADER_LEN..).unwrap_or_default();
    fill(transport, body, deadline, options)
}

fn fill(
    transport: &dyn Transport,
    mut rest: &mut [u8],
    deadline: Option<Instant>,
    options: &ConnectOptions,
) -> Result<()> {
    while !rest.is_empty() {
        match transport.receive(&mut [IoSliceMut::new(rest)], true) {
            Ok(0) => return Err(Lost::Closed.into()),
            Ok(count) => rest = rest.get_mut(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => check(deadline, options)?,
            Err(error) => return Err(Lost::from(error).into()),
        }
    }
    Ok(())
}

/// When so much time has passed; never, also if that is too long to be told.
pub(crate) fn deadline(limit: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(limit?)
}

fn check(deadline: Option<Instant>, options: &ConnectOptions) -> Result<()> {
    match deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        true => Err(Error::TimedOut(options.time_limit.unwrap_or_default())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_proto::p9::wire::{Failure, encode_failure, encode_reply};

    fn rversion(msize: u32, version: &str) -> Vec<u8> {
        let version = Str(version.as_bytes());
        let mut buf = vec![0; 256];
        let reply = Reply::Version { msize, version };
        let len = encode_reply(NOTAG, &reply, Dialect::Plan9, &mut buf).unwrap();
        buf.truncate(len);
        buf
    }

    #[test]
    fn an_answer_is_a_dialect_that_was_offered_or_no() {
        let all = [Dialect::Linux, Dialect::Unix, Dialect::Plan9];
        let judged = |version: &str, lesser: &[Dialect]| {
            judge(&rversion(8192, version), 8192, lesser).map(|it| it.map(|it| it.dialect))
        };
        assert_eq!(judged("9P2000.L", &all), Ok(Some(Dialect::Linux)));
        assert_eq!(judged("9P2000", &all), Ok(Some(Dialect::Plan9)));
        assert_eq!(judged("unknown", &all), Ok(None));
        assert_eq!(judged("9P2000.L", &all[1..]), Ok(None));
        assert_eq!(judged("9P2000.L.Google.7", &all), Ok(None));
    }

    #[test]
    fn an_error_is_a_no_and_nonsense_is_an_error() {
        let failure = Failure {
            ename: Str(b"what?"),
            errno: 22,
        };
        for dialect in Dialect::ALL {
            let mut buf = vec![0; 64];
            let len = encode_failure(NOTAG, &failure, dialect, &mut buf).unwrap();
            assert_eq!(judge(&buf[..len], 8192, &Dialect::ALL), Ok(None));
        }
        for (msize, version) in [(8193, "9P2000.L"), (4095, "9P2000.L")] {
            let judged = judge(&rversion(msize, version), 8192, &Dialect::ALL);
            assert!(matches!(judged, Err(Error::Violation(_))), "{msize}");
        }
        assert!(judge(&[7, 0, 0, 0, 121, 0, 0], 8192, &Dialect::ALL).is_err());
    }

    #[test]
    fn what_a_server_says_is_told_without_the_bytes_around_it() {
        let failure = Failure {
            ename: Str(b"no such version"),
            errno: 22,
        };
        let mut refused = vec![0; 64];
        let len = encode_failure(NOTAG, &failure, Dialect::Plan9, &mut refused).unwrap();
        assert_eq!(words_of(&refused[..len]), "no such version");
        assert_eq!(words_of(&rversion(8192, "unknown")), "unknown");
        assert_eq!(words_of(b"\x0b\0\0\0\x07\xff\xff\x05\0\0\0"), "\x05\0\0\0");
    }
}
