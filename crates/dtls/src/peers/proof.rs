//! Limits what is sent to a client whose hello had to be kept without a cookie: at most three times the received bytes.
//!
//! RFC 9147 §5.1 and RFC 6347 §4.2.1: a cookie request answers a hello and is not retransmitted on a timer, but the
//! library does that. Duplicates of a small fragment of a hello make the library send it again, too.

use crate::hello::RETRY;

/// Bytes and datagrams received from a client, and sent to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Unproven {
    came: [usize; 2],
    went: [usize; 2],
}

impl Unproven {
    /// Records a received datagram.
    pub fn came(&mut self, datagram: &[u8]) {
        self.came = [self.came[0] + datagram.len(), self.came[1] + 1];
    }

    /// Whether a datagram may be sent; `has_come` is true if it answers a received one, false if a timer caused it. The
    /// library sends a ServerHello only after its cookie has come back, so from then on there is no limit.
    pub fn may_leave(this: &mut Option<Self>, has_come: bool, datagram: &[u8]) -> bool {
        let Some(unproven) = this else { return true };
        if is_server_hello(datagram) {
            *this = None;
            return true;
        }
        let went = [unproven.went[0] + datagram.len(), unproven.went[1] + 1];
        // Both with the headers of UDP and IP, and without them.
        let size = |[bytes, datagrams]: [usize; 2], headers| bytes + headers * datagrams;
        let within =
            [0, HEADERS].iter().all(|&headers| size(went, headers) <= 3 * size(unproven.came, headers));
        let may_leave = has_come && within;
        if may_leave {
            unproven.went = went;
        }
        may_leave
    }
}

/// Whether a datagram begins with a ServerHello that does not ask for another hello.
fn is_server_hello(datagram: &[u8]) -> bool {
    // A handshake record of epoch 0, with the first byte of the message.
    let begins = datagram.first() == Some(&22)
        && datagram.get(3..5) == Some(&[0; 2])
        && datagram.get(13) == Some(&2)
        && datagram.get(19..22) == Some(&[0; 3]);
    begins && datagram.get(27..59).is_some_and(|random| random != RETRY)
}

/// The size of the UDP and IPv6 headers, which are the larger ones.
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
        let mut this = Some(Unproven::default());
        this.as_mut().expect("there").came(&[0; 60]);
        let retry = server_hello(RETRY);
        assert!(!Unproven::may_leave(&mut this, false, &retry), "nobody asked");
        assert!(Unproven::may_leave(&mut this, true, &retry));
        assert!(!Unproven::may_leave(&mut this, true, &retry), "198 bytes for 60");
        this.as_mut().expect("there").came(&[0; 6]);
        assert!(Unproven::may_leave(&mut this, true, &retry), "198 bytes for 66");
        assert!(Unproven::may_leave(&mut this, false, &server_hello([7; 32])) && this.is_none());
        assert!(Unproven::may_leave(&mut this, false, &[0; 1_400]));
    }
}
