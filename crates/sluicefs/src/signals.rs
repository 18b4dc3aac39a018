//! Signals that ask a command to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::thread::JoinHandle;

/// Calls a function for every SIGINT, SIGTERM and SIGHUP, on a thread of its
/// own, until dropped.
pub(crate) struct OnEndSignal {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl OnEndSignal {
    /// Starts listening. `act` is told how many such signals came before.
    pub(crate) fn new(act: impl Fn(usize) + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let thread = std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || signals.forever().enumerate().for_each(|(nth, _)| act(nth)))?;
        Ok(OnEndSignal {
            handle,
            thread: Some(thread),
        })
    }
}

impl Drop for OnEndSignal {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
