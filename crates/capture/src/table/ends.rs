//! Formats the comparison of the captures of both ends.

use super::{columns, counted, millis};
use crate::results::{BothEnds, MatchedFlow};
use std::fmt::Write;

/// The maximum number of flows that are shown.
const MAX_FLOWS: usize = 20;

/// Appends the comparison of the two captures to the text. `file` is the name of the first file.
pub(super) fn render(text: &mut String, file: &str, both: &BothEnds) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "Both ends: {file} and {}", both.file);
    if both.flows.is_empty() {
        let _ = writeln!(text, "  no packet is in both files");
    }
    for flow in both.flows.iter().take(MAX_FLOWS) {
        self::flow(text, [file, &both.file], flow);
    }
    if both.flows.len() > MAX_FLOWS {
        let _ = writeln!(text, "  ({} more)", counted((both.flows.len() - MAX_FLOWS) as u64, "flow"));
    }
    let counts = both.elsewhere.iter().zip(&both.left_out);
    for (file, (elsewhere, left_out)) in [file, both.file.as_str()].into_iter().zip(counts) {
        if *elsewhere > 0 {
            let _ = writeln!(
                text,
                "  {file}: {} of flows that the other file lacks",
                counted(*elsewhere, "packet")
            );
        }
        if *left_out > 0 {
            let _ = writeln!(
                text,
                "  {file}: {} not compared, because there are too many",
                counted(*left_out, "packet")
            );
        }
    }
}

fn flow(text: &mut String, files: [&str; 2], flow: &MatchedFlow) {
    let ends = [0, 1].map(|end: usize| format!("{} ({})", flow.ends[end], files[end])).join(", ");
    let trip = match flow.round_trip_ns {
        Some(nanos) => format!(", round trip at least {} ms", millis(nanos)),
        None if flow.ends_known => String::new(),
        None => ", the times do not tell which file is of which end".to_owned(),
    };
    let _ = writeln!(text, "  {ends}{trip}");
    let heads = [
        "",
        "sent",
        "arrived",
        "lost",
        "outside",
        "only received",
        "overtaken",
        "delay above the least, median/95 %/max ms",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    for (from, direction) in flow.directions.iter().enumerate() {
        let delay = &direction.delay;
        rows.push([
            format!("from {}", flow.ends[from]),
            direction.sent.to_string(),
            direction.arrived.to_string(),
            direction.lost.to_string(),
            direction.outside.to_string(),
            direction.only_received.to_string(),
            direction.overtaken.to_string(),
            match delay.samples {
                0 => "-".to_owned(),
                _ => [delay.median_ns, delay.p95_ns, delay.max_ns].map(millis).join("/"),
            },
        ]);
    }
    columns(text, &rows);
}
