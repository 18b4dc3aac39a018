//! A request from `/dev/fuse` until it is answered.

use super::device::Device;
use sluice_proto::fuse::serve::{Exchange, Parked};
use sluice_proto::fuse::wire::OutHeader;
use sluice_vfs::{ReadSink, SliceSink, SliceSource, WriteSource};
use std::io::IoSlice;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Request and reply are in the buffers of the thread that serves it.
pub(super) struct DeviceExchange<'a> {
    device: &'a Arc<Device>,
    payload: SliceSource<'a>,
    body: SliceSink<'a>,
}

impl<'a> DeviceExchange<'a> {
    /// A request that came from `device`: `payload` is what follows its
    /// prefix, `body` is where the body of the reply is put together.
    pub(super) fn new(device: &'a Arc<Device>, payload: &'a [u8], body: &'a mut [u8]) -> Self {
        DeviceExchange {
            device,
            payload: SliceSource::new(payload),
            body: SliceSink::new(body),
        }
    }
}

impl Exchange for DeviceExchange<'_> {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.payload
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.body
    }

    fn finish(self, header: OutHeader) {
        let body_len = (header.len as usize).saturating_sub(size_of::<OutHeader>());
        let filled = self.body.filled();
        let body = filled.get(..body_len).unwrap_or(filled);
        reply(self.device, header, body);
    }

    fn discard(self) {}

    fn park(self) -> Box<dyn Parked> {
        Box::new(ParkedReply(Arc::clone(self.device)))
    }
}

struct ParkedReply(Arc<Device>);

impl Parked for ParkedReply {
    fn finish(self: Box<Self>, header: OutHeader) {
        reply(&self.0, header, &[]);
    }
}

fn reply(device: &Device, header: OutHeader, body: &[u8]) {
    let message = [IoSlice::new(header.as_bytes()), IoSlice::new(body)];
    if let Err(error) = device.send(&message) {
        // The kernel then waits for another answer.
        tracing::error!(unique = header.unique, %error, "the kernel refused a reply");
        let failure = OutHeader::failure(header.unique, sluice_vfs::Errno::EIO);
        let _ = device.send(&[IoSlice::new(failure.as_bytes())]);
    }
}
