//! Endpoints over channels of datagrams (RFC 8261 §6.1), and associations whose INIT chunks were exchanged by
//! signalling (draft-hancke-tsvwg-snap).

use anabranch_base::{Engine, Instant, Rng, SendBatch};
use anabranch_sctp::{Associate, Config, Endpoint, Event, Message, SnapError, SnapSide};
use std::collections::VecDeque;

const MTU: usize = 1_200;

fn config(set: &[(&str, &str)]) -> Config {
    let mut config = Config::profile("modern").expect("a profile");
    set.iter().for_each(|(key, value)| config.set(key, value).expect("a knob"));
    config
}

/// Two endpoints, and the packets that they have sent.
struct Channel {
    ends: [Endpoint; 2],
    now: Instant,
    sent: Vec<Vec<u8>>,
}

impl Channel {
    fn new(config: &Config) -> Self {
        let ends = [1, 2].map(|seed| {
            let mut end = Endpoint::over_datagrams_with(config.clone(), MTU as u32, Rng::new(seed));
            end.listen(5000).expect("nobody else does");
            end
        });
        Self { ends, now: Instant::from_millis(1), sent: Vec::new() }
    }

    /// Carries packets and runs timers until nothing happens for ten seconds.
    fn settle(&mut self) -> [Vec<Event>; 2] {
        let mut events = [Vec::new(), Vec::new()];
        let mut batch = SendBatch::new(4);
        for _ in 0..100_000 {
            let mut moved = false;
            for (from, told) in events.iter_mut().enumerate() {
                let mut in_flight = VecDeque::new();
                batch.clear();
                while self.ends[from].poll_transmit(self.now, &mut batch) {
                    in_flight.extend(batch.segments().map(<[u8]>::to_vec));
                    batch.clear();
                }
                for datagram in in_flight {
                    moved = true;
                    self.ends[1 - from].handle_datagram(self.now, &datagram);
                    self.sent.push(datagram);
                }
                told.extend(std::iter::from_fn(|| self.ends[from].poll_event()));
            }
            if moved {
                continue;
            }
            let soon = self.now.plus_nanos(10_000_000_000);
            let Some(next) = self.ends.iter().filter_map(Engine::poll_timeout).min().filter(|at| *at < soon)
            else {
                break;
            };
            self.now = next.max(self.now);
            self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
        }
        events
    }
}

fn ask() -> Associate {
    Associate { local_port: Some(5000), ..Associate::to_port(5000) }
}

fn up(events: &[Event]) -> Option<anabranch_sctp::AssociationId> {
    events.iter().find_map(|event| match event {
        Event::Established { id, .. } | Event::Accepted { id, .. } => Some(*id),
        _ => None,
    })
}

/// Returns the data that `end` has received on `stream`.
fn read(channel: &mut Channel, end: usize, id: anabranch_sctp::AssociationId, stream: u16) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 4_096]);
    while let Ok(Some(received)) = channel.ends[end].recv(channel.now, id, stream, &mut buffer) {
        all.extend_from_slice(&buffer[..received.bytes]);
    }
    all
}

#[test]
fn packets_fill_the_channel_and_name_no_address() {
    let mut channel = Channel::new(&config(&[("auth", "yes"), ("asconf", "yes")]));
    channel.ends[0].associate(channel.now, ask()).expect("free");
    let events = channel.settle();
    let [Some(id), Some(there)] = [0, 1].map(|end: usize| up(&events[end])) else { panic!("{events:?}") };
    let init = &channel.sent[0];
    // RFC 8261 §6.1: the INIT has neither addresses (parameter types 5 and 6) nor Supported Address Types (type 12).
    let mut params = &init[12 + 20..];
    while let [high, low, long, short, ..] = *params {
        let kind = u16::from_be_bytes([high, low]);
        assert!(![5, 6, 12].contains(&kind), "parameter {kind}");
        let length = usize::from(u16::from_be_bytes([long, short])).next_multiple_of(4);
        params = &params[length.min(params.len())..];
    }
    assert!(!channel.ends[0].info(id).expect("up").extensions.asconf, "there are no addresses to change");

    let payload: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    channel.ends[0].send(channel.now, id, Message::default(), &payload).expect("room");
    channel.settle();
    assert_eq!(read(&mut channel, 1, there, 0), payload);
    let longest = channel.sent.iter().map(Vec::len).max();
    assert_eq!(longest, Some(MTU), "no IP header is counted");
}

#[test]
fn addresses_that_a_peer_lists_are_passed_over() {
    let mut plain = Endpoint::over_datagrams(MTU as u32, Rng::new(3));
    plain.listen(5000).expect("free");
    // An endpoint with two addresses lists both of them in its INIT.
    let addresses = ["10.0.0.1:0", "10.0.1.1:0"].map(|text| text.parse().expect("an address")).to_vec();
    let mut other = Endpoint::new(Config::default(), addresses, Rng::new(4));
    let to = "10.0.0.9:0".parse().expect("an address");
    other
        .associate(Instant::ZERO, Associate { local_port: Some(5000), ..Associate::to(to, 5000) })
        .expect("free");
    let mut batch = SendBatch::new(1);
    for _ in 0..4 {
        batch.clear();
        if other.poll_transmit(Instant::ZERO, &mut batch) {
            plain.handle_datagram(Instant::ZERO, batch.bytes());
        }
        batch.clear();
        if plain.poll_transmit(Instant::ZERO, &mut batch) {
            let (source, target) = (to, "10.0.0.1:0".parse().expect("an address"));
            let (ecn, payload) = (anabranch_base::Ecn::NotEct, batch.bytes());
            other.handle_packet(
                Instant::ZERO,
                anabranch_base::Packet { source, target, ecn, tag: 0, payload },
            );
        }
    }
    let id = std::iter::from_fn(|| plain.poll_event()).find_map(|event| match event {
        Event::Accepted { id, .. } => Some(id),
        _ => None,
    });
    assert_eq!(plain.info(id.expect("it is up")).map(|info| info.paths.len()), Some(1));
}

/// RFC 9653: over DTLS, only the packets that set up the association carry a checksum.
#[test]
fn over_dtls_packets_go_without_a_checksum() {
    let mut channel = Channel::new(&config(&[("zero_checksum", "yes")]));
    let id = channel.ends[0].associate(channel.now, ask()).expect("free");
    channel.settle();
    channel.sent.clear();
    channel.ends[0].send(channel.now, id, Message::default(), &[7; 5_000]).expect("room");
    channel.settle();
    assert!(channel.sent.len() > 4);
    assert!(channel.sent.iter().all(|datagram| datagram[8..12] == [0; 4]));
}

#[test]
fn init_chunks_by_signalling_need_no_handshake() {
    let mut channel = Channel::new(&config(&[("zero_checksum", "yes"), ("num_ostreams", "300")]));
    let [offer, answer] = [0, 1].map(|end: usize| channel.ends[end].init_chunk());
    let now = channel.now;
    let here = channel.ends[0].associate_by_init(now, ask(), &offer, &answer).expect("two INITs");
    channel.ends[0].send(now, here, Message { stream: 299, ..Message::default() }, b"at once").expect("up");
    let there = channel.ends[1].associate_by_init(now, ask(), &answer, &offer).expect("two INITs");
    let events = channel.settle();
    assert_eq!([up(&events[0]), up(&events[1])], [Some(here), Some(there)]);
    assert_eq!(read(&mut channel, 1, there, 299), b"at once");
    // Byte 12 is the type of the first chunk, which must be DATA (0) or I-DATA (64).
    assert!([0, 64].contains(&channel.sent[0][12]), "{:?}", channel.sent[0]);
    let agreed = [(0, here), (1, there)].map(|(end, id): (usize, _)| channel.ends[end].info(id).expect("up"));
    assert_eq!(agreed[0].extensions, agreed[1].extensions);
    assert!(agreed[0].extensions.zero_checksum && agreed[0].extensions.reconfig);
    assert_eq!((agreed[0].outbound_streams, agreed[1].inbound_streams), (300, 300));
    assert!(channel.ends[0].trace_key(here) == channel.ends[1].trace_key(there));
    channel.ends[1].shutdown(channel.now, there);
    channel.settle();
    assert_eq!(channel.ends.each_ref().map(Endpoint::associations), [0, 0], "it ends as any other");
}

/// The INIT chunk of the example in draft-hancke-tsvwg-snap, without its two bytes of padding.
const OF_THE_DRAFT: [u8; 30] = [
    0x01, 0x00, 0x00, 0x1e, 0x89, 0x6c, 0xdd, 0x1d, 0x00, 0x50, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xe0,
    0x79, 0x65, 0x1d, 0xc0, 0x00, 0x00, 0x04, 0x80, 0x08, 0x00, 0x06, 0x82, 0xc0,
];

#[test]
fn the_chunk_of_the_draft_is_taken() {
    let mut channel = Channel::new(&config(&[]));
    let ours = channel.ends[0].init_chunk();
    let id = channel.ends[0].associate_by_init(channel.now, ask(), &ours, &OF_THE_DRAFT).expect("an INIT");
    let info = channel.ends[0].info(id).expect("up");
    assert!(info.extensions.partial_reliability && info.extensions.reconfig && !info.extensions.interleaving);
    assert_eq!(info.peer_rwnd, 0x50_0000);
}

#[test]
fn what_is_no_init_chunk_begins_nothing() {
    let mut channel = Channel::new(&config(&[]));
    let (ours, theirs) = (channel.ends[0].init_chunk(), channel.ends[1].init_chunk());
    let now = channel.now;
    let mut begin = |local: &[u8], peer: &[u8]| channel.ends[0].associate_by_init(now, ask(), local, peer);
    let mut ack = theirs.clone();
    ack[0] = 2;
    let mut no_tag = theirs.clone();
    no_tag[4..8].fill(0);
    let twice = [theirs.clone(), theirs.clone()].concat();
    let huge = vec![1; 4_096];
    for bad in [&[][..], &theirs[..8], &theirs[..theirs.len() - 4], &ack, &no_tag, &twice, &huge] {
        assert_eq!(begin(&ours, bad), Err(SnapError::NoInit(SnapSide::Peer)), "{bad:?}");
        assert_eq!(begin(bad, &theirs), Err(SnapError::NoInit(SnapSide::Local)), "{bad:?}");
    }
    assert_eq!(begin(&ours, &ours), Err(SnapError::SameTag));
    begin(&ours, &theirs).expect("both are good");
    let other = channel.ends[1].init_chunk();
    assert_eq!(channel.ends[0].associate_by_init(now, ask(), &ours, &other), Err(SnapError::TagInUse));
}

#[test]
fn the_buffered_amount_of_each_stream_is_its_own() {
    let mut channel = Channel::new(&config(&[]));
    let id = channel.ends[0].associate(channel.now, ask()).expect("free");
    channel.settle();
    for (stream, bytes) in [(1, 10), (2, 50_000), (1, 20)] {
        let message = Message { stream, ..Message::default() };
        channel.ends[0].send(channel.now, id, message, &vec![7; bytes]).expect("room");
    }
    let amounts = |end: &Endpoint| [0, 1, 2].map(|stream| end.buffered_amount(id, stream));
    assert_eq!(amounts(&channel.ends[0]), [0, 30, 50_000]);
    assert!(channel.ends[0].set_buffered_amount_low(id, 2, Some(0)));
    assert!(!channel.ends[0].set_buffered_amount_low(id, 60_000, Some(0)), "there is no such stream");
    // The bytes of an abandoned message no longer count as buffered.
    channel.ends[0].cancel(channel.now, id, 1);
    assert_eq!(amounts(&channel.ends[0]), [0, 0, 50_000]);
    let [events, _] = channel.settle();
    assert_eq!(amounts(&channel.ends[0]), [0; 3]);
    let low = Event::BufferedAmountLow { id, stream: 2 };
    assert_eq!(events.iter().filter(|event| **event == low).count(), 1);
    channel.ends[0]
        .send(channel.now, id, Message { stream: 2, ..Message::default() }, b"again")
        .expect("room");
    let [events, _] = channel.settle();
    assert_eq!(events.iter().filter(|event| **event == low).count(), 1, "each time");
}
