//! What one point says: who wins, and by how much over the next. A few bytes, so that thousands fit where their runs do not.

use crate::results::{Point, Verdict};
use crate::verdict;

/// How the first stands to the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Standing {
    /// It is sooner than every other.
    Wins,
    /// It is level with one or more, and sooner than the others.
    Level,
    /// Of one or more it is not decided.
    Undecided,
    /// No run of any contestant finished.
    Nobody,
}

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
        let standing = |name: &str| match point
            .compared(name, &winner.name, point.decisive())
            .map(|found| found.verdict)
        {
            Some(Verdict::More) => Standing::Wins,
            Some(Verdict::Level) => Standing::Level,
            _ => Standing::Undecided,
        };
        let others = rest.iter().map(|(other, _)| standing(&other.name));
        Self {
            standing: others.max().unwrap_or(Standing::Wins),
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
