//! Requests on open files, and those that begin and end sessions.

use sluice_proto::fuse::wire::*;

pub(crate) fn files(check: &mut impl FnMut(Operation<'_>, &str)) {
    let open = OpenIn {
        flags: 0o100002,
        open_flags: OpenInFlags::empty(),
    };
    check(
        Operation::Open { args: open },
        "30000000 0e000000 | len 48, opcode OPEN
         HEAD
         02800000 00000000 | flags O_RDWR O_LARGEFILE, open_flags",
    );
    check(
        Operation::Opendir { args: open },
        "30000000 1b000000 | len 48, opcode OPENDIR
         HEAD
         02800000 00000000 | flags, open_flags",
    );
    let read = ReadIn {
        fh: 0x31,
        offset: 0x1_0000_1000,
        size: 0x2_0000,
        read_flags: ReadFlags::LOCKOWNER,
        lock_owner: 0x41,
        flags: 0o100000,
        padding: 0,
    };
    for (operation, opcode) in [
        (Operation::Read { args: read }, "0f000000"),
        (Operation::Readdir { args: read }, "1c000000"),
        (Operation::Readdirplus { args: read }, "2c000000"),
    ] {
        check(
            operation,
            &format!(
                "50000000 {opcode} | len 80, opcode
                 HEAD
                 31000000 00000000 | fh
                 00100000 01000000 | offset
                 00000200 02000000 | size, read_flags LOCKOWNER
                 41000000 00000000 | lock_owner
                 00800000 00000000 | flags, padding"
            ),
        );
    }
    check(
        Operation::Write {
            args: WriteIn {
                fh: 0x31,
                offset: 0x1000,
                size: 5,
                write_flags: WriteFlags::CACHE | WriteFlags::KILL_SUIDGID,
                lock_owner: 0,
                flags: 0o100001,
                padding: 0,
            },
            data: Payload { len: 5 },
        },
        "55000000 10000000 | len 85, opcode WRITE
         HEAD
         31000000 00000000 | fh
         00100000 00000000 | offset
         05000000 05000000 | size, write_flags CACHE KILL_SUIDGID
         00000000 00000000 | lock_owner
         01800000 00000000 | flags, padding
         68656c6c6f | payload",
    );
    let release = ReleaseIn {
        fh: 0x31,
        flags: 0o100001,
        release_flags: ReleaseFlags::FLOCK_UNLOCK,
        lock_owner: 0x41,
    };
    for (operation, opcode) in [
        (Operation::Release { args: release }, "12000000"),
        (Operation::Releasedir { args: release }, "1d000000"),
    ] {
        check(
            operation,
            &format!(
                "40000000 {opcode} | len 64, opcode
                 HEAD
                 31000000 00000000 | fh
                 01800000 02000000 | flags, release_flags FLOCK_UNLOCK
                 41000000 00000000 | lock_owner"
            ),
        );
    }
    check(
        Operation::Flush {
            args: FlushIn {
                fh: 0x31,
                unused: 0,
                padding: 0,
                lock_owner: 0x41,
            },
        },
        "40000000 19000000 | len 64, opcode FLUSH
         HEAD
         31000000 00000000 | fh
         00000000 00000000 | unused, padding
         41000000 00000000 | lock_owner",
    );
    let fsync = FsyncIn {
        fh: 0x31,
        fsync_flags: FsyncFlags::FDATASYNC,
        padding: 0,
    };
    for (operation, opcode) in [
        (Operation::Fsync { args: fsync }, "14000000"),
        (Operation::Fsyncdir { args: fsync }, "1e000000"),
    ] {
        check(
            operation,
            &format!(
                "38000000 {opcode} | len 56, opcode
                 HEAD
                 31000000 00000000 | fh
                 01000000 00000000 | fsync_flags FDATASYNC, padding"
            ),
        );
    }
    check(
        Operation::Fallocate {
            args: FallocateIn {
                fh: 0x31,
                offset: 0x1000,
                length: 0x2000,
                mode: 3,
                padding: 0,
            },
        },
        "48000000 2b000000 | len 72, opcode FALLOCATE
         HEAD
         31000000 00000000 | fh
         00100000 00000000 | offset
         00200000 00000000 | length
         03000000 00000000 | mode KEEP_SIZE PUNCH_HOLE, padding",
    );
    check(
        Operation::Lseek {
            args: LseekIn {
                fh: 0x31,
                offset: 0x1000,
                whence: 4,
                padding: 0,
            },
        },
        "40000000 2e000000 | len 64, opcode LSEEK
         HEAD
         31000000 00000000 | fh
         00100000 00000000 | offset
         04000000 00000000 | whence SEEK_HOLE, padding",
    );
    let copy = CopyFileRangeIn {
        fh_in: 0x31,
        off_in: 0x1000,
        nodeid_out: 0x12,
        fh_out: 0x32,
        off_out: 0x2000,
        len: 0x1_0000_0000,
        flags: 0,
    };
    for (operation, opcode) in [
        (Operation::CopyFileRange { args: copy }, "2f000000"),
        (Operation::CopyFileRange64 { args: copy }, "35000000"),
    ] {
        check(
            operation,
            &format!(
                "60000000 {opcode} | len 96, opcode
                 HEAD
                 31000000 00000000 | fh_in
                 00100000 00000000 | off_in
                 12000000 00000000 | nodeid_out
                 32000000 00000000 | fh_out
                 00200000 00000000 | off_out
                 00000000 01000000 | len
                 00000000 00000000 | flags"
            ),
        );
    }
    check(
        Operation::Syncfs {
            args: SyncfsIn::default(),
        },
        "30000000 32000000 | len 48, opcode SYNCFS
         HEAD
         00000000 00000000 | padding",
    );
    check(
        Operation::Bmap {
            args: BmapIn {
                block: 9,
                blocksize: 4096,
                padding: 0,
            },
        },
        "38000000 25000000 | len 56, opcode BMAP
         HEAD
         09000000 00000000 | block
         00100000 00000000 | blocksize, padding",
    );
    check(
        Operation::Ioctl {
            args: IoctlIn {
                fh: 0x31,
                flags: IoctlFlags::DIR,
                cmd: 0x4008_6602,
                arg: 0x7fff_0000_1000,
                in_size: 4,
                out_size: 0,
            },
            data: Rest(&[0x10, 0, 0, 0]),
        },
        "4c000000 27000000 | len 76, opcode IOCTL
         HEAD
         31000000 00000000 | fh
         10000000 02660840 | flags DIR, cmd FS_IOC_SETFLAGS
         00100000 ff7f0000 | arg
         04000000 00000000 | in_size, out_size
         10000000 | data",
    );
    check(
        Operation::Poll {
            args: PollIn {
                fh: 0x31,
                kh: 0x51,
                flags: PollFlags::SCHEDULE_NOTIFY,
                events: 5,
            },
        },
        "40000000 28000000 | len 64, opcode POLL
         HEAD
         31000000 00000000 | fh
         51000000 00000000 | kh
         01000000 05000000 | flags SCHEDULE_NOTIFY, events POLLIN POLLOUT",
    );
    let lock = LkIn {
        fh: 0x31,
        owner: 0x41,
        lk: FileLock {
            start: 0x10,
            end: 0x7fff_ffff_ffff_ffff,
            kind: FileLock::WRITE,
            pid: 1234,
        },
        lk_flags: LkFlags::FLOCK,
        padding: 0,
    };
    for (operation, opcode) in [
        (Operation::Getlk { args: lock }, "1f000000"),
        (Operation::Setlk { args: lock }, "20000000"),
        (Operation::Setlkw { args: lock }, "21000000"),
    ] {
        check(
            operation,
            &format!(
                "58000000 {opcode} | len 88, opcode
                 HEAD
                 31000000 00000000 | fh
                 41000000 00000000 | owner
                 10000000 00000000 | lk.start
                 ffffffff ffffff7f | lk.end
                 01000000 d2040000 | lk.type F_WRLCK, lk.pid
                 01000000 00000000 | lk_flags FLOCK, padding"
            ),
        );
    }
}

pub(crate) fn sessions(
    check: &mut impl FnMut(Operation<'_>, &str),
    forgets: &[ForgetOne],
    mappings: &[RemovemappingOne],
) {
    check(
        Operation::Init {
            args: InitIn {
                major: 7,
                minor: 45,
                max_readahead: 0x2_0000,
                flags: 0x73ff_fffb,
                flags2: 0x7fd,
                unused: [0; 11],
            },
        },
        "68000000 1a000000 | len 104, opcode INIT
         HEAD
         07000000 2d000000 | major, minor
         00000200 fbffff73 | max_readahead, flags
         fd070000 | flags2
         00000000 00000000 00000000 00000000 00000000 00000000 | unused
         00000000 00000000 00000000 00000000 00000000 | unused",
    );
    check(
        Operation::Destroy {},
        "28000000 26000000 | len 40, opcode DESTROY
         HEAD",
    );
    check(
        Operation::Forget {
            args: ForgetIn { nlookup: 3 },
        },
        "30000000 02000000 | len 48, opcode FORGET
         HEAD
         03000000 00000000 | nlookup",
    );
    check(
        Operation::BatchForget {
            nodes: Counted::new(forgets),
        },
        "50000000 2a000000 | len 80, opcode BATCH_FORGET
         HEAD
         02000000 00000000 | count, dummy
         21000000 00000000 01000000 00000000 | nodeid, nlookup
         22000000 00000000 02000000 01000000 | nodeid, nlookup",
    );
    check(
        Operation::Interrupt {
            args: InterruptIn { unique: 0x99 },
        },
        "30000000 24000000 | len 48, opcode INTERRUPT
         HEAD
         99000000 00000000 | unique",
    );
    check(
        Operation::NotifyReply {
            args: NotifyRetrieveIn {
                offset: 0x1000,
                size: 2,
                ..NotifyRetrieveIn::default()
            },
            data: Payload { len: 2 },
        },
        "52000000 29000000 | len 82, opcode NOTIFY_REPLY
         HEAD
         00000000 00000000 | dummy1
         00100000 00000000 | offset
         02000000 00000000 | size, dummy2
         00000000 00000000 | dummy3
         00000000 00000000 | dummy4
         6869 | payload",
    );
    check(
        Operation::Setupmapping {
            args: SetupmappingIn {
                fh: 0x31,
                foffset: 0x20_0000,
                len: 0x20_0000,
                flags: SetupmappingFlags::READ | SetupmappingFlags::WRITE,
                moffset: 0x40_0000,
            },
        },
        "50000000 30000000 | len 80, opcode SETUPMAPPING
         HEAD
         31000000 00000000 | fh
         00002000 00000000 | foffset
         00002000 00000000 | len
         03000000 00000000 | flags WRITE READ
         00004000 00000000 | moffset",
    );
    check(
        Operation::Removemapping {
            mappings: Counted::new(mappings),
        },
        "3c000000 31000000 | len 60, opcode REMOVEMAPPING
         HEAD
         01000000 | count
         00002000 00000000 | moffset
         00100000 00000000 | len",
    );
}
