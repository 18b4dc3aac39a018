//! Opening, and making what is opened.

use super::walk::Stopped;
use super::{Fid, Tree, odd};
use crate::error::{Error, Result};
use crate::requests::Answer;
use crate::translate::{self, lopen_flags, open_mode, perm};
use sluice_proto::p9::wire::{Extended, Qid, QidType, Reply, Request, Str};
use sluice_vfs::{Attr, Errno, OpenFlags, UnixMode};

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
        let open = |new| self.open_request(new, flags);
        let (new, last, answer) = self.walk_and_ask(fid, list, open)?;
        answer
            .and_then(|answer| self.opened(new, &answer))
            .map_err(|error| stopped_at(list.len(), last, error))
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

    pub(super) fn opened(&self, fid: Fid<'_>, answer: &Answer) -> Result<OpenFid> {
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
            fid: fid.keep(),
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
        let (new, last) = self.walk(fid, dir)?;
        if last.is_some_and(|qid| qid.kind.contains(QidType::SYMLINK)) {
            return Err(stopped_at(dir.len(), last, Error::Refused(Errno::ENOTDIR)));
        }
        let request = self.create_request(new.number(), name, flags, (bits, gid));
        let answer = self.connection.call(&request);
        match answer.and_then(|answer| self.opened(new, &answer)) {
            Ok(opened) => Ok(opened),
            Err(error) => {
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
    ) -> Result<(OpenFid, Option<Fid<'_>>)> {
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
            Ok(_) => Ok((open, None)),
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

/// A symlink at the end of the way can't be opened.
fn stopped_at(steps: usize, last: Option<Qid>, error: Error) -> Stopped {
    let is_link = last.is_some_and(|qid| qid.kind.contains(QidType::SYMLINK));
    Stopped {
        error,
        link_at: is_link.then_some(steps.wrapping_sub(1)),
    }
}
