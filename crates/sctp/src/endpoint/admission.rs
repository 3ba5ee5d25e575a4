//! Admission: the application may accept or refuse each association before it begins.
//!
//! A listening port may require admission ([`Endpoint::require_admission`]). If so, a COOKIE ECHO that would begin an
//! association is kept until the application admits or refuses the association. The COOKIE ECHO proves that the peer
//! receives packets at its address. While the peer waits, it repeats the COOKIE ECHO (T1-cookie). The application sets
//! how many requests may wait. Further requests are dropped, and their peers try again.
//!
//! Implements RFC 9260 §11.1.2 and §5.1 (D), as far as they concern the decision of the application.

use super::listen::MAX_PRESERVED;
use super::{AssociationId, Endpoint};
use crate::association::cookie::Cookie;
use crate::association::outbound::packet::StatelessPacket;
use anabranch_base::{Ecn, Engine, Instant, Packet};
use anabranch_wire::sctp::{Abort, Cause, Header};
use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};

/// A peer's request for an association.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The identifier that [`Endpoint::admit`] and [`Endpoint::refuse`] take.
    pub id: RequestId,
    /// The listening port.
    pub port: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// The source address of the peer. Its port is the UDP encapsulation port, or 0 without encapsulation.
    pub peer: SocketAddr,
    /// All addresses of the peer, as listed in its INIT.
    pub addresses: Vec<IpAddr>,
    /// The number of streams on which this side can send if it admits the association.
    pub outbound_streams: u16,
    /// The number of streams on which the peer can send if this side admits the association.
    pub inbound_streams: u16,
}

/// Identifies a [`Request`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestId(u32);

/// A packet that begins with a COOKIE ECHO and waits for the application's decision.
#[derive(Debug)]
struct PendingCookieEcho {
    /// The local tag that the association would have.
    tag: u32,
    peer_tag: u32,
    header: Header,
    source: SocketAddr,
    target: SocketAddr,
    ecn: Ecn,
    trace_tag: u64,
    arrived: Instant,
    bytes: Vec<u8>,
}

/// The ports that require admission, and the requests that wait for the application's decision.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// The ports that require admission, each with the maximum number of requests that may wait.
    ports: BTreeMap<u16, usize>,
    waiting: VecDeque<PendingCookieEcho>,
    new_requests: VecDeque<Request>,
    /// The local tag of the association that the application is admitting, and the time at which its COOKIE ECHO
    /// arrived. Set only while [`Endpoint::admit`] processes the packet with the COOKIE ECHO.
    admitted: Option<(u32, Instant)>,
}

impl Admission {
    /// Returns the number of bytes held for requests that wait for admission.
    pub(super) fn held_bytes(&self) -> usize {
        let waiting: usize =
            self.waiting.iter().map(|pending| size_of::<PendingCookieEcho>() + pending.bytes.len()).sum();
        let addresses: usize =
            self.new_requests.iter().map(|request| request.addresses.len() * size_of::<IpAddr>()).sum();
        waiting + self.new_requests.len() * size_of::<Request>() + addresses
    }

    /// Stops requiring admission on a port that no longer listens, and drops its waiting requests.
    pub(super) fn close(&mut self, port: u16) {
        self.ports.remove(&port);
        self.waiting.retain(|pending| pending.header.target_port != port);
        self.new_requests.retain(|request| request.port != port);
    }
}

impl Endpoint {
    /// From now on, the application must admit each association with the listening port `port`.
    /// [`poll_request`](Self::poll_request) reports each association as a [`Request`], which waits until it is
    /// [admitted](Self::admit) or [refused](Self::refuse). At most `most` requests wait. While `most` requests wait, a
    /// further peer gets no answer and has to try again.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::{address, Pair, Side}, Associate, CloseReason, Config, Event};
    /// # let mut pair = Pair::new(Config::default(), Config::default(), 1, 1);
    /// pair.b.listen(80)?;
    /// pair.b.require_admission(80, 10);
    /// # let (peer, now) = (address(Side::B, 0), pair.now);
    /// let wanted = pair.a.associate(now, Associate::to(peer, 80))?;
    /// let unwanted = pair.a.associate(now, Associate::to(peer, 80))?;
    /// pair.settle();
    /// let request = pair.b.poll_request().expect("somebody asks");
    /// assert_eq!((request.port, request.peer.ip()), (80, address(Side::A, 0).ip()));
    /// assert!(pair.b.admit(pair.now, request.id).is_some());
    /// let request = pair.b.poll_request().expect("somebody else asks");
    /// pair.b.refuse(pair.now, request.id, b"enough");
    /// pair.settle();
    /// let events = pair.events(Side::A);
    /// assert!(events.iter().any(|event| matches!(event, Event::Established { id, .. } if *id == wanted)));
    /// let aborted = Event::Closed { id: unwanted, reason: CloseReason::Aborted(Some(12)) };
    /// assert!(events.contains(&aborted));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn require_admission(&mut self, port: u16, most: usize) {
        self.admission.ports.insert(port, most);
    }

    /// Returns the next request for an association.
    pub fn poll_request(&mut self) -> Option<Request> {
        self.admission.new_requests.pop_front()
    }

    /// Returns whether [`poll_request`](Self::poll_request) has a request to return. A request is withdrawn when its
    /// peer gives up.
    #[must_use]
    pub fn has_requests(&self) -> bool {
        !self.admission.new_requests.is_empty()
    }

    /// Admits an association. `Event::Accepted` follows. Returns `None` if no association begins. Possible reasons are
    /// that there is no such request, the peer has given up, the port no longer listens, or the State Cookie is stale.
    /// If the cookie is stale, the peer receives an error and starts again.
    pub fn admit(&mut self, now: Instant, request: RequestId) -> Option<AssociationId> {
        let pending = self.take_pending(request)?;
        let PendingCookieEcho { source, target, ecn, trace_tag: tag, bytes, .. } = &pending;
        let packet = Packet { source: *source, target: *target, ecn: *ecn, tag: *tag, payload: bytes };
        self.admission.admitted = Some((pending.tag, pending.arrived));
        self.handle_packet(now, packet);
        self.admission.admitted = None;
        self.demux.by_tag(pending.tag).map(|slot| self.id_of(slot))
    }

    /// Refuses an association. Its peer receives an ABORT with the first 512 bytes of the application's `reason`.
    pub fn refuse(&mut self, now: Instant, request: RequestId, reason: &[u8]) {
        let Some(pending) = self.take_pending(request) else { return };
        // Remembers the tag, so that repeated COOKIE ECHOs do not cause another request.
        self.used_cookies.add(now, self.config.cookie_life + MAX_PRESERVED, pending.tag);
        let PendingCookieEcho { source, target, ecn, bytes, .. } = &pending;
        let packet = Packet { source: *source, target: *target, ecn: *ecn, tag: 0, payload: bytes };
        let reason = &reason[..reason.len().min(MAX_REASON)];
        let abort = StatelessPacket::answer(&packet, pending.header, pending.peer_tag, |bytes| {
            let mut chunk = Abort::default().open(bytes);
            Cause::UserAbort(reason).emit(&mut chunk);
            chunk.close();
        });
        self.send_stateless(abort);
    }

    /// RFC 9260 §8.5.1 B: withdraws the request of a peer that sends an ABORT. `header` is the header of the ABORT, and
    /// its tag must be the local tag in the cookie of the request. If the configuration requires that ABORT is
    /// authenticated (RFC 4895 §6.3), the request stays, because without an association there are no keys to verify the
    /// ABORT.
    pub(super) fn withdraw(&mut self, now: Instant, header: Header) {
        if self.config.auth && self.config.guarded_chunks().has(Abort::KIND) {
            return;
        }
        let is_its = |pending: &PendingCookieEcho| {
            let ports = |header: Header| (header.source_port, header.target_port);
            (pending.tag, ports(pending.header)) == (header.tag, ports(header))
        };
        let Admission { waiting, new_requests, .. } = &mut self.admission;
        if let Some(position) = waiting.iter().position(is_its) {
            waiting.remove(position);
            new_requests.retain(|request| request.id != RequestId(header.tag));
            // The tag is remembered, so that a delayed copy of the COOKIE ECHO does not create the request again.
            self.used_cookies.add(now, self.config.cookie_life + MAX_PRESERVED, header.tag);
        }
    }

    fn take_pending(&mut self, RequestId(tag): RequestId) -> Option<PendingCookieEcho> {
        let position = self.admission.waiting.iter().position(|pending| pending.tag == tag)?;
        self.admission.waiting.remove(position)
    }

    /// Returns whether the application has to admit the association that this cookie begins.
    pub(super) fn needs_admission(&self, cookie: &Cookie) -> bool {
        let (port, tag) = (cookie.local_port, cookie.local_tag);
        self.admission.ports.contains_key(&port)
            && self.listeners.contains(&port)
            && self.admission.admitted.is_none_or(|(admitted, _)| admitted != tag)
    }

    /// Returns the time at which the COOKIE ECHO arrived that is being processed, if the application has just admitted
    /// its association.
    pub(super) fn admitted_echo_arrival(&self) -> Option<Instant> {
        self.admission.admitted.map(|(_, arrived)| arrived)
    }

    /// Keeps a packet that begins with a COOKIE ECHO until the application has decided on the association.
    #[cold]
    pub(super) fn hold_for_admission(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: Header,
        cookie: &Cookie,
    ) {
        let Admission { ports, waiting, new_requests, .. } = &mut self.admission;
        let most = ports.get(&cookie.local_port).copied().unwrap_or(0);
        let tag = cookie.local_tag;
        if waiting.len() >= most || waiting.iter().any(|pending| pending.tag == tag) {
            self.totals.discarded += 1;
            return;
        }
        waiting.push_back(PendingCookieEcho {
            tag,
            peer_tag: cookie.peer_tag,
            header,
            source: packet.source,
            target: packet.target,
            ecn: packet.ecn,
            trace_tag: packet.tag,
            arrived: now,
            bytes: packet.payload.to_vec(),
        });
        let mut addresses = vec![cookie.init_source];
        addresses.extend(cookie.addresses.iter().filter(|address| **address != cookie.init_source));
        new_requests.push_back(Request {
            id: RequestId(tag),
            port: cookie.local_port,
            peer_port: cookie.peer_port,
            peer: SocketAddr::new(cookie.init_source, packet.source.port()),
            addresses,
            outbound_streams: cookie.outbound,
            inbound_streams: cookie.inbound,
        });
    }
}

/// The maximum number of bytes of the application's reason that an ABORT carries.
const MAX_REASON: usize = 512;

#[cfg(test)]
mod tests {
    use crate::testing::{Pair, Side, address};
    use crate::{Associate, Config, Event};
    use anabranch_base::time::Duration;

    /// Returns two endpoints and an association that endpoint `a` began. Endpoint `b` has neither accepted nor refused
    /// it yet.
    fn asking(config: &Config) -> (Pair, crate::AssociationId) {
        let mut pair = Pair::new(config.clone(), config.clone(), 1, 1);
        pair.b.listen(80).expect("a free port");
        pair.b.require_admission(80, 10);
        let ask = Associate::to(address(Side::B, 0), 80);
        let id = pair.a.associate(pair.now, ask).expect("associates");
        pair.settle();
        (pair, id)
    }

    #[test]
    fn the_request_of_a_peer_that_aborted_is_not_reported() {
        let (mut pair, id) = asking(&Config::default());
        assert!(pair.b.has_requests());
        pair.a.abort(pair.now, id);
        pair.settle();
        assert!(!pair.b.has_requests());
        assert_eq!((pair.b.poll_request(), pair.b.admission.held_bytes()), (None, 0));
        // Another request on the same port can still be admitted.
        let ask = Associate::to(address(Side::B, 0), 80);
        pair.a.associate(pair.now, ask).expect("associates");
        pair.settle();
        let request = pair.b.poll_request().expect("somebody asks");
        assert!(pair.b.admit(pair.now, request.id).is_some());
        pair.settle();
        assert!(pair.events(Side::A).iter().any(|event| matches!(event, Event::Established { .. })));
    }

    /// With `rtt_from_cookie`, the sample ends when the COOKIE ECHO arrives, not when the application decides.
    #[test]
    fn the_application_does_not_lengthen_the_round_trip() {
        let mut config = Config::default();
        config.set("rtt_from_cookie", "yes").expect("a knob");
        let (mut pair, _) = asking(&config);
        let request = pair.b.poll_request().expect("somebody asks");
        let id = pair.b.admit(pair.now, request.id).expect("an association");
        let srtt = pair.b.info(id).expect("up").paths[0].srtt.expect("a sample");
        assert!(srtt < Duration::from_millis(300), "asked a second ago: {srtt:?}");
    }

    #[test]
    fn a_peer_that_aborted_cannot_be_admitted() {
        let (mut pair, id) = asking(&Config::default());
        let request = pair.b.poll_request().expect("somebody asks");
        pair.a.abort(pair.now, id);
        pair.settle();
        assert_eq!(pair.b.admit(pair.now, request.id), None);
        assert!(pair.events(Side::B).is_empty());
    }
}
