//! Findings: one assumption changed, what that does, and whether it still does what the study says.
//!
//! `causes.toml` holds them. A cause that explains cells is run over the whole table: it explains those that differ from
//! print without the change and do not with it. What a cause may say hangs on its [`Kind`]: a change of what is known of the
//! rig shows what that does, and explains nothing.

use super::bench::{Bench, StudyError};
use super::change::Change;
use super::effect::{Estimate, Subject, difference, figure};
use super::figures::{Figures, Point};
use super::metric::Metric;
use super::table::Table;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// One `[[cause]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// A name of its own.
    pub id: String,
    /// The table whose plan is changed.
    pub table: String,
    /// What is changed.
    pub change: Vec<String>,
    /// Whose number is looked at: a contestant, or one over another.
    pub of: String,
    /// Which of its numbers; that of the table unless given.
    pub metric: Option<Metric>,
    /// Factor, or `object`, to level: where.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// Bounds of the number with the change over that without.
    pub effect: [f64; 2],
    /// The finding, in a sentence; `{}` is the effect, `{was}` and `{is}` the number without and with the change.
    pub says: String,
    /// It is run over the whole table, and what it brings near print is explained by it.
    #[serde(default)]
    pub explains: bool,
    /// It is false, and put there so that the check is seen to find that.
    #[serde(default)]
    pub planted: bool,
    /// It was found by looking at many variants, and proves nothing by itself.
    #[serde(default)]
    pub exploratory: bool,
    /// What it changes is known of the rig, and was not so there: it shows what the setting does.
    #[serde(default)]
    pub counterfactual: bool,
    /// The heading of its chart, where it has one: it is run along a whole curve of its table then.
    pub chart: Option<String>,
}

/// What a cause is evidence of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// It changes what the paper leaves open: it may explain cells.
    Finding,
    /// It changes what is known of the rig: it shows what that does, and explains no cell.
    Counterfactual,
    /// It was found by looking at many variants: it explains no cell.
    Exploratory,
    /// It is false, and must be refuted.
    Planted,
}

impl Kind {
    /// All of them, as they are counted.
    pub const ALL: [Self; 4] = [Self::Finding, Self::Counterfactual, Self::Exploratory, Self::Planted];

    /// One word, for tables and files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Finding => "finding",
            Self::Counterfactual => "counterfactual",
            Self::Exploratory => "exploratory",
            Self::Planted => "planted",
        }
    }

    /// The words behind a number of them that are as they are to be.
    #[must_use]
    pub const fn of_several(self) -> &'static str {
        match self {
            Self::Finding => "findings",
            Self::Counterfactual => "counterfactuals",
            Self::Exploratory => "exploratory ones",
            Self::Planted => "planted (refuted, as they must be)",
        }
    }
}

/// A cause that was run.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it says.
    pub cause: Cause,
    /// The number with the change over that without; `None` where it has none.
    pub effect: Option<Estimate>,
    /// The number without the change, and with it.
    pub numbers: [Option<f64>; 2],
    /// The effect is as the study says: within its bounds, and on the side of 1 on which they are.
    pub holds: bool,
    /// It was run with other assumptions than the study's, of which its sentence does not speak.
    pub elsewhere: bool,
    /// The runs without the change, and with it, where they are drawn.
    pub figures: Option<[Figures; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    cause: Vec<Cause>,
}

/// Reads `causes.toml`.
///
/// # Errors
/// One line: what is wrong.
pub fn parse(text: &str) -> Result<Vec<Cause>, String> {
    let file: File =
        toml::from_str(text).map_err(|e| format!("causes.toml: {}", e.to_string().replace('\n', " ")))?;
    for cause in &file.cause {
        let [low, high] = cause.effect;
        if !(0.0 < low && low <= high) {
            return Err(format!(
                "causes.toml: {}: effect: two bounds above 0 are needed, the lower first",
                cause.id
            ));
        }
    }
    Ok(file.cause)
}

impl Cause {
    /// The changes, understood.
    ///
    /// # Errors
    /// One line: which is none.
    pub fn changes(&self) -> Result<Vec<Change>, String> {
        self.change.iter().map(|text| Change::parse(text)).collect()
    }

    /// Where the changed plan is looked at. What is changed may be what tells the place: where the changed plan has it
    /// no longer, it is everywhere.
    ///
    /// # Errors
    /// As [`changes`](Self::changes).
    pub fn place_when_changed(&self) -> Result<BTreeMap<String, String>, String> {
        let changed: Vec<String> = self.changes()?.iter().filter_map(Change::factor).collect();
        let mut at = self.at.clone();
        at.retain(|key, _| !changed.contains(key));
        Ok(at)
    }

    /// What it is evidence of. One that is two of these counts as the one that may say less: what was found by looking at
    /// many variants and was not so on the rig is a counterfactual.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match () {
            () if self.planted => Kind::Planted,
            () if self.counterfactual => Kind::Counterfactual,
            () if self.exploratory => Kind::Exploratory,
            () => Kind::Finding,
        }
    }

    /// It was found by looking at many variants, whatever else it is.
    #[must_use]
    pub fn is_exploratory(&self) -> bool {
        self.exploratory
    }

    /// It is false, and must be refuted.
    #[must_use]
    pub fn is_planted(&self) -> bool {
        self.planted
    }

    /// As it is to be, given what was found: a planted one is to be refuted.
    #[must_use]
    pub fn is_met(&self, holds: bool) -> bool {
        holds != self.planted
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`StudyError`].
    pub fn run(&self, table: &Table, seeds: &Seeds<'_>, bench: &mut Bench<'_>) -> Result<Found, StudyError> {
        let subject = Subject::parse(&self.of);
        let object = self.at.get("object").and_then(|number| number.parse().ok());
        let metric = self.metric.unwrap_or(table.definition.metric);
        // A chart has the whole curve.
        let along = table.along().filter(|_| self.chart.is_some());
        let (mut logs, mut both) = (Vec::new(), Vec::new());
        for changes in [&[][..], &self.changes().map_err(StudyError::Change)?] {
            let all = seeds.changes_of(table, changes);
            let draft = table.draft(seeds.runs, seeds.first, &all).map_err(StudyError::Change)?;
            let at = if changes.is_empty() {
                self.at.clone()
            } else {
                self.place_when_changed().map_err(StudyError::Change)?
            };
            let mut wide = at.clone();
            wide.retain(|key, _| along.as_ref() != Some(key));
            // Without the change these are runs of the table, as they are where all of it is run with the change.
            let names = (!changes.is_empty() && !self.explains).then(|| subject.names());
            let places = table.places(&draft, &wide, names.as_deref()).map_err(StudyError::Change)?;
            let figures = bench.figures(&places, table.definition.heads)?;
            let is_there = |point: &&Rc<Point>| {
                at.iter().all(|(key, level)| point.factors.get(key).is_none_or(|own| own == level))
            };
            let points = figures.points.iter().filter(is_there);
            logs.push(points.flat_map(|point| subject.logs(point, metric, object)).collect::<Vec<_>>());
            both.push(figures);
        }
        let numbers = [0, 1].map(|which| Estimate::of(&logs[which]).map(|number| number.mean));
        let effects = difference(&logs[1], &logs[0]);
        // Where both plans choose among the same cases, and all of them were run.
        let cases = table.cases(&both[0]).filter(|_| logs[1].len() == 1 || both[1].cases == both[0].cases);
        let runs = effects.iter().flatten().count();
        let effect = Estimate::of(&effects).map(|effect| effect.of_cases(runs, cases));
        let [low, high] = self.effect;
        let holds = effect.is_some_and(|effect| {
            let within = (low..=high).contains(&effect.mean);
            // An effect that is said to be one must be told from none.
            let told = (low <= 1.0 || effect.interval[0] > 1.0) && (high >= 1.0 || effect.interval[1] < 1.0);
            within && told
        });
        let figures = <[Figures; 2]>::try_from(both).ok().filter(|_| self.chart.is_some());
        let elsewhere = !seeds.changes.is_empty();
        Ok(Found { cause: self.clone(), effect, numbers, holds, elsewhere, figures })
    }
}

impl Found {
    /// The finding in a sentence, with the effect that was measured. Where other assumptions were in force than those of
    /// which the finding speaks, what was changed and what that did.
    #[must_use]
    pub fn sentence(&self) -> String {
        let effect = self.effect.map_or("nothing".to_owned(), |effect| format!("x{effect}"));
        let [was, is] = self.numbers.map(|number| number.map_or("nothing".to_owned(), figure));
        if self.elsewhere {
            let (change, of) = (self.cause.change.join(" "), &self.cause.of);
            return format!("With {change}, too, {of} is {effect} of what it is without ({was}, then {is}).");
        }
        self.cause.says.replace("{}", &effect).replace("{was}", &was).replace("{is}", &is)
    }

    /// What came of it, in a word or two.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.is_met(), self.cause.kind()) {
            (true, Kind::Planted) => "refuted",
            (false, Kind::Planted) => "NOT REFUTED",
            (true, _) => "holds",
            (false, _) => "FAILS",
        }
    }

    /// It is as it is to be.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.cause.is_met(self.holds)
    }
}

/// With which seeds a study is run, and what is changed in all of it.
#[derive(Clone, Copy, Debug)]
pub struct Seeds<'a> {
    /// How many.
    pub runs: u64,
    /// The first.
    pub first: u64,
    /// What `--set` says.
    pub changes: &'a [Change],
}

impl Seeds<'_> {
    /// What is changed in a table: what has a place there of what is changed everywhere, then what is changed there.
    #[must_use]
    pub fn changes_of(&self, table: &Table, changes: &[Change]) -> Vec<Change> {
        let names = table.names();
        self.changes.iter().filter(|change| change.is_of(&names)).chain(changes).cloned().collect()
    }
}
