//! What the configuration space of a virtio-fs device looks like (VIRTIO 1.3, section
//! 5.11).

/// The device's type (`VIRTIO_ID_FS`).
pub const DEVICE_ID: u32 = 26;

/// Longest tag, in bytes.
pub const MAX_TAG_BYTES: usize = 36;

/// Queue that FORGET comes on, so that it does not wait behind requests.
pub const HIPRIO_QUEUE: u16 = 0;

/// Bytes of the configuration space, `notify_buf_size` included.
pub const CONFIG_BYTES: usize = 44;

/// A tag that does not fit, or is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a tag has 1 to {MAX_TAG_BYTES} bytes, none of them NUL")]
pub struct BadTag;

/// The configuration space of a device with `tag` and so many request queues:
/// `char tag[36]; le32 num_request_queues; le32 notify_buf_size`.
pub fn config_space(tag: &[u8], request_queues: u32) -> Result<[u8; CONFIG_BYTES], BadTag> {
    if tag.is_empty() || tag.contains(&0) {
        return Err(BadTag);
    }
    let mut space = [0; CONFIG_BYTES];
    let (name, numbers) = space.split_at_mut(MAX_TAG_BYTES);
    name.get_mut(..tag.len())
        .ok_or(BadTag)?
        .copy_from_slice(tag);
    for (field, byte) in numbers.iter_mut().zip(request_queues.to_le_bytes()) {
        *field = byte;
    }
    Ok(space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_padded_and_the_number_of_queues_follows() {
        let space = config_space(b"share", 0x0102_0304).unwrap();
        assert_eq!(&space[..6], b"share\0");
        assert!(space[6..36].iter().all(|byte| *byte == 0));
        assert_eq!(space[36..], [4, 3, 2, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_tag_may_be_36_bytes_long_and_no_longer() {
        assert_eq!(config_space(&[b'x'; 36], 1).unwrap()[35], b'x');
        assert_eq!(config_space(&[b'x'; 37], 1), Err(BadTag));
        assert_eq!(config_space(b"", 1), Err(BadTag));
        assert_eq!(config_space(b"a\0b", 1), Err(BadTag));
    }
}
