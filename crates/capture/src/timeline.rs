//! The events of a conversation over time. The rules search them for the reasons why the conversation was slow.
//!
//! All transports have the same events. The code calls a TSN of SCTP, a byte of TCP, or a packet number of QUIC a *unit*.
//! Units are counted from the first unit of the direction. The number of events is limited. Later events are only
//! counted.

use super::arrival::{Arrival, Side};
use super::data_class::DataClass;

/// The events of a conversation, in the order of their packets.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Timeline {
    pub entries: Vec<Entry>,
    max: usize,
    /// The number of events that were not kept.
    pub left_out: u64,
    /// QUIC: the packets that each side lost, from the packet numbers of both directions.
    pub losses: [Losses; 2],
    /// The number of the packet that is being processed, and its time.
    packet: (u64, u64),
}

/// The packets of one side of a QUIC connection that never arrived.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Losses {
    /// The number of packet numbers that the side has used, captured or not.
    pub all: u64,
    /// The lost packets, sorted by time.
    pub lost: Vec<LostPackets>,
}

/// Lost packets with consecutive numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LostPackets {
    pub at: u64,
    /// The number, in the capture, of the lost packet. If the packet was lost before the place of capture, the number of
    /// the packet after the gap.
    pub packet: u64,
    pub count: u64,
    pub is_captured: bool,
}

/// An event of the timeline, with its packet, its time, and the side that sent the packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Entry {
    /// The number of the packet in the capture, counted from 1.
    pub packet: u64,
    pub at: u64,
    pub side: Side,
    pub event: Event,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Event {
    Data(Data),
    Ack(Ack),
    /// A round-trip time in nanoseconds, which an acknowledgement of data of this side has shown.
    RoundTrip(u64),
    /// An INIT, a SYN, or a ClientHello.
    Request,
    /// An INIT ACK, a SYN ACK, or a server's answer to a ClientHello.
    Answer,
    CookieEcho,
    CookieAck,
    /// A FORWARD TSN chunk, with the first TSN that it does not skip.
    ForwardTsn(i64),
    /// A request to reset streams (RFC 6525 §4.1), with its number.
    ResetRequest(u32),
    /// A response to a request to reset streams, with the number of the request and the result.
    ResetResponse(u32, u32),
    /// A SHUTDOWN or a FIN.
    Close,
    /// A SHUTDOWN ACK.
    CloseAnswer,
    /// A new limit of flow control in QUIC or HTTP/2, for a stream or for the connection.
    Limit(Option<u64>, u64),
    /// HTTP/2: the number of bytes of a flow-control limit that the sender has used.
    Used(Option<u64>, u64),
    /// The sender has more data than this flow-control limit allows.
    Blocked(Option<u64>, u64),
    /// QUIC: the number of streams of a kind that the peer may open in total.
    StreamsLimit {
        unidirectional: bool,
        limit: u64,
    },
    /// QUIC: the sender wants to open more streams than this limit allows.
    StreamsBlocked {
        unidirectional: bool,
        limit: u64,
    },
    /// The packet has the ECN mark Congestion Experienced.
    Marked,
    /// The packet reports an ECN mark to the peer.
    MarkReport,
    /// An ICMP error that quotes a packet of this side.
    Icmp(IcmpReport),
}

/// What an ICMP error says about the path or the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IcmpReport {
    /// The next hop carries packets of at most this many bytes, or an unknown number if it is 0.
    TooBig(u32),
    Port,
    Host,
    Prohibited,
    Other,
}

impl IcmpReport {
    /// Returns the rest of a sentence whose subject is the quoted packets.
    pub fn text(self) -> String {
        match self {
            Self::TooBig(0) => "the next hop does not carry packets of this size".to_owned(),
            Self::TooBig(mtu) => format!("the next hop carries at most {mtu} bytes"),
            Self::Port => "no program listens at the port".to_owned(),
            Self::Host => "there is no route to the host".to_owned(),
            Self::Prohibited => "a firewall rejects the packets".to_owned(),
            Self::Other => "the destination is unreachable".to_owned(),
        }
    }
}

/// An event: data in a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Data {
    /// The first unit of the data, and the unit after the last one. A unit is a TSN, a byte, or a packet number.
    pub units: (i64, i64),
    pub stream: u64,
    /// QUIC: the position of the first byte in the stream.
    pub offset: u64,
    /// The number of bytes of user data.
    pub bytes: u32,
    /// The size of the packet with its IP header.
    pub wire_len: u32,
    /// The number of units in flight after this packet.
    pub flight: i64,
    pub class: DataClass,
    /// SCTP: whether a message begins or ends with this data.
    pub begins: bool,
    pub ends: bool,
}

/// An acknowledgement of the peer's data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Ack {
    /// The first unit that is not acknowledged. A unit is a TSN, a byte, or a packet number.
    pub cumulative: i64,
    /// The number of the peer's units in flight after this packet.
    pub flight: i64,
    /// Whether data is missing between data that has arrived.
    pub has_gaps: bool,
    /// The receive window in bytes, unless it is unknown.
    pub window: Option<u64>,
}

impl Timeline {
    /// Creates a timeline of at most `max` events.
    pub fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// Begins a packet. Later events belong to it. Times never decrease, even if packets were captured out of order.
    pub fn packet(&mut self, arrival: &Arrival<'_>) {
        self.packet = (arrival.number, arrival.at.max(self.packet.1));
        if arrival.is_marked {
            self.push(arrival.side, Event::Marked);
        }
    }

    /// Adds an event of the current packet. `side` has sent the packet, except for [`Event::RoundTrip`].
    pub fn push(&mut self, side: Side, event: Event) {
        if self.entries.len() < self.max {
            let (packet, at) = self.packet;
            self.entries.push(Entry { packet, at, side, event });
        } else {
            self.left_out += 1;
        }
    }
}
