//! An association with BBR: the knobs that must be set together with BBR, and how BBR reacts to losses that congestion
//! did not cause.

use crate::net::{A, B, Flight};
use crate::script::Script;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_sctp::Config;

/// Transfers 2 MB over a link that carries a packet per millisecond, has a round trip of 50 ms, and loses every `nth`
/// packet of data. Returns the time in milliseconds and the largest number of packets in the link's queue.
fn transfer(changes: &[(&str, &str)], nth: u64) -> (u64, u64) {
    let link = [("iw", "10"), ("max_burst", "0"), ("rcvbuf", "4MiB"), ("sndbuf", "4MiB"), ("rack", "yes")];
    let mut script = Script::established(&[&link, changes].concat());
    script.send(A, 0, 2_000_000);
    let begin = script.net.now;
    let (mut free, mut count, mut backlog) = (Instant::ZERO, 0_u64, 0);
    let mut fate = |now: Instant, from, flight: &Flight| {
        let mut wait = Duration::from_millis(25);
        if from == A && flight.bytes.len() > 1_000 {
            count += 1;
            let queued = free.since(now);
            backlog = backlog.max(queued.as_millis() as u64);
            free = now + queued + Duration::from_millis(1);
            wait += queued + Duration::from_millis(1);
            if count.is_multiple_of(nth) {
                return Vec::new();
            }
        }
        vec![(wait, flight.clone())]
    };
    let mut done = begin;
    for _ in 0..2_000 {
        done += Duration::from_millis(10);
        script.net.run_until(done, &mut fate, None);
        if script.net.ends[1].engine.stats(script.id(B)).expect("up").messages_received == 1 {
            break;
        }
    }
    (done.since(begin).as_millis() as u64, backlog)
}

#[test]
fn bbr_is_hardly_slowed_by_one_percent_loss() {
    let [(bbr, _), (cubic, _)] = ["bbr", "cubic"].map(|cc| transfer(&[("cc", cc)], 100));
    // The transfer has 1,400 packets, which take at least 1,400 ms.
    assert!(bbr < 2_000 && cubic > 2 * bbr, "bbr {bbr} ms, cubic {cubic} ms");
}

#[test]
fn bbr_does_not_fill_the_queue() {
    let [bbr, cubic] = ["bbr", "cubic"].map(|cc| transfer(&[("cc", cc)], u64::MAX).1);
    // During startup, BBR may have two bandwidth-delay products (of 51 packets each) in flight. Later it lets the queue
    // drain.
    assert!(bbr <= 120 && cubic > 2 * bbr, "bbr {bbr} ms, cubic {cubic} ms");
}

#[test]
fn cc_bbr_turns_on_rack_and_contradicts_prr() {
    let mut config = Config::default();
    config.set("cc", "bbr").expect("a controller");
    let rack = config.knobs().into_iter().find(|knob| knob.key == "rack").expect("a knob");
    assert_eq!((rack.value.as_str(), rack.source), ("yes", "goes with cc=bbr"));
    assert!(config.check().is_ok());
    config.set("prr", "yes").expect("a knob");
    assert_eq!(config.check().expect_err("two that meter").to_string(), "sctp:cc=bbr needs prr=no");
}
