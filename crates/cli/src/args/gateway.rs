//! The flags of `anabranch gateway`.

use super::lasting;
use crate::flag::{flag, switch};
use clap::{Arg, ArgAction, Command, value_parser};

/// Returns the definition of the `gateway` command.
pub fn command() -> Command {
    super::secure::server_flags(super::secure::client_flags(flags()))
}

fn flags() -> Command {
    let count = |arg: Arg| arg.value_parser(value_parser!(u16).range(1..));
    Command::new("gateway")
        .about("Carry HTTP between TCP and SCTP, as a forward or reverse proxy")
        .long_about(
            "Carries HTTP between TCP and SCTP, in either direction. Without --origin the gateway is a forward proxy. It \
             accepts CONNECT and requests for http:// and https:// URLs, and forwards them over TCP to the targets that \
             --allow permits, or to the gateway given by --via. With --origin it is a reverse proxy for that server. Over \
             SCTP each exchange and each tunnel has its own stream.\n\n\
             Servers of https:// URLs are reached over TLS, and verified by the authorities of this system or --trust. \
             Clients reach the gateway over TLS at --listen https://, with --cert and --key or a self-signed certificate. \
             SIGHUP reads certificate and key again. Over TLS the gateway speaks HTTP/1.1. Other traffic is not encrypted, \
             unless the two ends encrypt it. On SIGINT or SIGTERM the gateway finishes exchanges in flight. The access \
             log goes to standard output.",
        )
        .after_long_help(
            "Examples (TCP clients to TCP servers, over SCTP between two gateways):\n  \
             anabranch gateway --listen tcp://127.0.0.1:3128 --via http+sctp://192.0.2.1\n  \
             anabranch gateway --listen sctp://192.0.2.1 --allow '*.example.com' --allow 10.0.0.0/8:80\n  \
             http_proxy=http://127.0.0.1:3128 https_proxy=http://127.0.0.1:3128 curl https://www.example.com/\n\n\
             One server, for SCTP clients or behind SCTP:\n  \
             anabranch gateway --listen sctp://192.0.2.1 --origin http://127.0.0.1:80\n  \
             anabranch gateway --listen tcp://127.0.0.1:8080 --origin http+sctp://192.0.2.1\n  \
             anabranch gateway --listen https://192.0.2.1 --origin http://127.0.0.1:8080\n\n\
             A rule with * instead of a name permits public addresses only, and without a port only 80, 443, 8080 and 8443. \
             Private networks need a rule with the exact name or the address. Loopback, link-local and cloud metadata \
             addresses need a rule with the address, or with localhost; other addresses of this host need a rule with \
             the address or the exact name. The gateway passes redirections on and does not follow them.\n\n\
             With --origin the gateway describes the client to the server in Forwarded and X-Forwarded-For, -Host and \
             -Proto. It drops these fields from clients, except from a --trusted-proxy.\n\n\
             Exit: 0 ended by a signal, 1 some exchanges did not finish in time, 2 usage, 3 not possible here.",
        )
        .arg(
            flag(
                "listen",
                "URL",
                "Listen at tcp://, https://, sctp:// (in UDP), sctp-ip:// or https+sctp:// with ADDRESS[,ADDRESS..][:PORT]; * means all addresses",
            )
            .action(ArgAction::Append)
            .default_values(["tcp://127.0.0.1:3128"]),
        )
        .arg(
            flag(
                "origin",
                "URL",
                "Act as a reverse proxy for this server: http://, https://, http+sctp://, https+sctp:// or http+sctp-ip://HOST[:PORT]",
            )
            .conflicts_with_all(["via", "allow"]),
        )
        .arg(
            flag(
                "trusted-proxy",
                "ADDRESS[/BITS]",
                "Keep Forwarded and X-Forwarded-* fields from this proxy [default: from none]",
            )
            .action(ArgAction::Append)
            .requires("origin"),
        )
        .arg(
            flag(
                "via",
                "URL",
                "Forward all requests to this gateway: http+sctp://, https+sctp:// or http+sctp-ip://HOST[:PORT]",
            ),
        )
        .arg(
            flag(
                "allow",
                "RULE",
                "Permit targets: HOST, *.DOMAIN, ADDRESS[/BITS] or *, each with [:PORT], where :* means any port [default: none; with --via, the targets that the next gateway permits]",
            )
            .action(ArgAction::Append),
        )
        .arg(count(flag("sctp-port", "N", "SCTP port behind the UDP port, at both ends").default_value("80")))
        .arg(count(flag("connections", "N", super::CONNECTIONS).default_value("1024")))
        .arg(crate::memory::flag())
        .arg(count(flag("streams", "N", "Streams per association").default_value("100")))
        .arg(super::server_threads())
        .arg(crate::busy_poll::flag("off"))
        .arg(count(flag("exchanges", "N", "Maximum exchanges and tunnels at a time, in total").default_value("4096")))
        .arg(flag("max-header", "BYTES", "Maximum size of a request head").default_value("16KiB"))
        .arg(lasting(flag("header-timeout", "TIME", "Maximum time for a request head to arrive").default_value("10s")))
        .arg(lasting(flag("connect-timeout", "TIME", "Maximum time to connect to a server").default_value("10s")))
        .arg(lasting(flag("idle", "TIME", "Close an exchange, tunnel or connection that is idle for this long").default_value("60s")))
        .arg(flag("grace", "TIME", "On a signal, wait this long for exchanges in flight").default_value("10s"))
        .arg(crate::knobs::set())
        .arg(crate::knobs::key_file())
        .arg(switch("quiet", "No access log").short('q'))
        .arg(super::dry_run())
}
