//! Attributes as 9P2000 and 9P2000.u have them.

use super::attr_of;
use super::names::move_fid;
use crate::p9::serve::answer::Answer;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::fids::{Fid, Place};
use crate::p9::serve::translate::{perm, qid, unix_perm};
use crate::p9::wire::{Counted, Extended, Perm, Reply, Stat, Str, UnixId};
use sluice_vfs::{
    Attr, Errno, FileType, NodeId, RenameFlags, Result, SYMLINK_TARGET_MAX, SetAttr, SetTime,
    Timestamp, UnixMode, VecSink,
};

pub(in super::super) fn stat(call: &Call<'_>, fid: u32, answer: &mut Answer) -> Result<()> {
    let fid = call.fid(fid)?;
    let attr = attr_of(&fid)?;
    let name = match fid.place() {
        Some(place) => place.name.to_vec(),
        None => b"/".to_vec(),
    };
    let mut stat = StatOf::new(call, &attr, name);
    stat.extend(call, &fid, fid.node.node)?;
    answer.set(&Reply::Stat {
        stat: Counted(Counted(stat.get(call))),
    })
}

/// All at its default asks for the file to reach the disk (stat(5)).
pub(in super::super) fn wstat(
    call: &Call<'_>,
    fid: u32,
    wanted: &Stat<'_>,
    answer: &mut Answer,
) -> Result<()> {
    let fid = call.fid(fid)?;
    let changes = changes(call, &fid, wanted)?;
    let name = new_name(&fid, wanted.name.0);
    let (ctx, node, handle) = (fid.ctx(), fid.node.node, fid.handle());
    if changes != SetAttr::default() {
        fid.session().setattr(&ctx, node, handle, &changes)?;
    } else if name.is_none() && handle.is_some() {
        fid.session().fsync(&ctx, node, handle, false)?;
    }
    if let Some(name) = name {
        let place = fid.place().ok_or(Errno::EBUSY)?;
        let to = Place::new(&place.dir, name);
        // Plan 9 never takes a name from another file; Unix does.
        let flags = match call.is_unix() {
            true => RenameFlags::empty(),
            false => RenameFlags::NOREPLACE,
        };
        move_fid(call, &fid, &to, flags)?;
    }
    answer.set(&Reply::Wstat {})
}

/// The name to change to, if it is to change.
fn new_name<'n>(fid: &Fid, name: &'n [u8]) -> Option<&'n [u8]> {
    let is_new = fid.place().is_none_or(|place| *place.name != *name);
    (!name.is_empty() && is_new).then_some(name)
}

fn changes(call: &Call<'_>, fid: &Fid, wanted: &Stat<'_>) -> Result<SetAttr> {
    let time = |sec: u32| {
        let to = Timestamp {
            sec: sec.into(),
            nsec: 0,
        };
        (sec != Stat::LEAVE.atime).then_some(SetTime::To(to))
    };
    let size = (wanted.length != Stat::LEAVE.length).then_some(wanted.length);
    if size.is_some_and(|size| size > 0) && fid.node.is_dir() {
        return Err(Errno::EISDIR);
    }
    Ok(SetAttr {
        perm: match wanted.mode == Stat::LEAVE.mode {
            true => None,
            false => Some(new_perm(call, fid, wanted.mode)?),
        },
        uid: match (wanted.n_uid.0.get(), wanted.uid.0) {
            (Some(uid), _) => Some(uid),
            (None, b"") => None,
            (None, name) => Some(call.config.users.by_name(name).ok_or(Errno::EINVAL)?.uid),
        },
        gid: match (wanted.n_gid.0.get(), wanted.gid.0) {
            (Some(gid), _) => Some(gid),
            (None, b"") => None,
            (None, name) => Some(call.config.users.group_by_name(name).ok_or(Errno::EINVAL)?),
        },
        size: size.filter(|_| !fid.node.is_dir()),
        atime: time(wanted.atime),
        mtime: time(wanted.mtime),
        ..SetAttr::default()
    })
}

/// A file stays what it is. Plain 9P2000 knows nothing of set-id bits, and so
/// leaves them.
fn new_perm(call: &Call<'_>, fid: &Fid, mode: Perm) -> Result<u32> {
    if mode.contains(Perm::DIR) != fid.node.is_dir() {
        return Err(Errno::EINVAL);
    }
    let bits = unix_perm(mode, call.is_unix());
    match call.is_unix() {
        true => Ok(bits),
        false => Ok(bits | attr_of(fid)?.mode.perm() & (UnixMode::PERM_MASK & !0o777)),
    }
}

/// Bytes of a stat without its strings.
pub(super) const STAT_MIN: usize = 49;

/// Those that 9P2000.u adds.
const STAT_MORE: usize = 14;

/// A stat with the strings that it borrows.
pub(super) struct StatOf {
    attr: Attr,
    name: Vec<u8>,
    uid: Vec<u8>,
    gid: Vec<u8>,
    extension: Vec<u8>,
}

impl StatOf {
    /// Without what 9P2000.u tells besides.
    pub(super) fn new(call: &Call<'_>, attr: &Attr, name: Vec<u8>) -> Self {
        let users = &call.config.users;
        StatOf {
            attr: *attr,
            name,
            uid: users.user_name(attr.uid),
            gid: users.group_name(attr.gid),
            extension: Vec::new(),
        }
    }

    /// With that, of a node that the user of `fid` may look at.
    pub(super) fn extend(&mut self, call: &Call<'_>, fid: &Fid, node: NodeId) -> Result<()> {
        if call.is_unix() {
            self.extension = extension(fid, node, &self.attr)?;
        }
        Ok(())
    }

    /// Bytes that it takes; before it is extended, those that it will take if a
    /// symlink's target is as long as its attributes say.
    pub(super) fn len(&self, call: &Call<'_>) -> usize {
        let strings = self.name.len() + 2 * self.uid.len() + self.gid.len();
        let more = match (call.is_unix(), self.attr.mode.is_symlink()) {
            (false, _) => 0,
            (true, true) if self.extension.is_empty() => {
                let target = usize::try_from(self.attr.size).unwrap_or(usize::MAX);
                STAT_MORE + target.min(SYMLINK_TARGET_MAX)
            }
            (true, _) => STAT_MORE + self.extension.len(),
        };
        STAT_MIN + strings + more
    }

    pub(super) fn get(&self, call: &Call<'_>) -> Stat<'_> {
        let attr = &self.attr;
        let seconds = |time: Timestamp| u32::try_from(time.sec.max(0)).unwrap_or(u32::MAX - 1);
        Stat {
            kind: 0,
            dev: 0,
            qid: qid(attr, call.config.options.qid_version),
            mode: perm(attr.mode, call.is_unix()),
            atime: seconds(attr.atime),
            mtime: seconds(attr.mtime),
            length: match attr.mode.is_dir() {
                true => 0,
                false => attr.size,
            },
            name: Str(&self.name),
            uid: Str(&self.uid),
            gid: Str(&self.gid),
            muid: Str(&self.uid),
            extension: Extended(Str(&self.extension)),
            n_uid: Extended(UnixId(attr.uid)),
            n_gid: Extended(UnixId(attr.gid)),
            n_muid: Extended(UnixId::NONE),
        }
    }
}

/// What 9P2000.u tells of symlinks and devices.
fn extension(fid: &Fid, node: NodeId, attr: &Attr) -> Result<Vec<u8>> {
    let letter = match attr.mode.file_type() {
        Some(FileType::Symlink) => {
            let mut sink = VecSink::new(SYMLINK_TARGET_MAX);
            fid.session().readlink(&fid.ctx(), node, &mut sink)?;
            return Ok(sink.into_bytes());
        }
        Some(FileType::BlockDevice) => 'b',
        Some(FileType::CharDevice) => 'c',
        _ => return Ok(Vec::new()),
    };
    let (major, minor) = (attr.rdev.major, attr.rdev.minor);
    Ok(format!("{letter} {major} {minor}").into_bytes())
}
