//! What can be chosen.

use crate::address::Address;
use crate::error::Result;
use crate::options::ConnectOptions;
use crate::transport::{Socket, Transport};
use std::time::Duration;

/// How a [`RemoteService`](crate::RemoteService) uses its server.
#[derive(Clone, Debug, Default)]
pub struct ServiceOptions {
    /// The connection.
    pub connect: ConnectOptions,
    /// As whom requests are sent.
    pub access: Access,
    /// What becomes of requests while the server is away.
    pub persistence: Persistence,
    /// POSIX ACLs, if the server has them: the umask then waits for what a
    /// directory's default ACL says, at the price of a message for each file
    /// that is made under a umask.
    pub posix_acl: bool,
    /// Whether the thread with this number, which asked for something, is being killed:
    /// it need not wait for a server that is away, and gets `EINTR`. Asked a few times a
    /// second. `None` where numbers of threads are another machine's.
    pub is_being_killed: Option<fn(u32) -> bool>,
}

/// As whom requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Each as its caller, by number.
    #[default]
    PerUser,
    /// All as the one user of [`ConnectOptions`].
    Single,
}

/// What becomes of requests while the server is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// They wait for as long as it takes.
    Hard,
    /// They fail with `EIO` once the server has been away for so long.
    Soft(Duration),
}

impl Default for Persistence {
    fn default() -> Self {
        Persistence::Soft(Duration::from_secs(60))
    }
}

/// Makes connections to one server.
pub trait Connect: Send + Sync {
    /// Makes one.
    ///
    /// # Errors
    /// [`Error::Connect`](crate::Error::Connect) if there is no server.
    fn connect(&self) -> Result<Box<dyn Transport>>;
}

impl Connect for Address {
    fn connect(&self) -> Result<Box<dyn Transport>> {
        Ok(Box::new(Socket::connect(self)?))
    }
}

impl<F: Fn() -> Result<Box<dyn Transport>> + Send + Sync> Connect for F {
    fn connect(&self) -> Result<Box<dyn Transport>> {
        self()
    }
}
