//! Locks that are waited for: which request stands for which wait, and who
//! learns of its end.

use sluice_vfs::{Errno, Event, EventSink, LockOutcome, Result, WaitId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The waits of one connection.
pub(crate) struct Waits {
    under_way: Mutex<HashMap<WaitId, Wait>>,
    events: Arc<dyn EventSink>,
}

struct Wait {
    /// The request that waits.
    unique: u64,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// The request is being sent.
    Asking,
    /// It was answered while it was being sent.
    Answered(Result<()>),
    /// It was put aside; whoever asked knows.
    Waiting,
}

impl Waits {
    pub(crate) fn new(events: Arc<dyn EventSink>) -> Self {
        Waits {
            under_way: Mutex::default(),
            events,
        }
    }

    /// `unique` is about to be sent for `wait`.
    pub(crate) fn begin(&self, wait: WaitId, unique: u64) -> Result<()> {
        let mut under_way = self.lock();
        if under_way.contains_key(&wait) {
            return Err(Errno::EINVAL);
        }
        let stage = Stage::Asking;
        under_way.insert(wait, Wait { unique, stage });
        Ok(())
    }

    /// The request was answered.
    pub(crate) fn answered(&self, wait: WaitId, result: Result<()>) {
        let mut under_way = self.lock();
        match under_way.get_mut(&wait) {
            Some(it) if matches!(it.stage, Stage::Asking) => it.stage = Stage::Answered(result),
            _ => {
                under_way.remove(&wait);
                drop(under_way);
                self.events.publish(&Event::LockSettled { wait, result });
            }
        }
    }

    /// The request was sent: how it stands.
    pub(crate) fn sent(&self, wait: WaitId) -> Result<LockOutcome> {
        let mut under_way = self.lock();
        let Some(it) = under_way.get_mut(&wait) else {
            return Err(Errno::EIO);
        };
        match it.stage {
            Stage::Answered(result) => {
                under_way.remove(&wait);
                result.map(|()| LockOutcome::Done)
            }
            Stage::Asking | Stage::Waiting => {
                it.stage = Stage::Waiting;
                Ok(LockOutcome::Waiting)
            }
        }
    }

    /// The request that stands for a wait.
    pub(crate) fn request_of(&self, wait: WaitId) -> Option<u64> {
        self.lock().get(&wait).map(|wait| wait.unique)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WaitId, Wait>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
