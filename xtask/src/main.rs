//! Developer commands: `cargo xtask COMMAND`.
#![forbid(unsafe_code)]

mod check_deps;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check-deps   compare what the crates import, and where unsafe code may be, with the design";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["check-deps"] => check_deps::run(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
