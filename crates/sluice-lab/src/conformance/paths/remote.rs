//! Another path's service behind 9P on a socket, with the client that `sluice
//! mount` uses before it.

use super::p9::not_in_9p;
use crate::conformance::{Fresh, Needs, Path, not_expressible};
use crate::p9_stream::{Run, serve_stream};
use sluice_client::{
    ConnectOptions, Dialect, Error, RemoteService, ServiceOptions, Socket, Transport,
};
use sluice_proto::p9::serve::ServerConfig;
use sluice_vfs::{
    Access, AccessChecks, AttachOptions, Attached, CopyRange, CreateArgs, Created, Ctx, Device,
    Entry, Errno, FallocateMode, FileIoctl, FileIoctlReply, FileService, FileType, HandleId, Lock,
    LockOutcome, LockStyle, Name, NewNode, NodeId, OpenFlags, Opened, Peer, RenameFlags, Renamed,
    Result, Session, SetAttr, Stamp, Stat, WaitId, Whence, WriteArgs, WriteSource, Written,
    XattrFlags, XattrName, forward_session,
};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// 9P on a socket, as one dialect has it.
pub struct RemotePath<P> {
    inner: P,
    dialect: Dialect,
    name: String,
}

impl<P: Path> RemotePath<P> {
    /// Over what `inner` offers.
    pub fn over(inner: P, dialect: Dialect) -> Self {
        let version = String::from_utf8_lossy(dialect.version());
        let name = format!("the client in {version} over {}", inner.name());
        RemotePath {
            inner,
            dialect,
            name,
        }
    }
}

impl<P: Path> Path for RemotePath<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.inner.has() - not_in_the_client() - not_in(self.dialect)
    }

    fn lacks(&self, case: &str) -> Option<&str> {
        if case == NOT_PROMPT {
            return Some("waiting until a server has noticed the end of a connection");
        }
        let (lists, more) = match self.dialect {
            Dialect::Linux | Dialect::Sluice => (&[][..], &[][..]),
            Dialect::Unix => (NOT_IN_UNIX, &[][..]),
            Dialect::Plan9 => (NOT_IN_UNIX, NOT_IN_PLAN9),
        };
        let mut lists = lists.iter().chain(more);
        let found = lists.find(|(_, cases)| cases.contains(&case))?;
        Some(found.0)
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.inner.fresh(needs);
        let service = Arc::clone(&fresh.service);
        let connect = move || {
            let (ours, theirs) =
                UnixStream::pair().map_err(|error| Error::Connect(error.to_string()))?;
            let peer = Peer {
                label: "conformance".to_owned(),
                checks: AccessChecks::Peer,
            };
            serve_stream(Arc::clone(&service), theirs, Run::Threads, |link| {
                ServerConfig::new(peer, link)
            });
            Ok(Box::new(Socket::new(ours.into())?) as Box<dyn Transport>)
        };
        let options = ServiceOptions {
            connect: ConnectOptions {
                dialects: vec![self.dialect],
                uid: 0,
                ..ConnectOptions::default()
            },
            posix_acl: self.dialect.is_linux(),
            ..ServiceOptions::default()
        };
        Fresh {
            service: Arc::new(InWords {
                service: Arc::new(RemoteService::over(connect, options)),
                dialect: self.dialect,
            }),
            ..fresh
        }
    }
}

/// What the protocol has no words for. Permissions are left to the client's side,
/// and the server knows nothing of a user's groups.
fn not_in_the_client() -> Needs {
    (not_in_9p() - Needs::LOOKUP_OPEN)
        | Needs::SERVICE_CHECKS
        | Needs::GROUPS
        | Needs::MAKERS_GROUPS
}

/// What the older dialects lack besides.
fn not_in(dialect: Dialect) -> Needs {
    let linux_only = Needs::XATTR
        | Needs::TRUSTED_XATTR
        | Needs::BIG_XATTR
        | Needs::POSIX_ACL
        | Needs::LOCKS
        | Needs::LOCK_WAITS
        | Needs::BTIME
        | Needs::TOUCH_CTIME
        | Needs::HUGE_FILES;
    match dialect {
        Dialect::Linux | Dialect::Sluice => Needs::empty(),
        Dialect::Unix | Dialect::Plan9 => linux_only,
    }
}

/// A session that ends gives up what it holds; what it waits for the server gives
/// up when it notices, and until then may even grant it.
const NOT_PROMPT: &str = "lock_wait::a_session_ends_while_it_waits";

/// What 9P2000.u has no words for, though single messages do not show it, and the
/// cases that look.
const NOT_IN_UNIX: &[(&str, &[&str])] = &[
    (
        "extended attributes",
        &["refusal::attributes_of_a_read_only_tree_stay"],
    ),
    (
        "counts of links",
        &[
            "link::a_link_is_the_same_file",
            "link::links_are_counted",
            "orphan::a_node_without_handle_outlives_its_name",
            "orphan::a_removed_directory_has_no_links",
            "orphan::a_symlink_outlives_its_name",
            "orphan::an_unlinked_file_goes_on_in_other_sessions",
            "orphan::an_unlinked_file_has_no_links",
            "remove::unlink_takes_one_link",
            "rename::a_replaced_file_has_a_link_less",
            "rename::rename_onto_another_link_leaves_both",
        ],
    ),
    (
        "some of the attributes",
        &["attr::basic_attributes_are_filled"],
    ),
    (
        "statfs(2)",
        &["attr::statfs_makes_sense", "content::space_runs_out"],
    ),
    (
        "the group of what is made",
        &[
            "ownership::callers_on_many_threads",
            "ownership::callers_take_turns",
            "ownership::directories_belong_to_the_caller",
            "ownership::files_belong_to_the_caller",
            "ownership::set_group_id_is_for_members",
            "ownership::where_peers_check_anyone_may",
            "symlink::symlinks_belong_to_the_caller",
        ],
    ),
    (
        "the space that a file takes",
        &["content::holes_take_no_space"],
    ),
    (
        "times of change, and nanoseconds",
        &[
            "orphan::an_unlinked_file_changes_times",
            "time::chmod_moves_the_change_time_only",
            "time::linking_moves_the_files_change_time",
            "time::names_move_the_directorys_times",
            "time::new_files_are_of_now",
            "time::one_time_leaves_the_other",
            "time::setting_times_moves_the_change_time",
            "time::times_are_set_to_the_nanosecond",
            "time::times_before_1970_are_kept",
            "time::times_of_directories_and_symlinks",
            "time::writing_moves_the_modification_time",
        ],
    ),
];

/// What plain 9P2000 lacks besides.
const NOT_IN_PLAN9: &[(&str, &[&str])] = &[
    (
        "set-id and sticky bits",
        &[
            "create::create_keeps_all_mode_bits",
            "make::mkdir_keeps_the_sticky_bit",
        ],
    ),
    (
        "permissions that the directory does not give",
        &[
            "create::create_obeys_the_umask",
            "make::mkdir_obeys_the_umask",
            "ownership::umasks_on_many_threads",
        ],
    ),
    (
        "appending that nobody comes between",
        &["open::append_from_two_handles_loses_nothing"],
    ),
    (
        "renames onto what is there",
        &[
            "orphan::a_file_loses_its_name_while_it_is_made_again",
            "rename::a_hundred_renames_over_one_name",
            "rename::a_replaced_file_is_still_read",
            "rename::rename_of_a_directory_over_a_file_is_enotdir",
            "rename::rename_of_a_file_over_a_directory_is_eisdir",
            "rename::rename_replaces_a_file",
            "rename::rename_replaces_an_empty_directory",
        ],
    ),
];

/// A service in front of which cases end that ask for what 9P has no message for:
/// the client answers that with an error, as kernels expect it.
struct InWords {
    service: Arc<dyn FileService>,
    dialect: Dialect,
}

impl FileService for InWords {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let attached = self.service.attach(options)?;
        let inner = attached.session;
        Ok(Attached {
            session: Arc::new(SessionInWords {
                inner,
                dialect: self.dialect,
            }),
            ..attached
        })
    }
}

struct SessionInWords {
    inner: Arc<dyn Session>,
    dialect: Dialect,
}

impl SessionInWords {
    /// What an older dialect has no message for at all.
    fn said<T>(&self, what: &str, outcome: Result<T>) -> Result<T> {
        match outcome {
            Err(Errno::EOPNOTSUPP) if !self.dialect.is_linux() => not_expressible(what),
            outcome => outcome,
        }
    }
}

fn only_if(can_be_said: bool, what: &str) {
    if !can_be_said {
        not_expressible::<()>(what);
    }
}

impl Session for SessionInWords {
    forward_session! { inner =>
        lookup, parent, walk, remember, forget, getattr, readlink, statfs, getxattr, listxattr,
        removexattr, mkdir, unlink, rmdir, lookup_open, flush, release,
        read, readdir, fsync, cancel_wait, backing, release_backing
    }

    fn setattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> Result<Stat> {
        only_if(!changes.kill_suidgid, "clearing set-id bits");
        let set = self.inner.setattr(ctx, node, handle, changes);
        self.said("owners by number, and set-id bits", set)
    }

    fn access(&self, _: &Ctx<'_>, _: NodeId, _: Access) -> Result<()> {
        not_expressible("access(2)")
    }

    fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp> {
        let has_empty = self.dialect == Dialect::Sluice;
        only_if(has_empty || !value.is_empty(), "empty values");
        self.inner.setxattr(ctx, node, name, value, flags)
    }

    fn mknod(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        file_type: FileType,
        rdev: Device,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let made = self.inner.mknod(ctx, parent, name, file_type, rdev, new);
        self.said("device nodes", made)
    }

    fn symlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let made = self.inner.symlink(ctx, parent, name, target, new);
        self.said("symlinks", made)
    }

    fn link(&self, ctx: &Ctx<'_>, node: NodeId, parent: NodeId, name: Name<'_>) -> Result<Entry> {
        self.said("hard links", self.inner.link(ctx, node, parent, name))
    }

    fn rename(
        &self,
        ctx: &Ctx<'_>,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> Result<Renamed> {
        only_if(flags.is_empty(), "flags of renameat2(2)");
        self.said(
            "moving between directories",
            self.inner.rename(ctx, old, new, flags),
        )
    }

    fn open(&self, ctx: &Ctx<'_>, node: NodeId, flags: OpenFlags) -> Result<Opened> {
        let keeps = !flags.contains(OpenFlags::KILL_SUIDGID);
        only_if(keeps, "clearing set-id bits");
        self.inner.open(ctx, node, flags)
    }

    fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> Result<Created> {
        let keeps = !args.flags.contains(OpenFlags::KILL_SUIDGID);
        only_if(keeps, "clearing set-id bits");
        self.inner.create(ctx, parent, name, args)
    }

    fn tmpfile(&self, _: &Ctx<'_>, _: NodeId, _: &CreateArgs<'_>) -> Result<Created> {
        not_expressible("files without a name")
    }

    fn write(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        source: &mut dyn WriteSource,
    ) -> Result<Written> {
        only_if(!args.kill_suidgid, "clearing set-id bits");
        self.inner.write(ctx, node, handle, args, source)
    }

    fn syncfs(&self, _: &Ctx<'_>, _: NodeId) -> Result<()> {
        not_expressible("syncfs(2)")
    }

    fn fallocate(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _: FallocateMode,
        _: Range<u64>,
    ) -> Result<Stamp> {
        not_expressible("fallocate(2)")
    }

    fn lseek(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _offset: u64,
        _: Whence,
    ) -> Result<u64> {
        not_expressible("finding data and holes")
    }

    fn copy_range(&self, _: &Ctx<'_>, _: &CopyRange) -> Result<Written> {
        not_expressible("copy_file_range(2)")
    }

    fn ioctl(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _: &FileIoctl,
    ) -> Result<FileIoctlReply> {
        not_expressible("ioctl(2)")
    }

    fn getlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        only_if(lock.style == LockStyle::Posix, "flock(2)");
        self.inner.getlk(ctx, node, handle, lock)
    }

    fn setlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
        wait: Option<WaitId>,
    ) -> Result<LockOutcome> {
        only_if(lock.style == LockStyle::Posix, "flock(2)");
        self.inner.setlk(ctx, node, handle, lock, wait)
    }
}
