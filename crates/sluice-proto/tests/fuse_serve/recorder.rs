//! A service that writes down how it is called and answers with fixed values.

use crate::recorded::RecordedSession;
use sluice_vfs::*;
use std::fmt::Arguments;
use std::sync::{Arc, Mutex};

/// The service, and what became of it.
pub(crate) struct Recorder {
    shared: Arc<Shared>,
    pub(crate) features: Features,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) calls: Mutex<Vec<String>>,
    script: Mutex<Script>,
    pub(crate) events: Mutex<Option<Arc<dyn EventSink>>>,
    pub(crate) last_wait: Mutex<Option<WaitId>>,
}

/// What the next calls shall answer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Script {
    /// Every call fails.
    pub(crate) error: Option<Errno>,
    /// Locks without a wait fail with this.
    pub(crate) lock_error: Option<Errno>,
    /// Locks with a wait fail with this.
    pub(crate) wait_error: Option<Errno>,
    /// Locks with a wait are granted before the call returns.
    pub(crate) grants_at_once: bool,
    /// Opening for reading fails.
    pub(crate) is_unreadable: bool,
    /// Names are missing.
    pub(crate) is_missing: bool,
    /// What is known about opened files.
    pub(crate) hints: OpenHints,
    /// The next call panics.
    pub(crate) panics: bool,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Recorder {
            shared: Arc::default(),
            features: Features::all() - Features::READ_ONLY,
        }
    }

    /// A handle on the same record, which the test keeps.
    pub(crate) fn clone_for_test(&self) -> Self {
        Recorder {
            shared: Arc::clone(&self.shared),
            features: self.features,
        }
    }

    /// What was called since the last time this was asked.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.calls.lock().unwrap())
    }

    pub(crate) fn script(&self, script: Script) {
        *self.shared.script.lock().unwrap() = script;
    }

    /// The last lock that was asked to wait.
    pub(crate) fn last_wait(&self) -> WaitId {
        self.shared
            .last_wait
            .lock()
            .unwrap()
            .expect("no lock waits")
    }

    /// Publishes an event of the last session.
    pub(crate) fn publish(&self, event: &Event<'_>) {
        let events = self.shared.events.lock().unwrap().clone();
        events.expect("nobody is attached").publish(event);
    }
}

impl FileService for Recorder {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        self.shared.log(format_args!(
            "attach {} to \"{}\"",
            options.peer.label,
            options.export.escape_ascii()
        ))?;
        *self.shared.events.lock().unwrap() = Some(options.events);
        Ok(Attached {
            session: Arc::new(RecordedSession::new(Arc::clone(&self.shared))),
            root: STAT,
            features: self.features,
        })
    }
}

impl Shared {
    pub(crate) fn log(&self, call: Arguments<'_>) -> Result<()> {
        self.calls.lock().unwrap().push(call.to_string());
        let script = *self.script.lock().unwrap();
        assert!(!script.panics, "the service was told to panic");
        script.error.map_or(Ok(()), Err)
    }

    pub(crate) fn script(&self) -> Script {
        *self.script.lock().unwrap()
    }
}

pub(crate) const ATTR: Attr = Attr {
    mask: AttrMask::BASIC,
    ino: 0x77,
    mode: UnixMode(0o100644),
    nlink: 1,
    uid: 10,
    gid: 20,
    rdev: Device { major: 0, minor: 0 },
    dev: Device { major: 8, minor: 1 },
    size: 1234,
    blocks: 8,
    blksize: 4096,
    atime: Timestamp { sec: 1, nsec: 2 },
    mtime: Timestamp { sec: -3, nsec: 4 },
    ctime: Timestamp { sec: 5, nsec: 6 },
    btime: Timestamp { sec: 7, nsec: 8 },
    flags: 0,
    flags_mask: 0,
    is_submount: true,
};

pub(crate) const STAT: Stat = Stat {
    attr: ATTR,
    stamp: Stamp(9),
};

pub(crate) const NODE: NodeId = NodeId(0x5_0000_0002);
pub(crate) const HANDLE: HandleId = HandleId(0x6_0000_0003);

pub(crate) const ENTRY: Entry = Entry {
    node: NODE,
    attr: ATTR,
    stamp: Stamp(9),
    dir_stamp: Stamp(10),
};
