//! The figures of a plan: the values that were measured in its runs and are stored in a file. The results for cells,
//! claims and causes follow from the figures alone.
//!
//! A file of figures ends with a digest of its content, so that damage is detected.

use super::metric::{Metric, OF_RUNS, seconds};
use anabranch_results::{Outcome, Race, Run};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The times of each object are stored for pages with at most this number of objects. For larger pages, only the values
/// of whole runs are stored.
const MOST_OBJECTS: usize = 64;

/// The label that stands for every level of a factor. A cell with this label is a mean over all levels.
pub const MEAN: &str = "mean";

/// The text between the content of a file of figures and its digest. The digest covers everything before this text.
const DIGEST: &str = "\ndigest ";

/// The measured values for one combination of the factors' levels.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// The level of each factor at this point.
    pub factors: BTreeMap<String, String>,
    /// The runs of each contestant, by the contestant's name.
    pub contestants: BTreeMap<String, Vec<Numbers>>,
}

/// The numbers of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Numbers {
    /// Whether every object was delivered.
    done: bool,
    /// The values of the run's metrics, in the order of [`OF_RUNS`].
    of_run: Vec<Option<f64>>,
    /// For each object, the seconds from the start of the run to its request and to its delivery.
    objects: Vec<[Option<f64>; 2]>,
}

/// All measured values of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Figures {
    /// The combinations of the factors' levels with their measured values, in the order of the plan.
    pub points: Vec<Rc<Point>>,
    /// If a rule drops every n-th packet and nothing else is random: n, the number of different runs that are possible.
    /// The seed then selects only the first packet that the rule drops. `None` in all other cases, and if n differs
    /// between points. See [`PointPlan::cases`](anabranch_lab::plan::PointPlan).
    pub cases: Option<u64>,
}

impl Numbers {
    fn of(run: &Run, heads: u64, shared: Option<(f64, f64)>) -> Self {
        let own = if run.objects.len() > MOST_OBJECTS { &[] } else { run.objects.as_slice() };
        Self {
            done: run.outcome == Outcome::Done,
            of_run: OF_RUNS.iter().map(|metric| metric.of(run, heads, shared)).collect(),
            objects: own.iter().map(|o| [o.issued_ns.map(seconds), o.delivered_ns.map(seconds)]).collect(),
        }
    }

    /// Returns the numbers of a run as a simple model predicts them. `objects` has, for each object, the seconds until
    /// its request and until its delivery.
    pub(super) fn predicted(of_run: impl Fn(Metric) -> Option<f64>, objects: Vec<[f64; 2]>) -> Self {
        let own = if objects.len() > MOST_OBJECTS { Vec::new() } else { objects };
        Self {
            done: true,
            of_run: OF_RUNS.iter().map(|metric| of_run(*metric)).collect(),
            objects: own.into_iter().map(|times| times.map(Some)).collect(),
        }
    }

    /// Returns the numbers of a made-up run that has only a page time.
    #[cfg(test)]
    pub fn of_page(page: f64) -> Self {
        let of_run = OF_RUNS.iter().map(|metric| (*metric == Metric::Page).then_some(page)).collect();
        Self { done: true, of_run, objects: Vec::new() }
    }

    /// Returns whether every object was delivered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Returns the value of the metric for the run, or for one of its objects (numbered from 1).
    #[must_use]
    pub fn value(&self, metric: Metric, object: Option<usize>) -> Option<f64> {
        if metric.is_of_objects() {
            let [issued, delivered] = self.objects.get(object?.checked_sub(1)?).copied()?;
            return match metric {
                Metric::ObjectTime => Some(delivered? - issued?),
                _ => delivered,
            };
        }
        let at = OF_RUNS.iter().position(|other| *other == metric)?;
        self.of_run.get(at).copied().flatten()
    }

    /// Returns the number of objects whose own times are stored.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.objects.len()
    }
}

impl Point {
    /// Returns the measured values of a race with one point.
    #[must_use]
    pub fn of(factors: BTreeMap<String, String>, race: &Race, heads: u64) -> Self {
        let contestants = race.points.iter().flat_map(|point| {
            point.contestants.iter().enumerate().map(|(index, contestant)| {
                let name = anabranch_results::label::shown(&contestant.name).to_owned();
                let shared = |run: &Run| {
                    let of = point.sharing.iter().find(|sharing| sharing.seed == run.seed)?;
                    Some((*of.shares.get(index)?, of.jain))
                };
                (name, contestant.runs.iter().map(|run| Numbers::of(run, heads, shared(run))).collect())
            })
        });
        Self { factors, contestants: contestants.collect() }
    }

    /// Returns the measured values of a point from the runs of its contestants. In each of these runs, one contestant
    /// used the network alone.
    pub(super) fn of_contestants<'a>(
        factors: BTreeMap<String, String>,
        contestants: impl IntoIterator<Item = &'a anabranch_results::Contestant>,
        heads: u64,
    ) -> Self {
        let contestants = contestants.into_iter().map(|contestant| {
            let name = anabranch_results::label::shown(&contestant.name).to_owned();
            (name, contestant.runs.iter().map(|run| Numbers::of(run, heads, None)).collect())
        });
        Self { factors, contestants: contestants.collect() }
    }

    /// Returns the content of the file that stores the figures.
    #[must_use]
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        let digest = hex(text.as_bytes());
        format!("{text}{DIGEST}{digest}\n")
    }

    /// Reads the content of a file of figures.
    ///
    /// # Errors
    /// A text that describes the defect. The caller prints the text after the name of the file, in one sentence.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let (content, end) = text.rsplit_once(DIGEST).ok_or("is damaged: it has no digest at its end")?;
        if end.trim_end() != hex(content.as_bytes()) {
            return Err("is damaged: its digest is that of another content".to_owned());
        }
        serde_json::from_str(content).map_err(|error| format!("is damaged: {error}"))
    }

    /// Returns the values of a contestant, run by run. Runs without a value are left out.
    #[must_use]
    pub fn values(&self, contestant: &str, metric: Metric, object: Option<usize>) -> Vec<f64> {
        self.by_run(contestant, metric, object).into_iter().flatten().collect()
    }

    /// Returns the values of a contestant, run by run; `None` for a run without a value.
    #[must_use]
    pub fn by_run(&self, contestant: &str, metric: Metric, object: Option<usize>) -> Vec<Option<f64>> {
        let runs = self.contestants.get(contestant).into_iter().flatten();
        runs.map(|run| run.value(metric, object)).collect()
    }
}

impl Figures {
    /// Returns the first point whose factor levels are all in `labels`. Labels whose key is not a factor of the point
    /// are ignored.
    #[must_use]
    pub fn at(&self, labels: &BTreeMap<String, String>) -> Option<&Point> {
        let is_there =
            |point: &&Rc<Point>| point.factors.iter().all(|(key, level)| labels.get(key) == Some(level));
        self.points.iter().find(is_there).map(Rc::as_ref)
    }

    /// Returns all points whose factor levels match `labels`. If the label of a factor is [`MEAN`], every level of the
    /// factor matches.
    #[must_use]
    pub fn all_at(&self, labels: &BTreeMap<String, String>) -> Vec<&Point> {
        let is_level = |(key, level): (&String, &String)| {
            labels.get(key).is_some_and(|label| label == level || label == MEAN)
        };
        let is_there = |point: &&Rc<Point>| point.factors.iter().all(is_level);
        self.points.iter().filter(is_there).map(Rc::as_ref).collect()
    }
}

/// Returns the SHA-256 of the bytes, in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_back_and_a_damaged_one_is_not_believed() {
        let numbers =
            Numbers { done: true, of_run: vec![Some(0.1 + 0.2), None], objects: vec![[Some(0.0), None]] };
        let contestants = BTreeMap::from([("tcp".to_owned(), vec![numbers])]);
        let point = Point { factors: BTreeMap::new(), contestants };
        let text = point.to_text();
        assert_eq!(Point::from_text(&text), Ok(point));
        for damaged in [text.replace("0.3", "0.4"), text[..text.len() / 2].to_owned(), String::new()] {
            assert!(Point::from_text(&damaged).expect_err("damaged").contains("damaged"), "{damaged}");
        }
    }
}
