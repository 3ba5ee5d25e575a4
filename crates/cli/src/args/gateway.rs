//! The flags of `anabranch gateway`.

use super::lasting;
use clap::{Arg, ArgAction, Command, value_parser};

/// The verb.
pub fn command() -> Command {
    let flag = |name: &'static str, value: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).default_value(default).help(help)
    };
    let count = |arg: Arg| arg.value_parser(value_parser!(u16).range(1..));
    Command::new("gateway")
        .about("Carry HTTP between TCP and SCTP: a forward or reverse proxy, either direction")
        .long_about(
            "Carry HTTP between TCP and SCTP, in either direction. Without --origin it is a forward proxy: it takes \
             requests for http:// URLs and CONNECT, and reaches what --allow names by TCP, or hands all on to the \
             gateway of --via. With --origin it stands before that one server. Over SCTP each exchange and each tunnel \
             has a stream of its own.\n\n\
             What is not encrypted by its ends travels in the clear. SIGINT and SIGTERM finish what is in flight. The \
             access log goes to standard output.",
        )
        .after_long_help(
            "Examples (TCP clients to TCP servers, over SCTP between two gateways):\n  \
             anabranch gateway --listen tcp://127.0.0.1:3128 --via http+sctp://192.0.2.1\n  \
             anabranch gateway --listen sctp://192.0.2.1 --allow '*.example.com' --allow 10.0.0.0/8:80\n  \
             http_proxy=http://127.0.0.1:3128 https_proxy=http://127.0.0.1:3128 curl https://www.example.com/\n\n\
             One server, for SCTP clients or behind SCTP:\n  \
             anabranch gateway --listen sctp://192.0.2.1 --origin http://127.0.0.1:80\n  \
             anabranch gateway --listen tcp://127.0.0.1:8080 --origin http+sctp://192.0.2.1\n\n\
             A rule with * in place of a name leads to public addresses, and without a port to 80, 443, 8080 and 8443; \
             private networks are reached by a rule with exactly the name, or with the address. Loopback, link-local \
             addresses and those where clouds keep secrets are reached only when a rule has the address, or localhost, \
             in it; the host's other addresses when one has the address or exactly the name in it. Redirections are \
             passed on, not followed.\n\n\
             With --origin the server is told of the client by Forwarded, X-Forwarded-For, -Host and -Proto. What a client \
             sends under these names is dropped, unless it is a --trusted-proxy.\n\n\
             Exit: 0 ended when asked to, 1 not everything was finished in time, 2 usage, 3 not possible here.",
        )
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("URL")
                .action(ArgAction::Append)
                .default_values(["tcp://127.0.0.1:3128"])
                .help("Where: tcp://, sctp:// (in UDP) or sctp-ip:// with ADDRESS[,ADDRESS..][:PORT]; * is every address"),
        )
        .arg(
            Arg::new("origin")
                .long("origin")
                .value_name("URL")
                .conflicts_with_all(["via", "allow"])
                .help("The one server to stand before: http://, http+sctp:// or http+sctp-ip://HOST[:PORT]"),
        )
        .arg(
            Arg::new("trusted-proxy")
                .long("trusted-proxy")
                .value_name("ADDRESS[/BITS]")
                .action(ArgAction::Append)
                .requires("origin")
                .help("A proxy before --origin's gateway: what it says in Forwarded and X-Forwarded-* is passed on [default: none]"),
        )
        .arg(
            Arg::new("via")
                .long("via")
                .value_name("URL")
                .help("The gateway that all is handed on to: http+sctp:// or http+sctp-ip://HOST[:PORT]"),
        )
        .arg(
            Arg::new("allow")
                .long("allow")
                .value_name("RULE")
                .action(ArgAction::Append)
                .help("What may be reached: HOST, *.DOMAIN, ADDRESS[/BITS] or *, each with [:PORT], :* every port [default: nothing; with --via what the next gateway allows]"),
        )
        .arg(count(flag("sctp-port", "N", "80", "SCTP port behind UDP ports, here and there")))
        .arg(count(flag("connections", "N", "1024", super::CONNECTIONS)))
        .arg(crate::memory::flag())
        .arg(count(flag("streams", "N", "100", "Streams an association")))
        .arg(super::server_threads())
        .arg(crate::busy_poll::flag("off"))
        .arg(count(flag("exchanges", "N", "4096", "Exchanges and tunnels at a time, in all")))
        .arg(flag("max-header", "BYTES", "16KiB", "Largest request head"))
        .arg(lasting(flag("header-timeout", "TIME", "10s", "Longest time for a request head")))
        .arg(lasting(flag("connect-timeout", "TIME", "10s", "Longest time to reach a server")))
        .arg(lasting(flag("idle", "TIME", "60s", "An exchange, tunnel or connection on which nothing moves ends after this")))
        .arg(flag("grace", "TIME", "10s", "How long an end waits for what is in flight"))
        .arg(crate::knobs::set())
        .arg(crate::knobs::key_file())
        .arg(Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).help("No access log"))
        .arg(super::dry_run())
}
