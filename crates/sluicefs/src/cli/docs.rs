//! Completions and manual pages, made from the same definitions as the help.

use super::Cli;
use crate::failure::Failure;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::PathBuf;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "For bash: sluice completions bash > /etc/bash_completion.d/sluice")]
pub(super) struct CompletionsArgs {
    /// The shell that will read the script.
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "sluice", &mut script);
        print(&script)
    }
}

/// Print the manual page, or write one page for every command.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Write sluice.1, sluice-serve.1 and so on into this directory instead.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ManArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Some(dir) = self.out else {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map_err(|error| Failure::new(format!("cannot make the manual page: {error}")))?;
            return print(&page);
        };
        std::fs::create_dir_all(&dir)
            .map_err(|error| Failure::from_io("make the directory", &dir, &error))?;
        clap_mangen::generate_to(Cli::command(), &dir)
            .map_err(|error| Failure::from_io("write manual pages to", &dir, &error))
    }
}

/// To stdout; whoever closes the pipe has seen enough.
pub(super) fn print(bytes: &[u8]) -> Result<(), Failure> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}
