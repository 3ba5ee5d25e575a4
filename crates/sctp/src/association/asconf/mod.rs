//! Addresses that come and go: what this side asks of the peer.
//!
//! There is no queue of changes. What the peer knows of this side is compared
//! with what this side has, and the difference asked for in one ASCONF at a
//! time; whatever changes meanwhile is part of the next difference. [`answer`]
//! does what the peer asks for.
//!
//! An address that the peer does not know yet carries nothing but ASCONFs. When
//! no other is left, the association stands still until the peer has agreed.
//!
//! Home of RFC 5061 §5.1 and of §5.3 F0 to F6.

mod answer;

use super::outbound::{ControlJob, Job};
use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::event::{AddressChange, CloseReason, Event};
use crate::path::select::source_for;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::SendCause;
use anabranch_wire::sctp::{Asconf as Chunk, AsconfAck, Cause, Param, Params, cause::Causes};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Addresses remembered that the peer has let go of.
const MAX_GONE: usize = 32;

/// How long a packet and its answer may be under way.
const UNDER_WAY: Duration = Duration::from_secs(30);

/// Requests in one ASCONF; the rest waits for the next.
const MAX_REQUESTS: usize = 12;

/// Dynamic addresses of one association.
#[derive(Debug)]
pub(crate) struct Asconf {
    /// Sequence number of the next ASCONF.
    serial: u32,
    /// Correlation id of the next request.
    next_id: u32,
    /// This side's addresses as the peer knows them.
    known: Vec<IpAddr>,
    /// Addresses that this association leaves alone: by the application's wish or the peer's.
    withheld: Vec<IpAddr>,
    /// Addresses that the peer does not let go of.
    stuck: Vec<IpAddr>,
    /// Addresses that the peer has let go of, the last ones, and since when each is back.
    gone: VecDeque<(IpAddr, Option<Instant>)>,
    /// Where this side wants to be reached.
    wish: Option<IpAddr>,
    outstanding: Option<Outstanding>,
    /// The peer does not do such things.
    refused: bool,
    /// It knows no Set Primary Address.
    primary_refused: bool,
    answers: answer::Answers,
}

/// The ASCONF that has not been answered.
#[derive(Debug)]
struct Outstanding {
    serial: u32,
    chunk: Vec<u8>,
    requests: Vec<(u32, Request)>,
    path: usize,
    ends: (SocketAddr, SocketAddr),
    /// It is to be sent with the next poll.
    wanted: bool,
    /// The host knew no way when it was last to be sent.
    unsent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Request {
    Add(IpAddr),
    Delete(IpAddr),
    Primary(IpAddr),
}

impl Asconf {
    /// RFC 5061 §5.1 A2: the sequence numbers begin with the first TSNs.
    pub(super) fn new(local_tsn: u32, peer_tsn: u32, known: Vec<IpAddr>) -> Self {
        Self {
            serial: local_tsn,
            next_id: 1,
            known,
            withheld: Vec::new(),
            stuck: Vec::new(),
            gone: VecDeque::new(),
            wish: None,
            outstanding: None,
            refused: false,
            primary_refused: false,
            answers: answer::Answers::new(peer_tsn),
        }
    }

    /// The peer has been asked for this and has not answered.
    fn asks(&self, request: Request) -> bool {
        self.outstanding.as_ref().is_some_and(|o| o.requests.iter().any(|(_, other)| *other == request))
    }
}

impl Association {
    /// The ASCONF that is not answered yet.
    fn outstanding_asconf(&mut self) -> Option<&mut Outstanding> {
        self.extensions.asconf.as_mut()?.outstanding.as_mut()
    }

    /// Local addresses that this association should have.
    fn wanted_locals(&self, ctx: &Ctx<'_>) -> Vec<SocketAddr> {
        let withheld: &[IpAddr] = self.extensions.asconf.as_ref().map_or(&[], |asconf| &asconf.withheld);
        ctx.locals_for(self.peer()).filter(|address| !withheld.contains(&address.ip())).collect()
    }

    /// RFC 5061 §5.3 F1, F2, F4: those of them that the peer knows: what packets may come from. Not one that has come
    /// back before the peer has answered that it gives it up: it may have done so.
    fn usable_locals(&self, ctx: &Ctx<'_>) -> Vec<SocketAddr> {
        let known: &[IpAddr] = self.extensions.asconf.as_ref().map_or(&[], |asconf| &asconf.known);
        let usable = |address: &IpAddr| known.contains(address) && !self.is_deleting(*address);
        self.wanted_locals(ctx).into_iter().filter(|address| usable(&address.ip())).collect()
    }

    /// The endpoint has other addresses than before, or the peer knows others.
    pub(crate) fn locals_changed(&mut self, ctx: &mut Ctx<'_>) {
        if self.extensions.asconf.is_none() || !self.state.is_up() {
            return;
        }
        let before = self.paths.get(self.paths.current()).source();
        self.choose_sources(ctx);
        let wanted = self.wanted_locals(ctx);
        let moved = !wanted.contains(&before);
        if let Some(outstanding) = self.outstanding_asconf()
            && !wanted.contains(&outstanding.ends.0)
        {
            // It was sent from an address that is gone: at once again, from another.
            let path = if moved { self.nearest_path() } else { outstanding.path };
            self.aim_asconf(ctx, path);
        }
        let path = if moved { self.nearest_path() } else { self.paths.current() };
        self.plan_asconf_by(ctx, path);
    }

    /// The path whose ends have most in common (RFC 6724 §6 rule 9). Who has lost the address that
    /// data left from knows no better where its other addresses lead: from one network there may
    /// be no route to the peer's address in the other, and a T4 would pass until that is noticed.
    fn nearest_path(&self) -> usize {
        let current = self.paths.current();
        let near = |index: usize| {
            let path = self.paths.get(index);
            common_bits(path.source().ip(), path.address().ip())
        };
        let usable = (0..self.paths.len()).filter(|&index| {
            let path = self.paths.get(index);
            !path.is_removed() && path.is_usable()
        });
        // The current one among equals.
        usable.fold(current, |best, index| if near(index) > near(best) { index } else { best })
    }

    /// The application wants or does not want a local address in this association.
    pub(crate) fn use_address(&mut self, ctx: &mut Ctx<'_>, address: IpAddr, wanted: bool) -> bool {
        let Some(asconf) = &mut self.extensions.asconf else {
            return false;
        };
        asconf.withheld.retain(|other| *other != address);
        asconf.stuck.retain(|other| *other != address);
        if !wanted {
            if asconf.withheld.len() >= MAX_REQUESTS * 2 {
                return false;
            }
            asconf.withheld.push(address);
        }
        self.locals_changed(ctx);
        true
    }

    /// The application wants the peer to send to `address` first.
    pub(crate) fn set_peer_primary(&mut self, ctx: &mut Ctx<'_>, address: IpAddr) -> bool {
        // RFC 5061 §5.3 F3b: who does not know the request is not asked again.
        let Some(asconf) = self.extensions.asconf.as_mut().filter(|asconf| !asconf.primary_refused) else {
            return false;
        };
        asconf.wish = Some(address);
        self.plan_asconf(ctx);
        true
    }

    /// Gives every path a source that the peer knows; a path without one stands still.
    fn choose_sources(&mut self, ctx: &mut Ctx<'_>) {
        let usable = self.usable_locals(ctx);
        // A path that has just come has its timers from here on.
        self.measure();
        for index in 0..self.paths.len() {
            let path = self.paths.get(index);
            if path.is_removed() || usable.contains(&path.source()) && path.has_source() {
                continue;
            }
            let Some(source) = source_for(&usable, path.address().ip(), index) else {
                if path.has_source() {
                    self.give_up_flight(index);
                    self.paths.at(index).lose_source();
                }
                continue;
            };
            let config = self.config.clone();
            self.paths.at(index).leave_from(&config, source, ctx.mtu_of(source));
            if self.paths.get(index).is_confirmed() {
                self.schedule_heartbeat(ctx, index);
                self.begin_mtu_search(ctx, index);
            } else {
                self.paths.at(index).ask_heartbeat();
            }
        }
        self.measure();
        self.paths.reselect();
        if self.is_stranded() && !self.timers.is_set(Timer::Asconf) {
            // Every wait ends: what counts errors while nothing can be sent.
            let rto = self.paths.get(self.paths.current()).rto();
            self.timers.set(Timer::Asconf, ctx.now + rto);
        }
    }

    /// What is in flight on a path that is no more is lost; its timers stop.
    fn give_up_flight(&mut self, index: usize) {
        self.send.lose_path(index, SendCause::Timeout);
        self.paths.at(index).stand_still();
        self.timers.stop_path(index);
        self.stop_mtu_search(index);
        self.outbox.forget_path(index);
        self.closing.forget_path(index);
    }

    /// Where data goes nothing may be sent: the peer has not verified it, or there is no source.
    pub(super) fn is_stranded(&self) -> bool {
        self.extensions.asconf.is_some() && self.paths.is_stranded()
    }

    /// RFC 5061 §5.1 A1 to A3: asks for the difference between what the peer knows and what is.
    pub(super) fn plan_asconf(&mut self, ctx: &mut Ctx<'_>) {
        self.plan_asconf_by(ctx, self.paths.current());
    }

    fn plan_asconf_by(&mut self, ctx: &mut Ctx<'_>, path: usize) {
        let wanted = self.wanted_locals(ctx);
        let up = self.state.is_up() && !matches!(self.state, State::ShutdownAckSent);
        let Some(asconf) = &mut self.extensions.asconf else {
            return;
        };
        if !up || asconf.outstanding.is_some() || asconf.refused || wanted.is_empty() {
            return;
        }
        let wanted: Vec<IpAddr> = wanted.iter().map(SocketAddr::ip).collect();
        // RFC 5061 §5.3 F5: what is added stands before what is deleted, so that something is left.
        let adds = wanted.iter().filter(|address| !asconf.known.contains(address)).map(|&a| Request::Add(a));
        let known = |address: &IpAddr| asconf.known.contains(address) || wanted.contains(address);
        let primary = asconf.wish.filter(known).filter(|_| !asconf.primary_refused).map(Request::Primary);
        let gone = asconf.known.iter().filter(|a| !wanted.contains(a) && !asconf.stuck.contains(a));
        let requests: Vec<Request> =
            adds.chain(primary).chain(gone.map(|&a| Request::Delete(a))).take(MAX_REQUESTS).collect();
        if requests.is_empty() {
            return;
        }
        if requests.iter().any(|request| matches!(request, Request::Primary(_))) {
            asconf.wish = None;
        }
        let serial = asconf.serial;
        asconf.serial = serial.wrapping_add(1);
        // RFC 5061 §5.3.2: an address that the peer knows, be it one that goes.
        let stays = asconf.known.iter().find(|address| wanted.contains(address));
        let Some(&address) = stays.or(asconf.known.first()) else {
            return;
        };
        let mut chunk = Vec::new();
        let mut writer = Chunk { serial, address, params: Params::default() }.open(&mut chunk);
        let mut numbered = Vec::new();
        for request in requests {
            let id = asconf.next_id;
            asconf.next_id = id.wrapping_add(1);
            match request {
                Request::Add(address) => Param::AddAddress { id, address }.emit(&mut writer),
                Request::Delete(address) => Param::DeleteAddress { id, address }.emit(&mut writer),
                Request::Primary(address) => Param::SetPrimary { id, address }.emit(&mut writer),
            };
            numbered.push((id, request));
        }
        writer.close();
        let here = self.paths.get(path);
        let ends = (here.source(), here.address());
        asconf.outstanding =
            Some(Outstanding { serial, chunk, requests: numbered, path, ends, wanted: true, unsent: false });
        self.aim_asconf(ctx, path);
    }

    /// From where to where the outstanding ASCONF goes next.
    fn aim_asconf(&mut self, ctx: &mut Ctx<'_>, path: usize) {
        let target = self.paths.get(path).address();
        // RFC 5061 §5.3 F1, F6: a new address may carry it, one that goes may not.
        let source = [self.usable_locals(ctx), self.wanted_locals(ctx)]
            .iter()
            .find_map(|locals| source_for(locals, target.ip(), path));
        if let Some(outstanding) = self.outstanding_asconf() {
            outstanding.path = path;
            outstanding.wanted = source.is_some();
            if let Some(source) = source {
                outstanding.ends = (source, target);
            }
        }
        if source.is_none() && !self.timers.is_set(Timer::Asconf) {
            self.timers.set(Timer::Asconf, ctx.now + self.paths.get(path).rto());
        }
    }

    /// A packet from `source` to `target` could not be sent.
    pub(super) fn asconf_unsent(&mut self, source: IpAddr, target: IpAddr) {
        if let Some(outstanding) = self.outstanding_asconf() {
            outstanding.unsent |= (outstanding.ends.0.ip(), outstanding.ends.1.ip()) == (source, target);
        }
    }

    /// What could not be sent is sent now; T4 starts with it.
    pub(super) fn asconf_again(&mut self) {
        if let Some(outstanding) = self.outstanding_asconf() {
            outstanding.wanted |= std::mem::take(&mut outstanding.unsent);
        }
    }

    /// What goes before everything else.
    #[cold]
    pub(super) fn asconf_turn(&self) -> ControlJob {
        let Some(asconf) = &self.extensions.asconf else {
            return ControlJob::Go;
        };
        // RFC 5061 §5.1.1 C4.
        if matches!(self.state, State::ShutdownAckSent) {
            return ControlJob::Go;
        }
        if let Some(path) = asconf.answers.due() {
            return ControlJob::Job(Job::AsconfAck(path));
        }
        if let Some(outstanding) = asconf.outstanding.as_ref().filter(|outstanding| outstanding.wanted) {
            return ControlJob::Job(Job::Asconf(outstanding.path));
        }
        if !self.is_stranded() {
            return ControlJob::Go;
        }
        // RFC 5061 §5.3 F1, F14: nothing but what verifies.
        let reachable = |index: &usize| self.paths.get(*index).has_source();
        let answers = self.outbox.heartbeat_ack_path().filter(reachable);
        let asks = (0..self.paths.len()).filter(reachable).find(|&i| self.paths.get(i).wants_heartbeat());
        answers.or(asks).map_or(ControlJob::Wait, |path| ControlJob::Job(Job::Control(path)))
    }

    /// Source and target of an ASCONF or its answer.
    #[cold]
    pub(super) fn asconf_ends(&self, job: Job) -> Option<(SocketAddr, SocketAddr)> {
        let asconf = self.extensions.asconf.as_ref()?;
        match job {
            Job::Asconf(_) => asconf.outstanding.as_ref().map(|outstanding| outstanding.ends),
            Job::AsconfAck(path) => {
                asconf.answers.target().map(|target| (self.paths.get(path).source(), target))
            }
            _ => None,
        }
    }

    /// Writes the outstanding ASCONF. RFC 5061 §5.1 A4: T4 runs.
    #[cold]
    pub(super) fn write_asconf(&mut self, ctx: &mut Ctx<'_>, index: usize, buffer: &mut Vec<u8>) {
        if let Some(outstanding) = self.outstanding_asconf() {
            outstanding.wanted = false;
            buffer.extend_from_slice(&outstanding.chunk);
        }
        let rto = self.paths.get(index).rto();
        self.timers.set(Timer::Asconf, ctx.now + rto);
    }

    /// RFC 5061 §5.1 B1 to B5: T4-RTO has expired.
    pub(super) fn on_t4(&mut self, ctx: &mut Ctx<'_>) {
        let Some(asconf) = &self.extensions.asconf else {
            return;
        };
        let path = asconf.outstanding.as_ref().map(|outstanding| outstanding.path);
        if path.is_none() && !self.is_stranded() {
            return;
        }
        let index = path.filter(|&path| !self.paths.get(path).is_removed()).unwrap_or(self.paths.current());
        self.paths.count_error(ctx.now);
        self.paths.at(index).back_off();
        if self.paths.are_silent(&self.config, ctx.now) {
            self.close(ctx, CloseReason::Unreachable);
            return;
        }
        if path.is_none() {
            let rto = self.paths.get(index).rto();
            self.timers.set(Timer::Asconf, ctx.now + rto);
            return;
        }
        if self.paths.get(index).is_usable() {
            let most = self.config.path_max_retrans;
            let health = self.paths.at(index).on_error(ctx.now, most);
            self.on_health(ctx, index, health);
        }
        let next = self.paths.alternate(index).unwrap_or(self.paths.current());
        self.aim_asconf(ctx, next);
    }

    /// RFC 5061 §5.1 A5 to A8.
    pub(super) fn on_asconf_ack(&mut self, ctx: &mut Ctx<'_>, ack: &AsconfAck<'_>) {
        let Some(asconf) = &mut self.extensions.asconf else {
            return;
        };
        let Some(outstanding) = asconf.outstanding.take_if(|outstanding| outstanding.serial == ack.serial)
        else {
            // RFC 5061 §5.3 F0: the answer to what was never asked.
            if asconf.outstanding.is_none() && ack.serial.wrapping_sub(asconf.serial) < 1 << 31 {
                let rule = "RFC 5061 5.3 F0: an ASCONF ACK for an ASCONF that was not sent";
                self.abort_with(ctx, &Cause::IllegalAsconfAck, CloseReason::PeerViolated(rule));
            }
            return;
        };
        let mut done = vec![None; outstanding.requests.len()];
        for param in ack.params.flatten() {
            let place = param
                .correlation()
                .and_then(|id| outstanding.requests.iter().position(|(other, _)| *other == id));
            let Some(place) = place else {
                continue;
            };
            match param {
                Param::RequestDone(_) => done[place] = Some(Ok(())),
                Param::RequestFailed { causes, .. } => {
                    let cause = Causes::new(causes).next().and_then(Result::ok);
                    done[place] = Some(Err(cause.map_or(0, |cause| cause.code())));
                }
                _ => {}
            }
        }
        let mut failed = false;
        for ((_, request), done) in outstanding.requests.into_iter().zip(done) {
            // RFC 5061 §5.1 A7, A8: silence is consent, until something was refused.
            let result = done.unwrap_or(if failed { Err(0) } else { Ok(()) });
            self.on_result(ctx, request, result, failed);
            failed |= result.is_err();
        }
        self.timers.stop(Timer::Asconf);
        self.paths.clear_errors();
        if !self.paths.get(outstanding.path).is_removed()
            && self.paths.at(outstanding.path).on_answer(ctx.now)
        {
            self.on_path_up(ctx, outstanding.path, true);
        }
        self.locals_changed(ctx);
    }

    /// What has become of one request; a failure with its cause code. `behind`: one before it in the same ASCONF has failed.
    fn on_result(&mut self, ctx: &mut Ctx<'_>, request: Request, result: Result<(), u16>, behind: bool) {
        /// RFC 9260 §3.3.10.8: unrecognized parameters.
        const UNRECOGNIZED: u16 = 8;
        let Some(asconf) = &mut self.extensions.asconf else {
            return;
        };
        // RFC 5061 §5.3 F3a: who does not know the request is not asked again.
        match request {
            Request::Primary(_) => asconf.primary_refused |= result == Err(UNRECOGNIZED),
            Request::Add(_) | Request::Delete(_) => asconf.refused |= result == Err(UNRECOGNIZED),
        }
        let (address, change) = match (request, result) {
            (Request::Add(address), Ok(())) => {
                asconf.known.push(address);
                for (_, back) in asconf.gone.iter_mut().filter(|(other, _)| *other == address) {
                    *back = Some(ctx.now);
                }
                (address, AddressChange::Added)
            }
            (Request::Delete(address), Ok(())) => {
                asconf.known.retain(|other| *other != address);
                asconf.gone.retain(|(other, _)| *other != address);
                if asconf.gone.len() >= MAX_GONE {
                    asconf.gone.pop_front();
                }
                asconf.gone.push_back((address, None));
                (address, AddressChange::Removed)
            }
            (Request::Primary(address), Ok(())) => (address, AddressChange::Primary),
            (Request::Add(address), Err(cause)) => {
                // RFC 5061 §5.3 F10: it is not part of the association.
                asconf.withheld.push(address);
                (address, AddressChange::Refused(cause))
            }
            (Request::Delete(address), Err(cause)) => {
                // RFC 5061 §5.3 F11: behind one that failed it had to fail, and may be asked for again.
                if !behind {
                    asconf.stuck.push(address);
                }
                (address, AddressChange::Refused(cause))
            }
            (Request::Primary(address), Err(cause)) => (address, AddressChange::Refused(cause)),
        };
        ctx.events.push_back(Event::LocalAddress { id: self.id, address, change });
    }

    /// RFC 5061 §5.1 A9: the peer has reported a chunk that it does not know.
    pub(super) fn on_unrecognized(&mut self, chunk: &[u8]) {
        if chunk.first() == Some(&Chunk::KIND)
            && let Some(asconf) = &mut self.extensions.asconf
        {
            asconf.refused = true;
            asconf.outstanding = None;
            self.timers.stop(Timer::Asconf);
        }
    }

    /// RFC 5061 §5.3 F4, §5.3.1: an ABORT to an address that is being deleted means nothing; nor, by the end of §5.3, does one
    /// to an address that the peer has let go of: it answers what left from there before. It may still be under way when
    /// the address is back.
    pub(crate) fn is_leaving(&self, now: Instant, address: IpAddr) -> bool {
        let late = |back: Option<Instant>| back.is_none_or(|back| now.since(back) < UNDER_WAY);
        let gone = |asconf: &Asconf| asconf.gone.iter().any(|&(other, back)| other == address && late(back));
        self.is_deleting(address) || self.extensions.asconf.as_deref().is_some_and(gone)
    }

    /// The peer has been asked to let go of it.
    fn is_deleting(&self, address: IpAddr) -> bool {
        self.extensions.asconf.as_deref().is_some_and(|asconf| asconf.asks(Request::Delete(address)))
    }
}

/// Chunks that wait to be sent, with their targets.
type Waiting = VecDeque<(usize, SocketAddr, Vec<u8>)>;

/// How many leading bits two addresses share; none of different versions.
fn common_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}
