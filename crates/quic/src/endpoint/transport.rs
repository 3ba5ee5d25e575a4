//! Creates quinn's transport settings for a connection.

use super::Endpoint;
use crate::config::{Cc, Config, Scheduler};
use crate::watch::Watch;
use crate::window::ConnectionControllers;
use anabranch_congestion::{AlgorithmConfig, cubic, reno};
use anabranch_tls::{CryptoProvider, Surroundings};
use quinn_proto::{AckFrequencyConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};
use std::sync::Arc;

impl Endpoint {
    /// Returns quinn's transport settings for a connection. `streams` is the number of bidirectional streams that the
    /// peer may have open.
    pub(super) fn transport(&self, watch: Arc<Watch>, streams: u64) -> Result<TransportConfig, String> {
        let config = &self.config;
        // The receive windows limit unread data to a share of the memory that is reserved for each connection.
        // Therefore unread data is not counted in the shared memory budget.
        let room =
            config.memory.as_ref().map_or(u64::MAX, |memory| (memory.floor() / SHARES).max(MIN_WINDOW));
        let number = |value: u64| VarInt::from_u64(value).map_err(|error| error.to_string());
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(number(streams)?)
            .max_concurrent_uni_streams(number(ONE_WAY_STREAMS)?)
            .stream_receive_window(number(config.stream_window.min(room))?)
            .receive_window(number(config.window.min(room))?)
            .send_window(config.sndbuf)
            .max_idle_timeout(Some(IdleTimeout::try_from(config.idle).map_err(|error| error.to_string())?))
            .initial_rtt(config.initial_rtt)
            .initial_mtu(config.packet as u16)
            .mtu_discovery_config(config.pmtud.then(MtuDiscoveryConfig::default))
            .packet_threshold(config.dupthresh as u32)
            .send_fairness(config.scheduler == Scheduler::RoundRobin)
            .ack_frequency_config(ack_frequency(config))
            .enable_segmentation_offload(self.segments > 1);
        // RFC 9002 §7.3.1: in slow start, the window grows by all acknowledged bytes. The limit on the growth for each
        // acknowledgement is so high that it is never reached.
        let counting = reno::Counting::Bytes { limit: 1 << 20 };
        let kind = match config.cc {
            Cc::Cubic => Some(AlgorithmConfig::Cubic(cubic::Config { counting, ..cubic::Config::default() })),
            Cc::Reno => Some(AlgorithmConfig::Reno(reno::Config {
                counting,
                beta: config.reno_beta,
                ..reno::Config::default()
            })),
            Cc::Bbr => Some(AlgorithmConfig::Bbr),
            Cc::QuinnCubic => None,
        };
        let (packets, epoch, hystart) = (config.iw as u32, self.epoch, config.hystart_delay);
        transport.congestion_controller_factory(Arc::new(ConnectionControllers {
            kind,
            packets,
            hystart,
            epoch,
            watch,
        }));
        Ok(transport)
    }
}

/// Checks that the TLS settings have a source of random numbers that works in these surroundings. The source of a
/// simulation works only within the simulation.
pub(super) fn draws(surroundings: &Surroundings, provider: &CryptoProvider) -> Result<(), String> {
    let drawn = surroundings.within(|| provider.secure_random.fill(&mut [0]));
    drawn.map_err(|_| "these settings of TLS are of virtual time, and of no use outside of it".to_owned())
}

/// The number of equal parts into which a connection's guaranteed minimum of the shared memory is divided: one part for
/// unread data, and one part for unacknowledged data.
pub(super) const SHARES: u64 = 2;
/// The smallest flow control limit in bytes: enough for the headers of requests.
const MIN_WINDOW: u64 = 32 * 1024;

/// The number of unidirectional streams that a peer may have open at the same time. HTTP/3 uses three (RFC 9114 §6.2);
/// streams of unknown types are ignored, but they also count.
const ONE_WAY_STREAMS: u64 = 16;

/// Returns what this endpoint asks the peer for: how often it acknowledges. `None` if it does not ask.
fn ack_frequency(config: &Config) -> Option<AckFrequencyConfig> {
    let mut asked = AckFrequencyConfig::default();
    let Some((packets, delay)) = config.acknowledgements else {
        return config.ack_frequency.then_some(asked);
    };
    // The threshold is the number of packets that may arrive without an acknowledgement. A gap is reported at once.
    asked
        .ack_eliciting_threshold(packets.saturating_sub(1).into())
        .max_ack_delay(Some(delay))
        .reordering_threshold(1_u8.into());
    Some(asked)
}
