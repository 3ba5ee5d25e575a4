//! Orders of pairs of contestants. An order says which contestant of the pair has the larger published value at a point
//! of a table. Our values confirm the order if the same contestant has the larger value in our results.
//!
//! The orders of the pairs in one row of the table depend on each other. Therefore two numbers are reported: the
//! confirmed orders, and the rows whose orders are all confirmed. Random values would confirm half of the orders.

use super::cell::{Evidence, PublishedCell};
use super::table::Table;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Two published values are tied if the ratio of the larger value to the smaller value is below this number.
pub const TIE: f64 = 1.02;

/// The number of orders in a table, and how many of them our values confirm. An order is a pair of contestants at one
/// point whose published values are not tied.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Orders {
    /// The number of published orders for which our runs have values.
    pub all: usize,
    /// The number of published orders that our values confirm.
    pub same: usize,
    /// The number of rows of the table that have at least one published order. Values in different rows are independent
    /// of each other.
    pub rows: usize,
    /// The number of rows of the table whose published orders are all confirmed by our values.
    pub same_rows: usize,
    /// The number of published orders whose two contestants have equal values in our results. `same` does not count
    /// these orders.
    pub alike: usize,
    /// The number of published orders that our means do not confirm, but means of as many consecutive runs as the paper
    /// averaged can ([`PublishedCell::running`]).
    pub possible: usize,
    /// The number of pairs whose published values are tied.
    pub ties: usize,
    /// The published orders that our values confirm. Each entry has two parts: the names of both contestants, such as
    /// `tcp and sctp`, and the labels of the point.
    pub preserved: Vec<(String, BTreeMap<String, String>)>,
    /// The published orders that our values reverse, or for which our two values are equal. The entries are as in
    /// `preserved`.
    pub missed: Vec<(String, BTreeMap<String, String>)>,
}

impl Orders {
    /// Counts the pairs of cells in a table that have a published order, and the pairs whose order our values confirm.
    /// Pairs in which both cells are calibrated are left out.
    #[must_use]
    pub fn of(table: &Table, cells: &[PublishedCell]) -> Self {
        let mut orders = Self::default();
        let mut rows: BTreeMap<Vec<&str>, bool> = BTreeMap::new();
        let other_labels = |cell: &PublishedCell| -> BTreeMap<String, String> {
            cell.labels
                .iter()
                .filter(|(key, _)| *key != "contestant")
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect()
        };
        for (at, one) in cells.iter().enumerate() {
            for other in cells.iter().skip(at + 1).filter(|other| other_labels(other) == other_labels(one)) {
                let calibrated = |cell: &PublishedCell| cell.evidence == Evidence::Calibrated;
                let (Some(a), Some(b)) = (one.ours, other.ours) else { continue };
                if calibrated(one) && calibrated(other) {
                    continue;
                }
                let gap = one.published / other.published;
                if gap.max(1.0 / gap) < TIE {
                    orders.ties += 1;
                    continue;
                }
                let same = (a > b) == (gap > 1.0) && a != b;
                orders.all += 1;
                orders.same += usize::from(same);
                orders.alike += usize::from(a == b);
                orders.possible += usize::from(!same && can_be_as_published(one, other));
                let row = table.definition.rows.iter();
                let row = row.map(|column| one.labels.get(column).map_or("", String::as_str)).collect();
                *rows.entry(row).or_insert(true) &= same;
                let [a, b] =
                    [one, other].map(|cell| cell.labels.get("contestant").map_or("", String::as_str));
                let list = if same { &mut orders.preserved } else { &mut orders.missed };
                list.push((format!("{a} and {b}"), other_labels(one)));
            }
        }
        (orders.rows, orders.same_rows) = (rows.len(), rows.values().filter(|same| **same).count());
        orders
    }
}

/// Returns whether the order of two cells is as published for some means of consecutive runs.
fn can_be_as_published(one: &PublishedCell, other: &PublishedCell) -> bool {
    let (larger, smaller) = if one.published > other.published { (one, other) } else { (other, one) };
    larger.running.zip(smaller.running).is_some_and(|([_, most], [least, _])| most > least)
}

impl Orders {
    /// Lists the pairs of contestants whose published order our values do not confirm. After each pair, lists the
    /// points of the table where this happens.
    #[must_use]
    pub fn not_preserved_in_words(&self) -> String {
        let mut pairs: Vec<(&str, Vec<String>)> = Vec::new();
        for (pair, levels) in &self.missed {
            let levels: Vec<&str> = levels.values().map(String::as_str).collect();
            match pairs.iter_mut().find(|(known, _)| known == pair) {
                Some((_, level_lists)) => level_lists.push(levels.join("/")),
                None => pairs.push((pair, vec![levels.join("/")])),
            }
        }
        let pairs =
            pairs.into_iter().map(|(pair, level_lists)| format!("{pair} at {}", level_lists.join(", ")));
        let mut text = pairs.collect::<Vec<_>>().join("; ");
        if self.possible > 0 {
            let _ = write!(
                text,
                "; {} of them are as published in some means of consecutive runs",
                self.possible
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_not_counted_as_orders() {
        let definition = "title = 't'\nsource = 's'\nunit = 'u'\nmetric = 'page'\nrows = ['loss']\nruns = 1\n\
                          quick_runs = 1\n[plan]\ntransport = ['a=tcp', 'b=sctp']\nloss = ['0', '1%']";
        let table = Table::parse("t", definition, None).expect("a table");
        let cell = |contestant: &str, loss: &str, printed: f64, ours: f64| {
            let labels = [("contestant", contestant), ("loss", loss)];
            PublishedCell {
                labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
                published: printed,
                ours: Some(ours),
                ratio: None,
                range: None,
                running: None,
                runs: (1, 0),
                verdict: super::super::cell::CellVerdict::Missing,
                evidence: Evidence::Transport,
                explained: Vec::new(),
                exploratory_causes: Vec::new(),
                counterfactual_causes: Vec::new(),
            }
        };
        let cells = [
            cell("a", "0", 1.0, 1.0),
            cell("b", "0", 2.0, 3.0),
            cell("a", "1%", 2.0, 1.0),
            cell("b", "1%", 1.0, 2.0),
            cell("a", "2%", 1.0, 2.0),
            cell("b", "2%", 1.01, 1.0),
        ];
        let orders = Orders::of(&table, &cells);
        assert_eq!((orders.all, orders.same, orders.rows, orders.same_rows, orders.ties), (2, 1, 2, 1, 1));
        assert_eq!(orders.not_preserved_in_words(), "a and b at 1%");
        let mut cells = cells;
        (cells[2].running, cells[3].running) = (Some([0.5, 1.5]), Some([1.5, 2.5]));
        assert_eq!(Orders::of(&table, &cells).possible, 0, "a has at most what b has");
        cells[3].running = Some([1.4, 2.5]);
        assert_eq!(Orders::of(&table, &cells).possible, 1);
    }
}
