//! The stateless answer to an INIT.
//!
//! No state is kept before the COOKIE ECHO arrives: the cookie carries everything that the INIT contained.
//!
//! Implements RFC 9260 §5.1 (the responder).

use super::Endpoint;
use crate::association::auth::keys::RANDOM;
use crate::association::collision::InitReply;
use crate::association::cookie::{Cookie, CookieSigner, SealedAuth};
use crate::association::extensions::Extensions;
use crate::association::handshake::write_addresses;
use crate::association::identity::Identity;
use crate::association::negotiate::{InitContents, InitRefusal, read};
use crate::association::outbound::packet::StatelessPacket;
use crate::association::{Association, AssociationInit, State, local_addresses_for};
use crate::config::Config;
use crate::event::Event;
use crate::path::Path;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Packet};
use anabranch_wire::sctp::{Abort, Cause, ChunkWriter, Header, Init, InitAck, Param, Tsn, packet::HEADER};
use std::net::{IpAddr, SocketAddr};

/// RFC 9260 §12.2.4.1: the answer to an INIT is at most this many times as long as the INIT. This limits amplification
/// toward the victim of a forged source address (the bound of RFC 9000 §8.1). Optional parameters that would make the
/// answer longer are left out.
pub(crate) const MAX_AMPLIFICATION: usize = 3;

/// RFC 9260 §5.2.6: the longest time that a Cookie Preservative may add to the lifetime of a cookie.
pub(super) const MAX_PRESERVED: Duration = Duration::from_secs(60);

impl Endpoint {
    /// Handles an INIT, which is the only chunk of a packet with tag 0.
    pub(super) fn on_init(&mut self, now: Instant, packet: &Packet<'_>, header: Header, init: &Init<'_>) {
        let config = self.config_at(header.target_port).clone();
        let offer = match read(init, Extensions::of(&config), packet.source.ip()) {
            Ok(offer) => offer,
            // Another SCTP stack on this host may be listening on this port, so the INIT is discarded without an ABORT.
            Err(_) if self.has_neighbour(Some(packet.target.ip()), header.target_port) => {
                self.totals.discarded += 1;
                return;
            }
            Err(refusal) => {
                self.refuse_init(packet, header, init.tag, &refusal);
                return;
            }
        };
        let tag_and_tsn = (self.new_tag(), self.rng.next_u32());
        let local_port = header.target_port;
        // RFC 9260 §5.1.2: any address that the INIT lists may identify an existing association.
        let listed = std::iter::once(packet.source.ip()).chain(offer.addresses.iter().copied());
        let listed = listed.map(|peer| SocketAddr::new(peer, packet.source.port()));
        let address_keys = listed.map(|peer| self.demux.address_key(peer, header.source_port, local_port));
        let found = address_keys.filter_map(|address_key| self.demux.by_address_key(address_key)).next();
        let found = found.and_then(|slot| self.alive(slot).map(|_| slot));
        let config = found.and_then(|slot| self.alive(slot)).map_or(config, |known| known.config().clone());
        let mut random = None;
        let answer = match found {
            Some(slot) => {
                let answer = self.slots[slot as usize].association.as_mut().map(|association| {
                    association.invalidate_fast_path();
                    let answer = association.answer_init(&offer, packet.source.ip(), tag_and_tsn);
                    if let InitReply::InitAck { tag, .. } = answer
                        && tag == association.identity().local_tag()
                        && let Some(auth) = association.extensions().auth()
                    {
                        // RFC 4895 §6.1: if the association keeps its local tag, it also keeps its RANDOM.
                        random = Some(auth.ours().random);
                    }
                    answer
                });
                self.settle(now, slot);
                answer
            }
            None if self.listeners.contains(&local_port) => Some(InitReply::InitAck {
                tag: tag_and_tsn.0,
                tsn: tag_and_tsn.1,
                // RFC 9260 §3.3.3: request no more streams than the INIT allows.
                outbound: config.num_ostreams.min(offer.inbound),
                inbound: config.inbound_streams(),
                tie_tags: (0, 0),
            }),
            // Another SCTP stack on this host may be listening on this port, so the INIT is discarded without an ABORT.
            None if self.is_overheard(packet, local_port) => {
                self.totals.discarded += 1;
                return;
            }
            None => {
                // RFC 9260 §8.4: without a listener, the INIT is answered by an ABORT with the INIT's tag.
                self.abort_init(packet, header, offer.tag, &[]);
                return;
            }
        };
        match answer {
            Some(InitReply::InitAck { tag, tsn, outbound, inbound, tie_tags }) => {
                let reply = InitAckValues { tag, tsn, outbound, inbound, tie_tags, random };
                self.answer_with(now, packet, header, &offer, reply, &config);
            }
            Some(InitReply::NewAddresses(addresses)) => {
                let mut params = Vec::new();
                for address in addresses {
                    write_address(&mut params, address);
                }
                self.abort_init(packet, header, offer.tag, &[Cause::RestartWithNewAddresses(&params)]);
            }
            Some(InitReply::None) | None => {}
        }
    }

    fn answer_with(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: Header,
        offer: &InitContents,
        reply: InitAckValues,
        config: &Config,
    ) {
        let preserve = Duration::from_millis(u64::from(offer.preserve_ms)).min(MAX_PRESERVED);
        // RFC 4895 §6.1: the INIT ACK has authentication parameters only if the peer's INIT has them.
        let auth = offer.auth.clone().map(|peer| {
            let random = reply.random.unwrap_or_else(|| self.sealer.random(now, reply.tag, offer.tag));
            SealedAuth { random, peer }
        });
        let params = auth.as_ref().map(|auth| auth.ours(config));
        let expires = CookieSigner::expiry(now, config.cookie_life + preserve);
        let cookie = Cookie {
            expires,
            made: self.sealer.time_made(now, expires),
            local_port: header.target_port,
            peer_port: header.source_port,
            local_tag: reply.tag,
            peer_tag: offer.tag,
            local_tsn: reply.tsn,
            peer_tsn: offer.tsn,
            window: offer.window,
            // RFC 9260 §5.1.1: neither side uses more outbound streams than the other side accepts.
            outbound: reply.outbound.min(offer.inbound),
            inbound: reply.inbound.min(offer.outbound),
            tie_tags: reply.tie_tags,
            extensions: offer.extensions,
            auth,
            adaptation: offer.adaptation,
            init_source: packet.source.ip(),
            local: packet.target.ip(),
            addresses: offer.addresses.clone(),
        };
        let sealed = self.sealer.seal(now, &cookie);
        let most = MAX_AMPLIFICATION * packet.payload.len();
        // RFC 9260 §5.1 B: send the INIT ACK to the address that the INIT came from.
        let answer = StatelessPacket::answer(packet, header, offer.tag, |bytes| {
            let ack = InitAck(Init {
                tag: reply.tag,
                window: crate::recv::first_window(config),
                outbound_streams: reply.outbound,
                inbound_streams: reply.inbound,
                tsn: Tsn(reply.tsn),
                ..Init::default()
            });
            let mut chunk = ack.open(bytes);
            Param::StateCookie(&sealed).emit(&mut chunk);
            // Includes an extension only if the INIT announces it. The INIT's source address may be forged, so the
            // answer is kept short.
            let mut ours = Extensions::of(config);
            // RFC 4895 §6.1: a side that supports authentication sends RANDOM. The peer aborts if AUTH or ASCONF is
            // announced without RANDOM, so both are announced only with RANDOM.
            ours.auth &= params.is_some();
            ours.asconf &= params.is_some();
            let write_rest = |chunk: &mut ChunkWriter<'_>, list: bool| {
                ours.announce(chunk, offer.announced, list);
                if let Some(params) = &params {
                    params.emit(chunk);
                }
            };
            let rest = length_of(|chunk| write_rest(chunk, offer.lists_extensions));
            let length = HEADER + chunk.length().next_multiple_of(4) + rest;
            let room = most.saturating_sub(length);
            // RFC 5061 §4.2.6: announce the adaptation layer indication of this side's application, if there is room
            // for it.
            let adaptation = config.adaptation.map(Param::Adaptation).filter(|_| room >= ADAPTATION);
            let room = room - if adaptation.is_some() { ADAPTATION } else { 0 };
            let addresses =
                local_addresses_for(&self.local_addresses, packet.source.ip()).map(|local| local.ip());
            let room = write_addresses_that_fit(&mut chunk, addresses, packet.target.ip(), room);
            // RFC 5061 §4.2.7: an INIT ACK lists the extensions of this side. If the INIT has no list of extensions,
            // the peer probably ignores such a list. Then this side leaves out its list if there is not enough room.
            let list = offer.lists_extensions || length_of(|chunk| write_rest(chunk, true)) - rest <= room;
            write_rest(&mut chunk, list);
            if let Some(adaptation) = adaptation {
                adaptation.emit(&mut chunk);
            }
            for param in &offer.unrecognized {
                // RFC 9260 §3.2.2: unrecognized parameters of the INIT are returned in the INIT ACK as long as they
                // fit.
                let after = HEADER + chunk.length().next_multiple_of(4) + 4 + param.len().next_multiple_of(4);
                if chunk.length() + param.len() < 1200 && after <= most {
                    Param::Unrecognized(param).emit(&mut chunk);
                }
            }
            chunk.close();
        });
        self.send_stateless(answer);
    }

    /// Begins the association of a valid cookie, if there is no existing association for the cookie. Returns its slot.
    /// If the application has admitted the association, the COOKIE ECHO arrived earlier than `now`.
    pub(super) fn accept(&mut self, now: Instant, cookie: &Cookie, packet: &Packet<'_>) -> Option<u32> {
        if !self.listeners.contains(&cookie.local_port) {
            return None;
        }
        let local = self.local_addresses.iter().find(|local| local.address.ip() == cookie.local).copied()?;
        let target = SocketAddr::new(cookie.init_source, packet.source.port());
        let config = self.config_at(cookie.local_port).clone();
        let mut path = Path::new(&config, target, local.address, local.mtu, now);
        // RFC 9260 §5.4: the address to which the INIT ACK was sent is confirmed as the peer's, because the cookie came
        // back.
        path.confirm();
        if config.rtt_from_cookie {
            // Each INIT ACK has a cookie of its own, so a repeated INIT does not make the sample ambiguous. But the
            // peer may have retransmitted the COOKIE ECHO, so the sample is only provisional.
            let arrived = self.admitted_echo_arrival().unwrap_or(now);
            let sample = cookie.round_trip(arrived, packet.source.ip(), packet.target.ip());
            sample.into_iter().for_each(|rtt| path.on_provisional_round_trip(rtt));
        }
        let slot = self.new_slot();
        let id = self.id_of(slot);
        let mut association = Box::new(Association::new(
            AssociationInit {
                id,
                config,
                identity: Identity::new(
                    (cookie.local_port, cookie.peer_port),
                    cookie.local_tag,
                    cookie.local_tsn,
                    false,
                ),
                streams: 1,
                paths: vec![path],
                rng: self.rng.fork(&format!("association/{}/{}", id.slot, id.generation)),
                state: State::Closed,
                auth: self.auth_of(cookie),
            },
            now,
        ));
        let (mut ctx, _) = self.context(now);
        association.accept_cookie(&mut ctx, cookie, packet.source);
        association.establish(&mut ctx);
        association.acknowledge_cookie(packet.source);
        let event = Event::Accepted {
            id,
            port: cookie.local_port,
            peer_port: cookie.peer_port,
            peer: cookie.init_source,
            outbound_streams: association.streams().outbound(),
            inbound_streams: association.streams().inbound(),
        };
        self.events.push_back(event);
        if let Some(code) = association.extensions().peer_adaptation() {
            self.events.push_back(Event::Adaptation { id, code });
        }
        self.totals.associations += 1;
        self.slots[slot as usize].association = Some(association);
        self.settle(now, slot);
        Some(slot)
    }

    fn refuse_init(&mut self, packet: &Packet<'_>, header: Header, tag: u32, refusal: &InitRefusal) {
        match refusal {
            // RFC 9260 §3.3.2: an INIT with tag 0 is discarded. Not even an ABORT is sent.
            InitRefusal::InvalidMandatory if tag == 0 => self.totals.discarded += 1,
            InitRefusal::InvalidMandatory | InitRefusal::SmallWindow => {
                self.abort_init(packet, header, tag, &[Cause::InvalidMandatoryParam]);
            }
            InitRefusal::HostName(param) => {
                self.abort_init(packet, header, tag, &[Cause::UnresolvableAddress(param)]);
            }
            InitRefusal::Violates(rule) => {
                self.abort_init(packet, header, tag, &[Cause::ProtocolViolation(rule.as_bytes())]);
            }
            InitRefusal::Malformed => {
                self.abort_init(packet, header, tag, &[Cause::ProtocolViolation(b"malformed parameter")]);
            }
        }
    }

    /// RFC 9260 §5.1, §8.4: answers an INIT with an ABORT that has the INIT's tag and no T bit.
    fn abort_init(&mut self, packet: &Packet<'_>, header: Header, tag: u32, causes: &[Cause<'_>]) {
        let abort = StatelessPacket::answer(packet, header, tag, |bytes| {
            let mut chunk = Abort::default().open(bytes);
            for cause in causes {
                cause.emit(&mut chunk);
            }
            chunk.close();
        });
        self.send_stateless(abort);
    }
}

/// The length of the adaptation layer indication parameter in bytes.
const ADAPTATION: usize = 8;

/// The values of this side for an INIT ACK.
struct InitAckValues {
    tag: u32,
    tsn: u32,
    outbound: u16,
    inbound: u16,
    tie_tags: (u32, u32),
    /// The AUTH random number (RFC 4895 §3.1) of the existing association, if the INIT ACK keeps the local verification
    /// tag of this association. `None` if the INIT ACK offers a new tag.
    random: Option<[u8; RANDOM]>,
}

/// Writes the addresses that fit into `room` bytes. Returns the room that is left.
fn write_addresses_that_fit(
    chunk: &mut ChunkWriter<'_>,
    addresses: impl Iterator<Item = IpAddr> + Clone,
    source: IpAddr,
    mut room: usize,
) -> usize {
    let listed = length_of(|chunk| write_addresses(chunk, addresses.clone()));
    if listed <= room {
        write_addresses(chunk, addresses);
        return room - listed;
    }
    // RFC 9260 §5.1.2: the source address of the packet is implied and need not be listed.
    for address in addresses.filter(|&address| address != source) {
        let size = if address.is_ipv6() { 20 } else { 8 };
        if size <= room {
            room -= size;
            Param::from(address).emit(chunk);
        }
    }
    room
}

/// Returns the length in bytes of the parameters that `write` appends, each padded.
fn length_of(write: impl Fn(&mut ChunkWriter<'_>)) -> usize {
    let mut bytes = Vec::new();
    let mut chunk = ChunkWriter::open(&mut bytes, InitAck::KIND, 0);
    let empty = chunk.length();
    write(&mut chunk);
    chunk.length().next_multiple_of(4) - empty
}

/// Appends `address` as an address parameter to an error cause.
fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            out.extend_from_slice(&[0, 5, 0, 8]);
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.extend_from_slice(&[0, 6, 0, 20]);
            out.extend_from_slice(&v6.octets());
        }
    }
}
