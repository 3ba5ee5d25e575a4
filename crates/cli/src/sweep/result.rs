//! Writes the outputs of a sweep whose points are all complete: results.json, the report and the table. Only one point
//! at a time is in memory.

use super::Tally;
use super::directory::Directory;
use crate::files::{self, PendingFile};
use crate::out;
use crate::race::{RaceOutputs, ResultFormat};
use crate::{Completion, Failure, complain, say};
use anabranch_lab::plan::population;
use anabranch_lab::sweep::{Manifest, PointRecord};
use anabranch_report::people::page;
use anabranch_report::{Captured, PageContext, compare, table};
use anabranch_results::{Changed, Point, Race, Series, changes, csv, json};
use anabranch_transports::Transports;
use std::fs;
use std::io::Write;

/// The destination of the results in one format.
enum Sink {
    File(PendingFile),
    Stdout,
}

impl Sink {
    fn write(&mut self, text: &str) -> Result<(), Failure> {
        match self {
            Self::File(file) => file.write(text.as_bytes()),
            Self::Stdout => say(text),
        }
    }
}

/// Writes all outputs. `results.json` is published last. Its existence therefore means that all other outputs exist.
pub fn write(directory: &Directory, outputs: RaceOutputs<'_>) -> Result<Completion, Failure> {
    let (style, to_stdout) = (outputs.style(), outputs.to_stdout());
    let warnings = outputs.unprinted(&directory.manifest.warnings);
    let mut sinks =
        vec![(ResultFormat::Json, Sink::File(PendingFile::new(&directory.path.join("results.json"))?))];
    sinks.extend(to_stdout.map(|kind| (kind, Sink::Stdout)));
    sinks.extend(outputs.reserved.into_iter().map(|(kind, file)| (kind, Sink::File(file))));
    let mut send = |target: ResultFormat, text: &str| {
        sinks.iter_mut().filter(|(kind, _)| *kind == target).try_for_each(|(_, sink)| sink.write(text))
    };
    let mut drawn = Drawn::of(directory);
    let mut tally = Tally::new(directory, style);
    let mut compared = String::new();
    let mut factors: Vec<String> = Vec::new();
    let frame = directory.manifest.frame();
    let format = outputs.json_format;
    let results = results_by_medians(directory)?;
    send(ResultFormat::Json, &json::around_points(&frame, format).0)?;
    for number in directory.numbers() {
        let mut record = read(directory, number)?;
        if !results.is_empty() {
            let neighbors = changes::of_neighbors(&directory.manifest.factors, &results, number - 1);
            record.point.changes.splice(..0, neighbors);
        }
        tally.add(&record, outputs.transports);
        let point = record.point;
        if number == 1 {
            factors = csv::factors(Some(&point)).into_iter().map(str::to_owned).collect();
        }
        let factors: Vec<&str> = factors.iter().map(String::as_str).collect();
        if number == 1 {
            send(ResultFormat::Csv, &csv::header(&factors))?;
        }
        send(ResultFormat::Json, &json::point(&point, number == 1, format))?;
        send(ResultFormat::Csv, &csv::rows(&factors, &point))?;
        if let Some(old) = &outputs.baseline {
            compared += &compare::point(old, &point);
        }
        if tally.people.is_none() {
            drawn.add(directory, number, point, outputs.transports);
        }
    }
    let whole = Race { expectations: tally.expectations.clone(), ..frame };
    send(ResultFormat::Json, &json::around_points(&whole, format).1)?;
    let mut filled = Vec::new();
    for (_, sink) in sinks {
        if let Sink::File(file) = sink {
            filled.push(file.done()?);
        }
    }
    let html = match &tally.people {
        Some(people) => {
            let sources = population::sources(directory.manifest.populations());
            Some(page::html(people, &directory.manifest.command, &sources))
        }
        None => drawn.html(whole, &directory.manifest),
    };
    match html {
        Some(html) => {
            let report = PendingFile::new(&directory.path.join("report.html"))?;
            filled.push(report.fill(html.as_bytes())?);
        }
        None => complain(&format!("no report.html: it is drawn of {MOST_DRAWN} points at most")),
    }
    filled.reverse();
    files::publish(filled)?;
    files::settle(&directory.path)?;
    let mut shown = tally.text(&warnings);
    if outputs.baseline.is_some() {
        shown += &format!("\n{}", compare::table(&compared));
    }
    if to_stdout.is_some() {
        let _ = std::io::stderr().write_all(shown.as_bytes());
    } else {
        say(&shown)?;
    }
    Ok(tally.done())
}

/// Reads the stored result of a point.
fn read(directory: &Directory, number: usize) -> Result<PointRecord, Failure> {
    let missing = || Failure::Usage(format!("'{}': point {number} is not done", directory.path.display()));
    directory.read(number)?.ok_or_else(missing)
}

/// Returns, for each point of the sweep, the result that follows from the medians of its runs, so that neighboring
/// points can be compared. Returns an empty list if the plan has a population, or no factor that such comparisons
/// cover.
fn results_by_medians(directory: &Directory) -> Result<Vec<Changed>, Failure> {
    let manifest = &directory.manifest;
    if manifest.populations().next().is_some() || !changes::has_neighbors(&manifest.factors) {
        return Ok(Vec::new());
    }
    directory.numbers().map(|number| Ok(Changed::none(&read(directory, number)?.point))).collect()
}

/// The maximum total size of the point files, in compressed bytes, for which the report draws the objects and bytes of
/// all runs. Above this size, it draws them only for the median run of each contestant.
const WHOLE_BYTES: u64 = 16 << 20;
/// The maximum number of points in a sweep for which `report.html` is written. Sweeps over a population have a report
/// of their own, whatever their size.
const MOST_DRAWN: usize = 400;

/// The maximum size in bytes of a capture that the report draws packet by packet.
const MOST_PACKETS: u64 = 256 << 20;

/// The parts of the result that the report draws.
struct Drawn {
    points: Vec<Point>,
    terms: Vec<Vec<String>>,
    captures: Vec<Captured>,
    whole: bool,
    any: bool,
}

impl Drawn {
    fn of(directory: &Directory) -> Self {
        let bytes: u64 = directory.numbers().map(|number| directory.size(number)).sum();
        let (whole, any) = (bytes <= WHOLE_BYTES, directory.count() <= MOST_DRAWN);
        Self { points: Vec::new(), terms: Vec::new(), captures: Vec::new(), whole, any }
    }

    fn add(&mut self, directory: &Directory, number: usize, mut point: Point, transports: &Transports) {
        if !self.any {
            return;
        }
        self.terms.push(table::terms(&point, &transports.protocols(), &anabranch_report::names(&point)));
        if number <= out::DRAWN_POINTS {
            for (index, contestant) in point.contestants.iter().enumerate() {
                // Without `--pcap` there is no capture, so the report draws no packets of this contestant.
                let capture = directory.capture(number, &point, index);
                if fs::metadata(&capture).map_or(0, |file| file.len()) > MOST_PACKETS {
                    continue;
                }
                let Ok(packets) = fs::read(capture).and_then(|packed| out::unpacked(&packed)) else {
                    continue;
                };
                let course = fs::read_to_string(directory.course(number, &point, index)).unwrap_or_default();
                let course = serde_json::from_str(&course).unwrap_or_default();
                let point_and_contestant = (number - 1, index);
                self.captures.extend(Captured::at_server(
                    &packets,
                    course,
                    point_and_contestant,
                    contestant.median_seed,
                ));
            }
        }
        if !self.whole {
            for contestant in &mut point.contestants {
                let median = contestant.median_seed;
                for run in contestant.runs.iter_mut().filter(|run| run.seed != median) {
                    (run.objects, run.series) = (Vec::new(), Series::default());
                }
            }
        }
        self.points.push(point);
    }

    fn html(self, frame: Race, manifest: &Manifest) -> Option<String> {
        let mut race = Race { points: self.points, ..frame };
        if !self.whole {
            race.warnings.push(
                "this report draws objects and bytes of each contestant's median run alone; results.json has those of \
                 all runs"
                    .to_owned(),
            );
        }
        let (command, inputs) = (manifest.command.as_str(), manifest.files.as_slice());
        let page_context = PageContext { command, inputs, terms: &self.terms, captures: &self.captures };
        self.any.then(|| anabranch_report::html(&race, &page_context))
    }
}
