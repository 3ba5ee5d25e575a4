//! Runs an SCTP stack of another project as an engine on a host of the virtual network.
//!
//! [`Peer`] is the interface to which each stack is adapted: packets and time go in, packets and [`PeerEvent`] come
//! out. [`Foreign`] turns a peer into an [`Engine`], so that the loop of our endpoint also drives the peer. `Foreign`
//! also records the packets on the wire. The record shows which features a run has used, or why the run failed.

use anabranch_base::trace::TraceRecord;
use anabranch_base::{Engine, Instant, Packet, SendBatch};
use anabranch_sctp::Reliability;
use anabranch_wire::ladder::{Ladder, Transport};
use anabranch_wire::sctp::{Chunk, Data, PacketView, ReConfigParam, packet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// An event of another project's SCTP stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerEvent {
    /// The association is established.
    Up,
    /// A complete message has arrived.
    Message {
        /// The stream on which the message arrived.
        stream: u16,
        /// The content of the message.
        payload: Vec<u8>,
    },
    /// Streams of the other side were reset.
    TheirsReset(Vec<u16>),
    /// Streams of this side were reset, with the other side's agreement.
    OursReset(Vec<u16>),
    /// The other side has refused to reset these streams.
    ResetRefused(Vec<u16>),
    /// The association has ended, with the reason as far as the stack knows it.
    Down(String),
}

/// The options with which a message is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeliveryOptions {
    /// The stream on which the message is sent.
    pub stream: u16,
    /// Whether the message is unordered.
    pub unordered: bool,
    /// The reliability of the message.
    pub reliability: Reliability,
}

/// One end of one association in a foreign stack.
pub trait Peer {
    /// Starts the association.
    fn connect(&mut self, now: Instant);

    /// Processes a packet that has arrived.
    fn handle_packet(&mut self, now: Instant, bytes: &[u8]);

    /// Processes the timers that have expired.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the earliest time at which the stack must be called; `None` if it waits for nothing.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns the next packet that the stack wants to send, if any.
    fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>>;

    /// Returns the next event of the stack, if any.
    fn poll_event(&mut self) -> Option<PeerEvent>;

    /// Sends a message.
    ///
    /// # Errors
    /// The error of the stack.
    fn send(&mut self, now: Instant, options: DeliveryOptions, payload: &[u8]) -> Result<(), String>;

    /// Resets outgoing streams of the foreign endpoint.
    ///
    /// # Errors
    /// The error of the stack.
    fn reset(&mut self, now: Instant, streams: &[u16]) -> Result<(), String>;

    /// Closes the association when all queued data has been delivered.
    fn shutdown(&mut self, now: Instant) -> Result<(), String>;

    /// Aborts the association.
    ///
    /// # Errors
    /// The error of the stack.
    fn abort(&mut self, now: Instant) -> Result<(), String>;
}

/// The chunks and packets that the other project's SCTP stack sent, or those that it received.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The number of chunks by type.
    pub chunks: BTreeMap<u8, u64>,
    /// The number of packets that were seen.
    pub packets: u64,
    /// The number of packets whose checksum is zero.
    pub unsummed: u64,
    /// Gap blocks of NR-SACKs: the number of renegable gap blocks, and the number of non-renegable gap blocks.
    pub nr_sack_blocks: (u64, u64),
    /// The number of interrupted messages. A message is interrupted if one of its fragments, except the last, is
    /// followed by a chunk of another message that has the next TSN. RFC 9260 §6.9 does not allow this.
    pub cut_off: u64,
    /// The number of stream resets that were requested while another reset was outstanding. RFC 6525 §5.1.2 does not
    /// allow this.
    pub overlapping: u64,
    /// The request sequence numbers of outstanding stream resets.
    outstanding_resets: BTreeSet<u32>,
    /// The DATA chunk with the highest TSN so far: its TSN, its stream number, and whether it ends a message.
    latest: Option<(u32, u16, bool)>,
}

impl Seen {
    /// Records which outstanding reset requests the other side has answered.
    fn note_answers(&mut self, bytes: &[u8]) {
        let Ok(view) = PacketView::parse_unverified(bytes) else { return };
        for chunk in view.chunks() {
            if let Ok(Chunk::ReConfig(chunk)) = chunk {
                for param in chunk.params() {
                    if let ReConfigParam::Response { response, .. } = param {
                        self.outstanding_resets.remove(&response);
                    }
                }
            }
        }
    }

    /// Counts a packet, its chunks, and the conditions that the test cases check.
    pub fn note(&mut self, bytes: &[u8]) {
        self.packets += 1;
        self.unsummed += u64::from(packet::has_zero_checksum(bytes));
        if let Ok(view) = PacketView::parse_unverified(bytes) {
            let mut chunks = view.chunks();
            while let Some(Ok(raw)) = chunks.next_raw() {
                *self.chunks.entry(raw.kind).or_default() += 1;
                match Chunk::parse(raw) {
                    Ok(Chunk::Data(data)) => self.note_data(&data),
                    Ok(Chunk::NrSack(nr)) => {
                        self.nr_sack_blocks.0 += nr.sack.gaps().len() as u64;
                        self.nr_sack_blocks.1 += nr.nr_gaps().len() as u64;
                    }
                    Ok(Chunk::ReConfig(chunk)) => {
                        for param in chunk.params() {
                            if let ReConfigParam::ResetOutgoing { request, .. } = param
                                && self.outstanding_resets.insert(request)
                            {
                                self.overlapping += u64::from(self.outstanding_resets.len() > 1);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn note_data(&mut self, data: &Data<'_>) {
        if let Some((tsn, stream, ends)) = self.latest {
            let ahead = data.tsn.0.wrapping_sub(tsn);
            if ahead == 0 || ahead > u32::MAX / 2 {
                return;
            }
            // If a TSN is missing between the two chunks, the message does not count as interrupted, because it may
            // have been abandoned.
            self.cut_off += u64::from(ahead == 1 && !ends && (data.begin || data.stream != stream));
        }
        self.latest = Some((data.tsn.0, data.stream, data.end));
    }

    /// Adds the numbers of another run to these.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.unsummed += other.unsummed;
        self.cut_off += other.cut_off;
        self.overlapping += other.overlapping;
        for (&kind, count) in &other.chunks {
            *self.chunks.entry(kind).or_default() += count;
        }
    }

    /// Returns the number of chunks of a type.
    #[must_use]
    pub fn count(&self, kind: u8) -> u64 {
        self.chunks.get(&kind).copied().unwrap_or(0)
    }
}

/// A foreign SCTP stack on a simulated host.
pub struct Foreign {
    /// The foreign stack.
    pub peer: Box<dyn Peer>,
    /// The packets that the foreign endpoint received.
    pub received: Seen,
    /// The packets that the foreign endpoint sent.
    pub sent: Seen,
    here: SocketAddr,
    there: SocketAddr,
    has_progress: bool,
    log: VecDeque<(Instant, bool, Vec<u8>)>,
}

impl Foreign {
    /// Creates a foreign endpoint that `peer` implements. Its address is `here`, and the address of the other endpoint
    /// is `there`.
    #[must_use]
    pub fn new(peer: Box<dyn Peer>, here: SocketAddr, there: SocketAddr) -> Self {
        let (received, sent) = (Seen::default(), Seen::default());
        Self { peer, received, sent, here, there, has_progress: false, log: VecDeque::new() }
    }

    fn note(&mut self, now: Instant, outward: bool, bytes: &[u8]) {
        let seen = if outward { &mut self.sent } else { &mut self.received };
        seen.note(bytes);
        if self.log.len() == LOGGED {
            self.log.pop_front();
        }
        self.log.push_back((now, outward, bytes.to_vec()));
    }

    /// Returns the latest packets that the foreign endpoint sent and received.
    #[must_use]
    pub fn packets(&self) -> Vec<Vec<u8>> {
        self.log.iter().map(|(_, _, bytes)| bytes.clone()).collect()
    }

    /// Returns the latest packets as a ladder diagram, as seen at the network interface of the other project's stack.
    #[must_use]
    pub fn ladder(&self) -> String {
        let mut ladder = Ladder::new(Transport::Sctp, "ours", "theirs");
        let mut text = String::new();
        for (at, outward, bytes) in &self.log {
            let (source, target) = if *outward { (self.here, self.there) } else { (self.there, self.here) };
            ladder.set_side(self.there.ip(), anabranch_wire::ladder::Side::Left, "");
            text += &ladder.line(*at, source.ip(), target.ip(), bytes);
            text.push('\n');
        }
        text
    }
}

impl Engine for Foreign {
    /// Events have no content, so the script must ask the peer what has happened.
    type Event = ();

    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        self.note(now, false, packet.payload);
        self.sent.note_answers(packet.payload);
        self.peer.handle_packet(now, packet.payload);
        self.has_progress = true;
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.peer.handle_timeout(now);
        self.has_progress = true;
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool {
        let Some(bytes) = self.peer.poll_transmit(now) else { return false };
        self.note(now, true, &bytes);
        (out.source, out.target) = (self.here, self.there);
        out.push(&bytes);
        true
    }

    fn poll_event(&mut self) -> Option<()> {
        std::mem::take(&mut self.has_progress).then_some(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.peer.poll_timeout()
    }

    fn set_tracing(&mut self, _on: bool) {}

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        Vec::new()
    }
}

/// The number of packets that are kept to explain a failure.
const LOGGED: usize = 4000;
