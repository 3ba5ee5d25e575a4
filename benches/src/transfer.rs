//! Runs bulk transfers over one simulated link, without HTTP and without recording a trace.
//!
//! Clients send for a given virtual time. Servers on other hosts read and discard the data. The benchmarks `speed` and
//! `physics` use this code.

use crate::thread_cpu;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_link::{LinkSpec, Meter};
use anabranch_sim::{Direction, Network, SimWorld};
use anabranch_transport::sctp::{LowerProtocol, SctpHost};
use anabranch_transport::tcp::TcpHost;
use anabranch_transport::{Listener, Session, Stream};
use anabranch_world::{Detach, World};
use bytes::Bytes;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// One flow: a transport with its settings.
#[derive(Clone, Debug)]
pub enum Flow {
    /// A TCP connection.
    Tcp(Box<anabranch_tcp::Config>),
    /// An SCTP association with all data on one stream.
    Sctp(Box<anabranch_sctp::Config>),
}

impl Flow {
    /// Parses `tcp` or `sctp`, with settings: `tcp:profile=ns2,sack=no`.
    ///
    /// # Errors
    /// Returns one line that describes the wrong setting.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let pairs: Vec<(&str, &str)> = settings
            .split(',')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').ok_or_else(|| format!("'{pair}': write key=value")))
            .collect::<Result<_, _>>()?;
        let profile =
            |default| pairs.iter().find(|(key, _)| *key == "profile").map_or(default, |(_, name)| *name);
        let knobs = pairs.iter().filter(|(key, _)| *key != "profile");
        match name {
            "tcp" => {
                let name = profile("modern");
                let mut config =
                    anabranch_tcp::Config::profile(name).ok_or_else(|| format!("no profile '{name}'"))?;
                for (key, value) in knobs {
                    config.set(key, value).map_err(|error| error.to_string())?;
                }
                Ok(Self::Tcp(Box::new(config)))
            }
            "sctp" => {
                let name = profile("rfc9260");
                let mut config =
                    anabranch_sctp::Config::profile(name).ok_or_else(|| format!("no profile '{name}'"))?;
                for (key, value) in knobs {
                    config.set(key, value).map_err(|error| error.to_string())?;
                }
                Ok(Self::Sctp(Box::new(config)))
            }
            _ => Err(format!("'{name}': write tcp or sctp")),
        }
    }
}

/// The counters of one flow at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The bytes that the receiving application has read.
    pub bytes: u64,
    /// The number of retransmission timeouts.
    pub timeouts: u64,
    /// Retransmissions (of segments or chunks) that no timeout caused.
    pub fast_retransmissions: u64,
    /// The number of retransmissions (of segments or chunks) after a timeout.
    pub timeout_retransmissions: u64,
    /// The number of times that a fast recovery reduced the congestion window.
    pub recoveries: u64,
}

/// The result of a run with one or more flows.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The counters of each flow, in the order in which the flows were given.
    pub flows: Vec<Figures>,
    /// Packets that were sent on the link in both directions, including lost ones.
    pub transmissions: u64,
    /// The CPU seconds of this thread for the run.
    pub cpu: f64,
    /// The link's counters for the direction of data, and for the direction of acknowledgements.
    pub meters: [Meter; 2],
}

/// Runs `flows` at the same time for `span` of virtual time. Each flow has its own hosts, and all share one link, whose
/// `up` direction carries the data.
///
/// # Errors
/// Returns one line that describes the failure.
pub fn run(link: &LinkSpec, flows: &[Flow], span: Duration, seed: u64) -> Result<Outcome, String> {
    let network = Network::new(seed);
    let bottleneck = match flows.len() {
        1 => None,
        _ => Some((network.router("left"), network.router("right"))),
    };
    let mut ends = Vec::new();
    let mut measured = None;
    for index in 0..flows.len() {
        let near: IpAddr = [10, 1, index as u8, 1].into();
        let far: IpAddr = [10, 2, index as u8, 1].into();
        let client = network.host(&format!("client{index}"), &[near]);
        let server = network.host(&format!("server{index}"), &[far]);
        match bottleneck {
            None => measured = Some(network.link(client, server, link).map_err(|e| e.to_string())?),
            Some((left, right)) => {
                // The access links have unlimited rate and no delay, so that only the link in the middle matters.
                let access = LinkSpec::parse("rate=unlimited,delay=0").map_err(|e| e.to_string())?;
                network.link(client, left, &access).map_err(|e| e.to_string())?;
                network.link(right, server, &access).map_err(|e| e.to_string())?;
            }
        }
        ends.push((network.world(client), network.world(server), far));
    }
    if let Some((left, right)) = bottleneck {
        measured = Some(network.link(left, right, link).map_err(|e| e.to_string())?);
    }
    let measured = measured.ok_or("no flow was given")?;
    let results: Vec<Rc<RefCell<Figures>>> = flows.iter().map(|_| Rc::default()).collect();
    let start = thread_cpu();
    let world = ends[0].0.clone();
    let end = Instant::ZERO + span;
    let main = async {
        let mut stops = Vec::new();
        for ((flow, (here, there, far)), figures) in flows.iter().zip(ends).zip(&results) {
            let stop = begin(flow, here, there, far, figures.clone()).await?;
            stops.push(stop);
        }
        world.sleep_until(end).await;
        for stop in stops {
            stop();
        }
        Ok::<(), String>(())
    };
    network.run(main, Instant::MAX).expect_done()?;
    let cpu = thread_cpu() - start;
    let meters =
        [Direction::Up, Direction::Down].map(|direction| network.link_counters(measured, direction).meter);
    let put = |meter: &Meter| {
        meter.entered.packets - meter.overflowed.packets - meter.dropped_early.packets - meter.too_big.packets
    };
    let transmissions = meters.iter().map(put).sum();
    let flows = results.iter().map(|figures| figures.borrow().clone()).collect();
    Ok(Outcome { flows, transmissions, cpu, meters })
}

/// Starts a flow. Returns the function that collects the flow's statistics at the end.
async fn begin(
    flow: &Flow,
    here: SimWorld,
    there: SimWorld,
    far: IpAddr,
    figures: Rc<RefCell<Figures>>,
) -> Result<Box<dyn FnOnce()>, String> {
    let server = SocketAddr::new(far, 80);
    match flow {
        Flow::Tcp(config) => {
            let client = TcpHost::new(here.clone(), (**config).clone()).await.map_err(|e| e.to_string())?;
            let host = TcpHost::new(there.clone(), (**config).clone()).await.map_err(|e| e.to_string())?;
            let listener = host.listen(80, 0).map_err(|e| e.to_string())?;
            there.spawn("read", read(listener, figures.clone())).detach();
            let session = client.connect(server).map_err(|e| e.to_string())?;
            here.spawn("write", write(session.clone())).detach();
            Ok(Box::new(move || {
                if let Some(stats) = session.stats() {
                    let mut figures = figures.borrow_mut();
                    figures.timeouts = stats.timeouts;
                    figures.fast_retransmissions = stats.retransmitted_fast;
                    figures.timeout_retransmissions = stats.retransmitted_timeout;
                    figures.recoveries = stats.fast_recoveries;
                }
                drop((client, host));
            }))
        }
        Flow::Sctp(config) => {
            let make = |world: SimWorld| SctpHost::new(world, (**config).clone(), LowerProtocol::Ip, None);
            let client = make(here.clone()).await.map_err(|e| e.to_string())?;
            let host = make(there.clone()).await.map_err(|e| e.to_string())?;
            let listener = host.listen(80).map_err(|e| e.to_string())?;
            there.spawn("read", read(listener, figures.clone())).detach();
            let peer = [SocketAddr::new(far, 0)];
            let session = client.connect(&peer, 80).map_err(|e| e.to_string())?;
            here.spawn("write", write(session.clone())).detach();
            Ok(Box::new(move || {
                if let Some(stats) = session.stats() {
                    sctp_figures(&mut figures.borrow_mut(), &stats);
                }
                drop((client, host));
            }))
        }
    }
}

fn sctp_figures(figures: &mut Figures, stats: &anabranch_sctp::AssociationStats) {
    figures.timeouts = stats.t3_expirations;
    figures.fast_retransmissions = stats.retransmitted_fast;
    figures.timeout_retransmissions = stats.retransmitted_timeout;
    figures.recoveries = stats.fast_recoveries;
}

/// Accepts one session, and reads its first stream until the stream ends.
async fn read(mut listener: impl Listener, figures: Rc<RefCell<Figures>>) {
    let Ok(session) = listener.accept().await else { return };
    let Ok(mut stream) = session.accept().await else { return };
    while let Ok(bytes) = stream.read_bytes(64 << 10).await {
        if bytes.is_empty() {
            return;
        }
        figures.borrow_mut().bytes += bytes.len() as u64;
    }
}

/// Writes data on a stream until the session ends.
async fn write(session: impl Session) {
    let Ok(mut stream) = session.open(0) else { return };
    if session.established().await.is_err() {
        return;
    }
    let payload = Bytes::from(vec![0x5a; 64 << 10]);
    while stream.write_all_bytes(payload.clone()).await.is_ok() {}
}
