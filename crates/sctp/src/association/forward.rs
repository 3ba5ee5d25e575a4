//! Partial reliability: what a FORWARD TSN does to an association, and what
//! giving up does to its paths and timers.
//!
//! Home of RFC 3758 §3.3 (who may use it) and §3.5 (A2, C5 and F5: windows and timers).

use super::inbound::Arrived;
use super::{Association, Ctx};
use crate::recv::forward::Forwarded;
use anabranch_wire::sctp::{Cause, ForwardTsn, IForwardTsn, RawChunk};

impl Association {
    /// A FORWARD TSN or I-FORWARD-TSN has arrived.
    pub(super) fn on_forward_tsn(&mut self, ctx: &mut Ctx<'_>, raw: RawChunk<'_>, arrived: &Arrived) {
        if !self.extensions.partial_reliability {
            // RFC 3758 §3.3.1: as if its type were not known.
            self.report(arrived.path, &Cause::UnrecognizedChunk(raw.bytes));
            return;
        }
        // RFC 8260 §2.3.1: the one with DATA, the other with I-DATA.
        if (raw.kind == IForwardTsn::KIND) != self.extensions.interleaving {
            self.violated(ctx, "RFC 8260 2.3.1: FORWARD TSN goes with DATA, I-FORWARD-TSN with I-DATA");
            return;
        }
        if !self.state.may_receive_data() {
            return;
        }
        let Ok(forward) = ForwardTsn::parse(raw) else {
            self.violated(ctx, "3.3: a chunk does not have the form of its type");
            return;
        };
        match self.recv.on_forward(forward.cumulative, forward.streams()) {
            Ok(Forwarded::New) => {}
            Ok(Forwarded::Old) => self.stats.duplicates_received += 1,
            Ok(Forwarded::Refused) => self.stats.refused_full += 1,
            Err(violation) => self.violated(ctx, violation.0),
        }
    }
}
