//! Lengths, reply buffers, opcodes, the order and the numbers of requests.

use crate::scene::{Scene, assert_no_secret};
use sluice_lab::raw_guest::{Guest, HEADER_LEN, OpenFile, ROOM, ROOT, body, header};
use sluice_proto::fuse::wire::{
    BatchForgetIn, ForgetOne, InHeader, InitFlags, InitIn, InitOut, InterruptIn, MkdirIn, Opcode,
};
use sluice_vfs::Errno;
use zerocopy::{FromBytes, IntoBytes};

const REPLY: [u32; 2] = [HEADER_LEN, ROOM];

/// Every opcode, and numbers that are none.
fn opcodes() -> Vec<u32> {
    let known = Opcode::ALL.iter().map(|opcode| *opcode as u32);
    let unknown = [0, 7, 19, 54, 55, 100, 4095, 4096, 1 << 16, u32::MAX];
    // CUSE's INIT, and INIT with its bytes swapped.
    known
        .chain(unknown)
        .chain([1_048_576, 436_207_616])
        .collect()
}

/// Every opcode with bodies of nothing, zeros, ones and too much, for nodes of all
/// kinds, with replies that have room and that have not.
#[test]
fn whatever_is_asked_is_answered_or_ignored() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let bodies = [
            vec![],
            vec![0],
            vec![0; 200],
            vec![0xff; 200],
            vec![0xff; 90_000],
        ];
        let rooms: [&[u32]; 5] = [&REPLY, &[HEADER_LEN], &[8], &[], &[1; 20]];
        for opcode in opcodes() {
            guest.init_offering(InitFlags::all()).unwrap();
            let file = guest.lookup(ROOT, b"file").unwrap();
            for node in [0, ROOT, file, u64::MAX] {
                for body in &bodies {
                    for room in rooms {
                        let header = guest.stamped(header(opcode, node, body.len()));
                        let answer = guest.send_raw(&header, body, room);
                        if let Some(answer) = answer {
                            assert_eq!(answer.unique, header.unique);
                            assert_no_secret(&answer.result.unwrap_or_default());
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn lengths_that_are_not_the_chains() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let name = b"file\0";
        for len in [0, 1, 39, 40, 44, 46, 400, 1 << 20, 1 << 31, u32::MAX] {
            let lying = InHeader {
                len,
                ..header(Opcode::Lookup as u32, ROOT, name.len())
            };
            let answer = guest.send_raw(&lying, name, &REPLY).unwrap();
            assert_eq!(answer.result, Err(Errno::EINVAL), "{len}");
        }
        for cut in 0..size_of::<InHeader>() {
            let whole = header(Opcode::Lookup as u32, ROOT, 0);
            let sent = &whole.as_bytes()[..cut];
            assert_eq!(guest.try_raw(&[sent], &REPLY).unwrap(), None, "{cut} bytes");
        }
        // In pieces of a byte it is still the same request.
        let whole = [header(Opcode::Lookup as u32, ROOT, 5).as_bytes(), name].concat();
        let pieces: Vec<&[u8]> = whole.chunks(1).collect();
        let answer = guest.try_raw(&pieces, &[1; 200]).unwrap().unwrap();
        assert_eq!(answer.result.unwrap().len(), 128);
    });
}

#[test]
fn buffers_that_hold_no_reply() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let name = b"file\0";
        let request = header(Opcode::Lookup as u32, ROOT, name.len());
        for room in [&[][..], &[0], &[8], &[15], &[1; 15]] {
            assert_eq!(guest.send_raw(&request, name, room), None);
        }
        for room in [&[16][..], &[17], &[16, 100], &[16, 127]] {
            let answer = guest.send_raw(&request, name, room).unwrap();
            assert_eq!(answer.result, Err(Errno::EINVAL), "{room:?}");
        }
        // What has no room for its answer is not done.
        let mkdir = body(&MkdirIn::default(), b"new\0");
        let request = header(Opcode::Mkdir as u32, ROOT, mkdir.len());
        assert!(guest.send_raw(&request, &mkdir, &[16, 8]).is_some());
        assert!(!scene.share.join("new").exists());
    });
}

/// Before INIT, after a refused INIT, and after DESTROY there is nothing to ask.
#[test]
fn requests_outside_of_a_session() {
    Scene::play(|scene| {
        let mut guest = Guest::connect(scene.socket());
        assert_nothing_works(&mut guest);
        for (major, minor) in [(7, 0), (7, 26), (6, 99), (0, 0), (8, 0), (u32::MAX, 0)] {
            let init = InitIn {
                major,
                minor,
                flags: u32::MAX,
                flags2: u32::MAX,
                ..InitIn::default()
            };
            let _ = guest.ask_raw(Opcode::Init as u32, 0, init.as_bytes());
            assert_nothing_works(&mut guest);
        }
        guest.init().unwrap();
        assert!(guest.getattr(ROOT).is_ok());
        for _ in 0..3 {
            let _ = guest.ask_raw(Opcode::Destroy as u32, 0, &[]);
            assert_nothing_works(&mut guest);
        }
    });
}

#[track_caller]
fn assert_nothing_works(guest: &mut Guest) {
    let unanswered = [
        Opcode::Init,
        Opcode::Destroy,
        Opcode::Forget,
        Opcode::BatchForget,
        Opcode::Interrupt,
        Opcode::NotifyReply,
    ];
    for opcode in Opcode::ALL {
        if unanswered.contains(opcode) {
            continue;
        }
        for node in [0, ROOT, 2] {
            let answer = guest.ask_raw(*opcode as u32, node, &[0; 200]);
            assert!(answer.is_err(), "{opcode:?} works outside of a session");
        }
    }
}

/// INIT again and again, with requests of the session before in between.
#[test]
fn init_twice_leaves_nothing_of_the_first() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let mut old: Vec<OpenFile> = Vec::new();
        for round in 0..50 {
            let file = guest.create(ROOT, b"file").unwrap();
            assert_eq!(guest.write(file, 0, b"round"), Ok(5));
            old.push(file);
            guest.init_offering(InitFlags::all()).unwrap();
            for known in &old {
                assert!(guest.read(*known, 0, 10).is_err(), "round {round}");
            }
        }
    });
}

/// Flags alone and together, with the second word announced or not; read-ahead of nothing
/// and of everything; bodies of all lengths. What is agreed on is never more than was
/// offered.
#[test]
fn init_of_any_kind() {
    Scene::play(|scene| {
        let mut guest = Guest::connect(scene.socket());
        let single = (0..64).map(|bit| 1u64 << bit);
        let extended = InitFlags::INIT_EXT.bits();
        let offers: Vec<u64> = single
            .flat_map(|bit| [bit, bit | extended, !bit, !bit & !extended])
            .chain([0, u64::MAX])
            .collect();
        for (offered, max_readahead) in offers.iter().zip([0, 1, 4096, u32::MAX].iter().cycle()) {
            let init = InitIn {
                major: 7,
                minor: 45,
                max_readahead: *max_readahead,
                flags: *offered as u32,
                flags2: (*offered >> 32) as u32,
                ..InitIn::default()
            };
            let reply = guest.ask_raw(Opcode::Init as u32, 0, init.as_bytes());
            let Ok(reply) = reply else { continue };
            let (agreed, _) = InitOut::read_from_prefix(&reply).unwrap();
            let heard = match offered & extended {
                0 => offered & u64::from(u32::MAX),
                _ => *offered,
            };
            assert_eq!(agreed.init_flags().bits() & !heard, 0, "of {offered:#x}");
            assert!(agreed.max_readahead <= *max_readahead);
            assert!(agreed.max_write >= 4096 && guest.getattr(ROOT).is_ok());
        }
        for len in 0..120 {
            let mut body = vec![0xff; len];
            for (byte, known) in body.iter_mut().zip([7, 0, 0, 0, 45, 0, 0, 0]) {
                *byte = known;
            }
            let _ = guest.ask_raw(Opcode::Init as u32, 0, &body);
            let _ = guest.getattr(ROOT);
        }
        guest.init().unwrap();
        assert!(guest.getattr(ROOT).is_ok());
    });
}

#[test]
fn numbers_of_requests_may_repeat() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        for unique in [0, 0, 1, 1, u64::MAX, u64::MAX, 2, 2] {
            let request = InHeader {
                unique,
                ..header(Opcode::Lookup as u32, ROOT, 5)
            };
            let answer = guest.send_raw(&request, b"file\0", &REPLY).unwrap();
            assert_eq!(answer.unique, unique);
            assert!(answer.result.is_ok());
        }
    });
}

/// INTERRUPT of itself, of what never was, of what is over, with room for a reply and
/// without, on either queue.
#[test]
fn interrupts_of_nothing() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        for named in [0, 1, 2, 1 << 40, u64::MAX] {
            let interrupt = InterruptIn { unique: named };
            let request = InHeader {
                unique: named,
                ..header(Opcode::Interrupt as u32, 0, 8)
            };
            for room in [&REPLY[..], &[]] {
                let sent = [request.as_bytes(), interrupt.as_bytes()];
                assert_eq!(guest.try_raw(&sent, room).unwrap(), None);
                let completion = guest.hiprio.roundtrip(&sent, room).unwrap();
                assert_eq!(completion.written, 0);
            }
            assert!(guest.getattr(ROOT).is_ok());
        }
    });
}

#[test]
fn forgets_that_lie_about_their_number() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let items = [ForgetOne {
            nodeid: ROOT,
            nlookup: u64::MAX,
        }; 100];
        for count in [0, 1, 99, 101, 1 << 16, 1 << 28, 1 << 31, u32::MAX] {
            for sent in [0, 1, 100] {
                let head = BatchForgetIn { count, dummy: 0 };
                let batch = body(&head, items[..sent].as_bytes());
                let request = header(Opcode::BatchForget as u32, 0, batch.len());
                assert_eq!(guest.send_raw(&request, &batch, &[]), None);
                let sent = [request.as_bytes(), &batch];
                assert_eq!(guest.hiprio.roundtrip(&sent, &[]).unwrap().written, 0);
            }
        }
        assert!(guest.getattr(ROOT).is_ok(), "the root stays");
    });
}

/// Everything may come on any queue, a FORGET among requests and a READ where nothing
/// may wait.
#[test]
fn requests_on_the_wrong_queue() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let request = header(Opcode::Getattr as u32, ROOT, 16);
        let sent = [request.as_bytes(), &[0; 16]];
        let completion = guest.hiprio.roundtrip(&sent, &REPLY).unwrap();
        assert_eq!(completion.written, HEADER_LEN + 104);
        let node = guest.lookup(ROOT, b"file").unwrap();
        let forget = header(Opcode::Forget as u32, node, 8);
        let count = 1u64.to_ne_bytes();
        assert_eq!(guest.send_raw(&forget, &count, &REPLY), None);
        assert_eq!(guest.getattr(node), Err(Errno::ESTALE));
    });
}
