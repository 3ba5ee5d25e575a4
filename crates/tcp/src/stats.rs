//! Counters and gauges of a connection.

use crate::state::State;
use anabranch_base::time::Duration;
use std::net::SocketAddr;

/// The counters of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Segments sent, of any kind.
    pub segments_sent: u64,
    /// Segments received with a correct checksum.
    pub segments_received: u64,
    /// Segments sent that carry data, retransmissions included.
    pub data_segments_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes received and kept.
    pub bytes_received: u64,
    /// Segments sent without data, SYN, FIN or RST: acknowledgements and window updates.
    pub acks_sent: u64,
    /// Segments retransmitted because acknowledgements revealed a loss.
    pub retransmitted_fast: u64,
    /// Segments retransmitted after a timeout.
    pub retransmitted_timeout: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Retransmission timeouts, including those of the SYN.
    pub timeouts: u64,
    /// Fast recoveries that were begun.
    pub fast_recoveries: u64,
    /// Tail loss probes sent (RFC 8985 §7).
    pub tail_probes: u64,
    /// Duplicate acknowledgements received.
    pub dup_acks: u64,
    /// Recoveries that turned out to be spurious.
    pub spurious: u64,
    /// Window reductions caused by ECN.
    pub ecn_reductions: u64,
    /// Segments received with the CE mark.
    pub ce_received: u64,
    /// Probes of a closed window that were sent.
    pub probes: u64,
    /// Segments discarded by PAWS (RFC 7323 §5).
    pub paws_discards: u64,
    /// Payload bytes received that had arrived before or lay outside the window.
    pub bytes_discarded: u64,
}

impl Stats {
    /// Adds the counters of `other` to these counters.
    pub fn add(&mut self, other: &Self) {
        self.segments_sent += other.segments_sent;
        self.segments_received += other.segments_received;
        self.data_segments_sent += other.data_segments_sent;
        self.bytes_sent += other.bytes_sent;
        self.bytes_acked += other.bytes_acked;
        self.bytes_received += other.bytes_received;
        self.acks_sent += other.acks_sent;
        self.retransmitted_fast += other.retransmitted_fast;
        self.tail_probes += other.tail_probes;
        self.retransmitted_timeout += other.retransmitted_timeout;
        self.bytes_retransmitted += other.bytes_retransmitted;
        self.timeouts += other.timeouts;
        self.fast_recoveries += other.fast_recoveries;
        self.dup_acks += other.dup_acks;
        self.spurious += other.spurious;
        self.ecn_reductions += other.ecn_reductions;
        self.ce_received += other.ce_received;
        self.probes += other.probes;
        self.paws_discards += other.paws_discards;
        self.bytes_discarded += other.bytes_discarded;
    }
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
