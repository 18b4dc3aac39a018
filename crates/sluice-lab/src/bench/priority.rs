//! Scheduling priority, so that neighbours on the machine disturb less.

use rustix::process::{getpriority_process, setpriority_process};
use std::fs;

/// As high as it goes.
const NICE: i32 = -20;

/// The session's share of the machine, where the kernel groups by session
/// (sched(7), "The autogroup feature").
const AUTOGROUP: &str = "/proc/self/autogroup";

/// The priority of this process and of those it starts. The session gets its own
/// back when this is dropped.
#[derive(Debug)]
pub struct Priority {
    nice: Option<i32>,
    session_before: Option<String>,
}

/// Raises it as far as permitted.
pub fn raise() -> Priority {
    // Without permission it stays as it is.
    let _ = setpriority_process(None, NICE);
    Priority {
        nice: getpriority_process(None).ok(),
        session_before: raise_session(),
    }
}

/// The session's value before.
fn raise_session() -> Option<String> {
    let before = fs::read_to_string(AUTOGROUP).ok()?;
    let (_, before) = before.trim_end().rsplit_once("nice ")?;
    fs::write(AUTOGROUP, NICE.to_string()).ok()?;
    Some(before.to_owned())
}

impl Priority {
    /// In words.
    pub fn describe(&self) -> String {
        match self.nice {
            Some(nice) => format!("nice {nice}"),
            None => "nice unknown".to_owned(),
        }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(before) = &self.session_before {
            // The kernel lets unprivileged users lower it, and us do so again.
            let _ = fs::write(AUTOGROUP, before);
        }
    }
}
