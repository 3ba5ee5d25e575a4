//! Entry points for fuzzing: the functions of this crate that parse bytes from the peer or from the network.

use crate::endpoint::long_destination;
use crate::qlog::{LoggedPacket, PacketType, Qlog};
use crate::shards::Steered;
use crate::trace::Trace;
use crate::watch::{Level, Watch};
use anabranch_base::Instant;
use anabranch_wire::quic::Frames;
use anabranch_world::steering::Steering;
use quinn_proto::{Dir, Side, StreamId};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Parses a packet's payload twice: as a sent packet, and as a received packet. Logging and tracing are on.
///
/// # Panics
/// If more frames are found than the payload has bytes.
pub fn payload(payload: &[u8]) {
    assert!(Frames(payload).count() <= payload.len(), "more frames than bytes");
    let mut parameters = Frames(payload);
    while parameters.parameter().is_some() {}
    let trace = Trace::default();
    trace.set(true);
    let log = Qlog::begin(Box::new(std::io::sink()), Side::Server, &[1, 2], Instant::ZERO);
    let watch = Watch::logged(Arc::default(), 1, trace, Some(log));
    for stream in 0..4 {
        watch.wrote(StreamId::new(Side::Client, Dir::Bi, stream), 1_000);
    }
    for (number, level) in [(0, Level::Initial), (1, Level::Handshake), (2, Level::Data), (3, Level::Data)] {
        let seen =
            LoggedPacket { packet_type: PacketType::OneRtt, number, length: payload.len() + 20, payload };
        watch.log_packet(true, seen);
        watch.on_packet_sent(level, number, payload, payload.len() + 20);
        watch.log_packet(false, seen);
        watch.on_packet_received(level, number, payload);
        watch.settled();
        watch.trace_limit(1_200);
    }
}

/// Parses a datagram twice: as a packet for one of several endpoints behind a port, and as a packet quoted by ICMP.
pub fn datagram(datagram: &[u8]) {
    if let Some(steered) = Steered::new(3) {
        let owner = steered.owner(Ipv4Addr::LOCALHOST.into(), datagram);
        debug_assert!(owner.is_none_or(|owner| owner < 3));
    }
    let quoted = long_destination(datagram);
    debug_assert!(quoted.is_none_or(|quoted| quoted.len() < datagram.len()));
}
