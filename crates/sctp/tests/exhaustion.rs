//! The memory in use must stay bounded if a peer sends fragments that can never be reassembled, and if the application
//! does not read (RFC 9260 §6.2, §12.2.4; RFC 8260 §2.1).

use anabranch_base::{Ecn, Engine, Instant, Packet};
use anabranch_sctp::testing::{Pair, Side, address, transmit_all_bytes};
use anabranch_sctp::{Associate, Config, Event};
use anabranch_wire::sctp::{Chunk, Data, IData, PacketView, Ssn, Tsn, packet};

const PORT: u16 = 80;

/// An association of B, with the values that the test needs to send packets as A.
struct Victim {
    pair: Pair,
    id: anabranch_sctp::AssociationId,
    ports: (u16, u16),
    tag: u32,
    tsn: u32,
}

/// Returns the resident set size of this process in bytes.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    4_096 * text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number")
}

impl Victim {
    fn new(interleaving: bool) -> Self {
        let mut config = Config::default();
        let set = [
            ("interleaving", if interleaving { "yes" } else { "no" }),
            ("num_ostreams", "65535"),
            ("rcvbuf", "64KiB"),
        ];
        for (key, value) in set {
            config.set(key, value).expect("a knob");
        }
        let mut pair = Pair::new(config.clone(), config, 1, 1);
        pair.b.listen(PORT).expect("free");
        let seen = std::rc::Rc::new(std::cell::RefCell::new((0, 0, (0, 0))));
        let notes = seen.clone();
        pair.observer = Some(Box::new(move |_, side, bytes, _| {
            let view = PacketView::parse(bytes).expect("a good packet");
            let mut notes = notes.borrow_mut();
            match (side, view.chunks().next()) {
                (Side::A, Some(Ok(Chunk::Init(init)))) => {
                    notes.1 = init.tsn.0;
                    notes.2 = (view.header.source_port, view.header.target_port);
                }
                (Side::B, Some(Ok(Chunk::InitAck(ack)))) => notes.0 = ack.0.tag,
                _ => {}
            }
        }));
        let now = pair.now;
        pair.a.associate(now, Associate::to(address(Side::B, 0), PORT)).expect("an association");
        let mut id = None;
        let until = Instant::from_millis(2_000);
        while pair.step(until) && id.is_none() {
            id = pair.events(Side::B).into_iter().find_map(|event| match event {
                Event::Accepted { id, .. } => Some(id),
                _ => None,
            });
        }
        let (tag, tsn, ports) = *seen.borrow();
        pair.observer = None;
        Self { pair, id: id.expect("accepted"), ports, tag, tsn }
    }

    /// Sends `chunks` chunks to B, as many in each packet as fit into about 1,400 bytes. `write` writes one chunk; its
    /// arguments are the chunk's number and TSN. B's answers are discarded.
    fn flood(&mut self, chunks: u32, write: impl Fn(u32, Tsn, &mut Vec<u8>)) {
        let mut n = 0;
        while n < chunks {
            let mut bytes = Vec::new();
            let start = packet::begin(&mut bytes, self.ports.0, self.ports.1, self.tag);
            while bytes.len() < 1_400 && n < chunks {
                write(n, Tsn(self.tsn.wrapping_add(n)), &mut bytes);
                n += 1;
            }
            packet::finish(&mut bytes, start);
            let (source, target) = (address(Side::A, 0), address(Side::B, 0));
            let packet = Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: &bytes };
            let now = self.pair.now;
            self.pair.b.handle_packet(now, packet);
            transmit_all_bytes(&mut self.pair.b, now);
            while self.pair.b.poll_event().is_some() {}
        }
    }
}

/// 250,000 chunks of one byte arrive, far more than the window allows, and no application reads. The chunks are
/// fragments of messages that never become complete, or complete messages behind a gap or on many streams. Each chunk
/// needs bookkeeping memory besides its one byte of data. The memory of the process must stay small.
#[test]
#[cfg(target_os = "linux")]
fn fragments_without_an_end() {
    const CHUNKS: u32 = 250_000;
    type Write = fn(u32, Tsn, &mut Vec<u8>);
    let kinds: [(&str, bool, Write); 6] = [
        ("DATA that begins a message and never ends it, unordered", false, |n, tsn, b| {
            let data = Data { tsn, begin: true, unordered: true, payload: b"x", ..Data::default() };
            // Leave a gap before each chunk, so that no two TSNs are consecutive.
            Data { tsn: data.tsn.plus(n), ..data }.emit(b);
        }),
        ("DATA, whole, behind an SSN that never comes", false, |n, tsn, b| {
            let ssn = Ssn(1 + (n % 30_000) as u16);
            let stream = (n / 30_000) as u16;
            Data { tsn, stream, ssn, begin: true, end: true, payload: b"x", ..Data::default() }.emit(b);
        }),
        ("DATA, whole, on as many streams as there are", false, |n, tsn, b| {
            let (stream, ssn) = (n as u16, Ssn((n >> 16) as u16));
            Data { tsn, stream, ssn, begin: true, end: true, payload: b"x", ..Data::default() }.emit(b);
        }),
        ("I-DATA that begins a message and never ends it", true, |n, tsn, b| {
            let (stream, mid) = (n as u16, n >> 16);
            IData { tsn, stream, mid, begin: true, payload: b"x", ..IData::default() }.emit(b);
        }),
        ("I-DATA, unordered, a middle of messages that never begin", true, |n, tsn, b| {
            IData { tsn, mid: n, fsn: 7, unordered: true, payload: b"x", ..IData::default() }.emit(b);
        }),
        ("I-DATA, whole, behind a MID that never comes", true, |n, tsn, b| {
            IData { tsn, mid: 1 + n, begin: true, end: true, payload: b"x", ..IData::default() }.emit(b);
        }),
    ];
    for (what, interleaving, write) in kinds {
        let mut victim = Victim::new(interleaving);
        let before = resident();
        victim.flood(CHUNKS, write);
        let grown = resident().saturating_sub(before);
        let id = victim.id;
        let stats = victim.pair.b.stats(id);
        let taken = stats.map_or(0, |stats| stats.data_received);
        println!("{what}: {taken} came, {} KiB", grown >> 10);
        // A stream that has received data takes some 600 bytes of memory.
        assert!(grown < 48 << 20, "{what}: {grown} bytes more");
        // The end of the association must free all memory, whichever kind of chunk has filled it.
        let now = victim.pair.now;
        victim.pair.b.abort(now, id);
        victim.pair.b.release(now, id);
        assert!(victim.pair.b.info(id).is_none());
    }
}
