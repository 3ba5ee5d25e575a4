//! Draws small pictures for a terminal: a bar for each contestant's time, a sparkline of the data that arrived over
//! time, and a waterfall. The waterfall shows the fastest contestant's median run. Bars and sparklines become shorter
//! on a narrow terminal.

use anabranch_results::label::{labels, shortened};
use anabranch_results::verdict::milliseconds;
use anabranch_results::{Contestant, Object, Point, Run};
use std::fmt::Write;

const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The length of the longest bar, in columns of the terminal.
const BAR: usize = 40;
/// The greatest width of a contestant's name, in characters.
const NAME: usize = 22;
/// The length of a sparkline of arriving data, in columns of the terminal.
const SPARK: usize = 24;
/// The maximum number of objects in a waterfall.
const OBJECTS: usize = 10;

/// Draws a bar that fills `share` of `width` columns, to an eighth of a column. A positive share gives at least an
/// eighth.
fn bar(share: f64, width: usize) -> String {
    let eighths =
        ((share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize).max(usize::from(share > 0.0));
    let mut bar = "█".repeat(eighths / 8);
    bar.extend((eighths % 8).checked_sub(1).map(|rest| EIGHTHS[rest]));
    bar
}

/// Draws `values` as a sparkline of at most `width` columns. The height of a column is the mean of the values that it
/// covers. A column of the value `most` has full height.
fn sparkline(values: &[u64], width: usize, most: f64) -> String {
    let columns = width.min(values.len());
    let column = |i: usize| {
        let own = &values[i * values.len() / columns..(i + 1) * values.len() / columns];
        let mean = own.iter().sum::<u64>() as f64 / own.len() as f64;
        if mean <= 0.0 { ' ' } else { LEVELS[((mean / most * 8.0) as usize).min(7)] }
    };
    (0..columns).map(column).collect()
}

/// Returns the run that represents a contestant: the run with the seed `median_seed`.
fn median(contestant: &Contestant) -> Option<&Run> {
    contestant.runs.iter().find(|run| run.seed == contestant.median_seed)
}

/// Draws one bar for each contestant: the geometric mean of its time over the runs. A sparkline shows the data that
/// arrived during the contestant's median run. Returns an empty string if no run finished.
pub(super) fn bars(point: &Point, line_width: usize) -> String {
    let time = |contestant: &Contestant| {
        contestant.summary.metric(point.decisive()).and_then(|stat| stat.geometric_mean)
    };
    let longest = point.contestants.iter().filter_map(time).fold(0.0, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    let arrived = |contestant: &Contestant| median(contestant).map(|run| run.series.application.clone());
    let series: Vec<Vec<u64>> =
        point.contestants.iter().map(|contestant| arrived(contestant).unwrap_or_default()).collect();
    let buckets = series.iter().map(Vec::len).max().unwrap_or(0);
    let most = series.iter().flatten().copied().max().unwrap_or(0).max(1) as f64;
    let names: Vec<&str> = point.contestants.iter().map(Contestant::label).collect();
    let names = labels(&names, NAME);
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    // `BAR` and `SPARK` are the lengths on a terminal of 100 columns. On a narrower terminal, the lengths are smaller.
    let part = (line_width.saturating_sub(NAME) as f64 / 78.0).min(1.0);
    let [bar_width, spark_width] = [BAR, SPARK].map(|full| (full as f64 * part) as usize);
    let mut out = String::new();
    for ((contestant, name), series) in point.contestants.iter().zip(&names).zip(series) {
        let drawn = time(contestant)
            .map_or(String::new(), |ms| format!("{} {}", bar(ms / longest, bar_width), milliseconds(ms)));
        // All sparklines have the same time scale.
        let columns = (series.len() * spark_width).div_ceil(buckets.max(1));
        let spark = sparkline(&series, columns, most);
        let line = format!("{name:<width$}  {drawn:<room$}  {spark}", room = bar_width + 9);
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let _ = writeln!(out, "{:<width$}  {:<room$}  bytes arriving, median runs", "", "", room = bar_width + 9);
    out
}

/// Draws the fastest contestant's median run, object by object. Returns an empty string if the workload consists of
/// messages, or if only one object was delivered.
pub(super) fn waterfall(point: &Point, line_width: usize) -> String {
    if point.workload.messages {
        return String::new();
    }
    let time = |contestant: &&Contestant| contestant.summary.page_ms.geometric_mean;
    let fastest = point
        .contestants
        .iter()
        .filter(|contestant| time(contestant).is_some())
        .min_by(|a, b| time(a).partial_cmp(&time(b)).unwrap_or(std::cmp::Ordering::Equal));
    let Some((contestant, run)) = fastest.and_then(|one| Some((one, median(one)?))) else {
        return String::new();
    };
    let span = |object: &Object| Some((object.issued_ns?, object.delivered_ns?));
    let mut shown: Vec<&Object> = run.objects.iter().filter(|object| span(object).is_some()).collect();
    let all = shown.len();
    let Some(end) = shown.iter().filter_map(|object| object.delivered_ns).max().filter(|_| all > 1) else {
        return String::new();
    };
    // Keeps only the objects that were delivered last, and shows them in the order in which they were issued.
    shown.sort_by_key(|object| std::cmp::Reverse(object.delivered_ns));
    shown.truncate(OBJECTS);
    shown.sort_by_key(|object| object.issued_ns);
    let width = line_width.saturating_sub(26).max(20);
    let column = |ns: u64| (u128::from(ns) * width as u128 / u128::from(end.max(1))) as usize;
    let heading = if all > shown.len() {
        format!("the last {} of {all} objects", shown.len())
    } else {
        format!("{all} objects")
    };
    let mut out = format!("{}, seed {}, {heading}: ░ waiting, █ arriving\n", contestant.label(), run.seed);
    for object in shown {
        let Some((issued, delivered)) = span(object) else { continue };
        let first = object.first_byte_ns.unwrap_or(delivered).clamp(issued, delivered);
        let (from, until) = (column(issued), column(delivered).max(column(issued) + 1));
        let middle = column(first).clamp(from, until - 1);
        let line = format!(
            "{:<24}  {}{}{}",
            shortened(&object.name, 24),
            " ".repeat(from),
            "░".repeat(middle - from),
            "█".repeat(until - middle)
        );
        let _ = writeln!(out, "{line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!((bar(0.5, 4), bar(1.0, 3)), ("██".to_owned(), "███".to_owned()));
        assert_eq!((bar(0.25 + 1.0 / 32.0, 4), bar(0.0, 4)), ("█▏".to_owned(), String::new()));
        assert_eq!(bar(1e-9, 4), "▏");
    }

    #[test]
    fn a_sparkline_keeps_zeros_and_peaks() {
        assert_eq!(sparkline(&[0, 1, 8, 4], 4, 8.0), " ▂█▅");
        // The sparkline has two columns for four values, so each column shows the mean of two values.
        assert_eq!(sparkline(&[8, 0, 0, 0], 2, 8.0), "▅ ");
        assert_eq!(sparkline(&[], 4, 8.0), "");
    }
}
