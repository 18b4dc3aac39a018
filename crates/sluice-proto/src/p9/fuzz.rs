//! Bodies of the fuzz targets. Every input must come through without a panic,
//! and what they check must hold for any bytes at all.

use super::wire::{
    Dialect, Dirents, Header, Stats, decode_reply, decode_request, encode_failure, encode_reply,
    encode_request,
};

/// Takes `data` for every kind of message, in every dialect. What can be
/// decoded must, encoded again, be the same bytes.
pub fn fuzz_message(data: &[u8]) {
    let prefix_len = Header::peek(data).map_or(data.len(), |header| header.prefix_len());
    let (prefix, payload) = data.split_at(prefix_len.min(data.len()));
    let mut buf = vec![0xaa; data.len()];
    for dialect in Dialect::ALL {
        if let Ok((tag, request)) = decode_request(prefix, payload.len(), dialect) {
            let len = encode_request(tag, &request, dialect, &mut buf);
            assert_eq!(len, Ok(prefix.len()), "{request:?}");
            assert_eq!(buf.get(..prefix.len()), Some(prefix), "{request:?}");
        }
        if let Ok(message) = decode_reply(prefix, payload.len(), dialect) {
            let len = match &message.result {
                Ok(reply) => encode_reply(message.tag, reply, dialect, &mut buf),
                Err(failure) => encode_failure(message.tag, failure, dialect, &mut buf),
            };
            assert_eq!(len, Ok(prefix.len()), "{message:?}");
            assert_eq!(buf.get(..prefix.len()), Some(prefix), "{message:?}");
        }
        assert!(Stats::new(data, dialect).count() <= data.len());
    }
    assert!(Dirents(data).count() <= data.len());
}
