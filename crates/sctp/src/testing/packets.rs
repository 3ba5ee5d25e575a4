//! What an engine has sent, taken out whole, for tests that move packets themselves.

use anabranch_base::{Ecn, Engine, Instant, Packet, SendBatch};
use std::net::SocketAddr;

/// A packet that an engine has sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Whence.
    pub source: SocketAddr,
    /// Where to.
    pub target: SocketAddr,
    /// Its mark.
    pub ecn: Ecn,
    /// The engine's number for it.
    pub tag: u64,
    /// The SCTP header and what follows.
    pub bytes: Vec<u8>,
}

impl Sent {
    /// As it arrives.
    #[must_use]
    pub fn packet(&self) -> Packet<'_> {
        let &Self { source, target, ecn, tag, ref bytes } = self;
        Packet { source, target, ecn, tag, payload: bytes }
    }
}

/// All that `engine` wants to send at `now`, with where it goes.
///
/// # Panics
/// When the engine says that it sends and does not, or the other way round.
pub fn sent(engine: &mut impl Engine, now: Instant) -> Vec<Sent> {
    let (mut batch, mut sent) = (SendBatch::new(1), Vec::new());
    loop {
        let more = engine.poll_transmit(now, &mut batch);
        assert_eq!(more, !batch.is_empty(), "what poll_transmit says is what it did");
        if !more {
            return sent;
        }
        sent.extend(batch.packets().map(|packet| Sent {
            source: packet.source,
            target: packet.target,
            ecn: packet.ecn,
            tag: packet.tag,
            bytes: packet.payload.to_vec(),
        }));
        batch.clear();
    }
}

/// The bytes of all that `engine` wants to send at `now`.
///
/// # Panics
/// As [`sent`] does.
pub fn packets(engine: &mut impl Engine, now: Instant) -> Vec<Vec<u8>> {
    sent(engine, now).into_iter().map(|sent| sent.bytes).collect()
}
