//! The table of `examples/interleaving.rs`, held to its figures: virtual time gives the same ones
//! everywhere. Small messages wait for a large one with DATA and do not with I-DATA (RFC 8260 §1.1).

#[allow(dead_code, reason = "a test has no main")]
#[path = "../examples/interleaving.rs"]
mod interleaving;

use expect_test::expect;

#[test]
fn pings_beside_large_messages() {
    expect![[r#"
        8-byte pings beside 256 kB messages on one association; 10 Mbit/s, RTT 40 ms, queue 1 bdp
        delay of the pings in ms, bulk in Mbit/s

                     DATA                       I-DATA
        scheduler    median     p95    bulk     median     p95    bulk
        fcfs          727.6   837.3    9.65      743.0   836.9    9.63
        rr            148.1   245.9    9.65       44.0    59.9    9.63
        rr_packet     147.0   244.0    9.65       42.5    58.6    9.63
        priority      144.0   243.7    9.65       42.8    58.7    9.63
        fair          144.0   243.7    9.65       42.8    58.7    9.63
        wfq           144.0   243.7    9.65       42.8    58.7    9.63
        (no bulk)      20.0    20.0
    "#]]
    .assert_eq(&interleaving::table());
}
