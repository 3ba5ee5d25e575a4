//! Stateless cookies (RFC 6347 §4.2.1, RFC 9147 §5.1). A cookie contains the time at which it was made and the order of
//! the hello's extensions. The cookie ends with an authentication code over the time, the order, the addresses and the
//! hello. The key of the authentication code is a secret of the socket.

use crate::hello::{ORDER, Order};
use crate::secrets::Cookie;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use ring::hmac;
use std::net::{IpAddr, SocketAddr};

/// The key of the authentication code in cookies.
#[derive(Debug)]
pub(crate) struct Secret(hmac::Key);

impl Secret {
    /// Creates the key from secret bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Makes the cookie for a ClientHello that arrives at `now`. `addresses` holds our IP address and the peer's socket
    /// address.
    pub fn make(&self, now: Instant, addresses: (IpAddr, SocketAddr), order: Order, hello: &[u8]) -> Cookie {
        self.at(span(now), addresses, order, hello)
    }

    /// Returns whether this socket has made the cookie in the current or the previous time span, for these addresses
    /// and this hello.
    pub fn is_good(
        &self,
        now: Instant,
        addresses: (IpAddr, SocketAddr),
        hello: &[u8],
        cookie: &Cookie,
    ) -> bool {
        let now = span(now);
        let [a, b, c, d, ..] = *cookie;
        let created = u32::from_be_bytes([a, b, c, d]);
        // A cookie made at the end of a time span can come back in the next span. Therefore cookies of the previous
        // span are valid too.
        if now.wrapping_sub(created) > 1 {
            return false;
        }
        let right = self.at(created, addresses, order(cookie), hello);
        // The comparison takes constant time, so that an attacker cannot find the authentication code byte by byte.
        right.iter().zip(cookie).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }

    fn at(&self, span: u32, (local, peer): (IpAddr, SocketAddr), order: Order, hello: &[u8]) -> Cookie {
        let mut code = hmac::Context::with_key(&self.0);
        code.update(&span.to_be_bytes());
        code.update(&order);
        for address in [local, peer.ip()] {
            match address {
                IpAddr::V4(address) => code.update(&address.to_ipv6_mapped().octets()),
                IpAddr::V6(address) => code.update(&address.octets()),
            }
        }
        code.update(&peer.port().to_be_bytes());
        code.update(hello);
        let code = code.sign();
        let mut cookie = [0; 32];
        cookie[..4].copy_from_slice(&span.to_be_bytes());
        cookie[4..CODE_OFFSET].copy_from_slice(&order);
        cookie[CODE_OFFSET..].copy_from_slice(&code.as_ref()[..32 - CODE_OFFSET]);
        cookie
    }
}

/// Returns the order of the extensions in the first ClientHello. The cookie stores this order.
pub(crate) fn order(cookie: &Cookie) -> Order {
    let mut order = [0; ORDER];
    order.copy_from_slice(&cookie[4..CODE_OFFSET]);
    order
}

/// The offset of the authentication code in a cookie. The code has twenty bytes.
const CODE_OFFSET: usize = 4 + ORDER;

/// Returns the number of the time span that contains `now`.
fn span(now: Instant) -> u32 {
    (now.as_nanos() / SPAN.as_nanos() as u64) as u32
}

/// The length of a time span. A cookie is valid in the span in which it was made and in the next span. A client
/// therefore has at least one span to return the cookie.
const SPAN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_its_peer_its_hello_and_a_while() {
        let secret = Secret::new(&[7; 32]);
        let addresses = |port| (IpAddr::from([10, 0, 0, 1]), SocketAddr::from(([10, 0, 0, 2], port)));
        let at = |seconds: u64| Instant::from_millis(seconds * 1_000);
        let cookie = secret.make(at(59), addresses(5), [3; ORDER], b"hello");
        let is_good =
            |seconds, port, hello: &[u8]| secret.is_good(at(seconds), addresses(port), hello, &cookie);
        assert!(is_good(59, 5, b"hello") && is_good(60, 5, b"hello") && is_good(89, 5, b"hello"));
        assert!(!is_good(90, 5, b"hello"), "too old");
        assert!(!is_good(29, 5, b"hello"), "of a time to come");
        assert!(!is_good(60, 6, b"hello"), "another port");
        assert!(!is_good(60, 5, b"hallo"), "another hello");
        assert!(!Secret::new(&[8; 32]).is_good(at(60), addresses(5), b"hello", &cookie), "another secret");
        for bit in 0..256 {
            let mut changed = cookie;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!secret.is_good(at(60), addresses(5), b"hello", &changed), "bit {bit}");
        }
    }
}
