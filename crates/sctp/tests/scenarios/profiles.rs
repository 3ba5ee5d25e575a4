//! Tests properties that a configuration profile copies from the SCTP stack that it models. Properties that another
//! test checks are not repeated here.

use crate::net::A;
use crate::script::Script;
use anabranch_sctp::Config;

fn ns2() -> Script {
    let mut config = Config::profile("ns2").expect("a profile");
    config.set("hb_interval", "0").expect("a knob");
    let mut script = Script::with(config.clone(), config, &[25]);
    script.associate().run(1_000);
    script.forget();
    script
}

/// ns-2.35, sctp/sctp.cc: a timeout never sets the slow-start threshold below 4 MTU.
#[test]
fn the_least_threshold_of_ns2() {
    let mut script = ns2();
    script.lose(A, "DATA tsn=1 ").send(A, 0, 1_000).run(5_000);
    script.forget();
    let path = &script.net.ends[0].engine.info(script.id(A)).expect("up").paths[0];
    assert_eq!((path.cwnd, path.ssthresh), (1_468, 4 * 1_468));
}

/// ns-2.35, sctp/sctp.cc: MAX_BURST limits only the data sent after a SACK of a retransmitted chunk. At any other time,
/// all data that fits into the window is sent at once.
#[test]
fn ns2_has_no_burst_limit() {
    let mut script = ns2();
    script.send(A, 0, 40_000).run(1_000);
    script.forget();
    script.send(A, 0, 6 * 1_452).run(1);
    let drawn = script.net.ladder.take();
    assert_eq!(drawn.lines().filter(|line| line.contains("A ──► B   DATA")).count(), 6, "{drawn}");
}
