use super::*;
use crate::ops::Tree;
use crate::transport::Socket;
use sluice_lab::model::{ModelOptions, ModelService};
use sluice_lab::p9_stream::{Run, serve_stream};
use sluice_proto::p9::serve::ServerConfig;
use sluice_proto::p9::wire::Dialect;
use sluice_vfs::{AccessChecks, Peer};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::net::UnixStream;
use std::sync::Condvar;
use std::sync::mpsc;

/// Longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that takes the clunk of fid 1 in slowly and never answers it, and answers
/// that of fid 3 when it is told to.
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
    /// Replies that wait for that.
    kept: Vec<u8>,
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
        let is_third = message[7] == 3;
        // Rversion looks like its Tversion.
        message[4] += 1;
        if message[4] == 121 {
            message.truncate(7);
            message[0] = 7;
        }
        if (message[4], is_third) == (121, true) {
            self.change(|state| state.kept.extend(message));
            return Ok(len);
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

/// A connection that has so few tags.
fn with_tags(mut connection: Connection, count: u16) -> Connection {
    let Agreed { dialect, msize, .. } = connection.agreed;
    let state = connection.state.get_mut().unwrap();
    state.requests = Requests::new(dialect, msize, count, 1024);
    connection
}

/// Not a tick later, when it looks by itself.
#[test]
fn who_takes_an_answer_wakes_who_waits_for_its_tag() {
    let server = Arc::new(Slow::default());
    let transport = Box::new(Arc::clone(&server));
    let connection = Connection::open(transport, &ConnectOptions::default()).unwrap();
    let mut connection = with_tags(connection, 2);
    // Longer than anybody waits for this test.
    connection.tick = Duration::from_secs(3600);
    let connection = Arc::new(connection);
    let call = |fid| {
        let connection = Arc::clone(&connection);
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(connection.call(&Request::Clunk { fid }).map(drop)));
        told
    };
    let wait_until = |ready: fn(&State) -> bool| {
        while !ready(&connection.lock()) {
            thread::yield_now();
        }
    };
    // This one reads all the time.
    let reads = call(3);
    drop(server.wait_until(|state| !state.kept.is_empty()));
    wait_until(|state| state.reader.is_none());
    let mut flights = Flights::new(&connection);
    let request = Request::Clunk { fid: 2 };
    let tag = flights.send(&request, Vec::new(), &[]).unwrap();
    while connection.lock().requests.is_unanswered(tag) {
        thread::yield_now();
    }
    let waits = call(4);
    wait_until(|state| state.parked.iter().any(|it| it.need == Need::Send));
    flights.wait(tag).unwrap();
    waits.recv_timeout(PATIENCE).unwrap().unwrap();
    server.change(|state| {
        let kept = std::mem::take(&mut state.kept);
        state.replies.extend(kept);
    });
    reads.recv_timeout(PATIENCE).unwrap().unwrap();
}

fn serve_model(stream: UnixStream) {
    let service = Arc::new(ModelService::new(ModelOptions::default()));
    let peer = Peer {
        label: "test".to_owned(),
        checks: AccessChecks::Peer,
    };
    serve_stream(service, stream, Run::Inline, |link| {
        ServerConfig::new(peer, link)
    });
}

/// Or else they would wait for each other as soon as they have all tags.
#[test]
fn who_asks_about_many_names_needs_no_more_tags_than_there_are() {
    for dialect in [Dialect::Sluice, Dialect::Linux] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        serve_model(theirs);
        let options = ConnectOptions {
            dialects: vec![dialect],
            time_limit: Some(PATIENCE),
            ..ConnectOptions::default()
        };
        let socket = Box::new(Socket::new(ours.into()).unwrap());
        let connection = with_tags(Connection::open(socket, &options).unwrap(), 5);
        let tree = Tree::attach(connection, &options).unwrap();
        let names: Vec<_> = (0..32).map(|nth| format!("f{nth}").into_bytes()).collect();
        let mut list: Vec<_> = names.iter().map(|name| Some(&name[..])).collect();
        list[3] = None;
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let told = tree.stat_many(tree.root, &list).unwrap();
                    assert_eq!(told.len(), list.len(), "{dialect:?}");
                    for (nth, outcome) in told.into_iter().enumerate() {
                        let errno = outcome.map(|outcome| outcome.unwrap_err().errno());
                        let missing = (nth != 3).then_some(sluice_vfs::Errno::ENOENT);
                        assert_eq!(errno, missing, "{dialect:?}, {nth}");
                    }
                });
            }
        });
    }
}
