//! Linux error numbers, the one kind of error that crosses the neck.

use crate::name::InvalidName;
use std::fmt;
use std::io;

/// A Linux error number between 1 and 4095, as both wire formats carry it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(u16);

/// Declares the named constants and [`Errno::name`] from one list.
macro_rules! errnos {
    ($($name:ident = $value:literal,)*) => {
        impl Errno {
            $(
                #[doc = concat!("Linux `", stringify!($name), "` (", stringify!($value), ").")]
                pub const $name: Errno = Errno($value);
            )*

            /// The symbolic name, where this list has it.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

// asm-generic/errno-base.h and asm-generic/errno.h.
errnos! {
    EPERM = 1, ENOENT = 2, ESRCH = 3, EINTR = 4, EIO = 5, ENXIO = 6, E2BIG = 7, ENOEXEC = 8,
    EBADF = 9, ECHILD = 10, EAGAIN = 11, ENOMEM = 12, EACCES = 13, EFAULT = 14, ENOTBLK = 15,
    EBUSY = 16, EEXIST = 17, EXDEV = 18, ENODEV = 19, ENOTDIR = 20, EISDIR = 21, EINVAL = 22,
    ENFILE = 23, EMFILE = 24, ENOTTY = 25, ETXTBSY = 26, EFBIG = 27, ENOSPC = 28, ESPIPE = 29,
    EROFS = 30, EMLINK = 31, EPIPE = 32, EDOM = 33, ERANGE = 34, EDEADLK = 35,
    ENAMETOOLONG = 36, ENOLCK = 37, ENOSYS = 38, ENOTEMPTY = 39, ELOOP = 40, ENODATA = 61,
    ETIME = 62, ENOLINK = 67, EPROTO = 71, EBADMSG = 74, EOVERFLOW = 75, EILSEQ = 84,
    EUSERS = 87, ENOTSOCK = 88, EMSGSIZE = 90, EOPNOTSUPP = 95, ENOTCONN = 107,
    ESHUTDOWN = 108, ETIMEDOUT = 110, ECONNREFUSED = 111, EALREADY = 114, ESTALE = 116,
    EUCLEAN = 117, EDQUOT = 122, ECANCELED = 125, ENOKEY = 126,
}

impl Errno {
    /// Linux `EWOULDBLOCK`, the same number as [`Errno::EAGAIN`].
    pub const EWOULDBLOCK: Errno = Errno::EAGAIN;
    /// Linux `ENOTSUP`, the same number as [`Errno::EOPNOTSUPP`].
    pub const ENOTSUP: Errno = Errno::EOPNOTSUPP;

    /// An errno from its number; what lies outside 1…4095 becomes `EIO`.
    pub const fn from_raw(number: i32) -> Self {
        if number >= 1 && number <= 4095 {
            Errno(number as u16)
        } else {
            Errno::EIO
        }
    }

    /// The (positive) number.
    pub const fn raw(self) -> i32 {
        self.0 as i32
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.raw()).fmt(f)
    }
}

impl std::error::Error for Errno {}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Errno::from_raw(errno.raw_os_error())
    }
}

impl From<io::Error> for Errno {
    /// Keeps the operating system's number; errors that have none are `EIO`.
    fn from(error: io::Error) -> Self {
        error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        io::Error::from_raw_os_error(errno.raw())
    }
}

impl From<InvalidName> for Errno {
    /// As Linux answers such names: too long is `ENAMETOOLONG`, the rest `EINVAL`.
    fn from(why: InvalidName) -> Self {
        match why {
            InvalidName::TooLong => Errno::ENAMETOOLONG,
            InvalidName::Empty | InvalidName::Dots | InvalidName::Slash | InvalidName::Nul => {
                Errno::EINVAL
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_the_wire_range() {
        assert_eq!(Errno::from_raw(0), Errno::EIO);
        assert_eq!(Errno::from_raw(-5), Errno::EIO);
        assert_eq!(Errno::from_raw(4096), Errno::EIO);
        assert_eq!(Errno::from_raw(39), Errno::ENOTEMPTY);
        assert_eq!(Errno::from(io::Error::other("no number")), Errno::EIO);
    }

    #[test]
    fn constants_agree_with_the_system_headers() {
        for (ours, theirs) in [
            (Errno::ENOTEMPTY, rustix::io::Errno::NOTEMPTY),
            (Errno::ENODATA, rustix::io::Errno::NODATA),
            (Errno::EOPNOTSUPP, rustix::io::Errno::OPNOTSUPP),
            (Errno::ESTALE, rustix::io::Errno::STALE),
            (Errno::EDQUOT, rustix::io::Errno::DQUOT),
            (Errno::ENOLCK, rustix::io::Errno::NOLCK),
        ] {
            assert_eq!(ours, Errno::from(theirs));
        }
    }
}
