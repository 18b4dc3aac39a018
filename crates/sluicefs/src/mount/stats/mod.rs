//! What a mount did so far, for `sluice stats` and for Prometheus.
//!
//! A thread of the mount answers requests in HTTP, one after another: on a socket
//! where `sluice stats` finds it by the mount's number (`place`), and where
//! `--metrics` says. `figures` puts into words what is counted elsewhere, `http`
//! speaks, and `fetch` asks.

mod fetch;
mod figures;
mod http;
mod place;

pub(crate) use fetch::fetch;
pub(super) use fetch::options_of;
pub(super) use figures::Figures;
pub(super) use http::Listener;
pub use http::MetricsAddress;

use crate::failure::Failure;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Answers until it is dropped.
#[derive(Debug)]
pub(super) struct StatsServer {
    end: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl StatsServer {
    /// Begins to answer for the mount with the number `device`, and at `metrics`.
    /// Where it cannot be found by its number, `sluice stats` does not work, and
    /// that is all.
    ///
    /// # Errors
    /// An address that cannot be had; no thread.
    pub(super) fn start(
        figures: Figures,
        device: &str,
        metrics: Option<Listener>,
    ) -> Result<Self, Failure> {
        let own = place::bind(device)
            .inspect_err(|error| tracing::debug!(%error, "sluice stats will not find this mount"));
        let listeners: Vec<_> = own.into_iter().chain(metrics).collect();
        let end = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| cannot_start(&errno.into()))?;
        let end = Arc::new(end);
        let ended = Arc::clone(&end);
        let thread = std::thread::Builder::new()
            .name("stats".into())
            .spawn(move || answer_all(&listeners, &ended, &figures))
            .map_err(|error| cannot_start(&error))?;
        Ok(StatsServer {
            end,
            thread: Some(thread),
        })
    }
}

/// Listens for those who want metrics.
///
/// # Errors
/// An address that cannot be had.
pub(super) fn listen(address: &MetricsAddress) -> Result<Listener, Failure> {
    Listener::bind(address)
}

fn cannot_start(error: &std::io::Error) -> Failure {
    let words = crate::failure::system_words(error);
    Failure::new(format!("cannot answer questions about the mount: {words}"))
}

fn answer_all(listeners: &[Listener], ended: &OwnedFd, figures: &Figures) {
    loop {
        let mut polled = vec![PollFd::new(ended, PollFlags::IN)];
        let fds = listeners.iter().map(AsFd::as_fd);
        polled.extend(fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return tracing::error!(%error, "no more answers about the mount"),
        }
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        if ready.next() == Some(true) {
            return;
        }
        let ready: Vec<_> = ready.collect();
        for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
            listener.answer_one(figures);
        }
    }
}

impl Drop for StatsServer {
    fn drop(&mut self) {
        // An eventfd takes a count that it has room for.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
