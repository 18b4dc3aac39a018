//! Words of mount(8) that are flags of mount(2), and those that are mount(8)'s own.

use super::MountOptions;
use rustix::mount::MountFlags;

/// Pairs of words that set a flag and clear it.
const FLAGS: &[(MountFlags, &str, &str)] = &[
    (MountFlags::RDONLY, "ro", "rw"),
    (MountFlags::NOSUID, "nosuid", "suid"),
    (MountFlags::NODEV, "nodev", "dev"),
    (MountFlags::NOEXEC, "noexec", "exec"),
    (MountFlags::NOATIME, "noatime", "atime"),
    (MountFlags::NODIRATIME, "nodiratime", "diratime"),
    (MountFlags::RELATIME, "relatime", "norelatime"),
    (MountFlags::STRICTATIME, "strictatime", "nostrictatime"),
    (MountFlags::LAZYTIME, "lazytime", "nolazytime"),
    (MountFlags::NOSYMFOLLOW, "nosymfollow", "symfollow"),
    (MountFlags::SYNCHRONOUS, "sync", "async"),
    (MountFlags::DIRSYNC, "dirsync", ""),
    (MountFlags::SILENT, "silent", "loud"),
];

/// Of these the kernel goes by one.
const ACCESS_TIMES: MountFlags = MountFlags::NOATIME
    .union(MountFlags::RELATIME)
    .union(MountFlags::STRICTATIME);

/// Those that fusermount3 knows.
const OF_USERS: MountFlags = MountFlags::RDONLY
    .union(MountFlags::NOSUID)
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NOATIME)
    .union(MountFlags::SYNCHRONOUS)
    .union(MountFlags::DIRSYNC);

/// What fstab(5) says to mount(8) and to systemd, and nothing to a file system.
const FOR_OTHERS: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "iversion",
    "noiversion",
    "nonempty",
];

/// All of these words.
pub(super) fn words() -> impl Iterator<Item = &'static str> {
    let flags = FLAGS.iter().flat_map(|(_, set, clear)| [*set, *clear]);
    flags
        .filter(|word| !word.is_empty())
        .chain(FOR_OTHERS.iter().copied())
}

/// Whether a word tells others something, and a file system nothing.
pub(super) fn is_for_others(word: &str) -> bool {
    FOR_OTHERS.contains(&word)
        || ["x-", "X-", "comment="]
            .iter()
            .any(|prefix| word.starts_with(prefix))
}

impl MountOptions {
    /// Sets or clears a flag of mount(2), if that is what the word does.
    pub(super) fn add_flag(&mut self, word: &str) -> bool {
        let does = |entry: &&(MountFlags, &str, &str)| entry.1 == word || entry.2 == word;
        let Some((flag, set, _)) = FLAGS.iter().find(does).filter(|_| !word.is_empty()) else {
            return false;
        };
        let is_set = word == *set;
        if is_set && ACCESS_TIMES.contains(*flag) {
            self.flags.remove(ACCESS_TIMES);
            self.named_flags |= ACCESS_TIMES;
        }
        self.flags.set(*flag, is_set);
        self.named_flags |= *flag;
        true
    }

    /// The flags of a mount that has those of `words` now: what is not named stays.
    /// One about access times is always among them, for without any the kernel takes
    /// none of these.
    pub(in crate::mount) fn flags_over(&self, words: &str) -> MountFlags {
        let set = |word| FLAGS.iter().find(|(_, set, _)| *set == word);
        let mut now: MountFlags = words
            .split(',')
            .filter_map(|word| Some(set(word)?.0))
            .collect();
        if !now.intersects(ACCESS_TIMES) {
            // The table has no word for it.
            now |= MountFlags::STRICTATIME;
        }
        let named = self.flags.intersection(self.named_flags);
        let flags = now.difference(self.named_flags) | named;
        match flags.intersects(ACCESS_TIMES) {
            true => flags,
            false => flags | MountFlags::RELATIME,
        }
    }

    /// [`MountOptions::flags`] in words, for fusermount3.
    pub(in crate::mount) fn flag_words(&self) -> impl Iterator<Item = &'static str> + '_ {
        let known = FLAGS.iter().filter(|(flag, ..)| OF_USERS.contains(*flag));
        known
            .map(|(flag, set, clear)| match self.flags.contains(*flag) {
                true => *set,
                false => *clear,
            })
            .filter(|word| !word.is_empty())
    }
}
