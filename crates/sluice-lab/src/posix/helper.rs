//! A second process: POSIX locks belong to processes, so threads cannot show
//! what they do.
//!
//! A case starts this program again with a file as its standard input, and
//! speaks with it line by line: `write`, `read` and `unlock` take or give up a
//! lock of the whole file, `wait` takes one when it is free. Each is answered
//! with `ok` or the errno's number; an empty line ends the process.

use super::place::Place;
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The hidden argument that makes the program this helper.
pub const HELPER: &str = "lock-helper";

/// The other process, with a file of its own opening.
pub(super) struct Helper {
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Helper {
    /// Starts it with the named file of `place`, opened for both.
    pub(super) fn start(place: &Place, name: &str) -> Helper {
        place.open(name, OFlags::RDWR).expect("the file exists");
        let mut process = Command::new("/proc/self/exe")
            .args([
                HELPER,
                &place
                    .path(name)
                    .replace("/self/", &format!("/{}/", std::process::id())),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a helper process");
        let orders = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        Helper {
            process,
            orders,
            answers,
        }
    }

    /// Gives an order and waits for the answer.
    pub(super) fn obey(&mut self, order: &str) -> rustix::io::Result<()> {
        self.order(order);
        self.answer()
    }

    /// Gives an order.
    pub(super) fn order(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("a running helper");
        writeln!(orders, "{order}").expect("a running helper");
    }

    /// Waits for an answer.
    pub(super) fn answer(&mut self) -> rustix::io::Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a running helper");
        match line.trim() {
            "ok" => Ok(()),
            number => {
                let number = number
                    .parse()
                    .unwrap_or_else(|_| panic!("the helper says {number:?}"));
                Err(rustix::io::Errno::from_raw_os_error(number))
            }
        }
    }

    /// Lets it exit.
    pub(super) fn end(mut self) {
        self.orders = None;
        assert!(self.process.wait().expect("its end").success());
    }

    /// Ends it by force.
    pub(super) fn kill(mut self) {
        self.process.kill().expect("ending it");
        self.process.wait().expect("its end");
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The helper's own work.
///
/// # Errors
/// A file that cannot be opened, or pipes that are gone.
pub fn run(path: &str) -> io::Result<()> {
    let file = std::fs::File::options().read(true).write(true).open(path)?;
    for order in io::stdin().lines() {
        let outcome = match order?.as_str() {
            "write" => fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive),
            "read" => fcntl_lock(&file, FlockOperation::NonBlockingLockShared),
            "wait" => fcntl_lock(&file, FlockOperation::LockExclusive),
            "unlock" => fcntl_lock(&file, FlockOperation::Unlock),
            // Closing any descriptor of a file gives up the process's locks on it.
            "reopen" => std::fs::File::open(path).map(drop).map_err(|error| {
                rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
            }),
            other => return Err(io::Error::other(format!("unknown order {other:?}"))),
        };
        match outcome {
            Ok(()) => println!("ok"),
            Err(errno) => println!("{}", errno.raw_os_error()),
        }
        io::stdout().flush()?;
    }
    Ok(())
}
