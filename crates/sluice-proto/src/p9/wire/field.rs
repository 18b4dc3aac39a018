//! What messages are made of: numbers, strings, lists, and payloads.

use super::dialect::Dialect;
use crate::codec::{BufferTooSmall, Malformed, Output};
use sluice_vfs::WALK_MAX;

/// One field of a message, in the order in which it stands there.
pub(super) trait Field<'a>: Sized {
    /// Fewest bytes that it takes, payloads not counted.
    const MIN_LEN: usize;
    /// Whether its bytes stay with the transport instead of being parsed.
    const IS_PAYLOAD: bool = false;

    /// Takes the field from the front of what is left.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Appends the field.
    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall>;
}

/// Numbers are little-endian.
macro_rules! numbers {
    ($($int:ty),*) => {$(
        impl<'a> Field<'a> for $int {
            const MIN_LEN: usize = size_of::<$int>();

            fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
                let field = stringify!($int);
                let (bytes, rest) = reader
                    .main
                    .split_first_chunk()
                    .ok_or(Malformed::Short { field })?;
                reader.main = rest;
                Ok(<$int>::from_le_bytes(*bytes))
            }

            fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
                writer.put(&self.to_le_bytes())
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64);

/// A string: a count of two bytes, and that many bytes. They should be UTF-8
/// and are taken as they come; names are checked where they are used.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Str<'a>(pub &'a [u8]);

impl<'a> Field<'a> for Str<'a> {
    const MIN_LEN: usize = 2;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let len = u16::decode(reader)?;
        reader.bytes(len.into(), "a string").map(Str)
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        let len = u16::try_from(self.0.len()).map_err(|_| BufferTooSmall)?;
        len.encode(writer)?;
        writer.put(self.0)
    }
}

impl std::fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A field that plain 9P2000 does not have; there it counts as its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extended<T>(pub T);

impl<'a, T: Field<'a> + Default> Field<'a> for Extended<T> {
    const MIN_LEN: usize = 0;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        match reader.dialect.is_extended() {
            true => T::decode(reader).map(Extended),
            false => Ok(Extended(T::default())),
        }
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        match writer.dialect.is_extended() {
            true => self.0.encode(writer),
            false => Ok(()),
        }
    }
}

/// A number at a message's end that some leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailing(pub Option<u32>);

impl<'a> Field<'a> for Trailing {
    const MIN_LEN: usize = 0;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        match reader.main.is_empty() {
            true => Ok(Trailing(None)),
            false => u32::decode(reader).map(|number| Trailing(Some(number))),
        }
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        self.0.map_or(Ok(()), |number| number.encode(writer))
    }
}

/// A user or group by number. None of all stands for "by name only".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixId(pub u32);

impl UnixId {
    /// No number is given (`P9_NONUNAME`).
    pub const NONE: UnixId = UnixId(u32::MAX);

    /// The number, if one is given.
    pub const fn get(self) -> Option<u32> {
        match self.0 {
            u32::MAX => None,
            id => Some(id),
        }
    }
}

impl Default for UnixId {
    fn default() -> Self {
        UnixId::NONE
    }
}

impl<'a> Field<'a> for UnixId {
    const MIN_LEN: usize = 4;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        u32::decode(reader).map(UnixId)
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        self.0.encode(writer)
    }
}

/// The names of a walk: at most [`WALK_MAX`] strings behind a count of two bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Names<'a> {
    count: u16,
    /// Strings, one after the other.
    bytes: &'a [u8],
}

impl<'a> Names<'a> {
    /// Lays `names` out in `buf`.
    pub fn new(names: &[&[u8]], buf: &'a mut [u8]) -> Result<Self, BufferTooSmall> {
        if names.len() > WALK_MAX {
            return Err(BufferTooSmall);
        }
        let mut writer = Writer::new(buf, Dialect::Plan9);
        for name in names {
            Str(name).encode(&mut writer)?;
        }
        let len = writer.len();
        Ok(Names {
            count: names.len() as u16,
            bytes: buf.get(..len).unwrap_or_default(),
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Whether there is none: the walk is a clone.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The names in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut reader = Reader::new(self.bytes, Dialect::Plan9);
        (0..self.count).map_while(move |_| Str::decode(&mut reader).ok().map(|name| name.0))
    }
}

impl<'a> Field<'a> for Names<'a> {
    const MIN_LEN: usize = 2;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = u16::decode(reader)?;
        check_count(count)?;
        let start = reader.main;
        for _ in 0..count {
            Str::decode(reader)?;
        }
        let len = start.len() - reader.main.len();
        Ok(Names {
            count,
            bytes: start.get(..len).unwrap_or_default(),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        self.count.encode(writer)?;
        writer.put(self.bytes)
    }
}

impl std::fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(Str)).finish()
    }
}

/// What a walk may carry at most.
pub(super) fn check_count(count: u16) -> Result<(), Malformed> {
    match usize::from(count) > WALK_MAX {
        true => Err(Malformed::Value {
            field: "the count of a walk",
            value: count.into(),
        }),
        false => Ok(()),
    }
}

/// Data that stays where the transport has it; a message only counts it, in
/// four bytes that stand right before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Its length in bytes.
    pub len: usize,
}

impl<'a> Field<'a> for Payload {
    const MIN_LEN: usize = 4;
    const IS_PAYLOAD: bool = true;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let stated = u32::decode(reader)?;
        let len = std::mem::take(&mut reader.payload_len);
        if u64::from(stated) != len as u64 {
            return Err(Malformed::Count {
                field: "count",
                stated: stated.into(),
                have: len as u64,
            });
        }
        Ok(Payload { len })
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        let count = u32::try_from(self.len).map_err(|_| BufferTooSmall)?;
        writer.payload_len = self.len;
        count.encode(writer)
    }
}

/// The part of a message that is still to be decoded.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    /// Fields.
    pub(super) main: &'a [u8],
    /// Bytes of payload that the transport holds.
    pub(super) payload_len: usize,
    /// What the version settled.
    pub(super) dialect: Dialect,
}

impl<'a> Reader<'a> {
    /// A reader of a message that is fields only.
    pub(super) fn new(main: &'a [u8], dialect: Dialect) -> Self {
        Reader {
            main,
            payload_len: 0,
            dialect,
        }
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
        match self.main.len() + self.payload_len {
            0 => Ok(()),
            count => Err(Malformed::Trailing { count }),
        }
    }
}

/// A message in the making.
#[derive(Debug)]
pub(super) struct Writer<'b> {
    output: Output<'b>,
    /// Bytes of payload that the transport adds.
    pub(super) payload_len: usize,
    /// What the version settled.
    pub(super) dialect: Dialect,
}

impl<'b> Writer<'b> {
    /// Writes from the start of `buf`.
    pub(super) fn new(buf: &'b mut [u8], dialect: Dialect) -> Self {
        Writer {
            output: Output::new(buf),
            payload_len: 0,
            dialect,
        }
    }

    /// Appends `bytes`.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), BufferTooSmall> {
        self.output.put(bytes)
    }

    /// Overwrites what stands at `at`, which was put there before.
    pub(super) fn patch(&mut self, at: usize, bytes: &[u8]) -> Result<(), BufferTooSmall> {
        self.output.patch(at, bytes)
    }

    /// Bytes written so far.
    pub(super) fn len(&self) -> usize {
        self.output.len()
    }
}

/// Declares structures that are fields, made of fields.
macro_rules! structures {
    ($(
        $(#[$meta:meta])*
        struct $name:ident $(<$life:lifetime>)? { $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name $(<$life>)? { $($(#[$field_meta])* pub $field: $ty,)* }

        impl<'a> $crate::p9::wire::field::Field<'a> for structures!(@name $name $($life)?) {
            const MIN_LEN: usize = 0 $(+ <$ty as $crate::p9::wire::field::Field<'a>>::MIN_LEN)*;

            fn decode(
                reader: &mut $crate::p9::wire::field::Reader<'a>,
            ) -> Result<Self, $crate::codec::Malformed> {
                Ok($name { $($field: $crate::p9::wire::field::Field::decode(reader)?,)* })
            }

            fn encode(
                &self,
                writer: &mut $crate::p9::wire::field::Writer<'_>,
            ) -> Result<(), $crate::codec::BufferTooSmall> {
                $($crate::p9::wire::field::Field::encode(&self.$field, writer)?;)*
                Ok(())
            }
        }
    )*};
    (@name $name:ident) => { $name };
    (@name $name:ident $life:lifetime) => { $name<'a> };
}
pub(super) use structures;
