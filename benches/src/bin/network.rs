//! Speed between real processes: `bulk`, `load` and `serve` beside the kernel's TCP, nginx, and what UDP alone can do.
//!
//! Everything runs in one go, in two network namespaces joined by a veth pair
//! of MTU 1500 where the host allows it, else on the loopback interface. Runs
//! are interleaved and medians printed: trust the ratios and the CPU seconds,
//! not the Gbit/s of a busy machine.
//!
//! The floor is UDP with GSO, GRO and a CRC32c of each 1452 bytes at both ends
//! (`floor send`, `floor receive`: this program as its own child).

use anabranch_benches::median;
use anabranch_wire::sctp::crc32c;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use serde_json::Value;
use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What one measurement gave.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    gbits: f64,
    messages: f64,
    cpu: f64,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "floor") {
        return floor(&words[1..]);
    }
    let flag = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let number = |name: &str, default: u32| flag(name).map_or(default, |text| text.parse().expect(name));
    let bench = Bench {
        anabranch: flag("--anabranch").map_or("../target/release/anabranch".into(), PathBuf::from),
        seconds: number("--seconds", 2),
        runs: number("--runs", 3) as usize,
        net: Net::make(),
    };
    assert!(bench.anabranch.is_file(), "no {}; build it, or say --anabranch FILE", bench.anabranch.display());
    let what = flag("--only").map_or("", String::as_str);
    println!("{}; medians of {} runs of {} s", bench.net.told(), bench.runs, bench.seconds);
    if what.is_empty() || what == "bulk" {
        bench.bulk();
    }
    if what.is_empty() || what == "http" {
        bench.http();
    }
    if what.is_empty() || what == "sessions" {
        bench.sessions();
    }
}

struct Bench {
    anabranch: PathBuf,
    seconds: u32,
    runs: usize,
    net: Net,
}

impl Bench {
    fn bulk(&self) {
        let server = self.server(&["bulk", "--listen", &self.at("tcp"), "--listen", &self.at("sctp")]);
        let [tcp, sctp] = server.urls.as_slice() else { panic!("two places: {:?}", server.urls) };
        let cells: [(&str, &str, &str); 6] = [
            ("floor: UDP, GSO, GRO, CRC32c", "", ""),
            ("kernel TCP, 64 KiB", tcp, "64KiB"),
            ("SCTP in UDP, 64 KiB", sctp, "64KiB"),
            ("SCTP in UDP, 8 KiB", sctp, "8KiB"),
            ("SCTP in UDP, 1 KiB", sctp, "1KiB"),
            ("SCTP in UDP, 64 B", sctp, "64B"),
        ];
        let mut found = vec![Vec::new(); cells.len()];
        for _ in 0..self.runs {
            for (flows, (_, url, size)) in found.iter_mut().zip(&cells) {
                flows.push(if url.is_empty() { self.floor() } else { self.transfer(url, size) });
            }
        }
        println!("\n{:<32}{:>10}{:>14}{:>12}{:>16}", "", "Gbit/s", "messages/s", "CPU-s/GB", "of the floor");
        let middle = |flows: &[Flow], of: fn(&Flow) -> f64| median(&flows.iter().map(of).collect::<Vec<_>>());
        let floor = middle(&found[0], |flow| flow.gbits);
        for (flows, (name, ..)) in found.iter().zip(&cells) {
            let gbits = middle(flows, |flow| flow.gbits);
            println!(
                "{name:<32}{gbits:>10.2}{:>14.0}{:>12.2}{:>16.2}",
                middle(flows, |flow| flow.messages),
                middle(flows, |flow| flow.cpu),
                gbits / floor
            );
        }
        aim("SCTP 64 KiB / floor", middle(&found[2], |flow| flow.gbits) / floor, 1.0 / 3.0, true);
        aim("SCTP 64 KiB, CPU-s/GB", middle(&found[2], |flow| flow.cpu), 1.4, false);
        aim("SCTP 8 KiB, CPU-s/GB", middle(&found[3], |flow| flow.cpu), 1.4, false);
        aim("SCTP 64 B, million messages/s", middle(&found[5], |flow| flow.messages) / 1e6, 2.5, true);
    }

    fn transfer(&self, url: &str, size: &str) -> Flow {
        let span = format!("{}s", self.seconds);
        let words = ["bulk", url, "--message-size", size, "--for", &span, "-q", "--json", "-"];
        let result = self.client(&words);
        let received = &result["up"]["received"];
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        Flow {
            gbits: number(&received["bps"]) / 1e9,
            messages: number(&received["messages"]) / number(&received["duration_ns"]) * 1e9,
            cpu: number(&result["cpu"]["s_per_gb"]),
        }
    }

    fn floor(&self) -> Flow {
        let this = std::env::current_exe().expect("this program");
        let address = format!("{}:0", self.net.server_address());
        let mut receiver = self.net.server(&this);
        receiver.args(["floor", "receive", &address]).stdout(Stdio::piped());
        let mut receiver = Running(receiver.spawn().expect("the receiver starts"));
        let mut lines = BufReader::new(receiver.0.stdout.take().expect("its output")).lines();
        let at = lines.next().and_then(Result::ok).expect("its address");
        let mut sender = self.net.client(&this);
        let sender = sender.args(["floor", "send", &at, &self.seconds.to_string()]).output();
        let sender = sender.expect("the sender runs");
        let numbers = |text: &str| -> Vec<f64> {
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let sent = numbers(&String::from_utf8_lossy(&sender.stdout));
        let received = numbers(&lines.next().and_then(Result::ok).expect("its count"));
        let ([spent], [bytes, seconds, cost]) = (sent.as_slice(), received.as_slice()) else {
            panic!("the floor said {sent:?} and {received:?}")
        };
        Flow {
            gbits: bytes * 8.0 / seconds / 1e9,
            messages: bytes / PACKET as f64 / seconds,
            cpu: (spent + cost) / bytes * 1e9,
        }
    }

    fn http(&self) {
        let site = std::env::temp_dir().join(format!("anabranch-bench-{}", std::process::id()));
        fs::create_dir_all(&site).expect("a directory");
        fs::write(site.join("1k"), [b'x'; 1000]).expect("a file");
        let place = site.to_str().expect("a name").to_owned();
        let server =
            self.server(&["serve", &place, "-q", "--listen", &self.at("tcp"), "--listen", &self.at("sctp")]);
        let [tcp, sctp] = server.urls.as_slice() else { panic!("two places: {:?}", server.urls) };
        let nginx = Nginx::start(&self.net, &site);
        let mut rates = [const { Vec::new() }; 4];
        let mut costs = [const { Vec::new() }; 2];
        let span = format!("{}s", self.seconds);
        for _ in 0..self.runs {
            for (number, (url, words)) in
                [(tcp, &["-c", "100"][..]), (sctp, &["-c", "1", "--streams", "100"])].into_iter().enumerate()
            {
                let url = format!("{url}1k");
                let words = [&["load", &url, "--duration", &span, "-q", "--json", "-"], words].concat();
                let before = server.cpu();
                let result = self.client(&words);
                rates[number].push(result["replies"]["per_s"].as_f64().expect("a rate"));
                costs[number].push(
                    (server.cpu() - before) * 1e6 / result["replies"]["total"].as_f64().expect("a count"),
                );
            }
            rates[2].extend(self.wrk(&format!("{tcp}1k")));
            if let Some(nginx) = &nginx {
                rates[3].extend(self.wrk(&format!("{}1k", nginx.url)));
            }
        }
        let _ = fs::remove_dir_all(&site);
        println!("\nrequests a second, objects of 1 kB");
        let names = [
            "serve over TCP, 100 connections",
            "serve over SCTP, 100 streams",
            "serve over TCP, wrk",
            "nginx, wrk",
        ];
        for (name, rates) in names.iter().zip(&rates) {
            match rates.as_slice() {
                [] => println!("{name:<36}{:>10}", "not installed"),
                rates => println!("{name:<36}{:>10.0}", median(rates)),
            }
        }
        let [tcp, sctp] = costs.map(|costs| median(&costs));
        println!("us of the server's processor a request: TCP {tcp:.1}, SCTP {sctp:.1}");
        aim("SCTP / TCP", median(&rates[1]) / median(&rates[0]), 0.8, true);
        if !rates[2].is_empty() && !rates[3].is_empty() {
            aim("serve / nginx", median(&rates[2]) / median(&rates[3]), 0.8, true);
        }
    }

    /// Requests a second by wrk; `None` where it is not installed.
    fn wrk(&self, url: &str) -> Option<f64> {
        let span = format!("{}s", self.seconds);
        let mut wrk = self.net.client(Path::new("wrk"));
        let output = wrk.args(["-t1", "-c", "100", "-d", &span, url]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.starts_with("Requests/sec:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    fn sessions(&self) {
        let words = ["serve", "/", "-q", "--connections", "20000", "--listen", &self.at("sctp")];
        let server = self.server(&words);
        let url = &server.urls[0];
        let span = format!("{}s", self.seconds);
        let (mut rates, mut costs) = (Vec::new(), Vec::new());
        for _ in 0..self.runs {
            let before = server.cpu();
            let words = [
                "load",
                url,
                "-c",
                "64",
                "--objects-per-session",
                "0",
                "--duration",
                &span,
                "-q",
                "--json",
                "-",
            ];
            let result = self.client(&words);
            let number = |value: &Value| value.as_f64().expect("a number");
            rates.push(number(&result["connections"]["per_s"]));
            let spent = number(&result["cpu"]["user_ns"]) + number(&result["cpu"]["system_ns"]);
            let count = number(&result["connections"]["total"]);
            costs.push([spent / 1e3 / count, (server.cpu() - before) * 1e6 / count]);
        }
        println!("\nassociations opened and closed a second: {:.0}", median(&rates));
        let [client, server_cost] =
            [0, 1].map(|end| median(&costs.iter().map(|cost| cost[end]).collect::<Vec<_>>()));
        println!("us of processor each: client {client:.1}, server {server_cost:.1}");
        aim("thousand set up and closed a second", median(&rates) / 1e3, 25.0, true);
        let before = server.memory();
        let mut words =
            vec!["load", url.as_str(), "-c", "10000", "--duration", "60s", "--timeout", "60s", "-q"];
        words.extend(["--rate", "1/s", "--json", "-"]);
        let mut client = self.net.client(&self.anabranch);
        let client = client.args(&words).stdout(Stdio::null()).stderr(Stdio::null());
        let client = Running(client.spawn().expect("the client starts"));
        let (mut last, begun) = (server.memory(), Instant::now());
        // Until no more is added.
        loop {
            wait(Duration::from_secs(2));
            let now = server.memory();
            if now == last || begun.elapsed() > Duration::from_secs(60) {
                break;
            }
            last = now;
        }
        drop(client);
        println!("an idle association of 10,000: {:.2} kB in the server", (last - before) as f64 / 1e4);
        aim("kB an association", (last - before) as f64 / 1e4, 5.0, false);
    }

    fn at(&self, scheme: &str) -> String {
        format!("{scheme}://{}:0", self.net.server_address())
    }

    fn server(&self, words: &[&str]) -> Server {
        let mut command = self.net.server(&self.anabranch);
        let mut child =
            command.args(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut errors = BufReader::new(child.stderr.take().expect("its errors"));
        let mut first = String::new();
        errors.read_line(&mut first).expect("a line");
        let urls = first.split_whitespace().filter(|word| word.contains("://")).map(str::to_owned).collect();
        // It may say more, and must not wait for a reader.
        std::thread::spawn(move || errors.lines().for_each(drop));
        Server { child: Running(child), urls }
    }

    fn client(&self, words: &[&str]) -> Value {
        let output = self.net.client(&self.anabranch).args(words).output().expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {told}"))
    }
}

fn aim(what: &str, value: f64, aim: f64, at_least: bool) {
    let met = if at_least { value >= aim } else { value <= aim };
    let (sign, met) = (if at_least { "at least" } else { "at most" }, if met { "met" } else { "MISSED" });
    println!("{what}: {value:.2} (aim {sign} {aim:.2}: {met})");
}

fn wait(span: Duration) {
    std::thread::sleep(span);
}

/// A child that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Server {
    child: Running,
    urls: Vec<String>,
}

impl Server {
    /// Processor time so far, seconds: it has one thread.
    fn cpu(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.child.0.id())).unwrap_or_default();
        text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
    }

    /// Resident memory, kB (of 1000 bytes).
    fn memory(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.0.id())).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmRSS:"));
        let pages = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        pages.unwrap_or(0) * 1024 / 1000
    }
}

struct Nginx {
    _child: Running,
    url: String,
}

impl Nginx {
    /// With one worker; `None` where it is not installed.
    fn start(net: &Net, site: &Path) -> Option<Self> {
        let place = site.join("nginx.conf");
        let (at, root) = (format!("{}:8081", net.server_address()), site.display());
        let conf = format!(
            "worker_processes 1; daemon off; master_process off; pid {root}/nginx.pid; error_log {root}/nginx.err;\n\
             events {{ worker_connections 2048; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; sendfile on;\n\
             server {{ listen {at} backlog=2048; root {root}; }} }}\n"
        );
        fs::write(&place, conf).ok()?;
        let child =
            net.server(Path::new("nginx")).arg("-c").arg(&place).stderr(Stdio::null()).spawn().ok()?;
        wait(Duration::from_millis(500));
        Some(Self { _child: Running(child), url: format!("http://{at}/") })
    }
}

/// Two namespaces and a veth pair, or the loopback interface.
struct Net {
    names: Option<[String; 2]>,
}

impl Net {
    fn make() -> Self {
        let id = std::process::id();
        let names = [format!("ab-{id}-c"), format!("ab-{id}-s")];
        let [client, server] = &names;
        let ip = |line: String| {
            Command::new("ip")
                .args(line.split_whitespace())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|s| s.success())
        };
        let made = ip(format!("netns add {client}"))
            && ip(format!("netns add {server}"))
            && ip(format!(
                "-n {client} link add eth0 mtu 1500 type veth peer name eth0 mtu 1500 netns {server}"
            ))
            && ip(format!("-n {client} addr add 10.77.1.1/24 dev eth0"))
            && ip(format!("-n {server} addr add 10.77.1.2/24 dev eth0"))
            && [client, server].iter().all(|name| {
                ip(format!("-n {name} link set eth0 up")) && ip(format!("-n {name} link set lo up"))
            });
        let net = Self { names: Some(names) };
        // What was made half-way goes with it.
        if made { net } else { Self { names: None } }
    }

    fn told(&self) -> &'static str {
        if self.names.is_some() {
            "two namespaces, veth, MTU 1500"
        } else {
            "loopback (no namespaces here), MTU 65536"
        }
    }

    fn server_address(&self) -> &'static str {
        if self.names.is_some() { "10.77.1.2" } else { "127.0.0.1" }
    }

    fn client(&self, program: &Path) -> Command {
        self.inside(0, program)
    }

    fn server(&self, program: &Path) -> Command {
        self.inside(1, program)
    }

    fn inside(&self, which: usize, program: &Path) -> Command {
        match &self.names {
            None => Command::new(program),
            Some(names) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &names[which]]).arg(program);
                command
            }
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in self.names.iter().flatten() {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

const PACKET: usize = 1452;
const TRAIN: usize = 44;

/// The floor's two ends.
fn floor(words: &[String]) {
    match words {
        [role, at] if role == "receive" => receive(at),
        [role, to, seconds] if role == "send" => send(to, seconds.parse().expect("seconds")),
        _ => panic!("floor receive ADDRESS, or floor send ADDRESS SECONDS"),
    }
}

fn own_cpu() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)
        .expect("Linux has this call");
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn send(to: &str, seconds: u64) {
    let to: SocketAddr = to.parse().expect("an address");
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let state = UdpSocketState::new((&socket).into()).expect("its state");
    socket.set_nonblocking(false).expect("it waits");
    let train = TRAIN.min(state.max_gso_segments());
    let mut bytes = vec![7_u8; PACKET * train];
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        for packet in bytes.chunks_exact_mut(PACKET) {
            let sum = crc32c::crc32c(&packet[4..]);
            packet[..4].copy_from_slice(&sum.to_be_bytes());
        }
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents: &bytes,
            segment_size: Some(PACKET),
            src_ip: None,
        };
        // A full queue is the network's loss, as it would be anybody's.
        let _ = state.try_send((&socket).into(), &transmit);
    }
    for _ in 0..10 {
        let _ = socket.send_to(b"end", to);
    }
    println!("{}", own_cpu());
}

fn receive(at: &str) {
    let socket = UdpSocket::bind(at).expect("a socket");
    let state = UdpSocketState::new((&socket).into()).expect("its state");
    socket.set_nonblocking(false).expect("it waits");
    println!("{}", socket.local_addr().expect("its address"));
    let mut buffer = vec![0_u8; 65_536];
    let (mut bytes, mut first, mut last) = (0, None, Instant::now());
    loop {
        let mut metas = [RecvMeta::default()];
        let got = state.recv((&socket).into(), &mut [IoSliceMut::new(&mut buffer)], &mut metas);
        if got.is_err() {
            continue;
        }
        if metas[0].len == 3 {
            break;
        }
        last = Instant::now();
        first.get_or_insert(last);
        for packet in buffer[..metas[0].len].chunks(metas[0].stride.max(1)) {
            black_box(crc32c::crc32c(&packet[4.min(packet.len())..]));
        }
        bytes += metas[0].len;
    }
    let span = last.duration_since(first.unwrap_or(last)).as_secs_f64();
    println!("{bytes} {span} {}", own_cpu());
}
