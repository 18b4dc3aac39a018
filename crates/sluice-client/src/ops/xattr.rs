//! Extended attributes: a fid of its own for each that is read or written.

use super::{OpenFid, Tree, odd};
use crate::error::{Error, Result, Violation};
use sluice_proto::p9::wire::{Qid, Reply, Request, Str, XATTR_EMPTY};
use sluice_vfs::{Errno, XATTR_LIST_MAX, XATTR_VALUE_MAX, XattrFlags};
use std::io::{IoSlice, IoSliceMut};

impl Tree {
    /// The value of an attribute.
    pub(crate) fn read_xattr(&self, fid: u32, name: &[u8]) -> Result<Vec<u8>> {
        let value = self.walk_xattr(fid, name);
        let mut parts = name.splitn(2, |byte| *byte == b'.');
        let can_be = parts.nth(1).is_some_and(|own| !own.is_empty());
        // hugelgupf/p9 says that whatever is wrong.
        if !can_be || !matches!(value, Err(Error::Refused(Errno::EINVAL))) {
            return value;
        }
        match self.list_xattrs(fid) {
            Ok(list) if list.split(|byte| *byte == 0).all(|it| it != name) => {
                Err(Error::Refused(Errno::ENODATA))
            }
            Err(error) if error.is_fatal() => Err(error),
            _ => value,
        }
    }

    /// The names of all attributes, each ended by a NUL.
    pub(crate) fn list_xattrs(&self, fid: u32) -> Result<Vec<u8>> {
        let said = self.walk_xattr(fid, b"")?;
        let mut list = Vec::with_capacity(said.len() + 1);
        // Some servers have a NUL where there is no name.
        for name in said.split(|byte| *byte == 0).filter(|it| !it.is_empty()) {
            list.extend(name);
            list.push(0);
        }
        Ok(list)
    }

    /// The value of an attribute, or without a name the list of all.
    fn walk_xattr(&self, fid: u32, name: &[u8]) -> Result<Vec<u8>> {
        self.require_linux("extended attributes")?;
        let mut new = self.new_fid();
        let (newfid, name) = (new.number(), Str(name));
        let answer = self
            .connection
            .call(&Request::Xattrwalk { fid, newfid, name });
        new.note(answer.as_ref().err());
        match answer?.get()? {
            Reply::Xattrwalk { size } => self.read_value(newfid, size),
            other => Err(odd(&other)),
        }
    }

    fn read_value(&self, fid: u32, size: u64) -> Result<Vec<u8>> {
        let most = XATTR_VALUE_MAX.max(XATTR_LIST_MAX);
        let size = usize::try_from(size).ok().filter(|size| *size <= most);
        let size = size.ok_or(Violation::Value("the size of an attribute"))?;
        let mut value = vec![0; size];
        let file = self.value_fid(fid);
        let len = self.read(&file, 0, &mut [IoSliceMut::new(&mut value)])?;
        value.truncate(len);
        Ok(value)
    }

    /// Sets an attribute. Only our dialect has empty values: `EINVAL`.
    pub(crate) fn write_xattr(
        &self,
        fid: u32,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        if !value.is_empty() {
            return self.put_xattr(fid, name, value, flags.bits());
        }
        match self.has_empty_values(fid)? {
            true => self.put_xattr(fid, name, value, flags.bits() | XATTR_EMPTY),
            false => Err(Error::Refused(Errno::EINVAL)),
        }
    }

    /// A server that took the dialect for its own without knowing it would remove
    /// the attribute: a message that it answers shows that it does.
    fn has_empty_values(&self, fid: u32) -> Result<bool> {
        let none: [&[u8]; 0] = [];
        match self.stat_fused(fid, &none) {
            Some(known) => known.map(|_| true).map_err(|stopped| stopped.error),
            None => Ok(false),
        }
    }

    /// Takes an attribute away.
    pub(crate) fn remove_xattr(&self, fid: u32, name: &[u8]) -> Result<()> {
        self.put_xattr(fid, name, b"", XattrFlags::REPLACE.bits())
    }

    /// No bytes take the attribute away, unless the flags say that they are it.
    fn put_xattr(&self, fid: u32, name: &[u8], value: &[u8], flags: u32) -> Result<()> {
        self.require_linux("extended attributes")?;
        let none: [&[u8]; 0] = [];
        let (new, _) = self.walk(fid, &none).map_err(|stopped| stopped.error)?;
        let fid = new.number();
        let begun = self.connection.call(&Request::Xattrcreate {
            fid,
            name: Str(name),
            size: value.len() as u64,
            flags,
        });
        let file = self.value_fid(fid);
        let written = begun.and_then(|_| match value.is_empty() {
            true => Ok(0),
            false => self.write(&file, 0, &[IoSlice::new(value)], true),
        });
        // It is set now, or never.
        let set = new.end_by(&Request::Clunk { fid });
        match written? {
            len if len < value.len() => Err(Error::Refused(Errno::EIO)),
            _ => set,
        }
    }

    fn value_fid(&self, fid: u32) -> OpenFid {
        OpenFid {
            fid,
            chunk: self.connection.agreed.payload_max(),
            qid: Qid::default(),
            attr: None,
        }
    }
}
