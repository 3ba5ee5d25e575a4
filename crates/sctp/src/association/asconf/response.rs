//! Address changes that the peer requests.
//!
//! Requests are carried out in order. The answers are kept: a repeated ASCONF gets the same answer and is not carried
//! out again.
//!
//! Implements RFC 5061 §5.2, §5.3 F7 to F14, and §5.4.

use super::super::{Association, Ctx};
use crate::association::inbound::PacketMeta;
use crate::association::negotiate::{in_scope, is_unicast};
use crate::association::{State, path_to};
use crate::event::Event;
use crate::path::MAX_PATHS;
use anabranch_wire::sctp::tlv::Tlvs;
use anabranch_wire::sctp::{
    Asconf as Chunk, AsconfAck, Auth, Cause, ChunkWriter, Chunks, Param, Params, RawTlv, UnrecognizedAction,
};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// The maximum number of requests carried out for one ASCONF.
const MAX_REQUESTS: usize = 64;
/// The length of an answer in bytes above which no further requests of the ASCONF are carried out.
const MAX_BYTES: usize = 1_000;
/// The maximum number of answers that are kept in case an ASCONF is repeated. The queue of answers to send has the same
/// limit.
const KEPT: usize = 8;

/// The types of Add IP Address and Delete IP Address (RFC 5061 §4.2).
const ADD_OR_DELETE: [u16; 2] = [0xc001, 0xc002];

/// Queued answers, each with its path and destination.
type Waiting = VecDeque<(usize, SocketAddr, Vec<u8>)>;

/// The state that this side keeps for the ASCONFs of the peer.
#[derive(Debug)]
pub(super) struct Answers {
    /// RFC 5061 §5.2: the Peer-Sequence-Number, which is the number of the last ASCONF that was carried out.
    last: u32,
    responses: VecDeque<(u32, Vec<u8>)>,
    waiting: Waiting,
    /// The address that the peer requested as primary. It is kept until the address is verified.
    requested_primary: Option<IpAddr>,
}

impl Answers {
    pub(super) fn new(peer_tsn: u32) -> Self {
        Self {
            last: peer_tsn.wrapping_sub(1),
            responses: VecDeque::new(),
            waiting: VecDeque::new(),
            requested_primary: None,
        }
    }

    /// Returns the path of the next queued answer.
    pub(super) fn due(&self) -> Option<usize> {
        self.waiting.front().map(|(path, ..)| *path)
    }

    /// RFC 5061 §5.2 E1: returns whether an ASCONF is the next one in sequence, so that it has to be carried out.
    fn takes(&mut self, serial: u32) -> bool {
        let next = serial == self.last.wrapping_add(1);
        if next {
            self.last = serial;
        }
        next
    }

    /// Queues the answer to the ASCONF `serial`. `new_answer` is the answer if the ASCONF has just been carried out.
    /// Without `new_answer`, the earlier answer is repeated.
    fn answer(&mut self, serial: u32, new_answer: Option<Vec<u8>>, (path, target): (usize, SocketAddr)) {
        if let Some(answer) = new_answer {
            if self.responses.len() == KEPT {
                self.responses.pop_front();
            }
            self.responses.push_back((serial, answer));
        }
        // RFC 5061 §5.2 E2: an ASCONF that was carried out before gets the same answer again. E5: any other ASCONF with
        // an unexpected number is ignored.
        if let Some((_, answer)) = self.responses.iter().find(|(other, _)| *other == serial)
            && self.waiting.len() < KEPT
        {
            self.waiting.push_back((path, target, answer.clone()));
        }
    }

    /// Appends the next queued answer. Returns its destination.
    fn write(&mut self, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        let (_, target, answer) = self.waiting.pop_front()?;
        buffer.extend_from_slice(&answer);
        Some(target)
    }

    /// Returns the destination address of the next queued ASCONF-ACK.
    pub(super) fn target(&self) -> Option<SocketAddr> {
        self.waiting.front().map(|(_, target, _)| *target)
    }
}

impl Association {
    /// RFC 5061 §5.2 D2: an ASCONF from an unknown source address belongs to this association if its Address Parameter
    /// is an address of the peer. Returns the path to that address.
    #[cold]
    pub(crate) fn path_of_asconf(&self, mut chunks: Chunks<'_>) -> Option<usize> {
        if !self.extensions.agreed.asconf {
            return None;
        }
        let mut signed = false;
        while let Some(Ok(raw)) = chunks.next_raw() {
            signed |= raw.kind == Auth::KIND;
            if raw.kind == Chunk::KIND && signed {
                let address = Chunk::parse(raw).ok()?.address;
                // RFC 5061 §4.1.1: if the ASCONF contains the wildcard address, only the verification tag identifies
                // the association.
                let wildcard = address.is_unspecified().then_some(self.paths.current());
                return wildcard.or_else(|| self.paths.find(address));
            }
        }
        None
    }

    /// RFC 5061 §5.2 E1 to E6: handles an ASCONF that has been authenticated.
    pub(in crate::association) fn on_asconf(
        &mut self,
        ctx: &mut Ctx<'_>,
        chunk: &Chunk<'_>,
        arrived: &PacketMeta,
    ) {
        // RFC 5061 §5.1.1 C4: ignore an ASCONF during the handshake and in SHUTDOWN-ACK-SENT.
        if !self.state.is_up() || matches!(self.state, State::ShutdownAckSent) {
            return;
        }
        let Some(asconf) = &mut self.extensions.asconf else {
            return;
        };
        let new = asconf.answers.takes(chunk.serial);
        let new_answer = new.then(|| self.execute_requests(ctx, chunk, arrived));
        // RFC 5061 §5.2 E6: send the answer to the address that the ASCONF came from, even if that address is not part
        // of the association.
        let path = self.paths.find(arrived.source.ip()).or_else(|| {
            let path = arrived.path;
            (!self.paths.get(path).is_removed()).then_some(path)
        });
        let path = path.unwrap_or(self.paths.current());
        if let Some(asconf) = &mut self.extensions.asconf {
            asconf.answers.answer(chunk.serial, new_answer, (path, arrived.source));
        }
    }

    /// Writes an ASCONF-ACK. RFC 5061 §5.3 F1: if the destination address is unverified, adds a HEARTBEAT.
    #[cold]
    pub(in crate::association) fn write_asconf_ack(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        buffer: &mut Vec<u8>,
    ) {
        let Some(target) = self.extensions.asconf.as_mut().and_then(|asconf| asconf.answers.write(buffer))
        else {
            return;
        };
        let path = self.paths.get(index);
        if path.address() == target && path.wants_heartbeat() {
            self.write_heartbeat(ctx, index, buffer);
        }
    }

    /// RFC 5061 §5.2 V1 to V4: carries out the requests in order and writes the answer.
    fn execute_requests(&mut self, ctx: &mut Ctx<'_>, chunk: &Chunk<'_>, arrived: &PacketMeta) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut answer = AsconfAck { serial: chunk.serial, params: Params::default() }.open(&mut bytes);
        // RFC 5061 §5.3 F11: once an addition or deletion fails, all later additions and deletions in the ASCONF fail.
        let mut closed = false;
        let mut failed = false;
        for (n, raw) in Tlvs::new(chunk.params.rest()).flatten().enumerate() {
            let (id, result) = match Param::parse(raw) {
                _ if n == MAX_REQUESTS => (correlation(raw), Err(Cause::NoRoomForAddress(raw.bytes))),
                Ok(Param::AddAddress { id, .. } | Param::DeleteAddress { id, .. }) if closed => {
                    (id, Err(Cause::NoRoomForAddress(raw.bytes)))
                }
                Ok(Param::AddAddress { id, address }) => (id, self.on_add(ctx, address, raw, arrived)),
                Ok(Param::DeleteAddress { id, address }) => (id, self.on_delete(ctx, address, raw, arrived)),
                Ok(Param::SetPrimary { id, address }) => {
                    (id, self.on_set_primary(ctx, address, raw, arrived))
                }
                Ok(Param::Unknown(_)) => {
                    // RFC 5061 §5.2 V2: the two high bits of an unrecognized parameter's type determine whether to stop
                    // and whether to report it.
                    let UnrecognizedAction { stop, report } = UnrecognizedAction::param(raw.kind);
                    if report {
                        failed |= fail(&mut answer, correlation(raw), &Cause::UnrecognizedParams(raw.bytes));
                    }
                    if stop || answer.length() > MAX_BYTES {
                        break;
                    }
                    continue;
                }
                // RFC 5061 §4.2: parameters that are not allowed in an ASCONF are skipped.
                Ok(_) => continue,
                Err(_) => (correlation(raw), Err(Cause::InvalidMandatoryParam)),
            };
            match result {
                // RFC 5061 §5.1 A7: once a request has failed, each later success must be reported explicitly.
                Ok(()) if failed => _ = Param::SuccessIndication(id).emit(&mut answer),
                Ok(()) => {}
                Err(cause) => {
                    closed |= ADD_OR_DELETE.contains(&raw.kind) || n == MAX_REQUESTS;
                    failed |= fail(&mut answer, id, &cause);
                }
            }
            // The answer has reached its limit on requests or bytes, so the remaining requests are neither carried out
            // nor answered. The answer reports a failed request. The peer therefore counts all later requests without
            // an answer as failed (RFC 5061 §5.1 A7).
            if n == MAX_REQUESTS || answer.length() > MAX_BYTES {
                break;
            }
        }
        answer.close();
        bytes
    }

    fn on_add<'a>(
        &mut self,
        ctx: &mut Ctx<'_>,
        address: IpAddr,
        raw: RawTlv<'a>,
        arrived: &PacketMeta,
    ) -> Result<(), Cause<'a>> {
        let target = if address.is_unspecified() || address == arrived.source.ip() {
            arrived.source
        } else {
            // RFC 6951 §5.4: use the UDP port of the path on which the ASCONF arrived, until a packet arrives from the
            // new address.
            SocketAddr::new(address, self.paths.get(arrived.path).address().port())
        };
        if !is_unicast(target.ip()) || !in_scope(target.ip(), self.peer()) {
            return Err(Cause::UnresolvableAddress(raw.bytes));
        }
        if self.paths.find(target.ip()).is_some() {
            return Ok(());
        }
        let position =
            self.paths.free_index(target.ip(), MAX_PATHS).ok_or(Cause::NoRoomForAddress(raw.bytes))?;
        let path =
            path_to(&self.config, ctx, target, position).ok_or(Cause::UnresolvableAddress(raw.bytes))?;
        // RFC 5061 §5.3 F14: until the new address is verified, only HEARTBEATs are sent to it.
        self.paths.set(position, path);
        self.paths.at(position).ask_heartbeat();
        self.choose_sources(ctx);
        ctx.events.push_back(Event::PathAdded { id: self.id, path: position, address: target.ip() });
        Ok(())
    }

    fn on_delete<'a>(
        &mut self,
        ctx: &mut Ctx<'_>,
        address: IpAddr,
        raw: RawTlv<'a>,
        arrived: &PacketMeta,
    ) -> Result<(), Cause<'a>> {
        let source = arrived.source.ip();
        if address.is_unspecified() {
            // RFC 5061 §4.2.2: the wildcard address deletes all addresses except the source address of the ASCONF.
            let stays = self.paths.find(source).ok_or(Cause::UnresolvableAddress(raw.bytes))?;
            for index in (0..self.paths.len()).filter(|&index| index != stays) {
                self.remove_path(ctx, index, stays);
            }
            return Ok(());
        }
        let index = self.paths.find(address).ok_or(Cause::UnresolvableAddress(raw.bytes))?;
        let present = |&other: &usize| other != index && !self.paths.get(other).is_removed();
        // RFC 5061 §5.3 F7, F8: neither the last address nor the source address of the ASCONF may be deleted.
        let other = (0..self.paths.len()).find(present).ok_or(Cause::DeleteLastAddress(raw.bytes))?;
        if address == source {
            return Err(Cause::DeleteSourceAddress(raw.bytes));
        }
        let successor = self.paths.find(source).filter(|&path| path != index).unwrap_or(other);
        self.remove_path(ctx, index, successor);
        Ok(())
    }

    /// RFC 5061 §5.3 F13: removes an address of the peer from the association. Pending packets are sent on the path
    /// `successor` instead.
    fn remove_path(&mut self, ctx: &mut Ctx<'_>, index: usize, successor: usize) {
        if self.paths.get(index).is_removed() {
            return;
        }
        self.give_up_flight(index);
        self.paths.remove(index, successor);
        if self.outbox.take_cookie_ack(index) {
            self.outbox.ask_cookie_ack(successor);
        }
        self.set_fragment_size();
        let asconf = self.extensions.asconf.as_ref();
        if asconf.and_then(|asconf| asconf.under_way()).is_some_and(|(path, _)| path == index) {
            self.set_asconf_addresses(ctx, successor);
        }
        if matches!(self.state, State::ShutdownSent) && self.is_stranded() {
            // HEARTBEATs stopped when the SHUTDOWN was sent. The new current path still needs one HEARTBEAT, which
            // verifies its address.
            self.paths.at(self.paths.current()).ask_heartbeat();
        }
        let address = self.paths.get(index).address().ip();
        ctx.events.push_back(Event::PathRemoved { id: self.id, path: index, address });
    }

    fn on_set_primary<'a>(
        &mut self,
        ctx: &mut Ctx<'_>,
        address: IpAddr,
        raw: RawTlv<'a>,
        arrived: &PacketMeta,
    ) -> Result<(), Cause<'a>> {
        let address = if address.is_unspecified() { arrived.source.ip() } else { address };
        // RFC 5061 §5.4: the address must be part of the association.
        self.paths.find(address).ok_or(Cause::UnresolvableAddress(raw.bytes))?;
        if let Some(asconf) = &mut self.extensions.asconf {
            asconf.answers.requested_primary = Some(address);
        }
        self.grant_primary(ctx);
        Ok(())
    }

    /// RFC 5061 §5.4: changes the primary path to the address that the peer requested, once that address is verified.
    pub(in crate::association) fn grant_primary(&mut self, ctx: &mut Ctx<'_>) {
        let Some(address) =
            self.extensions.asconf.as_ref().and_then(|asconf| asconf.answers.requested_primary)
        else {
            return;
        };
        let Some(path) = self.paths.find(address).filter(|&path| self.paths.get(path).is_confirmed()) else {
            return;
        };
        if let Some(asconf) = &mut self.extensions.asconf {
            asconf.answers.requested_primary = None;
        }
        if self.paths.primary() != path {
            self.make_primary(ctx, path);
        }
    }
}

/// Returns the correlation id of a malformed request, or 0 if the request is too short to have one.
fn correlation(raw: RawTlv<'_>) -> u32 {
    raw.value.first_chunk::<4>().map_or(0, |id| u32::from_be_bytes(*id))
}

/// Appends an error response for the request with this correlation id. Always returns true.
fn fail(answer: &mut ChunkWriter<'_>, id: u32, cause: &Cause<'_>) -> bool {
    let mut bytes = Vec::new();
    let mut scratch = ChunkWriter::open(&mut bytes, AsconfAck::KIND, 0);
    cause.emit(&mut scratch);
    let end = scratch.length();
    Param::ErrorCauseIndication { id, causes: &bytes[4..end] }.emit(answer);
    true
}
