//! What the scenarios share.

#![allow(dead_code, reason = "every test binary uses its own part")]

use anabranch_tcp::Config;

/// No options, no Nagle, no delayed acknowledgement: segments that can be followed by eye.
pub fn plain() -> Config {
    with(&[
        ("cc", "reno"),
        ("iw", "4"),
        ("abc", "2"),
        ("recovery", "newreno"),
        ("sack", "no"),
        ("dsack", "no"),
        ("timestamps", "no"),
        ("wscale", "no"),
        ("ecn", "no"),
        ("nagle", "no"),
        ("delack", "0"),
        ("quickack", "0"),
        ("undo", "no"),
        ("mss", "1000B"),
        ("rcvbuf", "60000B"),
        ("rto_min", "1s"),
        ("rto_initial", "1s"),
        ("time_wait", "10s"),
    ])
}

/// The modern profile with changes.
pub fn with(changes: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    change(&mut config, changes);
    config
}

/// Changes knobs.
pub fn change(config: &mut Config, changes: &[(&str, &str)]) {
    for (key, value) in changes {
        config.set(key, value).expect("a knob");
    }
}

/// `plain` with changes.
pub fn plain_with(changes: &[(&str, &str)]) -> Config {
    let mut config = plain();
    change(&mut config, changes);
    config
}

/// So many bytes that tell their place.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n / 251 + n * 7) as u8).collect()
}
