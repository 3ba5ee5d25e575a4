//! Failure, recovery, probing and verification of paths.
//!
//! Implements RFC 9260 §8.1 (which errors count) and the timing of §5.4 and §8.3.

use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::event::{CloseReason, Event};
use crate::path::health::{Evidence, HealthChange};
use crate::path::heartbeat;
use crate::path::icmp::{self, Advice};
use crate::path::select::Interruption;
use crate::stats::{self, PathChange, PathState};
use anabranch_base::Icmp;
use anabranch_base::trace::SendCause;
use anabranch_wire::sctp::Init;
use std::net::IpAddr;

/// The maximum number of path changes that an endpoint stores. The number of stored interruptions has the same limit.
const CHANGES_KEPT: usize = 1024;

/// The number of consecutive timeouts that confirm an ICMP report that the peer's host does not run SCTP.
const SILENCES: u32 = 2;

impl Association {
    /// Starts HEARTBEATs when the association is established. HEARTBEATs verify unconfirmed paths and monitor confirmed
    /// paths.
    pub(super) fn begin_heartbeats(&mut self, ctx: &mut Ctx<'_>) {
        let mut unconfirmed: u32 = 0;
        for index in 0..self.paths.len() {
            let rto = self.paths.get(index).rto();
            if !self.paths.get(index).is_active() {
                continue;
            }
            if self.paths.get(index).is_confirmed() {
                self.schedule_heartbeat(ctx, index);
                self.begin_mtu_search(ctx, index);
            } else if unconfirmed == 0 {
                self.paths.at(index).ask_heartbeat();
                unconfirmed += 1;
            } else {
                // RFC 9260 §5.4: while addresses are unconfirmed, send at most HB.Max.Burst (1) packets with a
                // HEARTBEAT per RTO.
                self.timers.set(Timer::Heartbeat(index), ctx.now + rto.saturating_mul(unconfirmed));
                unconfirmed += 1;
            }
        }
    }

    /// RFC 9260 §8.3: schedules the next HEARTBEAT on a path. The HEARTBEAT is sent only if the path is idle until that
    /// time.
    pub(super) fn schedule_heartbeat(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        let Some(interval) = self.config.hb_interval else {
            return;
        };
        let period = self.paths.get(index).heartbeat_period(interval, &mut self.rng);
        self.timers.set(Timer::Heartbeat(index), ctx.now + period);
    }

    /// RFC 9260 §8.3: returns whether HEARTBEATs may be sent. Normally, HEARTBEATs stop once SHUTDOWN is sent. But if
    /// the peer has removed all its verified addresses (RFC 5061 §5.3 F14), a HEARTBEAT must verify another address
    /// before the SHUTDOWN can be retransmitted.
    fn may_heartbeat(&self) -> bool {
        self.state.may_send_data() || matches!(self.state, State::ShutdownSent) && self.is_stranded()
    }

    /// RFC 9260 §11.1.10: requests HEARTBEATs on behalf of the application. A path that already awaits a HEARTBEAT ACK
    /// gets no further HEARTBEAT.
    pub(crate) fn request_heartbeats(&mut self, address: Option<IpAddr>) {
        if !self.may_heartbeat() {
            return;
        }
        for index in 0..self.paths.len() {
            let path = self.paths.get(index);
            let is_selected = address.is_none_or(|address| address == path.address().ip());
            if is_selected && !path.is_removed() && !self.timers.is_set(Timer::HeartbeatLost(index)) {
                self.timers.stop(Timer::Heartbeat(index));
                self.paths.at(index).ask_heartbeat();
            }
        }
    }

    pub(super) fn on_heartbeat_timer(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        if !self.may_heartbeat() {
            return;
        }
        let path = self.paths.get(index);
        if path.is_confirmed()
            && path.is_active()
            && let Some(interval) = self.config.hb_interval
            && let Some(due) = path.next_heartbeat(ctx.now, interval, &mut self.rng)
        {
            self.timers.set(Timer::Heartbeat(index), due);
            return;
        }
        self.paths.at(index).ask_heartbeat();
    }

    /// Records that a HEARTBEAT was written on path `index`.
    pub(super) fn heartbeat_sent(&mut self, ctx: &mut Ctx<'_>, index: usize, nonce: u64) {
        let path = self.paths.at(index);
        path.on_heartbeat_sent(ctx.now, nonce);
        self.timers.set(Timer::HeartbeatLost(index), ctx.now + path.rto());
    }

    pub(super) fn on_heartbeat_ack(&mut self, ctx: &mut Ctx<'_>, info: &[u8]) {
        if let Some((index, nonce)) = heartbeat::read_probe_info(info) {
            self.on_mtu_probe_ack(ctx, index, nonce);
            return;
        }
        let Some((index, nonce)) = heartbeat::read_info(info) else {
            return;
        };
        if index >= self.paths.len() {
            return;
        }
        let outstanding = self.send.has_outstanding();
        let evidence = Evidence {
            outstanding,
            // Without another path, `retry` is `None`: data is sent on this path even after the path has failed.
            retry: self.config.hb_interval.filter(|_| self.paths.alternate(index).is_some()),
            max_retrans: self.config.path_max_retrans,
        };
        let Some(verified) = self.paths.at(index).on_heartbeat_ack(ctx.now, nonce, evidence) else {
            return;
        };
        self.timers.stop(Timer::HeartbeatLost(index));
        // RFC 9260 §8.1: a HEARTBEAT ACK clears the error counter only if no data is outstanding.
        if !outstanding {
            self.paths.clear_errors();
        }
        if verified.confirmed || verified.revived {
            self.on_path_up(ctx, index, verified.revived);
        }
        if self.may_heartbeat() {
            self.schedule_heartbeat(ctx, index);
        }
    }

    pub(super) fn on_heartbeat_lost(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        if !self.may_heartbeat() {
            return;
        }
        let most = self.config.path_max_retrans;
        let path = self.paths.at(index);
        let known = path.is_silence_known();
        if known && path.is_potentially_failed() {
            // RFC 7829 §3 (5), (6): send one HEARTBEAT per RTO on a potentially failed path.
            match self.config.hb_interval {
                Some(_) => path.ask_heartbeat(),
                None => path.cancel_heartbeat(),
            }
            return;
        }
        if known && !path.is_active() && path.has_potentially_failed_state() {
            // RFC 7829 §4.1 (3): if all paths have failed, the path with the fewest errors is tried. So a HEARTBEAT
            // that the host could not send must not count as an error.
            self.schedule_heartbeat(ctx, index);
            return;
        }
        let confirmed = path.is_confirmed();
        let health = path.on_error(ctx.now, most);
        path.back_off();
        let active = path.is_active();
        // RFC 9260 §8.1, §5.4: an error on the current path also counts for the association if the path is verified.
        // Errors of an unverified current path count too while this path is stranded, that is, while only HEARTBEATs
        // can be sent.
        let is_stranded = self.is_stranded();
        if (confirmed || is_stranded) && index == self.paths.current() {
            self.paths.count_error(ctx.now);
        }
        self.on_health(ctx, index, health);
        if self.paths.is_peer_unreachable(&self.config, ctx.now) {
            self.give_up(ctx);
            return;
        }
        if health != HealthChange::Same {
            self.rescue_flight(ctx, index);
        }
        if is_stranded && index == self.paths.current() {
            // RFC 5061 §5.3 F14: no data can be sent on the current path until a HEARTBEAT verifies it. So the next
            // HEARTBEAT is sent at once.
            self.paths.at(index).ask_heartbeat();
        } else if !confirmed && active {
            // RFC 9260 §5.4: send one HEARTBEAT per RTO until the path is verified or fails. Several paths take turns,
            // so that HB.Max.Burst (1) is not exceeded.
            let unverified =
                self.paths.iter().filter(|path| path.is_active() && !path.is_confirmed()).count() as u32;
            if unverified > 1 {
                let rto = self.paths.get(index).rto();
                self.timers.set(Timer::Heartbeat(index), ctx.now + rto.saturating_mul(unverified - 1));
            } else {
                self.paths.at(index).ask_heartbeat();
            }
        } else if self.paths.get(index).is_potentially_failed() && self.config.hb_interval.is_some() {
            // RFC 7829 §3 (5), (6): send one HEARTBEAT per RTO on a potentially failed path, regardless of the
            // configured interval.
            self.paths.at(index).ask_heartbeat();
        } else {
            self.schedule_heartbeat(ctx, index);
        }
    }

    /// Retransmits the data in flight on a path on which a HEARTBEAT was not answered. The peer's application gets no
    /// later data until this data arrives. T3-rtx may retransmit it much later, because timeouts double its duration
    /// and a tail loss probe restarts it.
    fn rescue_flight(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        let path = self.paths.get(index);
        // If data was sent less than one round-trip time ago, its acknowledgement may still arrive.
        let is_fresh = ctx.now < path.last_data_sent() + path.round_trip();
        let elsewhere = self.paths.alternate(index).is_some_and(|other| self.paths.get(other).is_sound());
        if path.flight() == 0 || is_fresh || !elsewhere || self.send.is_probing() {
            return;
        }
        // RFC 9260 §6.4.1: data goes to an alternate active destination. §7.2: a retransmission may use another address
        // than the original transmission. §6.3.3 E1, E3: the window and the chunks in flight are treated as when T3-rtx
        // expires.
        self.paths.on_data_timeout();
        self.paths.at(index).collapse(ctx.now);
        self.timers.stop(Timer::T3Rtx(index));
        self.lose_flight(index, SendCause::Timeout);
        self.send.begin_timeout_repair();
    }

    /// Responds to a change in the health of a path.
    pub(super) fn on_health(&mut self, ctx: &mut Ctx<'_>, index: usize, health: HealthChange) {
        if self.paths.get(index).is_potentially_failed() {
            // RFC 7829 §3 (3), (4): data is sent on another path as soon as this path is potentially failed.
            self.paths.reselect();
        }
        if health == HealthChange::PotentiallyFailed {
            self.on_potentially_failed(ctx, index);
        }
        self.switch_over(index);
        if health != HealthChange::Down {
            return;
        }
        self.stats.rare_mut().path_failures += 1;
        self.stop_mtu_search(index);
        let address = self.paths.get(index).address().ip();
        self.paths.on_failed(index);
        self.record_path(ctx, address, PathState::Inactive);
        ctx.events.push_back(Event::PathDown { id: self.id, path: index, address });
        self.paths.reselect();
        // RFC 9260 §8.3: keep sending HEARTBEATs on the failed path, so that its recovery is noticed.
        if !self.timers.is_set(Timer::HeartbeatLost(index)) && self.may_heartbeat() {
            self.schedule_heartbeat(ctx, index);
        }
    }

    /// RFC 7829 §3 (5), (6): handles a path that has become potentially failed. Requests a HEARTBEAT at once and
    /// informs the application.
    fn on_potentially_failed(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        let address = self.paths.get(index).address().ip();
        self.stats.rare_mut().path_suspicions += 1;
        self.paths.on_failed(index);
        self.record_path(ctx, address, PathState::PotentiallyFailed);
        ctx.events.push_back(Event::PathPotentiallyFailed { id: self.id, path: index, address });
        if self.config.hb_interval.is_some() && self.may_heartbeat() {
            self.timers.stop(Timer::Heartbeat(index));
            self.paths.at(index).ask_heartbeat();
        }
    }

    /// RFC 7829 §5: makes another path the primary path, if the present primary path has had too many errors.
    fn switch_over(&mut self, index: usize) {
        let Some(most) = self.config.primary_switch.filter(|_| index == self.paths.primary()) else {
            return;
        };
        // RFC 7829 §5 (1): data is sent on the primary path until this path is potentially failed. If `pf_max_retrans`
        // is off, data is sent there until the path has failed.
        let most = most.max(self.config.pf_max_retrans.unwrap_or(self.config.path_max_retrans));
        if self.paths.get(index).errors() > most {
            self.paths.reselect();
            self.paths.switch_over();
        }
    }

    /// Records that a path works. `again` is true if the path had failed before.
    pub(crate) fn on_path_up(&mut self, ctx: &mut Ctx<'_>, index: usize, again: bool) {
        let address = self.paths.get(index).address().ip();
        ctx.events.push_back(Event::PathUp { id: self.id, path: index, address });
        if again {
            self.record_path(ctx, address, PathState::Active);
            ctx.events.push_back(Event::PathRestored { id: self.id, address });
        }
        self.paths.reselect();
        if self.may_heartbeat() {
            self.begin_mtu_search(ctx, index);
        }
        self.grant_primary(ctx);
    }

    fn record_path(&self, ctx: &mut Ctx<'_>, address: IpAddr, state: PathState) {
        if ctx.path_changes.len() < CHANGES_KEPT {
            ctx.path_changes.push(PathChange { connection: self.trace_key(), address, at: ctx.now, state });
        }
    }

    /// Records that user data has resumed after an interruption.
    #[cold]
    pub(super) fn record_interruption(&self, ctx: &mut Ctx<'_>, interruption: Interruption) {
        let Interruption { since, received, .. } = interruption;
        let outage = ctx.now.since(since);
        let [from, to] = [interruption.from, interruption.to].map(|path| self.paths.get(path).address().ip());
        ctx.events.push_back(Event::Interrupted { id: self.id, received, outage, from, to });
        if ctx.interruptions.len() < CHANGES_KEPT {
            let connection = self.trace_key();
            ctx.interruptions.push(stats::Interruption {
                connection,
                from,
                to,
                received,
                since,
                until: ctx.now,
            });
        }
    }

    /// RFC 9260 §10: handles an ICMP message that quotes a packet with the verification tag `tag`.
    pub(crate) fn on_icmp(&mut self, ctx: &mut Ctx<'_>, report: &Icmp, tag: u32, quoted: &[u8]) {
        // The quoted packet must have the peer's tag or, if it is an INIT, contain our own tag. Only a host that sees
        // our packets knows these tags.
        let init_tag =
            quoted.get(16..20).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(u32::from_be_bytes);
        let of_init =
            tag == 0 && quoted.get(12) == Some(&Init::KIND) && init_tag == Some(self.identity.local_tag());
        if !of_init && (tag == 0 || tag != self.identity.peer_tag()) {
            return;
        }
        let Some(index) = self.paths.find(report.target) else {
            return;
        };
        let encapsulated = self.paths.get(index).address().port() != 0;
        match icmp::advice(report.kind, report.target.is_ipv6(), encapsulated) {
            Advice::Ignore => {}
            Advice::Shrink(mtu) => self.on_too_big(ctx, index, mtu),
            // RFC 9260 §10 ICMP8 treats this ICMP error like an ABORT, but Linux also sends it if the buffer of a raw
            // socket is full (raw_v4_input). RFC 5927 §5.2 treats it as a soft error for TCP. So with `icmp_doubt`, the
            // error ends an association only after `SILENCES` consecutive timeouts.
            Advice::Abort if self.is_icmp_unconfirmed(index) && !of_init && !encapsulated => {}
            Advice::Abort => {
                if of_init == matches!(self.state, State::CookieWait(_)) {
                    self.close(ctx, CloseReason::NotListening);
                }
            }
            // Only an expired T3-rtx or an unanswered HEARTBEAT increases an error counter. A forged or transient ICMP
            // report must not.
            Advice::Error => {}
        }
    }

    /// Returns whether path `index` has had too few timeouts to confirm an ICMP report that the peer's host does not
    /// run SCTP.
    fn is_icmp_unconfirmed(&self, index: usize) -> bool {
        self.config.icmp_doubt && self.paths.get(index).errors() < SILENCES
    }
}
