//! The system's log: datagrams on a unix socket, as syslog(3) sends them
//! (RFC 3164, without the time, which the receiver knows).

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// A connection to the log. It stays one however the process sees paths later.
#[derive(Debug)]
pub(super) struct Syslog {
    socket: UnixDatagram,
}

/// RFC 3164, 4.1.1, as far as used here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Severity {
    Error = 3,
    Warning = 4,
    Informational = 6,
    Debug = 7,
}

/// User-level messages, as virtiofsd's.
const FACILITY: u8 = 1;

impl Syslog {
    /// To this system's log.
    ///
    /// # Errors
    /// Nobody listens there.
    pub(super) fn connect() -> io::Result<Self> {
        Syslog::connect_to(Path::new("/dev/log"))
    }

    fn connect_to(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        // Serving goes on when the log is slow.
        socket.set_nonblocking(true)?;
        Ok(Syslog { socket })
    }

    /// Sends a line. Nobody listening is no reason to fail.
    pub(super) fn send(&self, severity: Severity, line: &[u8]) {
        let priority = FACILITY * 8 + severity as u8;
        let head = format!("<{priority}>virtiofsd[{}]: ", std::process::id());
        let datagram = [head.as_bytes(), line.trim_ascii_end()].concat();
        let _ = self.socket.send(&datagram);
    }
}

/// Takes one event, which comes in one piece.
pub(super) struct Line<'a> {
    syslog: &'a Syslog,
    severity: Severity,
}

impl<'a> MakeWriter<'a> for &'static Syslog {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            syslog: self,
            severity: Severity::Informational,
        }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        let severity = match *event.level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            Level::INFO => Severity::Informational,
            Level::DEBUG | Level::TRACE => Severity::Debug,
        };
        Line {
            syslog: self,
            severity,
        }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.syslog.send(self.severity, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_datagram() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        Syslog::connect_to(&path).unwrap_err();
        let log = UnixDatagram::bind(&path).unwrap();
        let syslog = Syslog::connect_to(&path).unwrap();
        syslog.send(Severity::Warning, b"it is late\n");
        let mut datagram = [0; 100];
        let len = log.recv(&mut datagram).unwrap();
        let expected = format!("<12>virtiofsd[{}]: it is late", std::process::id());
        assert_eq!(datagram[..len], *expected.as_bytes());
        drop(log);
        syslog.send(Severity::Error, b"nobody hears");
    }
}
