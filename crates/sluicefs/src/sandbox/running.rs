//! A guest from its start to its exit status.

use super::console::Console;
use super::error::GuestError;
use super::guest::GuestStdio;
use super::line::{self, Control, Stream};
use super::machine::Speech;
use super::process::{self, Killer};
use super::report::{self, Report};
use super::share::Shares;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A guest that was started. Dropping it ends it at once.
pub struct RunningGuest {
    machine: String,
    started: Instant,
    boot_timeout: Duration,
    time_limit: Option<Duration>,
    killer: Killer,
    control: Control,
    console: Console,
    events: Receiver<Event>,
    stopper: GuestStopper,
    /// Threads that still carry output.
    carriers: usize,
    is_ready: bool,
    is_over: bool,
    /// A serial line whose other end is closed loses what it has not delivered.
    _input_line: UnixStream,
    /// Starts the input once the guest listens.
    start_input: Option<StartInput>,
    // Ended last, in this order.
    _shares: Shares,
    _dir: TempDir,
}

/// Ends a guest from another thread.
#[derive(Clone)]
pub struct GuestStopper(Sender<Event>);

impl GuestStopper {
    /// Makes [`RunningGuest::wait`] end the guest and return
    /// [`GuestError::Stopped`].
    pub fn stop(&self) {
        // A guest that is gone needs no stopping.
        let _ = self.0.send(Event::Stop);
    }
}

enum Event {
    Report(Report),
    /// A carrier has delivered everything.
    Delivered,
    /// The machine's process is gone, and nothing will be reported any more.
    Over(String),
    Stop,
}

/// Everything that goes into a start beside the command line.
pub(super) struct Launch {
    pub(super) machine: String,
    pub(super) boot_timeout: Duration,
    pub(super) time_limit: Option<Duration>,
    /// The machine's ends.
    pub(super) inherited: Vec<OwnedFd>,
    pub(super) console: UnixStream,
    pub(super) control: UnixStream,
    pub(super) speech: Speech<UnixStream>,
    pub(super) shares: Shares,
    pub(super) dir: TempDir,
}

/// How long a machine may take to switch itself off before it is killed: it
/// has nothing more to lose then.
const POWER_OFF: Duration = Duration::from_secs(5);

/// How much of the kernel's messages goes into an error.
const CONSOLE_LINES: usize = 12;

impl Launch {
    pub(super) fn go(
        self,
        command: Command,
        nonce: String,
        stdio: GuestStdio,
        log: Option<File>,
    ) -> io::Result<RunningGuest> {
        let (sender, events) = channel();
        let console = Console::default();
        let collector = console.collect(self.console, log)?;
        let reports = listen(self.control.try_clone()?, nonce, sender.clone())?;
        let control = Control::new(self.control);
        let input_line = self.speech.input().try_clone()?;
        let (carriers, start_input) = connect(self.speech, stdio, &control, &sender)?;
        let over = sender.clone();
        let ended = move |status: io::Result<ExitStatus>| {
            // What it said last comes before the news of its end.
            let _ = (reports.join(), collector.join());
            let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            let _ = over.send(Event::Over(how));
        };
        let killer = process::start(command, self.inherited, ended)?;
        Ok(RunningGuest {
            machine: self.machine,
            started: Instant::now(),
            boot_timeout: self.boot_timeout,
            time_limit: self.time_limit,
            killer,
            control,
            console,
            events,
            stopper: GuestStopper(sender),
            carriers,
            is_ready: false,
            is_over: false,
            _input_line: input_line,
            start_input: Some(start_input),
            _shares: self.shares,
            _dir: self.dir,
        })
    }
}

impl RunningGuest {
    /// Waits until the command has ended and all it printed is delivered.
    /// Returns its exit status: 128 and the signal's number if a signal ended it.
    ///
    /// # Errors
    /// Whatever kept the guest from giving one. It has ended then too.
    pub fn wait(mut self) -> Result<u8, GuestError> {
        self.wait_until_ready()?;
        let status = self.wait_for_exit()?;
        self.wait_for_end()?;
        Ok(status)
    }

    /// Waits until the guest has mounted everything and starts the command,
    /// whose input is carried from now on. [`wait`](Self::wait) does so too.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn wait_until_ready(&mut self) -> Result<(), GuestError> {
        self.boot()?;
        match self.start_input.take().map(|start| start()) {
            Some(Err(error)) => Err(self.died(error.to_string())),
            _ => Ok(()),
        }
    }

    /// The same without touching the input.
    pub(super) fn boot(&mut self) -> Result<(), GuestError> {
        let deadline = self.started.checked_add(self.boot_timeout);
        while !self.is_ready {
            match self.next_event(deadline) {
                Some(Event::Report(Report::Ready)) => self.is_ready = true,
                Some(event) => self.unexpected(event)?,
                None => {
                    return Err(GuestError::NotReady {
                        limit: self.boot_timeout,
                        machine: self.machine.clone(),
                        console: self.last_words(),
                    });
                }
            }
        }
        Ok(())
    }

    fn wait_for_exit(&mut self) -> Result<u8, GuestError> {
        let ready = Instant::now();
        let deadline = self.time_limit.and_then(|limit| ready.checked_add(limit));
        loop {
            match self.next_event(deadline) {
                Some(Event::Report(Report::Exit(status))) => return Ok(status),
                Some(event) => self.unexpected(event)?,
                None => {
                    return Err(GuestError::TimeLimit {
                        limit: ready.elapsed(),
                        console: self.last_words(),
                    });
                }
            }
        }
    }

    /// The status is known, and everything was written: only its delivery may
    /// still take time, as much as the readers like.
    fn wait_for_end(&mut self) -> Result<(), GuestError> {
        let power_off = Instant::now() + POWER_OFF;
        while !self.is_over || self.carriers > 0 {
            let deadline = (!self.is_over).then_some(power_off);
            match self.next_event(deadline) {
                Some(Event::Over(_)) => self.is_over = true,
                Some(Event::Stop) => return Err(GuestError::Stopped),
                Some(Event::Delivered) => self.carriers = self.carriers.saturating_sub(1),
                Some(Event::Report(_)) => (),
                None => {
                    self.killer.kill();
                    self.wait_until_over();
                }
            }
        }
        Ok(())
    }

    fn unexpected(&mut self, event: Event) -> Result<(), GuestError> {
        match event {
            Event::Report(Report::Error(reason)) => Err(GuestError::Unable {
                reason,
                console: self.last_words(),
            }),
            Event::Report(_) => Ok(()),
            Event::Delivered => {
                self.carriers = self.carriers.saturating_sub(1);
                Ok(())
            }
            Event::Over(how) => {
                self.is_over = true;
                Err(self.died(how))
            }
            Event::Stop => Err(GuestError::Stopped),
        }
    }

    fn died(&self, how: String) -> GuestError {
        GuestError::Died {
            how,
            machine: self.machine.clone(),
            console: self.last_words(),
        }
    }

    /// `None` when the time has come.
    fn next_event(&self, deadline: Option<Instant>) -> Option<Event> {
        let received = match deadline {
            None => self
                .events
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                self.events.recv_timeout(left)
            }
        };
        match received {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            // This guest holds a sender itself.
            Err(RecvTimeoutError::Disconnected) => Some(Event::Stop),
        }
    }

    fn wait_until_over(&mut self) {
        while !self.is_over {
            match self.events.recv() {
                Ok(Event::Delivered) => self.carriers = self.carriers.saturating_sub(1),
                Ok(Event::Over(_)) | Err(_) => self.is_over = true,
                Ok(_) => (),
            }
        }
    }

    fn last_words(&self) -> Vec<String> {
        self.console.last_lines(CONSOLE_LINES)
    }

    /// Lets another thread end the guest.
    pub fn stopper(&self) -> GuestStopper {
        self.stopper.clone()
    }

    /// Lets another thread tell of a new size of the terminal.
    pub(super) fn control(&self) -> Control {
        self.control.clone()
    }
}

impl Drop for RunningGuest {
    fn drop(&mut self) {
        self.killer.kill();
        self.wait_until_over();
    }
}

/// Passes init's reports on.
fn listen(control: UnixStream, nonce: String, events: Sender<Event>) -> io::Result<JoinHandle<()>> {
    let listen = move || {
        let mut control = BufReader::new(control);
        while let Ok(Some(report)) = report::next(&mut control, &nonce) {
            let _ = events.send(Event::Report(report));
        }
    };
    thread::Builder::new()
        .name("guest reports".into())
        .spawn(listen)
}

type StartInput = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Starts to carry output. Returns how many threads do, and how to start the input.
fn connect(
    lines: Speech<UnixStream>,
    stdio: GuestStdio,
    control: &Control,
    events: &Sender<Event>,
) -> io::Result<(usize, StartInput)> {
    let carry = |line, to: Box<dyn Write + Send>, stream| {
        let events = events.clone();
        let delivered = move || {
            let _ = events.send(Event::Delivered);
        };
        line::carry_out(line, to, stream, control.clone(), delivered)
    };
    match (lines, stdio) {
        (Speech::Terminal(line), GuestStdio::Terminal { keys, screen, .. }) => {
            carry(line.try_clone()?, screen, Stream::Stdout)?;
            Ok((1, Box::new(move || line::carry_keys(keys, line))))
        }
        (
            Speech::Streams {
                stdin: input,
                stdout: output,
                stderr: errors,
            },
            GuestStdio::Streams {
                stdin,
                stdout,
                stderr,
            },
        ) => {
            carry(output, stdout, Stream::Stdout)?;
            carry(errors, stderr, Stream::Stderr)?;
            Ok((2, Box::new(move || line::carry_in(stdin, input))))
        }
        // The lines were made for this very stdio.
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
