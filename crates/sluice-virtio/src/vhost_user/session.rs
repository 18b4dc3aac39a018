//! One connection of a front-end: its messages, and what they set up.

use super::channel::{Channel, ChannelError, Message};
use super::device::Device;
use super::error::Error;
use super::inflight_area::InflightArea;
use super::message::*;
use super::vring::{Kick, Surroundings, Vring};
use crate::memory::{GuestMemory, MAX_REGIONS, Region};
use crate::notify::{self, Caller};
use crate::queue::RingError;
use crate::queue::layout::{F_EVENT_IDX, F_INDIRECT_DESC, F_VERSION_1, MAX_QUEUE_SIZE};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Features that come with the transport and the rings, whatever the device.
const COMMON_FEATURES: u64 = F_VERSION_1 | F_INDIRECT_DESC | F_EVENT_IDX | F_PROTOCOL_FEATURES;

/// How a connection ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The front-end went away.
    Disconnected,
    /// Somebody asked this side to stop.
    Stopped,
}

/// Serves one connection to its end; then every ring is stopped.
pub(super) fn serve(device: Arc<dyn Device>, channel: Channel) -> Result<Served, Error> {
    device.connected();
    let mut session = Session::new(device, channel);
    // A bug that one peer found must not end the serving of others; what it left
    // behind goes with the connection.
    let run = AssertUnwindSafe(|| session.run());
    let outcome = catch_unwind(run).unwrap_or(Err(Error::SessionPanicked));
    session.stop_rings();
    session.device.disconnected();
    // A ring that fails shuts the socket down, so its error is the true one.
    match session.failure.take() {
        Some(error) => Err(error),
        None => outcome,
    }
}

struct Session {
    device: Arc<dyn Device>,
    channel: Channel,
    offered: u64,
    features: u64,
    protocol: ProtocolFeatures,
    memory: Arc<GuestMemory>,
    vrings: Vec<Vring>,
    inflight: Option<InflightArea>,
    status: u64,
    /// The channel for requests of the back-end; nothing here sends any yet.
    backend_channel: Option<OwnedFd>,
    failure: Arc<Failure>,
}

/// The first error of a ring of this connection.
struct Failure {
    first: Mutex<Option<Error>>,
    socket: Arc<OwnedFd>,
}

impl Failure {
    fn set(&self, error: Error) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        // Ends the message loop.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    fn take(&self) -> Option<Error> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.take()
    }
}

/// What a message gets.
enum Answer {
    /// An acknowledgement, if the front-end wants one.
    Done,
    /// The same, but it says that the request was not granted.
    Refused,
    /// A reply of its own.
    Reply(Vec<u8>, Option<OwnedFd>),
}

impl Answer {
    fn reply(payload: &impl Payload) -> Result<Answer, Error> {
        Ok(Answer::Reply(payload.to_bytes(), None))
    }
}

impl Session {
    fn new(device: Arc<dyn Device>, channel: Channel) -> Self {
        let mut vrings = Vec::new();
        vrings.resize_with(usize::from(device.queues()), Vring::default);
        Session {
            offered: device.features() | COMMON_FEATURES,
            device,
            features: 0,
            protocol: ProtocolFeatures::empty(),
            memory: Arc::default(),
            vrings,
            inflight: None,
            status: 0,
            backend_channel: None,
            failure: Arc::new(Failure {
                first: Mutex::new(None),
                socket: channel.socket(),
            }),
            channel,
        }
    }

    fn run(&mut self) -> Result<Served, Error> {
        loop {
            let handled = match self.channel.recv() {
                Ok(Some(message)) => self.handle(message),
                Ok(None) => return Ok(Served::Disconnected),
                Err(error) => Err(error.into()),
            };
            match handled {
                Ok(()) => {}
                Err(Error::Channel(ChannelError::Stopped)) => return Ok(Served::Stopped),
                Err(error) => return Err(error),
            }
        }
    }

    fn handle(&mut self, message: Message) -> Result<(), Error> {
        let header = message.header;
        let Header { request, flags, .. } = header;
        if !header.has_known_version() || header.is_reply() {
            return Err(Error::BadFlags { request, flags });
        }
        tracing::trace!(request, flags, "vhost-user message");
        let outcome = self.dispatch(message);
        let acknowledge =
            header.needs_reply() && self.protocol.contains(ProtocolFeatures::REPLY_ACK);
        let (payload, fd) = match &outcome {
            Ok(Answer::Reply(payload, fd)) => (payload.clone(), fd.as_ref()),
            _ if !acknowledge => return outcome.map(|_| ()),
            Ok(Answer::Done) => (0u64.to_bytes(), None),
            Ok(Answer::Refused) | Err(_) => (1u64.to_bytes(), None),
        };
        let fds: Vec<_> = fd.iter().map(|fd| fd.as_fd()).collect();
        let sent = self.channel.send(request, Header::REPLY, &payload, &fds);
        outcome?;
        Ok(sent?)
    }

    fn dispatch(&mut self, message: Message) -> Result<Answer, Error> {
        match message.header.request {
            request::GET_FEATURES => Answer::reply(&self.offered),
            request::SET_FEATURES => self.set_features(&message),
            request::GET_PROTOCOL_FEATURES => Answer::reply(&ProtocolFeatures::all().bits()),
            request::SET_PROTOCOL_FEATURES => self.set_protocol_features(&message),
            // RESET_OWNER is deprecated and best ignored; nothing is ever logged.
            request::SET_OWNER | request::RESET_OWNER | request::SET_LOG_FD => Ok(Answer::Done),
            request::GET_QUEUE_NUM => Answer::reply(&(self.vrings.len() as u64)),
            request::SET_MEM_TABLE => self.set_mem_table(message),
            request::GET_MAX_MEM_SLOTS => Answer::reply(&(MAX_REGIONS as u64)),
            request::ADD_MEM_REG => self.add_mem_reg(message),
            request::REM_MEM_REG => self.rem_mem_reg(&message),
            request::SET_VRING_NUM => self.set_vring_num(&message),
            request::SET_VRING_ADDR => self.set_vring_addr(&message),
            request::SET_VRING_BASE => self.set_vring_base(&message),
            request::GET_VRING_BASE => self.get_vring_base(&message),
            request::SET_VRING_KICK => self.set_vring_kick(message),
            request::SET_VRING_CALL => self.set_vring_call(message),
            request::SET_VRING_ERR => self.set_vring_err(message),
            request::SET_VRING_ENABLE => self.set_vring_enable(&message),
            request::GET_CONFIG => self.get_config(&message),
            request::SET_CONFIG => set_config(&message),
            request::SET_BACKEND_REQ_FD => self.set_backend_channel(message),
            request::GET_INFLIGHT_FD => self.get_inflight_fd(&message),
            request::SET_INFLIGHT_FD => self.set_inflight_fd(message),
            request::RESET_DEVICE => self.reset_device(),
            request::SET_STATUS => self.set_status(&message),
            request::GET_STATUS => Answer::reply(&self.status),
            unknown => Err(Error::UnknownRequest(unknown)),
        }
    }

    // Features and configuration

    fn set_features(&mut self, message: &Message) -> Result<Answer, Error> {
        let features: u64 = parse(message)?;
        match features & !self.offered {
            0 => self.features = features,
            unknown => return Err(Error::UnknownFeatures(unknown)),
        }
        // Without protocol features, this may be what enables the rings.
        self.start_rings()
    }

    fn set_protocol_features(&mut self, message: &Message) -> Result<Answer, Error> {
        let bits = parse(message)?;
        let unknown = bits & !ProtocolFeatures::all().bits();
        self.protocol = ProtocolFeatures::from_bits(bits).ok_or(Error::UnknownFeatures(unknown))?;
        Ok(Answer::Done)
    }

    fn get_config(&self, message: &Message) -> Result<Answer, Error> {
        let mut config: Config = parse(message)?;
        let space = self.device.config_space();
        let offset = config.offset as usize;
        let end = offset.saturating_add(config.bytes.len());
        if end > MAX_CONFIG_BYTES {
            // An empty payload says that the request failed.
            return Ok(Answer::Reply(Vec::new(), None));
        }
        let known = space.iter().copied().chain(std::iter::repeat(0));
        config.bytes = known.skip(offset).take(config.bytes.len()).collect();
        Answer::reply(&config)
    }

    fn set_backend_channel(&mut self, message: Message) -> Result<Answer, Error> {
        self.backend_channel = Some(one_fd(message)?);
        Ok(Answer::Done)
    }

    fn reset_device(&mut self) -> Result<Answer, Error> {
        self.stop_rings();
        self.vrings.iter_mut().for_each(|v| *v = Vring::default());
        self.features = 0;
        self.status = 0;
        self.device.reset();
        Ok(Answer::Done)
    }

    /// Status 0 is sent for a mere pause as well, so it stops the rings and no more.
    fn set_status(&mut self, message: &Message) -> Result<Answer, Error> {
        self.status = parse(message)?;
        if self.status == 0 {
            self.stop_rings();
        }
        Ok(Answer::Done)
    }

    // Memory

    fn set_mem_table(&mut self, message: Message) -> Result<Answer, Error> {
        let MemoryTable(specs) = parse(&message)?;
        check_fd_count(&message, specs.len())?;
        let mut memory = GuestMemory::default();
        for (spec, fd) in specs.iter().zip(&message.fds) {
            memory = memory.with(Region::map(*spec, fd.as_fd())?)?;
        }
        self.set_memory(memory)
    }

    fn add_mem_reg(&mut self, message: Message) -> Result<Answer, Error> {
        let SingleRegion(spec) = parse(&message)?;
        let fd = one_fd(message)?;
        let memory = self.memory.with(Region::map(spec, fd.as_fd())?)?;
        self.set_memory(memory)
    }

    /// Some front-ends send a descriptor along; it is closed with the message.
    fn rem_mem_reg(&mut self, message: &Message) -> Result<Answer, Error> {
        let SingleRegion(spec) = parse(message)?;
        let memory = self.memory.without(&spec)?;
        self.set_memory(memory)
    }

    fn set_memory(&mut self, memory: GuestMemory) -> Result<Answer, Error> {
        self.memory = Arc::new(memory);
        for (index, vring) in (0..).zip(&self.vrings) {
            vring.set_memory(index, &self.memory)?;
        }
        Ok(Answer::Done)
    }

    // Rings

    fn set_vring_num(&mut self, message: &Message) -> Result<Answer, Error> {
        let VringState { index, num } = parse(message)?;
        let (index, vring) = self.stopped_vring(message, index)?;
        let size = u16::try_from(num)
            .ok()
            .filter(|size| size.is_power_of_two() && *size <= MAX_QUEUE_SIZE)
            .ok_or(RingError::BadSize(num))
            .map_err(Error::ring(index))?;
        vring.size = size;
        Ok(Answer::Done)
    }

    /// A running ring that moves is stopped and goes on at its new place.
    fn set_vring_addr(&mut self, message: &Message) -> Result<Answer, Error> {
        let addr: VringAddr = parse(message)?;
        let device = self.device.clone();
        let (index, vring) = self.vring(addr.index)?;
        let place = |a: &VringAddr| (a.descriptor, a.available, a.used);
        if vring.addr.as_ref().map(place) != Some(place(&addr)) {
            vring.stop(index, &*device);
        }
        vring.addr = Some(addr);
        self.start_rings()
    }

    fn set_vring_base(&mut self, message: &Message) -> Result<Answer, Error> {
        let VringState { index, num } = parse(message)?;
        let (_, vring) = self.stopped_vring(message, index)?;
        let bad = Error::BadPayload(message.header.request);
        vring.base = u16::try_from(num).map_err(|_| bad)?;
        Ok(Answer::Done)
    }

    fn get_vring_base(&mut self, message: &Message) -> Result<Answer, Error> {
        let VringState { index, .. } = parse(message)?;
        let device = self.device.clone();
        let (ring, vring) = self.vring(index)?;
        vring.stop(ring, &*device);
        vring.kick = None;
        let num = vring.base.into();
        Answer::reply(&VringState { index, num })
    }

    fn set_vring_kick(&mut self, message: Message) -> Result<Answer, Error> {
        let (index, fd) = vring_fd(message)?;
        let kick = match fd.map(notify::adopt_eventfd).transpose() {
            Ok(fd) => fd.map_or(Kick::Poll, |fd| Kick::Fd(Arc::new(fd))),
            Err(error) => return Err(Error::BadNotifier(error)),
        };
        let device = self.device.clone();
        let (index, vring) = self.vring(index)?;
        vring.stop(index, &*device);
        vring.kick = Some(kick);
        self.start_rings()
    }

    fn set_vring_call(&mut self, message: Message) -> Result<Answer, Error> {
        let (index, fd) = vring_fd(message)?;
        self.vring(index)?.1.set_call(caller(fd)?);
        Ok(Answer::Done)
    }

    fn set_vring_err(&mut self, message: Message) -> Result<Answer, Error> {
        let (index, fd) = vring_fd(message)?;
        self.vring(index)?.1.set_err(caller(fd)?);
        Ok(Answer::Done)
    }

    /// Disabling stops as `GET_VRING_BASE` does, but the ring stays started: user-mode
    /// Linux frees its rings when it has disabled them.
    fn set_vring_enable(&mut self, message: &Message) -> Result<Answer, Error> {
        let VringState { index, num } = parse(message)?;
        let device = self.device.clone();
        let (index, vring) = self.vring(index)?;
        vring.enabled = Some(num != 0);
        if num == 0 {
            vring.stop(index, &*device);
        }
        self.start_rings()
    }

    fn get_inflight_fd(&mut self, message: &Message) -> Result<Answer, Error> {
        let wanted = parse(message)?;
        let (area, shape, fd) = InflightArea::create(&wanted)?;
        self.inflight = Some(area);
        Ok(Answer::Reply(shape.to_bytes(), Some(fd)))
    }

    fn set_inflight_fd(&mut self, message: Message) -> Result<Answer, Error> {
        let shape = parse(&message)?;
        let fd = one_fd(message)?;
        self.inflight = Some(InflightArea::open(&shape, fd.as_fd())?);
        Ok(Answer::Done)
    }

    fn start_rings(&mut self) -> Result<Answer, Error> {
        let around = Surroundings {
            device: &self.device,
            memory: &self.memory,
            features: self.features,
            enabled_at_first: self.features & F_PROTOCOL_FEATURES == 0,
            inflight: self.inflight.as_ref(),
        };
        for (index, vring) in (0..).zip(&mut self.vrings) {
            let failure = self.failure.clone();
            vring.start_if_ready(index, &around, move |error| failure.set(error))?;
        }
        Ok(Answer::Done)
    }

    fn stop_rings(&mut self) {
        for (index, vring) in (0..).zip(&mut self.vrings) {
            vring.stop(index, &*self.device);
        }
    }

    fn vring(&mut self, index: u32) -> Result<(u16, &mut Vring), Error> {
        let number = u16::try_from(index).map_err(|_| Error::NoSuchRing(index))?;
        let vring = self.vrings.get_mut(usize::from(number));
        Ok((number, vring.ok_or(Error::NoSuchRing(index))?))
    }

    fn stopped_vring(&mut self, message: &Message, index: u32) -> Result<(u16, &mut Vring), Error> {
        let (index, vring) = self.vring(index)?;
        match vring.is_running() {
            true => Err(Error::RingIsRunning(message.header.request)),
            false => Ok((index, vring)),
        }
    }
}

/// Nothing in the configuration space is the driver's to write; a migration that
/// brings it along is ignored.
fn set_config(message: &Message) -> Result<Answer, Error> {
    const LIVE_MIGRATION: u32 = 1;
    let config: Config = parse(message)?;
    match config.flags & LIVE_MIGRATION {
        0 => Ok(Answer::Refused),
        _ => Ok(Answer::Done),
    }
}

fn parse<P: Payload>(message: &Message) -> Result<P, Error> {
    P::from_bytes(&message.payload).map_err(Error::bad_payload(message.header.request))
}

fn check_fd_count(message: &Message, wanted: usize) -> Result<(), Error> {
    let (request, count) = (message.header.request, message.fds.len());
    match count == wanted {
        true => Ok(()),
        false => Err(Error::BadFdCount { request, count }),
    }
}

fn one_fd(mut message: Message) -> Result<OwnedFd, Error> {
    check_fd_count(&message, 1)?;
    let (request, count) = (message.header.request, 0);
    message
        .fds
        .pop()
        .ok_or(Error::BadFdCount { request, count })
}

/// The ring and the descriptor that a kick, call or error message names.
fn vring_fd(message: Message) -> Result<(u32, Option<OwnedFd>), Error> {
    let VringFd { index, without_fd } = parse(&message)?;
    if without_fd {
        check_fd_count(&message, 0)?;
        return Ok((index.into(), None));
    }
    Ok((index.into(), Some(one_fd(message)?)))
}

fn caller(fd: Option<OwnedFd>) -> Result<Option<Arc<Caller>>, Error> {
    let caller = fd.map(Caller::adopt).transpose();
    Ok(caller.map_err(Error::BadNotifier)?.map(Arc::new))
}
