//! A long mixed load over links that lose packets and fail: checks that memory does not grow, that nothing gets stuck,
//! and that the counters add up.
//!
//!     (cd .. && cargo build --profile dist) && cargo run --release --bin soak [-- SECONDS [LOSS]]
//!
//! The defaults are 1800 seconds and 2% loss. The program needs network namespaces, because it runs `anabranch link`.
//!
//! `serve` is behind `link` with two paths. The paths are down in turn, each for four of every twenty seconds. Five
//! loads run in parallel. One fetches objects of 1 kB over SCTP on many streams. Two fetch objects of 100 kB, one over
//! SCTP and one over TCP. Both open a new session after every five objects. Two fetch objects of 2 MB, again one over
//! SCTP and one over TCP. Together the loads use about half of what the better path carries.
//!
//! About once a second, the allocated memory (`VmData`) and the resident memory (`RssAnon`) of each process are read. A
//! line is fitted to the readings of each measure, without the first fifth of the time. The times of the readings are
//! random. Readings at regular times would drift relative to the periods of the system, and this drift would look like
//! growth. These periods are 0.7 s (`serve` returns memory), 2 s (the sessions of `serve`) and 20 s (the outages).
//!
//! These conditions must hold, otherwise the exit code is 1:
//! - no process grows: at least one of its two fitted lines rises by less than 256 kB, or by less than the noise (the
//!   standard deviation of the readings around the line). A leak makes both lines rise. Without a leak, the line of the
//!   resident memory may rise alone: the receive buffers of a UDP socket (2 MiB) are allocated at once, but become
//!   resident page by page over hours;
//! - there are no errors and as many replies as requests, each reply has the size of its file, and the server's log
//!   agrees;
//! - every load gets a reply at least once a minute, and all processes end in time.

#![cfg(target_os = "linux")]

use anabranch_base::Rng;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One load that runs for the whole test: its name, its URL and file, and its flags.
struct Load {
    name: &'static str,
    url: &'static str,
    file: &'static str,
    mode: &'static str,
}

const LOADS: [Load; 5] = [
    Load { name: "streams", url: SCTP, file: "small", mode: "--rate 50/s -c 4 --streams 20" },
    Load { name: "pages", url: SCTP, file: "middle", mode: "--rate 0.5/s --objects-per-session 5" },
    Load { name: "large", url: SCTP, file: "large", mode: "-c 1" },
    Load { name: "tcp-pages", url: TCP, file: "middle", mode: "--rate 0.5/s --objects-per-session 5" },
    // The request rate of this load is limited. On hosts that use BBR for TCP, the load would otherwise leave no
    // bandwidth to the SCTP loads, whose congestion control slows down after losses.
    Load { name: "tcp-large", url: TCP, file: "large", mode: "--rate 0.2/s -c 1" },
];
// The URL names all addresses of the server, so that an INIT on a path that is down is sent to the next address.
const SCTP: &str = "http+sctp://$ANABRANCH_FAR:9899";
const TCP: &str = "http://$FAR:8080";
const FILES: [(&str, u64); 3] = [("small", 1_000), ("middle", 100_000), ("large", 2_000_000)];
/// The length of the period, in seconds, in which each path is down for four seconds. The second path is down half a
/// period after the first.
const OUTAGE_PERIOD: u64 = 20;
/// The maximum interval between two readings of the memory, in milliseconds.
const MAX_SAMPLE_INTERVAL_MS: u64 = 2000;
/// The number of observed processes: `link`, `serve`, and one for each load.
const PROCESSES: usize = 2 + LOADS.len();
/// The longest time, in seconds, that a load may go without a reply.
const STUCK: u64 = 60;
/// A process may always grow by this number of kB. Larger growth is allowed only if it is smaller than the noise of the
/// readings.
const SLACK_KB: f64 = 256.0;

fn main() {
    let mut words = std::env::args().skip(1);
    let seconds: u64 = words.next().map_or(1800, |word| word.parse().expect("seconds"));
    let loss = words.next().unwrap_or_else(|| "2%".to_owned());
    let program = fs::canonicalize("../target/dist/anabranch");
    let program = program.expect("run this in benches/, after cargo build --profile dist in the root");
    let folder = std::env::temp_dir().join(format!("anabranch-soak-{}", std::process::id()));
    fs::create_dir_all(folder.join("site")).expect("a directory");
    for (name, size) in FILES {
        let bytes: Vec<u8> = (0..size as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(folder.join("site").join(name), bytes).expect("a file");
    }
    let well = soak(&program, &folder, seconds, &loss);
    if well {
        let _ = fs::remove_dir_all(&folder);
    } else {
        println!("what the programs wrote: {}", folder.display());
    }
    std::process::exit(i32::from(!well));
}

fn soak(program: &Path, folder: &Path, seconds: u64, loss: &str) -> bool {
    let mut child = start(program, folder, seconds, loss);
    let mut memory = Memory::default();
    let started = now();
    // The time limit of `link` is longer than the loads: sessions that are still open must first time out, and `link`
    // waits for all processes.
    let most = Duration::from_secs(seconds + 3 * STUCK);
    let (mut next, mut gaps) = (started, Rng::new(1));
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break Some(status);
        }
        if now() - started > most {
            break None;
        }
        if now() >= next {
            memory.sample(child.id(), (now() - started).as_secs_f64());
            next += Duration::from_millis(gaps.below(MAX_SAMPLE_INTERVAL_MS));
        }
        pause();
    };
    let mut well = true;
    let mut must = |holds: bool, what: String| {
        println!("{} {what}", if holds { "ok  " } else { "FAIL" });
        well &= holds;
    };
    if status.is_none() {
        let _ = child.kill();
    }
    must(status.is_some(), format!("everything has ended, after {} s", (now() - started).as_secs()));
    let mut answered: BTreeMap<&str, u64> = BTreeMap::new();
    for load in &LOADS {
        let text = fs::read_to_string(folder.join(format!("{}.json", load.name))).unwrap_or_default();
        let Ok(json) = serde_json::from_str::<Value>(&text) else {
            must(false, format!("{}: there is no report", load.name));
            continue;
        };
        *answered.entry(load.file).or_default() += count(&json, "/replies/status/2xx");
        for (holds, what) in tallies(&json, load, seconds) {
            must(holds, format!("{}: {what}", load.name));
        }
    }
    let served = served(&folder.join("served"));
    for (file, _) in FILES {
        let (received, logged) =
            (answered.get(file).copied().unwrap_or(0), served.get(file).copied().unwrap_or(0));
        must(
            received == logged,
            format!("{file}: {received} replies were taken, {logged} stand in the server's log"),
        );
    }
    let seen = memory.samples.len();
    must(seen == PROCESSES, format!("{seen} processes were looked at, of {PROCESSES}"));
    for (holds, what) in memory.verdicts() {
        must(holds, what);
    }
    well
}

/// Starts the command `link`, with the server at its far end and the loads at its near end.
fn start(program: &Path, folder: &Path, seconds: u64, loss: &str) -> Child {
    let own = program.display();
    let mut behind = String::from("FAR=${ANABRANCH_FAR%%,*};");
    for Load { name, url, file, mode: how } in &LOADS {
        behind += &format!(
            " {own} load {url}/{file} {how} --duration {seconds}s --timeout {STUCK}s --quiet --json {name}.json \
             >{name}.txt 2>&1 &"
        );
    }
    behind += " wait";
    let far = format!("exec {own} serve site --listen tcp://*:8080 --listen sctp://*:9899 >served");
    let mut command = Command::new(program);
    command.current_dir(folder).args(["link", "--far", &far]);
    for (rate, rtt) in [("30mbit", "20ms"), ("15mbit", "50ms")] {
        command.args(["--path", &format!("rate={rate},rtt={rtt},loss={loss}")]);
    }
    for turn in 0..seconds / OUTAGE_PERIOD {
        for path in 1..=2 {
            let at = turn * OUTAGE_PERIOD + 3 + (path - 1) * OUTAGE_PERIOD / 2;
            command.args(["--fail", &format!("path={path},at={at}s,for=4s")]);
        }
    }
    command.args(["--", "sh", "-c", &behind]).stdin(Stdio::null()).spawn().expect("link")
}

/// Checks the counters in a load's report. Returns one line of text for each check, and whether the check passed.
fn tallies(json: &Value, load: &Load, seconds: u64) -> Vec<(bool, String)> {
    let (requests, replies) = (count(json, "/requests/total"), count(json, "/replies/total"));
    let well = count(json, "/replies/status/2xx");
    let causes = json.pointer("/errors").and_then(Value::as_object).cloned().unwrap_or_default();
    let causes: Vec<(String, u64)> = causes
        .into_iter()
        .filter_map(|(cause, n)| n.as_u64().filter(|n| *n > 0).map(|n| (cause, n)))
        .collect();
    let errors: u64 = causes.iter().map(|(_, n)| n).sum();
    let size = FILES.iter().find(|(name, _)| *name == load.file).map_or(0, |(_, size)| *size);
    let bytes = count(json, "/replies/content_bytes");
    let p99 = count(json, "/replies/latency/percentiles_ns/p99") / 1_000_000;
    let longest = count(json, "/replies/latency/max_ns") / 1_000_000;
    vec![
        (errors == 0, format!("no errors: {causes:?}")),
        (
            replies <= requests && requests <= replies + errors && well == replies,
            format!(
                "{requests} requests, {replies} replies, {errors} errors; p99 {p99} ms, longest {longest} ms"
            ),
        ),
        (bytes == replies * size, format!("{bytes} bytes = {replies} x {size}")),
        match silence(json, seconds) {
            Some(silence) => (silence < STUCK, format!("never more than {silence} s without a reply")),
            None => (false, "no reply at all".to_owned()),
        },
    ]
}

/// Returns the longest time in seconds during which a load got no reply.
fn silence(json: &Value, seconds: u64) -> Option<u64> {
    let intervals = json.pointer("/intervals")?.as_array()?;
    let with: Vec<u64> = intervals
        .iter()
        .filter(|interval| count(interval, "/replies") > 0)
        .map(|interval| count(interval, "/at_ns") / 1_000_000_000)
        .collect();
    let between = with.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    Some(between.max(*with.first()?).max(seconds.saturating_sub(*with.last()?)))
}

/// Returns the number of complete replies in the server's log, by file.
fn served(log: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in BufReader::new(File::open(log).expect("the server's log")).lines().map_while(Result::ok) {
        let mut parts = line.split('"');
        let (Some(_), Some(request), Some(answer)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let file = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
        if answer.trim_start().starts_with("200") {
            *found.entry(file.to_owned()).or_default() += 1;
        }
    }
    found
}

fn count(json: &Value, pointer: &str) -> u64 {
    json.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// One reading of a process's memory: the time in seconds and the memory in kB.
type Sample = (f64, f64);

/// For each process, the samples of its allocated memory and those of its resident memory.
#[derive(Default)]
struct Memory {
    samples: BTreeMap<(u32, String), [Vec<Sample>; 2]>,
}

/// The fields of `/proc/PID/status` with the allocated and the resident memory.
const STATUS_FIELDS: [&str; 2] = ["VmData:", "RssAnon:"];

impl Memory {
    /// Reads the memory of `root` and all its descendants.
    fn sample(&mut self, root: u32, at: f64) {
        let mut all: Vec<(u32, u32)> = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // The process name in parentheses may contain any character, so parsing starts after the last `)`.
            let parent =
                stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
            all.extend(parent.map(|parent| (id, parent)));
        }
        let mut family = vec![root];
        let mut next = 0;
        while let Some(&parent) = family.get(next) {
            family.extend(all.iter().filter(|(_, of)| *of == parent).map(|(id, _)| *id));
            next += 1;
        }
        for id in family {
            let Ok(line) = fs::read(format!("/proc/{id}/cmdline")) else { continue };
            let words: Vec<String> = line
                .split(|&byte| byte == 0)
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            // Only processes of `anabranch` itself are measured, not a shell that starts it.
            if words.len() < 3 || !words[0].ends_with("anabranch") {
                continue;
            }
            let name = words[1..3].join(" ");
            let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            let kb = STATUS_FIELDS.map(|field| {
                let rest = status.lines().find_map(|line| line.strip_prefix(field))?;
                rest.split_whitespace().next()?.parse().ok()
            });
            let [Some(allocated), Some(resident)] = kb else { continue };
            let samples = self.samples.entry((id, name)).or_default();
            for (samples, kb) in samples.iter_mut().zip([allocated, resident]) {
                samples.push((at, kb));
            }
        }
    }

    /// Returns, for each process, whether it passes, and the line to print. A process fails if its allocated memory and
    /// its resident memory both grow, or if there are too few samples.
    fn verdicts(&self) -> Vec<(bool, String)> {
        let verdict = |name: &str, samples: &[Vec<Sample>; 2]| {
            let [Some(allocated), Some(resident)] = [trend(&samples[0]), trend(&samples[1])] else {
                return (false, format!("{name}: too few looks at its memory"));
            };
            let line = format!("{name}: allocated {allocated}; resident {resident}");
            (!(allocated.grows() && resident.grows()), line)
        };
        self.samples.iter().map(|((_, name), samples)| verdict(name, samples)).collect()
    }
}

/// A straight line that was fitted to readings of a process's memory, in kB.
struct Trend {
    mean: f64,
    growth: f64,
    /// The standard deviation of the readings around the line.
    noise: f64,
}

impl Trend {
    fn grows(&self) -> bool {
        self.growth >= self.noise.max(SLACK_KB)
    }
}

impl fmt::Display for Trend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mean, growth, noise } = self;
        write!(f, "{mean:.0} kB, {growth:+.0} kB in all, noise {noise:.0} kB")
    }
}

/// Fits a line to the samples, without the first fifth of the time. Returns `None` if there are too few samples.
fn trend(samples: &[Sample]) -> Option<Trend> {
    let last = samples.last()?.0;
    let late: Vec<Sample> = samples.iter().copied().filter(|(at, _)| *at >= last / 5.0).collect();
    let n = late.len() as f64;
    if n < 5.0 {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| late.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|s| s.0), mean(|s| s.1));
    let across: f64 = late.iter().map(|s| (s.0 - x) * (s.1 - y)).sum();
    let along: f64 = late.iter().map(|s| (s.0 - x).powi(2)).sum();
    let slope = across / along;
    let noise = (late.iter().map(|s| (s.1 - y - slope * (s.0 - x)).powi(2)).sum::<f64>() / (n - 2.0)).sqrt();
    Some(Trend { mean: y, growth: slope * (last - late[0].0), noise })
}

fn now() -> Instant {
    Instant::now()
}

fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}
