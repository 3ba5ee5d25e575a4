//! Dynamic address reconfiguration.
//!
//! [`request`] implements the requests of this side, and [`response`] handles the requests of the peer. This module
//! applies the effects of all requests to paths, timers and outstanding data.
//!
//! A local address that the peer does not know yet may be the source address of ASCONFs, but of no other chunks. If
//! this side has no other local address, it sends only ASCONFs until the peer has accepted the address.
//!
//! Implements RFC 5061 §5.1 B (T4) and §5.3 F1 (which packets may be sent).

mod request;
mod response;

pub(crate) use request::Asconf;

use super::outbound::{ControlJob, Job};
use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::event::CloseReason;
use crate::path::select::source_for;
use anabranch_base::Instant;
use anabranch_base::trace::SendCause;
use anabranch_wire::sctp::{AsconfAck, Cause};
use request::Answered;
use std::net::{IpAddr, SocketAddr};

impl Association {
    /// Responds to a change of the endpoint's addresses, or of the local addresses that the peer knows.
    pub(crate) fn local_addresses_changed(&mut self, ctx: &mut Ctx<'_>) {
        if self.extensions.asconf.is_none() || !self.state.is_up() {
            return;
        }
        let before = self.paths.get(self.paths.current()).source();
        self.choose_sources(ctx);
        let Some(asconf) = &mut self.extensions.asconf else {
            return;
        };
        let desired = asconf.desired(ctx, self.paths.peer());
        let path = if desired.contains(&before) { None } else { Some(self.paths.nearest()) };
        if let Some((sent_by, source)) = asconf.under_way()
            && !desired.contains(&source)
        {
            // The local address from which the ASCONF was sent no longer exists, so the ASCONF is sent again at once
            // from another local address.
            asconf.set_addresses(ctx, &self.paths, &mut self.timers, path.unwrap_or(sent_by));
        }
        self.plan_asconf(ctx, path.unwrap_or(self.paths.current()));
    }

    /// Sets whether the association uses a local address. Returns false if that cannot be changed.
    pub(crate) fn use_address(&mut self, ctx: &mut Ctx<'_>, address: IpAddr, desired: bool) -> bool {
        let taken = self.extensions.asconf.as_mut().is_some_and(|asconf| asconf.set_usable(address, desired));
        if taken {
            self.local_addresses_changed(ctx);
        }
        taken
    }

    /// Asks the peer to use `address` as its primary destination. Returns false if the peer does not support such
    /// requests.
    pub(crate) fn set_peer_primary(&mut self, ctx: &mut Ctx<'_>, address: IpAddr) -> bool {
        let taken = self.extensions.asconf.as_mut().is_some_and(|asconf| asconf.request_primary(address));
        if taken {
            self.plan_asconf(ctx, self.paths.current());
        }
        taken
    }

    /// RFC 5061 §5.1 A1 to A3: asks the peer to add and delete addresses, until the peer knows exactly the present
    /// local addresses.
    fn plan_asconf(&mut self, ctx: &mut Ctx<'_>, path: usize) {
        if self.state.is_up()
            && !matches!(self.state, State::ShutdownAckSent)
            && let Some(asconf) = &mut self.extensions.asconf
        {
            asconf.plan(ctx, &self.paths, &mut self.timers, path, self.config.asconf_primary);
        }
    }

    /// Sets the source and destination address of the outstanding ASCONF.
    fn set_asconf_addresses(&mut self, ctx: &Ctx<'_>, path: usize) {
        if let Some(asconf) = &mut self.extensions.asconf {
            asconf.set_addresses(ctx, &self.paths, &mut self.timers, path);
        }
    }

    /// Gives every path a source address that the peer knows. Suspends a path if there is no such address.
    fn choose_sources(&mut self, ctx: &mut Ctx<'_>) {
        let Some(asconf) = &self.extensions.asconf else {
            return;
        };
        let usable = asconf.usable(ctx, self.paths.peer());
        // `set_fragment_size` allocates the timers of a path that was just added.
        self.set_fragment_size();
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
            self.paths.at(index).set_source(&config, source, ctx.mtu_of(source));
            if self.paths.get(index).is_confirmed() {
                self.schedule_heartbeat(ctx, index);
                self.begin_mtu_search(ctx, index);
            } else {
                self.paths.at(index).ask_heartbeat();
            }
        }
        self.set_fragment_size();
        self.paths.reselect();
        if self.is_stranded() && !self.timers.is_set(Timer::Asconf) {
            // While no packet can be sent, each expiration of T4 counts as an error. After too many errors the
            // association ends.
            let rto = self.paths.get(self.paths.current()).rto();
            self.timers.set(Timer::Asconf, ctx.now + rto);
        }
    }

    /// Marks all chunks in flight on a removed or suspended path as lost, and stops the timers of that path.
    fn give_up_flight(&mut self, index: usize) {
        self.send.lose_path(index, SendCause::Timeout);
        self.paths.at(index).suspend();
        self.timers.stop_path(index);
        self.stop_mtu_search(index);
        self.outbox.forget_path(index);
        self.closing.forget_path(index);
    }

    /// Returns whether the current path cannot be used to send data: its destination address is unverified, or it has
    /// no source address.
    pub(super) fn is_stranded(&self) -> bool {
        self.extensions.asconf.is_some() && self.paths.is_stranded()
    }

    /// Records that a packet from `source` to `target` could not be sent.
    pub(super) fn asconf_unsent(&mut self, source: IpAddr, target: IpAddr) {
        if let Some(asconf) = &mut self.extensions.asconf {
            asconf.on_unsent(source, target);
        }
    }

    /// If the host could not send the outstanding ASCONF, marks it to be sent again. T4 starts when it is sent.
    pub(super) fn asconf_again(&mut self) {
        if let Some(asconf) = &mut self.extensions.asconf {
            asconf.send_again();
        }
    }

    /// Returns the ASCONF or ASCONF-ACK that has to be sent before all other packets, if there is one.
    #[cold]
    pub(super) fn asconf_job(&self) -> ControlJob {
        let Some(asconf) = &self.extensions.asconf else {
            return ControlJob::Go;
        };
        // RFC 5061 §5.1.1 C4: no ASCONF is sent in SHUTDOWN-ACK-SENT.
        if matches!(self.state, State::ShutdownAckSent) {
            return ControlJob::Go;
        }
        if let Some(job) = asconf.job() {
            return ControlJob::Job(job);
        }
        if !self.is_stranded() {
            return ControlJob::Go;
        }
        // RFC 5061 §5.3 F1, F14: while the current path has no source address or an unverified destination, only
        // HEARTBEAT and HEARTBEAT ACK may be sent.
        let reachable = |index: &usize| self.paths.get(*index).has_source();
        let heartbeat_ack_path = self.outbox.heartbeat_ack_path().filter(reachable);
        let heartbeat =
            (0..self.paths.len()).filter(reachable).find(|&i| self.paths.get(i).wants_heartbeat());
        heartbeat_ack_path.or(heartbeat).map_or(ControlJob::Wait, |path| ControlJob::Job(Job::Control(path)))
    }

    /// Returns the source and destination address for the ASCONF or ASCONF-ACK that `job` sends.
    #[cold]
    pub(super) fn asconf_addresses(&self, job: Job) -> Option<(SocketAddr, SocketAddr)> {
        self.extensions.asconf.as_ref()?.ends(job, &self.paths)
    }

    /// Writes the outstanding ASCONF. RFC 5061 §5.1 A4: starts T4.
    #[cold]
    pub(super) fn write_asconf(&mut self, ctx: &mut Ctx<'_>, index: usize, buffer: &mut Vec<u8>) {
        if let Some(asconf) = &mut self.extensions.asconf {
            asconf.write(buffer);
        }
        let rto = self.paths.get(index).rto();
        self.timers.set(Timer::Asconf, ctx.now + rto);
    }

    /// RFC 5061 §5.1 B1 to B5: handles the expiration of T4.
    pub(super) fn on_t4(&mut self, ctx: &mut Ctx<'_>) {
        let Some(asconf) = &self.extensions.asconf else {
            return;
        };
        let path = asconf.under_way().map(|(path, _)| path);
        if path.is_none() && !self.is_stranded() {
            return;
        }
        let index = path.filter(|&path| !self.paths.get(path).is_removed()).unwrap_or(self.paths.current());
        self.paths.count_error(ctx.now);
        self.paths.at(index).back_off();
        if self.paths.is_peer_unreachable(&self.config, ctx.now) {
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
        self.set_asconf_addresses(ctx, next);
    }

    /// RFC 5061 §5.1 A5 to A8: handles an ASCONF-ACK.
    pub(super) fn on_asconf_ack(&mut self, ctx: &mut Ctx<'_>, ack: &AsconfAck<'_>) {
        let Some(asconf) = &mut self.extensions.asconf else {
            return;
        };
        match asconf.on_ack(ctx, self.id, ack) {
            Answered::Old => {}
            Answered::NeverAsked => {
                let rule = "RFC 5061 5.3 F0: an ASCONF ACK for an ASCONF that was not sent";
                self.abort_with(ctx, &Cause::IllegalAsconfAck, CloseReason::PeerViolated(rule));
            }
            Answered::By(path) => {
                self.timers.stop(Timer::Asconf);
                self.paths.clear_errors();
                if !self.paths.get(path).is_removed() && self.paths.at(path).on_answer(ctx.now) {
                    self.on_path_up(ctx, path, true);
                }
                self.local_addresses_changed(ctx);
            }
        }
    }

    /// RFC 5061 §5.1 A9: handles the peer's report that it does not recognize a chunk. If the chunk is an ASCONF, T4
    /// stops.
    pub(super) fn on_unrecognized(&mut self, chunk: &[u8]) {
        if let Some(asconf) = &mut self.extensions.asconf
            && asconf.is_refused_by(chunk)
        {
            self.timers.stop(Timer::Asconf);
        }
    }

    /// RFC 5061 §5.3 F4, §5.3.1: returns whether an ABORT to this local address must be ignored. It is ignored while
    /// the address is being deleted, and for some time afterwards (end of §5.3). Such an ABORT answers a packet that
    /// was sent before the deletion. It may arrive late, even after the address was added again.
    pub(crate) fn is_leaving(&self, now: Instant, address: IpAddr) -> bool {
        self.extensions.asconf.as_ref().is_some_and(|asconf| asconf.is_leaving(now, address))
    }
}
