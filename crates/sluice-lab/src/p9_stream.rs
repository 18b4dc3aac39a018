//! A 9P server on a stream, for clients in the same process.

use sluice_proto::p9::loopback::Loopback;
use sluice_proto::p9::serve::{Link, ServerConfig};
use sluice_proto::p9::wire::{HEADER_LEN, Header};
use sluice_vfs::FileService;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How requests are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// One after the other.
    Inline,
    /// Each on a thread of its own.
    Threads,
}

/// Serves a connection on threads of its own until the peer closes it. `config`
/// gets the link that runs what waited for others.
pub fn serve_stream(
    service: Arc<dyn FileService>,
    stream: UnixStream,
    run: Run,
    config: impl FnOnce(Arc<dyn Link>) -> ServerConfig,
) {
    let server = Arc::new(Loopback::new(service, config));
    thread::spawn(move || {
        take_in(&server, stream, run);
        server.server().close();
    });
}

fn take_in(server: &Arc<Loopback>, mut stream: UnixStream, run: Run) {
    let Ok(out) = stream.try_clone() else {
        return;
    };
    let out = Arc::new(Mutex::new(out));
    while let Some(message) = receive(&mut stream) {
        let Ok(header) = Header::peek(&message) else {
            break;
        };
        let (prefix, payload) = message.split_at(header.prefix_len().min(message.len()));
        let out = Arc::clone(&out);
        let done = move |reply: Vec<u8>| {
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            // The peer may be gone.
            let _ = out.write_all(&reply);
        };
        let job = match server.admit(prefix, payload, done) {
            Ok(Some(job)) => job,
            Ok(None) => continue,
            Err(_) => break,
        };
        match run {
            Run::Inline => server.run(job, prefix),
            Run::Threads => {
                let (server, prefix) = (Arc::clone(server), prefix.to_vec());
                thread::spawn(move || server.run(job, &prefix));
            }
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// A whole message; none when the peer has closed.
pub fn receive(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut message = vec![0; HEADER_LEN];
    stream.read_exact(&mut message).ok()?;
    let size = Header::peek(&message).ok()?.size as usize;
    message.resize(size.max(HEADER_LEN), 0);
    stream.read_exact(message.get_mut(HEADER_LEN..)?).ok()?;
    Some(message)
}
