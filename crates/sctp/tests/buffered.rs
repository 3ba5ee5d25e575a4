//! The buffered bytes of all streams add up to the buffered bytes of the association. This also holds after packets
//! were lost, streams were reset, and messages were abandoned or cancelled.

use anabranch_base::time::Duration;
use anabranch_base::{Ratio, Rng};
use anabranch_sctp::testing::Pair;
use anabranch_sctp::{Config, Direction, Message, Reliability};

const STREAMS: u16 = 6;

fn run(seed: u64) -> u32 {
    let mut rng = Rng::new(seed);
    let mut config = Config::profile("modern").expect("a shipped profile");
    for (key, value) in [("partial_reliability", "yes"), ("reconfig", "yes"), ("sndbuf", "60000B")] {
        config.set(key, value).expect("a knob");
    }
    config.set("nr_sack", if seed.is_multiple_of(2) { "yes" } else { "no" }).expect("a knob");
    config.set("interleaving", if seed.is_multiple_of(3) { "yes" } else { "no" }).expect("a knob");
    let (mut pair, id, there) = Pair::associated(&config);
    pair.network.loss = Ratio::new(1, 8).expect("a share");
    let mut checked = 0;
    for _ in 0..400 {
        let stream = rng.below(u64::from(STREAMS)) as u16;
        match rng.below(12) {
            0..6 => {
                let reliability = match rng.below(4) {
                    0 => Reliability::Lifetime(Duration::from_millis(30)),
                    1 => Reliability::Retransmissions(0),
                    2 => Reliability::Priority(rng.below(4) as u32),
                    _ => Reliability::Full,
                };
                let message = Message { stream, reliability, ..Message::default() };
                let _ = pair.a.send(pair.now, id, message, &vec![7; 1 + rng.below(9_000) as usize]);
            }
            6 => drop(pair.a.send_pieces(
                pair.now,
                id,
                Message { stream, ..Message::default() },
                &[1; 5_000],
                900,
            )),
            7 if rng.below(4) == 0 => pair.a.cancel(pair.now, id, stream),
            8 if rng.below(4) == 0 => {
                let _ = pair.a.reset_streams(pair.now, id, Direction::Outgoing, &[stream]);
            }
            _ => {
                let until = pair.now + Duration::from_millis(rng.below(40));
                pair.run(until, |_| false);
            }
        }
        for stream in 0..STREAMS {
            while let Ok(Some(_)) = pair.b.recv(pair.now, there, stream, &mut [0; 20_000]) {}
        }
        let Some(info) = pair.a.info(id) else { break };
        let sum: usize = (0..STREAMS).map(|stream| pair.a.buffered_amount(id, stream)).sum();
        assert_eq!(sum as u64, info.buffered, "seed {seed}");
        checked += u32::from(sum > 0);
    }
    checked
}

#[test]
fn the_streams_add_up_to_the_send_buffer() {
    let checked: u32 = (0..12).map(run).sum();
    assert!(checked > 1_000, "something was buffered: {checked}");
}
