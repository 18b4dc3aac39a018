//! Which requests a server of the `sluice` command gets, from its log.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Longest that a request's line is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The requests of a server, as far as nobody has taken them out.
///
/// A line is written before its request is answered: whoever has the answer
/// finds the line, after a moment.
#[derive(Clone)]
pub struct RequestLog {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    requests: Mutex<VecDeque<String>>,
    grown: Condvar,
}

impl RequestLog {
    /// What `RUST_LOG` must be for the server.
    pub const FILTER: &str = "sluice_proto=trace";

    /// Reads `stderr` of the server to its end, on a thread of its own.
    pub fn follow(stderr: impl Read + Send + 'static) -> Self {
        let state = Arc::new(State::default());
        let growing = Arc::clone(&state);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Some(opcode) = opcode(&line) {
                    growing
                        .requests
                        .lock()
                        .unwrap()
                        .push_back(opcode.to_owned());
                    growing.grown.notify_all();
                }
            }
        });
        RequestLog { state }
    }

    /// Takes out the opcodes of all requests up to the first `last`, without it.
    ///
    /// # Panics
    /// If none comes.
    #[track_caller]
    pub fn take_until(&self, last: &str) -> Vec<String> {
        let requests = self.state.requests.lock().unwrap();
        let is_missing = |requests: &mut VecDeque<String>| !requests.iter().any(|one| one == last);
        let (mut requests, timeout) = self
            .state
            .grown
            .wait_timeout_while(requests, PATIENCE, is_missing)
            .unwrap();
        assert!(!timeout.timed_out(), "no {last} among {requests:?}");
        let found = requests.iter().position(|one| one == last);
        let mut taken: Vec<String> = requests.drain(..=found.unwrap_or(0)).collect();
        taken.pop();
        taken
    }
}

fn opcode(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(": request opcode=")?;
    rest.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_out_in_order() {
        let text = "\
            2026-01-01T00:00:00.1Z TRACE sluice_proto::fuse::serve::server: request opcode=Open node=3\n\
            2026-01-01T00:00:00.2Z TRACE sluice_proto::fuse::serve::server: opcode=Read error=EIO\n\
            2026-01-01T00:00:00.3Z TRACE sluice_proto::fuse::serve::server: request opcode=Read node=3\n\
            2026-01-01T00:00:00.4Z TRACE sluice_proto::fuse::serve::server: request opcode=Statfs node=1\n\
            2026-01-01T00:00:00.5Z TRACE sluice_proto::fuse::serve::server: request opcode=Flush node=3\n\
            2026-01-01T00:00:00.6Z TRACE sluice_proto::fuse::serve::server: request opcode=Statfs node=1\n";
        let log = RequestLog::follow(text.as_bytes());
        assert_eq!(log.take_until("Statfs"), ["Open", "Read"]);
        assert_eq!(log.take_until("Statfs"), ["Flush"]);
    }
}
