//! Qids: the server's identity of a file.

use super::field::{Field, Reader, Writer, check_count, structures};
use super::flags::QidType;
use crate::codec::{BufferTooSmall, Malformed};

structures! {
    /// What a file is, whatever its name (intro(5)). Two files are the same if
    /// their paths are equal.
    struct Qid {
        /// Kind of file.
        kind: QidType,
        /// Changes with the file; 0 if the server doesn't tell.
        version: u32,
        /// Unique among all files of the export, for ever.
        path: u64,
    }
}

/// Bytes of a qid.
pub const QID_LEN: usize = 13;

const _: () = assert!(<Qid as Field<'static>>::MIN_LEN == QID_LEN);

impl Qid {
    /// The qid as it stands in messages.
    pub fn to_bytes(&self) -> [u8; QID_LEN] {
        let [v0, v1, v2, v3] = self.version.to_le_bytes();
        let [p0, p1, p2, p3, p4, p5, p6, p7] = self.path.to_le_bytes();
        [
            self.kind.bits(),
            v0,
            v1,
            v2,
            v3,
            p0,
            p1,
            p2,
            p3,
            p4,
            p5,
            p6,
            p7,
        ]
    }

    /// Inverse of [`Qid::to_bytes`].
    pub fn from_bytes(bytes: &[u8; QID_LEN]) -> Self {
        let [kind, v0, v1, v2, v3, p0, p1, p2, p3, p4, p5, p6, p7] = *bytes;
        Qid {
            kind: QidType::from_bits_retain(kind),
            version: u32::from_le_bytes([v0, v1, v2, v3]),
            path: u64::from_le_bytes([p0, p1, p2, p3, p4, p5, p6, p7]),
        }
    }
}

/// The qids that a walk passed, behind a count of two bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Qids<'a>(pub &'a [[u8; QID_LEN]]);

impl<'a> Qids<'a> {
    /// The qids in order.
    pub fn iter(&self) -> impl Iterator<Item = Qid> + use<'a> {
        self.0.iter().map(Qid::from_bytes)
    }
}

impl<'a> Field<'a> for Qids<'a> {
    const MIN_LEN: usize = 2;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = u16::decode(reader)?;
        check_count(count)?;
        let bytes = reader.bytes(usize::from(count) * QID_LEN, "a qid")?;
        Ok(Qids(bytes.as_chunks().0))
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        let count = u16::try_from(self.0.len()).map_err(|_| BufferTooSmall)?;
        count.encode(writer)?;
        writer.put(self.0.as_flattened())
    }
}

impl std::fmt::Debug for Qids<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
