//! Tests TCP connections with BBR: which other settings BBR requires, and its goodput on links where CUBIC reduces its
//! window.

use crate::common::with;
use anabranch_base::{BitRate, Instant, Ratio};
use anabranch_tcp::Config;
use anabranch_tcp::testing::{Flow, Link, flow};
use std::time::Duration;

/// Transfers 4 MB over a link of 10 Mbit/s with a round trip of 40 ms. `queue` is the size of the link's queue in
/// bytes, and `percent` the packet loss.
fn transfer(cc: &str, queue: u64, percent: u64) -> Flow {
    let config =
        with(&[("rcvbuf", "4MiB"), ("sndbuf", "4MiB"), ("cc", cc), ("recovery", "sack"), ("sack", "yes")]);
    let link = Link {
        rate: BitRate::from_bits_per_second(10_000_000).expect("a rate"),
        delay: Duration::from_millis(20),
        queue,
        loss: Ratio::new(percent, 100).expect("a share"),
    };
    flow(&config, link, 4_000_000, Instant::from_millis(60_000), 1)
}

fn seconds(flow: &Flow) -> f64 {
    flow.end.as_nanos() as f64 / 1e9
}

#[test]
fn random_losses_below_two_percent_hardly_slow_it_down() {
    let [bbr, cubic] = ["bbr", "cubic"].map(|cc| seconds(&transfer(cc, 100_000, 1)));
    // The link itself needs 3.3 s to carry the data.
    assert!(bbr < 4.2 && cubic > 6.0, "bbr {bbr}, cubic {cubic}");
    let [bbr, lossless] = [10, 0].map(|percent| seconds(&transfer("bbr", 100_000, percent)));
    assert!(bbr > 2.0 * lossless, "five times its limit: {bbr}, {lossless}");
}

#[test]
fn a_deep_queue_stays_nearly_empty_and_a_short_one_loses_little() {
    let bbr = transfer("bbr", 1_000_000, 0);
    assert!(seconds(&bbr) < 3.7 && bbr.sender.retransmitted_fast == 0, "{bbr:?}");
    let bbr = transfer("bbr", 15_000, 0);
    assert!(seconds(&bbr) < 4.2, "{bbr:?}");
}

#[test]
fn bbr_sets_required_knobs_and_rejects_conflicting_ones() {
    let mut config = Config::default();
    config.set("cc", "bbr").expect("a controller");
    let value = |config: &Config, key: &str| {
        config.knobs().into_iter().find(|knob| knob.key == key).map(|knob| (knob.value, knob.source))
    };
    assert_eq!(value(&config, "prr"), Some(("no".to_owned(), "goes with cc=bbr")));
    assert!(config.check().is_ok());
    for orders in [["cc=bbr", "rack=no"], ["rack=no", "cc=bbr"]] {
        let mut config = Config::default();
        for setting in orders {
            let (key, value) = setting.split_once('=').expect("a setting");
            config.set(key, value).expect("a knob");
        }
        let message = config.check().expect_err("rates come of sending times").to_string();
        assert_eq!(message, "tcp:cc=bbr needs rack=yes");
    }
}
