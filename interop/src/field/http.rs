//! HTTP between our commands (`get` and `serve`) and the peer's program. That program implements only the parts of HTTP
//! that the tests need.

use super::encounter::{Encounter, PATIENCE, PORT, Setup};
use super::path_emulator::EmulatedWorld;
use super::peer_network::{Losses, OURS, PeerNetwork, THEIRS};
use super::{Column, LowerLayer, PeerStack};
use crate::cases::By;
use crate::traffic::pattern;
use anabranch_base::time::Duration;
use anabranch_world::World;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The size in bytes of an object that is fetched, unless the test case says otherwise.
const SIZE: usize = 100_000;
/// Every object consists of the bytes of [`pattern`] for this message number.
const MESSAGE: u32 = 7;

/// A running command of ours, which is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command() -> Command {
    let mut command = Command::new(std::env::var_os("ANABRANCH").unwrap_or_else(|| "anabranch".into()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn setup(begins: By) -> Setup {
    Setup { begins, knobs: Vec::new(), arguments: vec!["http=1".to_owned()], v6: false, here: 1, there: 1 }
}

fn url_of(scheme: &str, carrier: LowerLayer, host: Ipv4Addr, udp: u16) -> String {
    match carrier {
        LowerLayer::Dtls12 | LowerLayer::Dtls13 => format!("https+sctp://{host}:{udp}"),
        LowerLayer::Udp => format!("{scheme}://{host}:{udp}"),
        LowerLayer::Ip => format!("{scheme}-ip://{host}:{PORT}"),
    }
}

/// Returns the path of a file or directory that only the peer of `column` uses. The path cannot contain a process ID
/// instead, because each peer runs in its own PID namespace, where process IDs repeat.
fn scratch(column: Column, name: &str) -> PathBuf {
    let programs = PathBuf::from(std::env::var_os("FIELD_PROGRAMS").unwrap_or_else(|| ".".into()));
    programs.join(format!("{name}-{}", column.to_string().replace('/', "-")))
}

/// The objects that a client requests at once, each on its own stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    objects: usize,
    /// The size of each object in bytes.
    size: usize,
    /// Percentage of packets lost in each direction.
    loss: u8,
}

impl Load {
    /// A load of one object of 100 kB.
    pub const ONE: Self = Self { objects: 1, size: SIZE, loss: 0 };
    /// A load of three objects of 100 kB.
    const THREE: Self = Self { objects: 3, ..Self::ONE };

    /// Returns a load of fifty objects of 1 MB, with this percentage of lost packets.
    #[must_use]
    pub const fn fifty(loss: u8) -> Self {
        Self { objects: 50, size: 1_000_000, loss }
    }

    /// Returns the time limit for the load of all objects. With losses, the slowest peer stack needs more than a
    /// minute.
    fn patience(self) -> Duration {
        if self.loss > 0 { PATIENCE * 4 } else { PATIENCE * 2 }
    }

    fn begin_losses(self) -> Result<Option<Losses>, String> {
        let losses = (self.loss > 0).then(|| Losses::begin(self.loss)).transpose();
        losses.map_err(|error| error.to_string())
    }

    /// Returns the text about a successful load that the matrix shows; `taken` is the duration of the load.
    fn note(self, taken: Duration, losses: Option<&Losses>) -> Result<String, String> {
        let seconds = taken.as_secs_f64();
        let Some(losses) = losses else {
            return Ok(if self.objects < 50 { String::new() } else { format!("{seconds:.1} s") });
        };
        match losses.counts().map_err(|error| error.to_string())? {
            [0, _] | [_, 0] => Err("no packets were lost in one of the directions".to_owned()),
            [theirs, ours] => Ok(format!("{seconds:.1} s, {} lost", theirs + ours)),
        }
    }
}

/// Fetches objects from the peer's server with our command `get`.
///
/// # Errors
/// An object did not arrive, or differs.
pub async fn get(world: EmulatedWorld, network: &mut PeerNetwork, load: Load) -> Result<String, String> {
    let column = network.column;
    let directory = scratch(column, "got");
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let url = url_of("http+sctp", column.carrier, THEIRS[0], column.udp_port());
    let mut setup = setup(By::Us);
    setup.arguments.push("streams=64".to_owned());
    let mut e = Encounter::without_us(world.clone(), network, setup)?;
    let outcome = async {
        e.until("the server", PATIENCE, |e| e.theirs.ready).await?;
        let losses = load.begin_losses()?;
        let started = world.now();
        // `silence` is the timeout of `get`. Without losses, a short timeout suffices to notice a peer that does not
        // answer. aiortc needs a long timeout: it sends one object after the other, so the last object waits for all
        // other objects.
        let silence = match (column.kind, load.loss) {
            (PeerStack::Aiortc, _) => "400s",
            (_, 0) => "10s",
            _ => "30s",
        };
        // pion does not answer an INIT that lists address types or addresses (README, fault 7). This host has several
        // addresses, so the INIT of `get` would list the addresses.
        let set = match column.kind {
            PeerStack::Pion => &["--set", "address_types=no"][..],
            // The data channels of aiortc have only the payload protocol identifiers of WebRTC (RFC 8831 §8).
            PeerStack::Aiortc => &["--ppid", WEBRTC_BINARY],
            PeerStack::Usrsctp | PeerStack::Linux => &[],
        };
        let mut command = command();
        command
            .args(["get", "-q", "--timeout", silence, "--sctp-port", &PORT.to_string()])
            .args(set)
            // The peer's certificate is self-signed, so any certificate is accepted.
            .args(if column.carrier.is_secure() { &["--insecure"][..] } else { &[] });
        for object in 0..load.objects {
            command.arg("-o").arg(directory.join(object.to_string()));
            command.arg(format!("{url}/bytes/{}", load.size));
        }
        let child = command.spawn().map_err(|error| format!("anabranch get: {error}"))?;
        let mut running = Running(child);
        // aiortc gets three times the usual time: with 2 % loss, it sends only a quarter of a megabyte per second.
        let slow = if column.kind == PeerStack::Aiortc { 3 } else { 1 };
        let end = world.now() + load.patience() * slow;
        let status = loop {
            match running.0.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break status,
                None if world.now() > end => return Err("get does not end".to_owned()),
                None => e.pause(Duration::from_millis(20)).await?,
            }
        };
        let taken = world.now().since(started);
        if !status.success() {
            let mut text = String::new();
            if let Some(mut stderr) = running.0.stderr.take() {
                let _ = std::io::Read::read_to_string(&mut stderr, &mut text);
            }
            return Err(format!("get: {status}: {}", text.trim()));
        }
        let right = pattern(MESSAGE, load.size);
        for object in 0..load.objects {
            let body = std::fs::read(directory.join(object.to_string()));
            let body = body.map_err(|error| format!("object {object}: {error}"))?;
            if body != right {
                return Err(format!("object {object}: {} other bytes", body.len()));
            }
        }
        load.note(taken, losses.as_ref())
    }
    .await;
    let _ = std::fs::remove_dir_all(&directory);
    e.end().await;
    outcome
}

/// RFC 8831 §8: the payload protocol identifier of a WebRTC string.
const WEBRTC_STRING: u32 = 51;
/// RFC 8831 §8: the payload protocol identifier of WebRTC binary data, as an argument of `get`.
const WEBRTC_BINARY: &str = "53";

/// What the peer's client requests from our `serve`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// The client requests three objects of 100 kB.
    Three,
    /// The client requests fifty objects of 1 MB at once, each on its own stream. This percentage of packets is lost in
    /// each direction.
    Fifty(u8),
    /// The client fetches one object, is killed, and starts again from the same ports. The server must accept the new
    /// client at its first attempt (RFC 9260 §5.2.4 A).
    Again,
    /// The client requests three objects, in messages with this payload protocol identifier. The messages of the
    /// responses must have the same identifier (RFC 8831 §8).
    InKind(u32),
}

impl Asks {
    const fn load(self) -> Load {
        match self {
            Self::Fifty(loss) => Load::fifty(loss),
            Self::Again => Load::ONE,
            Self::Three | Self::InKind(_) => Load::THREE,
        }
    }
}

/// Lets the peer's client fetch objects from our command `serve`.
///
/// # Errors
/// An object did not arrive, or differs.
pub async fn serve(world: EmulatedWorld, network: &mut PeerNetwork, asks: Asks) -> Result<String, String> {
    let column = network.column;
    let root = scratch(column, "site");
    let directory = root.join("bytes");
    let load = asks.load();
    let size = load.size;
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    std::fs::write(directory.join(size.to_string()), pattern(MESSAGE, size))
        .map_err(|error| error.to_string())?;
    let listen = url_of("sctp", column.carrier, OURS[0], column.udp_port());
    let child = command()
        .args(["serve", "-q", "--streams", "64", "--sctp-port", &PORT.to_string(), "--listen", &listen])
        .arg(&root)
        .spawn()
        .map_err(|error| format!("anabranch serve: {error}"))?;
    let running = Running(child);
    world.sleep_until(world.now() + Duration::from_millis(300)).await;
    let mut path = format!("/bytes/{size}");
    if column.kind == PeerStack::Aiortc && asks == Asks::InKind(WEBRTC_STRING) {
        // aiortc requires that a string message is UTF-8, so the object is a text.
        path = format!("/text/{size}");
        let texts = root.join("text");
        std::fs::create_dir_all(&texts).map_err(|error| error.to_string())?;
        std::fs::write(texts.join(size.to_string()), vec![b'x'; size]).map_err(|error| error.to_string())?;
    }
    let mut setup = setup(By::Them);
    setup.arguments.push("streams=64".to_owned());
    if let Asks::InKind(kind) = asks {
        setup.arguments.push(format!("ppid={kind}"));
    }
    let losses = load.begin_losses()?;
    let started = world.now();
    let mut e = Encounter::without_us(world.clone(), network, setup)?;
    let outcome = async {
        fetched(&mut e, load, &path).await?;
        if asks == Asks::Again {
            e.kill_them().await?;
            e.start_them(By::Them)?;
            fetched(&mut e, load, &path).await?;
        }
        load.note(world.now().since(started), losses.as_ref())
    }
    .await;
    e.end().await;
    drop(running);
    let _ = std::fs::remove_dir_all(&root);
    outcome
}

/// Waits until the peer's client is connected and has received these objects, each on its own stream.
async fn fetched(e: &mut Encounter<'_>, load: Load, path: &str) -> Result<(), String> {
    let Load { objects, size, .. } = load;
    e.until("the client", PATIENCE, |e| e.theirs.up).await?;
    let before = e.theirs.reports.len();
    for stream in 0..objects {
        e.tell_theirs(&format!("get {stream} {path}"));
    }
    let right = format!("200 {size} ok");
    let is_right = |line: &&String| line.starts_with("body") && line.ends_with(&right);
    e.until("the objects", load.patience(), |e| {
        e.theirs.reports[before..].iter().filter(is_right).count() == objects
            || e.theirs.reports[before..].iter().any(|line| line.starts_with("fault"))
    })
    .await?;
    match e.theirs.reports[before..].iter().find(|line| line.starts_with("fault")) {
        Some(fault) => Err(fault.clone()),
        None => Ok(()),
    }
}
