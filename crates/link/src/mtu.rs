//! The largest packet the link takes.
//!
//! A larger one is handed back ([`Chain::pop_dropped`](crate::Chain::pop_dropped))
//! with [`Cause::TooBig`], so that the router in front can send the ICMP message.
//! Whether a packet is cut into fragments instead is the router's affair.

use crate::element::{Carried, Cause, Fate, Passing};
use crate::meter::Meter;
use anabranch_base::Instant;

/// Refuses packets above a size.
#[derive(Clone, Copy, Debug)]
pub struct Mtu {
    bytes: u32,
}

impl Mtu {
    /// Takes packets of up to `bytes`, IP header included.
    #[must_use]
    pub const fn new(bytes: u32) -> Self {
        Self { bytes }
    }
}

impl<P: Carried> Passing<P> for Mtu {
    #[inline]
    fn pass(&mut self, at: Instant, packet: &mut P, _meter: &mut Meter) -> Fate {
        if packet.wire_len() > self.bytes as usize {
            return Fate::Lost(Cause::TooBig(self.bytes));
        }
        Fate::Leaves(at)
    }
}
