//! Requests and answers, as JSON. An answer is `{"ok": …}` or `{"error": "one line"}`.

use crate::lab::{Lab, Part};
use crate::tables;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A request of the page.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// The tables that the page's forms are made of.
    Tables,
    /// Reads a plan, and forgets the one before.
    Plan {
        /// Flags of the command line without their dashes, and their values.
        flags: Vec<(String, String)>,
        /// A plan file or a page, by its name in the file system of the program.
        file: Option<String>,
    },
    /// Carries out a run.
    Run {
        /// The number of the run, from 0.
        job: usize,
    },
    /// Takes over a run that another worker carried out.
    Add {
        /// The number of the run.
        job: usize,
        /// The answer of the other worker.
        answer: Answered,
    },
    /// The answer of the race so far, from the first seeds only.
    State {
        /// The number of seeds.
        seeds: usize,
    },
    /// The runs of a point, for another worker that will carry out experiments.
    Export {
        /// The number of the point, from 0.
        point: usize,
        /// The number of seeds.
        seeds: usize,
    },
    /// Carries out a part of the experiments at a point.
    Explain {
        /// The number of the point, from 0.
        point: usize,
        /// The number of seeds.
        seeds: usize,
        /// The part.
        part: Part,
        /// The point of another worker, if this worker does not hold the runs.
        from: Option<Box<Answered>>,
    },
    /// Takes over a part of the experiments that another worker carried out.
    Explained {
        /// The number of the point, from 0.
        point: usize,
        /// The number of seeds.
        seeds: usize,
        /// The answer of the other worker.
        answer: Box<Answered>,
    },
    /// Runs one contestant with one seed at a point after a change. The answer is a time.
    Try {
        /// The number of the point, from 0.
        point: usize,
        /// The change as the experiments name it, for example `loss=0`.
        change: String,
        /// The number of the contestant, from 0.
        contestant: usize,
        /// The number of the seed, from 0.
        seed: usize,
    },
    /// Takes over the times after a change, with all seeds of the race.
    Tried {
        /// The number of the point, from 0.
        point: usize,
        /// The change.
        change: String,
        /// For each contestant the times of all seeds.
        times: Vec<Vec<serde_json::Value>>,
    },
    /// Completes the race with the experiments taken over, and writes `results.json`, `report.html`, `objects.csv` and
    /// `table.txt` to `/out`.
    Results {
        /// Whether the captures and the page loads of the median runs are written as well.
        captures: bool,
    },
    /// One run with all its objects and packets, to be drawn.
    Draw {
        /// The number of the point, from 0.
        point: usize,
        /// The number of the contestant, from 0.
        contestant: usize,
        /// The seed.
        seed: u64,
    },
}

/// What another worker answered. Only the answers that are passed on have fields here.
#[derive(Debug, Default, Deserialize)]
pub struct Answered {
    /// The content of an answer without error.
    pub ok: serde_json::Value,
}

/// Carries out a request, and returns its answer as JSON.
pub fn answer(lab: &mut Lab, request: &str) -> String {
    let request = match serde_json::from_str(request) {
        Ok(request) => request,
        Err(error) => return refusal(&format!("the request is not understood: {error}")),
    };
    let done = match request {
        Request::Tables => Ok(reply(&tables::all())),
        Request::Plan { flags, file } => lab.plan(&flags, file.as_deref()).map(|facts| reply(&facts)),
        Request::Run { job } => lab.run(job).map(|runs| reply(&runs)),
        Request::Add { job, answer } => lab.add(job, answer.ok).map(|()| reply(&())),
        Request::State { seeds } => lab.state(seeds).map(|state| reply(&state)),
        Request::Export { point, seeds } => lab.export(point, seeds).map(|point| reply(&point)),
        Request::Explain { point, seeds, part, from } => {
            lab.explain(point, seeds, part, from.map(|from| from.ok)).map(|found| reply(&found))
        }
        Request::Explained { point, seeds, answer } => {
            lab.explained(point, seeds, answer.ok).map(|()| reply(&()))
        }
        Request::Try { point, change, contestant, seed } => {
            lab.try_change(point, &change, contestant, seed).map(|time| reply(&time))
        }
        Request::Tried { point, change, times } => lab.tried(point, change, &times).map(|()| reply(&())),
        Request::Results { captures } => lab.results(captures).map(|files| reply(&files)),
        Request::Draw { point, contestant, seed } => {
            lab.draw(point, contestant, seed).map(|drawn| reply(&drawn))
        }
    };
    done.unwrap_or_else(|line| refusal(&line))
}

fn reply<T: Serialize>(content: &T) -> String {
    match serde_json::to_string(content) {
        Ok(text) => format!("{{\"ok\":{text}}}"),
        Err(error) => refusal(&format!("the answer cannot be written: {error}")),
    }
}

/// Returns the answer to a request that cannot be carried out.
#[must_use]
pub fn refusal(line: &str) -> String {
    json!({ "error": line }).to_string()
}
