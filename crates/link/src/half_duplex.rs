//! A medium that carries one packet at a time, in either direction.
//!
//! The serializers of both directions share one [`Medium`]; packets use it first
//! come, first served. That order is known when a packet enters, so no element has to
//! hold it. If both ends contend for the medium ([`contention`](crate::contention)),
//! the order is not known.

use crate::LinkSpec;
use crate::contention::{RULES, Rules};
use crate::table::OfLink;
use anabranch_base::Instant;
use std::cell::Cell;
use std::rc::Rc;

/// The time at which the medium is next free: one direction's own, or shared by both.
#[derive(Clone, Debug)]
pub enum Medium {
    /// A medium of one direction only.
    Own(Instant),
    /// Shared with the other direction.
    Shared(Rc<Cell<Instant>>),
}

/// Whether both directions share one medium, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HalfDuplex {
    /// Each direction has its own medium.
    #[default]
    No,
    /// They take turns, first come first served.
    InTurn,
    /// They contend for the medium by these rules.
    Contention(Rules),
}

impl HalfDuplex {
    /// The text form; empty if each direction has its own medium.
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
    /// Creates a medium for one direction, free from the start.
    #[must_use]
    pub const fn own() -> Self {
        Self::Own(Instant::ZERO)
    }

    /// Creates a medium that is to be cloned into both directions.
    #[must_use]
    pub fn shared() -> Self {
        Self::Shared(Rc::new(Cell::new(Instant::ZERO)))
    }

    /// The time from which it is free.
    #[must_use]
    #[inline]
    pub fn free(&self) -> Instant {
        match self {
            Self::Own(at) => *at,
            Self::Shared(at) => at.get(),
        }
    }

    /// Occupies it until `end`.
    #[inline]
    pub fn occupy(&mut self, end: Instant) {
        match self {
            Self::Own(at) => *at = end,
            Self::Shared(at) => at.set(end),
        }
    }
}
