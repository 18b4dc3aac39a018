//! Attributes, extended attributes.

use super::{Client, File};
use sluice_vfs::{
    Access, Attr, AttrMask, NodeId, Result, SetAttr, Stamp, Stat, StatFs, VecSink, XattrFlags,
    XattrName,
};

impl Client {
    /// Attributes of a node.
    pub fn getattr(&self, node: NodeId) -> Result<Attr> {
        self.stat(node).map(|stat| stat.attr)
    }

    /// Attributes of a node with their version.
    pub fn stat(&self, node: NodeId) -> Result<Stat> {
        let mask = AttrMask::BASIC | AttrMask::BTIME;
        self.session.getattr(&self.ctx(), node, None, mask)
    }

    /// Attributes of an open file.
    pub fn fgetattr(&self, file: File) -> Result<Attr> {
        let handle = Some(file.handle);
        let stat = self
            .session
            .getattr(&self.ctx(), file.node, handle, AttrMask::BASIC)?;
        Ok(stat.attr)
    }

    /// Changes attributes.
    pub fn setattr(&self, node: NodeId, changes: SetAttr) -> Result<Attr> {
        let stat = self.session.setattr(&self.ctx(), node, None, &changes)?;
        Ok(stat.attr)
    }

    /// Changes attributes of an open file.
    pub fn fsetattr(&self, file: File, changes: SetAttr) -> Result<Attr> {
        let handle = Some(file.handle);
        let stat = self
            .session
            .setattr(&self.ctx(), file.node, handle, &changes)?;
        Ok(stat.attr)
    }

    /// Changes permission bits.
    pub fn chmod(&self, node: NodeId, perm: u32) -> Result<Attr> {
        self.setattr(
            node,
            SetAttr {
                perm: Some(perm),
                ..SetAttr::default()
            },
        )
    }

    /// Changes owner and group.
    pub fn chown(&self, node: NodeId, uid: Option<u32>, gid: Option<u32>) -> Result<Attr> {
        self.setattr(
            node,
            SetAttr {
                uid,
                gid,
                ..SetAttr::default()
            },
        )
    }

    /// Changes the size.
    pub fn truncate(&self, node: NodeId, size: u64) -> Result<Attr> {
        self.setattr(
            node,
            SetAttr {
                size: Some(size),
                ..SetAttr::default()
            },
        )
    }

    /// Whether the caller may.
    pub fn access(&self, node: NodeId, access: Access) -> Result<()> {
        self.session.access(&self.ctx(), node, access)
    }

    /// A symlink's target.
    pub fn readlink(&self, node: NodeId) -> Result<Vec<u8>> {
        let mut sink = VecSink::new(sluice_vfs::SYMLINK_TARGET_MAX);
        self.session.readlink(&self.ctx(), node, &mut sink)?;
        Ok(sink.into_bytes())
    }

    /// The file system.
    pub fn statfs(&self, node: NodeId) -> Result<StatFs> {
        self.session.statfs(&self.ctx(), node)
    }

    /// Value of an attribute, of at most 64 KiB.
    pub fn getxattr(&self, node: NodeId, name: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.getxattr_within(node, name, sluice_vfs::XATTR_VALUE_MAX)
    }

    /// Value of an attribute, with room for `room` bytes.
    pub fn getxattr_within(
        &self,
        node: NodeId,
        name: impl AsRef<[u8]>,
        room: usize,
    ) -> Result<Vec<u8>> {
        let name = XattrName::new(name.as_ref())?;
        let mut sink = VecSink::new(room);
        let len = self
            .session
            .getxattr(&self.ctx(), node, name, Some(&mut sink))?;
        let value = sink.into_bytes();
        assert_eq!(len, value.len(), "the length is that of the value");
        Ok(value)
    }

    /// Length of an attribute's value.
    pub fn xattr_len(&self, node: NodeId, name: impl AsRef<[u8]>) -> Result<usize> {
        let name = XattrName::new(name.as_ref())?;
        self.session.getxattr(&self.ctx(), node, name, None)
    }

    /// Names of all attributes.
    pub fn listxattr(&self, node: NodeId) -> Result<Vec<String>> {
        let mut sink = VecSink::new(sluice_vfs::XATTR_LIST_MAX);
        let len = self.session.listxattr(&self.ctx(), node, Some(&mut sink))?;
        let list = sink.into_bytes();
        assert_eq!(len, list.len(), "the length is that of the list");
        assert!(list.is_empty() || list.ends_with(&[0]), "names end in NUL");
        let names = list
            .split(|&byte| byte == 0)
            .filter(|name| !name.is_empty());
        Ok(names
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect())
    }

    /// Sets an attribute, whether it exists or not.
    pub fn setxattr(&self, node: NodeId, name: impl AsRef<[u8]>, value: &[u8]) -> Result<Stamp> {
        self.setxattr_if(node, name, value, XattrFlags::empty())
    }

    /// Sets an attribute under conditions.
    pub fn setxattr_if(
        &self,
        node: NodeId,
        name: impl AsRef<[u8]>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp> {
        let name = XattrName::new(name.as_ref())?;
        self.session.setxattr(&self.ctx(), node, name, value, flags)
    }

    /// Removes an attribute.
    pub fn removexattr(&self, node: NodeId, name: impl AsRef<[u8]>) -> Result<Stamp> {
        let name = XattrName::new(name.as_ref())?;
        self.session.removexattr(&self.ctx(), node, name)
    }
}
