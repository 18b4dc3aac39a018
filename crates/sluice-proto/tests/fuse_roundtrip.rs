//! Whatever is encoded is decoded to the same, for any values; and any bytes
//! at all are taken apart without harm.

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_proto::fuse::wire::*;

fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(1_u8..=255, 0..300)
}

fn head() -> impl Strategy<Value = RequestHead> {
    any::<(u64, u64, u32, u32, u32)>().prop_map(|(unique, nodeid, uid, gid, pid)| RequestHead {
        unique,
        nodeid,
        uid,
        gid,
        pid,
    })
}

fn check(
    head: &RequestHead,
    operation: &Operation<'_>,
    dialect: Dialect,
) -> Result<(), TestCaseError> {
    let payload_len = match operation {
        Operation::Write { data, .. } | Operation::NotifyReply { data, .. } => data.len,
        _ => 0,
    };
    let mut buf = vec![0xaa; PREFIX_MAX];
    let len = encode_request(head, operation, dialect, &mut buf).unwrap();
    prop_assert_eq!(prefix_len(&buf), Ok(len));
    let decoded = Request::decode(&buf[..len], payload_len, dialect);
    let expected = Request {
        head: *head,
        operation: *operation,
    };
    prop_assert_eq!(decoded, Ok(expected));
    Ok(())
}

proptest! {
    #[test]
    fn requests_with_names(head in head(), a in name(), b in name(), number in any::<u64>()) {
        let dialect = Dialect::default();
        let (a, b) = (CBytes(&a), CBytes(&b));
        check(&head, &Operation::Lookup { name: a }, dialect)?;
        let args = RenameIn { newdir: number };
        check(&head, &Operation::Rename { args, old_name: a, new_name: b }, dialect)?;
        let args = LinkIn { oldnodeid: number };
        check(&head, &Operation::Link { args, name: b }, dialect)?;
    }

    #[test]
    fn requests_with_extensions(
        head in head(),
        target in name(),
        label in proptest::option::of((name(), vec(any::<u8>(), 0..200))),
        groups in vec(any::<u32>(), 0..=SUPP_GROUPS_MAX),
    ) {
        let label = label
            .as_ref()
            .map(|(name, value)| Label { name, value });
        let operation = Operation::Symlink {
            name: CBytes(b"s"),
            target: CBytes(&target),
            extensions: Extensions { label, groups: Groups::new(&groups) },
        };
        check(&head, &operation, Dialect::default())?;
    }

    #[test]
    fn requests_with_values(
        head in head(),
        key in name(),
        value in vec(any::<u8>(), 0..2000),
        flags in any::<u32>(),
        setxattr_ext in any::<bool>(),
    ) {
        let dialect = Dialect { setxattr_ext };
        let args = SetxattrIn { size: value.len() as u32, flags, ..SetxattrIn::default() };
        let operation = Operation::Setxattr { args, name: CBytes(&key), value: Rest(&value) };
        check(&head, &operation, dialect)?;
        let args = IoctlIn { in_size: value.len() as u32, cmd: flags, ..IoctlIn::default() };
        check(&head, &Operation::Ioctl { args, data: Rest(&value) }, dialect)?;
        let args = WriteIn { size: value.len() as u32, ..WriteIn::default() };
        let data = Payload { len: value.len() };
        check(&head, &Operation::Write { args, data }, dialect)?;
    }

    #[test]
    fn requests_with_lists(head in head(), items in vec(any::<(u64, u64)>(), 0..300)) {
        let items: Vec<_> = items
            .into_iter()
            .map(|(nodeid, nlookup)| ForgetOne { nodeid, nlookup })
            .collect();
        let nodes = Counted::new(&items);
        prop_assert_eq!(nodes.iter().collect::<Vec<_>>(), items.clone());
        check(&head, &Operation::BatchForget { nodes }, Dialect::default())?;
    }

    #[test]
    fn listings(names in vec(name(), 0..40), ino in any::<u64>(), off in any::<u64>()) {
        let mut listing = Vec::new();
        for name in &names {
            let dirent = Dirent { ino, off, namelen: 0, kind: 4 };
            let mut buf = vec![0xaa; dirent_len(name.len())];
            prop_assert_eq!(encode_dirent(&dirent, name, &mut buf), Ok(buf.len()));
            listing.extend(buf);
        }
        let read: Vec<Vec<u8>> = Dirents(&listing)
            .map(|record| record.unwrap().name.to_vec())
            .collect();
        prop_assert_eq!(read, names);
    }

    #[test]
    fn any_bytes_are_taken_apart_without_harm(
        opcode in 0_u32..60,
        ext in 0_u16..4,
        body in vec(prop_oneof![Just(0_u8), any::<u8>()], 0..200),
    ) {
        let mut message = Vec::new();
        message.extend(((40 + body.len()) as u32).to_ne_bytes());
        message.extend(opcode.to_ne_bytes());
        message.extend([0; 28]);
        message.extend(ext.to_ne_bytes());
        message.extend([0; 2]);
        message.extend(&body);
        let decoded = Request::decode(&message, 0, Dialect::default());
        if let Ok(request) = decoded {
            prop_assert_eq!(request.operation.opcode() as u32, opcode);
        }
        for &opcode in Opcode::ALL {
            let _ = decode_reply(opcode, &message);
        }
        let _ = decode_notification(&message);
        let _ = Dirents(&message).count();
        let _ = Direntpluses(&message).count();
    }
}
