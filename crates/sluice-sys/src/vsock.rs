//! Addresses of sockets between a virtual machine and its host (vsock(7)).

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};

/// A place to bind or connect a socket of `AddressFamily::VSOCK` to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VsockAddr {
    /// The machine; [`VsockAddr::ANY`] to listen on all of one's own.
    pub cid: u32,
    /// Its port.
    pub port: u32,
}

impl VsockAddr {
    /// Stands for every context id of this machine.
    pub const ANY: u32 = libc::VMADDR_CID_ANY;
}

// SAFETY: the closure gets a pointer to a whole sockaddr_vm, which lives until
// it has returned, and that structure's size.
unsafe impl SocketAddrArg for VsockAddr {
    unsafe fn with_sockaddr<R>(
        &self,
        f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        // SAFETY: numbers only, for which zero is a value.
        let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
        address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
        address.svm_port = self.port;
        address.svm_cid = self.cid;
        f((&raw const address).cast(), size_of_val(&address) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

    /// No connection: whether this machine reaches itself depends on modules.
    #[test]
    fn the_kernel_takes_it_for_what_it_says() {
        let Ok(socket) = socket(AddressFamily::VSOCK, SocketType::STREAM, None) else {
            eprintln!("SKIPPED: this kernel has no vsock");
            return;
        };
        let wanted = VsockAddr {
            cid: VsockAddr::ANY,
            port: 0x7654_3210,
        };
        bind(&socket, &wanted).unwrap();
        let found = getsockname(&socket).unwrap();
        assert_eq!(found.address_family(), AddressFamily::VSOCK);
        assert_eq!(found, wanted.as_any());
    }
}
