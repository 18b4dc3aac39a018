//! Golden bytes as annotated text.

use sluice_proto::codec::BufferTooSmall;

/// The bytes of an annotated text: hexadecimal digits up to a `|` on each line.
/// A line that is the name of one of `blocks` stands for that block's text.
pub(crate) fn bytes_with(text: &str, blocks: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let digits = line.split('|').next().unwrap_or("").trim();
        if let Some((_, block)) = blocks.iter().find(|(name, _)| *name == digits) {
            out.extend(bytes_with(block, &[]));
            continue;
        }
        let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
        assert!(digits.len().is_multiple_of(2), "odd digits in `{line}`");
        out.extend(digits.chunks(2).map(|pair| {
            u8::from_str_radix(&pair.iter().collect::<String>(), 16)
                .unwrap_or_else(|_| panic!("not hexadecimal: `{line}`"))
        }));
    }
    out
}

/// Runs `encode` into buffers filled with two patterns and compares what it
/// wrote: a byte that it leaves alone shows, and so does one too many.
pub(crate) fn assert_encodes(
    name: &str,
    golden: &[u8],
    encode: impl Fn(&mut [u8]) -> Result<usize, BufferTooSmall>,
) {
    for fill in [0xaa, 0x55] {
        let mut buf = vec![fill; golden.len() + 8];
        assert_eq!(encode(&mut buf), Ok(golden.len()), "{name}: length");
        assert_eq!(&buf[..golden.len()], golden, "{name}: bytes");
        assert!(
            buf[golden.len()..].iter().all(|&byte| byte == fill),
            "{name}: writes behind its end"
        );
    }
    for short in 0..golden.len() {
        assert!(encode(&mut vec![0; short]).is_err(), "{name}: fits {short}");
    }
}
