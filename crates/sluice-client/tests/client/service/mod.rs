//! The client as a service: messages, connections that end, servers that lie.

mod crash;
mod cuts;
mod liars;
mod locks;
mod trips;

use crate::server::options;
use cuts::Cuts;
use sluice_client::{ConnectOptions, Persistence, RemoteService, ServiceOptions};
use sluice_lab::conformance::Recorder;
use sluice_vfs::{
    AccessChecks, AttachOptions, Attached, Caller, CreateArgs, Created, Ctx, FileService,
    LockOwner, Name, NewNode, NodeId, OpenFlags, Peer, Release, Result, Session, SessionLimits,
    SliceSink, SliceSource, WriteArgs,
};
use std::sync::Arc;

const ROOT: NodeId = NodeId::ROOT;
const BOTH: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);

/// A session, and a few words for what is done with it.
struct At {
    session: Arc<dyn Session>,
    events: Arc<Recorder>,
    service: RemoteService,
}

fn hard(connect: ConnectOptions) -> ServiceOptions {
    ServiceOptions {
        connect,
        persistence: Persistence::Hard,
        ..ServiceOptions::default()
    }
}

impl At {
    fn over(cuts: &Arc<Cuts>) -> At {
        At::with(cuts, hard(options()))
    }

    fn with(cuts: &Arc<Cuts>, options: ServiceOptions) -> At {
        let cuts = Arc::clone(cuts);
        At::of(RemoteService::over(move || cuts.connect(), options))
    }

    fn of(service: RemoteService) -> At {
        let (attached, events) = attach(&service);
        At {
            session: attached.unwrap().session,
            events,
            service,
        }
    }

    fn create(&self, dir: NodeId, name: &str, flags: OpenFlags) -> Result<Created> {
        let args = CreateArgs {
            flags,
            new: NewNode::with_perm(0o644),
        };
        self.session.create(&ctx(), dir, word(name), &args)
    }

    fn write(&self, file: &Created, offset: u64, bytes: &[u8]) -> Result<usize> {
        let (node, handle) = (file.entry.node, Some(file.opened.handle));
        let args = WriteArgs {
            offset,
            ..WriteArgs::default()
        };
        let written =
            self.session
                .write(&ctx(), node, handle, &args, &mut SliceSource::new(bytes))?;
        Ok(written.len)
    }

    fn read(&self, file: &Created, offset: u64, len: usize) -> Result<Vec<u8>> {
        let (node, handle) = (file.entry.node, Some(file.opened.handle));
        let mut buf = vec![0; len];
        let mut sink = SliceSink::new(&mut buf);
        let count = self
            .session
            .read(&ctx(), node, handle, offset, len, &mut sink)?;
        assert_eq!(count, sink.len());
        buf.truncate(count);
        Ok(buf)
    }

    fn close(&self, file: &Created) -> Result<()> {
        let (node, handle) = (file.entry.node, file.opened.handle);
        self.session
            .release(&ctx(), node, handle, &Release::default())
    }
}

fn attach(service: &RemoteService) -> (Result<Attached>, Arc<Recorder>) {
    let events = Arc::new(Recorder::default());
    let attached = service.attach(AttachOptions {
        peer: Peer {
            label: "test".to_owned(),
            checks: AccessChecks::Peer,
        },
        export: b"",
        events: events.clone(),
        limits: SessionLimits::default(),
    });
    (attached, events)
}

fn ctx() -> Ctx<'static> {
    owner(1)
}

fn owner(number: u64) -> Ctx<'static> {
    Ctx::new(Caller::ROOT).with_lock_owner(LockOwner(number))
}

fn word(name: &str) -> Name<'_> {
    Name::try_from(name).unwrap()
}
