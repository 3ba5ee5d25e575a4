//! Runs the chat at a size that suits every test run. `cargo bench -p anabranch-tokio --bench chat` runs it at full
//! size.
#![cfg(target_os = "linux")]

use crate::swarm::{self, Setup};

/// Returns the number of lines received by all members: each receives the lines of the seven others in its room.
fn heard(setup: Setup) -> u64 {
    7 * u64::from(setup.lines) * setup.associations as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_doubled_or_cut_in_a_storm_of_dropped_futures() {
    for seed in 1..4 {
        let setup = Setup { associations: 64, lines: 20, seed, storm: true, rfc9260: false, dtls: None };
        let outcome = swarm::run(setup).await;
        assert_eq!(outcome.received, heard(setup), "seed {seed}");
        assert!(outcome.dropped > 64, "futures were dropped: {}", outcome.dropped);
        assert!(outcome.paths >= 64, "second paths came up: {}", outcome.paths);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_chat_over_two_paths() {
    let setup = Setup { associations: 400, lines: 5, seed: 7, storm: false, rfc9260: false, dtls: None };
    let outcome = swarm::run(setup).await;
    assert_eq!(outcome.received, heard(setup));
    // Other tests run in this process at the same time, so this bound on memory is loose. The benchmark gives the exact
    // value.
    assert!(outcome.idle_bytes < 1 << 20 && outcome.after_lines < 1 << 20, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_chat_over_dtls() {
    let setup = Setup { associations: 64, lines: 10, seed: 8, storm: true, rfc9260: false, dtls: Some(4) };
    let outcome = swarm::run(setup).await;
    assert_eq!(outcome.received, heard(setup));
}
