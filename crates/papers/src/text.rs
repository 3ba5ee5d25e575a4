//! Renders studies as text and as CSV: the list of studies, the description of a study, the comparison with published
//! values, and the files of `--out`.

use super::baseline::Model;
use super::cell::{Evidence, PublishedCell};
use super::check::{CheckResult, Outcome};
use super::claim::{Claim, ClaimEvidence};
use super::effect::figure;
use super::findings::{Findings, TableResult, WholeTableEffect};
use super::readings::Scores;
use super::sensitivity::{FRAGILE, POINTS, SEEDS, Sensitivity};
use super::summary::summary;
use super::{Change, CopyStatus, Study, Table, measured, stored_scores};
use anabranch_results::csv::{of_rows, optional};
use std::fmt::Write;

/// Returns one line per study, with its question, or with the error if it cannot be opened. Also returns whether all
/// studies can be opened.
#[must_use]
pub fn listing<'a>(studies: impl IntoIterator<Item = (&'a str, Result<Study, String>)>) -> (String, bool) {
    let (mut out, mut all) = (String::new(), true);
    for (name, study) in studies {
        let line = study.map(|study| study.definition.question).unwrap_or_else(|error| {
            all = false;
            format!("cannot be opened: {error}")
        });
        let _ = writeln!(out, "{name:<22} {line}");
    }
    (out, all)
}

/// Describes a study: its question, tables, parameters with their origin, causes and claims.
#[must_use]
pub fn description(study: &Study) -> String {
    let d = &study.definition;
    let mut out = format!("{}: {}\n{}\n\n{}\n", d.name, d.title, d.source, d.question);
    out.push_str("\nTables:\n");
    for table in &study.tables {
        let printed = match table.published.as_ref().map_or(0, |printed| printed.rows.len()) {
            0 => "nothing printed".to_owned(),
            cells => format!("{cells} printed cells, {}", table.definition.unit),
        };
        let _ = writeln!(out, "  {:<20} {} ({printed})", table.name, table.definition.title);
    }
    out.push_str("\nParameters:\n");
    for parameter in &d.parameters {
        let line =
            format!("{} = {} ({}): {}", parameter.name, parameter.value, parameter.is.word(), parameter.why);
        out.push_str(&wrapped(&line, 98));
    }
    out.push_str("\nCauses, each a run:\n");
    for cause in study.causes.iter().filter(|cause| !cause.planted) {
        let [low, high] = cause.effect;
        let changes = cause.change.join(" ");
        let kind = cause.kind().word();
        out.push_str(&wrapped(&format!("{} ({kind}): {changes}: {} x{low}-{high}", cause.id, cause.of), 98));
    }
    let _ = writeln!(out, "\n{} claims; `study run {}` decides them.", study.claims.len(), d.name);
    out
}

/// Returns the name by which output cites a study. The name is followed by a note if files were changed, or if only
/// some tables were run.
#[must_use]
pub fn called(study: &Study) -> String {
    let mut out = study.definition.name.clone();
    if let CopyStatus::Changed { files, digest } = &study.copy {
        let _ = write!(out, ", a changed copy (not as shipped: {}; SHA-256 {digest})", files.join(", "));
    }
    if let Some(tables) = &study.part {
        let _ = write!(out, ", of its tables {tables} alone");
    }
    out
}

/// Renders the complete results of a study.
#[must_use]
pub fn comparison(study: &Study, findings: &Findings) -> String {
    let mut out = format!("{}: {}\n{}\n", called(study), study.definition.title, study.definition.source);
    for found in &findings.tables {
        let Some(table) = study.table(&found.name) else { continue };
        if !found.cells.is_empty() {
            out += &cells(table, found);
        } else if study.part.is_some() {
            out += &measured::text(table, found, false);
            continue;
        }
        out += &measured::text(table, found, true);
    }
    if !findings.causes.is_empty() {
        out.push_str("\ncauses, each a run of this study\n");
    }
    for found in &findings.causes {
        let (id, kind, word) = (&found.cause.id, found.cause.kind().word(), found.verdict());
        out.push_str(&wrapped(
            &format!("{id} ({kind}, {word}): {}{}", found.sentence(), whole_table_effect(findings, id)),
            98,
        ));
    }
    // For a whole study, only the claims that do not hold or are undecided are listed. For a part of a study, all
    // claims that the part decides are listed.
    out.push_str(match study.part {
        None => "\nclaims that do not hold here, or cannot be told\n",
        Some(_) => "\nclaims that need nothing else\n",
    });
    let is_listed = |found: &CheckResult| {
        let is_open = matches!(found.outcome, Outcome::Fails | Outcome::Undetermined | Outcome::Reading);
        is_open || study.part.is_some()
    };
    let listed: Vec<_> = findings.claims.iter().filter(|(_, found)| is_listed(found)).collect();
    if listed.is_empty() {
        out.push_str("none\n");
    }
    for (claim, found) in listed {
        let word = outcome_word(claim, found);
        let line = format!("{} ({word}): {}: {}", claim.id, claim.claim, found.description);
        out.push_str(&wrapped(&line, 98));
    }
    out.push('\n');
    out += &summary(study, findings);
    out
}

/// Returns the outcome of a claim. If the claim is not decided by runs of the transports, the kind of evidence follows.
pub(super) fn outcome_word(claim: &Claim, found: &CheckResult) -> String {
    match claim.evidence {
        ClaimEvidence::Transport | ClaimEvidence::Nothing => found.outcome.word().to_owned(),
        other => format!("{} ({})", found.outcome.word(), other.word()),
    }
}

/// Describes the effect of a cause on the whole table, as a sentence that follows another sentence. Empty if the study
/// did not run the whole table with the cause's change.
pub(super) fn whole_table_effect(findings: &Findings, id: &str) -> String {
    let mut all = findings.tables.iter().flat_map(|found| &found.whole_table_effects);
    let effect = all.find(|(known, _)| known == id);
    effect.map_or(String::new(), |(_, effect)| {
        format!(
            " Of the whole table it brings {} near the published values, and {}.",
            cells_in_words(effect.newly_near),
            effect.describe_other_cells()
        )
    })
}

fn cells_in_words(count: usize) -> String {
    if count == 1 { "1 cell".to_owned() } else { format!("{count} cells") }
}

/// Returns the lines that describe the differences from the study as shipped; empty if there are none. The caller
/// prints them before all other output. `also` lists the added contestants.
#[must_use]
pub fn changed(study: &Study, changes: &[Change], also: &[String], first_seed: u64) -> String {
    let mut out = String::new();
    if let CopyStatus::Changed { files, .. } = &study.copy {
        let _ = writeln!(
            out,
            "A changed copy of {}: {} not as shipped. Prose and bounds may be those of the original.",
            study.definition.name,
            if files.len() == 1 { format!("{} is", files[0]) } else { format!("{} are", files.join(", ")) }
        );
    }
    if changes.is_empty() && also.is_empty() {
        return out;
    }
    let one = |change: &Change| match study.stated(change) {
        Some(parameter) => format!("{change} ({}: {})", parameter.is.word(), parameter.value),
        None => change.to_string(),
    };
    let added = also.iter().map(|contestant| format!("{contestant} added"));
    let all: Vec<String> = changes.iter().map(one).chain(added).collect();
    let _ = writeln!(
        out,
        "Changed: {}; seeds from {first_seed} on. Prose and bounds were written for the study without that change.",
        all.join(", ")
    );
    out
}

/// Returns the scores of all readings (interpretations) of the paper. If this run computed no scores, returns the
/// stored scores, or `None` if this run changed assumptions.
pub(super) fn scores<'a>(study: &'a Study, findings: &'a Findings) -> Option<&'a Scores> {
    findings.scores.as_ref().or_else(|| study.stored_scores.scores.as_ref().filter(|_| !findings.changed))
}

/// Returns the sensitivity of the results to the assumptions. If this run did not compute the sensitivity, returns the
/// stored sensitivity, or `None` if this run changed assumptions.
pub(super) fn varied<'a>(study: &'a Study, findings: &'a Findings) -> Option<&'a Sensitivity> {
    findings
        .sensitivity
        .as_ref()
        .or_else(|| study.stored_scores.sensitivity.as_ref().filter(|_| !findings.changed))
}

/// Describes how well the results under each reading (interpretation) of the paper agree with the published values.
/// Also describes how sensitive the results are to the assumptions. Returns one line for each result.
#[must_use]
pub fn robustness(study: &Study, findings: &Findings) -> Vec<String> {
    let mut lines = Vec::new();
    for file in &study.stored_scores.stale {
        lines.push(format!("{file} is of another state of the study and says nothing of this one"));
    }
    if let Some(scores) = scores(study, findings) {
        lines.push(scores.heading());
        lines.extend(scores.lines().into_iter().map(|[what, reading, loss, orders]| {
            let [orders, reading] = [(", ", orders), (": ", reading)]
                .map(|(before, text)| if text.is_empty() { text } else { format!("{before}{text}") });
            format!("error, {what}: {loss}{orders}{reading}")
        }));
    }
    if let Some(found) = varied(study, findings) {
        if let Some(errors) = found.joint_error {
            let [least, median, most] = errors.map(figure);
            lines.push(format!(
                "all assumptions changed at once, {POINTS} points of {SEEDS} seeds: error {least} to {most}, median {median}"
            ));
        }
        let fragile: Vec<String> = found
            .robustness
            .iter()
            .filter(|one| one.is_fragile())
            .map(|one| format!("{} ({} of {})", one.name, one.joint.0, one.joint.1))
            .collect();
        let (firm, all) = (found.robustness.len() - fragile.len(), found.robustness.len());
        let fragile = if fragile.is_empty() { "none".to_owned() } else { fragile.join(", ") };
        lines.push(format!(
            "{firm} of {all} orders and findings hold in {:.0} % of these points or more; fragile: {fragile}",
            FRAGILE * 100.0
        ));
    }
    lines
}

/// Renders the results of studies as a Markdown page: every table and figure, then every claim with the check that
/// decides it.
#[must_use]
pub fn outcomes<'a>(all: impl IntoIterator<Item = (&'a Study, &'a Findings)>) -> String {
    let mut out = String::new();
    for (study, findings) in all {
        let name = &study.definition.name;
        let _ = write!(out, "\n## {name}\n\n{}.\n\n", study.definition.source);
        for line in summary(study, findings).lines().map(str::to_owned).chain(robustness(study, findings)) {
            let _ = writeln!(out, "- {line}");
        }
        out.push_str("\n| in the paper | shows | here |\n|---|---|---|\n");
        for figure in &study.definition.figures {
            let tables = figure.tables.iter().map(|table| format!("`{name}/{table}`"));
            let here: Vec<String> = tables.chain(figure.claims.iter().cloned()).collect();
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                escape_cell(&figure.name),
                escape_cell(&figure.shows),
                here.join(", ")
            );
        }
        out.push_str("\n| claim | says | decided by | outcome |\n|---|---|---|---|\n");
        for (claim, found) in &findings.claims {
            let (says, check) = (escape_cell(&claim.claim), escape_cell(&claim.check));
            let _ = writeln!(out, "| {} | {says} | `{check}` | {} |", claim.id, outcome_word(claim, found));
        }
        out.push_str("\n| cause | kind | what it does |\n|---|---|---|\n");
        for found in findings.causes.iter().filter(|found| !found.cause.planted) {
            let (id, kind) = (&found.cause.id, found.cause.kind().word());
            let fails = if found.is_met() { "" } else { "**fails**: " };
            let sentence = found.sentence() + &whole_table_effect(findings, id);
            let _ = writeln!(out, "| {id} | {kind} | {fails}{} |", escape_cell(&sentence));
        }
    }
    out
}

/// Escapes text for a cell of a Markdown table.
fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Returns the names of the causes that bring a cell near its published value. Exploratory and counterfactual causes
/// explain nothing, and are listed apart. If a cause moves other cells away from their published values, the number of
/// those cells follows.
pub(super) fn named(cell: &PublishedCell, found: &TableResult) -> String {
    let selected = |id: &String| {
        let effect = found.whole_table_effects.iter().find(|(known, _)| known == id);
        match effect.map_or(0, |(_, effect)| effect.no_longer_near.len()) {
            0 => id.clone(),
            some => format!("{id} (takes {some} away)"),
        }
    };
    let explained: Vec<String> = cell.explained.iter().map(selected).collect();
    let others = [("exploratory", &cell.exploratory_causes), ("counterfactual", &cell.counterfactual_causes)];
    let others = others.iter().filter(|(_, ids)| !ids.is_empty());
    let others: Vec<String> = others.map(|(kind, ids)| format!("{kind} {}", ids.join(", "))).collect();
    match (explained.as_slice(), others.as_slice()) {
        (explained, []) => explained.join(", "),
        ([], others) => format!("not explained; near it comes {}", others.join("; ")),
        (explained, others) => format!("{}; near it comes also {}", explained.join(", "), others.join("; ")),
    }
}

/// Renders every published cell with our value.
fn cells(table: &Table, found: &TableResult) -> String {
    let columns: &[String] = table.published.as_ref().map_or(&[], |printed| &printed.columns);
    let width = |column: &String| {
        let labels = found.cells.iter().filter_map(|cell| cell.labels.get(column)).map(String::len);
        labels.chain([column.len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = columns.iter().map(width).collect();
    let definition = &table.definition;
    let mut out =
        format!("\n{}: {}; {}; {}\n\n", table.name, definition.title, definition.source, definition.unit);
    for (column, width) in columns.iter().zip(&widths) {
        let _ = write!(out, "{column:<width$}  ");
    }
    let draws = if definition.averaged == 1 {
        "one run".to_owned()
    } else {
        format!("mean of {}", definition.averaged)
    };
    let _ = writeln!(
        out,
        "{:>9}  {:>9}  {:>6}  {:>13}  {:>19}  {:>8}  verdict",
        "printed", "ours", "ratio", "95 % interval", draws, "runs"
    );
    for cell in &found.cells {
        for (column, width) in columns.iter().zip(&widths) {
            let _ = write!(out, "{:<width$}  ", cell.labels.get(column).map_or("", String::as_str));
        }
        let own_value = cell.ours.map_or("-".to_owned(), figure);
        let ratio =
            cell.ours.map_or("-".to_owned(), |own_value| format!("{:.2}", own_value / cell.published));
        let interval = match cell.ratio {
            Some([low, high]) if low < high => format!("{low:.2}-{high:.2}"),
            _ => "-".to_owned(),
        };
        let range = match (cell.range, cell.is_inside(), cell.is_informative()) {
            (Some([low, high]), Some(inside), informative) if low < high => {
                let sign = if inside { " *" } else { "" };
                let wide = if informative { "" } else { "?" };
                format!("{}-{}{wide}{sign}", figure(low), figure(high))
            }
            _ => "-".to_owned(),
        };
        let (runs, unfinished) = cell.runs;
        let runs = if unfinished == 0 { runs.to_string() } else { format!("{runs} ({unfinished}!)") };
        let evidence = match cell.evidence {
            Evidence::Transport => String::new(),
            other => format!(" ({})", other.word()),
        };
        let causes = named(cell, found);
        let explained = if causes.is_empty() { String::new() } else { format!(": {causes}") };
        let _ = writeln!(
            out,
            "{:>9}  {own_value:>9}  {ratio:>6}  {interval:>13}  {range:>19}  {runs:>8}  {}{evidence}{explained}",
            figure(cell.published),
            cell.verdict.word(),
        );
    }
    let of = if definition.averaged == 1 { "our runs" } else { "such means of our runs" };
    let _ = writeln!(
        out,
        "\n{draws}: the range of 95 % of {of}. * print is inside it; ? it is wider than x2 and says little."
    );
    if found.cells.iter().any(|cell| cell.runs.1 > 0) {
        out.push_str("(n!): runs in which at least one object failed or was not done at the deadline.\n");
    }
    if !found.orders.missed.is_empty() {
        out.push_str(&wrapped(
            &format!("the other way round here: {}", found.orders.not_preserved_in_words()),
            98,
        ));
    }
    out
}

/// Returns a CSV text with one row per published cell.
#[must_use]
pub fn cells_csv(findings: &Findings) -> String {
    let mut rows = vec![
        [
            "table",
            "labels",
            "printed",
            "ours",
            "ratio_low",
            "ratio_high",
            "range_low",
            "range_high",
            "running_low",
            "running_high",
            "inside",
            "runs",
            "unfinished",
            "verdict",
            "evidence",
            "explained_by",
            "perhaps_by",
            "arithmetic",
            "pftk",
            "counterfactual_by",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for found in &findings.tables {
        for (at, cell) in found.cells.iter().enumerate() {
            let model = |model| {
                let one = found.baselines.iter().find(|one| one.model == model);
                optional(one.and_then(|one| one.cells.get(at)?.ours))
            };
            let labels: Vec<_> = cell.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            rows.push(vec![
                found.name.clone(),
                labels.join(" "),
                cell.published.to_string(),
                optional(cell.ours),
                optional(cell.ratio.map(|ratio| ratio[0])),
                optional(cell.ratio.map(|ratio| ratio[1])),
                optional(cell.range.map(|range| range[0])),
                optional(cell.range.map(|range| range[1])),
                optional(cell.running.map(|range| range[0])),
                optional(cell.running.map(|range| range[1])),
                cell.is_inside().map_or("", |inside| if inside { "yes" } else { "no" }).to_owned(),
                cell.runs.0.to_string(),
                cell.runs.1.to_string(),
                cell.verdict.word().to_owned(),
                cell.evidence.word().to_owned(),
                cell.explained.join(" "),
                cell.exploratory_causes.join(" "),
                model(Model::Arithmetic),
                model(Model::Pftk),
                cell.counterfactual_causes.join(" "),
            ]);
        }
    }
    of_rows(&rows)
}

/// Returns a CSV text with one row per claim.
#[must_use]
pub fn claims_csv(findings: &Findings) -> String {
    let mut rows = vec![
        ["id", "place", "kind", "claim", "check", "outcome", "found", "evidence"].map(str::to_owned).to_vec(),
    ];
    for (claim, found) in &findings.claims {
        let fields = [&claim.id, &claim.location, &claim.kind, &claim.claim, &claim.check];
        let mut row: Vec<String> = fields.into_iter().cloned().collect();
        row.extend([found.outcome.word(), &found.description, claim.evidence.word()].map(str::to_owned));
        rows.push(row);
    }
    of_rows(&rows)
}

/// Returns a CSV text with one row per cause.
#[must_use]
pub fn causes_csv(findings: &Findings) -> String {
    let header =
        ["id", "table", "change", "of", "least", "most", "effect", "low", "high", "holds", "kind", "says"];
    let more = ["brings", "takes", "error_without", "error_with"];
    let mut rows = vec![header.into_iter().chain(more).map(str::to_owned).collect::<Vec<_>>()];
    for found in &findings.causes {
        let cause = &found.cause;
        rows.push(vec![
            cause.id.clone(),
            cause.table.clone(),
            cause.change.join(" "),
            cause.of.clone(),
            cause.effect[0].to_string(),
            cause.effect[1].to_string(),
            optional(found.effect.map(|effect| effect.mean)),
            optional(found.effect.map(|effect| effect.interval[0])),
            optional(found.effect.map(|effect| effect.interval[1])),
            if found.holds { "yes" } else { "no" }.to_owned(),
            cause.kind().word().to_owned(),
            found.sentence(),
        ]);
        let mut all = findings.tables.iter().flat_map(|found| &found.whole_table_effects);
        let effect = all.find(|(id, _)| *id == cause.id).map(|(_, effect)| effect);
        let of = |of: fn(&WholeTableEffect) -> String| effect.map_or(String::new(), of);
        if let Some(row) = rows.last_mut() {
            row.extend([
                of(|effect| effect.newly_near.to_string()),
                of(|effect| effect.no_longer_near.join("; ")),
                of(|effect| effect.errors[0].to_string()),
                of(|effect| effect.errors[1].to_string()),
            ]);
        }
    }
    of_rows(&rows)
}

/// Compares the scores of this run with the stored scores, in one line per file. Also returns whether all compared
/// scores are equal. A file is left out if this run or the study has no scores for it. `readings.csv` is also left out
/// if its scores were computed with another number of seeds.
#[must_use]
pub fn compare_with_stored(study: &Study, findings: &Findings) -> (String, bool) {
    let (mut out, mut all) = (String::new(), true);
    let name = &study.definition.name;
    let mut add = |file: &str, same: bool| {
        let word = if same { "is what was scored here" } else { "is NOT what was scored here" };
        let _ = writeln!(out, "{name}/{file}: {word}");
        all &= same;
    };
    let [first, second] = stored_scores::FILES;
    if let Some((now, before)) = findings.scores.as_ref().zip(study.stored_scores.scores.as_ref())
        && now.seeds == before.seeds
    {
        add(first, stored_scores::readings_csv(now) == stored_scores::readings_csv(before));
    }
    if let Some((now, before)) = findings.sensitivity.as_ref().zip(study.stored_scores.sensitivity.as_ref()) {
        add(second, stored_scores::sensitivity_csv(now) == stored_scores::sensitivity_csv(before));
    }
    (out, all)
}

/// Describes in words how well each reading (interpretation) of the paper fits the published values.
#[must_use]
pub fn readings(study: &Study, scores: &Scores) -> String {
    let mut out = format!("\n{}: {}\n", study.definition.name, scores.heading());
    for [what, reading, loss, orders] in scores.lines() {
        let orders = if orders.is_empty() { orders } else { format!(", {orders}") };
        out += &wrapped(&format!("{what}: {loss}{orders} {reading}"), 98);
    }
    out
}

/// Describes in words how sensitive the study's results are to its assumptions.
#[must_use]
pub fn sensitivity(study: &Study, found: &Sensitivity) -> String {
    let name = &study.definition.name;
    let mut out = format!(
        "\n{name}: one assumption changed at a time, and the error of the cells then (rms of ln ours/print)\n"
    );
    for (change, error) in &found.alone {
        let _ = writeln!(out, "  {change:<40} {}", error.map_or("-".to_owned(), figure));
    }
    if let Some([least, median, most]) = found.joint_error {
        let (least, median, most) = (figure(least), figure(median), figure(most));
        let _ = writeln!(
            out,
            "all at once, {POINTS} points of a Latin hypercube of {SEEDS} seeds: error {least} to {most}, median {median}"
        );
    }
    if found.robustness.is_empty() {
        out.push_str("its first table has no order in print and no finding: nothing else to hold\n");
        return out;
    }
    let fragile: Vec<_> = found.robustness.iter().filter(|robustness| robustness.is_fragile()).collect();
    let (firm, all, share) =
        (found.robustness.len() - fragile.len(), found.robustness.len(), FRAGILE * 100.0);
    let rest = if fragile.is_empty() { "none is fragile" } else { "fragile:" };
    let _ = writeln!(
        out,
        "{firm} of {all} orders and findings hold in {share:.0} % of the points or more; {rest}"
    );
    for robustness in fragile {
        let (holds, of) = robustness.joint;
        let broken = if robustness.broken_by.is_empty() {
            "nothing".to_owned()
        } else {
            robustness.broken_by.join(", ")
        };
        out += &wrapped(
            &format!("{}: {holds} of {of} points; alone it is broken by {broken}", robustness.name),
            98,
        );
    }
    out
}

/// Formats a bullet item, wrapped at `width` columns.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::from("  -");
    let mut column = 3;
    for word in text.split_whitespace() {
        if column + 1 + word.chars().count() > width {
            out.push_str("\n   ");
            column = 3;
        }
        out.push(' ');
        out.push_str(word);
        column += 1 + word.chars().count();
    }
    out.push('\n');
    out
}
