//! Bad command lines, on one line each.

use super::Cli;
use super::hints::{hint, no_command_hint};
use crate::logging;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};
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
            let all = definitions();
            let called = words.get(1).and_then(|name| all.find_subcommand(name));
            let what = explained(error, called, &all);
            let command = called.map(Command::get_name);
            logging::say(format_args!("{what}; see '{}'", help_command(command)));
            ExitCode::from(2)
        }
    }
}

/// What shows the help of `command`, or of all.
pub(super) fn help_command(command: Option<&str>) -> String {
    let own_name = logging::own_name();
    match command.filter(|command| *command != own_name) {
        Some(command) => format!("{own_name} {command} --help"),
        None => format!("{own_name} --help"),
    }
}

/// Of all commands, with their help and version.
pub(super) fn definitions() -> Command {
    let mut all = Cli::command();
    all.build();
    all
}

/// What a share's words lack or have too much of, behind --and.
pub(super) fn share_explained(error: &Error) -> String {
    let all = definitions();
    let serve = all.find_subcommand("serve");
    let is_process_wide = unknown_argument(error).is_some_and(|word| {
        let mut arguments = serve.into_iter().flat_map(Command::get_arguments);
        arguments.any(|arg| arg.get_long() == word.strip_prefix("--"))
    });
    if is_process_wide {
        return format!(
            "{} (it is for the whole process: write it before --and)",
            one_line(error)
        );
    }
    explained(error, serve, &all)
}

/// With what to write instead.
fn explained(error: &Error, command: Option<&Command>, all: &Command) -> String {
    let what = one_line(error);
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(hint) = no_command_hint(word)
    {
        return format!("unrecognized subcommand '{word}' ({hint})");
    }
    let hint = unknown_argument(error).and_then(|word| hint(word, command, all));
    match hint {
        Some(hint) => format!("{what} ({hint})"),
        None => what,
    }
}

fn unknown_argument(error: &Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => {
            Some(word)
        }
        _ => None,
    }
}

/// What a command line lacks or has too much of, with clap's tips where they help.
pub(crate) fn one_line(error: &Error) -> String {
    let line = flatten(&error.render().to_string());
    match error.kind() {
        // `hint` knows better.
        ErrorKind::UnknownArgument => match line.find(" found (") {
            Some(end) => line[..end + " found".len()].to_owned(),
            None => line,
        },
        _ => line,
    }
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
