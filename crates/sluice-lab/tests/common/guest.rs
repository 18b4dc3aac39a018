//! Real guests, on user-mode Linux.

use super::daemon::Daemon;
use super::{lab_cache, skip};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sluicefs::sandbox::{
    Guest, GuestShare, GuestStdio, MachineChoice, MachineKind, RunningGuest, ShareSource,
};
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::time::Duration;

/// A guest that runs `script` with a daemon's share on `/share`, or why there is none.
pub fn uml(daemon: &Daemon, script: &str) -> Option<Guest> {
    let mut guest = Guest::new(["sh", "-c", script]);
    guest.machine = MachineChoice {
        kind: MachineKind::Uml,
        lab_cache: Some(lab_cache()),
        ..MachineChoice::default()
    };
    // Far more than any of them takes.
    guest.boot_timeout = Duration::from_secs(300);
    guest.time_limit = Some(Duration::from_secs(300));
    guest.memory_mib = 256;
    guest.shares.push(GuestShare {
        source: ShareSource::Socket {
            socket: daemon.socket().to_owned(),
            tag: Daemon::TAG.parse().unwrap(),
        },
        at: "/share".into(),
        read_only: false,
    });
    match guest.machine.probe() {
        Ok(_) => Some(guest),
        Err(missing) => {
            skip(&missing.to_string());
            None
        }
    }
}

/// How long a guest may take for anything: many times what it takes.
const SILENCE: Duration = Duration::from_secs(120);

/// A running guest, what it prints, and what it is told.
pub struct Console {
    running: RunningGuest,
    printed: BufReader<PipeReader>,
    keys: PipeWriter,
}

impl Console {
    /// Starts `guest`; its command runs when this returns.
    pub fn start(guest: &Guest) -> Console {
        let (input, keys) = io::pipe().unwrap();
        let (screen, output) = io::pipe().unwrap();
        let stdio = GuestStdio::Streams {
            stdin: Box::new(input),
            stdout: Box::new(output),
            stderr: Box::new(io::stderr()),
        };
        let mut running = guest.start(stdio).unwrap();
        running.wait_until_ready().unwrap();
        Console {
            running,
            printed: BufReader::new(screen),
            keys,
        }
    }

    /// The next whole line that it prints; `None` when there is none any more.
    ///
    /// # Panics
    /// When the guest has said nothing for [`SILENCE`].
    pub fn line(&mut self) -> Option<String> {
        if self.printed.buffer().is_empty() {
            let limit = Timespec::try_from(SILENCE).unwrap();
            let pipe = &mut [PollFd::new(self.printed.get_ref(), PollFlags::IN)];
            let said = poll(pipe, Some(&limit)).unwrap() > 0;
            assert!(said, "the guest has said nothing for {SILENCE:?}");
        }
        next_line(&mut self.printed)
    }

    /// Kills the guest's machine with SIGKILL. Returns the whole lines that still arrive.
    pub fn kill(self) -> Vec<String> {
        let Console {
            running,
            mut printed,
            keys,
        } = self;
        drop(running);
        drop(keys);
        std::iter::from_fn(|| next_line(&mut printed)).collect()
    }
}

/// A line cut short is none: what it would have said is unknown.
fn next_line(printed: &mut BufReader<PipeReader>) -> Option<String> {
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    line.strip_suffix('\n').map(str::to_owned)
}

/// A shell in a guest that is asked one thing after the other.
pub struct GuestShell(Console);

impl GuestShell {
    /// What the guest runs.
    pub const SCRIPT: &str =
        "while read -r command; do eval \"$command\"; printf '\\n= %s\\n' $?; done";

    /// Boots a guest with a shell in `/share`.
    pub fn start(daemon: &Daemon) -> Option<GuestShell> {
        Some(GuestShell::of(&uml(daemon, GuestShell::SCRIPT)?))
    }

    /// Boots a guest that runs [`SCRIPT`](Self::SCRIPT).
    pub fn of(guest: &Guest) -> GuestShell {
        GuestShell(Console::start(guest))
    }

    /// Starts `command`, which does not end at once. [`finish`](Self::finish) waits
    /// for it.
    pub fn begin(&mut self, command: &str) {
        writeln!(self.0.keys, "{command}").unwrap();
    }

    /// The next line that the command prints.
    #[track_caller]
    pub fn line(&mut self) -> String {
        self.0.line().expect("the guest is there")
    }

    /// Runs `command`, which must succeed; what it prints, without the last line's end.
    #[track_caller]
    pub fn run(&mut self, command: &str) -> String {
        self.begin(command);
        self.finish(command)
    }

    /// Waits for the end of `command`, which must succeed; what it printed since.
    #[track_caller]
    pub fn finish(&mut self, command: &str) -> String {
        let mut printed = Vec::new();
        loop {
            let Some(line) = self.0.line() else {
                panic!("the guest is gone in {command}");
            };
            let Some(status) = line.strip_prefix("= ") else {
                printed.push(line);
                continue;
            };
            assert_eq!(status, "0", "{command} printed {printed:?}");
            // The status is on a line of its own, also behind a line without an end.
            printed.pop_if(|last| last.is_empty());
            return printed.join("\n");
        }
    }
}
