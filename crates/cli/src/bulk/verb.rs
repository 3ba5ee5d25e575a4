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
use anabranch_transport::{Capabilities, Settings, Streams};
use anabranch_transports::Transports;
use anabranch_world::os::{self, OsWorld};
use clap::ArgMatches;
use std::time::Duration;

/// Runs the `bulk` command.
pub fn run(matches: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
    let flags = Flags::read(matches, transports)?;
    match matches.get_many::<String>("listen") {
        Some(urls) => flags.serve(urls),
        None => flags.run_client(),
    }
}

/// What the flags of `bulk` say.
struct Flags<'a> {
    matches: &'a ArgMatches,
    transports: &'a Transports,
    /// The names and values of the knobs (settings of a transport) that the flags set.
    set: Vec<(String, String)>,
    timeout: Duration,
}

impl<'a> Flags<'a> {
    fn read(matches: &'a ArgMatches, transports: &'a Transports) -> Result<Self, Failure> {
        let mut set = knobs::from_flags(matches)?;
        if let Some(name) = matches.get_one::<String>("scheduler") {
            set.push(("scheduler".to_owned(), name.clone()));
        }
        let mut flags = Self { matches, transports, set, timeout: Duration::ZERO };
        flags.timeout = flags.span("timeout", Duration::from_secs(10))?;
        Ok(flags)
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.matches.get_one::<String>(name).map(String::as_str)
    }

    fn span(&self, name: &str, default: Duration) -> Result<Duration, Failure> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let span = parse_duration(text).map_err(|error| Failure::Usage(format!("--{name} {error}")))?;
        if span < Duration::from_millis(1) {
            return Err(Failure::Usage(format!("--{name} {text}: too short; write 1ms or more")));
        }
        Ok(span)
    }

    /// Returns the value of `--drain`, which may be zero.
    fn drain(&self) -> Result<Duration, Failure> {
        let Some(text) = self.text("drain") else { return Ok(DRAIN) };
        parse_duration(text).map_err(|error| Failure::Usage(format!("--drain {error}")))
    }

    fn size(&self, name: &str) -> Result<Option<u64>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let size: Bytes = text.parse().map_err(|error| Failure::Usage(format!("--{name} {error}")))?;
        Ok(Some(size.0))
    }

    fn number(&self, name: &str) -> u16 {
        self.matches.get_one::<u16>(name).copied().unwrap_or(1)
    }

    fn sctp_port(&self) -> u16 {
        self.matches.get_one::<u16>("sctp-port").copied().unwrap_or(5201)
    }

    /// Starts an event loop with the network and the clock of this host. Calls `body` with both, and runs the future
    /// from `body` until it is complete.
    fn within<F: Future<Output = Result<Completion, Failure>>>(
        &self,
        body: impl FnOnce(OsWorld) -> F,
    ) -> Result<Completion, Failure> {
        let single = self.matches.get_flag("no-offload");
        let view = |world: OsWorld| if single { world.packet_by_packet() } else { world };
        os::run(options(self.matches), async |world| body(view(world)).await)
            .map_err(|error| Failure::Host(format!("no network here: {error}")))?
    }

    /// Listens at `urls` and serves transfers.
    fn serve<'u>(self, urls: impl Iterator<Item = &'u String>) -> Result<Completion, Failure> {
        let matches = self.matches;
        let mut listeners = Vec::new();
        for text in urls {
            let listen = of_listen(text, self.transports)?;
            listeners.push((settings(&listen.scheme, matches, &self.set)?, listen));
        }
        if matches.get_flag("dry-run") {
            listeners.iter().for_each(|(transport_settings, _)| knobs::warn(&**transport_settings));
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
                + &dry_run_knobs(
                    listeners.iter().map(|(transport_settings, _)| &**transport_settings),
                    true,
                )))?;
            return Ok(Completion::Well);
        }
        let listens: Vec<_> = listeners.iter().map(|(_, address)| address.clone()).collect();
        let tls = secure::server(matches, &listens, NegotiatedProtocol::Bulk)?;
        let (sctp_port, timeout, once) = (self.sctp_port(), self.timeout, matches.get_flag("once"));
        let server = Server { listeners, sctp_port, tls, timeout, once };
        self.within(|world| server.run(world))
    }

    /// Returns the plan of a transfer over a transport with the capabilities `can`.
    fn plan(&self, can: &Capabilities) -> Result<Plan, Failure> {
        let matches = self.matches;
        let message = self.size("message-size")?.unwrap_or(65_536);
        if !(u64::from(MIN_MESSAGE)..=u64::from(MAX_MESSAGE)).contains(&message) {
            return Err(Failure::Usage("--message-size: must be 8B to 16MiB".to_owned()));
        }
        let streams = self.number("streams");
        if !can.is_multistream() && streams > 1 {
            let message = "--streams is for SCTP of ours and QUIC; others have one stream";
            return Err(Failure::Usage(message.to_owned()));
        }
        if !can.unordered && matches.get_flag("unordered") {
            let message = "--unordered is for SCTP of ours; others deliver in order";
            return Err(Failure::Usage(message.to_owned()));
        }
        if self.size("size")? == Some(0) {
            return Err(Failure::Usage("--size 0B: nothing to send".to_owned()));
        }
        let (reverse, both) = (matches.get_flag("reverse"), matches.get_flag("both"));
        if let Some((key, value)) = self.set.iter().find(|(key, _)| reverse && knobs::is_senders(key)) {
            let message = format!(
                "--set {key}={value} is for the end that sends, which with --reverse is the server: write it with its --listen"
            );
            return Err(Failure::Usage(message));
        }
        Ok(Plan {
            up: !reverse,
            down: reverse || both,
            message: u32::try_from(message).unwrap_or(MAX_MESSAGE),
            streams,
            unordered: matches.get_flag("unordered"),
            sessions: self.number("connections"),
            span: self.span("for", Duration::from_secs(10))?,
            bytes: self.size("size")?,
            drain: self.drain()?,
            interval: self.span("interval", Duration::from_secs(1))?,
            timeout: self.timeout,
        })
    }

    /// Runs the client of the transfer.
    fn run_client(self) -> Result<Completion, Failure> {
        let matches = self.matches;
        let url = of_url(self.text("server").unwrap_or_default(), self.transports)?;
        let can = url.scheme.can();
        let plan = self.plan(&can)?;
        let mut transport_settings = settings(&url.scheme, matches, &self.set)?;
        knobs::warn(&*transport_settings);
        let tls = secure::client_of(matches, [&url.scheme], NegotiatedProtocol::Bulk)?;
        let needs = Needs { streams: Some(StreamNeed::AtLeast(plan.streams)), ..Needs::default() };
        transport_settings.suit(&needs, &|key| self.set.iter().any(|(known, _)| known == key));
        if can.streams == Streams::Fresh && u64::from(plan.streams) > transport_settings.streams() {
            let streams = plan.streams;
            let message =
                format!("--streams {streams}: more than may be open at once; --set streams={streams}");
            return Err(Failure::Usage(message));
        }
        let message = plan.message;
        if transport_settings.largest_message().is_some_and(|largest| u64::from(message) > largest) {
            let message = format!("--message-size: a message fits the send buffer; --set sndbuf={message}B");
            return Err(Failure::Usage(message));
        }
        if matches.get_flag("dry-run") {
            say(&dry_run(matches, &url, &plan, &*transport_settings))?;
            return Ok(Completion::Well);
        }
        let outputs = Outputs::reserve(self.text("json"), self.text("csv"))?.with_page(self.text("html"))?;
        let mut settings = knobs::describe(&*transport_settings);
        let ppid = matches.get_one::<u32>("ppid");
        settings.extend(ppid.map(|ppid| ("ppid".to_owned(), ppid.to_string())));
        let context = ReportContext {
            command: command_line(),
            url: url.text.clone(),
            transport: url.scheme.name().to_owned(),
            settings,
            multipath: None,
            interrupted: false,
            paths: serde_json::Map::default(),
        };
        let quiet = matches.get_flag("quiet");
        // A side without data to send still sends reports, twice a second, of the amount of data that it has received.
        // The pauses between these reports are not interruptions. Interruptions are therefore reported only for
        // directions in which data flows.
        let paths = PathLog::new(quiet).only_tested_directions(plan.up, plan.down);
        let sctp_port = self.sctp_port();
        let client =
            Client { url, plan, settings: transport_settings, sctp_port, tls, quiet, context, paths };
        self.within(|world| client.run(world, outputs))
    }
}

/// How long a test waits for its send buffer to drain, unless `--drain` is given.
const DRAIN: Duration = Duration::from_secs(1);

fn dry_run(matches: &ArgMatches, url: &Url, plan: &Plan, settings: &dyn Settings) -> String {
    let direction = match (plan.up, plan.down) {
        (true, true) => "both send",
        (true, false) => "the client sends",
        _ => "the server sends",
    };
    let order = if plan.unordered { "unordered" } else { "in order" };
    let until = plan.bytes.map_or_else(
        || format!("for: {}\ndrain: {}", format_duration(plan.span), format_duration(plan.drain)),
        |bytes| format!("size: {bytes}B"),
    );
    let mut out =
        format!("server: {}\n{until}\nmessages: {}B, {order}, {direction}\n", url.text, plan.message);
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
    out + &dry_run_knobs(std::iter::once(settings), plan.up)
}

/// Formats the settings of the transports, without duplicates. `sends` is whether this end sends data. If not, settings
/// that affect only senders are left out.
fn dry_run_knobs<'a>(all: impl Iterator<Item = &'a dyn Settings>, sends: bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    for transport_settings in all {
        let settings = knobs::describe(transport_settings).into_iter();
        let settings = settings.filter(|(key, _)| sends || !knobs::is_senders(key));
        let settings = settings.map(|(key, value)| format!("{key}={value}"));
        let line = format!("set: {}\n", settings.collect::<Vec<_>>().join(","));
        if line != "set: \n" && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}
