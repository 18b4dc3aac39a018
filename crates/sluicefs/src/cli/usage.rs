//! Bad command lines, on one line each.

use super::Cli;
use crate::logging;
use clap::error::ErrorKind;
use clap::{CommandFactory, Error};
use std::process::ExitCode;

/// Prints help and version where they were asked for (status 0), and anything
/// else as one line on stderr (status 2).
pub(super) fn report(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe (`| head`) is the reader's choice.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ => {
            let rendered = error.render().to_string();
            logging::say(one_line(&rendered, &own_help_command()));
            ExitCode::from(2)
        }
    }
}

/// clap's message in paragraphs, `error: …`, `tip: …`, `Usage: …`, as
/// `what is wrong (tip); see 'HELP'`.
fn one_line(rendered: &str, help: &str) -> String {
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
    format!("{what}; see '{help}'")
}

/// The help of the command that was called, or of all.
fn own_help_command() -> String {
    let called = std::env::args_os().nth(1);
    match called.and_then(|name| Cli::command().find_subcommand(name).cloned()) {
        Some(command) => format!("sluice {} --help", command.get_name()),
        None => "sluice --help".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn paragraphs_become_one_line() {
        let rendered = "error: unexpected argument '--tga' found\n\n  \
            tip: a similar argument exists: '--tag'\n\n\
            Usage: sluice serve --tag <TAG> <DIR>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(rendered, "sluice serve --help"),
            "unexpected argument '--tga' found (a similar argument exists: '--tag'); \
             see 'sluice serve --help'"
        );
        let rendered = "error: the following required arguments were not provided:\n  <DIR>\n\n\
            Usage: sluice serve <DIR>\n";
        assert_eq!(
            one_line(rendered, "sluice serve --help"),
            "the following required arguments were not provided: <DIR>; see 'sluice serve --help'"
        );
        let rendered = "error: invalid value 'x' for '--cache <MODE>'\n  \
            [possible values: never, auto]\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(rendered, "sluice serve --help"),
            "invalid value 'x' for '--cache <MODE>' [possible values: never, auto]; \
             see 'sluice serve --help'"
        );
    }
}
