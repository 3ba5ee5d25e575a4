//! Selects the reading (the set of choices where a paper leaves something open) with the smallest errors. Also measures
//! the error of the selected reading in rows that were not used for the selection.

use crate::effect::figure;
use std::collections::BTreeSet;

/// A reading (one interpretation of the paper) with its scores.
#[derive(Clone, PartialEq, Debug)]
pub struct ScoredReading {
    /// The name of the reading: the identifiers of its choices.
    pub name: String,
    /// Two numbers: how many facts in the paper the choices of the reading contradict, and how many settings differ
    /// from the defaults that were usual when the paper was written.
    pub departures: (u32, u32),
    /// Whether the reading includes an exploratory choice, which was added after the results were known. An exploratory
    /// reading is never selected.
    pub exploratory: bool,
    /// The values to which calibration set inputs of the simulation for this reading of the paper.
    pub calibrated: Vec<String>,
    /// The remaining error of the calibrated cells: the root of the mean square of ln(ours/published). It shows how
    /// well calibration could match these cells.
    pub remaining_error: Option<f64>,
    /// The error of each scored table row: the root of the mean square of ln(ours/published) over the row's cells.
    pub errors: Vec<f64>,
    /// For each row of [`Scores::order_rows`], two counts of pairs of contestants: the pairs whose order is the
    /// published order, and all compared pairs.
    pub orders: Vec<(usize, usize)>,
}

/// A table row in which the order of the contestants is compared with the published order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderRow {
    /// The text that identifies the table row: the name of its table, and the labels at the start of the row.
    pub name: String,
    /// The scored rows that have a cell in common with this table row, as indices into [`Scores::rows`]. If a reading
    /// is selected without this table row, those scored rows are left out, too.
    pub scored_rows: Vec<usize>,
}

/// The scores of all readings (interpretations) of a paper.
#[derive(Clone, PartialEq, Debug)]
pub struct Scores {
    /// The digest of the file `readings.toml`.
    pub hash: String,
    /// The digest of everything that determines the scores.
    pub digest: String,
    /// The number of seeds with which each reading runs.
    pub seeds: u64,
    /// The names of the scored table rows.
    pub rows: Vec<String>,
    /// The table rows in which, for each pair of contestants, the order of our two values is compared with the
    /// published order.
    pub order_rows: Vec<OrderRow>,
    /// The readings with their scores, in the order of `readings.toml`.
    pub readings: Vec<ScoredReading>,
    /// The index of the reading that is selected if all scored rows are used.
    pub selected: usize,
    /// The number of readings whose mean error ([`loss`](ScoredReading::loss)) is at most one standard error above the
    /// least mean error. Exploratory readings are not counted.
    pub equally_good: usize,
    /// The results of cross-validation, with one entry for each scored row. A reading is selected by its errors in all
    /// other rows. The entry holds the error of the selected reading in this row, and the index of that reading.
    pub held_out: Vec<(f64, usize)>,
    /// The index of the reading that would be selected by its [`departures`](ScoredReading::departures) alone, without
    /// the errors of the rows.
    pub stated_only: usize,
    /// The median of the mean errors ([`loss`](ScoredReading::loss)) of all readings that are not exploratory.
    pub median: f64,
    /// The index of the exploratory reading with the least [`loss`](ScoredReading::loss); `None` if no reading is
    /// exploratory.
    pub exploratory: Option<usize>,
}

impl Scores {
    /// Computes the scores of all readings. Returns `None` if `rows` is empty, or if every reading was added after the
    /// results were known.
    pub(crate) fn of(
        hash: String,
        rows: Vec<String>,
        order_rows: Vec<OrderRow>,
        readings: Vec<ScoredReading>,
    ) -> Option<Self> {
        let count = rows.len();
        if count == 0 || readings.iter().all(|reading| reading.exploratory) {
            return None;
        }
        let all: Vec<usize> = (0..count).collect();
        let (selected, equally_good) = choose(&readings, &all)?;
        let held_out = (0..count).map(|left_out| {
            let rest: Vec<usize> = (0..count).filter(|row| *row != left_out).collect();
            // If there is only one scored row, `rest` is empty. The reading with the fewest departures from the paper
            // is then selected.
            let (chosen, _) = choose(&readings, &rest)?;
            Some((readings[chosen].errors[left_out], chosen))
        });
        let held_out = held_out.collect::<Option<Vec<_>>>()?;
        let (stated_only, _) = choose(&readings, &[])?;
        let of = |exploratory: bool| {
            let mut some: Vec<(f64, usize)> = (0..readings.len())
                .filter(|at| readings[*at].exploratory == exploratory)
                .map(|at| (readings[at].loss(), at))
                .collect();
            some.sort_by(|a, b| a.0.total_cmp(&b.0));
            some
        };
        let other_readings = of(false);
        let median = (other_readings[(other_readings.len() - 1) / 2].0
            + other_readings[other_readings.len() / 2].0)
            / 2.0;
        let exploratory = of(true).first().map(|(_, at)| *at);
        let (digest, seeds) = (String::new(), 0);
        Some(Self {
            hash,
            digest,
            seeds,
            rows,
            order_rows,
            selected,
            equally_good,
            held_out,
            stated_only,
            median,
            exploratory,
            readings,
        })
    }

    /// Compares the orders of contestants under a reading with the published orders. A row of a table can have several
    /// orders, one for each pair of contestants. Returns `[orders that agree, all orders, rows whose orders all agree,
    /// rows that have orders]`.
    #[must_use]
    pub fn orders_of(&self, reading: usize) -> [usize; 4] {
        counted(self.readings[reading].orders.iter().copied())
    }

    /// Returns the same four counts as [`orders_of`](Self::orders_of), by cross-validation. For each table row, a
    /// reading is selected by its errors in the scored rows that share no cell with this table row. The orders of the
    /// table row are then counted under the selected reading.
    #[must_use]
    pub fn held_out_orders(&self) -> [usize; 4] {
        counted(self.held_out_each().into_iter().flatten())
    }

    /// Cross-validates the orders of contestants. For each table row in `order_rows`, selects a reading (interpretation
    /// of the paper) by its errors in the other rows. Scored rows that share a cell with the table row are not used.
    /// Returns how many orders of the table row are as published under this reading, and how many orders the row has.
    /// `None` if no reading can be selected.
    pub(crate) fn held_out_each(&self) -> Vec<Option<(usize, usize)>> {
        let each = self.order_rows.iter().enumerate().map(|(at, row)| {
            let rest: Vec<usize> =
                (0..self.rows.len()).filter(|one| !row.scored_rows.contains(one)).collect();
            let (chosen, _) = choose(&self.readings, &rest)?;
            self.readings[chosen].orders.get(at).copied()
        });
        each.collect()
    }

    /// Returns the mean error of the cross-validation: the mean of the rows' errors in [`held_out`](Self::held_out).
    #[must_use]
    pub fn held_out_loss(&self) -> f64 {
        mean(self.held_out.iter().map(|(error, _)| *error))
    }

    /// Returns the names of the readings in [`held_out`](Self::held_out), each once.
    pub(crate) fn held_out_names(&self) -> Vec<&str> {
        let chosen: BTreeSet<usize> = self.held_out.iter().map(|(_, at)| *at).collect();
        chosen.into_iter().map(|at| self.readings[at].name.as_str()).collect()
    }

    /// Returns the heading of the table of scores: the number of readings, and the digest of `readings.toml`.
    #[must_use]
    pub fn heading(&self) -> String {
        let (all, of) = (self.readings.len(), self.rows.len());
        let exploratory = self.readings.iter().filter(|reading| reading.exploratory).count();
        let exploratory =
            if exploratory > 0 { format!(", {exploratory} of them exploratory") } else { String::new() };
        format!(
            "readings {}: {all} of what the paper leaves open{exploratory}, by the mean over {of} rows of the rms of \
             ln(ours/print), {} a place; {} within one standard error of the best",
            self.hash,
            if self.seeds == 1 { "one run".to_owned() } else { format!("{} runs", self.seeds) },
            self.equally_good
        )
    }

    /// Returns the lines of the table of scores. The columns are a description, the name of the reading, its loss (mean
    /// error), and the number of orders that agree with the published orders.
    #[must_use]
    pub fn lines(&self) -> Vec<[String; 4]> {
        let of = |label: &str, at: usize| {
            let reading = &self.readings[at];
            let left = reading
                .remaining_error
                .map_or(String::new(), |left| format!("; calibrated cells {}", shown(left)));
            let orders = in_words(self.orders_of(at));
            [label.to_owned(), reading.name.clone(), shown(reading.loss()) + &left, orders]
        };
        let mut lines = vec![
            of("selected", self.selected),
            [
                "held out".to_owned(),
                self.held_out_names().join(" | "),
                shown(self.held_out_loss()),
                in_words(self.held_out_orders()),
            ],
            of("stated only", self.stated_only),
            ["median of all".to_owned(), String::new(), shown(self.median), String::new()],
        ];
        lines.extend(self.exploratory.map(|at| of("best exploratory, never chosen", at)));
        lines
    }
}

impl ScoredReading {
    /// Returns how far the results of this reading of the paper are from the published table: the mean of
    /// [`errors`](Self::errors) over the table's rows. In statistics, this number is the loss.
    #[must_use]
    pub fn loss(&self) -> f64 {
        mean(self.errors.iter().copied())
    }
}

/// Adds up the compared pairs of contestants over table rows. Each item of `rows` has, for one table row, the number of
/// pairs whose order is the published order, and the number of all pairs. Returns the two sums, the number of rows in
/// which all pairs have the published order, and the number of rows that have pairs.
fn counted(rows: impl Iterator<Item = (usize, usize)>) -> [usize; 4] {
    rows.filter(|(_, all)| *all > 0).fold([0; 4], |[same, all, whole, rows], (preserved, of)| {
        [same + preserved, all + of, whole + usize::from(preserved == of), rows + 1]
    })
}

/// Formats a loss (mean error, as the logarithm of a factor), followed by the factor.
fn shown(loss: f64) -> String {
    format!("{} (x{:.2})", figure(loss), loss.exp())
}

/// Formats the counts of [`Scores::orders_of`] as two fractions, for example `orders 5/8, rows 2/3`. In this example, 5
/// of 8 orders are as published, and in 2 of 3 rows all orders are as published. Returns an empty text if there are no
/// orders.
fn in_words([same, all, whole, rows]: [usize; 4]) -> String {
    if all == 0 { String::new() } else { format!("orders {same}/{all}, rows {whole}/{rows}") }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Selects a reading by its errors in the scored rows `rows`. Returns the index of the reading, and the number of
/// equally good readings. Readings are equally good if their loss (mean error over `rows`) is within one standard error
/// of the smallest loss. Of these readings, the one with the fewest [`departures`](ScoredReading::departures) is
/// selected.
///
/// Returns `None` if all readings are exploratory. If `rows` is empty, all readings count as equally good.
fn choose(readings: &[ScoredReading], rows: &[usize]) -> Option<(usize, usize)> {
    let loss = |reading: &ScoredReading| mean(rows.iter().map(|row| reading.errors[*row]));
    let open = || readings.iter().enumerate().filter(|(_, reading)| !reading.exploratory);
    let (_, best) = open().min_by(|(_, a), (_, b)| loss(a).total_cmp(&loss(b)))?;
    let (least, n) = (loss(best), rows.len() as f64);
    let squares = rows.iter().map(|row| (best.errors[*row] - least).powi(2)).sum::<f64>();
    let error = if rows.len() > 1 { (squares / (n - 1.0) / n).sqrt() } else { 0.0 };
    // The tolerance keeps rounding errors from separating equal losses.
    let equally_good = || open().filter(|(_, reading)| loss(reading) <= least + error + 1e-12);
    let chosen = equally_good().min_by_key(|(at, reading)| (reading.departures, *at))?;
    Some((chosen.0, equally_good().count()))
}
