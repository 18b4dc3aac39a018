//! Where peers come in: sockets that listen, and what is served there.

use super::P9Options;
use super::connection::Connection;
use super::hub::Shared;
use super::users::{HostUsers, PeerUsers};
use crate::failure::{Failure, system_words};
use crate::serve::socket::listen_at;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, UCred, acceptfrom_with, sockopt,
};
use sluice_client::Address;
use sluice_proto::p9::serve::{Bounds, CommonBounds, Link, ServeOptions, ServerConfig};
use sluice_sys::VsockAddr;
use sluice_vfs::{AccessChecks, FileService, Peer, SessionLimits};
use sluice_virtio::vhost_user::Listener;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// How often at most a log says that nobody is let in.
const SAY_SHUT_EVERY: Duration = Duration::from_secs(60);

/// A socket that is there, and nothing is served on yet.
pub(crate) struct Entrance {
    socket: Socket,
    /// As users write it.
    address: Address,
}

enum Socket {
    /// Listens in the file system; the file goes with it.
    Unix(Listener),
    /// Listens somewhere else.
    Listening(OwnedFd),
    /// Has a peer already.
    Connected(OwnedFd),
}

impl Entrance {
    /// Listens at an address, which may be several sockets. `allow_remote` lets
    /// other machines in.
    ///
    /// # Errors
    /// A misuse where other machines would be let in and may not.
    pub(crate) fn open(address: &Address, allow_remote: bool) -> Result<Vec<Entrance>, Failure> {
        let at = |socket| {
            vec![Entrance {
                socket,
                address: address.clone(),
            }]
        };
        match address {
            Address::Unix(path) => {
                let listener = listen_at(path)?;
                prepare(listener.as_fd()).map_err(|error| cannot(address, &error))?;
                Ok(at(Socket::Unix(listener)))
            }
            Address::Tcp { .. } => listen_on_tcp(address, allow_remote),
            Address::Vsock { cid, port } => {
                let socket =
                    listen_on_vsock(*cid, *port).map_err(|error| cannot(address, &error))?;
                Ok(at(Socket::Listening(socket)))
            }
            Address::Fd(number) => Ok(at(inherited(*number, address)?)),
            Address::Activation => activated(),
        }
    }

    /// Where peers find it.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    fn listener(&self) -> Option<BorrowedFd<'_>> {
        match &self.socket {
            Socket::Unix(listener) => Some(listener.as_fd()),
            Socket::Listening(socket) => Some(socket.as_fd()),
            Socket::Connected(_) => None,
        }
    }

    /// The next one who comes in, and where from; none if nobody waits.
    fn accept(&self) -> io::Result<Option<(OwnedFd, Option<SocketAddrAny>)>> {
        let Some(listener) = self.listener() else {
            return Ok(None);
        };
        loop {
            match acceptfrom_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok((socket, from)) => {
                    send_at_once(&socket);
                    return Ok(Some((socket, from)));
                }
                Err(Errno::AGAIN) => return Ok(None),
                // The peer may be gone again.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Leaves removing the socket's file to another process.
    pub(crate) fn leave_file(&mut self) {
        if let Socket::Unix(listener) = &mut self.socket {
            listener.leave_file();
        }
    }
}

fn cannot(address: &Address, error: &io::Error) -> Failure {
    let failure = Failure::new(format!(
        "cannot listen on {address}: {}",
        system_words(error)
    ));
    match error.kind() {
        io::ErrorKind::AddrInUse => failure.advise("stop what does, or choose another port"),
        io::ErrorKind::AddrNotAvailable => failure.advise("give an address of this machine"),
        io::ErrorKind::PermissionDenied => failure.advise("choose a port from 1024 on, or be root"),
        _ => failure,
    }
}

fn listen_on_tcp(address: &Address, allow_remote: bool) -> Result<Vec<Entrance>, Failure> {
    let found = address
        .resolve()
        .map_err(|error| cannot(address, &error).advise("give the address of this machine"))?;
    let is_local = address.is_local().unwrap_or(false);
    if !is_local && !allow_remote {
        return Err(Failure::misuse(format!(
            "{address} can be reached from other machines, and 9P has no encryption"
        ))
        .advise("use 127.0.0.1, or give --allow-remote"));
    }
    let chosen_by_system = matches!(address, Address::Tcp { port: 0, .. });
    let mut entrances = Vec::new();
    let mut failed = None;
    for number in found {
        match tcp_listener(number) {
            Ok(entrance) => entrances.push(entrance),
            Err(error) => failed = Some(error),
        }
        // Others would get other ports.
        if chosen_by_system && !entrances.is_empty() {
            break;
        }
    }
    // A name may stand for IPv6 on a machine that has none.
    match failed {
        Some(error) if entrances.is_empty() || error.kind() == io::ErrorKind::AddrInUse => {
            Err(cannot(address, &error))
        }
        _ => Ok(entrances),
    }
}

fn tcp_listener(number: std::net::SocketAddr) -> io::Result<Entrance> {
    let listener = TcpListener::bind(number)?;
    let bound = listener.local_addr()?;
    let address = Address::Tcp {
        host: bound.ip().to_string(),
        port: bound.port(),
    };
    let socket = Socket::Listening(listening(listener.into())?);
    Ok(Entrance { socket, address })
}

fn listen_on_vsock(cid: Option<u32>, port: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::VSOCK, SocketType::STREAM, flags, None)?;
    let cid = cid.unwrap_or(VsockAddr::ANY);
    rustix::net::bind(&socket, &VsockAddr { cid, port })?;
    listening(socket)
}

fn listening(socket: OwnedFd) -> io::Result<OwnedFd> {
    prepare(socket.as_fd())?;
    Ok(socket)
}

/// Listens with room for many to wait, and no need for this process to.
fn prepare(socket: BorrowedFd<'_>) -> io::Result<()> {
    rustix::net::listen(socket, BACKLOG)?;
    Ok(rustix::io::ioctl_fionbio(socket, true)?)
}

fn inherited(number: i32, address: &Address) -> Result<Socket, Failure> {
    let fd =
        sluice_sys::duplicate_inherited(number).map_err(|error| cannot(address, &error.into()))?;
    let unfit = || {
        Failure::new(format!(
            "cannot serve on {address}: it is no stream socket that listens or is connected"
        ))
    };
    if sockopt::socket_type(&fd) != Ok(SocketType::STREAM) {
        return Err(unfit());
    }
    if sockopt::socket_acceptconn(&fd).unwrap_or(false) {
        let fd = listening(fd).map_err(|error| cannot(address, &error))?;
        return Ok(Socket::Listening(fd));
    }
    rustix::net::getpeername(&fd).map_err(|_| unfit())?;
    rustix::io::ioctl_fionbio(&fd, true).map_err(|error| cannot(address, &error.into()))?;
    send_at_once(&fd);
    Ok(Socket::Connected(fd))
}

/// A reply must not wait until the peer has acknowledged the one before. Each
/// connection is told, as its listener may be another's: connections may have come
/// before this process did. Sockets but TCP's have no such option.
fn send_at_once(connection: &OwnedFd) {
    let _ = sockopt::set_tcp_nodelay(connection, true);
}

/// All sockets that the service manager passed.
fn activated() -> Result<Vec<Entrance>, Failure> {
    let numbers = sd_notify::listen_fds()
        .map_err(|error| Failure::new(format!("cannot take over sockets: {error}")))?;
    let entrance = |number| {
        let address = Address::Fd(number);
        let socket = inherited(number, &address)?;
        Ok(Entrance { socket, address })
    };
    let entrances: Vec<_> = numbers.map(entrance).collect::<Result<_, Failure>>()?;
    match entrances.is_empty() {
        true => Err(Failure::new("the service manager passed no sockets")
            .advise("start it by a .socket unit, or give another address")),
        false => Ok(entrances),
    }
}

/// What is served at an entrance, and how.
pub(super) struct Terms {
    pub(super) service: Arc<dyn FileService>,
    pub(super) options: P9Options,
    pub(super) serve: ServeOptions,
    pub(super) users: Arc<HostUsers>,
    pub(super) common: Arc<CommonBounds>,
}

/// An entrance with something behind it.
pub(super) struct Door {
    entrance: Entrance,
    terms: Terms,
    is_shut: AtomicBool,
    said_shut: Mutex<Option<Instant>>,
}

/// Who came in.
pub(super) struct Accepted {
    socket: OwnedFd,
    pub(super) label: String,
    credentials: Option<UCred>,
}

impl Door {
    pub(super) fn new(entrance: Entrance, terms: Terms) -> Self {
        Door {
            entrance,
            terms,
            is_shut: AtomicBool::new(false),
            said_shut: Mutex::default(),
        }
    }

    /// What listens there.
    pub(super) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.entrance.listener()
    }

    /// The only one who comes in, where nothing listens.
    pub(super) fn connected(&self) -> io::Result<Option<Accepted>> {
        match &self.entrance.socket {
            Socket::Connected(socket) => Ok(Some(self.accepted(socket.try_clone()?, None))),
            _ => Ok(None),
        }
    }

    /// The next one who comes in; none if nobody waits.
    pub(super) fn accept(&self) -> io::Result<Option<Accepted>> {
        let next = self.entrance.accept()?;
        Ok(next.map(|(socket, from)| self.accepted(socket, from)))
    }

    /// Makes a connection of who came in.
    pub(super) fn connection(
        &self,
        token: u64,
        accepted: Accepted,
        hub: &Weak<Shared>,
    ) -> Arc<Connection> {
        let Accepted {
            socket,
            label,
            credentials,
        } = accepted;
        let service = Arc::clone(&self.terms.service);
        let named = (token, label.clone());
        let splice_from = self.terms.options.zero_copy.splice_from();
        Connection::new(named, splice_from, socket, hub, service, |link| {
            self.terms.config(label, credentials, link)
        })
    }

    /// Nobody is let in; says why, but not all the time.
    pub(super) fn shut(&self, why: &str) {
        self.is_shut.store(true, Ordering::SeqCst);
        let mut said = self
            .said_shut
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| said.elapsed() >= SAY_SHUT_EVERY) {
            *said = Some(Instant::now());
            let address = self.entrance.address();
            tracing::error!("{address}: others must wait to connect: {why}");
        }
    }

    /// Whether it was shut until now.
    pub(super) fn reopen(&self) -> bool {
        self.is_shut.swap(false, Ordering::SeqCst)
    }

    fn accepted(&self, socket: OwnedFd, from: Option<SocketAddrAny>) -> Accepted {
        let credentials = sockopt::socket_peercred(&socket).ok();
        // Others than unix sockets have none that mean anything.
        let credentials = credentials.filter(|_| is_unix(&socket));
        let label = match (&credentials, from) {
            (Some(peer), _) => format!("unix:uid={}", peer.uid.as_raw()),
            (None, Some(from)) => match std::net::SocketAddr::try_from(from) {
                Ok(number) => format!("tcp:{number}"),
                Err(_) => self.entrance.address().to_string(),
            },
            (None, None) => self.entrance.address().to_string(),
        };
        Accepted {
            socket,
            label,
            credentials,
        }
    }
}

fn is_unix(socket: &OwnedFd) -> bool {
    sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
}

impl Terms {
    fn config(&self, label: String, peer: Option<UCred>, link: Arc<dyn Link>) -> ServerConfig {
        let options = &self.options;
        let (users, is_believed) = PeerUsers::for_peer(Arc::clone(&self.users), peer);
        let checks = match is_believed {
            true => options.access_on_address().checks(),
            false => AccessChecks::Service,
        };
        ServerConfig {
            peer: Peer { label, checks },
            limits: SessionLimits::default(),
            bounds: Bounds {
                msize: options.msize,
                ..Bounds::default()
            },
            common: Arc::clone(&self.common),
            options: self.serve,
            users: Arc::new(users),
            link,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn replies_do_not_wait_for_acknowledgements_whoever_listened() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Sooner than its listener gets here, as with socket activation.
        let _early = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let inherited = Address::Fd(listener.as_raw_fd());
        let own = "tcp:127.0.0.1:0".parse().unwrap();
        for address in [inherited, own] {
            let entrance = Entrance::open(&address, false).unwrap().remove(0);
            let at = rustix::net::getsockname(entrance.listener().unwrap()).unwrap();
            let _late = TcpStream::connect(SocketAddr::try_from(at).unwrap()).unwrap();
            let (socket, _) = entrance.accept().unwrap().unwrap();
            assert_eq!(sockopt::tcp_nodelay(&socket), Ok(true), "{address}");
        }
    }
}
