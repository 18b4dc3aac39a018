//! Telling others how far serving is, from wherever the process is by then.

use std::env;
use std::ffi::OsStr;
use std::io::{PipeWriter, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// Who wants to know.
#[derive(Debug)]
pub enum Notify {
    /// Nobody.
    Nobody,
    /// The service manager (sd_notify(3)).
    ServiceManager(UnixDatagram),
    /// The process outside, which tells the service manager.
    Outside(PipeWriter),
}

/// How far serving is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has begun.
    Ready,
    /// It is about to end.
    Stopping,
}

impl Notify {
    /// The service manager that started this process, if one did. The socket is
    /// connected at once: later it may not be in sight.
    pub fn to_service_manager() -> Self {
        let address = env::var_os("NOTIFY_SOCKET");
        match address.and_then(|address| connect(&address)) {
            Some(socket) => Notify::ServiceManager(socket),
            None => Notify::Nobody,
        }
    }

    /// Serving has begun.
    pub fn ready(&mut self) {
        self.tell(Stage::Ready);
    }

    /// Serving is about to end.
    pub fn stopping(&mut self) {
        self.tell(Stage::Stopping);
    }

    /// Nobody listening is no reason to fail.
    pub(super) fn tell(&mut self, stage: Stage) {
        match self {
            Notify::Nobody => {}
            Notify::ServiceManager(socket) => drop(socket.send(stage.to_state())),
            Notify::Outside(pipe) => drop(pipe.write_all(&[stage.to_byte()])),
        }
    }
}

impl Stage {
    fn to_state(self) -> &'static [u8] {
        match self {
            Stage::Ready => b"READY=1\n",
            Stage::Stopping => b"STOPPING=1\n",
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Stage::Ready => b'r',
            Stage::Stopping => b's',
        }
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Stage::Ready, Stage::Stopping]
            .into_iter()
            .find(|stage| stage.to_byte() == byte)
    }
}

/// A path, or `@` and an abstract name.
fn connect(address: &OsStr) -> Option<UnixDatagram> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(Path::new(address)),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}
