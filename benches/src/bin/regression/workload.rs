//! The workloads of the benchmark `regression`. Each has a fixed amount of work, whose user CPU time is measured.

use crate::build::Tree;
use crate::net::Net;
use nix::sys::resource::{UsageWho, getrusage};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A run of a program with a fixed amount of work. The user CPU time of the run is compared.
pub struct Workload {
    /// The benchmark to which the workload belongs: `speed`, `memory` or `network`.
    pub part: &'static str,
    pub name: &'static str,
    kind: WorkloadKind,
}

enum WorkloadKind {
    /// A benchmark program, with its arguments.
    Bench(&'static str, &'static [&'static str]),
    /// A transfer with the command `bulk` between two processes over SCTP in UDP, with the client's arguments.
    Bulk(&'static [&'static str]),
    /// Transfers from the command `serve` to a client. The fields are the listener's scheme, the client's verb, the
    /// requested object, and the client's other arguments.
    Serve(&'static str, &'static str, &'static str, &'static [&'static str]),
}

/// The arguments of the command `load` over an encrypted transport.
const LOAD: [&str; 7] = ["--insecure", "-c", "10", "--streams", "10", "--requests", "100000"];
/// The arguments of the command `get` over an encrypted transport.
const GET: [&str; 3] = ["--insecure", "-o", "/dev/null"];

impl Workload {
    /// Returns all workloads. Each takes half a second to two seconds.
    pub fn all() -> Vec<Self> {
        use WorkloadKind::{Bench, Bulk, Serve};
        let new = |part, name, kind| Self { part, name, kind };
        vec![
            new(
                "speed",
                "speed tcp",
                Bench("speed", &["--ours", "--only", "tcp", "--seconds", "100", "--runs", "4"]),
            ),
            new(
                "speed",
                "speed sctp",
                Bench("speed", &["--ours", "--only", "sctp", "--seconds", "100", "--runs", "4"]),
            ),
            new(
                "memory",
                "memory 64 B",
                Bench("memory", &["--ours", "--bulk", "--runs", "1", "--size", "64", "--mib", "512"]),
            ),
            new(
                "memory",
                "memory 1 KiB",
                Bench("memory", &["--ours", "--bulk", "--runs", "1", "--size", "1024", "--mib", "2048"]),
            ),
            new(
                "memory",
                "memory 8 KiB",
                Bench("memory", &["--ours", "--bulk", "--runs", "1", "--size", "8192", "--mib", "2048"]),
            ),
            new(
                "memory",
                "memory 64 KiB",
                Bench("memory", &["--ours", "--bulk", "--runs", "1", "--size", "65536", "--mib", "2048"]),
            ),
            new("network", "network bulk 64 KiB", Bulk(&["--size", "3GB", "--message-size", "64KiB"])),
            new("network", "network bulk 8 KiB", Bulk(&["--size", "3GB", "--message-size", "8KiB"])),
            new("network", "network bulk 64 B", Bulk(&["--size", "400MB", "--message-size", "64B"])),
            new(
                "network",
                "network http sctp",
                Serve("sctp", "load", "1k", &["-c", "1", "--streams", "100", "--requests", "150000"]),
            ),
            new(
                "network",
                "network http tcp",
                Serve("tcp", "load", "1k", &["-c", "100", "--requests", "80000"]),
            ),
            new("network", "load over TLS", Serve("https", "load", "1k", &LOAD)),
            new("network", "load over DTLS", Serve("https+sctp", "load", "1k", &LOAD)),
            new("network", "load over QUIC", Serve("h3", "load", "1k", &LOAD)),
            new("network", "get over TLS", Serve("https", "get", "1g", &GET)),
            new("network", "get over DTLS", Serve("https+sctp", "get", "1g", &GET)),
            new("network", "get over QUIC", Serve("h3", "get", "1g", &GET)),
        ]
    }

    /// Returns the user CPU time of all processes of one run, in seconds. For the benchmark `speed`, returns the CPU
    /// seconds per million packets on the simulated links. A run of `speed` has a fixed simulated duration, so its
    /// number of packets depends on the transport's behaviour.
    pub fn user_seconds(&self, tree: &Tree, net: &Net) -> Result<f64, String> {
        let before = children_user();
        match &self.kind {
            WorkloadKind::Bench(program, words) => {
                let told = succeed(Command::new(tree.benches.join(program)).args(*words))?;
                if self.part == "speed" {
                    // The output has a line such as "anabranch tcp 1758080 4255873 235.0". Its third word is the number
                    // of packets that the links carried.
                    let row = told.lines().rev().find(|line| line.starts_with("anabranch"));
                    let count = row.and_then(|row| row.split_whitespace().nth(2)?.parse::<f64>().ok());
                    let count = count.ok_or_else(|| format!("no transmissions in {told:?}"))?;
                    return Ok((children_user() - before) / count * 1e6);
                }
            }
            WorkloadKind::Bulk(words) => {
                let listen = format!("sctp://{}:0", net.server_address());
                let (server, url) =
                    serve(net.server(&tree.anabranch).args(["bulk", "--once", "--listen", &listen]))?;
                let done = succeed(
                    net.client(&tree.anabranch).args(["bulk", &url, "--interval", "60s"]).args(*words),
                );
                end(server)?;
                done?;
            }
            WorkloadKind::Serve(scheme, verb, object, words) => {
                let site = std::env::temp_dir().join(format!("anabranch-regression-{}", std::process::id()));
                let listen = format!("{scheme}://{}:0", net.server_address());
                std::fs::create_dir_all(&site)
                    .and_then(|()| std::fs::write(site.join("1k"), [b'x'; 1000]))
                    .and_then(|()| std::fs::File::create(site.join("1g"))?.set_len(1_000_000_000))
                    .map_err(|e| e.to_string())?;
                let (server, url) = serve(
                    net.server(&tree.anabranch).arg("serve").arg(&site).args(["-q", "--listen", &listen]),
                )?;
                let done = succeed(
                    net.client(&tree.anabranch)
                        .arg(verb)
                        .arg(format!("{url}{object}"))
                        .arg("-q")
                        .args(*words),
                );
                end(server)?;
                let _ = std::fs::remove_dir_all(&site);
                done?;
            }
        }
        Ok(children_user() - before)
    }
}

/// Starts a server whose first line contains its address.
fn serve(command: &mut Command) -> Result<(Child, String), String> {
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(|e| e.to_string())?;
    let mut errors = BufReader::new(child.stderr.take().expect("it was asked for"));
    let mut first = String::new();
    errors.read_line(&mut first).map_err(|e| e.to_string())?;
    // The rest of the server's output must be read, too. Otherwise the server could block on a full pipe.
    std::thread::spawn(move || errors.lines().for_each(drop));
    match first.split_whitespace().find(|word| word.contains("://")) {
        Some(url) => Ok((child, url.to_owned())),
        None => {
            let _ = end(child);
            Err(format!("the server said: {}", first.trim()))
        }
    }
}

/// Interrupts a server and waits for its end, so that its CPU time is counted.
fn end(mut server: Child) -> Result<(), String> {
    let _ = Command::new("kill").args(["-INT", &server.id().to_string()]).stderr(Stdio::null()).status();
    server.wait().map(drop).map_err(|e| e.to_string())
}

/// Runs a command and returns its output.
fn succeed(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// Returns the user seconds of all children that have been waited for.
fn children_user() -> f64 {
    let time = getrusage(UsageWho::RUSAGE_CHILDREN).expect("Linux has this call").user_time();
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}
