//! The same bulk transfer over quinn's state machine instead of SCTP over DTLS, with the same cipher and datagram size.
//! It uses one QUIC stream, and both ends run in one thread.

use anabranch_benches::thread_cpu;
use anabranch_tls::Identity;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ServerConfig, StreamId, TransportConfig, VarInt,
};
use ring::aead::{AES_128_GCM, Algorithm};
use rustls::crypto::{CryptoProvider, ring as provider};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct BoundQuinn {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    at: SocketAddr,
}

pub struct Bulk {
    ends: [BoundQuinn; 2],
    now: Instant,
    stream: Option<StreamId>,
    message: Vec<u8>,
    datagrams: Vec<u8>,
}

impl Bulk {
    pub fn new(cipher: &'static Algorithm) -> Self {
        let identity = Identity::self_signed(&["server.test".to_owned()]).expect("a certificate");
        let suite = if cipher == &AES_128_GCM {
            provider::cipher_suite::TLS13_AES_128_GCM_SHA256
        } else {
            provider::cipher_suite::TLS13_AES_256_GCM_SHA384
        };
        // QUIC Initial packets need AES-128-GCM, whatever cipher suite is negotiated.
        let suites = [suite, provider::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let mut cipher_suites = suites.to_vec();
        cipher_suites.dedup();
        let crypto = Arc::new(CryptoProvider { cipher_suites, ..provider::default_provider() });
        let only = Arc::new(CryptoProvider { cipher_suites: vec![suite], ..provider::default_provider() });
        let initial = crypto.cipher_suites.iter().find_map(|suite| {
            let suite = suite.tls13()?;
            (suite.common.suite == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256)
                .then(|| suite.quic_suite())?
        });
        let initial = initial.expect("a suite for QUIC");
        let builder = || {
            rustls::ClientConfig::builder_with_provider(only.clone())
                .with_protocol_versions(&[&rustls::version::TLS13])
                .expect("a version")
        };
        let mut roots = rustls::RootCertStore::empty();
        roots.add(identity.chain[0].clone()).expect("a root");
        let client = builder().with_root_certificates(roots).with_no_client_auth();
        let server = rustls::ServerConfig::builder_with_provider(only.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("a version")
            .with_no_client_auth()
            .with_single_cert(identity.chain.clone(), identity.key.clone_key())
            .expect("a certificate");
        let client = QuicClientConfig::with_initial(Arc::new(client), initial).expect("a suite");
        let server = QuicServerConfig::with_initial(Arc::new(server), initial).expect("a suite");
        // As in the SCTP transfer, UDP payloads have at most 1472 bytes, and buffers have 1 MiB.
        let mut transport = TransportConfig::default();
        transport.initial_mtu(1_472).min_mtu(1_472).mtu_discovery_config(None);
        transport.send_window(1 << 20).receive_window(VarInt::from_u32(1 << 20));
        transport.stream_receive_window(VarInt::from_u32(1 << 20));
        let transport = Arc::new(transport);
        let mut server_config = ServerConfig::with_crypto(Arc::new(server));
        server_config.transport_config(transport.clone());
        let mut client_config = ClientConfig::new(Arc::new(client));
        client_config.transport_config(transport);
        let own = Arc::new(EndpointConfig::default());
        let end = |server: Option<Arc<ServerConfig>>, last: u8| BoundQuinn {
            endpoint: Endpoint::new(own.clone(), server, false, None),
            connection: None,
            at: SocketAddr::from(([10, 0, 0, last], 4433)),
        };
        let mut ends = [end(None, 1), end(Some(Arc::new(server_config)), 2)];
        let now = Instant::now();
        let to = ends[1].at;
        ends[0].connection =
            Some(ends[0].endpoint.connect(now, client_config, to, "server.test").expect("begun"));
        let mut this = Self { ends, now, stream: None, message: vec![7; 1 << 16], datagrams: Vec::new() };
        for _ in 0..20 {
            this.turn();
        }
        let connection = &mut this.ends[0].connection.as_mut().expect("begun").1;
        this.stream = connection.streams().open(Dir::Uni);
        assert!(this.stream.is_some(), "no connection");
        this
    }

    /// Transfers data and returns the processor seconds per gigabyte.
    pub fn cost(&mut self) -> f64 {
        const BYTES: usize = 200_000_000;
        let (began, mut got) = (thread_cpu(), 0);
        while got < BYTES {
            let stream = self.stream.expect("a stream");
            let connection = &mut self.ends[0].connection.as_mut().expect("begun").1;
            while let Ok(1..) = connection.send_stream(stream).write(&self.message) {}
            got += self.turn();
        }
        (thread_cpu() - began) / got as f64 * 1e9
    }

    fn turn(&mut self) -> usize {
        self.now += Duration::from_micros(100);
        [0, 1].map(|from| self.carry(from)).iter().sum()
    }

    /// Reads all data that the server has received.
    fn read(&mut self) -> usize {
        let Some((_, connection)) = &mut self.ends[1].connection else { return 0 };
        let mut got = 0;
        while let Some(event) = connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                panic!("{reason}");
            }
        }
        while self.stream.is_none() && connection.streams().accept(Dir::Uni).is_some() {}
        let Some(stream) = self.stream else { return 0 };
        let mut stream = connection.recv_stream(stream);
        let Ok(mut chunks) = stream.read(true) else { return 0 };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            got += chunk.bytes.len();
        }
        let _ = chunks.finalize();
        got
    }

    /// Carries the datagrams of end `from` to the other end, batch by batch. Returns the number of stream bytes that
    /// were read.
    fn carry(&mut self, from: usize) -> usize {
        let mut got = self.read();
        while self.carry_one(from) {
            got += self.read();
        }
        got
    }

    /// Carries one batch of datagrams. Returns false if there was none.
    fn carry_one(&mut self, from: usize) -> bool {
        let [first, second] = &mut self.ends;
        let (end, peer) = if from == 0 { (first, second) } else { (second, first) };
        let Some((handle, connection)) = &mut end.connection else { return false };
        if connection.poll_timeout().is_some_and(|at| at <= self.now) {
            connection.handle_timeout(self.now);
        }
        if from == 0 {
            while connection.poll().is_some() {}
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = end.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        self.datagrams.clear();
        // A call of `poll_transmit` writes at most `SEGMENTS` datagrams, as does a call of our DTLS engine.
        let Some(sent) = connection.poll_transmit(self.now, crate::SEGMENTS, &mut self.datagrams) else {
            return false;
        };
        let stride = sent.segment_size.unwrap_or(sent.size);
        for datagram in self.datagrams[..sent.size].chunks(stride) {
            let mut answer = Vec::new();
            // quinn's `handle` needs a separate buffer for each datagram.
            let event = peer.endpoint.handle(self.now, end.at, None, None, datagram.into(), &mut answer);
            match event {
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    if let Some((_, connection)) = &mut peer.connection {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    peer.connection = peer.endpoint.accept(incoming, self.now, &mut answer, None).ok();
                }
                _ => {}
            }
        }
        true
    }
}
