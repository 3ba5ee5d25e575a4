//! Loss recovery of the SCTP in Linux 2.6.11, as far as it differs from RFC 9260 and from later versions of Linux.

use crate::net::A;
use crate::script::Script;

/// Sets up an association with the profile `lksctp-2.6.11`, but without HEARTBEATs.
fn linux() -> Script {
    let mut config = anabranch_sctp::Config::profile("lksctp-2.6.11").expect("a profile");
    config.set("hb_interval", "0").expect("a knob");
    let mut script = Script::with(config.clone(), config, &[25]);
    script.associate().run(1_000);
    script.forget();
    script
}

/// Returns A's congestion window and slow-start threshold in bytes.
fn window(script: &Script) -> (u64, u64) {
    let path = &script.net.ends[0].engine.info(script.id(A)).expect("up").paths[0];
    (path.cwnd, path.ssthresh)
}

/// Returns the times at which A sent the chunk `chunk`, as the ladder diagram `drawn` shows them.
fn times_of(drawn: &str, chunk: &str) -> Vec<String> {
    let sent = |line: &&str| line.contains("A ──► B   DATA") && line.contains(chunk);
    drawn.lines().filter(sent).map(|line| line.trim().split(' ').next().unwrap_or("").to_string()).collect()
}

/// net/sctp/outqueue.c, sctp_retransmit: without fast recovery, each fast retransmit lowers the window. With fast
/// recovery, all losses of one window lower it only once.
#[test]
fn each_fast_retransmit_lowers_the_window() {
    let after = |fast_recovery| {
        let mut script =
            Script::established(&[("iw", "20"), ("max_burst", "0"), ("fast_recovery", fast_recovery)]);
        script.lose(A, "DATA tsn=2 ").lose(A, "DATA tsn=9 ").send(A, 0, 20 * 1_452).run(60);
        window(&script).1
    };
    let [once, twice] = ["yes", "no"].map(after);
    assert!(twice * 10 < once * 7, "{twice} of {once}");
}

/// net/sctp/outqueue.c, sctp_outq_flush_rtx: the miss count of a retransmitted chunk starts again at zero. Four more
/// SACKs of the same flight cause another fast retransmit. So if the first retransmission is lost, no timeout is
/// needed.
#[test]
fn a_chunk_is_fast_retransmitted_again() {
    let all = |again| {
        let mut script = Script::established(&[
            ("iw", "20"),
            ("max_burst", "0"),
            ("fast_again", again),
            ("dupthresh", "4"),
        ]);
        script.lose_times(A, "DATA tsn=2 ", 2).send(A, 0, 12 * 1_452).run(4_000);
        times_of(&script.net.ladder.take(), "tsn=2 ")
    };
    assert_eq!(all("yes"), ["1.000", "1.050", "1.050"]);
    let late = all("no");
    assert!(late.len() == 3 && late[2].as_str() >= "2.0", "{late:?}");
}

/// net/sctp/output.c, sctp_packet_append_data: Max.Burst lowers the congestion window to the bytes in flight plus four
/// packets, and the window is not restored.
#[test]
fn the_burst_limit_lowers_the_window() {
    let after = |burst_window| {
        let mut script =
            Script::established(&[("iw", "10"), ("max_burst", "4"), ("burst_window", burst_window)]);
        let before = window(&script).0;
        script.send(A, 0, 6 * 1_452).run(1);
        let drawn = script.net.ladder.take();
        (before, window(&script).0, drawn.lines().filter(|line| line.contains("A ──► B   DATA")).count())
    };
    let (before, lowered, sent) = after("yes");
    assert!(lowered < before / 2 && lowered >= 4 * 1_468, "{before} to {lowered}");
    assert_eq!(sent, 4);
    let (before, kept, sent) = after("no");
    assert_eq!((kept, sent), (before, 4));
}

/// With the complete profile, a lost retransmission is repaired within 900 ms, without a timeout: RTO.Min is one
/// second.
#[test]
fn the_profile_repairs_a_lost_retransmission() {
    let mut script = linux();
    script.send(A, 0, 40_000).run(2_000).forget();
    let start = script.net.now;
    script.lose_times(A, "DATA tsn=30 ", 2).send(A, 0, 20 * 1_452).run(900);
    let drawn = script.net.ladder.take();
    assert!(drawn.contains("B: received sid=0 len=29040"), "from {start:?}: {drawn}");
}
