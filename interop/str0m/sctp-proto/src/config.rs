//! The settings of `sctp-proto`, and their translation to the engine's.
//!
//! The engine's other settings come from its profile `modern`. The environment variable `ANABRANCH_SCTP`
//! (`cc=bbr,rack=no`) changes them, so settings can be compared without another build.

use crate::error::Error;
use anabranch_base::Rng;
use anabranch_sctp::{Config, Endpoint};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// The SCTP port that WebRTC uses at both ends.
pub const DEFAULT_SCTP_PORT: u16 = 5000;

/// The maximum length of an INIT chunk from signalling, in bytes.
pub const MAX_SNAP_INIT_BYTES: usize = 2048;

/// The size of SCTP's common header and of a DATA chunk's header, in bytes.
const HEADERS: u32 = 12 + 16;

/// The size of the send buffer in bytes. It never fills, because str0m has a lower limit of its own.
const SEND_BUFFER: u64 = 1 << 30;

/// The settings of an association.
#[derive(Debug, Clone)]
pub struct TransportConfig {
    receive_buffer: Option<u32>,
    outbound: u16,
    inbound: u16,
    pub(crate) max_send_message: u32,
    pub(crate) max_receive_message: u32,
    init_retransmits: Option<usize>,
    data_retransmits: Option<usize>,
    rto: [u64; 3],
    pub(crate) ports: (u16, u16),
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            receive_buffer: None,
            outbound: u16::MAX,
            inbound: u16::MAX,
            max_send_message: 65_536,
            max_receive_message: 65_536,
            init_retransmits: Some(8),
            data_retransmits: None,
            // RTO.Initial is that of RFC 4960 §15, RTO.Min and RTO.Max are those of RFC 9260 §16.
            rto: [3_000, 1_000, 60_000],
            ports: (DEFAULT_SCTP_PORT, DEFAULT_SCTP_PORT),
        }
    }
}

impl TransportConfig {
    pub fn with_max_receive_buffer_size(self, value: u32) -> Self {
        Self { receive_buffer: Some(value), ..self }
    }

    pub fn with_max_send_message_size(self, value: u32) -> Self {
        Self { max_send_message: value, ..self }
    }

    pub fn with_max_receive_message_size(self, value: u32) -> Self {
        Self { max_receive_message: value, ..self }
    }

    pub fn with_max_num_outbound_streams(self, value: u16) -> Self {
        Self { outbound: value, ..self }
    }

    pub fn with_max_num_inbound_streams(self, value: u16) -> Self {
        Self { inbound: value, ..self }
    }

    /// Sets the number of retransmissions after which the association fails; `None` sets no limit.
    pub fn with_max_init_retransmits(self, value: Option<usize>) -> Self {
        Self { init_retransmits: value, ..self }
    }

    /// Sets the number of retransmissions after which the association fails; `None` sets no limit.
    pub fn with_max_data_retransmits(self, value: Option<usize>) -> Self {
        Self { data_retransmits: value, ..self }
    }

    pub fn with_rto_initial_ms(mut self, value: u64) -> Self {
        self.rto[0] = value;
        self
    }

    pub fn with_rto_min_ms(mut self, value: u64) -> Self {
        self.rto[1] = value;
        self
    }

    pub fn with_rto_max_ms(mut self, value: u64) -> Self {
        self.rto[2] = value;
        self
    }

    pub fn with_local_port(mut self, value: u16) -> Self {
        self.ports.0 = value;
        self
    }

    pub fn with_remote_port(mut self, value: u16) -> Self {
        self.ports.1 = value;
        self
    }

    /// Returns the engine's configuration for these settings.
    fn engine(&self) -> Result<Config, Error> {
        let mut config = Config::profile("modern").unwrap_or_default();
        let knobs = std::env::var("ANABRANCH_SCTP").unwrap_or_default();
        for knob in knobs.split(',').filter(|knob| !knob.is_empty()) {
            let (key, value) = knob.split_once('=').unwrap_or((knob, ""));
            config.set(key, value).map_err(|why| Error::Other(why.to_string()))?;
        }
        let most = |retransmits: Option<usize>| {
            retransmits.map_or(u32::MAX, |most| u32::try_from(most).unwrap_or(u32::MAX))
        };
        config.num_ostreams = self.outbound.max(1);
        config.max_instreams = Some(self.inbound.max(1));
        config.sndbuf = SEND_BUFFER;
        config.init_max_retrans = most(self.init_retransmits);
        config.assoc_max_retrans = most(self.data_retransmits);
        // RFC 8261 §6.1: over DTLS there is one path, so path and association have the same limit.
        config.path_max_retrans = most(self.data_retransmits);
        config.pf_max_retrans = None;
        // No heartbeats, because ICE checks that the peer is reachable (RFC 7675).
        config.hb_interval = None;
        // RFC 9653: DTLS detects damaged packets, so SCTP's checksum is not needed.
        config.zero_checksum = true;
        // `sctp-proto` never sends I-DATA, and a test of str0m parses the header of DATA.
        config.interleaving = false;
        // `sctp-proto` only returns complete messages, so partial delivery must not start.
        config.partial_delivery = 1 << 30;
        if let Some(buffer) = self.receive_buffer {
            config.rcvbuf = buffer.max(1500).into();
        }
        [config.rto_initial, config.rto_min, config.rto_max] = self.rto.map(Duration::from_millis);
        Ok(config)
    }

    /// Creates an engine with these settings whose packets carry at most `payload` bytes of user data.
    pub(crate) fn endpoint(&self, payload: u32) -> Result<Endpoint, Error> {
        let rng = Rng::from_os().map_err(|why| Error::Other(why.to_string()))?;
        Ok(Endpoint::over_datagrams_with(self.engine()?, payload.saturating_add(HEADERS), rng))
    }
}

/// The settings of all associations of an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    payload: u32,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl EndpointConfig {
    pub fn new() -> Self {
        Self { payload: 1228 - HEADERS }
    }

    /// Sets the maximum number of bytes of user data in a packet.
    pub fn max_payload_size(&mut self, value: u32) -> &mut Self {
        self.payload = value;
        self
    }

    #[doc(hidden)]
    pub fn get_max_payload_size(&self) -> u32 {
        self.payload
    }
}

/// The settings of associations that the peer starts.
#[derive(Debug, Clone, Default)]
pub struct ServerConfig {
    pub transport: Arc<TransportConfig>,
}

impl ServerConfig {
    pub fn new() -> Self {
        Self::default()
    }
}

/// The settings of an association that this side starts.
#[derive(Debug, Clone, Default)]
pub struct ClientConfig {
    pub transport: Arc<TransportConfig>,
    pub(crate) snap: Option<(Bytes, Bytes)>,
}

impl ClientConfig {
    pub fn new() -> Self {
        Self::default()
    }

    /// Skips the handshake, because signalling has exchanged both INIT chunks.
    pub fn with_snap(mut self, local_sctp_init: Bytes, remote_sctp_init: Bytes) -> Self {
        self.snap = Some((local_sctp_init, remote_sctp_init));
        self
    }
}

/// Creates an INIT chunk for signalling to exchange.
pub fn generate_snap_token(config: &TransportConfig) -> Result<Bytes, Error> {
    // An INIT does not contain the packet size, so any size will do.
    Ok(config.endpoint(1200)?.init_chunk().into())
}
