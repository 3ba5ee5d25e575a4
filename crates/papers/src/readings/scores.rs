//! Selects a reading by the errors of all readings. Also measures the error of the selected reading in rows that had no
//! part in its selection.

use crate::effect::figure;
use std::collections::BTreeSet;

/// A reading with its scores.
#[derive(Clone, PartialEq, Debug)]
pub struct ScoredReading {
    /// The name of the reading: the identifiers of its choices.
    pub name: String,
    /// The number of departures from stated facts, and the number of departures from defaults.
    pub departures: (u32, u32),
    /// Whether the reading is exploratory. If so, it is never selected.
    pub exploratory: bool,
    /// The values that calibration set for the reading.
    pub calibrated: Vec<String>,
    /// The remaining error of the calibrated cells: the root of the mean square of ln(ours/published). It shows whether
    /// calibration could meet these cells in the reading.
    pub remaining_error: Option<f64>,
    /// The root of the mean square of ln(ours/published) of each row.
    pub errors: Vec<f64>,
    /// For each row with orders, the number of orders that are as published, and the number of all orders.
    pub orders: Vec<(usize, usize)>,
}

/// A row of the table that has orders, and the scored rows that share a cell with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderRow {
    /// The name of the table and the labels of the row.
    pub name: String,
    /// The indices of the scored rows that share a cell with this row. When this row is held out, those scored rows
    /// take no part in the selection.
    pub shares: Vec<usize>,
}

/// The scores of all readings.
#[derive(Clone, PartialEq, Debug)]
pub struct Scores {
    /// The digest of the file `readings.toml`.
    pub hash: String,
    /// The digest of everything that determines the scores.
    pub digest: String,
    /// The number of seeds of each run.
    pub seeds: u64,
    /// The names of the scored rows.
    pub rows: Vec<String>,
    /// The table rows in which orders are counted. An order says which of two contestants has the larger value.
    pub order_rows: Vec<OrderRow>,
    /// The readings, in the order of the file.
    pub readings: Vec<ScoredReading>,
    /// The index of the reading that is selected by all rows.
    pub selected: usize,
    /// The number of readings within one standard error of the least loss, without exploratory readings.
    pub equally_good: usize,
    /// For each row, the error of the reading that all other rows select, and the index of that reading.
    pub held_out: Vec<(f64, usize)>,
    /// The index of the reading that is selected by its departures alone, without the errors of any row.
    pub stated_only: usize,
    /// The median of the losses, without exploratory readings.
    pub median: f64,
    /// The index of the exploratory reading with the least loss; `None` if there is none.
    pub exploratory: Option<usize>,
}

impl Scores {
    /// Computes the scores of all readings; `None` if no row is scored, or if every reading is exploratory.
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
            // If the only row is held out, no row is left to select by, so only the departures decide.
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

    /// Counts the orders of a reading: orders as published, all orders, rows in which all orders are as published, and
    /// all rows with orders.
    #[must_use]
    pub fn orders_of(&self, reading: usize) -> [usize; 4] {
        counted(self.readings[reading].orders.iter().copied())
    }

    /// Counts the orders as [`orders_of`](Self::orders_of) does, but holds out each row in turn. The scored rows that
    /// share no cell with the held-out row select a reading. The orders of this reading in the held-out row are
    /// counted.
    #[must_use]
    pub fn held_out_orders(&self) -> [usize; 4] {
        counted(self.held_out_each().into_iter().flatten())
    }

    /// Holds out each row in turn. Returns the number of the row's orders that are as published, and the number of all
    /// its orders. `None` for a row without orders.
    pub(crate) fn held_out_each(&self) -> Vec<Option<(usize, usize)>> {
        let each = self.order_rows.iter().enumerate().map(|(at, row)| {
            let rest: Vec<usize> = (0..self.rows.len()).filter(|one| !row.shares.contains(one)).collect();
            let (chosen, _) = choose(&self.readings, &rest)?;
            self.readings[chosen].orders.get(at).copied()
        });
        each.collect()
    }

    /// Returns the mean over the rows of the errors in [`held_out`](Self::held_out).
    #[must_use]
    pub fn held_out_loss(&self) -> f64 {
        mean(self.held_out.iter().map(|(error, _)| *error))
    }

    /// Returns the names of the readings in [`held_out`](Self::held_out), each once.
    pub(crate) fn held_out_names(&self) -> Vec<&str> {
        let chosen: BTreeSet<usize> = self.held_out.iter().map(|(_, at)| *at).collect();
        chosen.into_iter().map(|at| self.readings[at].name.as_str()).collect()
    }

    /// Describes the readings, with the digest of the file.
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

    /// Returns one line per result, as description, reading, loss and orders.
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
    /// Returns the loss of the reading: the mean of its errors over the rows.
    #[must_use]
    pub fn loss(&self) -> f64 {
        mean(self.errors.iter().copied())
    }
}

/// Counts orders as published, all orders, rows in which all orders are as published, and rows that have orders.
fn counted(rows: impl Iterator<Item = (usize, usize)>) -> [usize; 4] {
    rows.filter(|(_, all)| *all > 0).fold([0; 4], |[same, all, whole, rows], (preserved, of)| {
        [same + preserved, all + of, whole + usize::from(preserved == of), rows + 1]
    })
}

/// Formats a loss, which is a logarithm, and the factor that it stands for.
fn shown(loss: f64) -> String {
    format!("{} (x{:.2})", figure(loss), loss.exp())
}

/// Formats the counts of orders and of rows with orders; empty if there are no orders.
fn in_words([same, all, whole, rows]: [usize; 4]) -> String {
    if all == 0 { String::new() } else { format!("orders {same}/{all}, rows {whole}/{rows}") }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Returns the index of the reading that these rows select, and the number of readings within one standard error of the
/// best. `None` if all readings are exploratory. Without rows, all readings count as equal.
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
