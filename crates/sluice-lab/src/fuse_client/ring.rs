//! A virtio-fs device, asked through its virtqueues by a driver in this process.

use super::transport::{Connector, Done, FuseTransport, Message};
use crate::daemon::Daemon;
use crate::ring::{Job, Queues, Request, RingConnector, RingPeer};
use sluice_proto::fuse::serve::ServeOptions;
use sluice_proto::fuse::wire::{
    Dialect, GetattrIn, Operation, OutHeader, ROOT_ID, Reply, RequestHead, encode_request,
};
use sluice_vfs::{AttachOptions, Result};
use std::path::PathBuf;

const QUEUES: Queues = Queues {
    urgent: Some(0),
    requests: 1,
};

impl Connector for RingConnector<ServeOptions> {
    type Transport = RingPeer;

    /// Peer, limits and events are the device's own affair.
    fn connect(&self, _: AttachOptions<'_>) -> Result<RingPeer> {
        Ok(self.start(QUEUES))
    }
}

/// `sluice serve`, a process for each device.
pub struct DaemonConnector(Daemon);

impl DaemonConnector {
    /// Processes of `program` that serve `share` with these options.
    pub fn new(program: PathBuf, share: PathBuf, options: Vec<String>) -> Self {
        DaemonConnector(Daemon {
            program,
            share,
            place: "--virtiofs",
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

impl FuseTransport for RingPeer {
    fn exchange(&self, message: Message<'_>) -> Option<Vec<u8>> {
        self.roundtrip(request(&message))
    }

    /// The queue's requests are taken up in order: when one that came later
    /// was answered, this one was answered too, put aside, or is slow.
    fn exchange_later(&self, message: Message<'_>, done: Done) {
        let request = request(&message);
        self.send(Job { request, done });
        let operation = Operation::Getattr {
            args: GetattrIn::default(),
        };
        let head = RequestHead {
            unique: u64::MAX,
            nodeid: ROOT_ID,
            ..RequestHead::default()
        };
        let mut prefix = [0; 128];
        let len = encode_request(&head, &operation, Dialect::default(), &mut prefix);
        let len = len.expect("a GETATTR is short");
        self.exchange(Message {
            prefix: &prefix[..len],
            payload: &[],
            body_room: Some(Reply::min_len(operation.opcode())),
            is_urgent: false,
        });
    }
}

/// Bytes of a reply's header, which Linux gives a descriptor of its own.
const HEADER_LEN: u32 = size_of::<OutHeader>() as u32;

fn request(message: &Message<'_>) -> Request {
    Request {
        readable: parts(message).iter().map(|part| part.to_vec()).collect(),
        writable: match message.body_room {
            None => Vec::new(),
            Some(0) => vec![HEADER_LEN],
            Some(room) => vec![HEADER_LEN, room as u32],
        },
        is_urgent: message.is_urgent,
    }
}

fn parts<'a>(message: &Message<'a>) -> Vec<&'a [u8]> {
    match message.payload {
        [] => vec![message.prefix],
        payload => vec![message.prefix, payload],
    }
}
