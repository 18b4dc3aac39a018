//! Opening: flags and cache modes.

use crate::harness::{FH, Harness, OFFERED, init_in};
use crate::recorder::{NODE, Recorder, Script};
use sluice_proto::fuse::serve::{CacheMode, ServeOptions};
use sluice_proto::fuse::wire::*;
use sluice_vfs::{Errno, Features, OpenHints};
use zerocopy::FromBytes;

#[test]
fn open_flags_are_translated_from_the_wire() {
    let harness = Harness::new();
    for (wire, neutral) in [
        (0, "READ"),
        (0o1, "WRITE"),
        (0o2, "READ|WRITE"),
        (0o40, "READ|EXEC"),
        (0o3001, "WRITE|APPEND|TRUNCATE"),
        (0o10001, "WRITE|DSYNC"),
        (0o4010001, "WRITE|SYNC|DSYNC"),
        (0o1000000, "READ|NOATIME"),
        (0o100000 | 0o400000, "READ"),
    ] {
        let (call, out) = harness.open_flags(wire);
        assert_eq!(call, format!("open node 17.0 {neutral}"), "{wire:#o}");
        assert_eq!(out.fh, FH);
    }
    let nonsense = OpenIn {
        flags: 3,
        open_flags: OpenInFlags::empty(),
    };
    assert_eq!(
        harness.error(&Operation::Open { args: nonsense }),
        Errno::EINVAL
    );
    let killing = OpenIn {
        flags: 0o1001,
        open_flags: OpenInFlags::KILL_SUIDGID,
    };
    assert_eq!(
        harness.called(&Operation::Open { args: killing }),
        "open node 17.0 WRITE|TRUNCATE|KILL_SUIDGID"
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn direct_io_is_passed_through_by_option() {
    assert_eq!(Harness::new().open_flags(0o40000).0, "open node 17.0 READ");
    let direct = Harness::changed(|options| options.direct_io_passthrough = true);
    assert_eq!(direct.open_flags(0o40000).0, "open node 17.0 READ|DIRECT");
}

#[test]
fn the_writeback_cache_reads_around_what_it_writes() {
    let harness = Harness::changed(|options| options.writeback = true);
    assert_eq!(harness.open_flags(0o2001).0, "open node 17.0 READ|WRITE");
    harness.service.script(Script {
        is_unreadable: true,
        ..Script::default()
    });
    assert_eq!(
        harness.open_flags(0o2001).0,
        "open node 17.0 READ|WRITE; open node 17.0 WRITE"
    );
    let unreadable = OpenIn::default();
    assert_eq!(
        harness.error(&Operation::Open { args: unreadable }),
        Errno::EACCES
    );
}

#[test]
fn open_files_are_cached_as_the_mode_says() {
    let flags = |mode, wire, hints| {
        let harness = Harness::with(ServeOptions {
            posix_locks: false,
            ..ServeOptions::new(mode)
        });
        harness.service.script(Script {
            hints,
            ..Script::default()
        });
        harness.open_flags(wire).1.open_flags
    };
    let parallel = FopenFlags::PARALLEL_DIRECT_WRITES;
    let none = OpenHints::empty();
    assert_eq!(flags(CacheMode::Auto, 0, none), parallel);
    assert_eq!(
        flags(CacheMode::Never, 0, OpenHints::KEEP_CACHE),
        parallel | FopenFlags::DIRECT_IO
    );
    assert_eq!(
        flags(CacheMode::Always, 0, none),
        parallel | FopenFlags::KEEP_CACHE
    );
    assert_eq!(
        flags(
            CacheMode::Always,
            0,
            OpenHints::DIRECT_IO | OpenHints::NONSEEKABLE
        ),
        parallel | FopenFlags::DIRECT_IO | FopenFlags::NONSEEKABLE
    );
    assert_eq!(
        flags(CacheMode::Auto, 0, OpenHints::NO_FLUSH),
        parallel | FopenFlags::NOFLUSH
    );
    // What was written must be flushed for its errors.
    assert_eq!(flags(CacheMode::Auto, 2, OpenHints::NO_FLUSH), parallel);
    // And where POSIX locks reach the server, closing must too.
    let harness = Harness::new();
    harness.service.script(Script {
        hints: OpenHints::NO_FLUSH,
        ..Script::default()
    });
    assert_eq!(harness.open_flags(0).1.open_flags, parallel);
}

#[test]
fn directories_are_opened_as_such() {
    let opendir = Operation::Opendir {
        args: OpenIn {
            flags: 0o200000,
            open_flags: OpenInFlags::empty(),
        },
    };
    let (call, body) = Harness::new().run(&opendir);
    assert_eq!(call, "open node 17.0 READ|DIRECTORY");
    let out = OpenOut::read_from_bytes(&body).unwrap();
    assert_eq!(out.open_flags, FopenFlags::empty());
    let always = Harness::with(ServeOptions::new(CacheMode::Always));
    let out = OpenOut::read_from_bytes(&always.run(&opendir).1).unwrap();
    assert_eq!(
        out.open_flags,
        FopenFlags::CACHE_DIR | FopenFlags::KEEP_CACHE
    );
}

#[test]
fn files_are_made_and_opened_in_one_step() {
    let harness = Harness::new();
    let args = CreateIn {
        flags: 0o302,
        mode: 0o100640,
        umask: 0o27,
        open_flags: OpenInFlags::empty(),
    };
    let group = [50];
    let extensions = Extensions {
        label: None,
        groups: Groups::new(&group),
    };
    let create = Operation::Create {
        args,
        name: CBytes(b"n"),
        extensions,
    };
    let (call, body) = harness.run(&create);
    assert_eq!(
        call,
        "create \"n\" in node 17.0 READ|WRITE|EXCLUSIVE 0o640 umask 0o27 in [50]"
    );
    let (entry, open) = EntryOut::read_from_prefix(&body).unwrap();
    assert_eq!(entry.nodeid, NODE.0);
    assert_eq!(OpenOut::read_from_bytes(open).unwrap().fh, FH);
    let tmpfile = Operation::Tmpfile {
        args: CreateIn { flags: 0o2, ..args },
        name: CBytes(b"/"),
        extensions: Extensions::default(),
    };
    assert_eq!(
        harness.called(&tmpfile),
        "tmpfile in node 17.0 READ|WRITE 0o640 umask 0o27"
    );
}

/// A peer's files and directories that are not opened.
fn without_open() -> Harness {
    Harness::changed(|options| {
        options.no_open = true;
        options.no_opendir = true;
    })
}

#[test]
fn without_open_there_are_no_handles() {
    let harness = without_open();
    let open = OpenIn::default();
    let flush = FlushIn::default();
    let copy = CopyFileRangeIn::default();
    for operation in [
        Operation::Open { args: open },
        Operation::Opendir { args: open },
        Operation::Flush { args: flush },
        Operation::CopyFileRange { args: copy },
        Operation::CopyFileRange64 { args: copy },
    ] {
        // Linux asks once and never again.
        assert_eq!(harness.error(&operation), Errno::ENOSYS);
    }
    assert_eq!(harness.service.calls(), Vec::<String>::new());
    let args = ReadIn {
        size: 100,
        ..ReadIn::default()
    };
    assert_eq!(
        harness.called(&Operation::Read { args }),
        "read node 17.0 without handle 100@0"
    );
    assert_eq!(
        harness.called(&Operation::Readdir { args }),
        "readdir node 17.0 without handle from 0 Names"
    );
    let args = GetattrIn {
        getattr_flags: GetattrFlags::FH,
        ..GetattrIn::default()
    };
    assert_eq!(
        harness.called(&Operation::Getattr { args }),
        "getattr node 17.0 without handle 0x7ff"
    );
}

/// Linux releases nothing once it knows that there are no opens, and what it
/// made before that has no handle to release.
#[test]
fn without_open_a_new_file_holds_no_handle() {
    let harness = without_open();
    let args = CreateIn {
        flags: 0o2,
        mode: 0o100_600,
        umask: 0,
        open_flags: OpenInFlags::empty(),
    };
    let extensions = Extensions::default();
    let name = CBytes(b"n");
    for operation in [
        Operation::Create {
            args,
            name,
            extensions,
        },
        Operation::Tmpfile {
            args,
            name,
            extensions,
        },
    ] {
        let (calls, body) = harness.run(&operation);
        assert!(calls.contains("; release node"), "{calls}");
        let (_, open) = EntryOut::read_from_prefix(&body).unwrap();
        assert_eq!(OpenOut::read_from_bytes(open).unwrap().fh, 0);
    }
    let args = ReleaseIn::default();
    for operation in [Operation::Release { args }, Operation::Releasedir { args }] {
        assert_eq!(harness.called(&operation), "");
    }
}

#[test]
fn directories_alone_may_go_without_open() {
    let harness = Harness::changed(|options| options.no_opendir = true);
    let open = OpenIn::default();
    assert_eq!(
        harness.error(&Operation::Opendir { args: open }),
        Errno::ENOSYS
    );
    assert!(
        harness
            .called(&Operation::Open { args: open })
            .contains("open node")
    );
    let args = ReleaseIn {
        fh: FH,
        ..ReleaseIn::default()
    };
    assert_eq!(harness.called(&Operation::Releasedir { args }), "");
    let released = harness.called(&Operation::Release { args });
    assert!(released.starts_with("release node"), "{released}");
}

#[test]
fn who_may_not_pass_checks_opens() {
    let mut service = Recorder::new();
    service.features = Features::empty();
    let options = ServeOptions {
        no_open: true,
        no_opendir: true,
        ..ServeOptions::new(CacheMode::Always)
    };
    let harness = Harness::over(service, options, false);
    harness.init(init_in(MINOR, OFFERED)).unwrap();
    let settled = harness.server.negotiated().unwrap();
    assert!(!settled.is_without_open && !settled.is_without_opendir);
}
