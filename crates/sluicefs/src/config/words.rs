//! A table as the words of a command line.

use super::{Table, Wrong};
use crate::cli::one_line;
use crate::nearest::nearest;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Args, Command};
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::DeValue;

/// Parses `table` with the definitions of `T`.
pub(super) fn parse<T: Args>(table: &Table<'_>) -> Result<T, Wrong> {
    let command = Command::new("share").no_binary_name(true);
    let mut command = T::augment_args(command).disable_help_flag(true);
    command.build();
    let words = words(table, &command)?;
    let misfit = |error| misfit(&error, table);
    let matches = command.try_get_matches_from(words).map_err(misfit)?;
    T::from_arg_matches(&matches).map_err(misfit)
}

fn words(table: &Table<'_>, command: &Command) -> Result<Vec<String>, Wrong> {
    let mut options = Vec::new();
    let mut positionals = vec!["--".to_owned()];
    for (key, value) in *table.get_ref() {
        let name: &str = key.get_ref();
        let Some(definition) = command
            .get_arguments()
            .find(|arg| names(arg).contains(&name))
        else {
            return Err(Wrong::at(key, unknown(name, command)));
        };
        if definition.is_positional() {
            positionals.push(single(name, value)?.into_owned());
        } else {
            options.extend(option(definition, name, value, command)?);
        }
    }
    options.append(&mut positionals);
    Ok(options)
}

fn unknown(name: &str, command: &Command) -> String {
    let keys: Vec<_> = command.get_arguments().flat_map(names).collect();
    match nearest(name, keys.iter().copied()) {
        Some(near) => format!("unknown key '{name}' (did you mean '{near}'?)"),
        None => format!("unknown key '{name}' (keys here are {})", keys.join(", ")),
    }
}

/// What its key may be; the first is the usual one.
fn names(arg: &Arg) -> Vec<&str> {
    let longs = arg.get_long_and_visible_aliases();
    longs.unwrap_or_else(|| vec![arg.get_id().as_str()])
}

fn key_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or(arg.get_id().as_str())
}

fn option(
    definition: &Arg,
    name: &str,
    value: &Spanned<DeValue<'_>>,
    command: &Command,
) -> Result<Vec<String>, Wrong> {
    let is_switch = matches!(definition.get_action(), ArgAction::SetTrue);
    let needs_value = definition
        .get_num_args()
        .is_some_and(|count| count.min_values() > 0);
    let opposite = format!("no-{name}");
    let has = |name: &str| command.get_arguments().any(|arg| key_of(arg) == name);
    match value.get_ref() {
        DeValue::Boolean(true) if is_switch || !needs_value => Ok(vec![format!("--{name}")]),
        DeValue::Boolean(false) if has(&opposite) => Ok(vec![format!("--{opposite}")]),
        DeValue::Boolean(false) if is_switch || !needs_value => Ok(Vec::new()),
        _ if is_switch => Err(Wrong::at(value, format!("'{name}' is true or false"))),
        DeValue::Array(values) if matches!(definition.get_action(), ArgAction::Append) => {
            let word = |value| Ok(format!("--{name}={}", single(name, value)?));
            values.iter().map(word).collect()
        }
        _ => Ok(vec![format!("--{name}={}", single(name, value)?)]),
    }
}

fn single<'v>(name: &str, value: &'v Spanned<DeValue<'_>>) -> Result<Cow<'v, str>, Wrong> {
    match value.get_ref() {
        DeValue::String(text) => Ok(Cow::Borrowed(text)),
        DeValue::Integer(number) if number.radix() == 10 => Ok(Cow::Borrowed(number.as_str())),
        _ => Err(Wrong::at(value, format!("'{name}' is a text or a number"))),
    }
}

/// What the definitions say about words, at the key it is about.
fn misfit(error: &clap::Error, table: &Table<'_>) -> Wrong {
    Wrong {
        what: lacking(error).unwrap_or_else(|| one_line(error)),
        span: culprit(error, table).unwrap_or(table.span()),
    }
}

/// Keys that are missing, as they are written here.
fn lacking(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::Strings(usages) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let keys = usages
                .iter()
                .map(|usage| format!("'{}'", key_in(usage).to_lowercase()));
            Some(format!(
                "a key is missing: {}",
                keys.collect::<Vec<_>>().join(", ")
            ))
        }
        _ => None,
    }
}

/// Of a usage line's words: "--cache <MODE>", "<DIR>".
fn key_in(usage: &str) -> &str {
    let word = usage.split(['=', ' ', '[']).next().unwrap_or(usage);
    word.trim_start_matches("--").trim_matches(['<', '>'])
}

fn culprit(error: &clap::Error, table: &Table<'_>) -> Option<Range<usize>> {
    let ContextValue::String(usage) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let name = key_in(usage);
    let mut entries = table.get_ref().iter();
    let (_, value) = entries.find(|(key, _)| key.get_ref() == name)?;
    Some(value.span())
}
