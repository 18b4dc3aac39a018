//! Forwarding, for layers: sessions that stand before another one.

/// Writes methods of [`Session`](crate::Session) that pass a call on.
///
/// ```text
/// impl Session for Audited {
///     forward_session! { inner, before note => parent, remember, getattr, … }
///
///     fn unlink(…) -> Result<Stamp> { … }   // this layer's own business
/// }
/// ```
///
/// `inner` is the field that holds the next session. With `before`, that method
/// is asked first, as `fn note(&self, operation: &'static str, ctx: &Ctx<'_>)
/// -> Result<()>`, and what it fails with is the outcome. The operations that
/// can't fail (`forget`, `cancel_wait`, `release_backing`) are not asked about.
///
/// A layer names what it forwards, so an operation that is new to the neck is
/// a compile error in every layer until somebody has decided about it.
#[macro_export]
macro_rules! forward_session {
    ($inner:ident => $($method:ident),* $(,)?) => {
        $($crate::forward_session! { @$method $inner })*
    };
    ($inner:ident, before $before:ident => $($method:ident),* $(,)?) => {
        $($crate::forward_session! { @$method $inner $before })*
    };

    (@build $method:ident ($($arg:ident: $ty:ty),*) -> $out:ty; $inner:ident $($before:ident)?) => {
        fn $method(&self, ctx: &$crate::Ctx<'_>, $($arg: $ty),*) -> $crate::Result<$out> {
            $(self.$before(stringify!($method), ctx)?;)?
            self.$inner.$method(ctx, $($arg),*)
        }
    };

    (@forget $inner:ident $($before:ident)?) => {
        fn forget(&self, node: $crate::NodeId, count: u64) {
            self.$inner.forget(node, count);
        }
    };
    (@cancel_wait $inner:ident $($before:ident)?) => {
        fn cancel_wait(&self, wait: $crate::WaitId) {
            self.$inner.cancel_wait(wait);
        }
    };
    (@release_backing $inner:ident $($before:ident)?) => {
        fn release_backing(&self, id: $crate::BackingId) {
            self.$inner.release_backing(id);
        }
    };

    (@lookup $($to:ident)+) => { $crate::forward_session! { @build lookup(parent: $crate::NodeId, name: $crate::Name<'_>) -> $crate::Lookup; $($to)+ } };
    (@parent $($to:ident)+) => { $crate::forward_session! { @build parent(node: $crate::NodeId) -> $crate::Entry; $($to)+ } };
    (@walk $($to:ident)+) => { $crate::forward_session! { @build walk(from: $crate::NodeId, names: &[$crate::Name<'_>]) -> $crate::Walk; $($to)+ } };
    (@remember $($to:ident)+) => { $crate::forward_session! { @build remember(node: $crate::NodeId) -> $crate::Entry; $($to)+ } };

    (@getattr $($to:ident)+) => { $crate::forward_session! { @build getattr(node: $crate::NodeId, handle: Option<$crate::HandleId>, mask: $crate::AttrMask) -> $crate::Stat; $($to)+ } };
    (@setattr $($to:ident)+) => { $crate::forward_session! { @build setattr(node: $crate::NodeId, handle: Option<$crate::HandleId>, changes: &$crate::SetAttr) -> $crate::Stat; $($to)+ } };
    (@access $($to:ident)+) => { $crate::forward_session! { @build access(node: $crate::NodeId, access: $crate::Access) -> (); $($to)+ } };
    (@readlink $($to:ident)+) => { $crate::forward_session! { @build readlink(node: $crate::NodeId, sink: &mut dyn $crate::ReadSink) -> $crate::Stamp; $($to)+ } };
    (@statfs $($to:ident)+) => { $crate::forward_session! { @build statfs(node: $crate::NodeId) -> $crate::StatFs; $($to)+ } };

    (@getxattr $($to:ident)+) => { $crate::forward_session! { @build getxattr(node: $crate::NodeId, name: $crate::XattrName<'_>, sink: Option<&mut dyn $crate::ReadSink>) -> usize; $($to)+ } };
    (@listxattr $($to:ident)+) => { $crate::forward_session! { @build listxattr(node: $crate::NodeId, sink: Option<&mut dyn $crate::ReadSink>) -> usize; $($to)+ } };
    (@setxattr $($to:ident)+) => { $crate::forward_session! { @build setxattr(node: $crate::NodeId, name: $crate::XattrName<'_>, value: &[u8], flags: $crate::XattrFlags) -> $crate::Stamp; $($to)+ } };
    (@removexattr $($to:ident)+) => { $crate::forward_session! { @build removexattr(node: $crate::NodeId, name: $crate::XattrName<'_>) -> $crate::Stamp; $($to)+ } };

    (@mkdir $($to:ident)+) => { $crate::forward_session! { @build mkdir(parent: $crate::NodeId, name: $crate::Name<'_>, new: &$crate::NewNode<'_>) -> $crate::Entry; $($to)+ } };
    (@mknod $($to:ident)+) => { $crate::forward_session! { @build mknod(parent: $crate::NodeId, name: $crate::Name<'_>, file_type: $crate::FileType, rdev: $crate::Device, new: &$crate::NewNode<'_>) -> $crate::Entry; $($to)+ } };
    (@symlink $($to:ident)+) => { $crate::forward_session! { @build symlink(parent: $crate::NodeId, name: $crate::Name<'_>, target: &[u8], new: &$crate::NewNode<'_>) -> $crate::Entry; $($to)+ } };
    (@link $($to:ident)+) => { $crate::forward_session! { @build link(node: $crate::NodeId, parent: $crate::NodeId, name: $crate::Name<'_>) -> $crate::Entry; $($to)+ } };
    (@unlink $($to:ident)+) => { $crate::forward_session! { @build unlink(parent: $crate::NodeId, name: $crate::Name<'_>) -> $crate::Stamp; $($to)+ } };
    (@rmdir $($to:ident)+) => { $crate::forward_session! { @build rmdir(parent: $crate::NodeId, name: $crate::Name<'_>) -> $crate::Stamp; $($to)+ } };
    (@rename $($to:ident)+) => { $crate::forward_session! { @build rename(old: ($crate::NodeId, $crate::Name<'_>), new: ($crate::NodeId, $crate::Name<'_>), flags: $crate::RenameFlags) -> $crate::Renamed; $($to)+ } };

    (@open $($to:ident)+) => { $crate::forward_session! { @build open(node: $crate::NodeId, flags: $crate::OpenFlags) -> $crate::Opened; $($to)+ } };
    (@create $($to:ident)+) => { $crate::forward_session! { @build create(parent: $crate::NodeId, name: $crate::Name<'_>, args: &$crate::CreateArgs<'_>) -> $crate::Created; $($to)+ } };
    (@lookup_open $($to:ident)+) => { $crate::forward_session! { @build lookup_open(parent: $crate::NodeId, name: $crate::Name<'_>, flags: $crate::OpenFlags) -> $crate::Created; $($to)+ } };
    (@tmpfile $($to:ident)+) => { $crate::forward_session! { @build tmpfile(parent: $crate::NodeId, args: &$crate::CreateArgs<'_>) -> $crate::Created; $($to)+ } };
    (@flush $($to:ident)+) => { $crate::forward_session! { @build flush(node: $crate::NodeId, handle: $crate::HandleId) -> (); $($to)+ } };
    (@release $($to:ident)+) => { $crate::forward_session! { @build release(node: $crate::NodeId, handle: $crate::HandleId, how: &$crate::Release) -> (); $($to)+ } };

    (@read $($to:ident)+) => { $crate::forward_session! { @build read(node: $crate::NodeId, handle: Option<$crate::HandleId>, offset: u64, len: usize, sink: &mut dyn $crate::ReadSink) -> usize; $($to)+ } };
    (@write $($to:ident)+) => { $crate::forward_session! { @build write(node: $crate::NodeId, handle: Option<$crate::HandleId>, args: &$crate::WriteArgs, source: &mut dyn $crate::WriteSource) -> $crate::Written; $($to)+ } };
    (@readdir $($to:ident)+) => { $crate::forward_session! { @build readdir(node: $crate::NodeId, handle: Option<$crate::HandleId>, cookie: u64, want: $crate::DirWant, sink: &mut dyn $crate::DirSink) -> $crate::Stamp; $($to)+ } };
    (@fsync $($to:ident)+) => { $crate::forward_session! { @build fsync(node: $crate::NodeId, handle: Option<$crate::HandleId>, data_only: bool) -> (); $($to)+ } };
    (@syncfs $($to:ident)+) => { $crate::forward_session! { @build syncfs(node: $crate::NodeId) -> (); $($to)+ } };
    (@fallocate $($to:ident)+) => { $crate::forward_session! { @build fallocate(node: $crate::NodeId, handle: Option<$crate::HandleId>, mode: $crate::FallocateMode, range: ::std::ops::Range<u64>) -> $crate::Stamp; $($to)+ } };
    (@lseek $($to:ident)+) => { $crate::forward_session! { @build lseek(node: $crate::NodeId, handle: Option<$crate::HandleId>, offset: u64, whence: $crate::Whence) -> u64; $($to)+ } };
    (@copy_range $($to:ident)+) => { $crate::forward_session! { @build copy_range(copy: &$crate::CopyRange) -> $crate::Written; $($to)+ } };
    (@ioctl $($to:ident)+) => { $crate::forward_session! { @build ioctl(node: $crate::NodeId, handle: Option<$crate::HandleId>, request: &$crate::FileIoctl) -> $crate::FileIoctlReply; $($to)+ } };

    (@getlk $($to:ident)+) => { $crate::forward_session! { @build getlk(node: $crate::NodeId, handle: $crate::HandleId, lock: &$crate::Lock) -> Option<$crate::Lock>; $($to)+ } };
    (@setlk $($to:ident)+) => { $crate::forward_session! { @build setlk(node: $crate::NodeId, handle: $crate::HandleId, lock: &$crate::Lock, wait: Option<$crate::WaitId>) -> $crate::LockOutcome; $($to)+ } };
    (@backing $($to:ident)+) => { $crate::forward_session! { @build backing(node: $crate::NodeId, handle: Option<$crate::HandleId>, range: ::std::ops::Range<u64>, writable: bool) -> $crate::Backing; $($to)+ } };
}
