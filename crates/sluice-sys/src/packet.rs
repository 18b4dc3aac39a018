//! Addresses of sockets that carry whole frames (packet(7)).

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};

/// A network device to bind a socket of `AddressFamily::PACKET` to, for frames
/// of every protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketAddr {
    /// The device's number in its network name space.
    pub interface: i32,
}

// SAFETY: the closure gets a pointer to a whole sockaddr_ll, which lives until
// it has returned, and that structure's size.
unsafe impl SocketAddrArg for PacketAddr {
    unsafe fn with_sockaddr<R>(
        &self,
        f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        // SAFETY: numbers only, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = self.interface;
        f((&raw const address).cast(), size_of_val(&address) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::netdevice::name_to_index;
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

    #[test]
    fn the_kernel_takes_it_for_what_it_says() {
        let Ok(socket) = socket(AddressFamily::PACKET, SocketType::RAW, None) else {
            eprintln!("SKIPPED: packet sockets need CAP_NET_RAW");
            return;
        };
        let interface = name_to_index(&socket, "lo").unwrap() as i32;
        bind(&socket, &PacketAddr { interface }).unwrap();
        let found = getsockname(&socket).unwrap();
        assert_eq!(found.address_family(), AddressFamily::PACKET);
        let nowhere = PacketAddr {
            interface: i32::MAX,
        };
        assert!(bind(&socket, &nowhere).is_err());
    }
}
