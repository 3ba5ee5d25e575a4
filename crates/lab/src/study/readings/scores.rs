//! What the errors of all readings say: which one is chosen, and how near it comes to rows that did not choose it.

use crate::study::effect::figure;

/// A reading that was run.
#[derive(Clone, PartialEq, Debug)]
pub struct Scored {
    /// Its name: those of its parts.
    pub name: String,
    /// Departures from what is stated, and from defaults.
    pub departures: (u32, u32),
    /// It is never chosen.
    pub exploratory: bool,
    /// What was set for it by calibrated cells.
    pub calibrated: Vec<String>,
    /// The root of the mean square of ln(ours/print) that is left in these: a reading that cannot meet them shows it here.
    pub left: Option<f64>,
    /// Of each row the root of the mean square of ln(ours/print).
    pub errors: Vec<f64>,
    /// Of each row of orders how many are as in print, and of how many.
    pub orders: Vec<(usize, usize)>,
}

/// A row of orders, and the scored rows that have a cell in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderRow {
    /// The table and the labels of the row.
    pub name: String,
    /// Which scored rows share a cell with it: they choose nothing where it is left out.
    pub shares: Vec<usize>,
}

/// What came of all readings.
#[derive(Clone, PartialEq, Debug)]
pub struct Scores {
    /// Digest of the file.
    pub hash: String,
    /// Digest of all that they follow from.
    pub of: String,
    /// Seeds of each run.
    pub seeds: u64,
    /// The rows' names.
    pub rows: Vec<String>,
    /// The rows of orders.
    pub order_rows: Vec<OrderRow>,
    /// The readings, in the order of the file.
    pub readings: Vec<Scored>,
    /// The one that is chosen by all rows.
    pub selected: usize,
    /// How many are within one standard error of the least loss, exploratory ones aside.
    pub alike: usize,
    /// Of each row the error of the reading that all other rows choose, and which that is.
    pub held_out: Vec<(f64, usize)>,
    /// The one that is chosen without looking at any row.
    pub stated: usize,
    /// The median of the losses, exploratory ones aside.
    pub median: f64,
    /// The exploratory one with the least loss.
    pub exploratory: Option<usize>,
}

impl Scores {
    /// What readings with these errors say; `None` where no row is scored.
    pub(in crate::study) fn of(
        hash: String,
        rows: Vec<String>,
        order_rows: Vec<OrderRow>,
        readings: Vec<Scored>,
    ) -> Option<Self> {
        let count = rows.len();
        if count == 0 || readings.iter().all(|reading| reading.exploratory) {
            return None;
        }
        let all: Vec<usize> = (0..count).collect();
        let (selected, alike) = choose(&readings, &all)?;
        let held_out = (0..count).map(|left_out| {
            let rest: Vec<usize> = (0..count).filter(|row| *row != left_out).collect();
            // Of one row nothing is left to choose by: then nothing but departures does.
            let (chosen, _) = choose(&readings, &rest)?;
            Some((readings[chosen].errors[left_out], chosen))
        });
        let held_out = held_out.collect::<Option<Vec<_>>>()?;
        let (stated, _) = choose(&readings, &[])?;
        let of = |exploratory: bool| {
            let mut some: Vec<(f64, usize)> = (0..readings.len())
                .filter(|at| readings[*at].exploratory == exploratory)
                .map(|at| (readings[at].loss(), at))
                .collect();
            some.sort_by(|a, b| a.0.total_cmp(&b.0));
            some
        };
        let others = of(false);
        let median = (others[(others.len() - 1) / 2].0 + others[others.len() / 2].0) / 2.0;
        let exploratory = of(true).first().map(|(_, at)| *at);
        let (of, seeds) = (String::new(), 0);
        Some(Self {
            hash,
            of,
            seeds,
            rows,
            order_rows,
            selected,
            alike,
            held_out,
            stated,
            median,
            exploratory,
            readings,
        })
    }

    /// Orders as in print of a reading, and of how many; rows in which all are, and of how many.
    #[must_use]
    pub fn orders_of(&self, reading: usize) -> [usize; 4] {
        counted(self.readings[reading].orders.iter().copied())
    }

    /// The same where each row of orders is that of the reading which the rows choose that share no cell with it.
    #[must_use]
    pub fn held_out_orders(&self) -> [usize; 4] {
        counted(self.held_out_each().into_iter().flatten())
    }

    /// The same of each row of orders.
    pub(in crate::study) fn held_out_each(&self) -> Vec<Option<(usize, usize)>> {
        let each = self.order_rows.iter().enumerate().map(|(at, row)| {
            let rest: Vec<usize> = (0..self.rows.len()).filter(|one| !row.shares.contains(one)).collect();
            let (chosen, _) = choose(&self.readings, &rest)?;
            self.readings[chosen].orders.get(at).copied()
        });
        each.collect()
    }

    /// The mean over rows of what [`held_out`](Self::held_out) has.
    #[must_use]
    pub fn held_out_loss(&self) -> f64 {
        mean(self.held_out.iter().map(|(error, _)| *error))
    }

    /// What they are, and the digest of the file.
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
            self.alike
        )
    }

    /// A line for each of what is to be said of them: what, the reading, the loss, and its orders.
    #[must_use]
    pub fn lines(&self) -> Vec<[String; 4]> {
        let of = |what: &str, at: usize| {
            let reading = &self.readings[at];
            let left =
                reading.left.map_or(String::new(), |left| format!("; calibrated cells {}", shown(left)));
            let orders = in_words(self.orders_of(at));
            [what.to_owned(), reading.name.clone(), shown(reading.loss()) + &left, orders]
        };
        let mut chosen: Vec<usize> = self.held_out.iter().map(|(_, at)| *at).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let names: Vec<&str> = chosen.iter().map(|at| self.readings[*at].name.as_str()).collect();
        let mut lines = vec![
            of("selected", self.selected),
            [
                "held out".to_owned(),
                names.join(" | "),
                shown(self.held_out_loss()),
                in_words(self.held_out_orders()),
            ],
            of("stated only", self.stated),
            ["median of all".to_owned(), String::new(), shown(self.median), String::new()],
        ];
        lines.extend(self.exploratory.map(|at| of("best exploratory, never chosen", at)));
        lines
    }
}

impl Scored {
    /// The mean over rows.
    #[must_use]
    pub fn loss(&self) -> f64 {
        mean(self.errors.iter().copied())
    }
}

/// Orders that are as in print, all of them, rows in which all are, and rows that have any.
fn counted(rows: impl Iterator<Item = (usize, usize)>) -> [usize; 4] {
    rows.filter(|(_, all)| *all > 0).fold([0; 4], |[same, all, whole, rows], (kept, of)| {
        [same + kept, all + of, whole + usize::from(kept == of), rows + 1]
    })
}

/// A loss, and the factor that it is.
fn shown(loss: f64) -> String {
    format!("{} (x{:.2})", figure(loss), loss.exp())
}

/// Orders and rows of orders; nothing where print has none.
fn in_words([same, all, whole, rows]: [usize; 4]) -> String {
    if all == 0 { String::new() } else { format!("orders {same}/{all}, rows {whole}/{rows}") }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// The reading that these rows choose, and how many are within one standard error of the best; `None` where every one is
/// exploratory. Without a row all are alike.
fn choose(readings: &[Scored], rows: &[usize]) -> Option<(usize, usize)> {
    let loss = |reading: &Scored| mean(rows.iter().map(|row| reading.errors[*row]));
    let open = || readings.iter().enumerate().filter(|(_, reading)| !reading.exploratory);
    let (_, best) = open().min_by(|(_, a), (_, b)| loss(a).total_cmp(&loss(b)))?;
    let (least, n) = (loss(best), rows.len() as f64);
    let squares = rows.iter().map(|row| (best.errors[*row] - least).powi(2)).sum::<f64>();
    let error = if rows.len() > 1 { (squares / (n - 1.0) / n).sqrt() } else { 0.0 };
    // What is alike but for rounding is alike.
    let alike = || open().filter(|(_, reading)| loss(reading) <= least + error + 1e-12);
    let chosen = alike().min_by_key(|(at, reading)| (reading.departures, *at))?;
    Some((chosen.0, alike().count()))
}
