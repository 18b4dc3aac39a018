//! Notifications.

use crate::{assert_encodes, bytes};
use sluice_proto::fuse::wire::*;

#[test]
fn every_notification_is_read_and_written_as_the_kernel_lays_it_out() {
    let pruned = [PrunedNode { nodeid: 0x21 }, PrunedNode { nodeid: 0x22 }];
    let cases = [
        (
            Notification::Poll {
                args: NotifyPollWakeupOut { kh: 0x51 },
            },
            "18000000 01000000 | len 24, code POLL
             00000000 00000000 | unique
             51000000 00000000 | kh",
        ),
        (
            Notification::InvalInode {
                args: NotifyInvalInodeOut {
                    ino: 0x21,
                    off: -1,
                    len: 0,
                },
            },
            "28000000 02000000 | len 40, code INVAL_INODE
             00000000 00000000 | unique
             21000000 00000000 | ino
             ffffffff ffffffff | off
             00000000 00000000 | len",
        ),
        (
            Notification::inval_entry(0x21, b"ab", InvalEntryFlags::EXPIRE_ONLY),
            "23000000 03000000 | len 35, code INVAL_ENTRY
             00000000 00000000 | unique
             21000000 00000000 | parent
             02000000 01000000 | namelen, flags EXPIRE_ONLY
             6162 00 | name",
        ),
        (
            Notification::Store {
                args: NotifyStoreOut {
                    nodeid: 0x21,
                    offset: 0x1000,
                    size: 2,
                    padding: 0,
                },
                data: Rest(b"hi"),
            },
            "2a000000 04000000 | len 42, code STORE
             00000000 00000000 | unique
             21000000 00000000 | nodeid
             00100000 00000000 | offset
             02000000 00000000 | size, padding
             6869 | data",
        ),
        (
            Notification::Retrieve {
                args: NotifyRetrieveOut {
                    notify_unique: 0x99,
                    nodeid: 0x21,
                    offset: 0x1000,
                    size: 0x2000,
                    padding: 0,
                },
            },
            "30000000 05000000 | len 48, code RETRIEVE
             00000000 00000000 | unique
             99000000 00000000 | notify_unique
             21000000 00000000 | nodeid
             00100000 00000000 | offset
             00200000 00000000 | size, padding",
        ),
        (
            Notification::Delete {
                args: NotifyDeleteOut {
                    parent: 0x21,
                    child: 0x22,
                    namelen: 1,
                    padding: 0,
                },
                name: CBytes(b"x"),
            },
            "2a000000 06000000 | len 42, code DELETE
             00000000 00000000 | unique
             21000000 00000000 | parent
             22000000 00000000 | child
             01000000 00000000 | namelen, padding
             78 00 | name",
        ),
        (
            Notification::Resend {},
            "10000000 07000000 | len 16, code RESEND
             00000000 00000000 | unique",
        ),
        (
            Notification::IncEpoch {},
            "10000000 08000000 | len 16, code INC_EPOCH
             00000000 00000000 | unique",
        ),
        (
            Notification::Prune {
                nodes: Counted::new(&pruned),
            },
            "30000000 09000000 | len 48, code PRUNE
             00000000 00000000 | unique
             02000000 00000000 | count, padding
             00000000 00000000 | spare
             21000000 00000000 22000000 00000000 | nodeids",
        ),
    ];
    for (notification, text) in &cases {
        let golden = bytes(text);
        let name = format!("{:?}", notification.code());
        assert_eq!(decode_notification(&golden), Ok(*notification), "{name}");
        assert_encodes(&name, &golden, |buf| encode_notification(notification, buf));
        for short in 0..golden.len() {
            assert!(decode_notification(&golden[..short]).is_err(), "{name}");
        }
    }
    for code in NotifyCode::ALL {
        assert!(
            cases.iter().any(|(case, _)| case.code() == *code),
            "no golden bytes for {code:?}"
        );
    }
}

#[test]
fn notifications_with_wrong_codes_or_counts_are_refused() {
    let unknown = bytes("10000000 0a000000 00000000 00000000 | code 10");
    assert!(matches!(
        decode_notification(&unknown),
        Err(Malformed::Value { value: 10, .. })
    ));
    let reply = bytes("10000000 07000000 01000000 00000000 | a unique");
    assert!(decode_notification(&reply).is_err());
    let long_name = bytes(
        "22000000 03000000 00000000 00000000
         21000000 00000000 02000000 00000000 | namelen 2
         61 00 | name of 1",
    );
    assert!(matches!(
        decode_notification(&long_name),
        Err(Malformed::Count {
            stated: 2,
            have: 1,
            ..
        })
    ));
}
