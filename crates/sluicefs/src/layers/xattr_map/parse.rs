//! Rules as text: `:TYPE:SCOPE:KEY:PREPEND:`, or `:map:KEY:PREPEND:` as the
//! last. Whatever begins a rule separates and ends its fields. White space
//! may stand between rules.

use super::{Action, Rule, XattrMap};
use std::str::FromStr;

/// What is wrong with rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// No rule at all.
    #[error("there is no rule; a simple one is :map::user.virtiofs.:")]
    None,
    /// A rule without its last separator.
    #[error("rule '{rule}' does not end with '{separator}' after {fields} fields")]
    Unfinished {
        /// The rule, as far as it goes.
        rule: String,
        /// What separates its fields.
        separator: char,
        /// How many fields it should have.
        fields: usize,
    },
    /// Not a type of rule.
    #[error("'{0}' is no type of rule (prefix, ok, bad, unsupported or map)")]
    Type(String),
    /// Not a scope.
    #[error("'{0}' is no scope of a rule (client, server or all)")]
    Scope(String),
    /// A `map` rule, and something behind it.
    #[error("a map rule is the last: nothing may follow, but '{0}' does")]
    AfterMap(String),
}

impl FromStr for XattrMap {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let mut rest = text.trim_start();
        let mut rules = Vec::new();
        while let Some(separator) = rest.chars().next() {
            let mut fields = Fields { rest, separator };
            fields.skip_separator();
            let kind = fields.next(rest, 1)?;
            if kind == "map" {
                let [key, prepend] = [fields.next(rest, 3)?, fields.next(rest, 3)?];
                rules.extend(map_rules(key, prepend));
                rest = fields.rest.trim_start();
                if !rest.is_empty() {
                    return Err(BadRule::AfterMap(rest.to_owned()));
                }
            } else {
                let action = action(kind)?;
                let (for_client, for_host) = scope(fields.next(rest, 4)?)?;
                let [key, prepend] = [fields.next(rest, 4)?, fields.next(rest, 4)?];
                rules.push(rule(action, (for_client, for_host), key, prepend));
                rest = fields.rest.trim_start();
            }
        }
        match rules.is_empty() {
            true => Err(BadRule::None),
            false => Ok(XattrMap { rules }),
        }
    }
}

/// The fields of one rule and what follows it.
struct Fields<'t> {
    rest: &'t str,
    separator: char,
}

impl<'t> Fields<'t> {
    fn skip_separator(&mut self) {
        self.rest = self.rest.get(self.separator.len_utf8()..).unwrap_or("");
    }

    /// The next field of `rule`, which has `fields` of them.
    fn next(&mut self, rule: &str, fields: usize) -> Result<&'t str, BadRule> {
        let (field, rest) =
            self.rest
                .split_once(self.separator)
                .ok_or_else(|| BadRule::Unfinished {
                    rule: rule.trim_end().to_owned(),
                    separator: self.separator,
                    fields,
                })?;
        self.rest = rest;
        Ok(field)
    }
}

fn action(kind: &str) -> Result<Action, BadRule> {
    match kind {
        "prefix" => Ok(Action::Prefix),
        "ok" => Ok(Action::Ok),
        "bad" => Ok(Action::Bad),
        "unsupported" => Ok(Action::Unsupported),
        _ => Err(BadRule::Type(kind.to_owned())),
    }
}

/// Whether names from clients are meant, and whether those from the host are.
fn scope(scope: &str) -> Result<(bool, bool), BadRule> {
    match scope {
        "client" => Ok((true, false)),
        "server" => Ok((false, true)),
        "all" => Ok((true, true)),
        _ => Err(BadRule::Scope(scope.to_owned())),
    }
}

fn rule(action: Action, (for_client, for_host): (bool, bool), key: &str, prepend: &str) -> Rule {
    Rule {
        action,
        for_client,
        for_host,
        key: key.as_bytes().into(),
        prepend: prepend.as_bytes().into(),
    }
}

/// What `map` stands for. A client must not reach what others were mapped to
/// by its name on the host, nor see what the host has under their names.
fn map_rules(key: &str, prepend: &str) -> Vec<Rule> {
    const CLIENT: (bool, bool) = (true, false);
    const SERVER: (bool, bool) = (false, true);
    const ALL: (bool, bool) = (true, true);
    let prefix = rule(Action::Prefix, ALL, key, prepend);
    if key.is_empty() {
        return vec![prefix, rule(Action::Bad, ALL, "", "")];
    }
    vec![
        prefix,
        rule(Action::Bad, SERVER, "", key),
        rule(Action::Bad, CLIENT, prepend, ""),
        rule(Action::Ok, ALL, "", ""),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("", "there is no rule"),
            (" \n ", "there is no rule"),
            (":", "':' does not end with ':' after 1 fields"),
            (":ok", "':ok' does not end"),
            (":ok:all", "after 4 fields"),
            (":ok:all:a", "after 4 fields"),
            (":ok:all:a:b", "':ok:all:a:b' does not end with ':'"),
            (":ok:all:a:b/", "does not end with ':'"),
            (":map:a", "after 3 fields"),
            (":good:all:::", "'good' is no type"),
            (":ok:guest:::", "'guest' is no scope"),
            (":ok:all::::nok:all:::", "'nok' is no type"),
            (":map:a:b: :ok:all:::", "but ':ok:all:::' does"),
            (":map:a:b::map:c:d:", "but ':map:c:d:' does"),
        ] {
            let error = text.parse::<XattrMap>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn any_character_separates() {
        let expected: XattrMap = ":prefix:all:a:b::bad:all:::".parse().unwrap();
        for text in [
            "/prefix/all/a/b/ /bad/all///",
            "  :prefix:all:a:b:\n\t|bad|all|||\n",
            "…prefix…all…a…b…,bad,all,,,",
        ] {
            assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
        }
    }
}
