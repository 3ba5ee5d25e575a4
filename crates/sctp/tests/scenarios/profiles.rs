//! Tests properties that a configuration profile copies from the SCTP stack that it models. Properties that another
//! test checks are not repeated here.

use crate::net::{A, B};
use crate::script::Script;
use anabranch_base::time::Duration;
use anabranch_sctp::Config;

fn associated(profile: &str) -> Script {
    let mut config = Config::profile(profile).expect("a profile");
    config.set("hb_interval", "0").expect("a knob");
    let mut script = Script::with(config.clone(), config, &[25]);
    script.associate().run(1_000);
    script.forget();
    script
}

/// ns-2.35, sctp/sctp.cc: a timeout never sets the slow-start threshold below 4 MTU.
#[test]
fn the_least_threshold_of_ns2() {
    let mut script = associated("ns2");
    script.lose(A, "DATA tsn=1 ").send(A, 0, 1_000).run(5_000);
    script.forget();
    let path = &script.net.ends[0].engine.info(script.id(A)).expect("up").paths[0];
    assert_eq!((path.cwnd, path.ssthresh), (1_468, 4 * 1_468));
}

/// ns-2.35, sctp/sctp.cc: MAX_BURST limits only the data sent after a SACK of a retransmitted chunk. At any other time,
/// all data that fits into the window is sent at once.
#[test]
fn ns2_has_no_burst_limit() {
    let mut script = associated("ns2");
    script.send(A, 0, 40_000).run(1_000);
    script.forget();
    script.send(A, 0, 6 * 1_452).run(1);
    let drawn = script.net.ladder.take();
    assert_eq!(drawn.lines().filter(|line| line.contains("A ──► B   DATA")).count(), 6, "{drawn}");
}

/// KAME SCTP, sctp_usrreq.c: the receive buffer holds 64 datagrams of 1 KiB, so the window closes when the application
/// stops reading.
#[test]
fn kame_has_small_buffers() {
    let mut script = associated("kame-2002");
    script.app(B).reading_pause = Duration::from_secs(1_000_000);
    // Three messages, each smaller than the send buffer of 32 KiB.
    script.send(A, 0, 30_000).run(5_000).send(A, 0, 30_000).run(5_000).send(A, 0, 30_000).run(60_000);
    let drawn = script.net.ladder.take();
    let windows = drawn.lines().filter_map(|line| line.split_once("rwnd=")?.1.split_whitespace().next());
    let smallest = windows.filter_map(|window| window.parse::<u64>().ok()).min();
    assert!(smallest.is_some_and(|window| window < 1_452), "{smallest:?}");
}
