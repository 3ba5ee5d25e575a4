//! The rules of the RFCs, one by one. Each rule has the file that implements it, and the test that fails when the rule
//! is broken.
//!
//! `conformance/rules/` has a file for each top-level section of an RFC. A rule is a sentence with MUST, MUST NOT,
//! SHOULD, SHOULD NOT, REQUIRED or RECOMMENDED, in our own words. The name of a rule is the section and the number of
//! the sentence in the section, as in `9260 §5.1-3`.
//!
//! A lettered item of a list or a row of a table is a rule even if it has no requirement keyword such as MUST. Its name
//! has the letter of the item instead of a sentence number, as in `9260 §6.3.3-E2`. Each file states the number of
//! sentences in each section. A test compares this number with the number of rules that have a sentence number.

use crate::toml_text;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// The files with the rules of the RFCs, in the order in which they are printed.
const FILES: &[(&str, &str)] = &[
    ("rfc9260-5.toml", include_str!("../rules/rfc9260-5.toml")),
    ("rfc9260-6.toml", include_str!("../rules/rfc9260-6.toml")),
    ("rfc9260-7.toml", include_str!("../rules/rfc9260-7.toml")),
    ("rfc9260-8.toml", include_str!("../rules/rfc9260-8.toml")),
    ("rfc9260-9.toml", include_str!("../rules/rfc9260-9.toml")),
    ("rfc9260-10.toml", include_str!("../rules/rfc9260-10.toml")),
    ("rfc9260-11.toml", include_str!("../rules/rfc9260-11.toml")),
    ("rfc3758-3.toml", include_str!("../rules/rfc3758-3.toml")),
    ("rfc5061-4.toml", include_str!("../rules/rfc5061-4.toml")),
    ("rfc5061-5.toml", include_str!("../rules/rfc5061-5.toml")),
    ("rfc6525-5.toml", include_str!("../rules/rfc6525-5.toml")),
];

/// The requirement level of a rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub enum Level {
    /// MUST, or REQUIRED.
    #[serde(rename = "MUST", alias = "REQUIRED")]
    Must,
    /// MUST NOT.
    #[serde(rename = "MUST NOT")]
    MustNot,
    /// SHOULD, or RECOMMENDED.
    #[serde(rename = "SHOULD", alias = "RECOMMENDED")]
    Should,
    /// SHOULD NOT.
    #[serde(rename = "SHOULD NOT")]
    ShouldNot,
    /// The requirement is stated without a keyword such as MUST or SHOULD.
    #[serde(rename = "plain")]
    Plain,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Must => "MUST",
            Self::MustNot => "MUST NOT",
            Self::Should => "SHOULD",
            Self::ShouldNot => "SHOULD NOT",
            Self::Plain => "plain",
        })
    }
}

/// A rule without a test gives a reason, which begins with one of these prefixes.
pub const REASONS: &[&str] = &[
    // The rule applies to a feature or a role that the engine does not have.
    "does not apply: ",
    // The engine obeys the rule, but neither a peer nor an application can observe whether it does.
    "cannot be seen: ",
    // The engine does not implement the rule. The reason follows.
    "not done: ",
    // The test of the rule is part of a change that is not finished yet.
    "pending: ",
];

/// A requirement of an RFC, with the files that implement it and the tests that check it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The identifier of the rule: RFC, section and number, as in `9260 §5.1-3`.
    pub id: String,
    /// The requirement level, for example MUST.
    pub level: Level,
    /// The requirement, in our own words.
    pub says: String,
    /// The source files that implement the rule.
    #[serde(default, deserialize_with = "one_or_more")]
    pub home: Vec<String>,
    /// The tests that fail when the rule is broken, as `file::name`.
    #[serde(default, deserialize_with = "one_or_more")]
    pub test: Vec<String>,
    /// The reason why the rule has no test. It begins with one of [`REASONS`].
    pub none: Option<String>,
    /// Where and why the engine deviates from the rule.
    pub deviates: Option<String>,
}

impl Rule {
    /// Splits the identifier of the rule into RFC, section and number.
    ///
    /// # Errors
    /// A description of what is wrong with the identifier.
    pub fn parts(&self) -> Result<(&str, &str, &str), String> {
        let parts = self.id.split_once(" §").and_then(|(rfc, rest)| {
            let (section, number) = rest.split_once('-')?;
            Some((rfc, section, number))
        });
        parts.ok_or_else(|| format!("{}: a rule's name is like \"9260 §5.1-3\"", self.id))
    }
}

/// Reads a list of texts from TOML, where a list of one text may be written as this text.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Texts {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Texts::deserialize(from)? {
        Texts::One(text) => vec![text],
        Texts::Many(texts) => texts,
    })
}

/// The rules in one file, which covers one top-level section of an RFC.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The number of the RFC whose rules these are.
    pub rfc: u16,
    /// The number and title of the section, for example `§4: chunks and parameters for address changes`.
    pub title: String,
    /// The number of sentences with a requirement keyword (RFC 2119, for example MUST), by section of the RFC.
    pub sentences: BTreeMap<String, usize>,
    /// The rules, in the order of the RFC.
    #[serde(default)]
    pub rule: Vec<Rule>,
}

impl Rules {
    /// Parses the text of a file of rules.
    ///
    /// # Errors
    /// Returns the line number and a description of the first mistake.
    pub fn read(text: &str) -> Result<Self, String> {
        toml_text::read(text)
    }

    /// Returns all files of rules that are built into the interpreter, by name.
    ///
    /// # Errors
    /// Returns the file, the line number and a description of the mistake.
    pub fn known() -> Result<Vec<(&'static str, Self)>, String> {
        let read = |(name, text): &(&'static str, &str)| match Self::read(text) {
            Ok(rules) => Ok((*name, rules)),
            Err(why) => Err(format!("{name}:{why}")),
        };
        FILES.iter().map(read).collect()
    }

    /// Lists the faults of this file. Each section must have one rule for each of its sentences with a requirement
    /// keyword, as counted in [`sentences`](Self::sentences). The rules of a section must be numbered in order.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
        for rule in &self.rule {
            match rule.parts() {
                Ok((rfc, _, _)) if rfc != self.rfc.to_string() => {
                    found.push(format!("{}: another RFC", rule.id))
                }
                Ok((_, section, number)) => {
                    let Ok(number) = number.parse::<usize>() else { continue };
                    let count = counted.entry(section).or_default();
                    *count += 1;
                    if number != *count {
                        found.push(format!("{}: number {count} was to come", rule.id));
                    }
                }
                Err(why) => found.push(why),
            }
        }
        for (section, &sentences) in &self.sentences {
            let rules = counted.remove(section.as_str()).unwrap_or(0);
            if rules != sentences {
                found.push(format!("§{section}: {rules} rules for {sentences} sentences"));
            }
        }
        found.extend(counted.keys().map(|section| format!("§{section}: how many sentences does it have?")));
        found
    }
}

/// The number of rules of the RFCs, and how many of them have a test.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// The number of all rules.
    pub rules: usize,
    /// The number of rules that have a test.
    pub tested: usize,
    /// The number of rules without a test, by the kind of reason (one of [`REASONS`]).
    pub without: BTreeMap<&'static str, usize>,
    /// The number of rules from which the engine deviates.
    pub deviating: usize,
}

impl Count {
    /// Counts one rule.
    pub fn add(&mut self, rule: &Rule) {
        self.rules += 1;
        self.tested += usize::from(!rule.test.is_empty());
        self.deviating += usize::from(rule.deviates.is_some());
        let why = rule.none.as_deref().unwrap_or_default();
        if let Some(kind) = REASONS.iter().find(|kind| why.starts_with(**kind)) {
            *self.without.entry(kind).or_default() += 1;
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rules: {} with a test", self.rules, self.tested)?;
        for (kind, count) in &self.without {
            write!(f, ", {count} {}", kind.trim_end_matches(": "))?;
        }
        write!(f, "; {} deviations", self.deviating)
    }
}

/// Returns the table of all rules in Markdown. If `missing` is set, lists only the rules without a test.
#[must_use]
pub fn table(all: &[(&str, Rules)], missing: bool) -> String {
    let mut text = String::new();
    let mut total = Count::default();
    for (_, rules) in all {
        let mut count = Count::default();
        text.push_str(&format!("## RFC {} {}\n\n", rules.rfc, rules.title));
        text.push_str("| rule | level | says | home | test, or why none |\n|---|---|---|---|---|\n");
        for rule in &rules.rule {
            count.add(rule);
            total.add(rule);
            if missing && !rule.test.is_empty() {
                continue;
            }
            let mut checks = rule.test.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>();
            checks.extend(rule.none.as_ref().map(|why| format!("none: {why}")));
            checks.extend(rule.deviates.as_ref().map(|why| format!("we deviate: {why}")));
            let home = rule.home.iter().map(|home| format!("`{home}`")).collect::<Vec<_>>();
            let (home, checks) = (home.join(", "), checks.join(", "));
            text.push_str(&format!("| {} | {} | {} | {home} | {checks} |\n", rule.id, rule.level, rule.says));
        }
        text.push_str(&format!("\n{count}\n\n"));
    }
    text.push_str(&format!("All: {total}\n"));
    text
}
