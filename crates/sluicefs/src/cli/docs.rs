//! Completions and manual pages, made from the same definitions as the help.

use super::{Cli, manual};
use crate::failure::Failure;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::PathBuf;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(super) struct CompletionsArgs {
    /// The shell that will read the script
    shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
    sluice completions bash >/etc/bash_completion.d/sluice
    sluice completions zsh >/usr/local/share/zsh/site-functions/_sluice";

impl CompletionsArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "sluice", &mut script);
        print(&script)
    }
}

/// Print a manual page, or write one for every command.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(super) struct ManArgs {
    /// The command that the page is about [default: sluice itself]
    command: Option<String>,

    /// Write sluice.1, sluice-serve.1 and so on into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

const MAN_EXAMPLES: &str = "\
Examples:
    sluice man serve | man -l -
    sluice man --out /usr/local/share/man/man1";

impl ManArgs {
    pub(super) fn check(&self) -> Result<(), String> {
        let Some(name) = &self.command else {
            return Ok(());
        };
        match Cli::command().find_subcommand(name) {
            Some(_) => Ok(()),
            None => Err(format!("there is no command '{name}'")),
        }
    }

    pub(super) fn run(self) -> Result<(), Failure> {
        let pages = manual::pages()
            .map_err(|error| Failure::new(format!("cannot make manual pages: {error}")))?;
        let Some(dir) = self.out else {
            let name = match self.command {
                Some(command) => format!("sluice-{command}"),
                None => "sluice".to_owned(),
            };
            let page = pages.iter().find(|page| page.name == name);
            return page.map_or(Ok(()), |page| print(&page.text));
        };
        std::fs::create_dir_all(&dir)
            .map_err(|error| Failure::from_io("make the directory", &dir, &error))?;
        for page in pages {
            let path = dir.join(format!("{}.1", page.name));
            std::fs::write(&path, page.text)
                .map_err(|error| Failure::from_io("write", &path, &error))?;
        }
        Ok(())
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
