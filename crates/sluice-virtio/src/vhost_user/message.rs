//! Messages of the vhost-user protocol, both ways. All numbers are in native byte
//! order.

use crate::memory::RegionSpec;
use bitflags::bitflags;

/// Bytes of a message's header.
pub const HEADER_BYTES: usize = 12;
/// Longest payload that is accepted; the longest that any message needs is a memory
/// table of [`MAX_TABLE_REGIONS`].
pub const MAX_PAYLOAD_BYTES: usize = 4096;
/// Regions in one `SET_MEM_TABLE`; the specification has 8, some front-ends send more.
pub const MAX_TABLE_REGIONS: usize = 32;
/// Longest configuration space (`VHOST_USER_MAX_CONFIG_SIZE`).
pub const MAX_CONFIG_BYTES: usize = 256;

/// `VHOST_USER_F_PROTOCOL_FEATURES`, as a bit among the device's features.
pub const F_PROTOCOL_FEATURES: u64 = 1 << 30;

bitflags! {
    /// `VHOST_USER_PROTOCOL_F_*`
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ProtocolFeatures: u64 {
        /// `GET_QUEUE_NUM`
        const MQ = 1 << 0;
        /// Any message can ask for an answer.
        const REPLY_ACK = 1 << 3;
        /// A channel for requests of the back-end.
        const BACKEND_REQ = 1 << 5;
        /// `GET_CONFIG`, `SET_CONFIG`
        const CONFIG = 1 << 9;
        /// `GET_INFLIGHT_FD`, `SET_INFLIGHT_FD`
        const INFLIGHT_SHMFD = 1 << 12;
        /// `RESET_DEVICE`
        const RESET_DEVICE = 1 << 13;
        /// `GET_MAX_MEM_SLOTS`, `ADD_MEM_REG`, `REM_MEM_REG`
        const CONFIGURE_MEM_SLOTS = 1 << 15;
        /// `SET_STATUS`, `GET_STATUS`
        const STATUS = 1 << 16;
    }
}

/// Requests of a front-end, by number.
pub mod request {
    /// Reply: u64.
    pub const GET_FEATURES: u32 = 1;
    /// Payload: u64.
    pub const SET_FEATURES: u32 = 2;
    /// No payload.
    pub const SET_OWNER: u32 = 3;
    /// No payload; deprecated.
    pub const RESET_OWNER: u32 = 4;
    /// Payload: memory table; one descriptor for each region.
    pub const SET_MEM_TABLE: u32 = 5;
    /// One descriptor.
    pub const SET_LOG_FD: u32 = 7;
    /// Payload: vring state.
    pub const SET_VRING_NUM: u32 = 8;
    /// Payload: vring address.
    pub const SET_VRING_ADDR: u32 = 9;
    /// Payload: vring state.
    pub const SET_VRING_BASE: u32 = 10;
    /// Payload and reply: vring state.
    pub const GET_VRING_BASE: u32 = 11;
    /// Payload: u64; a descriptor unless its bit 8 is set.
    pub const SET_VRING_KICK: u32 = 12;
    /// As `SET_VRING_KICK`.
    pub const SET_VRING_CALL: u32 = 13;
    /// As `SET_VRING_KICK`.
    pub const SET_VRING_ERR: u32 = 14;
    /// Reply: u64.
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    /// Payload: u64.
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    /// Reply: u64.
    pub const GET_QUEUE_NUM: u32 = 17;
    /// Payload: vring state.
    pub const SET_VRING_ENABLE: u32 = 18;
    /// One descriptor.
    pub const SET_BACKEND_REQ_FD: u32 = 21;
    /// Payload and reply: configuration.
    pub const GET_CONFIG: u32 = 24;
    /// Payload: configuration.
    pub const SET_CONFIG: u32 = 25;
    /// Payload and reply: in-flight description; the reply has one descriptor.
    pub const GET_INFLIGHT_FD: u32 = 31;
    /// Payload: in-flight description; one descriptor.
    pub const SET_INFLIGHT_FD: u32 = 32;
    /// No payload.
    pub const RESET_DEVICE: u32 = 34;
    /// Reply: u64.
    pub const GET_MAX_MEM_SLOTS: u32 = 36;
    /// Payload: one region; one descriptor.
    pub const ADD_MEM_REG: u32 = 37;
    /// Payload: one region.
    pub const REM_MEM_REG: u32 = 38;
    /// Payload: u64.
    pub const SET_STATUS: u32 = 39;
    /// Reply: u64.
    pub const GET_STATUS: u32 = 40;
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// See [`request`].
    pub request: u32,
    /// Version, and whether this is a reply or asks for one.
    pub flags: u32,
    /// Bytes of payload.
    pub size: u32,
}

impl Header {
    /// The only version of the protocol.
    pub const VERSION: u32 = 1;
    /// This is a reply.
    pub const REPLY: u32 = 1 << 2;
    /// The sender wants an acknowledgement.
    pub const NEED_REPLY: u32 = 1 << 3;
    const VERSION_MASK: u32 = 3;

    /// The header of a request.
    pub fn new(request: u32, flags: u32, size: usize) -> Self {
        Header {
            request,
            flags: flags | Self::VERSION,
            size: u32::try_from(size).unwrap_or(u32::MAX),
        }
    }

    /// From its bytes.
    pub fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let mut fields = Fields(&bytes);
        Header {
            request: fields.u32().unwrap_or_default(),
            flags: fields.u32().unwrap_or_default(),
            size: fields.u32().unwrap_or_default(),
        }
    }

    /// Its bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        [self.request, self.flags, self.size]
            .iter()
            .flat_map(|field| field.to_ne_bytes())
            .collect()
    }

    /// Whether the version is the one there is.
    pub fn has_known_version(&self) -> bool {
        self.flags & Self::VERSION_MASK == Self::VERSION
    }

    /// Whether the sender wants an acknowledgement.
    pub fn needs_reply(&self) -> bool {
        self.flags & Self::NEED_REPLY != 0
    }

    /// Whether this is a reply.
    pub fn is_reply(&self) -> bool {
        self.flags & Self::REPLY != 0
    }
}

/// A payload shorter than its message needs, or with a field out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed payload")]
pub struct BadPayload;

/// Something that is a payload, or a part of one. Bytes behind it are ignored when it
/// is parsed: user-mode Linux sends a memory table with room for two regions when it
/// has one.
pub trait Payload: Sized {
    /// From bytes.
    fn parse(fields: &mut Fields<'_>) -> Result<Self, BadPayload>;
    /// To bytes.
    fn emit(&self, out: &mut Vec<u8>);

    /// From a whole payload.
    fn from_bytes(bytes: &[u8]) -> Result<Self, BadPayload> {
        Self::parse(&mut Fields(bytes))
    }

    /// A whole payload.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.emit(&mut out);
        out
    }
}

/// Bytes that are taken field by field.
#[derive(Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], BadPayload> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(BadPayload)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadPayload> {
        let (head, rest) = self.0.split_first_chunk().ok_or(BadPayload)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, BadPayload> {
        self.array().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Result<u32, BadPayload> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, BadPayload> {
        self.array().map(u64::from_ne_bytes)
    }
}

impl Payload for u64 {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, BadPayload> {
        fields.u64()
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.to_ne_bytes());
    }
}

/// "A vring state description"
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringState {
    /// Which ring.
    pub index: u32,
    /// What the message is about.
    pub num: u32,
}

impl Payload for VringState {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, BadPayload> {
        Ok(VringState {
            index: fields.u32()?,
            num: fields.u32()?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.index.to_ne_bytes());
        out.extend(self.num.to_ne_bytes());
    }
}

/// "A vring address description"; addresses are the front-end's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringAddr {
    /// Which ring.
    pub index: u32,
    /// `VHOST_VRING_F_LOG`
    pub flags: u32,
    /// Of the descriptor table.
    pub descriptor: u64,
    /// Of the used ring.
    pub used: u64,
    /// Of the available ring.
    pub available: u64,
    /// For logging.
    pub log: u64,
}

impl Payload for VringAddr {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, BadPayload> {
        Ok(VringAddr {
            index: fields.u32()?,
            flags: fields.u32()?,
            descriptor: fields.u64()?,
            used: fields.u64()?,
            available: fields.u64()?,
            log: fields.u64()?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.index.to_ne_bytes());
        out.extend(self.flags.to_ne_bytes());
        for field in [self.descriptor, self.used, self.available, self.log] {
            out.extend(field.to_ne_bytes());
        }
    }
}

/// Payload of `SET_VRING_KICK`, `_CALL` and `_ERR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringFd {
    /// Which ring, at most 255.
    pub index: u8,
    /// No descriptor comes with the message.
    pub without_fd: bool,
}

impl VringFd {
    const WITHOUT_FD: u64 = 1 << 8;
}

impl Payload for VringFd {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, BadPayload> {
        let value = fields.u64()?;
        Ok(VringFd {
            index: value as u8,
            without_fd: value & Self::WITHOUT_FD != 0,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flag = if self.without_fd { Self::WITHOUT_FD } else { 0 };
        out.extend((u64::from(self.index) | flag).to_ne_bytes());
    }
}

impl Payload for RegionSpec {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, BadPayload> {
        Ok(RegionSpec {
            guest_addr: fields.u64()?,
            size: fields.u64()?,
            user_addr: fields.u64()?,
            file_offset: fields.u64()?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        for field in [self.guest_addr, self.size, self.user_addr, self.file_offset] {
            out.extend(field.to_ne_bytes());
        }
    }
}

/// "Memory regions description"
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTable(pub Vec<RegionSpec>);

impl Payload for MemoryTable {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, BadPayload> {
        let count = fields.u32()? as usize;
        let _padding = fields.u32()?;
        if count > MAX_TABLE_REGIONS {
            return Err(BadPayload);
        }
        let regions = (0..count).map(|_| RegionSpec::parse(fields));
        Ok(MemoryTable(regions.collect::<Result<_, _>>()?))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend((self.0.len() as u32).to_ne_bytes());
        out.extend(0u32.to_ne_bytes());
        self.0.iter().for_each(|region| region.emit(out));
    }
}

/// "Single memory region description"
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleRegion(pub RegionSpec);

impl Payload for SingleRegion {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, BadPayload> {
        let _padding = fields.u64()?;
        RegionSpec::parse(fields).map(SingleRegion)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(0u64.to_ne_bytes());
        self.0.emit(out);
    }
}

/// "Virtio device config space"
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where it begins.
    pub offset: u32,
    /// Whether the message is about migration.
    pub flags: u32,
    /// Its bytes; their number is the `size` of the message.
    pub bytes: Vec<u8>,
}

impl Payload for Config {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, BadPayload> {
        let offset = fields.u32()?;
        let size = fields.u32()? as usize;
        let flags = fields.u32()?;
        if size > MAX_CONFIG_BYTES {
            return Err(BadPayload);
        }
        // Some front-ends send no room for what they ask for.
        let bytes = fields.bytes(size).map_or_else(|_| vec![0; size], Vec::from);
        Ok(Config {
            offset,
            flags,
            bytes,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.offset.to_ne_bytes());
        out.extend((self.bytes.len() as u32).to_ne_bytes());
        out.extend(self.flags.to_ne_bytes());
        out.extend(&self.bytes);
    }
}

/// "Inflight description"
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inflight {
    /// Bytes of the area.
    pub mmap_size: u64,
    /// Where it begins in its file.
    pub mmap_offset: u64,
    /// Queues that it has a record of.
    pub num_queues: u16,
    /// Descriptors of each.
    pub queue_size: u16,
}

impl Payload for Inflight {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, BadPayload> {
        Ok(Inflight {
            mmap_size: fields.u64()?,
            mmap_offset: fields.u64()?,
            num_queues: fields.u16()?,
            queue_size: fields.u16()?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.mmap_size.to_ne_bytes());
        out.extend(self.mmap_offset.to_ne_bytes());
        out.extend(self.num_queues.to_ne_bytes());
        out.extend(self.queue_size.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The bytes below are those of a little-endian machine.
    #[cfg(target_endian = "little")]
    #[test]
    fn golden_bytes() {
        let header = Header::new(request::GET_CONFIG, Header::NEED_REPLY, 0x34);
        assert_eq!(header.to_bytes(), [24, 0, 0, 0, 9, 0, 0, 0, 0x34, 0, 0, 0]);

        let table = MemoryTable(vec![RegionSpec {
            guest_addr: 1,
            size: 2,
            user_addr: 3,
            file_offset: 4,
        }]);
        let bytes = [
            1, 0, 0, 0, 0, 0, 0, 0, // number, padding
            1, 0, 0, 0, 0, 0, 0, 0, // guest address
            2, 0, 0, 0, 0, 0, 0, 0, // size
            3, 0, 0, 0, 0, 0, 0, 0, // user address
            4, 0, 0, 0, 0, 0, 0, 0, // mmap offset
        ];
        assert_eq!(table.to_bytes(), bytes);

        let addr = VringAddr {
            index: 1,
            flags: 0,
            descriptor: 2,
            used: 3,
            available: 4,
            log: 5,
        };
        let bytes = [
            1, 0, 0, 0, 0, 0, 0, 0, // index, flags
            2, 0, 0, 0, 0, 0, 0, 0, // descriptor
            3, 0, 0, 0, 0, 0, 0, 0, // used
            4, 0, 0, 0, 0, 0, 0, 0, // available
            5, 0, 0, 0, 0, 0, 0, 0, // log
        ];
        assert_eq!(addr.to_bytes(), bytes);

        let config = Config {
            offset: 36,
            flags: 0,
            bytes: vec![1, 2],
        };
        assert_eq!(
            config.to_bytes(),
            [36, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2]
        );

        let kick = VringFd {
            index: 3,
            without_fd: true,
        };
        assert_eq!(kick.to_bytes(), [3, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_table_with_trailing_bytes_is_accepted_as_user_mode_linux_sends_it() {
        let mut bytes = MemoryTable(vec![RegionSpec {
            guest_addr: 0x1000,
            size: 0x2000,
            user_addr: 0x1000,
            file_offset: 0,
        }])
        .to_bytes();
        bytes.resize(72, 0xff);
        assert_eq!(MemoryTable::from_bytes(&bytes).unwrap().0.len(), 1);
    }

    #[test]
    fn counts_beyond_their_limit_are_refused() {
        let mut bytes = vec![0; MAX_PAYLOAD_BYTES];
        bytes[..4].copy_from_slice(&33u32.to_ne_bytes());
        assert_eq!(MemoryTable::from_bytes(&bytes), Err(BadPayload));
        bytes[4..8].copy_from_slice(&257u32.to_ne_bytes());
        assert_eq!(Config::from_bytes(&bytes), Err(BadPayload));
    }

    fn shorter_is_refused<P: Payload>(payload: &P) {
        let bytes = payload.to_bytes();
        for len in 0..bytes.len() {
            assert!(P::from_bytes(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn payloads_that_are_too_short_are_refused() {
        shorter_is_refused(&7u64);
        shorter_is_refused(&VringState { index: 1, num: 2 });
        shorter_is_refused(&SingleRegion(RegionSpec {
            guest_addr: 1,
            size: 2,
            user_addr: 3,
            file_offset: 4,
        }));
        shorter_is_refused(&Inflight {
            mmap_size: 1,
            mmap_offset: 2,
            num_queues: 3,
            queue_size: 4,
        });
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = MemoryTable::from_bytes(&bytes);
            let _ = Config::from_bytes(&bytes);
            let _ = VringAddr::from_bytes(&bytes);
            let _ = VringFd::from_bytes(&bytes);
            let _ = Inflight::from_bytes(&bytes);
        }
    }
}
