//! A shell in a guest, on a terminal that `script` (util-linux) makes.

use super::common::{PATIENCE, skip};
use super::lab::{cache, uml};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use tempfile::tempdir;

/// Someone at a terminal.
struct Session {
    script: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Session {
    fn start(command: &str) -> Option<Session> {
        let script = Command::new("script")
            .args(["-q", "-e", "-f", "-c", command, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("SLUICE", env!("CARGO_BIN_EXE_sluice"))
            .env("SLUICE_LAB_CACHE", cache())
            .env("TERM", "vt100")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut script) = script else {
            skip("no program 'script' (util-linux)");
            return None;
        };
        Some(Session {
            keys: script.stdin.take().unwrap(),
            screen: read_all(script.stdout.take().unwrap()),
            script,
            seen: Vec::new(),
        })
    }

    fn presses(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
    }

    /// Waits for a text behind what was seen before.
    fn sees(&mut self, text: &str) {
        loop {
            let found = self
                .seen
                .windows(text.len())
                .position(|part| part == text.as_bytes());
            if let Some(at) = found {
                self.seen.drain(..at + text.len());
                return;
            }
            match self.screen.recv_timeout(2 * PATIENCE) {
                Ok(piece) => self.seen.extend(piece),
                Err(error) => panic!(
                    "{error}: no {text:?} in {:?}",
                    String::from_utf8_lossy(&self.seen)
                ),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

fn read_all(mut screen: ChildStdout) -> Receiver<Vec<u8>> {
    let (pieces, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = screen.read(&mut buffer) {
            if pieces.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

#[test]
fn a_shell_in_a_guest_has_a_terminal() {
    if uml("").is_none() {
        return;
    }
    let share = tempdir().unwrap();
    let command = format!(
        "stty rows 33 cols 101; stty -g >{0}/before; mkfifo {0}/resize
         (read -r size <{0}/resize; stty $size </dev/tty) &
         $SLUICE run --machine uml --share {0}:/share
         status=$?; stty -g >{0}/after; exit $status",
        share.path().display()
    );
    let Some(mut session) = Session::start(&command) else {
        return;
    };
    session.sees("/share # ");
    session.presses(b"stty size; tty; echo on $TERM\n");
    session.sees("33 101");
    session.sees("/dev/ttyS0");
    session.sees("on vt100");
    std::fs::write(share.path().join("resize"), "rows 44 cols 99\n").unwrap();
    session.presses(b"until stty size | grep '44 99'; do :; done\n");
    session.sees("\n44 99\r\n");
    session.sees("/share # ");
    // Ctrl-C is the guest's. Before the command has the terminal it would be the shell's.
    session.presses(b"sh -c 'echo running; exec sleep 1000'\n");
    session.sees("running\r\n");
    session.presses(b"\x03");
    session.sees("/share # ");
    session.presses(b"exit 5\n");
    let status = session.script.wait().unwrap();
    assert_eq!(status.code(), Some(5));
    let read = |name: &str| std::fs::read_to_string(share.path().join(name)).unwrap();
    assert_eq!(read("before"), read("after"), "the terminal is as it was");
}
