//! The `sluice` command once more: cargo tells a test only where the programs of its own
//! package are, and sees to it that they are as new as the test.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicefs::cli::main()
}
