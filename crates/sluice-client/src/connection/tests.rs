use super::*;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Condvar;

/// Longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that takes the clunk of fid 1 in slowly and never answers it.
#[derive(Default)]
struct Slow {
    state: Mutex<SlowState>,
    changed: Condvar,
}

#[derive(Default)]
struct SlowState {
    replies: VecDeque<u8>,
    is_at_it: bool,
    may_go_on: bool,
}

impl Slow {
    fn wait_until(&self, ready: impl Fn(&SlowState) -> bool) -> MutexGuard<'_, SlowState> {
        let state = self.state.lock().unwrap();
        let wait = |state: &mut SlowState| !ready(state);
        let (state, waited) = self
            .changed
            .wait_timeout_while(state, PATIENCE, wait)
            .unwrap();
        assert!(!waited.timed_out(), "nothing happens any more");
        state
    }

    fn change(&self, change: impl FnOnce(&mut SlowState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }
}

impl Transport for Arc<Slow> {
    fn set_patience(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn receive(&self, bufs: &mut [IoSliceMut<'_>], _: bool) -> io::Result<usize> {
        let mut state = self.wait_until(|state| !state.replies.is_empty());
        let len = bufs[0].len().min(state.replies.len());
        for (to, from) in bufs[0].iter_mut().zip(state.replies.drain(..len)) {
            *to = from;
        }
        Ok(len)
    }

    fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut message = bufs[0].to_vec();
        let len = message.len();
        if (message[4], message[7]) == (120, 1) {
            self.change(|state| state.is_at_it = true);
            drop(self.wait_until(|state| state.may_go_on));
            return Ok(len);
        }
        // Rversion looks like its Tversion.
        message[4] += 1;
        if message[4] == 121 {
            message.truncate(7);
            message[0] = 7;
        }
        self.change(|state| state.replies.extend(message));
        Ok(len)
    }

    fn wait_to_send(&self, _: bool, _: Duration) -> io::Result<bool> {
        Ok(false)
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn close(&self) {}
}

/// Reading is woken from by replies only: a thread that has its turn to send when
/// another one is done would have it a tick later.
#[test]
fn who_waits_to_send_does_not_read_while_another_sends() {
    let server = Arc::new(Slow::default());
    let transport = Box::new(Arc::clone(&server));
    let connection = Connection::open(transport, &ConnectOptions::default()).unwrap();
    thread::scope(|scope| {
        let posts = scope.spawn(|| connection.post(&Request::Clunk { fid: 1 }, None));
        drop(server.wait_until(|state| state.is_at_it));
        let calls = scope.spawn(|| connection.call(&Request::Clunk { fid: 2 }).map(drop));
        loop {
            let state = connection.lock();
            if !state.parked.is_empty() || state.reader.is_none() {
                break;
            }
            drop(state);
            thread::yield_now();
        }
        server.change(|state| state.may_go_on = true);
        posts.join().unwrap().unwrap();
        calls.join().unwrap().unwrap();
    });
}

/// One that had nothing to send after all passes its turn on.
#[test]
fn a_turn_to_send_that_is_not_used_is_the_next_ones() {
    let server = Arc::new(Slow::default());
    let transport = Box::new(Arc::clone(&server));
    let mut connection = Connection::open(transport, &ConnectOptions::default()).unwrap();
    // Longer than anybody waits for this test.
    connection.tick = Duration::from_secs(3600);
    let connection = Arc::new(connection);
    let on_a_thread = |act: fn(&Connection) -> Result<()>| {
        let connection = Arc::clone(&connection);
        let (tell, told) = std::sync::mpsc::channel();
        thread::spawn(move || tell.send(act(&connection)));
        told
    };
    let wait_until_parked = |count| {
        while connection.lock().parked.len() < count {
            thread::yield_now();
        }
    };
    let posts = on_a_thread(|it| it.post(&Request::Clunk { fid: 1 }, None));
    drop(server.wait_until(|state| state.is_at_it));
    let calls_off = on_a_thread(|it| it.call_off(77, thread::current().id()));
    wait_until_parked(1);
    let calls = on_a_thread(|it| it.call(&Request::Clunk { fid: 2 }).map(drop));
    wait_until_parked(2);
    server.change(|state| state.may_go_on = true);
    for outcome in [posts, calls_off, calls] {
        outcome.recv_timeout(PATIENCE).unwrap().unwrap();
    }
}
