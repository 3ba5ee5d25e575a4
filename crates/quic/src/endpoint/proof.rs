//! What goes to the address that a peer has moved to, until it has shown that it is there.
//!
//! Home of RFC 9000 §9.3.1 and §8.2 as far as they are ours: quinn lets a whole packet go as long as anything is left of three
//! times what came, and its search for the path's MTU does not ask. A stranger who has one small packet come from
//! somebody else's address must not gain by that.

use super::Held;
use std::net::SocketAddr;

/// An address of which nobody has shown that it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unproven {
    address: SocketAddr,
    /// Bytes that came from there, and went there.
    came: usize,
    went: usize,
    /// What whoever is there is to repeat.
    challenge: Option<u64>,
}

impl Held {
    /// A datagram of so many bytes has come from `source`, while the peer seemed to be `before`.
    pub(super) fn moves(&mut self, before: SocketAddr, source: SocketAddr, bytes: usize) {
        let remote = self.connection.remote_address();
        if remote != before {
            let _ = self.watch.take_challenge();
            self.unproven = Some(Unproven { address: remote, came: bytes, went: 0, challenge: None });
            return;
        }
        let Some(unproven) = self.unproven.as_mut().filter(|unproven| unproven.address == source) else {
            return;
        };
        unproven.came += bytes;
        let response = self.watch.take_response();
        if response.is_some() && response == unproven.challenge {
            self.unproven = None;
        }
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
        unproven.challenge = challenge.or(unproven.challenge);
        true
    }
}
