//! The definition of the command line. Most flags of `race` come from the table of plan keys.

mod gateway;
pub mod secure;

use crate::flag::{flag, switch};
use anabranch_base::units::parse_duration;
use anabranch_lab::plan::keys::{KEYS, Key, RENAMED, Several, find};
use anabranch_lab::sweep::Shard;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::time::Duration;

/// Returns the complete command line, with all subcommands.
pub fn command() -> Command {
    all().mut_subcommands(|verb| verb.mut_args(hyphened))
}

/// Allows the value of `arg` to begin with a hyphen. A wrong value such as `-1%` then gets the error message of `arg`.
/// Flags that name an output file are excepted: otherwise, `--json --quiet` would write to a file named `--quiet`.
fn hyphened(arg: Arg) -> Arg {
    let writes = ["json", "csv", "out", "output", "har", "resume"].contains(&arg.get_id().as_str());
    let takes_value = arg.get_action().takes_values() && !arg.is_positional() && !arg.is_require_equals_set();
    if takes_value && !writes { arg.allow_hyphen_values(true) } else { arg }
}

fn all() -> Command {
    Command::new("anabranch")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Find which transport carries given traffic best on a given network, and why; SCTP for real networks")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100)
        .subcommand(race())
        .subcommand(crate::merge::command())
        .subcommand(crate::lab::command())
        .subcommand(study())
        .subcommand(features())
        .subcommand(crate::decode::command())
        .subcommand(serve())
        .subcommand(get())
        .subcommand(crate::load::command())
        .subcommand(crate::bulk::command())
        .subcommand(gateway::command())
        .subcommand(link())
        .subcommand(crate::packages::completions())
        .subcommand(crate::packages::man())
}

#[cfg(target_os = "linux")]
fn link() -> Command {
    crate::link::command()
}

#[cfg(not(target_os = "linux"))]
fn link() -> Command {
    Command::new("link").about("Run a command behind an emulated link (on Linux)")
}

fn race() -> Command {
    let mut command = Command::new("race")
        .about("Race transports: one page over each contestant across the same network")
        .long_about(
            "Race transports: one page (or objects, or a bulk transfer) over each contestant across the same \
             virtual network, once for each seed; then a table with confidence intervals, and the reason.\n\n\
             Without arguments, http1 (HTTP/1.1 on six TCP connections), http2, http3 and sctp-dtls (HTTP over SCTP \
             and DTLS) load the shipped news page. The network has 10 Mbit/s and 80 ms, first without loss, then with \
             1 %. There are 100 seeds.",
        )
        .after_long_help(
            "Units live in the value: 10mbit, 40ms, 1%, 100kB (100,000 bytes), 100KiB, 50p, 1bdp.\n\
             Every network flag also exists for one direction: --up-loss, --down-rate, .. (down = server to client).\n\
             A comma-separated or repeated network or workload value is a factor: all combinations are run.\n\n\
             Examples:\n  \
             anabranch race examples/site.har --rate 10mbit --rtt 80ms --loss 1%\n  \
             anabranch race examples/plan.toml\n  \
             anabranch race --loss 0,1%,2% --transport tcp --transport sctp:num_ostreams=10 --out results\n  \
             anabranch race --also http3:cc=bbr\n  \
             anabranch race --preset lte --messages 50/s --size 300B --transport tcp,sctp\n  \
             anabranch race --path rate=10mbit,rtt=80ms --path rate=2mbit,rtt=40ms \\\n      \
             --fail path=1,at=1s --transport sctp --bulk 5MB\n  \
             anabranch race --objects 4x20kB --loss 0,1%,2% --shard 1/2 --out shard-1\n\n\
             Exit: 0 done, 1 a transfer failed or an [[expect]] or [[cause]] was missed, 2 usage, 3 not possible here, 130 interrupted.",
        )
        .arg(
            Arg::new("plan").value_name("PLAN|PAGE").help(
                "A plan (TOML file; flags override its keys), or a page, as for --page: a HAR file, a directory with \
                 index.html, or the name of a shipped page. - reads a plan or a HAR from standard input, here and in --page",
            ),
        );
    for key in KEYS.iter() {
        let several = key.several != Several::No;
        command =
            command.arg(plan_flag(key).action(if several { ArgAction::Append } else { ArgAction::Set }));
    }
    for (old, current) in RENAMED {
        if let Some(key) = find(current) {
            command = command.arg(plan_flag(key).id(old).long(old).hide(true));
        }
    }
    command.args(output()).arg(
        flag("list", "WHAT", "List what can be named, and end")
            .value_parser(["profiles", "pages", "presets", "transports"])
            .exclusive(true),
    )
}

/// Returns the command-line flag that sets a plan key.
pub fn plan_flag(key: &'static Key) -> Arg {
    let arg = Arg::new(key.name).long(key.name).help_heading(key.group.heading());
    let arg = if key.help.is_empty() { arg.hide(true) } else { arg.help(key.help) };
    if key.value.is_empty() {
        arg.num_args(0..=1).require_equals(true).default_missing_value("yes").value_name("yes|no")
    } else {
        arg.value_name(key.value)
    }
}

fn output() -> Vec<Arg> {
    let heading = "Output";
    let file = |name, value, help| flag(name, value, help).help_heading(heading);
    let switch = |name, help| switch(name, help).help_heading(heading);
    vec![
        file(
            "json",
            "FILE|-",
            "Write the result as JSON, schema anabranch.race/3 (-: the table goes to stderr)",
        ),
        file("json-version", "N", "Version of that schema, also in --out: 3, or 2 until 0.2 [default: 3]")
            .value_parser(["2", "3"]),
        file(
            "json-detail",
            "WHICH",
            "Runs whose objects have the parts of their response times, in that JSON: drawn (best, median and worst of each \
             contestant) or all [default: drawn]",
        )
        .value_parser(["drawn", "all"]),
        file("csv", "FILE|-", "Write a row for each point, contestant, seed and object"),
        file(
            "out",
            "DIR",
            "Write results.json, report.html, page loads, and captures to DIR, which must be new, empty or of an earlier \
             race; of several points, each as it is done",
        ),
        file(
            "pcap",
            "WHICH",
            "Captures in --out: median (of each contestant's median run, taken at the server; if the page has several \
             hosts, also at the client). ends: all hosts of that run. all: all hosts of all runs. off [default: median]",
        )
        .value_parser(["median", "ends", "all", "off"]),
        file("trace-out", "FORMAT", "Beside each capture a trace for scripts: ns2 (a .tr file as ns-2 writes it)")
            .value_parser(["ns2"]),
        file(
            "resume",
            "DIR",
            "Go on with the points that an interrupted --out DIR has not; with a plan, begin where DIR has nothing yet",
        )
        .conflicts_with("out"),
        file("shard", "I/N", "Run every N-th point, from the I-th; `anabranch merge` puts the shards together")
            .value_parser(|text: &str| text.parse::<Shard>()),
        file("compare", "OLD.json", "Show what changed since this result, a file of --json, or - for standard input"),
        file("threads", "N", "Runs at a time [default: one for each core]")
            .value_parser(value_parser!(u16).range(1..=4096)),
        switch("dry-run", "Print the plan as TOML, every default filled in, and end").short('n'),
        switch("verbose", "Also show means, work of the network, experiments and all settings").short('v'),
        switch("quiet", "Do not show progress").short('q'),
    ]
}

fn serve() -> Command {
    let count = |arg: Arg| arg.value_parser(value_parser!(u16).range(1..));
    let command = Command::new("serve")
        .about("Serve a directory over TCP, TLS, QUIC and SCTP")
        .long_about(
            "Serves a directory of files. Over TCP and TLS it speaks HTTP/1.1 and HTTP/2, over QUIC HTTP/3. Over SCTP it \
             speaks HTTP/1.1: in UDP, which needs no privilege, on IP, or under DTLS. Only https://, h3:// and \
             https+sctp:// are encrypted.\n\n\
             Without --cert and --key the server makes a self-signed certificate, keeps it, and prints its fingerprint for \
             --trust of clients. DTLS needs a certificate with an ECDSA P-256 key. SIGHUP reads the certificate and key of \
             https:// and h3:// again. On SIGINT or SIGTERM the server finishes exchanges in flight. The access log goes \
             to standard output.\n\n\
             Files outside DIR are never served: a symbolic link is followed only if it stays inside DIR. Names that \
             begin with a dot (.git, .env) are served only with --dotfiles, except /.well-known/.",
        )
        .after_long_help(
            "Examples:\n  \
             anabranch serve site\n  \
             anabranch get http+sctp://127.0.0.1:9899/\n  \
             anabranch serve site --listen tcp://*:8080 --listen sctp://192.0.2.1,192.0.3.1:9899\n\n\
             Exit: 0 ended by a signal, 1 some exchanges did not finish in time, 2 usage, 3 not possible here.",
        )
        .arg(Arg::new("directory").value_name("DIR").default_value(".").help("Directory to serve"))
        .arg(
            switch(
                "dotfiles",
                "Also serve names that begin with a dot [default: only /.well-known/]",
            ),
        )
        .arg(
            flag(
                "listen",
                "URL",
                "Listen at tcp://, https://, h3:// (HTTP/3), sctp:// (in UDP), sctp-ip:// or https+sctp:// (over DTLS) with ADDRESS[,ADDRESS..][:PORT]; * means all addresses",
            )
            .action(ArgAction::Append)
            .default_values(["tcp://127.0.0.1:8080", "sctp://127.0.0.1:9899"]),
        )
        .arg(count(flag("sctp-port", "N", "SCTP port behind the UDP port").default_value("80")))
        .arg(count(flag("connections", "N", CONNECTIONS).default_value("1024")))
        .arg(crate::memory::flag())
        .arg(count(flag("streams", "N", "Streams of each association or QUIC connection").default_value("100")))
        .arg(server_threads())
        .arg(crate::busy_poll::flag("off"))
        .arg(crate::knobs::set())
        .arg(crate::knobs::key_file())
        .arg(flag("max-header", "BYTES", "Maximum size of a request head").default_value("16KiB"))
        .arg(lasting(flag("header-timeout", "TIME", "Maximum time for a request head to arrive").default_value("10s")))
        .arg(lasting(flag("idle", "TIME", "Close a connection that is idle for this long").default_value("60s")))
        .arg(flag("grace", "TIME", "On a signal, wait this long for exchanges in flight").default_value("10s"))
        .arg(switch("redirect", "Redirect requests over tcp:// to the first https:// listener"))
        .arg(switch("quiet", "No access log").short('q'))
        .arg(dry_run());
    secure::server_flags(command.arg(secure::qlog_flag()))
}

/// Requires that the value of `arg` is a duration greater than zero, because a timeout of zero would expire at once.
fn lasting(arg: Arg) -> Arg {
    fn read(text: &str) -> Result<String, &'static str> {
        match parse_duration(text) {
            Ok(Duration::ZERO) => Err("must be more than zero"),
            // Accepts an invalid duration here. The code that reads the flag reports it later.
            _ => Ok(text.to_owned()),
        }
    }
    arg.value_parser(read)
}

/// The `--dry-run` flag of the commands that use a real network.
pub fn dry_run() -> Arg {
    switch("dry-run", "Print what the command would do, and exit").short('n')
}

/// The `--threads` flag of the servers.
fn server_threads() -> Arg {
    flag("threads", "N", "Threads; each serves its share of connections and associations")
        .value_parser(value_parser!(u16).range(1..=64))
        .default_value("1")
}

fn get() -> Command {
    let command = Command::new("get")
        .about("Get objects over TCP, QUIC or SCTP")
        .long_about(
            "Gets objects by HTTP. The scheme of the URL chooses the transport:\n\n  \
             http://          TCP\n  \
             https://         TLS on TCP\n  \
             h3://            HTTP/3 over QUIC (UDP port 443)\n  \
             http+sctp://     SCTP in UDP (port 9899)\n  \
             http+sctp-ip://  SCTP on IP\n  \
             https+sctp://    SCTP under DTLS (UDP port 4433)\n\n\
             Only https://, h3:// and https+sctp:// are encrypted. Objects of one server share a connection; over SCTP, \
             HTTP/2 and HTTP/3 each object has its own stream. All addresses of a multihomed server are used. They come \
             from DNS or from the URL: http+sctp://192.0.2.1,198.51.100.1/.",
        )
        .after_long_help(
            "Examples:\n  \
             anabranch get http+sctp://127.0.0.1:9899/ -o index.html\n  \
             anabranch get -I http+sctp://127.0.0.1:9899/\n  \
             anabranch get --page http+sctp://127.0.0.1:9899/ -o copy --har load.har\n\n\
             With --page, files are written only below DIR. Neither names from the server nor links in DIR can lead out of it. \
             Names that begin with a dot are changed: .bashrc becomes _bashrc.\n\n\
             Exit: 0 done, 1 a transfer failed, 2 usage, 3 not possible here, 130 interrupted. A file is written \
             completely or not at all.",
        )
        .arg(Arg::new("url").value_name("URL").required(true).action(ArgAction::Append).num_args(1..).help("Objects to get"))
        .arg(
            flag(
                "output",
                "FILE|DIR",
                "Write to a file for each URL, to a directory (created if it ends with /), or with - to standard output [default: standard output, but no binary data to a terminal; with --page, nothing is written]",
            )
            .short('o')
            .action(ArgAction::Append),
        )
        .arg(
            flag("header", "NAME: VALUE", "Add a field to each request, or replace one; may be repeated")
                .short('H')
                .action(ArgAction::Append)
                .conflicts_with("page"),
        )
        .arg(switch("head", "Get only the head of each response, and print it").short('I').conflicts_with("page"))
        .arg(
            switch("verbose", "Print the heads of requests and responses to standard error")
                .short('v')
                .conflicts_with("page"),
        )
        .arg(switch("page", "Also get what the document embeds, and draw a waterfall"))
        .arg(
            flag(
                "client",
                "CLIENT",
                "When objects are requested: plain (after their document has arrived) or chromium (by Chromium's rules) [default: plain]",
            )
            .requires("page"),
        )
        .arg(
            flag(
                "har",
                "FILE",
                "Write the page load as HAR 1.2 (-: to standard output; the drawing goes to stderr)",
            )
            .requires("page"),
        )
        .arg(
            flag(
                "json",
                "FILE|-",
                "Write a record for each object as JSON, schema anabranch.get/1 (-: the drawing goes to stderr)",
            ),
        )
        .arg(flag("csv", "FILE|-", "Write a row for each object (-: the drawing goes to stderr)"))
        .arg(lasting(
            flag(
                "timeout",
                "TIME",
                "Give up when no connection is established, or no data arrives, for this long \
                     [default: 30s for a connection, then 2min]",
            ),
        ))
        .arg(
            flag("sctp-port", "N", "The server's SCTP port behind its UDP port")
                .value_parser(value_parser!(u16).range(1..))
                .default_value("80"),
        )
        .arg(crate::knobs::ppid())
        .arg(crate::knobs::set())
        .arg(crate::knobs::key_file())
        .arg(secure::qlog_flag())
        .arg(switch("quiet", "No progress").short('q'))
        .arg(dry_run());
    secure::http_flag(secure::client_flags(command))
}

fn features() -> Command {
    Command::new("features")
        .about("Show what UDP, TCP and SCTP can do; a run decides each cell of the table")
        .long_about(
            "Shows what UDP, TCP and SCTP can do. A run in the virtual network decides each cell, and the evidence is printed. \
             The published cell stands beside it, with the reason if the two differ.\n\n\
             Exit: 0 done, 1 a cell differs from the published one for no known reason, 2 usage.",
        )
        .arg(
            flag(
                "json",
                "FILE|-",
                "Write the result as JSON, schema anabranch.features/1 (-: the text goes to stderr)",
            ),
        )
        .arg(switch("quiet", "No progress").short('q'))
}

fn study() -> Command {
    let name = || Arg::new("name").value_name("NAME").help("A study, as `study list` names it");
    Command::new("study")
        .about("Redo published measurements, and compare the published values with ours")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Command::new("list").about("List the studies"))
        .subcommand(
            Command::new("show")
                .about("Show the source, tables, parameters and causes of a study")
                .arg(name().required(true)),
        )
        .subcommand(
            Command::new("plan")
                .about("Print the plan of a table, which `race` runs")
                .arg(
                    Arg::new("name")
                        .value_name("NAME[/TABLE]")
                        .help("A study, as `study list` names it, and one of its tables [default: the first]")
                        .required(true),
                )
                .arg(assumption())
                .arg(few_seeds()),
        )
        .subcommand(study_run())
        .subcommand(bundle().arg(name().required(true)))
}

fn study_run() -> Command {
    Command::new("run")
        .about("Run a study: compare every published value with ours, and decide every claim and cause")
        .after_help(
            "Exit code 1: a cause is not as the study says, and no assumption was changed.\n\nExample:\n  anabranch study run rajamani-2002 \
             --set rtt=160ms",
        )
        .arg(
            Arg::new("name")
                .value_name("NAME[/TABLE]")
                .num_args(0..)
                .action(ArgAction::Append)
                .help("A study, as `study list` names it, or one of its tables alone"),
        )
        .arg(switch("all", "Run every study").conflicts_with("name"))
        .arg(few_seeds())
        .arg(
            flag(
                "table",
                "TABLE",
                "Run only this table, as NAME/TABLE does, with its causes and the claims that need no other table; may be repeated",
            )
            .action(ArgAction::Append),
        )
        .arg(
            flag(
                "only",
                "KEY=LEVEL",
                "Run only the points of the tables with this level, without claims: objects=50x10KiB; may be repeated",
            )
            .action(ArgAction::Append)
            .conflicts_with_all(["readings", "sensitivity"]),
        )
        .arg(
            flag("causes", "WORD", "off: do not run causes, and leave out the claims that a cause decides")
                .value_parser(["on", "off"])
                .default_value("on"),
        )
        .arg(assumption())
        .arg(
            flag(
                "also",
                "CONTESTANT",
                "Add this contestant to every table, in the form of `race --transport`: mine=sctp:num_ostreams=1",
            )
            .action(ArgAction::Append),
        )
        .arg(
            flag("runs", "N", "Number of seeds [default: the number in each table]")
                .value_parser(value_parser!(u64).range(1..=1_000_000)),
        )
        .arg(
            flag("seed", "N", "The first seed")
                .value_parser(value_parser!(u64).range(0..=u64::from(u32::MAX)))
                .default_value("1"),
        )
        .arg(
            flag("threads", "N", "Runs at a time [default: one for each core]")
                .value_parser(value_parser!(u16).range(1..=4096)),
        )
        .arg(flag("out", "DIR", "Write the page and the files of each study below DIR"))
        .arg(switch("readings", "Score every reading of what the paper leaves open (readings.toml)"))
        .arg(
            switch(
                "sensitivity",
                "Change each assumption alone and all at once, to find the orders and findings that depend on them",
            ),
        )
        .arg(
            flag(
                "world",
                "WORLD",
                "virtual, or emulated: this host's kernel on the same rig in real time, beside the published values and ours",
            )
            .value_parser(["virtual", "emulated"])
            .default_value("virtual"),
        )
        .arg(switch("resume", "Continue an interrupted run of the same command in DIR"))
        .arg(switch("quiet", "No progress").short('q'))
}

fn assumption() -> Arg {
    flag(
        "set",
        "KEY=VALUE",
        "Change an assumption: a key of the plan, or CONTESTANT:KEY=VALUE (* is every one)",
    )
    .action(ArgAction::Append)
}

fn few_seeds() -> Arg {
    switch("quick", "Run few seeds, for a first look")
}

fn bundle() -> Command {
    Command::new("bundle")
        .about("Write a study as a directory that others can review")
        .long_about(
            "Writes a directory with this program, the study's files, the plan of each table, and the output of a run with few \
             seeds. map.csv has the command for each claim. check.sh runs everything again and compares byte for byte. \
             README.md says what a reviewer must see. DIR appears only when it is complete.",
        )
        .after_help(
            "Exit code 1: a cause is not as the study says; the bundle is written all the same.\n\nExample:\n  anabranch study \
             bundle rajamani-2002 --out bundle",
        )
        .arg(
            flag("out", "DIR", "The directory to write: a new or an empty one")
                .required(true),
        )
        .arg(switch("full", "Also run all seeds, and keep the output"))
        .arg(
            flag("threads", "N", "Runs at a time [default: one for each core]")
                .value_parser(value_parser!(u16).range(1..=4096)),
        )
        .arg(switch("quiet", "No progress").short('q'))
}

/// Returns the plan flags that were given, as pairs of name and value, in the order of `KEYS`. Flags with names of an
/// earlier version come last.
pub fn plan_flags(matches: &ArgMatches) -> Vec<(&'static str, &str)> {
    let mut flags = Vec::new();
    for name in KEYS.iter().map(|key| key.name).chain(RENAMED.map(|(old, _)| old)) {
        for value in matches.get_many::<String>(name).into_iter().flatten() {
            flags.push((name, value.as_str()));
        }
    }
    flags
}

/// Returns the number of threads given with `--threads`. The default is one per core.
pub fn threads(matches: &ArgMatches) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    matches.get_one::<u16>("threads").map_or_else(cores, |n| usize::from(*n))
}

/// The help text of `--connections`, a flag of `serve` and `gateway`.
const CONNECTIONS: &str = "Maximum connections or associations per listener. If all slots are taken, a new client replaces \
                           the connection that has waited longest for a request or the rest of its head. If all \
                           connections have requests in progress, it replaces the one that has moved less than 1 KiB for \
                           the longest time, at least 5 s. A client (IPv4 address or IPv6 /64) with more than an eighth of the \
                           slots, and twice as many as the new client, loses one first";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn switches_take_no_value_and_lists_repeat() {
        let arguments = ["anabranch", "race", "--half-duplex", "plan.toml", "--loss", "0,1%", "--loss", "2%"];
        let matches = command().try_get_matches_from(arguments).expect("a command line");
        let (_, race) = matches.subcommand().expect("a verb");
        assert_eq!(plan_flags(race), [("loss", "0,1%"), ("loss", "2%"), ("half-duplex", "yes")]);
        assert_eq!(race.get_one::<String>("plan").map(String::as_str), Some("plan.toml"));
    }
}
