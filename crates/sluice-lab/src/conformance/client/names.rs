//! Finding, making and removing names.

use super::Client;
use sluice_vfs::{
    Device, Entry, FileType, Lookup, Name, NewNode, NodeId, RenameFlags, Renamed, Result, Stamp,
    Walk,
};

impl Client {
    /// What a name leads to, or `ENOENT`.
    pub fn lookup(&self, parent: NodeId, name: impl AsRef<[u8]>) -> Result<Entry> {
        self.lookup_either(parent, name).and_then(Lookup::found)
    }

    /// What a name leads to, or that it doesn't exist.
    pub fn lookup_either(&self, parent: NodeId, name: impl AsRef<[u8]>) -> Result<Lookup> {
        let name = Name::new(name.as_ref())?;
        self.session.lookup(&self.ctx(), parent, name)
    }

    /// The directory above.
    pub fn parent(&self, node: NodeId) -> Result<Entry> {
        self.session.parent(&self.ctx(), node)
    }

    /// Follows several names.
    pub fn walk(&self, from: NodeId, names: &[&str]) -> Result<Walk> {
        let names: Vec<Name<'_>> = names
            .iter()
            .map(|&name| Name::try_from(name))
            .collect::<std::result::Result<_, _>>()?;
        self.session.walk(&self.ctx(), from, &names)
    }

    /// Another reference.
    pub fn remember(&self, node: NodeId) -> Result<Entry> {
        self.session.remember(&self.ctx(), node)
    }

    /// Gives references back.
    pub fn forget(&self, node: NodeId, count: u64) {
        self.session.forget(node, count);
    }

    /// Makes a directory.
    pub fn mkdir(&self, parent: NodeId, name: impl AsRef<[u8]>, perm: u32) -> Result<Entry> {
        self.mkdir_with(parent, name, &NewNode::with_perm(perm))
    }

    /// Makes a directory.
    pub fn mkdir_with(
        &self,
        parent: NodeId,
        name: impl AsRef<[u8]>,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let name = Name::new(name.as_ref())?;
        self.session.mkdir(&self.ctx(), parent, name, new)
    }

    /// Makes a node that has no device number.
    pub fn mknod(
        &self,
        parent: NodeId,
        name: impl AsRef<[u8]>,
        file_type: FileType,
        perm: u32,
    ) -> Result<Entry> {
        let new = NewNode::with_perm(perm);
        self.mknod_with(parent, name, file_type, Device::default(), &new)
    }

    /// Makes a node.
    pub fn mknod_with(
        &self,
        parent: NodeId,
        name: impl AsRef<[u8]>,
        file_type: FileType,
        rdev: Device,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let name = Name::new(name.as_ref())?;
        self.session
            .mknod(&self.ctx(), parent, name, file_type, rdev, new)
    }

    /// Makes a symlink.
    pub fn symlink(
        &self,
        parent: NodeId,
        name: impl AsRef<[u8]>,
        target: impl AsRef<[u8]>,
    ) -> Result<Entry> {
        let name = Name::new(name.as_ref())?;
        let new = NewNode::with_perm(0o777);
        self.session
            .symlink(&self.ctx(), parent, name, target.as_ref(), &new)
    }

    /// Gives a node another name.
    pub fn link(&self, node: NodeId, parent: NodeId, name: impl AsRef<[u8]>) -> Result<Entry> {
        let name = Name::new(name.as_ref())?;
        self.session.link(&self.ctx(), node, parent, name)
    }

    /// Removes a name.
    pub fn unlink(&self, parent: NodeId, name: impl AsRef<[u8]>) -> Result<Stamp> {
        let name = Name::new(name.as_ref())?;
        self.session.unlink(&self.ctx(), parent, name)
    }

    /// Removes a directory.
    pub fn rmdir(&self, parent: NodeId, name: impl AsRef<[u8]>) -> Result<Stamp> {
        let name = Name::new(name.as_ref())?;
        self.session.rmdir(&self.ctx(), parent, name)
    }

    /// Moves a name.
    pub fn rename(&self, old: (NodeId, &str), new: (NodeId, &str)) -> Result<Renamed> {
        self.rename_with(old, new, RenameFlags::empty())
    }

    /// Moves a name.
    pub fn rename_with(
        &self,
        old: (NodeId, &str),
        new: (NodeId, &str),
        flags: RenameFlags,
    ) -> Result<Renamed> {
        let old = (old.0, Name::try_from(old.1)?);
        let new = (new.0, Name::try_from(new.1)?);
        self.session.rename(&self.ctx(), old, new, flags)
    }
}
