//! What is done, in terms that mean the same on both sides.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use sluice_vfs::{
    Access, FallocateMode, FileType, LockKind, OpenFlags, RenameFlags, SetAttr, SetTime, Timestamp,
    Whence, XattrFlags,
};

/// An operation and who asks for it.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) who: Who,
    pub(crate) op: Op,
}

/// A caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The superuser.
    Root,
    /// 1000:2000, also in group 3000.
    User,
}

/// One of the nodes known so far, counted round. 0 is the root.
#[derive(Clone, Copy)]
pub(crate) struct Node(pub(crate) usize);

/// One of the files open so far, counted round.
#[derive(Clone, Copy)]
pub(crate) struct Open(pub(crate) usize);

/// A name in a directory.
pub(crate) type Entry = (Node, &'static str);

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Lookup(Entry),
    Parent(Node),
    Forget(Node),
    Getattr(Node),
    Fgetattr(Open),
    Setattr(Node, SetAttr),
    Fsetattr(Open, SetAttr),
    Access(Node, Access),
    Readlink(Node),
    Getxattr(Node, &'static str),
    Setxattr(Node, &'static str, Vec<u8>, XattrFlags),
    Removexattr(Node, &'static str),
    Listxattr(Node),
    Mkdir(Entry, u32, u32),
    Mknod(Entry, FileType, u32, u32),
    Symlink(Entry),
    Link(Node, Entry),
    Unlink(Entry),
    Rmdir(Entry),
    Rename(Entry, Entry, RenameFlags),
    Open(Node, OpenFlags),
    Create(Entry, OpenFlags, u32, u32),
    Tmpfile(Node, OpenFlags, u32),
    Flush(Open),
    Close(Open),
    Read(Open, u64, usize),
    Write(Open, u64, usize, bool),
    List(Open, bool),
    Fallocate(Open, FallocateMode, u64, u64),
    Lseek(Open, u64, Whence),
    Copy((Open, u64), (Open, u64), u64),
    Lock(Open, u64, LockKind, u64, u64),
    Getlk(Open, u64, LockKind, u64, u64),
    Flock(Open, LockKind),
}

pub(crate) fn steps(max: usize) -> impl Strategy<Value = Vec<Step>> {
    let who = prop_oneof![2 => Just(Who::Root), 1 => Just(Who::User)];
    let step = (who, op()).prop_map(|(who, op)| Step { who, op });
    vec(step, 1..max)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => names_op(),
        12 => making_op(),
        10 => attributes_op(),
        8 => xattr_op(),
        12 => opening_op(),
        14 => content_op(),
        6 => space_op(),
        6 => lock_op(),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    // The root often, so that most names are made where they can be.
    prop_oneof![1 => Just(Node(0)), 2 => (0..12usize).prop_map(Node)]
}

fn open() -> impl Strategy<Value = Open> {
    (0..8usize).prop_map(Open)
}

fn entry() -> impl Strategy<Value = Entry> {
    (node(), select(vec!["a", "b", "c", "d"]))
}

fn perm() -> impl Strategy<Value = u32> {
    select(vec![
        0o777, 0o755, 0o700, 0o644, 0o640, 0o600, 0o444, 0, 0o1777, 0o2775, 0o6755,
    ])
}

/// None takes execution from the group: what becomes of set-group-id without
/// it, when someone else writes, depends on the kernel's version.
fn umask() -> impl Strategy<Value = u32> {
    select(vec![0, 0o022, 0o026])
}

fn names_op() -> BoxedStrategy<Op> {
    let flags = select(vec![
        RenameFlags::empty(),
        RenameFlags::empty(),
        RenameFlags::NOREPLACE,
        RenameFlags::EXCHANGE,
        RenameFlags::WHITEOUT,
    ]);
    prop_oneof![
        3 => entry().prop_map(Op::Lookup),
        1 => node().prop_map(Op::Parent),
        1 => node().prop_map(Op::Forget),
        2 => (node(), entry()).prop_map(|(node, entry)| Op::Link(node, entry)),
        2 => entry().prop_map(Op::Unlink),
        2 => entry().prop_map(Op::Rmdir),
        4 => (entry(), entry(), flags).prop_map(|(old, new, flags)| Op::Rename(old, new, flags)),
    ]
    .boxed()
}

fn making_op() -> BoxedStrategy<Op> {
    let types = select(vec![FileType::Regular, FileType::Fifo, FileType::Socket]);
    prop_oneof![
        4 => (entry(), perm(), umask()).prop_map(|(entry, perm, umask)| Op::Mkdir(entry, perm, umask)),
        1 => (entry(), types, perm(), umask())
            .prop_map(|(entry, file_type, perm, umask)| Op::Mknod(entry, file_type, perm, umask)),
        1 => entry().prop_map(Op::Symlink),
        5 => (entry(), open_flags(), perm(), umask())
            .prop_map(|(entry, flags, perm, umask)| Op::Create(entry, flags, perm, umask)),
        1 => (node(), open_flags(), perm()).prop_map(|(node, flags, perm)| Op::Tmpfile(node, flags, perm)),
    ]
    .boxed()
}

fn attributes_op() -> BoxedStrategy<Op> {
    let access = (0..8u32).prop_map(Access::from_bits_truncate);
    prop_oneof![
        2 => node().prop_map(Op::Getattr),
        1 => open().prop_map(Op::Fgetattr),
        4 => (node(), changes()).prop_map(|(node, changes)| Op::Setattr(node, changes)),
        2 => (open(), changes()).prop_map(|(open, changes)| Op::Fsetattr(open, changes)),
        1 => (node(), access).prop_map(|(node, access)| Op::Access(node, access)),
        1 => node().prop_map(Op::Readlink),
    ]
    .boxed()
}

/// What one system call changes: owner and mode, size, or times. Kernels never
/// ask for more at a time, and services differ in what is left when the second
/// half is refused.
fn changes() -> BoxedStrategy<SetAttr> {
    let time = prop_oneof![
        Just(SetTime::Now),
        (0..2_000_000_000i64, 0..1_000_000_000u32)
            .prop_map(|(sec, nsec)| SetTime::To(Timestamp { sec, nsec })),
    ];
    let time = proptest::option::weighted(0.7, time);
    let owner = (
        proptest::option::weighted(0.7, perm()),
        proptest::option::weighted(0.3, select(vec![0, 1000, 1001])),
        proptest::option::weighted(0.3, select(vec![0, 2000, 3000, 4000])),
    );
    prop_oneof![
        4 => owner.prop_map(|(perm, uid, gid)| SetAttr {
            perm,
            uid,
            gid,
            ..SetAttr::default()
        }),
        2 => (offset(), any::<bool>()).prop_map(|(size, kill_suidgid)| SetAttr {
            size: Some(size),
            kill_suidgid,
            ..SetAttr::default()
        }),
        1 => (time.clone(), time).prop_map(|(atime, mtime)| SetAttr {
            atime,
            mtime,
            ..SetAttr::default()
        }),
    ]
    .boxed()
}

fn xattr_op() -> BoxedStrategy<Op> {
    let name = || {
        select(vec![
            "user.a",
            "user.b",
            "trusted.a",
            "none.a",
            "system.posix_acl_access",
            "system.posix_acl_default",
        ])
    };
    let flags = select(vec![
        XattrFlags::empty(),
        XattrFlags::CREATE,
        XattrFlags::REPLACE,
    ]);
    prop_oneof![
        2 => (node(), name()).prop_map(|(node, name)| Op::Getxattr(node, name)),
        4 => (node(), name(), flags, (0..4usize)).prop_map(|(node, name, flags, pick)| {
            let value = match name.starts_with("system.") {
                true => acl(pick),
                false => vec![b'x'; pick * 10],
            };
            Op::Setxattr(node, name, value, flags)
        }),
        1 => (node(), name()).prop_map(|(node, name)| Op::Removexattr(node, name)),
        1 => node().prop_map(Op::Listxattr),
    ]
    .boxed()
}

/// Values of ACL attributes: minimal, with named entries, and none at all.
fn acl(pick: usize) -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let entries: &[(u16, u16, u32)] = match pick {
        0 => &[(1, 7, NO_ID), (4, 5, NO_ID), (0x20, 0, NO_ID)],
        1 => &[
            (1, 6, NO_ID),
            (2, 7, 1000),
            (4, 4, NO_ID),
            (0x10, 7, NO_ID),
            (0x20, 4, NO_ID),
        ],
        2 => &[
            (1, 7, NO_ID),
            (4, 0, NO_ID),
            (8, 7, 3000),
            (0x10, 7, NO_ID),
            (0x20, 0, NO_ID),
        ],
        _ => &[],
    };
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

fn open_flags() -> impl Strategy<Value = OpenFlags> {
    let access = select(vec![
        OpenFlags::READ,
        OpenFlags::WRITE,
        OpenFlags::READ.union(OpenFlags::WRITE),
        OpenFlags::READ.union(OpenFlags::WRITE),
    ]);
    let more = |flag| proptest::bool::weighted(0.15).prop_map(move |on| (flag, on));
    (
        access,
        more(OpenFlags::APPEND),
        more(OpenFlags::TRUNCATE),
        more(OpenFlags::EXCLUSIVE),
    )
        .prop_map(|(mut flags, append, truncate, exclusive)| {
            for (flag, on) in [append, truncate, exclusive] {
                flags.set(flag, on);
            }
            flags
        })
}

fn opening_op() -> BoxedStrategy<Op> {
    prop_oneof![
        5 => (node(), open_flags()).prop_map(|(node, flags)| Op::Open(node, flags - OpenFlags::EXCLUSIVE)),
        2 => node().prop_map(|node| Op::Open(node, OpenFlags::READ | OpenFlags::DIRECTORY)),
        1 => open().prop_map(Op::Flush),
        3 => open().prop_map(Op::Close),
        3 => (open(), any::<bool>()).prop_map(|(open, entries)| Op::List(open, entries)),
    ]
    .boxed()
}

/// Sizes and offsets around pages.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..100u64,
        (0..6u64, 0..3u64).prop_map(|(page, more)| (page * 4096 + more).saturating_sub(1)),
        0..30_000u64,
    ]
}

/// The same, and where signed numbers end.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => offset(),
        1 => select(vec![1 << 63, u64::MAX]),
    ]
}

fn content_op() -> BoxedStrategy<Op> {
    let len = || prop_oneof![1..64usize, 4000..9000usize];
    prop_oneof![
        3 => (open(), size(), len()).prop_map(|(open, offset, len)| Op::Read(open, offset, len)),
        5 => (open(), size(), len(), proptest::bool::weighted(0.2))
            .prop_map(|(open, offset, len, kills)| Op::Write(open, offset, len, kills)),
        2 => ((open(), offset()), (open(), offset()), 1..20_000u64)
            .prop_map(|(from, to, len)| Op::Copy(from, to, len)),
    ]
    .boxed()
}

/// Whether the file system of temporary files has this way to allocate: the
/// model has all.
fn host_has(mode: &FallocateMode) -> bool {
    let file = tempfile::tempfile().expect("a temporary file");
    let flags = rustix::fs::FallocateFlags::from_bits_retain(mode.bits());
    let tried = rustix::fs::fallocate(&file, flags, 0, 1);
    tried != Err(rustix::io::Errno::OPNOTSUPP) || *mode == FallocateMode::PUNCH_HOLE
}

fn space_op() -> BoxedStrategy<Op> {
    type M = FallocateMode;
    let modes = [
        M::empty(),
        M::KEEP_SIZE,
        M::PUNCH_HOLE.union(M::KEEP_SIZE),
        M::ZERO_RANGE,
        M::ZERO_RANGE.union(M::KEEP_SIZE),
        M::COLLAPSE_RANGE,
        M::INSERT_RANGE,
        M::PUNCH_HOLE,
    ];
    let mode = select(modes.into_iter().filter(host_has).collect::<Vec<_>>());
    let whence = select(vec![Whence::End, Whence::Data, Whence::Hole]);
    prop_oneof![
        3 => (open(), mode, size(), 0..20_000u64)
            .prop_map(|(open, mode, start, len)| Op::Fallocate(open, mode, start, len)),
        1 => (open(), size(), whence).prop_map(|(open, offset, whence)| Op::Lseek(open, offset, whence)),
    ]
    .boxed()
}

fn lock_op() -> BoxedStrategy<Op> {
    let kind = || select(vec![LockKind::Read, LockKind::Write, LockKind::Unlock]);
    let owner = || 1..4u64;
    let range = || (0..20u64, 1..20u64);
    prop_oneof![
        4 => (open(), owner(), kind(), range())
            .prop_map(|(open, owner, kind, (start, len))| Op::Lock(open, owner, kind, start, start + len)),
        2 => (open(), owner(), kind(), range())
            .prop_map(|(open, owner, kind, (start, len))| Op::Getlk(open, owner, kind, start, start + len)),
        2 => (open(), kind()).prop_map(|(open, kind)| Op::Flock(open, kind)),
    ]
    .boxed()
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {:?}", self.who, self.op)
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "f{}", self.0)
    }
}
