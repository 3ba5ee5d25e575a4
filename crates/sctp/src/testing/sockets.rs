//! The sockets of two endpoints, for tests and examples.
//!
//! [`SocketPair`] delivers packets between the endpoints without delay or loss. Use [`Pair`] for a network with delay
//! and loss.

use super::{Pair, Side, address, transmit_all};
use crate::Config;
use crate::socket::{SocketId, Sockets, Style};
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant};

/// The sockets of two endpoints, and the virtual time.
#[derive(Debug)]
pub struct SocketPair {
    /// The current virtual time.
    pub now: Instant,
    /// The sockets of the first endpoint.
    pub a: Sockets,
    /// The sockets of the second endpoint.
    pub b: Sockets,
}

impl SocketPair {
    /// Creates two endpoints with `paths` addresses each, as returned by [`address`].
    #[must_use]
    pub fn new(config: &Config, paths: usize) -> Self {
        let Pair { now, a, b, .. } = Pair::new(config.clone(), config.clone(), paths, 1);
        Self { now, a: Sockets::new(a), b: Sockets::new(b) }
    }

    /// Creates a one-to-one socket at each endpoint and an established association between them, over two paths.
    ///
    /// # Panics
    /// If no association can be established with `config`.
    #[must_use]
    pub fn connected(config: &Config) -> (Self, SocketId, SocketId) {
        let mut pair = Self::new(config, 2);
        let (client, listener) = (pair.a.socket(Style::OneToOne), pair.b.socket(Style::OneToOne));
        let peer = [0, 1].map(|path| address(Side::B, path));
        let listens = pair.b.bind(listener, 80).and_then(|()| pair.b.listen(listener, 1)).is_ok();
        let asked = pair.a.connect(pair.now, client, &peer, 80);
        pair.settle();
        match pair.b.accept(listener) {
            Ok(server) => (pair, client, server),
            Err(error) => panic!("no association comes up: {listens}, {asked:?}, {error}"),
        }
    }

    /// Runs both endpoints for one second of virtual time.
    pub fn settle(&mut self) {
        let end = self.now + Duration::from_secs(1);
        loop {
            let now = self.now;
            let [mut from, mut to] = [&mut self.a, &mut self.b];
            let mut silent = 0;
            while silent < 2 {
                let packets = transmit_all(from, now);
                silent = if packets.is_empty() { silent + 1 } else { 0 };
                packets.iter().for_each(|packet| to.handle_packet(now, packet.packet()));
                (from, to) = (to, from);
            }
            let deadlines = [self.a.poll_timeout(), self.b.poll_timeout()];
            let Some(next) = deadlines.into_iter().flatten().min().filter(|&next| next <= end) else {
                self.now = end;
                return;
            };
            self.now = now.max(next);
            self.a.handle_timeout(self.now);
            self.b.handle_timeout(self.now);
        }
    }
}
