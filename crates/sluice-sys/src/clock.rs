//! Time.

use sluice_vfs::Timestamp;

/// The time that the kernel stamps files with, which moves on every few
/// milliseconds (`CLOCK_REALTIME_COARSE`). Not by rustix: that panics where the
/// kernel's vDSO has no getcpu, as user-mode Linux's.
pub fn stamping_time() -> Timestamp {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call stores one `struct timespec`, for which `now` is the room.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    debug_assert_eq!(outcome, 0, "every Linux has that clock");
    Timestamp {
        sec: now.tv_sec,
        nsec: u32::try_from(now.tv_nsec).unwrap_or(0),
    }
}
