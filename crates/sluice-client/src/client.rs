//! A connection to an export, by paths.

use crate::address::Address;
use crate::connection::Connection;
use crate::dir::{Dir, ReadDir};
use crate::error::{Error, Result};
use crate::file::File;
use crate::meter::Counts;
use crate::ops::{Fid, OpenFid, Stopped, Tree};
use crate::options::ConnectOptions;
use crate::path::{Names, dir_and_name, names, os};
use crate::transport::{Socket, Transport};
use sluice_proto::p9::wire::Dialect;
use sluice_vfs::{
    Attr, Device, Errno, FileType, Name, OpenFlags, SetAttr, StatFs, XattrFlags, XattrName,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An export of a server. Clones share one connection, which any number of
/// threads may use at a time; it ends with the last of them and of the files
/// that were opened through it.
///
/// Paths begin at the root of the export. Symlinks on the way are followed;
/// those that begin with a slash begin at that root too. A slash at the end of a
/// path makes no difference.
#[derive(Clone)]
pub struct Client {
    tree: Arc<Tree>,
}

impl Client {
    /// Connects to a server and attaches to an export.
    ///
    /// ```no_run
    /// use sluice_client::{Client, ConnectOptions};
    ///
    /// let client = Client::connect(&"tcp:localhost:564".parse()?, &ConnectOptions::default())?;
    /// println!("{} bytes", client.metadata("/README")?.size);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Connect`] if there is no such server or it speaks no dialect
    /// that was offered; what the server answers to the attachment.
    pub fn connect(address: &Address, options: &ConnectOptions) -> Result<Self> {
        let connect = || Ok(Box::new(Socket::connect(address)?) as Box<dyn Transport>);
        let tree = Arc::new(Tree::connect(&connect, options)?);
        Ok(Client { tree })
    }

    /// The same over a stream that is connected.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn over(transport: Box<dyn Transport>, options: &ConnectOptions) -> Result<Self> {
        let connection = Connection::open(transport, options)?;
        let tree = Arc::new(Tree::attach(connection, options)?);
        Ok(Client { tree })
    }

    /// The dialect that is spoken.
    pub fn dialect(&self) -> Dialect {
        self.tree.dialect()
    }

    /// Largest message in bytes.
    pub fn msize(&self) -> u32 {
        self.tree.connection.agreed.msize
    }

    /// What the connection did so far.
    pub fn counts(&self) -> Counts {
        self.tree.connection.counts()
    }

    /// Opens a file.
    ///
    /// ```no_run
    /// # use sluice_client::{Client, ConnectOptions, OpenFlags};
    /// # let client = Client::connect(&"fd:3".parse()?, &ConnectOptions::default())?;
    /// let file = client.open("notes.txt", OpenFlags::READ)?;
    /// let mut start = [0; 100];
    /// let count = file.read_at(&mut start, 0)?;
    /// println!("{}", String::from_utf8_lossy(&start[..count]));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the server answers.
    pub fn open(&self, path: impl AsRef<Path>, flags: OpenFlags) -> Result<File> {
        let opened = self.resolve(names(path.as_ref())?, true, |tree, names| {
            tree.open_at(tree.root, names, flags)
        })?;
        Ok(self.file(opened, flags))
    }

    /// Opens a file, and makes it first if it is not there, with these
    /// permission bits; there is no umask. With [`OpenFlags::EXCLUSIVE`] it must
    /// not be there. A symlink of that name is not followed.
    ///
    /// # Errors
    /// What the server answers; `ELOOP` for a symlink.
    pub fn create(&self, path: impl AsRef<Path>, flags: OpenFlags, perm: u32) -> Result<File> {
        let (dir, name) = dir_and_name(path.as_ref())?;
        let opened = self.resolve(dir, true, |tree, dir| {
            tree.create_at(tree.root, dir, &name, flags, (perm, tree.gid))
        })?;
        Ok(self.file(opened, flags))
    }

    /// Attributes of a file; of what it leads to, if it is a symlink.
    ///
    /// # Errors
    /// What the server answers.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Attr> {
        self.resolve(names(path.as_ref())?, true, |tree, names| {
            let attr = tree.stat_at(tree.root, names)?;
            match attr.mode.is_symlink() {
                true => Err(Stopped {
                    error: Error::Refused(Errno::ELOOP),
                    link_at: names.len().checked_sub(1),
                }),
                false => Ok(attr),
            }
        })
    }

    /// Attributes of a file, even if it is a symlink.
    ///
    /// # Errors
    /// What the server answers.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Attr> {
        self.resolve(names(path.as_ref())?, false, |tree, names| {
            tree.stat_at(tree.root, names)
        })
    }

    /// Lists a directory, but for `.` and `..`.
    ///
    /// ```no_run
    /// # use sluice_client::{Client, ConnectOptions};
    /// # let client = Client::connect(&"fd:3".parse()?, &ConnectOptions::default())?;
    /// for entry in client.read_dir("/src")? {
    ///     println!("{}", entry?.file_name().display());
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the server answers.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
        Ok(ReadDir::new(self.open(path, flags)?))
    }

    /// The directory that a path ends in, and the name there.
    ///
    /// # Errors
    /// What the server answers; `EBUSY` for the root, which has no name, and
    /// `EINVAL` if `..` comes last.
    pub fn parent(&self, path: impl AsRef<Path>) -> Result<(Dir, OsString)> {
        let (dir, name) = dir_and_name(path.as_ref())?;
        let fid = self.fid(dir, true)?.keep();
        Ok((Dir::new(Arc::clone(&self.tree), fid), os(&name).to_owned()))
    }

    /// Where a symlink leads.
    ///
    /// # Errors
    /// What the server answers; `EINVAL` if it is none.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let fid = self.fid(names(path.as_ref())?, false)?;
        let target = self.tree.readlink(fid.number())?;
        Ok(PathBuf::from(os(&target)))
    }

    /// Makes a directory with these permission bits; there is no umask.
    ///
    /// # Errors
    /// What the server answers.
    pub fn create_dir(&self, path: impl AsRef<Path>, perm: u32) -> Result<()> {
        self.in_dir(path.as_ref(), |tree, dir, name| {
            tree.mkdir(dir, name, perm, tree.gid).map(drop)
        })
    }

    /// Makes a symlink to `target`, whatever that is.
    ///
    /// # Errors
    /// What the server answers.
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let target = target.as_ref().as_os_str().as_bytes();
        self.in_dir(path.as_ref(), |tree, dir, name| {
            tree.symlink(dir, name, target, tree.gid).map(drop)
        })
    }

    /// Makes a pipe, socket or device node.
    ///
    /// # Errors
    /// What the server answers.
    pub fn make_node(
        &self,
        path: impl AsRef<Path>,
        file_type: FileType,
        rdev: Device,
        perm: u32,
    ) -> Result<()> {
        self.in_dir(path.as_ref(), |tree, dir, name| {
            tree.mknod(dir, name, file_type, rdev, (perm, tree.gid))
                .map(drop)
        })
    }

    /// Gives a file another name. A symlink gets one itself.
    ///
    /// # Errors
    /// What the server answers.
    pub fn hard_link(&self, file: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let file = self.fid(names(file.as_ref())?, false)?;
        self.in_dir(path.as_ref(), |tree, dir, name| {
            tree.link(file.number(), dir, name)
        })
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// What the server answers.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        self.in_dir(path.as_ref(), |tree, dir, name| {
            tree.unlink(dir, name, false)
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// What the server answers.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.in_dir(path.as_ref(), |tree, dir, name| {
            tree.unlink(dir, name, true)
        })
    }

    /// Moves a name. What the new name led to before is gone, as with rename(2).
    ///
    /// # Errors
    /// What the server answers.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (old_dir, old_name) = dir_and_name(from.as_ref())?;
        let (new_dir, new_name) = dir_and_name(to.as_ref())?;
        let (old_name, new_name) = (Name::new(&old_name)?, Name::new(&new_name)?);
        let is_same = old_dir == new_dir;
        let old = self.fid(old_dir, true)?;
        if is_same {
            return self
                .tree
                .rename((old.number(), old_name), (old.number(), new_name));
        }
        let new = self.fid(new_dir, true)?;
        self.tree
            .rename((old.number(), old_name), (new.number(), new_name))
    }

    /// Changes attributes; of what it leads to, if it is a symlink.
    ///
    /// # Errors
    /// What the server answers.
    pub fn set_metadata(&self, path: impl AsRef<Path>, changes: &SetAttr) -> Result<()> {
        let fid = self.fid(names(path.as_ref())?, true)?;
        self.tree.setattr(fid.number(), changes)
    }

    /// Figures of the file system that holds a file.
    ///
    /// # Errors
    /// What the server answers.
    pub fn statfs(&self, path: impl AsRef<Path>) -> Result<StatFs> {
        let fid = self.fid(names(path.as_ref())?, true)?;
        self.tree.statfs(fid.number())
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// What the server answers; `ENODATA` if there is none.
    pub fn xattr(&self, path: impl AsRef<Path>, name: &[u8]) -> Result<Vec<u8>> {
        let name = XattrName::new(name)?;
        let fid = self.fid(names(path.as_ref())?, true)?;
        self.tree.read_xattr(fid.number(), name.as_bytes())
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// What the server answers.
    pub fn xattr_names(&self, path: impl AsRef<Path>) -> Result<Vec<Vec<u8>>> {
        let fid = self.fid(names(path.as_ref())?, true)?;
        let list = self.tree.list_xattrs(fid.number())?;
        let names = list.split(|byte| *byte == 0);
        Ok(names
            .filter(|name| !name.is_empty())
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// What the server answers, such as `E2BIG` beyond 64 KiB; `EINVAL` for an empty
    /// value, which only 9P2000.L.sluice has.
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        let name = XattrName::new(name)?;
        let fid = self.fid(names(path.as_ref())?, true)?;
        self.tree
            .write_xattr(fid.number(), name.as_bytes(), value, flags)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// What the server answers; `ENODATA` if there is none.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: &[u8]) -> Result<()> {
        let name = XattrName::new(name)?;
        let fid = self.fid(names(path.as_ref())?, true)?;
        self.tree.remove_xattr(fid.number(), name.as_bytes())
    }

    fn file(&self, opened: OpenFid, flags: OpenFlags) -> File {
        File::new(Arc::clone(&self.tree), opened, flags)
    }

    /// Does something with what names lead to from the root.
    fn resolve<T>(
        &self,
        way: Names,
        follow_last: bool,
        mut act: impl FnMut(&Tree, &Names) -> std::result::Result<T, Stopped>,
    ) -> Result<T> {
        let tree = &self.tree;
        tree.following(tree.root, way, follow_last, |names| act(tree, names))
    }

    /// A fid for what names lead to.
    fn fid(&self, way: Names, follow_last: bool) -> Result<Fid<'_>> {
        let tree = &self.tree;
        tree.walk_following(tree.root, way, follow_last)
    }

    /// Does something with a name in a directory.
    fn in_dir(
        &self,
        path: &Path,
        act: impl FnOnce(&Tree, u32, Name<'_>) -> Result<()>,
    ) -> Result<()> {
        let (dir, name) = dir_and_name(path)?;
        let name = Name::new(&name)?;
        if dir.is_empty() {
            return act(&self.tree, self.tree.root, name);
        }
        let dir = self.fid(dir, true)?;
        act(&self.tree, dir.number(), name)
    }
}
