//! The result of one point of a race: the winner, and its lead over the runner-up. A [`PointResult`] takes a few bytes,
//! so that thousands of points fit in memory.

use crate::Point;
use crate::verdict;

pub use crate::stats::decision::LeaderStatus;

/// The result of one point of a race: the fastest contestant, its lead, and the time of each contestant.
#[derive(Clone, PartialEq, Debug)]
pub struct PointResult {
    /// How the fastest contestant compares with the other contestants.
    pub standing: LeaderStatus,
    /// The contestant with the smallest time, as its index in the plan; `None` if no run finished.
    pub first: Option<usize>,
    /// The runner-up's time divided by the fastest time; `None` if fewer than two contestants finished a run.
    pub lead: Option<f64>,
    /// The time of each contestant in milliseconds, in the order of the plan. It is the geometric mean of the metric
    /// that decides the race. `None` if no run of that contestant finished.
    pub times: Vec<Option<f64>>,
}

impl PointResult {
    /// Computes the result of a point.
    #[must_use]
    pub fn of(point: &Point) -> Self {
        let ranked = verdict::ranked(point);
        let mut times = vec![None; point.contestants.len()];
        for (contestant, time) in &ranked {
            let index = point.contestants.iter().position(|other| other.name == contestant.name);
            times[index.unwrap_or(0)] = Some(*time);
        }
        let Some(((winner, time), rest)) = ranked.split_first() else {
            return Self { standing: LeaderStatus::Nobody, first: None, lead: None, times };
        };
        let over_winner =
            |name: &str| point.compared(name, &winner.name, point.decisive()).map(|found| found.verdict);
        let other_contestants = rest.iter().map(|(other, _)| over_winner(&other.name));
        // The grid must not name a winner where the answer of the point names none.
        let standing = match LeaderStatus::of_first(other_contestants) {
            LeaderStatus::Wins if times.len() > 1 && point.clear_winner().is_none() => {
                LeaderStatus::Undecided
            }
            standing => standing,
        };
        Self {
            standing,
            first: point.contestants.iter().position(|contestant| contestant.name == winner.name),
            lead: rest.first().map(|(_, next)| next / time),
            times,
        }
    }

    /// Returns the index of the winner in the plan, if there is a winner.
    #[must_use]
    pub fn winner(&self) -> Option<usize> {
        self.first.filter(|_| self.standing == LeaderStatus::Wins)
    }
}
