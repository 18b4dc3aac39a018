//! Waiting for front-ends, serving one after the other.

use super::channel::Channel;
use super::device::Device;
use super::error::Error;
use super::session::{self, Served};
use super::socket_file::SocketFile;
use crate::notify::Event;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A listening unix socket.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    /// Removed with the listener.
    file: Option<SocketFile>,
}

impl Listener {
    /// Listens at `path`. A socket that is there but that nobody listens on any more is
    /// replaced; one in use is an `AddrInUse` error, and so is anything else.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let socket = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)
            }
            outcome => outcome,
        }?;
        let file = Some(SocketFile::find(path)?);
        Ok(Listener { socket, file })
    }

    /// Leaves removing the socket's file to another process. Nothing here leads to
    /// its directory any more.
    pub fn leave_file(&mut self) {
        if let Some(file) = self.file.take() {
            file.leave();
        }
    }

    /// Takes over a socket that listens already; anything else is an `InvalidInput`
    /// error.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let is_unix = rustix::net::getsockname(&fd)
            .is_ok_and(|address| address.address_family() == AddressFamily::UNIX);
        if !is_unix || !sockopt::socket_acceptconn(&fd).unwrap_or(false) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (socket, file) = (fd.into(), None);
        Ok(Listener { socket, file })
    }

    fn accept(&self, stop: &Event) -> io::Result<Option<UnixStream>> {
        self.socket.set_nonblocking(true)?;
        loop {
            let mut fds = [
                PollFd::new(&self.socket, PollFlags::IN),
                PollFd::from_borrowed_fd(stop.as_owned().as_fd(), PollFlags::IN),
            ];
            match rustix::event::poll(&mut fds, None) {
                Ok(_) if stop.is_raised() => return Ok(None),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            match self.socket.accept() {
                Ok((stream, _)) => return Ok(Some(stream)),
                // The peer may be gone again.
                Err(error) if is_transient(&error) => {}
                Err(error) if is_shortage(&error) => stop.wait(SHORTAGE_PAUSE)?,
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Listener {
    /// For other protocols than vhost-user, which take connections themselves.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_abandoned(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
}

/// Out of descriptors or memory: the connection can wait until some are free.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// How long to let such a connection wait before the next attempt.
const SHORTAGE_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Serves a device to front-ends, one at a time.
#[derive(Clone)]
pub struct Backend {
    device: Arc<dyn Device>,
    stop: Arc<Event>,
}

impl Backend {
    /// A back-end for `device`.
    pub fn new(device: Arc<dyn Device>) -> io::Result<Self> {
        let stop = Arc::new(Event::new()?);
        Ok(Backend { device, stop })
    }

    /// What stops it, from any thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Waits for the next front-end and serves it to the end. An error is that
    /// connection's; others can be served after it.
    pub fn serve_next(&self, listener: &Listener) -> Result<Served, Error> {
        let failed = |error| Error::Io("cannot accept a connection", error);
        match listener.accept(&self.stop).map_err(failed)? {
            Some(stream) => self.serve(stream),
            None => Ok(Served::Stopped),
        }
    }

    /// Serves a front-end that is connected already.
    pub fn serve(&self, stream: UnixStream) -> Result<Served, Error> {
        let channel = Channel::new(stream).with_stop(self.stop.clone());
        session::serve(self.device.clone(), channel)
    }

    /// Serves one front-end after the other on a thread of its own, until `after`, which
    /// gets to know how each one ended, says to break, or somebody stops the back-end.
    pub fn spawn(
        self,
        listener: Listener,
        mut after: impl FnMut(Result<Served, Error>) -> ControlFlow<()> + Send + 'static,
    ) -> io::Result<Running> {
        let stopper = self.stopper();
        let serve = move || {
            loop {
                let outcome = self.serve_next(&listener);
                let stopped = matches!(outcome, Ok(Served::Stopped));
                if after(outcome).is_break() || stopped {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("vhost-user".into())
            .spawn(serve)?;
        let thread = Some(thread);
        Ok(Running { stopper, thread })
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backend").finish_non_exhaustive()
    }
}

/// Stops a [`Backend`]: the connection being served ends when its rings are stopped, and
/// no other one is accepted.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Event>);

impl Stopper {
    /// Asks it to stop; does not wait.
    pub fn stop(&self) {
        self.0.raise();
    }
}

/// A back-end on its own thread; stopped when dropped.
#[derive(Debug)]
pub struct Running {
    stopper: Stopper,
    /// `None` once joined.
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// What stops it, from any thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until it ends by itself.
    pub fn join(mut self) {
        self.join_thread();
    }

    fn join_thread(&mut self) {
        let thread = self.thread.take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that serves front-ends panicked");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.join_thread();
    }
}
