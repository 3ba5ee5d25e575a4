//! Conditions other than loss that end slow start, or prevent the window from growing.

use crate::net::{A, B, Flight};
use crate::script::Script;
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// Transfers 400 kB over a link that carries a packet per millisecond and has a round trip of 50 ms. Returns A's cwnd
/// and ssthresh in bytes.
fn after_a_transfer(changes: &[(&str, &str)]) -> (u64, u64) {
    let link = [("iw", "10"), ("max_burst", "0"), ("rcvbuf", "1MiB"), ("sndbuf", "1MiB"), ("delack", "0")];
    let mut script = Script::established(&[&link, changes].concat());
    script.send(A, 0, 400_000);
    let mut free = Instant::ZERO;
    let mut fate = |now: Instant, from, flight: &Flight| {
        let mut wait = Duration::ZERO;
        if from == A && flight.bytes.len() > 1_000 {
            wait = free.since(now);
            free = now + wait + Duration::from_millis(1);
        }
        vec![(wait, flight.clone())]
    };
    let until = script.net.now + Duration::from_secs(2);
    script.net.run_until(until, &mut fate, None);
    assert_eq!(script.net.ends[1].engine.stats(script.id(B)).expect("up").messages_received, 1);
    let path = &script.net.ends[0].engine.info(script.id(A)).expect("up").paths[0];
    (path.cwnd, path.ssthresh)
}

/// Linux's HyStart ends slow start when a train of acknowledgements lasts half a round trip. It is used only on paths
/// whose minimum round-trip time is at least `hystart_min_rtt`. HyStart++ (RFC 9406) is used on shorter paths too.
#[test]
fn hystart_of_linux_leaves_shorter_paths_alone() {
    let linux =
        |least| after_a_transfer(&[("cc", "cubic"), ("hystart", "linux"), ("hystart_min_rtt", least)]);
    let ended = (98_684, 96_888);
    assert_eq!([linux("0ms"), linux("50ms"), linux("51ms")], [ended, ended, (280_388, u64::MAX)]);
}

/// RFC 4960 §7.2.1: the window grows when the Cumulative TSN Ack Point advances. The window does not grow by gap blocks
/// alone.
#[test]
fn gap_blocks_alone_do_not_open_the_window() {
    let mut script =
        Script::established(&[("cc", "rfc4960"), ("iw", "3"), ("max_burst", "0"), ("delack", "0")]);
    let cwnd = |script: &Script| script.net.ends[0].engine.info(script.id(A)).expect("up").paths[0].cwnd;
    let before = cwnd(&script);
    script.delay(A, "DATA tsn=1 ", 20).send(A, 0, 20_000).run(55);
    let drawn = script.net.ladder.take();
    assert!(drawn.contains("cum=0 rwnd=62632 gaps=2-3"), "{drawn}");
    assert_eq!(cwnd(&script), before);
    script.run(20);
    assert!(cwnd(&script) > before);
}
