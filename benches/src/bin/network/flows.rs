//! Measurements of one association: bulk transfers, small messages, and the round trip of a message.

use crate::aims::Aim::{AtLeast, AtMost};
use crate::floor::{self, PACKET};
use crate::usrsctp::Usrsctp;
use crate::{Bench, Running, number, numbers, this_program};
use anabranch_benches::median;

/// The result of one measurement of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    pub gbits: f64,
    pub messages: f64,
    pub cpu: f64,
}

const GBITS: fn(&Flow) -> f64 = |flow| flow.gbits;
const MESSAGES: fn(&Flow) -> f64 = |flow| flow.messages;
const CPU: fn(&Flow) -> f64 = |flow| flow.cpu;

/// One line of a result table: its name, and the function that measures its values.
type Cell<'a> = (String, Box<dyn Fn() -> Option<Flow> + 'a>);

impl Bench {
    /// Measures each line of a table in turn, and repeats this `runs` times. Then prints the lines. A line that cannot
    /// be measured gets an empty list of results.
    fn measure(&self, cells: &[Cell<'_>]) -> Vec<Vec<Flow>> {
        let mut found = vec![Vec::new(); cells.len()];
        for _ in 0..self.runs {
            for (flows, (_, measure)) in found.iter_mut().zip(cells) {
                flows.extend(measure());
            }
        }
        println!("\n{:<36}{:>10}{:>14}{:>12}{:>16}", "", "Gbit/s", "messages/s", "CPU-s/GB", "of the first");
        for (flows, (name, _)) in found.iter().zip(cells) {
            if flows.is_empty() {
                println!("{name:<36}{:>10}", "missing");
                continue;
            }
            let first = middle(&found[0], GBITS).unwrap_or(f64::NAN);
            let [gbits, messages, cpu] = [GBITS, MESSAGES, CPU].map(|of| middle(flows, of).unwrap_or(0.0));
            println!("{name:<36}{gbits:>10.2}{messages:>14.0}{cpu:>12.2}{:>16.2}", gbits / first);
        }
        found
    }

    /// Measures bulk transfers over SCTP, and compares them with UDP alone and with the kernel's TCP.
    pub fn bulk(&self) {
        let server = self.server(&["bulk", "--listen", &self.at("tcp"), "--listen", &self.at("sctp")]);
        let [tcp, sctp] = server.urls.as_slice() else { panic!("two places: {:?}", server.urls) };
        let transfer = |name: &str, url: &'_ str, size: &'static str| -> Cell<'_> {
            let url = url.to_owned();
            (name.to_owned(), Box::new(move || Some(self.transfer(&url, size, &[]))))
        };
        let found = self.measure(&[
            ("floor: UDP, GSO, GRO, CRC32c".to_owned(), Box::new(|| Some(self.floor("train")))),
            transfer("kernel TCP, 64 KiB", tcp, "64KiB"),
            transfer("SCTP in UDP, 64 KiB", sctp, "64KiB"),
            transfer("SCTP in UDP, 8 KiB", sctp, "8KiB"),
            transfer("SCTP in UDP, 1 KiB", sctp, "1KiB"),
            transfer("SCTP in UDP, 64 B", sctp, "64B"),
        ]);
        let value = |at: usize, of| middle(&found[at], of).unwrap_or(0.0);
        let floor = middle(&found[0], GBITS);
        let third = AtLeast(1.0 / 3.0);
        self.aims.compare_with_peer(
            "64 KiB, Gbit/s",
            value(2, GBITS),
            "UDP with GSO, GRO, CRC32c",
            floor,
            third,
        );
        self.aims.compare_with_peer(
            "8 KiB, Gbit/s",
            value(3, GBITS),
            "UDP with GSO, GRO, CRC32c",
            floor,
            third,
        );
        self.aims.add("64 KiB, CPU-s/GB, both ends", value(2, CPU), AtMost(1.4));
        self.aims.add("8 KiB, CPU-s/GB, both ends", value(3, CPU), AtMost(1.4));
        self.aims.add("64 B, million messages/s", value(5, MESSAGES) / 1e6, AtLeast(2.5));
    }

    /// Compares bulk transfers of anabranch and of usrsctp. The transfers of the two programs take turns.
    pub fn usrsctp(&self) {
        let peer = Usrsctp::build();
        let server = self.server(&["bulk", "--listen", &self.at("sctp")]);
        let url = server.urls[0].clone();
        let sizes = [("64 KiB", "64KiB", 65_536), ("8 KiB", "8KiB", 8192), ("64 B", "64B", 64)];
        let mut cells: Vec<Cell<'_>> = Vec::new();
        for (name, size, bytes) in sizes {
            let url = url.clone();
            cells.push((format!("ours, {name}"), Box::new(move || Some(self.transfer(&url, size, &[])))));
            let peer = &peer;
            let theirs = move || peer.as_ref().ok()?.transfer(self, bytes);
            cells.push((format!("usrsctp, {name}"), Box::new(theirs)));
        }
        let found = self.measure(&cells);
        let name = peer.as_ref().map_or_else(Clone::clone, |_| "usrsctp 0.9.5 over UDP".to_owned());
        for (row, (size, ..)) in sizes.iter().enumerate() {
            let (ours, theirs) = (&found[2 * row], &found[2 * row + 1]);
            if *size == "64 B" {
                let million = |flows: &[Flow]| middle(flows, MESSAGES).map(|messages| messages / 1e6);
                let ours = million(ours).unwrap_or(0.0);
                self.aims.compare_with_peer(
                    "64 B, million messages/s",
                    ours,
                    &name,
                    million(theirs),
                    AtLeast(10.0),
                );
                continue;
            }
            let value = |of| (middle(ours, of).unwrap_or(0.0), middle(theirs, of));
            let (mine, other) = value(GBITS);
            self.aims.compare_with_peer(&format!("{size}, Gbit/s"), mine, &name, other, AtLeast(10.0));
            let (mine, other) = value(CPU);
            let what = format!("{size}, CPU-s/GB, both ends");
            self.aims.compare_with_peer(&what, mine, &name, other, AtMost(1.0 / 13.0));
        }
        let mut spans = [const { Vec::<Ping>::new() }; 2];
        for _ in 0..self.runs {
            spans[0].push(self.ping());
            spans[1].extend(peer.as_ref().ok().and_then(|peer| peer.ping(self)));
        }
        let of = |spans: &[Ping], value: fn(&Ping) -> f64| {
            (!spans.is_empty()).then(|| median(&spans.iter().map(value).collect::<Vec<_>>()))
        };
        println!("\n64 B there and back, us      median        99 %   processor, both ends");
        for (name, spans) in ["ours", "usrsctp"].iter().zip(&spans) {
            let values: [fn(&Ping) -> f64; 3] = [|ping| ping.median, |ping| ping.p99, |ping| ping.cpu];
            if let [Some(p50), Some(p99), Some(cpu)] = values.map(|value| of(spans, value)) {
                println!("{name:<22}{p50:>12.1}{p99:>12.1}{cpu:>23.1}");
            }
        }
        let median = |at: usize| of(&spans[at], |ping| ping.median);
        let (what, ours) = ("64 B there and back, median us", median(0).unwrap_or(0.0));
        self.aims.compare_with_peer(what, ours, &name, median(1), AtMost(0.7));
    }

    /// Measures SCTP transfers without GSO and GRO. The baseline is UDP with one system call per datagram.
    pub fn single(&self) {
        let server = self.server(&["bulk", "--no-offload", "--listen", &self.at("sctp")]);
        let url = &server.urls[0];
        let transfer = |name: &str, size: &'static str| -> Cell<'_> {
            let url = url.clone();
            (name.to_owned(), Box::new(move || Some(self.transfer(&url, size, &["--no-offload"]))))
        };
        let found = self.measure(&[
            ("UDP, a call for each datagram".to_owned(), Box::new(|| Some(self.floor("single")))),
            transfer("SCTP in UDP, no GSO, no GRO, 64 KiB", "64KiB"),
            transfer("SCTP in UDP, no GSO, no GRO, 8 KiB", "8KiB"),
        ]);
        let floor = middle(&found[0], GBITS);
        for (row, size) in [(1, "64 KiB"), (2, "8 KiB")] {
            let ours = middle(&found[row], GBITS).unwrap_or(0.0);
            let what = format!("{size} without GSO and GRO, Gbit/s");
            self.aims.compare_with_peer(&what, ours, "UDP, a call a datagram, no CRC", floor, AtLeast(0.65));
        }
    }

    fn transfer(&self, url: &str, size: &str, more: &[&str]) -> Flow {
        let span = format!("{}s", self.seconds);
        let words =
            [&["bulk", url, "--message-size", size, "--for", &span, "-q", "--json", "-"], more].concat();
        let result = self.client(&words);
        let received = &result["up"]["received"];
        Flow {
            gbits: number(&received["bps"]) / 1e9,
            messages: number(&received["messages"]) / number(&received["duration_ns"]) * 1e9,
            cpu: number(&result["cpu"]["s_per_gb"]),
        }
    }

    /// Measures the throughput of UDP alone, in trains of datagrams or packet by packet.
    fn floor(&self, how: &str) -> Flow {
        let this = this_program();
        let address = format!("{}:0", self.net.server_address());
        let mut receiver = self.net.server(&this);
        receiver.args(["floor", "receive", how, &address]);
        let (_receiver, mut lines, at) = self.ready(receiver);
        let mut sender = self.net.client(&this);
        let sender = sender.args(["floor", "send", how, &at, &self.seconds.to_string()]).output();
        let sender = sender.expect("the sender runs");
        let sent = numbers(&String::from_utf8_lossy(&sender.stdout));
        let received = numbers(&lines.next().and_then(Result::ok).expect("its count"));
        let ([spent], [bytes, seconds, cost]) = (sent.as_slice(), received.as_slice()) else {
            panic!("the floor said {sent:?} and {received:?}")
        };
        floor::flow(*bytes, *seconds, spent + cost, PACKET)
    }

    /// Measures the round-trip time of a 64-byte message.
    fn ping(&self) -> Ping {
        let this = this_program();
        let mut echo = self.net.server(&this);
        echo.args(["ping", "echo", self.net.server_address()]);
        let (echo, _lines, at) = self.ready(echo);
        let mut client = self.net.client(&this);
        let client = client.args(["ping", "send", self.net.client_address(), &at, "64", PINGS]);
        let output = client.output().expect("it runs");
        let stdout = String::from_utf8_lossy(&output.stdout);
        Ping::of(&numbers(&stdout), &echo)
            .unwrap_or_else(|| panic!("ping said {stdout} {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// The round-trip time of a message, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Ping {
    /// The median of the round-trip times.
    median: f64,
    /// The 99th percentile of the round-trip times.
    p99: f64,
    /// The processor time per round trip at both ends together.
    cpu: f64,
}

impl Ping {
    /// Reads the client's output: the median and the 99th percentile of the round-trip times, and the client's
    /// processor time per round trip. All are in microseconds. The other end (`echo`) must still be running, because
    /// its processor time is read, too.
    pub fn of(output: &[f64], echo: &Running) -> Option<Self> {
        let &[median, p99, cpu] = output else { return None };
        let rounds = PINGS.parse::<f64>().ok()? * 1.1;
        Some(Self { median, p99, cpu: cpu + echo.cpu() * 1e6 / rounds })
    }
}

fn middle(flows: &[Flow], of: fn(&Flow) -> f64) -> Option<f64> {
    (!flows.is_empty()).then(|| median(&flows.iter().map(of).collect::<Vec<_>>()))
}

/// The number of round trips that are measured, as an argument for the client.
pub const PINGS: &str = "20000";
