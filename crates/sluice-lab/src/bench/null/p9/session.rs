//! A connection: fids, and requests answered out of the tree.

use super::NullServer;
use super::answer::Answer;
use super::words::{qid, statfs, to_fuse, wire_attr};
use crate::bench::null::tree::{DIRECTORY, Kind, PIECE, REGULAR, ROOT, Tree};
use sluice_proto::p9::wire::{
    Dialect, Dirent, Getlock, Header, LockArgs, LopenFlags, MSIZE_MIN, Names, Payload, QID_LEN,
    Qid, Qids, REPLY_PAYLOAD_AT, Reply, Request, Str, VERSION_UNKNOWN, decode_request, dirent_len,
    encode_dirent, encode_reply,
};
use sluice_vfs::{Errno, WALK_MAX};
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Largest message in bytes, as Sluice has it.
const MSIZE: u32 = 1 << 20;

/// One connection.
pub struct Session {
    server: Arc<NullServer>,
    fids: HashMap<u32, Fid>,
    msize: u32,
    /// For data that is dropped.
    waste: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Fid {
    node: u64,
    uid: u32,
}

impl Session {
    /// A connection that waits for its Tversion.
    pub fn new(server: &Arc<NullServer>) -> Self {
        server.sessions.fetch_add(1, Ordering::Relaxed);
        Session {
            server: Arc::clone(server),
            fids: HashMap::new(),
            msize: MSIZE_MIN,
            waste: vec![0; PIECE],
        }
    }

    /// Most bytes of the next message.
    pub fn size_max(&self) -> u32 {
        self.msize.max(MSIZE_MIN)
    }

    /// Answers a message: `prefix` is its first [`Header::prefix_len`] bytes, and
    /// `payload` has the `payload_len` bytes behind them. `None` if it makes no sense.
    pub fn answer(
        &mut self,
        prefix: &[u8],
        payload: &mut dyn Read,
        payload_len: usize,
        answer: &mut Answer,
    ) -> Option<()> {
        answer.data = None;
        let tag = Header::peek(prefix).ok()?.tag;
        let Ok((tag, request)) = decode_request(prefix, payload_len, Dialect::Linux) else {
            answer.fail(tag, Errno::EINVAL);
            return Some(());
        };
        let server = Arc::clone(&self.server);
        let mut tree = server.tree();
        let done = match request {
            Request::Read { fid, offset, count } => {
                self.read(&tree, tag, (fid, offset, count), answer)
            }
            Request::Readdir { fid, offset, count } => {
                self.list(&tree, tag, (fid, offset, count), answer)
            }
            Request::Readlink { fid } => self.read_link(&tree, tag, fid, answer),
            Request::Walk { fid, newfid, names } => {
                self.walk(&tree, tag, (fid, newfid), names, answer)
            }
            _ => {
                let reply = self.small_reply(&mut tree, &request, payload);
                reply.map(|reply| answer.set(tag, &reply))
            }
        };
        done.unwrap_or_else(|errno| answer.fail(tag, errno));
        Some(())
    }

    fn small_reply(
        &mut self,
        tree: &mut Tree,
        request: &Request<'_>,
        payload: &mut dyn Read,
    ) -> Result<Reply<'static>, Errno> {
        Ok(match *request {
            Request::Version { msize, version } => self.begin(tree, msize, version.0),
            Request::Attach { fid, n_uname, .. } => {
                let uid = n_uname.0.get().unwrap_or(0);
                self.fids.insert(fid, Fid { node: ROOT, uid });
                Reply::Attach {
                    qid: qid(tree.node(ROOT)?),
                }
            }
            Request::Flush { .. } => Reply::Flush {},
            Request::Clunk { fid } => {
                self.fids.remove(&fid).ok_or(Errno::EBADF)?;
                Reply::Clunk {}
            }
            Request::Getattr { fid, .. } => Reply::Getattr {
                attr: wire_attr(tree.node(self.node(fid)?)?),
            },
            Request::Setattr { fid, changes } => {
                tree.set_attr(self.node(fid)?, &to_fuse(&changes))?;
                Reply::Setattr {}
            }
            Request::Lopen { fid, flags } => {
                let node = self.node(fid)?;
                if flags.contains(LopenFlags::TRUNC) {
                    tree.resize(node, 0)?;
                }
                Reply::Lopen {
                    qid: qid(tree.node(node)?),
                    iounit: 0,
                }
            }
            Request::Lcreate {
                fid, name, mode, ..
            } => {
                let mode = REGULAR | mode & 0o7777;
                let made = self.make(tree, fid, name, mode)?;
                if let Some(fid) = self.fids.get_mut(&fid) {
                    fid.node = made.1;
                }
                Reply::Lcreate {
                    qid: made.0,
                    iounit: 0,
                }
            }
            Request::Mkdir {
                dfid, name, mode, ..
            } => Reply::Mkdir {
                qid: self.make(tree, dfid, name, DIRECTORY | mode & 0o7777)?.0,
            },
            Request::Mknod {
                dfid, name, mode, ..
            } => Reply::Mknod {
                qid: self.make(tree, dfid, name, mode)?.0,
            },
            Request::Symlink {
                fid, name, target, ..
            } => {
                let Fid { node, uid } = self.fid(fid)?;
                let made = tree.make_symlink(node, name.0, target.0, (uid, uid))?;
                Reply::Symlink {
                    qid: qid(tree.node(made)?),
                }
            }
            Request::Link { dfid, fid, name } => {
                tree.link(self.node(fid)?, self.node(dfid)?, name.0)?;
                Reply::Link {}
            }
            Request::Renameat {
                old_dfid,
                old_name,
                new_dfid,
                new_name,
            } => {
                let from = (self.node(old_dfid)?, old_name.0);
                tree.rename(from, (self.node(new_dfid)?, new_name.0))?;
                Reply::Renameat {}
            }
            Request::Unlinkat { dfid, name, .. } => {
                tree.unlink(self.node(dfid)?, name.0)?;
                Reply::Unlinkat {}
            }
            Request::Write {
                fid,
                offset,
                data: Payload { len },
            } => self.write(tree, fid, (offset, len), payload)?,
            Request::Statfs { .. } => Reply::Statfs { statfs: statfs() },
            Request::Fsync { .. } => Reply::Fsync {},
            Request::Lock { .. } => Reply::Lock {
                status: LockArgs::SUCCESS,
            },
            Request::Getlock { args, .. } => Reply::Getlock {
                lock: Getlock {
                    kind: LockArgs::UNLOCK,
                    client_id: Str(b""),
                    ..args
                },
            },
            // Linux does without attributes, and without messages that have a better form.
            _ => return Err(Errno::EOPNOTSUPP),
        })
    }

    fn begin(&mut self, tree: &mut Tree, msize: u32, version: &[u8]) -> Reply<'static> {
        self.fids.clear();
        self.msize = msize.min(MSIZE);
        let is_known = Dialect::of_version(version).is_some_and(Dialect::is_linux);
        if self.server.sessions.load(Ordering::Relaxed) == 1 {
            *tree = self.server.loaded.clone();
        }
        Reply::Version {
            msize: self.msize,
            version: Str(match is_known {
                true => Dialect::Linux.version(),
                false => VERSION_UNKNOWN,
            }),
        }
    }

    fn fid(&self, fid: u32) -> Result<Fid, Errno> {
        self.fids.get(&fid).copied().ok_or(Errno::EBADF)
    }

    fn node(&self, fid: u32) -> Result<u64, Errno> {
        self.fid(fid).map(|fid| fid.node)
    }

    fn make(
        &self,
        tree: &mut Tree,
        dfid: u32,
        name: Str<'_>,
        mode: u32,
    ) -> Result<(Qid, u64), Errno> {
        let Fid { node, uid } = self.fid(dfid)?;
        let made = tree.make(node, name.0, mode, (uid, uid))?;
        Ok((qid(tree.node(made)?), made))
    }

    fn walk(
        &mut self,
        tree: &Tree,
        tag: u16,
        (fid, newfid): (u32, u32),
        names: Names<'_>,
        answer: &mut Answer,
    ) -> Result<(), Errno> {
        let mut at = self.fid(fid)?;
        let mut qids = [[0; QID_LEN]; WALK_MAX];
        let mut walked = 0;
        for (name, place) in names.iter().zip(&mut qids) {
            let Ok(next) = tree.lookup(at.node, name) else {
                break;
            };
            at.node = next;
            *place = qid(tree.node(next)?).to_bytes();
            walked += 1;
        }
        match walked {
            0 if !names.is_empty() => return Err(Errno::ENOENT),
            _ if walked == names.len() => drop(self.fids.insert(newfid, at)),
            _ => {}
        }
        let qids = Qids(qids.get(..walked).unwrap_or_default());
        answer.set(tag, &Reply::Walk { qids });
        Ok(())
    }

    fn read(
        &self,
        tree: &Tree,
        tag: u16,
        (fid, offset, count): (u32, u64, u32),
        answer: &mut Answer,
    ) -> Result<(), Errno> {
        let data = tree.read(self.node(fid)?, offset, self.clamped(count))?;
        let payload = Payload { len: data.len() };
        answer.set(tag, &Reply::Read { data: payload });
        answer.data = Some(data);
        Ok(())
    }

    fn list(
        &self,
        tree: &Tree,
        tag: u16,
        (fid, offset, count): (u32, u64, u32),
        answer: &mut Answer,
    ) -> Result<(), Errno> {
        let directory = tree.directory(self.node(fid)?)?;
        let head = &mut answer.head;
        head.resize(REPLY_PAYLOAD_AT + self.clamped(count) as usize, 0);
        let mut end = REPLY_PAYLOAD_AT;
        for (name, node, next) in directory.list(offset) {
            let node = tree.node(node)?;
            let entry = Dirent {
                qid: qid(node),
                offset: next,
                // `DT_*` are the type bits of a mode, shifted.
                kind: (node.attr.mode >> 12) as u8,
                name: Str(name),
            };
            let Some(room) = head.get_mut(end..end + dirent_len(name.len())) else {
                break;
            };
            end += encode_dirent(&entry, room).map_err(|_| Errno::EINVAL)?;
        }
        head.truncate(end);
        let len = end - REPLY_PAYLOAD_AT;
        let reply = Reply::Readdir {
            entries: Payload { len },
        };
        encode_reply(tag, &reply, Dialect::Linux, head).map_err(|_| Errno::EINVAL)?;
        Ok(())
    }

    fn read_link(&self, tree: &Tree, tag: u16, fid: u32, answer: &mut Answer) -> Result<(), Errno> {
        let Kind::Symlink(target) = &tree.node(self.node(fid)?)?.kind else {
            return Err(Errno::EINVAL);
        };
        answer.set(
            tag,
            &Reply::Readlink {
                target: Str(target),
            },
        );
        Ok(())
    }

    fn write(
        &mut self,
        tree: &mut Tree,
        fid: u32,
        (offset, len): (u64, usize),
        payload: &mut dyn Read,
    ) -> Result<Reply<'static>, Errno> {
        let count = u32::try_from(len).map_err(|_| Errno::EINVAL)?;
        let mut taken = Ok(());
        tree.write(self.node(fid)?, offset, count, |place| {
            taken = payload.read_exact(place);
        })?;
        taken.map_err(|_| Errno::EIO)?;
        // To take it all is the least that a server has to do.
        while payload.read(&mut self.waste).map_err(|_| Errno::EIO)? > 0 {}
        Ok(Reply::Write { count })
    }

    /// As much data as fits into a reply.
    fn clamped(&self, count: u32) -> u32 {
        let room = self.msize.saturating_sub(REPLY_PAYLOAD_AT as u32);
        count.min(room)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.server.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_proto::p9::wire::{
        Dirents, Extended, Failure, GetattrMask, NOFID, NOTAG, QidType, decode_reply,
        encode_request,
    };
    use std::fs;

    /// A session on a share with a file, and the bytes of its last reply.
    struct Peer {
        session: Session,
        answer: Answer,
        reply: Vec<u8>,
    }

    impl Peer {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("sub")).unwrap();
            fs::write(dir.path().join("sub/file"), "content").unwrap();
            let server = NullServer::load(dir.path()).unwrap();
            let mut peer = Peer {
                session: Session::new(&server),
                answer: Answer::default(),
                reply: Vec::new(),
            };
            let version = Str(b"9P2000.L");
            let msize = 1 << 16;
            let agreed = peer.ask(&Request::Version { msize, version }, b"");
            assert_eq!(agreed, Ok(Reply::Version { msize, version }));
            let attached = peer.ask(
                &Request::Attach {
                    fid: 0,
                    afid: NOFID,
                    uname: Str(b""),
                    aname: Str(b""),
                    n_uname: Extended(Default::default()),
                },
                b"",
            );
            assert!(matches!(attached, Ok(Reply::Attach { qid }) if qid.kind == QidType::DIR));
            peer
        }

        fn ask(&mut self, request: &Request<'_>, payload: &[u8]) -> Result<Reply<'_>, Errno> {
            let tag = NOTAG - 1;
            let mut prefix = vec![0; 8192];
            let len = encode_request(tag, request, Dialect::Linux, &mut prefix).unwrap();
            let (session, answer) = (&mut self.session, &mut self.answer);
            let asked = session.answer(&prefix[..len], &mut &*payload, payload.len(), answer);
            asked.unwrap();
            self.reply = answer.pieces().collect::<Vec<_>>().concat();
            assert_eq!(self.reply.len(), answer.len());
            let prefix_len = Header::peek(&self.reply).unwrap().prefix_len();
            let (prefix, payload) = self.reply.split_at(prefix_len);
            let reply = decode_reply(prefix, payload.len(), Dialect::Linux).unwrap();
            assert_eq!(reply.tag, tag);
            let failed = |failure: Failure<'_>| Errno::from_raw(failure.errno.cast_signed());
            reply.result.map_err(failed)
        }

        fn walk(&mut self, fid: u32, newfid: u32, names: &[&[u8]]) -> Result<usize, Errno> {
            let mut room = [0; 256];
            let names = Names::new(names, &mut room).unwrap();
            match self.ask(&Request::Walk { fid, newfid, names }, b"")? {
                Reply::Walk { qids } => Ok(qids.0.len()),
                other => panic!("{other:?}"),
            }
        }

        fn payload(&self) -> &[u8] {
            &self.reply[REPLY_PAYLOAD_AT..]
        }
    }

    #[test]
    fn names_lead_to_fids_as_far_as_they_are_there() {
        let mut peer = Peer::new();
        assert_eq!(peer.walk(0, 1, &[b"sub", b"file"]), Ok(2));
        assert_eq!(peer.walk(0, 2, &[b"sub", b"none"]), Ok(1));
        assert_eq!(peer.walk(0, 2, &[b"none"]), Err(Errno::ENOENT));
        assert_eq!(peer.walk(2, 3, &[]), Err(Errno::EBADF));
        let mask = GetattrMask::BASIC;
        let attr = peer.ask(&Request::Getattr { fid: 1, mask }, b"");
        assert!(matches!(attr, Ok(Reply::Getattr { attr }) if attr.size == 7));
        assert_eq!(
            peer.ask(&Request::Clunk { fid: 1 }, b""),
            Ok(Reply::Clunk {})
        );
        let again = peer.ask(&Request::Clunk { fid: 1 }, b"").map(drop);
        assert_eq!(again, Err(Errno::EBADF));
    }

    #[test]
    fn data_and_listings_follow_their_messages() {
        let mut peer = Peer::new();
        peer.walk(0, 1, &[b"sub", b"file"]).unwrap();
        let (fid, offset) = (1, 3);
        let data = Payload { len: 2 };
        let written = peer.ask(&Request::Write { fid, offset, data }, b"XY");
        assert_eq!(written, Ok(Reply::Write { count: 2 }));
        let count = u32::MAX;
        let data = Payload { len: 4 };
        let read = peer.ask(&Request::Read { fid, offset, count }, b"");
        assert_eq!(read, Ok(Reply::Read { data }));
        assert_eq!(peer.payload(), b"XYnt");

        peer.walk(0, 2, &[b"sub"]).unwrap();
        let (fid, offset, count) = (2, 0, 100);
        peer.ask(&Request::Readdir { fid, offset, count }, b"")
            .unwrap();
        let entries: Vec<_> = Dirents(peer.payload()).map(Result::unwrap).collect();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].name, entries[0].kind), (Str(b"file"), 8));
        let offset = entries[0].offset;
        peer.ask(&Request::Readdir { fid, offset, count }, b"")
            .unwrap();
        assert!(peer.payload().is_empty());
    }
}
