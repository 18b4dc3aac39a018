//! Treaddir. The protocol lists names only; entries are looked up one by one.

use super::client::P9Client;
use super::transport::P9Transport;
use sluice_proto::p9::wire::{Dirents, Request};
use sluice_vfs::{Ctx, DirEntry, DirSink, DirWant, Errno, FileType, NodeId, Result};

/// What is asked for at a time, in bytes.
const PAGE_LEN: u32 = 4096;

impl<T: P9Transport> P9Client<T> {
    /// Lists until the sink is full or the end is reached.
    pub(super) fn list(
        &self,
        ctx: &Ctx<'_>,
        (node, fid): (NodeId, u32),
        mut cookie: u64,
        want: DirWant,
        sink: &mut dyn DirSink,
    ) -> Result<()> {
        loop {
            let reply = self.call(&Request::Readdir {
                fid,
                offset: cookie,
                count: PAGE_LEN,
            })?;
            let mut is_end = true;
            for dirent in Dirents(reply.payload()) {
                let dirent = dirent.expect("a listing is well-formed");
                if !sink.fits(dirent.name.0.len()) {
                    return Ok(());
                }
                let entry = match want {
                    DirWant::Names => None,
                    DirWant::Entries(_) if matches!(dirent.name.0, b"." | b"..") => None,
                    DirWant::Entries(_) => match self.find(&ctx.caller, node, dirent.name.0) {
                        Ok(entry) => Some(entry),
                        Err(Errno::ENOENT | Errno::ENOMEM) => None,
                        Err(error) => return Err(error),
                    },
                };
                sink.push(&DirEntry {
                    name: dirent.name.0,
                    ino: dirent.qid.path,
                    file_type: FileType::from_dirent_type(dirent.kind),
                    next_cookie: dirent.offset,
                    entry,
                });
                cookie = dirent.offset;
                is_end = false;
            }
            if is_end {
                return Ok(());
            }
        }
    }
}
