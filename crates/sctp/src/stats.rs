//! Counters and views per association and per path.
//!
//! Home of RFC 9260 §11.1.8 (Status).

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use std::net::IpAddr;

/// Where an association stands (RFC 9260 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssociationState {
    /// INIT sent.
    CookieWait,
    /// COOKIE ECHO sent.
    CookieEchoed,
    /// Data flows.
    Established,
    /// The application asked to close; data is still unacknowledged.
    ShutdownPending,
    /// SHUTDOWN sent.
    ShutdownSent,
    /// SHUTDOWN received; data is still unacknowledged.
    ShutdownReceived,
    /// SHUTDOWN ACK sent.
    ShutdownAckSent,
    /// Ended; unread data may remain.
    Closed,
}

/// What an association has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct AssociationStats {
    /// SCTP packets sent.
    pub packets_sent: u64,
    /// Bytes of those, from the common header on.
    pub bytes_sent: u64,
    /// SCTP packets received and accepted.
    pub packets_received: u64,
    /// Bytes of those.
    pub bytes_received: u64,
    /// DATA chunks sent, retransmissions included.
    pub data_sent: u64,
    /// User bytes sent, retransmissions included.
    pub data_bytes_sent: u64,
    /// DATA chunks retransmitted by fast retransmit.
    pub retransmitted_fast: u64,
    /// DATA chunks retransmitted after a timeout.
    pub retransmitted_timeout: u64,
    /// Tail loss probes (RFC 8985 §7).
    pub tail_probes: u64,
    /// Retransmissions known to have been needless (the peer reported the duplicate).
    pub retransmitted_spurious: u64,
    /// Packets that carried at least one retransmitted DATA chunk.
    pub packets_retransmitted: u64,
    /// Expirations of T3-rtx.
    pub t3_expirations: u64,
    /// Expirations of T1-init and T1-cookie.
    pub t1_expirations: u64,
    /// Fast recoveries entered.
    pub fast_recoveries: u64,
    /// DATA chunks received for the first time.
    pub data_received: u64,
    /// User bytes of those.
    pub data_bytes_received: u64,
    /// DATA chunks received again.
    pub duplicates_received: u64,
    /// DATA chunks refused because the receive buffer was full.
    pub refused_full: u64,
    /// SACK chunks sent.
    pub sacks_sent: u64,
    /// SACK chunks received.
    pub sacks_received: u64,
    /// Congestion marks taken in (ECNE received and acted on).
    pub ecn_reductions: u64,
    /// Messages given to `send`.
    pub messages_sent: u64,
    /// Messages completed towards the application.
    pub messages_received: u64,
    /// Chunks and packets thrown away because they were not authenticated as they should be.
    pub auth_refused: u64,
    /// Messages given up of which nothing had been sent.
    pub abandoned_unsent: u64,
    /// Messages given up of which at least a part had been sent.
    pub abandoned_sent: u64,
    /// Messages of which nothing had been sent when their association ended or restarted.
    pub undelivered_unsent: u64,
    /// Messages that had been sent, at least in part, and were not acknowledged in full then.
    pub undelivered_sent: u64,
    /// Paths found down.
    pub path_failures: u64,
    /// Paths found potentially failed (RFC 7829).
    pub path_suspicions: u64,
    /// When the association was begun.
    pub opened: Instant,
    /// When it became usable.
    pub established: Option<Instant>,
}

impl AssociationStats {
    /// Adds the counters of `other`; instants are kept.
    pub fn add(&mut self, other: &Self) {
        self.packets_sent += other.packets_sent;
        self.bytes_sent += other.bytes_sent;
        self.packets_received += other.packets_received;
        self.bytes_received += other.bytes_received;
        self.data_sent += other.data_sent;
        self.data_bytes_sent += other.data_bytes_sent;
        self.retransmitted_fast += other.retransmitted_fast;
        self.retransmitted_timeout += other.retransmitted_timeout;
        self.tail_probes += other.tail_probes;
        self.retransmitted_spurious += other.retransmitted_spurious;
        self.packets_retransmitted += other.packets_retransmitted;
        self.t3_expirations += other.t3_expirations;
        self.t1_expirations += other.t1_expirations;
        self.fast_recoveries += other.fast_recoveries;
        self.data_received += other.data_received;
        self.data_bytes_received += other.data_bytes_received;
        self.duplicates_received += other.duplicates_received;
        self.refused_full += other.refused_full;
        self.sacks_sent += other.sacks_sent;
        self.sacks_received += other.sacks_received;
        self.ecn_reductions += other.ecn_reductions;
        self.messages_sent += other.messages_sent;
        self.messages_received += other.messages_received;
        self.auth_refused += other.auth_refused;
        self.abandoned_unsent += other.abandoned_unsent;
        self.abandoned_sent += other.abandoned_sent;
        self.undelivered_unsent += other.undelivered_unsent;
        self.undelivered_sent += other.undelivered_sent;
        self.path_failures += other.path_failures;
        self.path_suspicions += other.path_suspicions;
    }
}

/// What all associations of an endpoint have done, ended ones included.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Totals {
    /// The sum of all counters.
    pub sum: AssociationStats,
    /// Associations that became usable.
    pub associations: u64,
    /// Packets sent outside associations (INIT ACK, answers to stray packets).
    pub stray_sent: u64,
    /// Packets thrown away: bad checksum, bad tag, malformed, not for anybody.
    pub discarded: u64,
    /// Of those, the ones with a wrong checksum (or without one where it has to be), port 0 or no header.
    pub unreadable: u64,
    /// Paths that went down or came back, in order of time (the first 1024).
    pub path_changes: Vec<PathChange>,
    /// Times in which user data did not get on, until it did on another path or on one that had failed, in order of time
    /// (the first 1024).
    pub interruptions: Vec<Interruption>,
}

/// User data did not get on for a while, 100 ms or more: nothing was acknowledged of what was sent, or nothing arrived after
/// this side had sent something. Then it went on, on another path or on one that had failed meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Interruption {
    /// The initiator's port of the association.
    pub connection: u64,
    /// The peer's address on the path of the last data before.
    pub from: IpAddr,
    /// On that of the first data after.
    pub to: IpAddr,
    /// It was the data that the peer sends: nothing arrived. Else nothing was acknowledged of what was sent.
    pub received: bool,
    /// When data last got on before; where none was under way, when the next was sent.
    pub since: Instant,
    /// When it went on.
    pub until: Instant,
}

/// A path that went down, or came back after it had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PathChange {
    /// The initiator's port of the association.
    pub connection: u64,
    /// The destination address.
    pub address: IpAddr,
    /// When this side found out.
    pub at: Instant,
    /// What it is from then on: `PotentiallyFailed`, `Inactive` or `Active`.
    pub state: PathState,
}

/// Whether a destination is usable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathState {
    /// Not yet verified (RFC 9260 §5.4).
    Unconfirmed,
    /// In use or ready.
    Active,
    /// It has not answered of late: data goes elsewhere while it is probed (RFC 7829).
    PotentiallyFailed,
    /// Failed (RFC 9260 §8.2).
    Inactive,
}

/// What a path has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PathStats {
    /// Packets sent to it.
    pub packets_sent: u64,
    /// Bytes of those.
    pub bytes_sent: u64,
    /// Bytes of the DATA chunks sent to it which were acknowledged, with their headers.
    pub bytes_acked: u64,
    /// Packets received from it.
    pub packets_received: u64,
    /// DATA chunks retransmitted to it.
    pub retransmitted: u64,
    /// Expirations of its T3-rtx.
    pub t3_expirations: u64,
    /// Fast recoveries on it.
    pub fast_recoveries: u64,
    /// HEARTBEATs sent to it.
    pub heartbeats_sent: u64,
    /// HEARTBEAT ACKs that matched.
    pub heartbeats_acked: u64,
    /// Probes of its MTU sent to it (RFC 8899).
    pub mtu_probes: u64,
    /// Times packets of the present size seemed to vanish.
    pub black_holes: u64,
    /// Times it went down.
    pub failures: u64,
    /// When it last went down.
    pub last_down: Option<Instant>,
    /// When it last came up.
    pub last_up: Option<Instant>,
}

/// A path as it stands now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PathInfo {
    /// Its destination address.
    pub address: IpAddr,
    /// The UDP port that packets to it go to (RFC 6951); 0 without encapsulation.
    pub encapsulation_port: u16,
    /// The local address packets to it leave from.
    pub source: IpAddr,
    /// Whether it is usable.
    pub state: PathState,
    /// It is the primary path.
    pub primary: bool,
    /// New data goes to it.
    pub current: bool,
    /// The peer has taken this address away (RFC 5061 §4.2.2); its place in the list is kept, and may
    /// be another address's later.
    pub removed: bool,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes.
    pub ssthresh: u64,
    /// User bytes in flight.
    pub flight: u64,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// Consecutive errors.
    pub errors: u32,
    /// Path MTU, IP header included, bytes.
    pub mtu: u32,
    /// What it has done.
    pub stats: PathStats,
}

/// An association as it stands now.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AssociationInfo {
    /// Where it stands.
    pub state: AssociationState,
    /// The local port.
    pub local_port: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// Streams this side may send on.
    pub outbound_streams: u16,
    /// Streams the peer may send on.
    pub inbound_streams: u16,
    /// What the peer's receive buffer still takes, as far as known, bytes.
    pub peer_rwnd: u64,
    /// User bytes sent and not acknowledged.
    pub outstanding: u64,
    /// User bytes in the send buffer (unsent and unacknowledged).
    pub buffered: u64,
    /// User bytes that the peer has acknowledged as probes of its closed window (RFC 9260 §6.1 A), since the window closed.
    /// 0 while the window is open. A peer that never reads can acknowledge probes, so they are no sign that it reads.
    pub probed: u64,
    /// Both sides agreed on ECN.
    pub extensions: crate::Extensions,
    /// The paths, in the order of their indices.
    pub paths: Vec<PathInfo>,
}
