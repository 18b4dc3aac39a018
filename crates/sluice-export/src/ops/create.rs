//! Making nodes. What is made belongs to the caller, so it is made as the
//! caller, by a thread with the caller's umask: only the kernel knows how
//! set-group-id directories and default ACLs enter into it.

use super::lookup::{adopt, lookup, remember};
use super::open::{host_flags, lookup_open, opened, with_fallbacks};
use super::xattr::set_label;
use crate::creds;
use crate::handle_table::{Handle, Reservation};
use crate::inode::Node;
use crate::resolve::{self, Descriptors};
use crate::service::ExportSession;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, linkat, makedev, mkdirat, mknodat, symlinkat, unlinkat};
use sluice_vfs::{
    CreateArgs, Created, Ctx, Device, Entry, Errno, FileType, Lookup, Name, NewNode, NodeId,
    OpenFlags, Result, SYMLINK_TARGET_MAX, UnixMode,
};

pub(crate) fn mkdir(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    name: Name<'_>,
    new: &NewNode<'_>,
) -> Result<Entry> {
    let undo = AtFlags::REMOVEDIR;
    make(session, ctx, (parent, name), new, undo, |dir| {
        Ok(mkdirat(dir, name.as_os_str(), mode(new))?)
    })
}

pub(crate) fn mknod(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    place: (NodeId, Name<'_>),
    file_type: FileType,
    rdev: Device,
    new: &NewNode<'_>,
) -> Result<Entry> {
    let dev = match file_type {
        FileType::Directory | FileType::Symlink => return Err(Errno::EINVAL),
        FileType::BlockDevice | FileType::CharDevice => makedev(rdev.major, rdev.minor),
        FileType::Regular | FileType::Fifo | FileType::Socket => 0,
    };
    let file_type = rustix::fs::FileType::from_raw_mode(file_type.to_mode_bits());
    make(session, ctx, place, new, AtFlags::empty(), |dir| {
        Ok(mknodat(
            dir,
            place.1.as_os_str(),
            file_type,
            mode(new),
            dev,
        )?)
    })
}

pub(crate) fn symlink(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    place: (NodeId, Name<'_>),
    target: &[u8],
    new: &NewNode<'_>,
) -> Result<Entry> {
    if target.is_empty() || target.contains(&0) {
        return Err(Errno::EINVAL);
    }
    if target.len() > SYMLINK_TARGET_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    make(session, ctx, place, new, AtFlags::empty(), |dir| {
        Ok(symlinkat(target, dir, place.1.as_os_str())?)
    })
}

pub(crate) fn link(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    parent: NodeId,
    name: Name<'_>,
) -> Result<Entry> {
    session.require_writable()?;
    let (inode, dir) = (session.inode(node)?, session.inode(parent)?);
    {
        let _as_caller = session.as_caller(ctx)?;
        let (fd, dir_fd) = (inode.path_fd(), dir.path_fd());
        let descriptors = session.host.descriptors.dir();
        let (old, new) = (Descriptors::name(&fd), name.as_os_str());
        linkat(descriptors, old, dir_fd, new, AtFlags::SYMLINK_FOLLOW)?;
    }
    session.inodes.set_place(&inode, parent, name);
    remember(session, node)
}

pub(crate) fn create(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    name: Name<'_>,
    args: &CreateArgs<'_>,
) -> Result<Created> {
    if let Err(refusal) = require_makeable(session) {
        return create_nothing(session, ctx, parent, name, args, refusal);
    }
    for _ in 0..CREATE_ATTEMPTS {
        match create_new(session, ctx, parent, name, args) {
            Err(Errno::EEXIST) if !args.flags.contains(OpenFlags::EXCLUSIVE) => {}
            settled => return settled,
        }
        match open_existing(session, ctx, parent, name, args.flags) {
            // It went away in between; the next attempt may make it.
            Err(Errno::ENOENT) => {}
            settled => return settled,
        }
    }
    Err(Errno::EBUSY)
}

/// How often a name may come and go while it is being created.
const CREATE_ATTEMPTS: usize = 16;

pub(crate) fn tmpfile(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    args: &CreateArgs<'_>,
) -> Result<Created> {
    require_makeable(session)?;
    let room = session.handles.reserve()?;
    let dir = session.inode(parent)?;
    // Here `O_EXCL` means that it is never to get a name.
    let mut more = OFlags::empty();
    more.set(OFlags::EXCL, args.flags.contains(OpenFlags::EXCLUSIVE));
    let fd = make_file(session, ctx, &dir, args, |dir, flags| {
        resolve::create_unnamed(dir, flags | more, mode(&args.new))
    })?;
    hand_out(session, room, fd, args, None)
}

fn create_new(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    name: Name<'_>,
    args: &CreateArgs<'_>,
) -> Result<Created> {
    let room = session.handles.reserve()?;
    let dir = session.inode(parent)?;
    let fd = make_file(session, ctx, &dir, args, |dir, flags| {
        resolve::create(dir, name, flags, mode(&args.new))
    })?;
    hand_out(session, room, fd, args, Some((&dir, name)))
}

/// Whether a node may be made at all, and handed out then.
fn require_makeable(session: &ExportSession) -> Result<()> {
    session.require_writable()?;
    session.inodes.require_room()
}

/// Opens what exists where nothing can be made because of `refusal`.
fn create_nothing(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    name: Name<'_>,
    args: &CreateArgs<'_>,
    refusal: Errno,
) -> Result<Created> {
    match lookup(session, ctx, parent, name)? {
        Lookup::Missing { .. } => Err(refusal),
        Lookup::Found(entry) => {
            session.inodes.forget(entry.node, 1);
            match args.flags.contains(OpenFlags::EXCLUSIVE) {
                true => Err(Errno::EEXIST),
                false => open_existing(session, ctx, parent, name, args.flags),
            }
        }
    }
}

fn open_existing(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    name: Name<'_>,
    flags: OpenFlags,
) -> Result<Created> {
    let created = lookup_open(session, ctx, parent, name, flags)?;
    // open(2) with O_CREAT takes no directory, not even for reading.
    if created.entry.attr.mode.is_dir() {
        let (node, handle) = (created.entry.node, created.opened.handle);
        session.handles.remove(handle, node)?;
        session.inodes.forget(node, 1);
        return Err(Errno::EISDIR);
    }
    Ok(created)
}

fn make_file(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    dir: &Node,
    args: &CreateArgs<'_>,
    open: impl Fn(BorrowedFd<'_>, OFlags) -> Result<OwnedFd>,
) -> Result<OwnedFd> {
    let dir_fd = dir.path_fd();
    // A file that is new needs neither emptying nor a fallback.
    let flags = args.flags - OpenFlags::TRUNCATE - OpenFlags::DIRECTORY;
    let wanted = host_flags(session, flags);
    let _as_maker = session.as_maker(ctx)?;
    creds::set_umask(args.new.umask)?;
    with_fallbacks(session, flags, wanted, |flags| open(dir_fd.as_fd(), flags))
}

/// Hands the new file out that `fd` has open; `place` is where its name is.
fn hand_out(
    session: &ExportSession,
    room: Reservation<'_>,
    fd: OwnedFd,
    args: &CreateArgs<'_>,
    place: Option<(&Node, Name<'_>)>,
) -> Result<Created> {
    let path_fd = session.host.descriptors.path_to(&fd)?;
    let at = place.map(|(dir, name)| (dir.id, name));
    let (entry, node) = adopt(session, path_fd, at)?;
    label_or_undo(session, &args.new, &node, || {
        if let Some((dir, name)) = place {
            unlinkat(dir.path_fd(), name.as_os_str(), AtFlags::empty())?;
        }
        Ok(())
    })?;
    let handle = Handle::new(node, args.flags, fd);
    Ok(Created {
        entry,
        opened: opened(room.fill(handle)?),
        is_new: true,
    })
}

/// Makes a node by `act`, and takes a reference to what is there then. `undo`
/// is how unlinkat(2) removes such a node.
fn make(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (parent, name): (NodeId, Name<'_>),
    new: &NewNode<'_>,
    undo: AtFlags,
    act: impl FnOnce(BorrowedFd<'_>) -> Result<()>,
) -> Result<Entry> {
    require_makeable(session)?;
    let dir = session.inode(parent)?;
    let dir_fd = dir.path_fd();
    {
        let _as_maker = session.as_maker(ctx)?;
        creds::set_umask(new.umask)?;
        act(dir_fd.as_fd())?;
    }
    let found = resolve::child(dir_fd.as_fd(), name)?;
    let (entry, node) = adopt(session, found, Some((dir.id, name)))?;
    label_or_undo(session, new, &node, || {
        Ok(unlinkat(dir_fd, name.as_os_str(), undo)?)
    })?;
    Ok(entry)
}

/// Sets the label that a new node is to have. A node without the label it
/// should have is worse than none, so it is removed if that fails.
fn label_or_undo(
    session: &ExportSession,
    new: &NewNode<'_>,
    node: &Node,
    undo: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let Some(label) = &new.label else {
        return Ok(());
    };
    set_label(session, node, label).inspect_err(|_| {
        session.inodes.forget(node.id, 1);
        let _ = undo();
    })
}

fn mode(new: &NewNode<'_>) -> Mode {
    Mode::from_raw_mode(new.perm & UnixMode::PERM_MASK)
}
