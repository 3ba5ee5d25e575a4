//! A medium that carries only one packet at a time, in either direction.
//!
//! The serializers of both directions share one [`Medium`], which serves packets in the order of their arrival. This
//! order is known when a packet enters, so no element has to hold the packet. If both ends contend for the medium, the
//! order is known only when a packet is sent, so the module [`contention`](crate::contention) holds the packets.

use crate::LinkSpec;
use crate::contention::{ContentionRules, RULES};
use crate::table::OfLink;
use anabranch_base::Instant;
use std::cell::Cell;
use std::rc::Rc;

/// A medium, represented by the time at which it is next free. Either one direction uses the medium alone, or both
/// directions share it.
#[derive(Clone, Debug)]
pub enum Medium {
    /// A medium that only one direction uses.
    Own(Instant),
    /// A medium that the direction shares with the other direction.
    Shared(Rc<Cell<Instant>>),
}

/// Whether both directions of a link share one medium, and by which rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HalfDuplex {
    /// Each direction has its own medium.
    #[default]
    No,
    /// Both directions share one medium, which sends packets in the order of their arrival.
    InTurn,
    /// Both ends contend for one medium by these rules.
    Contention(ContentionRules),
}

impl HalfDuplex {
    /// Returns the value of the setting `half-duplex` as text; empty if each direction has its own medium.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::No => "",
            Self::InTurn => "yes",
            Self::Contention(rules) => rules.name,
        }
    }
}

impl OfLink for Medium {
    fn set(link: &mut LinkSpec, text: &str) -> Result<(), String> {
        link.half_duplex = match (text, RULES.iter().find(|rules| rules.name == text)) {
            ("yes", _) => HalfDuplex::InTurn,
            ("no", _) => HalfDuplex::No,
            (_, Some(rules)) => HalfDuplex::Contention(*rules),
            _ => return Err(format!("'{text}': write yes, no, 802.11b or 802.11g")),
        };
        Ok(())
    }

    fn take(link: &mut LinkSpec, other: &LinkSpec) {
        link.half_duplex = other.half_duplex;
    }
}

impl Medium {
    /// Creates a medium for one direction, which is free from the start.
    #[must_use]
    pub const fn own() -> Self {
        Self::Own(Instant::ZERO)
    }

    /// Creates a medium that both directions share; each direction gets a clone.
    #[must_use]
    pub fn shared() -> Self {
        Self::Shared(Rc::new(Cell::new(Instant::ZERO)))
    }

    /// Returns the time from which the medium is free.
    #[must_use]
    #[inline]
    pub fn free_at(&self) -> Instant {
        match self {
            Self::Own(at) => *at,
            Self::Shared(at) => at.get(),
        }
    }

    /// Occupies the medium until `end`.
    #[inline]
    pub fn occupy(&mut self, end: Instant) {
        match self {
            Self::Own(at) => *at = end,
            Self::Shared(at) => at.set(end),
        }
    }
}
