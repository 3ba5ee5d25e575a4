//! Limits the handshakes of a server: answers hellos, asks for cookies, and decides which handshakes begin.
//!
//! The server keeps no state for a first hello. It answers with a cookie (RFC 6347 §4.2.1, RFC 9147 §5.1), and the
//! handshake begins when the client returns the cookie. At most [`MAX_HALF_OPEN`] such handshakes are under way. To
//! make room for a new handshake, the server drops one: the oldest handshake of the client address with the most
//! handshakes.
//!
//! A hello that spans several datagrams, or that needs another key share, cannot be answered without state. At most
//! [`MAX_UNPROVEN`] such hellos are kept. To make room for a new hello, the oldest hello is dropped. A peer may connect
//! again from the same port (RFC 6347 §4.2.8). The new connection replaces the old one only after its handshake is
//! done.

use super::{Key, OUTPUT, Peers};
use crate::connection::Connection;
use crate::cookie::order;
use crate::hello::{ClientHello, HelloAnswer};
use crate::outbox::SendMeta;
use crate::proof::UnvalidatedClient;
use crate::secrets::Cookie;
use anabranch_base::Instant;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

impl Peers {
    /// Handles a ClientHello. A ClientHello with a valid cookie begins a handshake. Any other ClientHello is answered,
    /// dropped, or left to the caller ([`HelloOutcome::Unproven`]).
    pub(super) fn answer(
        &mut self,
        now: Instant,
        (source, target): (SocketAddr, SocketAddr),
        hello: &ClientHello<'_>,
        mtu: usize,
    ) -> HelloOutcome {
        let (key, host) = ((target.ip(), source), self.host.clone());
        let Some(secret) = &self.secret else { return HelloOutcome::Done };
        let meta = SendMeta::own(target, source);
        let (newer, given) = match hello.answer(&host.parameters) {
            HelloAnswer::NoCommonParameters => {
                self.outbox.push(meta, &NO_COMMON);
                return HelloOutcome::Done;
            }
            HelloAnswer::NeedKeyShare => return HelloOutcome::Unproven,
            HelloAnswer::RequestCookie(newer) => (newer, None),
            HelloAnswer::CheckCookie(newer, cookie) => (newer, Some(cookie)),
        };
        let is_good = |cookie: &Cookie, padded: bool| {
            let lasting = hello.lasting(newer, &order(cookie), padded);
            secret.is_good(now, key, &lasting, cookie).then_some((*cookie, padded))
        };
        let good = given.as_ref().and_then(|cookie| is_good(cookie, false).or_else(|| is_good(cookie, true)));
        let Some((cookie, padded)) = good else {
            // RFC 6347 §4.2.1: in DTLS 1.2, a client with an invalid cookie is asked for a cookie again. In DTLS 1.3,
            // its hello is dropped, because a second HelloRetryRequest is not allowed (RFC 8446 §4.1.4).
            if given.is_none() || !newer {
                let order = hello.order().unwrap_or_default();
                let cookie = secret.make(now, key, order, &hello.lasting(newer, &order, false));
                let request = hello.request_cookie(newer, &host.parameters, &cookie).unwrap_or_default();
                self.outbox.push(meta, &request);
            }
            return HelloOutcome::Done;
        };
        let is_this = |connection: &Connection| connection.cookie == Some(cookie);
        if self.half_open.get(&key).is_some_and(|(_, connection)| is_this(connection)) {
            return HelloOutcome::Again;
        }
        if self.open.get(&key).is_some_and(is_this) {
            return HelloOutcome::Done;
        }
        let request = hello.request_cookie(newer, &host.parameters, &cookie).unwrap_or_default();
        let before = (cookie, &hello.first(newer, &order(&cookie), padded)[..], &request[..]);
        let entered = OUTPUT.with_borrow_mut(|output| Connection::enter(&host, mtu, now, before, output));
        match entered {
            Ok(connection) => {
                self.join(key, connection);
                HelloOutcome::Begun
            }
            Err(_) => HelloOutcome::Done,
        }
    }

    /// Adds a handshake with a client whose address is validated. If too many handshakes are under way, an older
    /// handshake is dropped.
    fn join(&mut self, key: Key, connection: Connection) {
        self.remove(true, key);
        if self.order[1].len() >= MAX_HALF_OPEN {
            self.drop_oldest_handshake();
        }
        self.last_number += 1;
        self.order[1].insert(self.last_number, key);
        self.half_open.insert(key, (self.last_number, connection));
    }

    /// Drops the oldest handshake of the client address that has the most handshakes under way.
    fn drop_oldest_handshake(&mut self) {
        let mut many: BTreeMap<IpAddr, (usize, std::cmp::Reverse<u64>)> = BTreeMap::new();
        for (number, key) in self.order[1].iter().rev() {
            let of_it = many.entry(key.1.ip()).or_insert((0, std::cmp::Reverse(*number)));
            *of_it = (of_it.0 + 1, std::cmp::Reverse(*number));
        }
        if let Some((_, std::cmp::Reverse(number))) = many.into_values().max()
            && let Some(key) = self.order[1].get(&number).copied()
        {
            self.remove(true, key);
        }
    }

    /// Begins a handshake for a hello that cannot be answered without keeping state. If too many of these handshakes
    /// are under way, the oldest is dropped.
    pub(super) fn admit(&mut self, now: Instant, key: Key, mtu: usize) {
        if self.half_open.contains_key(&key) {
            return;
        }
        if self.order[0].len() >= MAX_UNPROVEN
            && let Some(oldest) = self.order[0].first_key_value().map(|(_, key)| *key)
        {
            self.remove(true, oldest);
        }
        if let Ok(mut connection) = Connection::begin(&self.host, false, "", mtu, now) {
            connection.unvalidated = Some(UnvalidatedClient::default());
            self.last_number += 1;
            self.order[0].insert(self.last_number, key);
            self.half_open.insert(key, (self.last_number, connection));
        }
    }
}

/// What `answer` has done with a ClientHello.
pub(super) enum HelloOutcome {
    /// The hello was answered or ignored.
    Done,
    /// The hello belongs to a handshake that is under way.
    Again,
    /// The hello has begun a handshake.
    Begun,
    /// The hello cannot be answered without keeping state.
    Unproven,
}

/// A handshake_failure alert (RFC 8446 §6.2). It is sent if client and server have no version or no cipher suite in
/// common.
const NO_COMMON: [u8; 15] = [21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 40];

/// The maximum number of handshakes under way with clients whose addresses are validated. Each handshake takes some
/// tens of kilobytes of memory.
const MAX_HALF_OPEN: usize = 512;
/// The maximum number of handshakes under way with clients that have not returned a cookie. Each handshake takes some
/// kilobytes of memory.
const MAX_UNPROVEN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::Pair;
    use crate::{Version, peers};
    use anabranch_tls::Surroundings;
    use std::rc::Rc;

    const MTU: usize = 1_400;

    fn server() -> Peers {
        let pair = Pair::new(Version::From12, 0).expect("a pair");
        let host = Rc::new(pair.host_config(true, Surroundings::Real).expect("a server"));
        Peers::new(host, 443, Rc::<std::cell::RefCell<peers::Shared>>::default(), 1)
    }

    /// Returns the key of a client at 10.0.0.`host` with this port.
    fn client(host: u8, port: u16) -> Key {
        (IpAddr::from([10, 0, 0, 1]), SocketAddr::from(([10, 0, 0, host], port)))
    }

    impl Peers {
        /// Begins a handshake with a client that has returned its cookie.
        fn begin_with(&mut self, key: Key) {
            let connection = Connection::begin(&self.host, false, "", MTU, Instant::ZERO);
            self.join(key, connection.expect("a handshake"));
        }
    }

    #[test]
    fn the_address_with_most_handshakes_makes_room() {
        let mut server = server();
        // Twelve hosts begin one handshake each. Then host 2 begins two thousand handshakes, and host 200 begins one.
        (0..12).for_each(|host| server.begin_with(client(100 + host, 5_000)));
        (0..2_000).for_each(|port| server.begin_with(client(2, port)));
        server.begin_with(client(200, 5_000));
        assert_eq!((server.half_open.len(), server.order[1].len()), (MAX_HALF_OPEN, MAX_HALF_OPEN));
        for host in (0..12).map(|host| 100 + host).chain([200]) {
            assert!(server.half_open.contains_key(&client(host, 5_000)), "host {host}");
        }
        let is_there = |port| server.half_open.contains_key(&client(2, port));
        let oldest = 2_000 - (MAX_HALF_OPEN as u16 - 13);
        assert!(!is_there(oldest - 1) && is_there(oldest) && is_there(1_999), "its oldest ones are gone");
    }

    #[test]
    fn of_hellos_that_have_to_be_kept_the_oldest_makes_room() {
        let mut server = server();
        server.begin_with(client(2, 5_000));
        (0..200).for_each(|host| server.admit(Instant::ZERO, client(host, 1), MTU));
        assert_eq!((server.order[0].len(), server.half_open.len()), (MAX_UNPROVEN, MAX_UNPROVEN + 1));
        let is_there = |host| server.half_open.contains_key(&client(host, 1));
        assert!(!is_there(199 - MAX_UNPROVEN as u8) && is_there(200 - MAX_UNPROVEN as u8) && is_there(199));
        assert!(server.half_open.contains_key(&client(2, 5_000)), "a returned cookie counts elsewhere");
    }
}
