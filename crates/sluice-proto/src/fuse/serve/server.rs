//! A connection: one session at a time, from INIT to DESTROY.

use super::dispatch::{Call, dispatch};
use super::exchange::{Exchange, Notifier, Pending, header};
use super::negotiate::{
    Negotiated, Refusal, TransportLimits, agree_on_version, negotiate, own_version,
};
use super::ops::locks;
use super::options::ServeOptions;
use super::translate::Presenter;
use crate::fuse::wire::{
    Dialect, InHeader, InitFlags, InitIn, InitOut, InvalEntryFlags, LkIn, Malformed, Notification,
    NotifyInvalInodeOut, Opcode, Operation, Reply, Request,
};
use crate::parked::ParkedLocks;
use sluice_vfs::{
    AttachOptions, Attached, Cancel, Errno, Event, EventSink, FileService, Name, NodeId, Peer,
    Result, Session, SessionLimits,
};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use zerocopy::IntoBytes;

/// First minor version whose kernels know INC_EPOCH (Linux 6.17).
const INC_EPOCH_MINOR: u32 = 44;

/// What a connection is made of.
pub struct ServerConfig {
    /// Whose it is.
    pub peer: Peer,
    /// Which export; empty for the only or default one.
    pub export: Vec<u8>,
    /// What its session may hold.
    pub limits: SessionLimits,
    /// What the user chose.
    pub options: ServeOptions,
    /// What the transport can carry.
    pub transport: TransportLimits,
    /// Takes invalidations, where the transport can send them.
    pub notifier: Option<Arc<dyn Notifier>>,
}

/// Serves one connection. Any number of threads may hand it requests.
pub struct Server {
    service: Arc<dyn FileService>,
    config: ServerConfig,
    connection: RwLock<Option<Arc<Connection>>>,
    refusal: Mutex<Option<Errno>>,
}

/// What holds from INIT to DESTROY.
pub(super) struct Connection {
    pub(super) session: Arc<dyn Session>,
    pub(super) negotiated: Negotiated,
    pub(super) options: ServeOptions,
    pub(super) presenter: Presenter,
    events: Arc<Events>,
    parked: Arc<ParkedLocks>,
    /// Nobody waits for its requests any more.
    pub(super) gone: Cancel,
}

impl Server {
    /// A connection that waits for its INIT.
    pub fn new(service: Arc<dyn FileService>, config: ServerConfig) -> Self {
        Server {
            service,
            config,
            connection: RwLock::new(None),
            refusal: Mutex::new(None),
        }
    }

    /// Runs a request and answers it. `prefix` is its first
    /// [`prefix_len`](crate::fuse::wire::prefix_len) bytes, copied out of the
    /// peer's reach; the rest is in the exchange's source.
    pub fn handle<E: Exchange>(&self, prefix: &[u8], mut exchange: E) {
        let Ok(header) = InHeader::peek(prefix) else {
            return exchange.discard();
        };
        let connection = self.connection();
        let dialect = connection
            .as_ref()
            .map_or_else(Dialect::default, |live| live.negotiated.dialect());
        let payload_len = exchange.source().remaining();
        let pending = Pending::new(exchange, header.unique);
        match Request::decode(prefix, payload_len, dialect) {
            Ok(request) => self.run(&request, connection, pending),
            Err(why) => refuse(&header, why, pending),
        }
    }

    /// Ends the session, as DESTROY does: for transports that are reset or
    /// closed. Requests that still run finish on their own; those that wait for
    /// something give up.
    pub fn reset(&self) {
        self.replace(None);
    }

    /// Whether INIT has come and DESTROY has not.
    pub fn is_live(&self) -> bool {
        self.connection().is_some()
    }

    /// What the last INIT was refused with, if it was.
    pub fn refusal(&self) -> Option<Errno> {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What INIT settled.
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.connection().map(|live| live.negotiated)
    }

    fn run<E: Exchange>(
        &self,
        request: &Request<'_>,
        connection: Option<Arc<Connection>>,
        mut pending: Pending<E>,
    ) {
        let opcode = request.operation.opcode();
        tracing::trace!(?opcode, node = request.head.nodeid, "request");
        if let Err(error) = check_room(opcode, &mut pending) {
            return pending.answer(Err(error));
        }
        match (request.operation, connection) {
            // Both end the session that is there, before they answer.
            (Operation::Init { args }, before) => {
                drop(before);
                self.init(&args, pending);
            }
            (Operation::Destroy {}, before) => {
                drop(before);
                self.reset();
                pending.answer(Ok(0));
            }
            (_, None) if !opcode.is_answered() => pending.discard(),
            (_, None) => pending.answer(Err(Errno::ENOTCONN)),
            (operation, Some(connection)) => {
                let call = Call::new(&connection, request.head);
                run_connected(&call, &connection, &operation, pending);
            }
        }
    }

    fn init<E: Exchange>(&self, init: &InitIn, mut pending: Pending<E>) {
        let result = self.begin(init).and_then(|out| put(&mut pending, &out));
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = result.err();
        pending.answer(result);
    }

    /// Starts a session. One that is there goes first, whole.
    fn begin(&self, init: &InitIn) -> Result<InitOut> {
        let minor = match agree_on_version(init) {
            Ok(minor) => minor,
            Err(why @ Refusal::NewerMajor { .. }) => {
                tracing::warn!(peer = self.config.peer.label, "{why}");
                return Ok(own_version());
            }
            Err(why) => return Err(self.refuse(&why)),
        };
        if self.is_live() && !self.config.transport.allows_reinit {
            return Err(Errno::EBUSY);
        }
        self.reset();
        let parked = Arc::new(ParkedLocks::default());
        let events = Arc::new(Events {
            minor,
            parked: Arc::clone(&parked),
            notifier: self.config.notifier.clone(),
        });
        let attached = self.attach(&events)?;
        let options = self.config.options;
        let (negotiated, out) = negotiate(
            init,
            minor,
            &options,
            attached.features,
            &self.config.transport,
        )
        .map_err(|why| self.refuse(&why))?;
        let connection = Connection {
            session: attached.session,
            negotiated,
            options,
            presenter: Presenter {
                cache: options.cache,
                marks_submounts: negotiated.has(InitFlags::SUBMOUNTS),
            },
            events,
            parked,
            gone: Cancel::new(),
        };
        self.replace(Some(Arc::new(connection)));
        Ok(out)
    }

    /// What a peer is told that gets no session, and the user why.
    fn refuse(&self, why: &Refusal) -> Errno {
        tracing::error!(peer = self.config.peer.label, "{why}");
        Errno::EPROTO
    }

    fn attach(&self, events: &Arc<Events>) -> Result<Attached> {
        self.service.attach(AttachOptions {
            peer: self.config.peer.clone(),
            export: &self.config.export,
            events: Arc::clone(events) as Arc<dyn EventSink>,
            limits: self.config.limits,
        })
    }

    fn connection(&self) -> Option<Arc<Connection>> {
        self.connection
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes the session; the one before goes outside the lock.
    fn replace(&self, connection: Option<Arc<Connection>>) {
        let before = std::mem::replace(
            &mut *self
                .connection
                .write()
                .unwrap_or_else(PoisonError::into_inner),
            connection,
        );
        if let Some(before) = before {
            before.gone.cancel();
            before.parked.close();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.reset();
    }
}

/// Requests that need a session.
fn run_connected<E: Exchange>(
    call: &Call<'_>,
    connection: &Connection,
    operation: &Operation<'_>,
    mut pending: Pending<E>,
) {
    match operation {
        Operation::Forget { args } => {
            connection.session.forget(call.node, args.nlookup);
            pending.discard();
        }
        Operation::BatchForget { nodes } => {
            for one in nodes.iter() {
                connection.session.forget(NodeId(one.nodeid), one.nlookup);
            }
            pending.discard();
        }
        Operation::Interrupt { args } => {
            if let Some(wait) = connection.parked.interrupt(args.unique) {
                connection.session.cancel_wait(wait);
            }
            pending.discard();
        }
        Operation::NotifyReply { .. } => pending.discard(),
        Operation::Setlkw { args } => lock_or_wait(call, connection, args, pending),
        _ => {
            let result = match pending.get() {
                Some(exchange) => run_to_end(call, operation, exchange),
                None => Err(Errno::EIO),
            };
            if result == Err(Errno::ESTALE) {
                // A kernel that opens without telling would go on by what it knows.
                connection.events.inode_changed(call.node, None);
            }
            pending.answer(result);
        }
    }
}

/// Runs an operation; returns how much of a body is in the sink.
fn run_to_end(
    call: &Call<'_>,
    operation: &Operation<'_>,
    exchange: &mut dyn Exchange,
) -> Result<usize> {
    let room = exchange.sink().remaining();
    let result = dispatch(call, operation, exchange);
    if let Err(error) = result {
        tracing::trace!(opcode = ?operation.opcode(), node = ?call.node, %error);
    }
    result.map(|()| room.saturating_sub(exchange.sink().remaining()))
}

/// SETLKW: at once if that is possible, else the request is parked.
fn lock_or_wait<E: Exchange>(
    call: &Call<'_>,
    connection: &Connection,
    args: &LkIn,
    pending: Pending<E>,
) {
    let at_once = locks::setlk(call, args).map(|()| 0);
    if at_once != Err(Errno::EAGAIN) {
        return pending.answer(at_once);
    }
    let parked = &connection.parked;
    if let Err(error) = parked.check_room() {
        return pending.answer(Err(error));
    }
    let unique = call.head.unique;
    let Some(wait) = pending.park().and_then(|reply| {
        let finish = move |result: Result<()>| reply.finish(header(unique, result.map(|()| 0)));
        parked.park(unique, Box::new(finish))
    }) else {
        return;
    };
    match locks::setlk_waiting(call, args, wait) {
        Ok(true) => parked.settle(wait, Ok(())),
        Ok(false) if parked.is_interrupted(wait) => connection.session.cancel_wait(wait),
        Ok(false) => {}
        Err(error) => parked.settle(wait, Err(error)),
    }
}

/// Answers what could not be decoded.
fn refuse<E: Exchange>(header: &InHeader, why: Malformed, pending: Pending<E>) {
    tracing::debug!(
        opcode = header.opcode,
        unique = header.unique,
        "malformed request: {why}"
    );
    match header.known_opcode() {
        Ok(opcode) if !opcode.is_answered() => pending.discard(),
        _ => pending.answer(Err(why.errno())),
    }
}

/// Makes sure that the reply fits before anything is done for it.
fn check_room<E: Exchange>(opcode: Opcode, pending: &mut Pending<E>) -> Result<()> {
    let room = pending
        .get()
        .map_or(0, |exchange| exchange.sink().remaining());
    if room < Reply::min_len(opcode) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

fn put<E: Exchange>(pending: &mut Pending<E>, out: &InitOut) -> Result<usize> {
    let exchange = pending.get().ok_or(Errno::EIO)?;
    exchange.sink().put(out.as_bytes())?;
    Ok(size_of::<InitOut>())
}

/// Takes a session's events.
struct Events {
    minor: u32,
    parked: Arc<ParkedLocks>,
    notifier: Option<Arc<dyn Notifier>>,
}

impl EventSink for Events {
    fn publish(&self, event: &Event<'_>) {
        match event {
            Event::LockSettled { wait, result } => self.parked.settle(*wait, *result),
            Event::InodeChanged { node, data } => self.inode_changed(*node, data.as_ref()),
            Event::EntryChanged { parent, name } => self.entry_changed(*parent, *name),
            Event::EpochMoved if self.minor >= INC_EPOCH_MINOR => {
                self.notify(&Notification::IncEpoch {});
            }
            // Timeouts run out by themselves, and nothing is lent yet.
            Event::EpochMoved | Event::BackingRevoked { .. } => {}
        }
    }
}

impl Events {
    fn inode_changed(&self, node: NodeId, data: Option<&Range<u64>>) {
        let (off, len) = match data {
            None => (-1, 0),
            Some(range) => (
                i64::try_from(range.start).unwrap_or(i64::MAX),
                i64::try_from(range.end.saturating_sub(range.start)).unwrap_or(0),
            ),
        };
        self.notify(&Notification::InvalInode {
            args: NotifyInvalInodeOut {
                ino: node.0,
                off,
                len,
            },
        });
    }

    fn entry_changed(&self, parent: NodeId, name: Name<'_>) {
        self.notify(&Notification::inval_entry(
            parent.0,
            name.as_bytes(),
            InvalEntryFlags::empty(),
        ));
    }

    fn notify(&self, notification: &Notification<'_>) {
        if let Some(notifier) = &self.notifier {
            notifier.notify(notification);
        }
    }
}
