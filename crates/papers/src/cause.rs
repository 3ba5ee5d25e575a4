//! A cause is one changed assumption of a study. This module measures its effect on the study's results, and checks
//! whether the effect is within the bounds that the study states.
//!
//! The file `causes.toml` holds the causes of a study. If `explains` is set for a cause, all points of the table are
//! also run with the cause's change to the plan. The cause explains a cell if two conditions are met. Without the
//! change, our value differs from the published value. With the change, our value is near the published value.
//!
//! The [`CauseKind`] of a cause limits what it may claim. For example, a change of a known property of the paper's test
//! rig shows an effect, but explains nothing.

use super::bench::{StudyError, StudyRuns};
use super::change::Change;
use super::effect::{MeanEstimate, Subject, difference, figure};
use super::figures::{Figures, Point};
use super::metric::Metric;
use super::table::Table;
use anabranch_lab::plan::Draft;
use anabranch_transports::Transports;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// One `[[cause]]` entry.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CauseDefinition {
    /// The identifier of the cause.
    pub id: String,
    /// The table whose plan is changed.
    pub table: String,
    /// The changes of the plan, as in `--set`.
    pub change: Vec<String>,
    /// The contestant whose value is compared with and without the change, for example `tcp`; or two contestants whose
    /// ratio is compared, for example `sctp/tcp`.
    pub of: String,
    /// The metric that is compared; if absent, the metric of the table.
    pub metric: Option<Metric>,
    /// Selects the point of the table at which the values are compared. A key is the name of a factor, and its value is
    /// a level of the factor. If the key is `object`, its value is the index of an object, from 1.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// The bounds between which the mean effect must lie. The effect is the ratio of the compared value in runs with
    /// the change to the compared value in runs without the change.
    pub effect: [f64; 2],
    /// The finding in one sentence. `{}` is replaced by the effect, `{was}` by the compared value without the change,
    /// and `{is}` by the compared value with the change.
    pub says: String,
    /// Whether the cause may explain cells. If so, all points of the table are also run with the change. The cause
    /// explains each cell that differs from its published value without the change, and is near it with the change.
    #[serde(default)]
    pub explains: bool,
    /// Whether the cause is a negative control: a cause that is known to be false, and that the check must refute.
    #[serde(default)]
    pub planted: bool,
    /// Whether the cause was found by trying many variants. If so, it proves nothing by itself.
    #[serde(default)]
    pub exploratory: bool,
    /// Whether the change contradicts known properties of the paper's test rig. If so, the cause shows how much a
    /// setting matters, but explains no cell.
    #[serde(default)]
    pub counterfactual: bool,
    /// The heading of the chart that shows the effect of the change; absent if there is no chart. For a chart, the plan
    /// is run without and with the change at all points of the chart's x axis.
    pub chart: Option<String>,
}

/// The kind of evidence that a cause provides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CauseKind {
    /// The change concerns something that the paper leaves open. The cause may therefore explain why our value of a
    /// cell differs from the published value.
    Finding,
    /// The change contradicts a known property of the paper's test rig. The cause shows how much this property matters,
    /// but does not count as an explanation of any cell.
    Counterfactual,
    /// The cause was found by trying many variants, so it may fit by chance. It therefore does not count as an
    /// explanation of any cell.
    Exploratory,
    /// The cause is known to be false. It tests the method: the runs must refute it.
    Planted,
}

impl CauseKind {
    /// All kinds of causes, in the order in which output lists their counts.
    pub const ALL: [Self; 4] = [Self::Finding, Self::Counterfactual, Self::Exploratory, Self::Planted];

    /// Returns one word for the kind of cause, for tables and files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Finding => "finding",
            Self::Counterfactual => "counterfactual",
            Self::Exploratory => "exploratory",
            Self::Planted => "planted",
        }
    }

    /// Returns the plural of the kind of cause, for text such as "3 of 4 findings". The first number counts only the
    /// causes that have the effect that the study states. For planted causes, it counts those that the runs refute.
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

/// A cause with the effect that was measured for it.
#[derive(Clone, Debug)]
pub struct CauseResult {
    /// The definition of the cause.
    pub cause: CauseDefinition,
    /// The effect: the compared value in runs with the change, divided by the compared value in runs without it. `None`
    /// if one of the two values is missing.
    pub effect: Option<MeanEstimate>,
    /// The compared value (a geometric mean over the runs): first without the change, then with the change. `None` if
    /// no run has a value above 0.
    pub numbers: [Option<f64>; 2],
    /// Whether the effect is within the bounds that the study states. If these bounds exclude 1 (no effect), the 95 %
    /// interval of the effect must exclude 1 as well.
    pub holds: bool,
    /// Whether the study ran with assumptions other than those in its files. If so, the text in
    /// [`CauseDefinition::says`] is not valid for the result.
    pub elsewhere: bool,
    /// The measured values without the change and with it, if the cause has a chart.
    pub figures: Option<[Figures; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    cause: Vec<CauseDefinition>,
}

/// Reads the text of `causes.toml`.
///
/// # Errors
/// A one-line message that describes the error.
pub fn parse(text: &str) -> Result<Vec<CauseDefinition>, String> {
    let file: File = super::from_toml("causes.toml", text)?;
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

impl CauseDefinition {
    /// Parses the changes of the plan that this cause names.
    ///
    /// # Errors
    /// A one-line message for the first entry that is not a valid change.
    pub fn changes(&self) -> Result<Vec<Change>, String> {
        self.change.iter().map(|text| Change::parse(text)).collect()
    }

    /// Returns the factor levels that select the cause's point in the changed plan. A change can fix a factor at one
    /// value. That factor is left out, because it is no longer a factor of the changed plan.
    ///
    /// # Errors
    /// Returns the same errors as [`changes`](Self::changes).
    pub fn place_when_changed(&self) -> Result<BTreeMap<String, String>, String> {
        let changed: Vec<String> = self.changes()?.iter().filter_map(Change::factor).collect();
        let mut at = self.at.clone();
        at.retain(|key, _| !changed.contains(key));
        Ok(at)
    }

    /// Returns the kind of evidence that this cause provides. If several kinds apply, returns the weakest of them.
    /// `Planted` is the weakest kind, followed by `Counterfactual`, `Exploratory` and `Finding`.
    #[must_use]
    pub fn kind(&self) -> CauseKind {
        match () {
            () if self.planted => CauseKind::Planted,
            () if self.counterfactual => CauseKind::Counterfactual,
            () if self.exploratory => CauseKind::Exploratory,
            () => CauseKind::Finding,
        }
    }

    /// Returns whether the result is as expected. A planted cause, which is known to be false, must be refuted. Any
    /// other cause must hold.
    #[must_use]
    pub fn is_met(&self, holds: bool) -> bool {
        holds != self.planted
    }

    /// Runs the plan of the table without and with the change of the cause, and compares the values of the metric.
    ///
    /// # Errors
    /// [`StudyError`] if the runs fail.
    pub fn run(
        &self,
        table: &Table,
        seeds: &Seeds<'_>,
        bench: &mut StudyRuns<'_>,
    ) -> Result<CauseResult, StudyError> {
        let subject = Subject::parse(&self.of);
        let object = self.at.get("object").and_then(|number| number.parse().ok());
        let metric = self.metric.unwrap_or(table.definition.metric);
        // A cause with a chart is run at all values along the x axis, because the chart shows a whole curve.
        let along = table.along().filter(|_| self.chart.is_some());
        let (mut logs, mut both) = (Vec::new(), Vec::new());
        for changes in [&[][..], &self.changes()?] {
            let draft = seeds.draft(table, changes)?;
            let at = if changes.is_empty() { self.at.clone() } else { self.place_when_changed()? };
            let mut wide = at.clone();
            wide.retain(|key, _| along.as_ref() != Some(key));
            // The runs without the change belong to the table, so they include all contestants. If `explains` is set,
            // the runs with the change also include all contestants. Otherwise the runs with the change include only
            // the compared contestants.
            let names = (!changes.is_empty() && !self.explains).then(|| subject.names());
            let table_points = table.table_points(&draft, &wide, names.as_deref(), seeds.transports)?;
            let figures = bench.figures(&table_points, table.definition.heads)?;
            let is_there = |point: &&Rc<Point>| {
                at.iter().all(|(key, level)| point.factors.get(key).is_none_or(|own| own == level))
            };
            let points = figures.points.iter().filter(is_there);
            logs.push(points.flat_map(|point| subject.logs(point, metric, object)).collect::<Vec<_>>());
            both.push(figures);
        }
        let numbers =
            [0, 1].map(|with_change| MeanEstimate::of(&logs[with_change]).map(|number| number.mean));
        let effects = difference(&logs[1], &logs[0]);
        // The effect is exact if the runs without the change cover all possible random choices. The runs with the
        // change must then cover the same choices, or be one run without randomness.
        let cases = table.cases(&both[0]).filter(|_| logs[1].len() == 1 || both[1].cases == both[0].cases);
        let runs = effects.iter().flatten().count();
        let effect = MeanEstimate::of(&effects).map(|effect| effect.of_cases(runs, cases));
        let [low, high] = self.effect;
        let holds = effect.is_some_and(|effect| {
            let within = (low..=high).contains(&effect.mean);
            // An effect of 1 is no effect. If the stated bounds exclude 1, the confidence interval of the measured
            // effect must exclude 1, too.
            let is_decided =
                (low <= 1.0 || effect.interval[0] > 1.0) && (high >= 1.0 || effect.interval[1] < 1.0);
            within && is_decided
        });
        let figures = <[Figures; 2]>::try_from(both).ok().filter(|_| self.chart.is_some());
        let elsewhere = !seeds.changes.is_empty();
        Ok(CauseResult { cause: self.clone(), effect, numbers, holds, elsewhere, figures })
    }
}

impl CauseResult {
    /// Returns the finding in one sentence with the measured effect. If the study ran with changed assumptions, returns
    /// a neutral sentence with the change and its effect.
    #[must_use]
    pub fn sentence(&self) -> String {
        let effect = self.effect.map_or("nothing".to_owned(), |effect| format!("x{effect}"));
        let [was, is] = self.numbers.map(|number| number.map_or("nothing".to_owned(), figure));
        if self.elsewhere {
            let (change, of) = (self.cause.change.join(" "), &self.cause.of);
            return format!(
                "With {change} as well, {of} is {effect} of its value without (geometric means: {was} without, {is} with)."
            );
        }
        self.cause.says.replace("{}", &effect).replace("{was}", &was).replace("{is}", &is)
    }

    /// Returns the verdict on the cause in one or two words.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.is_met(), self.cause.kind()) {
            (true, CauseKind::Planted) => "refuted",
            (false, CauseKind::Planted) => "NOT REFUTED",
            (true, _) => "holds",
            (false, _) => "FAILS",
        }
    }

    /// Returns whether the result is as expected. A planted cause is a false one: it must be refuted. Any other cause
    /// must hold.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.cause.is_met(self.holds)
    }
}

/// The inputs that all tables of a study share: the seeds, the changes of the plans, and the transports.
#[derive(Clone, Copy, Debug)]
pub struct Seeds<'a> {
    /// The number of seeds with which each plan runs.
    pub runs: u64,
    /// The first seed of each plan. The other seeds follow it.
    pub first: u64,
    /// The changes that the user gave with `--set`.
    pub changes: &'a [Change],
    /// The transports that plans may name.
    pub transports: &'a Transports,
}

impl Seeds<'_> {
    /// Returns the plan of a table, for the seeds of the study. The changes of the study and then `changes` are applied
    /// to the plan.
    ///
    /// # Errors
    /// A one-line message if a change names a key or a contestant that the plan does not have.
    pub fn draft(&self, table: &Table, changes: &[Change]) -> Result<Draft, String> {
        table.draft(self.runs, self.first, &self.changes_of(table, changes))
    }

    /// Returns the changes of a table: first the changes of the study that apply to the table, then `changes`.
    #[must_use]
    pub fn changes_of(&self, table: &Table, changes: &[Change]) -> Vec<Change> {
        let names = table.names();
        self.changes.iter().filter(|change| change.is_of(&names)).chain(changes).cloned().collect()
    }
}
