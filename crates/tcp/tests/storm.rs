//! Storm tests: transfers through a network with random faults. Every byte must arrive once, in order and intact.
//!
//! `SEED=n` runs one seed, `SEEDS=n` the first n seeds.

use anabranch_tcp::testing::storm;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn everything_arrives_and_everything_ends() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => 0..count,
        (None, None) => 0..300,
    };
    let (mut packets, mut timeouts, mut fast, mut spurious) = (0, 0, 0, 0);
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| storm(seed))) {
            Ok(storm) => {
                packets += storm.packets;
                timeouts += storm.timeouts;
                fast += storm.fast;
                spurious += storm.spurious;
            }
            Err(panic) => {
                eprintln!("replay with: SEED={seed} cargo test -p anabranch-tcp --test storm");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{packets} packets, {timeouts} timeouts, {fast} fast recoveries, {spurious} spurious");
}
