//! For tests: the packets that an engine has sent, and which of the two rings of tests runs.

use crate::{Ecn, Engine, Instant, Packet, SendBatch};
use std::net::SocketAddr;

/// Whether tests of the second ring run: those that take long, or need a kernel's timers, a browser or a network. They do
/// when `ANABRANCH_FULL=1` is set; otherwise this says that the calling test is skipped.
#[must_use]
pub fn full_ring() -> bool {
    let full = std::env::var_os("ANABRANCH_FULL").is_some_and(|value| value == "1");
    if !full {
        eprintln!("skipped: set ANABRANCH_FULL=1 to run the second ring of tests");
    }
    full
}

/// A packet that an engine has sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Where it comes from.
    pub source: SocketAddr,
    /// Where it goes.
    pub target: SocketAddr,
    /// Its ECN mark.
    pub ecn: Ecn,
    /// The engine's number for it.
    pub tag: u64,
    /// Whether the network may cut it into IP fragments ([`SendBatch::may_fragment`]).
    pub may_fragment: bool,
    /// The transport header and what follows.
    pub bytes: Vec<u8>,
}

impl Sent {
    /// The packet as it arrives.
    #[must_use]
    pub fn packet(&self) -> Packet<'_> {
        let &Self { source, target, ecn, tag, ref bytes, .. } = self;
        Packet { source, target, ecn, tag, payload: bytes }
    }
}

/// All that `engine` sends at `now`.
///
/// # Panics
/// When the engine says that it sends and does not, or the other way round, or when it never stops.
pub fn sent(engine: &mut impl Engine, now: Instant) -> Vec<Sent> {
    let (mut batch, mut sent) = (SendBatch::new(4), Vec::new());
    loop {
        let more = engine.poll_transmit(now, &mut batch);
        assert_eq!(more, !batch.is_empty(), "what poll_transmit says is what it did");
        if !more {
            return sent;
        }
        let may_fragment = batch.may_fragment;
        sent.extend(batch.packets().map(|packet| Sent {
            source: packet.source,
            target: packet.target,
            ecn: packet.ecn,
            tag: packet.tag,
            may_fragment,
            bytes: packet.payload.to_vec(),
        }));
        batch.clear();
        assert!(sent.len() < MAX_AT_ONCE, "an engine that never stops sending");
    }
}

/// The bytes of all that `engine` sends at `now`.
///
/// # Panics
/// As [`sent`] does.
pub fn packets(engine: &mut impl Engine, now: Instant) -> Vec<Vec<u8>> {
    sent(engine, now).into_iter().map(|sent| sent.bytes).collect()
}

/// Packets of one instant: more than any buffer holds.
const MAX_AT_ONCE: usize = 1_000_000;
