//! Locks that are owned by an open file description, and a way to call a
//! thread back that waits for one.

use rustix::fd::{AsRawFd, BorrowedFd};
use sluice_vfs::{Errno, Lock, LockKind, LockRange, LockStyle, Result};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

/// Takes, changes or gives up the byte-range lock of `fd`'s open file
/// description. With `wait` it blocks until the lock is free, and ends with
/// `EINTR` when the thread gets a signal; without, it fails with `EAGAIN`.
///
/// These locks and those of fcntl(2)'s `F_SETLK` exclude each other, so
/// processes of the host see them.
pub fn ofd_lock(fd: BorrowedFd<'_>, kind: LockKind, range: LockRange, wait: bool) -> Result<()> {
    let mut flock = flock_of(kind, range)?;
    let command = if wait {
        libc::F_OFD_SETLKW
    } else {
        libc::F_OFD_SETLK
    };
    ofd_fcntl(fd, command, &mut flock).map_err(|errno| match errno {
        // fcntl(2) allows either for "someone else holds it".
        Errno::EACCES => Errno::EAGAIN,
        other => other,
    })
}

/// A lock that is in the way of `kind` in `range`, held through another open
/// file description or by a process. Its `pid` is the host's, or 0 for a lock
/// of an open file description.
pub fn ofd_conflict(fd: BorrowedFd<'_>, kind: LockKind, range: LockRange) -> Result<Option<Lock>> {
    let mut flock = flock_of(kind, range)?;
    ofd_fcntl(fd, libc::F_OFD_GETLK, &mut flock)?;
    let kind = match i32::from(flock.l_type) {
        libc::F_RDLCK => LockKind::Read,
        libc::F_WRLCK => LockKind::Write,
        _ => return Ok(None),
    };
    let start = u64::try_from(flock.l_start).unwrap_or(0);
    let end = match u64::try_from(flock.l_len) {
        Ok(len) if len > 0 => start.saturating_add(len - 1),
        _ => LockRange::EOF,
    };
    let pid = u32::try_from(flock.l_pid).unwrap_or(0);
    Ok(Some(Lock {
        style: LockStyle::Posix,
        kind,
        range: LockRange { start, end },
        pid,
    }))
}

/// The kernel's form of a lock: a length of 0 reaches to the end.
fn flock_of(kind: LockKind, range: LockRange) -> Result<libc::flock64> {
    let start = i64::try_from(range.start).map_err(|_| Errno::EINVAL)?;
    let end = i64::try_from(range.end).map_err(|_| Errno::EINVAL)?;
    if end < start {
        return Err(Errno::EINVAL);
    }
    let len = if range.end == LockRange::EOF {
        0
    } else {
        end - start + 1
    };
    let l_type = match kind {
        LockKind::Read => libc::F_RDLCK,
        LockKind::Write => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    };
    Ok(libc::flock64 {
        l_type: l_type as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        // Must be 0 for the F_OFD_ commands.
        l_pid: 0,
    })
}

fn ofd_fcntl(fd: BorrowedFd<'_>, command: i32, flock: &mut libc::flock64) -> Result<()> {
    // SAFETY: the F_OFD_ commands take a pointer to a `struct flock64`, which
    // lives throughout the call; `fd` is open for as long as it is borrowed.
    let outcome = unsafe { libc::fcntl(fd.as_raw_fd(), command, ptr::from_mut(flock)) };
    check(outcome)
}

/// Calls one thread out of a system call that blocks: from
/// [`Interrupter::start`] on the thread gets a signal every few milliseconds,
/// so that none can be lost between a look at a flag and the call.
#[derive(Debug)]
pub struct Interrupter {
    timer: libc::timer_t,
}

// SAFETY: `timer_t` names a timer of the process; any thread may use it.
unsafe impl Send for Interrupter {}
// SAFETY: timer_settime(2) may be called from several threads at once.
unsafe impl Sync for Interrupter {}

impl Interrupter {
    const PERIOD: Duration = Duration::from_millis(5);

    /// An interrupter, not started, of the thread that calls this.
    pub fn of_this_thread() -> Result<Self> {
        let signal = interrupt_signal()?;
        // SAFETY: an all-zero `sigevent` is a valid value of that plain C struct.
        let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: both pointers are to live locals of the right types.
        check(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) })?;
        Ok(Interrupter { timer })
    }

    /// Begins to interrupt the thread after `delay` (0: at once), until this
    /// value is dropped. A later call replaces an earlier one's delay.
    pub fn start(&self, delay: Duration) {
        let times = libc::itimerspec {
            it_interval: timespec(Self::PERIOD),
            // All zero would disarm the timer.
            it_value: timespec(delay.max(Duration::from_nanos(1))),
        };
        // SAFETY: the timer exists until drop; `times` is a live local, and no
        // old value is asked for. It can't fail with these arguments.
        unsafe { libc::timer_settime(self.timer, 0, &times, ptr::null_mut()) };
    }
}

impl Drop for Interrupter {
    fn drop(&mut self) {
        // SAFETY: the timer was made by this value and is deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// The signal that interrupts, with a handler that does nothing installed on
/// first use. (An ignored signal would not end a system call.)
fn interrupt_signal() -> Result<i32> {
    extern "C" fn do_nothing(_: i32) {}

    static SIGNAL: OnceLock<Result<i32>> = OnceLock::new();
    *SIGNAL.get_or_init(|| {
        let signal = libc::SIGRTMIN() + 7;
        // SAFETY: an all-zero `sigaction` is a valid value: no flags (so no
        // SA_RESTART) and an empty mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = do_nothing as *const () as libc::sighandler_t;
        // SAFETY: the handler touches nothing, so it may run at any point.
        check(unsafe { libc::sigaction(signal, &action, ptr::null_mut()) })?;
        Ok(signal)
    })
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(duration.subsec_nanos() as i32),
    }
}

fn check(outcome: libc::c_int) -> Result<()> {
    if outcome == -1 {
        Err(io::Error::last_os_error().into())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::thread;

    const HEAD: LockRange = LockRange { start: 0, end: 9 };

    fn two_descriptions() -> (tempfile::NamedTempFile, File) {
        let first = tempfile::NamedTempFile::new().unwrap();
        let second = File::options()
            .read(true)
            .write(true)
            .open(first.path())
            .unwrap();
        (first, second)
    }

    #[test]
    fn two_descriptions_exclude_each_other() {
        let (first, second) = two_descriptions();
        let (first, second) = (first.as_file().as_fd(), second.as_fd());
        ofd_lock(first, LockKind::Write, HEAD, false).unwrap();
        assert_eq!(
            ofd_lock(second, LockKind::Read, HEAD, false),
            Err(Errno::EAGAIN)
        );
        let behind = LockRange {
            start: 10,
            end: LockRange::EOF,
        };
        assert_eq!(ofd_lock(second, LockKind::Write, behind, false), Ok(()));
        let conflict = ofd_conflict(second, LockKind::Read, LockRange::ALL)
            .unwrap()
            .unwrap();
        assert_eq!(
            (conflict.kind, conflict.range, conflict.pid),
            (LockKind::Write, HEAD, 0)
        );
        let conflict = ofd_conflict(first, LockKind::Read, LockRange::ALL)
            .unwrap()
            .unwrap();
        assert_eq!(conflict.range, behind);
        ofd_lock(first, LockKind::Unlock, LockRange::ALL, false).unwrap();
        assert_eq!(
            ofd_conflict(second, LockKind::Write, LockRange::ALL),
            Ok(None)
        );
    }

    #[test]
    fn ranges_that_the_kernel_cannot_express_are_refused() {
        let (file, _) = two_descriptions();
        let fd = file.as_file().as_fd();
        for (start, end) in [(5, 4), (u64::MAX, u64::MAX), (0, u64::MAX)] {
            let range = LockRange { start, end };
            assert_eq!(
                ofd_lock(fd, LockKind::Read, range, false),
                Err(Errno::EINVAL)
            );
        }
    }

    #[test]
    fn a_waiting_thread_can_be_called_back() {
        let (first, second) = two_descriptions();
        ofd_lock(first.as_file().as_fd(), LockKind::Write, HEAD, false).unwrap();
        let (sender, receiver) = mpsc::channel();
        let waiter = thread::spawn(move || {
            sender.send(Interrupter::of_this_thread().unwrap()).unwrap();
            ofd_lock(second.as_fd(), LockKind::Write, HEAD, true)
        });
        // Whether the thread waits already does not matter: the signal repeats.
        let interrupter = receiver.recv().unwrap();
        interrupter.start(Duration::ZERO);
        assert_eq!(waiter.join().unwrap(), Err(Errno::EINTR));
    }
}
