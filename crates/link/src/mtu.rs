//! The MTU: the size of the largest packet that the link carries.
//!
//! A larger packet is handed back to the caller ([`Chain::pop_dropped`](crate::Chain::pop_dropped)) with
//! [`DropCause::TooBig`]. The router in front of the link can then send an ICMP message, or fragment the packet.

use crate::element::{Carried, Fate, ImmediateElement};
use crate::meter::{DropCause, Meter};
use crate::spec::SpecError;
use crate::table::{Impairment, Side};
use crate::{DirectionSpec, Stage};
use anabranch_base::Instant;

/// An element that refuses packets above a maximum size.
#[derive(Clone, Copy, Debug)]
pub struct Mtu {
    bytes: u32,
}

impl Mtu {
    /// Creates an element that accepts packets of up to `bytes` bytes, including the IP header.
    #[must_use]
    pub const fn new(bytes: u32) -> Self {
        Self { bytes }
    }
}

impl Impairment<u32> for Mtu {
    const PLACE: u8 = 10;

    fn read(text: &str) -> Result<u32, String> {
        let number = text.strip_suffix('B').unwrap_or(text);
        // RFC 791: every link carries packets of 68 bytes, and a packet has at most 65,535 bytes.
        let bytes = number.parse().ok().filter(|bytes| (68..=65_535).contains(bytes));
        bytes.ok_or_else(|| format!("'{text}': write bytes from 68 to 65535, such as 1500"))
    }

    fn show(spec: &DirectionSpec) -> String {
        spec.mtu.to_string()
    }

    fn stage<P: Carried>(side: &Side<'_>) -> Result<Option<Stage<P>>, SpecError> {
        Ok(Some(Stage::Mtu(Self::new(side.spec.mtu))))
    }
}

impl<P: Carried> ImmediateElement<P> for Mtu {
    #[inline]
    fn pass(&mut self, at: Instant, packet: &mut P, _meter: &mut Meter) -> Fate {
        if packet.wire_len() > self.bytes as usize {
            return Fate::Lost(DropCause::TooBig(self.bytes));
        }
        Fate::Leaves(at)
    }
}
