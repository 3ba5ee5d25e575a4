//! Streams begin anew, or become more.
//!
//! Owns what this side asks of the peer ([`request`]) and what the peer asks of
//! it ([`response`]), with the sequence numbers of both. One request is under
//! way at a time, which may carry one of the pairs that RFC 6525 §3.1 allows;
//! others wait in a bounded queue.
//!
//! Home of RFC 6525 §5.1.1 and of the application's wishes (§6.3).

mod request;
mod response;

use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::error::ResetError;
use crate::event::{CloseReason, Direction};
use crate::send::queue::Ticket;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::sctp::{ReConfig, ReConfigParam, StreamList};
use request::{Ask, Flying};
use response::{Answer, Asked, Deferred};
use std::collections::VecDeque;

/// RFC 6525 §5.1.4: a TSN reset within this time of the last would meet old packets.
const LIFETIME: Duration = Duration::from_secs(30);

/// Everything of an association that concerns RE-CONFIG.
#[derive(Debug)]
pub(crate) struct Reconfig {
    /// RFC 6525 §4.1: number of this side's next request; the first is the initial TSN.
    next: u32,
    /// Number of the peer's next request.
    expected: u32,
    tickets: Ticket,
    /// What is to be asked, in order.
    wanted: VecDeque<Ask>,
    /// What has been asked.
    flying: Option<Flying>,
    /// Streams that the peer has said it will reset, and the request that asked for it.
    parked: Option<(u32, Vec<u16>)>,
    /// The request is to be written.
    send: bool,
    /// What the peer was answered to the requests of its last chunk.
    answered: Vec<Answer>,
    /// Responses to be written.
    replies: Vec<ReConfigParam<'static>>,
    reply_path: usize,
    /// A reset by the peer whose last TSN has not arrived.
    deferred: Option<Deferred>,
    /// Streams that the peer wants reset.
    asked: Option<Asked>,
    /// When TSNs were last renumbered, or that was asked for.
    renumbered: Option<Instant>,
}

impl Reconfig {
    fn new(initial: u32, peer_initial: u32) -> Self {
        Self {
            next: initial,
            expected: peer_initial,
            tickets: 0,
            wanted: VecDeque::new(),
            flying: None,
            parked: None,
            send: false,
            answered: Vec::new(),
            replies: Vec::new(),
            reply_path: 0,
            deferred: None,
            asked: None,
            renumbered: None,
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets = self.tickets.wrapping_add(1);
        self.tickets
    }

    /// What has been asked, and what is to be.
    fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.flying.iter().map(|flying| &flying.ask).chain(&self.wanted)
    }

    fn resets_association(&self) -> bool {
        self.asks().any(|ask| matches!(ask, Ask::Association { .. }))
    }
}

impl Association {
    /// The state of re-configuration, begun with the first chunk or wish.
    fn reconfig(&mut self) -> &mut Reconfig {
        let (initial, peer) = (self.identity.initial_tsn(), self.recv.initial_tsn());
        self.extensions.reconfig.get_or_insert_with(|| Box::new(Reconfig::new(initial, peer)))
    }

    fn may_ask(&self) -> Result<(), ResetError> {
        if !matches!(self.state, State::Established) || self.closing.is_asked() {
            return Err(ResetError::Closing);
        }
        // RFC 6525 §5.1.1: nothing is asked of a peer that does not know it.
        if self.extensions.agreed.reconfig { Ok(()) } else { Err(ResetError::Unsupported) }
    }

    // What the application asks for.

    /// RFC 6525 §6.3.2.
    pub(crate) fn reset_streams(&mut self, direction: Direction, streams: &[u16]) -> Result<(), ResetError> {
        self.may_ask()?;
        let (outgoing, incoming) = (direction.is_outgoing(), direction.is_incoming());
        let (out_limit, in_limit) = (self.streams.outbound(), self.streams.inbound());
        if streams.iter().any(|&s| outgoing && s >= out_limit || incoming && s >= in_limit) {
            return Err(ResetError::NoSuchStream);
        }
        let mut streams = streams.to_vec();
        streams.sort_unstable();
        streams.dedup();
        let pieces = self.pieces(&streams, outgoing && incoming);
        let reconfig = self.reconfig();
        let busy = reconfig.resets_association()
            || reconfig.wanted.len() + pieces.len() > request::MAX_WAITING
            || incoming && reconfig.asks().any(|ask| ask.wants_incoming(&streams))
            || incoming && reconfig.parked.as_ref().is_some_and(|(_, parked)| meets(parked, &streams));
        if busy || outgoing && self.send.is_held(&streams) {
            return Err(ResetError::Busy);
        }
        for piece in pieces {
            let ticket = self.reconfig().ticket();
            if outgoing {
                self.send.hold(ticket, &piece);
            }
            let incoming = incoming.then(|| piece.clone());
            let outgoing = outgoing.then_some(piece);
            self.reconfig().wanted.push_back(Ask::Reset { outgoing, incoming, ticket, answers: None });
        }
        Ok(())
    }

    /// As many requests as it takes so that each fits a packet.
    fn pieces(&self, streams: &[u16], both: bool) -> Vec<Vec<u16>> {
        let smallest = self.paths.iter().map(crate::path::Path::chunk_limit).min().unwrap_or(512);
        // Two headers of parameters, and that of the chunk; two bytes a stream, once or twice.
        let most = smallest.saturating_sub(40) / if both { 4 } else { 2 };
        if streams.is_empty() {
            return vec![Vec::new()];
        }
        streams.chunks(most.max(1)).map(<[u16]>::to_vec).collect()
    }

    /// RFC 6525 §6.3.3.
    pub(crate) fn reset_association(&mut self, now: Instant) -> Result<(), ResetError> {
        self.may_ask()?;
        let reconfig = self.reconfig();
        // RFC 6525 §5.1.4: one in 30 s.
        let lately = reconfig.renumbered.is_some_and(|at| now < at + LIFETIME);
        let busy = reconfig.wanted.len() >= request::MAX_WAITING || reconfig.resets_association();
        if busy || lately || self.send.is_held(&[]) {
            return Err(ResetError::Busy);
        }
        let reconfig = self.reconfig();
        let ticket = reconfig.ticket();
        reconfig.wanted.push_back(Ask::Association { ticket });
        reconfig.renumbered = Some(now);
        self.send.hold(ticket, &[]);
        Ok(())
    }

    /// RFC 6525 §6.3.4.
    pub(crate) fn add_streams(&mut self, outgoing: u16, incoming: u16) -> Result<(), ResetError> {
        self.may_ask()?;
        let most = |have: u16, more: u16| have.checked_add(more).is_none();
        if outgoing == 0 && incoming == 0
            || most(self.streams.outbound(), outgoing)
            || most(self.streams.inbound(), incoming)
        {
            return Err(ResetError::TooManyStreams);
        }
        let reconfig = self.reconfig();
        let adds = reconfig.asks().any(|ask| matches!(ask, Ask::Add { .. }));
        if adds || reconfig.wanted.len() >= request::MAX_WAITING {
            return Err(ResetError::Busy);
        }
        reconfig.wanted.push_back(Ask::Add { outgoing, incoming, answers: None });
        Ok(())
    }

    // What is to be sent.

    /// The path that a RE-CONFIG is wanted to, if one is.
    #[inline]
    pub(super) fn reconfig_path(&mut self) -> Option<usize> {
        self.extensions.reconfig.as_ref()?;
        self.launch();
        let reconfig = self.extensions.reconfig.as_deref()?;
        if reconfig.send
            && let Some(flying) = &reconfig.flying
        {
            return Some(flying.path);
        }
        (!reconfig.replies.is_empty()).then_some(reconfig.reply_path)
    }

    /// Writes what is wanted to `index`, as far as it fits behind what is there.
    pub(super) fn write_reconfig(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        alone: bool,
    ) {
        let Some(reconfig) = self.extensions.reconfig.as_deref_mut() else {
            return;
        };
        let flying = reconfig.flying.as_ref().filter(|flying| reconfig.send && flying.path == index);
        let mut requests = flying.map(Flying::params).unwrap_or_default();
        // RFC 6525 §3.1: a response may share the chunk with a reset of outgoing streams, and
        // §5.2.1: what answers one chunk should be in one chunk.
        let together = reconfig.replies.len() == 1
            && matches!(requests[..], [ReConfigParam::ResetOutgoing { .. }])
            && reconfig.reply_path == index;
        let mut replies = Vec::new();
        if together {
            requests.insert(0, reconfig.replies[0]);
        } else if reconfig.reply_path == index {
            replies.clone_from(&reconfig.replies);
        }
        let mut chunks = Vec::new();
        if !replies.is_empty() {
            ReConfig::write(&mut chunks, &replies);
        }
        if !requests.is_empty() {
            ReConfig::write(&mut chunks, &requests);
        }
        if chunks.is_empty() || !alone && buffer.len() + chunks.len() > end {
            return;
        }
        let asked = flying.is_some();
        if together || !replies.is_empty() {
            reconfig.replies.clear();
        }
        if let Some(flying) = reconfig.flying.as_mut().filter(|_| asked) {
            flying.said = ctx.now;
            reconfig.send = false;
        }
        buffer.extend_from_slice(&chunks);
        if asked {
            // RFC 6525 §5.1.1: the timer runs as long as a request is not answered.
            let rto = self.paths.get(index).rto();
            self.timers.set(Timer::Reconfig, ctx.now + rto);
        }
    }

    /// RFC 6525 §5.1.1: the request is retransmitted, to another address if there is one.
    pub(super) fn on_reconfig_timer(&mut self, ctx: &mut Ctx<'_>) {
        let up = self.state.may_send_data();
        let Some(flying) =
            self.extensions.reconfig.as_deref_mut().and_then(|reconfig| reconfig.flying.as_mut())
        else {
            return;
        };
        if !up {
            return;
        }
        // RFC 6525 §5.2.7 H2: what is in progress takes its time. And where data is on its way, its
        // T3-rtx says of the path what is to be said: one lost packet is not two.
        let index = flying.path;
        let counts = !std::mem::take(&mut flying.patient) && self.paths.get(index).flight() == 0;
        if counts {
            let most = self.config.path_max_retrans;
            let path = self.paths.at(index);
            path.back_off();
            let health = path.on_error(ctx.now, most);
            self.paths.count_error(ctx.now);
            self.on_health(ctx, index, health);
            if self.paths.are_silent(&self.config, ctx.now) {
                self.close(ctx, CloseReason::Unreachable);
                return;
            }
        }
        let path = if counts { self.paths.alternate(index).unwrap_or(index) } else { index };
        let reconfig = self.reconfig();
        reconfig.send = true;
        if let Some(flying) = &mut reconfig.flying {
            flying.path = path;
        }
    }

    /// Whether TSNs were renumbered so lately that packets from before may still come.
    pub(super) fn renumbered_lately(&self, now: Instant) -> bool {
        let at = self.extensions.reconfig.as_deref().and_then(|reconfig| reconfig.renumbered);
        at.is_some_and(|at| now < at + LIFETIME.saturating_mul(2))
    }
}

/// The list of streams as it is written.
fn encode(streams: &[u16]) -> Vec<u8> {
    streams.iter().flat_map(|stream| stream.to_be_bytes()).collect()
}

fn decode(list: StreamList<'_>) -> Vec<u16> {
    let mut streams: Vec<u16> = list.iter().collect();
    streams.sort_unstable();
    streams.dedup();
    streams
}

/// Two lists (none: all) have a stream in common.
fn meets(a: &[u16], b: &[u16]) -> bool {
    a.is_empty() || b.is_empty() || b.iter().any(|stream| a.binary_search(stream).is_ok())
}

/// `streams` (none: all) are among `of` (none: all).
fn covers(of: &[u16], streams: &[u16]) -> bool {
    of.is_empty() || !streams.is_empty() && streams.iter().all(|stream| of.binary_search(stream).is_ok())
}
