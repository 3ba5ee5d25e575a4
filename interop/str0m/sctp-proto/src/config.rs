//! Settings, and what they are to the engine.
//!
//! What has no setting here is as the engine's profile `modern` has it, changed by the knobs of the environment variable
//! `ANABRANCH_SCTP` (`cc=bbr`), by which settings can be measured without another build.

use crate::error::Error;
use anabranch_base::Rng;
use anabranch_sctp::{Config, Endpoint};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// The SCTP port of WebRTC, at both ends.
pub const DEFAULT_SCTP_PORT: u16 = 5000;

/// No INIT that signalling brings is longer.
pub const MAX_SNAP_INIT_BYTES: usize = 2048;

/// Headers in front of the payload of a DATA chunk: SCTP's and the chunk's.
const HEADERS: u32 = 12 + 16;

/// Most that may be given and wait: str0m has a bound of its own, which is what counts.
const SEND_BUFFER: u64 = 1 << 30;

/// Settings of associations.
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
            // RTO.Initial as RFC 4960 §15 has it; RTO.Min and RTO.Max as RFC 9260 §16.
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

    /// `None` for as long as it takes.
    pub fn with_max_init_retransmits(self, value: Option<usize>) -> Self {
        Self { init_retransmits: value, ..self }
    }

    /// `None` for as long as it takes.
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

    /// The same for the engine.
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
        config.streams = self.outbound.max(1);
        config.inbound = Some(self.inbound.max(1));
        config.sndbuf = SEND_BUFFER;
        config.init_max_retrans = most(self.init_retransmits);
        config.assoc_max_retrans = most(self.data_retransmits);
        // RFC 8261 §6.1: there is one path.
        config.path_max_retrans = most(self.data_retransmits);
        config.pf_max_retrans = None;
        // Whether the peer is there, ICE asks (RFC 7675).
        config.hb_interval = None;
        // RFC 9653: DTLS protects what SCTP's checksum would.
        config.zero_checksum = true;
        // `sctp-proto` sends DATA alone, and a test of str0m reads its header.
        config.interleaving = false;
        // Messages are handed out whole.
        config.partial_delivery = 1 << 30;
        if let Some(buffer) = self.receive_buffer {
            config.rcvbuf = buffer.max(1500).into();
        }
        [config.rto_initial, config.rto_min, config.rto_max] = self.rto.map(Duration::from_millis);
        Ok(config)
    }

    /// An engine with these settings whose packets carry so many bytes of user data.
    pub(crate) fn endpoint(&self, payload: u32) -> Result<Endpoint, Error> {
        let rng = Rng::from_os().map_err(|why| Error::Other(why.to_string()))?;
        Ok(Endpoint::over_datagrams_with(self.engine()?, payload.saturating_add(HEADERS), rng))
    }
}

/// Settings of an endpoint.
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

    /// Most bytes of user data in a packet.
    pub fn max_payload_size(&mut self, value: u32) -> &mut Self {
        self.payload = value;
        self
    }

    #[doc(hidden)]
    pub fn get_max_payload_size(&self) -> u32 {
        self.payload
    }
}

/// Settings of associations that the peer begins.
#[derive(Debug, Clone, Default)]
pub struct ServerConfig {
    pub transport: Arc<TransportConfig>,
}

impl ServerConfig {
    pub fn new() -> Self {
        Self::default()
    }
}

/// Settings of an association that this side begins.
#[derive(Debug, Clone, Default)]
pub struct ClientConfig {
    pub transport: Arc<TransportConfig>,
    pub(crate) snap: Option<(Bytes, Bytes)>,
}

impl ClientConfig {
    pub fn new() -> Self {
        Self::default()
    }

    /// Both INIT chunks came by signalling: there is no handshake.
    pub fn with_snap(mut self, local_sctp_init: Bytes, remote_sctp_init: Bytes) -> Self {
        self.snap = Some((local_sctp_init, remote_sctp_init));
        self
    }
}

/// An INIT chunk for signalling to carry.
pub fn generate_snap_token(config: &TransportConfig) -> Result<Bytes, Error> {
    // The size of packets is not in it.
    Ok(config.endpoint(1200)?.init_chunk().into())
}
