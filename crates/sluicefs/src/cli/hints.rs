//! What to write instead of a word that a command does not take. clap's own
//! tips know neither the other commands nor what things are called elsewhere.

use crate::mount::MountOptions;
use crate::nearest::nearest;
use clap::Command;

/// What to do about `unknown`, an option or a word too many of `command`;
/// `None` where it stands before any command.
pub(super) fn hint(unknown: &str, command: Option<&Command>, all: &Command) -> Option<String> {
    let Some(command) = command else {
        return misplaced(unknown, all);
    };
    by_another_name(command.get_name(), unknown)
        .map(str::to_owned)
        .or_else(|| mount_option(command.get_name(), unknown))
        .or_else(|| slip(unknown, command))
        .or_else(|| of_another_command(unknown, command, all))
}

/// What to write instead of a command that others do.
pub(super) fn no_command_hint(word: &str) -> Option<&'static str> {
    match word {
        "umount" | "unmount" => Some("umount MNT does it, or fusermount3 -u MNT"),
        _ => None,
    }
}

/// A word for something that is called or said otherwise here.
fn by_another_name(command: &str, unknown: &str) -> Option<&'static str> {
    Some(match (command, unknown) {
        ("serve", "--shared-dir" | "--share" | "--dir" | "--export") => {
            "the directory comes by itself: sluice serve DIR"
        }
        ("serve", "--socket-path" | "--socket") => "write --virtiofs SOCKET",
        ("serve", "--ro") => "write --read-only",
        ("serve", "-o") => "write each as an option of its own, such as --cache=auto",
        ("serve", positional) if !positional.starts_with('-') => {
            "a socket comes behind an option that says what is spoken on it, such as --virtiofs"
        }
        ("mount", "-r" | "--ro" | "--read-only" | "--readonly") => "write -o ro",
        ("mount", "--negative-timeout") => "write -o negtimeout=MILLISECONDS",
        ("mount", "-t" | "--type" | "--types") => "what is mounted tells its kind",
        ("run", "--ro" | "--read-only" | "--readonly") => "write --share DIR:ro",
        ("run", positional) if !positional.starts_with('-') => {
            "a command comes behind two dashes: sluice run -- CMD"
        }
        ("virtiofsd", "--virtiofs") => "write --socket-path SOCKET",
        ("virtiofsd", positional) if !positional.starts_with('-') => {
            "the directory comes behind --shared-dir"
        }
        _ => return None,
    })
}

/// `mount` has most of its options behind -o.
fn mount_option(command: &str, unknown: &str) -> Option<String> {
    let name = unknown.strip_prefix("--").filter(|_| command == "mount")?;
    let spellings = [name.replace('-', "_"), name.replace('-', "")];
    let mut words = MountOptions::words();
    let word = words.find(|word| {
        spellings
            .iter()
            .any(|name| name == word.trim_end_matches('='))
    })?;
    Some(format!("write -o {word}"))
}

fn slip(unknown: &str, command: &Command) -> Option<String> {
    let name = unknown.strip_prefix("--")?;
    nearest(name, longs(command)).map(|near| format!("did you mean '--{near}'?"))
}

fn of_another_command(unknown: &str, command: &Command, all: &Command) -> Option<String> {
    let others = takers(unknown, all);
    let others: Vec<_> = others
        .into_iter()
        .filter(|name| *name != command.get_name())
        .collect();
    (!others.is_empty()).then(|| format!("it is an option of {}", in_words(&others)))
}

/// An option of a command's, in front of it.
fn misplaced(unknown: &str, all: &Command) -> Option<String> {
    let takers = takers(unknown, all);
    if takers.is_empty() {
        return slip(unknown, all);
    }
    Some(format!(
        "options of {} come behind that word",
        in_words(&takers)
    ))
}

/// The commands that have this option.
fn takers<'c>(unknown: &str, all: &'c Command) -> Vec<&'c str> {
    let Some(name) = unknown.strip_prefix("--") else {
        return Vec::new();
    };
    let commands = all.get_subcommands();
    let takers = commands.filter(|command| longs(command).any(|long| long == name));
    takers.map(Command::get_name).collect()
}

fn longs(command: &Command) -> impl Iterator<Item = &str> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.flat_map(|arg| arg.get_long_and_visible_aliases().unwrap_or_default())
}

fn in_words(names: &[&str]) -> String {
    let names: Vec<_> = names
        .iter()
        .map(|name| format!("'sluice {name}'"))
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::usage::definitions;

    #[test]
    fn a_hint_fits_the_command() {
        let all = definitions();
        for (command, unknown, expected) in [
            (
                "",
                "--cache",
                "options of 'sluice serve', 'sluice run', 'sluice virtiofsd' come behind",
            ),
            ("", "--verion", "'--version'"),
            ("serve", "--tga", "did you mean '--tag'?"),
            ("serve", "--shared-dir", "sluice serve DIR"),
            (
                "serve",
                "--thread-pool-size",
                "an option of 'sluice virtiofsd'",
            ),
            ("serve", "--export", "sluice serve DIR"),
            ("serve", "/run/s.sock", "behind an option"),
            ("mount", "--cache", "write -o cache="),
            ("mount", "--no-xattr", "write -o noxattr"),
            ("mount", "--security-label", "write -o security_label"),
            (
                "mount",
                "--tag",
                "an option of 'sluice serve', 'sluice virtiofsd'",
            ),
            ("run", "ls", "sluice run -- CMD"),
            ("run", "--tag", "an option of 'sluice serve'"),
            ("virtiofsd", "--read-only", "'--readonly'"),
            ("virtiofsd", "--poll", "an option of 'sluice serve'"),
        ] {
            let found = hint(unknown, all.find_subcommand(command), &all);
            let found = found.unwrap_or_default();
            assert!(found.contains(expected), "{command} {unknown}: {found}");
        }
        for (command, unknown) in [("serve", "--bogus"), ("", "--bogus"), ("mount", "-x")] {
            assert_eq!(
                hint(unknown, all.find_subcommand(command), &all),
                None,
                "{unknown}"
            );
        }
    }
}
