//! Writes a race as CSV: a row for each point, contestant, seed and object.

use crate::{Outcome, PARTS, Point, Race, TimeBreakdown};
use std::fmt::Write;

/// Renders the race as CSV (RFC 4180, but each line ends in a line feed alone). An unknown value is an empty field.
#[must_use]
pub fn render(race: &Race) -> String {
    let factors: Vec<&str> = factors(race.points.first());
    header(&factors) + &race.points.iter().map(|point| rows(&factors, point)).collect::<String>()
}

/// Returns the names of a race's factors, in the order of their columns. `first` is the first point of the race.
#[must_use]
pub fn factors(first: Option<&Point>) -> Vec<&str> {
    first.map_or(Vec::new(), |point| point.factors.keys().map(String::as_str).collect())
}

/// Returns the first line, with the names of the columns.
#[must_use]
pub fn header(factors: &[&str]) -> String {
    let mut header: Vec<String> = factors.iter().map(|factor| field(factor)).collect();
    let fixed = [
        "contestant",
        "seed",
        "outcome",
        "page_ns",
        "object",
        "bytes",
        "connection",
        "stream",
        "issued_ns",
        "first_byte_ns",
        "delivered_ns",
        "failure",
    ];
    header.extend(fixed.map(str::to_owned));
    header.extend(PARTS.map(|part| format!("{part}_ns")));
    header.extend(["start_render_ns", "largest_image_ns", "byte_index_ns"].map(str::to_owned));
    header.join(",") + "\n"
}

/// Returns the lines of one point of the race.
#[must_use]
pub fn rows(factors: &[&str], point: &Point) -> String {
    let mut out = String::new();
    let levels: String =
        factors.iter().map(|f| field(point.factors.get(*f).map_or("", |l| l)) + ",").collect();
    for contestant in &point.contestants {
        for run in &contestant.runs {
            let outcome = match run.outcome {
                Outcome::Done => "done",
                Outcome::Failed => "failed",
                Outcome::Deadline => "deadline",
            };
            for object in &run.objects {
                let _ = write!(
                    out,
                    "{levels}{},{},{outcome},{},{},{},{},{},{},{},{},{}",
                    field(&contestant.name),
                    run.seed,
                    optional(run.page_ns),
                    field(&object.name),
                    object.bytes,
                    optional(object.connection),
                    optional(object.stream),
                    optional(object.issued_ns),
                    optional(object.first_byte_ns),
                    optional(object.delivered_ns),
                    field(object.failure.as_deref().unwrap_or_default()),
                );
                let why = object.why.as_ref().map(TimeBreakdown::parts).unwrap_or_default();
                for part in why {
                    let _ = write!(out, ",{}", optional(part));
                }
                for time in [run.start_render_ns, run.largest_image_ns, run.byte_index_ns] {
                    let _ = write!(out, ",{}", optional(time));
                }
                out.push('\n');
            }
        }
    }
    out
}

/// Returns the text of a value in a CSV field. An unknown value is an empty field.
pub fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Returns rows as CSV, in the format of [`render`].
#[must_use]
pub fn of_rows<R: AsRef<[S]>, S: AsRef<str>>(rows: &[R]) -> String {
    rows.iter().map(|row| line(row.as_ref())).collect()
}

/// Formats a row of fields as one line, with commas between the fields. Fields are quoted where RFC 4180 asks for it.
#[must_use]
pub fn line<S: AsRef<str>>(cells: &[S]) -> String {
    cells.iter().map(|cell| field(cell.as_ref())).collect::<Vec<_>>().join(",") + "\n"
}

/// RFC 4180 §2.6, §2.7: quotes a field that contains a comma, a quote or a line break.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("tcp"), "tcp");
        assert_eq!(field("sctp:num_ostreams=1,iw=3"), "\"sctp:num_ostreams=1,iw=3\"");
        assert_eq!(field("say \"a\""), "\"say \"\"a\"\"\"");
    }
}
