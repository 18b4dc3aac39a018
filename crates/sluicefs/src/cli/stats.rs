//! `sluice stats`.

use crate::failure::Failure;
use crate::mount;
use crate::remote::written;
use clap::Args;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Tell what a mount of `sluice mount` did so far.
///
/// The options that it was mounted with, and requests of the kernel; of a mounted
/// server also messages to it and from it by their length, how long replies were
/// waited for, and for how much of the time at least one request waited, also for a
/// server that was away. Where to read the clock is a system call, times are taken of
/// one wait for a reply in eight, which stands for all of them. For its owner and root.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct StatsArgs {
    /// Where it is mounted
    #[arg(value_name = "MNT")]
    target: PathBuf,

    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Files:
  /run/sluice, $XDG_RUNTIME_DIR/sluice  sockets on which mounts answer

Examples:
    sluice stats /mnt
    sluice stats --json /mnt | jq .server.waited_seconds";

impl StatsArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let stats = mount::fetch_stats(&self.target)?;
        let text = match self.json {
            true => format!("{stats}\n"),
            false => in_words(&stats),
        };
        written(io::stdout().write_all(text.as_bytes()))
    }
}

fn in_words(stats: &Value) -> String {
    let text = |name: &str| stats[name].as_str().unwrap_or_default();
    let mut out = format!("{} on {}\n", text("source"), text("target"));
    if !text("options").is_empty() {
        line(&mut out, "mounted with", text("options"));
    }
    line(
        &mut out,
        "requests of the kernel",
        &stats["requests"].to_string(),
    );
    let server = &stats["server"];
    let seconds = |name: &str| server[name].as_f64().unwrap_or(0.0);
    let (uptime, waited) = (seconds("uptime_seconds"), seconds("waited_seconds"));
    if !server.is_object() {
        return out;
    }
    let share = 100.0 * waited / uptime.max(1e-9);
    let waited = format!("{waited:.3} s of {uptime:.1} s ({share:.1} %)");
    line(&mut out, "waited for the server", &waited);
    line(
        &mut out,
        "payload bytes copied",
        &server["copied_bytes"].to_string(),
    );
    line(
        &mut out,
        "replies waited for",
        &server["replies_waited"].to_string(),
    );
    for (title, name, unit) in [
        ("messages sent", "sent_bytes", "bytes"),
        ("messages received", "received_bytes", "bytes"),
        ("waits for replies", "reply_microseconds", "µs"),
    ] {
        histogram(&mut out, title, &server[name], unit);
    }
    out
}

fn line(out: &mut String, title: &str, value: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{title:<24}{value}");
}

/// Its sums, and a line for each bucket with something in it.
fn histogram(out: &mut String, title: &str, values: &Value, unit: &str) {
    let (count, sum) = (&values["count"], &values["sum"]);
    line(out, title, &format!("{count}, {sum} {unit} in all"));
    for bucket in values["buckets"].as_array().into_iter().flatten() {
        let (bound, count) = (&bucket[0], &bucket[1]);
        let range = match bound.as_u64() {
            Some(bound) => format!("up to {bound} {unit}"),
            None => format!("more {unit}"),
        };
        let _ = writeln!(out, "  {range:<22}{count}");
    }
}

#[cfg(test)]
mod tests {
    use super::in_words;
    use serde_json::json;

    #[test]
    fn figures_stand_in_columns() {
        let mut stats = json!({"source": "unix:s", "target": "/mnt", "requests": 7});
        let first = "unix:s on /mnt\nrequests of the kernel  7\n";
        assert_eq!(in_words(&stats), first);
        stats["options"] = json!("ro,soft");
        let first = "\
unix:s on /mnt
mounted with            ro,soft
requests of the kernel  7
";
        let empty = json!({"count": 0, "sum": 0, "buckets": []});
        stats["server"] = json!({
            "uptime_seconds": 20.0,
            "waited_seconds": 5.0,
            "copied_bytes": 12,
            "replies_waited": 5,
            "sent_bytes": {"count": 3, "sum": 70, "buckets": [[32, 2], [null, 1]]},
            "received_bytes": empty,
            "reply_microseconds": empty,
        });
        let expected = "\
waited for the server   5.000 s of 20.0 s (25.0 %)
payload bytes copied    12
replies waited for      5
messages sent           3, 70 bytes in all
  up to 32 bytes        2
  more bytes            1
messages received       0, 0 bytes in all
waits for replies       0, 0 µs in all
";
        assert_eq!(in_words(&stats), format!("{first}{expected}"));
    }
}
