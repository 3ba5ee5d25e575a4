//! Runs every test case with every peer and prints the matrix of results. Each peer has its own namespaces, and all
//! peers run in parallel. Failed cases are repeated one at a time.

use super::cases::{self, Case};
use super::encounter::our_addresses;
use super::path_emulator::{EmulatedWorld, PathEmulator};
use super::peer_network::PeerNetwork;
use super::{Column, PeerStack, TRIES, is_chosen, with_try};
use anabranch_base::time::Duration;
use anabranch_world::World;
use anabranch_world::os::{self, Options};
use std::fmt::Write as _;
use std::future::poll_fn;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::task::Poll;

/// The result of one test case with one peer: a cell of the matrix.
#[derive(Clone, Debug)]
pub struct Cell {
    /// True if the case passed. Also true if the case failed because of a known fault of the peer, or needs a feature
    /// that the peer lacks.
    pub good: bool,
    /// The text of the cell in the matrix.
    pub text: String,
    /// The reason of a failure; empty if the result is good.
    pub why: String,
}

/// Runs the test cases that `chosen` names with one peer, in network namespaces, and prints a line for each case.
/// `attempt` counts from 1. It is part of the names of the capture files, so that a new attempt overwrites none.
///
/// # Errors
/// The peer's network cannot be created.
pub fn column(column: Column, chosen: &str, attempt: usize) -> io::Result<()> {
    let mut network = PeerNetwork::open(column)?;
    if network.guest().is_some() {
        booted(&mut network)?;
    }
    for (number, case) in Case::ALL.into_iter().enumerate() {
        if !is_chosen(number, &case.to_string(), chosen) {
            continue;
        }
        let (verdict, note) = match case.lacked_by(column) {
            Some(what) => ("lacks", what.to_owned()),
            None => match one(case, &mut network, attempt) {
                Ok(note) => ("ok", note),
                Err(why) => ("fails", why),
            },
        };
        println!("{number}\t{verdict}\t{}", note.replace('\n', " "));
    }
    Ok(())
}

fn booted(network: &mut PeerNetwork) -> io::Result<()> {
    let Some(guest) = network.guest() else { return Ok(()) };
    let booted = os::run(Options::default(), async |world| {
        let mut timer = world.timer();
        anabranch_world::Timer::set(&mut timer, Some(world.now() + Duration::from_secs(60)));
        poll_fn(|cx| {
            loop {
                match guest.borrow_mut().poll_line(cx) {
                    Poll::Ready(Some(line)) if line == "booted" => return Poll::Ready(true),
                    Poll::Ready(Some(_)) => {}
                    Poll::Ready(None) => return Poll::Ready(false),
                    Poll::Pending => return anabranch_world::Timer::poll(&mut timer, cx).map(|()| false),
                }
            }
        })
        .await
    })?;
    if booted { Ok(()) } else { Err(io::Error::other("the guest does not boot")) }
}

fn one(case: Case, network: &mut PeerNetwork, attempt: usize) -> Result<String, String> {
    let path = PathEmulator::new(1);
    let captures =
        PathBuf::from(std::env::var_os("FIELD_CAPTURES").unwrap_or_else(|| std::env::temp_dir().into()));
    let name = format!("{}-{case}", network.column).replace(['/', ' ', ',', ':', '%'], "-");
    let capture = captures.join(format!("{name}{}.pcapng", capture_suffix(attempt)));
    path.capture(&capture).map_err(|error| format!("{}: {error}", capture.display()))?;
    let options = Options { addresses: our_addresses(case.is_v6()), seed: Some(1), ..Options::default() };
    let outcome = os::run(options, async |world| {
        let emulated_world =
            EmulatedWorld::new(world, path.clone()).secured(network.column.carrier.is_secure());
        cases::run(case, emulated_world, network).await
    });
    path.end_capture();
    let outcome = outcome.map_err(|error| error.to_string()).and_then(|outcome| outcome);
    if outcome.is_ok() && std::env::var_os("FIELD_KEEP").is_none() {
        let _ = std::fs::remove_file(&capture);
    }
    outcome.map_err(|why| format!("{why} [{}]", capture.display()))
}

/// Returns the suffix of a capture file's name. A new attempt has another suffix, so it does not overwrite the capture
/// of a failed attempt.
#[must_use]
pub fn capture_suffix(attempt: usize) -> String {
    if attempt == 1 { String::new() } else { format!("-try-{attempt}") }
}

/// Starts a process that runs the test cases of one peer in separate namespaces.
fn start(column: Column, chosen: &str, attempt: usize) -> io::Result<Child> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]).arg(std::env::current_exe()?);
    command.args(["column", &column.to_string(), chosen, &attempt.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
}

/// Reads the results of the test cases with one peer from the standard output of `child`, until `child` has ended.
/// Stores each result in `cells`.
fn collect(
    mut child: Child,
    column: Column,
    attempt: usize,
    cells: &mut [Option<Cell>],
    failed: &mut impl FnMut(&str),
) -> io::Result<()> {
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            let mut parts = line.splitn(3, '\t');
            let (Some(Ok(number)), Some(verdict), Some(note)) =
                (parts.next().map(str::parse::<usize>), parts.next(), parts.next())
            else {
                continue;
            };
            if let (Some(slot), Some(&case)) = (cells.get_mut(number), Case::ALL.get(number)) {
                let cell = cell(case, column, verdict, note, attempt);
                if !cell.why.is_empty() {
                    failed(&format!("{case} with {column}, try {attempt} of {TRIES}: {}", cell.why));
                }
                *slot = Some(cell);
            }
        }
    }
    child.wait().map(|_| ())
}

/// Runs the test cases that `chosen` selects with all peers of `kinds`. Passes each line of the result table to `row`,
/// and each failed attempt to `failed`. A failed case is repeated alone, up to [`TRIES`] attempts in all. Returns
/// whether every result is good in the end.
///
/// # Errors
/// A peer's process cannot be started.
pub fn matrix(
    kinds: &[PeerStack],
    chosen: &str,
    mut row: impl FnMut(&str),
    mut failed: impl FnMut(&str),
) -> io::Result<bool> {
    let columns: Vec<_> = Column::ALL.into_iter().filter(|column| kinds.contains(&column.kind)).collect();
    let mut cells: Vec<Vec<Option<Cell>>> = vec![vec![None; Case::ALL.len()]; columns.len()];
    let running: Vec<_> =
        columns.iter().map(|&column| start(column, chosen, 1)).collect::<io::Result<_>>()?;
    for ((child, &column), cells) in running.into_iter().zip(&columns).zip(&mut cells) {
        collect(child, column, 1, cells, &mut failed)?;
    }
    let cases: Vec<_> = Case::ALL.into_iter().enumerate().map(|(at, case)| (at, case.to_string())).collect();
    let cases: Vec<_> = cases.into_iter().filter(|(at, name)| is_chosen(*at, name, chosen)).collect();
    for attempt in 2..=TRIES {
        for (&column, cells) in columns.iter().zip(&mut cells) {
            let again = cases.iter().filter(|(at, _)| !cells[*at].as_ref().is_some_and(|cell| cell.good));
            let again: Vec<_> = again.map(|(at, _)| at.to_string()).collect();
            if !again.is_empty() {
                let child = start(column, &format!("#{}", again.join(",")), attempt)?;
                collect(child, column, attempt, cells, &mut failed)?;
            }
        }
    }
    let heads: String = columns.iter().map(|column| format!("{:<26}", column.to_string())).collect();
    row(format!("{:<36}{heads}", "").trim_end());
    let mut green = true;
    for (at, name) in cases {
        let mut line = format!("{name:<36}");
        for cells in &cells {
            green &= cells[at].as_ref().is_some_and(|cell| cell.good);
            let _ = write!(line, "{:<26}", cells[at].as_ref().map_or("not run", |cell| &cell.text));
        }
        row(line.trim_end());
    }
    Ok(green)
}

fn cell(case: Case, column: Column, verdict: &str, note: &str, attempt: usize) -> Cell {
    let known = case.fault(column).filter(|(_, sign)| note.contains(sign));
    let good = |text: String| Cell { good: true, text, why: String::new() };
    match (verdict, known) {
        ("lacks", _) => good(note.to_owned()),
        ("ok", _) => match with_try(note, attempt) {
            note if note.is_empty() => good("ok".to_owned()),
            note => good(format!("ok, {note}")),
        },
        (_, Some((number, _))) => good(with_try(&format!("[{number}]"), attempt)),
        _ => Cell { good: false, text: "FAILS".to_owned(), why: note.to_owned() },
    }
}
