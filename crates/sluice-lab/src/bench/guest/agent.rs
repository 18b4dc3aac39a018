//! The part of the bench that runs in a guest: does what it is told, and says
//! how long that took.
//!
//! An order is a line, `prepare NAME` or `run NAME`; the answer is a line too,
//! `ready`, `done OPERATIONS NANOSECONDS` (of one operation) or `failed WHY`.

use super::work::{self, Measured, Place, ShareMount};
use crate::bench::error::{BenchError, Context};
use std::io::{self, BufRead, Write};
use std::path::Path;

/// Obeys orders until there are no more: about the share that `mount` has mounted
/// at [`MOUNTED_AT`](super::MOUNTED_AT), in its directory `own`.
///
/// # Errors
/// When nobody listens any more.
pub fn obey(mount: &ShareMount, own: &str) -> Result<(), BenchError> {
    let place = Place::new(mount, Path::new(super::MOUNTED_AT), own);
    let taken_over = place.take_over();
    for order in io::stdin().lock().lines() {
        let order = order?;
        let outcome = match &taken_over {
            Ok(()) => carry_out(&place, &order),
            Err(error) => Err(BenchError::new(error.to_string())),
        };
        let answer = match outcome {
            Ok(answer) => answer,
            Err(error) => format!("failed {}", error.to_string().replace('\n', " / ")),
        };
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{answer}").context("standard output")?;
    }
    Ok(())
}

fn carry_out(place: &Place, order: &str) -> Result<String, BenchError> {
    let (verb, name) = order
        .split_once(' ')
        .ok_or_else(|| BenchError::new(format!("no order: {order}")))?;
    let work = work::find(name)?;
    match verb {
        "prepare" => {
            (work.prepare)(place)?;
            Ok("ready".to_owned())
        }
        "run" => {
            let Measured { operations, ns } = (work.run)(place)?;
            Ok(format!("done {operations} {ns:.1}"))
        }
        _ => Err(BenchError::new(format!("no order: {order}"))),
    }
}

/// What the host reads out of an answer to `run`.
pub(in crate::bench) fn parse_done(answer: &str) -> Result<Measured, BenchError> {
    let numbers = answer
        .strip_prefix("done ")
        .and_then(|rest| rest.split_once(' '));
    let measured = numbers.and_then(|(operations, ns)| {
        Some(Measured {
            operations: operations.parse().ok()?,
            ns: ns.parse().ok()?,
        })
    });
    measured
        .ok_or_else(|| BenchError::new(answer.strip_prefix("failed ").unwrap_or(answer).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_what_was_measured_or_why_not() {
        let measured = parse_done("done 12 3456.7").unwrap();
        assert_eq!((measured.operations, measured.ns), (12, 3456.7));
        for (answer, why) in [("failed no room", "no room"), ("done 12", "done 12")] {
            assert_eq!(parse_done(answer).err().unwrap().to_string(), why);
        }
    }

    #[test]
    fn unknown_orders_are_refused() {
        let mount = ShareMount {
            source: "tag".into(),
            filesystem: "virtiofs".into(),
            options: String::new(),
            in_memory: false,
        };
        let place = Place::new(&mount, Path::new("/nowhere"), "own");
        for order in ["run", "dance stat", "run nothing of the kind"] {
            assert!(carry_out(&place, order).is_err(), "{order}");
        }
    }
}
