//! What a case asks of the path it runs on.

use bitflags::bitflags;

bitflags! {
    /// What a path offers, or a case takes, beyond the plainest operations.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Needs: u64 {
        /// Acts for any user: nodes can be given away, devices made.
        const ROOT = 1 << 0;
        /// `AccessChecks::Service`: the service decides who may do what.
        const SERVICE_CHECKS = 1 << 1;
        /// `parent`.
        const PARENT = 1 << 2;
        /// `remember` and `walk`, which take references by themselves.
        const REMEMBER = 1 << 3;
        /// `lookup_open` as one step.
        const LOOKUP_OPEN = 1 << 4;
        /// Content and listings without a handle.
        const NO_OPEN = 1 << 5;
        /// More than one session on the tree.
        const SESSIONS = 1 << 6;
        /// Changes made by another session are published.
        const EVENTS = 1 << 7;
        /// Replies carry versions.
        const STAMPS = 1 << 8;
        /// `SessionLimits` are kept.
        const LIMITS = 1 << 9;
        /// The tree is a directory of this machine.
        const HOST = 1 << 10;
        /// POSIX ACLs.
        const POSIX_ACL = 1 << 11;
        /// Files without a name.
        const TMPFILE = 1 << 12;
        /// `user.` attributes.
        const XATTR = 1 << 13;
        /// `trusted.` attributes.
        const TRUSTED_XATTR = 1 << 14;
        /// Attribute values up to 64 KiB.
        const BIG_XATTR = 1 << 15;
        /// Locks.
        const LOCKS = 1 << 16;
        /// Locks that wait.
        const LOCK_WAITS = 1 << 17;
        /// `ioctl` for file flags.
        const FILE_FLAGS = 1 << 18;
        /// Fallocate that shifts data.
        const SHIFT_RANGE = 1 << 19;
        /// Fallocate that zeroes.
        const ZERO_RANGE = 1 << 20;
        /// Files up to 2^63 − 1 bytes.
        const HUGE_FILES = 1 << 21;
        /// Ids that were given back are told from those that are known.
        const IDENTITY = 1 << 22;
        /// Listings with entries.
        const DIR_ENTRIES = 1 << 23;
        /// Copies within the service, as far as asked for.
        const COPY_RANGE = 1 << 24;
        /// A running operation can be taken back.
        const CANCEL = 1 << 25;
        /// Birth times.
        const BTIME = 1 << 26;
        /// `setattr` may move the change time alone.
        const TOUCH_CTIME = 1 << 27;
        /// Listings hold `.` and `..`.
        const DOTS = 1 << 28;
        /// Whether `create` made the file is told.
        const IS_NEW = 1 << 29;
        /// `LockStyle::Flock` can be asked about, not only taken.
        const FLOCK_TEST = 1 << 30;
        /// Names lead to nodes, and ids of one node compare equal.
        const SAME_NODE = 1 << 31;
        /// A tree that can't be changed.
        const READ_ONLY_TREE = 1 << 32;
        /// A tree with little space.
        const SMALL_TREE = 1 << 33;
        /// All groups of a caller arrive with every operation.
        const GROUPS = 1 << 34;
        /// All groups of a caller that makes something are known.
        const MAKERS_GROUPS = 1 << 36;
        /// A lock request that is answered is told from one that waits by the
        /// time the call returns.
        const PROMPT_LOCKS = 1 << 35;
    }
}
