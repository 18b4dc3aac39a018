//! Attributes of files.

use super::dialect::Dialect;
use super::field::{Extended, Field, Reader, Str, UnixId, Writer, structures};
use super::flags::{GetattrMask, Perm, SetattrMask};
use super::qid::Qid;
use crate::codec::{BufferTooSmall, Malformed};

structures! {
    /// Body of Rgetattr.
    struct Attr {
        /// The fields that are filled.
        valid: GetattrMask,
        /// The file.
        qid: Qid,
        /// Type and permissions, as stat(2) has them.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Hard links.
        nlink: u64,
        /// Which device it stands for, as the kernel's 32-bit encoding.
        rdev: u64,
        /// Size in bytes.
        size: u64,
        /// Preferred I/O size in bytes.
        blksize: u64,
        /// Space taken, in units of 512 bytes.
        blocks: u64,
        /// Last access, seconds.
        atime_sec: u64,
        /// Last access, nanoseconds.
        atime_nsec: u64,
        /// Last change of the content, seconds.
        mtime_sec: u64,
        /// Last change of the content, nanoseconds.
        mtime_nsec: u64,
        /// Last change of the attributes, seconds.
        ctime_sec: u64,
        /// Last change of the attributes, nanoseconds.
        ctime_nsec: u64,
        /// Birth, seconds.
        btime_sec: u64,
        /// Birth, nanoseconds.
        btime_nsec: u64,
        /// Generation of the inode number.
        generation: u64,
        /// Version of the content.
        data_version: u64,
    }

    /// Arguments of Tsetattr behind the fid.
    struct SetAttr {
        /// What to set.
        valid: SetattrMask,
        /// Permissions.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Size in bytes.
        size: u64,
        /// Last access, seconds.
        atime_sec: u64,
        /// Last access, nanoseconds.
        atime_nsec: u64,
        /// Last change of the content, seconds.
        mtime_sec: u64,
        /// Last change of the content, nanoseconds.
        mtime_nsec: u64,
    }

    /// Body of Rstatfs.
    struct StatFs {
        /// Type of the file system.
        fs_type: u32,
        /// Optimal transfer size in bytes, and the unit of the counts.
        bsize: u32,
        /// Blocks in all.
        blocks: u64,
        /// Free blocks.
        bfree: u64,
        /// Free blocks for ordinary users.
        bavail: u64,
        /// Inodes in all.
        files: u64,
        /// Free inodes.
        ffree: u64,
        /// File system id.
        fsid: u64,
        /// Longest name in bytes.
        namelen: u32,
    }

    /// What stat(5) says of a file, without the size that stands before it. In
    /// Twstat all bits set mean "leave it", and so does an empty string.
    struct Stat<'a> {
        /// For the server's own use.
        kind: u16,
        /// For the server's own use.
        dev: u32,
        /// The file.
        qid: Qid,
        /// Permissions and kind.
        mode: Perm,
        /// Last access, seconds.
        atime: u32,
        /// Last change of the content, seconds.
        mtime: u32,
        /// Size in bytes.
        length: u64,
        /// Name; `/` for the root.
        name: Str<'a>,
        /// Owner.
        uid: Str<'a>,
        /// Group.
        gid: Str<'a>,
        /// Who changed it last.
        muid: Str<'a>,
        /// Target of a symlink, or which device.
        extension: Extended<Str<'a>>,
        /// Owner, as a number.
        n_uid: Extended<UnixId>,
        /// Group, as a number.
        n_gid: Extended<UnixId>,
        /// Who changed it last, as a number.
        n_muid: Extended<UnixId>,
    }
}

impl Stat<'_> {
    /// All fields say "leave it".
    pub const LEAVE: Stat<'static> = Stat {
        kind: u16::MAX,
        dev: u32::MAX,
        qid: Qid {
            kind: super::flags::QidType::from_bits_retain(u8::MAX),
            version: u32::MAX,
            path: u64::MAX,
        },
        mode: Perm::from_bits_retain(u32::MAX),
        atime: u32::MAX,
        mtime: u32::MAX,
        length: u64::MAX,
        name: Str(b""),
        uid: Str(b""),
        gid: Str(b""),
        muid: Str(b""),
        extension: Extended(Str(b"")),
        n_uid: Extended(UnixId::NONE),
        n_gid: Extended(UnixId::NONE),
        n_muid: Extended(UnixId::NONE),
    };
}

/// A value behind its size in two bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted<T>(pub T);

impl<'a, T: Field<'a>> Field<'a> for Counted<T> {
    const MIN_LEN: usize = 2 + T::MIN_LEN;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let len = u16::decode(reader)?;
        let mut inner = Reader::new(reader.bytes(len.into(), "a stat")?, reader.dialect);
        let value = T::decode(&mut inner)?;
        inner.end()?;
        Ok(Counted(value))
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
        let at = writer.len();
        0_u16.encode(writer)?;
        let start = writer.len();
        self.0.encode(writer)?;
        let len = u16::try_from(writer.len() - start).map_err(|_| BufferTooSmall)?;
        writer.patch(at, &len.to_le_bytes())
    }
}

/// Writes an entry of a directory that is read with Tread; returns its bytes.
pub fn encode_stat(
    stat: &Stat<'_>,
    dialect: Dialect,
    buf: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    let mut writer = Writer::new(buf, dialect);
    Counted(*stat).encode(&mut writer)?;
    Ok(writer.len())
}

/// Reads the entries of a directory that was read with Tread.
#[derive(Clone, Copy, Debug)]
pub struct Stats<'a> {
    rest: &'a [u8],
    dialect: Dialect,
}

impl<'a> Stats<'a> {
    /// Entries in `bytes`.
    pub fn new(bytes: &'a [u8], dialect: Dialect) -> Self {
        Stats {
            rest: bytes,
            dialect,
        }
    }
}

impl<'a> Iterator for Stats<'a> {
    type Item = Result<Stat<'a>, Malformed>;

    /// After an error nothing is left.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let mut reader = Reader::new(std::mem::take(&mut self.rest), self.dialect);
        let stat = Counted::decode(&mut reader).map(|stat| stat.0);
        if stat.is_ok() {
            self.rest = reader.main;
        }
        Some(stat)
    }
}
