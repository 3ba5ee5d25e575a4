//! Decides how to answer an INIT that arrives for an existing association.
//!
//! An INIT for an existing association does not change the association. `endpoint::listen` sends the answer without
//! keeping state, as for any INIT.
//!
//! Implements RFC 9260 §5.2.1 and §5.2.2.

use super::negotiate::InitContents;
use super::{Association, State};
use std::net::IpAddr;

/// The answer to an INIT that arrives for an existing association.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InitReply {
    /// An INIT ACK with these values: the tag and initial TSN of this side, its stream counts, and the Tie-Tags for the
    /// cookie.
    InitAck { tag: u32, tsn: u32, outbound: u16, inbound: u16, tie_tags: (u32, u32) },
    /// An ABORT, because the peer's INIT lists these addresses and the association does not have them.
    NewAddresses(Vec<IpAddr>),
    /// Neither an INIT ACK nor an ABORT is sent. If the association is shutting down, a SHUTDOWN ACK may be repeated.
    None,
}

impl Association {
    /// Decides the answer to an INIT from `source`. `tag_and_tsn` is the tag and initial TSN to use if the peer has
    /// restarted.
    pub(crate) fn answer_init(
        &mut self,
        offer: &InitContents,
        source: IpAddr,
        tag_and_tsn: (u32, u32),
    ) -> InitReply {
        if matches!(self.state, State::ShutdownAckSent) {
            // RFC 9260 §9.2: an INIT in SHUTDOWN-ACK-SENT shows that the SHUTDOWN COMPLETE was lost. The SHUTDOWN ACK
            // is repeated.
            self.outbox.set_shutdown(true);
            return InitReply::None;
        }
        // RFC 9260 §5.2.1: the answer has the stream counts of our original INIT.
        let (outbound, inbound) = self.streams.requested(&self.config);
        if matches!(self.state, State::CookieWait(_)) {
            // RFC 9260 §5.2.1: answer only an INIT from an address to which our own INIT could have been sent. The
            // answer has the unchanged values of our INIT.
            if self.paths.find(source).is_none() {
                return InitReply::None;
            }
            let (tag, tsn) = (self.identity.local_tag(), self.identity.initial_tsn());
            return InitReply::InitAck { tag, tsn, outbound, inbound, tie_tags: (0, 0) };
        }
        // RFC 9260 §5.2.1, §5.2.2: an INIT with new addresses is refused. Otherwise an attacker could join the
        // association by pretending to restart.
        let listed = std::iter::once(source).chain(offer.addresses.iter().copied());
        let new: Vec<IpAddr> = listed.filter(|&address| self.paths.find(address).is_none()).collect();
        // RFC 5061: a delayed copy of the INIT that began this association may list addresses that were removed later.
        // That copy must not be refused. An ABORT would carry the peer's tag, so the peer would end the association by
        // mistake.
        let late = self.extensions.asconf.is_some() && offer.tag == self.identity.peer_tag();
        if !new.is_empty() && !late {
            return InitReply::NewAddresses(new);
        }
        let tie_tags = self.identity.make_tie_tags(&mut self.rng);
        if matches!(self.state, State::CookieEchoed(_)) {
            let (tag, tsn) = (self.identity.local_tag(), self.identity.initial_tsn());
            return InitReply::InitAck { tag, tsn, outbound, inbound, tie_tags };
        }
        let (tag, tsn) = tag_and_tsn;
        // RFC 9260 §5.2.2: the INIT ACK announces the stream counts of the existing association. §3.3.3: it requests no
        // more outbound streams than the INIT allows.
        let (outbound, inbound) = (self.streams.outbound().min(offer.inbound), self.streams.inbound());
        InitReply::InitAck { tag, tsn, outbound, inbound, tie_tags }
    }
}
