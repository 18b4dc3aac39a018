//! What the guest's init tells the host.

use std::io::{self, BufRead, Read};

/// One report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// Everything is mounted; the command starts.
    Ready,
    /// The command ended with this status; everything it wrote has left the guest.
    Exit(u8),
    /// It could not be started.
    Error(String),
}

/// No line of init's is longer.
const LINE_BYTES: u64 = 8192;

/// The next line behind the nonce; what others wrote to the line is passed
/// over. `None` at the end.
pub(super) fn next(from: &mut impl BufRead, nonce: &str) -> io::Result<Option<Report>> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if from
            .by_ref()
            .take(LINE_BYTES)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(None);
        }
        if let Some(report) = parse(&line, nonce) {
            return Ok(Some(report));
        }
    }
}

fn parse(line: &[u8], nonce: &str) -> Option<Report> {
    let line = String::from_utf8_lossy(line.strip_suffix(b"\n")?);
    let report = line.strip_prefix(nonce)?.strip_prefix(' ')?;
    let (word, rest) = report.split_once(' ')?;
    match word {
        "ready" => Some(Report::Ready),
        "exit" => rest.parse().ok().map(Report::Exit),
        "error" => Some(Report::Error(rest.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_init_is_believed() {
        let long = "x".repeat(20_000);
        let lines = format!(
            "exit 0\nother exit 0\n\nword\nword exit\nword exit 256\nword exit 0 \nword dance 1\n\
             \u{fffd}{long}\nword ready 1.04\nwordexit 0\nword error cannot mount a b\nword exit 137\n\
             word exit 0"
        );
        let mut from = lines.as_bytes();
        let mut reports = Vec::new();
        while let Some(report) = next(&mut from, "word").unwrap() {
            reports.push(report);
        }
        assert_eq!(
            reports,
            [
                Report::Ready,
                Report::Error("cannot mount a b".into()),
                Report::Exit(137)
            ]
        );
    }
}
