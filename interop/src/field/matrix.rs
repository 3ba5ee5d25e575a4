//! Every case with every peer, each peer in namespaces of its own and all of
//! them side by side, and the matrix of it.

use super::cases::{self, Case};
use super::encounter::our_addresses;
use super::place::Place;
use super::road::{Field, Road};
use super::{Column, Kind};
use anabranch_base::time::Duration;
use anabranch_world::World;
use anabranch_world::os::{self, Options};
use std::fmt::Write as _;
use std::future::poll_fn;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::task::Poll;

/// What came of a case with a peer.
#[derive(Clone, Debug)]
pub struct Cell {
    /// It holds, or fails by the peer's fault, or the peer lacks it.
    pub good: bool,
    /// What stands in the matrix.
    pub text: String,
    /// Why it does not hold.
    pub why: String,
}

/// Tries the cases that `chosen` names with one peer, inside namespaces of this process's own; a line for each.
///
/// # Errors
/// The peer's place cannot be made.
pub fn column(column: Column, chosen: &str) -> io::Result<()> {
    let mut place = Place::open(column)?;
    if place.guest().is_some() {
        booted(&mut place)?;
    }
    for (number, case) in Case::ALL.into_iter().enumerate() {
        if !case.to_string().contains(chosen) {
            continue;
        }
        let (verdict, note) = match case.lacked_by(column) {
            Some(what) => ("lacks", what.to_owned()),
            None => match one(case, &mut place) {
                Ok(note) => ("ok", note),
                Err(why) => ("fails", why),
            },
        };
        println!("{number}\t{verdict}\t{}", note.replace('\n', " "));
    }
    Ok(())
}

fn booted(place: &mut Place) -> io::Result<()> {
    let Some(guest) = place.guest() else { return Ok(()) };
    let said = os::run(Options::default(), async |world| {
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
    if said { Ok(()) } else { Err(io::Error::other("the guest does not boot")) }
}

fn one(case: Case, place: &mut Place) -> Result<String, String> {
    let road = Road::new(1);
    let captures =
        PathBuf::from(std::env::var_os("FIELD_CAPTURES").unwrap_or_else(|| std::env::temp_dir().into()));
    let name = format!("{}-{case}.pcapng", place.column).replace(['/', ' ', ',', ':', '%'], "-");
    let capture = captures.join(name);
    road.capture(&capture).map_err(|error| format!("{}: {error}", capture.display()))?;
    let options = Options { addresses: our_addresses(), seed: Some(1) };
    let outcome = os::run(options, async |world| {
        let field = Field::new(world, road.clone());
        cases::run(case, field, place).await
    });
    road.end_capture();
    let outcome = outcome.map_err(|error| error.to_string()).and_then(|outcome| outcome);
    if outcome.is_ok() && std::env::var_os("FIELD_KEEP").is_none() {
        let _ = std::fs::remove_file(&capture);
    }
    outcome.map_err(|why| format!("{why} [{}]", capture.display()))
}

/// The whole matrix, a line at a time to `row`; whether it is green.
///
/// # Errors
/// A peer's process cannot be started.
pub fn matrix(
    kinds: &[Kind],
    chosen: &str,
    mut row: impl FnMut(&str),
    mut failed: impl FnMut(&str),
) -> io::Result<bool> {
    let myself = std::env::current_exe()?;
    let columns: Vec<_> = Column::ALL.into_iter().filter(|column| kinds.contains(&column.kind)).collect();
    let mut running = Vec::new();
    for column in &columns {
        let mut command = Command::new("unshare");
        command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]).arg(&myself);
        command.args(["column", &column.to_string(), chosen]);
        running.push(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    }
    let mut cells: Vec<Vec<Option<Cell>>> = vec![vec![None; columns.len()]; Case::ALL.len()];
    for (at, child) in running.iter_mut().enumerate() {
        let Some(stdout) = child.stdout.take() else { continue };
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            let mut parts = line.splitn(3, '\t');
            let (Some(Ok(number)), Some(verdict), Some(note)) =
                (parts.next().map(str::parse::<usize>), parts.next(), parts.next())
            else {
                continue;
            };
            if let (Some(cells), Some(&case)) = (cells.get_mut(number), Case::ALL.get(number)) {
                let cell = cell(case, columns[at], verdict, note);
                if !cell.why.is_empty() {
                    failed(&format!("{case} with {}: {}", columns[at], cell.why));
                }
                cells[at] = Some(cell);
            }
        }
        child.wait()?;
    }
    let heads: String = columns.iter().map(|column| format!("{:<24}", column.to_string())).collect();
    row(format!("{:<34}{heads}", "").trim_end());
    let mut green = true;
    for (case, cells) in Case::ALL.into_iter().zip(cells) {
        if !case.to_string().contains(chosen) {
            continue;
        }
        let mut line = format!("{:<34}", case.to_string());
        for cell in cells {
            green &= cell.as_ref().is_some_and(|cell| cell.good);
            let _ = write!(line, "{:<24}", cell.map_or("not run".to_owned(), |cell| cell.text));
        }
        row(line.trim_end());
    }
    Ok(green)
}

fn cell(case: Case, column: Column, verdict: &str, note: &str) -> Cell {
    let known = case.fault(column).filter(|(_, sign)| note.contains(sign));
    match (verdict, known) {
        ("lacks", _) => Cell { good: true, text: note.to_owned(), why: String::new() },
        ("ok", _) if note.is_empty() => Cell { good: true, text: "ok".to_owned(), why: String::new() },
        ("ok", _) => Cell { good: true, text: format!("ok, {note}"), why: String::new() },
        (_, Some((number, _))) => Cell { good: true, text: format!("[{number}]"), why: String::new() },
        _ => Cell { good: false, text: "FAILS".to_owned(), why: note.to_owned() },
    }
}
