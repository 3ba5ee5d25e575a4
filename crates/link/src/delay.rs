//! Propagation delay: every packet is delayed by a fixed time, or by the delay that a trace has recorded for the time
//! at which the packet enters.

use crate::element::{Fate, ImmediateElement};
use crate::meter::Meter;
use crate::spec::SpecError;
use crate::table::{Impairment, Side};
use crate::trace::series::TraceDelay;
use crate::{Carried, DirectionSpec, Stage};
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::units::{format_duration, parse_duration};

/// An element that delays every packet by the same time.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    nanos: u64,
}

impl Delay {
    /// Creates an element that delays every packet by `span`.
    #[must_use]
    pub const fn new(span: Duration) -> Self {
        Self { nanos: nanos(span) }
    }
}

impl Impairment<Duration> for Delay {
    const PLACE: u8 = 70;

    fn read(text: &str) -> Result<Duration, String> {
        parse_duration(text).map_err(|error| error.to_string())
    }

    fn show(spec: &DirectionSpec) -> String {
        // Delays recorded in a trace replace the setting `delay`, so the setting is not shown.
        let trace = spec.trace.as_ref().and_then(|spec| spec.trace.as_ref());
        if trace.is_some_and(|trace| trace.delays().is_some()) {
            return String::new();
        }
        format_duration(spec.delay)
    }

    fn stage<P: Carried>(side: &Side<'_>) -> Result<Option<Stage<P>>, SpecError> {
        let trace = side.spec.trace.as_ref().and_then(|spec| spec.trace.as_ref());
        if let Some(delays) = trace.and_then(|trace| trace.delays()) {
            return Ok(Some(Stage::TraceDelay(Box::new(TraceDelay::new(delays.clone())))));
        }
        Ok((!side.spec.delay.is_zero()).then(|| Stage::Delay(Self::new(side.spec.delay))))
    }
}

impl<P> ImmediateElement<P> for Delay {
    #[inline]
    fn pass(&mut self, at: Instant, _packet: &mut P, _meter: &mut Meter) -> Fate {
        Fate::Leaves(at.plus_nanos(self.nanos))
    }
}
