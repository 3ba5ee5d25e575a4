//! Runs handshakes between a dimpl client and a dimpl server, observes their secrets, and delivers the datagrams
//! between them.

use crate::provider;
use crate::records::Records;
use crate::secrets::{ObservedSecrets, watched};
use anabranch_base::Instant;
use anabranch_tls::Identity;
use dimpl::crypto::{Dtls12CipherSuite, Dtls13CipherSuite};
use dimpl::{Config, Dtls, DtlsCertificate, Output};
use std::sync::Arc;
use std::time::Duration;

/// A DTLS version and one of its cipher suites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Suite {
    V12(Dtls12CipherSuite),
    V13(Dtls13CipherSuite),
}

pub(super) const SUITES: [Suite; 6] = [
    Suite::V12(Dtls12CipherSuite::ECDHE_ECDSA_AES128_GCM_SHA256),
    Suite::V12(Dtls12CipherSuite::ECDHE_ECDSA_AES256_GCM_SHA384),
    Suite::V12(Dtls12CipherSuite::ECDHE_ECDSA_CHACHA20_POLY1305_SHA256),
    Suite::V13(Dtls13CipherSuite::AES_128_GCM_SHA256),
    Suite::V13(Dtls13CipherSuite::AES_256_GCM_SHA384),
    Suite::V13(Dtls13CipherSuite::CHACHA20_POLY1305_SHA256),
];
pub(super) const V12: Suite = SUITES[0];
pub(super) const V13: Suite = SUITES[3];

/// One end of a connection: a dimpl connection, and our record layer with the same keys.
pub(super) struct RecordEndpoint {
    pub library: Dtls,
    pub ours: Option<Records>,
    pub secrets: ObservedSecrets,
    pub open: bool,
    client: bool,
    update_after: u64,
    began: std::time::Instant,
    pub now: Instant,
    buffer: Vec<u8>,
}

impl RecordEndpoint {
    fn new(suite: Suite, client: bool, library_limit: u64, update_after: u64) -> Self {
        let identity = Identity::self_signed(&["server.test".to_owned()]).expect("an identity");
        let certificate = DtlsCertificate {
            certificate: identity.chain[0].to_vec(),
            private_key: identity.key.secret_der().to_vec(),
        };
        let (old, new) = match suite {
            Suite::V12(suite) => (vec![suite], vec![]),
            Suite::V13(suite) => (vec![], vec![suite]),
        };
        let config = Config::builder()
            .mtu(1_400)
            .require_client_certificate(false)
            .use_server_cookie(false)
            .aead_encryption_limit(library_limit)
            .dangerously_set_rng_seed(7)
            .dtls12_cipher_suites(&old)
            .dtls13_cipher_suites(&new)
            .with_crypto_provider(provider::real());
        let config = Arc::new(config.build().expect("a configuration"));
        #[expect(clippy::disallowed_methods, reason = "the library counts from somewhere")]
        let began = std::time::Instant::now();
        let mut library = match suite {
            Suite::V12(_) => Dtls::new_12(config, certificate, began),
            Suite::V13(_) => Dtls::new_13(config, certificate, began),
        };
        library.set_active(client);
        Self {
            library,
            ours: None,
            secrets: ObservedSecrets::default(),
            open: false,
            client,
            update_after,
            began,
            now: Instant::ZERO,
            buffer: vec![0; 1 << 16],
        }
    }

    /// Passes a datagram to dimpl, or makes dimpl handle its timeouts. Returns the datagrams that dimpl sends, and the
    /// packets that it delivers.
    pub fn library(&mut self, datagram: Option<&[u8]>) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let now = self.began + Duration::from_nanos(self.now.as_nanos());
        let ((), seen) = watched(|| {
            self.library.handle_timeout(now).expect("goes on");
            if let Some(datagram) = datagram {
                self.library.handle_packet(datagram).expect("taken");
            }
        });
        self.secrets.add(seen);
        if self.ours.is_none() {
            self.ours = Records::of(&self.secrets, self.client, self.update_after);
        }
        self.drain()
    }

    /// Makes dimpl encrypt a packet. Returns the datagrams.
    pub fn library_seals(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        self.library.send_application_data(packet).expect("sealed");
        self.drain().0
    }

    fn drain(&mut self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let (mut sent, mut packets) = (Vec::new(), Vec::new());
        loop {
            match self.library.poll_output(&mut self.buffer) {
                Output::Packet(packet) => sent.push(packet.to_vec()),
                Output::ApplicationData(packet) => packets.push(packet.to_vec()),
                Output::Connected => self.open = true,
                Output::Timeout(_) => break,
                Output::BufferTooSmall { .. } => panic!("a larger buffer"),
                _ => {}
            }
        }
        if let Some(ours) = &mut self.ours {
            sent.iter().for_each(|datagram| ours.adopt(datagram, self.now));
        }
        (sent, packets)
    }

    pub fn records(&mut self) -> &mut Records {
        self.ours.as_mut().expect("keys")
    }

    /// Passes a datagram to our record layer. Returns the packets that the record layer delivers, and the datagrams
    /// that it sends.
    pub fn ours(&mut self, datagram: &[u8]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let (mut packets, mut sent) = (Vec::new(), Vec::new());
        let now = self.now;
        let ended = self.records().receive(
            now,
            &mut datagram.to_vec(),
            |packet| packets.push(packet.to_vec()),
            |datagram| sent.push(datagram.to_vec()),
        );
        assert_eq!(ended, None);
        (packets, sent)
    }

    /// Makes our record layer encrypt a packet. Returns the record.
    pub fn ours_seals(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.records().seal(packet, &mut out).expect("sealed");
        assert_eq!(out.len(), packet.len() + self.records().overhead());
        out
    }
}

/// A client and a server, and all datagrams that they sent during the handshake.
pub(super) struct HandshakePair {
    pub ends: [RecordEndpoint; 2],
    pub sent: [Vec<Vec<u8>>; 2],
}

/// Creates a client and a server that have done no handshake. The library dimpl updates its keys after `library_limit`
/// records. The code under test updates its keys after `update_after` records.
pub(super) fn unconnected_pair(suite: Suite, library_limit: u64, update_after: u64) -> HandshakePair {
    let ends = [true, false].map(|client| RecordEndpoint::new(suite, client, library_limit, update_after));
    HandshakePair { ends, sent: Default::default() }
}

impl HandshakePair {
    /// Delivers datagrams until none is under way. `is_lost(sender, number)` decides whether a datagram is dropped. The
    /// datagrams of each sender are numbered from 0.
    pub fn shake_hands(&mut self, mut is_lost: impl FnMut(usize, usize) -> bool) {
        let mut under_way: Vec<(usize, Vec<u8>)> =
            self.ends[0].library(None).0.into_iter().map(|datagram| (0, datagram)).collect();
        under_way.reverse();
        while let Some((from, datagram)) = under_way.pop() {
            self.sent[from].push(datagram.clone());
            if is_lost(from, self.sent[from].len() - 1) {
                continue;
            }
            let (answers, _) = self.ends[1 - from].library(Some(&datagram));
            under_way.splice(0..0, answers.into_iter().rev().map(|datagram| (1 - from, datagram)));
        }
    }
}

/// Creates two ends and completes their handshake. From then on, our record layer handles the datagrams. dimpl handles
/// a datagram only if the test passes it to dimpl.
pub(super) fn connected_pair(suite: Suite, library_limit: u64, update_after: u64) -> HandshakePair {
    let mut pair = unconnected_pair(suite, library_limit, update_after);
    pair.shake_hands(|_, _| false);
    let HandshakePair { ends: [client, server], sent } = &mut pair;
    assert!(client.open && server.open, "{suite:?}: not open");
    // Our record layer also processes the datagrams that dimpl has handled, so that they count as received.
    // `Connection` does the same. In DTLS 1.3, one of the server's datagrams acknowledges the client's last flight.
    for datagram in &sent[0] {
        assert_eq!(server.ours(datagram), (vec![], vec![]));
    }
    server.ours.as_mut().expect("keys").begin(server.now);
    client.ours.as_mut().expect("keys").begin(client.now);
    for datagram in &sent[1] {
        assert_eq!(client.ours(datagram), (vec![], vec![]));
    }
    pair
}

pub(super) const NEVER: u64 = 1 << 40;
