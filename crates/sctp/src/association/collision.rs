//! An INIT for an association that exists.
//!
//! Says how it is to be answered; the answer itself is as stateless as any
//! (`endpoint::listen`), and the association stays as it is.
//!
//! Home of RFC 9260 §5.2.1 and §5.2.2.

use super::negotiate::Offer;
use super::{Association, State};
use std::net::IpAddr;

/// How to answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// INIT ACK with these values.
    InitAck { tag: u32, tsn: u32, outbound: u16, inbound: u16, tie_tags: (u32, u32) },
    /// ABORT: these addresses are new.
    NewAddresses(Vec<IpAddr>),
    /// Not at all (a SHUTDOWN ACK may be repeated).
    None,
}

impl Association {
    /// An INIT has arrived from `source`; `fresh` are a new tag and TSN for a
    /// possible restart.
    pub(crate) fn answer_init(&mut self, offer: &Offer, source: IpAddr, fresh: (u32, u32)) -> Answer {
        if matches!(self.state, State::ShutdownAckSent) {
            // RFC 9260 §9.2: the SHUTDOWN COMPLETE was lost.
            self.outbox.set_shutdown(true);
            return Answer::None;
        }
        // RFC 9260 §5.2.1: the parameters of the original INIT.
        let (outbound, inbound) = self.streams.requested(&self.config);
        if matches!(self.state, State::CookieWait(_)) {
            // RFC 9260 §5.2.1: only to an address that our own INIT could have gone to, and
            // with the values of that INIT, unchanged.
            if self.paths.find(source).is_none() {
                return Answer::None;
            }
            let (tag, tsn) = (self.identity.local_tag(), self.identity.initial_tsn());
            return Answer::InitAck { tag, tsn, outbound, inbound, tie_tags: (0, 0) };
        }
        // RFC 9260 §5.2.1, §5.2.2: nobody joins by pretending to restart.
        let listed = std::iter::once(source).chain(offer.addresses.iter().copied());
        let new: Vec<IpAddr> = listed.filter(|&address| self.paths.find(address).is_none()).collect();
        // RFC 5061: a late copy of the INIT that this association began with lists what has been
        // given up since; an ABORT with its tag would end what it did not mean to touch.
        let late = self.extensions.asconf.is_some() && offer.tag == self.identity.peer_tag();
        if !new.is_empty() && !late {
            return Answer::NewAddresses(new);
        }
        let tie_tags = self.identity.make_tie_tags(&mut self.rng);
        if matches!(self.state, State::CookieEchoed(_)) {
            let (tag, tsn) = (self.identity.local_tag(), self.identity.initial_tsn());
            return Answer::InitAck { tag, tsn, outbound, inbound, tie_tags };
        }
        let (tag, tsn) = fresh;
        // RFC 9260 §5.2.2: the rest as it is; §3.3.3: no more than the INIT allows.
        let (outbound, inbound) = (self.streams.outbound().min(offer.inbound), self.streams.inbound());
        Answer::InitAck { tag, tsn, outbound, inbound, tie_tags }
    }
}
