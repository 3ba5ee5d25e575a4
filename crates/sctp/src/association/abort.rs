//! Sending and handling of ABORT and ERROR.
//!
//! Implements RFC 9260 §9.1 and the error causes that an association raises (§3.3.10). Also implements the rule that a
//! Stale Cookie error of the peer is handled only in the state COOKIE-ECHOED (§5.2.6).

use super::outbound::packet::StatelessPacket;
use super::{Association, Ctx, State};
use crate::event::{CloseReason, Event};
use anabranch_wire::sctp::{Abort, Cause, ChunkWriter, Error, ForwardTsn, IForwardTsn, packet};
use std::net::SocketAddr;

/// RFC 3758 §3.1: the type of the Forward-TSN-Supported parameter.
const FORWARD_TSN_SUPPORTED: [u8; 2] = [0xc0, 0x00];

/// The maximum length of an Upper Layer Abort Reason in bytes. A reason of this length fits into any packet.
const LONGEST_REASON: usize = 512;

impl Association {
    /// Aborts the association at the request of the application.
    pub(crate) fn abort(&mut self, ctx: &mut Ctx<'_>, reason: &[u8]) {
        // RFC 9260 §9.1: the ABORT has the User-Initiated Abort cause. §11.1.4: this cause contains the application's
        // reason, if the application gave one.
        let reason = &reason[..reason.len().min(LONGEST_REASON)];
        self.abort_with(ctx, &Cause::UserAbort(reason), CloseReason::Local);
    }

    /// Aborts the association because the peer violated `rule`.
    pub(super) fn violated(&mut self, ctx: &mut Ctx<'_>, rule: &'static str) {
        self.abort_with(ctx, &Cause::ProtocolViolation(rule.as_bytes()), CloseReason::PeerViolated(rule));
    }

    /// Ends the association because the peer does not answer. An ABORT is sent, because the peer may still receive
    /// packets.
    pub(super) fn give_up(&mut self, ctx: &mut Ctx<'_>) {
        // RFC 9260 §8.1: no more data is sent to an unreachable peer, so the packet contains only the ABORT.
        self.abort_for(ctx, None, CloseReason::Unreachable);
    }

    /// Ends the association because the peer answers HEARTBEATs on path `index` but acknowledges no data. The peer
    /// cannot know the reason, so the ABORT contains it as text (RFC 9260 §3.3.10.12).
    pub(super) fn abort_black_hole(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        let path = self.paths.get(index);
        let headers = (packet::HEADER + path.headers()) as u64;
        let size = self.send.lowest_size().saturating_add(headers) as u32;
        let reason = CloseReason::BlackHole { address: path.address().ip(), size };
        self.abort_with(ctx, &Cause::UserAbort(reason.details().as_bytes()), reason);
    }

    /// Sends an ABORT with `cause` and ends the association.
    pub(super) fn abort_with(&mut self, ctx: &mut Ctx<'_>, cause: &Cause<'_>, reason: CloseReason) {
        self.abort_for(ctx, Some(cause), reason);
    }

    fn abort_for(&mut self, ctx: &mut Ctx<'_>, cause: Option<&Cause<'_>>, reason: CloseReason) {
        if matches!(self.state, State::Closed) {
            return;
        }
        // RFC 9260 §8.5.1 B: the ABORT has the peer's tag. While that tag is unknown, no ABORT is sent, because the
        // peer would not accept it.
        if self.identity.peer_tag() != 0 {
            let (ends, header) = (self.ends(self.paths.current()), self.identity.header_to_peer());
            let packet = StatelessPacket::new(ends, header, |bytes| {
                let mut chunk = Abort::default().open(bytes);
                if let Some(cause) = cause {
                    cause.emit(&mut chunk);
                }
                chunk.close();
                self.extensions.sign(bytes, 0);
            });
            self.send_stateless(ctx, packet);
        }
        self.close(ctx, reason);
    }

    /// Sends an ABORT to `target` in answer to an INIT ACK. The caller decides what happens to the association.
    pub(super) fn refuse(&mut self, ctx: &mut Ctx<'_>, target: SocketAddr, tag: u32, cause: &Cause<'_>) {
        // RFC 9260 §3.3.3: if the Initiate Tag of the INIT ACK is 0, the ABORT has the T bit and reflects the tag of
        // the received packet, which is the local tag.
        let (tag, reflected) = if tag == 0 { (self.identity.local_tag(), true) } else { (tag, false) };
        let (source, _) = self.ends(self.handshake_path());
        let packet = StatelessPacket::new((source, target), self.identity.header(tag), |bytes| {
            let mut chunk = Abort { reflected, ..Abort::default() }.open(bytes);
            cause.emit(&mut chunk);
            chunk.close();
        });
        self.send_stateless(ctx, packet);
    }

    pub(crate) fn on_abort(&mut self, ctx: &mut Ctx<'_>, abort: &Abort<'_>) {
        // RFC 9260 §9.1: an ABORT ends the association, and is not answered.
        let mut causes = abort.causes;
        let first = causes.next().and_then(Result::ok).map(|cause| cause.code());
        // RFC 9260 §9.1, §11.2.5: look for the reason that the peer's application gave.
        let reason = abort.causes.flatten().find_map(|cause| match cause {
            Cause::UserAbort(reason) if !reason.is_empty() => Some(reason),
            _ => None,
        });
        if let Some(reason) = reason {
            let reason = reason[..reason.len().min(LONGEST_REASON)].to_vec();
            ctx.events.push_back(Event::AbortReason { id: self.id, reason });
        }
        self.close(ctx, CloseReason::Aborted(first));
    }

    pub(super) fn on_error(&mut self, ctx: &mut Ctx<'_>, error: &Error<'_>) {
        /// The maximum number of error causes that are reported to the application from one ERROR.
        const MAX_CAUSES: usize = 8;
        for (turn, cause) in error.causes.flatten().enumerate() {
            if let Cause::StaleCookie(micros) = cause {
                // RFC 9260 §5.2.6: an ERROR with Stale Cookie is discarded in any state but COOKIE-ECHOED.
                self.on_stale_cookie(ctx, micros);
                if matches!(self.state, State::Closed) {
                    return;
                }
                continue;
            }
            match cause {
                Cause::UnrecognizedChunk(chunk) => {
                    self.on_unrecognized(chunk);
                    if matches!(chunk.first(), Some(&ForwardTsn::KIND | &IForwardTsn::KIND)) {
                        self.on_forward_tsn_unrecognized(ctx);
                    }
                }
                Cause::UnrecognizedParams(params) if params.starts_with(&FORWARD_TSN_SUPPORTED) => {
                    self.on_forward_tsn_unrecognized(ctx);
                }
                _ => {}
            }
            if matches!(self.state, State::Closed) {
                return;
            }
            if turn < MAX_CAUSES {
                let mut bytes = Vec::new();
                let mut chunk = ChunkWriter::open(&mut bytes, Error::KIND, 0);
                cause.emit(&mut chunk);
                chunk.close();
                // `quoted` is the value of the error cause, without the chunk header, the cause header and the padding.
                let end = bytes.get(6..8).map_or(8, |n| 4 + usize::from(u16::from_be_bytes([n[0], n[1]])));
                let quoted = bytes.get(8..end).unwrap_or_default().to_vec();
                ctx.events.push_back(Event::PeerError { id: self.id, code: cause.code(), cause: quoted });
            }
        }
    }

    /// Queues an ERROR on `path`, or drops the ERROR if the queue is full.
    pub(super) fn report(&mut self, path: usize, cause: &Cause<'_>) {
        // RFC 9260 §5.4: no ERROR is sent to an unverified address. If `path` is unverified, the current path is used.
        let path = self.paths.confirmed_or_current(path);
        self.outbox.push_error(path, |bytes| {
            let mut chunk = ChunkWriter::open(bytes, Error::KIND, 0);
            cause.emit(&mut chunk);
            chunk.close();
        });
    }
}
