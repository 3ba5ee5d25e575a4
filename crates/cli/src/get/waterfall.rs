//! Draws a page load as bars over time.

use anabranch_base::time::Instant;
use anabranch_http::visit::Visit;
use std::fmt::Write;

/// Draws one line for each object: name, status, size, stream, times and a bar. If `by_connection` is set, the line has
/// the connection instead of the stream, because each connection has only one stream. Connections are numbered in the
/// order of their first objects.
pub fn draw(visit: &Visit, start: Instant, by_connection: bool) -> String {
    let end = visit.objects.iter().map(|object| object.ended).max().unwrap_or(start);
    let whole = (end - start).as_nanos().max(1);
    let width =
        visit.objects.iter().map(|object| object.target.chars().count()).max().unwrap_or(0).clamp(8, WIDEST);
    let mut text = String::new();
    let heading = if by_connection { "conn" } else { "stream" };
    let _ = writeln!(text, "{:width$}  status      bytes {heading:>7}    begin      end", "object");
    let mut connections = Vec::new();
    for object in &visit.objects {
        let column = |at: Instant| ((at - start).as_nanos() * BAR as u128 / whole) as usize;
        let marks = [object.issued, object.assigned, object.head_received, object.ended].map(column);
        let mut bar: Vec<char> = vec![' '; BAR];
        for (mark, from, to) in
            [('.', marks[0], marks[1]), ('-', marks[1], marks[2]), ('#', marks[2], marks[3])]
        {
            bar[from.min(BAR - 1)..to.min(BAR)].fill(mark);
        }
        // Even the shortest bar is one column wide.
        let last = marks[3].saturating_sub(1).max(marks[0]).min(BAR - 1);
        if bar[last] == ' ' {
            bar[last] = '#';
        }
        let bar: String = bar.into_iter().collect();
        let millis = |at: Instant| (at - start).as_secs_f64() * 1000.0;
        let status = if object.failure.is_some() && object.status == 0 {
            "-".to_owned()
        } else {
            object.status.to_string()
        };
        let column_text = match object.connection {
            None => "-".to_owned(),
            Some(_) if !by_connection => object.stream.to_string(),
            Some(connection) => {
                let known = connections.iter().position(|&other| other == connection);
                let column_text = known.unwrap_or_else(|| {
                    connections.push(connection);
                    connections.len() - 1
                });
                (column_text + 1).to_string()
            }
        };
        let _ = writeln!(
            text,
            "{:width$}  {status:>6} {:>10} {column_text:>7} {:>8.1} {:>8.1}  |{bar}|",
            shortened(&object.target, width),
            object.bytes,
            millis(object.issued),
            millis(object.ended),
        );
    }
    let bytes: u64 = visit.objects.iter().map(|object| object.bytes).sum();
    let failed = visit.objects.iter().filter(|object| object.failure.is_some()).count();
    let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
    let _ = writeln!(
        text,
        "{} objects, {} in {:.1} ms{failed} (. waits for a stream, - for the answer, # receives)",
        visit.objects.len(),
        readable(bytes),
        (end - start).as_secs_f64() * 1000.0
    );
    text
}

/// Shortens a name that is longer than `width` by cutting its start, because names differ mostly at their ends.
fn shortened(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    format!("…{}", name.chars().skip(length - width + 1).collect::<String>())
}

fn readable(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.2} MB", bytes as f64 / 1e6),
    }
}

/// The width of a bar in columns.
const BAR: usize = 40;
/// The maximum width of a name in columns.
const WIDEST: usize = 32;
