//! The points of a sweep that one machine runs: every n-th point.

use std::fmt;
use std::str::FromStr;

/// Shard number `index` (from 1) of a sweep that is divided into `of` shards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shard {
    index: u64,
    of: u64,
}

/// The maximum number of shards of a sweep, which is the maximum number of points.
const MOST: u64 = crate::plan::concrete::MAX_POINTS as u64;

impl Shard {
    /// Returns the number of this shard, from 1.
    #[must_use]
    pub const fn index(self) -> u64 {
        self.index
    }

    /// Returns the number of shards of the sweep.
    #[must_use]
    pub const fn of(self) -> u64 {
        self.of
    }

    /// Returns whether this shard contains point `number` (from 1). Neighbouring points are often equally slow, so they
    /// belong to different shards.
    #[must_use]
    pub const fn has(self, number: usize) -> bool {
        (number as u64 - 1) % self.of == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((index, of)) if (1..=of).contains(&index) && of <= MOST => Ok(Self { index, of }),
            _ => Err(format!("'{text}': write I/N, such as 3/8: I from 1 to N, N up to {MOST}")),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_one_shard() {
        let shards: Vec<Shard> = (1..=5).map(|index| Shard { index, of: 5 }).collect();
        for number in 1..=23 {
            assert_eq!(shards.iter().filter(|shard| shard.has(number)).count(), 1, "{number}");
        }
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for wrong in ["9/8", "0/8", "8", "a/b", "1/0", "-1/3", "1/10001", "1/2/3", ""] {
            let line = wrong.parse::<Shard>().expect_err(wrong);
            assert!(line.contains(wrong) && line.contains("I/N"), "{line}");
        }
        assert_eq!("3/8".parse::<Shard>().map(|shard| shard.to_string()), Ok("3/8".to_owned()));
    }
}
