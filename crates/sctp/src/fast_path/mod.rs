//! The fast path: the two packets that a transfer without loss consists of.
//!
//! While nothing is lost and no control chunk waits, an association receives and sends packets of
//! DATA whose message comes next, and of one SACK that only advances the cumulative TSN. For these
//! the slow path ([`inbound`](crate::association::inbound), `acknowledge`, `outbound` and the two
//! halves) asks on each packet after all that they are not; here that is asked once for many
//! packets ([`FastPath`]). What a packet does is the same on both ways: `tests/fast_path.rs` holds
//! them against each other. A packet that does not qualify changes nothing here and takes the slow
//! path.
//!
//! [`eligibility`] says when, [`input`] takes packets in, [`output`] writes them.
//!
//! Home of no rule: each has its own.

mod eligibility;
mod input;
mod output;

pub(crate) use eligibility::FastPath;
pub(crate) use input::SoleChunk;

use crate::Endpoint;

impl Endpoint {
    /// Whether associations may take the fast path. They may until told otherwise. Off, every
    /// packet takes the slow path and comes out the same: for tests and measurements.
    ///
    /// ```
    /// # let mut endpoint = anabranch_sctp::testing::Pair::new(Default::default(), Default::default(), 1, 1).a;
    /// endpoint.set_fast_path(false);
    /// ```
    pub fn set_fast_path(&mut self, on: bool) {
        self.fast_path = on;
        for association in self.slots.iter_mut().filter_map(|slot| slot.association.as_mut()) {
            association.invalidate_fast_path();
        }
    }
}
