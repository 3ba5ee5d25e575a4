//! The interface between a protocol engine and its driver.
//!
//! An [`Engine`] is a state machine: packets, time and commands go in; packets, events and one deadline come out. It
//! never sleeps, sends or reads the clock. A single drive loop (`transport::drive`) serves every engine, in simulated
//! networks and on the operating system's network.

use crate::batch::{RecvBatch, SendBatch};
use crate::time::Instant;
use crate::trace::TraceRecord;
use std::net::{IpAddr, SocketAddr};

/// A protocol endpoint that performs no I/O itself.
///
/// It guarantees two properties, which property tests check:
/// 1. *Order does not matter.* Between two calls that change the engine, any order of the polls yields the same packets
///    and events.
/// 2. *Progress.* Once `poll_transmit` and `poll_event` have no more output, `poll_timeout` is `None` or strictly later
///    than the last `now`.
pub trait Engine {
    /// The events that the application receives.
    type Event;

    /// Processes an arrived packet. Changes only the engine's state: it sends no packet and calls no callback.
    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>);

    /// Processes the packets of `batch`. An engine may keep the buffer of a packet
    /// ([`PacketBytes::take_buffer`](crate::PacketBytes::take_buffer)). Afterwards the content of the batch has no
    /// meaning.
    fn handle_batch(&mut self, now: Instant, batch: &mut RecvBatch) {
        for packet in batch.packets() {
            self.handle_packet(now, packet);
        }
    }

    /// Processes an ICMP error about a packet that this engine sent. `quoted` is the part of the packet that the error
    /// quotes.
    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        let _ = (now, icmp, quoted);
    }

    /// Processes a packet of this engine that the host could not send, because it has no route from the packet's source
    /// to its target at present. The packets after this one in the batch were not sent either. The information is a
    /// hint; it may be outdated a moment later.
    fn handle_unsent(&mut self, now: Instant, packet: Packet<'_>) {
        let _ = (now, packet);
    }

    /// Called when the host's routes or interfaces have changed. Packets that could not be sent before may have a route
    /// now.
    fn handle_routes(&mut self, now: Instant) {
        let _ = now;
    }

    /// Called when a lower layer with its own handshake (DTLS) has become able to carry packets to `peer`, or has
    /// permanently lost that peer.
    fn handle_peer(&mut self, now: Instant, peer: SocketAddr, state: PeerState) {
        let _ = (now, peer, state);
    }

    /// Processes all timers that are due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// Appends packets of the same source, target, ECN codepoint and size (the last may be shorter) to `out`, which the
    /// caller has cleared. If there is nothing to send now, returns false and leaves `out` empty.
    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool;

    /// Returns the next event for the application.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// Returns the earliest deadline. Has no side effects and may be called at any time.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns whether `poll_transmit` or `poll_event` may have output. After a command that changed nothing, such as
    /// most reads, a result of false saves a run of the drive loop.
    fn has_output(&self) -> bool {
        true
    }

    /// Starts or stops recording a trace. Initially nothing is recorded.
    fn set_tracing(&mut self, on: bool);

    /// Returns the trace recorded since the last call.
    fn take_trace(&mut self) -> Vec<TraceRecord>;
}

/// Whether a layer below the engine can carry packets to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// Packets can be sent to the peer.
    Ready,
    /// Packets can no longer be sent to the peer. Everything in progress with the peer has ended.
    Lost,
}

/// The two ECN bits of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport is not ECN-capable.
    #[default]
    NotEct = 0b00,
    /// The transport is ECN-capable, codepoint ECT(1).
    Ect1 = 0b01,
    /// The transport is ECN-capable, codepoint ECT(0).
    Ect0 = 0b10,
    /// A router has marked congestion: codepoint CE.
    Ce = 0b11,
}

impl Ecn {
    /// Returns the codepoint in the low two bits of `bits`.
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

/// A received transport packet: the bytes after the IP header (on raw sockets) or after the UDP header (if
/// encapsulated). The ports in the addresses are those of UDP, or 0 on raw sockets.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The source address of the packet.
    pub source: SocketAddr,
    /// The local address to which the packet was sent.
    pub target: SocketAddr,
    /// The ECN codepoint with which the packet arrived.
    pub ecn: Ecn,
    /// The sender's number for this packet (see [`SendBatch::first_tag`]), or 0 if unknown. For traces only; it must
    /// never influence a protocol.
    pub tag: u64,
    /// The transport header and the bytes after it.
    pub payload: &'a [u8],
}

/// An ICMP error about a packet that this host sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Icmp {
    /// The type of the error.
    pub kind: IcmpKind,
    /// The source address of the quoted packet, which is an address of this host.
    pub source: IpAddr,
    /// The target address of the quoted packet, which is the peer's address.
    pub target: IpAddr,
}

/// The type of an ICMP error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpKind {
    /// A router cannot forward packets larger than this many bytes, including the IP header.
    TooBig(u32),
    /// Destination unreachable, with the code of ICMPv4 (RFC 792) or ICMPv6 (RFC 4443).
    Unreachable(u8),
    /// The host does not support the protocol after the IP header: ICMPv6 parameter problem, unrecognized next header
    /// (RFC 4443 §3.4). ICMPv4 reports this as `Unreachable(2)`.
    UnknownNextHeader,
}
