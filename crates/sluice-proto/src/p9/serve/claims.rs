//! What requests do with fids.

use super::schedule::{Claim, Claims};
use crate::p9::wire::{NOFID, Request};

/// What a request depends on; a Tflush depends on a request instead.
pub(super) fn claims(request: &Request<'_>) -> Claims {
    use Claim::{Change, Use};
    let [first, second] = match *request {
        Request::Version { .. } => return Claims::Everything,
        Request::Flush { .. } => [None, None],

        Request::Auth { afid: fid, .. } | Request::Attach { fid, .. } => [Some(Change(fid)), None],
        Request::Walk { fid, newfid, .. } | Request::Xattrwalk { fid, newfid, .. } => {
            match fid == newfid {
                true => [Some(Change(fid)), None],
                false => [Some(Use(fid)), Some(Change(newfid))],
            }
        }

        Request::OpenAt { fid, newfid, .. }
        | Request::CreateAt { fid, newfid, .. }
        | Request::StatAt { fid, newfid, .. } => match newfid {
            NOFID => [Some(Use(fid)), None],
            newfid if newfid == fid => [Some(Change(fid)), None],
            newfid => [Some(Use(fid)), Some(Change(newfid))],
        },

        Request::Open { fid, .. }
        | Request::Lopen { fid, .. }
        | Request::Create { fid, .. }
        | Request::Lcreate { fid, .. }
        | Request::Xattrcreate { fid, .. }
        | Request::Wstat { fid, .. }
        | Request::Clunk { fid }
        | Request::Remove { fid } => [Some(Change(fid)), None],
        Request::Rename { fid, dfid, .. } => [Some(Change(fid)), Some(Use(dfid))],

        Request::Renameat {
            old_dfid, new_dfid, ..
        } => [Some(Use(old_dfid)), Some(Use(new_dfid))],
        Request::Link { dfid, fid, .. } => [Some(Use(dfid)), Some(Use(fid))],

        Request::Statfs { fid }
        | Request::Symlink { fid, .. }
        | Request::Mknod { dfid: fid, .. }
        | Request::Readlink { fid }
        | Request::Getattr { fid, .. }
        | Request::Setattr { fid, .. }
        | Request::Readdir { fid, .. }
        | Request::Fsync { fid, .. }
        | Request::Lock { fid, .. }
        | Request::Getlock { fid, .. }
        | Request::Mkdir { dfid: fid, .. }
        | Request::Unlinkat { dfid: fid, .. }
        | Request::Read { fid, .. }
        | Request::Write { fid, .. }
        | Request::Stat { fid } => [Some(Use(fid)), None],
    };
    Claims::Fids([first, second])
}
