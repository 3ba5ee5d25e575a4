//! Decides whether two sources of times agree, for example a measurement and a model. The decision is made for each
//! cell (one contestant under one set of conditions), and for all cells together.
//!
//! A cell agrees if a rank test at the 1 % level finds no difference between its two sets of runs. A cell also agrees
//! if the medians of the two sets are within 10 %.

use super::rank::mann_whitney;

/// The result of a comparison between the observed runs of a cell and the runs that a model gives for the same cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Agreement {
    /// The median of the observed runs divided by the median of the model's runs; NaN if either set is empty.
    pub ratio: f64,
    /// Two-sided p-value of the rank test.
    pub p: f64,
    /// Whether the observed runs and the model's runs agree.
    pub holds: bool,
}

/// Compares the observed runs of a cell (`observed`) with the model's runs (`modeled`). They do not agree if either set
/// is empty.
#[must_use]
pub fn agreement(observed: &[f64], modeled: &[f64]) -> Agreement {
    let (ratio, p) = (median(observed) / median(modeled), mann_whitney(observed, modeled));
    let holds = ratio.is_finite() && (p >= MIN_P || (ratio - 1.0).abs() <= MAX_APART);
    Agreement { ratio, p, holds }
}

/// Returns whether at least 90 % of the cells agree (`agreed` of `cells`); false if there are no cells.
#[must_use]
pub fn is_enough(agreed: usize, cells: usize) -> bool {
    cells > 0 && 10 * agreed >= 9 * cells
}

/// Returns the median, or the lower of the two middle values; NaN for an empty slice.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// If the p-value is below this limit, the rank test finds the two sets different.
const MIN_P: f64 = 0.01;
/// The maximum difference of the two medians, as a share of the model's median.
const MAX_APART: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_agrees_by_its_ranks_or_by_its_medians() {
        let model: Vec<f64> = (0..200).map(|n| 100.0 + f64::from(n) / 100.0).collect();
        // All observed values lie within the range of the model's runs. The two sets agree by the rank test and by the
        // medians.
        assert!(agreement(&[100.2, 100.9, 101.1, 101.5, 101.9], &model).holds);
        // All observed values are above the model's values, so the rank test finds a difference. The two sets agree
        // nevertheless, because the medians differ by less than a tenth.
        let near = agreement(&[105.0, 106.0, 107.0, 108.0, 109.0], &model);
        assert!(near.holds && near.p < MIN_P, "{near:?}");
        // All observed values are above the model's values, and the medians differ by more than a tenth. The two sets
        // must not agree.
        let far = agreement(&[115.0, 116.0, 117.0, 118.0, 119.0], &model);
        assert!(!far.holds && far.p < MIN_P && far.ratio > 1.1, "{far:?}");
        // The medians are far apart, but the sets are so small and wide that the rank test finds no difference. The two
        // sets must agree.
        assert!(agreement(&[90.0, 140.0], &[80.0, 100.0, 150.0]).holds);
    }

    #[test]
    fn missing_values_do_not_agree() {
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
