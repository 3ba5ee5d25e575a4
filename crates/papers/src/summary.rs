//! Summarises a study in a few lines. The first line counts the evidence about the transports. A line follows for each
//! table, for each kind of claim, and for the causes.

use super::cell::{CellVerdict, Evidence, PublishedCell};
use super::check::Outcome;
use super::claim::ClaimEvidence;
use super::findings::{Findings, TableResult};
use super::{CauseKind, Study};
use std::fmt::Write;

/// Returns the summary of a study: a line with the evidence about the transports, one line per table, one line of
/// claims for each kind of evidence, and a line for the causes.
#[must_use]
pub fn summary(study: &Study, findings: &Findings) -> String {
    let mut out = headline(study, findings);
    let (compared, alone): (Vec<_>, Vec<_>) =
        findings.tables.iter().partition(|found| !found.cells.is_empty());
    for found in compared {
        let table = study.table(&found.name);
        let instrument = table.and_then(|table| table.definition.beside.as_deref());
        let seen = table.and_then(|table| table.definition.seen.as_deref());
        let is_exploratory = table.is_some_and(|table| table.definition.exploratory);
        let word = match table.and_then(|table| table.definition.repeats.as_deref()) {
            Some(first) => format!("the cells of {first} in another reading, counted there: "),
            None if is_exploratory => "exploratory, proves nothing by itself: ".to_owned(),
            None => String::new(),
        };
        let line = table_line(found, instrument, seen);
        let _ = writeln!(out, "{}/{}: {word}{line}", study.definition.name, found.name);
    }
    if !alone.is_empty() {
        let names: Vec<&str> = alone.iter().map(|found| found.name.as_str()).collect();
        let _ = writeln!(
            out,
            "{}: no published value at hand for {}: those numbers are ours",
            study.definition.name,
            names.join(", ")
        );
    }
    let name = &study.definition.name;
    for evidence in ClaimEvidence::ALL {
        if let Some(counts) = claim_counts(findings, evidence) {
            let _ = writeln!(out, "{name}: {}: {counts}", evidence_heading(evidence));
        }
    }
    let counts = CauseKind::ALL.into_iter().filter_map(|kind| {
        let of: Vec<_> = findings.causes.iter().filter(|found| found.cause.kind() == kind).collect();
        let met = of.iter().filter(|found| found.is_met()).count();
        (!of.is_empty()).then(|| format!("{met} of {} {}", of.len(), kind.of_several()))
    });
    let counts: Vec<String> = counts.collect();
    if !counts.is_empty() {
        let _ = writeln!(out, "{name}: causes that are as the study says: {}", counts.join(", "));
    }
    out
}

/// Returns the first line of the summary, which counts only the cells and claims that are evidence about the
/// transports. It leaves out cells that were measured on another program, cells of exploratory tables, and cells that
/// another table also has. Empty if the study has no such cell or claim.
fn headline(study: &Study, findings: &Findings) -> String {
    let counts = |found: &&TableResult| {
        study.table(&found.name).map(|table| &table.definition).is_some_and(|definition| {
            definition.beside.is_none() && definition.repeats.is_none() && !definition.exploratory
        })
    };
    let cells = findings.tables.iter().filter(counts).flat_map(|found| &found.cells);
    let cells: Vec<&PublishedCell> = cells.filter(|cell| cell.evidence == Evidence::Transport).collect();
    let of_cells = match cells.len() {
        0 => None,
        1 => Some(format!("1 cell ({})", verdict_counts(&cells))),
        several => Some(format!("{several} cells ({})", verdict_counts(&cells))),
    };
    // What the study chose after it had seen these cells.
    let seen: String =
        (study.tables.iter().filter(|table| !cells.is_empty() && !table.definition.exploratory))
            .filter_map(|table| table.definition.seen.as_ref())
            .map(|seen| format!(", {seen} chosen in view of them"))
            .collect();
    let of_cells = of_cells.map(|of_cells| of_cells + &seen);
    let parts: Vec<String> =
        of_cells.into_iter().chain(claim_counts(findings, ClaimEvidence::Transport)).collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("{}: what is evidence: {}\n", study.definition.name, parts.join("; "))
}

/// Returns the outcomes of all claims with this kind of evidence, for example `3 hold, 1 fails`. `None` if there is no
/// such claim.
fn claim_counts(findings: &Findings, evidence: ClaimEvidence) -> Option<String> {
    let of: Vec<Outcome> = findings
        .claims
        .iter()
        .filter(|(claim, _)| claim.evidence == evidence)
        .map(|(_, found)| found.outcome)
        .collect();
    let outcomes = [
        Outcome::Holds,
        Outcome::Fails,
        Outcome::Undetermined,
        Outcome::Reading,
        Outcome::Prediction,
        Outcome::Undecidable,
    ];
    let counts = outcomes.into_iter().filter_map(|outcome| {
        let count = of.iter().filter(|one| **one == outcome).count();
        (count > 0)
            .then(|| format!("{count} {}", if count == 1 { outcome.word() } else { outcome.of_several() }))
    });
    let noun = if of.len() == 1 { "claim" } else { "claims" };
    (!of.is_empty()).then(|| format!("{} {noun} ({})", of.len(), counts.collect::<Vec<_>>().join(", ")))
}

const fn evidence_heading(evidence: ClaimEvidence) -> &'static str {
    match evidence {
        ClaimEvidence::Transport => "evidence, by runs",
        ClaimEvidence::Features => "that a mechanism exists, by the feature table alone",
        ClaimEvidence::Arithmetic => "no evidence, arithmetic",
        ClaimEvidence::Calibrated => "no evidence, calibrated",
        ClaimEvidence::Nothing => "nothing to compare",
    }
}

/// Returns the number of cells with each verdict, for example `1 agrees, 2 differ`.
fn verdict_counts(cells: &[&PublishedCell]) -> String {
    let verdicts = [
        CellVerdict::Agrees,
        CellVerdict::Near,
        CellVerdict::Differs,
        CellVerdict::Undetermined,
        CellVerdict::Missing,
    ];
    let counts = verdicts.iter().filter_map(|verdict| {
        let count = cells.iter().filter(|cell| cell.verdict == *verdict).count();
        (count > 0)
            .then(|| format!("{count} {}", if count == 1 { verdict.word() } else { verdict.of_several() }))
    });
    counts.collect::<Vec<_>>().join(", ")
}

/// Returns the line of the summary for one table. The line counts, for example, the cells with each verdict, and the
/// pairs of contestants that have the published order.
fn table_line(found: &TableResult, instrument: Option<&str>, seen: Option<&str>) -> String {
    let mut parts = Vec::new();
    for (evidence, what) in
        [(Evidence::Transport, "cells"), (Evidence::Arithmetic, "cells of arrivals or arithmetic")]
    {
        let of: Vec<&PublishedCell> = found.cells.iter().filter(|cell| cell.evidence == evidence).collect();
        if of.is_empty() {
            continue;
        }
        let what = if of.len() == 1 {
            if evidence == Evidence::Transport { "cell" } else { "cell of arrivals or arithmetic" }
        } else {
            what
        };
        let instrument = instrument.map_or(String::new(), |name| format!(" of {name}, not of print"));
        parts.push(format!("{} {what}{instrument} ({})", of.len(), verdict_counts(&of)));
    }
    let calibrated = found.cells.iter().filter(|cell| cell.evidence == Evidence::Calibrated).count();
    if calibrated > 0 {
        parts.push(format!("{calibrated} calibrated"));
    }
    let orders = &found.orders;
    let of_orders = || {
        let models = found.baselines.iter().map(|one| {
            // If a model predicts equal values for two contestants, it does not order this pair. The number of these
            // pairs is printed separately.
            let alike = match one.orders.alike {
                0 => String::new(),
                alike => format!(" ({alike} alike)"),
            };
            format!(", {} {}{alike}", one.model.name(), one.orders.same)
        });
        let seen =
            seen.map_or(String::new(), |what| format!(" (none held out: {what} chosen with them in view)"));
        format!(
            "orders {}/{}, independent rows {}/{}{seen}, a coin {}{}",
            orders.same,
            orders.all,
            orders.same_rows,
            orders.rows,
            orders.all.div_ceil(2),
            models.collect::<String>()
        )
    };
    parts.extend((orders.all > 0).then(of_orders));
    let skills = found.baselines.iter().filter_map(|one| {
        let skill = one.skill(&found.cells)?;
        let worse = if skill < 0.0 { " (worse)" } else { "" };
        Some(format!("{} {skill:.2}{worse}", one.model.name()))
    });
    let skills: Vec<String> = skills.collect();
    parts.extend((!skills.is_empty()).then(|| format!("skill over {}", skills.join(", "))));
    // Runs without randomness all give the same value, so there is no range that could contain the published value.
    let with_range = |cell: &&PublishedCell| {
        cell.evidence != Evidence::Calibrated && cell.range.is_some_and(|[low, high]| low < high)
    };
    let inside: Vec<&PublishedCell> =
        found.cells.iter().filter(with_range).filter(|cell| cell.is_inside() == Some(true)).collect();
    let of = found.cells.iter().filter(with_range).count();
    if of > 0 {
        let informative = inside.iter().filter(|cell| cell.is_informative()).count();
        parts.push(format!(
            "print inside our runs {} of {of} times, {informative} of them with a range below x2",
            inside.len()
        ));
    }
    parts.push(mismatches(found));
    parts.join("; ")
}

/// Summarises the cells that differ from their published values, and how many of them are explained.
fn mismatches(found: &TableResult) -> String {
    let (mismatches, unexplained) = (found.mismatches(), found.unexplained());
    // Several causes may bring the same cell near its published value, so this function counts cells and not causes.
    let left = || mismatches.iter().filter(|cell| cell.explained.is_empty());
    let perhaps = left().filter(|cell| !cell.exploratory_causes.is_empty()).count();
    let against = left().filter(|cell| !cell.counterfactual_causes.is_empty()).count();
    match mismatches.len() {
        0 => "none differs".to_owned(),
        all => {
            let mut more = Vec::new();
            more.extend((perhaps > 0).then(|| format!("{perhaps} by exploratory causes")));
            more.extend((against > 0).then(|| format!("{against} by counterfactuals")));
            let more = if more.is_empty() {
                String::new()
            } else {
                format!(
                    " (of these {} come close to the printed values, which is no explanation)",
                    more.join(", ")
                )
            };
            let price = match found.explained_at_a_price() {
                0 => String::new(),
                some => format!(" ({some} by causes that take other cells away from print)"),
            };
            let explained = all - unexplained;
            format!("of {all} that differ {explained} explained{price}, {unexplained} not explained{more}")
        }
    }
}
