//! The interface between a protocol engine and its driver.
//!
//! An [`Engine`] is a state machine: packets, time and commands go in; packets, events and one deadline come out. It
//! never sleeps, never sends a packet itself, and never reads the clock. A single drive loop (`transport::drive`)
//! serves every engine, in simulated networks and on the operating system's network.

use crate::batch::{RecvBatch, SendBatch};
use crate::time::Instant;
use crate::trace::TraceRecord;
use std::net::SocketAddr;

pub use crate::packet::{Ecn, Icmp, IcmpKind, Packet, PeerState};

/// A protocol endpoint that performs no I/O itself.
///
/// An engine guarantees two properties, which property tests check:
/// 1. *Order does not matter.* Between two calls that change the engine, any order of the polls yields the same packets
///    and events.
/// 2. *Progress.* Once `poll_transmit` and `poll_event` have no more output, `poll_timeout` is `None` or strictly later
///    than the last `now`.
pub trait Engine {
    /// The type of the events for the application.
    type Event;

    /// Processes an arrived packet. Changes only the engine's state: it sends no packet and calls no callback.
    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>);

    /// Processes the packets of `batch`. After the call, the content of the batch has no meaning, because an engine may
    /// keep the buffer of a packet ([`PacketBytes::take_buffer`](crate::PacketBytes::take_buffer)).
    fn handle_batch(&mut self, now: Instant, batch: &mut RecvBatch) {
        for packet in batch.packets() {
            self.handle_packet(now, packet);
        }
    }

    /// Returns whether the engine can leave checksums to the socket ([`SendBatch::offloads_checksums`]), and heeds
    /// [`RecvBatch::intact`] and [`RecvBatch::shared_len`].
    fn offloads_checksums(&self) -> bool {
        false
    }

    /// Processes an ICMP error about a packet that this engine sent. `quoted` is the part of the packet that the error
    /// quotes.
    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        let _ = (now, icmp, quoted);
    }

    /// Processes a packet of this engine that the host could not send, because it has no route from the packet's source
    /// to its target. The packets after this packet in the batch were not sent either. The engine must treat the call
    /// only as a hint, because a route may appear at any time.
    fn handle_unsent(&mut self, now: Instant, packet: Packet<'_>) {
        let _ = (now, packet);
    }

    /// Processes a packet of this engine that the packet filter of this host has dropped, so it never left the host.
    /// The call comes before the next call of [`poll_transmit`](Self::poll_transmit). By default, the engine treats the
    /// packet as sent, and detects the loss like any other.
    fn handle_local_drop(&mut self, now: Instant, packet: Packet<'_>) {
        let _ = (now, packet);
    }

    /// Called when the host's routes or interfaces have changed. There may now be a route for packets that could not be
    /// sent.
    fn handle_routes(&mut self, now: Instant) {
        let _ = now;
    }

    /// Called when the state of a lower layer with its own handshake (DTLS) changes. The layer can now carry packets to
    /// `peer`, or has permanently lost that peer.
    fn handle_peer(&mut self, now: Instant, peer: SocketAddr, state: PeerState) {
        let _ = (now, peer, state);
    }

    /// Processes all timers that are due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// Appends packets to `out`, which the caller has cleared. All have the same source, target, ECN codepoint and
    /// size, except that the last may be shorter. Returns false and leaves `out` empty if there is nothing to send now.
    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool;

    /// Returns the next event for the application.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// Returns the earliest deadline. Has no side effects and may be called at any time.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns whether `poll_transmit` or `poll_event` may have output. If it returns false after a command of the
    /// application, the drive loop need not run.
    fn has_output(&self) -> bool {
        true
    }

    /// Starts or stops recording a trace. Initially nothing is recorded.
    fn set_tracing(&mut self, on: bool);

    /// Returns the trace recorded since the last call.
    fn take_trace(&mut self) -> Vec<TraceRecord>;
}
