//! Two endpoints over an in-memory network, and the ladder of what they said
//! (feature `testing`).
//!
//! [`Pair`] is what every scenario of this crate is written against: it delays,
//! loses, repeats, reorders and damages packets as a script or a seed says,
//! moves bytes for the application, and draws what happens. [`storm`] runs it
//! by seed; [`flow`] is one long transfer without any of that; [`packets`] is for who moves packets itself.

mod flow;
mod pair;
mod storm;

pub use flow::{Flow, Link, flow};
pub use pair::{Check, Fate, Judge, LEFT, Pair, RIGHT, Side};
pub use storm::{Storm, storm};

use anabranch_base::{Engine, Instant, SendBatch};

/// All that `engine` wants to send at `now`.
///
/// # Panics
/// When the engine says that it sends and does not, or the other way round.
pub fn packets(engine: &mut impl Engine, now: Instant) -> Vec<Vec<u8>> {
    let (mut batch, mut packets) = (SendBatch::new(1), Vec::new());
    loop {
        let more = engine.poll_transmit(now, &mut batch);
        assert_eq!(more, !batch.is_empty(), "what poll_transmit says is what it did");
        if !more {
            return packets;
        }
        packets.extend(batch.segments().map(<[u8]>::to_vec));
        batch.clear();
    }
}
