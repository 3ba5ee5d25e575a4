//! The first round-trip time sample of the side that accepts an association: the age of the State Cookie
//! (`rtt_from_cookie`).

use crate::net::{A, B};
use crate::script::Script;
use anabranch_base::time::Duration;
use anabranch_sctp::Config;
use expect_test::expect;

/// The round trip of the network is 50 ms. Cookies have whole milliseconds, and the age is rounded up.
const SAMPLE: Duration = Duration::from_millis(51);

/// Associates and runs for 1 s. `prepare` adds the faults of the network.
fn associated(changes: &[(&str, &str)], prepare: impl FnOnce(&mut Script)) -> Script {
    let mut script = Script::new(&[&[("rtt_from_cookie", "yes"), ("rto_min", "200ms")], changes].concat());
    prepare(&mut script);
    script.associate().run(4_000);
    script.forget();
    script
}

/// Returns the smoothed round-trip time of B's first path, and the RTO in milliseconds.
fn estimate(script: &Script) -> (Option<Duration>, u128) {
    let path = &script.net.ends[1].engine.info(script.id(B)).expect("up").paths[0];
    (path.srtt, path.rto.as_millis())
}

/// B accepts and sends at once, and its whole first flight is lost. With the sample, T3-rtx expires after RTO.Min of
/// 200 ms instead of RTO.Initial of 1 s.
#[test]
fn the_first_flight_of_the_accepting_side_is_lost() {
    let mut script = associated(&[], |_| ());
    script.lose(B, "DATA").send(B, 0, 100).run(2_000);
    script.check(expect![[r#"
        4.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        4.200  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        4.225          A: received sid=0 len=100
        4.225  A ──► B   SACK          cum=1 rwnd=64k
    "#]]);
    let mut script = associated(&[("rtt_from_cookie", "no")], |_| ());
    script.lose(B, "DATA").send(B, 0, 100).run(2_000);
    script.check(expect![[r#"
        4.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        5.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        5.025          A: received sid=0 len=100
        5.025  A ──► B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 8985 §7.2: with the sample, the tail loss probe follows after two round trips instead of after 1 s.
#[test]
fn a_tail_loss_probe_repairs_the_first_flight() {
    let mut script = associated(&[("rack", "yes"), ("tlp", "yes")], |_| ());
    script.lose_times(B, "DATA", 3).send(B, 0, 3_000).run(2_000);
    let drawn = script.net.ladder.take();
    let probe = drawn.lines().filter(|line| line.contains("A ◄── B   DATA")).nth(3).expect("a probe");
    assert!(probe.trim_start().starts_with("4.102 "), "{drawn}");
}

/// RFC 9260 §6.3.1 C5: each INIT ACK has a cookie of its own. If an INIT ACK is lost, the sample is that of the second
/// INIT ACK.
#[test]
fn a_repeated_init_does_not_lengthen_the_sample() {
    for lost in [A, B] {
        let script = associated(&[], |script| {
            script.lose(lost, if lost == A { "INIT tag" } else { "INIT ACK" });
        });
        assert_eq!(estimate(&script), (Some(SAMPLE), 200));
    }
}

/// A retransmitted COOKIE ECHO makes the sample longer by T1-cookie. The sample is ignored if it would raise the RTO
/// above RTO.Initial. Otherwise the first measurement with data replaces it.
#[test]
fn a_retransmitted_cookie_echo_does_little_harm() {
    let lose = |script: &mut Script| {
        script.lose(A, "COOKIE ECHO");
    };
    let script = associated(&[("rto_min", "1s")], lose);
    assert_eq!(estimate(&script), (None, 1_000));
    let mut script = associated(&[], lose);
    assert_eq!(estimate(&script), (Some(SAMPLE + Duration::from_millis(200)), 753));
    script.send(B, 0, 100).run(1_000);
    assert_eq!(estimate(&script), (Some(Duration::from_millis(50)), 200));
}

/// A COOKIE ECHO that is retransmitted to another address gives no sample.
#[test]
fn a_cookie_echo_on_another_path_gives_no_sample() {
    let changes = [("rtt_from_cookie", "yes"), ("rto_min", "200ms")];
    let mut script = Script::multi_homed(&[25, 25], &changes);
    script.lose(A, "COOKIE ECHO").net.associate(A, 2);
    script.run(300);
    let paths = &script.net.ends[1].engine.info(script.id(B)).expect("up").paths;
    assert!(paths.len() == 2 && paths.iter().all(|path| path.srtt.is_none()), "{paths:?}");
}

/// A cookie whose life was extended (RFC 9260 §5.2.6) does not show when it was made.
#[test]
fn a_preserved_cookie_gives_no_sample() {
    let script = associated(&[("cookie_life", "1s"), ("rto_min", "2s"), ("rto_initial", "2s")], |script| {
        script.delay(A, "COOKIE ECHO", 1_500);
    });
    assert_eq!(estimate(&script), (None, 2_000));
}

/// The profiles follow their sources: `modern` and KAME SCTP of 2002 take the sample.
#[test]
fn profiles_with_the_sample() {
    for profile in anabranch_sctp::PROFILES {
        let config = Config::profile(profile).expect("a profile");
        let mut script = Script::with(config.clone(), config, &[25]);
        script.associate().run(100);
        let taken = ["modern", "kame-2002"].contains(profile);
        assert_eq!(estimate(&script).0, taken.then_some(SAMPLE), "{profile}");
    }
}
