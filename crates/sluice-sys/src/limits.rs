//! Limits of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluice_vfs::Result;

/// Raises the soft limit of open descriptors to the hard one, and returns it;
/// `u64::MAX` if there is none.
pub fn raise_nofile_limit() -> Result<u64> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )?;
    Ok(maximum.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        let raised = raise_nofile_limit().unwrap();
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current, now.maximum);
        assert_eq!(now.current.unwrap_or(u64::MAX), raised);
    }
}
