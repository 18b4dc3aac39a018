//! What messages are made of: fixed structures, names, lists, and the rest.

use super::message::Dialect;
use crate::codec::{BufferTooSmall, Malformed, Output};
use std::marker::PhantomData;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One field of a message, in the order in which it stands there.
pub(super) trait Field<'a>: Sized {
    /// Fewest bytes that it takes.
    const MIN_LEN: usize;
    /// Whether it stays with the transport instead of being parsed.
    const IS_PAYLOAD: bool = false;

    /// Takes the field from the front of what is left.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Appends the field.
    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall>;
}

/// A structure of fixed size.
pub(super) trait Fixed: FromBytes + IntoBytes + Immutable + KnownLayout + Copy {
    /// Its name, for errors.
    const NAME: &'static str;

    /// Checks values and flags that have a range.
    fn check(&self) -> Result<(), Malformed> {
        Ok(())
    }
}

impl<'a, T: Fixed> Field<'a> for T {
    const MIN_LEN: usize = size_of::<T>();

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let value: T = reader.fixed()?;
        value.check()?;
        Ok(value)
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        writer.put(self.as_bytes())
    }
}

/// Bytes that end at a NUL, which is not part of them: a name or a symlink's
/// target. Any other byte may occur; names are checked where they are used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CBytes<'a>(pub &'a [u8]);

impl<'a> Field<'a> for CBytes<'a> {
    const MIN_LEN: usize = 1;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let end = reader
            .main
            .iter()
            .position(|&byte| byte == 0)
            .ok_or(Malformed::Unterminated)?;
        let (bytes, rest) = reader.main.split_at(end);
        reader.main = rest.get(1..).ok_or(Malformed::Unterminated)?;
        Ok(CBytes(bytes))
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        writer.put(self.0)?;
        writer.put(&[0])
    }
}

impl std::fmt::Debug for CBytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// All that is left of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rest<'a>(pub &'a [u8]);

impl<'a> Field<'a> for Rest<'a> {
    const MIN_LEN: usize = 0;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Rest(std::mem::take(&mut reader.main)))
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        writer.put(self.0)
    }
}

impl std::fmt::Debug for Rest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Data that stays where the transport has it; a message only tells how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Its length in bytes.
    pub len: usize,
}

impl<'a> Field<'a> for Payload {
    const MIN_LEN: usize = 0;
    const IS_PAYLOAD: bool = true;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Payload {
            len: std::mem::take(&mut reader.payload_len),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        writer.payload_len = self.len;
        Ok(())
    }
}

/// The head of a list, which says how many items follow.
pub(super) trait CountHead: Fixed {
    /// The number of items.
    fn count(&self) -> u32;
    /// A head for so many items.
    fn with_count(count: u32) -> Self;
}

/// A counted list that fills the rest of its message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Counted<'a, Head, Item> {
    items: &'a [u8],
    types: PhantomData<(Head, Item)>,
}

impl<'a, Head, Item: FromBytes + IntoBytes + Immutable + KnownLayout> Counted<'a, Head, Item> {
    /// A list of `items`.
    pub fn new(items: &'a [Item]) -> Self {
        Counted {
            items: items.as_bytes(),
            types: PhantomData,
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len() / size_of::<Item>()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = Item> + use<'a, Head, Item> {
        self.items
            .chunks_exact(size_of::<Item>())
            .filter_map(|bytes| Item::read_from_bytes(bytes).ok())
    }
}

impl<'a, Head: CountHead, Item: Fixed> Field<'a> for Counted<'a, Head, Item> {
    const MIN_LEN: usize = size_of::<Head>();

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let stated = Head::decode(reader)?.count();
        let items = std::mem::take(&mut reader.main);
        let have = items.len() / size_of::<Item>();
        if !items.len().is_multiple_of(size_of::<Item>()) || have as u64 != u64::from(stated) {
            return Err(Malformed::Count {
                field: Head::NAME,
                stated: stated.into(),
                have: have as u64,
            });
        }
        Ok(Counted {
            items,
            types: PhantomData,
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        let count = self.items.len() / size_of::<Item>();
        Head::with_count(count as u32).encode(writer)?;
        writer.put(self.items)
    }
}

impl<Head, Item> std::fmt::Debug for Counted<'_, Head, Item> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} items", self.items.len() / size_of::<Item>())
    }
}

/// The part of a message that is still to be decoded.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    /// Fields.
    pub(super) main: &'a [u8],
    /// Extensions behind the fields.
    pub(super) ext: &'a [u8],
    /// Bytes of payload that the transport holds.
    pub(super) payload_len: usize,
    /// What was negotiated about the format.
    pub(super) dialect: Dialect,
}

impl<'a> Reader<'a> {
    /// A reader of a message that is fields only.
    pub(super) fn new(main: &'a [u8]) -> Self {
        Reader {
            main,
            ext: &[],
            payload_len: 0,
            dialect: Dialect::default(),
        }
    }

    /// Takes a fixed structure, unchecked.
    pub(super) fn fixed<T: Fixed>(&mut self) -> Result<T, Malformed> {
        let (value, rest) =
            T::read_from_prefix(self.main).map_err(|_| Malformed::Short { field: T::NAME })?;
        self.main = rest;
        Ok(value)
    }

    /// Takes `len` bytes.
    pub(super) fn bytes(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self
            .main
            .split_at_checked(len)
            .ok_or(Malformed::Short { field })?;
        self.main = rest;
        Ok(bytes)
    }

    /// Makes sure that nothing is left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        match self.main.len() + self.ext.len() + self.payload_len {
            0 => Ok(()),
            count => Err(Malformed::Trailing { count }),
        }
    }
}

/// A message in the making.
#[derive(Debug)]
pub(super) struct Writer<'b> {
    output: Output<'b>,
    /// Bytes of extensions among what was written.
    pub(super) ext_len: usize,
    /// Bytes of payload that the transport adds.
    pub(super) payload_len: usize,
    /// What was negotiated about the format.
    pub(super) dialect: Dialect,
}

impl<'b> Writer<'b> {
    /// Writes from the start of `buf`.
    pub(super) fn new(buf: &'b mut [u8], dialect: Dialect) -> Self {
        Writer {
            output: Output::new(buf),
            ext_len: 0,
            payload_len: 0,
            dialect,
        }
    }

    /// Appends `bytes`.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), BufferTooSmall> {
        self.output.put(bytes)
    }

    /// Overwrites what stands at the start, which was put there before.
    pub(super) fn patch_head(&mut self, bytes: &[u8]) -> Result<(), BufferTooSmall> {
        self.output.patch(0, bytes)
    }

    /// Bytes written so far.
    pub(super) fn len(&self) -> usize {
        self.output.len()
    }
}

/// Declares that structures are [`Fixed`] with nothing to check, and how big
/// they must be.
macro_rules! fixed {
    ($($name:ident: $size:literal),* $(,)?) => {$(
        impl $crate::fuse::wire::field::Fixed for $name {
            const NAME: &'static str = stringify!($name);
        }
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}
pub(super) use fixed;
