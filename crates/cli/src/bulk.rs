//! `anabranch bulk`: how much goes through, as client and as server.
//!
//! - `verb`: what the flags ask for; `protocol`: over what, and how it is set
//! - `client`, `server`: the two ends

#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod protocol;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod verb;

use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};

#[cfg(target_os = "linux")]
pub use verb::run;

/// The flags.
pub fn command() -> Command {
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
    };
    Command::new("bulk")
        .about("How much goes through between two hosts: client and server")
        .long_about(
            "How much goes through between two hosts. One end listens, the other sends to it (or has it sent, or \
             both) as fast as it can: over tcp:// (the kernel's), sctp:// (ours, in UDP), sctp-ip:// (ours, on IP), \
             mptcp:// and sctp-kernel:// (where the kernel has them). A line for each interval, then what the \
             sender and the receiver counted, the streams used, and the processor time of both ends.\n\n\
             Traffic is in the clear.",
        )
        .after_long_help(
            "Examples:\n  \
             anabranch bulk --listen sctp://*:9900 --listen tcp://*:5201\n  \
             anabranch bulk sctp://192.0.2.1:9900 --for 10s --message-size 64KiB\n  \
             anabranch bulk sctp://192.0.2.1:9900 --streams 10 --unordered --both --set profile=rfc9260\n  \
             anabranch bulk tcp://192.0.2.1:5201 --reverse --set rcvbuf=4MiB --json -\n\n\
             Exit: 0 done, 1 the test failed, 2 usage, 3 not possible here, 130 interrupted (what was measured is \
             reported).",
        )
        .arg(Arg::new("server").value_name("URL").help("The server: tcp://HOST:PORT, sctp://HOST:PORT, .."))
        .arg(
            flag("listen", "URL", "Be a server there; * is every address, port 0 a free one")
                .action(ArgAction::Append)
                // What the client asks for, and what only the client tells.
                .conflicts_with_all([
                    "for",
                    "size",
                    "message-size",
                    "streams",
                    "connections",
                    "unordered",
                    "reverse",
                    "both",
                    "interval",
                    "json",
                    "csv",
                    "quiet",
                ]),
        )
        .group(ArgGroup::new("role").args(["server", "listen"]).required(true))
        .arg(switch("once", "End after the first session").requires("listen"))
        .arg(flag("for", "TIME", "Send for so long [default: 10s]").conflicts_with("size"))
        .arg(flag("size", "BYTES", "Send so much, in whole messages"))
        .arg(flag("message-size", "BYTES", "Bytes of a message, 8B to 16MiB").default_value("64KiB"))
        .arg(
            flag("streams", "N", "SCTP streams, used in turn")
                .value_parser(value_parser!(u16).range(1..))
                .default_value("1"),
        )
        .arg(
            flag("connections", "N", "Connections or associations side by side")
                .value_parser(value_parser!(u16).range(1..=1024))
                .default_value("1"),
        )
        .arg(switch("unordered", "SCTP need not deliver the messages in order"))
        .arg(switch("reverse", "The server sends").short('R').conflicts_with("both"))
        .arg(switch("both", "Both send at the same time"))
        .arg(flag("interval", "TIME", "Between two lines").default_value("1s"))
        .arg(flag("timeout", "TIME", "Where nothing moves for so long, the test has failed").default_value("10s"))
        .arg(switch(
            "no-offload",
            "UDP packet by packet at this end, as on a host without GSO and GRO: what they gain is seen beside it",
        ))
        .arg(crate::busy_poll::flag("on"))
        .arg(crate::knobs::set().help(
            "Knobs of this end: of SCTP as `race` names them (profile=rfc9260,rcvbuf=8MiB); of the kernel's protocols \
             cc, sndbuf and rcvbuf. What acts at the end that sends is refused with --reverse: set it at the server",
        ))
        .arg(crate::knobs::key_file())
        .arg(
            flag("sctp-port", "N", "SCTP port behind the UDP port")
                .value_parser(value_parser!(u16).range(1..))
                .default_value("5201"),
        )
        .arg(flag("json", "FILE|-", "Write the result as JSON, schema anabranch.bulk/1 (-: the lines go to stderr)"))
        .arg(flag("csv", "FILE|-", "Write a row an interval"))
        .arg(switch("quiet", "No lines but the result's").short('q'))
        .arg(crate::args::dry_run())
}
