//! Where the lead changes hands along a factor whose levels are quantities.
//!
//! Between two points that are neighbours the logarithm of two contestants' ratio is taken for a straight line; where it
//! is 0, they cross. Named are crossings between points at which the one wins and then the other does, so that a lead that
//! is no lead crosses nothing.

use super::axes::{Axes, Axis};
use super::cell::Cell;

/// Who wins along one line through the points, with the places where that changes.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Which factor.
    pub factor: String,
    /// The other factors' levels: `rtt 20ms, rate 1mbit`; empty where there is one factor.
    pub at: String,
    /// Who wins first, along rising levels.
    pub first: usize,
    /// At which quantity another does, and who.
    pub changes: Vec<(String, usize)>,
}

/// Every line through the points on which the lead changes hands.
#[must_use]
pub fn lines(axes: &Axes, cells: &[Option<Cell>]) -> Vec<Line> {
    let mut found = Vec::new();
    for (which, axis) in axes.0.iter().enumerate() {
        let Some(scale) = Scale::of(axis) else { continue };
        // Each line begins at a point of the axis' first level.
        for start in (0..axes.count()).map(|index| axes.place(index)).filter(|place| place[which] == 0) {
            let along = scale.rising.iter().filter_map(|&level| {
                let mut place = start.clone();
                place[which] = level;
                Some((level, cells.get(axes.index(&place))?.as_ref()?))
            });
            let Some((first, changes)) = changes(&along.collect::<Vec<_>>(), &scale) else { continue };
            let others = axes.0.iter().zip(&start).enumerate().filter(|(other, _)| *other != which);
            let at: Vec<String> =
                others.map(|(_, (axis, level))| format!("{} {}", axis.factor, axis.levels[*level])).collect();
            found.push(Line { factor: axis.factor.clone(), at: at.join(", "), first, changes });
        }
    }
    found
}

/// Who wins first, and each change; `None` where nothing changes.
fn changes(along: &[(usize, &Cell)], scale: &Scale) -> Option<(usize, Vec<(String, usize)>)> {
    let won: Vec<(usize, usize)> =
        along.iter().enumerate().filter_map(|(at, (_, cell))| Some((at, cell.winner()?))).collect();
    let changes: Vec<(String, usize)> = won
        .windows(2)
        .filter(|pair| pair[0].1 != pair[1].1)
        .filter_map(|pair| {
            let ((from, before), (to, after)) = (pair[0], pair[1]);
            let crossed = along[from..=to].windows(2).find_map(|two| {
                let [(low, below), (high, above)] = two else { return None };
                // Above 0 as long as the one that wins first is ahead.
                let lead = |cell: &Cell| Some((cell.times[after]? / cell.times[before]?).ln());
                let (left, right) = (lead(below)?, lead(above)?);
                (left > 0.0 && right <= 0.0).then(|| scale.between(*low, *high, left / (left - right)))
            });
            Some((crossed?, after))
        })
        .collect();
    Some((won.first()?.1, changes)).filter(|(_, changes)| !changes.is_empty())
}

/// An axis whose levels are quantities of one kind.
struct Scale {
    /// Each level in the unit of the kind.
    values: Vec<f64>,
    /// Each level's own unit, and what it is in that of the kind.
    units: Vec<(&'static str, f64)>,
    /// The levels in rising order.
    rising: Vec<usize>,
}

/// Units by kind, each in that of the first.
const KINDS: [&[(&str, f64)]; 6] = [
    &[("%", 1.0)],
    &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)],
    &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)],
    &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ],
    &[("p", 1.0)],
    &[("/s", 1.0)],
];

impl Scale {
    fn of(axis: &Axis) -> Option<Self> {
        let numbers: Vec<(f64, &str)> =
            axis.levels.iter().map(|level| number(level)).collect::<Option<_>>()?;
        // A bare 0 is one of any kind.
        let unit_of = |kind: &[(&'static str, f64)], (value, unit): (f64, &str)| {
            let known = kind.iter().find(|(name, _)| *name == unit).copied();
            known.or_else(|| (value == 0.0 && unit.is_empty()).then(|| kind.first().copied()).flatten())
        };
        let plain: &[(&'static str, f64)] = &[("", 1.0)];
        let units = KINDS.into_iter().chain([plain]).find_map(|kind| {
            numbers.iter().map(|&number| unit_of(kind, number)).collect::<Option<Vec<_>>>()
        })?;
        let values: Vec<f64> =
            numbers.iter().zip(&units).map(|((value, _), (_, scale))| value * scale).collect();
        let mut rising: Vec<usize> = (0..values.len()).collect();
        rising.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
        Some(Self { values, units, rising })
    }

    /// The quantity at this share of the way from one level to another, in the unit of the higher, with two digits, or as
    /// many as tell it from both.
    fn between(&self, low: usize, high: usize, share: f64) -> String {
        let (name, scale) = self.units[high];
        let (low, high) = (self.values[low] / scale, self.values[high] / scale);
        let value = low + (high - low) * share.clamp(0.0, 1.0);
        let rounded = |digits: i32| {
            let places =
                (digits - 1 - value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32).clamp(0, 12);
            format!("{value:.0$}", places as usize)
        };
        let told = |text: &String| text.parse::<f64>().is_ok_and(|told| told > low && told < high);
        let text = (2..=6).map(rounded).find(told).unwrap_or_else(|| rounded(6));
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        format!("{text}{name}")
    }
}

/// `1.5%` as 1.5 and `%`.
fn number(level: &str) -> Option<(f64, &str)> {
    let end = level.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(level.len());
    let (digits, unit) = level.split_at(end);
    Some((digits.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::super::cell::Standing;
    use super::*;

    /// Two contestants at one point: their times, and whether the sooner one wins.
    fn cell(times: [f64; 2], wins: bool) -> Option<Cell> {
        let first = usize::from(times[1] < times[0]);
        let standing = if wins { Standing::Wins } else { Standing::Undecided };
        let lead = Some(times[1 - first] / times[first]);
        Some(Cell { standing, first: Some(first), lead, times: times.map(Some).to_vec() })
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
        // The ratio goes from 2 to 1/sqrt(2): the logarithm is 0 at two thirds of the way.
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
        // Nobody else wins anywhere.
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

    #[test]
    fn a_crossing_is_told_apart_from_both_levels() {
        let scale = Scale::of(&axes(&[("rtt", &["100ms", "104ms"])]).0[0]).expect("a scale");
        assert_eq!(scale.between(0, 1, 0.5), "102ms");
        assert_eq!(scale.between(0, 1, 0.01), "100.04ms");
        assert!(Scale::of(&axes(&[("loss", &["0", "ge:1%,30%"])]).0[0]).is_none());
        assert!(Scale::of(&axes(&[("x", &["1%", "1ms"])]).0[0]).is_none());
        assert!(Scale::of(&axes(&[("runs", &["1", "2"])]).0[0]).is_some());
    }
}
