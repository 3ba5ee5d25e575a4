//! Helpers that several tests share.

#![allow(dead_code, unused_imports, reason = "every test binary uses its own part")]

use anabranch_base::Instant;
use anabranch_tcp::Config;
use anabranch_tcp::testing::{Pair, Side};
use expect_test::Expect;
use std::time::Duration;

pub use anabranch_tcp::testing::Side::{Left, Right};

/// Returns a configuration that makes ladder diagrams easy to read. TCP options, the Nagle algorithm and delayed
/// acknowledgements are off.
pub fn plain() -> Config {
    with(&[
        ("cc", "reno"),
        ("iw", "4"),
        ("cwnd_unit", "bytes"),
        ("ssthresh", "flight"),
        ("hystart", "no"),
        ("ack_push", "no"),
        ("push", "write"),
        ("abc", "2"),
        ("recovery", "newreno"),
        ("sack", "no"),
        ("dsack", "no"),
        ("timestamps", "no"),
        ("wscale", "no"),
        ("ecn", "no"),
        ("nagle", "no"),
        ("delack", "0"),
        ("quickack", "0"),
        ("prr", "no"),
        ("rack", "no"),
        ("tlp", "no"),
        ("undo", "no"),
        ("mss", "1000B"),
        ("rcvbuf", "60000B"),
        ("rto_min", "1s"),
        ("rto_initial", "1s"),
        ("time_wait", "10s"),
        ("window_probe", "data"),
    ])
}

/// Runs a script on a new pair of endpoints, and compares the ladder diagram with the expected diagram.
pub fn check(name: &str, config: &Config, script: impl FnOnce(&mut Pair), expect: Expect) -> Pair {
    let mut pair = Pair::new(config);
    check_on(name, &mut pair, script, expect);
    pair
}

/// Like [`check`], but on an existing pair.
pub fn check_on(name: &str, pair: &mut Pair, script: impl FnOnce(&mut Pair), expect: Expect) {
    script(pair);
    let ladder = pair.ladder();
    expect.assert_eq(&format!("scenario: {name}\n{ladder}"));
}

/// Sends twenty segments, the first ten of them immediately. Loses the segments whose numbers are in `lost`. `kind` is
/// the recovery algorithm.
pub fn ten_with_losses(kind: &str, lost: &'static [u64], expect: Expect) {
    let sack = if kind == "sack" { "yes" } else { "no" };
    let mut pair = opened(&plain_with(&[("iw", "10"), ("sack", sack), ("recovery", kind)]));
    let script = |pair: &mut Pair| {
        pair.lose_data(Left, lost, 1000);
        pair.write(Left, &pattern(20_000));
        pair.run_for(Duration::from_secs(6));
    };
    check_on(&format!("{kind}, {} of ten lost", lost.len()), &mut pair, script, expect);
    assert_eq!(pair.received[1], pattern(20_000));
}

/// Returns a pair with an open connection. The ladder diagram of the handshake is discarded.
pub fn opened(config: &Config) -> Pair {
    let mut pair = Pair::new(config);
    pair.open();
    let _ = pair.ladder();
    pair
}

/// Returns the instant `millis` milliseconds after the start.
pub fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Closes both directions, and checks that all data arrived.
pub fn close(pair: &mut Pair) {
    pair.finish(Side::Left);
    pair.finish(Side::Right);
    pair.run_to_end(at(3_600_000));
}

/// Returns the profile `modern` with these knobs changed.
pub fn with(changes: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    change(&mut config, changes);
    config
}

/// Sets the knobs in `changes`.
pub fn change(config: &mut Config, changes: &[(&str, &str)]) {
    for (key, value) in changes {
        config.set(key, value).expect("a knob");
    }
}

/// Returns the configuration of [`plain`] with these knobs changed.
pub fn plain_with(changes: &[(&str, &str)]) -> Config {
    let mut config = plain();
    change(&mut config, changes);
    config
}

/// Returns `length` bytes whose values depend on their position in the stream.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n / 251 + n * 7) as u8).collect()
}
