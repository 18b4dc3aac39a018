//! Opening and closing.

use super::names::{groups, new_node};
use super::put;
use crate::fuse::serve::dispatch::Call;
use crate::fuse::serve::translate::open_flags;
use crate::fuse::wire::{
    CBytes, CreateIn, Extensions, FlushIn, FopenFlags, InitFlags, OpenIn, OpenInFlags, OpenOut,
    ReleaseFlags, ReleaseIn,
};
use sluice_vfs::{
    CreateArgs, Created, Ctx, Errno, HandleId, Name, OpenFlags, OpenHints, Opened, ReadSink,
    Release, Result,
};

pub(in super::super) fn open(
    call: &Call<'_>,
    args: &OpenIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    if call.negotiated().is_without_open {
        return Err(Errno::ENOSYS);
    }
    let flags = file_flags(call, args.flags, args.open_flags)?;
    let opened = with_fallback(flags, |flags| {
        call.session().open(&call.ctx(), call.node, flags)
    })?;
    put(sink, &open_out(call, &opened, flags.asked))
}

pub(in super::super) fn opendir(
    call: &Call<'_>,
    args: &OpenIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    if call.negotiated().is_without_opendir {
        return Err(Errno::ENOSYS);
    }
    let noatime = open_flags(args.flags)? & OpenFlags::NOATIME;
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY | noatime;
    let opened = call.session().open(&call.ctx(), call.node, flags)?;
    let mut fopen = FopenFlags::empty();
    if call.presenter().cache.cache_dirs {
        fopen |= FopenFlags::CACHE_DIR | FopenFlags::KEEP_CACHE;
    }
    put(
        sink,
        &OpenOut {
            fh: opened.handle.0,
            open_flags: fopen,
            backing_id: 0,
        },
    )
}

pub(in super::super) fn create(
    call: &Call<'_>,
    args: &CreateIn,
    name: CBytes<'_>,
    extensions: &Extensions<'_>,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let name = Name::new(name.0)?;
    make(call, args, extensions, sink, |ctx, args| {
        call.session().create(ctx, call.node, name, args)
    })
}

/// The name that comes with it (`/`) stands for none.
pub(in super::super) fn tmpfile(
    call: &Call<'_>,
    args: &CreateIn,
    extensions: &Extensions<'_>,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    make(call, args, extensions, sink, |ctx, args| {
        call.session().tmpfile(ctx, call.node, args)
    })
}

pub(in super::super) fn flush(call: &Call<'_>, args: &FlushIn) -> Result<()> {
    if call.negotiated().is_without_open {
        // Nothing is held back for a handle that is none; it is not sent again.
        return Err(Errno::ENOSYS);
    }
    call.session()
        .flush(&call.ctx_of(args.lock_owner), call.node, HandleId(args.fh))
}

/// What was made before Linux sent the first OPEN is released, though it has
/// no handle.
pub(in super::super) fn release(call: &Call<'_>, args: &ReleaseIn) -> Result<()> {
    if call.negotiated().is_without_open {
        return Ok(());
    }
    give_back(call, args)
}

pub(in super::super) fn releasedir(call: &Call<'_>, args: &ReleaseIn) -> Result<()> {
    if call.negotiated().is_without_opendir {
        return Ok(());
    }
    give_back(call, args)
}

fn give_back(call: &Call<'_>, args: &ReleaseIn) -> Result<()> {
    let how = Release {
        unlock_flock: args.release_flags.contains(ReleaseFlags::FLOCK_UNLOCK),
        flush: args.release_flags.contains(ReleaseFlags::FLUSH),
    };
    call.session().release(
        &call.ctx_of(args.lock_owner),
        call.node,
        HandleId(args.fh),
        &how,
    )
}

fn make(
    call: &Call<'_>,
    args: &CreateIn,
    extensions: &Extensions<'_>,
    sink: &mut dyn ReadSink,
    create: impl Fn(&Ctx<'_>, &CreateArgs<'_>) -> Result<Created>,
) -> Result<()> {
    let flags = file_flags(call, args.flags, args.open_flags)?;
    let new = new_node(call, args.mode, args.umask, extensions)?;
    let groups = groups(extensions);
    let ctx = call.ctx_in(&groups);
    let created = with_fallback(flags, |flags| create(&ctx, &CreateArgs { flags, new }))?;
    put(sink, &call.presenter().entry_out(&created.entry))?;
    put(sink, &made_open_out(call, &ctx, &created, flags.asked))
}

/// Without open, Linux would never give a handle back.
fn made_open_out(call: &Call<'_>, ctx: &Ctx<'_>, made: &Created, asked: OpenFlags) -> OpenOut {
    let Created { entry, opened, .. } = made;
    if !call.negotiated().is_without_open {
        return open_out(call, opened, asked);
    }
    let released = call
        .session()
        .release(ctx, entry.node, opened.handle, &Release::default());
    if let Err(error) = released {
        tracing::debug!(node = ?entry.node, %error, "a new file's handle");
    }
    OpenOut {
        open_flags: open_out(call, opened, asked).open_flags,
        ..OpenOut::default()
    }
}

/// How the peer wants a file opened, and how it is tried first.
#[derive(Clone, Copy)]
struct FileFlags {
    asked: OpenFlags,
    first: OpenFlags,
}

fn file_flags(call: &Call<'_>, wire: u32, own: OpenInFlags) -> Result<FileFlags> {
    let mut asked = open_flags(wire)?;
    asked.set(
        OpenFlags::KILL_SUIDGID,
        own.contains(OpenInFlags::KILL_SUIDGID),
    );
    if !call.connection.options.direct_io_passthrough {
        asked.remove(OpenFlags::DIRECT);
    }
    let mut first = asked;
    if call.negotiated().has(InitFlags::WRITEBACK_CACHE) {
        // The kernel reads around what it writes, and knows where the end is.
        first.remove(OpenFlags::APPEND);
        first.set(
            OpenFlags::READ,
            asked.intersects(OpenFlags::READ | OpenFlags::WRITE),
        );
    }
    Ok(FileFlags { asked, first })
}

/// Tries the wider flags, then those that were asked for: a file may be
/// writable and not readable.
fn with_fallback<T>(flags: FileFlags, open: impl Fn(OpenFlags) -> Result<T>) -> Result<T> {
    match open(flags.first) {
        Err(Errno::EACCES)
            if flags.first.contains(OpenFlags::READ) != flags.asked.contains(OpenFlags::READ) =>
        {
            open(flags.asked - OpenFlags::APPEND)
        }
        outcome => outcome,
    }
}

fn open_out(call: &Call<'_>, opened: &Opened, asked: OpenFlags) -> OpenOut {
    let cache = &call.presenter().cache;
    let hints = opened.hints;
    let is_direct = cache.direct_io || hints.contains(OpenHints::DIRECT_IO);
    // FLUSH drops POSIX locks (closing any descriptor of a file drops all that
    // its process has on it, and they may be taken after this), and reports
    // errors of writes. So a file is clean only if its locks stay with the peer.
    let needs_flush = call.negotiated().has(InitFlags::POSIX_LOCKS)
        || asked.contains(OpenFlags::WRITE)
        || !hints.contains(OpenHints::NO_FLUSH);
    let mut flags = FopenFlags::PARALLEL_DIRECT_WRITES;
    flags.set(FopenFlags::DIRECT_IO, is_direct);
    flags.set(
        FopenFlags::KEEP_CACHE,
        !is_direct && (cache.keep_cache || hints.contains(OpenHints::KEEP_CACHE)),
    );
    flags.set(
        FopenFlags::NONSEEKABLE,
        hints.contains(OpenHints::NONSEEKABLE),
    );
    flags.set(FopenFlags::NOFLUSH, !needs_flush);
    OpenOut {
        fh: opened.handle.0,
        open_flags: flags,
        backing_id: 0,
    }
}
