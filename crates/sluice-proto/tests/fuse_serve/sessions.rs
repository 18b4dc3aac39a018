//! INIT, DESTROY, and what comes in the wrong order.

use crate::harness::{HEAD, Harness, OFFERED, init_in};
use crate::recorder::{NODE, Recorder, Script};
use sluice_proto::fuse::loopback::Loopback;
use sluice_proto::fuse::serve::{CacheMode, Offer, ServeOptions};
use sluice_proto::fuse::wire::*;
use sluice_vfs::{Errno, Event, Features, Name};

fn auto() -> ServeOptions {
    ServeOptions::new(CacheMode::Auto)
}

#[test]
fn init_settles_versions_and_sizes() {
    let harness = Harness::cold(auto(), false);
    for (theirs, agreed) in [(27, 27), (31, 31), (45, 45), (99, 45)] {
        let out = harness.init(init_in(theirs, OFFERED)).unwrap();
        assert_eq!((out.major, out.minor), (7, agreed));
        assert_eq!(out.max_write, 1 << 20);
        assert_eq!(out.max_pages, 256);
        assert_eq!(out.max_readahead, 0x2_0000);
        assert_eq!(out.time_gran, 1);
        harness.call(&Operation::Destroy {});
    }
}

#[test]
fn old_peers_are_refused_and_newer_ones_told_our_version() {
    let harness = Harness::cold(auto(), true);
    assert_eq!(harness.init(init_in(26, OFFERED)), Err(Errno::EPROTO));
    let old = InitIn {
        major: 6,
        ..init_in(45, OFFERED)
    };
    assert_eq!(harness.init(old), Err(Errno::EPROTO));
    let new = InitIn {
        major: 8,
        ..init_in(0, OFFERED)
    };
    let out = harness.init(new).unwrap();
    assert_eq!((out.major, out.minor, out.flags), (7, 45, 0));
    assert!(!harness.server.is_live());
    assert_eq!(harness.service.calls(), Vec::<String>::new());
    assert!(harness.init(init_in(45, OFFERED)).is_ok());
}

#[test]
fn only_offered_flags_are_taken() {
    for offered in [InitFlags::empty(), InitFlags::BIG_WRITES, OFFERED] {
        let harness = Harness::cold(ServeOptions::new(CacheMode::Always), false);
        let out = harness.init(init_in(45, offered)).unwrap();
        assert!(offered.contains(out.init_flags()), "{offered:?}");
    }
    // Upper flags count only with INIT_EXT.
    let harness = Harness::cold(auto(), false);
    let out = harness
        .init(init_in(45, OFFERED - InitFlags::INIT_EXT))
        .unwrap();
    assert_eq!(out.flags2, 0);
}

#[test]
fn setxattr_is_read_in_the_form_that_was_settled() {
    let operation = Operation::Setxattr {
        args: SetxattrIn {
            size: 1,
            ..SetxattrIn::default()
        },
        name: CBytes(b"user.a"),
        value: Rest(b"v"),
    };
    for setxattr_ext in [false, true] {
        let harness = Harness::cold(auto(), false);
        let mut offered = OFFERED;
        offered.set(InitFlags::SETXATTR_EXT, setxattr_ext);
        harness.init(init_in(45, offered)).unwrap();
        harness.service.calls();
        let run = |dialect| {
            let peer = Loopback::with_dialect(&harness.server, dialect);
            let message = peer.send(&HEAD, &operation, b"").wait().unwrap();
            decode_reply(Opcode::Setxattr, &message)
                .unwrap()
                .result
                .is_ok()
        };
        assert!(run(Dialect { setxattr_ext }));
        assert_eq!(
            harness.service.calls(),
            ["setxattr node 17.0 \"user.a\"=v 0x0"]
        );
        // The other form is seen to be wrong: a name or a length is off.
        assert!(!run(Dialect {
            setxattr_ext: !setxattr_ext
        }));
    }
}

#[test]
fn flags_follow_the_options() {
    let taken = |options: ServeOptions| {
        let harness = Harness::cold(options, false);
        harness.init(init_in(45, OFFERED)).unwrap().init_flags()
    };
    let base = taken(auto());
    assert!(base.contains(
        InitFlags::DONT_MASK
            | InitFlags::HANDLE_KILLPRIV_V2
            | InitFlags::AUTO_INVAL_DATA
            | InitFlags::POSIX_LOCKS
            | InitFlags::FLOCK_LOCKS
            | InitFlags::ATOMIC_O_TRUNC
            | InitFlags::SUBMOUNTS
            | InitFlags::CREATE_SUPP_GROUP
    ));
    assert!(!base.intersects(
        InitFlags::HANDLE_KILLPRIV
            | InitFlags::WRITEBACK_CACHE
            | InitFlags::POSIX_ACL
            | InitFlags::SECURITY_CTX
            | InitFlags::EXPLICIT_INVAL_DATA
            | InitFlags::NO_EXPORT_SUPPORT
            | InitFlags::ALLOW_IDMAP
            | InitFlags::PASSTHROUGH
            | InitFlags::OVER_IO_URING
            | InitFlags::HAS_RESEND
    ));
    let changed = taken(ServeOptions {
        posix_locks: false,
        posix_acl: Offer::Auto,
        security_label: Offer::Auto,
        writeback: true,
        announce_submounts: false,
        ..auto()
    });
    assert!(
        changed
            .contains(InitFlags::POSIX_ACL | InitFlags::SECURITY_CTX | InitFlags::WRITEBACK_CACHE)
    );
    assert!(!changed.intersects(InitFlags::POSIX_LOCKS | InitFlags::SUBMOUNTS));
    assert!(!taken(ServeOptions::new(CacheMode::Always)).contains(InitFlags::AUTO_INVAL_DATA));
    let without_open = taken(ServeOptions {
        no_open: true,
        ..auto()
    });
    assert!(
        !without_open.intersects(
            InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS | InitFlags::ATOMIC_O_TRUNC
        )
    );
}

#[test]
fn flags_follow_what_the_service_can() {
    let mut service = Recorder::new();
    service.features = Features::empty();
    let options = ServeOptions {
        posix_acl: Offer::Auto,
        ..auto()
    };
    let harness = Harness::over(service, options, false);
    let flags = harness.init(init_in(45, OFFERED)).unwrap().init_flags();
    assert!(!flags.intersects(InitFlags::POSIX_ACL | InitFlags::HANDLE_KILLPRIV_V2));
}

#[test]
fn what_is_always_wanted_refuses_peers_and_services_without_it() {
    let acl = ServeOptions {
        posix_acl: Offer::Always,
        ..auto()
    };
    let label = ServeOptions {
        security_label: Offer::Always,
        ..auto()
    };
    for (options, flag) in [
        (acl, InitFlags::POSIX_ACL),
        (label, InitFlags::SECURITY_CTX),
    ] {
        let harness = Harness::cold(options, false);
        let error = harness.init(init_in(45, OFFERED - flag));
        assert_eq!(error, Err(Errno::EPROTO), "{flag:?}");
        assert!(!harness.server.is_live());
        let taken = harness.init(init_in(45, OFFERED)).unwrap().init_flags();
        assert!(taken.contains(flag));
    }
    let mut service = Recorder::new();
    service.features = Features::empty();
    let harness = Harness::over(service, acl, false);
    let error = harness.init(init_in(45, OFFERED));
    assert_eq!(error, Err(Errno::EPROTO));
}

#[test]
fn nothing_but_init_works_before_init_and_after_destroy() {
    let harness = Harness::cold(auto(), false);
    for round in 0..2 {
        assert_eq!(harness.error(&Operation::Statfs {}), Errno::ENOTCONN);
        let forget = Operation::Forget {
            args: ForgetIn { nlookup: 1 },
        };
        assert_eq!(harness.call(&forget), None);
        assert_eq!(harness.service.calls(), Vec::<String>::new());
        harness.init(init_in(45, OFFERED)).unwrap();
        assert_eq!(harness.service.calls(), ["attach test to \"share\""]);
        assert!(harness.call(&Operation::Statfs {}).unwrap().is_ok());
        harness.service.calls();
        assert_eq!(harness.call(&Operation::Destroy {}), Some(Ok(vec![])));
        assert_eq!(harness.service.calls(), ["session ends"], "round {round}");
    }
    assert_eq!(harness.call(&Operation::Destroy {}), Some(Ok(vec![])));
}

#[test]
fn init_on_a_live_connection_is_for_transports_that_allow_it() {
    let device = Harness::cold(auto(), false);
    device.init(init_in(45, OFFERED)).unwrap();
    assert_eq!(device.init(init_in(45, OFFERED)), Err(Errno::EBUSY));
    assert!(device.server.is_live());

    let ring = Harness::cold(auto(), true);
    ring.init(init_in(45, OFFERED)).unwrap();
    ring.service.calls();
    ring.init(init_in(45, OFFERED)).unwrap();
    // The old session goes whole before the new one begins.
    assert_eq!(
        ring.service.calls(),
        ["session ends", "attach test to \"share\""]
    );
}

#[test]
fn a_reset_ends_the_session() {
    let harness = Harness::new();
    harness.server.reset();
    assert_eq!(harness.service.calls(), ["session ends"]);
    assert!(!harness.server.is_live());
    harness.server.reset();
    assert_eq!(harness.service.calls(), Vec::<String>::new());
}

#[test]
fn an_attach_that_fails_leaves_no_session() {
    let harness = Harness::cold(auto(), false);
    harness.service.script(Script {
        error: Some(Errno::EACCES),
        ..Script::default()
    });
    assert_eq!(harness.init(init_in(45, OFFERED)), Err(Errno::EACCES));
    assert!(!harness.server.is_live());
}

#[test]
fn a_service_that_panics_is_answered_for() {
    let harness = Harness::new();
    harness.service.script(Script {
        panics: true,
        ..Script::default()
    });
    let answered = harness.call_across_panic(&Operation::Statfs {});
    assert_eq!(answered, Some(Err(Errno::EIO)));
    // The thread goes on, and so does the connection.
    harness.service.script(Script::default());
    assert!(harness.call(&Operation::Statfs {}).unwrap().is_ok());
}

#[test]
fn replies_that_do_not_fit_are_refused_before_anything_is_done() {
    let harness = Harness::new();
    let mut prefix = [0; 64];
    let lookup = Operation::Lookup { name: CBytes(b"a") };
    let len = encode_request(&HEAD, &lookup, Dialect::default(), &mut prefix).unwrap();
    let peer = harness.peer();
    for room in [16, 17, 143] {
        let message = peer.send_bytes(&prefix[..len], b"", room).wait().unwrap();
        let reply = decode_reply(Opcode::Lookup, &message).unwrap();
        assert_eq!(reply.result, Err(Errno::EINVAL), "room for {room}");
    }
    for room in [0, 8, 15] {
        assert_eq!(peer.send_bytes(&prefix[..len], b"", room).wait(), None);
    }
    assert_eq!(harness.service.calls(), Vec::<String>::new());
    assert!(peer.send_bytes(&prefix[..len], b"", 144).wait().is_some());
    assert_eq!(harness.service.calls().len(), 1);
}

#[test]
fn malformed_requests_get_an_error_and_reach_no_service() {
    let harness = Harness::new();
    let peer = harness.peer();
    let mut prefix = [0; 64];
    let lookup = Operation::Lookup { name: CBytes(b"a") };
    let len = encode_request(&HEAD, &lookup, Dialect::default(), &mut prefix).unwrap();
    let error_of = |bytes: &[u8]| {
        let message = peer.send_bytes(bytes, b"", 4096).wait()?;
        let reply = decode_reply(Opcode::Lookup, &message).unwrap();
        assert_eq!(reply.unique, HEAD.unique);
        reply.result.err()
    };
    assert_eq!(error_of(&prefix[..len - 1]), Some(Errno::EINVAL));
    assert_eq!(error_of(&prefix[..len + 1]), Some(Errno::EINVAL));
    assert_eq!(error_of(&prefix[..40]), Some(Errno::EINVAL));
    assert_eq!(error_of(&prefix[..39]), None);
    assert_eq!(error_of(b""), None);
    prefix[4] = 200;
    assert_eq!(error_of(&prefix[..len]), Some(Errno::ENOSYS));
    // A malformed FORGET is dropped: nobody waits for a reply to it.
    prefix[4] = Opcode::Forget as u8;
    assert_eq!(error_of(&prefix[..len]), None);
    assert_eq!(harness.service.calls(), Vec::<String>::new());
}

#[test]
fn names_are_checked_before_they_reach_the_service() {
    let harness = Harness::new();
    let long = [b'n'; 256];
    for (name, error) in [
        (&b""[..], Errno::EINVAL),
        (b"/", Errno::EINVAL),
        (b"../x", Errno::EINVAL),
        (b"a/b", Errno::EINVAL),
        (&long, Errno::ENAMETOOLONG),
    ] {
        let name = CBytes(name);
        for operation in [
            Operation::Lookup { name },
            Operation::Unlink { name },
            Operation::Mkdir {
                args: MkdirIn::default(),
                name,
                extensions: Extensions::default(),
            },
            Operation::Rename {
                args: RenameIn { newdir: 1 },
                old_name: CBytes(b"good"),
                new_name: name,
            },
        ] {
            assert_eq!(harness.error(&operation), error, "{operation:?}");
        }
    }
    for name in [CBytes(b"."), CBytes(b"..")] {
        for operation in [Operation::Rmdir { name }, Operation::Unlink { name }] {
            assert_eq!(harness.error(&operation), Errno::EINVAL, "{operation:?}");
        }
    }
    assert_eq!(harness.service.calls(), Vec::<String>::new());
}

#[test]
fn events_become_notifications() {
    let harness = Harness::new();
    harness.service.publish(&Event::InodeChanged {
        node: NODE,
        data: None,
    });
    harness.service.publish(&Event::InodeChanged {
        node: NODE,
        data: Some(4096..8192),
    });
    harness.service.publish(&Event::EntryChanged {
        parent: NODE,
        name: Name::new(b"n").unwrap(),
    });
    harness.service.publish(&Event::EpochMoved);
    let notified = harness.notified.take();
    assert!(notified[0].contains("off: -1, len: 0"), "{notified:?}");
    assert!(notified[1].contains("off: 4096, len: 4096"), "{notified:?}");
    assert!(notified[2].contains("\"n\""), "{notified:?}");
    assert_eq!(notified[3], "IncEpoch");

    let old = Harness::cold(auto(), false);
    old.init(init_in(43, OFFERED)).unwrap();
    old.service.publish(&Event::EpochMoved);
    assert_eq!(old.notified.take(), Vec::<String>::new());
}
