//! Limits the bytes sent to a client that has not returned a cookie. The limit is three times the bytes received from
//! the client.
//!
//! RFC 9147 §5.1 and RFC 6347 §4.2.1: a request for a cookie is sent only in response to a hello, and is not
//! retransmitted on a timer. dimpl does retransmit the request on a timer. dimpl also sends it again when a small
//! fragment of a hello is repeated. The limit bounds these repetitions.

use crate::hello::RETRY;

/// A client that has not returned a cookie, with the numbers of bytes and of datagrams received from it and sent to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct UnvalidatedClient {
    received: [usize; 2],
    sent: [usize; 2],
}

impl UnvalidatedClient {
    /// Records a datagram received from the client.
    pub fn on_received(&mut self, datagram: &[u8]) {
        self.received = [self.received[0] + datagram.len(), self.received[1] + 1];
    }

    /// Returns whether the amplification limit permits sending a datagram to the client. `has_come` is true if the
    /// datagram answers a received datagram, and false if a timer caused it. dimpl sends a ServerHello only after the
    /// client has returned the cookie. The limit therefore does not apply to a ServerHello or to later datagrams.
    pub fn may_send(this: &mut Option<Self>, has_come: bool, datagram: &[u8]) -> bool {
        let Some(unvalidated) = this else { return true };
        if is_server_hello(datagram) {
            *this = None;
            return true;
        }
        let total = [unvalidated.sent[0] + datagram.len(), unvalidated.sent[1] + 1];
        // The limit must hold both for UDP payloads alone and for payloads with their UDP and IP headers.
        let size = |[bytes, datagrams]: [usize; 2], headers| bytes + headers * datagrams;
        let within = [0, HEADERS]
            .iter()
            .all(|&headers| size(total, headers) <= 3 * size(unvalidated.received, headers));
        let may_leave = has_come && within;
        if may_leave {
            unvalidated.sent = total;
        }
        may_leave
    }
}

/// Returns whether a datagram begins with a ServerHello that is not a HelloRetryRequest.
fn is_server_hello(datagram: &[u8]) -> bool {
    // A handshake record of epoch 0, whose content begins with the first byte of a ServerHello.
    let begins = datagram.first() == Some(&22)
        && datagram.get(3..5) == Some(&[0; 2])
        && datagram.get(13) == Some(&2)
        && datagram.get(19..22) == Some(&[0; 3]);
    begins && datagram.get(27..59).is_some_and(|random| random != RETRY)
}

/// The size of the UDP and IPv6 headers in bytes. With IPv4, the headers are smaller.
const HEADERS: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    fn server_hello(random: [u8; 32]) -> Vec<u8> {
        let mut datagram = vec![0; 25 + 2 + 32 + 40];
        (datagram[0], datagram[13]) = (22, 2);
        datagram[27..59].copy_from_slice(&random);
        datagram
    }

    #[test]
    fn requests_for_a_cookie_are_bounded_and_what_follows_one_is_not() {
        let mut this = Some(UnvalidatedClient::default());
        this.as_mut().expect("there").on_received(&[0; 60]);
        let retry = server_hello(RETRY);
        assert!(!UnvalidatedClient::may_send(&mut this, false, &retry), "nobody asked");
        assert!(UnvalidatedClient::may_send(&mut this, true, &retry));
        assert!(!UnvalidatedClient::may_send(&mut this, true, &retry), "198 bytes for 60");
        this.as_mut().expect("there").on_received(&[0; 6]);
        assert!(UnvalidatedClient::may_send(&mut this, true, &retry), "198 bytes for 66");
        assert!(UnvalidatedClient::may_send(&mut this, false, &server_hello([7; 32])) && this.is_none());
        assert!(UnvalidatedClient::may_send(&mut this, false, &[0; 1_400]));
    }
}
