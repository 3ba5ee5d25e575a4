//! Runs our TCP engine against the TCP of the kernel, over a TUN device.
//!
//! Both ends are sessions of the `transport` crate, so one script controls both ends. The path emulator is between our
//! engine and the TUN device.

use super::matrix::capture_suffix;
use super::path_emulator::{EmulatedWorld, PathEmulator};
use super::peer_network::run;
use super::tun::TunSocket;
use super::{TRIES, is_chosen, with_try};
use crate::cases::By;
use crate::traffic::pattern;
use anabranch_base::time::Duration;
use anabranch_transport::kernel::{KernelConnector, KernelListener};
use anabranch_transport::tcp::{Config, TcpHost, TcpSession};
use anabranch_transport::{CloseReason, Connector, Listener, Session, Stream};
use anabranch_world::os::{self, Options, OsWorld, Tun};
use anabranch_world::{Detach, World};
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;

/// A test case that is run with the kernel's TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// The given side sends 10 MB, with the given loss or reordering.
    Bulk(By, PathImpairment),
    /// A connection is closed in the given way.
    Close(Close),
}

/// How the emulated path impairs packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathImpairment {
    /// The path neither loses nor delays packets.
    Straight,
    /// The path loses this percentage of the packets.
    Loss(u64),
    /// 2 % of the packets arrive 5 ms late.
    Reordered,
}

/// The way in which a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// The given side sends its FIN. The other side reads the end of the data, and sends its FIN later.
    First(By),
    /// The given side sends its FIN. The other side sends 1 MB more before its own FIN.
    Half(By),
    /// Both sides send their FIN at the same time.
    Both,
    /// The given side resets the connection during a transfer.
    Reset(By),
    /// The given side connects to a port without a listener, and is notified at once.
    Refused(By),
}

impl Case {
    /// All test cases, in the order of the output.
    pub const ALL: [Self; 17] = [
        Self::Bulk(By::Us, PathImpairment::Straight),
        Self::Bulk(By::Them, PathImpairment::Straight),
        Self::Bulk(By::Us, PathImpairment::Loss(1)),
        Self::Bulk(By::Them, PathImpairment::Loss(1)),
        Self::Bulk(By::Us, PathImpairment::Loss(5)),
        Self::Bulk(By::Them, PathImpairment::Loss(5)),
        Self::Bulk(By::Us, PathImpairment::Reordered),
        Self::Bulk(By::Them, PathImpairment::Reordered),
        Self::Close(Close::First(By::Us)),
        Self::Close(Close::First(By::Them)),
        Self::Close(Close::Half(By::Us)),
        Self::Close(Close::Half(By::Them)),
        Self::Close(Close::Both),
        Self::Close(Close::Reset(By::Us)),
        Self::Close(Close::Reset(By::Them)),
        Self::Close(Close::Refused(By::Us)),
        Self::Close(Close::Refused(By::Them)),
    ];
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = |by: &By| if *by == By::Us { "we" } else { "they" };
        match self {
            Self::Bulk(who, PathImpairment::Straight) => write!(f, "10 MB, {} send", by(who)),
            Self::Bulk(who, PathImpairment::Loss(loss)) => {
                write!(f, "10 MB, {loss} % loss, {} send", by(who))
            }
            Self::Bulk(who, PathImpairment::Reordered) => write!(f, "10 MB, reordering, {} send", by(who)),
            Self::Close(Close::First(who)) => write!(f, "close, {} first", by(who)),
            Self::Close(Close::Half(who)) => write!(f, "half-close, {} first", by(who)),
            Self::Close(Close::Both) => write!(f, "close at the same time"),
            Self::Close(Close::Reset(who)) => write!(f, "reset, {} do", by(who)),
            Self::Close(Close::Refused(who)) => write!(f, "nobody listens, {} begin", by(who)),
        }
    }
}

/// The kernel's address on the TUN device.
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 92, 0, 1);
/// Our address, which is reached through the TUN device.
const OURS: Ipv4Addr = Ipv4Addr::new(10, 92, 0, 2);
const MTU: u32 = 1500;
const SIZE: usize = 10_000_000;

/// Runs the test cases that `chosen` names, in namespaces of this process. Runs each case twice: our side opens the
/// connection in the first run, and the kernel in the second. A case of a refused connection has only one of these
/// runs. Prints a line for each case. Returns true if every case passed.
///
/// # Errors
/// The world cannot be created.
pub fn column(chosen: &str) -> io::Result<bool> {
    run("ip", ["link", "set", "lo", "up"])?;
    // The host's default congestion control may ignore losses (BBR), so Reno is selected. Every kernel has Reno. The
    // setting applies only to this namespace.
    std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno")?;
    println!("{:<34}{:<24}{:<24}", "TCP", "we connect", "they connect");
    let mut green = true;
    for (number, case) in Case::ALL.into_iter().enumerate() {
        if !is_chosen(number, &case.to_string(), chosen) {
            continue;
        }
        let mut line = format!("{:<34}", case.to_string());
        for begins in [By::Us, By::Them] {
            let text = match case {
                Case::Close(Close::Refused(by)) if by != begins => String::new(),
                _ => attempts(case, begins, number).unwrap_or_else(|| {
                    green = false;
                    "FAILS".to_owned()
                }),
            };
            line += &format!("{text:<24}");
        }
        println!("{}", line.trim_end());
    }
    Ok(green)
}

/// Repeats a test case until it passes, up to [`TRIES`] times. Returns the text for the table of results, or `None` if
/// every attempt failed.
fn attempts(case: Case, begins: By, number: usize) -> Option<String> {
    for attempt in 1..=TRIES {
        match one(case, begins, number, attempt) {
            Ok(note) => {
                let note = with_try(&note, attempt);
                return Some(if note.is_empty() { "ok".to_owned() } else { format!("ok, {note}") });
            }
            Err(why) => eprintln!("TCP, {case}, {begins:?} begin, try {attempt} of {TRIES}: {why}"),
        }
    }
    None
}

fn one(case: Case, begins: By, number: usize, attempt: usize) -> Result<String, String> {
    let path = PathEmulator::new(number as u64);
    path.delay.set(Duration::from_millis(2));
    if let Case::Bulk(_, kind) = case {
        match kind {
            PathImpairment::Straight => {}
            PathImpairment::Loss(percent) => path.loss_ppm.set(percent * 10_000),
            PathImpairment::Reordered => path.reorder_ppm.set(20_000),
        }
    }
    let captures =
        PathBuf::from(std::env::var_os("FIELD_CAPTURES").unwrap_or_else(|| std::env::temp_dir().into()));
    let name = format!("tcp-{case}-{begins:?}").replace([' ', ',', '%'], "-");
    let capture = captures.join(format!("{name}{}.pcapng", capture_suffix(attempt)));
    path.capture(&capture).map_err(|error| format!("{}: {error}", capture.display()))?;
    let options = Options { addresses: vec![THEIRS.into()], seed: Some(number as u64), ..Options::default() };
    // The device has to exist before the world is created, because the world asks for the device's address.
    let outcome = prepare().and_then(|()| {
        os::run(options, async |world| {
            let limit = Duration::from_secs(90);
            {
                let result = world.timeout(limit, meet(case, begins, world.clone(), path.clone())).await;
                result.unwrap_or_else(|| Err("took too long".to_owned()))
            }
        })
    });
    path.end_capture();
    let _ = run("ip", ["link", "del", DEVICE]);
    let outcome = outcome.map_err(|error| error.to_string()).and_then(|outcome| outcome);
    if outcome.is_ok() && std::env::var_os("FIELD_KEEP").is_none() {
        let _ = std::fs::remove_file(&capture);
    }
    outcome.map_err(|why| format!("{why} [{}]", capture.display()))
}

const DEVICE: &str = "field0";

/// Creates a TUN device that persists while no process holds it.
fn prepare() -> io::Result<()> {
    run("ip", ["tuntap", "add", "dev", DEVICE, "mode", "tun"])?;
    run("ip", ["addr", "add", &format!("{THEIRS}/24"), "dev", DEVICE])?;
    run("ip", ["link", "set", DEVICE, "mtu", &MTU.to_string(), "up"])
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

async fn meet(case: Case, begins: By, os: OsWorld, path: Rc<PathEmulator>) -> Result<String, String> {
    let emulated_world = EmulatedWorld::new(os.clone(), path.clone());
    let device = Tun::open(DEVICE).map_err(|error| format!("TUN: {error}"))?;
    emulated_world.put_tun(TunSocket::new(device, OURS, MTU));
    // The profile `modern` detects losses by time. With the older methods, a transfer with 5 % loss takes very long.
    let mut config = Config::profile("modern").unwrap_or_default();
    for (key, value) in [("rcvbuf", "4MiB"), ("sndbuf", "4MiB"), ("wscale", "yes"), ("sack", "yes")] {
        config.set(key, value).map_err(text)?;
    }
    let host = TcpHost::new(emulated_world.clone(), config).await.map_err(text)?;
    let refused = matches!(case, Case::Close(Close::Refused(_)));
    let (ours, theirs) = match begins {
        By::Us => {
            let at = SocketAddr::from((THEIRS, 7000));
            let mut listener =
                (!refused).then(|| KernelListener::new(os.clone(), at, 1)).transpose().map_err(text)?;
            let ours = host.connect(at).map_err(text)?;
            let Some(listener) = &mut listener else {
                return match ours.established().await {
                    Err(CloseReason::Refused) => Ok(String::new()),
                    other => Err(format!("{other:?}")),
                };
            };
            (ours, listener.accept().await.map_err(text)?)
        }
        By::Them => {
            let at = SocketAddr::from((OURS, 7000));
            let mut listener = (!refused).then(|| host.listen(7000, 1)).transpose().map_err(text)?;
            let theirs = KernelConnector::new(os.clone(), vec![at]).connect(0).map_err(text)?;
            let Some(listener) = &mut listener else {
                return match theirs.established().await {
                    Err(CloseReason::Refused) => Ok(String::new()),
                    other => Err(format!("{other:?}")),
                };
            };
            (listener.accept().await.map_err(text)?, theirs)
        }
    };
    ours.established().await.map_err(text)?;
    theirs.established().await.map_err(text)?;
    let info = ours.info().ok_or("no connection")?;
    if !info.sack || !info.timestamps {
        return Err(format!("not agreed on: SACK {}, timestamps {}", info.sack, info.timestamps));
    }
    let (a, b) = (ours.open(0).map_err(text)?, theirs.open(0).map_err(text)?);
    match case {
        Case::Bulk(By::Us, kind) => {
            let widest = Rc::new(RefCell::new(0));
            watch(&emulated_world, &ours, widest.clone());
            let rate = transfer(&emulated_world, a, b).await?;
            if *widest.borrow() <= u64::from(u16::MAX) {
                return Err("their window was never scaled".to_owned());
            }
            let stats = ours.stats();
            let fast = stats.as_ref().map_or(0, |stats| stats.retransmitted_fast);
            if matches!(kind, PathImpairment::Loss(_)) && fast == 0 {
                return Err("nothing was sent again for its SACKs".to_owned());
            }
            let timeouts = stats.map_or(0, |stats| stats.timeouts);
            Ok(if timeouts == 0 { rate } else { format!("{rate}, {timeouts} timeouts") })
        }
        Case::Bulk(By::Them, _) => transfer(&emulated_world, b, a).await,
        Case::Close(kind) => close(&emulated_world, kind, (ours, a), (theirs, b)).await,
    }
}

/// Records the largest window that the peer advertises in `widest`.
fn watch(world: &EmulatedWorld, ours: &TcpSession<EmulatedWorld>, widest: Rc<RefCell<u64>>) {
    let (within, ours) = (world.clone(), ours.clone());
    let task = async move {
        while let Some(info) = ours.info() {
            let wide = (*widest.borrow()).max(info.peer_window);
            *widest.borrow_mut() = wide;
            within.sleep_until(within.now() + Duration::from_millis(5)).await;
        }
    };
    world.spawn("window", task).detach();
}

/// Sends all bytes of a message from `from` to `to`. Then `to` closes its direction of the connection, and `from` must
/// see the end of that direction. Returns the duration in seconds as a text.
async fn transfer<A: Stream, B: Stream>(
    world: &EmulatedWorld,
    mut from: A,
    mut to: B,
) -> Result<String, String> {
    let started = world.now();
    let sender = world.spawn("sender", async move {
        let outcome = from.write_all(&pattern(1, SIZE)).await;
        from.finish();
        let mut rest = [0; 10];
        let end = from.read(&mut rest).await;
        (outcome, end)
    });
    let got = drain(&mut to).await?;
    let taken = world.now().since(started);
    to.finish();
    if got != pattern(1, SIZE) {
        return Err(format!("{} bytes came, or others", got.len()));
    }
    match sender.await {
        (Ok(()), Ok(0)) => Ok(format!("{:.1} s", taken.as_secs_f64())),
        other => Err(format!("the sender: {other:?}")),
    }
}

async fn drain<S: Stream>(from: &mut S) -> Result<Vec<u8>, String> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match from.read(&mut buffer).await {
            Ok(0) => return Ok(all),
            Ok(size) => all.extend_from_slice(&buffer[..size]),
            Err(reason) => return Err(format!("after {} bytes: {reason}", all.len())),
        }
    }
}

async fn close<A: Session, B: Session>(
    world: &EmulatedWorld,
    kind: Close,
    (ours, mut a): (A, A::Stream),
    (theirs, mut b): (B, B::Stream),
) -> Result<String, String> {
    let greeting = pattern(2, 1000);
    a.write_all(&greeting).await.map_err(text)?;
    b.write_all(&greeting).await.map_err(text)?;
    let mut buffer = vec![0; greeting.len()];
    fill(&mut a, &mut buffer).await?;
    fill(&mut b, &mut buffer).await?;
    match kind {
        Close::First(By::Us) => {
            a.finish();
            expect_end(&mut b).await?;
            b.finish();
            expect_end(&mut a).await?;
        }
        Close::First(By::Them) => {
            b.finish();
            expect_end(&mut a).await?;
            a.finish();
            expect_end(&mut b).await?;
        }
        Close::Half(By::Us) => {
            a.finish();
            expect_end(&mut b).await?;
            after_half(world, b, a).await?;
        }
        Close::Half(By::Them) => {
            b.finish();
            expect_end(&mut a).await?;
            after_half(world, a, b).await?;
        }
        Close::Both => {
            a.finish();
            b.finish();
            expect_end(&mut a).await?;
            expect_end(&mut b).await?;
        }
        Close::Reset(By::Us) => {
            ours.abort();
            return match b.read(&mut buffer).await {
                Err(CloseReason::Reset(_)) => Ok(String::new()),
                other => Err(format!("they read {other:?}")),
            };
        }
        Close::Reset(By::Them) => {
            theirs.abort();
            // The kernel closes its connection only when the last handle is dropped.
            drop((theirs, b));
            return match a.read(&mut buffer).await {
                Err(CloseReason::Reset(_)) => Ok(String::new()),
                other => Err(format!("we read {other:?}")),
            };
        }
        Close::Refused(_) => return Err("somebody listened".to_owned()),
    }
    match ours.closed().await {
        CloseReason::Finished => Ok(String::new()),
        reason => Err(format!("we closed by {reason:?}")),
    }
}

/// Sends 1 MB from the side that has not sent its FIN to the side that has. All bytes must arrive.
async fn after_half<A: Stream, B: Stream>(
    world: &EmulatedWorld,
    mut from: A,
    mut to: B,
) -> Result<(), String> {
    let bytes = pattern(3, 1_000_000);
    let sender = world.spawn("sender", async move {
        let outcome = from.write_all(&pattern(3, 1_000_000)).await;
        from.finish();
        outcome.map(|()| from)
    });
    let got = drain(&mut to).await?;
    sender.await.map_err(text)?;
    if got == bytes { Ok(()) } else { Err(format!("{} bytes came, or others", got.len())) }
}

async fn fill<S: Stream>(from: &mut S, into: &mut [u8]) -> Result<(), String> {
    let mut at = 0;
    while at < into.len() {
        match from.read(&mut into[at..]).await.map_err(text)? {
            0 => return Err("an early end".to_owned()),
            size => at += size,
        }
    }
    Ok(())
}

async fn expect_end<S: Stream>(from: &mut S) -> Result<(), String> {
    match from.read(&mut [0; 10]).await {
        Ok(0) => Ok(()),
        other => Err(format!("instead of the end: {other:?}")),
    }
}
