//! What carries messages: a stream of bytes each way.

use crate::address::Address;
use crate::error::{Error, Result, words};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use sluice_sys::{VsockAddr, duplicate_inherited};
use sluice_vfs::Errno;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::time::Duration;

/// A stream of bytes each way, with buffers of the caller's at both ends. Used
/// from many threads, but by one at a time to receive and by one to send.
pub trait Transport: Send + Sync {
    /// How long [`Transport::receive`] waits at most.
    ///
    /// # Errors
    /// What the system says.
    fn set_patience(&self, patience: Duration) -> io::Result<()>;

    /// Receives at least one byte into `bufs`, which have room; 0 means that
    /// the peer has closed. Where so much is known to be on its way, `fills`
    /// says so: it is waited for as long as the patience lasts, in one call.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came for as long as the patience lasts.
    fn receive(&self, bufs: &mut [IoSliceMut<'_>], fills: bool) -> io::Result<usize>;

    /// Sends at least one byte of `bufs`, which are not empty, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when the peer takes nothing in at the moment.
    fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Waits until something can be sent or, if `or_receive`, received. Whether
    /// there is something to receive.
    ///
    /// # Errors
    /// What the system says; that time passed is none.
    fn wait_to_send(&self, or_receive: bool, limit: Duration) -> io::Result<bool>;

    /// Whether the peer is known to take nothing in any more. Does not wait.
    fn has_ended(&self) -> bool;

    /// Ends it in both directions; whoever receives learns of it at once.
    fn close(&self);
}

/// Most buffers that the kernel takes at a time (`UIO_MAXIOV`).
const BUFS_MAX: usize = 1024;

/// A connected stream socket.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// Takes a connected stream socket over.
    ///
    /// # Errors
    /// `ENOTSOCK` if it is none.
    pub fn new(fd: OwnedFd) -> Result<Self> {
        let kind = sockopt::socket_type(&fd).map_err(Errno::from)?;
        match kind {
            SocketType::STREAM => {
                // Small messages must not wait for the acknowledgement of
                // others; sockets but TCP's have no such option.
                let _ = sockopt::set_tcp_nodelay(&fd, true);
                let _ = keep_alive(&fd);
                // Waiting is by SO_RCVTIMEO.
                rustix::io::ioctl_fionbio(&fd, false).map_err(Errno::from)?;
                Ok(Socket(fd))
            }
            _ => Err(Error::Refused(Errno::ENOTSOCK)),
        }
    }

    /// Connects to a server.
    ///
    /// # Errors
    /// [`Error::Connect`], with the system's words.
    pub fn connect(address: &Address) -> Result<Self> {
        let fd = match address {
            Address::Unix(path) => {
                connect_unix(path).map_err(|errno| cannot(address, errno.into()))
            }
            Address::Tcp { .. } => connect_tcp(address),
            Address::Vsock {
                cid: Some(cid),
                port,
            } => {
                let (cid, port) = (*cid, *port);
                connect_socket(AddressFamily::VSOCK, &VsockAddr { cid, port })
                    .map_err(|errno| cannot(address, errno.into()))
            }
            Address::Vsock { cid: None, .. } => Err(Error::Connect(format!(
                "'{address}' names no machine; write vsock:CID:PORT, where CID 2 is the host"
            ))),
            Address::Fd(number) => {
                duplicate_inherited(*number).map_err(|errno| cannot(address, errno))
            }
            Address::Activation => Err(Error::Connect(
                "a service manager passes sockets to listen on, not to connect to".to_owned(),
            )),
        }?;
        Socket::new(fd).map_err(|error| cannot(address, error.errno()))
    }
}

/// Has the kernel ask a peer that says nothing whether it still is there: who waits for a
/// lock sends nothing that would find out.
fn keep_alive(fd: &OwnedFd) -> rustix::io::Result<()> {
    const IDLE: Duration = Duration::from_secs(60);
    const PAUSE: Duration = Duration::from_secs(10);
    const COUNT: u32 = 6;
    sockopt::set_tcp_keepidle(fd, IDLE)?;
    sockopt::set_tcp_keepintvl(fd, PAUSE)?;
    sockopt::set_tcp_keepcnt(fd, COUNT)?;
    sockopt::set_socket_keepalive(fd, true)
}

fn cannot(address: &Address, errno: Errno) -> Error {
    let advice = match errno {
        Errno::ENOENT | Errno::ECONNREFUSED => "; is the server running?",
        _ => "",
    };
    Error::Connect(format!(
        "cannot connect to {address}: {}{advice}",
        words(errno)
    ))
}

fn connect_unix(path: &Path) -> rustix::io::Result<OwnedFd> {
    match SocketAddrUnix::new(path) {
        Err(rustix::io::Errno::NAMETOOLONG) => connect_unix_in_its_folder(path),
        address => connect_socket(AddressFamily::UNIX, &address?),
    }
}

/// For paths that are longer than an address has room for (unix(7)): a server that was
/// started in that folder had no need of them.
fn connect_unix_in_its_folder(path: &Path) -> rustix::io::Result<OwnedFd> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(rustix::io::Errno::NAMETOOLONG);
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    connect_socket(AddressFamily::UNIX, &SocketAddrUnix::new(path.join(name))?)
}

fn connect_socket(
    family: AddressFamily,
    to: &impl rustix::net::addr::SocketAddrArg,
) -> rustix::io::Result<OwnedFd> {
    let fd = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&fd, to))?;
    Ok(fd)
}

/// The first of the host's addresses that answers.
fn connect_tcp(address: &Address) -> Result<OwnedFd> {
    /// For one of them.
    const LIMIT: Duration = Duration::from_secs(20);
    let found = address
        .resolve()
        .map_err(|error| Error::Connect(format!("cannot find {address}: {error}")))?;
    let mut last = Errno::ENOTCONN;
    for at in found {
        match std::net::TcpStream::connect_timeout(&at, LIMIT) {
            Ok(stream) => return Ok(stream.into()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => last = Errno::ETIMEDOUT,
            Err(error) => last = Errno::from(error),
        }
    }
    Err(cannot(address, last))
}

impl Transport for Socket {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(
            &self.0,
            Timeout::Recv,
            Some(patience),
        )?)
    }

    fn receive(&self, bufs: &mut [IoSliceMut<'_>], fills: bool) -> io::Result<usize> {
        let count = bufs.len().min(BUFS_MAX);
        let bufs = bufs.get_mut(..count).unwrap_or_default();
        let mut flags = RecvFlags::empty();
        flags.set(RecvFlags::WAITALL, fills);
        let received = rustix::io::retry_on_intr(|| {
            let mut control = RecvAncillaryBuffer::default();
            rustix::net::recvmsg(&self.0, bufs, &mut control, flags)
        })?;
        Ok(received.bytes)
    }

    fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let bufs = bufs.get(..bufs.len().min(BUFS_MAX)).unwrap_or_default();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(rustix::io::retry_on_intr(|| {
            let mut control = SendAncillaryBuffer::default();
            rustix::net::sendmsg(&self.0, bufs, &mut control, flags)
        })?)
    }

    fn wait_to_send(&self, or_receive: bool, limit: Duration) -> io::Result<bool> {
        let mut wanted = PollFlags::OUT;
        wanted.set(PollFlags::IN, or_receive);
        let mut polled = [PollFd::from_borrowed_fd(self.0.as_fd(), wanted)];
        let timeout = Timespec::try_from(limit).map_err(|_| Errno::EINVAL)?;
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
            Ok(_) => Ok(polled[0].revents().intersects(PollFlags::IN)),
        }
    }

    fn has_ended(&self) -> bool {
        let wanted = PollFlags::RDHUP;
        let mut polled = [PollFd::from_borrowed_fd(self.0.as_fd(), wanted)];
        let now = Timespec::default();
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        match rustix::event::poll(&mut polled, Some(&now)) {
            Ok(_) => polled[0].revents().intersects(ended),
            Err(_) => false,
        }
    }

    fn close(&self) {
        // One that is over already needs no more.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_silent_peer_is_asked_whether_it_is_there() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let Socket(fd) = Socket::new(stream.into()).unwrap();
        assert!(sockopt::socket_keepalive(&fd).unwrap());
        assert!(sockopt::tcp_keepidle(&fd).unwrap() <= Duration::from_secs(60));
        // One that has no such options.
        Socket::new(UnixStream::pair().unwrap().0.into()).unwrap();
    }
}
