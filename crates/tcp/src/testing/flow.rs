//! A single long transfer over a single link, as simple and as fast as possible. Used for throughput measurements and
//! for comparisons with other simulators.

use crate::{Config, ConnectionId, Endpoint, Event, Stats};
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{BitRate, Engine, Instant, Ratio, Rng, SendBatch};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// A link with the same rate and delay in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The rate in bits per second.
    pub rate: BitRate,
    /// The one-way delay.
    pub delay: Duration,
    /// The capacity of the link's queue in bytes.
    pub queue: u64,
    /// The probability that the link loses a packet of the sender that has passed the queue. Packets of the receiver
    /// are not lost.
    pub loss: Ratio,
}

/// The result of the transfer that [`flow`] simulates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// The time when the transfer ended.
    pub end: Instant,
    /// The number of bytes that the receiving application has read.
    pub bytes: u64,
    /// The number of packets passed to the link, in both directions.
    pub packets: u64,
    /// The sender's counters.
    pub sender: Stats,
}

struct Direction {
    arrivals: VecDeque<(Instant, SendBatch)>,
    free_at: Instant,
}

/// Transfers `bytes` bytes from one host to another, or as many as possible until the time `until`.
///
/// # Panics
/// Panics if the connection cannot be opened.
#[must_use]
pub fn flow(config: &Config, link: Link, bytes: u64, until: Instant, seed: u64) -> Flow {
    let ips: [IpAddr; 2] = [super::LEFT, super::RIGHT];
    let root = Rng::new(seed);
    let mut hosts = [0, 1].map(|i| Endpoint::new(config.clone(), vec![ips[i]], root.fork("host")));
    assert!(hosts[1].listen(80, 0).is_ok(), "nobody else listens");
    let mut now = Instant::ZERO;
    let client = hosts[0].connect(now, None, SocketAddr::new(ips[1], 80)).expect("an address of the family");
    let mut rng = root.fork("loss");
    let mut directions = [0, 1].map(|_| Direction { arrivals: VecDeque::new(), free_at: Instant::ZERO });
    let mut pool: Vec<SendBatch> = Vec::new();
    let mut applications = Applications { client, server: None, left: bytes, writable: true, received: 0 };
    let (chunk, mut sink) = (vec![0x5a; 65_536], vec![0; 65_536]);
    let mut packets = 0;
    while applications.received < bytes {
        for side in 0..2 {
            applications.serve(now, &mut hosts[side], side, &chunk, &mut sink);
            loop {
                let mut batch = pool.pop().unwrap_or_else(|| SendBatch::new(1));
                batch.clear();
                if !hosts[side].poll_transmit(now, &mut batch) {
                    pool.push(batch);
                    break;
                }
                packets += 1;
                let direction = &mut directions[side];
                let begin = direction.free_at.max(now);
                let size = batch.stride() as u64 + 20;
                if link.rate.bytes_in(begin.since(now)) + size > link.queue {
                    pool.push(batch);
                    continue;
                }
                direction.free_at = begin.plus_nanos(link.rate.nanos_for(size));
                if side == 0 && rng.chance(link.loss) {
                    pool.push(batch);
                    continue;
                }
                direction.arrivals.push_back((direction.free_at.plus_nanos(nanos(link.delay)), batch));
            }
        }
        let next_arrival =
            directions.iter().filter_map(|direction| direction.arrivals.front().map(|(at, _)| *at)).min();
        let timer = hosts.iter().filter_map(Endpoint::poll_timeout).min();
        let Some(next) = next_arrival.into_iter().chain(timer).min().filter(|at| *at <= until) else { break };
        now = next.max(now);
        for side in 0..2 {
            let arrivals = &mut directions[1 - side].arrivals;
            if arrivals.front().is_some_and(|(at, _)| *at <= now)
                && let Some((_, batch)) = arrivals.pop_front()
            {
                for packet in batch.packets() {
                    hosts[side].handle_packet(now, packet);
                }
                pool.push(batch);
            }
            if hosts[side].poll_timeout().is_some_and(|at| at <= now) {
                hosts[side].handle_timeout(now);
            }
        }
    }
    Flow {
        end: now,
        bytes: applications.received,
        packets,
        sender: hosts[0].stats(client).unwrap_or_default(),
    }
}

/// The state of the two applications, one of which sends while the other reads.
struct Applications {
    client: ConnectionId,
    server: Option<ConnectionId>,
    left: u64,
    writable: bool,
    received: u64,
}

impl Applications {
    fn serve(&mut self, now: Instant, host: &mut Endpoint, side: usize, chunk: &[u8], sink: &mut [u8]) {
        while let Some(event) = host.poll_event() {
            match event {
                Event::Accepted { id, .. } => self.server = Some(id),
                Event::Writable { .. } => self.writable = true,
                Event::Readable { .. } => {
                    let Some(id) = self.server else { continue };
                    while let Ok(count @ 1..) = host.recv(now, id, sink) {
                        self.received += count as u64;
                    }
                }
                _ => {}
            }
        }
        while side == 0 && self.writable && self.left > 0 {
            let most = (chunk.len() as u64).min(self.left) as usize;
            let taken = host.send(now, self.client, &chunk[..most]).unwrap_or(0);
            self.left -= taken as u64;
            self.writable = taken == most;
        }
    }
}
