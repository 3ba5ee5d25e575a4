//! Handling of a COOKIE ECHO for an existing association.
//!
//! Implements RFC 9260 §5.2.4.

use super::auth::Auth;
use super::cookie::Cookie;
use super::ecn::EcnState;
use super::negotiate::InitContents;
use super::{Association, Ctx, State};
use crate::event::Event;
use crate::recv::RecvHalf;
use crate::send::SendHalf;
use anabranch_wire::sctp::Cause;
use std::net::SocketAddr;

/// The cases A to D of RFC 9260 §5.2.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CookieCase {
    /// A: the peer has restarted.
    Restart,
    /// B: both sides began an association at the same time.
    Collision,
    /// C: the COOKIE ECHO is late. After sending the cookie, this side began the association itself, with a new local
    /// tag.
    Late,
    /// D: the COOKIE ECHO is repeated, because the COOKIE ACK was lost.
    Repeated,
    /// None of the cases A to D.
    Stray,
}

impl Association {
    /// Returns the case of RFC 9260 §5.2.4 to which a valid cookie belongs.
    pub(crate) fn case(&self, cookie: &Cookie) -> CookieCase {
        let local = cookie.local_tag == self.identity.local_tag();
        let peer = cookie.peer_tag == self.identity.peer_tag();
        let tied = self.identity.is_tied_by(cookie.tie_tags);
        match (local, peer) {
            (false, false) if tied => CookieCase::Restart,
            (true, false) => CookieCase::Collision,
            (false, true) if cookie.tie_tags == (0, 0) => CookieCase::Late,
            (true, true) => CookieCase::Repeated,
            _ => CookieCase::Stray,
        }
    }

    /// Returns whether both tags in the cookie are the tags of this association. If so, the cookie counts as valid even
    /// if it is stale.
    pub(crate) fn owns(&self, cookie: &Cookie) -> bool {
        self.case(cookie) == CookieCase::Repeated
    }

    /// RFC 9260 §5.2.4 A: returns whether the cookie shows that the peer has restarted. In SHUTDOWN-ACK-SENT, no
    /// restart is accepted.
    pub(crate) fn is_restarted_by(&self, cookie: &Cookie) -> bool {
        self.case(cookie) == CookieCase::Restart && !matches!(self.state, State::ShutdownAckSent)
    }

    /// Handles a valid cookie from `source`. Returns false if the cookie is not accepted. In that case the caller must
    /// not process the rest of the packet.
    pub(crate) fn on_cookie(&mut self, ctx: &mut Ctx<'_>, cookie: &Cookie, source: SocketAddr) -> bool {
        let path = self.paths.find_or_current(source.ip());
        match self.case(cookie) {
            CookieCase::Restart => {
                if matches!(self.state, State::ShutdownAckSent) {
                    // RFC 9260 §5.2.4 A: in SHUTDOWN-ACK-SENT no restart is accepted. The SHUTDOWN ACK is repeated
                    // instead.
                    self.outbox.set_shutdown(true);
                    self.report(path, &Cause::CookieWhileShuttingDown);
                    return false;
                }
                self.restart(ctx, cookie, source);
            }
            CookieCase::Collision => {
                if matches!(self.state, State::CookieWait(_) | State::CookieEchoed(_)) {
                    self.accept_cookie(ctx, cookie, source);
                    self.establish(ctx);
                    self.emit_established(ctx);
                } else {
                    self.identity.set_peer_tag(cookie.peer_tag);
                    self.extensions.agree_on_auth(cookie.auth.as_ref().map(|auth| &auth.peer));
                }
            }
            CookieCase::Late | CookieCase::Stray => return false,
            CookieCase::Repeated => {
                if matches!(self.state, State::CookieEchoed(_)) {
                    self.establish(ctx);
                    self.emit_established(ctx);
                } else {
                    // RFC 9260 §8.1: the COOKIE ECHO shows that the peer is alive. Earlier errors do not count, because
                    // the peer could accept no data before the COOKIE ACK.
                    self.paths.clear_errors();
                }
            }
        }
        self.acknowledge_cookie(source);
        true
    }

    /// Marks a COOKIE ACK to be sent to the address that the COOKIE ECHO came from.
    pub(crate) fn acknowledge_cookie(&mut self, source: SocketAddr) {
        let path = self.paths.find_or_current(source.ip());
        self.outbox.ask_cookie_ack(path);
        if !self.paths.get(path).is_confirmed() {
            // RFC 9260 §5.4: a COOKIE ACK to an unverified address is sent only together with a HEARTBEAT.
            self.paths.at(path).ask_heartbeat();
        }
    }

    /// Applies the peer's parameters from a cookie.
    pub(crate) fn accept_cookie(&mut self, ctx: &mut Ctx<'_>, cookie: &Cookie, source: SocketAddr) {
        let offer = InitContents {
            tag: cookie.peer_tag,
            window: cookie.window,
            outbound: cookie.inbound,
            inbound: cookie.outbound,
            tsn: cookie.peer_tsn,
            addresses: cookie.addresses.clone(),
            extensions: cookie.extensions,
            auth: cookie.auth.as_ref().map(|auth| auth.peer.clone()),
            adaptation: cookie.adaptation,
            ..InitContents::default()
        };
        // RFC 4895 §6.1: the local tag and the random number were chosen together for one INIT ACK. Both are taken from
        // the cookie.
        let before = self.extensions.auth.take();
        self.extensions.auth = cookie.auth.as_ref().map(|auth| {
            let keys = before.as_ref().map_or(ctx.keys, |auth| auth.keys()).clone();
            let mut auth = Auth::new(auth.ours(&self.config), keys);
            // The new association signs no packet with the keys that the old association has deactivated, so these keys
            // may be freed.
            auth.add_deactivated(before.iter().flat_map(|auth| auth.deactivated_keys()));
            Box::new(auth)
        });
        // RFC 9260 §5.2.2: use the numbers of streams in the INIT ACK. Streams that were added to the old association
        // are ignored, even if they were added after the INIT ACK was sent.
        self.extensions.reconfig = None;
        self.streams.set(cookie.outbound, cookie.inbound);
        let from = SocketAddr::new(cookie.init_source, source.port());
        self.accept_offer(ctx, &offer, from);
    }

    /// RFC 9260 §5.2.4 A: the peer has restarted. For the protocol, this has the same effect as an ABORT followed by a
    /// new COOKIE ECHO. For the application, the association continues.
    fn restart(&mut self, ctx: &mut Ctx<'_>, cookie: &Cookie, source: SocketAddr) {
        self.identity.restart(cookie.local_tag, cookie.local_tsn);
        let mut before = std::mem::replace(&mut self.send, SendHalf::new(&self.config, cookie.local_tsn));
        self.send.inherit(&mut before);
        // RFC 9260 §11.2.2: messages that the peer has not acknowledged are lost with the old association.
        self.emit_undelivered(ctx, before.undelivered(self.config.return_undelivered));
        self.timers.stop_all();
        self.forget_control();
        self.paths.restart(&self.config);
        self.extensions.ecn = EcnState::default();
        let segment = self.paths.get(0).chunk_limit() as u64;
        let received = std::mem::replace(&mut self.recv, RecvHalf::new(&self.config, 0, 0, segment));
        self.accept_cookie(ctx, cookie, source);
        self.recv.inherit(received);
        self.emit_readable(ctx);
        ctx.events.push_back(Event::Restarted { id: self.id });
        self.emit_adaptation(ctx);
        self.establish(ctx);
        self.after_acknowledgement(ctx);
    }
}
