//! Tests the size of batches and the growth of the window. The test itself carries the packets between the endpoints.

use crate::validation::{at, give, pair, sends, settle, tls_settings};
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant, Rng, SendBatch};
use anabranch_quic::{Config, Endpoint, EndpointOptions};

/// A batch with its headers has at most 65,535 bytes, because the kernel accepts no more in one call.
#[test]
fn packets_that_leave_together_fit_into_one_of_the_largest() {
    const LARGEST: usize = 65_535 - 48;
    let mut config = Config::default();
    config.set("iw", "100").expect("a number");
    let [near, far] = tls_settings(["test"; 2]);
    let end = |local, seed, ends, segments| {
        let (config, rng) = (config.clone(), Rng::new(seed));
        Endpoint::new(EndpointOptions { config, local, rng, tls: ends, segments, shard: None, logs: None })
    };
    let mut both =
        [end(at(1, 1000), 1, near, 64), end(at(2, 443), 2, far, 1)].map(|end| end.expect("an endpoint"));
    both[1].set_listening(Some(443));
    let id = both[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
    settle(&mut both, Instant::ZERO);
    both[0].send(Instant::ZERO, id, 0, &[7; 200_000]).expect("written");
    let mut batch = SendBatch::new(64);
    assert!(both[0].poll_transmit(Instant::ZERO, &mut batch));
    assert_eq!(batch.len(), LARGEST / batch.stride(), "packets of {} bytes", batch.stride());
}

/// RFC 9002 §7.3.2: acknowledgements of packets sent before or at the start of a recovery do not increase the window;
/// acknowledgements of later packets do.
#[test]
fn what_leaves_as_a_recovery_begins_does_not_let_the_window_grow() {
    let mut config = Config::default();
    config.set("cc", "reno").expect("a controller");
    config.set("pmtud", "no").expect("a value");
    let mut both = pair(&config);
    let id = both[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
    settle(&mut both, Instant::ZERO);
    let [mut near, mut far] = both;
    let mut now = Instant::from_millis(100);
    near.send(now, id, 0, &[7; 200_000]).expect("written");
    let mut windows = Vec::new();
    for round in 0..4 {
        let flight = sends(&mut near, now);
        // Only the first packet of round 0 is lost. The acknowledgements of round 0 reveal the loss, and round 1 begins
        // at the same instant.
        let lost = usize::from(round == 0);
        now += Duration::from_millis(50);
        flight.iter().skip(lost).for_each(|sent| give(&mut far, now, sent));
        sends(&mut far, now).iter().for_each(|sent| give(&mut near, now, sent));
        windows.push(near.stats(id).expect("it stands").cwnd);
    }
    // RFC 5681 §3.1: the window grows by one packet after a whole window was acknowledged. One round acknowledges nine
    // packets, which is less than the window, so two rounds are needed.
    let reduced = windows[0];
    assert_eq!(windows, [reduced, reduced, reduced, reduced + 1_200]);
}
