//! Groups by name, as the C library knows them.

use rustix::fs::Gid;
use sluice_vfs::{Errno, Result};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr;

/// Longest record of a group that is read, in bytes: members count too.
const RECORD_MAX: usize = 1 << 20;

/// The id of a group; `ENOENT` if there is none of that name.
pub fn group_id(name: &str) -> Result<Gid> {
    let name = CString::new(name).map_err(|_| Errno::ENOENT)?;
    let mut room = vec![0_u8; 4096];
    loop {
        let mut group = MaybeUninit::<libc::group>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: `name` ends with NUL, `group` and `found` can be written, and
        // `room` is as long as is said.
        let outcome = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                group.as_mut_ptr(),
                room.as_mut_ptr().cast(),
                room.len(),
                &raw mut found,
            )
        };
        match outcome {
            0 if found.is_null() => return Err(Errno::ENOENT),
            // SAFETY: the call succeeded and found a group, so it filled it in.
            0 => return Ok(Gid::from_raw(unsafe { group.assume_init() }.gr_gid)),
            libc::ERANGE if room.len() < RECORD_MAX => room.resize(room.len() * 2, 0),
            // getgrnam(3) allows these for a name that is not known.
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Err(Errno::ENOENT),
            error => return Err(std::io::Error::from_raw_os_error(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_nonsense_is_not() {
        assert_eq!(group_id("root").unwrap(), Gid::ROOT);
        for name in ["no such group", "", "ro\0ot"] {
            assert_eq!(group_id(name).unwrap_err(), Errno::ENOENT);
        }
    }
}
