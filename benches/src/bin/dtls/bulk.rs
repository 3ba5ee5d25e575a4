//! Measures a bulk transfer of SCTP over DTLS between two endpoints. Each endpoint is above a DTLS layer over an
//! in-memory socket.

use crate::{DtlsEnd, SEGMENTS, ends};
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant, RecvBatch, Rng, SendBatch};
use anabranch_benches::thread_cpu;
use anabranch_dtls::Version;
use anabranch_sctp::{Associate, AssociationId, Config, Endpoint, Event, Message, SendError};
use anabranch_sim::SimWorld;
use std::task::{Context, Poll, Waker};

pub struct Bulk {
    engines: [Endpoint; 2],
    ends: [DtlsEnd; 2],
    now: Instant,
    send: SendBatch,
    receive: RecvBatch,
    id: AssociationId,
    up: bool,
    message: Vec<u8>,
    buffer: Vec<u8>,
}

impl Bulk {
    pub fn new(world: &SimWorld, version: Version) -> Self {
        let ends = ends(world, version);
        let mut config = Config::default();
        // Over DTLS, SCTP packets have no checksum (RFC 9653). The buffers have 1 MiB, as in `quinn.rs`.
        for (key, value) in
            [("sndbuf", "1048576B"), ("rcvbuf", "1048576B"), ("max_burst", "0"), ("zero_checksum", "yes")]
        {
            config.set(key, value).expect("a known key");
        }
        let mut engines = [0, 1].map(|end: usize| {
            let at = ends[end].at;
            let mut engine = Endpoint::new(config.clone(), vec![at], Rng::new(end as u64));
            engine.set_mtu(at.ip(), ends[end].socket.mtu(at.ip()));
            engine
        });
        engines[1].listen(80).expect("a free port");
        let id = engines[0].associate(Instant::ZERO, Associate::to(ends[1].at, 80)).expect("a free port");
        let mut this = Self {
            engines,
            ends,
            now: Instant::ZERO,
            send: SendBatch::new(SEGMENTS),
            receive: RecvBatch::new(SEGMENTS),
            id,
            up: false,
            message: vec![7; 1 << 16],
            buffer: vec![0; 1 << 16],
        };
        for _ in 0..20 {
            this.turn();
        }
        assert!(this.up, "no association");
        this
    }

    /// Transfers data and returns the processor seconds per gigabyte.
    pub fn cost(&mut self) -> f64 {
        const BYTES: usize = 200_000_000;
        let (began, mut got) = (thread_cpu(), 0);
        while got < BYTES {
            loop {
                match self.engines[0].send(self.now, self.id, Message::default(), &self.message) {
                    Ok(()) => {}
                    Err(SendError::Full) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            got += self.turn();
        }
        (thread_cpu() - began) / got as f64 * 1e9
    }

    fn turn(&mut self) -> usize {
        self.now += Duration::from_micros(100);
        for engine in &mut self.engines {
            if engine.poll_timeout().is_some_and(|at| at <= self.now) {
                engine.handle_timeout(self.now);
            }
        }
        [0, 1].map(|from| self.carry(from)).iter().sum()
    }

    /// Carries the packets of end `from` through DTLS to the other end, batch by batch. Returns the number of message
    /// bytes that were read.
    fn carry(&mut self, from: usize) -> usize {
        let (mut cx, mut got) = (Context::from_waker(Waker::noop()), 0);
        loop {
            self.send.clear();
            let more = self.engines[from].poll_transmit(self.now, &mut self.send);
            if more && let Poll::Ready(Err(_)) = self.ends[from].socket.poll_send(&mut cx, &mut self.send) {
                // The socket accepts no packets until the DTLS handshake is complete, so these packets were not sent.
                // The call of `handle_peer` below reports the complete handshake to the engine.
                for packet in self.send.packets() {
                    self.engines[from].handle_unsent(self.now, packet);
                }
            }
            for end in [1 - from, from] {
                while let Poll::Ready(Ok(())) = self.ends[end].socket.poll_recv(&mut cx, &mut self.receive) {
                    self.engines[end].handle_batch(self.now, &mut self.receive);
                    got += self.read(end);
                }
                while let Some((peer, state)) = self.ends[end].socket.take_peer() {
                    self.engines[end].handle_peer(self.now, peer, state);
                }
                got += self.read(end);
            }
            if !more {
                return got;
            }
        }
    }

    /// Reads all data that has arrived at the endpoint `end`. Returns the number of bytes.
    fn read(&mut self, end: usize) -> usize {
        let mut got = 0;
        while let Some(event) = self.engines[end].poll_event() {
            match event {
                Event::Readable { id, stream } => {
                    while let Ok(Some(read)) = self.engines[end].recv(self.now, id, stream, &mut self.buffer)
                    {
                        got += read.bytes;
                    }
                }
                Event::Established { .. } => self.up = true,
                _ => {}
            }
        }
        got
    }
}
