//! As much HTTP as scrapers need: one GET on a connection, and an answer.

use super::figures::Figures;
use crate::failure::Failure;
use crate::serve::listen_at;
use rustix::net::{SocketFlags, accept_with};
use sluice_client::Address;
use sluice_virtio::vhost_user;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a peer may take for all it has to say, and to take the answer in.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest request in bytes.
const REQUEST_MAX: usize = 8 << 10;

/// `unix:PATH` or `tcp:HOST:PORT`, where metrics are to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsAddress {
    /// Where to listen.
    pub address: Address,
    /// Other machines may ask.
    pub allow_remote: bool,
}

impl MetricsAddress {
    /// Whether it is a place to listen on, for those who may ask. A name that means
    /// nothing is told when somebody listens there.
    ///
    /// # Errors
    /// What is wrong with it, and what to write instead.
    pub(crate) fn check(&self) -> Result<(), String> {
        match &self.address {
            Address::Unix(_) => Ok(()),
            address @ Address::Tcp { .. } => {
                match self.allow_remote || address.is_local().unwrap_or(true) {
                    true => Ok(()),
                    false => Err(format!(
                        "{address} can be reached from other machines; --allow-remote says that they may ask for metrics"
                    )),
                }
            }
            _ => Err("--metrics takes unix:PATH or tcp:HOST:PORT".to_owned()),
        }
    }
}

/// Takes connections of those who ask.
#[derive(Debug)]
pub(in crate::mount) enum Listener {
    /// The socket's file goes with it.
    Unix(vhost_user::Listener),
    Tcp(TcpListener),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Listener {
    pub(super) fn bind(wanted: &MetricsAddress) -> Result<Self, Failure> {
        let address = &wanted.address;
        let cannot = |error: io::Error| {
            let words = crate::failure::system_words(&error);
            Failure::new(format!("cannot listen on {address} for --metrics: {words}"))
        };
        wanted.check().map_err(Failure::misuse)?;
        if let Address::Unix(path) = address {
            return Ok(Listener::Unix(listen_at(path)?));
        }
        let found = address.resolve().map_err(cannot)?;
        let listener = TcpListener::bind(&found[..]).map_err(cannot)?;
        Ok(Listener::Tcp(listener))
    }

    /// Takes one connection, if one waits, and answers what it asks.
    pub(super) fn answer_one(&self, figures: &Figures) {
        let accepted = accept_with(self, SocketFlags::CLOEXEC).map_err(io::Error::from);
        let outcome = accepted.and_then(|stream| match self {
            Listener::Unix(_) => answer(UnixStream::from(stream), figures),
            Listener::Tcp(_) => answer(TcpStream::from(stream), figures),
        });
        if let Err(error) = outcome {
            tracing::debug!(%error, "a question about the mount was not answered");
        }
    }
}

/// A stream whose reads and writes can be limited in time.
trait Limited: Read + Write {
    fn limit(&self, limit: Duration) -> io::Result<()>;
}

impl Limited for UnixStream {
    fn limit(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))?;
        self.set_write_timeout(Some(limit))
    }
}

impl Limited for TcpStream {
    fn limit(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))?;
        self.set_write_timeout(Some(limit))
    }
}

fn answer(mut stream: impl Limited, figures: &Figures) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let request = receive(&mut stream, deadline)?;
    let (status, kind, body) = match path(&request) {
        Some("/metrics") => (
            "200 OK",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            figures.open_metrics(),
        ),
        Some("/stats.json") => ("200 OK", "application/json", figures.json()),
        Some(_) => (
            "404 Not Found",
            "text/plain",
            "/metrics or /stats.json\n".into(),
        ),
        None => (
            "400 Bad Request",
            "text/plain",
            "write GET /metrics\n".into(),
        ),
    };
    let len = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
        Connection: close\r\n\r\n{body}"
    );
    stream.limit(PATIENCE)?;
    stream.write_all(answer.as_bytes())
}

/// To the empty line that ends a request.
fn receive(stream: &mut impl Limited, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut buf = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        // Zero would be for ever.
        stream.limit(left.max(Duration::from_millis(1)))?;
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut buf)? {
            0 => break,
            len => request.extend_from_slice(buf.get(..len).unwrap_or_default()),
        }
    }
    Ok(request)
}

/// What a GET asks for, without what is behind a question mark.
fn path(request: &[u8]) -> Option<&str> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let path = words
        .next()
        .filter(|method| *method == "GET")
        .and(words.next())?;
    words.next()?.starts_with("HTTP/1.").then_some(())?;
    path.split('?').next()
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn a_get_has_a_path_and_nothing_else_has() {
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some("/metrics")),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Some("/metrics")),
            ("POST /metrics HTTP/1.1\r\n\r\n", None),
            ("GET /metrics\r\n\r\n", None),
            ("GET /metrics GOPHER\r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(path(request.as_bytes()), expected, "{request}");
        }
        assert_eq!(path(b"GET /\xff HTTP/1.1\r\n"), None);
    }
}
