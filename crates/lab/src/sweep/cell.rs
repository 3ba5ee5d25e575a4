//! What one point says: who wins, and by how much over the next. A few bytes, so that thousands fit where their runs do not.

use crate::results::Point;
use crate::verdict;

pub use crate::stats::decision::Standing;

/// One point.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// How the first stands to the others.
    pub standing: Standing,
    /// The contestant of the least time, as its place in the plan.
    pub first: Option<usize>,
    /// The time of the next over that; `None` where no other finished.
    pub lead: Option<f64>,
    /// The contestants' times, milliseconds, in the order of the plan; `None` of whom no run finished.
    pub times: Vec<Option<f64>>,
}

impl Cell {
    /// What this point says.
    #[must_use]
    pub fn of(point: &Point) -> Self {
        let ranked = verdict::ranked(point);
        let mut times = vec![None; point.contestants.len()];
        for (contestant, time) in &ranked {
            let place = point.contestants.iter().position(|other| other.name == contestant.name);
            times[place.unwrap_or(0)] = Some(*time);
        }
        let Some(((winner, time), rest)) = ranked.split_first() else {
            return Self { standing: Standing::Nobody, first: None, lead: None, times };
        };
        let over_winner =
            |name: &str| point.compared(name, &winner.name, point.decisive()).map(|found| found.verdict);
        let others = rest.iter().map(|(other, _)| over_winner(&other.name));
        Self {
            standing: Standing::of_first(others),
            first: point.contestants.iter().position(|contestant| contestant.name == winner.name),
            lead: rest.first().map(|(_, next)| next / time),
            times,
        }
    }

    /// Who wins, if anybody.
    #[must_use]
    pub fn winner(&self) -> Option<usize> {
        self.first.filter(|_| self.standing == Standing::Wins)
    }
}
