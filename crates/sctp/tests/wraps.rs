//! Wrap-around of TSNs, SSNs and serial numbers (RFC 9260 §1.6), during a transfer in which packets are lost.

use anabranch_base::time::Duration;
use anabranch_base::{Instant, Ratio, Rng};
use anabranch_sctp::testing::{Pair, Side, address, transmit_all_bytes};
use anabranch_sctp::{Associate, Config, Endpoint, Event, Message};
use anabranch_wire::sctp::{Chunk, PacketView};

const PORT: u16 = 80;

/// Returns the first TSN that A chooses with this seed.
fn first_tsn(config: &Config, seed: u64) -> u32 {
    let rng = Rng::new(seed).fork("a");
    let mut engine = Endpoint::new(config.clone(), vec![address(Side::A, 0)], rng);
    let now = Instant::from_millis(1);
    engine.associate(now, Associate::to(address(Side::B, 0), PORT)).expect("an association");
    let sent = transmit_all_bytes(&mut engine, now);
    let view = PacketView::parse(sent.first().expect("an INIT")).expect("a good one");
    match view.chunks().next() {
        Some(Ok(Chunk::Init(init))) => init.tsn.0,
        other => panic!("{other:?}"),
    }
}

/// Returns a seed with which A's TSNs wrap around after fewer than `within` TSNs.
fn seed_near_the_end(config: &Config, within: u32) -> u64 {
    let near = |seed: &u64| u32::MAX - first_tsn(config, *seed) < within;
    (0..4_000_000).find(near).expect("one of millions")
}

/// Sends `count` messages from A on stream 1. Every seventh message is unordered. Checks that each message arrives
/// once, and that the ordered messages arrive in order.
fn transfer(config: &Config, seed: u64, count: u32) {
    let mut pair = Pair::new(config.clone(), config.clone(), 1, seed);
    pair.b.listen(PORT).expect("free");
    pair.network.loss = Ratio::new(2, 100).expect("below one");
    pair.network.duplicate = Ratio::new(2, 100).expect("below one");
    pair.network.jitter = Duration::from_millis(3);
    let now = pair.now;
    let id = pair.a.associate(now, Associate::to(address(Side::B, 0), PORT)).expect("an association");
    let (mut sent, mut last, mut seen) = (0_u32, None, vec![false; count as usize]);
    let until = pair.now + Duration::from_secs(36_000);
    let mut buffer = [0; 64];
    let mut missing = count;
    while missing > 0 {
        let now = pair.now;
        while sent < count {
            let message = Message { stream: 1, unordered: sent.is_multiple_of(7), ..Message::default() };
            if pair.a.send(now, id, message, &sent.to_be_bytes()).is_err() {
                break;
            }
            sent += 1;
        }
        assert!(pair.step(until), "{missing} messages have not come");
        for event in pair.events(Side::B) {
            let Event::Readable { id, stream } = event else { continue };
            let now = pair.now;
            while let Ok(Some(got)) = pair.b.recv(now, id, stream, &mut buffer) {
                let number = u32::from_be_bytes(buffer[..4].try_into().expect("four bytes"));
                assert!(!std::mem::replace(&mut seen[number as usize], true), "message {number} came twice");
                missing -= 1;
                if !got.unordered {
                    assert!(last.is_none_or(|last| last < number), "{number} behind {last:?}");
                    last = Some(number);
                }
            }
        }
        pair.events(Side::A);
    }
}

/// RFC 9260 §1.6, §6.5: 80,000 messages are sent on a stream. The TSNs wrap around after fewer than 40,000 messages,
/// and the SSNs wrap around too. The test runs with the profile of RFC 9260, with the profile `modern`, and with
/// I-DATA, whose message identifiers are longer than SSNs.
#[test]
fn the_last_tsn_is_not_the_last_message() {
    for (profile, interleaving) in [("rfc9260", "no"), ("modern", "no"), ("modern", "yes")] {
        let mut config = Config::profile(profile).expect("a profile");
        config.set("interleaving", interleaving).expect("a knob");
        let seed = seed_near_the_end(&config, 40_000);
        transfer(&config, seed, 80_000);
    }
}
