//! POSIX cases: real system calls on a directory, as programs make them.
//!
//! The neck's [conformance](crate::conformance) cases call a service; these ask
//! a kernel, and so run wherever a directory is: on a local disk (the oracle of
//! the cases themselves), through `/dev/fuse`, in a guest. The program `posix`
//! runs them and prints [TAP](https://testanything.org).
//!
//! A [`Case`] works in a fresh directory, its [`Place`], on a thread with a
//! umask of its own. What it [`Need`]s is tried once per run; what cannot be
//! had skips the cases that need it, with the reason.

mod cases;
mod harness;
mod helper;
mod need;
mod place;

pub use cases::all as all_cases;
pub use harness::{Case, Outcome, run};
pub use helper::{HELPER, run as run_helper};
pub use need::Need;
pub use place::Place;
