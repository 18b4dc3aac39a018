//! The threads that ask the kernel for something.

use std::fs;

/// `SIGKILL` in a mask of signals.
const KILL: u64 = 1 << 8;

/// Whether a thread is being killed. Until its request is answered the kernel keeps it,
/// and tells a file system of signals only once and without their numbers.
///
/// Once the thread is on its way out, and gives up its locks, the signal is pending only
/// for its process, where it stands only if that dies.
pub(super) fn is_being_killed(thread: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|status| is_kill_pending(&status))
}

fn is_kill_pending(status: &str) -> bool {
    let mut masks = status.lines().filter_map(|line| {
        let of_thread = line.strip_prefix("SigPnd:");
        let mask = of_thread.or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    masks.any(|mask| mask & KILL != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_kill_is_read_from_the_status() {
        let status = |thread, process| {
            format!("Name:\tcat\nState:\tD\nSigPnd:\t{thread}\nShdPnd:\t{process}\nSigBlk:\t100\n")
        };
        let (none, kill) = ("0000000000004000", "0000000000004100");
        for (thread, process, expected) in [
            (none, none, false),
            (kill, none, true),
            (none, kill, true),
            (kill, kill, true),
        ] {
            assert_eq!(is_kill_pending(&status(thread, process)), expected);
        }
        assert!(!is_kill_pending("Name:\tcat\n"));
        assert!(!is_being_killed(std::process::id()));
    }
}
