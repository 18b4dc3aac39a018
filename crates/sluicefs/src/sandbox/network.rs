//! A guest's Ethernet.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// An Ethernet for a guest on user-mode Linux.
///
/// Its driver sleeps until a signal says that a descriptor has become readable,
/// and asks epoll(7) then. A socket wakes epoll first and signals afterwards; a
/// tap device does so the other way round, which loses one packet in a thousand
/// until the next one comes. So this is a packet socket.
#[derive(Clone, Debug)]
pub struct GuestNetwork {
    /// A raw packet socket (packet(7)), bound to an end of a wire: whole frames
    /// with checksums.
    pub socket: Arc<OwnedFd>,
    /// The guest's own address and the length of its network's prefix:
    /// `10.0.0.2/24`.
    pub address: String,
    /// The largest packet, in bytes.
    pub mtu: u16,
}
