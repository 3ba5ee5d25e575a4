//! Counters and status of each association and each path.
//!
//! Implements RFC 9260 §11.1.8 (Status).

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use std::net::IpAddr;

/// The state of an association (RFC 9260 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssociationState {
    /// An INIT was sent.
    CookieWait,
    /// A COOKIE ECHO was sent.
    CookieEchoed,
    /// The association is established and transfers data.
    Established,
    /// The application asked to close the association, but data is still unacknowledged.
    ShutdownPending,
    /// A SHUTDOWN was sent.
    ShutdownSent,
    /// A SHUTDOWN was received, but data is still unacknowledged.
    ShutdownReceived,
    /// A SHUTDOWN ACK was sent.
    ShutdownAckSent,
    /// The association has ended. Unread data may remain.
    Closed,
}

anabranch_base::counters! {
    /// Counters of an association since it began.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[non_exhaustive]
    pub struct AssociationStats {
        /// SCTP packets sent.
        packets_sent,
        /// Bytes in the SCTP packets sent, from the common header on.
        bytes_sent,
        /// SCTP packets received and accepted.
        packets_received,
        /// Bytes in the SCTP packets received and accepted.
        bytes_received,
        /// DATA chunks sent, retransmissions included.
        data_sent,
        /// User bytes sent, retransmissions included.
        data_bytes_sent,
        /// DATA chunks retransmitted by fast retransmit.
        retransmitted_fast,
        /// DATA chunks retransmitted after a timeout.
        retransmitted_timeout,
        /// Tail loss probes sent (RFC 8985 §7).
        tail_probes,
        /// Unnecessary retransmissions: the peer reported the retransmitted chunk as a duplicate.
        retransmitted_spurious,
        /// Packets that contained at least one retransmitted DATA chunk.
        packets_retransmitted,
        /// Expirations of T3-rtx.
        t3_expirations,
        /// Expirations of T1-init and T1-cookie.
        t1_expirations,
        /// Fast recoveries entered.
        fast_recoveries,
        /// DATA chunks received for the first time.
        data_received,
        /// User bytes in the DATA chunks received for the first time.
        data_bytes_received,
        /// DATA chunks received again.
        duplicates_received,
        /// DATA chunks refused because the receive buffer was full.
        refused_full,
        /// SACK chunks sent.
        sacks_sent,
        /// SACK chunks received.
        sacks_received,
        /// Congestion window reductions in response to a received ECNE.
        ecn_reductions,
        /// Messages passed to `send`.
        messages_sent,
        /// Messages that have arrived completely and are in order, so that the application can read them.
        messages_received,
        /// Chunks and packets dropped because they were not authenticated as required.
        auth_refused,
        /// Messages abandoned before any part of them was sent.
        abandoned_unsent,
        /// Messages abandoned after at least a part of them was sent.
        abandoned_sent,
        /// Messages of which no part had been sent when their association ended or restarted.
        undelivered_unsent,
        /// Messages that had been sent at least in part, but not acknowledged in full, when their association ended or
        /// restarted.
        undelivered_sent,
        /// Number of times that a path was declared inactive.
        path_failures,
        /// Number of times that a path was declared potentially failed (RFC 7829).
        path_suspicions,
    }
    beside {
        /// The time at which the association was started.
        opened: Instant,
        /// The time at which the association was established.
        established: Option<Instant>,
    }
}

/// Counters of all associations of an endpoint, including those that have ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Totals {
    /// The sum of the counters of all associations.
    pub sum: AssociationStats,
    /// Associations that were established.
    pub associations: u64,
    /// Packets sent outside associations (INIT ACK, answers to stray packets).
    pub stray_sent: u64,
    /// Packets that were dropped because of a bad checksum, verification tag or format, or because they matched no
    /// association.
    pub discarded: u64,
    /// The part of `discarded` that could not be read: packets with a wrong checksum, without a required checksum, with
    /// port 0, or with an incomplete header.
    pub unreadable: u64,
    /// Paths that failed or recovered, in chronological order (the first 1024).
    pub path_changes: Vec<PathChange>,
    /// Interruptions of user data in associations with several paths, in chronological order (the first 1024).
    pub interruptions: Vec<Interruption>,
    /// One entry for each address of a peer, from associations with several paths (the first 1024 addresses). Several
    /// associations may have the same address. The counters of packets and bytes are sums over these associations. All
    /// other fields describe the path of the newest association.
    pub paths: Vec<PathInfo>,
}

impl Totals {
    /// Adds the paths of an association, if it has several paths.
    pub(crate) fn add_paths(&mut self, paths: impl ExactSizeIterator<Item = PathInfo>) {
        if paths.len() < 2 {
            return;
        }
        for path in paths {
            match self.paths.binary_search_by_key(&path.address, |known| known.address) {
                Ok(at) => {
                    let before = std::mem::replace(&mut self.paths[at], path).stats;
                    let sum = &mut self.paths[at].stats;
                    sum.packets_sent += before.packets_sent;
                    sum.bytes_sent += before.bytes_sent;
                    sum.bytes_acked += before.bytes_acked;
                    sum.packets_received += before.packets_received;
                    sum.bytes_received += before.bytes_received;
                }
                Err(at) if self.paths.len() < MAX_PATHS => self.paths.insert(at, path),
                Err(_) => {}
            }
        }
    }
}

/// The maximum number of peer addresses in `Totals::paths`.
const MAX_PATHS: usize = 1024;

/// An interruption of the user data in one direction for at least 100 ms. During it, either no data sent by this side
/// was acknowledged, or no data arrived from the peer. An interruption counts only if the transfer resumed on another
/// path, on the same path after this path had failed, or after a wait longer than a retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Interruption {
    /// The initiator's port number, which identifies the association.
    pub connection: u64,
    /// The peer's address on the path that was used for the last data before the interruption.
    pub from: IpAddr,
    /// The peer's address on the path on which the transfer of data resumed after the interruption.
    pub to: IpAddr,
    /// True if incoming data was interrupted, that is, no data arrived from the peer. False if outgoing data was
    /// interrupted, that is, no sent data was acknowledged.
    pub received: bool,
    /// The time at which data last arrived or was acknowledged before the interruption. If no data was outstanding at
    /// that time: the time at which data was sent next.
    pub since: Instant,
    /// The time at which the transfer resumed.
    pub until: Instant,
}

/// A path that failed or recovered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PathChange {
    /// The initiator's port number, which identifies the association.
    pub connection: u64,
    /// The destination address.
    pub address: IpAddr,
    /// The time at which this side noticed the change.
    pub at: Instant,
    /// The new state: `PotentiallyFailed`, `Inactive` or `Active`.
    pub state: PathState,
}

/// The state of a destination address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathState {
    /// The address is not yet verified (RFC 9260 §5.4).
    Unconfirmed,
    /// The address is usable.
    Active,
    /// The address did not answer recently. The address is probed, and data is sent to other addresses (RFC 7829).
    PotentiallyFailed,
    /// The address has failed (RFC 9260 §8.2).
    Inactive,
}

/// Counters of a path since it was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PathStats {
    /// Packets sent to the address.
    pub packets_sent: u64,
    /// Bytes in the packets sent to the address.
    pub bytes_sent: u64,
    /// Acknowledged bytes of DATA chunks sent to the address, chunk headers included. Bytes that a gap block reported,
    /// and that the peer dropped later, do not count.
    pub bytes_acked: u64,
    /// Packets received from the address.
    pub packets_received: u64,
    /// Bytes in the packets received from the address, including the SCTP common header, but not the IP or UDP header.
    pub bytes_received: u64,
    /// DATA chunks retransmitted to the address.
    pub retransmitted: u64,
    /// Expirations of the path's T3-rtx.
    pub t3_expirations: u64,
    /// Fast recoveries on the path.
    pub fast_recoveries: u64,
    /// HEARTBEATs sent to the address.
    pub heartbeats_sent: u64,
    /// HEARTBEAT ACKs received that match a HEARTBEAT.
    pub heartbeats_acked: u64,
    /// Path MTU probes sent to the address (RFC 8899).
    pub mtu_probes: u64,
    /// Number of detected path MTU black holes (RFC 8899 §4.3): packets of the size in use appeared to be lost, so the
    /// size was reduced.
    pub black_holes: u64,
    /// Number of times that the path failed.
    pub failures: u64,
    /// The time at which the path last failed.
    pub last_down: Option<Instant>,
    /// The time at which the path last recovered.
    pub last_up: Option<Instant>,
}

/// The current status of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PathInfo {
    /// The destination address.
    pub address: IpAddr,
    /// The UDP port to which packets for this address are sent (RFC 6951); 0 without encapsulation.
    pub encapsulation_port: u16,
    /// The local address from which this side sends packets on this path.
    pub source: IpAddr,
    /// The state of the destination address.
    pub state: PathState,
    /// Whether this path is the primary path.
    pub primary: bool,
    /// Whether new data is sent on this path.
    pub current: bool,
    /// Whether the peer has removed this address (RFC 5061 §4.2.2). The index of the path stays in the list and may
    /// later be reused for another address.
    pub removed: bool,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes.
    pub ssthresh: u64,
    /// Bytes of DATA chunks in flight, headers and padding included.
    pub flight: u64,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Smoothed round-trip time; `None` if it was not measured yet.
    pub srtt: Option<Duration>,
    /// Consecutive errors (the error counter of RFC 9260 §8.2).
    pub errors: u32,
    /// Path MTU in bytes, IP header included.
    pub mtu: u32,
    /// The counters of the path.
    pub stats: PathStats,
}

/// The current status of an association.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AssociationInfo {
    /// The state of the association.
    pub state: AssociationState,
    /// The local port.
    pub local_port: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// Number of streams that this side may send on.
    pub outbound_streams: u16,
    /// Number of streams that the peer may send on.
    pub inbound_streams: u16,
    /// The space left in the peer's receive buffer in bytes, as far as known.
    pub peer_rwnd: u64,
    /// User bytes that were sent and not yet acknowledged.
    pub outstanding: u64,
    /// User bytes in the send buffer (unsent and unacknowledged).
    pub buffered: u64,
    /// Bytes of `buffered` that gap ack blocks have acknowledged. The peer may still drop them (RFC 9260 §6.2.1).
    pub gap_acked: u64,
    /// User bytes of window probes that the peer has acknowledged since its window closed (RFC 9260 §6.1 A). The number
    /// is 0 while the window is open. A peer that never reads can still acknowledge probes, so this number does not
    /// show that the peer reads.
    pub probed: u64,
    /// The extensions that both sides agreed on.
    pub extensions: crate::Extensions,
    /// The paths, in the order of their indices.
    pub paths: Vec<PathInfo>,
}
