//! The summary of all points of a sweep: the grid of winners, one sentence, and the levels at which the lead changes.
//!
//! Points are added one by one, in any order. Only the [`PointResult`] of each point is kept.

use super::{crossing, grid};
use anabranch_results::axes::Axes;
use anabranch_results::cell::{LeaderStatus, PointResult};
use anabranch_results::{Contestant, Point};
use std::cmp::Reverse;

/// The summary of all points of a sweep that were added so far.
#[derive(Clone, Debug)]
pub struct Summary {
    axes: Axes,
    cells: Vec<Option<PointResult>>,
    names: Vec<String>,
}

impl Summary {
    /// Returns an empty summary for a sweep over these factors.
    #[must_use]
    pub fn new(axes: Axes) -> Self {
        let cells = vec![None; axes.count()];
        Self { axes, cells, names: Vec::new() }
    }

    /// Adds the point of the sweep with this `index`, counted from 0.
    pub fn add(&mut self, index: usize, point: &Point) {
        if self.names.is_empty() {
            self.names =
                point.contestants.iter().map(|contestant| Contestant::label(contestant).to_owned()).collect();
        }
        if let Some(cell) = self.cells.get_mut(index) {
            *cell = Some(PointResult::of(point));
        }
    }

    /// Returns the number of points that were added so far.
    #[must_use]
    pub fn done(&self) -> usize {
        self.cells.iter().flatten().count()
    }

    /// Returns the number of points in the sweep.
    #[must_use]
    pub fn all(&self) -> usize {
        self.cells.len()
    }

    /// Renders the grid of winners, with one cell per point, in lines of at most `line_width` columns.
    #[must_use]
    pub fn grid(&self, line_width: usize) -> String {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        grid::render(&self.axes, &self.cells, &names, line_width)
    }

    /// Explains the grid's symbols.
    #[must_use]
    pub fn legend(&self) -> String {
        let has = |status: LeaderStatus| self.cells.iter().flatten().any(|cell| cell.standing == status);
        let mut text =
            "winner of each point, and its lead over the next (ratio of geometric means)".to_owned();
        for (is_present, text_part) in [
            (has(LeaderStatus::Undecided), "?: undecided"),
            (has(LeaderStatus::Level), "~: ties with the next"),
            (has(LeaderStatus::Nobody), "none: no run finished"),
            (self.done() < self.all(), ".: not run"),
        ] {
            if is_present {
                text = text + "; " + text_part;
            }
        }
        text
    }

    /// Returns one sentence about the winners at all points. For example, with contestants named `sctp` and `tcp`:
    /// `sctp wins at 9 of 12 points, by x1.10 to x2.31; tcp wins where loss is 0, by x1.05 to x1.21.`
    #[must_use]
    pub fn sentence(&self) -> String {
        let mut groups: Vec<(LeaderStatus, Option<usize>, Vec<usize>)> = Vec::new();
        for (index, cell) in self.cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let key = (cell.standing, cell.winner());
            match groups.iter_mut().find(|(standing, winner, _)| (*standing, *winner) == key) {
                Some((.., own)) => own.push(index),
                None => groups.push((key.0, key.1, vec![index])),
            }
        }
        // Points with a winner come before points without a winner. Within each group, the winner of the most points
        // comes first.
        groups.sort_by_key(|(standing, _, own)| (*standing, Reverse(own.len())));
        let done = self.done();
        let clauses = groups.iter().enumerate().map(|(clause_index, (standing, winner, own))| {
            let outcome = match (standing, winner) {
                (LeaderStatus::Wins, Some(winner)) => format!("{} wins", self.name(*winner)),
                (LeaderStatus::Wins, None) => "one wins".to_owned(),
                (LeaderStatus::Level, _) => "the first two tie".to_owned(),
                (LeaderStatus::Undecided, _) => "it is undecided".to_owned(),
                (LeaderStatus::Nobody, _) => "no run finished".to_owned(),
            };
            // A clause of the sentence gives the levels at which its points lie, if all points are done and `box_of`
            // can describe the levels. The first clause does so only for a single point. Otherwise, a clause gives the
            // number of its points.
            let counted = match own.len() {
                n if n == done => format!(" at all {n} points"),
                n => format!(" at {n} of {done} points"),
            };
            let place = self
                .axes
                .box_of(own)
                .filter(|_| done == self.all())
                .map(|condition| format!(" where {condition}"));
            let place = match place {
                Some(place) if clause_index > 0 || own.len() == 1 => place,
                _ => counted,
            };
            format!(
                "{outcome}{place}{}",
                if *standing == LeaderStatus::Wins { self.by(own) } else { String::new() }
            )
        });
        let text = clauses.collect::<Vec<_>>().join("; ");
        match text.chars().next() {
            None => "No point is done.".to_owned(),
            Some(_) if done < self.all() => {
                format!("Of the points done so far ({done} of {}), {text}.", self.all())
            }
            // The sentence begins with a contestant's name, whose first letter must stay as it is.
            Some(_) if groups.first().is_some_and(|(standing, ..)| *standing == LeaderStatus::Wins) => {
                text + "."
            }
            Some(first) => first.to_uppercase().collect::<String>() + &text[first.len_utf8()..] + ".",
        }
    }

    /// Formats the smallest and the largest lead of the winner over the runner-up among the plan points `points`, for
    /// example `, by x1.10 to x2.31`.
    fn by(&self, points: &[usize]) -> String {
        let leads = points.iter().filter_map(|&index| self.cells[index].as_ref()?.lead);
        let (low, high) =
            leads.fold((f64::INFINITY, 0.0_f64), |(low, high), lead| (low.min(lead), high.max(lead)));
        match (format!("x{low:.2}"), format!("x{high:.2}")) {
            _ if high == 0.0 => String::new(),
            (low, high) if low == high => format!(", by {low}"),
            (low, high) => format!(", by {low} to {high}"),
        }
    }

    fn name(&self, contestant: usize) -> &str {
        self.names.get(contestant).map_or("", String::as_str)
    }

    /// Follows each row of points in which only one factor varies. Returns a line of text for each row in which the
    /// winner changes, for example `sctp wins above loss 1.3%, tcp below`.
    #[must_use]
    pub fn crossings(&self) -> Vec<String> {
        let found = crossing::lines(&self.axes, &self.cells);
        let mut lines: Vec<String> =
            found.iter().take(MOST_CROSSINGS).map(|line| self.crossing(line)).collect();
        match found.len().saturating_sub(MOST_CROSSINGS) {
            0 => {}
            more => lines.push(format!("and {more} more crossings")),
        }
        lines
    }

    fn crossing(&self, line: &crossing::Line) -> String {
        let at = if line.at.is_empty() { String::new() } else { format!("at {}: ", line.at) };
        let (factor, first) = (&line.factor, self.name(line.first));
        let [(level, after)] = line.changes.as_slice() else {
            let mut text = format!("{at}along {factor}, {first} wins");
            for (level, after) in &line.changes {
                text += &format!(" up to {level}, {}", self.name(*after));
            }
            return text + " above";
        };
        format!("{at}{} wins above {factor} {level}, {first} below", self.name(*after))
    }
}

/// Changes of the winner are listed for at most this many rows of points. Further rows are only counted.
const MOST_CROSSINGS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_results::axes::Axis;

    fn cell(standing: LeaderStatus, first: usize, lead: f64) -> Option<PointResult> {
        let mut times = vec![Some(100.0 * lead); 2];
        times[first] = Some(100.0);
        Some(PointResult { standing, first: Some(first), lead: Some(lead), times })
    }

    fn summary(axes: &[(&str, &[&str])], cells: Vec<Option<PointResult>>) -> Summary {
        let axis = |(factor, levels): &(&str, &[&str])| Axis {
            factor: (*factor).to_owned(),
            levels: levels.iter().map(|&level| level.to_owned()).collect(),
        };
        let names = vec!["six".to_owned(), "sctp".to_owned()];
        Summary { axes: Axes(axes.iter().map(axis).collect()), cells, names }
    }

    const RTT: (&str, &[&str]) = ("rtt", &["20ms", "80ms"]);
    const LOSS: (&str, &[&str]) = ("loss", &["0", "1%", "2%"]);

    #[test]
    fn a_grid_that_is_too_large_ends_once() {
        let levels: Vec<String> = (1..=100).map(|level| format!("{level}ms")).collect();
        let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
        let cells = vec![cell(LeaderStatus::Wins, 0, 1.05); 10_000];
        let grid = summary(&[("rtt", &levels), ("jitter", &levels)], cells).grid(100);
        assert_eq!(grid.lines().count(), 1 + 48 + 2, "{grid}");
        assert_eq!(grid.matches("the result has every point").count(), 2, "{grid}");
    }

    #[test]
    fn the_sentence_names_the_winner_and_the_exceptions() {
        use LeaderStatus::{Level, Undecided, Wins};
        let cells = vec![
            cell(Wins, 0, 1.05),
            cell(Wins, 1, 1.1),
            cell(Wins, 1, 2.31),
            cell(Wins, 0, 1.21),
            cell(Wins, 1, 1.5),
            cell(Wins, 1, 1.4),
        ];
        let all = summary(&[RTT, LOSS], cells.clone());
        assert_eq!(
            all.sentence(),
            "sctp wins at 4 of 6 points, by x1.10 to x2.31; six wins where loss is 0, by x1.05 to x1.21."
        );
        let crossings = all.crossings();
        assert_eq!(crossings[0], "at rtt 20ms: sctp wins above loss 0.34%, six below");
        assert_eq!(crossings.len(), 2);
        let mut mixed = cells.clone();
        (mixed[0], mixed[4]) = (cell(Level, 0, 1.01), cell(Undecided, 1, 1.2));
        assert_eq!(
            summary(&[RTT, LOSS], mixed).sentence(),
            "sctp wins at 3 of 6 points, by x1.10 to x2.31; six wins where rtt is 80ms and loss is 0, by x1.21; the first \
             two tie where rtt is 20ms and loss is 0; it is undecided where rtt is 80ms and loss is 1%."
        );
        let mut some = cells;
        some[5] = None;
        assert_eq!(
            summary(&[RTT, LOSS], some).sentence(),
            "Of the points done so far (5 of 6), sctp wins at 3 of 5 points, by x1.10 to x2.31; six wins at 2 of 5 points, by \
             x1.05 to x1.21."
        );
        let undecided = vec![cell(Undecided, 0, 1.1); 3];
        assert_eq!(summary(&[LOSS], undecided).sentence(), "It is undecided at all 3 points.");
        assert_eq!(summary(&[LOSS], vec![None; 3]).sentence(), "No point is done.");
    }

    #[test]
    fn two_factors_are_a_grid_and_one_is_a_row() {
        use LeaderStatus::{Level, Nobody, Undecided, Wins};
        let mut cells = vec![
            cell(Wins, 0, 1.05),
            cell(Level, 1, 1.01),
            cell(Undecided, 1, 1.31),
            cell(Wins, 0, 1.2),
            None,
            None,
        ];
        cells[4] = Some(PointResult { standing: Nobody, first: None, lead: None, times: vec![None; 2] });
        let grid = summary(&[RTT, LOSS], cells.clone());
        let expected = [
            "          loss 0       loss 1%      loss 2%",
            "rtt 20ms  six x1.05    sctp~ x1.01  sctp? x1.31",
            "rtt 80ms  six x1.20    none         .",
        ];
        assert_eq!(grid.grid(100).lines().collect::<Vec<_>>(), expected);
        assert!(
            grid.legend().ends_with("?: undecided; ~: ties with the next; none: no run finished; .: not run")
        );
        let row = summary(&[LOSS], cells[..3].to_vec()).grid(100);
        assert_eq!(row.lines().count(), 2, "{row}");
    }

    #[test]
    fn a_grid_of_thousands_is_bounded() {
        let levels: Vec<String> = (0..20).map(|level| format!("{level}ms")).collect();
        let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
        let axes: Vec<(&str, &[&str])> = vec![("a", &levels), ("b", &levels), ("rtt", &levels)];
        let grid = summary(&axes, vec![cell(LeaderStatus::Wins, 0, 1.5); 8000]).grid(100);
        assert!(grid.lines().count() < 80, "{}", grid.lines().count());
        assert!(grid.lines().all(|line| line.chars().count() <= 100));
        assert!(grid.contains("more of these"), "{grid}");
    }
}
