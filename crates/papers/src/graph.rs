//! Graphs of single runs, as the figures of a paper show them. `study.toml` lists them as `[[graph]]`.

use super::bench::StudyError;
use super::cause::Seeds;
use super::{Study, Table};
use anabranch_lab::plan::Plan;
use anabranch_lab::run::batch::{self, Options, RaceError};
use anabranch_lab::run::{one, sequence};
use anabranch_report::graph::{Graph, Panel};
use anabranch_results::label::shown;
use anabranch_results::{Directions, PathSeries, Run};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A figure of the paper that shows single runs, and the runs of ours that are drawn in the same way.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphDefinition {
    /// The figure of the paper, and what it shows.
    pub figure: String,
    /// The table whose plan is run.
    pub table: String,
    /// The names of the contestants that are drawn. If the list is empty, all contestants are drawn.
    #[serde(default)]
    pub contestants: Vec<String>,
    /// The levels of the table's factors at which the drawn run is made.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// The quantities and sequences that are drawn.
    pub draws: Vec<Drawn>,
}

/// A quantity or a sequence that a graph draws.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drawn {
    /// The bytes per second of both directions together, including headers.
    Throughput,
    /// The number of packets in each interval, of both directions together.
    Packets,
    /// The packets as arrows between client and server.
    Messages,
}

/// The maximum number of time intervals in a graph. A longer run has longer intervals.
const MOST_INTERVALS: usize = 200;

/// The maximum number of lines in a message sequence.
const MOST_MESSAGES: usize = 60;

impl GraphDefinition {
    /// Returns an error message if the study does not have the table or a contestant of the graph.
    pub(super) fn wrong(&self, study: &Study) -> Option<String> {
        let Some(table) = study.table(&self.table) else { return Some(format!("no table '{}'", self.table)) };
        let names = table.names();
        let unknown = self.contestants.iter().find(|name| !names.contains(name))?;
        Some(format!("{} has no contestant '{unknown}'; it has {}", self.table, names.join(", ")))
    }
}

impl Study {
    /// Runs and draws the graphs of the study. Graphs of tables that this study does not have are left out.
    ///
    /// # Errors
    /// [`StudyError`] if a plan cannot be run, or cannot be changed as requested.
    pub fn graphs(&self, seeds: &Seeds<'_>, options: &Options<'_>) -> Result<Vec<Graph>, StudyError> {
        let mut graphs = Vec::new();
        for definition in &self.definition.graphs {
            if let Some(table) = self.table(&definition.table) {
                graphs.push(graph(definition, table, seeds, options)?);
            }
        }
        Ok(graphs)
    }
}

fn graph(
    definition: &GraphDefinition,
    table: &Table,
    seeds: &Seeds<'_>,
    options: &Options<'_>,
) -> Result<Graph, StudyError> {
    let draft = table.draft(1, seeds.first, &seeds.changes_of(table, &[]))?;
    let points = table.table_points(&draft, &definition.at, None, seeds.transports)?;
    let [point, ..] = points.as_slice() else {
        return Err(format!("{}: no point has {:?}", table.name, definition.at).into());
    };
    let mut plan = point.plan.clone();
    plan.seeds.truncate(1);
    let is_drawn = |name: &String| definition.contestants.is_empty() || definition.contestants.contains(name);
    let has = |drawn: Drawn| definition.draws.contains(&drawn);
    let (mut panels, mut sequences) = (Vec::new(), Vec::new());
    if has(Drawn::Messages) {
        for (index, name) in table.names().iter().enumerate().filter(|(_, name)| is_drawn(name)) {
            sequences.push((name.clone(), messages(&plan, index).map_err(RaceError::Run)?));
        }
    }
    if has(Drawn::Throughput) || has(Drawn::Packets) {
        if !plan.together {
            let names = table.names();
            let mut own = names.iter().map(is_drawn);
            plan.contestants.retain(|_| own.next().unwrap_or(true));
        }
        let races = batch::races(&[&plan], options)?;
        let contestants = races.iter().flat_map(|race| &race.points).flat_map(|point| &point.contestants);
        let runs = contestants
            .filter_map(|contestant| Some((shown(&contestant.name).to_owned(), contestant.runs.first()?)));
        let runs: Vec<(String, &Run)> = runs.filter(|(name, _)| is_drawn(name)).collect();
        if has(Drawn::Throughput) {
            panels.push(panel("bytes/s", &runs, |series| &series.wire, true));
        }
        if has(Drawn::Packets) {
            panels.push(panel("packets", &runs, |series| &series.packets, false));
        }
    }
    let levels: Vec<String> = point.factors.iter().map(|(key, level)| format!(", {key} {level}")).collect();
    Ok(Graph {
        figure: definition.figure.clone(),
        scope: format!("Table {}: {}{}", table.name, table.definition.title, levels.concat()),
        panels,
        sequences,
    })
}

/// Returns the message sequence chart of one contestant, as its client sees the packets.
fn messages(plan: &Plan, contestant: usize) -> Result<String, String> {
    let alone = (!plan.together).then_some(contestant);
    let index = if plan.together { contestant } else { 0 };
    let seed = plan.seeds.first().copied().unwrap_or(1);
    let (_, captures) = one::capture(&batch::scenario(plan, 0, alone, seed))?;
    let client = captures.iter().find(|captured| captured.contestant == index && captured.host == "client");
    let client = client.ok_or("a run without a client")?;
    sequence::of_client(client, MOST_MESSAGES).map_err(|error| error.to_string())
}

/// Returns the part of a graph that shows a quantity over time, summed over all paths and both directions.
fn panel(
    unit: &str,
    runs: &[(String, &Run)],
    of: impl Fn(&PathSeries) -> &Vec<u64>,
    per_second: bool,
) -> Panel {
    let all = |run: &Run| -> Vec<u64> {
        let mut sums: Vec<u64> = Vec::new();
        for Directions { up, down } in &run.series.paths {
            for values in [of(up), of(down)] {
                sums.resize(sums.len().max(values.len()), 0);
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        sums
    };
    let sums: Vec<Vec<u64>> = runs.iter().map(|(_, run)| all(run)).collect();
    let longest = sums.iter().map(Vec::len).max().unwrap_or(0);
    let buckets = longest.div_ceil(MOST_INTERVALS).max(1);
    let bucket_ns = runs.first().map_or(0, |(_, run)| run.series.bucket_ns);
    let interval = buckets as f64 * bucket_ns as f64 / 1e9;
    let scale = if per_second { interval } else { 1.0 };
    let line = |sums: &Vec<u64>| -> Vec<f64> {
        sums.chunks(buckets).map(|chunk| chunk.iter().sum::<u64>() as f64 / scale).collect()
    };
    let lines = runs.iter().zip(&sums).map(|((name, _), sums)| (name.clone(), line(sums))).collect();
    Panel { unit: unit.to_owned(), interval, lines }
}
