//! The rules of the RFCs, one by one: which file obeys each, and which test would see it broken.
//!
//! `conformance/rules/` has a file for each top section of an RFC. A rule is a
//! sentence with MUST, MUST NOT, SHOULD, SHOULD NOT, REQUIRED or RECOMMENDED, in
//! our own words; its name is the section and the number of the sentence there,
//! as in `9260 §5.1-3`. Some rules are said without such a word (the lettered
//! ones of a list, the rows of a table): these end in a letter, as in
//! `9260 §6.3.3-E2`. The file says how many sentences each section has, so that
//! none is left out.

use crate::toml_text;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// The files, in the order they are printed.
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

/// How a rule is worded.
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
    /// Said without any of these words.
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

/// What a rule without a test begins its reason with.
pub const REASONS: &[&str] = &[
    // The engine has no such part, or plays no such role.
    "does not apply: ",
    // Obeyed, and nothing that a peer or a program can see would tell.
    "cannot be seen: ",
    // Not done, and why.
    "not done: ",
    // Its test comes with a change that is under way.
    "pending: ",
];

/// One rule.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// RFC, section and number, as in `9260 §5.1-3`.
    pub id: String,
    /// How it is worded.
    pub level: Level,
    /// What it asks for, in our own words.
    pub says: String,
    /// The files that obey it.
    #[serde(default, deserialize_with = "one_or_more")]
    pub home: Vec<String>,
    /// The tests that would fail, as `file::name`.
    #[serde(default, deserialize_with = "one_or_more")]
    pub test: Vec<String>,
    /// Why there is no test; it begins with one of [`REASONS`].
    pub none: Option<String>,
    /// Where we do something else, and why.
    pub deviates: Option<String>,
}

impl Rule {
    /// RFC, section and number.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn parts(&self) -> Result<(&str, &str, &str), String> {
        let parts = self.id.split_once(" §").and_then(|(rfc, rest)| {
            let (section, number) = rest.split_once('-')?;
            Some((rfc, section, number))
        });
        parts.ok_or_else(|| format!("{}: a rule's name is like \"9260 §5.1-3\"", self.id))
    }
}

/// One text, or a list of them.
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

/// The rules of one top section.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The number of the RFC.
    pub rfc: u16,
    /// What the section is about.
    pub title: String,
    /// How many sentences with one of the words each section of the RFC has.
    pub sentences: BTreeMap<String, usize>,
    /// In the order of the RFC.
    #[serde(default)]
    pub rule: Vec<Rule>,
}

impl Rules {
    /// Reads a file.
    ///
    /// # Errors
    /// The line and what is wrong there, as `line: what`.
    pub fn read(text: &str) -> Result<Self, String> {
        toml_text::read(text)
    }

    /// All files that come with the interpreter, by name.
    ///
    /// # Errors
    /// The file, the line, and what is wrong there.
    pub fn known() -> Result<Vec<(&'static str, Self)>, String> {
        let read = |(name, text): &(&'static str, &str)| match Self::read(text) {
            Ok(rules) => Ok((*name, rules)),
            Err(why) => Err(format!("{name}:{why}")),
        };
        FILES.iter().map(read).collect()
    }

    /// The sections that have not as many rules as the RFC has sentences, and rules that are not numbered
    /// in order.
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

/// How many rules are held how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// All of them.
    pub rules: usize,
    /// Those with a test.
    pub tested: usize,
    /// Those without, by what their reasons begin with.
    pub without: BTreeMap<&'static str, usize>,
    /// Those where we do something else.
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

/// The table of all rules, in Markdown; with `missing`, of those that have no test.
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
            let mut held = rule.test.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>();
            held.extend(rule.none.as_ref().map(|why| format!("none: {why}")));
            held.extend(rule.deviates.as_ref().map(|why| format!("we deviate: {why}")));
            let home = rule.home.iter().map(|home| format!("`{home}`")).collect::<Vec<_>>();
            let (home, held) = (home.join(", "), held.join(", "));
            text.push_str(&format!("| {} | {} | {} | {home} | {held} |\n", rule.id, rule.level, rule.says));
        }
        text.push_str(&format!("\n{count}\n\n"));
    }
    text.push_str(&format!("All: {total}\n"));
    text
}
