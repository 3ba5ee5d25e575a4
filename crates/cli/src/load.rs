//! `anabranch load`: requests many objects over TCP, SCTP or HTTP/3. It sends the requests either at a fixed rate, or
//! as soon as earlier requests are answered.

use crate::flag::{flag, switch};
use clap::{Arg, ArgGroup, Command, value_parser};

#[cfg(target_os = "linux")]
pub use verb::run;

/// Returns the definition of the `load` command.
pub fn command() -> Command {
    let count = |arg: Arg| arg.value_parser(value_parser!(u64).range(1..));
    let command = Command::new("load")
        .about("Load a server: open-loop at a rate, or closed-loop")
        .long_about(
            "Send a server requests for one URL: http:// over TCP, https:// over TLS on TCP, http+sctp:// over SCTP in UDP, \
             http+sctp-ip:// over SCTP on IP, h3:// by HTTP/3 over QUIC. The report has the six blocks of httperf, then latency percentiles and failures by cause.\n\n\
             --rate is an open loop: sessions (connections or associations) begin at that rate, however slow the server \
             is. Latency counts from the scheduled send time (no coordinated omission). --rate with -c schedules \
             objects instead, on N persistent sessions. -c alone is a closed loop: each session requests the next \
             object when one has arrived, and latency counts from the actual send.\n\n\
             --http 2 speaks HTTP/2, over https:// it is spoken where the server chooses it; --http 3 takes https:// URLs over \
             QUIC. --streams is then the requests outstanding on a connection.\n\n\
             Only https://, h3:// and https+sctp:// are encrypted.",
        )
        .after_long_help(
            "Examples:\n  \
             anabranch load http://127.0.0.1:8080/ --rate 200/s --sessions 600\n  \
             anabranch load http+sctp://127.0.0.1:9899/ --rate 50/s --objects-per-session 20 --duration 3s\n  \
             anabranch load http+sctp://127.0.0.1:9899/ -c 1 --streams 100 --duration 3s --json -\n  \
             anabranch load http://127.0.0.1:8080/ --http 2 -c 10 --streams 10 --duration 3s\n  \
             anabranch load http://127.0.0.1:8080/ -c 20 --rate 1000/s --duration 3s --csv seconds.csv\n\n\
             Exit: 0 done, 1 something failed or was answered with 4xx or 5xx, 2 usage, 3 not possible here, \
             130 interrupted (results so far are reported).",
        )
        .arg(Arg::new("url").value_name("URL").required(true).help("URL to request"))
        .arg(flag("rate", "RATE", "Rate of new sessions (with -c: of objects) in an open loop: 100/s, 0.5/s, 90/min"))
        .arg(
            switch(
                "random",
                "Random gaps with this mean (a Poisson process) instead of equal gaps",
            )
            .requires("rate"),
        )
        .arg(
            flag("seed", "N", "Seed of --random [default: a new one each time]")
                .value_parser(value_parser!(u64).range(0..=u64::from(u32::MAX))),
        )
        .arg(count(flag("concurrency", "N", "Sessions at a time").short('c').visible_alias("connections")))
        .group(ArgGroup::new("pace").args(["rate", "concurrency"]).required(true).multiple(true))
        .arg(
            flag(
                "objects-per-session",
                "N",
                "Objects per session; 0 opens and closes sessions only [default: 1 with --rate, no limit with -c]",
            )
            .value_parser(value_parser!(u64)),
        )
        .arg(
            flag(
                "streams",
                "N",
                "SCTP streams, or requests of HTTP/2 or HTTP/3, in use at a time per session [default: the objects per session, at most 100; else 1]",
            )
            .value_parser(value_parser!(u16).range(1..)),
        )
        .arg(flag("duration", "TIME", "Begin no more objects or sessions after this time [default: 10s, unless a number is given]"))
        .arg(count(flag("requests", "N", "Total number of objects")))
        .arg(count(flag("sessions", "N", "Total number of sessions")))
        .arg(
            flag("timeout", "TIME", "An object or handshake without progress for this long fails")
                .default_value("5s"),
        )
        .arg(
            count(flag("max-sessions", "N", "Maximum sessions open at a time with --rate; more fail"))
                .default_value("10000"),
        )
        .arg(crate::busy_poll::flag("on"))
        .arg(crate::knobs::set())
        .arg(crate::knobs::key_file())
        .arg(
            flag("sctp-port", "N", "The server's SCTP port behind its UDP port")
                .value_parser(value_parser!(u16).range(1..))
                .default_value("80"),
        )
        .arg(crate::knobs::ppid())
        .arg(flag("json", "FILE|-", "Write the result as JSON, schema anabranch.load/1 (-: the report goes to stderr)"))
        .arg(flag("csv", "FILE|-", "Write a row for each second (for each 2, 4, .. seconds if the test exceeds 20 minutes)"))
        .arg(flag("html", "FILE", "Write a page that draws latency and load over time"))
        .arg(
            switch(
                "early-data",
                "Over h3:// send requests with the handshakes of sessions that are resumed (0-RTT)",
            ),
        )
        .arg(crate::args::secure::qlog_flag())
        .arg(switch("quiet", "No progress").short('q'))
        .arg(crate::args::dry_run());
    crate::args::secure::http_flag(crate::args::secure::client_flags(command))
}

#[cfg(target_os = "linux")]
mod verb {
    use crate::dial::{self, dial, first_answering};
    use crate::knobs::{self, Tuned};
    use crate::outputs::{Outputs, command_line};
    use crate::paths::PathLog;
    use crate::progress::Ticker;
    use crate::url::Url;
    use crate::{Completion, Failure, busy_poll, dry_run, qlog, say, secure, watchdog};
    use anabranch_base::units::{format_duration, parse_duration, parse_interval};
    use anabranch_http::serve::Versions;
    use anabranch_load::generator::report::{self, ReportContext};
    use anabranch_load::generator::{Line, Load, Pace, Plan, Tally};
    use anabranch_report::under_load::{self, Panel, UnderLoad};
    use anabranch_transport::network::{Needs, StreamNeed};
    use anabranch_transport::{Connector, Http};
    use anabranch_transports::Transports;
    use anabranch_transports::os::{Target, WithConnector};
    use anabranch_transports::security::ClientSecurity;
    use anabranch_world::os::{self, OsWorld, Signals, processor_time};
    use anabranch_world::{Timer, World};
    use clap::ArgMatches;
    use std::future::{Future, poll_fn};
    use std::pin::Pin;
    use std::task::Poll;
    use std::time::Duration;

    /// Runs the load that the flags describe.
    pub fn run(matches: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let url = Url::parse(text("url").unwrap_or_default(), transports).map_err(Failure::Usage)?;
        let url = secure::with_http_version(text("http"), url, transports)?;
        let plan = plan(matches, &url)?;
        if matches.get_flag("early-data") && url.scheme.http() != Some(Http::Http3) {
            return Err(Failure::Usage(format!("--early-data: {}: it is for h3:// URLs", url.text)));
        }
        let tuned = tuned(matches, transports, &url, &plan)?;
        if matches.get_flag("dry-run") {
            say(&dry_run(matches, &url, &plan, &tuned))?;
            return Ok(Completion::Well);
        }
        let tls = secure::client(matches, [&url.scheme])?;
        let outputs = Outputs::reserve(text("json"), text("csv"))?.with_page(text("html"))?;
        let settings = Settings {
            paths: PathLog::new(matches.get_flag("quiet")),
            tls,
            context: ReportContext {
                command: command_line(),
                url: url.text.clone(),
                transport: url.scheme.name().to_owned(),
                settings: tuned.describe(),
                ..ReportContext::default()
            },
            tuned,
            logs: qlog::log_destination(matches, [&url.scheme])?,
            sctp_port: matches.get_one::<u16>("sctp-port").copied().unwrap_or(80),
            quiet: matches.get_flag("quiet"),
            url,
            plan,
        };
        let done = os::run(busy_poll::options(matches), async |world| reach(world, settings, outputs).await);
        done.map_err(|error| Failure::Host(format!("no network here: {error}")))?
    }

    struct Settings {
        url: Url,
        /// The TLS settings of the client; `None` if the URL is not encrypted.
        tls: Option<ClientSecurity>,
        plan: Plan,
        tuned: Tuned,
        logs: qlog::LogDestination,
        sctp_port: u16,
        quiet: bool,
        context: ReportContext,
        paths: PathLog,
    }

    fn plan(matches: &ArgMatches, url: &Url) -> Result<Plan, Failure> {
        let number = |name: &str| matches.get_one::<u64>(name).copied();
        let span = |name: &str| -> Result<Option<Duration>, Failure> {
            let Some(text) = matches.get_one::<String>(name) else { return Ok(None) };
            let span = parse_duration(text).map_err(|error| Failure::Usage(format!("--{name} {error}")))?;
            if span.is_zero() {
                return Err(Failure::Usage(format!(
                    "--{name} {text}: must be more than zero; write 1s or more"
                )));
            }
            Ok(Some(span))
        };
        let interval = match matches.get_one::<String>("rate") {
            None => None,
            Some(text) => {
                Some(parse_interval(text).map_err(|error| Failure::Usage(format!("--rate {error}")))?)
            }
        };
        let random = matches.get_flag("random");
        let objects = number("objects-per-session");
        let pace = match (interval, number("concurrency")) {
            (Some(interval), None) => Pace::Open { interval, random },
            (Some(interval), Some(sessions)) => Pace::Pool { interval, random, sessions },
            (None, sessions) => Pace::Closed { sessions: sessions.unwrap_or(1) },
        };
        if matches!(pace, Pace::Pool { .. }) && objects == Some(0) {
            let message =
                "--objects-per-session 0 with --rate and -c: there is nothing to plan; leave one of them out";
            return Err(Failure::Usage(message.to_owned()));
        }
        let streams = matches.get_one::<u16>("streams").copied();
        let versions = url.versions(matches.get_one::<String>("http").map(String::as_str));
        let one_stream = url.scheme.http() == Some(Http::OneStream) && versions == Versions::Http1;
        if one_stream && streams.is_some_and(|streams| streams > 1) {
            let message = "--streams: HTTP/1.1 on a TCP connection has one stream; use more connections, --http 2, or http+sctp://";
            return Err(Failure::Usage(message.to_owned()));
        }
        let most = if one_stream { 1 } else { 100 };
        let all = objects.unwrap_or(1).clamp(1, most);
        let (requests, sessions, mut duration) = (number("requests"), number("sessions"), span("duration")?);
        if requests.is_none() && sessions.is_none() && duration.is_none() {
            duration = Some(Duration::from_secs(10));
        }
        Ok(Plan {
            authority: url.authority(),
            secure: url.scheme.is_secure(),
            target: url.target.clone(),
            pace,
            objects,
            streams: streams.unwrap_or(u16::try_from(all).unwrap_or(100)),
            versions,
            requests,
            sessions,
            duration,
            timeout: span("timeout")?.unwrap_or(Duration::from_secs(5)),
            max_sessions: number("max-sessions").unwrap_or(10_000),
            seed: number("seed"),
        })
    }

    fn dry_run(matches: &ArgMatches, url: &Url, plan: &Plan, tuned: &Tuned) -> String {
        let random = |random: bool| match (random, plan.seed) {
            (false, _) => String::new(),
            (true, None) => " on the average, at random".to_owned(),
            (true, Some(seed)) => format!(" on the average, at random by seed {seed}"),
        };
        let pace = match plan.pace {
            Pace::Open { interval, random: drawn } => {
                format!("open loop: a session every {}{}", format_duration(interval), random(drawn))
            }
            Pace::Pool { interval, random: drawn, sessions } => {
                let every = format!("an object every {}{}", format_duration(interval), random(drawn));
                format!("open loop: {every}, on {sessions} sessions")
            }
            Pace::Closed { sessions } => format!("closed loop: {sessions} sessions at a time"),
        };
        let number = |number: Option<u64>| number.map_or("no limit".to_owned(), |number| number.to_string());
        let mut out = format!("url: {}\ntransport: {}\npace: {pace}\n", url.text, url.scheme.name());
        if let Some(due) = plan.first_due(FIRST) {
            let due: Vec<String> = due.into_iter().map(format_duration).collect();
            out += &format!("first due at: {}\n", due.join(" "));
        }
        // If the rate of new sessions is fixed, each session requests one object unless the flags ask for more.
        let objects = plan.objects.or(matches!(plan.pace, Pace::Open { .. }).then_some(1));
        out += &format!("objects-per-session: {}\nstreams: {}\n", number(objects), plan.streams);
        out += &format!("requests: {}\nsessions: {}\n", number(plan.requests), number(plan.sessions));
        let duration = plan.duration.map_or("no limit".to_owned(), format_duration);
        out += &format!("duration: {duration}\ntimeout: {}\n", format_duration(plan.timeout));
        out += &dry_run::flags(
            matches,
            &["max-sessions", "busy-poll", "trust", "insecure", "http", "early-data", "qlog"],
        );
        if url.scheme.can().kernel {
            return out;
        }
        if url.scheme.has_own_ports() {
            out += &dry_run::flags(matches, &["sctp-port", "ppid", "key-file"]);
        }
        out + &tuned.lines()
    }

    /// Returns the settings of the transport that `url` names.
    fn tuned(
        matches: &ArgMatches,
        transports: &Transports,
        url: &Url,
        plan: &Plan,
    ) -> Result<Tuned, Failure> {
        if url.scheme.can().kernel {
            if !knobs::from_flags(matches)?.is_empty() {
                return Err(Failure::Usage("--set: the kernel's TCP has no such knobs".to_owned()));
            }
            if let Some(path) = knobs::key_file_of(matches) {
                return Err(Failure::Usage(format!("--key-file {path}: TCP has no keys")));
            }
        }
        let needs = Needs { streams: Some(StreamNeed::AtLeast(plan.streams)), ..Needs::default() };
        let tuned = Tuned::read(matches, transports, [&url.scheme], &needs)?;
        tuned.warn();
        Ok(tuned)
    }

    async fn reach(world: OsWorld, settings: Settings, outputs: Outputs) -> Result<Completion, Failure> {
        let addresses = match settings.url.resolve() {
            Ok(addresses) => addresses,
            Err(cause) => {
                crate::complain(&cause);
                return Ok(Completion::Badly);
            }
        };
        let url = settings.url.clone();
        let security = match settings.tls.clone() {
            None if url.scheme.is_secure() => Some(secure::client_by_default(None).map_err(Failure::Host)?),
            given => given,
        };
        let target = Target {
            scheme: url.scheme.clone(),
            addresses,
            name: url.host().to_owned(),
            inner_port: settings.sctp_port,
            settings: settings.tuned.of(&url.scheme)?,
            security,
            logs: settings.logs.clone(),
        };
        let failed = |error| dial::failure(&url.scheme, error);
        let dialed = dial(&world, target, Some(&settings.paths)).await.map_err(failed)?;
        let count = dialed.servers.len();
        let load = ToFirst { world: world.clone(), count, settings, outputs };
        let done = dialed.with(load).map_err(failed)?.await;
        let _ = world.timeout(CLOSING, dialed.host.wait_idle()).await;
        done
    }

    /// Runs the load against the first server that answers.
    struct ToFirst {
        world: OsWorld,
        count: usize,
        settings: Settings,
        outputs: Outputs,
    }

    impl WithConnector for ToFirst {
        type Out = Pin<Box<dyn Future<Output = Result<Completion, Failure>>>>;

        fn on<C: Connector>(self, connector: C) -> Self::Out {
            let Self { world, count, settings, outputs } = self;
            Box::pin(async move {
                let server = first_answering(&world, &connector, count, settings.plan.timeout).await;
                perform(world, connector, server, settings, outputs).await
            })
        }
    }

    async fn perform<C: Connector>(
        world: OsWorld,
        connector: C,
        server: usize,
        settings: Settings,
        outputs: Outputs,
    ) -> Result<Completion, Failure> {
        let Settings { plan, mut context, quiet, paths, .. } = settings;
        let mut signals = Signals::new().map_err(|error| Failure::Host(format!("no signals: {error}")))?;
        watchdog::start(CLOSING, 130)?;
        let before = processor_time();
        let load = Load::new(world.clone(), connector, server, plan.clone());
        let mut ticker = Ticker::new(quiet);
        let mut timer = world.timer();
        {
            let started_at = world.now();
            paths.begin(started_at);
            let mut trimmer = os::MemoryTrimmer::new(&world);
            let mut running = std::pin::pin!(load.run());
            timer.set(Some(started_at + Ticker::PERIOD));
            context.interrupted = poll_fn(|cx| {
                if running.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(false);
                }
                if signals.poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                // The trimmer returns freed memory to the kernel. With many open sessions, trimming takes so long that
                // it would distort the measurement.
                if load.open_sessions() <= FEW {
                    trimmer.poll(cx, &world);
                }
                while timer.poll(cx).is_ready() {
                    timer.set(Some(world.now() + Ticker::PERIOD));
                    let (replies, errors) = load.progress();
                    let elapsed = world.now().since(started_at);
                    if elapsed >= WITHOUT_SERVER && load.has_only_failed() {
                        return Poll::Ready(false);
                    }
                    ticker.show(elapsed, plan.duration, &format!("{replies} replies, {errors} errors"));
                }
                Poll::Pending
            })
            .await;
        }
        ticker.finish();
        let after = processor_time();
        context.user = after.0.saturating_sub(before.0);
        context.system = after.1.saturating_sub(before.1);
        context.paths = paths.fields_with_paths();
        context.path_lines = paths.summary();
        let tally = load.tally();
        let unreachable = tally.never_connected().filter(|_| !context.interrupted);
        // If no server was reached, nothing was measured, so one line replaces the report.
        let text = unreachable.map_or_else(|| report::text(&plan, &tally, &context), |_| String::new());
        if let Some(reason) = unreachable {
            crate::complain(&format!("{}: cannot connect: {reason}", context.url));
        }
        outputs.write_with_page(
            &text,
            || report::json(&plan, &tally, &context),
            || report::csv(&tally),
            || under_load::html(&page(&tally, &context, &text)),
        )?;
        if context.interrupted {
            return Err(Failure::Interrupted);
        }
        let well = tally.error_count() == 0 && tally.refused_replies() == 0;
        Ok(if well { Completion::Well } else { Completion::Badly })
    }

    /// Returns what the page of `--html` draws. `text` is the report.
    fn page(tally: &Tally, context: &ReportContext, text: &str) -> UnderLoad {
        let begins = std::iter::once(Duration::ZERO).chain(tally.lines.iter().map(|line| line.at));
        let lines: Vec<(&Line, Duration)> = tally.lines.iter().zip(begins).collect();
        let rate = |count: fn(&Line) -> u64| {
            let point = |(line, begin): &(&Line, Duration)| {
                let span = line.at.saturating_sub(*begin).as_secs_f64();
                (span > 0.0).then(|| (line.at.as_secs_f64(), count(line) as f64 / span))
            };
            lines.iter().filter_map(point).collect::<Vec<(f64, f64)>>()
        };
        // A second without replies has no latency.
        let answered = || tally.lines.iter().filter(|line| line.replies > 0);
        let latency = |(at, name): (usize, &'static str)| {
            let point = |line: &Line| (line.at.as_secs_f64(), line.latency[at].as_secs_f64() * 1e3);
            (name, answered().map(point).collect::<Vec<(f64, f64)>>())
        };
        let names = ["median", "95th percentile", "99th percentile", "maximum"];
        let panel = |file, quantity, unit| Panel { file, quantity, unit, ..Panel::default() };
        UnderLoad {
            title: format!("{} under load", context.url),
            command: context.command.clone(),
            facts: text.lines().filter(|line| line.starts_with("Latency")).map(str::to_owned).collect(),
            panels: vec![
                Panel {
                    logarithmic: true,
                    curves: names.into_iter().enumerate().map(latency).collect(),
                    ..panel("latency", "latency", "ms")
                },
                Panel {
                    curves: vec![
                        ("requests", rate(|line| line.requests)),
                        ("replies", rate(|line| line.replies)),
                        ("failures", rate(|line| line.errors)),
                    ],
                    ..panel("load", "load", "1/s")
                },
            ],
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The time after which a load ends if no session could be established.
    const WITHOUT_SERVER: Duration = Duration::from_secs(1);
    /// The number of scheduled start times that `--dry-run` lists.
    const FIRST: usize = 5;
    /// Memory is trimmed when at most this number of sessions are open. Trimming the memory of so few sessions takes a
    /// negligible time.
    const FEW: u64 = 4;
    /// The time limit for closing the last associations.
    const CLOSING: Duration = Duration::from_secs(2);
}
