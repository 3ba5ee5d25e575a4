//! Studies of published papers: their numbers and claims beside our results.
//!
//! A study is a folder of `studies/`:
//!
//! - `study.toml` names the paper and its question. It lists the parameters, and where the value of each comes from.
//! - `TABLE.toml` has the plan of a table, and `TABLE.csv` its published cells.
//! - `claims.csv` holds the claims of the paper.
//! - `causes.toml` holds the causes, each a change of a plan and its effect.
//! - `page.md` has the prose.
//!
//! [`mod@bench`] runs the plans, and [`figures`] is the stored part of the results. [`cell`], [`order`], [`cause`] and
//! [`check`] interpret the figures. Our numbers are not fitted to published numbers, except where `study.toml` says
//! `calibrated`.
//!
//! - `bench.rs` runs each plan once, point by point. It keeps every metric of every run (`figures.rs`), under a digest
//!   of the plan. A run can therefore be resumed, and runs with a cause's change are compared with the stored runs of
//!   the table. Cells, orders, causes and claims follow from these figures alone.
//! - `check` is the language of claims. A claim is a comparison that can fail.
//! - A cause has a kind (`cause.rs`). Only causes of the kind `Finding` count as explanations of differences. Their
//!   changes must not set keys that the paper fixes.
//! - `part.rs` leaves out tables, points or causes, or adds contestants. `measured.rs` writes every measured number, whether the paper
//!   publishes it or not.
//! - `readings` covers what a paper leaves open. A reading is a set of changes to the plans. `calibrate.rs` sets the
//!   inputs of a reading. The held-out score of a reading uses only rows that had no part in the selection of the
//!   reading.
//! - `stored_scores.rs` reads earlier scores. A digest shows whether these scores belong to the current version of the
//!   study.
//! - `baseline.rs` computes the figures of a model from the plan alone. The cells and orders of a model therefore come
//!   from the same code as those of runs.
//! - In prose, our own numbers are links. The run writes the text of these links (`quote.rs`). A finding with a `chart`
//!   is drawn with and without its change (`chart.rs`, `anabranch_report::contrast`).
//! - `studies/today` has no published values. Its cells are our own, its claims are expectations, and its page begins
//!   with maps (`heat.rs` of the report).

pub mod baseline;
pub mod bench;
pub mod bundle;
pub mod calibrate;
pub mod cause;
pub mod cell;
mod change;
pub mod chart;
pub mod check;
pub mod claim;
mod definition;
pub mod effect;
pub mod emulated;
pub mod figures;
pub mod findings;
pub mod graph;
pub mod measured;
pub mod metric;
pub mod order;
pub mod page;
mod part;
mod printed;
pub mod quote;
pub mod readings;
pub mod sensitivity;
mod shipped;
pub mod stored_scores;
pub mod summary;
pub mod table;
pub mod text;
pub mod unchanged;

pub use bench::{NullStore, Step, Store, StudyError, StudyRuns};
pub use cause::{CauseDefinition, CauseKind, Seeds};
pub use change::Change;
pub use claim::Claim;
pub use definition::{Definition, Origin, Parameter, Redone};
pub use emulated::Emulated;
pub use findings::{Findings, TableResult};
pub use metric::Metric;
pub use readings::Readings;
pub use stored_scores::StoredScores;
pub use table::{Size, Table};

use anabranch_lab::plan;
use anabranch_transports::Transports;
use check::{Check, Relation};
use serde::de::DeserializeOwned;
use shipped::SHIPPED;
use std::path::Path;

/// A study of a published work, read from its files and ready to run.
#[derive(Debug)]
pub struct Study {
    /// The definition of the study.
    pub definition: Definition,
    /// The tables of the study. The first table is the main table.
    pub tables: Vec<Table>,
    /// The causes of the study.
    pub causes: Vec<CauseDefinition>,
    /// The claims of the paper.
    pub claims: Vec<Claim>,
    /// The readings of the paper, which are the possible interpretations of what the paper does not state; `None` if
    /// the study has no `readings.toml`.
    pub readings: Option<Readings>,
    /// The scores of the study that are stored in its folder.
    pub stored_scores: StoredScores,
    /// The text of `page.md`: the prose of the study, as Markdown.
    pub page: String,
    /// The tables whose plans are also run with the protocols of the host's operating system, over an emulated network.
    pub emulated: Vec<Emulated>,
    /// The names of the tables that the user selected; `None` if the study has all of its tables.
    pub part: Option<String>,
    /// Whether the study's files are identical to the copies that are compiled into the program.
    pub copy: CopyStatus,
    /// The name of the study in commands: its own name if its files are those compiled into the program. Otherwise the
    /// path of its folder, as the user typed it.
    pub opened: String,
}

/// How the files of a study relate to the files of the studies that are compiled into the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CopyStatus {
    /// The files are identical.
    Same,
    /// The study has the same name as a study in the program, but different files.
    Changed {
        /// The files that differ or are missing.
        files: Vec<String>,
        /// The SHA-256, in hexadecimal, of the changed study's files. Only files that also exist in the program's copy
        /// of the study are included.
        digest: String,
    },
    /// The program contains no study of this name, so the study is the user's own.
    Own,
}

/// Returns the names of the studies that the program contains.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Opens the study of this name, or the study in a folder with a `study.toml`.
///
/// # Errors
/// A one-line message that lists the known studies, or that names the faulty file of the folder and the error.
pub fn open(name: &str) -> Result<Study, String> {
    if Path::new(name).join(MAIN).is_file() {
        let file = |file: &str| {
            let path = Path::new(name).join(file);
            match path.exists() {
                true => plan::file::read(&path.to_string_lossy(), plan::file::MAX_PLAN).map(Some),
                false => Ok(None),
            }
        };
        let mut study =
            Study::parse(file).map_err(|error| format!("{}/{error}", name.trim_end_matches('/')))?;
        study.copy = copied(&study.definition.name, file)?;
        if study.copy != CopyStatus::Same {
            name.clone_into(&mut study.opened);
        }
        return Ok(study);
    }
    let Some((name, files)) = SHIPPED.iter().find(|(known, _)| *known == name) else {
        let known: Vec<_> = names().collect();
        return Err(format!("no study '{name}'; there are {}, and folders with a {MAIN}", known.join(", ")));
    };
    let file = |name_of_file: &str| {
        let found = files.iter().find(|(name, _)| *name == name_of_file);
        Ok(found.map(|(_, text)| (*text).to_owned()))
    };
    Study::parse(file).map_err(|error| format!("studies/{name}/{error}"))
}

/// Compares the files of a folder with the files of the study `name` that are built into the program. `file` reads a
/// file of the folder.
fn copied(name: &str, file: impl Fn(&str) -> Result<Option<String>, String>) -> Result<CopyStatus, String> {
    let Some((_, shipped)) = SHIPPED.iter().find(|(known, _)| *known == name) else {
        return Ok(CopyStatus::Own);
    };
    let (mut other_files, mut all) = (Vec::new(), String::new());
    for (known, text) in *shipped {
        let own = file(known)?;
        if own.as_deref() != Some(*text) {
            other_files.push((*known).to_owned());
        }
        let own = own.unwrap_or_default();
        all += &format!("{known} {}\n{own}", own.len());
    }
    Ok(match other_files.is_empty() {
        true => CopyStatus::Same,
        false => CopyStatus::Changed { files: other_files, digest: figures::hex(all.as_bytes()) },
    })
}

/// Parses a TOML file of a study. `file` is its name for error messages.
fn from_toml<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| format!("{file}: {}", error.to_string().replace('\n', " ")))
}

/// The file that makes a folder a study.
const MAIN: &str = "study.toml";

impl Study {
    fn parse(find: impl Fn(&str) -> Result<Option<String>, String>) -> Result<Self, String> {
        let find = |name: &str| find(name).map_err(|error| format!("{name}: {error}"));
        let file = |name: &str| find(name)?.ok_or_else(|| format!("{name}: there is no such file"));
        let definition = Definition::parse(&file(MAIN)?)?;
        if definition.tables.is_empty() {
            return Err(format!("{MAIN}: tables: at least one is needed"));
        }
        let tables = definition.tables.iter().map(|name| {
            let printed = find(&format!("{name}.csv"))?;
            Table::parse(name, &file(&format!("{name}.toml"))?, printed.as_deref())
        });
        let causes = cause::parse(&file("causes.toml")?)?;
        let readings = find("readings.toml")?.as_deref().map(Readings::parse).transpose()?;
        let study = Self {
            tables: tables.collect::<Result<_, String>>()?,
            stored_scores: StoredScores::read(find, &definition, readings.as_ref(), &causes)?,
            causes,
            claims: claim::parse(&file("claims.csv")?)?,
            readings,
            page: file("page.md")?,
            emulated: find("emulated.toml")?.map_or(Ok(Vec::new()), |text| emulated::parse(&text))?,
            part: None,
            copy: CopyStatus::Same,
            opened: definition.name.clone(),
            definition,
        };
        study.check()?;
        Ok(study)
    }

    /// Returns an error message for the first of `changes` that sets a parameter by which published cells are labelled,
    /// for example the loss rate. With such a change, cells with different labels would all be compared with the same
    /// run.
    #[must_use]
    pub fn first_fixed_label(&self, changes: &[Change]) -> Option<String> {
        changes.iter().find_map(|change| {
            let key = change.factor()?;
            let is_labelled = |table: &&Table| {
                table.published.as_ref().is_some_and(|printed| printed.columns.contains(&key))
            };
            let (table, study) = (self.tables.iter().find(is_labelled)?, &self.definition.name);
            let name = &table.name;
            Some(if change.is_level_of(&table.definition.plan) {
                format!("{change}: printed cells of {name} are labelled with it; --only {change} runs this level alone")
            } else {
                format!(
                    "{change}: printed cells of {name} are labelled with it; change the plan (study plan {study}/{name}) and race that"
                )
            })
        })
    }

    /// Returns the parameter of the paper that a change overrides. `None` if the change overrides only parameters that
    /// the paper neither states nor implies.
    #[must_use]
    pub fn stated(&self, change: &Change) -> Option<&Parameter> {
        self.definition.parameters.iter().find(|parameter| {
            let departs = |table: &Table| {
                let names = table.names();
                parameter.fixed(&table.name).iter().any(|fixed| change.departs_from(fixed, &names))
            };
            self.tables.iter().any(departs)
        })
    }

    /// Returns an error message for the first of `changes` that applies to no table of the study.
    #[must_use]
    pub fn first_unsupported_change(&self, changes: &[Change]) -> Option<String> {
        let fits = |change: &&Change| self.tables.iter().any(|table| change.is_of(&table.names()));
        let one = changes.iter().find(|change| !fits(change))?;
        let mut names: Vec<String> = self.tables.iter().flat_map(Table::names).collect();
        names.sort();
        names.dedup();
        let study = &self.definition.name;
        let place =
            self.part.as_ref().map_or(format!("{study} has"), |tables| format!("{study}/{tables} has"));
        Some(format!("{one}: {place} no such contestant; there are {}", names.join(", ")))
    }

    /// Returns an error message if the change sets no key of a plan, but is a setting that contestants of the study take.
    /// The message names these contestants.
    #[must_use]
    pub fn setting_of_contestants(&self, change: &Change, transports: &Transports) -> Option<String> {
        change.factor()?;
        let mut names = Vec::new();
        for table in &self.tables {
            let draft = table.draft(1, 1, &[]).ok()?;
            if change.apply(draft.clone()).is_ok() {
                return None;
            }
            for name in table.names() {
                let fits = |change: Change| {
                    let draft = change.apply(draft.clone()).ok()?;
                    plan::Plan::interpret(draft, transports).ok()
                };
                if !names.contains(&name) && fits(change.of_contestant(&name)).is_some() {
                    names.push(name);
                }
            }
        }
        names.sort();
        let first = names.first()?;
        Some(format!(
            "{change}: a setting of contestants, and of no plan; write {first}:{change}, or *:{change} for all; it can be \
             for {}",
            names.join(", ")
        ))
    }

    /// Returns the table of this name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Checks the references in the study's files: every table, contestant, cause and plan key must exist.
    fn check(&self) -> Result<(), String> {
        for cause in &self.causes {
            self.table(&cause.table)
                .ok_or_else(|| format!("causes.toml: {}: no table '{}'", cause.id, cause.table))?;
            cause.changes().map_err(|error| format!("causes.toml: {}: {error}", cause.id))?;
        }
        for table in &self.tables {
            let Some(name) = &table.definition.repeats else { continue };
            let first =
                self.table(name).filter(|first| first.published.is_some() && first.name != table.name);
            first.ok_or_else(|| {
                format!("{}.toml: repeats: no other table '{name}' with published cells", table.name)
            })?;
        }
        self.check_parameters()?;
        for vary in &self.definition.vary {
            if let Some(problem) = vary.wrong() {
                return Err(format!("{MAIN}: vary: {}: {problem}", vary.key));
            }
        }
        let vary = self.definition.vary.iter().filter_map(|vary| vary.tables.as_ref()).flatten();
        if let Some(name) =
            self.definition.vary_tables.iter().chain(vary).find(|name| self.table(name).is_none())
        {
            return Err(format!("{MAIN}: vary: no table '{name}'"));
        }
        if let Some(line) = self.readings.as_ref().and_then(|readings| readings.first_unknown_item(self)) {
            return Err(format!("readings.toml: {line}"));
        }
        for graph in &self.definition.graphs {
            if let Some(problem) = graph.wrong(self) {
                return Err(format!("{MAIN}: graph {}: {problem}", graph.figure));
            }
        }
        for figure in &self.definition.figures {
            let wrong = |problem: String| format!("{MAIN}: {}: {problem}", figure.name);
            if let Some(table) = figure.tables.iter().find(|name| self.table(name).is_none()) {
                return Err(wrong(format!("no table '{table}'")));
            }
            if let Some(id) = figure.claims.iter().find(|id| self.claims.iter().all(|claim| claim.id != **id))
            {
                return Err(wrong(format!("no claim '{id}'")));
            }
            if figure.tables.is_empty() && figure.claims.is_empty() {
                return Err(wrong("no table redoes it, and no claim says what it shows".to_owned()));
            }
        }
        self.emulated.iter().try_for_each(|side| side.check(self))?;
        for claim in &self.claims {
            for check in claim.checks() {
                self.is_known(check).map_err(|error| format!("claims.csv: {}: {error}", claim.id))?;
            }
        }
        quote::check(self)
    }

    /// Checks that no finding changes a setting whose value the paper states or implies. Such a change shows the effect
    /// of a setting, but does not explain the published numbers.
    fn check_parameters(&self) -> Result<(), String> {
        for parameter in &self.definition.parameters {
            let wrong = |message: String| format!("{MAIN}: {}: {message}", parameter.name);
            if let Some(table) = parameter.tables.iter().flatten().find(|name| self.table(name).is_none()) {
                return Err(wrong(format!("no table '{table}'")));
            }
            for key in &parameter.keys {
                let text = if key.contains('=') { key.clone() } else { format!("{key}=1") };
                Change::parse(&text).map_err(|error| wrong(format!("keys: {error}")))?;
            }
            for cause in self.causes.iter().filter(|cause| cause.kind() == CauseKind::Finding) {
                let Some(table) = self.table(&cause.table) else { continue };
                let (fixed, names) = (parameter.fixed(&table.name), table.names());
                let departs = |change: &Change| {
                    !change.is_level_of(&table.definition.plan)
                        && fixed.iter().any(|key| change.departs_from(key, &names))
                };
                if let Some(change) = cause.changes()?.iter().find(|change| departs(change)) {
                    return Err(format!(
                        "causes.toml: {}: {change} changes what is {} ({}: {}): write counterfactual = true",
                        cause.id,
                        parameter.is.word(),
                        parameter.name,
                        parameter.value
                    ));
                }
            }
        }
        Ok(())
    }

    fn is_known(&self, check: &Check) -> Result<(), String> {
        match check {
            Check::Cause(id) => {
                let cause = self.causes.iter().find(|cause| cause.id == *id);
                let cause = cause.ok_or_else(|| format!("no cause '{id}'"))?;
                if cause.exploratory {
                    return Err(format!("cause {id} is exploratory: it proves nothing by itself"));
                }
                Ok(())
            }
            Check::Prediction(table) if self.table(table).is_some() => Ok(()),
            Check::Prediction(table) => Err(format!("no table '{table}'")),
            Check::Table { table, relation, .. } => {
                let known = self.table(table).ok_or_else(|| format!("no table '{table}'"))?;
                if known.definition.exploratory {
                    return Err(format!("table {table} is exploratory: it proves nothing by itself"));
                }
                let (plan, names) = (&known.definition.plan, known.names());
                let is_known = |term: &&check::Term| names.iter().any(|name| name == term.contestant());
                let unknown = relation.terms().into_iter().find(|term| !is_known(term));
                if let Relation::Trend(_, _, factor) = relation
                    && !plan.get(factor).is_some_and(toml::Value::is_array)
                {
                    return Err(format!("'{factor}' is no factor of {table}"));
                }
                match unknown {
                    Some(term) => Err(format!("no contestant '{}' in {table}", term.contestant())),
                    None => Ok(()),
                }
            }
            Check::Feature { .. } | Check::Undecidable(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Each study must have the listed number of claims, and at least the listed number of figures. The study `today`
    /// is not about a paper: its claims are our own expectations.
    #[test]
    fn every_claim_and_every_figure_of_the_papers_has_its_run() {
        for (name, letter, claims, figures) in [
            ("osterdahl-2005", 'o', 42, 5),
            ("sasikala-2008", 's', 48, 8),
            ("ha-2005", 'h', 29, 7),
            ("rajamani-2002", 'r', 34, 8),
            ("alternative-transport", 'a', 23, 7),
            ("today", 't', 9, 3),
        ] {
            let study = open(name).unwrap_or_else(|e| panic!("{e}"));
            let ids: Vec<&str> = study.claims.iter().map(|claim| claim.id.as_str()).collect();
            let all: Vec<String> = (1..=claims).map(|number| format!("{letter}{number:02}")).collect();
            assert_eq!(ids, all, "{name}: its claims, in order, each once");
            assert!(study.definition.figures.len() >= figures, "{name}: tables and figures");
            // Only these claims may be undecidable: statements of other authors, a question, and statements about
            // properties of a test rig that no simulation has.
            let undecidable = study
                .claims
                .iter()
                .filter(|claim| claim.checks().any(|check| matches!(check, Check::Undecidable(_))));
            let undecidable: Vec<&str> = undecidable.map(|claim| claim.id.as_str()).collect();
            assert!(
                undecidable.iter().all(|id| ["o13", "o14", "o17", "o36", "o38", "o42"].contains(id)),
                "{name}: {undecidable:?}"
            );
            assert!(study.causes.iter().any(|cause| cause.planted), "{name}: no planted cause");
            assert!(!study.definition.parameters.is_empty(), "{name}: no parameters");
            assert!(
                study.page.lines().count() > 30,
                "{name}: its page is {} lines",
                study.page.lines().count()
            );
        }
    }

    /// Checks that the plans of every shipped study accept all of its readings (interpretations of the paper).
    /// Otherwise a mistake would appear only when a user passes `--readings`.
    #[test]
    fn every_reading_of_every_shipped_study_fits_its_plans() {
        for name in names() {
            let study = open(name).unwrap_or_else(|e| panic!("{e}"));
            // A reading is an interpretation of the paper. Its score compares our values with the published values. A
            // study without published values therefore needs no readings.
            if study.tables.iter().all(|table| table.published.is_none()) {
                continue;
            }
            let readings = study.readings.as_ref().unwrap_or_else(|| panic!("{name}: no readings"));
            let seeds = Seeds { runs: 0, first: 1, changes: &[], transports: &Transports::standard() };
            let count = study.reading_count(readings, Size::Quick, &seeds);
            let count = count.unwrap_or_else(|e| panic!("{name}/{e}"));
            assert!(count >= readings.all().len(), "{name}: {count} runs");
        }
    }

    /// Each name of an earlier version causes a warning. No shipped study may use one: not in its plans, and not in the
    /// changes of its causes, readings, assumptions and emulated runs.
    #[test]
    fn shipped_studies_use_the_present_names_of_knobs_and_keys() {
        let transports = Transports::standard();
        let renamed = |table: &Table, changes: &[Change]| {
            let draft = table.draft(1, 1, changes).unwrap_or_else(|e| panic!("{}: {e}", table.name));
            let plan = anabranch_lab::plan::Plan::interpret(draft, &transports);
            plan.unwrap_or_else(|e| panic!("{}: {changes:?}: {e}", table.name)).draft.renamed
        };
        let older = "title = ''\nsource = ''\nunit = 's'\nmetric = 'page'\nruns = 1\nquick_runs = 1\n[plan]\ntransport = ['one=sctp:streams=2']";
        let older = Table::parse("older", older, None).expect("a table");
        let line = "streams: now num_ostreams; the old name works until 0.2";
        assert!(renamed(&older, &[]).iter().any(|one| one.ends_with(line)));
        for name in names() {
            let study = open(name).unwrap_or_else(|e| panic!("{e}"));
            let mut found = Vec::new();
            for table in &study.tables {
                found.extend(renamed(table, &[]));
                let causes = study.causes.iter().filter(|cause| cause.table == table.name);
                for cause in causes {
                    found.extend(renamed(table, &cause.changes().expect("checked")));
                }
                let names = table.names();
                for vary in &study.definition.vary {
                    for value in vary.between.iter().flatten().chain(&vary.or) {
                        let change = Change::parse(&format!("{}={value}", vary.key)).expect("checked");
                        let is_of_table = match &vary.tables {
                            Some(own) => own.contains(&table.name),
                            None => study.definition.varied().contains(&table.name.as_str()),
                        };
                        if is_of_table && change.is_of(&names) {
                            found.extend(renamed(table, &[change]));
                        }
                    }
                }
            }
            let readings = study.readings.iter();
            for reading in readings.clone().flat_map(Readings::all) {
                for table in readings.clone().flat_map(|all| &all.tables).filter_map(|name| study.table(name))
                {
                    let (table, changes) = reading.of(table).expect("checked");
                    found.extend(renamed(&table, &changes));
                }
            }
            for emulated in &study.emulated {
                let plan =
                    emulated.plan(&study, None, 1, &transports).unwrap_or_else(|e| panic!("{name}: {e}"));
                found.extend(plan.draft.renamed);
            }
            assert_eq!(found, [""; 0], "{name}");
            // The digests of stored scores cover the text of plans, and so the names in it.
            assert_eq!(
                study.stored_scores.stale, [""; 0],
                "{name}: write its digests anew, or score it again"
            );
        }
    }

    /// If a study cannot be opened, its line in the listing must have the error. The listing must also return that not
    /// all studies can be opened.
    #[test]
    fn what_cannot_be_opened_is_listed() {
        let fault = || Err("broken/study.toml: no such key".to_owned());
        let (listing, all) = text::listing([("ha-2005", open("ha-2005")), ("broken", fault())]);
        assert!(
            !all && listing
                .contains("\nbroken                 cannot be opened: broken/study.toml: no such key\n"),
            "{listing}"
        );
        assert!(text::listing([("ha-2005", open("ha-2005"))]).1);
    }

    /// Checks that every factor such as `x1.5` in the prose of `page.md` is a link to the run that gives the number.
    /// Factors that the paper prints are exempt.
    #[test]
    fn no_factor_stands_in_prose_without_its_run() {
        for name in names() {
            let page = open(name).unwrap_or_else(|e| panic!("{e}")).page;
            for (number, line) in page.lines().enumerate() {
                let at = line.match_indices('x').map(|(at, _)| at);
                let is_factor = |at: &usize| {
                    line[at + 1..].starts_with(|c: char| c.is_ascii_digit())
                        && !line[..*at].ends_with(|c: char| c.is_alphanumeric())
                };
                let is_linked = |at: usize| line[..at].rfind('[') > line[..at].rfind(']');
                let loose = at
                    .filter(is_factor)
                    .find(|at| !is_linked(*at) && !line[..*at].ends_with("the paper has "));
                assert_eq!(
                    loose,
                    None,
                    "studies/{name}/page.md:{}: a factor that no run says: {line}",
                    number + 1
                );
            }
        }
    }

    #[test]
    fn exploratory_tables_decide_no_claim() {
        let mut study = open("ha-2005").unwrap_or_else(|e| panic!("{e}"));
        for (check, of) in
            [("full-duplex: sctp-lk > tcp-linux", "table full-duplex"), ("cause fewer-sacks", "cause")]
        {
            study.claims[0].readings[0].checks = check::parse(check).expect("a check");
            let error = study.check().expect_err(check);
            assert!(
                error.starts_with(&format!("claims.csv: h01: {of}")) && error.contains("exploratory"),
                "{error}"
            );
        }
    }

    /// If the only random number is the start of one counter that drops every `n`th packet, `n` seeds cover all cases.
    /// If there are other random numbers, the number of cases must be unknown.
    #[test]
    fn cases_are_of_one_counter_alone() {
        let study = open("osterdahl-2005").unwrap_or_else(|e| panic!("{e}"));
        let table = study.table("falls").expect("a table of no loss and every tenth packet");
        for (change, cases) in [
            (None, Some(10)),
            (Some("loss=nth:4/shared"), Some(4)),
            (Some("loss=nth:10"), None),
            (Some("loss=10%"), None),
            (Some("loss=nth:10/first=3/shared"), None),
            (Some("jitter=10us"), None),
        ] {
            let changes: Vec<Change> =
                change.into_iter().map(|text| Change::parse(text).expect("a change")).collect();
            let draft = table.draft(10, 1, &changes).unwrap_or_else(|e| panic!("{e}"));
            let table_points = table
                .table_points(&draft, &BTreeMap::new(), None, &Transports::standard())
                .unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(bench::distinct_runs(&table_points), cases, "{change:?}");
        }
    }

    #[test]
    fn every_shipped_study_opens_and_its_plans_have_every_printed_cell() {
        for name in names() {
            let study = open(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(study.definition.name, name);
            for table in &study.tables {
                let draft = table.draft(2, 1, &[]).unwrap_or_else(|e| panic!("{name}/{e}"));
                let table_points = table
                    .table_points(&draft, &BTreeMap::new(), None, &Transports::standard())
                    .unwrap_or_else(|e| panic!("{name}/{e}"));
                for row in table.rows() {
                    let at = |table_point: &&table::TablePoint| {
                        let of = |key: &String| row.labels.get(key).map(String::as_str);
                        let fits = |(key, level): (&String, &String)| {
                            [Some(level.as_str()), Some(figures::MEAN)].contains(&of(key))
                        };
                        table_point.factors.iter().all(fits)
                    };
                    let table_point = table_points
                        .iter()
                        .find(at)
                        .unwrap_or_else(|| panic!("{name}/{}: {row:?}", table.name));
                    let raced = table_point.plan.contestants.iter().any(|c| c.label == row.contestant());
                    assert!(raced, "{name}/{}: '{}' is not raced", table.name, row.contestant());
                }
            }
        }
        let error = open("rajamani").expect_err("no such study");
        assert!(error.contains("rajamani-2002"), "{error}");
    }
}
