//! Opening, and making what is opened.

use super::walk::{NAMES_ROOM, Stopped, names};
use super::{Tree, odd};
use crate::error::{Error, Result};
use crate::requests::Answer;
use crate::translate::{self, lopen_flags, open_mode, perm};
use sluice_proto::p9::wire::{Extended, Qid, QidType, Reply, Request, Str};
use sluice_vfs::{Attr, Errno, OpenFlags, UnixMode, WALK_MAX};

/// An open fid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFid {
    pub(crate) fid: u32,
    /// Most bytes of a read or write.
    pub(crate) chunk: usize,
    /// The file's, as it was opened.
    pub(crate) qid: Qid,
    /// Its attributes, where the server told them with it.
    pub(crate) attr: Option<Attr>,
}

impl Tree {
    /// Opens what names lead to.
    pub(crate) fn open_at(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
        flags: OpenFlags,
    ) -> std::result::Result<OpenFid, Stopped> {
        if let Some(done) = self.open_fused(fid, list, flags) {
            return done;
        }
        if list.len() > WALK_MAX || !self.is_orderly() {
            let (newfid, last) = self.walk(fid, list)?;
            return self.open_walked(newfid, list.len(), last, flags);
        }
        let newfid = self.connection.take_fid();
        let mut room = [0; NAMES_ROOM];
        let names = names(list, &mut room)?;
        let walk = Request::Walk { fid, newfid, names };
        let open = self.open_request(newfid, flags);
        let [walked, opened] = self.connection.call_all([&walk, &open])?;
        let walked = walked
            .map_err(Stopped::from)
            .and_then(|answer| self.judge_walk(fid, list, &answer));
        let last = match walked {
            Ok(last) => last,
            Err(stopped) => {
                self.connection.give_back_unmade_fid(newfid, &stopped.error);
                return Err(stopped);
            }
        };
        match opened {
            Ok(answer) => {
                let opened = self.opened(newfid, &answer)?;
                let is_dir = opened.qid.kind.contains(QidType::DIR);
                if !is_dir || last.is_none_or(|qid| qid.path == opened.qid.path) {
                    return Ok(opened);
                }
                // It was opened half-way: at a directory, as all on the way are.
                self.clunk(newfid);
                self.note_disorder();
                self.open_at(fid, list, flags)
            }
            Err(error) if is_too_early(&error) => {
                let opened = self.open_walked(newfid, list.len(), last, flags)?;
                self.note_disorder();
                Ok(opened)
            }
            Err(error) => {
                self.clunk(newfid);
                Err(stopped_at(list.len(), last, error))
            }
        }
    }

    /// Opens a fid that was walked to; without success it is given back.
    fn open_walked(
        &self,
        fid: u32,
        steps: usize,
        last: Option<Qid>,
        flags: OpenFlags,
    ) -> std::result::Result<OpenFid, Stopped> {
        let answer = self.connection.call(&self.open_request(fid, flags));
        match answer.and_then(|answer| self.opened(fid, &answer)) {
            Ok(opened) => Ok(opened),
            Err(error) => {
                self.clunk(fid);
                Err(stopped_at(steps, last, error))
            }
        }
    }

    fn open_request(&self, fid: u32, flags: OpenFlags) -> Request<'static> {
        match self.is_linux() {
            true => Request::Lopen {
                fid,
                flags: lopen_flags(flags),
            },
            false => Request::Open {
                fid,
                mode: open_mode(flags, self.dialect()),
            },
        }
    }

    pub(super) fn opened(&self, fid: u32, answer: &Answer) -> Result<OpenFid> {
        let (iounit, qid, attr) = match answer.get()? {
            Reply::Lopen { iounit, qid }
            | Reply::Open { iounit, qid }
            | Reply::Lcreate { iounit, qid }
            | Reply::Create { iounit, qid } => (iounit, qid, None),
            Reply::OpenAt { iounit, attr, .. } | Reply::CreateAt { iounit, attr, .. } => {
                (iounit, attr.qid, Some(translate::attr(&attr)))
            }
            other => return Err(odd(&other)),
        };
        let most = self.connection.agreed.payload_max();
        let chunk = match iounit {
            0 => most,
            iounit => most.min(iounit as usize),
        };
        Ok(OpenFid {
            fid,
            chunk,
            qid,
            attr,
        })
    }

    /// Makes a file in the directory that names lead to, and opens it. One that
    /// is there already is opened, unless the flags say otherwise. The pair is
    /// its permission bits and its group.
    pub(crate) fn create_at(
        &self,
        fid: u32,
        dir: &[impl AsRef<[u8]>],
        name: &[u8],
        flags: OpenFlags,
        (bits, gid): (u32, u32),
    ) -> std::result::Result<OpenFid, Stopped> {
        if let Some(done) = self.create_fused(fid, dir, name, flags, (bits, gid)) {
            return done;
        }
        if !self.is_linux() && !flags.contains(OpenFlags::EXCLUSIVE) {
            // Tcreate is for what is not there.
            match self.open_in(fid, dir, name, flags) {
                Err(stopped)
                    if stopped.link_at.is_none() && stopped.error.errno() == Errno::ENOENT => {}
                outcome => return outcome,
            }
        }
        // Never at once with the walk: one that stops half way leaves the fid
        // at another directory, and the file would be made there.
        let (newfid, last) = self.walk(fid, dir)?;
        if last.is_some_and(|qid| qid.kind.contains(QidType::SYMLINK)) {
            self.clunk(newfid);
            return Err(stopped_at(dir.len(), last, Error::Refused(Errno::ENOTDIR)));
        }
        let request = self.create_request(newfid, name, flags, (bits, gid));
        let answer = self.connection.call(&request);
        match answer.and_then(|answer| self.opened(newfid, &answer)) {
            Ok(opened) => Ok(opened),
            Err(error) => {
                self.clunk(newfid);
                let is_there = error.errno() == Errno::EEXIST;
                match is_there && !flags.contains(OpenFlags::EXCLUSIVE) {
                    // hugelgupf/p9 takes Tlcreate as 9P2000 has Tcreate.
                    true => self.open_in(fid, dir, name, flags),
                    false => Err(error.into()),
                }
            }
        }
    }

    /// Opens what has a name in the directory that names lead to. Whatever that is,
    /// the way to it was found.
    fn open_in(
        &self,
        fid: u32,
        dir: &[impl AsRef<[u8]>],
        name: &[u8],
        flags: OpenFlags,
    ) -> std::result::Result<OpenFid, Stopped> {
        let mut list: Vec<&[u8]> = dir.iter().map(AsRef::as_ref).collect();
        list.push(name);
        match self.open_at(fid, &list, flags) {
            Err(stopped) if stopped.link_at == Some(dir.len()) => Err(stopped.error.into()),
            outcome => outcome,
        }
    }

    /// The same in a directory itself, and a fid for what was made that is not
    /// open, if it is still there.
    pub(crate) fn create_and_keep(
        &self,
        dir: u32,
        name: &[u8],
        flags: OpenFlags,
        ids: (u32, u32),
    ) -> Result<(OpenFid, Option<u32>)> {
        if let Some(done) = self.create_kept_fused(dir, name, flags, ids) {
            return done;
        }
        let none: [&[u8]; 0] = [];
        let created = self.create_at(dir, &none, name, flags, ids);
        let mut open = created.map_err(|stopped| stopped.error)?;
        match self.lookup(dir, &[name]) {
            Ok((fid, attr)) if attr.ino == open.qid.path => {
                open.attr = Some(attr);
                Ok((open, Some(fid)))
            }
            Ok((fid, _)) => {
                self.clunk(fid);
                Ok((open, None))
            }
            Err(stopped) if stopped.error.is_fatal() => Err(stopped.error),
            Err(_) => Ok((open, None)),
        }
    }

    fn create_request<'a>(
        &self,
        fid: u32,
        name: &'a [u8],
        flags: OpenFlags,
        (bits, gid): (u32, u32),
    ) -> Request<'a> {
        match self.is_linux() {
            true => Request::Lcreate {
                fid,
                name: Str(name),
                flags: lopen_flags(flags) | sluice_proto::p9::wire::LopenFlags::CREATE,
                mode: bits & UnixMode::PERM_MASK,
                gid,
            },
            false => Request::Create {
                fid,
                name: Str(name),
                perm: perm(bits, false, self.dialect()),
                mode: open_mode(flags, self.dialect()),
                extension: Extended(Str(b"")),
            },
        }
    }
}

/// Whether it may be that the fid did not mean anything yet, or a directory on the
/// way.
fn is_too_early(error: &Error) -> bool {
    matches!(
        error.errno(),
        Errno::EBADF
            | Errno::EINVAL
            | Errno::EIO
            | Errno::ENOENT
            | Errno::EPROTO
            | Errno::EISDIR
            | Errno::EACCES
            | Errno::EPERM
    )
}

/// A symlink at the end of the way can't be opened.
fn stopped_at(steps: usize, last: Option<Qid>, error: Error) -> Stopped {
    let is_link = last.is_some_and(|qid| qid.kind.contains(QidType::SYMLINK));
    Stopped {
        error,
        link_at: is_link.then_some(steps.wrapping_sub(1)),
    }
}
