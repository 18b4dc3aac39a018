//! Signals that ask a command to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::{Handle, Signals};
use std::ffi::c_int;
use std::io;
use std::thread::JoinHandle;

/// Users, terminals and service managers.
pub(crate) const FROM_USERS: &[c_int] = &[SIGINT, SIGTERM, SIGHUP];

/// A process of this program that others send theirs to.
pub(crate) const FROM_OUTSIDE: &[c_int] = &[SIGUSR1];

/// Such signals, which no longer end the process and wait until somebody acts on
/// them.
pub(crate) struct EndSignals(Signals);

impl EndSignals {
    pub(crate) fn register(signals: &[c_int]) -> io::Result<Self> {
        Signals::new(signals).map(EndSignals)
    }

    /// Calls `act` for every one, on a thread of its own.
    pub(crate) fn act(self, act: impl Fn(EndSignal) + Send + 'static) -> io::Result<OnEndSignal> {
        let EndSignals(mut signals) = self;
        let handle = signals.handle();
        let act_on_all = move || {
            for (earlier, number) in signals.forever().enumerate() {
                act(EndSignal { earlier, number });
            }
        };
        let thread = std::thread::Builder::new()
            .name("signals".into())
            .spawn(act_on_all)?;
        Ok(OnEndSignal {
            handle,
            thread: Some(thread),
        })
    }
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndSignal {
    /// How many came before.
    pub(crate) earlier: usize,
    number: c_int,
}

impl EndSignal {
    /// Ends the process as it would have without us: whoever waits for it sees that it
    /// was interrupted.
    pub(crate) fn end_process(self) -> ! {
        let _ = signal_hook::low_level::emulate_default_handler(self.number);
        std::process::exit(1)
    }
}

/// Calls a function for every such signal until dropped.
pub(crate) struct OnEndSignal {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl OnEndSignal {
    /// Registers those of users, and acts.
    pub(crate) fn new(act: impl Fn(EndSignal) + Send + 'static) -> io::Result<Self> {
        EndSignals::register(FROM_USERS)?.act(act)
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
