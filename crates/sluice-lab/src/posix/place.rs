//! The directory that a case works in.

use crate::conformance::caught;
use rustix::fs::{
    AtFlags, FileType, Gid, IFlags, Mode, OFlags, RawDir, RenameFlags, Stat, Statx, StatxFlags,
    Timespec, Timestamps, Uid, XattrFlags, chownat, linkat, makedev, mknodat, openat, readlinkat,
    renameat, renameat_with, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Result;
use rustix::path::Arg;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs::File;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;

/// A directory. All names are relative to it, so that cases need no rights
/// above it.
pub struct Place {
    dir: OwnedFd,
}

/// What a listing says of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listed {
    /// Its name.
    pub name: Vec<u8>,
    /// Its inode number.
    pub ino: u64,
    /// Where to go on after it.
    pub cookie: u64,
    /// The file type bits of its mode; 0 if the listing does not say.
    pub type_bits: u32,
}

impl Place {
    /// The directory behind a descriptor.
    pub fn new(dir: OwnedFd) -> Self {
        Place { dir }
    }

    /// Its descriptor.
    pub fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// A directory in it.
    pub fn inside<A: Arg>(&self, name: A) -> Result<Place> {
        self.open(name, OFlags::RDONLY | OFlags::DIRECTORY)
            .map(Place::new)
    }

    /// An absolute path that any user of this process can go.
    pub fn path(&self, name: &str) -> String {
        format!("/proc/self/fd/{}/{name}", self.dir.as_raw_fd())
    }

    /// openat(2).
    pub fn open<A: Arg>(&self, name: A, flags: OFlags) -> Result<OwnedFd> {
        self.open_mode(name, flags, 0)
    }

    /// openat(2), for flags that make files.
    pub fn open_mode<A: Arg>(&self, name: A, flags: OFlags, mode: u32) -> Result<OwnedFd> {
        openat(
            &self.dir,
            name,
            flags | OFlags::CLOEXEC,
            Mode::from_raw_mode(mode),
        )
    }

    /// A new file, or an old one emptied.
    pub fn create<A: Arg>(&self, name: A, flags: OFlags, mode: u32) -> Result<OwnedFd> {
        self.open_mode(name, flags | OFlags::CREATE | OFlags::TRUNC, mode)
    }

    /// A file with this content, with mode 0644 if it is new.
    #[track_caller]
    pub fn write<A: Arg>(&self, name: A, content: impl AsRef<[u8]>) {
        let file = self
            .create(name, OFlags::WRONLY, 0o644)
            .expect("a file to write");
        File::from(file)
            .write_all(content.as_ref())
            .expect("writing");
    }

    /// A file with this mode, whatever the umask.
    #[track_caller]
    pub fn file_with_mode<A: Arg + Copy>(&self, name: A, mode: u32) {
        self.write(name, b"content");
        self.chmod(name, mode).expect("changing the mode");
    }

    /// The whole content of a file.
    #[track_caller]
    pub fn read<A: Arg>(&self, name: A) -> Vec<u8> {
        self.try_read(name).expect("reading")
    }

    /// The whole content of a file.
    pub fn try_read<A: Arg>(&self, name: A) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        let mut file = File::from(self.open(name, OFlags::RDONLY)?);
        let outcome = file.read_to_end(&mut content);
        outcome.map_err(|error| {
            rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
        })?;
        Ok(content)
    }

    /// stat(2).
    pub fn stat<A: Arg>(&self, name: A) -> Result<Stat> {
        statat(&self.dir, name, AtFlags::empty())
    }

    /// lstat(2).
    pub fn lstat<A: Arg>(&self, name: A) -> Result<Stat> {
        statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// statx(2), links not followed.
    pub fn statx<A: Arg>(&self, name: A, mask: StatxFlags) -> Result<Statx> {
        rustix::fs::statx(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW, mask)
    }

    /// Permission bits, with set-id and sticky bits.
    #[track_caller]
    pub fn mode<A: Arg>(&self, name: A) -> u32 {
        self.lstat(name).expect("a mode").st_mode & 0o7777
    }

    /// Number of hard links.
    #[track_caller]
    pub fn nlink<A: Arg>(&self, name: A) -> u64 {
        self.lstat(name).expect("a link count").st_nlink
    }

    /// Whether the name is there, whatever it leads to.
    pub fn has<A: Arg>(&self, name: A) -> bool {
        self.lstat(name).is_ok()
    }

    /// mkdirat(2).
    pub fn mkdir<A: Arg>(&self, name: A, mode: u32) -> Result<()> {
        rustix::fs::mkdirat(&self.dir, name, Mode::from_raw_mode(mode))
    }

    /// A directory with this mode, whatever the umask, to work in.
    #[track_caller]
    pub fn directory<A: Arg + Copy>(&self, name: A, mode: u32) -> Place {
        self.mkdir(name, 0o755).expect("a directory");
        let dir = self.inside(name).expect("the new directory");
        self.chmod(name, mode).expect("changing the mode");
        dir
    }

    /// rmdir(2).
    pub fn rmdir<A: Arg>(&self, name: A) -> Result<()> {
        unlinkat(&self.dir, name, AtFlags::REMOVEDIR)
    }

    /// unlink(2).
    pub fn unlink<A: Arg>(&self, name: A) -> Result<()> {
        unlinkat(&self.dir, name, AtFlags::empty())
    }

    /// symlinkat(2).
    pub fn symlink<A: Arg, B: Arg>(&self, target: A, name: B) -> Result<()> {
        symlinkat(target, &self.dir, name)
    }

    /// readlinkat(2).
    pub fn readlink<A: Arg>(&self, name: A) -> Result<Vec<u8>> {
        readlinkat(&self.dir, name, Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// link(2).
    pub fn link<A: Arg, B: Arg>(&self, old: A, new: B) -> Result<()> {
        linkat(&self.dir, old, &self.dir, new, AtFlags::empty())
    }

    /// rename(2).
    pub fn rename<A: Arg, B: Arg>(&self, old: A, new: B) -> Result<()> {
        renameat(&self.dir, old, &self.dir, new)
    }

    /// renameat2(2).
    pub fn rename_with<A: Arg, B: Arg>(&self, old: A, new: B, flags: RenameFlags) -> Result<()> {
        renameat_with(&self.dir, old, &self.dir, new, flags)
    }

    /// mknodat(2) with a device's major and minor number.
    pub fn make_node<A: Arg>(
        &self,
        name: A,
        kind: FileType,
        mode: u32,
        device: (u32, u32),
    ) -> Result<()> {
        let device = makedev(device.0, device.1);
        mknodat(&self.dir, name, kind, Mode::from_raw_mode(mode), device)
    }

    /// chmod(2).
    pub fn chmod<A: Arg>(&self, name: A, mode: u32) -> Result<()> {
        rustix::fs::chmodat(&self.dir, name, Mode::from_raw_mode(mode), AtFlags::empty())
    }

    /// chown(2), links not followed.
    pub fn chown<A: Arg>(&self, name: A, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        chownat(&self.dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Owner and group.
    #[track_caller]
    pub fn owner<A: Arg>(&self, name: A) -> (u32, u32) {
        let stat = self.lstat(name).expect("an owner");
        (stat.st_uid, stat.st_gid)
    }

    /// utimensat(2), links not followed.
    pub fn set_times<A: Arg>(&self, name: A, atime: Timespec, mtime: Timespec) -> Result<()> {
        let times = Timestamps {
            last_access: atime,
            last_modification: mtime,
        };
        utimensat(&self.dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// setxattr(2).
    pub fn set_xattr(&self, name: &str, key: &str, value: &[u8]) -> Result<()> {
        rustix::fs::setxattr(self.path(name), key, value, XattrFlags::empty())
    }

    /// getxattr(2).
    pub fn xattr(&self, name: &str, key: &str) -> Result<Vec<u8>> {
        let mut value = vec![0; 1 << 16];
        let len = rustix::fs::getxattr(self.path(name), key, &mut value[..])?;
        value.truncate(len);
        Ok(value)
    }

    /// listxattr(2), in order.
    pub fn xattrs(&self, name: &str) -> Result<Vec<String>> {
        let mut list = vec![0; 1 << 16];
        let len = rustix::fs::listxattr(self.path(name), &mut list[..])?;
        let names = list[..len]
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        let mut names: Vec<String> = names
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        names.sort();
        Ok(names)
    }

    /// removexattr(2).
    pub fn remove_xattr(&self, name: &str, key: &str) -> Result<()> {
        rustix::fs::removexattr(self.path(name), key)
    }

    /// Makes a file append-only or immutable, or neither, as chattr(1) does.
    /// Flags that its file system has of its own stay.
    pub fn set_flags<A: Arg>(&self, name: A, flags: IFlags) -> Result<()> {
        let file = self.open(name, OFlags::RDONLY)?;
        let others = rustix::fs::ioctl_getflags(&file)? - (IFlags::APPEND | IFlags::IMMUTABLE);
        rustix::fs::ioctl_setflags(&file, others | flags)
    }

    /// Names without `.` and `..`, in order.
    #[track_caller]
    pub fn names(&self) -> Vec<String> {
        let dir = self
            .open(".", OFlags::RDONLY | OFlags::DIRECTORY)
            .expect("a listing");
        let entries = list(&dir).expect("a listing");
        let names = entries
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
        let mut names: Vec<String> = names.filter(|name| name != "." && name != "..").collect();
        names.sort();
        names
    }

    /// Lets `act` run as another user, without privileges.
    #[track_caller]
    pub fn as_user<T: Send>(
        &self,
        uid: u32,
        gid: u32,
        groups: &[u32],
        act: impl FnOnce(&Place) -> T + Send,
    ) -> T {
        let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        on_thread(|| {
            set_thread_groups(&groups).expect("giving up groups");
            set_thread_res_gid(gid, gid, gid).expect("giving up the group");
            set_thread_res_uid(uid, uid, uid).expect("giving up the user");
            act(self)
        })
    }

    /// Lets `act` run with another umask.
    #[track_caller]
    pub fn with_umask<T: Send>(&self, umask: u32, act: impl FnOnce(&Place) -> T + Send) -> T {
        on_thread(|| {
            sluice_sys::unshare_thread_fs().expect("a umask of its own");
            rustix::process::umask(Mode::from_raw_mode(umask));
            act(self)
        })
    }
}

/// All entries from where the descriptor stands.
pub(super) fn list(dir: impl AsFd) -> Result<Vec<Listed>> {
    list_in_pieces(dir, 32 * 1024, usize::MAX)
}

/// Entries from where the descriptor stands, fetched with a buffer of so many
/// bytes, until there are at least `limit`.
pub(super) fn list_in_pieces(
    dir: impl AsFd,
    buffer_bytes: usize,
    limit: usize,
) -> Result<Vec<Listed>> {
    let mut buffer = vec![MaybeUninit::uninit(); buffer_bytes];
    let mut entries = Vec::new();
    let mut listing = RawDir::new(dir, &mut buffer);
    while entries.len() < limit || !listing.is_buffer_empty() {
        let Some(entry) = listing.next() else {
            break;
        };
        let entry = entry?;
        entries.push(Listed {
            name: entry.file_name().to_bytes().to_vec(),
            ino: entry.ino(),
            cookie: entry.next_entry_cookie(),
            type_bits: match entry.file_type() {
                FileType::Unknown => 0,
                kind => kind.as_raw_mode(),
            },
        });
    }
    Ok(entries)
}

/// Runs `act` on a thread of its own; its panic is the caller's.
fn on_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let mut value = None;
    let outcome = thread::scope(|scope| {
        let act = || caught(|| value = Some(act()));
        scope.spawn(act).join()
    });
    match (outcome, value) {
        (Ok(Ok(())), Some(value)) => value,
        (Ok(Err(why)), _) => panic!("{why}"),
        _ => panic!("a thread of the case died"),
    }
}
