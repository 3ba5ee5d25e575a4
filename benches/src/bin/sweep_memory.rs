//! Measures the peak memory of a sweep, for several numbers of points.
//!
//!     cargo build --profile dist -p anabranch-cli && (cd benches && cargo run --release --bin sweep_memory -- ../target/dist/anabranch [SEEDS [POINTS..]])
//!
//! Runs three sweeps with the given command: over 100, 1,000 and 10,000 points, each with 30 seeds. A point is one
//! combination of network settings. Each run loads one small object over TCP and SCTP, without captures. The results
//! go into a temporary directory. The output shows the command's peak of resident memory as the kernel reports it
//! (`VmHWM`), and the size of the results.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

fn main() -> Result<(), String> {
    let mut args = env::args().skip(1);
    let program = args.next().ok_or("name the program: ../target/dist/anabranch")?;
    let number = |text: String| text.parse::<usize>().map_err(|_| format!("'{text}' is no number"));
    let seeds = args.next().map_or(Ok(30), number)?;
    let mut counts = args.map(number).collect::<Result<Vec<_>, _>>()?;
    if counts.is_empty() {
        counts = vec![100, 1000, 10_000];
    }
    println!("{:>8}  {:>6}  {:>9}  {:>10}", "points", "seeds", "peak, MB", "result, MB");
    for points in counts {
        let folder = env::temp_dir().join(format!("anabranch-sweep-memory-{}-{points}", std::process::id()));
        let measured = measure(Path::new(&program), &folder, points, seeds);
        let _ = fs::remove_dir_all(&folder);
        let (peak, result) = measured?;
        println!("{points:>8}  {seeds:>6}  {:>9.1}  {:>10.1}", peak as f64 / 1e6, result as f64 / 1e6);
    }
    Ok(())
}

/// Runs a sweep, and returns its peak memory and the size of its results, in bytes.
fn measure(program: &Path, folder: &Path, points: usize, seeds: usize) -> Result<(u64, u64), String> {
    let rtt: Vec<String> = (1..=points.div_ceil(10)).map(|ms| format!("{ms}ms")).collect();
    let mut command = Command::new(program);
    command.args(["race", "--quiet", "--objects", "1x1kB", "--transport", "tcp,sctp", "--pcap", "off"]);
    command.args(["--loss", "0,1%,2%,3%,4%,5%,6%,7%,8%,9%", "--rtt", &rtt.join(",")]);
    command.args(["--runs", &seeds.to_string()]).arg("--out").arg(folder);
    let mut child =
        command.stdout(Stdio::null()).spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().map_err(|error| error.to_string())? {
            break ended;
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        thread::sleep(Duration::from_millis(2));
    };
    if !ended.success() {
        return Err(format!("{points} points: {ended}"));
    }
    let result = fs::metadata(folder.join("results.json")).map_err(|error| error.to_string())?;
    Ok((peak, result.len()))
}
