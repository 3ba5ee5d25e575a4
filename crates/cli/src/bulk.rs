//! `anabranch bulk`: how much goes through, as client and as server.

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
             anabranch bulk tcp://192.0.2.1:5201 --reverse --set cc=reno,sndbuf=4MiB --json -\n\n\
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
            "Knobs: of SCTP as `race` names them (profile=rfc9260,rcvbuf=8MiB); of the kernel's protocols cc, \
             sndbuf and rcvbuf",
        ))
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

#[cfg(target_os = "linux")]
mod verb {
    use crate::busy_poll::options;
    use crate::dial::{Sctp, Ways, within};
    use crate::outputs::{Outputs, command_line};
    use crate::place::{Carrier, Listen, Url};
    use crate::serve::reason;
    use crate::{Done, Failure, complain, knobs, planned, say};
    use anabranch_base::units::{Bytes, format_span, parse_span};
    use anabranch_http::throughput::report::{self, Framing};
    use anabranch_http::throughput::{self, Event, Interval, LEAST_MESSAGE, MOST_MESSAGE, Plan, Probe, Test};
    use anabranch_transport::engines::sctp::Config;
    use anabranch_transport::kernel::{KernelConnector, KernelListener, KernelSession};
    use anabranch_transport::sctp::{Carrier as SctpCarrier, SctpHost, SctpSession};
    use anabranch_transport::{CloseReason, Connector, Listener};
    use anabranch_world::World;
    use anabranch_world::os::{
        self, KernelOptions, KernelProtocol, OsTask, OsWorld, Signals, processor_time,
    };
    use clap::ArgMatches;
    use std::cell::Cell;
    use std::future::{Future, poll_fn};
    use std::io::Write;
    use std::net::{IpAddr, SocketAddr};
    use std::pin::Pin;
    use std::rc::Rc;
    use std::task::Poll;
    use std::time::Duration;

    /// Does what the flags say.
    pub fn run(matches: &ArgMatches) -> Result<Done, Failure> {
        let set = knobs::given(matches)?;
        let span = |name: &str, default: Duration| -> Result<Duration, Failure> {
            let Some(text) = matches.get_one::<String>(name) else { return Ok(default) };
            let span = parse_span(text).map_err(|why| Failure::Usage(format!("--{name} {why}")))?;
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
                let (protocol, listen) = of_listen(text)?;
                places.push((Knobs::of(protocol, &set)?, listen));
            }
            let once = matches.get_flag("once");
            if matches.get_flag("dry-run") {
                let names = ["listen", "once", "sctp-port", "timeout", "no-offload", "busy-poll"];
                say(&(planned::flags(matches, &names) + &planned_knobs(places.iter().map(|(made, _)| made))))?;
                return Ok(Done::Well);
            }
            let server = Server { places, sctp_port, timeout, once };
            let served = os::run(options(matches), async |world| server.run(view(world)).await);
            return served.map_err(|why| Failure::Host(format!("no network here: {why}")))?;
        }
        let text = matches.get_one::<String>("server").map_or("", String::as_str);
        let (protocol, url) = of_url(text)?;
        let size = |name: &str| -> Result<Option<u64>, Failure> {
            let Some(text) = matches.get_one::<String>(name) else { return Ok(None) };
            let size: Bytes = text.parse().map_err(|why| Failure::Usage(format!("--{name} {why}")))?;
            Ok(Some(size.0))
        };
        let message = size("message-size")?.unwrap_or(65_536);
        if !(u64::from(LEAST_MESSAGE)..=u64::from(MOST_MESSAGE)).contains(&message) {
            return Err(Failure::Usage("--message-size: a message has 8B to 16MiB".to_owned()));
        }
        let number = |name: &str| matches.get_one::<u16>(name).copied().unwrap_or(1);
        let streams = number("streams");
        if protocol != Protocol::Sctp && (streams > 1 || matches.get_flag("unordered")) {
            let told =
                "--streams and --unordered are for sctp:// and sctp-ip://; others have one stream, in order";
            return Err(Failure::Usage(told.to_owned()));
        }
        if size("size")? == Some(0) {
            return Err(Failure::Usage("--size 0B: nothing to send".to_owned()));
        }
        let (reverse, both) = (matches.get_flag("reverse"), matches.get_flag("both"));
        let plan = Plan {
            up: !reverse,
            down: reverse || both,
            message: u32::try_from(message).unwrap_or(MOST_MESSAGE),
            streams,
            unordered: matches.get_flag("unordered"),
            sessions: number("connections"),
            span: span("for", Duration::from_secs(10))?,
            bytes: size("size")?,
            interval: span("interval", Duration::from_secs(1))?,
            timeout,
        };
        let mut made = Knobs::of(protocol, &set)?;
        if let Knobs::Sctp(config) = &mut made {
            config.streams = config.streams.max(streams);
            if message > config.sndbuf {
                let told = format!("--message-size: a message fits the send buffer; --set sndbuf={message}B");
                return Err(Failure::Usage(told));
            }
        }
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        if matches.get_flag("dry-run") {
            say(&planned(matches, &url, &plan, &made))?;
            return Ok(Done::Well);
        }
        let outputs = Outputs::reserve(text("json"), text("csv"))?;
        let framing = Framing {
            command: command_line(),
            url: url.text.clone(),
            transport: protocol.name(url.carrier).to_owned(),
            settings: made.told(),
            multipath: None,
            interrupted: false,
        };
        let client = Client { url, plan, knobs: made, sctp_port, quiet: matches.get_flag("quiet"), framing };
        let done = os::run(options(matches), async |world| client.run(view(world), outputs).await);
        done.map_err(|why| Failure::Host(format!("no network here: {why}")))?
    }

    fn planned(matches: &ArgMatches, url: &Url, plan: &Plan, made: &Knobs) -> String {
        let way = match (plan.up, plan.down) {
            (true, true) => "both send",
            (true, false) => "the client sends",
            _ => "the server sends",
        };
        let order = if plan.unordered { "unordered" } else { "in order" };
        let until = plan
            .bytes
            .map_or_else(|| format!("for: {}", format_span(plan.span)), |bytes| format!("size: {bytes}B"));
        let mut out = format!("server: {}\n{until}\nmessages: {}B, {order}, {way}\n", url.text, plan.message);
        out += &format!("interval: {}\ntimeout: {}\n", format_span(plan.interval), format_span(plan.timeout));
        out += &planned::flags(
            matches,
            &["connections", "streams", "sctp-port", "no-offload", "busy-poll", "json", "csv"],
        );
        out + &planned_knobs(std::iter::once(made))
    }

    /// What the transports are set to, once each.
    fn planned_knobs<'a>(all: impl Iterator<Item = &'a Knobs>) -> String {
        let mut lines: Vec<String> = Vec::new();
        for made in all {
            let told = made.told().into_iter().map(|(key, value)| format!("{key}={value}"));
            let line = format!("set: {}\n", told.collect::<Vec<_>>().join(","));
            if line != "set: \n" && !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.concat()
    }

    /// Whose protocol.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Protocol {
        /// Ours.
        Sctp,
        Kernel(KernelProtocol),
    }

    impl Protocol {
        fn name(self, carrier: Carrier) -> &'static str {
            match self {
                Self::Sctp => carrier.transport(),
                Self::Kernel(KernelProtocol::Tcp) => "tcp",
                Self::Kernel(KernelProtocol::Mptcp) => "mptcp",
                Self::Kernel(KernelProtocol::Sctp) => "sctp-kernel",
            }
        }
    }

    const FORMS: &str = "tcp://HOST:PORT, sctp://HOST:PORT (in UDP), sctp-ip://HOST:PORT, mptcp://HOST:PORT or \
                         sctp-kernel://HOST:PORT";

    /// Protocol and scheme of what was written, with the rest.
    fn of(text: &str) -> Result<(Protocol, Carrier, &str), Failure> {
        let wrong = |why: &str| Failure::Usage(format!("{text}: {why}; write {FORMS}"));
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("no scheme"))?;
        Ok(match scheme {
            "tcp" => (Protocol::Kernel(KernelProtocol::Tcp), Carrier::Tcp, rest),
            "mptcp" => (Protocol::Kernel(KernelProtocol::Mptcp), Carrier::Tcp, rest),
            "sctp-kernel" => (Protocol::Kernel(KernelProtocol::Sctp), Carrier::Tcp, rest),
            "sctp" => (Protocol::Sctp, Carrier::SctpUdp, rest),
            "sctp-ip" => (Protocol::Sctp, Carrier::SctpIp, rest),
            _ => return Err(wrong("unknown scheme")),
        })
    }

    fn of_url(text: &str) -> Result<(Protocol, Url), Failure> {
        let (protocol, carrier, rest) = of(text)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let url = Url::parse(&format!("{}://{rest}/", carrier.scheme()));
        if rest.contains(',') && protocol != Protocol::Sctp {
            let told = format!("{text}: several addresses of one host are for sctp:// and sctp-ip://");
            return Err(Failure::Usage(told));
        }
        let wrong = || Failure::Usage(format!("{text}: no host and port; write {FORMS}"));
        let mut url = url.map_err(|_| wrong())?;
        let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        if rest.contains('/') || !has_port {
            return Err(wrong());
        }
        text.clone_into(&mut url.text);
        Ok((protocol, url))
    }

    fn of_listen(text: &str) -> Result<(Protocol, Listen), Failure> {
        let (protocol, carrier, rest) = of(text)?;
        let scheme = match carrier {
            Carrier::Tcp => "tcp",
            Carrier::SctpUdp => "sctp",
            Carrier::SctpIp => "sctp-ip",
        };
        Ok((protocol, Listen::parse(&format!("{scheme}://{rest}")).map_err(Failure::Usage)?))
    }

    /// How the transport is set.
    enum Knobs {
        Sctp(Box<Config>),
        Kernel(KernelOptions),
    }

    impl Knobs {
        fn of(protocol: Protocol, set: &[(String, String)]) -> Result<Self, Failure> {
            let Protocol::Kernel(protocol) = protocol else {
                return Ok(Self::Sctp(Box::new(knobs::sctp(set)?)));
            };
            let mut options = KernelOptions { protocol, ..KernelOptions::default() };
            for (key, value) in set {
                let bytes = || {
                    let size = value.parse::<Bytes>();
                    let size = size.map_err(|why| Failure::Usage(format!("--set {key}={value}: {why}")))?;
                    Ok(Some(usize::try_from(size.0).unwrap_or(usize::MAX).min(1 << 30)))
                };
                match key.as_str() {
                    "sndbuf" => options.sndbuf = bytes()?,
                    "rcvbuf" => options.rcvbuf = bytes()?,
                    "cc" if protocol != KernelProtocol::Sctp => options.congestion = Some(value.clone()),
                    _ => {
                        let has = match protocol {
                            KernelProtocol::Sctp => "the kernel's SCTP has sndbuf and rcvbuf",
                            _ => "the kernel's protocols have cc, sndbuf and rcvbuf",
                        };
                        let told = format!("--set {key}={value}: {has}");
                        return Err(Failure::Usage(told));
                    }
                }
            }
            Ok(Self::Kernel(options))
        }

        fn told(&self) -> Vec<(String, String)> {
            match self {
                Self::Sctp(config) => knobs::told(config, Carrier::SctpUdp),
                Self::Kernel(options) => {
                    let mut told = Vec::new();
                    let mut add = |name: &str, value: Option<String>| {
                        told.extend(value.map(|value| (name.to_owned(), value)));
                    };
                    add("cc", options.congestion.clone());
                    add("sndbuf", options.sndbuf.map(|bytes| format!("{bytes}B")));
                    add("rcvbuf", options.rcvbuf.map(|bytes| format!("{bytes}B")));
                    told
                }
            }
        }
    }

    struct Client {
        url: Url,
        plan: Plan,
        knobs: Knobs,
        sctp_port: u16,
        quiet: bool,
        framing: Framing,
    }

    impl Client {
        async fn run(self, world: OsWorld, outputs: Outputs) -> Result<Done, Failure> {
            let addresses = match self.url.resolve() {
                Ok(addresses) => addresses,
                Err(why) => {
                    complain(&why);
                    return Ok(Done::Badly);
                }
            };
            match &self.knobs {
                Knobs::Kernel(options) => {
                    let world = world.with_kernel(options.clone());
                    possible(&addresses, options)?;
                    let connector = KernelConnector::new(world.clone(), addresses.clone());
                    let told = |session: &KernelSession<OsWorld>| Told {
                        multipath: session.is_multipath(),
                        congestion: session.congestion(),
                    };
                    self.perform(world, connector, addresses, outputs, kernel_probe, told).await
                }
                Knobs::Sctp(config) => {
                    let to = Sctp {
                        carrier: self.url.carrier,
                        addresses,
                        port: self.sctp_port,
                        config: (**config).clone(),
                    };
                    let (host, ways) = to.host(&world).await?;
                    let Ways { connector, first } = ways;
                    let told = |_: &_| Told::default();
                    let done = self.perform(world.clone(), connector, first, outputs, probe, told).await;
                    let _ = within(&world, CLOSING, host.idle()).await;
                    done
                }
            }
        }

        async fn perform<C: Connector>(
            self,
            world: OsWorld,
            connector: C,
            servers: Vec<SocketAddr>,
            outputs: Outputs,
            probe: impl Fn(&C::Session) -> Option<Probe> + 'static,
            told: impl Fn(&C::Session) -> Told,
        ) -> Result<Done, Failure> {
            let Self { plan, quiet, mut framing, url, .. } = self;
            let mut signals = signals()?;
            let to_stderr = outputs.takes_stdout();
            let print = |text: &str| {
                if to_stderr {
                    let _ = std::io::stderr().write_all(text.as_bytes());
                } else {
                    // Whoever closed it does not want the lines.
                    let _ = say(text);
                }
            };
            // Nothing stands above what has not begun.
            let headed = Cell::new(quiet);
            let head = |probed: bool| {
                if !headed.replace(true) {
                    print(report::heading(&plan, probed));
                }
            };
            let test = Test::new(world, connector, servers, plan.clone(), processor_time, probe);
            let lines = |interval: &Interval| {
                head(interval.probe.is_some());
                if !quiet {
                    print(&report::line(&plan, interval));
                }
            };
            let ended = {
                let mut running = std::pin::pin!(test.run(&lines));
                poll_fn(|cx| match running.as_mut().poll(cx) {
                    Poll::Ready(ended) => Poll::Ready(Some(ended)),
                    Poll::Pending => signals.poll(cx).map(|()| None),
                })
                .await
            };
            framing.interrupted = ended.is_none();
            if framing.interrupted
                && let Some(rest) = test.rest()
            {
                lines(&rest);
            }
            if let Some(Err(failure)) = ended {
                complain(&format!("{}: {failure}", url.text));
                return Ok(Done::Badly);
            }
            let outcome = test.outcome();
            head(outcome.retransmitted.is_some());
            let all = test.each(told);
            // Where nothing was connected, nobody has said that it is plain TCP.
            let spoken: Option<Vec<bool>> = all.iter().map(|told| told.multipath).collect();
            let spoken = spoken.filter(|spoken| !spoken.is_empty());
            framing.multipath = spoken.map(|spoken| spoken.into_iter().filter(|one| *one).count() as u64);
            let congestion = all.into_iter().find_map(|told| told.congestion);
            if let Some(name) = congestion.filter(|_| framing.settings.iter().all(|(key, _)| key != "cc")) {
                framing.settings.push(("cc".to_owned(), name));
            }
            let text = report::summary(&plan, &outcome, &framing);
            outputs.write(&text, || report::json(&plan, &outcome, &framing), || report::csv(&outcome))?;
            if framing.interrupted { Err(Failure::Interrupted) } else { Ok(Done::Well) }
        }
    }

    /// What a session says of itself once it is there.
    #[derive(Default)]
    struct Told {
        multipath: Option<bool>,
        /// Congestion control that the kernel has chosen.
        congestion: Option<String>,
    }

    /// Whether the kernel has the protocol and the settings, for one of the addresses.
    fn possible(addresses: &[SocketAddr], options: &KernelOptions) -> Result<(), Failure> {
        let mut first = Ok(());
        for address in addresses {
            match options.possible(*address) {
                Ok(()) => return Ok(()),
                Err(why) => first = first.and(Err(why)),
            }
        }
        first.map_err(Failure::Host)
    }

    fn kernel_probe(session: &KernelSession<OsWorld>) -> Option<Probe> {
        let counters = session.counters()?;
        Some(Probe {
            retransmitted: counters.retransmitted,
            cwnd: counters.cwnd,
            srtt: anabranch_base::time::nanos(counters.srtt),
        })
    }

    fn probe(session: &SctpSession<OsWorld>) -> Option<Probe> {
        let (stats, info) = (session.stats()?, session.info()?);
        let path = info.paths.iter().find(|path| path.primary).or(info.paths.first());
        Some(Probe {
            retransmitted: stats.retransmitted_fast + stats.retransmitted_timeout,
            cwnd: path.map_or(0, |path| path.cwnd),
            srtt: path.and_then(|path| path.srtt).map_or(0, anabranch_base::time::nanos),
        })
    }

    fn signals() -> Result<Signals, Failure> {
        Signals::new().map_err(|why| Failure::Host(format!("no signals: {why}")))
    }

    struct Server {
        places: Vec<(Knobs, Listen)>,
        sctp_port: u16,
        timeout: Duration,
        once: bool,
    }

    impl Server {
        async fn run(self, world: OsWorld) -> Result<Done, Failure> {
            let mut signals = signals()?;
            // What the first session came to.
            let first: Rc<Cell<Option<Done>>> = Rc::default();
            let (mut tasks, mut hosts, mut urls) = (Vec::new(), Vec::new(), Vec::new());
            let mut left_out = Vec::new();
            for (knobs, place) in &self.places {
                let at = |what: &str| Failure::Host(format!("cannot listen: {what}"));
                match knobs {
                    Knobs::Kernel(options) => {
                        let world = world.with_kernel(options.clone());
                        let all = [IpAddr::from([0; 4]), IpAddr::from([0_u8; 16])];
                        let wanted = if place.addresses.is_empty() { &all[..] } else { &place.addresses };
                        possible(&[SocketAddr::new(wanted[0], 0)], options)?;
                        let mut port = place.port;
                        for &ip in wanted {
                            let to = SocketAddr::new(ip, port);
                            let listener = match KernelListener::new(world.clone(), to, BACKLOG) {
                                Ok(listener) => listener,
                                // A host without IPv6.
                                Err(why) if place.addresses.is_empty() && ip.is_ipv6() => {
                                    left_out.push(format!("not on {to}: {why}"));
                                    continue;
                                }
                                Err(why) => return Err(at(&format!("{to}: {why}"))),
                            };
                            // All addresses of a place have its port, also where the host chooses it.
                            port = listener.port();
                            let name = Protocol::Kernel(options.protocol).name(Carrier::Tcp);
                            urls.push(format!("{name}://{}", SocketAddr::new(ip, listener.port())));
                            tasks.push(self.start(&world, listener, &first));
                        }
                    }
                    Knobs::Sctp(config) => {
                        crate::dial::beside_the_kernel(place.carrier);
                        let (carrier, port) = match place.carrier {
                            Carrier::SctpIp => (SctpCarrier::Ip, place.port),
                            _ => (SctpCarrier::Udp { port: place.port }, self.sctp_port),
                        };
                        let mut config = (**config).clone();
                        config.streams = MOST_STREAMS;
                        let here = world.at(place.addresses.clone()).map_err(|why| at(&why.to_string()))?;
                        let host = SctpHost::new(here.clone(), config, carrier, None).await;
                        let host = host.map_err(|why| at(&reason(place.carrier, Some(place.port), &why)))?;
                        let listener = host.listen(port).map_err(|why| at(&why.to_string()))?;
                        for address in host.inspect(|engine| engine.addresses().to_vec()) {
                            let port = if place.carrier == Carrier::SctpIp { port } else { address.port() };
                            let name = Protocol::Sctp.name(place.carrier);
                            urls.push(format!("{name}://{}", SocketAddr::new(address.ip(), port)));
                        }
                        tasks.push(self.start(&here, listener, &first));
                        hosts.push(host);
                    }
                }
            }
            complain(&format!("listening on {}", urls.join(" ")));
            left_out.iter().for_each(|line| complain(line));
            let mut timer = world.timer();
            let ended = poll_fn(|cx| {
                if signals.poll(cx).is_ready() {
                    return Poll::Ready(Ok(Done::Well));
                }
                for task in &mut tasks {
                    if let Poll::Ready(Err(why)) = Pin::new(task).poll(cx) {
                        return Poll::Ready(Err(Failure::Host(format!("a listener has ended: {why}"))));
                    }
                }
                if self.once
                    && let Some(done) = first.get()
                {
                    return Poll::Ready(Ok(done));
                }
                if self.once {
                    // Sessions do not say when they end but by what they tell: looked at now and then.
                    anabranch_world::Timer::set(&mut timer, Some(world.now() + LOOKING));
                    let _ = anabranch_world::Timer::poll(&mut timer, cx);
                }
                Poll::Pending
            })
            .await;
            if ended.is_ok() {
                // The last session still has to be closed by its client.
                for host in &hosts {
                    let _ = within(&world, CLOSING, host.idle()).await;
                }
            }
            ended
        }

        fn start<L: Listener>(
            &self,
            world: &OsWorld,
            listener: L,
            first: &Rc<Cell<Option<Done>>>,
        ) -> OsTask<Result<(), CloseReason>> {
            let first = first.clone();
            let tell = move |event: Event| {
                let who =
                    |peer: Option<SocketAddr>| peer.map_or("a client".to_owned(), |peer| peer.to_string());
                match event {
                    Event::Began(peer) => complain(&format!("{} has come", who(peer))),
                    Event::Ended { peer, received, sent, failed } => {
                        let counted = format!("received {} B, sent {} B", received.bytes, sent.bytes);
                        let how = failed.as_ref().map_or_else(String::new, |why| format!("; {why}"));
                        complain(&format!("{}: {counted}{how}", who(peer)));
                        first.set(Some(if failed.is_some() { Done::Badly } else { Done::Well }));
                    }
                }
            };
            let serving = throughput::serve(
                world.clone(),
                listener,
                self.timeout,
                MOST_SESSIONS,
                processor_time,
                Rc::new(tell),
            );
            world.spawn("bulk server", serving)
        }
    }

    /// How long the peer may take to agree that it is over.
    const CLOSING: Duration = Duration::from_secs(2);
    const LOOKING: Duration = Duration::from_millis(100);
    const BACKLOG: u32 = 1024;
    const MOST_SESSIONS: usize = 1024;
    /// Streams that a server grants.
    const MOST_STREAMS: u16 = 65_535;

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn places_are_read() {
            let (protocol, url) = of_url("sctp-ip://[::1]:80").expect("a place");
            assert_eq!((protocol, url.carrier, url.port), (Protocol::Sctp, Carrier::SctpIp, 80));
            let (protocol, url) = of_url("mptcp://host:5/").expect("a place");
            assert_eq!(protocol, Protocol::Kernel(KernelProtocol::Mptcp));
            assert_eq!((url.host(), url.port, url.carrier), ("host", 5, Carrier::Tcp));
            for wrong in ["host:5", "tcp://host", "udp://host:5", "tcp://:5", "tcp://[::1]", "tcp://host:5/x"]
            {
                assert!(of_url(wrong).is_err(), "{wrong}");
            }
        }
    }
}
