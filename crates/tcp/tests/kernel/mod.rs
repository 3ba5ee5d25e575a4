//! The TCP of this host's kernel between two network namespaces, and the packets of one connection as the kernel captured
//! them.
//!
//! A pair of Ethernet interfaces (veth) connects the namespaces. A token bucket (`tc tbf`) limits the client's packets to
//! 10 Mbit/s, so that the answers to the segments of a burst come between them. Rules of iptables drop chosen packets
//! where they arrive. `dumpcap` captures at the client, behind the token bucket.

use super::{Exchange, PacketKind, RATE, SentPacket, Step, sent_packet};
use anabranch_emu::netns::Namespace;
use anabranch_tcp::testing::Side;
use anabranch_wire::pcap::CaptureReader;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 95, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 95, 0, 2);
const PORT: u16 = 80;
/// A port without a listener. A SYN to this port marks the end of an exchange in the capture.
const MARKER: u16 = 81;

/// Settings of this kernel that give it what has not changed since 2005. Names are below `/proc/sys/net`. A kernel that
/// lacks one of them has never had the behaviour that it turns off.
const SETTINGS: &[(&str, &str)] = &[
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv4/tcp_congestion_control", "reno"),
    ("ipv4/tcp_recovery", "0"),
    ("ipv4/tcp_early_retrans", "0"),
    ("ipv4/tcp_frto", "0"),
    ("ipv4/tcp_ecn", "0"),
    ("ipv4/tcp_autocorking", "0"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/tcp_syn_linear_timeouts", "0"),
    ("ipv4/tcp_rmem", "4096 131072 6291456"),
];

/// Length of an Ethernet header.
const ETHERNET: usize = 14;

/// Returns why this host cannot run the kernel's side, or `None` if it can.
pub fn obstacle() -> Option<String> {
    if let Err(why) = Namespace::create() {
        return Some(format!("no network namespaces here: {why}; run this as root"));
    }
    let missing = |(program, package): &(&str, &str)| {
        let found =
            ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|f| Path::new(f).join(program).exists());
        (!found).then(|| format!("{program} is missing (Debian: apt-get install {package})"))
    };
    [("ip", "iproute2"), ("tc", "iproute2"), ("iptables", "iptables"), ("dumpcap", "wireshark-common")]
        .iter()
        .find_map(missing)
}

/// Runs an exchange, and returns the packets in the order and with the times of the capture.
pub fn run(exchange: &Exchange) -> Vec<SentPacket> {
    let [near, far] = [(); 2].map(|()| Namespace::create().expect("a namespace"));
    inside(&near, || {
        configure();
        run_command(
            "ip",
            &["link", "add", "left", "type", "veth", "peer", "name", "right", "netns", &far.path()],
        );
        connect_to_network("left", CLIENT, exchange.initial_window);
        let rate = format!("{}bit", RATE);
        // One packet fits into the bucket, so two packets never leave together.
        run_command(
            "tc",
            &[
                "qdisc", "add", "dev", "left", "root", "tbf", "rate", &rate, "burst", "1600b", "latency",
                "500ms",
            ],
        );
        drop_packets(exchange, Side::Right);
    });
    inside(&far, || {
        configure();
        if !exchange.reads {
            fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 16384 16384").expect("a small buffer");
        }
        connect_to_network("right", SERVER, exchange.initial_window);
        drop_packets(exchange, Side::Left);
    });
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.pcapng", exchange.name.replace(' ', "-")));
    let capture = inside(&near, || Capture::start(path));
    let listener = inside(&far, || TcpListener::bind((SERVER, PORT)).expect("a listener"));
    let server = thread::spawn(move || listener.accept().expect("a connection").0);
    let target = SocketAddr::from((SERVER, PORT));
    let timeout = Duration::from_secs(20);
    let client = inside(&near, || TcpStream::connect_timeout(&target, timeout).expect("connected"));
    let server = server.join().expect("accepted");
    let mut reading = exchange.reads.then(|| read_all(&server));
    let reader = read_all(&client);
    pace(Duration::from_millis(50));
    for step in exchange.steps {
        match *step {
            Step::Write(side, length) => {
                let mut stream = if side == Side::Left { &client } else { &server };
                stream.write_all(&vec![7; length]).expect("written");
            }
            Step::Finish(side) => {
                let stream = if side == Side::Left { &client } else { &server };
                stream.shutdown(Shutdown::Write).expect("closed");
            }
            Step::Read => reading = Some(read_all(&server)),
            Step::Wait(millis) => pace(Duration::from_millis(millis)),
        }
    }
    assert!(inside(&near, || TcpStream::connect((SERVER, MARKER))).is_err(), "nobody listens");
    let packets = capture.finish();
    // Both readers end when both sides have closed.
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
    for reader in reading.into_iter().chain([reader]) {
        reader.join().expect("a reader");
    }
    packets
}

/// Reads and discards all data of a connection in a thread of its own.
fn read_all(stream: &TcpStream) -> thread::JoinHandle<()> {
    let mut stream = stream.try_clone().expect("a second handle");
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
    })
}

/// Waits for a time that the exchange names: the kernel's timers take real time.
#[expect(clippy::disallowed_methods, reason = "a kernel's timers take real time")]
fn pace(span: Duration) {
    thread::sleep(span);
}

fn inside<T: Send>(namespace: &Namespace, task: impl FnOnce() -> T + Send) -> T {
    namespace.run(task).expect("inside the namespace")
}

/// Applies [`SETTINGS`] to the namespace of this thread.
fn configure() {
    run_command("ip", &["link", "set", "lo", "up"]);
    for (name, value) in SETTINGS {
        let path = PathBuf::from("/proc/sys/net").join(name);
        if path.exists() {
            fs::write(&path, value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

/// Gives an interface its address. Its packets are sent one by one, without segmentation offload.
fn connect_to_network(interface: &str, address: Ipv4Addr, initial_window: u32) {
    let with_prefix = format!("{address}/24");
    run_command("ip", &["addr", "add", &with_prefix, "dev", interface]);
    run_command("ip", &["link", "set", "dev", interface, "gso_max_segs", "1", "up"]);
    let window = initial_window.to_string();
    run_command("ip", &["route", "change", "10.95.0.0/24", "dev", interface, "initcwnd", &window]);
}

/// Adds the rules that drop packets of the side `from`, in the namespace where they arrive.
fn drop_packets(exchange: &Exchange, from: Side) {
    let Some(loss) = exchange.loss.as_ref().filter(|loss| loss.from == from) else { return };
    let kind: &[&str] = match loss.kind {
        PacketKind::Syn => &["--syn"],
        // The headers of these packets have at most 72 bytes.
        PacketKind::Data => &["-m", "length", "--length", "100:"],
    };
    for (earlier, number) in loss.numbers.iter().enumerate() {
        // A rule does not see the packets that the rules before it have dropped. It counts from 0.
        let packet = (number - 1 - earlier as u64).to_string();
        let counted =
            ["-m", "statistic", "--mode", "nth", "--every", "1000000", "--packet", &packet, "-j", "DROP"];
        run_command("iptables", &[&["-w", "-A", "INPUT", "-p", "tcp"], kind, &counted].concat());
    }
}

fn run_command(program: &str, arguments: &[&str]) {
    let Output { status, stderr, .. } = Command::new(program).args(arguments).output().expect(program);
    assert!(status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&stderr));
}

/// A running capture.
struct Capture {
    child: Child,
    path: PathBuf,
}

impl Capture {
    /// Starts to capture on the interface `left`, and returns when the capture has begun.
    fn start(path: PathBuf) -> Self {
        let _ = fs::remove_file(&path);
        let mut command = Command::new("dumpcap");
        command.args(["-q", "-i", "left", "-f", "tcp", "-w"]).arg(&path);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("dumpcap");
        // dumpcap writes the header of the file when the capture has begun.
        while fs::metadata(&path).map_or(0, |file| file.len()) == 0 {
            assert!(child.try_wait().expect("a child").is_none(), "dumpcap has ended early");
            pace(Duration::from_millis(20));
        }
        Self { child, path }
    }

    /// Waits for the marker in the file, ends the capture, and returns the packets of the connection.
    fn finish(mut self) -> Vec<SentPacket> {
        let packets = (0..ATTEMPTS).find_map(|_| {
            pace(Duration::from_millis(50));
            packets_before_marker(&self.path)
        });
        run_command("kill", &["-INT", &self.child.id().to_string()]);
        let status = self.child.wait().expect("a child");
        assert!(status.success(), "dumpcap: {status}");
        packets.unwrap_or_else(|| panic!("{}: the marker was not captured", self.path.display()))
    }
}

/// How often the file of a capture is read while its end is missing.
const ATTEMPTS: u32 = 200;

/// Reads the packets of the connection from a capture that is being written. Returns `None` if the marker is missing.
fn packets_before_marker(path: &Path) -> Option<Vec<SentPacket>> {
    let mut reader = CaptureReader::new(File::open(path).ok()?).ok()?;
    let mut packets = Vec::new();
    let mut first = None;
    while let Ok(Some(record)) = reader.next_packet() {
        let packet = &record.packet[ETHERNET..];
        let header = usize::from(packet[0] & 15) * 4;
        let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        let from = if packet[12..16] == CLIENT.octets() { Side::Left } else { Side::Right };
        let segment = &packet[header..length];
        let port = if from == Side::Left { &segment[2..4] } else { &segment[..2] };
        if port == MARKER.to_be_bytes() {
            return Some(packets);
        }
        let at = Duration::from_nanos(record.at_nanos - *first.get_or_insert(record.at_nanos));
        packets.extend(sent_packet(at, from, segment));
    }
    None
}
