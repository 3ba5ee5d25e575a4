//! Test support: collects the packets that an engine sends, and says whether the slow tests are enabled.

use crate::{Ecn, Engine, Instant, Packet, SendBatch};
use std::net::SocketAddr;

/// Returns whether two groups of tests are enabled: slow tests, and tests that need a kernel's timers, a browser or a
/// network. `ANABRANCH_FULL=1` enables them. Otherwise the function prints that the calling test is skipped.
#[must_use]
pub fn are_slow_tests_enabled() -> bool {
    let full = std::env::var_os("ANABRANCH_FULL").is_some_and(|value| value == "1");
    if !full {
        eprintln!("skipped: set ANABRANCH_FULL=1 to run the second ring of tests");
    }
    full
}

/// A packet that an engine has sent.
#[derive(Clone, Debug)]
pub struct TransmittedPacket {
    /// The source address of the packet.
    pub source: SocketAddr,
    /// The target address of the packet.
    pub target: SocketAddr,
    /// The ECN codepoint of the packet.
    pub ecn: Ecn,
    /// The number that the engine gave to the packet.
    pub tag: u64,
    /// Whether the network may fragment the packet ([`SendBatch::may_fragment`]).
    pub may_fragment: bool,
    /// The transport header and the bytes after it.
    pub bytes: Vec<u8>,
}

impl TransmittedPacket {
    /// Returns the packet in the form in which the peer receives it.
    #[must_use]
    pub fn packet(&self) -> Packet<'_> {
        let &Self { source, target, ecn, tag, ref bytes, .. } = self;
        Packet { source, target, ecn, tag, payload: bytes }
    }
}

/// Returns all packets that `engine` sends at `now`.
///
/// # Panics
/// Panics if `poll_transmit` returns true with an empty batch or false with packets in it, or if the engine never stops
/// sending.
pub fn transmit_all(engine: &mut impl Engine, now: Instant) -> Vec<TransmittedPacket> {
    let (mut batch, mut sent) = (SendBatch::new(4), Vec::new());
    loop {
        let more = engine.poll_transmit(now, &mut batch);
        assert_eq!(more, !batch.is_empty(), "what poll_transmit says is what it did");
        if !more {
            return sent;
        }
        let may_fragment = batch.may_fragment;
        sent.extend(batch.packets().map(|packet| TransmittedPacket {
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

/// Returns the bytes of each packet that `engine` sends at `now`.
///
/// # Panics
/// Panics under the same conditions as [`transmit_all`].
pub fn transmit_all_bytes(engine: &mut impl Engine, now: Instant) -> Vec<Vec<u8>> {
    transmit_all(engine, now).into_iter().map(|sent| sent.bytes).collect()
}

/// The limit on packets sent at one instant. An engine that exceeds this limit is considered to loop, because no send
/// buffer holds a million packets.
const MAX_AT_ONCE: usize = 1_000_000;
