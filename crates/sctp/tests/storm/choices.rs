//! Chooses the knobs of an endpoint by a seed.

use anabranch_base::{Ratio, Rng};
use anabranch_sctp::{Config, SchedulerKind};

pub(crate) fn per_mille(n: u64) -> Ratio {
    Ratio::new(n, 1_000).expect("below one")
}

/// Returns one of `choices` at random.
pub(crate) fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

/// Decides at random whether this storm has a certain kind of fault.
pub(crate) fn on(rng: &mut Rng) -> bool {
    rng.below(2) == 0
}

pub(crate) fn configuration(rng: &mut Rng) -> Config {
    let profile = pick(rng, anabranch_sctp::PROFILES);
    let mut config = Config::profile(profile).expect("a profile");
    let mut set = |key: &str, value: &str| config.set(key, value).expect("a knob");
    if on(rng) {
        set("rcvbuf", pick(rng, &["3000B", "6000B", "20000B", "100kB"]));
    }
    if on(rng) {
        set("sndbuf", pick(rng, &["20000B", "70kB", "1MiB"]));
    }
    if on(rng) {
        set("delack", pick(rng, &["0", "10ms", "500ms"]));
    }
    if on(rng) {
        set("mss", pick(rng, &["64B", "200B", "1000B", "auto"]));
    }
    if on(rng) {
        set("partial_delivery", pick(rng, &["1B", "2000B", "64KiB"]));
    }
    if on(rng) {
        set("nagle", pick(rng, &["yes", "no"]));
        set("cookie_data", pick(rng, &["yes", "no"]));
        set("rtt_from_cookie", pick(rng, &["yes", "no"]));
        set("sack_path", pick(rng, &["same", "other"]));
        set("rtx_path", pick(rng, &["same", "timeout", "all"]));
        set("scheduler", pick(rng, &["fcfs", "rr"]));
        set("cc", pick(rng, &["rfc9260", "cubic", "bbr"]));
        set("ecn", pick(rng, &["yes", "no"]));
        set("max_burst", pick(rng, &["0", "1", "4"]));
        set("dupthresh", pick(rng, &["1", "3", "4"]));
    }
    set("partial_reliability", pick(rng, &["yes", "yes", "no"]));
    if on(rng) {
        set("rto_min", pick(rng, &["10ms", "200ms", "1s"]));
    }
    set("rto_max", pick(rng, &["10s", "60s"]));
    if on(rng) {
        set("auth", "yes");
        set("asconf", pick(rng, &["yes", "yes", "no"]));
        set("auth_hmac", pick(rng, &["sha1", "sha256"]));
        set("auth_chunks", pick(rng, &["none", "data", "data+sack+heartbeat", "abort+cookie_echo", "all"]));
    }
    // Without heartbeats, a side that has nothing to send would never detect that the other side is gone.
    set("hb_interval", pick(rng, &["1s", "30s"]));
    set("path_max_retrans", pick(rng, &["0", "2", "5"]));
    set("assoc_max_retrans", pick(rng, &["10", "20"]));
    set("init_max_retrans", "20");
    set("num_ostreams", pick(rng, &["1", "3", "20", "65535"]));
    config
}

pub(crate) const SCHEDULERS: &[SchedulerKind] = &[
    SchedulerKind::Fcfs,
    SchedulerKind::RoundRobin,
    SchedulerKind::RoundRobinPacket,
    SchedulerKind::Priority,
    SchedulerKind::Fair,
    SchedulerKind::WeightedFair,
];
