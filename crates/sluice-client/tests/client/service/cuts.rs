//! A server behind wires that can be cut, at any message.

use crate::server::{Run, receive, serve_service};
use sluice_client::{Error, Socket, Transport};
use sluice_lab::model::{ModelOptions, ModelService};
use sluice_vfs::FileService;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Connections to one service, through which messages pass one by one.
pub(super) struct Cuts {
    service: Arc<dyn FileService>,
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Default)]
struct State {
    /// Messages of both directions that passed so far.
    passed: usize,
    /// The message that does not pass, and ends its connection.
    cut_at: Option<usize>,
    /// Both ends of every wire.
    wires: Vec<[UnixStream; 2]>,
    /// So many requests have to come before a reply passes.
    awaited: usize,
    /// No connection is made.
    is_shut: bool,
    connections: usize,
}

impl Cuts {
    /// Wires to a model, of which message `cut_at` is the end of one.
    pub(super) fn new(cut_at: Option<usize>) -> Arc<Cuts> {
        Arc::new(Cuts {
            service: Arc::new(ModelService::new(ModelOptions::default())),
            state: Mutex::new(State {
                cut_at,
                ..State::default()
            }),
            came: Condvar::new(),
        })
    }

    pub(super) fn connect(self: &Arc<Self>) -> sluice_client::Result<Box<dyn Transport>> {
        let mut state = self.state.lock().unwrap();
        if state.is_shut {
            return Err(Error::Connect("it is shut".to_owned()));
        }
        let (ours, near) = UnixStream::pair().unwrap();
        let (far, theirs) = UnixStream::pair().unwrap();
        state
            .wires
            .push([near.try_clone().unwrap(), far.try_clone().unwrap()]);
        state.connections += 1;
        drop(state);
        serve_service(Arc::clone(&self.service), theirs, Run::Inline);
        let ends = [
            (near.try_clone().unwrap(), far.try_clone().unwrap(), false),
            (far, near, true),
        ];
        for (from, to, are_replies) in ends {
            let cuts = Arc::clone(self);
            thread::spawn(move || cuts.pass_all(from, to, are_replies));
        }
        Ok(Box::new(Socket::new(ours.into())?))
    }

    fn pass_all(&self, mut from: UnixStream, mut to: UnixStream, are_replies: bool) {
        while let Some(message) = receive(&mut from) {
            let mut state = self.state.lock().unwrap();
            if are_replies {
                let waits = |state: &mut State| state.awaited > 0;
                state = self.came.wait_while(state, waits).unwrap();
            } else {
                state.awaited = state.awaited.saturating_sub(1);
                self.came.notify_all();
            }
            let is_cut = state.cut_at == Some(state.passed);
            state.passed += 1;
            drop(state);
            if is_cut || to.write_all(&message).is_err() {
                break;
            }
        }
        for end in [from, to] {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// How many messages passed, or would have.
    pub(super) fn passed(&self) -> usize {
        self.state.lock().unwrap().passed
    }

    pub(super) fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// Holds replies back until so many requests have come.
    pub(super) fn hold_replies_until(&self, requests: usize) {
        self.state.lock().unwrap().awaited = requests;
    }

    /// Cuts all wires, and lets no other be made until it is opened.
    pub(super) fn shut(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_shut = true;
        for end in state.wires.drain(..).flatten() {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn open(&self) {
        self.state.lock().unwrap().is_shut = false;
    }
}
