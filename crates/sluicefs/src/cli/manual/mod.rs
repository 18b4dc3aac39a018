//! Manual pages, one for each command, from what the help is made from: the
//! definitions of options, and the sections of text behind them ([`prose`]).

mod prose;

use super::usage::definitions;
use clap::Command;
use clap_mangen::Man;
use prose::Section;
use roff::{Roff, bold, roman};
use std::io;

/// A page of section 1.
pub(super) struct Page {
    /// Of the command: `sluice-serve`.
    pub(super) name: String,
    /// As roff.
    pub(super) text: Vec<u8>,
}

/// The page of `sluice` itself, and those of its commands.
pub(super) fn pages() -> io::Result<Vec<Page>> {
    let all = definitions();
    let own = all.get_subcommands();
    let commands = own.filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let commands: Vec<&Command> = [&all].into_iter().chain(commands).collect();
    let names: Vec<_> = commands.iter().map(|command| page_name(command)).collect();
    commands
        .iter()
        .map(|command| page(command, &names))
        .collect()
}

fn page_name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

fn page(command: &Command, names: &[&str]) -> io::Result<Page> {
    let mut shown = command.clone().subcommand_help_heading("COMMANDS");
    if command.find_subcommand("help").is_some() {
        shown = shown.mut_subcommand("help", |help| help.hide(true));
    }
    let man = Man::new(shown)
        .date(" ") // an empty one would be left out, and the next words be taken for it
        .source(concat!("sluice ", env!("CARGO_PKG_VERSION")))
        .manual("Sluice Manual");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    text.extend(synopsis(command).to_roff().bytes());
    man.render_description_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    text.extend(options(&man)?);
    let mut rest = Roff::new();
    for section in sections(command) {
        section.render(&mut rest);
    }
    see_also(command, names).render(&mut rest);
    text.extend(rest.to_roff().bytes());
    let name = page_name(command).to_owned();
    Ok(Page { name, text })
}

/// Each form of the command line on a line of its own.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for (nth, form) in usage.trim_start_matches("Usage:").lines().enumerate() {
        if nth > 0 {
            roff.control("br", []);
        }
        let form = form.trim();
        let name = command.get_bin_name().filter(|name| form.starts_with(name));
        let name = name.unwrap_or_else(|| form.split(' ').next().unwrap_or_default());
        roff.text([bold(name), roman(&form[name.len()..])]);
    }
    roff
}

/// Groups of options are parts of one section.
fn options(man: &Man) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    man.render_options_section(&mut text)?;
    let text = String::from_utf8_lossy(&text).replace("\n.SH ", "\n.SS ");
    Ok(text.replacen(".SS OPTIONS", ".SH OPTIONS", 1).into_bytes())
}

/// Sections that every page has, in this order behind those of its own, and
/// what they say where the help has no such section.
const COMMON: [(&str, &str); 4] = [
    (
        "Exit status",
        "  0  it did what it was asked to
  1  it could not, and said why
  2  the command line makes no sense",
    ),
    ("Environment", ""),
    ("Files", ""),
    ("Examples", ""),
];

const LOG_VARIABLE: &str =
    "  RUST_LOG  how much to say on stderr: error, warn, info, debug or trace";

fn sections(command: &Command) -> Vec<Section> {
    let help = command.get_after_long_help().or(command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut sections = prose::sections(&help);
    for (title, default) in COMMON {
        let written = sections.iter().position(|section| section.is_called(title));
        let mut section = match written {
            Some(at) => sections.remove(at),
            None => Section::new(title, default),
        };
        if title == "Environment" && !help.contains("RUST_LOG") {
            section.add(LOG_VARIABLE);
        }
        if !section.is_empty() {
            sections.push(section);
        }
    }
    sections
}

fn see_also(command: &Command, names: &[&str]) -> Section {
    let others = names.iter().filter(|name| **name != page_name(command));
    let mut pages: Vec<_> = others.map(|name| format!("{name}(1)")).collect();
    if command.get_name() == "mount" {
        pages.extend(["fusermount3(1)", "mount(8)"].map(str::to_owned));
    }
    Section::new("See also", &pages.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(page: &Page) -> &str {
        std::str::from_utf8(&page.text).unwrap()
    }

    #[test]
    fn each_command_has_a_page_with_the_usual_sections_in_their_order() {
        let pages = pages().unwrap();
        let names: Vec<_> = pages.iter().map(|page| page.name.as_str()).collect();
        for name in [
            "sluice",
            "sluice-serve",
            "sluice-mount",
            "sluice-run",
            "sluice-virtiofsd",
        ] {
            assert!(names.contains(&name), "{names:?}");
        }
        for page in &pages {
            let titles = text(page)
                .lines()
                .filter_map(|line| line.strip_prefix(".SH "));
            let titles: Vec<_> = titles.map(|title| title.trim_matches('"')).collect();
            let usual = [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "OPTIONS",
                "EXIT STATUS",
                "ENVIRONMENT",
                "SEE ALSO",
            ];
            let found = titles.iter().filter(|title| usual.contains(title));
            assert!(found.eq(usual.iter()), "{}: {titles:?}", page.name);
            assert!(!titles.contains(&"EXTRA"), "{}", page.name);
            assert!(text(page).contains(concat!("\"sluice ", env!("CARGO_PKG_VERSION"))));
        }
    }

    #[test]
    fn pages_say_what_the_help_says() {
        let pages = pages().unwrap();
        let page = |name: &str| text(pages.iter().find(|page| page.name == name).unwrap());
        for (name, words) in [
            ("sluice", ".SH COMMANDS"),
            ("sluice-serve", ".SS ISOLATION"),
            ("sluice-serve", "[[share]]"),
            ("sluice-serve", ".SH \"CONFIGURATION FILE\""),
            ("sluice-mount", "\n\\fBnoxattr\\fR\n"),
            ("sluice-run", "\n\\fB127\\fR\n"),
            ("sluice-run", "SLUICE_LAB_CACHE"),
            ("sluice-run", "sluice run \\-\\-share . \\-\\- ls \\-l"),
            ("sluice-virtiofsd", ".SH FILES"),
            ("sluice-man", "\\fBsluice man\\fR [OPTIONS] [COMMAND]"),
        ] {
            assert!(
                page(name).contains(words),
                "{name}: {words}\n{}",
                page(name)
            );
        }
    }
}
