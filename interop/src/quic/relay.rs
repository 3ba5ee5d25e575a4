//! The network between two programs: a UDP relay on loopback with delay and a limited rate. The relay loses and changes
//! datagrams. During a transfer it can give a client another port or address, as a NAT does.
//!
//! Three values decide whether a datagram is lost or changed: the seed, the client, and the datagram's number. Each
//! client's datagrams are numbered separately in each direction. The datagram's time of arrival does not matter. The
//! relay has a socket towards the server for each client address. One pcapng file has the datagrams as the clients see
//! them, and another has the datagrams as the server sees them. The relay also records the datagrams' long headers.

use super::headers::{self, Header};
use anabranch_base::Rng;
use anabranch_wire::ip::v4;
use anabranch_wire::pcap;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The impairments of the emulated network: delay, rate, losses, damage, and changes of the client's address.
#[derive(Clone, Copy, Debug)]
pub struct Impairments {
    /// The one-way delay of every datagram.
    pub delay: Duration,
    /// The rate of the relay in each direction.
    pub bits_per_second: u64,
    /// The maximum number of datagrams in flight in each direction. Further datagrams are lost.
    pub queue: usize,
    /// The number of lost datagrams per million.
    pub lost_ppm: u64,
    /// The number of datagrams with a changed byte per million.
    pub damaged_ppm: u64,
    /// The maximum number of datagrams in a row that are lost or changed.
    pub in_a_row: u32,
    /// A client gets another port each time it has sent this number of datagrams, at most [`MOST_MOVES`] times.
    pub rebind_after: Option<u64>,
    /// Whether the client gets another address together with each new port of [`rebind_after`](Self::rebind_after).
    pub rebind_address: bool,
    /// Whether packets to the previous address still reach the client, as behind a NAT that keeps its old mapping for
    /// some time.
    pub old_address_stays: bool,
}

/// The maximum number of times that a client gets another address. A quiche server follows a client to two further
/// addresses. It does not always answer a client that changes its address again.
pub const MOST_MOVES: u64 = 2;

impl Impairments {
    /// A network without losses. The delay of 15 ms is that of the interop runner's simulations. The rate is twice
    /// their 10 Mbit/s.
    pub const FAIR: Self = Self {
        delay: Duration::from_millis(15),
        bits_per_second: 20_000_000,
        queue: 100,
        lost_ppm: 0,
        damaged_ppm: 0,
        in_a_row: 3,
        rebind_after: None,
        rebind_address: false,
        old_address_stays: false,
    };
}

/// What the relay observed in a test run.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The long headers of packets that clients sent.
    pub from_clients: Vec<Header>,
    /// The long headers of packets that the server sent.
    pub from_server: Vec<Header>,
    /// The number of datagrams that were lost at random.
    pub lost: u64,
    /// The number of datagrams that were lost because the queue was full.
    pub dropped: u64,
    /// The number of datagrams in which the relay changed a byte.
    pub damaged: u64,
    /// The number of times that a client got another port or address.
    pub rebound: u64,
}

/// A running relay between clients and a server. Dropping this value ends the relay.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Starts a relay to `server`. Captures are `client.pcapng` and `server.pcapng` in `folder`.
    ///
    /// # Errors
    /// A socket or a file cannot be opened.
    pub fn start(server: SocketAddr, impairments: Impairments, seed: u64, folder: &Path) -> io::Result<Self> {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        front.set_read_timeout(Some(TICK))?;
        let address = front.local_addr()?;
        let state = State {
            flows: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            count: 0,
            free: [Instant::now(); 2],
            waiting: [0; 2],
            seen: Seen::default(),
            captures: [capture(&folder.join("client.pcapng"))?, capture(&folder.join("server.pcapng"))?],
            readers: Vec::new(),
            stopped: false,
        };
        let shared = Arc::new(Shared {
            front,
            server,
            impairments,
            seed,
            started_at: Instant::now(),
            state: Mutex::new(state),
            wake: Condvar::new(),
        });
        let (reader, sender) = (shared.clone(), shared.clone());
        let threads = vec![
            std::thread::spawn(move || reader.read_clients()),
            std::thread::spawn(move || sender.send()),
        ];
        Ok(Self { address, shared, threads })
    }

    /// Returns the address to which clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the relay and returns what it observed.
    #[must_use]
    pub fn finish(mut self) -> Seen {
        self.stop();
        std::mem::take(&mut self.shared.state().seen)
    }

    fn stop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.wake.notify_all();
        let mut threads = std::mem::take(&mut self.threads);
        threads.append(&mut self.shared.state().readers);
        for thread in threads {
            let _ = thread.join();
        }
        for writer in self.shared.state().captures.iter_mut().filter_map(Option::take) {
            let _ = writer.finish();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The direction of a datagram: 0 to the server, 1 to the client.
type DirectionIndex = usize;
const UP: DirectionIndex = 0;
const DOWN: DirectionIndex = 1;

#[derive(Debug)]
struct Shared {
    front: UdpSocket,
    server: SocketAddr,
    impairments: Impairments,
    seed: u64,
    started_at: Instant,
    state: Mutex<State>,
    wake: Condvar,
}

type Capture = Option<pcap::Writer<BufWriter<File>>>;

#[derive(Debug)]
struct State {
    flows: BTreeMap<SocketAddr, Flow>,
    in_flight: BTreeMap<(Instant, u64), DatagramInFlight>,
    count: u64,
    /// For each direction, the time at which the link will have transmitted all datagrams that it has accepted so far.
    free: [Instant; 2],
    waiting: [usize; 2],
    seen: Seen,
    /// The captures of the datagrams: as the clients see them, and as the server sees them.
    captures: [Capture; 2],
    readers: Vec<JoinHandle<()>>,
    stopped: bool,
}

/// The state that the relay keeps for a client, with the client's socket towards the server.
#[derive(Debug)]
struct Flow {
    back: Arc<UdpSocket>,
    fate: [FateRng; 2],
    received: u64,
    rebound: u64,
}

/// The random generator that decides which datagrams of a client are lost or changed in one direction.
#[derive(Debug)]
struct FateRng {
    rng: Rng,
    in_a_row: u32,
}

#[derive(Debug)]
struct DatagramInFlight {
    direction: DirectionIndex,
    client: SocketAddr,
    /// The client's socket towards the server at the time when the datagram arrived.
    back: Arc<UdpSocket>,
    bytes: Vec<u8>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads datagrams from clients, and relays them to the server.
    fn read_clients(self: Arc<Self>) {
        let mut room = vec![0; 65536];
        while !self.state().stopped {
            match self.front.recv_from(&mut room) {
                Ok((length, client)) => self.take(UP, client, None, &room[..length]),
                Err(error) if is_quiet(&error) => {}
                Err(_) => return,
            }
        }
    }

    /// Reads the server's datagrams from the relay's socket `back`, and forwards them to `client`. When another socket
    /// has replaced `back` for this client, datagrams are dropped, unless the impairments keep the old address
    /// reachable.
    fn read_server(self: Arc<Self>, client: SocketAddr, back: Arc<UdpSocket>) {
        let mut room = vec![0; 65536];
        loop {
            let received = back.recv_from(&mut room);
            let state = self.state();
            if state.stopped {
                return;
            }
            // Datagrams to a socket that was replaced are dropped, unless the old address stays reachable.
            let is_open = self.impairments.old_address_stays
                || state.flows.get(&client).is_some_and(|flow| Arc::ptr_eq(&flow.back, &back));
            drop(state);
            match received {
                Ok((length, from)) if is_open && from == self.server => {
                    self.take(DOWN, client, Some(&back), &room[..length]);
                }
                Ok(_) => {}
                Err(error) if is_quiet(&error) => {}
                Err(_) => return,
            }
        }
    }

    /// Handles a datagram from a client, or a datagram from the server that arrived at the relay's socket `socket`.
    /// Decides whether the datagram is lost or changed, and when it leaves.
    fn take(
        self: &Arc<Self>,
        direction: DirectionIndex,
        client: SocketAddr,
        socket: Option<&UdpSocket>,
        bytes: &[u8],
    ) {
        let mut guard = self.state();
        let state = &mut *guard;
        if !state.flows.contains_key(&client) {
            let number = state.flows.len();
            if number >= MOST_FLOWS {
                return;
            }
            let Ok(flow) = self.new_flow(number, client, &mut state.readers) else { return };
            state.flows.insert(client, flow);
        }
        let Some(flow) = state.flows.get_mut(&client) else { return };
        if direction == UP {
            flow.received += 1;
            if flow.rebound < MOST_MOVES
                && self.impairments.rebind_after.is_some_and(|after| flow.received.is_multiple_of(after))
                && let Ok(back) = self.open_socket(flow.rebound + 1, client, &mut state.readers)
            {
                flow.back = back;
                flow.rebound += 1;
                state.seen.rebound += 1;
            }
        }
        let found = headers::of(bytes);
        let (ends, headers) = match direction {
            UP => ([client, self.front.local_addr().unwrap_or(client)], &mut state.seen.from_clients),
            _ => {
                let near = socket.and_then(|socket| socket.local_addr().ok()).unwrap_or(client);
                ([self.server, near], &mut state.seen.from_server)
            }
        };
        if headers.len() < MOST_HEADERS {
            headers.extend(found);
        }
        self.keep(&mut state.captures[direction], ends, bytes);
        let mut bytes = bytes.to_vec();
        let FateRng { rng, in_a_row } = &mut flow.fate[direction];
        // The same number of random values is drawn for each datagram. The values for a datagram therefore do not
        // depend on the fate of earlier datagrams.
        let (loss, damage, where_to) = (rng.below(1_000_000), rng.below(1_000_000), rng.next_u64());
        let is_safe = *in_a_row >= self.impairments.in_a_row;
        if !is_safe && loss < self.impairments.lost_ppm {
            *in_a_row += 1;
            state.seen.lost += 1;
            return;
        }
        if !is_safe && damage < self.impairments.damaged_ppm && !bytes.is_empty() {
            *in_a_row += 1;
            state.seen.damaged += 1;
            let at = (where_to >> 8) as usize % bytes.len();
            bytes[at] ^= (where_to as u8).max(1);
        } else {
            *in_a_row = 0;
        }
        if state.waiting[direction] >= self.impairments.queue {
            state.seen.dropped += 1;
            return;
        }
        let now = Instant::now();
        let bits = (bytes.len() as u64 + 28) * 8;
        let leaves = state.free[direction].max(now)
            + Duration::from_nanos(bits * 1_000_000_000 / self.impairments.bits_per_second);
        state.free[direction] = leaves;
        state.waiting[direction] += 1;
        state.count += 1;
        let datagram = DatagramInFlight { direction, client, back: flow.back.clone(), bytes };
        state.in_flight.insert((leaves + self.impairments.delay, state.count), datagram);
        drop(guard);
        self.wake.notify_all();
    }

    /// Forwards the datagrams whose emulated delay is over.
    fn send(&self) {
        let mut state = self.state();
        while !state.stopped {
            let now = Instant::now();
            let Some(entry) = state.in_flight.first_entry() else {
                state = self.wake.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            };
            let at = entry.key().0;
            if at > now {
                state = self
                    .wake
                    .wait_timeout(state, (at - now).min(TICK))
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                continue;
            }
            let DatagramInFlight { direction, client, back, bytes } = entry.remove();
            state.waiting[direction] -= 1;
            let front = self.front.local_addr().unwrap_or(client);
            let (ends, side) = match direction {
                UP => ([back.local_addr().unwrap_or(client), self.server], 1),
                _ => ([front, client], 0),
            };
            self.keep(&mut state.captures[side], ends, &bytes);
            drop(state);
            // The receiver may be gone, so an error of `send_to` is ignored.
            let _ = match direction {
                UP => back.send_to(&bytes, self.server),
                _ => self.front.send_to(&bytes, client),
            };
            state = self.state();
        }
    }

    fn new_flow(
        self: &Arc<Self>,
        number: usize,
        client: SocketAddr,
        readers: &mut Vec<JoinHandle<()>>,
    ) -> io::Result<Flow> {
        let fate = |direction: &str| FateRng {
            rng: Rng::new(self.seed).fork(&format!("{number} {direction}")),
            in_a_row: 0,
        };
        let back = self.open_socket(0, client, readers)?;
        Ok(Flow { back, fate: [fate("up"), fate("down")], received: 0, rebound: 0 })
    }

    /// Opens socket number `number` of a client towards the server.
    fn open_socket(
        self: &Arc<Self>,
        number: u64,
        client: SocketAddr,
        readers: &mut Vec<JoinHandle<()>>,
    ) -> io::Result<Arc<UdpSocket>> {
        let last = if self.impairments.rebind_address { 1 + (number % 100) as u8 } else { 1 };
        let back = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, last), 0))?;
        back.set_read_timeout(Some(TICK))?;
        let back = Arc::new(back);
        let (shared, socket) = (self.clone(), back.clone());
        readers.push(std::thread::spawn(move || shared.read_server(client, socket)));
        Ok(back)
    }

    fn keep(&self, capture: &mut Capture, [source, target]: [SocketAddr; 2], bytes: &[u8]) {
        let Some(writer) = capture else { return };
        let (IpAddr::V4(from), IpAddr::V4(to)) = (source.ip(), target.ip()) else { return };
        let length = bytes.len() as u16 + 8;
        let mut whole = vec![0; v4::HEADER_LEN];
        v4::Header::new(from, to, 17, length).emit(&mut whole);
        for field in [source.port(), target.port(), length, 0] {
            whole.extend_from_slice(&field.to_be_bytes());
        }
        whole.extend_from_slice(bytes);
        let at = u64::try_from(self.started_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let _ = writer.truncated_packet(0, at, &whole, whole.len(), None, None);
    }
}

fn capture(file: &Path) -> io::Result<Capture> {
    let mut writer = pcap::Writer::new(BufWriter::new(File::create(file)?), "anabranch-interop")?;
    writer.interface("relay", 0)?;
    Ok(Some(writer))
}

/// Whether the relay can ignore this error of its socket. It can if no datagram has arrived yet, a signal interrupted
/// the call, or the destination port is closed.
fn is_quiet(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused | ErrorKind::Interrupted
    )
}

/// The interval at which the relay's threads check whether the relay has ended.
const TICK: Duration = Duration::from_millis(50);
const MOST_FLOWS: usize = 64;
/// The maximum number of long headers that are kept for each side.
const MOST_HEADERS: usize = 20_000;
