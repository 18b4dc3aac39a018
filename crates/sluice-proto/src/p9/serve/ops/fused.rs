//! What takes several messages elsewhere (docs/9p-extension.md): all of it is
//! done, or nothing, and no fid is made unless all was.

use super::attr_of;
use super::open::{IOUNIT, create_file, open_name, open_path};
use super::walk::{check_start, step};
use crate::p9::serve::answer::Answer;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::fids::Fid;
use crate::p9::serve::translate::{getattr, lopen_flags, qid};
use crate::p9::wire::{LopenFlags, NOFID, Names, QID_LEN, Qids, Reply};
use arrayvec::ArrayVec;
use sluice_vfs::{Attr, CreateArgs, Errno, NewNode, OpenFlags, Result, UnixMode, WALK_MAX};

pub(in super::super) fn open_at(
    call: &Call<'_>,
    fids: (u32, u32),
    flags: LopenFlags,
    names: &Names<'_>,
    answer: &mut Answer,
) -> Result<()> {
    let flags = lopen_flags(flags)? - OpenFlags::EXCLUSIVE;
    let mut way = Way::begin(call, fids.0, names)?;
    let newfid = call.connection.fids.reserve(fids.1)?;
    let (opened, attr) = match names.iter().last() {
        Some(name) if !matches!(name, b"." | b"..") => {
            way.go(call, names.iter().take(names.len() - 1))?;
            let (opened, attr) = open_name(&way.at, name, flags)?;
            way.pass(call, &attr)?;
            (opened, attr)
        }
        _ => {
            way.go(call, names.iter())?;
            let opened = open_path(&way.at, flags, false)?;
            let attr = attr_of(&opened)?;
            (opened, attr)
        }
    };
    newfid.fill(opened);
    answer.set(&Reply::OpenAt {
        iounit: IOUNIT,
        attr: getattr(&attr, call.config.options.qid_version),
        qids: Qids(&way.qids),
    })
}

pub(in super::super) fn create_at(
    call: &Call<'_>,
    fids: (u32, u32),
    flags: LopenFlags,
    (mode, gid): (u32, u32),
    names: &Names<'_>,
    answer: &mut Answer,
) -> Result<()> {
    let steps = names.len().checked_sub(1).ok_or(Errno::EINVAL)?;
    let mut way = Way::begin(call, fids.0, names)?;
    let newfid = call.connection.fids.reserve(fids.1)?;
    way.go(call, names.iter().take(steps))?;
    let name = names.iter().last().unwrap_or_default();
    let args = CreateArgs {
        flags: lopen_flags(flags)? - OpenFlags::DIRECTORY,
        new: NewNode::with_perm(mode & UnixMode::PERM_MASK),
    };
    let dir = &way.at;
    let (made, attr) = create_file(dir, &dir.maker_ctx(gid), name, &args, false)?;
    way.pass(call, &attr)?;
    newfid.fill(made);
    answer.set(&Reply::CreateAt {
        iounit: IOUNIT,
        attr: getattr(&attr, call.config.options.qid_version),
        qids: Qids(&way.qids),
    })
}

pub(in super::super) fn stat_at(
    call: &Call<'_>,
    fids: (u32, u32),
    names: &Names<'_>,
    answer: &mut Answer,
) -> Result<()> {
    let mut way = Way::begin(call, fids.0, names)?;
    let newfid = match fids.1 {
        NOFID => None,
        newfid => Some(call.connection.fids.reserve(newfid)?),
    };
    way.go(call, names.iter())?;
    let attr = match way.attr {
        Some(attr) => attr,
        // The file that is open, wherever its name is now.
        None => attr_of(&*call.fid(fids.0)?)?,
    };
    if let Some(newfid) = newfid {
        newfid.fill(way.at);
    }
    answer.set(&Reply::StatAt {
        attr: getattr(&attr, call.config.options.qid_version),
        qids: Qids(&way.qids),
    })
}

/// How far a walk has got.
struct Way {
    at: Fid,
    /// Of where it is, if it went anywhere.
    attr: Option<Attr>,
    qids: ArrayVec<[u8; QID_LEN], WALK_MAX>,
}

impl Way {
    /// From `fid`.
    fn begin(call: &Call<'_>, fid: u32, names: &Names<'_>) -> Result<Self> {
        let from = call.fid(fid)?;
        check_start(&from, false, names)?;
        Ok(Way {
            at: from.cloned(),
            attr: None,
            qids: ArrayVec::new(),
        })
    }

    fn go<'n>(&mut self, call: &Call<'_>, names: impl Iterator<Item = &'n [u8]>) -> Result<()> {
        for name in names {
            let attr = step(&mut self.at, name)?;
            self.pass(call, &attr)?;
            self.attr = Some(attr);
        }
        Ok(())
    }

    /// Notes that a name led to what has these attributes.
    fn pass(&mut self, call: &Call<'_>, attr: &Attr) -> Result<()> {
        let qid = qid(attr, call.config.options.qid_version);
        let pushed = self.qids.try_push(qid.to_bytes());
        pushed.map_err(|_| Errno::EINVAL)
    }
}
