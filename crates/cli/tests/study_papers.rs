//! Tests that a new run of each paper's study gives the stored results.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run};
use crate::study::study;
use anabranch_base::testing::are_slow_tests_enabled;
use expect_test::expect_file;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Our packets must match the published packet table: in each row, the packet must have the same sender and the same
/// chunk type. The same three packets must be retransmissions in our packets and in the table. With `UPDATE_EXPECT=1`,
/// the test writes the file of expected packets.
#[test]
fn the_packet_table_is_met_row_by_row() {
    let scratch = Scratch::new("study-packets");
    let plan = run(&mut study(&scratch, &["plan", "alternative-transport/trace"]));
    fs::write(scratch.0.join("plan.toml"), plan.stdout).expect("written");
    let raced =
        run(anabranch().current_dir(&scratch.0).args(["race", "plan.toml", "--quiet", "--out", "out"]));
    // The published table has 16 rows, one per packet. The plan's deadline ends the run after these packets. The
    // transfer is then incomplete, so the exit code of `race` is not 0.
    assert!(scratch.0.join("out/sctp-1.seed-1.server.pcapng.gz").is_file(), "{}", errors(&raced));
    let decoded = run(anabranch().current_dir(&scratch.0).args([
        "decode",
        "out/sctp-1.seed-1.server.pcapng.gz",
        "--ladder=20",
    ]));
    let text = String::from_utf8_lossy(&decoded.stdout).into_owned();
    // Each line of the ladder diagram has five columns: the time, `A`, the direction, `B`, and the packet's contents.
    let cells = text.lines().filter_map(|line| {
        let (time, rest) = line.trim().split_once("  A  ")?;
        let (arrow, what) = rest.split_once(" B   ")?;
        let from = if arrow.contains('►') { "client" } else { "server" };
        let (kind, rest) = what.split_once("  ").unwrap_or((what, ""));
        let tsn = rest.trim().strip_prefix("tsn=").and_then(|rest| rest.split(' ').next());
        let again = rest.contains('↻').then(|| tsn.map(str::to_owned)).flatten();
        Some((time.parse::<f64>().ok()?, from, kind.replace(' ', "_"), again))
    });
    let cells: Vec<_> = cells.take(16).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/alternative-transport/packets.csv");
    let stored = fs::read_to_string(path).expect("packets.csv");
    let head: Vec<&str> = stored.lines().take(2).collect();
    let printed: Vec<Vec<&str>> = stored.lines().skip(2).map(|line| line.split(',').collect()).collect();
    assert_eq!((cells.len(), printed.len()), (16, 16), "{text}");
    let mut lines = head.iter().map(|line| format!("{line}\n")).collect::<String>();
    for (row, (at, from, kind, again)) in printed.iter().zip(&cells) {
        assert_eq!(
            (row[1], row[2], !row[5].is_empty()),
            (*from, kind.as_str(), again.is_some()),
            "{row:?}: {text}"
        );
        lines += &format!("{},{},{},{},{at:.6},{}\n", row[0], row[1], row[2], row[3], row[5]);
    }
    expect_file!["../../../studies/alternative-transport/packets.csv"].assert_eq(&lines);
    // The server's second to fourth data packets are retransmitted. In the paper, these packets appear twice.
    let again: Vec<&str> = cells.iter().filter_map(|one| one.3.as_deref()).collect();
    assert_eq!(again, ["2", "3", "4"], "{text}");
}

/// The study that was never scored, because no published value belongs to it.
const NEVER_SCORED: &str = "today";

/// The scores that are stored with a study must have been computed from its current plans, published values and
/// readings. A reading is a set of choices for what the paper leaves open. If the cheapest study is scored again, its
/// scores must not change.
#[test]
fn stored_scores_belong_to_the_current_plans() {
    if !are_slow_tests_enabled() {
        return;
    }
    for name in anabranch_papers::names() {
        let study = anabranch_papers::open(name).expect(name);
        assert_eq!(
            study.stored_scores.stale, [""; 0],
            "{name}: score it again: study run {name} --quick --readings --sensitivity"
        );
        let [scored, varied] =
            [study.stored_scores.scores.is_some(), study.stored_scores.sensitivity.is_some()];
        // Every study except [`NEVER_SCORED`] must have stored scores and a stored sensitivity analysis.
        assert_eq!([!scored, !varied], [name == NEVER_SCORED; 2], "{name}");
    }
    let scratch = Scratch::new("study-kept");
    let arguments = ["run", "alternative-transport", "--quick", "--quiet", "--readings"];
    let output = run(&mut study(&scratch, &arguments));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success()
            && stdout.contains("alternative-transport/readings.csv: is what was scored here\n"),
        "{stdout}"
    );
}

/// Runs all studies in the quick size, and compares the results with the documents. docs/outcomes.md must give the
/// outcomes of this run for every table, figure, claim and cause. The studies' `page.md` and docs/papers.md must quote
/// the numbers of this run. Every cause must have the effect that its study expects. Each cause in `CHARTS` must have a
/// chart and a row in docs/papers.md.
#[test]
fn the_outcomes_that_are_written_down_are_those_of_a_run() {
    if !are_slow_tests_enabled() {
        return;
    }
    let scratch = Scratch::new("study-all");
    let output = run(&mut study(&scratch, &["run", "--all", "--quick", "--quiet", "--out", "all"]));
    let outcomes = fs::read_to_string(scratch.0.join("all/outcomes.md")).expect("outcomes");
    expect_file!["../../../docs/outcomes.md"].assert_eq(&format!("{OUTCOMES}{outcomes}"));
    for name in anabranch_papers::names() {
        let page = fs::read_to_string(scratch.0.join("all").join(name).join("page.md")).expect("a page");
        expect_file![format!("../../../studies/{name}/page.md")].assert_eq(&page);
    }
    assert!(
        output.status.success(),
        "a cause is not as its study says: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    let papers = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers.md"));
    let papers = papers.expect("docs/papers.md");
    let (prose, _) = papers.split_once(EVERY).expect("the map in docs/papers.md");
    let map: String = PAPERS.map(|name| map_of(name, &scratch.0.join("all"))).concat();
    expect_file!["../../../docs/papers.md"].assert_eq(&format!("{prose}{EVERY}{map}"));
    let html = fs::read_to_string(scratch.0.join("all/ha-2005/study.html")).expect("a page");
    for part in ["<h3>figure 8", "<h3>figure 11", "bytes/s, each", "packets, each", "SHUTDOWN COMPLETE"] {
        assert!(html.contains(part), "ha-2005 draws no '{part}'");
    }
    for (question, name, causes) in CHARTS {
        let html = fs::read_to_string(scratch.0.join("all").join(name).join("study.html")).expect("a page");
        for cause in causes {
            let chart = html
                .split_once(&format!("<div id=\"change-{cause}\">"))
                .unwrap_or_else(|| panic!("{cause}"))
                .1;
            let chart = chart.split_once("</figure>").expect("a figure").0;
            assert!(chart.contains("<svg") && chart.contains("<circle"), "{question}: {name}: {cause}");
            let row = papers.lines().find(|line| line.starts_with(&format!("| {question} |")));
            let row = row.unwrap_or_else(|| panic!("docs/papers.md has no row for {question}"));
            assert!(row.contains(&format!("`{cause}`")), "docs/papers.md: {question}: {cause}");
        }
    }
}

/// The studies of the five papers, in the order of docs/papers.md.
const PAPERS: [&str; 5] =
    ["osterdahl-2005", "sasikala-2008", "ha-2005", "rajamani-2002", "alternative-transport"];

/// The start of the part of docs/papers.md that this test writes.
const EVERY: &str = "## Every table, figure and claim\n\n\
     Each row has the flags with which its study's command runs the deciding tables, and the outcome with few seeds.\n\
     What a claim says, and the check that decides it, stands in [outcomes](outcomes.md).\n";

/// A study's tables, figures and claims, each with its command and outcome, as `study bundle` writes them to `map.csv`.
fn map_of(name: &str, all: &Path) -> String {
    let study = anabranch_papers::open(name).expect(name);
    let read = |file: &str| fs::read_to_string(all.join(name).join(file)).expect(file);
    let outputs = ["claims.csv", "causes.csv"].map(|file| (format!("{name}/{file}"), read(file)));
    let map = anabranch_papers::bundle::map(&study, &outputs.into(), None);
    let verdicts = verdicts_of(&read("cells.csv"));
    let command = format!("anabranch study run {name} --quick");
    let outcomes = fs::read_to_string(all.join("outcomes.md")).expect("outcomes");
    let headline = format!("- {name}: what is evidence: ");
    let mut lines = outcomes.lines();
    let evidence = lines.find_map(|line| line.strip_prefix(&headline)).expect("a headline");
    let held_out = lines.find_map(|line| line.strip_prefix("- error, held out: ")).expect("a held-out error");
    let (_, factor) = held_out.split_once('(').expect("a factor");
    let (factor, _) = factor.split_once(')').expect("the end of a factor");
    let mut out = format!(
        "\n### {name}\n\nWhat is evidence: {evidence}. Held-out error: {factor}.\n\n`{command}`, with:\n\n| what | in the paper | with | outcome |\n|---|---|---|---|\n"
    );
    for row in csv::Reader::from_reader(map.as_bytes()).records() {
        let row = row.expect("a row");
        let [kind, id, location, check, commands, outcome, evidence] =
            [0, 1, 2, 4, 5, 6, 9].map(|column| row[column].replace('|', "\\|"));
        let with =
            commands.replace("./", "").replace(&format!("anabranch study run studies/{name} --quick "), "");
        let with = if with.is_empty() { "".to_owned() } else { format!("`{with}`") };
        let (subject, location, outcome) = match &*kind {
            "table" => {
                let definition = &study.table(&id).expect("its table").definition;
                let other = match (&definition.beside, &definition.repeats) {
                    (Some(instrument), _) => format!("of {instrument}, not of print: "),
                    (None, Some(first)) => format!("the cells of {first} again: "),
                    (None, None) if definition.exploratory => "exploratory: ".to_owned(),
                    (None, None) => String::new(),
                };
                let verdicts = verdicts.get(&*id).map(|verdicts| other + verdicts);
                (format!("table {id}"), location, verdicts.unwrap_or("no published value".to_owned()))
            }
            "figure" if check.is_empty() => ("shown there".to_owned(), id, "those of its tables".to_owned()),
            "figure" => ("shown there".to_owned(), id, format!("by {check}")),
            "claim" if ["", "transport"].contains(&&*evidence) => (id, location, outcome),
            "claim" => (id, location, format!("{outcome} ({evidence})")),
            _ => continue,
        };
        out += &format!("| {subject} | {location} | {with} | {outcome} |\n");
    }
    out
}

/// Returns, for each table, a text with the number of cells of each verdict. Cells that are evidence come first.
/// Arithmetic and calibrated cells follow, and each kind is counted separately.
fn verdicts_of(cells: &str) -> BTreeMap<String, String> {
    let mut rows = csv::Reader::from_reader(cells.as_bytes());
    let header = rows.headers().expect("a header").clone();
    let [table, verdict, evidence] = ["table", "verdict", "evidence"]
        .map(|name| header.iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}")));
    let mut counts: BTreeMap<(String, usize), BTreeMap<String, usize>> = BTreeMap::new();
    let kinds = ["transport", "arithmetic", "calibrated"];
    for row in rows.records() {
        let row = row.expect("a row");
        let kind = kinds.iter().position(|kind| *kind == &row[evidence]).expect("a kind of evidence");
        let of_kind = counts.entry((row[table].to_owned(), kind)).or_default();
        *of_kind.entry(row[verdict].to_owned()).or_default() += 1;
    }
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    for ((table, kind), counts) in counts {
        let word = |verdict: &str, count| {
            if count == 1 { verdict.to_owned() } else { verdict.trim_end_matches('s').to_owned() }
        };
        let counts = counts.iter().map(|(verdict, count)| format!("{count} {}", word(verdict, *count)));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let kind = if kind == 0 { String::new() } else { format!("no evidence, {}: ", kinds[kind]) };
        let line = lines.entry(table).or_default();
        let between = if line.is_empty() { "" } else { "; " };
        line.push_str(&format!("{between}{kind}{counts}"));
    }
    lines
}

/// The rows of a table in docs/papers.md. Each entry has a question, the study that answers it, and the causes in this
/// study whose charts show the answer.
const CHARTS: [(&str, &str, &[&str]); 8] = [
    ("RTO.min", "osterdahl-2005", &["rto-min"]),
    ("Head-of-line blocking", "rajamani-2002", &["one-stream"]),
    ("Pipelining", "sasikala-2008", &["sctp-pipelining", "tcp-pipelining"]),
    ("Arrivals", "osterdahl-2005", &["arrivals"]),
    ("The half-duplex gain", "ha-2005", &["half-duplex-gain"]),
    ("The spurious retransmission", "alternative-transport", &["longer-timer"]),
    ("Bytes or packets", "sasikala-2008", &["window", "chunk-cap"]),
    ("File 0", "rajamani-2002", &["file-0-order"]),
];

const OUTCOMES: &str = "# Outcomes of the studies\n\n\
     What `anabranch study run --all --quick --out DIR` writes to `DIR/outcomes.md`: every table and figure of the five\n\
     papers with what redoes it, every claim with what decides it and what came of it, and every finding with its effect.\n\
     `today`, at the end, is a study of our own: it is of no paper, and its claims are what we expected.\n\
     A test runs it again and compares. With all seeds (without `--quick`) intervals are narrower, so that less is\n\
     undetermined. [The five papers](papers.md) is the way in; [study](guide/study.md) says what the words mean.\n";
