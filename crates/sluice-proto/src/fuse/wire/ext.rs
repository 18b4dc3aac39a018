//! Extensions that follow the fields of requests which make a node.
//!
//! Each starts with its size (its own padding to 8 bytes included) and a type;
//! types up to 31 are security labels and count them (`fuse_ext_header`,
//! `fuse_secctx_header`).

use super::args::wire_structs;
use super::field::{CBytes, Field, Reader, Writer, fixed};
use crate::codec::{BufferTooSmall, Malformed};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most supplementary groups that are taken from one request. Linux sends at
/// most one: the directory's, if the caller is in it.
pub const SUPP_GROUPS_MAX: usize = 32;

/// `FUSE_MAX_NR_SECCTX`: types up to here count security labels.
const SECCTX_COUNT_MAX: u32 = 31;

/// `FUSE_EXT_GROUPS`.
const TYPE_GROUPS: u32 = 32;

/// All extensions of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions<'a> {
    /// The security label for the new node.
    pub label: Option<Label<'a>>,
    /// Supplementary groups of the caller.
    pub groups: Groups<'a>,
}

/// A security label.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Label<'a> {
    /// Name of the extended attribute, such as `security.selinux`.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// A list of group ids.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Groups<'a> {
    ids: &'a [u8],
}

impl<'a> Groups<'a> {
    /// These groups.
    pub fn new(ids: &'a [u32]) -> Self {
        Groups {
            ids: ids.as_bytes(),
        }
    }

    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.ids
            .chunks_exact(size_of::<u32>())
            .filter_map(|id| u32::read_from_bytes(id).ok())
    }
}

wire_structs! {
    /// `fuse_ext_header` and `fuse_secctx_header`.
    struct ExtHeader {
        /// Bytes of the extension, this header included.
        size: u32,
        /// `type`, or number of labels.
        kind: u32,
    }

    /// `fuse_secctx`.
    struct Secctx {
        /// Bytes of the value.
        size: u32,
        /// Zero.
        padding: u32,
    }

    /// Head of `fuse_supp_groups`.
    struct SuppGroups {
        /// Ids that follow.
        nr_groups: u32,
    }
}

fixed! { ExtHeader: 8, Secctx: 8, SuppGroups: 4 }

/// Extensions come in units of this many bytes.
pub(super) const UNIT: usize = 8;

impl<'a> Field<'a> for Extensions<'a> {
    const MIN_LEN: usize = 0;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut rest = std::mem::take(&mut reader.ext);
        let mut extensions = Extensions::default();
        while !rest.is_empty() {
            let header: ExtHeader = Reader::new(rest).fixed()?;
            let len = header.size as usize;
            if len < size_of::<ExtHeader>() || !len.is_multiple_of(UNIT) {
                return Err(Malformed::Extension("impossible size"));
            }
            let (block, behind) = rest
                .split_at_checked(len)
                .ok_or(Malformed::Extension("longer than the request"))?;
            let mut body = Reader::new(block);
            body.fixed::<ExtHeader>()?;
            match header.kind {
                0..=SECCTX_COUNT_MAX => extensions.label = decode_label(&mut body, header.kind)?,
                TYPE_GROUPS => extensions.groups = decode_groups(&mut body)?,
                _ => return Err(Malformed::Extension("unknown type")),
            }
            if body.main.len() >= UNIT {
                return Err(Malformed::Extension("bytes are left over"));
            }
            rest = behind;
        }
        Ok(extensions)
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        let start = writer.len();
        if let Some(label) = &self.label {
            let len = size_of::<Secctx>() + label.name.len() + 1 + label.value.len();
            encode_block(writer, 1, len, |writer| {
                let secctx = Secctx {
                    size: label.value.len() as u32,
                    padding: 0,
                };
                secctx.encode(writer)?;
                CBytes(label.name).encode(writer)?;
                writer.put(label.value)
            })?;
        }
        if !self.groups.ids.is_empty() {
            let len = size_of::<SuppGroups>() + self.groups.ids.len();
            encode_block(writer, TYPE_GROUPS, len, |writer| {
                let groups = SuppGroups {
                    nr_groups: self.groups.iter().count() as u32,
                };
                groups.encode(writer)?;
                writer.put(self.groups.ids)
            })?;
        }
        writer.ext_len = writer.len() - start;
        Ok(())
    }
}

/// Linux sends one label, or a count of none.
fn decode_label<'a>(body: &mut Reader<'a>, count: u32) -> Result<Option<Label<'a>>, Malformed> {
    match count {
        0 => Ok(None),
        1 => {
            let secctx: Secctx = body.fixed()?;
            let name = CBytes::decode(body)?.0;
            let value = body.bytes(secctx.size as usize, "security label")?;
            Ok(Some(Label { name, value }))
        }
        _ => Err(Malformed::Extension("more than one security label")),
    }
}

fn decode_groups<'a>(body: &mut Reader<'a>) -> Result<Groups<'a>, Malformed> {
    let count = body.fixed::<SuppGroups>()?.nr_groups as usize;
    if count > SUPP_GROUPS_MAX {
        return Err(Malformed::Extension("too many groups"));
    }
    let ids = body.bytes(count * size_of::<u32>(), "groups")?;
    Ok(Groups { ids })
}

fn encode_block(
    writer: &mut Writer<'_>,
    kind: u32,
    body_len: usize,
    body: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferTooSmall>,
) -> Result<(), BufferTooSmall> {
    let unpadded = size_of::<ExtHeader>() + body_len;
    let size = unpadded.next_multiple_of(UNIT);
    let header = ExtHeader {
        size: size as u32,
        kind,
    };
    header.encode(writer)?;
    body(writer)?;
    writer.put(&[0; UNIT][..size - unpadded])
}

impl std::fmt::Debug for Label<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}={}",
            self.name.escape_ascii(),
            self.value.escape_ascii()
        )
    }
}

impl std::fmt::Debug for Groups<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
