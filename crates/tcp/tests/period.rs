//! Behaviour of the period profiles that no other test shows: when the window grows, and what a burst and a window may be.

use crate::common::*;
use anabranch_tcp::Config;
use anabranch_tcp::testing::Pair;

/// FreeBSD 4, tcp_input: each acknowledgement opens the window. Linux, tcp_ack (prior_in_flight): only if the window was
/// full.
#[test]
fn an_unused_window_grows_only_without_validation() {
    for (validation, expected) in [("no", 9_000), ("yes", 4_000)] {
        let mut pair = opened(&plain_with(&[("cwnd_validation", validation), ("abc", "off")]));
        for _ in 0..5 {
            pair.write(Left, &pattern(1000));
            pair.settle();
        }
        assert_eq!(pair.info(Left).cwnd, expected, "cwnd_validation={validation}\n{}", pair.ladder());
    }
}

/// Data segments of the first flight of a profile, whose window is large enough: FreeBSD 4 and Linux 2.6.11 have no limit
/// of a burst there.
#[test]
fn first_flights_of_the_period_profiles() {
    for (profile, segments) in [("reno-2002", 1), ("linux-2.6.11", 3), ("linux-2.6", 3), ("ns2", 2)] {
        let mut config = Config::profile(profile).expect("a profile");
        change(&mut config, &[("mss", "1460B")]);
        let mut pair = opened(&config);
        pair.write(Left, &pattern(60_000));
        let sent = pair.ladder().lines().filter(|line| line.contains("len=14")).count();
        assert_eq!(sent, segments, "{profile}\n{}", pair.ladder());
    }
}

/// FreeBSD 4.5, tcp_usrreq.c: buffers of 56 and 32 KiB, of a fixed size. The peer never sees a larger window.
#[test]
fn freebsd_4_has_fixed_buffers() {
    let config = Config::profile("reno-2002").expect("a profile");
    let mut pair = Pair::new(&config);
    pair.open();
    pair.reads[1] = false;
    pair.write(Left, &pattern(200_000));
    pair.run_for(std::time::Duration::from_secs(20));
    let buffered = pair.hosts[1].readable(pair.id(Right));
    assert_eq!(buffered, 57_344, "{}", pair.ladder());
}
