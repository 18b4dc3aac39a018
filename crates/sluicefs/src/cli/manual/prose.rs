//! The text behind the options in a command's help, as roff.
//!
//! A line at the margin that ends with a colon is a title. Below it,
//! indentation tells: by less than four columns it is prose, or, with two blanks
//! within, a term and what it means; by four or more it is shown as it is,
//! unless it goes on with what a term means.

use roff::{Roff, bold, roman};

/// What stands below a title.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section {
    title: String,
    blocks: Vec<Block>,
}

#[derive(Debug, PartialEq, Eq)]
enum Block {
    Prose(String),
    Term(String, String),
    Shown(Vec<String>),
}

/// All of a help's text; what has no title comes under "Notes".
pub(super) fn sections(help: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in help.lines() {
        match line
            .strip_suffix(':')
            .filter(|title| !title.starts_with(' '))
        {
            Some(title) => sections.push(Section::new(title, "")),
            None if sections.is_empty() => sections.push(Section::new("Notes", line)),
            None => _ = sections.last_mut().map(|section| section.add_line(line)),
        }
    }
    sections
}

impl Section {
    /// With the lines of `text`.
    pub(super) fn new(title: &str, text: &str) -> Self {
        let mut section = Section {
            title: title.to_owned(),
            blocks: Vec::new(),
        };
        section.add(text);
        section
    }

    /// Adds more lines.
    pub(super) fn add(&mut self, text: &str) {
        text.lines().for_each(|line| self.add_line(line));
    }

    pub(super) fn is_called(&self, title: &str) -> bool {
        self.title == title
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn add_line(&mut self, line: &str) {
        let text = line.trim_start();
        let indentation = line.len() - text.len();
        let last = self.blocks.last_mut();
        match (indentation, last) {
            _ if text.is_empty() => {}
            (4.., Some(Block::Shown(lines))) => lines.push(line[4..].to_owned()),
            (4.., Some(Block::Term(_, meaning))) => append(meaning, text),
            // A term too long for what it means to stand beside it.
            (8.., Some(last @ Block::Prose(_))) => {
                if let Block::Prose(term) = last {
                    *last = Block::Term(std::mem::take(term), text.to_owned());
                }
            }
            (4.., _) => self.blocks.push(Block::Shown(vec![line[4..].to_owned()])),
            (_, last) => match (text.split_once("  "), last) {
                (Some((term, meaning)), _) => {
                    let meaning = meaning.trim_start().to_owned();
                    self.blocks.push(Block::Term(term.to_owned(), meaning));
                }
                (None, Some(Block::Prose(prose))) => append(prose, text),
                (None, _) => self.blocks.push(Block::Prose(text.to_owned())),
            },
        }
    }

    pub(super) fn render(&self, roff: &mut Roff) {
        roff.control("SH", [self.title.to_uppercase().as_str()]);
        for block in &self.blocks {
            match block {
                Block::Prose(text) => {
                    roff.control("PP", []).text([roman(text)]);
                }
                Block::Term(term, meaning) => {
                    roff.control("TP", [])
                        .text([bold(term)])
                        .text([roman(meaning)]);
                }
                Block::Shown(lines) => {
                    roff.control("PP", [])
                        .control("RS", ["4"])
                        .control("nf", []);
                    for line in lines {
                        roff.text([roman(line)]);
                    }
                    roff.control("fi", []).control("RE", []);
                }
            }
        }
    }
}

fn append(text: &mut String, more: &str) {
    text.push(' ');
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_tells_what_a_line_is() {
        let help = "\
Untitled.
Exit status:
  that of the command, or
  2    bad
  125  worse,
       much
       worse
  a long term, dirsync
            as for mount
Examples:
  Two ways, of which
  one is shown:
    sluice run \\
        -- ls

    ls
Margin text.
";
        let term = |term: &str, meaning: &str| Block::Term(term.into(), meaning.into());
        let prose = |text: &str| Block::Prose(text.into());
        let shown = |lines: &[&str]| Block::Shown(lines.iter().map(ToString::to_string).collect());
        let expected = [
            ("Notes", vec![prose("Untitled.")]),
            (
                "Exit status",
                vec![
                    prose("that of the command, or"),
                    term("2", "bad"),
                    term("125", "worse, much worse"),
                    term("a long term, dirsync", "as for mount"),
                ],
            ),
            (
                "Examples",
                vec![
                    prose("Two ways, of which one is shown:"),
                    shown(&["sluice run \\", "    -- ls", "ls"]),
                    prose("Margin text."),
                ],
            ),
        ];
        let expected = expected.map(|(title, blocks)| Section {
            title: title.to_owned(),
            blocks,
        });
        assert_eq!(sections(help), expected);
    }
}
