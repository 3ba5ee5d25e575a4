//! Packet protection keys that report every encrypted or decrypted packet to the connection's [`Watch`].
//!
//! The cryptography is that of rustls and quinn. The keys in this module wrap quinn's keys. A wrapper reads each packet
//! before quinn's key encrypts it or after quinn's key has decrypted it, and does not change the packet.

use crate::qlog;
use crate::watch::{FlowControlLimits, Level, Watch};
use anabranch_tls::CertificateRejection;
use bytes::BytesMut;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use std::any::Any;
use std::sync::Arc;

/// Starts the client's side of a connection's handshake.
pub(crate) struct WatchedClient {
    pub(crate) inner: Arc<QuicClientConfig>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) rejection: CertificateRejection,
    /// Whether data that is written before the handshake is done may be sent as early data.
    pub(crate) early: bool,
}

impl ClientConfig for WatchedClient {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.clone().start_session(version, server_name, params)?;
        let (watch, rejection) = (self.watch.clone(), Some(self.rejection.clone()));
        Ok(Box::new(WatchedSession {
            inner,
            watch,
            side: Side::Client,
            has_handshake_keys: false,
            rejection,
            early: self.early,
        }))
    }
}

/// Starts the server's side of a connection's handshake.
pub(crate) struct WatchedServer {
    pub(crate) inner: Arc<QuicServerConfig>,
    pub(crate) watch: Arc<Watch>,
}

impl ServerConfig for WatchedServer {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        let inner = self.inner.clone().start_session(version, params);
        Box::new(WatchedSession {
            inner,
            watch: self.watch.clone(),
            side: Side::Server,
            has_handshake_keys: false,
            rejection: None,
            early: true,
        })
    }
}

/// The TLS session of a connection, whose keys are wrapped.
struct WatchedSession {
    inner: Box<dyn Session>,
    watch: Arc<Watch>,
    side: Side,
    /// Whether quinn has taken the Handshake keys. The keys that quinn takes after the Handshake keys protect
    /// application data.
    has_handshake_keys: bool,
    /// Holds the reason why the client does not trust the server's certificate; `None` for a server.
    rejection: Option<CertificateRejection>,
    early: bool,
}

impl WatchedSession {
    fn key(&self, level: Level, inner: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(Key::new(inner, self.watch.clone(), level, false))
    }

    fn pair(&self, level: Level, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: self.key(level, keys.local), remote: self.key(level, keys.remote) }
    }

    fn keys(&self, level: Level, keys: Keys) -> Keys {
        Keys { header: keys.header, packet: self.pair(level, keys.packet) }
    }
}

impl Session for WatchedSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.keys(Level::Initial, self.inner.initial_keys(dst_cid, side))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let (header, packet) = self.inner.early_crypto().filter(|_| self.early)?;
        let key = Key::new(packet, self.watch.clone(), Level::Data, true);
        Some((header, Box::new(key)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf).map_err(|error| {
            match self.rejection.as_ref().and_then(CertificateRejection::take) {
                None => error,
                // The error message for a rejected certificate is the same as in TLS over TCP. If the error code is not
                // a TLS alert about certificates, certificate_unknown replaces it.
                Some(line) if is_of_certificates(error.code) => TransportError { reason: line, ..error },
                Some(line) => TransportError {
                    code: TransportErrorCode::crypto(CERTIFICATE_UNKNOWN),
                    reason: line,
                    ..error
                },
            }
        })
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let params = self.inner.transport_parameters()?;
        if let Some(params) = &params {
            self.watch.set_initial_limits(flow_control_limits(params, self.side));
        }
        Ok(params)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        let level = if std::mem::replace(&mut self.has_handshake_keys, true) {
            Level::Data
        } else {
            Level::Handshake
        };
        Some(self.keys(level, keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.inner.next_1rtt_keys()?;
        Some(self.pair(Level::Data, keys))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// The TLS alert (RFC 8446 §6.2) for a certificate that is rejected for a reason without an alert of its own.
const CERTIFICATE_UNKNOWN: u8 = 46;

/// Returns the TLS alert that a QUIC error code stands for (RFC 9001 §4.8), if any.
pub(crate) fn alert(code: TransportErrorCode) -> Option<u8> {
    u8::try_from(u64::from(code).checked_sub(0x100)?).ok()
}

/// Returns whether the error code is a TLS alert about certificates: bad_certificate to unknown_ca (RFC 8446 §6).
pub(crate) fn is_of_certificates(code: TransportErrorCode) -> bool {
    alert(code).is_some_and(|alert| (42..=48).contains(&alert))
}

/// Returns the initial flow control limits that the peer grants us in its transport parameters (RFC 9000 §18.2). `side`
/// is our side.
fn flow_control_limits(params: &TransportParameters, side: Side) -> FlowControlLimits {
    let mut bytes = Vec::new();
    params.write(&mut bytes);
    let stream = match side {
        // The server's parameter initial_max_stream_data_bidi_remote limits the streams that the client begins.
        Side::Client => 0x06,
        // The client's parameter initial_max_stream_data_bidi_local limits the streams that the client begins.
        Side::Server => 0x05,
    };
    let mut grants = FlowControlLimits::default();
    let mut rest = anabranch_wire::quic::Frames(&bytes);
    while let Some((key, value)) = rest.parameter() {
        match key {
            0x04 => grants.data = value,
            0x08 => grants.streams = value,
            key if key == stream => grants.stream_data = value,
            _ => {}
        }
    }
    grants
}

/// A packet protection key that reports packets to the `Watch`.
struct Key {
    inner: Box<dyn PacketKey>,
    watch: Arc<Watch>,
    level: Level,
    /// Whether the key protects 0-RTT packets.
    early: bool,
    /// The length of an authentication tag in bytes, cached because each packet needs it several times.
    tag: usize,
}

impl Key {
    fn new(inner: Box<dyn PacketKey>, watch: Arc<Watch>, level: Level, early: bool) -> Self {
        let tag = inner.tag_len();
        Self { inner, watch, level, early, tag }
    }

    fn log(&self, sent: bool, number: u64, length: usize, payload: &[u8]) {
        let packet_type = match self.level {
            Level::Initial => qlog::PacketType::Initial,
            Level::Handshake => qlog::PacketType::Handshake,
            Level::Data if self.early => qlog::PacketType::ZeroRtt,
            Level::Data => qlog::PacketType::OneRtt,
        };
        self.watch.log_packet(sent, qlog::LoggedPacket { packet_type, number, length, payload });
    }
}

impl PacketKey for Key {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let end = buf.len() - self.tag;
        self.log(true, packet, buf.len(), &buf[header_len..end]);
        self.watch.on_packet_sent(self.level, packet, &buf[header_len..end], buf.len());
        self.inner.encrypt(packet, buf, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.inner.decrypt(packet, header, payload)?;
        self.log(false, packet, header.len() + payload.len() + self.tag, payload);
        self.watch.on_packet_received(self.level, packet, payload);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.tag
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
