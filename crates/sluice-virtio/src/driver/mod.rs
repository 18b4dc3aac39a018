//! The driver's end: a VMM and a guest's virtio driver in one, for tests, benches and
//! tools. It works with any vhost-user device, and can misbehave at will.

mod memory;
mod queue;

pub use queue::{Completion, DriverQueue, Token};

use crate::memory::{GuestMemory, MemoryError, OutOfRange};
use crate::queue::RingLayout;
use crate::queue::layout::*;
use crate::vhost_user::channel::{Channel, ChannelError, Message};
use crate::vhost_user::message::*;
use memory::SharedMemory;
use queue::{INDIRECT_DESCRIPTORS, QueueParts, QueuePlace};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How a driver waits for completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// Sleeps until the device signals.
    Event,
    /// Looks at the used ring, and asks the device for no signals.
    Spin,
}

/// What a driver is like.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Descriptors of each ring: a power of two up to 1024.
    pub queue_size: u16,
    /// Requests of each ring that can be in flight, at most `queue_size`.
    pub slots: u16,
    /// Room for the buffers of one request.
    pub slot_bytes: u32,
    /// Room for everything; pages that nobody touches cost nothing.
    pub memory_bytes: u64,
    /// Regions that the memory is divided into, adjacent for the guest.
    pub regions: u16,
    /// Features to take if offered, `VIRTIO_F_VERSION_1` and the protocol features
    /// aside: `F_INDIRECT_DESC` makes requests use indirect tables.
    pub features: u64,
    /// Protocol features to take if offered.
    pub protocol: ProtocolFeatures,
    /// How to wait for completions.
    pub wait_mode: WaitMode,
    /// How long to wait for an answer or a completion.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            queue_size: 128,
            slots: 16,
            slot_bytes: 2 << 20,
            memory_bytes: 256 << 20,
            regions: 1,
            features: F_INDIRECT_DESC | F_EVENT_IDX,
            protocol: ProtocolFeatures::MQ | ProtocolFeatures::REPLY_ACK | ProtocolFeatures::CONFIG,
            wait_mode: WaitMode::Event,
            timeout: Duration::from_secs(10),
        }
    }
}

/// What went wrong for a driver.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The socket, or what came over it.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The device closed the connection.
    #[error("the device closed the connection")]
    Closed,
    /// The device did not grant a request.
    #[error("the device refused message {request} with {status}")]
    Refused {
        /// Number of the request.
        request: u32,
        /// What it answered.
        status: u64,
    },
    /// A reply that does not belong to the request.
    #[error("unexpected reply to message {0}")]
    BadReply(u32),
    /// The shared memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// An address outside of the shared memory.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The shared memory is used up.
    #[error("no room for {0} bytes in the shared memory")]
    OutOfMemory(u64),
    /// No slot or no descriptor is free.
    #[error("the queue is full")]
    QueueFull,
    /// More bytes or buffers than a slot has room for.
    #[error("the request has no room in a slot")]
    RequestTooLarge,
    /// The device completed what was never submitted.
    #[error("the device completed {0}, which is not in flight")]
    UnknownUsed(u32),
    /// Nothing came within [`Options::timeout`].
    #[error("nothing came in time")]
    TimedOut,
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for DriverError {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// A connection to a device.
#[derive(Debug)]
pub struct Driver {
    channel: Channel,
    options: Options,
    memory: SharedMemory,
    features: u64,
    offered: u64,
    protocol: ProtocolFeatures,
}

impl Driver {
    /// Connects to the device that listens at `path`, and negotiates.
    pub fn connect(path: &Path, options: Options) -> Result<Self, DriverError> {
        Self::new(UnixStream::connect(path)?, options)
    }

    /// Negotiates over a connection, and shares memory; no queue is started.
    pub fn new(stream: UnixStream, options: Options) -> Result<Self, DriverError> {
        let mut driver = Self::unshared(stream, options)?;
        driver.negotiate()?;
        driver.share_memory()?;
        Ok(driver)
    }

    /// A driver that has sent nothing yet.
    pub fn unshared(stream: UnixStream, options: Options) -> Result<Self, DriverError> {
        Ok(Driver {
            channel: Channel::new(stream).with_timeout(options.timeout),
            memory: SharedMemory::new(options.memory_bytes, options.regions.into())?,
            options,
            features: 0,
            offered: 0,
            protocol: ProtocolFeatures::empty(),
        })
    }

    /// Negotiates features and protocol features.
    pub fn negotiate(&mut self) -> Result<(), DriverError> {
        self.request(request::SET_OWNER, &[], &[])?;
        self.offered = self.get_u64(request::GET_FEATURES)?;
        let wanted = self.options.features | F_VERSION_1 | F_PROTOCOL_FEATURES;
        self.features = self.offered & wanted;
        if self.offered & F_PROTOCOL_FEATURES != 0 {
            let offered = self.get_u64(request::GET_PROTOCOL_FEATURES)?;
            let offered = ProtocolFeatures::from_bits_truncate(offered);
            let protocol = offered & self.options.protocol;
            let bits = protocol.bits().to_bytes();
            self.request(request::SET_PROTOCOL_FEATURES, &bits, &[])?;
            self.protocol = protocol;
        }
        self.request(request::SET_FEATURES, &self.features.to_bytes(), &[])?;
        Ok(())
    }

    /// Sends the memory table.
    pub fn share_memory(&self) -> Result<(), DriverError> {
        let table = self.memory.table();
        let fds = vec![self.memory.file(); table.0.len()];
        self.request(request::SET_MEM_TABLE, &table.to_bytes(), &fds)
    }

    /// Makes a ring and starts it.
    pub fn start_queue(&mut self, index: u16) -> Result<DriverQueue, DriverError> {
        let queue = self.make_queue(index)?;
        self.start(&queue, 0)?;
        Ok(queue)
    }

    /// Makes a ring in shared memory that the device does not know of yet.
    pub fn make_queue(&mut self, index: u16) -> Result<DriverQueue, DriverError> {
        let size = self.options.queue_size;
        let slots = self.options.slots.min(size);
        let descriptors = self.ring_part(descriptor_table_bytes(size))?;
        let available = self.ring_part(avail_bytes(size))?;
        let used = self.ring_part(used_bytes(size))?;
        let slot_bytes = u64::from(self.options.slot_bytes);
        let table_bytes = descriptor_table_bytes(INDIRECT_DESCRIPTORS as u16) as u64;
        let count = u64::from(slots);
        let place = QueuePlace {
            tables: self.memory.allocate(table_bytes * count, 16)?,
            slots: self.memory.allocate(slot_bytes * count, 4096)?,
            slot_bytes,
            slot_count: slots,
        };

        DriverQueue::new(QueueParts {
            index,
            layout: RingLayout {
                size,
                descriptors,
                available,
                used,
            },
            place,
            memory: self.memory.mapped().clone(),
            kick: Arc::new(notifier()?),
            call: Arc::new(notifier()?),
            event_idx: self.features & F_EVENT_IDX != 0,
            indirect: self.features & F_INDIRECT_DESC != 0,
            wait_mode: self.options.wait_mode,
            timeout: self.options.timeout,
        })
    }

    /// Tells the device about a ring and starts it at `base` of the available ring.
    pub fn start(&self, queue: &DriverQueue, base: u16) -> Result<(), DriverError> {
        let RingLayout {
            size,
            descriptors,
            available,
            used,
        } = *queue.layout();
        let index = u32::from(queue.index());
        let state = |num: u32| VringState { index, num }.to_bytes();
        let addr = VringAddr {
            index,
            flags: 0,
            descriptor: descriptors,
            used,
            available,
            log: 0,
        };
        let fd = VringFd {
            index: queue.index() as u8,
            without_fd: false,
        };
        self.request(request::SET_VRING_NUM, &state(size.into()), &[])?;
        self.request(request::SET_VRING_BASE, &state(base.into()), &[])?;
        self.request(request::SET_VRING_ADDR, &addr.to_bytes(), &[])?;
        let (kick, call) = (queue.kick.as_fd(), queue.call.as_fd());
        self.request(request::SET_VRING_CALL, &fd.to_bytes(), &[call])?;
        self.request(request::SET_VRING_KICK, &fd.to_bytes(), &[kick])?;
        self.enable(queue.index(), true)
    }

    /// Enables or disables a ring.
    pub fn enable(&self, index: u16, enable: bool) -> Result<(), DriverError> {
        if self.features & F_PROTOCOL_FEATURES == 0 {
            return Ok(());
        }
        let state = VringState {
            index: index.into(),
            num: enable.into(),
        };
        self.request(request::SET_VRING_ENABLE, &state.to_bytes(), &[])
    }

    /// Stops a ring; returns where its available ring would go on.
    pub fn stop(&self, index: u16) -> Result<u16, DriverError> {
        let asked = VringState {
            index: index.into(),
            num: 0,
        };
        let reply = self.exchange(request::GET_VRING_BASE, &asked.to_bytes(), &[])?;
        let bad = |_| DriverError::BadReply(request::GET_VRING_BASE);
        let state = VringState::from_bytes(&reply.payload).map_err(bad)?;
        Ok(state.num as u16)
    }

    /// Reads `len` bytes of the configuration space at `offset`; `None` if the device
    /// has none there.
    pub fn config(&self, offset: u32, len: usize) -> Result<Option<Vec<u8>>, DriverError> {
        let asked = Config {
            offset,
            flags: 0,
            bytes: vec![0; len],
        };
        let reply = self.exchange(request::GET_CONFIG, &asked.to_bytes(), &[])?;
        if reply.payload.is_empty() {
            return Ok(None);
        }
        let bad = |_| DriverError::BadReply(request::GET_CONFIG);
        Ok(Some(Config::from_bytes(&reply.payload).map_err(bad)?.bytes))
    }

    /// Features that the device offered.
    pub fn offered_features(&self) -> u64 {
        self.offered
    }

    /// The protocol features in use.
    pub fn protocol_features(&self) -> ProtocolFeatures {
        self.protocol
    }

    /// Asks for a number.
    pub fn get_u64(&self, request: u32) -> Result<u64, DriverError> {
        let reply = self.exchange(request, &[], &[])?;
        u64::from_bytes(&reply.payload).map_err(|_| DriverError::BadReply(request))
    }

    /// Sends a message that has no reply of its own; waits for the acknowledgement if
    /// those are in use.
    pub fn request(
        &self,
        request: u32,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), DriverError> {
        if !self.protocol.contains(ProtocolFeatures::REPLY_ACK) {
            return Ok(self.channel.send(request, 0, payload, fds)?);
        }
        let flags = Header::NEED_REPLY;
        self.channel.send(request, flags, payload, fds)?;
        let reply = self.receive(request)?;
        match u64::from_bytes(&reply.payload) {
            Ok(0) => Ok(()),
            Ok(status) => Err(DriverError::Refused { request, status }),
            Err(_) => Err(DriverError::BadReply(request)),
        }
    }

    /// Sends a message that has a reply of its own, and returns it.
    pub fn exchange(
        &self,
        request: u32,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Message, DriverError> {
        self.channel.send(request, 0, payload, fds)?;
        self.receive(request)
    }

    /// The socket, to send and receive anything.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The shared memory, at guest addresses.
    pub fn memory(&self) -> &GuestMemory {
        self.memory.mapped()
    }

    /// The regions as the device gets them.
    pub fn memory_table(&self) -> MemoryTable {
        self.memory.table()
    }

    /// The file behind the shared memory.
    pub fn memory_file(&self) -> BorrowedFd<'_> {
        self.memory.file()
    }

    fn ring_part(&mut self, bytes: usize) -> Result<u64, DriverError> {
        let guest_addr = self.memory.allocate(bytes as u64, 4096)?;
        let missing = OutOfRange {
            addr: guest_addr,
            len: bytes as u64,
        };
        Ok(self.memory.user_addr(guest_addr).ok_or(missing)?)
    }

    fn receive(&self, request: u32) -> Result<Message, DriverError> {
        let message = match self.channel.recv() {
            Ok(Some(message)) => message,
            Ok(None) | Err(ChannelError::CutShort) => return Err(DriverError::Closed),
            Err(error) => return Err(error.into()),
        };
        match message.header.is_reply() && message.header.request == request {
            true => Ok(message),
            false => Err(DriverError::BadReply(request)),
        }
    }
}

/// An eventfd as drivers use them, for messages sent by hand.
pub fn notifier() -> io::Result<OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    Ok(eventfd(0, flags)?)
}
