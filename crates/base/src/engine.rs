//! The seam between a protocol engine and whoever drives it.
//!
//! An [`Engine`] is a state machine: packets, time and commands go in; packets,
//! events and one deadline come out. It never sleeps, sends, or asks the time.
//! One drive loop (`transport::drive`) serves every engine in every world.

use crate::batch::{RecvBatch, SendBatch};
use crate::time::Instant;
use crate::trace::TraceRecord;
use std::net::{IpAddr, SocketAddr};

/// A protocol endpoint without input or output of its own.
///
/// Two promises, checked by property tests:
/// 1. *Order does not matter.* Between two mutations any interleaving of the
///    polls yields the same packets and events.
/// 2. *Progress.* Once `poll_transmit` and `poll_event` are drained,
///    `poll_timeout` is `None` or strictly later than the last `now`.
pub trait Engine {
    /// What the application learns.
    type Event;

    /// A packet arrived. Changes state only: never sends, never calls back.
    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>);

    /// The packets of `batch` arrived. An engine may keep the buffer of a packet
    /// ([`PacketBytes::take_buffer`](crate::PacketBytes::take_buffer)); what it leaves in the batch means nothing.
    fn handle_batch(&mut self, now: Instant, batch: &mut RecvBatch) {
        for packet in batch.packets() {
            self.handle_packet(now, packet);
        }
    }

    /// The network reported trouble with a packet this engine sent.
    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        let _ = (now, icmp, quoted);
    }

    /// This host could not send `packet`, one of ours: it knows no way from its source to its target at present, so
    /// that neither this one nor those behind it have left. A hint, which may be wrong a moment later.
    fn handle_unsent(&mut self, now: Instant, packet: Packet<'_>) {
        let _ = (now, packet);
    }

    /// The host's routes or interfaces have changed: what could not be sent may find its way now.
    fn handle_routes(&mut self, now: Instant) {
        let _ = now;
    }

    /// A layer beneath that has handshakes of its own (DTLS) can carry packets to `peer` from now on, which it could not
    /// before, or has lost it for good.
    fn handle_peer(&mut self, now: Instant, peer: SocketAddr, state: PeerState) {
        let _ = (now, peer, state);
    }

    /// Time has passed: runs everything that is due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// Appends packets of one source, target, ECN mark and size (the last may
    /// be shorter) to `out`, which the caller has cleared. Returns false, with
    /// `out` empty, when there is nothing to send now.
    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool;

    /// The next thing to tell the application.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// The earliest deadline. Pure; may be asked at any moment.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether a poll may have something to give. False only when neither
    /// `poll_transmit` nor `poll_event` has; so a command that changed nothing
    /// (most reads) need not set the whole drive loop going.
    fn has_output(&self) -> bool {
        true
    }

    /// Starts or stops keeping a trace (off at first).
    fn set_tracing(&mut self, on: bool);

    /// Takes the trace kept since the last call.
    fn take_trace(&mut self) -> Vec<TraceRecord>;
}

/// What has become of a peer in a layer beneath an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// Packets can go to it.
    Ready,
    /// They cannot, and what was under way with it is over.
    Lost,
}

/// The two ECN bits of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, codepoint ECT(1).
    Ect1 = 0b01,
    /// ECN-capable, codepoint ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// The codepoint in the low two bits of `bits`.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// One received transport packet: what follows the IP header (raw sockets) or
/// the UDP header (encapsulated). Ports are UDP's, 0 on raw sockets.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Where it came from.
    pub source: SocketAddr,
    /// The local address it was sent to.
    pub target: SocketAddr,
    /// The ECN mark it arrived with.
    pub ecn: Ecn,
    /// The sender's number for this packet (see [`SendBatch::first_tag`]); 0 when
    /// the world cannot tell. For traces only: it must never steer a protocol.
    pub tag: u64,
    /// The transport header and what follows.
    pub payload: &'a [u8],
}

/// An ICMP report about a packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Icmp {
    /// What happened.
    pub kind: IcmpKind,
    /// Source address of the packet that is quoted: one of ours.
    pub source: IpAddr,
    /// Target address of the packet that is quoted: the peer.
    pub target: IpAddr,
}

/// What an ICMP message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpKind {
    /// The next hop takes packets of at most this many bytes, IP header included.
    TooBig(u32),
    /// Destination unreachable, with the code of ICMPv4 (RFC 792) or ICMPv6 (RFC 4443).
    Unreachable(u8),
    /// The host does not know what follows the IP header: ICMPv6's parameter problem, unrecognized next header (RFC 4443
    /// §3.4). ICMPv4 says it as `Unreachable(2)`.
    UnknownNextHeader,
}
