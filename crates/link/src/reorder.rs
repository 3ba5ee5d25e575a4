//! Reordering: a share of the packets overtakes others.
//!
//! Each packet is selected with a fixed probability. A selected packet leaves before the end of its delay. The time by
//! which it leaves early is called the lead. The packet overtakes each packet that entered before it, if the time
//! between the two entries is shorter than the lead. If the lead is the whole delay, this element does the same as
//! netem's `reorder`.
//!
//! This element must follow a [`Delay`](crate::delay::Delay) that is at least as long as the lead. If packets are
//! further apart than the lead, a selected packet arrives early, but overtakes no other packet.

use crate::element::{Carried, Fate, ImmediateElement};
use crate::meter::Meter;
use crate::spec::SpecError;
use crate::table::{Impairment, Side};
use crate::{DirectionSpec, Stage};
use anabranch_base::time::{Duration, nanos};
use anabranch_base::units::{UnitError, format_duration, parse_duration};
use anabranch_base::{Instant, Ratio, Rng};
use std::fmt;

/// The setting of reordering, for example `1%` (1 % of the packets leave without the delay, as in netem) or `1%/10ms`
/// (1 % of the packets leave 10 ms earlier).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReorderSpec {
    /// The share of packets that leave before the end of their delay.
    pub share: Ratio,
    /// The time by which such a packet leaves before the end of its delay. `None` stands for the link's delay minus its
    /// jitter.
    pub lead: Option<Duration>,
}

impl fmt::Display for ReorderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lead {
            None => write!(f, "{}", self.share),
            Some(lead) => write!(f, "{}/{}", self.share, format_duration(lead)),
        }
    }
}

/// An element of a link that lets a share of the packets leave before the end of their delay.
#[derive(Clone, Debug)]
pub struct Reorder {
    share: Ratio,
    lead: u64,
    rng: Rng,
}

impl Reorder {
    /// Creates an element that lets `share` of the packets leave earlier by `lead`.
    #[must_use]
    pub const fn new(share: Ratio, lead: Duration, rng: Rng) -> Self {
        Self { share, lead: nanos(lead), rng }
    }
}

impl Impairment<Option<ReorderSpec>> for Reorder {
    const PLACE: u8 = 90;

    fn read(text: &str) -> Result<Option<ReorderSpec>, String> {
        let unit = |error: UnitError| error.to_string();
        let (share, lead) = match text.split_once('/') {
            Some((share, lead)) => (share, Some(parse_duration(lead).map_err(unit)?)),
            None => (text, None),
        };
        let share: Ratio = share.parse().map_err(unit)?;
        Ok((share != Ratio::ZERO).then_some(ReorderSpec { share, lead }))
    }

    fn show(spec: &DirectionSpec) -> String {
        spec.reorder.map(|reorder| reorder.to_string()).unwrap_or_default()
    }

    fn check(spec: &DirectionSpec) -> Result<(), String> {
        let room = spec.delay.saturating_sub(spec.jitter);
        match spec.reorder.and_then(|reorder| reorder.lead) {
            Some(lead) if lead > room => {
                let (lead, most) = (format_duration(lead), format_duration(room));
                Err(format!("reorder by {lead} is more than the delay leaves; write at most {most}"))
            }
            _ => Ok(()),
        }
    }

    fn stage<P: Carried>(side: &Side<'_>) -> Result<Option<Stage<P>>, SpecError> {
        let spec = side.spec;
        Ok(spec.reorder.map(|reorder| {
            let lead = reorder.lead.unwrap_or(spec.delay - spec.jitter);
            Stage::Reorder(Self::new(reorder.share, lead, side.rng.fork("reorder")))
        }))
    }
}

impl<P: Carried> ImmediateElement<P> for Reorder {
    fn pass(&mut self, at: Instant, packet: &mut P, meter: &mut Meter) -> Fate {
        if !self.rng.chance(self.share) {
            return Fate::Leaves(at);
        }
        meter.changed.overtaking.add(packet.wire_len());
        Fate::Leaves(Instant::from_nanos(at.as_nanos().saturating_sub(self.lead)))
    }
}
