//! Failures as the user sees them.

use std::fmt;
use std::io;
use std::path::Path;

/// Why a command ended: what is wrong, and what to do about it, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    what: String,
    advice: Option<String>,
    is_misuse: bool,
}

impl Failure {
    /// A failure without advice.
    pub fn new(what: impl Into<String>) -> Self {
        Failure {
            what: without_numbers(&one_line(&what.into())),
            advice: None,
            is_misuse: false,
        }
    }

    /// A command line or configuration that makes no sense.
    pub fn misuse(what: impl Into<String>) -> Self {
        Failure {
            is_misuse: true,
            ..Failure::new(what)
        }
    }

    /// What the process exits with: 2 for a misuse, else 1.
    pub fn status(&self) -> u8 {
        if self.is_misuse { 2 } else { 1 }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Failure {
            advice: Some(one_line(&advice.into())),
            ..self
        }
    }

    /// `cannot VERB PATH: the system's words`.
    pub fn from_io(verb: &str, path: &Path, error: &io::Error) -> Self {
        Failure::new(format!(
            "cannot {verb} '{}': {}",
            path.display(),
            system_words(error)
        ))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// The error's text without Rust's ` (os error N)`.
pub(crate) fn system_words(error: &io::Error) -> String {
    let text = error.to_string();
    without_numbers(&text)
}

fn without_numbers(text: &str) -> String {
    let mut rest = text.split(" (os error ");
    let mut out = rest.next().unwrap_or_default().to_owned();
    for part in rest {
        out.push_str(part.split_once(')').map_or("", |(_, after)| after));
    }
    out
}

/// A file name may hold line breaks, and what moves a terminal's cursor; a message must
/// not.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() && c != '\t' {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        let missing = io::Error::from_raw_os_error(2);
        let failure = Failure::from_io("open", Path::new("/a\nb"), &missing).advise("make it");
        assert_eq!(
            failure.to_string(),
            "cannot open '/a\\nb': No such file or directory; make it"
        );
        let colored = Failure::from_io("open", Path::new("\x1b[31m\u{9b}"), &missing);
        assert!(
            colored
                .to_string()
                .starts_with("cannot open '\\u{1b}[31m\\u{9b}'")
        );
        let nested = Failure::new(format!("cannot serve ({missing}), or so"));
        assert_eq!(
            nested.to_string(),
            "cannot serve (No such file or directory), or so"
        );
    }
}
