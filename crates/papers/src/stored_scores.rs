//! Stored scores of a study: the files `readings.csv` and `sensitivity.csv` in its folder, as written by `study run
//! --readings --sensitivity --out DIR`.
//!
//! Computing the scores takes minutes, so they are stored with the study. Every page shows the stored scores. Each file
//! contains a digest of everything that determines the scores: plans, published cells, readings (interpretations of the
//! paper), and the varied assumptions. If the digest is not the current one, the file is *stale* and its scores are not
//! shown.

use super::figures::hex;
use super::readings::{OrderRow, ScoredReading, Scores};
use super::sensitivity::{Robustness, Sensitivity};
use super::{CauseDefinition, Definition, Readings};
use anabranch_results::csv::{of_rows, optional};
use std::fmt::Write;

/// The files of a study that hold stored scores.
pub const FILES: [&str; 2] = ["readings.csv", "sensitivity.csv"];

/// The stored scores of a study.
#[derive(Clone, Debug, Default)]
pub struct StoredScores {
    /// The scores of the readings.
    pub scores: Option<Scores>,
    /// The sensitivity to assumptions.
    pub sensitivity: Option<Sensitivity>,
    /// The files whose scores were computed for another version of the study, so that their digests no longer match.
    pub stale: Vec<&'static str>,
    /// The digest of everything that determines the scores of the readings now. Stored scores with another digest are
    /// stale.
    pub(super) scores_digest: String,
    /// The digest of everything that determines the sensitivity analysis now. A stored analysis with another digest is
    /// stale.
    pub(super) sensitivity_digest: String,
}

impl StoredScores {
    /// Reads the stored scores. `find` returns the text of a file of the study.
    ///
    /// # Errors
    /// A one-line message with the file and the error.
    pub(super) fn read(
        find: impl Fn(&str) -> Result<Option<String>, String>,
        definition: &Definition,
        readings: Option<&Readings>,
        causes: &[CauseDefinition],
    ) -> Result<Self, String> {
        // Comments in a plan or a table do not affect the scores, so the digest leaves them out.
        let table = |name: &str| -> Result<String, String> {
            let mut out = String::new();
            for file in [format!("{name}.toml"), format!("{name}.csv")] {
                let text = find(&file)?.unwrap_or_default();
                let lines = text.lines().map(str::trim_end);
                let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
                let _ = writeln!(out, "{file}\n{}", lines.collect::<Vec<_>>().join("\n"));
            }
            Ok(out)
        };
        let mut scored = readings.map_or(String::new(), |readings| readings.hash.clone());
        let mut names: Vec<&str> = readings.map_or(Vec::new(), |readings| readings.table_names().collect());
        names.sort_unstable();
        names.dedup();
        for name in names {
            scored += &table(name)?;
        }
        let varied = definition.varied();
        let mut varying = format!("{:?} {:?}", definition.vary, definition.vary_without);
        for name in &varied {
            varying += &table(name)?;
        }
        for cause in causes.iter().filter(|cause| varied.contains(&cause.table.as_str())) {
            let CauseDefinition { id, change, of, metric, at, effect, .. } = cause;
            let _ = writeln!(varying, "{id} {change:?} {of} {metric:?} {at:?} {effect:?} {:?}", cause.kind());
        }
        let [scores_digest, sensitivity_digest] = [scored, varying].map(|text| hex(text.as_bytes()));
        let mut stored = Self { scores_digest, sensitivity_digest, ..Self::default() };
        let [first, second] = FILES;
        let wrong = |file: &'static str| move |message: String| format!("{file}: {message}");
        if let Some(text) = find(first)? {
            let found = scores(&text).map_err(wrong(first))?;
            if found.digest == stored.scores_digest {
                stored.scores = Some(found)
            } else {
                stored.stale.push(first)
            }
        }
        if let Some(text) = find(second)? {
            let found = sensitivity(&text).map_err(wrong(second))?;
            match found.digest == stored.sensitivity_digest {
                true => stored.sensitivity = Some(found),
                false => stored.stale.push(second),
            }
        }
        Ok(stored)
    }
}

/// The first columns of `readings.csv`. After them comes one column for each row of the paper's tables that is scored.
const READINGS_COLUMNS: [&str; 8] =
    ["what", "reading", "stated", "default", "exploratory", "calibrated", "left", "loss"];
/// The prefix of the names of columns that count orders of contestants. After it comes the name of a row of the table.
const ORDERS: &str = "orders ";

/// Returns the text of `readings.csv`. It has one row for each reading (interpretation) of the paper, and one row for
/// each summary value.
#[must_use]
pub fn readings_csv(scores: &Scores) -> String {
    let orders = scores.order_rows.iter().map(|row| format!("{ORDERS}{}", row.name));
    let head =
        READINGS_COLUMNS.into_iter().map(str::to_owned).chain(scores.rows.iter().cloned()).chain(orders);
    let mut rows = vec![head.collect::<Vec<_>>()];
    let numbers = |loss: f64, errors: Vec<f64>| {
        std::iter::once(loss).chain(errors).map(|value| value.to_string()).collect::<Vec<_>>()
    };
    let width = READINGS_COLUMNS.len() + scores.rows.len() + scores.order_rows.len();
    let mut add = |kind: &str, name: &str, of: [String; 5], numbers: Vec<String>, orders: Vec<String>| {
        let mut row = vec![kind.to_owned(), name.to_owned()];
        row.extend(of);
        row.extend(numbers);
        row.resize(width - scores.order_rows.len(), String::new());
        row.extend(orders);
        row.resize(width, String::new());
        rows.push(row);
    };
    let of = |at: usize| {
        let reading = &scores.readings[at];
        let (stated, default) = reading.departures;
        let exploratory = if reading.exploratory { "yes" } else { "no" };
        let left = optional(reading.remaining_error);
        let calibrated = reading.calibrated.join(" ");
        [stated.to_string(), default.to_string(), exploratory.to_owned(), calibrated, left]
    };
    let orders_of = |at: usize| -> Vec<String> {
        scores.readings[at].orders.iter().map(|(same, all)| format!("{same}/{all}")).collect()
    };
    let none = || [const { String::new() }; 5];
    add("file", &scores.hash, none(), Vec::new(), Vec::new());
    for (kind, at) in [("selected", scores.selected), ("stated only", scores.stated_only)] {
        let reading = &scores.readings[at];
        add(kind, &reading.name, of(at), numbers(reading.loss(), reading.errors.clone()), orders_of(at));
    }
    let held_out = scores.held_out.iter().map(|(error, _)| *error).collect();
    let orders = scores.held_out_each();
    let orders = orders.into_iter().map(|of| of.map_or(String::new(), |(same, all)| format!("{same}/{all}")));
    add("held out", "", none(), numbers(scores.held_out_loss(), held_out), orders.collect());
    add("median of all", "", none(), numbers(scores.median, Vec::new()), Vec::new());
    for (at, reading) in scores.readings.iter().enumerate() {
        add("reading", &reading.name, of(at), numbers(reading.loss(), reading.errors.clone()), orders_of(at));
    }
    add("seeds", &scores.seeds.to_string(), none(), Vec::new(), Vec::new());
    add("of", &scores.digest, none(), Vec::new(), Vec::new());
    let scored_rows = scores.order_rows.iter().map(|row| {
        row.scored_rows.iter().filter_map(|at| scores.rows.get(*at)).cloned().collect::<Vec<_>>().join(" ")
    });
    add("orders share cells with", "", none(), Vec::new(), scored_rows.collect());
    of_rows(&rows)
}

/// Returns the header and the rows of a CSV text. Every row must be as long as the header.
fn rows(text: &str) -> Result<(Vec<String>, Vec<Vec<String>>), String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let line = |error: csv::Error| error.to_string().replace('\n', " ");
    let header = reader.headers().map_err(line)?.iter().map(str::to_owned).collect();
    let rows = reader
        .records()
        .map(|row| row.map(|row| row.iter().map(str::to_owned).collect()).map_err(line))
        .collect::<Result<_, _>>()?;
    Ok((header, rows))
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("'{text}' where a number was expected"))
}

/// Reads the scores from the text of a `readings.csv`. The selection and the held-out errors in the text are ignored
/// and computed again from the scores.
///
/// # Errors
/// A one-line message that describes the error.
pub fn scores(text: &str) -> Result<Scores, String> {
    let (header, all) = rows(text)?;
    if header.len() < READINGS_COLUMNS.len() || header[..READINGS_COLUMNS.len()] != READINGS_COLUMNS {
        return Err("its first columns are not those of readings".to_owned());
    }
    let columns = &header[READINGS_COLUMNS.len()..];
    let count = columns.iter().take_while(|name| !name.starts_with(ORDERS)).count();
    let (names, order_names) = columns.split_at(count);
    let of =
        |what: &'static str| all.iter().find(|row| row[0] == what).ok_or_else(|| format!("no row '{what}'"));
    let scored_rows = of("orders share cells with")?;
    let order_rows =
        order_names.iter().zip(&scored_rows[READINGS_COLUMNS.len() + count..]).map(|(name, scored_rows)| {
            let at = |name: &str| names.iter().position(|row| row == name);
            let scored_rows = scored_rows.split(' ').filter(|name| !name.is_empty());
            let scored_rows = scored_rows.map(|name| at(name).ok_or_else(|| format!("no row '{name}'")));
            Ok(OrderRow {
                name: name[ORDERS.len()..].to_owned(),
                scored_rows: scored_rows.collect::<Result<_, String>>()?,
            })
        });
    let order_rows = order_rows.collect::<Result<Vec<_>, String>>()?;
    let readings = all.iter().filter(|row| row[0] == "reading").map(|row| {
        let whole = |text: &str| text.parse::<u32>().map_err(|_| format!("'{text}' is no whole number"));
        let pair = |text: &String| -> Result<(usize, usize), String> {
            let numbers = text.split_once('/').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            numbers.ok_or_else(|| format!("'{text}' where n/m was expected"))
        };
        let (errors, orders) = row[READINGS_COLUMNS.len()..].split_at(count);
        Ok(ScoredReading {
            name: row[1].clone(),
            departures: (whole(&row[2])?, whole(&row[3])?),
            exploratory: row[4] == "yes",
            calibrated: row[5].split(' ').filter(|one| !one.is_empty()).map(str::to_owned).collect(),
            remaining_error: if row[6].is_empty() { None } else { Some(number(&row[6])?) },
            errors: errors.iter().map(|text| number(text)).collect::<Result<_, _>>()?,
            orders: orders.iter().map(pair).collect::<Result<_, _>>()?,
        })
    });
    let readings = readings.collect::<Result<Vec<_>, String>>()?;
    let seeds = of("seeds")?[1].parse().map_err(|_| "seeds: no whole number".to_owned())?;
    let (hash, made_of) = (of("file")?[1].clone(), of("of")?[1].clone());
    Scores::of(hash, names.to_vec(), order_rows, readings)
        .map(|scores| Scores { seeds, digest: made_of, ..scores })
        .ok_or_else(|| "no reading that could be chosen".to_owned())
}

/// The columns of `sensitivity.csv`.
const SENSITIVITY_COLUMNS: [&str; 7] =
    ["what", "holds_points", "points", "fragile", "broken_by", "kind", "error"];

/// Returns the text of `sensitivity.csv`. The first rows say at how many points of the hypercube each order of
/// contestants and each finding holds. Then each single change of an assumption has a row, with the error of the cells
/// after this change alone. The last rows have the least, median and largest error of the hypercube points, at which
/// all assumptions are changed at once.
#[must_use]
pub fn sensitivity_csv(found: &Sensitivity) -> String {
    let mut rows = vec![SENSITIVITY_COLUMNS.map(str::to_owned).to_vec()];
    for robustness in &found.robustness {
        let fragile = if robustness.is_fragile() { "yes" } else { "no" };
        let (holds, of) = robustness.joint;
        let kind = if robustness.name.starts_with("finding ") { "finding" } else { "order" };
        let broken = robustness.broken_by.join(" ");
        let row = [&robustness.name, &holds.to_string(), &of.to_string(), fragile, &broken, kind, ""];
        rows.push(row.map(str::to_owned).to_vec());
    }
    let mut add = |label: &str, kind: &str, error: Option<f64>| {
        let error = optional(error);
        rows.push([label, "", "", "", "", kind, &error].map(str::to_owned).to_vec());
    };
    for (change, error) in &found.alone {
        add(change, "alone", *error);
    }
    for (label, error) in ["least", "median", "most"].iter().zip(found.joint_error.iter().flatten()) {
        add(label, "all at once", Some(*error));
    }
    add(&found.digest, "of", None);
    of_rows(&rows)
}

/// Reads the text of a `sensitivity.csv`.
///
/// # Errors
/// A one-line message that describes the error.
pub fn sensitivity(text: &str) -> Result<Sensitivity, String> {
    let (header, all) = rows(text)?;
    if header != SENSITIVITY_COLUMNS {
        return Err("its columns are not those of a sensitivity".to_owned());
    }
    let mut found = Sensitivity::default();
    let mut joint = Vec::new();
    for row in all {
        let error = || if row[6].is_empty() { Ok(None) } else { number(&row[6]).map(Some) };
        match row[5].as_str() {
            "alone" => found.alone.push((row[0].clone(), error()?)),
            "all at once" => joint.extend(error()?),
            "of" => found.digest.clone_from(&row[0]),
            _ => {
                let count = |text: &str| text.parse().map_err(|_| format!("'{text}' is no whole number"));
                let broken = row[4].split(' ').filter(|one| !one.is_empty()).map(str::to_owned);
                let joint = (count(&row[1])?, count(&row[2])?);
                found.robustness.push(Robustness {
                    name: row[0].clone(),
                    broken_by: broken.collect(),
                    joint,
                });
            }
        }
    }
    found.joint_error = joint.try_into().ok();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_scores_round_trip() {
        let reading = |name: &str, errors: [f64; 2], orders: [(usize, usize); 1]| ScoredReading {
            name: name.to_owned(),
            departures: (1, 0),
            exploratory: name == "c",
            calibrated: vec!["rate=1mbit".to_owned(), "rtt=2ms".to_owned()],
            remaining_error: (name != "a").then_some(0.125),
            errors: errors.to_vec(),
            orders: orders.to_vec(),
        };
        let readings = vec![
            reading("a", [0.1, 0.30000000000000004], [(2, 3)]),
            reading("b", [0.2, 0.1], [(3, 3)]),
            reading("c", [0.0, 0.0], [(0, 3)]),
        ];
        let order_rows = vec![OrderRow { name: "t/1%".to_owned(), scored_rows: vec![0, 1] }];
        let rows = vec!["t/one".to_owned(), "t/two".to_owned()];
        let scores = Scores::of("hash".to_owned(), rows, order_rows, readings).expect("scores");
        let scores = Scores { seeds: 4, digest: "digest".to_owned(), ..scores };
        let text = readings_csv(&scores);
        assert_eq!(super::scores(&text), Ok(scores));
        for (from, to, expected) in [
            ("what,", "who,", "first columns"),
            ("reading,b,1", "reading,b,x", "no whole number"),
            ("3/3", "3", "n/m"),
            ("seeds", "seed", "no row 'seeds'"),
            ("\nreading,", "\nother,", "no reading"),
        ] {
            let error = super::scores(&text.replace(from, to)).expect_err(expected);
            assert!(error.contains(expected) && error.lines().count() == 1, "{expected}: {error}");
        }
        let robustness_of = |name: &str, joint| Robustness {
            name: name.to_owned(),
            broken_by: vec!["rtt=1ms".to_owned()],
            joint,
        };
        let found = Sensitivity {
            digest: "digest".to_owned(),
            alone: vec![("rtt=1ms".to_owned(), Some(0.25)), ("rtt=2ms".to_owned(), None)],
            joint_error: Some([0.1, 0.2, 0.5]),
            robustness: vec![
                robustness_of("finding x", (3, 64)),
                robustness_of("order of a and b at 1%", (64, 64)),
            ],
        };
        assert_eq!(sensitivity(&sensitivity_csv(&found)), Ok(found));
        assert!(sensitivity("a,b\n").is_err());
    }
}
