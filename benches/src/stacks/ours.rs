//! Adapts the SCTP engine of this project to the benchmarks.

use super::{BUFFER, StackPair};
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant, Rng, SendBatch};
use anabranch_sctp::{Associate, AssociationId, Config, Endpoint, Event, Message, SendError};
use std::net::SocketAddr;

/// The settings of our SCTP engine that differ between benchmark runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The size of the send buffer in bytes.
    pub sndbuf: usize,
    /// The size of the receive buffer in bytes.
    pub rcvbuf: usize,
    /// The number of streams to negotiate.
    pub streams: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self { sndbuf: BUFFER, rcvbuf: BUFFER, streams: 10 }
    }
}

/// Two endpoints of our engine in one thread.
#[derive(Debug)]
pub struct Ours {
    ends: [Endpoint; 2],
    target: SocketAddr,
    now: Instant,
    batch: SendBatch,
    id: Option<AssociationId>,
    packets: u64,
    buffer: Vec<u8>,
    /// The number of associations that are established at both ends.
    pub open: usize,
    accepted: Vec<AssociationId>,
    established: Vec<AssociationId>,
}

impl Ours {
    /// Creates two endpoints without an association.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let mut config = Config::default();
        let (sndbuf, rcvbuf) = (format!("{}B", settings.sndbuf), format!("{}B", settings.rcvbuf));
        let streams = settings.streams.to_string();
        // Max.Burst is off, because it would limit every turn to four packets, and the other stacks have no such limit.
        for (key, value) in
            [("sndbuf", &*sndbuf), ("rcvbuf", &rcvbuf), ("num_ostreams", &streams), ("max_burst", "0")]
        {
            config.set(key, value).expect("a known key");
        }
        // 9899 is the UDP port of SCTP (RFC 6951). A packet of 1500 bytes with IPv4 and UDP headers holds 1472 bytes of
        // SCTP.
        let addresses = [1, 2].map(|n| SocketAddr::from(([10, 0, 0, n], 9899)));
        let mut ends = addresses
            .map(|address| Endpoint::new(config.clone(), vec![address], Rng::new(address.port().into())));
        ends[1].listen(80).expect("a free port");
        Self {
            ends,
            target: addresses[1],
            now: Instant::ZERO,
            batch: SendBatch::new(16),
            id: None,
            packets: 0,
            buffer: vec![0; 1 << 16],
            open: 0,
            accepted: Vec::new(),
            established: Vec::new(),
        }
    }

    /// Creates two endpoints with one association.
    #[must_use]
    pub fn connected(settings: Settings) -> Self {
        let mut pair = Self::new(settings);
        pair.associate();
        assert!(pair.open == 1, "no association");
        pair
    }

    /// Opens one more association, and waits until both ends have established it.
    pub fn associate(&mut self) {
        let id = self.ends[0].associate(self.now, Associate::to(self.target, 80)).expect("a free port");
        self.id = Some(id);
        for _ in 0..3 {
            self.turn(&mut |_, _| {});
        }
    }

    /// Closes all associations of the two endpoints, and removes their state.
    pub fn release_all(&mut self) {
        for id in std::mem::take(&mut self.established) {
            self.ends[0].release(self.now, id);
        }
        for _ in 0..3 {
            self.turn(&mut |_, _| {});
        }
        for id in std::mem::take(&mut self.accepted) {
            self.ends[1].release(self.now, id);
        }
        self.open = 0;
    }

    fn carry(&mut self, from: usize) -> u64 {
        let mut packets = 0;
        loop {
            self.batch.clear();
            if !self.ends[from].poll_transmit(self.now, &mut self.batch) {
                return packets;
            }
            for packet in self.batch.packets() {
                packets += 1;
                self.ends[1 - from].handle_packet(self.now, packet);
            }
        }
    }
}

impl StackPair for Ours {
    fn send(&mut self, message: &[u8]) -> bool {
        let id = self.id.expect("connected");
        match self.ends[0].send(self.now, id, Message::default(), message) {
            Ok(()) => true,
            Err(SendError::Full) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn turn(&mut self, on_message: &mut dyn FnMut(&[u8], bool)) {
        self.now += Duration::from_micros(100);
        for end in &mut self.ends {
            if end.poll_timeout().is_some_and(|at| at <= self.now) {
                end.handle_timeout(self.now);
            }
        }
        self.packets += self.carry(0);
        while let Some(event) = self.ends[1].poll_event() {
            match event {
                Event::Readable { id, stream } => {
                    while let Ok(Some(received)) = self.ends[1].recv(self.now, id, stream, &mut self.buffer) {
                        on_message(&self.buffer[..received.bytes], received.end_of_message);
                    }
                }
                Event::Accepted { id, .. } => {
                    self.open += 1;
                    self.accepted.push(id);
                }
                _ => {}
            }
        }
        self.carry(1);
        while let Some(event) = self.ends[0].poll_event() {
            if let Event::Established { id, .. } = event {
                self.established.push(id);
            }
        }
    }

    fn packets(&self) -> u64 {
        self.packets
    }
}
