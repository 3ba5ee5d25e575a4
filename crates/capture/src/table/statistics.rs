//! Formats the statistics of data channels and transports over time.

use super::counted;
use crate::results::Statistics;
use std::fmt::Write;

/// The maximum number of rows of a table. Longer ones show rows at equal distances.
const MAX_ROWS: usize = 20;

/// Appends the table of the statistics of one data channel or transport.
pub(super) fn render(text: &mut String, statistics: &Statistics) {
    let Statistics { connection, id, kind, label, at_ns, values } = statistics;
    let label = label.as_ref().map(|label| format!(" \"{label}\"")).unwrap_or_default();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{kind} {id}{label} of connection {connection}, {}",
        counted(at_ns.len() as u64, "sample")
    );
    let widths: Vec<usize> = values.keys().map(|name| name.len().max(12)).collect();
    let mut line = format!("  {:>12}", "s");
    for (name, width) in values.keys().zip(&widths) {
        let _ = write!(line, "  {name:>width$}");
    }
    let _ = writeln!(text, "{line}");
    let count = at_ns.len();
    let step = count.div_ceil(MAX_ROWS).max(1);
    let last = count.checked_sub(1);
    for row in (0..count).filter(|row| row % step == 0 || Some(*row) == last) {
        let mut line = format!("  {:>12}", super::seconds(at_ns[row]).trim_end_matches(" s"));
        for (values, width) in values.values().zip(&widths) {
            let value = values.get(row).copied().flatten().map_or("-".to_owned(), |value| value.to_string());
            let _ = write!(line, "  {value:>width$}");
        }
        let _ = writeln!(text, "{line}");
    }
}
