//! Removing and moving names.

use crate::p9::serve::answer::Answer;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::fids::{Fid, Place};
use crate::p9::wire::Reply;
use sluice_vfs::{Errno, Lookup, Name, RenameFlags, Result};
use std::sync::Arc;

/// `AT_REMOVEDIR`, as every Linux has it.
const REMOVE_DIR: u32 = 0x200;

/// The fid is gone, whatever comes of removing its file.
pub(in super::super) fn remove(call: &Call<'_>, fid: u32, answer: &mut Answer) -> Result<()> {
    let fid = call.connection.fids.remove(fid)?;
    let removed = remove_file(&fid);
    let closed = fid.close();
    removed.and(closed)?;
    answer.set(&Reply::Remove {})
}

pub(in super::super) fn unlinkat(
    call: &Call<'_>,
    dfid: u32,
    name: &[u8],
    flags: u32,
    answer: &mut Answer,
) -> Result<()> {
    let dir = call.fid(dfid)?;
    let name = Name::new(name)?;
    let (ctx, node) = (dir.ctx(), dir.node.node);
    match flags {
        0 => dir.session().unlink(&ctx, node, name)?,
        REMOVE_DIR => dir.session().rmdir(&ctx, node, name)?,
        _ => return Err(Errno::EINVAL),
    };
    answer.set(&Reply::Unlinkat {})
}

pub(in super::super) fn renameat(
    call: &Call<'_>,
    (old_dfid, old_name): (u32, &[u8]),
    (new_dfid, new_name): (u32, &[u8]),
    answer: &mut Answer,
) -> Result<()> {
    let (old, new) = (call.fid(old_dfid)?, call.fid(new_dfid)?);
    require_same_tree(&old, &new)?;
    let from = Place::new(&old.node, old_name);
    let to = Place::new(&new.node, new_name);
    move_name(call, &old, &from, &to, RenameFlags::empty())?;
    answer.set(&Reply::Renameat {})
}

pub(in super::super) fn rename(
    call: &Call<'_>,
    fid: u32,
    dfid: u32,
    name: &[u8],
    answer: &mut Answer,
) -> Result<()> {
    let (fid, dir) = (call.fid(fid)?, call.fid(dfid)?);
    require_same_tree(&fid, &dir)?;
    let to = Place::new(&dir.node, name);
    move_fid(call, &fid, &to, RenameFlags::empty())?;
    answer.set(&Reply::Rename {})
}

/// Moves the file of a fid, which goes on standing for it.
pub(super) fn move_fid(call: &Call<'_>, fid: &Fid, to: &Place, flags: RenameFlags) -> Result<()> {
    let from = place_now(fid)?;
    move_name(call, fid, &from, to, flags)
}

/// Moves a name for the user of `fid`. Fids that got to their files by it know the new
/// one from then on.
fn move_name(
    call: &Call<'_>,
    fid: &Fid,
    from: &Place,
    to: &Place,
    flags: RenameFlags,
) -> Result<()> {
    fid.session().rename(
        &fid.ctx(),
        (from.dir.node, Name::new(&from.name)?),
        (to.dir.node, Name::new(&to.name)?),
        flags,
    )?;
    call.connection.fids.follow(from, to);
    Ok(())
}

/// Removes the file of a fid by the name that led to it.
pub(super) fn remove_file(fid: &Fid) -> Result<()> {
    let place = place_now(fid)?;
    let (ctx, name) = (fid.ctx(), Name::new(&place.name)?);
    match fid.node.is_dir() {
        true => fid.session().rmdir(&ctx, place.dir.node, name)?,
        false => fid.session().unlink(&ctx, place.dir.node, name)?,
    };
    Ok(())
}

/// Where the file of a fid is, if that is where the fid found it: another may
/// have that name by now, or none (`ENOENT`). The root can't be moved or
/// removed (`EBUSY`). Linux removes and moves names, not inodes: what gets the
/// name between this and the call that follows is what is removed or moved.
fn place_now(fid: &Fid) -> Result<Place> {
    let place = fid.place().ok_or(Errno::EBUSY)?;
    let name = Name::new(&place.name)?;
    let found = fid.session().lookup(&fid.ctx(), place.dir.node, name)?;
    let Lookup::Found(entry) = found else {
        return Err(Errno::ENOENT);
    };
    fid.session().forget(entry.node, 1);
    match entry.node == fid.node.node {
        true => Ok(place),
        false => Err(Errno::ENOENT),
    }
}

/// `EXDEV` unless both fids are of one tree.
pub(super) fn require_same_tree(one: &Fid, other: &Fid) -> Result<()> {
    match Arc::ptr_eq(&one.node.tree, &other.node.tree) {
        true => Ok(()),
        false => Err(Errno::EXDEV),
    }
}
