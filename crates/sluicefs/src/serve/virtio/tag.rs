//! The name under which a guest mounts the share.

use std::fmt;
use std::str::FromStr;

/// A virtio-fs tag: 1 to 36 bytes of UTF-8 without NUL
/// (Virtual I/O Device 1.3, 5.11.4).
#[derive(Clone, PartialEq, Eq)]
pub struct Tag(String);

impl Tag {
    /// Size of the field in the device's configuration space, in bytes.
    pub const SIZE: usize = 36;

    /// The tag as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The field of the configuration space: padded with NUL bytes.
    pub fn to_config_field(&self) -> [u8; Tag::SIZE] {
        let mut field = [0; Tag::SIZE];
        for (to, from) in field.iter_mut().zip(self.0.bytes()) {
            *to = from;
        }
        field
    }
}

impl FromStr for Tag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.len() {
            0 => Err("a tag cannot be empty".into()),
            len if len > Tag::SIZE => {
                Err(format!("a tag has at most {} bytes, not {len}", Tag::SIZE))
            }
            _ if text.contains('\0') => Err("a tag cannot hold a NUL".into()),
            _ => Ok(Tag(text.to_owned())),
        }
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_fill_their_field() {
        let longest = "x".repeat(36);
        assert_eq!(
            longest.parse::<Tag>().unwrap().to_config_field(),
            [b'x'; 36]
        );
        let field = "build".parse::<Tag>().unwrap().to_config_field();
        assert_eq!(&field[..6], b"build\0");
        assert!(field[5..].iter().all(|&byte| byte == 0));
        for text in ["", "a\0b", &"x".repeat(37), &"é".repeat(19)] {
            assert!(text.parse::<Tag>().is_err(), "{text:?}");
        }
    }
}
