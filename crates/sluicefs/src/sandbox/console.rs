//! What the guest's kernel said, for when something goes wrong.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The last part of the kernel's messages.
#[derive(Clone, Default)]
pub(super) struct Console(Arc<Mutex<VecDeque<u8>>>);

/// How much is kept, in bytes.
const KEPT_BYTES: usize = 64 * 1024;

impl Console {
    /// Collects from `line` until its machine is gone, with a copy to `log`.
    pub(super) fn collect(
        &self,
        mut line: UnixStream,
        mut log: Option<File>,
    ) -> io::Result<JoinHandle<()>> {
        let console = self.clone();
        let collect = move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = line.read(&mut buffer) {
                let Some(piece @ [_, ..]) = buffer.get(..length) else {
                    return;
                };
                console.push(piece);
                if let Some(log) = &mut log {
                    let _ = log.write_all(piece);
                }
            }
        };
        thread::Builder::new()
            .name("guest console".into())
            .spawn(collect)
    }

    fn push(&self, piece: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(piece);
        let surplus = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..surplus);
    }

    /// The last lines that have something in them, without control characters.
    pub(super) fn last_lines(&self, count: usize) -> Vec<String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(kept.make_contiguous()).into_owned();
        let printable = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
        let lines = text
            .lines()
            .map(printable)
            .filter(|line| !line.trim().is_empty());
        let mut lines: Vec<String> = lines.collect();
        lines.split_off(lines.len().saturating_sub(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let console = Console::default();
        for nth in 0..20_000 {
            console.push(format!("line {nth}\x1b\r\n \n").as_bytes());
        }
        console.push(b"no end");
        assert_eq!(console.last_lines(2), ["line 19999", "no end"]);
        assert!(console.0.lock().unwrap().len() <= KEPT_BYTES);
        assert!(console.last_lines(usize::MAX).len() > 1000);
    }
}
