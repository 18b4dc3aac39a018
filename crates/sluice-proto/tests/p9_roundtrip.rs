//! Whatever is encoded is decoded to the same, for any values; and any bytes
//! at all are taken apart without harm.

#[path = "common/corpus.rs"]
mod corpus_files;

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_proto::p9::fuzz::fuzz_message;
use sluice_proto::p9::wire::*;

#[test]
fn the_corpus_of_messages_is_harmless() {
    for data in corpus_files::corpus("p9_message") {
        for len in 0..=data.len() {
            fuzz_message(&data[..len]);
        }
    }
}

fn string() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..300)
}

fn check(tag: u16, request: &Request<'_>, dialect: Dialect) -> Result<(), TestCaseError> {
    let mut buf = vec![0xaa; 8192];
    let len = encode_request(tag, request, dialect, &mut buf).unwrap();
    prop_assert_eq!(Header::peek(&buf).unwrap().prefix_len(), len);
    let payload = match request {
        Request::Write { data, .. } => data.len,
        _ => 0,
    };
    let decoded = decode_request(&buf[..len], payload, dialect);
    prop_assert_eq!(decoded, Ok((tag, *request)));
    Ok(())
}

fn any_stat<'a>(numbers: [u64; 4], strings: [&'a [u8]; 4], dialect: Dialect) -> Stat<'a> {
    let [a, b, c, d] = numbers;
    let [name, uid, gid, extension] = strings.map(Str);
    let (extension, n_uid) = match dialect {
        Dialect::Plan9 => (Str(b""), UnixId::NONE),
        _ => (extension, UnixId(d as u32)),
    };
    Stat {
        kind: a as u16,
        dev: b as u32,
        qid: Qid {
            kind: QidType::from_bits_retain(c as u8),
            version: d as u32,
            path: a,
        },
        mode: Perm::from_bits_retain(b as u32),
        atime: c as u32,
        mtime: d as u32,
        length: a ^ b,
        name,
        uid,
        gid,
        muid: uid,
        extension: Extended(extension),
        n_uid: Extended(n_uid),
        ..Stat::LEAVE
    }
}

proptest! {
    #[test]
    fn requests_with_names(
        tag: u16, a: u32, b: u32,
        list in vec(string(), 0..=16),
        one in string(), other in string(),
    ) {
        let names: Vec<&[u8]> = list.iter().map(Vec::as_slice).collect();
        let mut room = vec![0; 8192];
        let names = Names::new(&names, &mut room).unwrap();
        prop_assert_eq!(names.iter().collect::<Vec<_>>(), list.iter().collect::<Vec<_>>());
        for dialect in Dialect::ALL {
            check(tag, &Request::Walk { fid: a, newfid: b, names }, dialect)?;
            let n_uname = Extended(match dialect {
                Dialect::Plan9 => UnixId::NONE,
                _ => UnixId(b),
            });
            let (uname, aname) = (Str(&one), Str(&other));
            check(tag, &Request::Attach { fid: a, afid: b, uname, aname, n_uname }, dialect)?;
        }
        let (fid, newfid, flags) = (a, b, LopenFlags::from_bits_retain(b));
        let (mode, gid) = (b, a);
        check(tag, &Request::OpenAt { fid, newfid, flags, names }, Dialect::Sluice)?;
        check(tag, &Request::CreateAt { fid, newfid, flags, mode, gid, names }, Dialect::Sluice)?;
        check(tag, &Request::StatAt { fid, newfid, names }, Dialect::Sluice)?;
        let renameat = Request::Renameat {
            old_dfid: a, old_name: Str(&one), new_dfid: b, new_name: Str(&other),
        };
        check(tag, &renameat, Dialect::Linux)?;
    }

    #[test]
    fn requests_with_values(tag: u16, fid: u32, offset: u64, bits: u32, len in 0_usize..1 << 24) {
        let data = Payload { len };
        for dialect in Dialect::ALL {
            check(tag, &Request::Write { fid, offset, data }, dialect)?;
            check(tag, &Request::Read { fid, offset, count: bits }, dialect)?;
        }
        let flags = LopenFlags::from_bits_retain(bits);
        check(tag, &Request::Lopen { fid, flags }, Dialect::Linux)?;
    }

    #[test]
    fn stats(tag: u16, fid: u32, numbers: [u64; 4], a in string(), b in string(), c in string()) {
        for dialect in [Dialect::Plan9, Dialect::Unix] {
            let stat = any_stat(numbers, [&a, &b, &c, &a], dialect);
            check(tag, &Request::Wstat { fid, stat: Counted(Counted(stat)) }, dialect)?;
            let mut buf = vec![0; 2048];
            let len = encode_stat(&stat, dialect, &mut buf).unwrap();
            let read: Vec<_> = Stats::new(&buf[..len], dialect).collect();
            prop_assert_eq!(read, vec![Ok(stat)]);
        }
    }

    #[test]
    fn any_bytes_are_taken_apart_without_harm(
        number: u8,
        tag: u16,
        body in vec(prop_oneof![2 => Just(0_u8), 1 => 0..4_u8, 1 => any::<u8>()], 0..200),
    ) {
        let mut message = ((HEADER_LEN + body.len()) as u32).to_le_bytes().to_vec();
        message.push(number);
        message.extend(tag.to_le_bytes());
        message.extend(&body);
        fuzz_message(&message);
    }
}
