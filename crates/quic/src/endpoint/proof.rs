//! Limits what is sent to an address that is not validated: a client's address at the start of the handshake, and the
//! address that a peer has moved to.
//!
//! Home of RFC 9000 §8.1, §9.3.1 and §8.2 as far as they are ours. quinn alone is not strict enough: it sends a whole
//! packet as long as any part of the limit (three times the received bytes) is left. It counts packets from other
//! addresses at the start of the handshake, and its search for the path's MTU ignores the limit. An attacker who spoofs
//! one small packet must not gain by that.

use super::Held;
use std::net::SocketAddr;

/// An address that is not validated yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unproven {
    address: SocketAddr,
    /// Bytes received from the address, and sent to it.
    came: usize,
    went: usize,
    /// What validates it.
    by: Proof,
}

/// What proves that a peer receives packets at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Proof {
    /// RFC 9000 §8.1: a Handshake packet.
    Handshake,
    /// RFC 9000 §8.2: the token of the challenge that the peer has to repeat; `None` until the challenge has been sent.
    Response(Option<u64>),
}

impl Unproven {
    /// A client that has sent `came` bytes without a token.
    pub(super) fn begins(address: SocketAddr, came: usize) -> Self {
        Self { address, came, went: 0, by: Proof::Handshake }
    }
}

impl Held {
    /// Handles a datagram of `bytes` bytes from `source`; `before` was the peer's address before it.
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

    /// Whether nothing may be sent until more data arrives, because the next packet may have full size. The client's
    /// timer makes it send more (RFC 9002 §6.2.2.1).
    pub(super) fn is_held_back(&self) -> bool {
        let whole = usize::from(self.connection.current_mtu());
        self.unproven.is_some_and(|unproven| {
            unproven.by == Proof::Handshake && unproven.went + whole > 3 * unproven.came
        })
    }

    /// Whether a datagram of `bytes` bytes may be sent to `target`; otherwise it is dropped. The first one may have full
    /// size: it has the challenge, which §8.2.1 wants on a packet of full size.
    pub(super) fn may_leave(&mut self, target: SocketAddr, bytes: usize) -> bool {
        let Some(unproven) = &mut self.unproven else { return true };
        // The peer's previous address is challenged, too.
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
