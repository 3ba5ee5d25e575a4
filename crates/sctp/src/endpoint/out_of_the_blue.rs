//! Packets out of the blue, and packets whose tag is not the local tag of their association.
//!
//! Implements RFC 9260 §8.4 and §8.5.1.

use super::Endpoint;
use super::demux::{AddressKey, Demux};
use super::encap;
use crate::association::cookie::{Cookie, CookieEchoContext, VerifiedCookie};
use crate::association::inbound::PacketMeta;
use crate::association::negotiate::is_unicast;
use crate::association::outbound::packet::StatelessPacket;
use crate::event::CloseReason;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Packet};
use anabranch_wire::sctp::RawChunk;
use anabranch_wire::sctp::{
    Abort, Cause, Chunk, Chunks, CookieAck, CookieEcho, Error, Header, PacketView, ShutdownAck,
    ShutdownComplete,
};
use std::net::{IpAddr, SocketAddr};

/// Returns whether the next chunk in `chunks` is a COOKIE ECHO.
pub(super) fn leads_cookie_echo(mut chunks: Chunks<'_>) -> bool {
    matches!(chunks.next_raw(), Some(Ok(raw)) if raw.kind == CookieEcho::KIND)
}

/// Returns the demultiplexer keys under which the association of a cookie may be stored.
fn address_keys_of<'a>(
    demux: &'a Demux,
    cookie: &'a Cookie,
    packet: &Packet<'_>,
) -> impl Iterator<Item = AddressKey> + use<'a> {
    let seen = [packet.source.ip(), cookie.init_source];
    let (peer_port, local_port) = (cookie.peer_port, cookie.local_port);
    let addresses = seen.into_iter().chain(cookie.addresses.iter().copied());
    let udp_port = packet.source.port();
    addresses.map(move |peer| demux.address_key(SocketAddr::new(peer, udp_port), peer_port, local_port))
}

impl Endpoint {
    /// Returns whether the packet may be meant for another SCTP stack on this host. Without UDP encapsulation, every
    /// SCTP stack on the host receives every packet, even a packet from this host to itself. `other_shards`, if set,
    /// knows whether another stack uses the port. A loopback packet with equal source and destination address could
    /// belong to any stack, so it is never answered.
    pub(super) fn is_overheard(&self, packet: &Packet<'_>, port: u16) -> bool {
        let (source, target) = (packet.source, packet.target);
        source.port() == 0 && source.ip().is_loopback() && source.ip() == target.ip()
            || self.has_neighbour(Some(target.ip()), port)
    }

    /// Handles a packet whose verification tag is not the local tag of any association.
    pub(super) fn on_out_of_the_blue(&mut self, now: Instant, packet: &Packet<'_>, view: &PacketView<'_>) {
        let header = view.header;
        let address_key = self.demux.address_key(packet.source, header.source_port, header.target_port);
        if let Some(slot) = self.demux.by_address_key(address_key)
            && self.alive(slot).is_some()
        {
            self.on_wrong_tag(now, slot, packet, view);
            return;
        }
        if self.is_known_to_other_shard(address_key) {
            self.totals.discarded += 1;
            return;
        }
        self.out_of_the_blue(now, packet, view);
    }

    /// RFC 9260 §8.5.1: handles a packet with the addresses and ports of an existing association, but a wrong
    /// verification tag. An ABORT or a SHUTDOWN COMPLETE is accepted if it has both the T bit and the peer's tag.
    /// During the handshake, a SHUTDOWN ACK is answered with SHUTDOWN COMPLETE.
    fn on_wrong_tag(&mut self, now: Instant, slot: u32, packet: &Packet<'_>, view: &PacketView<'_>) {
        let Some(association) = self.alive(slot) else {
            return;
        };
        let reflected = view.header.tag == association.identity().peer_tag() && view.header.tag != 0;
        let opening = association.is_opening();
        let first = view.chunks().flatten().find(|chunk| {
            matches!(chunk, Chunk::Abort(_) | Chunk::ShutdownComplete(_) | Chunk::ShutdownAck(_))
        });
        match first {
            // RFC 5061 §5.3.1: the peer has already removed this local address, but its ASCONF-ACK has not arrived yet.
            // So its ABORT is discarded.
            Some(Chunk::Abort(_)) if association.is_leaving(now, packet.target.ip()) => {
                self.totals.discarded += 1
            }
            // RFC 4895 §6.3: this side accepts ABORT only if it is authenticated. A peer that has lost its keys cannot
            // authenticate its ABORT, so the ABORT is dropped.
            Some(Chunk::Abort(_)) if association.extensions().requires_auth(Abort::KIND) => {
                self.totals.discarded += 1
            }
            Some(Chunk::Abort(abort)) if abort.reflected && reflected => {
                self.with(now, slot, |association, ctx| association.on_abort(ctx, &abort));
            }
            Some(Chunk::ShutdownComplete(complete)) if complete.reflected && reflected => {
                self.with(now, slot, |association, ctx| association.on_shutdown_complete(ctx));
            }
            // RFC 9260 §8.5.1 E: answer the SHUTDOWN ACK as if there were no association.
            Some(Chunk::ShutdownAck(_)) if opening => self.out_of_the_blue(now, packet, view),
            _ => self.totals.discarded += 1,
        }
    }

    /// RFC 9260 §8.4: handles a packet that belongs to no association.
    fn out_of_the_blue(&mut self, now: Instant, packet: &Packet<'_>, view: &PacketView<'_>) {
        self.totals.discarded += 1;
        // RFC 9260 §8.4, 1: both addresses must be unicast, and the port must not belong to another SCTP stack on this
        // host.
        let (source, target) = (packet.source.ip(), packet.target.ip());
        let groups = self.has_addresses && !(is_unicast(source) && is_unicast(target));
        if groups || self.is_overheard(packet, view.header.target_port) {
            return;
        }
        let (mut abort, mut silent, mut shutdown_ack) = (false, false, false);
        let mut chunks = view.chunks();
        while let Some(Ok(raw)) = chunks.next_raw() {
            let stale = raw.kind == Error::KIND
                && Error::parse(raw).causes.flatten().any(|cause| matches!(cause, Cause::StaleCookie(_)));
            abort |= raw.kind == Abort::KIND;
            silent |= stale || [ShutdownComplete::KIND, CookieAck::KIND].contains(&raw.kind);
            shutdown_ack |= raw.kind == ShutdownAck::KIND;
        }
        if abort {
            self.withdraw(now, view.header);
        }
        // RFC 9260 §8.4, 2, 6, 7: some chunks are never answered, because the answers could cause an endless exchange.
        // But rule 5 precedes rules 6 and 7: a SHUTDOWN ACK is answered, even if the packet also contains chunks named
        // in rules 6 and 7.
        let silent = abort || silent && !shutdown_ack;
        // A packet that is too short for a chunk header is not answered.
        if silent || view.body().len() < 4 {
            return;
        }
        let answer = StatelessPacket::answer(packet, view.header, view.header.tag, |bytes| {
            if shutdown_ack {
                // RFC 9260 §8.4, 5: reflect the tag in a SHUTDOWN COMPLETE.
                ShutdownComplete { reflected: true }.emit(bytes);
            } else {
                // RFC 9260 §8.4, 8: reflect the tag in an ABORT.
                Abort { reflected: true, ..Abort::default() }.emit(bytes);
            }
        });
        self.send_stateless(answer);
    }

    /// RFC 9260 §5.1.5, §5.2.4: handles a packet that begins with a COOKIE ECHO.
    pub(super) fn on_cookie_echo(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: Header,
        echo: CookieEcho<'_>,
        rest: Chunks<'_>,
        signature: Option<(RawChunk<'_>, &[u8])>,
    ) {
        // RFC 9260 §5.1.5, 1 to 3: this side must have signed the cookie for the ports and the tag of this packet. The
        // INIT may have arrived at another local address, so the signature is checked with all local addresses.
        let here = packet.target.ip();
        let others =
            self.local_addresses.iter().map(|local| local.address.ip()).filter(|&local| local != here);
        let local_addresses: Vec<IpAddr> = std::iter::once(here).chain(others).collect();
        let context = CookieEchoContext {
            local_port: header.target_port,
            peer_port: header.source_port,
            local_tag: header.tag,
            local_addresses: &local_addresses,
        };
        let Some(opened) = self.sealer.open(now, echo.cookie, context) else {
            self.totals.discarded += 1;
            return;
        };
        let (cookie, over) = match opened {
            VerifiedCookie::Good(cookie) => (cookie, None),
            VerifiedCookie::Stale(cookie, over) => (cookie, Some(over)),
        };
        let slot = self.slot_of(&cookie, packet);
        if !self.cookie_is_authentic(now, slot, &cookie, signature) {
            self.totals.discarded += 1;
            return;
        }
        let authenticated = signature.is_some();
        let owned =
            slot.and_then(|slot| self.alive(slot)).is_some_and(|association| association.owns(&cookie));
        if let Some(over) = over
            && !owned
        {
            self.send_stale_cookie(packet, header, &cookie, over);
            return;
        }
        let slot = match slot {
            // RFC 9260 §5.2.4 A: treat the old association as if an ABORT had arrived. The COOKIE ECHO then begins a
            // new association.
            Some(slot) if self.is_replaced_by(slot, &cookie) => {
                self.with(now, slot, |association, ctx| association.close(ctx, CloseReason::PeerRestarted));
                None
            }
            slot => slot,
        };
        match slot {
            Some(slot) => {
                let goes_on = self.with(now, slot, |association, ctx| {
                    let taken = association.on_cookie(ctx, &cookie, packet.source);
                    if taken {
                        encap::follow_cookie(association, packet.source);
                    }
                    taken
                });
                if goes_on == Some(true) {
                    self.pass(now, slot, packet, rest, authenticated);
                }
            }
            // The association of this cookie has already ended, so the COOKIE ECHO is answered by an ABORT. If the peer
            // never received the COOKIE ACK, the ABORT informs the peer that the association has ended. If the COOKIE
            // ECHO is a delayed copy, the ABORT has no effect.
            None if self.used_cookies.contains(now, cookie.local_tag) => {
                self.refuse_cookie(packet, header, &cookie)
            }
            // RFC 9260 §5.2.4: another shard has the association with these addresses and ports. The tag in this cookie
            // belongs to this shard, not to that association, so the cookie is discarded.
            None if self.is_known_elsewhere(&cookie, packet) => self.totals.discarded += 1,
            None if self.needs_admission(&cookie) => self.hold_for_admission(now, packet, header, &cookie),
            None => match self.accept(now, &cookie, packet) {
                Some(slot) => self.pass(now, slot, packet, rest, authenticated),
                // The port has no listener any more.
                None => self.refuse_cookie(packet, header, &cookie),
            },
        }
    }

    /// Returns whether the cookie begins a new association that replaces the one in `slot`. This is so if the peer has
    /// restarted and [`Endpoint::replace_restarted`] is on.
    fn is_replaced_by(&self, slot: u32, cookie: &Cookie) -> bool {
        self.replaces_restarted
            && self.listeners.contains(&cookie.local_port)
            && self.alive(slot).is_some_and(|association| association.is_restarted_by(cookie))
    }

    /// Sends an ABORT in answer to a valid cookie that begins no association.
    fn refuse_cookie(&mut self, packet: &Packet<'_>, header: Header, cookie: &Cookie) {
        let abort =
            StatelessPacket::answer(packet, header, cookie.peer_tag, |bytes| Abort::default().emit(bytes));
        self.send_stateless(abort);
    }

    /// Returns the slot of the existing association for which a cookie was made.
    fn slot_of(&self, cookie: &Cookie, packet: &Packet<'_>) -> Option<u32> {
        let mut slots = address_keys_of(&self.demux, cookie, packet)
            .filter_map(|address_key| self.demux.by_address_key(address_key));
        slots.find(|&slot| self.alive(slot).is_some())
    }

    /// Returns whether another endpoint that shares the port has the association for which a cookie was made.
    fn is_known_elsewhere(&self, cookie: &Cookie, packet: &Packet<'_>) -> bool {
        address_keys_of(&self.demux, cookie, packet)
            .any(|address_key| self.is_known_to_other_shard(address_key))
    }

    /// RFC 9260 §5.1.5 step 4: sends an ERROR with Stale Cookie. The staleness is in microseconds, rounded up
    /// (§3.3.10.3).
    fn send_stale_cookie(&mut self, packet: &Packet<'_>, header: Header, cookie: &Cookie, over: Duration) {
        let micros = over.as_nanos().div_ceil(1000).min(u128::from(u32::MAX)) as u32;
        let error = StatelessPacket::answer(packet, header, cookie.peer_tag, |bytes| {
            let mut chunk = Error::default().open(bytes);
            Cause::StaleCookie(micros).emit(&mut chunk);
            chunk.close();
        });
        self.send_stateless(error);
    }

    /// Queues a packet that belongs to no association.
    pub(super) fn send_stateless(&mut self, packet: StatelessPacket) {
        /// The maximum number of queued packets. It limits the number of answers to a flood, and is reached only if the
        /// caller does not poll the endpoint.
        const MAX_WAITING: usize = 1024;
        if self.stateless_packets.len() < MAX_WAITING {
            self.totals.stray_sent += 1;
            self.stateless_packets.push_back(packet);
        }
    }

    /// Passes the chunks that follow a COOKIE ECHO to an association.
    pub(super) fn pass(
        &mut self,
        now: Instant,
        slot: u32,
        packet: &Packet<'_>,
        mut chunks: Chunks<'_>,
        authenticated: bool,
    ) {
        let first = chunks.next_raw().and_then(Result::ok);
        self.with(now, slot, |association, ctx| {
            let arrived = PacketMeta {
                path: association.paths().find_or_current(packet.source.ip()),
                source: packet.source,
                ecn: packet.ecn,
                tag: packet.tag,
                bytes: packet.payload.len(),
                authenticated,
            };
            association.handle_packet(ctx, first, chunks, &arrived);
        });
    }
}
