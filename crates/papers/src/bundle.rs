//! A study as an artifact for reviewers. The bundle has the study's files and plans, and a script that runs the study
//! again and compares the results. The bundle also has a map from each claim to its command, and a page that describes
//! the expected output. This module writes the texts. The caller writes them to a directory, together with the program
//! and the output of its runs.

use super::check::Check;
use super::shipped::SHIPPED;
use super::{CauseKind, MAIN, Size, Study};
use anabranch_lab::plan;
use anabranch_results::csv::of_rows;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The files that every bundle contains unchanged, as name and text.
pub const PAPERS: [(&str, &str); 4] = [
    ("CITATION.cff", include_str!("../../../CITATION.cff")),
    ("LICENSE-APACHE", include_str!("../../../LICENSE-APACHE")),
    ("LICENSE-MIT", include_str!("../../../LICENSE-MIT")),
    ("data.md", include_str!("../../../docs/data.md")),
];

/// The Unix tools that the script `check.sh` needs in addition to a shell.
const TOOLS: &str = "`cmp`, `dirname`, `grep`, `mkdir`, `mktemp`, `rm` and `sha256sum`";

/// The shell script that runs the study again.
const CHECK: &str = include_str!("check.sh");

/// The command that prints the feature table, for claims about features of the transports.
const FEATURES: &str = "./anabranch features";

/// The maximum number of files that a bundle takes from the folder of a study.
const MOST_FILES: usize = 1_000;

/// How the program in the bundle was built, and for which platform.
#[derive(Clone, Debug)]
pub struct Built<'a> {
    /// The version string of the Rust compiler.
    pub rustc: &'a str,
    /// The platform for which the program was compiled, as a Rust target triple.
    pub target: &'a str,
    /// The version of the program, and the revision of its source.
    pub source: &'a str,
    /// The SHA-256 of the program, in hexadecimal.
    pub sha256: &'a str,
}

/// The files that one run of the study wrote, by their name relative to the output directory.
pub type Outputs = BTreeMap<String, String>;

/// Returns the files of the study with this name. If the name is a folder, returns all files in it that are not hidden.
///
/// # Errors
/// A one-line message if a file cannot be read, or if there is no such study.
pub fn files(name: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
    if !Path::new(name).join(MAIN).is_file() {
        let (_, files) =
            SHIPPED.iter().find(|(known, _)| *known == name).ok_or_else(|| format!("no study '{name}'"))?;
        return Ok(files.iter().map(|(file, text)| ((*file).to_owned(), text.as_bytes().to_vec())).collect());
    }
    let unreadable = |error: std::io::Error| format!("{name}: {error}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(name).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        if file.starts_with('.') || !path.is_file() {
            continue;
        }
        let bytes = plan::file::bytes(&path.to_string_lossy(), plan::file::MAX_PLAN)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        if bytes.len() as u64 > plan::file::MAX_PLAN {
            return Err(format!("{}: more than {} bytes", path.display(), plan::file::MAX_PLAN));
        }
        found.push((file, bytes));
        if found.len() > MOST_FILES {
            return Err(format!("{name}: more than {MOST_FILES} files"));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns an error message if the name of the study or of one of its tables is unsafe in a shell script or as a file
/// name. The message is about the first unsafe name; `None` if all names are safe.
#[must_use]
pub fn not_bundled_reason(study: &Study) -> Option<String> {
    let fits = |name: &&String| {
        !name.is_empty()
            && !name.starts_with(['.', '-'])
            && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
    };
    let mut names = std::iter::once(&study.definition.name).chain(study.tables.iter().map(|t| &t.name));
    let name = names.find(|name| !fits(name))?;
    Some(format!("'{name}': a bundle needs names of letters, digits, '.', '-' and '_' alone"))
}

/// Returns the file name and the text of every table's plan, in the form that `study plan` prints.
///
/// # Errors
/// A one-line message if a plan is wrong, which is a defect of this program.
pub fn plans(study: &Study) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for (folder, size) in [("plans", Size::Full), ("plans/quick", Size::Quick)] {
        for table in &study.tables {
            let draft = table.draft(size.of(table), 1, &[])?;
            let text = toml::to_string(&draft.to_toml()).map_err(|error| error.to_string())?;
            found.push((format!("{folder}/{}.toml", table.name), text));
        }
    }
    Ok(found)
}

/// Returns the text of the script `check.sh`. `full` is set if the bundle also holds the expected output of a run with
/// all seeds.
#[must_use]
pub fn check(study: &Study, full: bool) -> String {
    let tables: Vec<&str> = study.tables.iter().map(|table| table.name.as_str()).collect();
    CHECK
        .replace("@NAME@", &study.definition.name)
        .replace("@TABLES@", &tables.join(" "))
        .replace("@SIZES@", if full { "quick full" } else { "quick" })
}

/// Returns the text of `map.csv`. It has a row for each table, figure, claim and cause. A row gives the command that
/// prints our results, and the file of the bundle that has the expected results. The rows of claims and causes also
/// give the outcomes, with few seeds (`quick`) and with all seeds (`full`).
#[must_use]
pub fn map(study: &Study, quick: &Outputs, full: Option<&Outputs>) -> String {
    let name = &study.definition.name;
    let header =
        ["kind", "id", "place", "says", "decided_by", "command", "quick", "full", "file", "evidence"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let file = |file: &str| format!("expected/quick/{name}/{file}");
    // Returns the command that prints our results for `tables`, next to the published values.
    let show = |tables: &[&str]| {
        let tables: String = tables.iter().map(|table| format!(" --table {table}")).collect();
        format!("./anabranch study run studies/{name} --quick{tables}")
    };
    for table in &study.tables {
        let definition = &table.definition;
        let row = [
            "table",
            &table.name,
            &definition.source,
            &definition.title,
            &definition.metric.name(),
            &show(&[&table.name]),
            "",
            "",
            &file(&format!("tables/{}.csv", table.name)),
            "",
        ];
        rows.push(row.map(str::to_owned).to_vec());
    }
    for figure in &study.definition.figures {
        let of_claims = study.claims.iter().filter(|claim| figure.claims.contains(&claim.id));
        let mut tables: Vec<&str> = figure.tables.iter().map(String::as_str).collect();
        tables.extend(of_claims.flat_map(|claim| study.tables_of(claim)));
        tables.sort_unstable();
        tables.dedup();
        let command = if tables.is_empty() { FEATURES.to_owned() } else { show(&tables) };
        let of = file(if figure.tables.is_empty() { "claims.csv" } else { "cells.csv" });
        let claims = figure.claims.join(" ");
        let row = ["figure", &figure.name, "", &figure.shows, &claims, &command, "", "", &of, ""];
        rows.push(row.map(str::to_owned).to_vec());
    }
    let outcomes = |of: &str, column: &str| {
        [Some(quick), full]
            .map(|outputs| outputs.and_then(|outputs| outputs.get(&format!("{name}/{of}"))))
            .map(|text| text.map(|text| by_id(text, column)).unwrap_or_default())
    };
    let outcomes_by_claim = outcomes("claims.csv", "outcome");
    for claim in &study.claims {
        let tables = study.tables_of(claim);
        let mut commands: Vec<String> = Vec::new();
        commands.extend((!tables.is_empty()).then(|| show(&tables)));
        let has_feature = claim.checks().any(|check| matches!(check, Check::Feature { .. }));
        commands.extend(has_feature.then(|| FEATURES.to_owned()));
        let [quick, full] =
            outcomes_by_claim.each_ref().map(|outcomes| outcomes.get(&claim.id).cloned().unwrap_or_default());
        let [id, place, says, check] =
            [&claim.id, &claim.location, &claim.claim, &claim.check].map(Clone::clone);
        let commands = commands.join("; ");
        rows.push(vec![
            "claim".to_owned(),
            id,
            place,
            says,
            check,
            commands,
            quick,
            full,
            file("claims.csv"),
            claim.evidence.word().to_owned(),
        ]);
    }
    let holds = outcomes("causes.csv", "holds");
    for cause in &study.causes {
        let kind = match cause.kind() {
            CauseKind::Planted => "planted cause",
            CauseKind::Counterfactual => "counterfactual",
            CauseKind::Exploratory => "exploratory cause",
            CauseKind::Finding => "cause",
        };
        let word = |yes: &str| match (yes, cause.planted) {
            ("yes", _) => "holds",
            ("no", true) => "refuted, as it must be",
            ("no", false) => "fails",
            _ => "",
        };
        let [quick, full] =
            holds.each_ref().map(|holds| word(holds.get(&cause.id).map_or("", String::as_str)).to_owned());
        let [low, high] = cause.effect;
        let bounds = format!("effect on {} in {low}..{high}", cause.of);
        let [id, table, says] = [&cause.id, &cause.table, &cause.says].map(Clone::clone);
        let command = show(&[&cause.table]);
        let mut row =
            vec![kind.to_owned(), id, table, says, bounds, command, quick, full, file("causes.csv")];
        row.push(String::new());
        rows.push(row);
    }
    of_rows(&rows)
}

/// Returns the values of one column of a CSV text, by the value of the column `id` in the same line.
fn by_id(text: &str, column: &str) -> BTreeMap<String, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let at = |name: &str, header: &csv::StringRecord| header.iter().position(|other| other == name);
    let Some((id, value)) =
        reader.headers().ok().and_then(|header| Some((at("id", header)?, at(column, header)?)))
    else {
        return BTreeMap::new();
    };
    let records = reader.records().map_while(Result::ok);
    records.filter_map(|row| Some((row.get(id)?.to_owned(), row.get(value)?.to_owned()))).collect()
}

/// Returns the text of the bundle's `README.md`. It tells a reviewer how to check the study in ten minutes with few
/// seeds, or in full with all seeds. It also says what the output must be and what the files contain.
#[must_use]
pub fn readme(study: &Study, built: &Built<'_>, quick: &Outputs, full: bool) -> String {
    let definition = &study.definition;
    let name = &definition.name;
    let Built { rustc, target, source, sha256 } = built;
    let mut out = format!(
        "# The study {name}, to be checked\n\n\
         {} ({}). {}\n\n\
         anabranch runs it again in a virtual network; `studies/{name}/page.md` says what comes out, and what threatens it.\n\n\
         ## First check: at most ten minutes\n\n\
         On {target}, in this directory. It needs a POSIX shell (`sh`) and the tools {TOOLS}, which GNU coreutils,\n\
         diffutils and grep have, or busybox:\n\n\
         ```sh\nsh check.sh\n```\n\n\
         It compares the files here with `SHA256SUMS`, prints the plans and runs the study with few seeds, and compares both,\n\
         byte for byte, with `plans` and `expected/quick`. The last line must be `all the same`, the exit code 0; a line that\n\
         begins with `DIFFERS` names what is not the same, and the exit code is 1. It writes below `$TMPDIR` alone, and takes\n\
         that away again. No network is used, and no right.\n\n\
         The run says (`expected/quick/outcomes.md`):\n\n",
        definition.title, definition.source, definition.question
    );
    let outcomes = quick.get("outcomes.md").map_or("", String::as_str);
    for line in outcomes.lines().filter(|line| line.starts_with("- ")) {
        let _ = writeln!(out, "{line}");
    }
    out += "\n## With all seeds\n\n";
    out += &if full {
        "`sh check.sh --full` also runs all seeds and compares with `expected/full`.\n".to_owned()
    } else {
        format!(
            "`./anabranch study run studies/{name} --out DIR` runs all seeds. What that gives is not in this bundle \
             (`study bundle --full`\nputs it there).\n"
        )
    };
    let _ = write!(
        out,
        "\n| table | seeds of a quick run | of a full run |\n|---|---|---|\n{}",
        study.tables.iter().fold(String::new(), |mut rows, table| {
            let definition = &table.definition;
            let (quick, full) = (definition.quick_runs, definition.runs);
            let upto = |last| if last == 1 { "1".to_owned() } else { format!("1 to {last}") };
            let _ = writeln!(rows, "| `{}` | {} | {} |", table.name, upto(quick), upto(full));
            rows
        })
    );
    let _ = write!(
        out,
        "\nWhere nothing is drawn from the seed, one run is all.\n\n\
         ## What lies where\n\n\
         | file | holds |\n|---|---|\n\
         | `anabranch` | the program; SHA-256 {sha256} |\n\
         | `studies/{name}/` | the study: printed numbers, parameters with their origin, plans, claims, causes, page |\n\
         | `plans/`, `plans/quick/` | the plan of each table, which `./anabranch race FILE` runs to the same numbers |\n\
         | `map.csv` | each table, figure, claim and cause: the command that prints the numbers that are compared, what comes of it, and where that stands |\n\
         | `expected/quick/{name}/` | cells, claims and causes with few seeds, as CSV, all that was measured (`tables/`), and the page with its charts (`study.html`) |\n\
         | `expected/quick/printed.txt`, `exit-code.txt` | what the command prints, and its exit code (1: a cause is not as the study says) |\n\
         | `data.md` | who made each file of data, and its licence |\n\
         | `CITATION.cff`, `LICENSE-MIT`, `LICENSE-APACHE` | how to cite it; its licence: either |\n\
         | `SHA256SUMS` | the digest of every other file |\n\n\
         ## Change an assumption\n\n\
         `./anabranch study show studies/{name}` lists the parameters. Each can be another one, for one run or in the study's files:\n\n\
         ```sh\n./anabranch study run studies/{name} --quick --set rtt=160ms\n```\n\n\
         ## What it was built by\n\n\
         anabranch {source}, {rustc}, for {target}. Every run follows from source and seeds, whatever the machine: a\n\
         program built from the same source elsewhere gives the same runs. Intervals and means take `ln` and `exp` from the\n\
         system's C library: with another one a last digit may differ, and `check.sh` then says in which file. The source's\n\
         `Containerfile` builds the program with a pinned compiler and locked dependencies.\n"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that every claim of every study has a row in the map. The row must have a command if runs decide the
    /// claim, and must have none otherwise.
    #[test]
    fn the_map_has_every_claim_with_its_command() {
        for name in super::super::names() {
            let study = super::super::open(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(not_bundled_reason(&study), None);
            let quick = Outputs::from([(
                format!("{name}/claims.csv"),
                "id,outcome\no13,holds\ns01,fails\n".to_owned(),
            )]);
            let map = map(&study, &quick, None);
            let mut reader = csv::Reader::from_reader(map.as_bytes());
            let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
            for claim in &study.claims {
                let row = rows.iter().find(|row| row[0] == *"claim" && row[1] == claim.id);
                let row = row.unwrap_or_else(|| panic!("{name}: {}", claim.id));
                let undecidable = claim.checks().all(|check| matches!(check, Check::Undecidable(_)));
                assert_eq!(row[5].is_empty(), undecidable, "{name}: {row:?}");
                let outcome = match claim.id.as_str() {
                    "o13" => "holds",
                    "s01" => "fails",
                    _ => "",
                };
                assert_eq!(&row[6], outcome);
            }
            assert_eq!(plans(&study).expect("plans").len(), 2 * study.tables.len());
            let check = check(&study, false);
            for tool in TOOLS.split('`').skip(1).step_by(2) {
                assert!(check.contains(&format!("{tool} ")), "check.sh needs no {tool}");
            }
            assert!(!check.contains('@') && check.contains(&format!("studies/{name}")), "{check}");
        }
    }
}
