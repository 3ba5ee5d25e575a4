//! Parses traces in columns. Each line has a time and a rate, and perhaps a round-trip time and a loss rate.
//!
//! Without a header, the two columns are seconds and bits per second. A header names the columns and their units in any
//! order, for example `time_s,rate_mbps,rtt_ms,loss_percent`. Columns are separated by commas, semicolons, tabs or
//! blanks. Times count from the first line and never decrease. If several lines have the same time, only the last of
//! them is used.
//!
//! The values of a line apply until the time of the next line. The values of the last line apply for the same duration
//! as the line before it. Then the trace repeats.

use super::Trace;
use super::series::Series;
use crate::spec::SpecError;
use anabranch_base::time::nanos;
use anabranch_base::units::parse_duration;
use anabranch_base::{BitRate, Ratio};

/// The quantity that a column contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ColumnKind {
    Time,
    Rate,
    RoundTrip,
    Loss,
}

/// A column, and the power of ten that converts its unit to the unit of [`Row`]. Times in rows are in nanoseconds,
/// rates in bits per second, and losses in units of 10⁻¹².
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Column {
    kind: ColumnKind,
    exponent: i32,
}

/// The values of one line: time and delay in nanoseconds, rate in bits per second, loss in parts in 10¹².
#[derive(Clone, Copy)]
struct Row {
    time: i128,
    rate: u64,
    /// The one-way delay, in nanoseconds.
    delay: u64,
    loss: Ratio,
}

/// Parses the text of a trace in columns.
///
/// # Errors
/// The error names the invalid line and says what to write there.
pub(super) fn parse(text: &str) -> Result<Trace, SpecError> {
    let mut columns: Option<Vec<Column>> = None;
    let mut has_header = false;
    let mut separator = None;
    let mut rows: Vec<Row> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |why: &str| SpecError::new(format!("line {}: {why}", index + 1));
        let (line, is_comment) = match line.trim().strip_prefix('#') {
            Some(comment) => (comment.trim(), true),
            None => (line.trim(), false),
        };
        if line.is_empty() || (is_comment && columns.is_some()) {
            continue;
        }
        let cells = cells(line, *separator.get_or_insert_with(|| Separator::of(line)));
        let Some(known) = &columns else {
            // A line with `#` is the header if all of its cells are column names. Otherwise it is a comment.
            if is_comment {
                separator = None;
                if let Ok(found) = header(&cells) {
                    separator = Some(Separator::of(line));
                    (columns, has_header) = (Some(found), true);
                }
                continue;
            }
            if begins_number(cells[0]) {
                let found = headless(&cells).map_err(|why| wrong(&why))?;
                rows.push(row(&cells, &found).map_err(|why| wrong(&why))?);
                columns = Some(found);
            } else {
                (columns, has_header) = (Some(header(&cells).map_err(|why| wrong(&why))?), true);
            }
            continue;
        };
        let row = row(&cells, known).map_err(|why| wrong(&why))?;
        if rows.last().is_some_and(|last| last.time > row.time) {
            return Err(wrong("its time lies before that of the line above; times never decrease"));
        }
        if rows.len() == MAX_ROWS {
            return Err(wrong(&format!("more than {MAX_ROWS} lines")));
        }
        rows.push(row);
    }
    let columns = columns.unwrap_or_default();
    if !has_header && !rows.is_empty() && rows.iter().all(|row| row.rate < LEAST_WITHOUT_HEADER) {
        return Err(SpecError::new(format!(
            "without a header rates are bits per second, and none reaches {LEAST_WITHOUT_HEADER}; if they are Mbit/s, begin \
             the file with the line time_s,rate_mbps"
        )));
    }
    assemble(rows, &columns)
}

/// Creates the trace from rows that are in order of time.
fn assemble(mut rows: Vec<Row>, columns: &[Column]) -> Result<Trace, SpecError> {
    let Some(first) = rows.first().map(|row| row.time) else {
        return Err(SpecError::new("the trace has no lines; write a time and a rate in each"));
    };
    // If several rows have the same time, only the last of them is kept. `dedup_by_key` would keep the first of them,
    // so it gets the rows in reversed order.
    rows.reverse();
    rows.dedup_by_key(|row| row.time);
    rows.reverse();
    if rows.iter().all(|row| row.rate == 0) {
        return Err(SpecError::new("every rate is 0, so nothing would ever pass"));
    }
    let time = |row: &Row| u64::try_from(row.time - first).ok().filter(|time| *time <= MAX_SPAN_NS);
    let times: Option<Vec<u64>> = rows.iter().map(time).collect();
    let times =
        times.ok_or_else(|| SpecError::new("it lasts more than a year; check the unit of its times"))?;
    let period = match times.as_slice() {
        [.., before, last] => Some(last + (last - before)),
        _ => None,
    };
    let has = |kind: ColumnKind| columns.iter().any(|column| column.kind == kind);
    let series = |value: fn(&Row) -> u64| {
        let steps = times.iter().zip(&rows).map(|(at, row)| (*at, value(row))).collect();
        Series::new(steps, period)
    };
    let losses = times.iter().zip(&rows).map(|(at, row)| (*at, row.loss)).collect();
    let rates = series(|row| row.rate).ok_or_else(|| SpecError::new("the trace has no lines"))?;
    Ok(Trace::of_series(
        rates,
        series(|row| row.delay).filter(|_| has(ColumnKind::RoundTrip)),
        Series::new(losses, period).filter(|_| has(ColumnKind::Loss)),
    ))
}

/// The separator between the columns of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    Mark(char),
    Blanks,
}

impl Separator {
    fn of(line: &str) -> Self {
        [';', ',', '\t'].into_iter().find(|mark| line.contains(*mark)).map_or(Self::Blanks, Self::Mark)
    }
}

/// Returns whether a line has several columns.
pub(super) fn has_columns(line: &str) -> bool {
    line.contains([';', ',']) || line.split_whitespace().nth(1).is_some()
}

/// Splits a line into cells, without surrounding blanks and quotes.
fn cells(line: &str, separator: Separator) -> Vec<&str> {
    fn bare(cell: &str) -> &str {
        cell.trim().trim_matches('"').trim()
    }
    match separator {
        Separator::Mark(mark) => line.split(mark).map(bare).collect(),
        Separator::Blanks => line.split_whitespace().map(bare).collect(),
    }
}

/// Returns the columns of a file without a header: seconds and bits per second.
fn headless(cells: &[&str]) -> Result<Vec<Column>, String> {
    match cells {
        [_, _] => Ok(vec![
            Column { kind: ColumnKind::Time, exponent: 9 },
            Column { kind: ColumnKind::Rate, exponent: 0 },
        ]),
        _ => Err(format!(
            "{} columns without a header; begin the file with one, such as {HEADER}",
            cells.len()
        )),
    }
}

/// Parses a header into the columns that it names.
fn header(cells: &[&str]) -> Result<Vec<Column>, String> {
    let columns = cells.iter().map(|cell| column(cell)).collect::<Result<Vec<_>, _>>()?;
    for (kind, name) in [
        (ColumnKind::Time, "time"),
        (ColumnKind::Rate, "rate"),
        (ColumnKind::RoundTrip, "rtt"),
        (ColumnKind::Loss, "loss"),
    ] {
        let count = columns.iter().filter(|column| column.kind == kind).count();
        let is_needed = matches!(kind, ColumnKind::Time | ColumnKind::Rate);
        if count > 1 || (is_needed && count == 0) {
            let what = if count == 0 { "no column" } else { "several columns" };
            return Err(format!("{what} '{name}' in the header; write {HEADER}"));
        }
    }
    Ok(columns)
}

/// Parses a column name, for example `time_s`, `rate (Mbit/s)` or `loss_%`.
fn column(cell: &str) -> Result<Column, String> {
    let wrong = |why: &str| format!("column '{cell}': {why}; write {HEADER}");
    if cell.contains("Bps") || cell.contains("B/s") || cell.to_ascii_lowercase().contains("byte") {
        return Err(wrong("it counts bytes, and rates are in bits"));
    }
    let lower = cell.to_ascii_lowercase();
    let mut words = lower
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '%' | '/')))
        .filter(|word| !word.is_empty());
    let name = words.next().unwrap_or_default();
    let unit = words.next();
    if words.next().is_some() {
        return Err(wrong("not known"));
    }
    let span = |unit: &str| match unit {
        "s" | "sec" | "second" | "seconds" => Some(9),
        "ms" | "msec" | "milliseconds" => Some(6),
        "us" | "µs" | "usec" | "microseconds" => Some(3),
        "ns" => Some(0),
        _ => None,
    };
    let unknown = || wrong("its unit is not known");
    let (kind, exponent) = match name {
        "time" | "t" | "timestamp" | "elapsed" => {
            (ColumnKind::Time, unit.map_or(Some(9), span).ok_or_else(unknown)?)
        }
        "seconds" if unit.is_none() => (ColumnKind::Time, 9),
        "rate" | "throughput" | "bandwidth" | "bitrate" | "capacity" | "goodput" | "bw" => {
            let exponent = match unit {
                None | Some("bps" | "bit/s" | "bits/s" | "bit" | "bits") => 0,
                Some("kbps" | "kbit/s" | "kbits/s" | "kb/s" | "kbit") => 3,
                Some("mbps" | "mbit/s" | "mbits/s" | "mb/s" | "mbit") => 6,
                Some("gbps" | "gbit/s" | "gbits/s" | "gb/s" | "gbit") => 9,
                Some(_) => return Err(unknown()),
            };
            (ColumnKind::Rate, exponent)
        }
        "rtt" | "ping" => {
            let unit = unit.ok_or_else(|| wrong("its unit is missing: rtt_ms or rtt_s"))?;
            (ColumnKind::RoundTrip, span(unit).ok_or_else(unknown)?)
        }
        "loss" => match unit {
            None | Some("rate" | "ratio" | "share" | "fraction") => (ColumnKind::Loss, 12),
            Some("%" | "percent" | "pct") => (ColumnKind::Loss, 10),
            Some(_) => return Err(unknown()),
        },
        _ => return Err(wrong("not known")),
    };
    Ok(Column { kind, exponent })
}

/// Parses a line of values into a row.
fn row(cells: &[&str], columns: &[Column]) -> Result<Row, String> {
    if cells.len() != columns.len() {
        let (got, expected) = (cells.len(), columns.len());
        return Err(format!("{got} values where there are {expected} columns; write one for each"));
    }
    let mut row = Row { time: 0, rate: 0, delay: 0, loss: Ratio::ZERO };
    for (cell, column) in cells.iter().zip(columns) {
        let shown: String = cell.chars().take(20).collect();
        let number = decimal(cell, column.exponent);
        match column.kind {
            ColumnKind::Time => {
                let span = || parse_duration(cell).ok().map(|span| i128::from(nanos(span)));
                let time = number.or_else(span);
                row.time = time.ok_or_else(|| format!("'{shown}' is no time; write a number such as 0.5"))?;
            }
            ColumnKind::Rate => {
                let plain = number.and_then(|bits| u64::try_from(bits).ok());
                let rate = plain.or_else(|| cell.parse().ok().map(BitRate::bits_per_second));
                let rate = rate.filter(|bits| *bits <= MAX_RATE);
                row.rate = rate.ok_or_else(|| {
                    format!("'{shown}' is no rate from 0 to {MAX_RATE} bit/s; write a number such as 12.5")
                })?;
            }
            ColumnKind::RoundTrip => {
                let plain = number.and_then(|nanos| u64::try_from(nanos).ok());
                let trip = plain.or_else(|| parse_duration(cell).ok().map(nanos));
                let trip = trip.filter(|nanos| *nanos <= MAX_TRIP_NS);
                row.delay = trip.ok_or_else(|| {
                    format!("'{shown}' is no round trip from 0 to 60 s; write a number such as 42.5")
                })? / 2;
            }
            ColumnKind::Loss => {
                let parts = number.and_then(|parts| u64::try_from(parts).ok());
                let plain = parts.and_then(|parts| Ratio::new(parts, Ratio::ONE.parts()));
                let loss = if cell.ends_with('%') { cell.parse().ok() } else { plain };
                row.loss = loss.ok_or_else(|| {
                    format!(
                        "'{shown}' is no share of loss from 0 to 1, or to 100 %; write one such as 0.01 or 1%"
                    )
                })?;
            }
        }
    }
    Ok(row)
}

fn begins_number(cell: &str) -> bool {
    cell.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))
}

/// Returns `text` times 10^`exponent`, rounded towards 0. Returns `None` if `text` is not a decimal number or the
/// result is too large.
fn decimal(text: &str, exponent: i32) -> Option<i128> {
    let (mantissa, power) = match text.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse::<i32>().ok().filter(|power| power.abs() <= 60)?),
        None => (text, 0),
    };
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = || whole.bytes().chain(fraction.bytes());
    if whole.len() + fraction.len() == 0 || !all().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // Digits far behind the decimal point do not affect the result and are skipped, so `text` may have any number of
    // digits.
    let shift = i64::from(exponent) + i64::from(power);
    let position = whole.len() as i64 + shift;
    let mut value = 0_i128;
    let mut digits = all();
    for _ in 0..position.clamp(0, 40) {
        let digit = digits.next().map_or(0, |digit| i128::from(digit - b'0'));
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    (position <= 40 || value == 0).then_some(sign * value)
}

/// An example of a header, for use in error messages.
const HEADER: &str = "time_s,rate_mbps, and perhaps rtt_ms and loss";
/// The maximum number of lines in a trace: 57 days with a line per second.
const MAX_ROWS: usize = 5_000_000;
/// The maximum rate, in bits per second.
const MAX_RATE: u64 = 1_000_000_000_000_000;
/// The maximum round-trip time: 60 s.
const MAX_TRIP_NS: u64 = 60_000_000_000;
/// The maximum duration of a trace in nanoseconds: 366 days.
const MAX_SPAN_NS: u64 = 366 * 86_400 * 1_000_000_000;
/// Without a header, the highest rate must be at least this many bits per second. A lower value means that the file
/// uses another unit.
const LEAST_WITHOUT_HEADER: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(text: &str) -> (Vec<(u64, u64)>, Option<u64>) {
        let trace = Trace::parse(text).expect(text);
        let rates = trace.rates().expect("rates").clone();
        let steps = rates.steps().iter().map(|(at, rate)| (at / 1_000_000, *rate)).collect();
        (steps, rates.period().map(|period| period / 1_000_000))
    }

    #[test]
    fn two_columns_are_seconds_and_bits_per_second() {
        let expected = (vec![(0, 5_000_000), (1000, 0), (2500, 2_000_000)], Some(4000));
        for text in [
            "0 5000000\n1 0\n2.5 2000000\n",
            "# recorded today\n\n0,5e6\n1,0\n2.5,2e6",
            "\u{feff}100;5000000\r\n101;0\r\n102.5;2000000\r\n",
            "1617000000.25\t5000000\n1617000001.25\t0\n1617000002.75\t2000000",
            "0s 5mbit\n1s 0\n2500ms 2000kbit",
            "0 1\n0 5000000\n1 0\n2.5 2000000",
        ] {
            assert_eq!(rates(text), expected, "{text}");
        }
        assert_eq!(rates("7 1000"), (vec![(0, 1000)], None));
    }

    #[test]
    fn a_header_names_columns_and_units() {
        let expected = (vec![(0, 12_500_000), (500, 1_000_000)], Some(1000));
        for text in [
            "time_s,rate_mbps\n0,12.5\n0.5,1\n",
            "rate (kbit/s); time [ms]\n12500; 10\n1000; 510\n",
            "# time_ms throughput_Mbps\n0 12.5\n500 1\n",
            "\"Timestamp\",\"Rate\"\n\"0\",\"12500000\"\n\"0.5\",\"1000000\"\n",
            "time_s,rate_mbps,rtt_ms,loss\n0,12.5,40,0\n0.5,1,60.5,0.02",
        ] {
            assert_eq!(rates(text), expected, "{text}");
        }
        let trace =
            Trace::parse("loss_%,rtt_s,rate_bps,t_s\n1,0.04,8000,0\n2.5%,60ms,9000,1\n").expect("a trace");
        let delays = trace.delays().expect("delays").steps().to_vec();
        assert_eq!(delays, [(0, 20_000_000), (1_000_000_000, 30_000_000)]);
        let losses = trace.losses().expect("losses").steps().to_vec();
        assert_eq!(losses.iter().map(|(_, loss)| loss.to_string()).collect::<Vec<_>>(), ["1%", "2.5%"]);
        assert_eq!(trace.mean_rate().bits_per_second(), 8500);
        let plain = Trace::parse("0 8000\n1 9000").expect("a trace");
        assert!(plain.delays().is_none() && plain.losses().is_none());
    }

    #[test]
    fn a_bad_line_is_named_with_what_to_write() {
        let says = |text: &str| Trace::parse(text).expect_err(text).to_string();
        for (text, expected) in [
            ("0 1000\nx 1000\n", "line 2: 'x' is no time; write a number such as 0.5"),
            ("0 1000\n1 fast\n", "line 2: 'fast' is no rate from 0 to"),
            ("0 1000\n1 -5\n", "line 2: '-5' is no rate from 0 to"),
            ("0 1000\n1 nan\n", "line 2: 'nan' is no rate"),
            ("0 1000\n1 1e60\n", "line 2: '1e60' is no rate"),
            ("1 1000\n0.5 1000\n", "line 2: its time lies before that of the line above"),
            ("0 1000\n1\n", "line 2: 1 values where there are 2 columns"),
            (
                "0 1000 40\n",
                "line 1: 3 columns without a header; begin the file with one, such as time_s,rate_mbps",
            ),
            ("0 10\n1 12\n", "if they are Mbit/s, begin the file with the line time_s,rate_mbps"),
            ("0 0\n1 0\n", "none reaches 1000"),
            ("time_s,rate_mbps\n0,0\n", "every rate is 0"),
            ("time_s,rate_mbps\n", "the trace has no lines"),
            ("time_s,speed\n", "line 1: column 'speed': not known; write time_s,rate_mbps"),
            ("time_s,rtt_ms\n", "line 1: no column 'rate' in the header"),
            ("time,rate,rate_mbps\n", "line 1: several columns 'rate'"),
            ("time,rate_MBps\n", "line 1: column 'rate_MBps': it counts bytes"),
            ("time,rate_furlongs\n", "line 1: column 'rate_furlongs': its unit is not known"),
            ("time,rate,rtt\n", "line 1: column 'rtt': its unit is missing: rtt_ms or rtt_s"),
            ("time,rate,loss\n0,1000,1.5\n", "line 2: '1.5' is no share of loss"),
            ("time,rate,loss\n0,1000,\n", "line 2: '' is no share of loss"),
            ("time,rate,rtt_ms\n0,1000,90000\n", "line 2: '90000' is no round trip"),
            ("0 1000\n99999999999 1000\n", "it lasts more than a year"),
        ] {
            let line = says(text);
            assert!(line.contains(expected) && !line.contains('\n'), "{text}: {line}");
        }
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal("1617000000.123456789", 9), Some(1_617_000_000_123_456_789));
        assert_eq!(decimal("-0.5", 9), Some(-500_000_000));
        assert_eq!(decimal("1.23e2", 0), Some(123));
        assert_eq!(decimal("1.239e-1", 3), Some(123));
        assert_eq!(decimal(&"9".repeat(30), 0), Some(999_999_999_999_999_999_999_999_999_999));
        assert_eq!(decimal(&format!("0.{}", "9".repeat(100)), 3), Some(999));
        for text in ["", ".", "-", "1.2.3", "0x1", "1e", "1e99", "inf", "1 2", &"9".repeat(50)] {
            assert_eq!(decimal(text, 0), None, "{text}");
        }
    }
}
