//! What carries 9P messages, and servers in this process.

use sluice_proto::p9::loopback::{Loopback, Ticket};
use sluice_proto::p9::serve::{NumericUsers, ServeOptions, ServerConfig, User, Users};
use sluice_proto::p9::wire::{Dialect, Request, encode_request};
use sluice_vfs::{AttachOptions, Caller, FileService, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A request in its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Everything but the data of a Twrite.
    pub prefix: &'a [u8],
    /// What follows.
    pub payload: &'a [u8],
}

/// Takes a reply, or that there will be none.
pub type Done = Box<dyn FnOnce(Option<Vec<u8>>) + Send>;

/// Carries messages of one connection.
pub trait P9Transport: Send + Sync {
    /// Tells who is about to attach, for servers that have to know more of a user
    /// than the protocol says.
    fn introduce(&self, caller: &Caller<'_>);

    /// Sends a request and waits for its reply; `None` if it gets none.
    fn exchange(&self, message: Message<'_>) -> Option<Vec<u8>>;

    /// Sends a request that may have to wait. If it could be served at once,
    /// `done` has run when this returns; else it runs later, on any thread.
    fn exchange_later(&self, message: Message<'_>, done: Done);
}

/// No other request has it: clients count up from 0.
const PROBE_TAG: u16 = u16::MAX - 1;

/// Sends a request that is answered at once, after what came before it, and waits
/// for that.
pub(super) fn probe(transport: &impl P9Transport) {
    // What is not known is flushed at once.
    let flush = Request::Flush { oldtag: PROBE_TAG };
    let mut prefix = [0; 16];
    let len = encode_request(PROBE_TAG, &flush, Dialect::Linux, &mut prefix);
    let len = len.expect("a Tflush is short");
    transport.exchange(Message {
        prefix: &prefix[..len],
        payload: &[],
    });
}

/// Makes connections.
pub trait Connector: Send + Sync {
    /// What carries their messages.
    type Transport: P9Transport + 'static;

    /// Makes a connection on these terms, as far as it can carry them.
    fn connect(&self, options: AttachOptions<'_>) -> Result<Self::Transport>;
}

/// Servers in this process, asked by function calls.
pub struct InProcessConnector {
    service: Arc<dyn FileService>,
    options: ServeOptions,
}

impl InProcessConnector {
    /// Servers over `service`.
    pub fn new(service: Arc<dyn FileService>, options: ServeOptions) -> Self {
        InProcessConnector { service, options }
    }
}

impl Connector for InProcessConnector {
    type Transport = InProcess;

    fn connect(&self, options: AttachOptions<'_>) -> Result<InProcess> {
        let users = Arc::new(UserBook::default());
        let for_server: Arc<dyn Users> = users.clone();
        let peer = Loopback::new(Arc::clone(&self.service), |link| ServerConfig {
            limits: options.limits,
            options: self.options,
            users: for_server,
            ..ServerConfig::new(options.peer, link)
        });
        Ok(InProcess { peer, users })
    }
}

/// A server in this process.
pub struct InProcess {
    peer: Loopback,
    users: Arc<UserBook>,
}

impl InProcess {
    fn send(&self, message: Message<'_>) -> Ticket {
        self.peer
            .send_bytes(message.prefix, message.payload)
            .unwrap_or_else(|why| panic!("the server closes the connection: {why}"))
    }
}

impl P9Transport for InProcess {
    fn introduce(&self, caller: &Caller<'_>) {
        self.users.write(caller);
    }

    fn exchange(&self, message: Message<'_>) -> Option<Vec<u8>> {
        self.send(message).wait()
    }

    fn exchange_later(&self, message: Message<'_>, done: Done) {
        let ticket = self.send(message);
        match ticket.poll() {
            Some(reply) => done(Some(reply)),
            // It ends at the latest when the server goes.
            None => drop(thread::spawn(move || done(ticket.wait()))),
        }
    }
}

/// Which groups users are in.
#[derive(Default)]
struct UserBook(Mutex<HashMap<u32, (u32, Vec<u32>)>>);

impl UserBook {
    fn write(&self, caller: &Caller<'_>) {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.insert(caller.uid, (caller.gid, caller.groups.to_vec()));
    }
}

impl Users for UserBook {
    fn by_id(&self, uid: u32) -> User {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match book.get(&uid) {
            Some((gid, groups)) => User {
                groups: groups.clone(),
                ..User::new(uid, *gid)
            },
            None => NumericUsers.by_id(uid),
        }
    }

    fn by_name(&self, name: &[u8]) -> Option<User> {
        NumericUsers.by_name(name)
    }

    fn group_by_name(&self, name: &[u8]) -> Option<u32> {
        NumericUsers.group_by_name(name)
    }

    fn user_name(&self, uid: u32) -> Vec<u8> {
        NumericUsers.user_name(uid)
    }

    fn group_name(&self, gid: u32) -> Vec<u8> {
        NumericUsers.group_name(gid)
    }
}
