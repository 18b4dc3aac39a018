//! Notifications: what a server says without being asked. On the wire they are
//! replies to request 0 whose error field holds a code.

use super::args::wire_structs;
use super::field::{CBytes, CountHead, Counted, Field, Reader, Rest, Writer, fixed};
use super::flags::InvalEntryFlags;
use super::message::{encode_out, split_out_header};
use crate::codec::{BufferTooSmall, Malformed};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

wire_structs! {
    /// POLL.
    struct NotifyPollWakeupOut {
        /// Kernel's handle of the poll.
        kh: u64,
    }

    /// INVAL_INODE.
    struct NotifyInvalInodeOut {
        /// The node.
        ino: u64,
        /// First byte whose content changed; negative: attributes only.
        off: i64,
        /// Bytes that changed; 0 or less: to the end.
        len: i64,
    }

    /// INVAL_ENTRY.
    struct NotifyInvalEntryOut {
        /// The directory.
        parent: u64,
        /// Bytes of the name, its NUL not counted.
        namelen: u32,
        /// Drop or expire.
        flags: InvalEntryFlags,
    }

    /// DELETE.
    struct NotifyDeleteOut {
        /// The directory.
        parent: u64,
        /// The node that the name led to.
        child: u64,
        /// Bytes of the name, its NUL not counted.
        namelen: u32,
        /// Zero.
        padding: u32,
    }

    /// STORE.
    struct NotifyStoreOut {
        /// The node.
        nodeid: u64,
        /// Offset in bytes.
        offset: u64,
        /// Bytes that follow.
        size: u32,
        /// Zero.
        padding: u32,
    }

    /// RETRIEVE.
    struct NotifyRetrieveOut {
        /// Names the request for the peer's reply.
        notify_unique: u64,
        /// The node.
        nodeid: u64,
        /// Offset in bytes.
        offset: u64,
        /// Most bytes of the reply.
        size: u32,
        /// Zero.
        padding: u32,
    }

    /// Head of PRUNE.
    struct NotifyPruneOut {
        /// Node ids that follow.
        count: u32,
        /// Zero.
        padding: u32,
        /// Zero.
        spare: u64,
    }

    /// A node id in a list.
    struct PrunedNode {
        /// The node.
        nodeid: u64,
    }
}

fixed! {
    NotifyPollWakeupOut: 8, NotifyInvalInodeOut: 24, NotifyInvalEntryOut: 16, NotifyDeleteOut: 24,
    NotifyStoreOut: 24, NotifyRetrieveOut: 32, NotifyPruneOut: 16, PrunedNode: 8,
}

impl CountHead for NotifyPruneOut {
    fn count(&self) -> u32 {
        self.count
    }

    fn with_count(count: u32) -> Self {
        NotifyPruneOut {
            count,
            ..NotifyPruneOut::default()
        }
    }
}

/// Generates [`NotifyCode`] and [`Notification`].
macro_rules! notifications {
    ($($(#[$doc:meta])* $name:ident = $code:literal { $($field:ident: $ty:ty),* };)*) => {
        /// Kind of a notification (`enum fuse_notify_code`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum NotifyCode {
            $($(#[$doc])* $name = $code,)*
        }

        impl NotifyCode {
            /// Every code.
            pub const ALL: &'static [NotifyCode] = &[$(NotifyCode::$name),*];
        }

        /// A notification behind its header.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // the fields are those of the specification
        pub enum Notification<'a> {
            $($(#[$doc])* $name { $($field: $ty),* },)*
        }

        impl<'a> Notification<'a> {
            /// Which kind it is.
            pub const fn code(&self) -> NotifyCode {
                match self {
                    $(Notification::$name { .. } => NotifyCode::$name,)*
                }
            }

            fn decode(code: i32, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
                Ok(match code {
                    $($code => Notification::$name { $($field: Field::decode(reader)?),* },)*
                    _ => return Err(Malformed::Value {
                        field: "notification code",
                        value: code as u32 as u64,
                    }),
                })
            }

            fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
                match self {
                    $(Notification::$name { $($field),* } => { $($field.encode(writer)?;)* })*
                }
                Ok(())
            }
        }
    };
}

notifications! {
    /// Something happened on a polled file.
    Poll = 1 { args: NotifyPollWakeupOut };
    /// Attributes or content of a node are no longer good.
    InvalInode = 2 { args: NotifyInvalInodeOut };
    /// A name is no longer good.
    InvalEntry = 3 { args: NotifyInvalEntryOut, name: CBytes<'a> };
    /// Content for the peer's cache.
    Store = 4 { args: NotifyStoreOut, data: Rest<'a> };
    /// Content is wanted from the peer's cache.
    Retrieve = 5 { args: NotifyRetrieveOut };
    /// A name is gone.
    Delete = 6 { args: NotifyDeleteOut, name: CBytes<'a> };
    /// Unanswered requests are to be sent again (7.40).
    Resend = 7 {};
    /// No name that is cached is good any more (7.44).
    IncEpoch = 8 {};
    /// Nodes should be forgotten if they can (7.45).
    Prune = 9 { nodes: Counted<'a, NotifyPruneOut, PrunedNode> };
}

/// Decodes a notification.
pub fn decode_notification(message: &[u8]) -> Result<Notification<'_>, Malformed> {
    let (header, mut reader) = split_out_header(message)?;
    if header.unique != 0 {
        return Err(Malformed::Value {
            field: "OutHeader.unique",
            value: header.unique,
        });
    }
    let notification = Notification::decode(header.error, &mut reader)?;
    reader.end()?;
    check_counts(&notification)?;
    Ok(notification)
}

/// Writes a notification to the start of `buf`; returns its bytes.
pub fn encode_notification(
    notification: &Notification<'_>,
    buf: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    encode_out(buf, notification.code() as i32, 0, |writer| {
        notification.encode(writer)
    })
}

impl<'a> Notification<'a> {
    /// INVAL_ENTRY of `name` in `parent`.
    pub fn inval_entry(parent: u64, name: &'a [u8], flags: InvalEntryFlags) -> Self {
        Notification::InvalEntry {
            args: NotifyInvalEntryOut {
                parent,
                namelen: name.len() as u32,
                flags,
            },
            name: CBytes(name),
        }
    }
}

/// Compares sizes that a notification states with what follows.
fn check_counts(notification: &Notification<'_>) -> Result<(), Malformed> {
    let (field, stated, have) = match notification {
        Notification::InvalEntry { args, name } => {
            ("NotifyInvalEntryOut.namelen", args.namelen, name.0.len())
        }
        Notification::Delete { args, name } => {
            ("NotifyDeleteOut.namelen", args.namelen, name.0.len())
        }
        Notification::Store { args, data } => ("NotifyStoreOut.size", args.size, data.0.len()),
        _ => return Ok(()),
    };
    if stated as usize != have {
        return Err(Malformed::Count {
            field,
            stated: stated.into(),
            have: have as u64,
        });
    }
    Ok(())
}
