//! Answers to FUSE requests, out of the tree.

use super::tree::{DIRECTORY, Kind, PIECE, REGULAR, Tree};
use sluice_proto::fuse::wire::{
    AttrOut, CreateIn, Dirent, Direntplus, EntryOut, FopenFlags, InitFlags, InitIn, InitOut,
    Kstatfs, MAJOR, MINOR, OpenOut, Operation, OutHeader, ReadIn, Reply, Request, RequestHead,
    Rest, StatfsOut, WriteIn, WriteOut, dirent_len, direntplus_len, encode_dirent,
    encode_direntplus, encode_error, encode_reply,
};
use sluice_vfs::Errno;
use sluice_virtio::queue::Chain;
use std::iter;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Room for a reply without file data or listing.
const SMALL_REPLY: usize = 8 * 1024;

/// Pages of the longest message, and their bytes.
const MAX_PAGES: u16 = 256;
const MAX_BYTES: u32 = MAX_PAGES as u32 * 4096;

/// What else virtiofsd takes.
const TAKEN: InitFlags = InitFlags::ASYNC_READ
    .union(InitFlags::ATOMIC_O_TRUNC)
    .union(InitFlags::BIG_WRITES)
    .union(InitFlags::AUTO_INVAL_DATA)
    .union(InitFlags::DO_READDIRPLUS)
    .union(InitFlags::READDIRPLUS_AUTO)
    .union(InitFlags::ASYNC_DIO)
    .union(InitFlags::PARALLEL_DIROPS)
    .union(InitFlags::MAX_PAGES)
    .union(InitFlags::HANDLE_KILLPRIV_V2);

/// For how long the guest may trust a reply.
#[derive(Clone, Copy)]
pub(super) struct Validity {
    seconds: u64,
    open_flags: FopenFlags,
    opendir_flags: FopenFlags,
}

impl Validity {
    /// A day, or a second: what virtiofsd says with `--cache=always` and `auto`.
    pub(super) fn new(is_for_ever: bool) -> Self {
        if is_for_ever {
            Validity {
                seconds: 86_400,
                open_flags: FopenFlags::KEEP_CACHE,
                opendir_flags: FopenFlags::CACHE_DIR.union(FopenFlags::KEEP_CACHE),
            }
        } else {
            Validity {
                seconds: 1,
                open_flags: FopenFlags::empty(),
                opendir_flags: FopenFlags::empty(),
            }
        }
    }
}

/// A request that makes no sense.
pub(super) fn refuse(unique: u64, chain: &Chain) -> Option<usize> {
    let mut buffer = [0; size_of::<OutHeader>()];
    let len = encode_error(unique, Errno::EINVAL, &mut buffer).ok()?;
    chain.writer().write_all(buffer.get(..len)?).ok()?;
    Some(len)
}

/// Everything an answer needs.
pub(super) struct Answer<'a> {
    pub(super) tree: &'a mut Tree,
    pub(super) validity: Validity,
    pub(super) chain: &'a Chain,
    /// Where the payload begins in the chain's readable part.
    pub(super) payload_at: usize,
    /// For the reply; reused.
    pub(super) output: &'a mut Vec<u8>,
}

impl Answer<'_> {
    /// Answers; the bytes of the reply, `None` if there is none.
    pub(super) fn to(mut self, request: &Request<'_>) -> Option<usize> {
        let unique = request.head.unique;
        let written = match request.operation {
            Operation::Forget { .. } | Operation::BatchForget { .. } => return None,
            Operation::Read { args } => self.read(request, &args),
            Operation::Readdir { args } => self.list(request, &args, write_dirent),
            Operation::Readdirplus { args } => {
                let validity = self.validity;
                self.list(request, &args, |tree, entry, buffer| {
                    write_direntplus(tree, validity, entry, buffer)
                })
            }
            Operation::Readlink {} => self.read_link(request),
            _ => self
                .small_reply(request)
                .and_then(|reply| self.send(unique, &reply)),
        };
        written.or_else(|error| self.fail(unique, error)).ok()
    }

    fn small_reply(&mut self, request: &Request<'_>) -> Result<Reply<'static>, Errno> {
        let node = request.head.nodeid;
        Ok(match &request.operation {
            Operation::Init { args } => Reply::Init { init: init(args) },
            Operation::Destroy {} => Reply::Destroy {},
            Operation::Lookup { name } => Reply::Lookup {
                entry: self.entry(self.tree.lookup(node, name.0)?)?,
            },
            Operation::Getattr { .. } => Reply::Getattr {
                attr: self.attr(node)?,
            },
            Operation::Setattr { args } => {
                self.tree.set_attr(node, args)?;
                Reply::Setattr {
                    attr: self.attr(node)?,
                }
            }
            Operation::Mknod { args, name, .. } => Reply::Mknod {
                entry: self.make(request.head, name.0, args.mode)?,
            },
            Operation::Mkdir { args, name, .. } => Reply::Mkdir {
                entry: self.make(request.head, name.0, DIRECTORY | args.mode & 0o7777)?,
            },
            Operation::Symlink { name, target, .. } => Reply::Symlink {
                entry: self.make_symlink(request.head, name.0, target.0)?,
            },
            Operation::Link { args, name } => {
                self.tree.link(args.oldnodeid, node, name.0)?;
                Reply::Link {
                    entry: self.entry(args.oldnodeid)?,
                }
            }
            Operation::Create { args, name, .. } => self.create(request.head, args, name.0)?,
            Operation::Unlink { name } => {
                self.tree.unlink(node, name.0)?;
                Reply::Unlink {}
            }
            Operation::Rmdir { name } => {
                self.tree.unlink(node, name.0)?;
                Reply::Rmdir {}
            }
            Operation::Rename {
                args,
                old_name,
                new_name,
            } => {
                let to = (args.newdir, new_name.0);
                self.tree.rename((node, old_name.0), to)?;
                Reply::Rename {}
            }
            Operation::Rename2 {
                args,
                old_name,
                new_name,
            } if args.flags == 0 => {
                let to = (args.newdir, new_name.0);
                self.tree.rename((node, old_name.0), to)?;
                Reply::Rename2 {}
            }
            Operation::Open { args } => {
                self.truncate_if_told(node, args.flags)?;
                Reply::Open {
                    open: open(self.validity.open_flags),
                }
            }
            Operation::Opendir { .. } => Reply::Opendir {
                open: open(self.validity.opendir_flags),
            },
            Operation::Write { args, .. } => self.write(node, args)?,
            Operation::Statfs {} => Reply::Statfs { statfs: statfs() },
            Operation::Flush { .. } => Reply::Flush {},
            Operation::Release { .. } => Reply::Release {},
            Operation::Releasedir { .. } => Reply::Releasedir {},
            Operation::Fsync { .. } => Reply::Fsync {},
            Operation::Fsyncdir { .. } => Reply::Fsyncdir {},
            Operation::Syncfs { .. } => Reply::Syncfs {},
            Operation::Rename2 { .. } => return Err(Errno::EINVAL),
            _ => return Err(Errno::ENOSYS),
        })
    }

    fn attr(&self, node: u64) -> Result<AttrOut, Errno> {
        Ok(AttrOut {
            attr_valid: self.validity.seconds,
            attr: self.tree.node(node)?.attr,
            ..AttrOut::default()
        })
    }

    fn entry(&self, node: u64) -> Result<EntryOut, Errno> {
        entry(self.tree, self.validity, node)
    }

    fn make(&mut self, head: RequestHead, name: &[u8], mode: u32) -> Result<EntryOut, Errno> {
        let owner = (head.uid, head.gid);
        let node = self.tree.make(head.nodeid, name, mode, owner)?;
        self.entry(node)
    }

    fn make_symlink(
        &mut self,
        head: RequestHead,
        name: &[u8],
        target: &[u8],
    ) -> Result<EntryOut, Errno> {
        let owner = (head.uid, head.gid);
        let node = self.tree.make_symlink(head.nodeid, name, target, owner)?;
        self.entry(node)
    }

    fn create(
        &mut self,
        head: RequestHead,
        args: &CreateIn,
        name: &[u8],
    ) -> Result<Reply<'static>, Errno> {
        let entry = match self.tree.lookup(head.nodeid, name) {
            Ok(_) if args.flags & O_EXCL != 0 => return Err(Errno::EEXIST),
            Ok(node) => {
                self.truncate_if_told(node, args.flags)?;
                self.entry(node)?
            }
            Err(_) => self.make(head, name, REGULAR | args.mode & 0o7777)?,
        };
        Ok(Reply::Create {
            entry,
            open: open(self.validity.open_flags),
        })
    }

    fn truncate_if_told(&mut self, node: u64, flags: u32) -> Result<(), Errno> {
        if flags & O_TRUNC != 0 {
            self.tree.resize(node, 0)?;
        }
        Ok(())
    }

    fn write(&mut self, node: u64, args: &WriteIn) -> Result<Reply<'static>, Errno> {
        let mut payload = self.chain.reader();
        payload.skip(self.payload_at);
        self.tree.write(node, args.offset, args.size, |place| {
            payload.read(place);
        })?;
        // To take it all is the least that a server has to do.
        self.output.resize(SMALL_REPLY.max(PIECE), 0);
        while payload.read(self.output) > 0 {}
        Ok(Reply::Write {
            written: WriteOut {
                size: args.size,
                padding: 0,
            },
        })
    }

    fn read(&mut self, request: &Request<'_>, args: &ReadIn) -> Result<usize, Errno> {
        let node = request.head.nodeid;
        let data = self.tree.read(node, args.offset, args.size)?;
        let header = OutHeader::success(request.head.unique, data.len());
        let mut writer = self.chain.writer();
        for piece in iter::once(header.as_bytes()).chain(data.pieces()) {
            writer.write_all(piece).map_err(|_| Errno::EINVAL)?;
        }
        Ok(header.len as usize)
    }

    fn read_link(&mut self, request: &Request<'_>) -> Result<usize, Errno> {
        let Kind::Symlink(target) = &self.tree.node(request.head.nodeid)?.kind else {
            return Err(Errno::EINVAL);
        };
        let target = Arc::clone(target);
        let reply = Reply::Readlink {
            target: Rest(&target),
        };
        self.send(request.head.unique, &reply)
    }

    fn list(
        &mut self,
        request: &Request<'_>,
        args: &ReadIn,
        write: impl Fn(&Tree, (&[u8], u64, u64), &mut [u8]) -> Option<usize>,
    ) -> Result<usize, Errno> {
        let header = size_of::<OutHeader>();
        let size = args.size.min(MAX_BYTES) as usize;
        self.output.resize(header + size, 0);
        let mut end = header;
        let directory = self.tree.directory(request.head.nodeid)?;
        for entry in directory.list(args.offset) {
            let room = self.output.get_mut(end..).unwrap_or_default();
            match write(self.tree, entry, room) {
                Some(len) => end += len,
                None => break,
            }
        }
        let head = OutHeader::success(request.head.unique, end - header);
        if let Some(start) = self.output.get_mut(..header) {
            start.copy_from_slice(head.as_bytes());
        }
        self.flush(end)
    }

    fn send(&mut self, unique: u64, reply: &Reply<'_>) -> Result<usize, Errno> {
        self.output.resize(SMALL_REPLY, 0);
        let len = encode_reply(unique, reply, self.output).map_err(|_| Errno::EINVAL)?;
        self.flush(len)
    }

    fn fail(&mut self, unique: u64, error: Errno) -> Result<usize, Errno> {
        self.output.resize(SMALL_REPLY, 0);
        let len = encode_error(unique, error, self.output).map_err(|_| Errno::EINVAL)?;
        self.flush(len)
    }

    fn flush(&mut self, len: usize) -> Result<usize, Errno> {
        let bytes = self.output.get(..len).ok_or(Errno::EINVAL)?;
        let written = self.chain.writer().write_all(bytes);
        written.map_err(|_| Errno::EINVAL)?;
        Ok(len)
    }
}

/// Flags as x86-64 Linux has them, where this server runs.
const O_EXCL: u32 = 0o200;
const O_TRUNC: u32 = 0o1000;

fn init(args: &InitIn) -> InitOut {
    InitOut {
        major: MAJOR,
        minor: MINOR.min(args.minor),
        max_readahead: args.max_readahead,
        max_background: 64,
        congestion_threshold: 48,
        max_write: MAX_BYTES,
        max_pages: MAX_PAGES,
        time_gran: 1,
        ..InitOut::default()
    }
    .with_init_flags(TAKEN)
}

fn entry(tree: &Tree, validity: Validity, node: u64) -> Result<EntryOut, Errno> {
    Ok(EntryOut {
        nodeid: node,
        entry_valid: validity.seconds,
        attr_valid: validity.seconds,
        attr: tree.node(node)?.attr,
        ..EntryOut::default()
    })
}

fn open(open_flags: FopenFlags) -> OpenOut {
    OpenOut {
        open_flags,
        ..OpenOut::default()
    }
}

/// Room for everything.
fn statfs() -> StatfsOut {
    StatfsOut {
        st: Kstatfs {
            blocks: 1 << 32,
            bfree: 1 << 32,
            bavail: 1 << 32,
            files: 1 << 32,
            ffree: 1 << 32,
            bsize: 4096,
            namelen: 255,
            frsize: 4096,
            ..Kstatfs::default()
        },
    }
}

fn write_dirent(
    tree: &Tree,
    (name, node, next): (&[u8], u64, u64),
    room: &mut [u8],
) -> Option<usize> {
    let room = room.get_mut(..dirent_len(name.len()))?;
    encode_dirent(&dirent(tree, node, next), name, room).ok()
}

fn write_direntplus(
    tree: &Tree,
    validity: Validity,
    (name, node, next): (&[u8], u64, u64),
    room: &mut [u8],
) -> Option<usize> {
    let room = room.get_mut(..direntplus_len(name.len()))?;
    let entry = Direntplus {
        entry_out: entry(tree, validity, node).ok()?,
        dirent: dirent(tree, node, next),
    };
    encode_direntplus(&entry, name, room).ok()
}

fn dirent(tree: &Tree, node: u64, next: u64) -> Dirent {
    let attr = tree.node(node).map(|node| node.attr).unwrap_or_default();
    Dirent {
        ino: attr.ino,
        off: next,
        // `DT_*` are the type bits of a mode, shifted (`IFTODT` in dirent.h).
        kind: attr.mode >> 12,
        ..Dirent::default()
    }
}
