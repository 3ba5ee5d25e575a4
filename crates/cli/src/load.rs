//! `anabranch load`: requests many objects over TCP, SCTP or HTTP/3. It sends the requests either at a fixed rate or as
//! soon as earlier ones are answered.

use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};

#[cfg(target_os = "linux")]
pub use verb::run;

/// Returns the definition of the `load` command.
pub fn command() -> Command {
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
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
             But for https://, h3:// and https+sctp:// traffic is in the clear.",
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
            Arg::new("random")
                .long("random")
                .action(ArgAction::SetTrue)
                .requires("rate")
                .help("Random gaps with this mean (a Poisson process) instead of equal gaps"),
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
        .arg(
            Arg::new("early-data")
                .long("early-data")
                .action(ArgAction::SetTrue)
                .help("Over h3:// send requests with the handshakes of sessions that are resumed (0-RTT)"),
        )
        .arg(crate::args::secure::qlog_flag())
        .arg(Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).help("No progress"))
        .arg(crate::args::dry_run());
    crate::args::secure::http_flag(crate::args::secure::client_flags(command))
}

#[cfg(target_os = "linux")]
mod verb {
    use crate::dial::SctpTarget;
    use crate::dial::http3::Http3Target;
    use crate::knobs;
    use crate::outputs::{Outputs, command_line};
    use crate::paths::PathLog;
    use crate::place::Url;
    use crate::progress::Ticker;
    use crate::secure::Believing;
    use crate::{Done, Failure, busy_poll, dry_run, qlog, say, secure, watchdog};
    use anabranch_base::units::{format_span, parse_interval, parse_span};
    use anabranch_http::serve::Versions;
    use anabranch_load::generator::report::{self, Framing};
    use anabranch_load::generator::{Load, Pace, Plan};
    use anabranch_tls::TlsConnector;
    use anabranch_transport::kernel::KernelConnector;
    use anabranch_transport::sctp::Config;
    use anabranch_transport::{Connector, Session};
    use anabranch_world::os::{self, OsWorld, Signals, processor_time};
    use anabranch_world::{Timer, World};
    use clap::ArgMatches;
    use std::future::{Future, poll_fn};
    use std::task::Poll;
    use std::time::Duration;

    /// Runs the load that the flags describe.
    pub fn run(matches: &ArgMatches) -> Result<Done, Failure> {
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let url = Url::parse(text("url").unwrap_or_default()).map_err(Failure::Usage)?;
        let url = secure::with_http_version(text("http"), url)?;
        let plan = plan(matches, &url)?;
        if matches.get_flag("early-data") && !url.carrier.is_http3() {
            return Err(Failure::Usage(format!("--early-data: {}: it is for h3:// URLs", url.text)));
        }
        let (config, quic) = config(matches, &url, &plan)?;
        if matches.get_flag("dry-run") {
            say(&dry_run(matches, &url, &plan, (&config, &quic)))?;
            return Ok(Done::Well);
        }
        let tls = secure::client(matches, [url.carrier])?;
        let outputs = Outputs::reserve(text("json"), text("csv"))?;
        let settings = Settings {
            paths: PathLog::new(matches.get_flag("quiet")),
            tls,
            framing: Framing {
                command: command_line(),
                url: url.text.clone(),
                transport: url.carrier.name().to_owned(),
                settings: match (url.carrier.is_kernels(), url.carrier.is_http3()) {
                    (true, _) => Vec::new(),
                    (_, true) => knobs::describe_quic(&quic),
                    _ => crate::get::described(&config),
                },
                ..Framing::default()
            },
            config,
            quic,
            logs: qlog::given(matches, [url.carrier])?,
            sctp_port: matches.get_one::<u16>("sctp-port").copied().unwrap_or(80),
            quiet: matches.get_flag("quiet"),
            url,
            plan,
        };
        let done = os::run(busy_poll::options(matches), async |world| reach(world, settings, outputs).await);
        done.map_err(|why| Failure::Host(format!("no network here: {why}")))?
    }

    struct Settings {
        url: Url,
        /// The client's TLS settings, including the certificates that it trusts.
        tls: Option<Believing>,
        plan: Plan,
        config: Config,
        quic: anabranch_quic::Config,
        logs: qlog::LogsTo,
        sctp_port: u16,
        quiet: bool,
        framing: Framing,
        paths: PathLog,
    }

    fn plan(matches: &ArgMatches, url: &Url) -> Result<Plan, Failure> {
        let number = |name: &str| matches.get_one::<u64>(name).copied();
        let span = |name: &str| -> Result<Option<Duration>, Failure> {
            let Some(text) = matches.get_one::<String>(name) else { return Ok(None) };
            let span = parse_span(text).map_err(|why| Failure::Usage(format!("--{name} {why}")))?;
            if span.is_zero() {
                return Err(Failure::Usage(format!(
                    "--{name} {text}: must be more than zero; write 1s or more"
                )));
            }
            Ok(Some(span))
        };
        let interval = match matches.get_one::<String>("rate") {
            None => None,
            Some(text) => Some(parse_interval(text).map_err(|why| Failure::Usage(format!("--rate {why}")))?),
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
        let versions = versions(matches, url);
        let one_stream = url.carrier.is_kernels() && versions == Versions::Http1;
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
            secure: url.carrier.is_secure(),
            target: url.target.clone(),
            pace,
            objects,
            streams: streams.unwrap_or(u16::try_from(all).unwrap_or(100)),
            versions,
            requests,
            sessions,
            duration,
            timeout: span("timeout")?.unwrap_or(Duration::from_secs(5)),
            most: number("max-sessions").unwrap_or(10_000),
            seed: number("seed"),
        })
    }

    /// Returns the versions of HTTP to use. `--http` selects them. Without `--http`, the server chooses the version if the
    /// session uses TLS.
    fn versions(matches: &ArgMatches, url: &Url) -> Versions {
        let said = matches.get_one::<String>("http").map(String::as_str);
        match (said, url.carrier.is_kernels()) {
            (_, false) if url.carrier.is_http3() => Versions::Http3,
            (Some("2"), true) => Versions::Http2,
            (None, true) if url.carrier.is_secure() => Versions::Both,
            _ => Versions::Http1,
        }
    }

    fn dry_run(
        matches: &ArgMatches,
        url: &Url,
        plan: &Plan,
        (config, quic): (&Config, &anabranch_quic::Config),
    ) -> String {
        let random = |random: bool| match (random, plan.seed) {
            (false, _) => String::new(),
            (true, None) => " on the average, at random".to_owned(),
            (true, Some(seed)) => format!(" on the average, at random by seed {seed}"),
        };
        let pace = match plan.pace {
            Pace::Open { interval, random: drawn } => {
                format!("open loop: a session every {}{}", format_span(interval), random(drawn))
            }
            Pace::Pool { interval, random: drawn, sessions } => {
                let every = format!("an object every {}{}", format_span(interval), random(drawn));
                format!("open loop: {every}, on {sessions} sessions")
            }
            Pace::Closed { sessions } => format!("closed loop: {sessions} sessions at a time"),
        };
        let number = |number: Option<u64>| number.map_or("no limit".to_owned(), |number| number.to_string());
        let mut out = format!("url: {}\ntransport: {}\npace: {pace}\n", url.text, url.carrier.name());
        if let Some(due) = plan.first_due(FIRST) {
            let due: Vec<String> = due.into_iter().map(format_span).collect();
            out += &format!("first due at: {}\n", due.join(" "));
        }
        // If the rate of new sessions is fixed, each session requests one object unless the flags ask for more.
        let objects = plan.objects.or(matches!(plan.pace, Pace::Open { .. }).then_some(1));
        out += &format!("objects-per-session: {}\nstreams: {}\n", number(objects), plan.streams);
        out += &format!("requests: {}\nsessions: {}\n", number(plan.requests), number(plan.sessions));
        let duration = plan.duration.map_or("no limit".to_owned(), format_span);
        out += &format!("duration: {duration}\ntimeout: {}\n", format_span(plan.timeout));
        out += &dry_run::flags(
            matches,
            &["max-sessions", "busy-poll", "trust", "insecure", "http", "early-data", "qlog"],
        );
        if url.carrier.is_kernels() {
            return out;
        }
        if !url.carrier.is_http3() {
            out += &dry_run::flags(matches, &["sctp-port", "ppid", "key-file"]);
        }
        out + &dry_run::both_knobs([url.carrier], config, quic)
    }

    /// Returns the configurations of SCTP and of QUIC.
    fn config(
        matches: &ArgMatches,
        url: &Url,
        plan: &Plan,
    ) -> Result<(Config, anabranch_quic::Config), Failure> {
        let set = knobs::divided(matches, [url.carrier])?;
        let quic = knobs::quic(&set.quic)?;
        let set = set.sctp;
        if url.carrier.is_kernels() && !set.is_empty() {
            return Err(Failure::Usage("--set: the kernel's TCP has no such knobs".to_owned()));
        }
        if let Some(path) = knobs::key_file_of(matches).filter(|_| url.carrier.is_kernels()) {
            return Err(Failure::Usage(format!("--key-file {path}: TCP has no keys")));
        }
        let mut config = knobs::sctp(matches, &set)?;
        config.ppid = knobs::chosen_ppid(matches, [url.carrier])?;
        config.streams = config.streams.max(plan.streams);
        knobs::warn(&config);
        Ok((config, quic))
    }

    async fn reach(world: OsWorld, settings: Settings, outputs: Outputs) -> Result<Done, Failure> {
        let addresses = match settings.url.resolve() {
            Ok(addresses) => addresses,
            Err(why) => {
                crate::complain(&why);
                return Ok(Done::Badly);
            }
        };
        if settings.url.carrier.is_kernels() {
            let count = addresses.len();
            let connector = KernelConnector::new(world.clone(), addresses);
            let Some(tls) = settings.tls.clone().map(|it| it.client) else {
                return to_first(world, connector, count, settings, outputs).await;
            };
            let names = vec![settings.url.host().to_owned(); count];
            let connector =
                TlsConnector::new(world.clone(), connector, tls, &names).map_err(Failure::Usage)?;
            return to_first(world, connector, count, settings, outputs).await;
        }
        if settings.url.carrier.is_http3() {
            let count = addresses.len();
            let believing = settings.tls.clone().map_or_else(|| Believing::by_default(None), Ok);
            let client = believing.and_then(|it| it.http3()).map_err(Failure::Host)?;
            let (name, config) = (settings.url.host().to_owned(), settings.quic.clone());
            let to = Http3Target { addresses, name, client, config, logs: settings.logs.clone() };
            let (host, connector) = to.host(&world).await?;
            let done = to_first(world.clone(), connector, count, settings, outputs).await;
            let _ = world.timeout(CLOSING, host.idle()).await;
            return done;
        }
        let to = SctpTarget {
            carrier: settings.url.carrier,
            addresses,
            port: settings.sctp_port,
            config: settings.config.clone(),
            secure: settings.tls.as_ref().map(|it| it.target(settings.url.host())),
            paths: Some(settings.paths.clone()),
        };
        let (host, ways) = to.host(&world).await?;
        let way = ways.answering(&world, settings.plan.timeout).await;
        let done = perform(world.clone(), ways.connector, way, settings, outputs).await;
        let _ = world.timeout(CLOSING, host.idle()).await;
        done
    }

    /// Runs the load against the first of `count` addresses that answers.
    async fn to_first<C: Connector>(
        world: OsWorld,
        connector: C,
        count: usize,
        settings: Settings,
        outputs: Outputs,
    ) -> Result<Done, Failure> {
        let mut server = 0;
        while server + 1 < count {
            if let Ok(session) = connector.connect(server)
                && let Some(Ok(())) = world.timeout(settings.plan.timeout, session.established()).await
            {
                break;
            }
            server += 1;
        }
        perform(world, connector, server, settings, outputs).await
    }

    async fn perform<C: Connector>(
        world: OsWorld,
        connector: C,
        server: usize,
        settings: Settings,
        outputs: Outputs,
    ) -> Result<Done, Failure> {
        let Settings { plan, mut framing, quiet, paths, .. } = settings;
        let mut signals = Signals::new().map_err(|why| Failure::Host(format!("no signals: {why}")))?;
        watchdog::start(CLOSING, 130)?;
        let before = processor_time();
        let load = Load::new(world.clone(), connector, server, plan.clone());
        let mut ticker = Ticker::new(quiet);
        let mut timer = world.timer();
        {
            let begun = world.now();
            paths.begin(begun);
            let mut trimmer = os::MemoryTrimmer::new(&world);
            let mut running = std::pin::pin!(load.run());
            timer.set(Some(begun + Ticker::PERIOD));
            framing.interrupted = poll_fn(|cx| {
                if running.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(false);
                }
                if signals.poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                // The trimmer returns memory that many concurrent sessions have left behind. Trimming takes longer the
                // more memory there is, so it would distort the measurement while many sessions are open.
                if load.open_sessions() <= FEW {
                    trimmer.poll(cx, &world);
                }
                while timer.poll(cx).is_ready() {
                    timer.set(Some(world.now() + Ticker::PERIOD));
                    let (replies, errors) = load.progress();
                    let elapsed = world.now().since(begun);
                    ticker.show(elapsed, plan.duration, &format!("{replies} replies, {errors} errors"));
                }
                Poll::Pending
            })
            .await;
        }
        ticker.finish();
        let after = processor_time();
        framing.user = after.0.saturating_sub(before.0);
        framing.system = after.1.saturating_sub(before.1);
        framing.paths = paths.fields_with_paths();
        framing.path_lines = paths.summary();
        let tally = load.tally();
        let text = report::text(&plan, &tally, &framing);
        outputs.write(&text, || report::json(&plan, &tally, &framing), || report::csv(&tally))?;
        if framing.interrupted {
            return Err(Failure::Interrupted);
        }
        let well = tally.error_count() == 0 && tally.refused_replies() == 0;
        Ok(if well { Done::Well } else { Done::Badly })
    }

    /// The number of scheduled start times that `--dry-run` lists.
    const FIRST: usize = 5;
    /// The maximum number of open sessions at which memory is trimmed. Trimming the memory of so few sessions takes a
    /// negligible time.
    const FEW: u64 = 4;
    /// The time that the last associations have to close.
    const CLOSING: Duration = Duration::from_secs(2);
}
