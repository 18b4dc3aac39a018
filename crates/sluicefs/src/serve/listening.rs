//! What a process listens on, and what becomes of it.

use super::p9;
use super::socket::Listening;
use super::{
    DeviceKind, DeviceOptions, End, Lifetime, ServedDevice, ServedShare, Serving, after_connection,
};
use crate::failure::Failure;
use crate::share;
use sluice_vfs::FileService;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// A share, and what answers for it.
pub(super) type Service<'a> = (&'a ServedShare, Arc<dyn FileService>);

/// The sockets of all shares.
pub(super) struct Sockets {
    /// One for each device of each share, in their order.
    devices: Vec<Listening>,
    p9: p9::Entrances,
}

impl Sockets {
    /// Nothing listens before every directory is known to be there.
    pub(super) fn open(shares: &[ServedShare]) -> Result<Self, Failure> {
        for share in shares {
            share::check_directory(&share.dir)?;
        }
        let devices = shares.iter().flat_map(|share| &share.devices);
        let devices = devices.map(|device| device.endpoint.listen());
        Ok(Sockets {
            devices: devices.collect::<Result<_, _>>()?,
            p9: p9::Entrances::open(shares)?,
        })
    }

    /// Leaves removing their files to another process.
    pub(super) fn leave_files(&mut self) {
        self.devices.iter_mut().for_each(Listening::leave_file);
        self.p9.leave_files();
    }

    /// What is served where, a line for each.
    pub(super) fn announcements(&self, shares: &[ServedShare]) -> Vec<String> {
        let mut said = Vec::new();
        for (index, share) in shares.iter().enumerate() {
            let dir = share.dir.display();
            for ServedDevice { kind, endpoint } in &share.devices {
                let tag = &share.tag;
                said.push(format!("serving {dir} as {kind} tag {tag} on {endpoint}"));
            }
            let aname = share.p9.as_ref().and_then(|p9| p9.aname.as_ref());
            let aname = aname.map_or(String::new(), |aname| format!(" export {aname}"));
            for address in self.p9.of(index) {
                said.push(format!("serving {dir} as 9P{aname} on {address}"));
            }
        }
        said
    }

    /// Serves on all of them.
    pub(super) fn serve(
        self,
        services: &[Service<'_>],
        users: &p9::UserBook,
        lifetime: Lifetime,
        ends: &Sender<End>,
    ) -> Result<AllServing, Failure> {
        let on_each = services.iter().flat_map(|(share, service)| {
            let devices = share.devices.iter();
            devices.map(move |device| (*share, service, device.kind))
        });
        let common = p9::HubLimits::default().common();
        let mut devices = Vec::new();
        for ((share, service, kind), listening) in on_each.zip(self.devices) {
            let options = match kind {
                DeviceKind::Fs => DeviceOptions::Fs(share.policy.fuse_options()),
                DeviceKind::P9 => {
                    let options = &share.p9_options;
                    DeviceOptions::P9(options.on_device(&share.policy, users, &common))
                }
            };
            let device = options.device(Arc::clone(service), &share.tag, share.poll);
            let after = after_connection(lifetime, ends.clone());
            devices.push(Serving::start_device(device, listening, after)?);
        }
        if self.p9.is_empty() {
            return Ok(AllServing { devices, p9: None });
        }
        let is_all = devices.is_empty();
        let ends = ends.clone();
        let on_last = move || {
            if is_all {
                let _ = ends.send(End::Nobody);
            }
        };
        let p9 = p9::Serving::start_all(self.p9, services, users, &common, on_last)?;
        let p9 = Some(p9);
        Ok(AllServing { devices, p9 })
    }
}

/// All that is served.
pub(super) struct AllServing {
    devices: Vec<Serving>,
    p9: Option<p9::Serving>,
}

impl AllServing {
    /// Asks all before it waits for any.
    pub(super) fn stop(self) {
        for one in &self.devices {
            one.running.stopper().stop();
        }
        if let Some(p9) = &self.p9 {
            p9.stop();
        }
    }
}
