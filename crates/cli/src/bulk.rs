//! `anabranch bulk`: measures throughput, as client and as server.
//!
//! - `verb`: reads the flags
//! - `protocol`: the protocol and its settings
//! - `client`, `server`: the two ends
//! - `ending`: the signals that end a client or a server, and the time to close sessions

#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod ending;
#[cfg(target_os = "linux")]
mod protocol;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod verb;

use crate::flag::{flag, switch};
use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};

#[cfg(target_os = "linux")]
pub use verb::run;

/// Returns the definition of the `bulk` command.
pub fn command() -> Command {
    let command = Command::new("bulk")
        .about("Measure throughput between two hosts: client and server")
        .long_about(
            "Measure throughput between two hosts. The server listens; the client sends as fast as it can, receives, or \
             both: over tcp:// (the kernel's), https:// (TLS on that), sctp:// (ours, in UDP), sctp-ip:// (ours, on IP), \
             https+sctp:// (ours, over DTLS), h3:// (QUIC), mptcp:// and sctp-kernel:// (if the kernel has them). No HTTP is \
             spoken. The report has a line for each interval, then the counts of sender and receiver, the streams used, and \
             the processor time of both ends.\n\n\
             Only https://, https+sctp:// and h3:// are encrypted.",
        )
        .after_long_help(
            "Examples:\n  \
             anabranch bulk --listen sctp://*:9900 --listen tcp://*:5201 --listen h3://*:4433\n  \
             anabranch bulk sctp://192.0.2.1:9900 --for 3s --message-size 64KiB\n  \
             anabranch bulk sctp://192.0.2.1:9900 --size 1GB --streams 10 --both --scheduler rr\n  \
             anabranch bulk h3://192.0.2.1:4433 --for 3s --trust sha256:FINGERPRINT\n  \
             anabranch bulk tcp://192.0.2.1:5201 --for 3s --reverse --set rcvbuf=4MiB --json -\n\n\
             Exit: 0 done, 1 the test failed, 2 usage, 3 not possible here, 130 interrupted (results so far are \
             reported).",
        )
        .arg(Arg::new("server").value_name("URL").help("The server: tcp://HOST:PORT, sctp://HOST:PORT, .."))
        .arg(
            flag("listen", "URL", "Be a server at this URL; * means all addresses, port 0 any free port")
                .action(ArgAction::Append)
                // Only a client uses these flags: they describe the test, or name the output files of the client. The
                // client sends the description of the test to the server.
                .conflicts_with_all([
                    "for",
                    "drain",
                    "size",
                    "message-size",
                    "streams",
                    "connections",
                    "unordered",
                    "reverse",
                    "both",
                    "interval",
                    "trust",
                    "insecure",
                    "json",
                    "csv",
                    "html",
                    "quiet",
                ]),
        )
        .group(ArgGroup::new("role").args(["server", "listen"]).required(true))
        .arg(switch("once", "Exit after the first session").requires("listen"))
        .arg(flag("for", "TIME", "Send for this long [default: 10s]").conflicts_with("size"))
        .arg(
            flag("drain", "TIME", "After --for, wait this long for the send buffer to be acknowledged [default: 1s]")
                .conflicts_with("size"),
        )
        .arg(flag("size", "BYTES", "Send this much, in whole messages"))
        .arg(flag("message-size", "BYTES", "Size of a message, 8B to 16MiB").default_value("64KiB"))
        .arg(
            flag("streams", "N", "Streams of SCTP or QUIC, used in turn")
                .value_parser(value_parser!(u16).range(1..))
                .default_value("1"),
        )
        .arg(
            flag("connections", "N", "Parallel connections or associations")
                .value_parser(value_parser!(u16).range(1..=1024))
                .default_value("1"),
        )
        .arg(switch("unordered", "Let SCTP deliver messages out of order"))
        .arg(
            flag(
                "ppid",
                "N",
                "SCTP payload protocol identifier of the messages; both ends need the same one [default: 0]",
            )
            .value_parser(value_parser!(u32)),
        )
        .arg(flag(
            "scheduler",
            "NAME",
            "Order in which streams of this end take turns, as --set scheduler: for SCTP fcfs, rr, rr_packet, priority, fair or wfq",
        ))
        .arg(switch("reverse", "The server sends").short('R').conflicts_with("both"))
        .arg(switch("both", "Both ends send at the same time"))
        .arg(flag("interval", "TIME", "Time between two lines").default_value("1s"))
        .arg(flag("timeout", "TIME", "Fail if there is no progress for this long").default_value("10s"))
        .arg(switch(
            "no-offload",
            "Send and receive UDP packets one by one at this end, as on a host without GSO and GRO",
        ))
        .arg(crate::busy_poll::flag("on"))
        .arg(crate::knobs::set().help(
            "Knobs of this end: for SCTP and QUIC as in `race` (profile=rfc9260,rcvbuf=8MiB); for the kernel's protocols cc, sndbuf \
             and rcvbuf. With --reverse, set knobs of the sender at the server",
        ))
        .arg(crate::knobs::key_file())
        .arg(
            flag("sctp-port", "N", "SCTP port behind the UDP port")
                .value_parser(value_parser!(u16).range(1..))
                .default_value("5201"),
        )
        .arg(flag("json", "FILE|-", "Write the result as JSON, schema anabranch.bulk/1 (-: the lines go to stderr)"))
        .arg(flag("csv", "FILE|-", "Write a row for each interval"))
        .arg(flag("html", "FILE", "Write a page that draws round-trip time and bit rate over time"))
        .arg(switch("quiet", "Print only the result").short('q'))
        .arg(crate::args::dry_run());
    crate::args::secure::client_flags(crate::args::secure::server_flags(command))
}
