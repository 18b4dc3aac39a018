//! The threads that ask the kernel for something.

use std::fs;

/// `SIGKILL` in a mask of signals.
const KILL: u64 = 1 << 8;

/// Whether a thread is being killed. Until its request is answered the kernel keeps it,
/// and tells a file system of signals only once and without their numbers.
pub(super) fn is_being_killed(thread: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|status| is_kill_pending(&status))
}

fn is_kill_pending(status: &str) -> bool {
    let mut lines = status.lines();
    let pending = lines.find_map(|line| line.strip_prefix("SigPnd:"));
    let mask = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & KILL != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_kill_is_read_from_the_status() {
        let status = |mask| format!("Name:\tcat\nState:\tD\nSigPnd:\t{mask}\nShdPnd:\t100\n");
        assert!(is_kill_pending(&status("0000000000004100")));
        assert!(!is_kill_pending(&status("0000000000004000")));
        assert!(!is_kill_pending("Name:\tcat\n"));
        assert!(!is_being_killed(std::process::id()));
    }
}
