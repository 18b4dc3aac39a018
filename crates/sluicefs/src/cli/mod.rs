//! The command line. Help, manual pages and completions all come from the
//! definitions in here.
//!
//! Exit status: 0 when the command did what it was asked to (`serve` and
//! `mount` also when SIGINT, SIGTERM or SIGHUP ended them; a mount that was not
//! usable by then ends by the signal), 1 when it could not, 2 for a command line or
//! configuration file that makes no sense. `run` exits with what the guest's command
//! did, and with 125 where others do with 1; `virtiofsd` as virtiofsd does.

mod docs;
mod hints;
mod isolation_args;
mod legacy;
mod manual;
mod mount;
mod mount_helper;
mod p9_args;
mod remote;
mod run;
mod serve;
mod share_args;
mod stats;
mod usage;
mod virtiofsd;

use crate::failure::Failure;
use crate::logging::{self, Destination};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

pub use mount::MountArgs;
pub use run::RunArgs;
pub use serve::ServeArgs;
#[cfg(test)]
pub(crate) use serve::ShareEntry;
pub(crate) use usage::one_line;
pub use virtiofsd::VirtiofsdArgs;

/// Share host directories with virtual machines, containers and sandboxes.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = false)]
#[command(after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Environment:
  RUST_LOG  how much any command says on stderr: error, warn, info, debug or trace

Examples:
    sluice run --share . -- ls -l
    sluice serve /srv/code --virtiofs /run/code.sock
    sluice serve /srv/code --9p tcp:localhost:5640
    sluice ls tcp:localhost:5640:/
    sluice mount tcp:localhost:5640 /mnt";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(ServeArgs),
    Mount(MountArgs),
    Stats(stats::StatsArgs),
    Run(RunArgs),
    Ls(remote::LsArgs),
    Cat(remote::CatArgs),
    Put(remote::PutArgs),
    Stat(remote::StatArgs),
    Rm(remote::RmArgs),
    Mkdir(remote::MkdirArgs),
    Virtiofsd(VirtiofsdArgs),
    Completions(docs::CompletionsArgs),
    Man(docs::ManArgs),
}

/// Parses the command line, does what it says, and reports what went wrong.
pub fn main() -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_default();
    if legacy::is_virtiofsd(&program) {
        logging::set_own_name("virtiofsd");
    }
    let words = match legacy::spelled_out(std::env::args_os()) {
        Ok(words) => words,
        Err(why) => {
            let command = match mount_helper::is_called(&program) {
                true => "mount",
                false => "virtiofsd",
            };
            let help = usage::help_command(Some(command));
            logging::say(format_args!("{why}; see '{help}'"));
            return ExitCode::from(2);
        }
    };
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error, &words),
    };
    if let Err(why) = cli.command.check() {
        let error = Cli::command().error(ErrorKind::ValueValidation, why);
        return usage::report(&error, &words);
    }
    match &cli.command {
        Command::Virtiofsd(args) => args.start_logging(),
        _ => logging::init("error", Destination::Stderr),
    }
    match cli.command.run() {
        Ok(status) => status,
        Err(failure) => {
            logging::say(&failure);
            ExitCode::from(failure.status())
        }
    }
}

impl Command {
    /// What the definitions alone cannot say about a command line.
    fn check(&self) -> Result<(), String> {
        match self {
            Command::Serve(args) => args.check(),
            Command::Mount(args) => args.check(),
            Command::Run(args) => args.check(),
            Command::Virtiofsd(args) => args.check(),
            Command::Man(args) => args.check(),
            Command::Stats(_)
            | Command::Ls(_)
            | Command::Cat(_)
            | Command::Put(_)
            | Command::Stat(_)
            | Command::Rm(_)
            | Command::Mkdir(_)
            | Command::Completions(_) => Ok(()),
        }
    }

    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Serve(args) => args.run()?,
            Command::Mount(args) => args.run()?,
            Command::Stats(args) => args.run()?,
            Command::Run(args) => return Ok(args.run()),
            Command::Ls(args) => return Ok(args.run()),
            Command::Cat(args) => return Ok(args.run()),
            Command::Put(args) => return Ok(args.run()),
            Command::Stat(args) => return Ok(args.run()),
            Command::Rm(args) => return Ok(args.run()),
            Command::Mkdir(args) => return Ok(args.run()),
            Command::Virtiofsd(args) => return args.run(),
            Command::Completions(args) => args.run()?,
            Command::Man(args) => args.run()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
