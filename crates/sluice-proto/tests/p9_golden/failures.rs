//! Rerror and Rlerror; and messages that are none.

use crate::{TAG, assert_encodes, bytes};
use sluice_proto::p9::wire::*;

fn check(dialect: Dialect, failure: Failure<'_>, text: &str) {
    let golden = bytes(text);
    assert_encodes("a failure", &golden, |buf| {
        encode_failure(TAG, &failure, dialect, buf)
    });
    let expected = ReplyMessage {
        tag: TAG,
        result: Err(failure),
    };
    assert_eq!(decode_reply(&golden, 0, dialect), Ok(expected));
}

#[test]
fn errors_are_words_a_number_or_both() {
    check(
        Dialect::Plan9,
        Failure {
            ename: Str(b"no"),
            errno: 0,
        },
        "0b000000 6b 1122 | size 11, Rerror\n 0200 6e6f",
    );
    check(
        Dialect::Unix,
        Failure {
            ename: Str(b"no"),
            errno: 2,
        },
        "0f000000 6b 1122 | size 15, Rerror\n 0200 6e6f 02000000",
    );
    check(
        Dialect::Linux,
        Failure {
            ename: Str(b""),
            errno: 95,
        },
        "0b000000 07 1122 | size 11, Rlerror\n 5f000000",
    );
}

#[test]
fn an_error_of_another_dialect_is_none() {
    let rlerror = bytes("0b000000 07 1122\n 5f000000");
    let rerror = bytes("0b000000 6b 1122\n 0200 6e6f");
    assert!(decode_reply(&rlerror, 0, Dialect::Unix).is_err());
    assert!(decode_reply(&rerror, 0, Dialect::Linux).is_err());
}

fn why(text: &str) -> Malformed {
    decode_request(&bytes(text), 0, Dialect::Linux).expect_err("it is no message")
}

#[test]
fn what_is_wrong_with_a_message_is_told_apart() {
    let short = Malformed::ShortHeader { have: 6, need: 7 };
    assert_eq!(why("0b000000 78 11"), short);
    for stated in ["0a", "0c", "00"] {
        let text = format!("{stated}000000 78 1122\n 01000000");
        assert!(matches!(why(&text), Malformed::Length { have: 11, .. }));
    }
    let within = why("0a000000 78 1122\n 010000");
    assert_eq!(within, Malformed::Short { field: "u32" });
    let behind = why("0c000000 78 1122\n 01000000 00");
    assert_eq!(behind, Malformed::Trailing { count: 1 });
    // Tlerror, Terror, Topen (which Linux's dialect lacks), an R-message, nothing.
    for number in ["06", "6a", "70", "79", "00", "ff", "50"] {
        let text = format!("0b000000 {number} 1122\n 01000000");
        assert!(
            matches!(why(&text), Malformed::UnknownOpcode(_)),
            "{number}"
        );
    }
    // A string that is longer than its message.
    let long = why("11000000 46 1122\n 01000000 02000000 0200");
    assert!(matches!(long, Malformed::Short { .. }));
}

#[test]
fn a_walk_has_sixteen_names_at_most() {
    let walk = |count: usize| {
        let mut out = vec![0, 0, 0, 0, 110, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0];
        out.extend((count as u16).to_le_bytes());
        out.extend([1, 0, b'a'].repeat(count));
        out[0] = out.len() as u8;
        decode_request(&out, 0, Dialect::Plan9).map(drop)
    };
    assert_eq!(walk(16), Ok(()));
    assert!(matches!(walk(17), Err(Malformed::Value { value: 17, .. })));
    let names: Vec<&[u8]> = vec![b"a"; 17];
    assert!(Names::new(&names, &mut [0; 100]).is_err());
}

#[test]
fn a_write_states_what_it_brings() {
    let head = bytes("1b000000 76 1122\n 03000000 0000000000000000 04000000");
    assert!(decode_request(&head, 4, Dialect::Plan9).is_ok());
    let lying = bytes("1b000000 76 1122\n 03000000 0000000000000000 ffffffff");
    let why = decode_request(&lying, 4, Dialect::Plan9);
    assert!(matches!(why, Err(Malformed::Count { have: 4, .. })));
}

#[test]
fn a_stat_fills_its_size() {
    let whole = |outer: &str, inner: &str, rest: &str| {
        let stat = "ffff ffffffff ff ffffffff ffffffffffffffff
             ffffffff ffffffff ffffffff ffffffffffffffff
             0000 0000 0000 0000";
        let mut out = bytes(&format!(
            "00000000 7e 1122\n 04000000\n {outer}\n {inner}\n {stat}\n {rest}"
        ));
        out[0] = out.len() as u8;
        decode_request(&out, 0, Dialect::Plan9).map(drop)
    };
    assert_eq!(whole("3100", "2f00", ""), Ok(()));
    assert!(whole("3100", "2e00", "").is_err());
    assert!(whole("3000", "2f00", "").is_err());
    assert!(whole("3200", "2f00", "00").is_err());
    assert!(whole("3200", "3000", "00").is_err());
}
