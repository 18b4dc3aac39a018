//! Making nodes. A peer's umask was applied before the mode was sent.

use super::attr_of;
use super::names::require_same_tree;
use super::open::{IOUNIT, create_file, open_path, opening_flags};
use super::walk::qid_of_new;
use crate::p9::serve::answer::Answer;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::fids::{Fid, FidState, NodeRef, Place};
use crate::p9::serve::translate::{open_mode, qid, unix_perm};
use crate::p9::wire::{OpenMode, Perm, Reply};
use sluice_vfs::{
    CreateArgs, Device, Entry, Errno, FileType, Name, NewNode, OpenFlags, Result,
    SYMLINK_TARGET_MAX, UnixMode,
};
use std::sync::Arc;

pub(in super::super) fn symlink(
    call: &Call<'_>,
    fid: u32,
    name: &[u8],
    target: &[u8],
    gid: u32,
    answer: &mut Answer,
) -> Result<()> {
    let dir = call.fid(fid)?;
    let entry = make_symlink(&dir, name, target, gid)?;
    let qid = qid_of_new(&dir, &entry, call.config.options.qid_version);
    answer.set(&Reply::Symlink { qid })
}

pub(in super::super) fn mknod(
    call: &Call<'_>,
    dfid: u32,
    name: &[u8],
    mode: u32,
    (major, minor): (u32, u32),
    gid: u32,
    answer: &mut Answer,
) -> Result<()> {
    let dir = call.fid(dfid)?;
    let file_type = match mode & UnixMode::TYPE_MASK {
        0 => FileType::Regular,
        _ => FileType::from_mode(mode).ok_or(Errno::EINVAL)?,
    };
    if matches!(file_type, FileType::Directory | FileType::Symlink) {
        return Err(Errno::EINVAL);
    }
    let new = NewNode::with_perm(mode & UnixMode::PERM_MASK);
    let entry = dir.session().mknod(
        &dir.maker_ctx(gid),
        dir.node.node,
        Name::new(name)?,
        file_type,
        Device { major, minor },
        &new,
    )?;
    let qid = qid_of_new(&dir, &entry, call.config.options.qid_version);
    answer.set(&Reply::Mknod { qid })
}

pub(in super::super) fn mkdir(
    call: &Call<'_>,
    dfid: u32,
    name: &[u8],
    mode: u32,
    gid: u32,
    answer: &mut Answer,
) -> Result<()> {
    let dir = call.fid(dfid)?;
    let entry = make_dir(&dir, name, mode & UnixMode::PERM_MASK, gid)?;
    let qid = qid_of_new(&dir, &entry, call.config.options.qid_version);
    answer.set(&Reply::Mkdir { qid })
}

pub(in super::super) fn link(
    call: &Call<'_>,
    dfid: u32,
    fid: u32,
    name: &[u8],
    answer: &mut Answer,
) -> Result<()> {
    let (dir, fid) = (call.fid(dfid)?, call.fid(fid)?);
    let entry = make_link(&dir, &fid, name)?;
    fid.session().forget(entry.node, 1);
    answer.set(&Reply::Link {})
}

/// Tcreate: the fid moves to what is made, opened if that can be done, or stays where it
/// is. In 9P2000.u the extension says what the mode alone can't.
pub(in super::super) fn create(
    call: &Call<'_>,
    number: u32,
    name: &[u8],
    perm: Perm,
    mode: OpenMode,
    extension: &[u8],
    answer: &mut Answer,
) -> Result<()> {
    let dir = call.fid(number)?;
    dir.require_path()?;
    let bits = mode_in(call, &dir, perm)?;
    let special = Perm::SYMLINK | Perm::LINK | Perm::DEVICE | Perm::NAMED_PIPE | Perm::SOCKET;
    let entry = match perm & (Perm::DIR | special) {
        kind if kind.is_empty() => {
            return create_and_open(call, number, &dir, name, bits, mode, answer);
        }
        Perm::DIR => {
            opening_flags(FileType::Directory, open_mode(mode))?;
            make_dir(&dir, name, bits, u32::MAX)?
        }
        _ if !call.is_unix() => return Err(Errno::EINVAL),
        Perm::SYMLINK => make_symlink(&dir, name, extension, u32::MAX)?,
        Perm::LINK => make_link(&dir, &*linked_fid(call, extension)?, name)?,
        Perm::NAMED_PIPE => make_special(&dir, name, (FileType::Fifo, Device::default()), bits)?,
        Perm::SOCKET => make_special(&dir, name, (FileType::Socket, Device::default()), bits)?,
        Perm::DEVICE => make_special(&dir, name, device(extension)?, bits)?,
        _ => return Err(Errno::EINVAL),
    };
    let node = NodeRef::new(&dir.node.tree, &entry);
    let place = Place::new(&dir.node, name);
    let mut made = Fid::new(&dir.user, node, Some(place), FidState::Path);
    if made.node.is_dir() {
        made = open_path(&made, open_mode(mode), mode.contains(OpenMode::RCLOSE))?;
    }
    call.connection.fids.replace(number, made);
    let qid = qid(&entry.attr, call.config.options.qid_version);
    let iounit = IOUNIT;
    answer.set(&Reply::Create { qid, iounit })
}

/// A name that exists is an error (create(5)).
fn create_and_open(
    call: &Call<'_>,
    number: u32,
    dir: &Arc<Fid>,
    name: &[u8],
    bits: u32,
    mode: OpenMode,
    answer: &mut Answer,
) -> Result<()> {
    let args = CreateArgs {
        flags: (open_mode(mode) - OpenFlags::TRUNCATE) | OpenFlags::EXCLUSIVE,
        new: NewNode::with_perm(bits),
    };
    let removes = mode.contains(OpenMode::RCLOSE);
    let (made, attr) = create_file(dir, &dir.ctx(), name, &args, removes)?;
    call.connection.fids.replace(number, made);
    let qid = qid(&attr, call.config.options.qid_version);
    let iounit = IOUNIT;
    answer.set(&Reply::Create { qid, iounit })
}

/// Permission bits of what is made. Plain 9P2000 has no umask; the directory's
/// own bits take its place (create(5)).
fn mode_in(call: &Call<'_>, dir: &Fid, perm: Perm) -> Result<u32> {
    let bits = unix_perm(perm, call.is_unix());
    if call.is_unix() {
        return Ok(bits);
    }
    let above = attr_of(dir)?.mode.perm();
    let masked = match perm.contains(Perm::DIR) {
        true => 0o777,
        false => 0o666,
    };
    Ok(bits & (!masked | (above & masked)))
}

fn make_dir(dir: &Fid, name: &[u8], bits: u32, gid: u32) -> Result<Entry> {
    let new = NewNode::with_perm(bits);
    let name = Name::new(name)?;
    dir.session()
        .mkdir(&dir.maker_ctx(gid), dir.node.node, name, &new)
}

fn make_symlink(dir: &Fid, name: &[u8], target: &[u8], gid: u32) -> Result<Entry> {
    let name = Name::new(name)?;
    match target {
        [] => return Err(Errno::ENOENT),
        _ if target.len() > SYMLINK_TARGET_MAX => return Err(Errno::ENAMETOOLONG),
        _ if target.contains(&0) => return Err(Errno::EINVAL),
        _ => {}
    }
    let new = NewNode::with_perm(0o777);
    dir.session()
        .symlink(&dir.maker_ctx(gid), dir.node.node, name, target, &new)
}

fn make_link(dir: &Fid, fid: &Fid, name: &[u8]) -> Result<Entry> {
    require_same_tree(dir, fid)?;
    let name = Name::new(name)?;
    dir.session()
        .link(&dir.ctx(), fid.node.node, dir.node.node, name)
}

fn make_special(
    dir: &Fid,
    name: &[u8],
    (file_type, rdev): (FileType, Device),
    bits: u32,
) -> Result<Entry> {
    let name = Name::new(name)?;
    let new = NewNode::with_perm(bits);
    dir.session()
        .mknod(&dir.ctx(), dir.node.node, name, file_type, rdev, &new)
}

/// The fid that an extension names, in digits.
fn linked_fid(call: &Call<'_>, extension: &[u8]) -> Result<Arc<Fid>> {
    let text = std::str::from_utf8(extension).map_err(|_| Errno::EINVAL)?;
    let number = text.trim().parse().map_err(|_| Errno::EINVAL)?;
    call.fid(number)
}

/// The device that an extension names: `b 8 1`, `c 1 3`.
fn device(extension: &[u8]) -> Result<(FileType, Device)> {
    let text = std::str::from_utf8(extension).map_err(|_| Errno::EINVAL)?;
    let mut words = text.split_ascii_whitespace();
    let file_type = match words.next() {
        Some("b") => FileType::BlockDevice,
        Some("c") => FileType::CharDevice,
        _ => return Err(Errno::EINVAL),
    };
    let mut number = || words.next()?.parse().ok();
    let device = (|| {
        Some(Device {
            major: number()?,
            minor: number()?,
        })
    })();
    Ok((file_type, device.ok_or(Errno::EINVAL)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_name_devices() {
        let device_of = |text: &str| device(text.as_bytes());
        let sda1 = Device { major: 8, minor: 1 };
        assert_eq!(device_of("b 8 1"), Ok((FileType::BlockDevice, sda1)));
        for text in ["", "b", "b 8", "b 8 x", "d 8 1", "b -8 1", "b 8 4294967296"] {
            assert_eq!(device_of(text), Err(Errno::EINVAL), "{text}");
        }
    }
}
