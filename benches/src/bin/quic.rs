//! Compares our QUIC with quinn on the loopback interface. For the client and for the server, it measures the processor
//! time of a gigabyte and of a handshake.
//!
//! Our QUIC and quinn use the same state machine, `quinn-proto`, and the same kernel interface. Our program runs the
//! state machine on the event loop that all our transports share, and adds our congestion controllers and packet
//! statistics. quinn runs the state machine on tokio. Each end has its own thread.
//!
//! Both programs have the same identity and TLS settings (so the same cipher), and packets of 1472 bytes (an MTU of
//! 1500). Flow control, the send window and the size of the socket buffers are the same. Acknowledgements follow quinn's
//! default.
//! The difference is the driver. quinn's driver hands the kernel 10 packets at a time (GSO), and our driver as many as
//! one call accepts.
//!
//! The runs of the two programs alternate. The output has the median of each program, and the ratios of pairs of runs.
//!
//! The program also measures how much memory the server needs for each idle connection. The server runs in a separate
//! process. The growth of its resident memory is divided by the number of connections.
//!
//!     cargo run --release --bin quic -- [--mib 512] [--handshakes 1000] [--connections 1000] [--rounds 7]
//!         [--only bulk|handshakes|memory] [--ours]

use anabranch_benches::{median, thread_cpu};
use anabranch_quic::{Config, Options, QuicConnector, QuicHost, start};
use anabranch_tls::{
    Client, ClientSettings, HostTls, Identity, Server, ServerSettings, Surroundings, Trust, Versions,
};
use anabranch_transport::{Connector, Listener, Session, Stream};
use anabranch_world::World;
use anabranch_world::os::{self, OsWorld};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

const NAME: &str = "server.test";
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// The UDP payload with an MTU of 1500, in bytes.
const PACKET: u16 = 1_472;
/// The number of bytes that an application reads or writes at a time.
const PIECE: usize = 64 * 1024;
/// The size in bytes that is requested for each socket buffer of quinn: the size that our own sockets request
/// (`world/src/os/bind.rs`).
const SOCKET_BUFFER: usize = 4 << 20;

/// What one run of the benchmark measures.
#[derive(Clone, Copy)]
enum Job {
    /// The client sends this number of bytes on one stream.
    Bulk(u64),
    /// This number of connections is opened and closed, one after the other.
    Handshakes(u32),
}

/// The TLS settings of client and server.
#[derive(Clone)]
struct Tls {
    client: Arc<rustls::ClientConfig>,
    server: Arc<rustls::ServerConfig>,
    identity: Identity,
}

/// CPU seconds of the client's thread and of the server's thread, and the client's elapsed time.
#[derive(Clone, Copy)]
struct Cost {
    client: f64,
    server: f64,
    wall: f64,
}

impl Cost {
    fn both(self) -> f64 {
        self.client + self.server
    }
}

fn settings(identity: &Identity) -> (ClientSettings, ServerSettings) {
    let protocols = vec![b"bench".to_vec()];
    let client = ClientSettings {
        trust: Trust::Anybody,
        versions: Versions::Only13,
        protocols: protocols.clone(),
        resumes: false,
        ..ClientSettings::default()
    };
    let server = ServerSettings {
        versions: Versions::Only13,
        protocols,
        resumes: false,
        ..ServerSettings::of(identity.clone())
    };
    (client, server)
}

impl Tls {
    fn new() -> Self {
        let identity = Identity::self_signed(&[NAME.to_owned()]).expect("a certificate");
        let (client, server) = settings(&identity);
        let client = Client::new(client, Surroundings::Real).expect("a client").rustls();
        let server = Server::new(server, Surroundings::Real).expect("a server").rustls();
        Self { client, server, identity }
    }

    fn ends(&self, is_server: bool) -> HostTls {
        let (client, server) = settings(&self.identity);
        HostTls {
            surroundings: Surroundings::Real,
            client: (!is_server)
                .then(|| (Client::new(client, Surroundings::Real).expect("a client"), NAME.to_owned())),
            server: is_server.then(|| Server::new(server, Surroundings::Real).expect("a server")),
        }
    }
}

fn config() -> Config {
    let mut config = Config::default();
    for (key, value) in [("packet", "1472B"), ("pmtud", "no")] {
        config.set(key, value).expect("a knob");
    }
    config
}

/// Runs a server in a separate thread and a client in this thread. Returns the costs of both.
fn both(
    server: impl FnOnce(Sender<u16>) -> f64 + Send + 'static,
    client: impl FnOnce(Receiver<u16>) -> (f64, f64),
) -> Cost {
    let (tell, hear) = mpsc::channel();
    let serving = thread::spawn(move || server(tell));
    let (client, wall) = client(hear);
    Cost { client, server: serving.join().expect("served"), wall }
}

async fn host(world: OsWorld, ends: HostTls) -> QuicHost<OsWorld> {
    start(world, 0, config(), ends, Options::default()).await.expect("a host")
}

fn world() -> os::Options {
    os::Options { addresses: vec![HERE.into()], sleep_at_once: true, ..os::Options::default() }
}

fn ours(tls: &Tls, job: Job) -> Cost {
    let theirs = tls.clone();
    let server = move |tell: Sender<u16>| {
        let program = async |world: OsWorld| {
            let host = host(world, theirs.ends(true)).await;
            let port = host.engine(anabranch_quic::Endpoint::port);
            let mut listener = host.listen_with(port, 0).expect("listening");
            tell.send(port).expect("heard");
            let before = thread_cpu();
            match job {
                Job::Bulk(bytes) => {
                    let session = listener.accept().await.expect("accepted");
                    let mut stream = session.accept().await.expect("a stream");
                    let (mut buffer, mut came) = (vec![0; PIECE], 0);
                    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                        came += read as u64;
                    }
                    assert_eq!(came, bytes);
                    stream.finish();
                    session.closed().await;
                }
                Job::Handshakes(count) => {
                    for _ in 0..count {
                        let session = listener.accept().await.expect("accepted");
                        session.closed().await;
                    }
                }
            }
            thread_cpu() - before
        };
        os::run(world(), program).expect("a world")
    };
    both(server, |hear| {
        let program = async |world: OsWorld| {
            let host = host(world, tls.ends(false)).await;
            let target = SocketAddr::from((HERE, hear.recv().expect("a port")));
            let connector = QuicConnector::new(host, vec![target]);
            let (before, begun) = (thread_cpu(), Instant::now());
            match job {
                Job::Bulk(bytes) => {
                    let session = connector.connect(0).expect("begun");
                    session.established().await.expect("established");
                    let mut stream = session.open(0).expect("a stream");
                    let (buffer, mut left) = (vec![7; PIECE], bytes);
                    while left > 0 {
                        let piece = left.min(PIECE as u64) as usize;
                        stream.write_all(&buffer[..piece]).await.expect("written");
                        left -= piece as u64;
                    }
                    stream.finish();
                    assert_eq!(stream.read(&mut [0]).await, Ok(0));
                    session.close();
                    session.closed().await;
                }
                Job::Handshakes(count) => {
                    for _ in 0..count {
                        let session = connector.connect(0).expect("begun");
                        session.established().await.expect("established");
                        session.close();
                        session.closed().await;
                    }
                }
            }
            (thread_cpu() - before, begun.elapsed().as_secs_f64())
        };
        os::run(world(), program).expect("a world")
    })
}

fn transport() -> Arc<quinn::TransportConfig> {
    let ours = config();
    let number = |value: u64| quinn::VarInt::from_u64(value).expect("small");
    let mut transport = quinn::TransportConfig::default();
    transport
        .stream_receive_window(number(ours.stream_window))
        .receive_window(number(ours.window))
        .send_window(ours.sndbuf)
        .initial_mtu(PACKET)
        .mtu_discovery_config(None);
    Arc::new(transport)
}

/// Returns a quinn endpoint, created as quinn's own constructors create it, except for the sizes of the socket's
/// buffers.
fn endpoint(server: Option<quinn::ServerConfig>) -> quinn::Endpoint {
    let socket = std::net::UdpSocket::bind((HERE, 0)).expect("a port");
    let buffers = socket2::SockRef::from(&socket);
    buffers.set_recv_buffer_size(SOCKET_BUFFER).expect("a buffer");
    buffers.set_send_buffer_size(SOCKET_BUFFER).expect("a buffer");
    let config = quinn::EndpointConfig::default();
    quinn::Endpoint::new(config, server, socket, Arc::new(quinn::TokioRuntime)).expect("an endpoint")
}

fn on_tokio<T>(program: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(program)
}

fn theirs(tls: &Tls, job: Job) -> Cost {
    let crypto = QuicServerConfig::try_from(tls.server.clone()).expect("settings");
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport());
    let server = move |tell: Sender<u16>| {
        on_tokio(async {
            let endpoint = endpoint(Some(config));
            tell.send(endpoint.local_addr().expect("an address").port()).expect("heard");
            let before = thread_cpu();
            match job {
                Job::Bulk(bytes) => {
                    let connection = endpoint.accept().await.expect("accepted").await.expect("established");
                    let (mut send, mut receive) = connection.accept_bi().await.expect("a stream");
                    let (mut buffer, mut came) = (vec![0; PIECE], 0);
                    while let Ok(Some(read)) = receive.read(&mut buffer).await {
                        came += read as u64;
                    }
                    assert_eq!(came, bytes);
                    send.finish().expect("finished");
                    connection.closed().await;
                }
                Job::Handshakes(count) => {
                    for _ in 0..count {
                        let connection =
                            endpoint.accept().await.expect("accepted").await.expect("established");
                        connection.closed().await;
                    }
                }
            }
            thread_cpu() - before
        })
    };
    both(server, |hear| {
        on_tokio(async {
            let crypto = QuicClientConfig::try_from(tls.client.clone()).expect("settings");
            let mut config = quinn::ClientConfig::new(Arc::new(crypto));
            config.transport_config(transport());
            let endpoint = endpoint(None);
            let target = SocketAddr::from((HERE, hear.recv().expect("a port")));
            let connect = async || {
                let connecting = endpoint.connect_with(config.clone(), target, NAME).expect("begun");
                connecting.await.expect("established")
            };
            let (before, begun) = (thread_cpu(), Instant::now());
            match job {
                Job::Bulk(bytes) => {
                    let connection = connect().await;
                    let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
                    let (buffer, mut left) = (vec![7; PIECE], bytes);
                    while left > 0 {
                        let piece = left.min(PIECE as u64) as usize;
                        send.write_all(&buffer[..piece]).await.expect("written");
                        left -= piece as u64;
                    }
                    send.finish().expect("finished");
                    assert_eq!(receive.read(&mut [0]).await, Ok(None));
                    connection.close(0u32.into(), b"");
                    endpoint.wait_idle().await;
                }
                Job::Handshakes(count) => {
                    for _ in 0..count {
                        connect().await.close(0u32.into(), b"");
                    }
                    endpoint.wait_idle().await;
                }
            }
            (thread_cpu() - before, begun.elapsed().as_secs_f64())
        })
    })
}

/// Runs the server of the memory measurement, in a process of its own. Prints the server's port, and keeps all
/// connections until standard input ends.
fn wait(name: &str) {
    let tls = Tls::new();
    let (end, ended) = mpsc::channel();
    thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        end.send(()).expect("heard");
        std::process::exit(0);
    });
    if name == "anabranch" {
        let program = async |world: OsWorld| {
            let host = host(world, tls.ends(true)).await;
            let port = host.engine(anabranch_quic::Endpoint::port);
            let mut listener = host.listen_with(port, 1_024).expect("listening");
            println!("{port}");
            let mut connections = Vec::new();
            while let Ok(session) = listener.accept().await {
                connections.push(session);
            }
        };
        os::run(world(), program).expect("a world");
    } else {
        let crypto = QuicServerConfig::try_from(tls.server).expect("settings");
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(transport());
        on_tokio(async {
            let endpoint = endpoint(Some(config));
            println!("{}", endpoint.local_addr().expect("an address").port());
            let mut connections = Vec::new();
            while let Some(incoming) = endpoint.accept().await {
                connections.push(incoming.await.expect("established"));
            }
        });
    }
    let _ = ended.recv();
}

/// Returns the number of bytes that the server `name` holds for each of `count` connections. The client is always our
/// QUIC stack.
fn memory(tls: &Tls, name: &str, count: u32) -> f64 {
    let itself = std::env::current_exe().expect("a path");
    let mut server = Command::new(itself)
        .args(["--wait", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let target = SocketAddr::from((HERE, line.trim().parse::<u16>().expect("a port")));
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("running");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).expect("a number") * 1_024.0
    };
    let program = async |world: OsWorld| {
        let connector = QuicConnector::new(host(world.clone(), tls.ends(false)).await, vec![target]);
        let mut connections = Vec::new();
        let mut before = 0.0;
        for number in 0..=WARM + count {
            if number == WARM {
                before = resident();
            }
            let session = connector.connect(0).expect("begun");
            session.established().await.expect("established");
            connections.push(session);
        }
        // Within a second, session tickets are delivered, packets are acknowledged, and path MTU discovery is complete.
        // The memory is measured after that.
        world.sleep_until(world.now() + std::time::Duration::from_secs(1)).await;
        (resident() - before) / f64::from(count)
    };
    let each = os::run(world(), program).expect("a world");
    drop(server.stdin.take());
    server.wait().expect("ended");
    each
}

/// The number of connections that are opened before the measurement, to warm up.
const WARM: u32 = 50;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, name] = &arguments[..]
        && flag == "--wait"
    {
        return wait(name);
    }
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let number =
        |name: &str, default: u64| value(name).map_or(default, |text| text.parse().expect("a number"));
    let (mib, count) = (number("--mib", 512), number("--handshakes", 1_000) as u32);
    let (rounds, only) = (number("--rounds", 7), value("--only"));
    let alone = arguments.iter().any(|argument| argument == "--ours");
    let tls = Tls::new();
    let wants = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let run = |job: Job| -> [Vec<Cost>; 2] {
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            costs[0].push(ours(&tls, job));
            if !alone {
                costs[1].push(theirs(&tls, job));
            }
        }
        costs
    };
    let middle =
        |costs: &[Cost], of: &dyn Fn(&Cost) -> f64| median(&costs.iter().map(of).collect::<Vec<_>>());
    let ratio = |costs: &[Vec<Cost>; 2]| {
        let pairs = costs[0].iter().zip(&costs[1]);
        median(&pairs.map(|(ours, theirs)| ours.both() / theirs.both()).collect::<Vec<_>>())
    };
    if wants("bulk") {
        let bytes = mib << 20;
        let gigabytes = bytes as f64 / 1e9;
        let costs = run(Job::Bulk(bytes));
        println!("{mib} MiB on one stream, packets of {PACKET} bytes; CPU seconds a GB");
        println!("{:12} {:>8} {:>9} {:>6} {:>14}", "", "sender", "receiver", "both", "goodput Gbit/s");
        for (name, costs) in ["anabranch", "quinn"].iter().zip(&costs).filter(|(_, costs)| !costs.is_empty())
        {
            println!(
                "{name:12} {:8.3} {:9.3} {:6.3} {:14.2}",
                middle(costs, &|cost| cost.client / gigabytes),
                middle(costs, &|cost| cost.server / gigabytes),
                middle(costs, &|cost| cost.both() / gigabytes),
                middle(costs, &|cost| gigabytes * 8.0 / cost.wall),
            );
        }
        if !alone {
            let ratio = ratio(&costs);
            let verdict = if ratio <= 1.0 { "met" } else { "missed" };
            println!("anabranch / quinn, CPU: {ratio:.2} (aim 1: {verdict})");
            let pairs = costs[0].iter().zip(&costs[1]);
            let goodput: Vec<f64> = pairs.map(|(ours, theirs)| theirs.wall / ours.wall).collect();
            println!("anabranch / quinn, goodput: {:.2}", median(&goodput));
        }
    }
    if wants("handshakes") {
        let costs = run(Job::Handshakes(count));
        println!("whole handshakes (ECDSA P-256, X25519) in a second of one core");
        println!("{:12} {:>8} {:>9} {:>6}", "", "client", "server", "both");
        for (name, costs) in ["anabranch", "quinn"].iter().zip(&costs).filter(|(_, costs)| !costs.is_empty())
        {
            println!(
                "{name:12} {:8.0} {:9.0} {:6.0}",
                middle(costs, &|cost| f64::from(count) / cost.client),
                middle(costs, &|cost| f64::from(count) / cost.server),
                middle(costs, &|cost| f64::from(count) / cost.both()),
            );
        }
        if !alone {
            println!("anabranch / quinn: {:.2}", 1.0 / ratio(&costs));
        }
    }
    if wants("memory") {
        let count = number("--connections", 1_000) as u32;
        println!("resident bytes of a connection that waits, at its server, of {count}");
        for name in ["anabranch", "quinn"].iter().take(if alone { 1 } else { 2 }) {
            println!("{name:12} {:8.0}", memory(&tls, name, count));
        }
    }
}
