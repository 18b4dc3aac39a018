//! Bad command lines, on one line each.

use super::Cli;
use crate::logging;
use clap::error::ErrorKind;
use clap::{CommandFactory, Error};
use std::ffi::OsString;
use std::process::ExitCode;

/// Prints help and version where they were asked for (status 0), and anything
/// else as one line on stderr (status 2).
pub(super) fn report(error: &Error, words: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe (`| head`) is the reader's choice.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ => {
            logging::say(format_args!(
                "{}; see '{}'",
                one_line(error),
                own_help_command(words)
            ));
            ExitCode::from(2)
        }
    }
}

/// What a command line lacks or has too much of, with clap's tips.
pub(crate) fn one_line(error: &Error) -> String {
    flatten(&error.render().to_string())
}

/// clap's message in paragraphs, `error: …`, `tip: …`, `Usage: …`, as
/// `what is wrong (tip)`.
fn flatten(rendered: &str) -> String {
    let mut what = String::new();
    let mut tips = Vec::new();
    for paragraph in rendered.split("\n\n") {
        let flat = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if flat.starts_with("tip: ") {
            tips.push(flat.replace("tip: ", ""));
        } else if what.is_empty() {
            what = flat.trim_start_matches("error: ").to_owned();
        }
    }
    if !tips.is_empty() {
        what = format!("{what} ({})", tips.join("; "));
    }
    what
}

/// The help of the command that was called, or of all.
fn own_help_command(words: &[OsString]) -> String {
    let called = words.get(1);
    match called.and_then(|name| Cli::command().find_subcommand(name).cloned()) {
        Some(command) => format!("sluice {} --help", command.get_name()),
        None => "sluice --help".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::flatten;

    #[test]
    fn paragraphs_become_one_line() {
        let rendered = "error: unexpected argument '--tga' found\n\n  \
            tip: a similar argument exists: '--tag'\n\n\
            Usage: sluice serve --tag <TAG> <DIR>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            flatten(rendered),
            "unexpected argument '--tga' found (a similar argument exists: '--tag')"
        );
        let rendered = "error: the following required arguments were not provided:\n  <DIR>\n\n\
            Usage: sluice serve <DIR>\n";
        assert_eq!(
            flatten(rendered),
            "the following required arguments were not provided: <DIR>"
        );
        let rendered = "error: invalid value 'x' for '--cache <MODE>'\n  \
            [possible values: never, auto]\n\nFor more information, try '--help'.\n";
        assert_eq!(
            flatten(rendered),
            "invalid value 'x' for '--cache <MODE>' [possible values: never, auto]"
        );
    }
}
