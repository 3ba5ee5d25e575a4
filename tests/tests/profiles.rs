//! Tests that every profile of each of our transports carries every kind of workload.

use anabranch_results::Outcome;
use anabranch_tests::{check, race, runs};
use anabranch_transports::Transports;

#[test]
fn every_profile_finishes_pages_transfers_and_arrivals() {
    let mut contestants = String::new();
    for transport in Transports::standard().iter().filter(|transport| !transport.is_kernel_only()) {
        for profile in transport.profiles() {
            contestants += &format!(" --transport {}:profile={profile}", transport.name());
        }
    }
    for workload in [
        "--page osterdahl-gallery",
        "--bulk 500kB",
        "--bulk 500kB --message-size 2048B",
        "--objects 20x5kB --arrivals 25/s",
        "--objects 3x0B,1x1B,1x300kB",
    ] {
        for network in ["--loss 0", "--loss 3%", "--rate 256kbit --rtt 300ms --loss 1%"] {
            let found = race(&format!("{workload} {network} --runs 2{contestants}"));
            for (contestant, run) in runs(&found) {
                let description = format!("{contestant}, {workload} {network}, seed {}", run.seed);
                check(&description, run);
                assert_eq!(run.outcome, Outcome::Done, "{description}");
            }
        }
    }
}
