//! Opening, and making what is opened.

use super::qid_of;
use crate::p9::serve::answer::Answer;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::fids::{Fid, FidState, NodeRef, OpenFid, Place};
use crate::p9::serve::translate::{lopen_flags, open_mode, qid};
use crate::p9::wire::{LopenFlags, OpenMode, Qid, Reply};
use sluice_vfs::{
    Attr, CreateArgs, Created, Ctx, Errno, FileType, Name, NewNode, OpenFlags, Result, UnixMode,
};

/// `iounit` of every reply: as much as a message holds.
pub(super) const IOUNIT: u32 = 0;

pub(in super::super) fn lopen(
    call: &Call<'_>,
    fid: u32,
    flags: LopenFlags,
    answer: &mut Answer,
) -> Result<()> {
    let flags = lopen_flags(flags)? - OpenFlags::EXCLUSIVE;
    let qid = open_fid(call, fid, flags, false)?;
    let iounit = IOUNIT;
    answer.set(&Reply::Lopen { qid, iounit })
}

pub(in super::super) fn open(
    call: &Call<'_>,
    fid: u32,
    mode: OpenMode,
    answer: &mut Answer,
) -> Result<()> {
    let removes = mode.contains(OpenMode::RCLOSE);
    let qid = open_fid(call, fid, open_mode(mode), removes)?;
    let iounit = IOUNIT;
    answer.set(&Reply::Open { qid, iounit })
}

pub(in super::super) fn lcreate(
    call: &Call<'_>,
    fid: u32,
    name: &[u8],
    flags: LopenFlags,
    mode: u32,
    gid: u32,
    answer: &mut Answer,
) -> Result<()> {
    let dir = call.fid(fid)?;
    let args = CreateArgs {
        flags: lopen_flags(flags)? - OpenFlags::DIRECTORY,
        new: NewNode::with_perm(mode & UnixMode::PERM_MASK),
    };
    let (made, attr) = create_file(&dir, &dir.maker_ctx(gid), name, &args, false)?;
    let qid = qid(&attr, call.config.options.qid_version);
    call.connection.fids.replace(fid, made);
    let iounit = IOUNIT;
    answer.set(&Reply::Lcreate { qid, iounit })
}

/// What the fid of a directory becomes when it makes and opens a file in it, and
/// that file's attributes.
pub(super) fn create_file(
    dir: &Fid,
    ctx: &Ctx<'_>,
    name: &[u8],
    args: &CreateArgs<'_>,
    removes: bool,
) -> Result<(Fid, Attr)> {
    dir.require_path()?;
    let name = Name::new(name)?;
    let created = dir.session().create(ctx, dir.node.node, name, args)?;
    Ok(opened_in(dir, name, &created, removes))
}

/// The same when it opens one that is there. Directories are opened in their own way, to
/// read, whatever else is asked for; a service says `EISDIR` if that is to write.
pub(super) fn open_name(dir: &Fid, name: &[u8], flags: OpenFlags) -> Result<(Fid, Attr)> {
    if !dir.node.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    let name = Name::new(name)?;
    let session = dir.session();
    let opened = session.lookup_open(&dir.ctx(), dir.node.node, name, flags)?;
    Ok(opened_in(dir, name, &opened, false))
}

fn opened_in(dir: &Fid, name: Name<'_>, opened: &Created, removes: bool) -> (Fid, Attr) {
    let node = NodeRef::new(&dir.node.tree, &opened.entry);
    let open = OpenFid::new(&node, opened.opened.handle, removes);
    let place = Place::new(&dir.node, name.as_bytes());
    let fid = Fid::new(&dir.user, node, Some(place), FidState::Open(open));
    (fid, opened.entry.attr)
}

/// Opens what a fid stands for.
pub(super) fn open_fid(
    call: &Call<'_>,
    number: u32,
    flags: OpenFlags,
    removes: bool,
) -> Result<Qid> {
    let meaning = open_path(&*call.fid(number)?, flags, removes)?;
    let qid = qid_of(call, &meaning)?;
    call.connection.fids.replace(number, meaning);
    Ok(qid)
}

/// What a fid becomes when it is opened.
pub(super) fn open_path(fid: &Fid, flags: OpenFlags, removes: bool) -> Result<Fid> {
    fid.require_path()?;
    let flags = opening_flags(fid.node.file_type, flags)?;
    let opened = fid.session().open(&fid.ctx(), fid.node.node, flags)?;
    let open = OpenFid::new(&fid.node, opened.handle, removes);
    Ok(fid.in_state(FidState::Open(open)))
}

/// How such a file is opened for a peer that asks for `flags`.
pub(super) fn opening_flags(file_type: FileType, flags: OpenFlags) -> Result<OpenFlags> {
    match file_type {
        FileType::Directory if flags.intersects(OpenFlags::WRITE | OpenFlags::TRUNCATE) => {
            Err(Errno::EISDIR)
        }
        FileType::Directory => {
            Ok(OpenFlags::READ | OpenFlags::DIRECTORY | (flags & OpenFlags::NOATIME))
        }
        _ => Ok(flags),
    }
}
