//! Names: finding, making, moving and removing them.

use super::put;
use crate::fuse::serve::dispatch::Call;
use crate::fuse::wire::{CBytes, Extensions, InitFlags, LinkIn, MkdirIn, MknodIn, SUPP_GROUPS_MAX};
use arrayvec::ArrayVec;
use sluice_vfs::{
    Device, Entry, Errno, FileType, Lookup, Name, NewNode, NodeId, ReadSink, RenameFlags, Result,
    SYMLINK_TARGET_MAX, SecurityLabel, UnixMode, XattrName,
};

/// `.` and `..` come from peers that turn file handles into paths.
pub(in super::super) fn lookup(
    call: &Call<'_>,
    name: CBytes<'_>,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let ctx = call.ctx();
    let found = match name.0 {
        b"." => Lookup::Found(call.session().remember(&ctx, call.node)?),
        b".." => Lookup::Found(call.session().parent(&ctx, call.node)?),
        bytes => call.session().lookup(&ctx, call.node, Name::new(bytes)?)?,
    };
    match found {
        Lookup::Found(entry) => put_entry(call, &entry, sink),
        Lookup::Missing { .. } => put(sink, &call.presenter().missing_entry_out()?),
    }
}

pub(in super::super) fn symlink(
    call: &Call<'_>,
    name: CBytes<'_>,
    target: CBytes<'_>,
    extensions: &Extensions<'_>,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    match target.0.len() {
        0 => return Err(Errno::ENOENT),
        1..=SYMLINK_TARGET_MAX => {}
        _ => return Err(Errno::ENAMETOOLONG),
    }
    let new = new_node(call, 0o777, 0, extensions)?;
    let groups = groups(extensions);
    let ctx = call.ctx_in(&groups);
    let entry = call
        .session()
        .symlink(&ctx, call.node, Name::new(name.0)?, target.0, &new)?;
    put_entry(call, &entry, sink)
}

pub(in super::super) fn mknod(
    call: &Call<'_>,
    args: &MknodIn,
    name: CBytes<'_>,
    extensions: &Extensions<'_>,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let file_type = match args.mode & UnixMode::TYPE_MASK {
        0 => FileType::Regular,
        bits => FileType::from_mode(bits).ok_or(Errno::EINVAL)?,
    };
    if matches!(file_type, FileType::Directory | FileType::Symlink) {
        return Err(Errno::EINVAL);
    }
    let new = new_node(call, args.mode, args.umask, extensions)?;
    let groups = groups(extensions);
    let entry = call.session().mknod(
        &call.ctx_in(&groups),
        call.node,
        Name::new(name.0)?,
        file_type,
        Device::from_u32(args.rdev),
        &new,
    )?;
    put_entry(call, &entry, sink)
}

pub(in super::super) fn mkdir(
    call: &Call<'_>,
    args: &MkdirIn,
    name: CBytes<'_>,
    extensions: &Extensions<'_>,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let new = new_node(call, args.mode, args.umask, extensions)?;
    let groups = groups(extensions);
    let ctx = call.ctx_in(&groups);
    let entry = call
        .session()
        .mkdir(&ctx, call.node, Name::new(name.0)?, &new)?;
    put_entry(call, &entry, sink)
}

pub(in super::super) fn link(
    call: &Call<'_>,
    args: &LinkIn,
    name: CBytes<'_>,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let entry = call.session().link(
        &call.ctx(),
        NodeId(args.oldnodeid),
        call.node,
        Name::new(name.0)?,
    )?;
    put_entry(call, &entry, sink)
}

pub(in super::super) fn unlink(call: &Call<'_>, name: CBytes<'_>) -> Result<()> {
    call.session()
        .unlink(&call.ctx(), call.node, Name::new(name.0)?)?;
    Ok(())
}

pub(in super::super) fn rmdir(call: &Call<'_>, name: CBytes<'_>) -> Result<()> {
    call.session()
        .rmdir(&call.ctx(), call.node, Name::new(name.0)?)?;
    Ok(())
}

pub(in super::super) fn rename(
    call: &Call<'_>,
    newdir: u64,
    flags: u32,
    old_name: CBytes<'_>,
    new_name: CBytes<'_>,
) -> Result<()> {
    let flags = RenameFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
    call.session().rename(
        &call.ctx(),
        (call.node, Name::new(old_name.0)?),
        (NodeId(newdir), Name::new(new_name.0)?),
        flags,
    )?;
    Ok(())
}

/// What a new node is to be like. The umask is the service's to apply
/// (`DONT_MASK`).
pub(super) fn new_node<'a>(
    call: &Call<'_>,
    mode: u32,
    umask: u32,
    extensions: &Extensions<'a>,
) -> Result<NewNode<'a>> {
    let label = match extensions.label {
        Some(label) if call.negotiated().has(InitFlags::SECURITY_CTX) => Some(SecurityLabel {
            name: XattrName::new(label.name)?,
            value: label.value,
        }),
        _ => None,
    };
    Ok(NewNode {
        perm: mode & UnixMode::PERM_MASK,
        umask: umask & 0o777,
        label,
    })
}

/// Supplementary groups of the caller, as far as they came.
pub(super) fn groups(extensions: &Extensions<'_>) -> ArrayVec<u32, SUPP_GROUPS_MAX> {
    extensions.groups.iter().take(SUPP_GROUPS_MAX).collect()
}

fn put_entry(call: &Call<'_>, entry: &Entry, sink: &mut dyn ReadSink) -> Result<()> {
    put(sink, &call.presenter().entry_out(entry))
}
