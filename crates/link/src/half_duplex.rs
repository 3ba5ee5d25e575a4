//! A medium that carries one packet at a time, whichever way it goes.
//!
//! Both directions' serializers share one [`Medium`]; packets get it in the
//! order in which they asked, first come first served. That order is known when
//! a packet enters, so no element has to hold it.

use crate::LinkSpec;
use crate::spec::yes_or_no;
use crate::table::OfLink;
use anabranch_base::Instant;
use std::cell::Cell;
use std::rc::Rc;

/// When the medium is next free: one direction's own, or shared by both.
#[derive(Clone, Debug)]
pub enum Medium {
    /// A medium of one direction alone.
    Own(Instant),
    /// Shared with the other direction.
    Shared(Rc<Cell<Instant>>),
}

impl OfLink for Medium {
    fn set(link: &mut LinkSpec, text: &str) -> Result<(), String> {
        link.half_duplex = yes_or_no(text).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn take(link: &mut LinkSpec, other: &LinkSpec) {
        link.half_duplex = other.half_duplex;
    }
}

impl Medium {
    /// A medium of one direction's own, free from the start.
    #[must_use]
    pub const fn own() -> Self {
        Self::Own(Instant::ZERO)
    }

    /// A medium to be cloned into both directions.
    #[must_use]
    pub fn shared() -> Self {
        Self::Shared(Rc::new(Cell::new(Instant::ZERO)))
    }

    /// The instant from which it is free.
    #[must_use]
    #[inline]
    pub fn free(&self) -> Instant {
        match self {
            Self::Own(at) => *at,
            Self::Shared(at) => at.get(),
        }
    }

    /// Takes it until `end`.
    #[inline]
    pub fn occupy(&mut self, end: Instant) {
        match self {
            Self::Own(at) => *at = end,
            Self::Shared(at) => at.set(end),
        }
    }
}
