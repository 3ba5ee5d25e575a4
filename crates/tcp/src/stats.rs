//! Counters and gauges of a connection.

use crate::state::State;
use anabranch_base::time::Duration;
use std::net::SocketAddr;

anabranch_base::counters! {
    /// The counters of a connection.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Stats {
        /// Segments sent, of any kind.
        segments_sent,
        /// Segments received with a correct checksum.
        segments_received,
        /// Segments sent that carry data, retransmissions included.
        data_segments_sent,
        /// Payload bytes sent, retransmissions included.
        bytes_sent,
        /// Payload bytes acknowledged.
        bytes_acked,
        /// Payload bytes received and kept.
        bytes_received,
        /// Segments sent without data, SYN, FIN or RST: acknowledgements and window updates.
        acks_sent,
        /// Segments retransmitted because acknowledgements revealed a loss.
        retransmitted_fast,
        /// Segments retransmitted after a timeout.
        retransmitted_timeout,
        /// Payload bytes retransmitted.
        bytes_retransmitted,
        /// Retransmission timeouts, including those of the SYN.
        timeouts,
        /// Fast recoveries that were begun.
        fast_recoveries,
        /// Tail loss probes sent (RFC 8985 §7).
        tail_probes,
        /// Duplicate acknowledgements received.
        dup_acks,
        /// Recoveries that turned out to be spurious.
        spurious,
        /// Window reductions caused by ECN.
        ecn_reductions,
        /// Segments received with the CE mark.
        ce_received,
        /// Probes sent while the peer's window was closed.
        probes,
        /// Segments discarded by PAWS (RFC 7323 §5).
        paws_discards,
        /// Payload bytes received that had arrived before or lay outside the window.
        bytes_discarded,
    }
    beside {}
}

/// The current state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// The state of RFC 9293 §3.3.2.
    pub state: State,
    /// The local address and port.
    pub local: SocketAddr,
    /// The remote address and port.
    pub remote: SocketAddr,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// The slow-start threshold in bytes.
    pub ssthresh: u64,
    /// The retransmission timeout.
    pub rto: Duration,
    /// The smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// The number of bytes sent and not yet cumulatively acknowledged.
    pub flight: u64,
    /// The peer's window in bytes.
    pub peer_window: u64,
    /// The largest payload of a segment in bytes.
    pub mss: u64,
    /// Whether SACK is in use.
    pub sack: bool,
    /// Whether timestamps are in use.
    pub timestamps: bool,
    /// Whether ECN is in use.
    pub ecn: bool,
}
