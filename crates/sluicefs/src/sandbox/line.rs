//! Lines between host and guest, and the threads that carry bytes over them.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Both ends of a line: ours, and the one that the machine inherits.
pub(super) fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok((ours.into(), theirs))
}

/// Our side of the line on which init reports and listens.
#[derive(Clone)]
pub(super) struct Control(Arc<Mutex<UnixStream>>);

impl Control {
    pub(super) fn new(line: UnixStream) -> Self {
        Control(Arc::new(Mutex::new(line)))
    }

    /// The guest's terminal has this size now.
    pub(super) fn resize(&self, (rows, columns): (u16, u16)) {
        self.say(&format!("size {rows} {columns}"));
    }

    /// Nobody reads this stream of the command's any more.
    fn closed(&self, stream: Stream) {
        self.say(match stream {
            Stream::Stdout => "closed-stdout",
            Stream::Stderr => "closed-stderr",
        });
    }

    /// A guest that is gone needs no telling.
    fn say(&self, line: &str) {
        let mut control = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = control.write_all(format!("{line}\n").as_bytes());
    }
}

/// What the command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// Carries what a line brings until its machine is gone, then calls `delivered`. If the
/// reader on the host goes first, the guest is told, and the rest is dropped.
pub(super) fn carry_out(
    mut line: UnixStream,
    mut to: Box<dyn Write + Send>,
    stream: Stream,
    control: Control,
    delivered: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let carry = move || {
        let mut buffer = vec![0; PIECE_BYTES];
        let mut is_open = true;
        while let Some(piece) = read_some(&mut line, &mut buffer) {
            if is_open && to.write_all(piece).and_then(|()| to.flush()).is_err() {
                is_open = false;
                control.closed(stream);
            }
        }
        // Closed before anybody is told that all is delivered.
        drop(to);
        delivered();
    };
    thread::Builder::new()
        .name("guest output".into())
        .spawn(carry)
        .map(drop)
}

/// Carries input to the guest in pieces, each behind a line with its length,
/// and an empty one at the end: a serial line knows no end of its own. The
/// thread may sleep in `from` for ever: nobody waits for it.
pub(super) fn carry_in(mut from: Box<dyn Read + Send>, mut line: UnixStream) -> io::Result<()> {
    let carry = move || {
        let mut buffer = vec![0; PIECE_BYTES];
        while let Some(piece) = read_some(&mut from, &mut buffer) {
            let length = format!("{}\n", piece.len());
            if line
                .write_all(length.as_bytes())
                .and_then(|()| line.write_all(piece))
                .is_err()
            {
                return;
            }
        }
        let _ = line.write_all(b"0\n");
    };
    thread::Builder::new()
        .name("guest input".into())
        .spawn(carry)
        .map(drop)
}

/// Carries keystrokes as they come.
pub(super) fn carry_keys(mut from: Box<dyn Read + Send>, mut line: UnixStream) -> io::Result<()> {
    let carry = move || {
        let mut buffer = vec![0; PIECE_BYTES];
        while let Some(piece) = read_some(&mut from, &mut buffer) {
            if line.write_all(piece).is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("guest keys".into())
        .spawn(carry)
        .map(drop)
}

const PIECE_BYTES: usize = 32 * 1024;

/// What could be read; `None` at the end or when the other side is gone.
fn read_some<'b>(from: &mut impl Read, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    loop {
        match from.read(buffer) {
            Ok(0) => return None,
            Ok(length) => return buffer.get(..length),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    #[test]
    fn input_is_cut_into_pieces_with_an_end() {
        let (ours, theirs) = pair().unwrap();
        carry_in(Box::new(&b"binary\n\0\xff"[..]), ours).unwrap();
        let mut seen = Vec::new();
        UnixStream::from(theirs).read_to_end(&mut seen).unwrap();
        assert_eq!(seen, b"9\nbinary\n\0\xff0\n");
    }

    #[test]
    fn a_reader_that_leaves_is_reported_once() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (ours, theirs) = pair().unwrap();
        let (control, guest_control) = pair().unwrap();
        let (done, delivered) = std::sync::mpsc::channel();
        let control = Control::new(control);
        let delivery = move || done.send(()).unwrap();
        carry_out(ours, Box::new(Gone), Stream::Stdout, control, delivery).unwrap();
        let mut guest = UnixStream::from(theirs);
        let mut told = BufReader::new(UnixStream::from(guest_control));
        let mut line = String::new();
        guest.write_all(b"first").unwrap();
        told.read_line(&mut line).unwrap();
        // More than the socket holds: it is still taken.
        guest.write_all(&vec![0; 1 << 20]).unwrap();
        drop(guest);
        delivered.recv().unwrap();
        told.read_to_string(&mut line).unwrap();
        assert_eq!(line, "closed-stdout\n");
    }
}
