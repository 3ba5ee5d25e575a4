//! Finds the value of a factor at which the lead changes from one contestant to another, for example a loss rate of 1.3
//! %.
//!
//! The factor's levels are parsed as quantities. Between two neighbouring levels the logarithm of the ratio of the two
//! contestants' times is interpolated linearly. The lead changes where the logarithm is 0. Tables and reports both use
//! this module, so they name the same value of the factor.

/// The levels of a factor, parsed as quantities of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Scale {
    /// The value of each level, in the base unit of its quantity, for example nanoseconds for times.
    values: Vec<f64>,
    /// The unit in which each level is written, and the factor that converts this unit to the base unit.
    units: Vec<(&'static str, f64)>,
    /// Indices of the levels, sorted by ascending value.
    rising: Vec<usize>,
}

/// The known units, grouped by quantity. The number after each unit converts it to the quantity's base unit.
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
    /// Parses the levels of a factor. Returns `None` if a level is not a quantity, or if the levels are of different
    /// kinds.
    #[must_use]
    pub fn of<T: AsRef<str>>(levels: &[T]) -> Option<Self> {
        let numbers: Vec<(f64, &str)> =
            levels.iter().map(|level| number(level.as_ref())).collect::<Option<_>>()?;
        // The level 0 may be written without a unit. It then fits any quantity.
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

    /// Returns the indices of the levels in ascending order of their values.
    #[must_use]
    pub fn rising(&self) -> &[usize] {
        &self.rising
    }

    /// Returns the value of the factor at which `curve` first falls from above 0 to 0 or less; `None` if it never does.
    /// Each entry of `curve` is the index of a level of the factor, and the logarithm of a ratio.
    #[must_use]
    pub fn crossing(&self, curve: &[(usize, f64)]) -> Option<String> {
        curve.windows(2).find_map(|step| {
            let [(low, left), (high, right)] = [step[0], step[1]];
            (left > 0.0 && right <= 0.0).then(|| self.between(low, high, left / (left - right)))
        })
    }

    /// Formats a quantity between the levels `low` and `high`, in the unit of `high`. `share` (0 to 1) says how far the
    /// quantity lies from `low` towards `high`. The number has two digits, or as many as distinguish it from both
    /// levels.
    fn between(&self, low: usize, high: usize, share: f64) -> String {
        let (name, scale) = self.units[high];
        let (low, high) = (self.values[low] / scale, self.values[high] / scale);
        let value = low + (high - low) * share.clamp(0.0, 1.0);
        let rounded = |digits: i32| {
            let decimals =
                (digits - 1 - value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32).clamp(0, 12);
            format!("{value:.0$}", decimals as usize)
        };
        let is_between = |text: &String| text.parse::<f64>().is_ok_and(|value| value > low && value < high);
        let text = (2..=6).map(rounded).find(is_between).unwrap_or_else(|| rounded(6));
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        format!("{text}{name}")
    }
}

/// Splits a level into number and unit, for example `1.5%` into 1.5 and `%`.
fn number(level: &str) -> Option<(f64, &str)> {
    let end = level.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(level.len());
    let (digits, unit) = level.split_at(end);
    Some((digits.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_quantities_of_one_kind() {
        assert_eq!((number("1.5%"), number("10mbit")), (Some((1.5, "%")), Some((10.0, "mbit"))));
        assert_eq!(Scale::of(&["2mbit", "500kbit"]).map(|scale| scale.rising), Some(vec![1, 0]));
    }

    #[test]
    fn a_curve_crosses_where_it_reaches_zero() {
        let scale = Scale::of(&["0", "1%", "2%", "4%"]).expect("a scale");
        assert_eq!(scale.crossing(&[(0, 0.3), (1, 0.1), (2, -0.1), (3, -0.2)]).as_deref(), Some("1.5%"));
        assert_eq!(scale.crossing(&[(0, 0.1), (2, -0.3)]).as_deref(), Some("0.5%"));
        assert_eq!(scale.crossing(&[(0, -0.1), (1, 0.1), (2, 0.2)]), None, "it only rises");
        assert_eq!(scale.crossing(&[(0, -0.1), (1, -0.2)]), None, "it is below");
    }

    #[test]
    fn a_crossing_is_printed_with_enough_digits_to_differ_from_both_levels() {
        let scale = Scale::of(&["100ms", "104ms"]).expect("a scale");
        assert_eq!(scale.between(0, 1, 0.5), "102ms");
        assert_eq!(scale.between(0, 1, 0.01), "100.04ms");
        assert!(Scale::of(&["0", "ge:1%,30%"]).is_none());
        assert!(Scale::of(&["1%", "1ms"]).is_none() && Scale::of(&["news", "gallery"]).is_none());
        assert!(Scale::of(&["1", "2"]).is_some());
    }
}
