//! Findings: the effect of one changed assumption, and whether it still has the effect that the study states.
//!
//! `causes.toml` holds them. A cause that explains cells is run over the whole table. It explains those that differ from the
//! published values without the change and not with it. The [`Kind`] of a cause limits what it may claim: a change of known
//! properties of the rig shows an effect, but explains nothing.

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
    /// The identifier.
    pub id: String,
    /// The table whose plan is changed.
    pub table: String,
    /// The changes.
    pub change: Vec<String>,
    /// The contestant whose number is compared, or the ratio of two contestants.
    pub of: String,
    /// The metric; that of the table if absent.
    pub metric: Option<Metric>,
    /// The place: factor, or `object`, to level.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// Bounds of the effect: the number with the change divided by the number without.
    pub effect: [f64; 2],
    /// The finding, in a sentence. `{}` is replaced by the effect, `{was}` and `{is}` by the number without and with the
    /// change.
    pub says: String,
    /// The cause is run over the whole table, and explains the cells that it brings near the published values.
    #[serde(default)]
    pub explains: bool,
    /// The cause is known to be false: a negative control that the check must refute.
    #[serde(default)]
    pub planted: bool,
    /// The cause was found by trying many variants, so it proves nothing by itself.
    #[serde(default)]
    pub exploratory: bool,
    /// The change contradicts what is known of the rig: the cause only shows the effect of the setting.
    #[serde(default)]
    pub counterfactual: bool,
    /// The heading of its chart, if it has one. The cause is then run along a whole curve of its table.
    pub chart: Option<String>,
}

/// The kind of evidence that a cause provides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// It changes what the paper leaves open, so it may explain cells.
    Finding,
    /// It changes what is known of the rig: it shows the effect, and explains no cell.
    Counterfactual,
    /// It was found by trying many variants: it explains no cell.
    Exploratory,
    /// It is known to be false, and must be refuted.
    Planted,
}

impl Kind {
    /// All kinds, in the order in which they are counted.
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

    /// The words after a count of causes with the expected result.
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

/// A cause with its result.
#[derive(Clone, Debug)]
pub struct Found {
    /// The definition of the cause.
    pub cause: Cause,
    /// The number with the change divided by the number without; `None` if there is no value.
    pub effect: Option<Estimate>,
    /// The number without the change, and with it.
    pub numbers: [Option<f64>; 2],
    /// The effect is as stated: within its bounds, and on the same side of 1 as they are.
    pub holds: bool,
    /// The study ran with changed assumptions, to which the sentence of the cause does not apply.
    pub elsewhere: bool,
    /// The figures without and with the change, if the cause has a chart.
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
/// One line that describes the error.
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
    /// The parsed changes.
    ///
    /// # Errors
    /// One line: the first entry that does not parse as a change.
    pub fn changes(&self) -> Result<Vec<Change>, String> {
        self.change.iter().map(|text| Change::parse(text)).collect()
    }

    /// The place in the changed plan. Factors that the change fixes are dropped, because the changed plan no longer has
    /// them.
    ///
    /// # Errors
    /// The same as [`changes`](Self::changes).
    pub fn place_when_changed(&self) -> Result<BTreeMap<String, String>, String> {
        let changed: Vec<String> = self.changes()?.iter().filter_map(Change::factor).collect();
        let mut at = self.at.clone();
        at.retain(|key, _| !changed.contains(key));
        Ok(at)
    }

    /// The kind of evidence. A cause of several kinds counts as the one that may claim least: an exploratory cause that
    /// contradicts the rig is a counterfactual.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match () {
            () if self.planted => Kind::Planted,
            () if self.counterfactual => Kind::Counterfactual,
            () if self.exploratory => Kind::Exploratory,
            () => Kind::Finding,
        }
    }

    /// Whether it was found by trying many variants, whatever its kind.
    #[must_use]
    pub fn is_exploratory(&self) -> bool {
        self.exploratory
    }

    /// Whether it is known to be false, and must be refuted.
    #[must_use]
    pub fn is_planted(&self) -> bool {
        self.planted
    }

    /// Whether the result is the expected one: a planted cause must be refuted.
    #[must_use]
    pub fn is_met(&self, holds: bool) -> bool {
        holds != self.planted
    }

    /// Runs the cause.
    ///
    /// # Errors
    /// [`StudyError`].
    pub fn run(&self, table: &Table, seeds: &Seeds<'_>, bench: &mut Bench<'_>) -> Result<Found, StudyError> {
        let subject = Subject::parse(&self.of);
        let object = self.at.get("object").and_then(|number| number.parse().ok());
        let metric = self.metric.unwrap_or(table.definition.metric);
        // A chart shows the whole curve.
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
            // Runs without the change are runs of the table, and so are all runs with the change if the whole table is run.
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
        // Used only if both plans have the same possible cases, and all of them were run.
        let cases = table.cases(&both[0]).filter(|_| logs[1].len() == 1 || both[1].cases == both[0].cases);
        let runs = effects.iter().flatten().count();
        let effect = Estimate::of(&effects).map(|effect| effect.of_cases(runs, cases));
        let [low, high] = self.effect;
        let holds = effect.is_some_and(|effect| {
            let within = (low..=high).contains(&effect.mean);
            // A stated effect must be distinguishable from no effect.
            let told = (low <= 1.0 || effect.interval[0] > 1.0) && (high >= 1.0 || effect.interval[1] < 1.0);
            within && told
        });
        let figures = <[Figures; 2]>::try_from(both).ok().filter(|_| self.chart.is_some());
        let elsewhere = !seeds.changes.is_empty();
        Ok(Found { cause: self.clone(), effect, numbers, holds, elsewhere, figures })
    }
}

impl Found {
    /// The finding in a sentence with the measured effect. If the study ran with changed assumptions, a neutral sentence
    /// with the change and its effect.
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

    /// The result in a word or two.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.is_met(), self.cause.kind()) {
            (true, Kind::Planted) => "refuted",
            (false, Kind::Planted) => "NOT REFUTED",
            (true, _) => "holds",
            (false, _) => "FAILS",
        }
    }

    /// Whether the result is the expected one.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.cause.is_met(self.holds)
    }
}

/// The seeds of a study, and the changes that apply to all of it.
#[derive(Clone, Copy, Debug)]
pub struct Seeds<'a> {
    /// The number of seeds.
    pub runs: u64,
    /// The first seed.
    pub first: u64,
    /// The changes given with `--set`.
    pub changes: &'a [Change],
}

impl Seeds<'_> {
    /// The changes of a table: those of the study that apply to it, then its own.
    #[must_use]
    pub fn changes_of(&self, table: &Table, changes: &[Change]) -> Vec<Change> {
        let names = table.names();
        self.changes.iter().filter(|change| change.is_of(&names)).chain(changes).cloned().collect()
    }
}
