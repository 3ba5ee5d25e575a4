//! What goes to an address of which nobody has shown that it is there: a client's while the handshake begins, and the one that
//! a peer has moved to.
//!
//! Home of RFC 9000 §8.1, §9.3.1 and §8.2 as far as they are ours: quinn lets a whole packet go as long as anything is left of
//! three times what came, counts what comes from elsewhere while the handshake begins, and its search for the path's MTU
//! does not ask. A stranger who has one small packet come from somebody else's address must not gain by that.

use super::Held;
use std::net::SocketAddr;

/// An address of which nobody has shown that it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unproven {
    address: SocketAddr,
    /// Bytes that came from there, and went there.
    came: usize,
    went: usize,
    /// How it is shown.
    by: Proof,
}

/// What shows that a peer is at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Proof {
    /// RFC 9000 §8.1: a Handshake packet.
    Handshake,
    /// RFC 9000 §8.2: what whoever is there is to repeat, once that has left.
    Response(Option<u64>),
}

impl Unproven {
    /// A client that has sent so many bytes, and no token.
    pub(super) fn begins(address: SocketAddr, came: usize) -> Self {
        Self { address, came, went: 0, by: Proof::Handshake }
    }
}

impl Held {
    /// A datagram of so many bytes has come from `source`, while the peer seemed to be `before`.
    pub(super) fn moves(&mut self, before: SocketAddr, source: SocketAddr, bytes: usize) {
        let remote = self.connection.remote_address();
        if remote != before {
            let _ = self.watch.take_challenge();
            let by = Proof::Response(None);
            self.unproven = Some(Unproven { address: remote, came: bytes, went: 0, by });
            return;
        }
        if self.unproven.is_some_and(|unproven| unproven.by == Proof::Handshake)
            && self.watch.has_shaken_hands()
        {
            self.unproven = None;
        }
        let Some(unproven) = self.unproven.as_mut().filter(|unproven| unproven.address == source) else {
            return;
        };
        unproven.came += bytes;
        let response = self.watch.take_response();
        if response.is_some() && unproven.by == Proof::Response(response) {
            self.unproven = None;
        }
    }

    /// Nothing may leave before more has come: the next packet may be whole. A client's timer sees to that more comes
    /// (RFC 9002 §6.2.2.1).
    pub(super) fn is_held_back(&self) -> bool {
        let whole = usize::from(self.connection.current_mtu());
        self.unproven.is_some_and(|unproven| {
            unproven.by == Proof::Handshake && unproven.went + whole > 3 * unproven.came
        })
    }

    /// Whether a datagram of so many bytes may leave for `target`; one that may not is lost. The first may be whole: it has
    /// the challenge, which §8.2.1 wants on a packet of full size.
    pub(super) fn may_leave(&mut self, target: SocketAddr, bytes: usize) -> bool {
        let Some(unproven) = &mut self.unproven else { return true };
        // Where the peer was before it is challenged, too.
        let challenge = self.watch.take_challenge();
        if unproven.address != target {
            return true;
        }
        if unproven.went > 0 && unproven.went + bytes > 3 * unproven.came {
            return false;
        }
        unproven.went += bytes;
        if let Proof::Response(wanted) = &mut unproven.by {
            *wanted = challenge.or(*wanted);
        }
        true
    }
}
