//! Measures thousands of associations: the rate at which they are opened and closed, the memory of open associations,
//! and the growth of memory over time.

use crate::aims::Aim::{AtLeast, AtMost};
use crate::{Bench, Running, Server, number, wait};
use anabranch_benches::median;
use serde_json::Value;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

impl Bench {
    fn idle_server(&self) -> Server {
        self.server(&["serve", "/", "-q", "--connections", "20000", "--listen", &self.at("sctp")])
    }

    /// Opens and closes associations with the command `load`, 64 at a time. `bound` is the flag that limits the time of
    /// the run or the number of associations.
    fn churned(&self, url: &str, bound: [&str; 2]) -> Value {
        let words = ["load", url, "-c", "64", "--objects-per-session", "0", "-q", "--json", "-"];
        self.client(&[&words[..], &bound].concat())
    }

    /// Measures the number of associations opened and closed per second.
    pub fn setups(&self) {
        let server = self.idle_server();
        let span = format!("{}s", self.seconds);
        let (mut rates, mut costs) = (Vec::new(), [const { Vec::new() }; 2]);
        for _ in 0..self.runs {
            let before = server.cpu();
            let result = self.churned(&server.urls[0], ["--duration", &span]);
            rates.push(number(&result["connections"]["per_s"]));
            let spent = number(&result["cpu"]["user_ns"]) + number(&result["cpu"]["system_ns"]);
            let count = number(&result["connections"]["total"]).max(1.0);
            costs[0].push(spent / 1e3 / count);
            costs[1].push((server.cpu() - before) * 1e6 / count);
        }
        let [client, server] = costs.map(|costs| median(&costs));
        println!("\nassociations opened and closed a second: {:.0}", median(&rates));
        println!("us of processor each: client {client:.1}, server {server:.1}");
        self.aims.add("thousand opened and closed a second", median(&rates) / 1e3, AtLeast(25.0));
    }

    /// Measures the server's memory for 10,000 concurrent associations, in two runs. In the first run almost all are
    /// idle; in the second each has been served a request.
    pub fn memory(&self) {
        let [idle, served] = [("1/s", 10.0), ("1000/s", 1e4)].map(|(rate, least)| self.held(rate, least));
        println!("\nan association of 10,000, kB in the server: idle {idle:.2}, each served {served:.2}");
        self.aims.add("kB in the server, each of 10,000", idle, AtMost(5.0));
        self.aims.add("the same, each served, buffers and all", served, AtMost(10.0));
    }

    /// Returns the server's peak memory per session in kB, for 10,000 sessions that send requests at the total rate
    /// `rate`. Panics if the number of sessions that received a response is below `least`.
    fn held(&self, rate: &str, least: f64) -> f64 {
        const SESSIONS: u32 = 10_000;
        let (server, count) = (self.idle_server(), SESSIONS.to_string());
        let (before, url) = (server.memory(), format!("{}etc/hostname", server.urls[0]));
        let mut client = self.net.client(&self.anabranch);
        client.args(["load", &url, "-c", &count, "--rate", rate, "--duration", "12s", "--timeout", "20s"]);
        client.args(["-q", "--json", "-"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut client = Running(client.spawn().expect("the client starts"));
        let mut most = before;
        while client.0.try_wait().expect("a child").is_none() {
            most = most.max(server.memory());
            wait(Duration::from_millis(200));
        }
        let mut output = String::new();
        client.0.stdout.take().expect("its output").read_to_string(&mut output).expect("UTF-8");
        let output =
            serde_json::from_str(&output).unwrap_or_else(|why| panic!("what load says: {why}: {output}"));
        all_there(&output, SESSIONS);
        // Only sessions that were served have a lifetime.
        let served = number(&output["connections"]["lifetime"]["n"]);
        assert!(served >= least, "{served} sessions of {SESSIONS} were served: {output:#}");
        (most - before) as f64 / f64::from(SESSIONS)
    }

    /// Checks whether memory grows while associations are opened and closed.
    pub fn churn(&self) {
        const STEP: u64 = 20_000;
        let server = self.idle_server();
        let mut sizes = vec![server.memory()];
        let (mut opened, mut failed) = (0, 0.0);
        println!("\n{:>24}{:>20}", "opened and closed", "server's memory, kB");
        println!("{opened:>24}{:>20}", sizes[0]);
        for _ in 0..10 {
            let result = self.churned(&server.urls[0], ["--sessions", &STEP.to_string()]);
            failed += failures(&result);
            opened += STEP;
            sizes.push(server.memory());
            println!("{opened:>24}{:>20}", sizes[sizes.len() - 1]);
        }
        // The state that closed associations leave is bounded: at most 65,536 of their tags are kept, each for two
        // minutes.
        let growth = sizes[10].saturating_sub(sizes[5]) as f64 / 1e5 * 1e3;
        self.aims.add("bytes left by each after 100,000", growth, AtMost(5.0));
        self.aims.add("failures of 200,000 opened and closed", failed, AtMost(0.0));
    }

    /// Opens and closes a million associations. None of them may fail.
    pub fn million(&self) {
        let server = self.idle_server();
        let started = Instant::now();
        let result = self.churned(&server.urls[0], ["--sessions", &self.sessions.to_string()]);
        let count = number(&result["connections"]["total"]);
        println!(
            "\n{count} associations opened and closed in {:.0} s, {:.0} a second, {} failed; server {} kB",
            started.elapsed().as_secs_f64(),
            number(&result["connections"]["per_s"]),
            failures(&result),
            server.memory()
        );
        self.aims.add("million associations opened and closed", count / 1e6, AtLeast(1.0));
        self.aims.add("of which failed", failures(&result), AtMost(0.0));
    }
}

/// Panics unless all `sessions` sessions were open at the same time, without a failure. Only then can the total memory
/// or time be divided by `sessions` to get the value of one session.
fn all_there(result: &Value, sessions: u32) {
    for what in ["total", "established", "most_concurrent"] {
        let found = number(&result["connections"][what]);
        assert!(found == f64::from(sessions), "{what}: {found} sessions of {sessions}: {result:#}");
    }
    assert!(failures(result) == 0.0, "failures: {:#}", result["errors"]);
}

/// Returns the number of failures in a result of `load`, of all causes together.
fn failures(result: &Value) -> f64 {
    result["errors"].as_object().map_or(f64::NAN, |causes| causes.values().map(number).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "established: 9999 sessions of 10000")]
    fn one_that_is_missing_is_missed() {
        let result = serde_json::json!({
            "connections": { "total": 10_000, "established": 9_999, "most_concurrent": 10_000 },
            "errors": { "reset": 1 },
        });
        all_there(&result, 10_000);
    }
}
