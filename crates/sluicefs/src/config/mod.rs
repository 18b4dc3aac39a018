//! Configuration files: TOML, whose keys are long options of the command line.
//!
//! Nothing is defined twice. A table becomes the words of a command line
//! (`words`), which are parsed by the definitions that the command itself has;
//! what is wrong with them is told at the key's place (`place`).

mod place;
mod words;

use crate::failure::Failure;
use clap::Args;
use place::Place;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file that was read.
pub(crate) struct ConfigFile<'a> {
    path: &'a Path,
    text: String,
}

/// What is wrong, and with which bytes of the file.
#[derive(Debug)]
struct Wrong {
    what: String,
    span: Range<usize>,
}

/// A table's options.
#[derive(Debug)]
pub(crate) struct Section<T> {
    /// As the command line has them.
    pub(crate) options: T,
    span: Range<usize>,
}

impl<'a> ConfigFile<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// A file that cannot be read, or is no text.
    pub(crate) fn read(path: &'a Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::from_io("read", path, &error))?;
        Ok(ConfigFile { path, text })
    }

    /// The options in each table `[[name]]`, of which there must be one. Beside
    /// them there may only be the table `[beside]`.
    ///
    /// # Errors
    /// A misuse, with the place of what is wrong.
    pub(crate) fn sections<T: Args>(
        &self,
        name: &str,
        beside: &str,
    ) -> Result<Vec<Section<T>>, Failure> {
        self.try_sections(name, beside)
            .map_err(|wrong| self.refuse(&wrong))
    }

    /// The options in the table `[name]`, which is empty unless it is there.
    ///
    /// # Errors
    /// A misuse, with the place of what is wrong.
    pub(crate) fn table<T: Args>(&self, name: &str) -> Result<Section<T>, Failure> {
        self.try_table(name).map_err(|wrong| self.refuse(&wrong))
    }

    /// Why `section` makes no sense as a whole.
    pub(crate) fn misuse<T>(&self, section: &Section<T>, what: &str) -> Failure {
        self.refuse(&Wrong {
            what: what.to_owned(),
            span: section.span.clone(),
        })
    }

    fn document(&self) -> Result<Spanned<DeTable<'_>>, Wrong> {
        DeTable::parse(&self.text).map_err(|error| Wrong {
            what: error.message().to_owned(),
            span: error.span().unwrap_or_default(),
        })
    }

    fn try_table<T: Args>(&self, name: &str) -> Result<Section<T>, Wrong> {
        let document = self.document()?;
        let empty = DeTable::new();
        section(match document.get_ref().get(name) {
            None => Spanned::new(0..0, &empty),
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => Spanned::new(value.span(), table),
                _ => return Err(Wrong::at(value, format!("[{name}] is a table"))),
            },
        })
    }

    fn try_sections<T: Args>(&self, name: &str, beside: &str) -> Result<Vec<Section<T>>, Wrong> {
        let document = self.document()?;
        let mut sections = Vec::new();
        for (key, value) in document.get_ref() {
            if key.get_ref() == beside {
                continue;
            }
            if key.get_ref() != name {
                let what = format!(
                    "unknown key '{}': there are tables [[{name}]], and [{beside}]",
                    key.get_ref()
                );
                return Err(Wrong::at(key, what));
            }
            for table in tables(value, name)? {
                sections.push(table);
            }
        }
        if sections.is_empty() {
            let what = format!("nothing to serve: a share is a table [[{name}]]");
            return Err(Wrong { what, span: 0..0 });
        }
        sections.into_iter().map(section).collect()
    }

    fn refuse(&self, wrong: &Wrong) -> Failure {
        let Place { line, column } = Place::of(&self.text, wrong.span.start);
        let path = self.path.display();
        Failure::misuse(format!("{path}:{line}:{column}: {}", wrong.what))
    }
}

impl Wrong {
    fn at<T>(place: &Spanned<T>, what: impl Into<String>) -> Self {
        Wrong {
            what: what.into(),
            span: place.span(),
        }
    }
}

type Table<'i> = Spanned<&'i DeTable<'i>>;

fn tables<'i>(value: &'i Spanned<DeValue<'i>>, name: &str) -> Result<Vec<Table<'i>>, Wrong> {
    let wrong = |place: &Spanned<_>| Wrong::at(place, format!("shares are tables [[{name}]]"));
    let DeValue::Array(array) = value.get_ref() else {
        return Err(wrong(value));
    };
    let table = |element: &'i Spanned<DeValue<'i>>| match element.get_ref() {
        DeValue::Table(table) => Ok(Spanned::new(element.span(), table)),
        _ => Err(wrong(element)),
    };
    array.iter().map(table).collect()
}

fn section<T: Args>(table: Table<'_>) -> Result<Section<T>, Wrong> {
    Ok(Section {
        options: words::parse(&table)?,
        span: table.span(),
    })
}

#[cfg(test)]
mod tests;
