//! The `--busy-poll` flag: whether the event loop polls for the next packet for a short time before it sleeps.
//!
//! The flag is on by default for clients, which wait for responses. It is off by default for servers, which usually
//! share their machine with other programs.

use clap::{Arg, ArgMatches};

/// The `--busy-poll` flag.
pub fn flag(default: &'static str) -> Arg {
    crate::flag::flag(
        "busy-poll",
        "on|off",
        "While small packets arrive less than 100 us apart, poll for the next one instead of sleeping",
    )
    .value_parser(["on", "off"])
    .default_value(default)
}

/// Returns the options of the event loop that `--busy-poll` selects.
#[cfg(target_os = "linux")]
pub fn options(matches: &ArgMatches) -> anabranch_world::os::Options {
    let on = matches.get_one::<String>("busy-poll").is_some_and(|value| value == "on");
    anabranch_world::os::Options { sleep_at_once: !on, ..anabranch_world::os::Options::default() }
}
