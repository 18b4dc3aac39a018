//! 9P on a virtqueue: a message and its reply in each chain.

use super::{Answer, NullServer, Session};
use crate::bench::error::{BenchError, Context};
use sluice_proto::p9::wire::{HEADER_LEN, Header};
use sluice_virtio::queue::{Chain, Reader};
use sluice_virtio::vhost_user::{Backend, Device, Listener};
use std::borrow::Cow;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The configuration space has the share's name (`VIRTIO_9P_MOUNT_TAG`).
const MOUNT_TAG: u64 = 1 << 0;

/// Serves one connection after the other at `socket`, until killed: a device called
/// `tag`, with a copy of `share`.
///
/// # Errors
/// When it cannot read the share or cannot listen.
pub fn serve_ring(socket: &Path, share: &Path, tag: &str) -> Result<(), BenchError> {
    let server = NullServer::load(share)?;
    let tag_len = u16::try_from(tag.len()).context("tag")?;
    let device = NullRing {
        config: [&tag_len.to_le_bytes(), tag.as_bytes()].concat(),
        state: Mutex::new(State::new(&server)),
        server,
    };
    let listener = Listener::bind(socket).context(socket.display())?;
    let backend = Backend::new(Arc::new(device)).context("device")?;
    loop {
        backend.serve_next(&listener).context("connection")?;
    }
}

struct NullRing {
    config: Vec<u8>,
    server: Arc<NullServer>,
    state: Mutex<State>,
}

struct State {
    session: Session,
    prefix: Vec<u8>,
    answer: Answer,
}

impl State {
    fn new(server: &Arc<NullServer>) -> Self {
        State {
            session: Session::new(server),
            prefix: Vec::new(),
            answer: Answer::default(),
        }
    }

    /// Answers the message in `chain`; the bytes of the reply.
    fn answer(&mut self, chain: &Chain) -> Option<usize> {
        let mut reader = chain.reader();
        self.prefix.resize(HEADER_LEN, 0);
        reader.read_exact(&mut self.prefix).ok()?;
        let header = Header::peek(&self.prefix).ok()?;
        let len = header.prefix_len();
        let payload_len = (header.size as usize).checked_sub(len)?;
        if reader.remaining() < (header.size as usize).checked_sub(HEADER_LEN)? {
            return None;
        }
        self.prefix.resize(len, 0);
        reader.read_exact(self.prefix.get_mut(HEADER_LEN..)?).ok()?;
        self.session.answer(
            &self.prefix,
            &mut Payload(reader),
            payload_len,
            &mut self.answer,
        )?;
        let mut writer = chain.writer();
        for piece in self.answer.pieces() {
            writer.write_all(piece).ok()?;
        }
        Some(self.answer.len())
    }
}

/// What is left of a chain.
struct Payload<'c>(Reader<'c>);

impl Read for Payload<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.read(buf))
    }
}

impl NullRing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new guest knows no fid of the last one's.
    fn begin(&self) {
        *self.state() = State::new(&self.server);
    }
}

impl Device for NullRing {
    fn features(&self) -> u64 {
        MOUNT_TAG
    }

    fn config_space(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.config)
    }

    fn queues(&self) -> u16 {
        1
    }

    fn connected(&self) {
        self.begin();
    }

    fn reset(&self) {
        self.begin();
    }

    fn process(&self, _queue: u16, chain: Chain) {
        let written = self.state().answer(&chain);
        chain.complete(written.unwrap_or(0));
    }
}
