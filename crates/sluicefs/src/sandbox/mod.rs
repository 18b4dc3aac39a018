//! Throw-away Linux guests.
//!
//! A [`Guest`] names a command, what the guest mounts and what it runs on;
//! [`RunningGuest::wait`] returns the command's exit status. `sluice run` is
//! this on the standard streams ([`run`]); tests use it directly.
//!
//! - `machine/` finds user-mode Linux or QEMU and writes its command line.
//! - `initramfs` makes the guest's first root in memory: a static `busybox`,
//!   the script `guest/init`, the kernel `modules` it has to load, and its
//!   orders. Nothing has to be installed in any image.
//! - `share` serves directories to it over virtio-fs, within this process.
//! - `network` gives it an Ethernet, over which it may mount 9P servers.
//! - `line` carries the command's input and output. Beside them, a control
//!   line has init's reports ([`report`]), each behind a random word.
//! - `process` sees to it that no guest outlives us.

mod busybox;
mod console;
mod cpio;
mod error;
mod guest;
mod image;
mod initramfs;
mod line;
mod machine;
mod modules;
mod network;
mod process;
mod report;
mod running;
mod session;
mod share;
mod terminal;

pub use error::GuestError;
pub use guest::{Guest, GuestOutput, GuestStdio};
pub use machine::{MachineChoice, MachineKind};
pub use network::GuestNetwork;
pub use running::{GuestStopper, RunningGuest};
pub use session::run;
pub use share::{GuestRoot, GuestShare, ShareSource, Virtio9pServer};
pub(crate) use terminal::is_interactive;
