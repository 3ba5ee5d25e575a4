//! The expectations of a plan, in its `[[expect]]` tables. A CI job fails if the results do not meet them.
//!
//! `metric` and `of` select a number: the contestant's mean or, if `versus` is given, the ratio of the two contestants'
//! means. An expectation has at least one bound for that number. `at` restricts the expectation to the points with
//! given factor levels.

use super::draft::Table;
use super::error::{PlanError, unknown};
use anabranch_results::{Expectation, Point, Summary, label};
use std::collections::BTreeMap;

/// The keys that are allowed in every `[[expect]]` table. The names of the plan's factors are allowed, too.
pub const FIELDS: [&str; 8] =
    ["metric", "of", "versus", "ratio_min", "ratio_max", "min", "max", "failed_max"];

/// One `[[expect]]` table.
#[derive(Clone, PartialEq, Debug)]
pub struct Expect {
    metric: String,
    of: String,
    versus: Option<String>,
    min: Option<f64>,
    max: Option<f64>,
    failed_max: Option<u64>,
    /// The factor levels of the points to which the expectation applies.
    at: BTreeMap<String, String>,
    place: String,
}

impl Expect {
    /// Interprets one `[[expect]]` table. `contestants` are the plan's contestants, and `factors` are the keys with
    /// several levels.
    ///
    /// # Errors
    /// [`PlanError`] that names the table and the field.
    pub fn interpret(table: &Table, contestants: &[&str], factors: &[String]) -> Result<Self, PlanError> {
        let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
        let mut at = BTreeMap::new();
        for (key, levels) in &table.entries {
            let place = format!("{}: {key}", table.place);
            let [value] = levels.as_slice() else {
                return Err(PlanError::at(&place, "takes one value, not a list"));
            };
            if factors.contains(key) {
                at.insert(key.clone(), value.clone());
            } else if FIELDS.contains(&key.as_str()) {
                fields.insert(key, value);
            } else {
                let mut accepted = FIELDS.to_vec();
                accepted.extend(factors.iter().map(String::as_str));
                return Err(PlanError::at(&table.place, unknown("key", key, &accepted)));
            }
        }
        let at_key = |key: &str, what: String| PlanError::at(&format!("{}: {key}", table.place), what);
        let text = |key: &str| fields.get(key).map(|value| (*value).to_owned());
        // The table may name a contestant by its nickname or by its full text.
        let contestant = |key: &str| {
            let Some(value) = fields.get(key) else { return Ok(None) };
            let named = contestants.iter().find(|typed| *typed == value || label::shown(typed) == *value);
            let labels: Vec<&str> = contestants.iter().map(|typed| label::shown(typed)).collect();
            let named = named.ok_or_else(|| at_key(key, unknown("contestant", value, &labels)))?;
            Ok(Some((*named).to_owned()))
        };
        let number = |key: &str| match fields.get(key) {
            None => Ok(None),
            Some(value) => match value.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number)),
                _ => Err(at_key(key, format!("'{value}' is not a number"))),
            },
        };
        let metric = text("metric").unwrap_or_else(|| "page_ms".to_owned());
        if !Summary::METRICS.contains(&metric.as_str()) {
            return Err(at_key("metric", unknown("metric", &metric, &Summary::METRICS)));
        }
        let of = contestant("of")?
            .ok_or_else(|| PlanError::at(&table.place, "'of' names the contestant; it is missing"))?;
        let versus = contestant("versus")?;
        let (low, high) = if versus.is_some() { ("ratio_min", "ratio_max") } else { ("min", "max") };
        for key in ["ratio_min", "ratio_max", "min", "max"] {
            if fields.contains_key(key) && key != low && key != high {
                let with = if versus.is_some() { "without" } else { "with" };
                return Err(at_key(key, format!("goes with an expectation {with} 'versus'")));
            }
        }
        let failed_max = number("failed_max")?.map(|n| n.max(0.0) as u64);
        let (min, max) = (number(low)?, number(high)?);
        if min.is_none() && max.is_none() && failed_max.is_none() {
            return Err(PlanError::at(
                &table.place,
                format!("no bound is given; write {low}, {high} or failed_max"),
            ));
        }
        Ok(Self { metric, of, versus, min, max, failed_max, at, place: table.place.clone() })
    }

    /// Evaluates the expectation at the point with this index. Returns `None` if the expectation does not apply to the
    /// point.
    #[must_use]
    pub fn evaluate(&self, index: usize, point: &Point) -> Option<Expectation> {
        if !self.at.iter().all(|(factor, level)| point.factors.get(factor) == Some(level)) {
            return None;
        }
        let contestant = |name: &str| point.contestants.iter().find(|contestant| contestant.name == name);
        let of = contestant(&self.of)?;
        let found = match &self.versus {
            Some(versus) => {
                let versus = contestant(versus)?;
                let sides =
                    ((self.of.as_str(), of.runs.as_slice()), (versus.name.as_str(), versus.runs.as_slice()));
                anabranch_results::stats::metrics::compare(sides.0, sides.1, &self.metric, point.terms())
                    .ratio
            }
            None => of.summary.metric(&self.metric).and_then(|stat| stat.mean),
        };
        let bounded = self.min.is_some() || self.max.is_some();
        let within = found.is_some_and(|found| {
            self.min.is_none_or(|min| found >= min) && self.max.is_none_or(|max| found <= max)
        });
        let failed = of.summary.page_ms.failed;
        let met = (!bounded || within) && self.failed_max.is_none_or(|max| failed <= max);
        Some(Expectation { point: index as u64, expected: self.to_string(), found, met })
    }
}

impl std::fmt::Display for Expect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} of {}", self.place, self.metric, label::shown(&self.of))?;
        if let Some(versus) = &self.versus {
            write!(f, " / {}", label::shown(versus))?;
        }
        let bounds = [(">=", self.min), ("<=", self.max)];
        for (sign, bound) in bounds {
            if let Some(bound) = bound {
                write!(f, " {sign} {bound}")?;
            }
        }
        if let Some(max) = self.failed_max {
            write!(f, ", at most {max} failed")?;
        }
        for (factor, level) in &self.at {
            write!(f, ", at {factor} {level}")?;
        }
        Ok(())
    }
}
