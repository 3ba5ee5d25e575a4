//! `--busy-poll`: whether a world polls for packets once more before it sleeps.
//!
//! On by default for clients, which wait for responses. Off by default for servers, which usually share their machine
//! with others.

use clap::{Arg, ArgMatches};

/// The `--busy-poll` flag.
pub fn flag(default: &'static str) -> Arg {
    Arg::new("busy-poll")
        .long("busy-poll")
        .value_name("on|off")
        .value_parser(["on", "off"])
        .default_value(default)
        .help("While small packets arrive less than 100 us apart, poll for the next one instead of sleeping")
}

/// Returns the options of a world according to the flag.
#[cfg(target_os = "linux")]
pub fn options(matches: &ArgMatches) -> anabranch_world::os::Options {
    let on = matches.get_one::<String>("busy-poll").is_some_and(|value| value == "on");
    anabranch_world::os::Options { sleep_at_once: !on, ..anabranch_world::os::Options::default() }
}
