//! A virtio-fs device that answers at once, from memory, and does nothing: the
//! floor below which no server gets.

use super::cells::many_names;
use crate::bench::error::{BenchError, Context};
use crate::bench::fixture::Fixture;
use sluice_crew::Polling;
use sluice_proto::fuse::wire::{
    Attr, AttrOut, Dirent, Direntplus, EntryOut, InitOut, MAJOR, MINOR, OpenOut, Operation,
    OutHeader, Reply, Request, Rest, WriteOut, direntplus_len, encode_direntplus, encode_error,
    encode_reply, prefix_len,
};
use sluice_vfs::Errno;
use sluice_virtio::queue::Chain;
use sluice_virtio::vhost_user::{Backend, Device, Listener};
use std::borrow::Cow;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

/// hiprio and one request queue.
const QUEUES: u16 = 2;

/// Bytes of a virtio-fs device's configuration: the tag, and the number of
/// request queues.
const CONFIG: usize = 40;

/// The node that every name stands for.
const NODE: u64 = 2;

/// Room for the longest request prefix and the longest reply.
const BUFFER: usize = 64 * 1024;

/// Serves one connection after the other at `socket`, until killed.
///
/// # Errors
/// When it cannot listen.
pub fn serve(socket: &Path, polling: Polling) -> Result<(), BenchError> {
    let listener = Listener::bind(socket).context(socket.display())?;
    let backend = Backend::new(Arc::new(NullDevice::new(polling))).context("device")?;
    loop {
        backend.serve_next(&listener).context("connection")?;
    }
}

struct NullDevice {
    polling: Polling,
    /// The whole listing, as READDIRPLUS gives it.
    listing: Vec<u8>,
    /// Where the entry begins that has this number.
    starts: Vec<usize>,
}

impl NullDevice {
    fn new(polling: Polling) -> Self {
        let mut device = NullDevice {
            polling,
            listing: Vec::new(),
            starts: Vec::new(),
        };
        for (index, name) in many_names().iter().enumerate() {
            device.starts.push(device.listing.len());
            let entry = Direntplus {
                entry_out: entry(),
                dirent: Dirent {
                    ino: NODE,
                    off: index as u64 + 1,
                    ..Dirent::default()
                },
            };
            let mut bytes = vec![0; direntplus_len(name.len())];
            if encode_direntplus(&entry, name.as_bytes(), &mut bytes).is_ok() {
                device.listing.append(&mut bytes);
            }
        }
        device
    }

    /// The entries from number `offset` on that fit into `size` bytes.
    fn list(&self, offset: u64, size: u32) -> &[u8] {
        let Some(&start) = self.starts.get(offset as usize) else {
            return &[];
        };
        let limit = start.saturating_add(size as usize);
        let ends = self.starts.iter().copied().chain([self.listing.len()]);
        let end = ends.take_while(|&end| end <= limit).last();
        self.listing
            .get(start..end.unwrap_or(start))
            .unwrap_or_default()
    }

    /// Writes the reply to `request` into `out`; `None` if there is none.
    fn answer(&self, request: &Request<'_>, out: &mut [u8]) -> Option<usize> {
        let unique = request.head.unique;
        let reply = match request.operation {
            Operation::Forget { .. } | Operation::BatchForget { .. } => return None,
            Operation::Init { .. } => Reply::Init { init: init() },
            Operation::Getattr { .. } => Reply::Getattr {
                attr: AttrOut {
                    attr: attr(),
                    ..AttrOut::default()
                },
            },
            Operation::Lookup { name } if name.0 == Fixture::MISSING.as_bytes() => {
                return encode_error(unique, Errno::ENOENT, out).ok();
            }
            Operation::Lookup { .. } => Reply::Lookup { entry: entry() },
            Operation::Open { .. } => Reply::Open {
                open: OpenOut::default(),
            },
            Operation::Opendir { .. } => Reply::Opendir {
                open: OpenOut::default(),
            },
            Operation::Readdirplus { args } => Reply::Readdirplus {
                entries: Rest(self.list(args.offset, args.size)),
            },
            Operation::Write { args, .. } => Reply::Write {
                written: WriteOut {
                    size: args.size,
                    padding: 0,
                },
            },
            Operation::Flush { .. } => Reply::Flush {},
            Operation::Release { .. } => Reply::Release {},
            Operation::Releasedir { .. } => Reply::Releasedir {},
            _ => return encode_error(unique, Errno::ENOSYS, out).ok(),
        };
        encode_reply(unique, &reply, out).ok()
    }
}

impl Device for NullDevice {
    fn config_space(&self) -> Cow<'_, [u8]> {
        let mut config = vec![0; CONFIG];
        if let Some(count) = config.last_chunk_mut::<4>() {
            *count = u32::from(QUEUES - 1).to_le_bytes();
        }
        config.into()
    }

    fn queues(&self) -> u16 {
        QUEUES
    }

    fn polling(&self, _queue: u16) -> Polling {
        self.polling
    }

    fn process(&self, _queue: u16, chain: Chain) {
        thread_local! {
            static BUFFERS: RefCell<[Vec<u8>; 2]> =
                RefCell::new([vec![0; BUFFER], vec![0; BUFFER]]);
        }
        let written = BUFFERS.with_borrow_mut(|[input, output]| {
            let mut reader = chain.reader();
            let total = reader.remaining();
            let have = reader.read(input);
            let prefix = input.get(..have)?;
            let prefix = prefix.get(..prefix_len(prefix).ok()?)?;
            let payload = total.checked_sub(prefix.len())?;
            let request = Request::decode(prefix, payload, Default::default()).ok()?;
            if let Operation::Read { args } = request.operation {
                return read_nothing(&request, args.size, &chain);
            }
            let len = self.answer(&request, output)?;
            chain.writer().write_all(output.get(..len)?).ok()?;
            Some(len)
        });
        chain.complete(written.unwrap_or(0));
    }
}

/// Claims that the data is there.
fn read_nothing(request: &Request<'_>, size: u32, chain: &Chain) -> Option<usize> {
    let header = OutHeader::success(request.head.unique, size as usize);
    let mut bytes = [0; size_of::<OutHeader>()];
    zerocopy::IntoBytes::write_to(&header, &mut bytes).ok()?;
    chain.writer().write_all(&bytes).ok()?;
    Some(header.len as usize)
}

fn init() -> InitOut {
    InitOut {
        major: MAJOR,
        minor: MINOR,
        max_write: 1 << 20,
        ..InitOut::default()
    }
}

fn entry() -> EntryOut {
    EntryOut {
        nodeid: NODE,
        attr: attr(),
        ..EntryOut::default()
    }
}

fn attr() -> Attr {
    Attr {
        ino: NODE,
        mode: 0o100_644,
        nlink: 1,
        ..Attr::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::fixture::MANY_FILES;
    use sluice_proto::fuse::wire::Direntpluses;

    #[test]
    fn listings_come_in_whole_entries() {
        let device = NullDevice::new(Polling::Off);
        let mut offset = 0;
        let mut count = 0;
        loop {
            let chunk = device.list(offset, 4096);
            assert!(chunk.len() <= 4096);
            let entries: Vec<_> = Direntpluses(chunk).map(Result::unwrap).collect();
            let Some(last) = entries.last() else { break };
            offset = last.entry.dirent.off;
            count += entries.len();
        }
        assert_eq!(count, MANY_FILES as usize);
    }
}
