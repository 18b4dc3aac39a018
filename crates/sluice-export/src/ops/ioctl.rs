//! File flags.

use super::Target;
use crate::service::ExportSession;
use rustix::fd::AsFd;
use rustix::fs::OFlags;
use sluice_vfs::{Ctx, FileIoctl, FileIoctlReply, Result};

pub(crate) fn ioctl(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (node, handle): Target,
    request: &FileIoctl,
) -> Result<FileIoctlReply> {
    if matches!(request, FileIoctl::SetFlags(_) | FileIoctl::SetFsx(_)) {
        session.require_writable()?;
    }
    let file = session.file(ctx, node, handle, OFlags::RDONLY)?;
    let _as_caller = session.as_caller(ctx)?;
    let fd = file.as_fd();
    match request {
        FileIoctl::GetFlags => sluice_sys::file_flags(fd).map(FileIoctlReply::Flags),
        FileIoctl::GetFsx => sluice_sys::fsx(fd).map(FileIoctlReply::Fsx),
        FileIoctl::SetFlags(flags) => {
            sluice_sys::set_file_flags(fd, *flags).map(|()| FileIoctlReply::Done)
        }
        FileIoctl::SetFsx(fsx) => sluice_sys::set_fsx(fd, fsx).map(|()| FileIoctlReply::Done),
    }
}
