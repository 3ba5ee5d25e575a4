//! The handshake from INIT to COOKIE ACK at the initiator, and its completion at both sides.
//!
//! Implements RFC 9260 §5.1, §5.3.1 and §5.2.6.

use super::asconf::Asconf;
use super::extensions::Extensions;
use super::negotiate::{InitContents, InitRefusal, read};
use super::state::{CookieEchoedState, CookieWaitState};
use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::event::{CloseReason, Event};
use crate::path::MAX_PATHS;
use crate::path::select::source_for;
use crate::recv::RecvHalf;
use anabranch_base::Instant;
use anabranch_base::trace::{SendCause, TraceEvent};
use anabranch_wire::sctp::cause::MissingParams;
use anabranch_wire::sctp::param::AddressTypes;
use anabranch_wire::sctp::{self as wire, Cause, ChunkWriter, Chunks, Param, Tsn};
use std::net::{IpAddr, SocketAddr};

/// The number of times that a stale cookie may lead to a new INIT. One more stale cookie ends the handshake.
const STALE_COOKIES: u32 = 4;

/// The progress of the handshake at the initiator.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    /// The path on which INIT and COOKIE ECHO are sent.
    path: u8,
    /// When INIT or COOKIE ECHO was last sent.
    sent: Option<Instant>,
    /// Whether the INIT or COOKIE ECHO was sent more than once.
    repeated: bool,
    /// The local addresses that every INIT sent so far has listed; empty before the first INIT.
    listed_addresses: Vec<IpAddr>,
}

impl Association {
    /// Sends the first INIT.
    pub(crate) fn begin(&mut self, ctx: &mut Ctx<'_>) {
        self.outbox.set_handshake(true);
        ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Opening);
    }

    /// draft-hancke-tsvwg-snap: establishes the association at once, because signalling has carried both INIT chunks.
    pub(crate) fn begin_established(&mut self, ctx: &mut Ctx<'_>, offer: &InitContents) {
        ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Opening);
        self.accept_offer(ctx, offer, self.paths.get(0).address());
        self.establish(ctx);
        self.emit_established(ctx);
    }

    /// Records that an INIT was written on path `index`.
    pub(super) fn init_sent(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        self.outbox.set_handshake(false);
        let mut addresses: Vec<IpAddr> =
            ctx.local_addresses_for(self.peer()).map(|local| local.ip()).collect();
        addresses.shrink_to_fit();
        match self.handshake.listed_addresses.is_empty() {
            true => self.handshake.listed_addresses = addresses,
            // The INIT ACK may answer any of the INITs. The peer may therefore not know an address that is missing in
            // one of the INITs.
            false => self.handshake.listed_addresses.retain(|address| addresses.contains(address)),
        }
        self.handshake.sent = Some(ctx.now);
        let path = self.paths.at(index);
        path.on_used(ctx.now);
        path.take_unsent();
        // RFC 6458 §5.3.1: if the application has set a maximum timeout for INITs, this maximum bounds the doubled
        // timeout instead of RTO.Max.
        let timeout = match (self.config.init_rto_max, &self.state) {
            (Some(most), State::CookieWait(init)) => {
                self.config.rto_initial.saturating_mul(1 << init.retries.min(30)).min(most)
            }
            _ => path.rto(),
        };
        self.timers.set(Timer::T1Init, ctx.now + timeout);
    }

    /// Records that a COOKIE ECHO was written on path `index`.
    pub(super) fn cookie_echo_sent(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        self.outbox.set_handshake(false);
        self.handshake.sent = Some(ctx.now);
        let path = self.paths.at(index);
        path.on_used(ctx.now);
        self.timers.set(Timer::T1Cookie, ctx.now + path.rto());
    }

    /// Returns the path on which INIT and COOKIE ECHO are sent.
    pub(super) fn handshake_path(&self) -> usize {
        self.handshake.path.into()
    }

    /// Moves the handshake to the next path after an INIT or COOKIE ECHO was lost.
    fn turn_handshake_path(&mut self) {
        // RFC 9260 §5.1: like retransmissions of DATA, INIT and COOKIE ECHO are sent to all addresses in turn.
        let current = self.handshake_path();
        self.handshake.path = self.paths.alternate(current).unwrap_or(current) as u8;
    }

    pub(super) fn on_t1_init(&mut self, ctx: &mut Ctx<'_>) {
        let State::CookieWait(init) = &mut self.state else {
            return;
        };
        init.retries += 1;
        if init.retries > self.config.init_max_retrans {
            self.close(ctx, CloseReason::Unreachable);
            return;
        }
        let path = self.handshake_path();
        // If the INIT could not leave this host, the peer cannot have answered it, so the expiration of T1-init is not
        // counted.
        let sent = !self.paths.get(path).is_unsent();
        if sent {
            self.stats.rare_mut().t1_expirations += 1;
        }
        self.paths.at(path).back_off();
        self.turn_handshake_path();
        self.outbox.set_handshake(true);
        self.handshake.repeated |= sent;
    }

    pub(super) fn on_t1_cookie(&mut self, ctx: &mut Ctx<'_>) {
        let State::CookieEchoed(echo) = &mut self.state else {
            return;
        };
        self.stats.rare_mut().t1_expirations += 1;
        echo.retries += 1;
        if echo.retries > self.config.init_max_retrans {
            // RFC 9260 §5.1.4: the peer counts as unreachable after Max.Init.Retransmits retransmissions.
            self.give_up(ctx);
            return;
        }
        let path = self.handshake_path();
        self.paths.at(path).back_off();
        self.turn_handshake_path();
        self.outbox.set_handshake(true);
        self.handshake.repeated = true;
    }

    /// RFC 9260 §5.1 C: handles an INIT ACK. §5.2.3: an INIT ACK is ignored in any state but COOKIE-WAIT.
    pub(super) fn on_init_ack(&mut self, ctx: &mut Ctx<'_>, ack: &wire::InitAck<'_>, from: SocketAddr) {
        let State::CookieWait(init) = &self.state else {
            return;
        };
        let (stale_cookies, unanswered_echoes) = (init.stale_cookies, init.unanswered_echoes);
        let offer = match read(&ack.0, Extensions::of(&self.config), from.ip()) {
            Ok(offer) => offer,
            Err(refusal) => {
                self.on_bad_init_ack(ctx, ack.0.tag, &refusal, from);
                return;
            }
        };
        let Some(cookie) = offer.cookie.clone() else {
            self.refuse(ctx, from, offer.tag, &Cause::MissingParams(MissingParams::STATE_COOKIE));
            self.close(ctx, CloseReason::PeerViolated("3.3.3.1: the INIT ACK has no State Cookie"));
            return;
        };
        self.timers.stop(Timer::T1Init);
        let path = self.paths.find(from.ip()).unwrap_or(self.handshake_path());
        match self.handshake.sent.filter(|_| !self.handshake.repeated) {
            Some(sent) => self.paths.at(path).on_round_trip(ctx.now - sent),
            // RFC 9260 §6.3.1 C5: a repeated INIT gives no round-trip time. But the peer has answered, so T1-cookie
            // starts without the back-off of T1-init, as in Linux. With the back-off, a lost COOKIE ACK would delay the
            // next COOKIE ECHO, and a peer that already sends data might give up meanwhile.
            None => (0..self.paths.len()).for_each(|path| self.paths.at(path).forget_back_off()),
        }
        self.accept_offer(ctx, &offer, from);
        // The COOKIE ECHO is sent to the source address of the INIT ACK, if that path is usable. RFC 9260 §5.4: an
        // address that was learned from this INIT ACK is not verified yet, so another path is chosen.
        let mut choices = self.paths.find(from.ip()).into_iter().chain([path, self.paths.current()]);
        let path = choices.find(|&choice| self.paths.get(choice).is_usable()).unwrap_or(path);
        // RFC 9260 §3.3.3.1: the INIT ACK may report parameters of the INIT that the peer did not recognize. This
        // report is ignored. Parameters of the INIT ACK that this side did not recognize are reported to the peer.
        for param in &offer.unrecognized {
            self.report(path, &Cause::UnrecognizedParams(param));
        }
        self.handshake.path = path as u8;
        let init_repeated = std::mem::take(&mut self.handshake.repeated);
        self.state = State::CookieEchoed(Box::new(CookieEchoedState {
            cookie,
            retries: 0,
            stale_cookies,
            unanswered_echoes,
            init_repeated,
        }));
        self.outbox.set_handshake(true);
    }

    /// RFC 9260 §3.3.3, §5.1: sends an ABORT in answer to an INIT ACK that has invalid values.
    fn on_bad_init_ack(&mut self, ctx: &mut Ctx<'_>, tag: u32, refusal: &InitRefusal, from: SocketAddr) {
        match refusal {
            InitRefusal::SmallWindow => {
                // RFC 9260 §3.3.3: an INIT ACK with a small window is answered with an ABORT, but this side continues
                // to wait for another INIT ACK.
                self.refuse(ctx, from, tag, &Cause::InvalidMandatoryParam);
            }
            InitRefusal::InvalidMandatory => {
                self.refuse(ctx, from, tag, &Cause::InvalidMandatoryParam);
                let rule = "3.3.3: a mandatory value of the INIT ACK is invalid";
                self.close(ctx, CloseReason::PeerViolated(rule));
            }
            InitRefusal::HostName(param) => {
                self.refuse(ctx, from, tag, &Cause::UnresolvableAddress(param));
                self.close(ctx, CloseReason::PeerIncompatible("it wants a host name resolved"));
            }
            InitRefusal::Violates(rule) => {
                self.refuse(ctx, from, tag, &Cause::ProtocolViolation(rule.as_bytes()));
                self.close(ctx, CloseReason::PeerViolated(rule));
            }
            InitRefusal::Malformed => {
                let rule = "3.2.1: a parameter of the INIT ACK is malformed";
                self.refuse(ctx, from, tag, &Cause::ProtocolViolation(rule.as_bytes()));
                self.close(ctx, CloseReason::PeerViolated(rule));
            }
        }
    }

    /// RFC 9260 §5.1.2: an INIT ACK belongs to this association if it lists a peer address that this association
    /// already knows. Returns the index of the path to that address.
    #[cold]
    pub(crate) fn path_of_init_ack(&self, mut chunks: Chunks<'_>) -> Option<usize> {
        if !matches!(self.state, State::CookieWait(_)) {
            return None;
        }
        let Some(Ok(wire::Chunk::InitAck(ack))) = chunks.next() else {
            return None;
        };
        let offer = read(&ack.0, Extensions::of(&self.config), self.peer()).ok()?;
        offer.addresses.iter().find_map(|&address| self.paths.find(address))
    }

    /// Applies the parameters of the peer's INIT or INIT ACK.
    pub(crate) fn accept_offer(&mut self, ctx: &mut Ctx<'_>, offer: &InitContents, from: SocketAddr) {
        self.identity.set_peer_tag(offer.tag);
        if self.extensions.reconfig.take().is_some() {
            // If this association replaces an earlier one, it starts without the streams that were added to the earlier
            // association.
            self.streams.forget_added();
        }
        // RFC 9260 §5.1.1: use no more outbound streams than the peer accepts, and no more inbound streams than the
        // peer requests.
        self.streams.limit(offer.inbound, offer.outbound);
        let payloads = self.config.return_undelivered;
        let refused = self.send.drop_beyond(self.streams.outbound(), payloads);
        self.emit_undelivered(ctx, refused);
        self.send.open_window(offer.window);
        let segment = self.paths.get(0).chunk_limit() as u64;
        self.recv = RecvHalf::new(&self.config, offer.tsn, self.streams.inbound(), segment);
        self.extensions.agreed = Extensions::of(&self.config).intersect(offer.extensions);
        self.send.set_interleaving(self.extensions.agreed.interleaving);
        self.recv.set_interleaving(self.extensions.agreed.interleaving);
        self.recv.set_nr_sack(self.extensions.agreed.nr_sack);
        self.extensions.ecn.set_on(self.extensions.agreed.ecn);
        self.extensions.agree_on_auth(offer.auth.as_ref());
        self.extensions.peer_adaptation = offer.adaptation;
        self.extensions.asconf = self.extensions.agreed.asconf.then(|| {
            // A local address that was added after the INIT is not in `known`, so ASCONF announces it to the peer.
            let known = match self.handshake.listed_addresses.is_empty() {
                true => ctx.local_addresses_for(from.ip()).map(|local| local.ip()).collect(),
                false => std::mem::take(&mut self.handshake.listed_addresses),
            };
            Box::new(Asconf::new(self.identity.initial_tsn(), offer.tsn, known))
        });
        // RFC 9260 §5.1.2: the peer's addresses are the source address of the packet and the listed addresses.
        for address in std::iter::once(from.ip()).chain(offer.addresses.iter().copied()) {
            if self.paths.find(address).is_none()
                && let Some(turn) = self.paths.free_index(address, MAX_PATHS)
                && let Some(path) = self.new_path(ctx, SocketAddr::new(address, from.port()), turn)
            {
                self.paths.set(turn, path);
            }
        }
        // RFC 9260 §5.1.2: addresses that the INIT ACK does not list are not the peer's, even if the application
        // supplied them.
        for index in 0..self.paths.len() {
            let path = self.paths.at(index);
            let address = path.address().ip();
            if address != from.ip() && !offer.addresses.contains(&address) {
                path.withdraw();
            }
        }
        self.paths.reselect();
        self.set_fragment_size();
    }

    /// RFC 9260 §5.1 E: handles a COOKIE ACK.
    pub(super) fn on_cookie_ack(&mut self, ctx: &mut Ctx<'_>) {
        // RFC 9260 §5.2.5: a COOKIE ACK is ignored in any state but COOKIE-ECHOED.
        let State::CookieEchoed(echo) = &self.state else {
            return;
        };
        let once = echo.retries == 0;
        if let Some(sent) = self.handshake.sent.filter(|_| once) {
            let path = self.handshake_path();
            self.paths.at(path).on_round_trip(ctx.now - sent);
        }
        self.establish(ctx);
        self.emit_established(ctx);
    }

    /// Tells the application that the association is established.
    pub(super) fn emit_established(&mut self, ctx: &mut Ctx<'_>) {
        let (outbound_streams, inbound_streams) = (self.streams.outbound(), self.streams.inbound());
        ctx.events.push_back(Event::Established { id: self.id, outbound_streams, inbound_streams });
        self.emit_adaptation(ctx);
        // Messages on streams that the peer did not grant were dropped, which may have freed space in the send buffer.
        if self.send.take_writable() && self.state.accepts_messages() {
            ctx.events.push_back(Event::Writable { id: self.id });
        }
    }

    /// RFC 5061 §4.2.6: reports the peer's adaptation layer indication, if it sent one.
    pub(super) fn emit_adaptation(&self, ctx: &mut Ctx<'_>) {
        if let Some(code) = self.extensions.peer_adaptation {
            ctx.events.push_back(Event::Adaptation { id: self.id, code });
        }
    }

    /// Completes the handshake.
    pub(crate) fn establish(&mut self, ctx: &mut Ctx<'_>) {
        self.timers.stop(Timer::T1Init);
        self.timers.stop(Timer::T1Cookie);
        self.outbox.set_handshake(false);
        self.handshake.repeated = false;
        self.state = State::Established;
        self.paths.clear_errors();
        self.stats.established = Some(ctx.now);
        ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Established);
        self.begin_heartbeats(ctx);
        self.local_addresses_changed(ctx);
        if self.closing.take_shutdown_request() {
            self.shutdown(ctx);
        }
        self.check_probe(ctx.now);
    }

    /// RFC 9260 §5.2.6: requests a new cookie with a longer lifetime, because the cookie expired before our COOKIE ECHO
    /// arrived.
    pub(super) fn on_stale_cookie(&mut self, ctx: &mut Ctx<'_>, staleness_us: u32) {
        let State::CookieEchoed(echo) = &mut self.state else {
            return;
        };
        if let Some(unanswered_echoes) = echo.unanswered_echoes.checked_sub(1) {
            // The peer may answer each copy of a COOKIE ECHO with an ERROR. This ERROR answers a copy whose cookie this
            // side has already replaced.
            echo.unanswered_echoes = unanswered_echoes;
            return;
        }
        let (stale_cookies, unanswered_echoes) = (echo.stale_cookies + 1, echo.retries);
        let (once, init_repeated) = (echo.retries == 0, echo.init_repeated);
        // If the peer has acknowledged data, the handshake is not repeated, because acknowledged data cannot be sent
        // again. A peer that has lost its association would create a new one and wait forever for the TSNs of this
        // data.
        let acknowledged = self.send.base() > 0;
        if stale_cookies > STALE_COOKIES || acknowledged {
            self.close(ctx, CloseReason::StaleCookie);
            return;
        }
        // RFC 9260 §5.2.6: extend the cookie's lifetime by its staleness plus the round trip of COOKIE ECHO and ERROR.
        // The extension is at most one second plus that round trip.
        let round_trip = self.handshake.sent.map(|sent| ctx.now - sent);
        let rtt = round_trip.map_or(0, |rtt| rtt.as_millis() as u64);
        let preserve = (u64::from(staleness_us) / 1000 + rtt).min(rtt + 1000);
        self.timers.stop(Timer::T1Cookie);
        // RFC 9260 §6.3.1 C5: the ERROR that answers a COOKIE ECHO gives an RTT sample only if the COOKIE ECHO was sent
        // once. Otherwise there is no sample. In both cases the back-off ends, because the peer has answered.
        let path = self.handshake_path();
        match round_trip.filter(|_| once) {
            Some(rtt) => self.paths.at(path).on_round_trip(rtt),
            None => self.paths.at(path).forget_back_off(),
        }
        self.mark_all_for_retransmission();
        self.state = State::CookieWait(CookieWaitState {
            retries: 0,
            preserve_ms: Some(preserve as u32),
            stale_cookies,
            unanswered_echoes,
        });
        self.outbox.set_handshake(true);
        // If the INIT was retransmitted, the next INIT ACK may answer an earlier copy. Then it gives no round-trip
        // sample.
        self.handshake.repeated = init_repeated;
        // RFC 9260 §5.4: an INIT is not sent to an unverified address, so the current path is used.
        if !self.paths.get(self.handshake_path()).is_usable() {
            self.handshake.path = self.paths.current() as u8;
        }
    }

    /// Continues the handshake from another local address after the local address in use was removed. If the INIT
    /// listed the other address, the same handshake continues. Otherwise a new INIT starts another handshake, which the
    /// peer treats as a new association.
    pub(crate) fn begin_from_another(&mut self, ctx: &mut Ctx<'_>) {
        let (stale_cookies, unanswered_echoes) = match &self.state {
            State::CookieWait(init) => (init.stale_cookies, init.unanswered_echoes),
            State::CookieEchoed(echo) => (echo.stale_cookies, echo.unanswered_echoes),
            _ => return,
        };
        let local_addresses: Vec<SocketAddr> = ctx.local_addresses_for(self.peer()).collect();
        if !self.config.asconf || local_addresses.contains(&self.paths.get(self.handshake_path()).source()) {
            return;
        }
        let announced = self.extensions.asconf.as_ref().map(|asconf| asconf.usable(ctx, self.peer()));
        let echoes = matches!(self.state, State::CookieEchoed(_));
        let announced = announced.filter(|announced| echoes && !announced.is_empty());
        // A new handshake would create a new association. If the peer has already acknowledged data, that data could
        // not be sent again in the new association, so the handshake is not restarted.
        if local_addresses.is_empty() || announced.is_none() && self.send.base() > 0 {
            return;
        }
        let sources = announced.as_ref().unwrap_or(&local_addresses);
        for index in 0..self.paths.len() {
            let path = self.paths.get(index);
            if let Some(source) = source_for(sources, path.address().ip(), index)
                && !local_addresses.contains(&path.source())
            {
                let config = self.config.clone();
                self.paths.at(index).set_source(&config, source, ctx.mtu_of(source));
            }
        }
        if announced.is_none() {
            self.timers.stop(Timer::T1Cookie);
            self.mark_all_for_retransmission();
            self.state = State::CookieWait(CookieWaitState {
                retries: 0,
                preserve_ms: None,
                stale_cookies,
                unanswered_echoes,
            });
            (self.handshake.repeated, self.handshake.listed_addresses) = (false, Vec::new());
        }
        self.outbox.set_handshake(true);
    }

    /// Marks the DATA that was sent with a COOKIE ECHO as lost, so that it is retransmitted with the same TSNs. Called
    /// if the peer refused the cookie, if T3-rtx expired, or if the handshake starts again.
    pub(super) fn mark_all_for_retransmission(&mut self) {
        for index in 0..self.paths.len() {
            self.send.lose_path(index, SendCause::Timeout);
            self.paths.at(index).forget_flight();
            self.timers.stop(Timer::T3Rtx(index));
        }
    }

    /// Appends the INIT chunk.
    pub(super) fn write_init(&self, ctx: &Ctx<'_>, buffer: &mut Vec<u8>) {
        let preserve = match &self.state {
            State::CookieWait(init) => init.preserve_ms,
            _ => None,
        };
        let (outbound, inbound) = self.streams.requested(&self.config);
        let init = wire::Init {
            tag: self.identity.local_tag(),
            window: crate::recv::first_window(&self.config),
            outbound_streams: outbound,
            inbound_streams: inbound,
            tsn: Tsn(self.identity.initial_tsn()),
            ..wire::Init::default()
        };
        let mut chunk = init.open(buffer);
        let auth = self.extensions.auth.as_ref().map(|auth| auth.ours());
        let local_addresses = ctx.local_addresses_for(self.peer());
        write_addresses(&mut chunk, local_addresses.clone().map(|local| local.ip()));
        let ours = Extensions::of(&self.config);
        ours.announce(&mut chunk, ours, true);
        if let Some(auth) = auth {
            auth.emit(&mut chunk);
        }
        if let Some(code) = self.config.adaptation {
            // RFC 5061 §4.2.6: announce the adaptation layer indication of this side's application.
            Param::Adaptation(code).emit(&mut chunk);
        }
        if let Some(ms) = preserve {
            Param::CookiePreservative(ms).emit(&mut chunk);
        }
        // RFC 9260 §5.1.2: without the Supported Address Types parameter, a peer assumes that all address types are
        // supported.
        if self.config.address_types {
            let v4 = local_addresses.clone().any(|local| local.is_ipv4());
            let v6 = local_addresses.clone().any(|local| local.is_ipv6());
            let types = match (v4, v6) {
                (true, true) => AddressTypes::BOTH,
                (false, true) => AddressTypes::V6,
                _ => AddressTypes::V4,
            };
            Param::SupportedAddresses(types).emit(&mut chunk);
        }
        chunk.close();
    }
}

/// Appends a list of the local addresses, unless there is only one.
pub(crate) fn write_addresses(chunk: &mut ChunkWriter<'_>, addresses: impl Iterator<Item = IpAddr> + Clone) {
    // RFC 9260 §3.3.2.1: if the chunk lists no address, the source address of the packet is the sender's only address.
    if addresses.clone().nth(1).is_some() {
        addresses.for_each(|address| {
            Param::from(address).emit(chunk);
        });
    }
}
