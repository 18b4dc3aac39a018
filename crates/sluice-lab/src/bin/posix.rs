//! POSIX cases on a directory: real system calls, one line each in TAP.
#![forbid(unsafe_code)]

use clap::Parser;
use sluice_lab::posix;
use std::path::PathBuf;
use std::process::ExitCode;

/// Try a file system's POSIX semantics with real system calls.
///
/// Prints TAP (testanything.org). Exit status: 0 when no case failed, 1 when
/// one did or nothing could be tried, 2 for a command line that makes no sense.
#[derive(Debug, Parser)]
#[command(name = "posix", version, max_term_width = 100)]
struct Cli {
    /// A directory on the file system; what is made there is removed again
    #[arg(required_unless_present = "list")]
    dir: Option<PathBuf>,

    /// Only cases with TEXT in their name
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,

    /// The case called NAME may fail
    #[arg(long, value_name = "NAME")]
    known: Vec<String>,

    /// Print the names of the cases and run none
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if let (Some(posix::HELPER), Some(path)) = (arguments.next().as_deref(), arguments.next()) {
        return status(posix::run_helper(&path).map(|()| true));
    }
    let cli = Cli::parse();
    let cases = posix::all_cases();
    let Some(dir) = cli.dir.filter(|_| !cli.list) else {
        for case in cases.iter().filter(|case| case.name.contains(&cli.filter)) {
            println!("{}", case.name);
        }
        return ExitCode::SUCCESS;
    };
    let outcome = posix::run(&dir, &cases, &cli.filter, &cli.known, std::io::stdout());
    status(outcome.map(|outcome| outcome.failed == 0))
}

fn status(outcome: std::io::Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("posix: {error}");
            ExitCode::FAILURE
        }
    }
}
