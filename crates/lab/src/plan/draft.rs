//! A plan as it was written: keys with their values as text. Each key comes with the flag or field where it was given,
//! for errors.
//!
//! This module parses the two forms of a plan, flags and TOML. It also writes TOML, for `--dry-run` and for the field
//! `plan` of a result. The sibling modules interpret the values, in the same way for both forms.

use super::error::{PlanError, unknown};
use super::keys::{Group, KEYS, Key, Several, current_name, find, names};
use toml::Value;

/// A plan key with its values, as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenKey {
    /// The plan key that was given.
    pub key: &'static Key,
    /// The values of the key. If there are several, the key is a factor and they are its levels.
    pub levels: Vec<String>,
    /// The flag or the field where the key was given, for error messages, for example `--loss` or `plan.toml: loss`.
    pub place: String,
}

/// A table of a plan with its entries as text, for example one `[[path]]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The keys of the table with their values.
    pub entries: Vec<(String, Vec<String>)>,
    /// The flag or the field where the table was given, for error messages.
    pub place: String,
}

/// A plan as it was written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draft {
    /// The settings that apply to the whole plan, in the order in which they were given.
    pub given: Vec<GivenKey>,
    /// The contestants as text, each with the flag or field where it was given.
    pub transports: Vec<(String, String)>,
    /// The contestants that race in addition to those in `transports`, or in addition to the default contestants if there
    /// are none in `transports`.
    pub also: Vec<(String, String)>,
    /// A warning for each key that was given under its name in an earlier version.
    pub renamed: Vec<String>,
    /// The `[[path]]` tables: the paths of the network.
    pub paths: Vec<Table>,
    /// The `[[fail]]` tables: the failures of paths.
    pub fails: Vec<Table>,
    /// The `[[expect]]` tables: the expectations that the results must meet.
    pub expects: Vec<Table>,
    /// The `[[cause]]` tables: the claims about causes.
    pub causes: Vec<Table>,
}

impl Draft {
    /// Parses command-line flags into a plan. Each flag is a pair: its long name, without the leading `--`, and its
    /// value.
    ///
    /// # Errors
    /// [`PlanError`] when a flag is unknown or empty, or when a flag that may be given only once is repeated.
    pub fn from_flags<'a>(flags: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, PlanError> {
        let mut draft = Self::default();
        for (name, value) in flags {
            let place = format!("--{name}");
            let name = draft.renamed(name, "--", "--");
            let accepted: Vec<_> = KEYS.iter().map(|key| key.name).collect();
            let key = find(name).ok_or_else(|| PlanError::at(&place, unknown("flag", name, &accepted)))?;
            match (key.name, key.several) {
                ("transport" | "also", _) => {
                    let list = if key.name == "also" { &mut draft.also } else { &mut draft.transports };
                    list.extend(split_transports(value).into_iter().map(|text| (text, place.clone())));
                }
                ("path", _) => {
                    let place = format!("--path {}", draft.paths.len() + 1);
                    draft.paths.push(Table::from_pairs(value, place)?);
                }
                ("fail", _) => draft.fails.push(Table::from_pairs(value, place)?),
                (_, Several::Factor) => {
                    draft.add(key, value.split(',').map(str::to_owned).collect(), place)?
                }
                _ => draft.add(key, vec![value.to_owned()], place)?,
            }
        }
        Ok(draft)
    }

    /// Parses the TOML text of `file` into a plan.
    ///
    /// # Errors
    /// [`PlanError`] that names the file. It also names the line of a syntax error, or the key that has an error.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, PlanError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line =
                error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
            PlanError::at(file, format!("line {line}: {}", error.message()))
        })?;
        Self::from_table(file, &table)
    }

    /// Reads the TOML table of `file` into a plan.
    ///
    /// # Errors
    /// [`PlanError`] that names the file and the key.
    pub fn from_table(file: &str, table: &toml::Table) -> Result<Self, PlanError> {
        let mut draft = Self::default();
        for (name, value) in table {
            let place = format!("{file}: {name}");
            let name = draft.renamed(name, &format!("{file}: "), "");
            match name {
                "transport" | "also" => {
                    let list = if name == "also" { &mut draft.also } else { &mut draft.transports };
                    list.extend(texts(value, &place)?.into_iter().map(|text| (text, place.clone())));
                }
                "path" => draft.paths = tables(value, file, "path")?,
                "fail" => draft.fails = tables(value, file, "fail")?,
                "expect" => draft.expects = tables(value, file, "expect")?,
                "cause" => draft.causes = tables(value, file, "cause")?,
                _ => {
                    let mut accepted: Vec<_> = KEYS.iter().map(|key| key.name).collect();
                    accepted.extend(["expect", "cause"]);
                    let key =
                        find(name).ok_or_else(|| PlanError::at(file, unknown("key", name, &accepted)))?;
                    let levels = texts(value, &place)?;
                    draft.add(key, levels, place)?;
                }
            }
        }
        Ok(draft)
    }

    /// Returns this plan, which comes from a file, with its settings overridden by those in `flags`.
    #[must_use]
    pub fn overlaid(mut self, flags: Self) -> Self {
        for given in flags.given {
            self.given.retain(|old| old.key != given.key && !displaces(given.key.name, old.key.name));
            self.given.push(given);
        }
        if !flags.transports.is_empty() {
            self.transports = flags.transports;
        }
        self.also.extend(flags.also);
        self.renamed.extend(flags.renamed);
        if !flags.paths.is_empty() {
            self.paths = flags.paths;
        }
        if !flags.fails.is_empty() {
            self.fails = flags.fails;
        }
        self
    }

    /// Adds the page that the user named on the command line without the flag `--page`.
    ///
    /// # Errors
    /// [`PlanError`] when the name of the page is empty.
    pub fn with_page(mut self, name: &str) -> Result<Self, PlanError> {
        if let Some(key) = find("page") {
            self.add(key, vec![name.to_owned()], name.to_owned())?;
        }
        Ok(self)
    }

    /// Returns the key `name` with its values, if it was given.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&GivenKey> {
        self.given.iter().find(|given| given.key.name == name)
    }

    /// Returns the plan as a TOML table, from which [`from_table`](Self::from_table) makes the same plan.
    #[must_use]
    pub fn to_toml(&self) -> toml::Table {
        let mut table = toml::Table::new();
        for given in &self.given {
            table.insert(given.key.name.to_owned(), levels_value(&given.levels));
        }
        let transports = self.transports.iter().map(|(text, _)| Value::String(text.clone())).collect();
        table.insert("transport".to_owned(), Value::Array(transports));
        let entries = [
            ("path", &self.paths),
            ("fail", &self.fails),
            ("expect", &self.expects),
            ("cause", &self.causes),
        ];
        for (name, tables) in entries {
            if !tables.is_empty() {
                let tables = tables.iter().map(|t| {
                    Value::Table(
                        t.entries.iter().map(|(k, levels)| (k.clone(), levels_value(levels))).collect(),
                    )
                });
                table.insert(name.to_owned(), Value::Array(tables.collect()));
            }
        }
        table
    }

    /// Returns the current name of a plan key, and records a line if `name` is the key's name in an earlier version.
    /// `before` and `dashes` are the texts before the old and the new name in this line.
    fn renamed<'a>(&mut self, name: &'a str, before: &str, dashes: &str) -> &'a str {
        let Some(current) = current_name(name) else { return name };
        self.renamed.push(format!("{before}{name}: now {dashes}{current}; the old name works until 0.2"));
        current
    }

    fn add(&mut self, key: &'static Key, levels: Vec<String>, place: String) -> Result<(), PlanError> {
        if levels.iter().any(String::is_empty) {
            return Err(PlanError::at(&place, format!("a value is missing; write {}", key.value)));
        }
        if let Some(old) = self.given.iter_mut().find(|given| given.key == key) {
            if key.several == Several::No {
                return Err(PlanError::at(&place, "given twice"));
            }
            old.levels.extend(levels);
            return Ok(());
        }
        if key.several == Several::No && levels.len() > 1 {
            return Err(PlanError::at(&place, "takes one value, not a list"));
        }
        self.given.push(GivenKey { key, levels, place });
        Ok(())
    }
}

impl Table {
    /// Parses a table of the plan, for example a `[[path]]`, from text of the form `key=value,key=value`.
    fn from_pairs(text: &str, place: String) -> Result<Self, PlanError> {
        let mut entries: Vec<(String, Vec<String>)> = Vec::new();
        for pair in text.split(',') {
            let (key, value) = match pair.split_once('=') {
                Some((key, value)) => (key.trim(), value.trim()),
                None => (pair.trim(), ""),
            };
            let switch = find(key).is_some_and(|key| key.value.is_empty());
            let value = if value.is_empty() && switch { "yes" } else { value };
            if key.is_empty() || value.is_empty() {
                return Err(PlanError::at(&place, format!("'{pair}' where key=value was expected")));
            }
            if entries.iter().any(|(old, _)| old == key) {
                return Err(PlanError::at(&place, format!("'{key}' is given twice")));
            }
            entries.push((key.to_owned(), vec![value.to_owned()]));
        }
        Ok(Self { entries, place })
    }
}

/// Returns whether the key `new` overrides the key `old`. A key for both directions overrides the keys for one
/// direction. Keys that exclude each other also override each other, for example `page` and `bulk`.
#[must_use]
pub fn displaces(new: &str, old: &str) -> bool {
    const EXCLUSIVE: [&[&str]; 3] = [
        &["delay", "up-delay", "down-delay", "rtt"],
        &["rate", "up-rate", "down-rate", "trace", "up-trace", "down-trace"],
        &["page", "objects", "bulk"],
    ];
    let base = |name| find(name).and_then(|key| key.both).unwrap_or(name);
    let exclusive = EXCLUSIVE.iter().any(|set| set.contains(&new) && set.contains(&old));
    // Only a page has hosts. A plan whose defaults were filled in has these keys for every kind of workload.
    let of_page = ["objects", "bulk", "messages"].contains(&new)
        && ["client", "visit", "origins", "variation"].contains(&old);
    find(old).is_some_and(|old| old.both == Some(new)) || (exclusive && base(new) != base(old)) || of_page
}

/// Splits a text such as `http3:cc=bbr,iw=10,sctp-dtls` into contestants. A part without `=`, or with a colon, begins a
/// contestant. Any other part after a colon is a setting of the contestant before it.
fn split_transports(text: &str) -> Vec<String> {
    let mut contestants: Vec<String> = Vec::new();
    for part in text.split(',') {
        let is_setting = part.is_empty() || part.contains('=') && !part.contains(':');
        match contestants.last_mut().filter(|last| is_setting && last.contains(':')) {
            Some(last) => {
                last.push(',');
                last.push_str(part);
            }
            None => contestants.push(part.trim().to_owned()),
        }
    }
    contestants
}

fn levels_value(levels: &[String]) -> Value {
    match levels {
        [one] => Value::String(one.clone()),
        several => Value::Array(several.iter().map(|level| Value::String(level.clone())).collect()),
    }
}

/// Converts a TOML value to texts: one text for a scalar, or several for a list of scalars.
fn texts(value: &Value, place: &str) -> Result<Vec<String>, PlanError> {
    let one = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(yes) => Ok(if *yes { "yes" } else { "no" }.to_owned()),
        other => {
            Err(PlanError::at(place, format!("a text or number was expected, not a {}", other.type_str())))
        }
    };
    match value {
        Value::Array(items) if items.is_empty() => Err(PlanError::at(place, "the list is empty")),
        Value::Array(items) => items.iter().map(one).collect(),
        scalar => Ok(vec![one(scalar)?]),
    }
}

fn tables(value: &Value, file: &str, name: &str) -> Result<Vec<Table>, PlanError> {
    let wrong = || PlanError::at(&format!("{file}: {name}"), format!("[[{name}]] tables were expected"));
    let Value::Array(items) = value else { return Err(wrong()) };
    let mut tables = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let Value::Table(fields) = item else { return Err(wrong()) };
        let place = format!("{file}: [[{name}]] {}", i + 1);
        let mut entries = Vec::new();
        for (key, value) in fields {
            entries.push((key.clone(), texts(value, &format!("{place}: {key}"))?));
        }
        tables.push(Table { entries, place });
    }
    Ok(tables)
}

/// Returns the network keys that may be given for a single path.
#[must_use]
pub fn path_keys() -> Vec<&'static str> {
    names(Group::Network).into_iter().filter(|name| !["path", "fail"].contains(name)).collect()
}
