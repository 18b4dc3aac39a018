//! Every 9P message, byte for byte, in both directions and every dialect that
//! has it.
//!
//! The bytes are written down by hand, field by field, from section 5 of the
//! Plan 9 manual, the draft of 9P2000.u, diod's description of 9P2000.L, and
//! docs/9p-extension.md; no encoder made them.

mod failures;
mod fused;
#[path = "../common/golden.rs"]
mod golden;
mod linux;
mod plan9;

use golden::assert_encodes;
use sluice_proto::p9::wire::*;

/// All that a request or reply of the tests is tagged with.
const TAG: u16 = 0x2211;

const QID: Qid = Qid {
    kind: QidType::DIR,
    version: 0x0403_0201,
    path: 0x0c0b_0a09_0807_0605,
};

/// The same in bytes.
const QID_TEXT: &str = "80 01020304 05060708 090a0b0c | type, version, path";

fn bytes(text: &str) -> Vec<u8> {
    golden::bytes_with(text, &[("QID", QID_TEXT)])
}

/// Which messages were seen, in which dialect.
#[derive(Default)]
struct Seen(Vec<(Type, Dialect)>);

impl Seen {
    /// Makes sure that `dialects` have been seen with all their messages.
    fn assert_all(&self, dialects: &[Dialect], but: &[Type]) {
        for &dialect in dialects {
            let due = Type::ALL.iter().filter(|kind| kind.is_in(dialect));
            for kind in due.filter(|kind| !but.contains(kind)) {
                let is_seen = self.0.contains(&(*kind, dialect));
                assert!(is_seen, "no golden bytes for {kind:?} in {dialect:?}");
            }
        }
    }

    /// A T-message. A payload is counted in the text, and not in it.
    fn request(&mut self, dialect: Dialect, request: Request<'_>, text: &str) {
        let name = format!("{request:?}");
        let golden = bytes(text);
        assert_encodes(&name, &golden, |buf| {
            encode_request(TAG, &request, dialect, buf)
        });
        let payload = match request {
            Request::Write { data, .. } => data.len,
            _ => 0,
        };
        let decoded = decode_request(&golden, payload, dialect);
        assert_eq!(decoded, Ok((TAG, request)), "{name}");
        assert_size(&golden, payload);
        let cut = golden.len() - 1;
        assert!(decode_request(&golden[..cut], payload, dialect).is_err());
        for other in Dialect::ALL {
            let is_known = !matches!(
                decode_request(&golden, payload, other),
                Err(Malformed::UnknownOpcode(_))
            );
            assert_eq!(is_known, request.kind().is_in(other), "{name} in {other:?}");
        }
        self.0.push((request.kind(), dialect));
    }

    /// An R-message; as [`Seen::request`].
    fn reply(&mut self, dialect: Dialect, reply: Reply<'_>, text: &str) {
        let name = format!("{reply:?}");
        let golden = bytes(text);
        assert_encodes(&name, &golden, |buf| {
            encode_reply(TAG, &reply, dialect, buf)
        });
        let payload = match reply {
            Reply::Read { data } | Reply::Readdir { entries: data } => data.len,
            _ => 0,
        };
        let decoded = decode_reply(&golden, payload, dialect);
        let expected = ReplyMessage {
            tag: TAG,
            result: Ok(reply),
        };
        assert_eq!(decoded, Ok(expected), "{name}");
        assert_size(&golden, payload);
        let cut = golden.len() - 1;
        assert!(decode_reply(&golden[..cut], payload, dialect).is_err());
        self.0.push((reply.kind(), dialect));
    }
}

/// A transport finds the end of the prefix by the header alone.
fn assert_size(golden: &[u8], payload: usize) {
    let header = Header::peek(golden).expect("there is a header");
    assert_eq!(header.size as usize, golden.len() + payload);
    assert_eq!(header.prefix_len(), golden.len());
    assert_eq!(header.tag, TAG);
}
