//! The split virtqueue's layout (VIRTIO 1.3, section 2.7), for both ends.

use bitflags::bitflags;

/// Largest queue this crate works with, which is the largest that a VMM offers;
/// also keeps a chain within one `preadv`.
pub const MAX_QUEUE_SIZE: u16 = 1024;

/// `VIRTIO_RING_F_INDIRECT_DESC`, as a bit.
pub const F_INDIRECT_DESC: u64 = 1 << 28;
/// `VIRTIO_RING_F_EVENT_IDX`, as a bit.
pub const F_EVENT_IDX: u64 = 1 << 29;
/// `VIRTIO_F_VERSION_1`, as a bit.
pub const F_VERSION_1: u64 = 1 << 32;

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 16;
/// Bytes of an element of the used ring.
pub const USED_ELEMENT_BYTES: usize = 8;

/// `VIRTQ_AVAIL_F_NO_INTERRUPT`: the driver wants no signal.
pub const AVAIL_NO_INTERRUPT: u16 = 1;
/// `VIRTQ_USED_F_NO_NOTIFY`: the device wants no kick.
pub const USED_NO_NOTIFY: u16 = 1;

/// Offset of `flags`, in either ring.
pub const RING_FLAGS: usize = 0;
/// Offset of `idx`, in either ring.
pub const RING_IDX: usize = 2;
/// Offset of the first element, in either ring.
pub const RING_ELEMENTS: usize = 4;

bitflags! {
    /// `flags` of a descriptor (section 2.7.5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DescriptorFlags: u16 {
        /// `next` names another descriptor of the chain.
        const NEXT = 1;
        /// The device writes this buffer.
        const WRITE = 2;
        /// The buffer is a table of descriptors.
        const INDIRECT = 4;
        const _ = !0;
    }
}

/// `struct virtq_desc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Guest-physical address of the buffer.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// What the buffer is.
    pub flags: DescriptorFlags,
    /// Index of the next descriptor, with [`DescriptorFlags::NEXT`].
    pub next: u16,
}

impl Descriptor {
    /// From its bytes in memory.
    pub fn from_bytes(bytes: [u8; DESCRIPTOR_BYTES]) -> Self {
        let [
            a0,
            a1,
            a2,
            a3,
            a4,
            a5,
            a6,
            a7,
            l0,
            l1,
            l2,
            l3,
            f0,
            f1,
            n0,
            n1,
        ] = bytes;
        Descriptor {
            addr: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
            flags: DescriptorFlags::from_bits_retain(u16::from_le_bytes([f0, f1])),
            next: u16::from_le_bytes([n0, n1]),
        }
    }

    /// Its bytes in memory.
    pub fn to_bytes(self) -> [u8; DESCRIPTOR_BYTES] {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.addr.to_le_bytes();
        let [l0, l1, l2, l3] = self.len.to_le_bytes();
        let [f0, f1] = self.flags.bits().to_le_bytes();
        let [n0, n1] = self.next.to_le_bytes();
        [
            a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, f0, f1, n0, n1,
        ]
    }
}

/// Bytes of a descriptor table.
pub const fn descriptor_table_bytes(size: u16) -> usize {
    size as usize * DESCRIPTOR_BYTES
}

/// Bytes of an available ring, `used_event` included.
pub const fn avail_bytes(size: u16) -> usize {
    used_event_offset(size) + 2
}

/// Bytes of a used ring, `avail_event` included.
pub const fn used_bytes(size: u16) -> usize {
    avail_event_offset(size) + 2
}

/// Offset of `ring[slot]` in the available ring.
pub const fn avail_element_offset(slot: u16) -> usize {
    RING_ELEMENTS + slot as usize * 2
}

/// Offset of `ring[slot]` in the used ring.
pub const fn used_element_offset(slot: u16) -> usize {
    RING_ELEMENTS + slot as usize * USED_ELEMENT_BYTES
}

/// Offset of `used_event`, behind the available ring.
pub const fn used_event_offset(size: u16) -> usize {
    avail_element_offset(size)
}

/// Offset of `avail_event`, behind the used ring.
pub const fn avail_event_offset(size: u16) -> usize {
    used_element_offset(size)
}

/// Whether an index that moved from `old` to `new` passed `event`, so that the other
/// side wants to know (section 2.7.10, `vring_need_event`).
pub const fn passed_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_bytes_are_those_of_the_specification() {
        let descriptor = Descriptor {
            addr: 0x1122_3344_5566_7788,
            len: 0x99aa_bbcc,
            flags: DescriptorFlags::NEXT | DescriptorFlags::WRITE,
            next: 0xddee,
        };
        let bytes = [
            0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // addr
            0xcc, 0xbb, 0xaa, 0x99, // len
            0x03, 0x00, // flags
            0xee, 0xdd, // next
        ];
        assert_eq!(descriptor.to_bytes(), bytes);
        assert_eq!(Descriptor::from_bytes(bytes), descriptor);
    }

    #[test]
    fn ring_sizes_are_those_of_the_specification() {
        // Section 2.7: 16 * size, 6 + 2 * size, 6 + 8 * size.
        assert_eq!(descriptor_table_bytes(128), 2048);
        assert_eq!(avail_bytes(128), 262);
        assert_eq!(used_bytes(128), 1030);
    }

    #[test]
    fn an_event_is_passed_once_also_around_the_wrap() {
        assert!(passed_event(5, 6, 5));
        assert!(!passed_event(6, 6, 5));
        assert!(!passed_event(4, 6, 5));
        assert!(passed_event(4, 7, 3));
        assert!(passed_event(0xffff, 0, 0xffff));
        assert!(passed_event(0xfffe, 1, 0xfffe));
        assert!(!passed_event(1, 1, 0xfffe));
    }
}
