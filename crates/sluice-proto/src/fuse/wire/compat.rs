//! Structures of requests whose length depends on what was negotiated, or on
//! the peer's version.

use super::args::{InitIn, SetxattrIn};
use super::field::{Field, Reader, Writer};
use super::flags::{InitFlags, check_flags};
use crate::codec::{BufferTooSmall, Malformed};
use zerocopy::{FromBytes, IntoBytes};

/// `FUSE_COMPAT_SETXATTR_IN_SIZE`.
const SETXATTR_IN_COMPAT_LEN: usize = 8;

impl<'a> Field<'a> for SetxattrIn {
    const MIN_LEN: usize = SETXATTR_IN_COMPAT_LEN;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let len = SetxattrIn::wire_len(reader.dialect.setxattr_ext);
        let mut args = SetxattrIn::default();
        copy_prefix(&mut args, reader.bytes(len, "SetxattrIn")?);
        check_flags("SetxattrIn.setxattr_flags", args.setxattr_flags)?;
        Ok(args)
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        let len = SetxattrIn::wire_len(writer.dialect.setxattr_ext);
        writer.put(self.as_bytes().get(..len).unwrap_or_default())
    }
}

impl SetxattrIn {
    fn wire_len(is_extended: bool) -> usize {
        if is_extended {
            size_of::<SetxattrIn>()
        } else {
            SETXATTR_IN_COMPAT_LEN
        }
    }
}

/// Bytes of INIT before `INIT_EXT` (7.6 to 7.35).
const INIT_IN_COMPAT_LEN: usize = 16;

impl InitIn {
    /// Both halves of the flags.
    pub fn init_flags(&self) -> InitFlags {
        let low = InitFlags::from_bits_retain(self.flags.into());
        if low.contains(InitFlags::INIT_EXT) {
            InitFlags::from_bits_retain(low.bits() | u64::from(self.flags2) << 32)
        } else {
            low
        }
    }
}

/// An INIT from before `INIT_EXT` is shorter, and one of another major version
/// may have any length: only its version is meant to be read.
impl<'a> Field<'a> for InitIn {
    const MIN_LEN: usize = 8;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut args = InitIn::default();
        copy_prefix(
            &mut args,
            reader
                .main
                .get(..8)
                .ok_or(Malformed::Short { field: "InitIn" })?,
        );
        if args.major != super::MAJOR {
            reader.main = &[];
            return Ok(args);
        }
        let len = if reader.main.len() >= size_of::<InitIn>() {
            size_of::<InitIn>()
        } else {
            INIT_IN_COMPAT_LEN
        };
        copy_prefix(&mut args, reader.bytes(len, "InitIn")?);
        Ok(args)
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        let is_extended =
            InitFlags::from_bits_retain(self.flags.into()).contains(InitFlags::INIT_EXT);
        let len = if is_extended {
            size_of::<InitIn>()
        } else {
            INIT_IN_COMPAT_LEN
        };
        writer.put(self.as_bytes().get(..len).unwrap_or_default())
    }
}

const _: () = assert!(size_of::<SetxattrIn>() == 16);
const _: () = assert!(size_of::<InitIn>() == 64);

/// Overwrites the first bytes of `target`; `bytes` is no longer than that.
fn copy_prefix<T: FromBytes + IntoBytes>(target: &mut T, bytes: &[u8]) {
    for (to, from) in target.as_mut_bytes().iter_mut().zip(bytes) {
        *to = *from;
    }
}
