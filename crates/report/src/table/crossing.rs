//! Finds where the lead changes along each factor whose levels are quantities ([`Scale`]).
//!
//! A change of the lead is reported only between two points with different winners. Points without a winner do not
//! count.

use anabranch_results::axes::Axes;
use anabranch_results::cell::PointResult;
use anabranch_results::stats::crossing::Scale;

/// A line of points that differ only in the level of one factor. It has the winners at these points, and the values of
/// the factor at which the winner changes.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// The factor that varies along the line.
    pub factor: String,
    /// The levels of the other factors, for example `rtt 20ms, rate 1mbit`; empty if there is only one factor.
    pub at: String,
    /// The index of the contestant that wins first as the factor rises. At lower values of the factor, there is no
    /// winner.
    pub first: usize,
    /// Each value of the factor at which the winner changes, as text, and the index of the contestant that wins above
    /// that value.
    pub changes: Vec<(String, usize)>,
}

/// Returns the lines of points along which the winner changes.
#[must_use]
pub fn lines(axes: &Axes, cells: &[Option<PointResult>]) -> Vec<Line> {
    let mut found = Vec::new();
    for (axis_index, axis) in axes.0.iter().enumerate() {
        let Some(scale) = Scale::of(&axis.levels) else { continue };
        // Each combination of levels of the other factors gives one row of points. `start` is the point in the row at
        // which this factor has its first level.
        for start in (0..axes.count())
            .map(|index| axes.level_indices(index))
            .filter(|indices| indices[axis_index] == 0)
        {
            let along = scale.rising().iter().filter_map(|&level| {
                let mut indices = start.clone();
                indices[axis_index] = level;
                Some((level, cells.get(axes.index(&indices))?.as_ref()?))
            });
            let Some((first, changes)) = changes(&along.collect::<Vec<_>>(), &scale) else { continue };
            let other_axes = axes.0.iter().zip(&start).enumerate().filter(|(other, _)| *other != axis_index);
            let at: Vec<String> = other_axes
                .map(|(_, (axis, level))| format!("{} {}", axis.factor, axis.levels[*level]))
                .collect();
            found.push(Line { factor: axis.factor.clone(), at: at.join(", "), first, changes });
        }
    }
    found
}

/// Returns the winner at the first point of a line of points, and each change of the winner along the line. `None` if
/// the winner never changes.
fn changes(along: &[(usize, &PointResult)], scale: &Scale) -> Option<(usize, Vec<(String, usize)>)> {
    let won: Vec<(usize, usize)> =
        along.iter().enumerate().filter_map(|(at, (_, cell))| Some((at, cell.winner()?))).collect();
    let changes: Vec<(String, usize)> = won
        .windows(2)
        .filter(|pair| pair[0].1 != pair[1].1)
        .filter_map(|pair| {
            let ((from, before), (to, after)) = (pair[0], pair[1]);
            // The logarithm is positive while the contestant `before` is faster than the contestant `after`.
            let lead = |cell: &PointResult| Some((cell.times[after]? / cell.times[before]?).ln());
            let curve = along[from..=to].iter().map(|(level, cell)| Some((*level, lead(cell)?)));
            let curve: Vec<(usize, f64)> = curve.collect::<Option<_>>()?;
            Some((scale.crossing(&curve)?, after))
        })
        .collect();
    Some((won.first()?.1, changes)).filter(|(_, changes)| !changes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_results::axes::Axis;
    use anabranch_results::cell::LeaderStatus;

    /// Returns the result of a point at which two contestants have these `times`. If `wins` is true, the faster
    /// contestant wins. Otherwise, the comparison is undecided.
    fn cell(times: [f64; 2], wins: bool) -> Option<PointResult> {
        let first = usize::from(times[1] < times[0]);
        let standing = if wins { LeaderStatus::Wins } else { LeaderStatus::Undecided };
        let lead = Some(times[1 - first] / times[first]);
        Some(PointResult { standing, first: Some(first), lead, times: times.map(Some).to_vec() })
    }

    fn axes(axes: &[(&str, &[&str])]) -> Axes {
        let axis = |(factor, levels): &(&str, &[&str])| Axis {
            factor: (*factor).to_owned(),
            levels: levels.iter().map(|&level| level.to_owned()).collect(),
        };
        Axes(axes.iter().map(axis).collect())
    }

    #[test]
    fn a_crossing_lies_where_the_logarithms_meet() {
        let axes = axes(&[("loss", &["0", "1%", "2%"])]);
        // The ratio of the times falls from 2 to 1/sqrt(2), so its logarithm is 0 at two thirds of the distance between
        // the two levels.
        let cells = [
            cell([100.0, 200.0], true),
            cell([100.0, 200.0], true),
            cell([200.0, 200.0 / 2_f64.sqrt()], true),
        ];
        let found = lines(&axes, &cells);
        let expected =
            Line { factor: "loss".into(), at: String::new(), first: 0, changes: vec![("1.7%".into(), 1)] };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn undecided_points_between_are_crossed_and_end_no_lead() {
        let axes = axes(&[("rtt", &["2s", "20ms", "200ms", "500ms"])]);
        let cells = [
            cell([300.0, 100.0], true), // 2s
            cell([100.0, 300.0], true), // 20ms
            cell([100.0, 104.0], false),
            cell([100.0, 95.0], false), // 500ms
        ];
        let found = lines(&axes, &cells);
        assert_eq!((found.len(), found[0].first), (1, 0));
        assert_eq!(found[0].changes, [("330ms".to_owned(), 1)]);
        // A line has a change only between two points with different winners. Here only one point has a winner.
        let cells =
            [cell([100.0, 101.0], false), cell([100.0, 300.0], true), cell([101.0, 100.0], false), None];
        assert_eq!(lines(&axes, &cells), []);
    }

    #[test]
    fn each_line_of_several_factors_is_its_own() {
        let axes = axes(&[("page", &["news", "2x1kB"]), ("rate", &["500kbit", "2mbit"])]);
        let (one, other) = (cell([1.0, 2.0], true), cell([2.0, 1.0], true));
        let found = lines(&axes, &[one.clone(), other.clone(), one.clone(), one]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].factor.as_str(), found[0].at.as_str()), ("rate", "page news"));
        assert_eq!(found[0].changes, [("1.2mbit".to_owned(), 1)]);
    }
}
