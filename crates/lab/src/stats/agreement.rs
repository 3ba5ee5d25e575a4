//! Whether two worlds agree: cell by cell, and in enough cells.
//!
//! A cell agrees when a rank test does not part its two sets of runs at 1 %, or
//! when their medians are within 10 % of one another.

use super::rank::mann_whitney;

/// One cell: what was seen beside what a model says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Agreement {
    /// Median of what was seen over the median of what the model says; NaN where either is empty.
    pub ratio: f64,
    /// Of the rank test, two-sided.
    pub p: f64,
    /// Whether the two agree.
    pub holds: bool,
}

/// Compares the runs of a cell. Where either side has none there is nothing that agrees.
#[must_use]
pub fn agreement(seen: &[f64], said: &[f64]) -> Agreement {
    let (ratio, p) = (median(seen) / median(said), mann_whitney(seen, said));
    let holds = ratio.is_finite() && (p >= MIN_P || (ratio - 1.0).abs() <= MAX_APART);
    Agreement { ratio, p, holds }
}

/// Whether enough of the cells agree: nine of ten. None of none is not enough.
#[must_use]
pub fn is_enough(agreed: usize, cells: usize) -> bool {
    cells > 0 && 10 * agreed >= 9 * cells
}

/// The lower of the two middle ones; NaN of nothing.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// The rank test parts two sets whose p-value is below this.
const MIN_P: f64 = 0.01;
/// How far medians may be apart, as a share of the model's.
const MAX_APART: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_agrees_by_its_ranks_or_by_its_medians() {
        let model: Vec<f64> = (0..200).map(|n| 100.0 + f64::from(n) / 100.0).collect();
        // Within the model's runs: neither test parts them.
        assert!(agreement(&[100.2, 100.9, 101.1, 101.5, 101.9], &model).holds);
        // All above the model's, which the ranks tell, and by less than a tenth.
        let near = agreement(&[105.0, 106.0, 107.0, 108.0, 109.0], &model);
        assert!(near.holds && near.p < MIN_P, "{near:?}");
        // All above, and by more.
        let far = agreement(&[115.0, 116.0, 117.0, 118.0, 119.0], &model);
        assert!(!far.holds && far.p < MIN_P && far.ratio > 1.1, "{far:?}");
        // Far apart in the median, but so few and so spread that the ranks part nothing.
        assert!(agreement(&[90.0, 140.0], &[80.0, 100.0, 150.0]).holds);
    }

    #[test]
    fn what_is_not_there_does_not_agree() {
        assert!(!agreement(&[], &[1.0, 2.0]).holds);
        assert!(!agreement(&[1.0, 2.0], &[]).holds);
        assert!(!is_enough(0, 0));
    }

    #[test]
    fn nine_of_ten_are_enough() {
        assert!(is_enough(9, 10) && is_enough(135, 135) && is_enough(122, 135));
        assert!(!is_enough(8, 10) && !is_enough(121, 135) && !is_enough(0, 1));
    }
}
