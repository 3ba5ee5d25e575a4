//! Runs `anabranch bulk` as its flags describe, either as a client or as a server.

use super::client::Client;
use super::protocol::{of_listen, of_url, settings};
use super::server::Server;
use crate::busy_poll::options;
use crate::outputs::{Outputs, command_line};
use crate::paths::PathLog;
use crate::secure::NegotiatedProtocol;
use crate::url::Url;
use crate::{Completion, Failure, dry_run, knobs, say, secure};
use anabranch_base::units::{Bytes, format_duration, parse_duration};
use anabranch_load::throughput::report::ReportContext;
use anabranch_load::throughput::{MAX_MESSAGE, MIN_MESSAGE, Plan};
use anabranch_transport::network::{Needs, StreamNeed};
use anabranch_transport::{Settings, Streams};
use anabranch_transports::Transports;
use anabranch_world::os::{self, OsWorld};
use clap::ArgMatches;
use std::time::Duration;

/// Runs the `bulk` command.
pub fn run(matches: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
    let mut set = knobs::given(matches)?;
    if let Some(name) = matches.get_one::<String>("scheduler") {
        set.push(("scheduler".to_owned(), name.clone()));
    }
    let span = |name: &str, default: Duration| -> Result<Duration, Failure> {
        let Some(text) = matches.get_one::<String>(name) else { return Ok(default) };
        let span = parse_duration(text).map_err(|why| Failure::Usage(format!("--{name} {why}")))?;
        if span < Duration::from_millis(1) {
            return Err(Failure::Usage(format!("--{name} {text}: too short; write 1ms or more")));
        }
        Ok(span)
    };
    let timeout = span("timeout", Duration::from_secs(10))?;
    let single = matches.get_flag("no-offload");
    let view = |world: OsWorld| if single { world.packet_by_packet() } else { world };
    let sctp_port = matches.get_one::<u16>("sctp-port").copied().unwrap_or(5201);
    if let Some(texts) = matches.get_many::<String>("listen") {
        let mut places = Vec::new();
        for text in texts {
            let listen = of_listen(text, transports)?;
            places.push((settings(&listen.scheme, matches, &set)?, listen));
        }
        let once = matches.get_flag("once");
        if matches.get_flag("dry-run") {
            places.iter().for_each(|(made, _)| knobs::warn(&**made));
            let names = [
                "listen",
                "once",
                "ppid",
                "sctp-port",
                "key-file",
                "cert",
                "key",
                "timeout",
                "no-offload",
                "busy-poll",
            ];
            say(&(dry_run::flags(matches, &names)
                + &dry_run_knobs(places.iter().map(|(made, _)| &**made), true)))?;
            return Ok(Completion::Well);
        }
        let listens: Vec<_> = places.iter().map(|(_, place)| place.clone()).collect();
        let tls = secure::server(matches, &listens, NegotiatedProtocol::Bulk)?;
        let server = Server { listeners: places, sctp_port, tls, timeout, once };
        let served = os::run(options(matches), async |world| server.run(view(world)).await);
        return served.map_err(|why| Failure::Host(format!("no network here: {why}")))?;
    }
    let text = matches.get_one::<String>("server").map_or("", String::as_str);
    let url = of_url(text, transports)?;
    let can = url.scheme.can();
    let size = |name: &str| -> Result<Option<u64>, Failure> {
        let Some(text) = matches.get_one::<String>(name) else { return Ok(None) };
        let size: Bytes = text.parse().map_err(|why| Failure::Usage(format!("--{name} {why}")))?;
        Ok(Some(size.0))
    };
    let message = size("message-size")?.unwrap_or(65_536);
    if !(u64::from(MIN_MESSAGE)..=u64::from(MAX_MESSAGE)).contains(&message) {
        return Err(Failure::Usage("--message-size: must be 8B to 16MiB".to_owned()));
    }
    let number = |name: &str| matches.get_one::<u16>(name).copied().unwrap_or(1);
    let streams = number("streams");
    if !can.is_multistream() && streams > 1 {
        let message = "--streams is for SCTP of ours and QUIC; others have one stream";
        return Err(Failure::Usage(message.to_owned()));
    }
    if !can.unordered && matches.get_flag("unordered") {
        let message = "--unordered is for SCTP of ours; others deliver in order";
        return Err(Failure::Usage(message.to_owned()));
    }
    if size("size")? == Some(0) {
        return Err(Failure::Usage("--size 0B: nothing to send".to_owned()));
    }
    let (reverse, both) = (matches.get_flag("reverse"), matches.get_flag("both"));
    if let Some((key, value)) = set.iter().find(|(key, _)| reverse && knobs::is_senders(key)) {
        let message = format!(
            "--set {key}={value} is for the end that sends, which with --reverse is the server: write it with its --listen"
        );
        return Err(Failure::Usage(message));
    }
    let plan = Plan {
        up: !reverse,
        down: reverse || both,
        message: u32::try_from(message).unwrap_or(MAX_MESSAGE),
        streams,
        unordered: matches.get_flag("unordered"),
        sessions: number("connections"),
        span: span("for", Duration::from_secs(10))?,
        bytes: size("size")?,
        interval: span("interval", Duration::from_secs(1))?,
        timeout,
    };
    let mut made = settings(&url.scheme, matches, &set)?;
    knobs::warn(&*made);
    let tls = secure::client_of(matches, [&url.scheme], NegotiatedProtocol::Bulk)?;
    let needs = Needs { streams: Some(StreamNeed::AtLeast(streams)), ..Needs::default() };
    made.suit(&needs, &|key| set.iter().any(|(known, _)| known == key));
    if can.streams == Streams::Fresh && u64::from(streams) > made.streams() {
        let message = format!("--streams {streams}: more than may be open at once; --set streams={streams}");
        return Err(Failure::Usage(message));
    }
    if made.largest_message().is_some_and(|largest| message > largest) {
        let message = format!("--message-size: a message fits the send buffer; --set sndbuf={message}B");
        return Err(Failure::Usage(message));
    }
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    if matches.get_flag("dry-run") {
        say(&dry_run(matches, &url, &plan, &*made))?;
        return Ok(Completion::Well);
    }
    let outputs = Outputs::reserve(text("json"), text("csv"))?;
    let mut settings = knobs::describe(&*made);
    let ppid = matches.get_one::<u32>("ppid");
    settings.extend(ppid.map(|ppid| ("ppid".to_owned(), ppid.to_string())));
    let framing = ReportContext {
        command: command_line(),
        url: url.text.clone(),
        transport: url.scheme.name().to_owned(),
        settings,
        multipath: None,
        interrupted: false,
        paths: serde_json::Map::default(),
    };
    let quiet = matches.get_flag("quiet");
    // An end without data to send only reports twice a second how much it has received. The gaps between such reports
    // are not interruptions, so interruptions are reported only for directions in which data flows.
    let paths = PathLog::new(quiet).only_where_data_waits(plan.up, plan.down);
    let client = Client { url, plan, settings: made, sctp_port, tls, quiet, framing, paths };
    let done = os::run(options(matches), async |world| client.run(view(world), outputs).await);
    done.map_err(|why| Failure::Host(format!("no network here: {why}")))?
}

fn dry_run(matches: &ArgMatches, url: &Url, plan: &Plan, made: &dyn Settings) -> String {
    let way = match (plan.up, plan.down) {
        (true, true) => "both send",
        (true, false) => "the client sends",
        _ => "the server sends",
    };
    let order = if plan.unordered { "unordered" } else { "in order" };
    let until = plan
        .bytes
        .map_or_else(|| format!("for: {}", format_duration(plan.span)), |bytes| format!("size: {bytes}B"));
    let mut out = format!("server: {}\n{until}\nmessages: {}B, {order}, {way}\n", url.text, plan.message);
    out += &format!(
        "interval: {}\ntimeout: {}\n",
        format_duration(plan.interval),
        format_duration(plan.timeout)
    );
    out += &dry_run::flags(
        matches,
        &[
            "connections",
            "streams",
            "ppid",
            "sctp-port",
            "key-file",
            "trust",
            "insecure",
            "no-offload",
            "busy-poll",
            "json",
            "csv",
        ],
    );
    out + &dry_run_knobs(std::iter::once(made), plan.up)
}

/// Formats the settings of the transports, each distinct set once. Unless this end `sends` data, the knobs that affect
/// only senders are left out.
fn dry_run_knobs<'a>(all: impl Iterator<Item = &'a dyn Settings>, sends: bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    for made in all {
        let settings = knobs::describe(made).into_iter();
        let settings = settings.filter(|(key, _)| sends || !knobs::is_senders(key));
        let settings = settings.map(|(key, value)| format!("{key}={value}"));
        let line = format!("set: {}\n", settings.collect::<Vec<_>>().join(","));
        if line != "set: \n" && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}
