//! Content of files and directories, and what is left.

use crate::harness::{FH, HEAD, Harness};
use crate::recorder::{HANDLE, NODE, Script};
use sluice_proto::fuse::wire::*;
use sluice_vfs::Errno;
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn content_is_read_and_written() {
    let harness = Harness::new();
    let read = |offset, size| Operation::Read {
        args: ReadIn {
            fh: FH,
            offset,
            size,
            read_flags: ReadFlags::LOCKOWNER,
            lock_owner: 0x41,
            ..ReadIn::default()
        },
    };
    let (call, body) = harness.run(&read(8192, 4096));
    assert_eq!(
        call,
        format!("read node 17.0 {HANDLE:?} 4096@8192 owner 0x41")
    );
    assert_eq!(body, b"data");
    let write = Operation::Write {
        args: WriteIn {
            fh: FH,
            offset: 8192,
            size: 5,
            write_flags: WriteFlags::CACHE | WriteFlags::KILL_SUIDGID,
            lock_owner: 0x41,
            ..WriteIn::default()
        },
        data: Payload { len: 5 },
    };
    let body = harness.call_with(&write, b"hello").unwrap().unwrap();
    assert_eq!(
        harness.service.calls(),
        [format!(
            "write node 17.0 {HANDLE:?} hello@8192 kill true writeback true"
        )]
    );
    assert_eq!(WriteOut::read_from_bytes(&body).unwrap().size, 5);
    // More or less data than stated.
    for payload in [&b"hell"[..], b"hello!"] {
        let mut prefix = [0; 80];
        encode_request(&HEAD, &write, Dialect::default(), &mut prefix).unwrap();
        prefix[0] = 80 + payload.len() as u8;
        let message = harness.peer().send_bytes(&prefix, payload, 100).wait();
        let reply = decode_reply(Opcode::Write, message.as_deref().unwrap()).unwrap();
        assert_eq!(reply.result, Err(Errno::EINVAL));
    }
    assert_eq!(harness.service.calls(), Vec::<String>::new());
}

#[test]
fn ranges_that_no_file_has_are_refused() {
    let harness = Harness::new();
    let far = 1_u64 << 63;
    let read = |offset, size| Operation::Read {
        args: ReadIn {
            offset,
            size,
            ..ReadIn::default()
        },
    };
    let fallocate = |offset, length, mode| Operation::Fallocate {
        args: FallocateIn {
            fh: FH,
            offset,
            length,
            mode,
            padding: 0,
        },
    };
    let copy = |off_in, off_out, flags| Operation::CopyFileRange64 {
        args: CopyFileRangeIn {
            off_in,
            off_out,
            len: 1,
            flags,
            ..CopyFileRangeIn::default()
        },
    };
    for (operation, error) in [
        (read(far, 1), Errno::EINVAL),
        (read(far - 1, 1), Errno::EINVAL),
        (read(u64::MAX, 1), Errno::EINVAL),
        (read(0, u32::MAX), Errno::EINVAL),
        (fallocate(far, 1, 0), Errno::EINVAL),
        (fallocate(u64::MAX, u64::MAX, 0), Errno::EINVAL),
        (fallocate(0, 1, 0x8000), Errno::EOPNOTSUPP),
        (copy(far, 0, 0), Errno::EINVAL),
        (copy(0, u64::MAX, 0), Errno::EINVAL),
        (copy(0, 0, 1), Errno::EINVAL),
    ] {
        assert_eq!(harness.error(&operation), error, "{operation:?}");
    }
    let write = Operation::Write {
        args: WriteIn {
            offset: far - 1,
            size: 1,
            ..WriteIn::default()
        },
        data: Payload { len: 1 },
    };
    assert_eq!(harness.call_with(&write, b"x"), Some(Err(Errno::EINVAL)));
    assert_eq!(harness.service.calls(), Vec::<String>::new());
    assert!(harness.call(&read(far - 2, 1)).unwrap().is_ok());
}

#[test]
fn open_files_are_worked_on() {
    let harness = Harness::new();
    let fsync = FsyncIn {
        fh: FH,
        fsync_flags: FsyncFlags::FDATASYNC,
        padding: 0,
    };
    let release = |release_flags| ReleaseIn {
        fh: FH,
        flags: 0,
        release_flags,
        lock_owner: 0x41,
    };
    let copy = CopyFileRangeIn {
        fh_in: 1,
        off_in: 2,
        nodeid_out: 3,
        fh_out: 4,
        off_out: 5,
        len: 0x1_0000_0006,
        flags: 0,
    };
    for (operation, expected) in [
        (
            Operation::Fsync { args: fsync },
            format!("fsync node 17.0 {HANDLE:?} data only true"),
        ),
        (
            Operation::Fsyncdir { args: fsync },
            format!("fsync node 17.0 {HANDLE:?} data only true"),
        ),
        (
            Operation::Flush {
                args: FlushIn {
                    fh: FH,
                    lock_owner: 0x41,
                    ..FlushIn::default()
                },
            },
            format!("flush node 17.0 {HANDLE:?} owner 0x41"),
        ),
        (
            Operation::Release {
                args: release(ReleaseFlags::FLOCK_UNLOCK),
            },
            format!("release node 17.0 {HANDLE:?} unlock true flush false owner 0x41"),
        ),
        (
            Operation::Releasedir {
                args: release(ReleaseFlags::FLUSH),
            },
            format!("release node 17.0 {HANDLE:?} unlock false flush true owner 0x41"),
        ),
        (
            Operation::Fallocate {
                args: FallocateIn {
                    fh: FH,
                    offset: 10,
                    length: 20,
                    mode: 3,
                    padding: 0,
                },
            },
            format!("fallocate node 17.0 {HANDLE:?} 0x3 10..30"),
        ),
        (
            Operation::Lseek {
                args: LseekIn {
                    fh: FH,
                    offset: 10,
                    whence: 4,
                    padding: 0,
                },
            },
            format!("lseek node 17.0 {HANDLE:?} Hole 10"),
        ),
        (
            Operation::CopyFileRange64 { args: copy },
            "copy 4294967302 from node 17.0 handle 1.0@2 to node 3.0 handle 4.0@5".to_owned(),
        ),
        (
            Operation::CopyFileRange { args: copy },
            "copy 4294967295 from node 17.0 handle 1.0@2 to node 3.0 handle 4.0@5".to_owned(),
        ),
    ] {
        assert_eq!(harness.called(&operation), expected);
    }
    let seek = Operation::Lseek {
        args: LseekIn::default(),
    };
    assert_eq!(harness.error(&seek), Errno::EINVAL);
}

#[test]
fn holes_are_not_searched_for_where_writes_are_collected() {
    let harness = Harness::changed(|options| options.writeback = true);
    let args = LseekIn {
        fh: FH,
        whence: 4,
        ..LseekIn::default()
    };
    let seek = Operation::Lseek { args };
    assert_eq!(harness.error(&seek), Errno::ENOSYS);
}

#[test]
fn file_flags_are_ioctls_and_others_are_not_ours() {
    let harness = Harness::new();
    let ioctl = |cmd, data, out_size| Operation::Ioctl {
        args: IoctlIn {
            fh: FH,
            flags: IoctlFlags::empty(),
            cmd,
            arg: 0,
            in_size: u32::try_from(<[u8]>::len(data)).unwrap(),
            out_size,
        },
        data: Rest(data),
    };
    let (call, body) = harness.run(&ioctl(0x8008_6601, &[], 4));
    assert_eq!(call, format!("ioctl node 17.0 {HANDLE:?} GetFlags"));
    assert_eq!(body[..16], *IoctlOut::default().as_bytes());
    assert_eq!(body[16..], 0x10_u32.to_ne_bytes());
    let flags = 0x20_u32.to_ne_bytes();
    let (call, body) = harness.run(&ioctl(0x4008_6602, &flags, 0));
    assert_eq!(call, format!("ioctl node 17.0 {HANDLE:?} SetFlags(32)"));
    assert_eq!(body.len(), 16);
    let (_, body) = harness.run(&ioctl(0x801c_581f, &[], 28));
    assert_eq!(body.len(), 16 + 28);
    assert_eq!(body[28..32], 4_u32.to_ne_bytes());
    let fsx = [9; 28];
    let (call, _) = harness.run(&ioctl(0x401c_5820, &fsx, 0));
    assert!(call.contains("project_id: 151587081"), "{call}");
    for (operation, error) in [
        (ioctl(0x5401, &[], 60), Errno::ENOTTY),
        (ioctl(0x4008_6602, &[1, 2, 3], 0), Errno::EINVAL),
        (ioctl(0x401c_5820, &fsx[..16], 0), Errno::EINVAL),
        (ioctl(0x801c_581f, &[], 27), Errno::EINVAL),
    ] {
        assert_eq!(harness.error(&operation), error);
    }
}

#[test]
fn listings_hold_what_fits() {
    let harness = Harness::new();
    let args = |offset, size| ReadIn {
        fh: FH,
        offset,
        size,
        ..ReadIn::default()
    };
    let (call, body) = harness.run(&Operation::Readdir {
        args: args(0, 4096),
    });
    assert_eq!(call, format!("readdir node 17.0 {HANDLE:?} from 0 Names"));
    let read: Vec<_> = Dirents(&body).map(Result::unwrap).collect();
    let names: Vec<_> = read.iter().map(|record| record.name).collect();
    assert_eq!(names, [&b"."[..], b"..", b"file", b"another-file"]);
    let kinds: Vec<_> = read.iter().map(|record| record.dirent.kind).collect();
    assert_eq!(kinds, [4, 4, 0, 0]);
    assert_eq!((read[2].dirent.ino, read[2].dirent.off), (102, 3));

    // `.`, `..` and `file` take 32 bytes each, `another-file` 40.
    for (size, count) in [(0, 0), (31, 0), (32, 1), (96, 3), (135, 3), (136, 4)] {
        let (_, body) = harness.run(&Operation::Readdir {
            args: args(0, size),
        });
        assert_eq!(Dirents(&body).count(), count, "in {size} bytes");
    }
    let (_, body) = harness.run(&Operation::Readdir {
        args: args(3, 4096),
    });
    assert_eq!(Dirents(&body).count(), 1);
}

#[test]
fn listings_with_entries_hold_what_fits() {
    let harness = Harness::new();
    let plus = |offset, size| Operation::Readdirplus {
        args: ReadIn {
            fh: FH,
            offset,
            size,
            ..ReadIn::default()
        },
    };
    let (call, body) = harness.run(&plus(0, 4096));
    assert!(call.contains("Entries(AttrMask(TYPE | MODE"), "{call}");
    let read: Vec<_> = Direntpluses(&body).map(Result::unwrap).collect();
    let nodes: Vec<_> = read
        .iter()
        .map(|record| record.entry.entry_out.nodeid)
        .collect();
    assert_eq!(nodes, [0, 0, NODE.0, NODE.0]);
    assert_eq!(read[2].entry.entry_out.entry_valid, 1);
    assert_eq!(read[3].name, b"another-file");
    // 160 bytes each but for the last, which takes 168.
    for (size, count) in [(159, 0), (160, 1), (647, 3), (648, 4)] {
        let (_, body) = harness.run(&plus(0, size));
        assert_eq!(Direntpluses(&body).count(), count, "in {size} bytes");
    }
}

#[test]
fn what_is_not_implemented_says_so() {
    let harness = Harness::new();
    for operation in [
        Operation::Bmap {
            args: BmapIn::default(),
        },
        Operation::Poll {
            args: PollIn::default(),
        },
        Operation::Setupmapping {
            args: SetupmappingIn::default(),
        },
        Operation::Removemapping {
            mappings: Counted::new(&[]),
        },
    ] {
        assert_eq!(harness.error(&operation), Errno::ENOSYS, "{operation:?}");
    }
    let reply = Operation::NotifyReply {
        args: NotifyRetrieveIn::default(),
        data: Payload { len: 0 },
    };
    assert_eq!(harness.call(&reply), None);
    assert_eq!(harness.service.calls(), Vec::<String>::new());
}

#[test]
fn errors_of_the_service_reach_the_peer() {
    let harness = Harness::new();
    for (error, seen) in [
        (Errno::ENOSPC, Errno::ENOSPC),
        (Errno::ESTALE, Errno::ESTALE),
        (Errno::from_raw(511), Errno::from_raw(511)),
        (Errno::from_raw(512), Errno::EIO),
    ] {
        harness.service.script(Script {
            error: Some(error),
            ..Script::default()
        });
        assert_eq!(harness.error(&Operation::Statfs {}), seen);
        assert_eq!(harness.error(&Operation::Readlink {}), seen);
    }
}
