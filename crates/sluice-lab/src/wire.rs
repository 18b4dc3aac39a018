//! An Ethernet between this process and one guest on user-mode Linux, in a
//! network name space that nothing else is in.

use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_tcp_congestion};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use sluice_sys::PacketAddr;
use sluicefs::sandbox::GuestNetwork;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

/// Our end's address.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const GUEST: &str = "10.9.0.2/24";

/// All but the long messages of 9P fit into one packet.
const MTU: u16 = 9000;

/// What may arrive for the guest while it is busy.
const BACKLOG_BYTES: usize = 32 << 20;

/// A wire, and sockets that listen on our end of it.
pub struct Wire {
    /// The guest's end.
    pub network: GuestNetwork,
    /// On a port each, for servers.
    pub listeners: Vec<TcpListener>,
}

impl Wire {
    /// A wire with so many listeners.
    ///
    /// # Errors
    /// We may not make network name spaces, or `ip` or `ethtool` is missing.
    pub fn lay(listeners: usize) -> io::Result<Wire> {
        // The name space is that thread's, and lives as long as sockets in it.
        let thread = thread::spawn(move || {
            sluice_sys::unshare_thread_network()?;
            lay(listeners)
        });
        let gone = |_| Err(io::Error::other("the thread is gone"));
        thread.join().unwrap_or_else(gone)
    }

    /// Where the guest finds a listener.
    ///
    /// # Errors
    /// What getsockname(2) says.
    pub fn address(listener: &TcpListener) -> io::Result<SocketAddrV4> {
        Ok(SocketAddrV4::new(HOST, listener.local_addr()?.port()))
    }
}

fn lay(listeners: usize) -> io::Result<Wire> {
    let orders = format!(
        "link add host mtu {MTU} type veth peer name guest mtu {MTU}\n\
         address add {HOST}/24 dev host\n\
         link set host up\nlink set guest up\n"
    );
    run(Command::new("ip").args(["-batch", "-"]), orders.as_bytes())?;
    // Otherwise frames come without them, and longer than the wire takes.
    run(
        Command::new("ethtool").args(["-K", "host", "tx", "off"]),
        b"",
    )?;
    Ok(Wire {
        network: GuestNetwork {
            socket: Arc::new(guest_end()?),
            address: GUEST.to_owned(),
            mtu: MTU,
        },
        listeners: (0..listeners)
            .map(|_| listen())
            .collect::<io::Result<_>>()?,
    })
}

fn guest_end() -> io::Result<OwnedFd> {
    // No protocol, no frames: until it is bound, it would take those of all devices.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    set_socket_recv_buffer_size_force(&socket, BACKLOG_BYTES)?;
    let interface = name_to_index(&socket, "guest")?;
    let interface = i32::try_from(interface).map_err(io::Error::other)?;
    bind(&socket, &PacketAddr { interface })?;
    Ok(socket)
}

fn listen() -> io::Result<TcpListener> {
    let listener = TcpListener::bind((HOST, 0))?;
    // Connections inherit it. The host's own choice may be one that lets
    // packets wait.
    set_tcp_congestion(&listener, "reno")?;
    Ok(listener)
}

fn run(command: &mut Command, input: &[u8]) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let fail = |why: String| io::Error::other(format!("{program}: {why}"));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| fail(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input)?;
    }
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(fail(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
    }
}
