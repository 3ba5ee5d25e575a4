//! Compares the new plan with the plan of the earlier result that `race --compare` reads.

use crate::Failure;
use anabranch_lab::plan::{Plan, current_name, keys};
use anabranch_results::{Point, Race};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The factors of a plan (settings with several values), each with its values.
pub type Factors = BTreeMap<String, Vec<String>>;

/// Returns the factors of `plan`: the settings in which its points differ, each with its values.
pub fn factors(plan: &Plan) -> Factors {
    let mut factors = Factors::new();
    for (factor, level) in plan.points.iter().flat_map(|point| &point.factors) {
        let levels = factors.entry(factor.clone()).or_default();
        if !levels.contains(level) {
            levels.push(level.clone());
        }
    }
    factors
}

/// Removes the points (combinations of settings) that the new plan does not have from `old`, the result in `file`.
/// Returns the rest, and a line about the settings in which the two plans differ, if there are any.
///
/// The two plans may have different factors. A point is common if each setting has the same value in both plans.
///
/// # Errors
/// [`Failure::Usage`] if the two results have no contestant or no point in common.
pub fn align(
    mut old: Race,
    file: &str,
    plan: &Plan,
    factors: &Factors,
) -> Result<(Race, Option<String>), Failure> {
    let refused = |what: String| Failure::Usage(format!("--compare {file}: {what}"));
    for contestant in old.points.iter_mut().flat_map(|point| &mut point.contestants) {
        let is_same = |text: &str| current_name(text) == current_name(&contestant.name);
        if let Some(new) = plan.contestants.iter().find(|new| is_same(&new.text)) {
            contestant.name.clone_from(&new.text);
        }
    }
    let names = |race: &Race| -> Vec<String> {
        let contestants = race.points.first().into_iter().flat_map(|point| &point.contestants);
        contestants.map(|contestant| contestant.name.clone()).collect()
    };
    let (there, here) =
        (names(&old), plan.contestants.iter().map(|one| one.text.clone()).collect::<Vec<_>>());
    if !there.iter().any(|name| here.contains(name)) {
        let (there, here) = (there.join(", "), here.join(", "));
        return Err(refused(format!("no contestant in common: {there} there, {here} here")));
    }
    let (then, now) =
        (settings(&old.plan), settings(&serde_json::to_value(plan.draft.to_toml()).unwrap_or_default()));
    let decisive: Vec<String> =
        old.points.iter().flat_map(|point| point.factors.keys()).chain(factors.keys()).cloned().collect();
    old.points.retain_mut(|point| match common_factors(point, (&then, &now), factors) {
        Some(common) => {
            point.factors = common;
            true
        }
        None => false,
    });
    let differences = differences(&then, &now);
    let shown = |differences: &[(String, String)]| {
        differences.iter().map(|(_, phrase)| phrase.as_str()).collect::<Vec<_>>().join("; ")
    };
    if old.points.is_empty() {
        let factors: Vec<_> = differences.into_iter().filter(|(key, _)| decisive.contains(key)).collect();
        return Err(refused(format!("no point in common: {}", shown(&factors))));
    }
    let line = (!differences.is_empty())
        .then(|| format!("--compare {file}: the plans differ: {}", shown(&differences)));
    Ok((old, line))
}

/// The settings of a plan, each with its values.
type Settings = BTreeMap<String, Vec<String>>;

/// Reads the settings of a plan in a result. Keys have their current names. Contestants are left out.
fn settings(plan: &Value) -> Settings {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let values = |value: &Value| match value {
        Value::Array(values) => values.iter().map(text).collect(),
        one => vec![text(one)],
    };
    let pairs = plan.as_object().into_iter().flatten().filter(|(key, _)| *key != "transport");
    pairs.map(|(key, value)| (keys::current_name(key).unwrap_or(key).to_owned(), values(value))).collect()
}

/// Returns the values of `factors` at a point of the earlier result, if the new plan also has this point.
fn common_factors(
    point: &Point,
    (then, now): (&Settings, &Settings),
    factors: &Factors,
) -> Option<BTreeMap<String, String>> {
    let only_value = |settings: &Settings, key: &str| match settings.get(key).map(Vec::as_slice) {
        Some([one]) => Some(one.clone()),
        _ => None,
    };
    let has_level = |(key, level): (&String, &String)| {
        factors.contains_key(key) || only_value(now, key).as_ref() == Some(level)
    };
    if !point.factors.iter().all(has_level) {
        return None;
    }
    let level = |(key, levels): (&String, &Vec<String>)| {
        let level = point.factors.get(key).cloned().or_else(|| only_value(then, key))?;
        levels.contains(&level).then(|| (key.clone(), level))
    };
    factors.iter().map(level).collect()
}

/// Returns each setting that differs between two plans, with a phrase that names both values.
fn differences(then: &Settings, now: &Settings) -> Vec<(String, String)> {
    let keys: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let shown = |settings: &Settings, key: &str| {
        settings.get(key).map_or_else(|| "not set".to_owned(), |values| values.join(","))
    };
    let differs = keys.into_iter().filter(|key| then.get(*key) != now.get(*key));
    let phrase = |key: &String| format!("{key} {} there, {} here", shown(then, key), shown(now, key));
    differs.map(|key| (key.clone(), phrase(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::plan::Draft;
    use anabranch_results::World;
    use anabranch_transports::Transports;

    fn plan(flags: &[(&str, &str)]) -> Plan {
        let page = [("objects", "1x1kB"), ("runs", "1"), ("causes", "off")];
        let draft = Draft::from_flags(page.iter().chain(flags).copied()).expect("flags");
        Plan::interpret(draft, &Transports::standard()).expect("a plan")
    }

    fn result(flags: &[(&str, &str)]) -> Race {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let options = anabranch_lab::run::batch::Options { threads: 1, progress: &|_| {}, stop: &stop };
        let race = anabranch_lab::causes::race(&plan(flags), &options).expect("a result");
        assert_eq!(race.world, World::Virtual);
        race
    }

    fn aligned(old: &[(&str, &str)], new: &[(&str, &str)]) -> Result<(usize, Option<String>), String> {
        let new = plan(new);
        let aligned = align(result(old), "old.json", &new, &factors(&new)).map_err(Failure::line)?;
        Ok((aligned.0.points.len(), aligned.1))
    }

    #[test]
    fn a_setting_may_be_a_factor_in_one_plan_only() {
        let old = [("loss", "0,1%"), ("transport", "tcp")];
        assert_eq!(aligned(&old, &old), Ok((2, None)));
        let line = "--compare old.json: the plans differ: loss 0,1% there, 1% here";
        assert_eq!(aligned(&old, &[("loss", "1%"), ("transport", "tcp")]), Ok((1, Some(line.to_owned()))));
        let line = "--compare old.json: the plans differ: loss 0 there, 0,2% here; rtt 80ms there, 40ms here";
        let (old, new) = (
            [("loss", "0"), ("transport", "tcp")],
            [("loss", "0,2%"), ("transport", "tcp"), ("rtt", "40ms")],
        );
        assert_eq!(aligned(&old, &new), Ok((1, Some(line.to_owned()))));
    }

    #[test]
    fn results_with_nothing_in_common_are_refused() {
        let old = [("loss", "0"), ("transport", "tcp")];
        let error = "--compare old.json: no contestant in common: tcp there, sctp here";
        assert_eq!(aligned(&old, &[("loss", "0"), ("transport", "sctp")]), Err(error.to_owned()));
        let error = "--compare old.json: no point in common: loss 0 there, 1%,2% here";
        assert_eq!(aligned(&old, &[("loss", "1%,2%"), ("transport", "tcp")]), Err(error.to_owned()));
    }

    #[test]
    fn contestants_that_earlier_versions_spelled_out_are_recognized() {
        let old = [("loss", "0"), ("transport", "http3=quic")];
        assert_eq!(aligned(&old, &[("loss", "0"), ("transport", "http3")]), Ok((1, None)));
    }
}
