//! Limits the bytes that are sent to an address that is not validated: a client's address at the start of the
//! handshake, or an address to which a peer has moved.
//!
//! Implements the parts of RFC 9000 §8.1, §9.3.1 and §8.2 that quinn does not implement. quinn sends a whole packet as
//! long as any part of the limit (three times the received bytes) is left. At the start of the handshake, it also
//! counts packets from other addresses. Its search for the path MTU ignores the limit. The stricter limit here keeps an
//! attacker who spoofs one small packet from amplifying traffic.

use super::ConnectionEntry;
use std::net::SocketAddr;

/// An address that is not validated yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UnvalidatedAddress {
    address: SocketAddr,
    /// The bytes received from the address (`received`), and the bytes sent to the address (`sent`).
    received: usize,
    sent: usize,
    /// The evidence that will validate the address.
    evidence: Proof,
}

/// The packet or frame that will prove that a peer receives packets at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Proof {
    /// RFC 9000 §8.1: a Handshake packet from the peer.
    Handshake,
    /// RFC 9000 §8.2: a PATH_RESPONSE frame that returns the token of this endpoint's PATH_CHALLENGE. The token is
    /// `None` until the PATH_CHALLENGE has been sent.
    Response(Option<u64>),
}

impl UnvalidatedAddress {
    /// Starts to limit the bytes sent to a new client. Its first datagram had `received` bytes and no token.
    pub(super) fn for_new_client(address: SocketAddr, received: usize) -> Self {
        Self { address, received, sent: 0, evidence: Proof::Handshake }
    }
}

impl ConnectionEntry {
    /// Handles a datagram of `bytes` bytes from `source`. `before` is the peer's address before this datagram arrived.
    pub(super) fn on_datagram_from(&mut self, before: SocketAddr, source: SocketAddr, bytes: usize) {
        let remote = self.connection.remote_address();
        if remote != before {
            let _ = self.watch.take_challenge();
            let evidence = Proof::Response(None);
            self.unvalidated =
                Some(UnvalidatedAddress { address: remote, received: bytes, sent: 0, evidence });
            return;
        }
        if self.unvalidated.is_some_and(|unvalidated| unvalidated.evidence == Proof::Handshake)
            && self.watch.has_handshake_packet()
        {
            self.unvalidated = None;
        }
        let Some(unvalidated) = self.unvalidated.as_mut().filter(|unvalidated| unvalidated.address == source)
        else {
            return;
        };
        unvalidated.received += bytes;
        let response = self.watch.take_response();
        if response.is_some() && unvalidated.evidence == Proof::Response(response) {
            self.unvalidated = None;
        }
    }

    /// Returns whether sending to the unvalidated address must pause, because a full-size packet would exceed three
    /// times the bytes received from it. More packets arrive when the client's timer expires (RFC 9002 §6.2.2.1).
    pub(super) fn is_held_back(&self) -> bool {
        let whole = usize::from(self.connection.current_mtu());
        self.unvalidated.is_some_and(|unvalidated| {
            unvalidated.evidence == Proof::Handshake && unvalidated.sent + whole > 3 * unvalidated.received
        })
    }

    /// Returns whether a datagram of `bytes` bytes may be sent to `target`; otherwise the caller drops the datagram.
    /// The first datagram may exceed the limit, because quinn always pads a datagram with PATH_CHALLENGE to 1,200
    /// bytes. RFC 9000 §8.2.1 requires this padding only within the limit.
    pub(super) fn may_send(&mut self, target: SocketAddr, bytes: usize) -> bool {
        let Some(unvalidated) = &mut self.unvalidated else { return true };
        // quinn also sends PATH_CHALLENGE to the peer's previous address. The token of that challenge must not validate
        // the new address. Therefore every datagram removes the token from the watch, but only a datagram to the new
        // address uses the token.
        let challenge = self.watch.take_challenge();
        if unvalidated.address != target {
            return true;
        }
        if unvalidated.sent > 0 && unvalidated.sent + bytes > 3 * unvalidated.received {
            return false;
        }
        unvalidated.sent += bytes;
        if let Proof::Response(expected) = &mut unvalidated.evidence {
            *expected = challenge.or(*expected);
        }
        true
    }
}
