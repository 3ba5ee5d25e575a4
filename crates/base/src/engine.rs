//! The interface between a protocol engine and its driver.
//!
//! An [`Engine`] is a state machine: packets, time and commands go in; packets, events and one deadline come out. It
//! never sleeps, sends or reads the clock. One drive loop (`transport::drive`) serves every engine in every world.

use crate::batch::{RecvBatch, SendBatch};
use crate::time::Instant;
use crate::trace::TraceRecord;
use std::net::{IpAddr, SocketAddr};

/// A protocol endpoint that does no input or output itself.
///
/// It guarantees two properties, which property tests check:
/// 1. *Order does not matter.* Between two mutations any interleaving of the
///    polls yields the same packets and events.
/// 2. *Progress.* Once `poll_transmit` and `poll_event` are drained,
///    `poll_timeout` is `None` or strictly later than the last `now`.
pub trait Engine {
    /// The events that the application receives.
    type Event;

    /// A packet arrived. Changes state only: never sends, never calls back.
    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>);

    /// Handles the packets of `batch`. An engine may keep the buffer of a packet
    /// ([`PacketBytes::take_buffer`](crate::PacketBytes::take_buffer)). The content of the batch is meaningless
    /// afterwards.
    fn handle_batch(&mut self, now: Instant, batch: &mut RecvBatch) {
        for packet in batch.packets() {
            self.handle_packet(now, packet);
        }
    }

    /// Handles an ICMP report about a packet that this engine sent.
    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        let _ = (now, icmp, quoted);
    }

    /// Handles a packet of this engine that the host could not send, because it has no route from the packet's source
    /// to its target at present. Neither this packet nor those behind it were sent. This is a hint; it may be outdated
    /// a moment later.
    fn handle_unsent(&mut self, now: Instant, packet: Packet<'_>) {
        let _ = (now, packet);
    }

    /// The host's routes or interfaces have changed, so packets that could not be sent may have a route now.
    fn handle_routes(&mut self, now: Instant) {
        let _ = now;
    }

    /// A lower layer with its own handshake (DTLS) has become able to carry packets to `peer`, or has lost the peer for
    /// good.
    fn handle_peer(&mut self, now: Instant, peer: SocketAddr, state: PeerState) {
        let _ = (now, peer, state);
    }

    /// Runs everything that is due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// Appends packets of one source, target, ECN mark and size (the last may
    /// be shorter) to `out`, which the caller has cleared. Returns false, with
    /// `out` empty, when there is nothing to send now.
    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool;

    /// Returns the next event for the application.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// Returns the earliest deadline. Has no side effects and may be called at any time.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns whether a poll may have output. False only if neither `poll_transmit` nor `poll_event` has any. A
    /// command that changed nothing, as most reads, then need not run the whole drive loop.
    fn has_output(&self) -> bool {
        true
    }

    /// Starts or stops keeping a trace (off at first).
    fn set_tracing(&mut self, on: bool);

    /// Takes the trace kept since the last call.
    fn take_trace(&mut self) -> Vec<TraceRecord>;
}

/// The state of a peer in a layer below the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// Packets can be sent to the peer.
    Ready,
    /// Packets can no longer be sent to the peer, and everything in progress with it has ended.
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
    /// The source address of the packet.
    pub source: SocketAddr,
    /// The local address that the packet was sent to.
    pub target: SocketAddr,
    /// The ECN mark with which the packet arrived.
    pub ecn: Ecn,
    /// The sender's number for this packet (see [`SendBatch::first_tag`]), or 0 if unknown. For traces only; it must
    /// never influence a protocol.
    pub tag: u64,
    /// The transport header and what follows.
    pub payload: &'a [u8],
}

/// An ICMP report about a packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Icmp {
    /// The type of the report.
    pub kind: IcmpKind,
    /// Source address of the quoted packet: an address of this host.
    pub source: IpAddr,
    /// Target address of the quoted packet: the peer.
    pub target: IpAddr,
}

/// The type of an ICMP report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpKind {
    /// The next hop accepts packets of at most this many bytes, including the IP header.
    TooBig(u32),
    /// Destination unreachable, with the code of ICMPv4 (RFC 792) or ICMPv6 (RFC 4443).
    Unreachable(u8),
    /// The host does not know the protocol after the IP header: ICMPv6 parameter problem, unrecognized next header
    /// (RFC 4443 §3.4). ICMPv4 reports it as `Unreachable(2)`.
    UnknownNextHeader,
}
