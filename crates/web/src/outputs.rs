//! The files of a race, equal to those of the command line but for the field `host` of `results.json` and the last digit
//! of some statistics in it: the C library of WebAssembly rounds logarithms in another way.

use anabranch_lab::plan::Plan;
use anabranch_lab::run::{batch, files, one};
use anabranch_report::table::{self, Style};
use anabranch_report::{Captured, Input, PageContext};
use anabranch_results::{Race, Run, csv, json};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;

/// Where the files are written. The page reads them there.
const DIRECTORY: &str = "/out";

/// A plan and where it came from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The flags of the plan, without their dashes, and their values.
    pub flags: &'a [(String, String)],
    /// The plan file or the page.
    pub file: Option<&'a str>,
}

/// Writes the files of a race, and returns their names. With `captures`, these are the files of `--out`.
///
/// # Errors
/// One line if a file cannot be written, or if a repeated run gives another result.
pub fn write(source: Source<'_>, race: &Race, captures: bool) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut add = |name: String, content: &[u8]| -> Result<(), String> {
        fs::write(format!("{DIRECTORY}/{name}"), content)
            .map_err(|error| format!("{name}: cannot be written: {error}"))?;
        names.push(name);
        Ok(())
    };
    let mut drawn = Vec::new();
    if captures {
        for point in 0..race.points.len() {
            of_point(source, race, point, &mut add, &mut drawn)?;
        }
    }
    let protocols = crate::transports();
    let protocols = protocols.protocols();
    let terms =
        race.points.iter().map(|point| table::terms(point, &protocols, &anabranch_report::names(point)));
    let terms: Vec<Vec<String>> = terms.collect();
    let inputs = inputs(source, race);
    let command = command(source.flags, source.file);
    let context = PageContext { command: &command, inputs: &inputs, terms: &terms, captures: &drawn };
    add("report.html".to_owned(), anabranch_report::html(race, &context).as_bytes())?;
    add("table.txt".to_owned(), table::render(race, Style::default(), &protocols).as_bytes())?;
    add("objects.csv".to_owned(), csv::render(race).as_bytes())?;
    add("results.json".to_owned(), json::render(race).as_bytes())?;
    Ok(names)
}

/// The number of points whose packets the report draws, as on the command line.
const DRAWN_POINTS: usize = 4;

/// Writes the page load and the capture of the median run of each contestant at a point.
fn of_point(
    source: Source<'_>,
    race: &Race,
    p: usize,
    add: &mut dyn FnMut(String, &[u8]) -> Result<(), String>,
    drawn: &mut Vec<Captured>,
) -> Result<(), String> {
    let (plan, point) = (source.plan, &race.points[p]);
    let workload = &plan.points[p].workload;
    let prefix = if race.points.len() > 1 { format!("point-{}.", p + 1) } else { String::new() };
    for (a, (contestant, name)) in point.contestants.iter().zip(files::names(point, &prefix)).enumerate() {
        let seed = contestant.median_seed;
        let Some(run) = contestant.runs.iter().find(|run| run.seed == seed) else { continue };
        if workload.bulk.is_none() && workload.messages.is_none() {
            let comment = format!("{}, seed {seed}, {}", contestant.label(), point.network);
            let text = files::page_load(&workload.page, &contestant.settings, run, &comment);
            add(format!("{name}.seed-{seed}.har"), text.as_bytes())?;
        }
        let (alone, index) = if plan.together { (None, a) } else { (Some(a), 0) };
        let (runs, captured) = one::capture(&batch::scenario(plan, p, alone, seed))?;
        // A run that another worker carried out lacks what result files leave out, so the texts are compared.
        let text = |run: Option<&Run>| serde_json::to_string(&run).unwrap_or_default();
        if text(runs.get(index)) != text(Some(run)) {
            return Err(format!("{name}, seed {seed}: the run with captures differs from the run without"));
        }
        for host in captured.into_iter().filter(|host| host.contestant == index) {
            if files::is_kept(&host.host, workload.servers()) {
                add(format!("{name}.seed-{seed}.{}.pcapng.gz", host.host), &packed(&host.pcapng)?)?;
                for log in &host.logs {
                    add(format!("{name}.seed-{seed}.{}", log.name), &log.content)?;
                }
            }
            if host.host == "server" && p < DRAWN_POINTS {
                drawn.extend(Captured::at_server(&host.pcapng, host.course, (p, a), seed));
            }
        }
    }
    Ok(())
}

fn packed(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let done = packed.write_all(bytes).and_then(|()| packed.finish());
    done.map_err(|error| format!("cannot compress a file: {error}"))
}

/// Returns the files that the plan names, as the command line lists them.
fn inputs(source: Source<'_>, race: &Race) -> Vec<Input> {
    let mut names: Vec<&str> = source.file.into_iter().collect();
    for key in ["page", "trace", "down-trace", "up-trace"] {
        match race.plan.get(key) {
            Some(serde_json::Value::String(name)) => names.push(name),
            Some(serde_json::Value::Array(all)) => names.extend(all.iter().filter_map(|name| name.as_str())),
            _ => {}
        }
    }
    let mut inputs: Vec<Input> = Vec::new();
    for name in names {
        if inputs.iter().all(|known| known.name != name) {
            inputs.extend(input(name));
        }
    }
    inputs
}

/// Returns name, size and digest of a file; `None` for a page that comes with the program.
fn input(name: &str) -> Option<Input> {
    let content = fs::read(name).ok()?;
    let mut sha256 = String::new();
    for byte in Sha256::digest(&content) {
        let _ = write!(sha256, "{byte:02x}");
    }
    Some(Input { name: name.to_owned(), bytes: content.len() as u64, sha256 })
}

/// Returns the command that runs the same race.
#[must_use]
pub fn command(flags: &[(String, String)], file: Option<&str>) -> String {
    let quoted = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%@+".contains(c);
        let is_plain = !text.is_empty() && text.chars().all(plain);
        if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
    };
    let mut arguments = vec!["anabranch race".to_owned()];
    arguments.extend(file.map(quoted));
    arguments.extend(flags.iter().map(|(flag, value)| format!("--{flag} {}", quoted(value))));
    arguments.join(" ")
}
