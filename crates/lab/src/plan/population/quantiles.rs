//! A distribution that is given by its quantiles. Between two quantiles, it is interpolated linearly.
//!
//! The code uses no logarithms or powers, so that it computes the same numbers on every machine.

/// The levels of the quantiles in percent. Below the first level, the distribution has the value of the first quantile,
/// and above the last level the value of the last quantile.
pub const LEVELS: [u8; 7] = [5, 10, 25, 50, 75, 90, 95];

/// The quantiles at [`LEVELS`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantiles([f64; LEVELS.len()]);

impl Quantiles {
    /// Creates a distribution from its quantiles at [`LEVELS`]. No quantile may be negative or exceed `most`.
    ///
    /// # Errors
    /// The number of quantiles is not that of [`LEVELS`], a quantile is out of range, or the quantiles decrease. The
    /// message describes the expected input. The caller adds the place in the file.
    pub fn new(values: &[f64], most: f64) -> Result<Self, String> {
        let wrong = || {
            let levels = LEVELS.map(|level| level.to_string()).join(", ");
            format!(
                "write {} numbers that do not fall, from 0 to {most}: those at {levels} percent",
                LEVELS.len()
            )
        };
        let fitting = values.iter().all(|value| (0.0..=most).contains(value)) && values.is_sorted();
        values.try_into().ok().filter(|_| fitting).map(Self).ok_or_else(wrong)
    }

    /// Returns the quantile for the probability `share`, which is from 0 to 1.
    #[must_use]
    pub fn at(&self, share: f64) -> f64 {
        let percent = share * 100.0;
        let levels = LEVELS.map(f64::from);
        let above = levels.iter().position(|level| percent < *level);
        match above {
            Some(0) => self.0[0],
            None => self.0[LEVELS.len() - 1],
            Some(above) => {
                let (low, high) = (levels[above - 1], levels[above]);
                let way = (percent - low) / (high - low);
                self.0[above - 1] + way * (self.0[above] - self.0[above - 1])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_levels_lies_a_line_and_outside_the_outermost() {
        let one = Quantiles::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0], 10.0).expect("rises");
        for (share, value) in
            [(0.0, 1.0), (0.05, 1.0), (0.075, 1.5), (0.5, 4.0), (0.625, 4.5), (0.99, 8.0), (1.0, 8.0)]
        {
            assert!((one.at(share) - value).abs() < 1e-12, "{share}");
        }
        for wrong in [
            &[1.0; 6][..],
            &[2.0, 1.0, 3.0, 4.0, 5.0, 6.0, 7.0],
            &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 11.0],
            &[f64::NAN; 7],
        ] {
            assert!(Quantiles::new(wrong, 10.0).is_err());
        }
    }
}
