use super::*;
use crate::file::File;
use crate::ops::Tree;
use crate::transport::Socket;
use sluice_lab::model::{ModelOptions, ModelService};
use sluice_lab::p9_stream::{Run, serve_stream};
use sluice_proto::p9::serve::ServerConfig;
use sluice_proto::p9::wire::Dialect;
use sluice_vfs::{AccessChecks, OpenFlags, Peer};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::net::UnixStream;
use std::sync::Condvar;
use std::sync::mpsc;

/// Longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that takes the clunk of fid 1 in slowly and never answers it, answers
/// those of fid 3 when it is told to, and no Tflush.
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
    kept: VecDeque<Vec<u8>>,
    was_flushed: bool,
    /// Whoever receives gets nothing, at once.
    is_silent: bool,
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

    /// Sends the first of the replies that wait for that.
    fn answer_one(&self) {
        self.change(|state| {
            let kept = state.kept.pop_front().unwrap();
            state.replies.extend(kept);
        });
    }

    fn take_in(&self, mut message: Vec<u8>) {
        let (kind, fid) = (message[4], message[7]);
        // Rversion looks like its Tversion.
        message[4] += 1;
        if kind == 120 {
            message.truncate(7);
            message[0] = 7;
        }
        match (kind, fid) {
            (120, 1) => {
                self.change(|state| state.is_at_it = true);
                drop(self.wait_until(|state| state.may_go_on));
            }
            (120, 3) => self.change(|state| state.kept.push_back(message)),
            (108, _) => self.change(|state| state.was_flushed = true),
            _ => self.change(|state| state.replies.extend(message)),
        }
    }
}

impl Transport for Arc<Slow> {
    fn set_patience(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn receive(&self, bufs: &mut [IoSliceMut<'_>], _: bool) -> io::Result<usize> {
        let mut state = self.wait_until(|state| state.is_silent || !state.replies.is_empty());
        if state.is_silent {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = bufs[0].len().min(state.replies.len());
        for (to, from) in bufs[0].iter_mut().zip(state.replies.drain(..len)) {
            *to = from;
        }
        Ok(len)
    }

    fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut messages = &bufs[0][..];
        while let [len, ..] = messages {
            let (message, rest) = messages.split_at(usize::from(*len));
            self.take_in(message.to_vec());
            messages = rest;
        }
        Ok(bufs[0].len())
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

/// A connection that has room for so few requests.
fn with_room(mut connection: Connection, count: u16) -> Connection {
    let Agreed { dialect, msize, .. } = connection.agreed;
    let state = connection.state.get_mut().unwrap();
    state.requests = Requests::new(dialect, msize, count, 1024);
    connection
}

/// Longer ticks than anybody waits for, and room for so many requests.
fn without_ticks(server: &Arc<Slow>, room: u16) -> Arc<Connection> {
    let transport = Box::new(Arc::clone(server));
    let connection = Connection::open(transport, &ConnectOptions::default()).unwrap();
    let mut connection = with_room(connection, room);
    connection.tick = Duration::from_secs(3600);
    Arc::new(connection)
}

/// What becomes of something that a thread does.
fn outcome_of(
    connection: &Arc<Connection>,
    act: impl FnOnce(&Connection) -> Result<()> + Send + 'static,
) -> mpsc::Receiver<Result<()>> {
    let connection = Arc::clone(connection);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(act(&connection)));
    told
}

fn wait_until(connection: &Connection, ready: impl Fn(&State) -> bool) {
    while !ready(&connection.lock()) {
        thread::yield_now();
    }
}

/// Not a tick later, when it looks by itself: it reads, and is woken by nobody.
#[test]
fn an_answer_makes_room_for_who_reads_it() {
    let server = Arc::new(Slow::default());
    let connection = without_ticks(&server, 1);
    let mut flights = Flights::new(&connection);
    let kept = Request::Clunk { fid: 3 };
    let tag = flights.send(&kept, Vec::new(), &[]).unwrap();
    let waits = outcome_of(&connection, |it| {
        it.call(&Request::Clunk { fid: 2 }).map(drop)
    });
    wait_until(&connection, |state| state.reader.is_none());
    server.answer_one();
    // Nobody has taken that answer.
    waits.recv_timeout(PATIENCE).unwrap().unwrap();
    flights.wait(tag).unwrap();
}

#[test]
fn who_needs_more_room_than_there_is_keeps_nobody_from_sending() {
    let server = Arc::new(Slow::default());
    let connection = without_ticks(&server, 3);
    let clunk = |fid| move |it: &Connection| it.call(&Request::Clunk { fid }).map(drop);
    let mut outcomes = vec![outcome_of(&connection, clunk(3))];
    drop(server.wait_until(|state| state.kept.len() == 1));
    wait_until(&connection, |state| state.reader.is_none());
    let mut flights = Flights::new(&connection);
    let kept = Request::Clunk { fid: 3 };
    let tags = [(); 2].map(|()| flights.send(&kept, Vec::new(), &[]).unwrap());
    outcomes.push(outcome_of(&connection, |it| {
        let clunk = Request::Clunk { fid: 2 };
        it.call_all([&clunk, &clunk]).map(drop)
    }));
    wait_until(&connection, |state| state.parked.len() == 1);
    let needs_less = outcome_of(&connection, clunk(4));
    wait_until(&connection, |state| state.parked.len() == 2);
    // That of whom nobody waits for at the moment.
    server.change(|state| state.kept.swap(0, 1));
    server.answer_one();
    needs_less.recv_timeout(PATIENCE).unwrap().unwrap();
    server.answer_one();
    server.answer_one();
    for outcome in outcomes {
        outcome.recv_timeout(PATIENCE).unwrap().unwrap();
    }
    for tag in tags {
        flights.wait(tag).unwrap();
    }
}

/// A server that hangs has as many requests as it may have.
#[test]
fn there_is_always_room_for_taking_a_request_back() {
    let server = Arc::new(Slow::default());
    let mut connection = without_ticks(&server, 1);
    Arc::get_mut(&mut connection).unwrap().time_limit = Some(Duration::ZERO);
    server.change(|state| state.is_silent = true);
    let outcome = connection.call(&Request::Clunk { fid: 3 });
    assert_eq!(outcome.unwrap_err(), Error::Lost(Lost::Stalled));
    assert!(server.wait_until(|_| true).was_flushed);
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

/// The model, over a connection that has room for so few requests.
pub(crate) fn with_model(dialect: Dialect, room: u16) -> Tree {
    let (ours, theirs) = UnixStream::pair().unwrap();
    serve_model(theirs);
    let options = ConnectOptions {
        dialects: vec![dialect],
        time_limit: Some(PATIENCE),
        msize: 8192,
        ..ConnectOptions::default()
    };
    let socket = Box::new(Socket::new(ours.into()).unwrap());
    let connection = with_room(Connection::open(socket, &options).unwrap(), room);
    Tree::attach(connection, &options).unwrap()
}

/// Or else they would wait for each other as soon as they have it all.
#[test]
fn who_asks_about_many_names_needs_no_more_room_than_there_is() {
    for dialect in [Dialect::Sluice, Dialect::Linux] {
        let tree = with_model(dialect, 5);
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

/// What is read ahead stays with the reader while its thread waits to write.
#[test]
fn streams_need_no_more_room_than_there_is() {
    let tree = Arc::new(with_model(Dialect::Linux, 5));
    let none: [&[u8]; 0] = [];
    let flags = OpenFlags::READ | OpenFlags::WRITE;
    let make = |name: String| {
        let made = tree.create_at(tree.root, &none, name.as_bytes(), flags, (0o644, 0));
        File::new(Arc::clone(&tree), made.unwrap(), flags)
    };
    let data: Vec<u8> = (0..400_000_usize).map(|at| (at / 7) as u8).collect();
    let from = make("from".to_owned());
    assert_eq!(from.write_at(&data, 0), Ok(data.len()));
    thread::scope(|scope| {
        for nth in 0..4 {
            let (from, to, data) = (&from, make(format!("to{nth}")), &data);
            scope.spawn(move || {
                let mut writer = to.writer(0);
                io::copy(&mut from.reader(0), &mut writer).unwrap();
                writer.finish().unwrap();
                let mut back = vec![0; data.len()];
                assert_eq!(to.read_at(&mut back, 0), Ok(data.len()));
                assert!(back == *data, "other data");
            });
        }
    });
}
