//! The factors of a sweep with their levels, and how they determine the order of the points.
//!
//! Points are in the order of `plan::concrete`: the first factor varies slowest. The number of a point therefore
//! determines the level of each factor.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One factor of a sweep, with its levels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// The plan key that varies.
    pub factor: String,
    /// The values of the key, in the order of the plan.
    pub levels: Vec<String>,
}

/// All factors of a sweep. The factor that varies slowest is the first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Axes(pub Vec<Axis>);

impl Axes {
    /// Returns the factors of `points`. Returns `None` unless the points are all combinations of the factors' levels,
    /// in the order of the plan.
    #[must_use]
    pub fn of<'a>(
        points: impl ExactSizeIterator<Item = &'a BTreeMap<String, String>> + Clone,
    ) -> Option<Self> {
        let mut axes: Vec<(usize, Axis)> = Vec::new();
        for (number, factors) in points.clone().enumerate() {
            for (factor, level) in factors {
                match axes.iter_mut().find(|(_, axis)| axis.factor == *factor) {
                    None if number > 0 => return None,
                    None => axes.push((0, Axis { factor: factor.clone(), levels: vec![level.clone()] })),
                    Some((_, axis)) if axis.levels.contains(level) => {}
                    Some((first_change, axis)) => {
                        if axis.levels.len() == 1 {
                            *first_change = number;
                        }
                        axis.levels.push(level.clone());
                    }
                }
            }
        }
        // Each factor is paired with the index of the first point at which its level changes. The factor with the
        // largest index varies slowest.
        axes.sort_by_key(|(first_change, _)| std::cmp::Reverse(*first_change));
        let axes = Self(axes.into_iter().map(|(_, axis)| axis).collect());
        let whole = axes.count() == points.len()
            && points.enumerate().all(|(index, factors)| {
                let indices = axes.level_indices(index);
                axes.0
                    .iter()
                    .zip(indices)
                    .all(|(axis, level)| factors.get(&axis.factor) == Some(&axis.levels[level]))
            });
        whole.then_some(axes)
    }

    /// Returns the number of points: all combinations of the factors' levels.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|axis| axis.levels.len()).product()
    }

    /// Returns the levels of point `index` (from 0), as indices into the list of levels of each factor.
    #[must_use]
    pub fn level_indices(&self, mut index: usize) -> Vec<usize> {
        let mut indices = vec![0; self.0.len()];
        for (level, axis) in indices.iter_mut().zip(&self.0).rev() {
            *level = index % axis.levels.len();
            index /= axis.levels.len();
        }
        indices
    }

    /// Returns the index (from 0) of the point with these levels. `indices` has the index of the level of each factor.
    #[must_use]
    pub fn index(&self, indices: &[usize]) -> usize {
        self.0.iter().zip(indices).fold(0, |index, (axis, level)| index * axis.levels.len() + level)
    }

    /// Describes the points with these level indices in words, for example `loss is 0 and rtt is 20ms or 80ms`. Returns
    /// `None` if the description would also match other points.
    #[must_use]
    pub fn box_of(&self, indices: &[usize]) -> Option<String> {
        let mut levels: Vec<Vec<usize>> = vec![Vec::new(); self.0.len()];
        for &index in indices {
            for (seen, level) in levels.iter_mut().zip(self.level_indices(index)) {
                if !seen.contains(&level) {
                    seen.push(level);
                }
            }
        }
        if levels.iter().map(Vec::len).product::<usize>() != indices.len() {
            return None;
        }
        let mut parts = Vec::new();
        for (axis, seen) in
            self.0.iter().zip(&mut levels).filter(|(axis, seen)| seen.len() < axis.levels.len())
        {
            seen.sort_unstable();
            let name = |level: usize| axis.levels[level].as_str();
            let level_text = match seen.as_slice() {
                [] => return None,
                [first, .., last] if seen.len() > 3 && last - first + 1 == seen.len() => {
                    format!("{} to {}", name(*first), name(*last))
                }
                [most @ .., last] if !most.is_empty() => {
                    let most: Vec<&str> = most.iter().map(|&level| name(level)).collect();
                    format!("{} or {}", most.join(", "), name(*last))
                }
                [only, ..] => name(*only).to_owned(),
            };
            parts.push(format!("{} is {level_text}", axis.factor));
        }
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(axes: &[(&str, &[&str])]) -> Vec<BTreeMap<String, String>> {
        let mut points = vec![BTreeMap::new()];
        for (factor, levels) in axes {
            let with = |point: &BTreeMap<String, String>, level: &str| {
                let mut point = point.clone();
                point.insert((*factor).to_owned(), level.to_owned());
                point
            };
            points = points.iter().flat_map(|point| levels.iter().map(|level| with(point, level))).collect();
        }
        points
    }

    #[test]
    fn factors_follow_from_the_order_of_points() {
        // The result must list the factors in the order in which they vary, slowest first. In alphabetical order,
        // `loss` would come first.
        let all =
            points(&[("rtt", &["9ms", "8ms", "7ms"]), ("loss", &["0", "1%"]), ("queue", &["1p", "2p"])]);
        let axes = Axes::of(all.iter()).expect("axes");
        assert_eq!(
            axes.0.iter().map(|axis| axis.factor.as_str()).collect::<Vec<_>>(),
            ["rtt", "loss", "queue"]
        );
        for index in 0..12 {
            assert_eq!(axes.index(&axes.level_indices(index)), index);
        }
        assert_eq!(Axes::of(all[1..].iter()), None, "a point is missing");
        assert_eq!(
            Axes::of(all.iter().rev()).map(|axes| axes.0[0].levels[0].clone()),
            Some("7ms".to_owned())
        );
    }

    #[test]
    fn a_rectangular_set_of_points_is_described_by_its_levels() {
        let all = points(&[("rtt", &["1ms", "2ms", "3ms", "4ms", "5ms"]), ("loss", &["0", "1%", "2%"])]);
        let axes = Axes::of(all.iter()).expect("axes");
        let box_text = |indices: &[usize]| axes.box_of(indices);
        assert_eq!(box_text(&[0, 3, 6, 9, 12]).as_deref(), Some("loss is 0"));
        assert_eq!(
            box_text(&[0, 1, 3, 4, 6, 7, 9, 10]).as_deref(),
            Some("rtt is 1ms to 4ms and loss is 0 or 1%")
        );
        assert_eq!(box_text(&[14]).as_deref(), Some("rtt is 5ms and loss is 2%"));
        assert_eq!(box_text(&[0, 3, 6]).as_deref(), Some("rtt is 1ms, 2ms or 3ms and loss is 0"));
        assert_eq!(box_text(&[0, 3, 6, 12]).as_deref(), Some("rtt is 1ms, 2ms, 3ms or 5ms and loss is 0"));
        assert_eq!(box_text(&[0, 4]), None);
        assert_eq!(box_text(&(0..15).collect::<Vec<_>>()), None, "everywhere is no part");
    }
}
