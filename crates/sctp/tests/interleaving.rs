//! Checks the table of `benches/src/interleaving.rs`, whose figures are the same on every machine because time is
//! simulated. With DATA, small messages wait for a large message. With I-DATA, small messages do not wait (RFC 8260
//! §1.1).

#[path = "../../../benches/src/interleaving.rs"]
mod table;

use expect_test::expect;

#[test]
fn pings_beside_large_messages() {
    expect![[r#"
        8-byte pings beside 256 kB messages on one association; 10 Mbit/s, RTT 40 ms, queue 1 bdp
        delay of the pings in ms, bulk in Mbit/s

                     DATA                       I-DATA
        scheduler    median     p95    bulk     median     p95    bulk
        fcfs          727.9   837.4    9.65      743.0   836.8    9.63
        rr            148.0   245.8    9.65       43.9    59.8    9.63
        rr_packet     147.4   244.5    9.65       42.8    58.9    9.63
        priority      143.9   243.6    9.65       42.7    58.6    9.63
        fair          143.9   243.6    9.65       42.7    58.6    9.63
        wfq           143.9   243.6    9.65       42.7    58.6    9.63
        (no bulk)      20.0    20.0
    "#]]
    .assert_eq(&table::table());
}
