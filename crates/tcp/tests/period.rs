//! Tests properties of the period profiles that no other test covers: the growth of the window, the first burst, and
//! the buffers.

use crate::common::*;
use anabranch_tcp::Config;
use anabranch_tcp::testing::Pair;

/// In FreeBSD 4 (tcp_input), each acknowledgement increases the congestion window. In Linux (tcp_ack, prior_in_flight),
/// it does so only if the window was full.
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

/// The number of data segments in the first flight of each profile. The peer's window does not limit the flight, and
/// FreeBSD 4 and Linux 2.6.11 do not limit its burst.
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

/// FreeBSD 4.5, tcp_usrreq.c: the receive buffer has 56 KiB and the send buffer 32 KiB, and neither grows. The peer is
/// never offered a larger window.
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
