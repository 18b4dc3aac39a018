//! What isolation costs a request.

use super::cells::CELLS;
use super::device::{Program, VirtioFs};
use super::{Poll, names};
use crate::bench::contest::{self, Entrant, Extent, Role};
use crate::bench::error::BenchError;
use crate::bench::report::Table;

const ISOLATED: &[&str] = &["--cache=auto"];
/// Landlock and fewer capabilities remain: nothing turns them off.
const FREE: &[&str] = &["--cache=auto", "--sandbox=none", "--seccomp=none"];

/// Compares Sluice as it isolates itself by default to one that does so as little
/// as it can.
///
/// # Errors
/// When a server does not start.
pub(super) fn run(
    start: impl Fn(&Program, usize) -> Result<VirtioFs, BenchError>,
    extent: &Extent,
) -> Result<Table, BenchError> {
    let poll = Poll::Auto;
    let sluice = |flags| Program::Sluice { flags, poll };
    let mut entrants = Vec::new();
    for (label, role, program) in [
        ("isolated", Role::Subject, sluice(ISOLATED)),
        ("isolated again", Role::Control, sluice(ISOLATED)),
        ("not isolated", Role::Peer, sluice(FREE)),
        ("null server", Role::Floor, Program::Null { poll }),
    ] {
        entrants.push(Entrant {
            label: label.to_owned(),
            role,
            contestant: start(&program, entrants.len())?,
        });
    }
    let rows = contest::hold(CELLS, &mut entrants, extent, |cell| {
        eprintln!("bench: raw vhost-user, isolation: {cell}");
    });
    Ok(Table {
        title: "raw vhost-user, isolation".to_owned(),
        notes: vec![
            "sluice against itself: as by default, and with --sandbox=none \
             --seccomp=none"
                .to_owned(),
        ],
        entrants: names(&entrants),
        rows,
    })
}
