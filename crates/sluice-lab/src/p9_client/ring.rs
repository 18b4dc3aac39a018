//! A virtio-9p device, asked through its virtqueue by a driver in this process, in
//! buffers like those of Linux (`net/9p/trans_virtio.c`).

use super::transport::{Connector, Done, Message, P9Transport, probe};
use crate::daemon::Daemon;
use crate::ring::{Job, Queues, Request, RingConnector, RingPeer};
use sluice_proto::p9::serve::ServeOptions;
use sluice_proto::p9::wire::REPLY_PAYLOAD_AT;
use sluice_vfs::{AttachOptions, Caller, Result};
use std::path::PathBuf;

const QUEUES: Queues = Queues {
    urgent: None,
    requests: 0,
};

impl Connector for RingConnector<ServeOptions> {
    type Transport = RingPeer;

    /// Peer, limits and events are the device's own affair.
    fn connect(&self, _: AttachOptions<'_>) -> Result<RingPeer> {
        Ok(self.start(QUEUES))
    }
}

/// `sluice serve --virtio-9p`, a process for each device.
pub struct DaemonConnector(Daemon);

impl DaemonConnector {
    /// Processes of `program` that serve `share` with these options.
    pub fn new(program: PathBuf, share: PathBuf, options: Vec<String>) -> Self {
        DaemonConnector(Daemon {
            program,
            share,
            place: "--virtio-9p",
            options,
        })
    }
}

impl Connector for DaemonConnector {
    type Transport = RingPeer;

    /// Peer and limits are the device's own affair.
    fn connect(&self, _: AttachOptions<'_>) -> Result<RingPeer> {
        Ok(RingPeer::of_process(&self.0, QUEUES))
    }
}

impl P9Transport for RingPeer {
    /// The device knows of a user what the protocol says.
    fn introduce(&self, _: &Caller<'_>) {}

    fn exchange(&self, message: Message<'_>) -> Option<Vec<u8>> {
        self.roundtrip(request(&message))
    }

    /// The queue's requests are taken up in order: when one that came later
    /// was answered, this one was answered too, put aside, or is slow.
    fn exchange_later(&self, message: Message<'_>, done: Done) {
        let request = request(&message);
        self.send(Job { request, done });
        probe(self);
    }
}

/// Room for every reply without a payload.
const REPLY_ROOM: u32 = 32 * 1024;

/// Types of the requests whose replies have a payload, at the end of which stands how
/// much of it is asked for.
const TREADDIR: u8 = 40;
const TREAD: u8 = 116;

fn request(message: &Message<'_>) -> Request {
    let mut readable = vec![message.prefix.to_vec()];
    if !message.payload.is_empty() {
        readable.push(message.payload.to_vec());
    }
    let count = match (message.prefix.get(4), message.prefix.last_chunk()) {
        (Some(&(TREAD | TREADDIR)), Some(count)) => Some(u32::from_le_bytes(*count)),
        _ => None,
    };
    Request {
        readable,
        writable: match count {
            Some(count) => vec![REPLY_PAYLOAD_AT as u32, count.clamp(1, REPLY_ROOM << 5)],
            None => vec![REPLY_ROOM],
        },
        is_urgent: false,
    }
}
