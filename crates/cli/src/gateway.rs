//! `anabranch gateway`: forwards HTTP between TCP and SCTP.

use crate::dial::{SctpTarget, SecureTarget};
use crate::key_log::key_log;
use crate::listen::{ListenSpec, Opened, Servers};
use crate::place::{Carrier, Listen, Url};
use crate::secure::{self, ServerTls, Spoken};
use crate::serve::{log, unix_seconds};
use crate::threads::ListenSpecs;
use crate::{Done, Failure, busy_poll, complain, dry_run, knobs, memory, say};
use anabranch_base::units::{Bytes, parse_span};
use anabranch_gateway::allow::{Rule, Rules};
use anabranch_gateway::{Associations, Faults, MakeClient, Network, Options, Origins, Peer, Route};
use anabranch_http::authority::{Authority, Origin};
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_http::serve::{Log, Stop};
use anabranch_http::upstream::Upstream;
use anabranch_tls::{Shared, Trust};
use anabranch_transport::sctp::Config;
use anabranch_world::World;
use anabranch_world::os::{self, OsWorld};
use clap::ArgMatches;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

/// Runs the gateway until a signal ends it.
pub fn run(matches: &ArgMatches) -> Result<Done, Failure> {
    let mut places = Vec::new();
    for text in matches.get_many::<String>("listen").into_iter().flatten() {
        let place = Listen::parse(text).map_err(Failure::Usage)?;
        if place.carrier.is_http3() {
            return Err(Failure::Usage(format!(
                "--listen {text}: a gateway speaks HTTP/1.1; write https:// instead of h3://"
            )));
        }
        places.push(place);
    }
    let settings = Settings::read(matches)?;
    settings.onward.check_flags(matches)?;
    let memory = memory::budget(matches, &places)?;
    let onward = settings.onward.describe();
    if matches.get_flag("dry-run") {
        knobs::warn(&settings.sctp);
        say(&dry_run(matches, &places, &settings))?;
        return Ok(Done::Well);
    }
    // The certificates are read once for all threads, so that a warning appears once and an error is reported before the
    // gateway accepts clients.
    let trust = settings.onward.trust(matches)?;
    let tls = secure::server(matches, &places, Spoken::Http(VERSION))?;
    let certificate = tls.as_ref().map(|tls| tls.shown.clone());
    let in_the_clear = in_the_clear(&places, &settings.onward);
    let number = |name: &str| matches.get_one::<u16>(name).copied().map_or(1, usize::from);
    let specs = ListenSpecs::open(&places, number("threads"), number("connections"))?;
    let sctp = settings.sctp;
    let announce = move |urls: &[String]| {
        complain(&format!("carrying from {} {onward}", urls.join(" ")));
        if let Some(traffic) = &in_the_clear {
            complain(&format!(
                "{traffic} is in the clear unless the two ends encrypt it: anyone on the path can read and change it"
            ));
        }
        if let Some(certificate) = &certificate {
            complain(certificate);
        }
        knobs::warn(&sctp);
    };
    let (matches, name) = (matches.clone(), OnceLock::new());
    let exchanges = ConcurrencyLimit::new(number("exchanges"));
    let reload = tls.as_ref().and_then(ServerTls::reload);
    let (tls, dtls) = tls.map_or((None, None), |tls| (tls.server, tls.dtls));
    let shared = tls.map(|server| server.shared());
    specs.run(announce, move |specs, worker| {
        let mut settings = Settings { exchanges: exchanges.clone(), ..Settings::read(&matches)? };
        // All threads share one memory account. It covers the associations of both sides and the data queued between them.
        settings.sctp.memory = Some(memory.clone());
        settings.trust = trust.clone();
        let carried = os::run(busy_poll::options(&matches), async |world| {
            // A random name, which no other gateway is likely to have.
            let new = || format!("anabranch-{:016x}", world.rng("gateway").next_u64());
            let name = name.get_or_init(new).clone();
            let tls = shared.clone().map(Shared::server);
            let mut servers = Servers::new(worker, settings.grace)?.with_tls(tls, dtls.clone());
            if let Some(reload) = reload.clone() {
                servers = servers.with_reload(reload)?;
            }
            carry(world.clone(), specs, Settings { name, ..settings }, servers).await
        });
        carried.map_err(|why| Failure::Host(format!("no network here: {why}")))?
    })
}

fn dry_run(matches: &ArgMatches, places: &[Listen], settings: &Settings) -> String {
    let mut out = String::new();
    for place in places {
        out += &format!("listen: {place}\n");
    }
    let names = [
        "allow",
        "trusted-proxy",
        "trust",
        "cert",
        "key",
        "sctp-port",
        "key-file",
        "connections",
        "memory",
        "streams",
        "threads",
        "busy-poll",
        "exchanges",
        "max-header",
        "header-timeout",
        "connect-timeout",
        "idle",
        "grace",
    ];
    let log = if settings.log.is_some() { "standard output" } else { "none" };
    out += &format!("carries: {}\n", settings.onward.describe());
    out + &dry_run::flags(matches, &names) + &format!("log: {log}\n") + &dry_run::knobs(&settings.sctp)
}

/// The destination to which requests are forwarded.
enum Onward {
    /// Any server that the rules allow.
    Anywhere(Rules),
    /// The next gateway. Requests must also satisfy the rules of this gateway, if it has any.
    Via(Url, Option<Rules>),
    /// One fixed server.
    Origin(Url),
}

struct Settings {
    onward: Onward,
    /// The certificates that are accepted from servers over TLS and DTLS.
    trust: Trust,
    /// Whether SCTP over DTLS omits its own checksum if the peer agrees (RFC 9653).
    unsummed: bool,
    trusted_proxies: Vec<Network>,
    sctp: Config,
    sctp_port: u16,
    /// The name by which this gateway identifies itself. It is the same in all threads.
    name: String,
    connect: Duration,
    idle: Duration,
    head: Duration,
    max_head: usize,
    exchanges: ConcurrencyLimit,
    log: Option<Log>,
    grace: Duration,
}

impl Settings {
    fn read(matches: &ArgMatches) -> Result<Self, Failure> {
        let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
        let span = |name: &str| -> Result<Duration, Failure> {
            parse_span(text(name)).map_err(|why| Failure::Usage(format!("--{name} {}: {why}", text(name))))
        };
        let number = |name: &str| matches.get_one::<u16>(name).copied().unwrap_or(1);
        let head: Bytes = text("max-header")
            .parse()
            .map_err(|why| Failure::Usage(format!("--max-header {}: {why}", text("max-header"))))?;
        let max_head = usize::try_from(head.0).ok().filter(|most| HEADS.contains(most));
        let max_head = max_head
            .ok_or_else(|| Failure::Usage(format!("--max-header {}: 1KiB to 1MiB", text("max-header"))))?;
        // When an exchange is abandoned, its stream is reset instead of closing the association (RFC 6525). The
        // round-robin scheduler keeps the queued data of one client from delaying another client's data (RFC 8260 §3.2).
        let ours = [("reconfig", "yes"), ("scheduler", "rr")];
        let ours = ours.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let given = knobs::given(matches)?;
        let mut sctp = knobs::sctp(matches, &[&ours[..], &given].concat())?;
        knobs::asks_after_peers(&mut sctp, &given);
        knobs::streams(&mut sctp, &given, number("streams"));
        let proxies = matches.get_many::<String>("trusted-proxy").into_iter().flatten();
        let trusted_proxies = proxies
            .map(|text| text.parse().map_err(|why| Failure::Usage(format!("--trusted-proxy {text}: {why}"))))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            onward: Onward::read(matches)?,
            trust: Trust::default(),
            unsummed: secure::is_unsummed(matches)?,
            trusted_proxies,
            sctp,
            sctp_port: number("sctp-port"),
            name: String::new(),
            connect: span("connect-timeout")?,
            idle: span("idle")?,
            head: span("header-timeout")?,
            max_head,
            exchanges: ConcurrencyLimit::new(usize::from(number("exchanges"))),
            log: (!matches.get_flag("quiet")).then(|| Log::new(log)),
            grace: span("grace")?,
        })
    }

    fn options(&self, stop: &Stop, secure: bool, sessions: ConcurrencyLimit) -> Options {
        let route = match &self.onward {
            Onward::Origin(url) => Route::Origin(origin(url)),
            _ => Route::Any,
        };
        Options {
            route,
            trusted_proxies: self.trusted_proxies.clone(),
            half_close: true,
            secure,
            name: self.name.clone(),
            idle: self.idle,
            head_timeout: self.head,
            max_head: self.max_head,
            sessions,
            exchanges: self.exchanges.clone(),
            wall_clock: Some(unix_seconds),
            memory: self.sctp.memory.clone(),
            log: self.log.clone(),
            faults: Some(Faults::new(complain)),
            stop: stop.clone(),
        }
    }

    fn sctp(&self, url: &Url) -> Result<SctpTarget, Failure> {
        let addresses = url.resolve().map_err(Failure::Host)?;
        Ok(SctpTarget {
            paths: None,
            carrier: url.carrier,
            addresses,
            port: self.sctp_port,
            config: self.sctp.clone(),
            secure: url.carrier.is_secure().then(|| SecureTarget {
                trust: self.trust.clone(),
                name: url.host().to_owned(),
                unsummed: self.unsummed,
            }),
        })
    }
}

impl Onward {
    fn read(matches: &ArgMatches) -> Result<Self, Failure> {
        let mut rules = Vec::new();
        for text in matches.get_many::<String>("allow").into_iter().flatten() {
            let rule: Rule = text.parse().map_err(|why| Failure::Usage(format!("--allow {text}: {why}")))?;
            rules.push(rule);
        }
        let url = |name: &str| -> Result<Option<Url>, Failure> {
            let Some(text) = matches.get_one::<String>(name) else { return Ok(None) };
            let url = Url::parse(text).map_err(|why| Failure::Usage(format!("--{name} {why}")))?;
            if url.carrier.is_http3() {
                return Err(Failure::Usage(format!(
                    "--{name} {text}: a gateway speaks HTTP/1.1; write https:// instead of h3://"
                )));
            }
            if url.target != "/" {
                return Err(Failure::Usage(format!("--{name} {text}: a path is not allowed")));
            }
            Ok(Some(url))
        };
        let allowed = (!rules.is_empty()).then(|| Rules::new(rules));
        match (url("via")?, url("origin")?, allowed) {
            (Some(via), _, _) if via.carrier.is_kernels() => Err(Failure::Usage(format!(
                "--via {}: must be http+sctp://, https+sctp:// or http+sctp-ip://",
                via.text
            ))),
            (Some(via), _, allowed) => Ok(Self::Via(via, allowed)),
            (None, Some(origin), _) => Ok(Self::Origin(origin)),
            (None, None, Some(rules)) => Ok(Self::Anywhere(rules)),
            (None, None, None) => Err(Failure::Usage(
                "no target is permitted: use --allow RULE, --via GATEWAY or --origin SERVER (see --help)"
                    .to_owned(),
            )),
        }
    }

    /// The transport over which requests are forwarded; `None` if it depends on the target of each request.
    fn carrier(&self) -> Option<Carrier> {
        match self {
            Self::Anywhere(_) => None,
            Self::Via(url, _) | Self::Origin(url) => Some(url.carrier),
        }
    }

    /// Rejects flags that would have no effect with this destination.
    fn check_flags(&self, matches: &ArgMatches) -> Result<(), Failure> {
        if self.carrier().is_none_or(Carrier::is_secure) {
            return Ok(());
        }
        let flag = match matches.get_one::<String>("trust") {
            Some(file) => format!("--trust {file}"),
            None if matches.get_flag("insecure") => "--insecure".to_owned(),
            None => return Ok(()),
        };
        let why = "this gateway reaches nothing over TLS; write https:// or https+sctp://";
        Err(Failure::Usage(format!("{flag}: {why}")))
    }

    /// Returns the certificates to accept from servers. A gateway to a single server also checks here that a TLS client
    /// can be created with them.
    fn trust(&self, matches: &ArgMatches) -> Result<Trust, Failure> {
        let trust = match self.carrier() {
            Some(carrier) if !carrier.is_secure() => return Ok(Trust::default()),
            _ => secure::trust(matches)?,
        };
        if self.carrier().is_some() {
            secure::client_that(trust.clone(), Spoken::Http(VERSION)).map_err(Failure::Host)?;
        }
        Ok(trust)
    }

    fn describe(&self) -> String {
        match self {
            Self::Anywhere(_) => "to what is allowed, over TCP".to_owned(),
            Self::Via(url, _) | Self::Origin(url) => format!("to {}", url.text),
        }
    }
}

fn origin(url: &Url) -> Origin {
    let authority = Authority { host: url.host().to_ascii_lowercase(), port: url.port };
    Origin::new(authority, url.carrier.is_secure())
}

/// Describes the traffic that anybody on the path can read; returns `None` if all of it is encrypted.
fn in_the_clear(places: &[Listen], onward: &Onward) -> Option<String> {
    let on = onward.carrier();
    let targets = if on.is_none() { vec!["http"] } else { Vec::new() };
    let carriers = places.iter().map(|place| place.carrier).chain(on);
    let mut open: Vec<&str> = carriers.clone().filter(|one| !one.is_secure()).map(Carrier::scheme).collect();
    open.extend(targets);
    let mut seen = BTreeSet::new();
    open.retain(|scheme| seen.insert(*scheme));
    match open.as_slice() {
        [] => None,
        _ if !carriers.clone().any(Carrier::is_secure) => Some("traffic".to_owned()),
        some => Some(format!("traffic of {}://", some.join(":// and "))),
    }
}

async fn carry(
    world: OsWorld,
    specs: Vec<ListenSpec>,
    settings: Settings,
    mut servers: Servers,
) -> Result<Done, Failure> {
    let world = world.with_kernel(memory::kernel());
    let trust = settings.trust.clone();
    // Opens the key log while the process may still write to any file; later it drops its privileges.
    let _ = key_log();
    let begin_tls: MakeClient = Box::new(move || secure::client_that(trust.clone(), Spoken::Http(VERSION)));
    let connect = settings.connect;
    let (configured, rules) = match &settings.onward {
        Onward::Anywhere(rules) => (None, rules.clone()),
        Onward::Origin(url) if url.carrier.is_kernels() => (Some(origin(url)), Rules::default()),
        Onward::Origin(url) | Onward::Via(url, _) => {
            let target = settings.sctp(url)?;
            let (on_ip, addresses) = (target.carrier.is_on_ip(), target.addresses.clone());
            let (host, ways) = target.host(&world).await?;
            let peer = match &settings.onward {
                Onward::Via(_, rules) => Peer::Gateway(rules.clone()),
                _ => Peer::Origin(origin(url)),
            };
            servers.also_close(host);
            let associations = Associations::new(&world, ways.connector.clone(), ways.count(), peer, connect);
            let associations = Rc::new(associations);
            let itself = associations.clone();
            let heard = move |servers: &Servers| {
                let is_meant = |carrier: Carrier| !carrier.is_kernels() && carrier.is_on_ip() == on_ip;
                itself.never_reach(&addresses, &servers.listening(is_meant));
            };
            return listen(&world, specs, &settings, associations, heard, servers).await;
        }
    };
    let origins = Rc::new(Origins::new(&world, configured, rules, connect, begin_tls));
    let itself = origins.clone();
    let heard = move |servers: &Servers| itself.never_reach(&servers.listening(Carrier::is_kernels));
    listen(&world, specs, &settings, origins, heard, servers).await
}

async fn listen<U: Upstream>(
    world: &OsWorld,
    specs: Vec<ListenSpec>,
    settings: &Settings,
    upstream: Rc<U>,
    // A function that is called once all listeners are open.
    heard: impl FnOnce(&Servers),
    mut servers: Servers,
) -> Result<Done, Failure> {
    let stop = Stop::new();
    for spec in specs {
        let secure = spec.is_secure();
        for opened in servers.open(world, spec, &settings.sctp, settings.sctp_port).await? {
            match opened {
                Opened::Kernel(listener, limit) => {
                    let options = Options { half_close: true, ..settings.options(&stop, secure, limit) };
                    servers.start(
                        world,
                        anabranch_gateway::run(world.clone(), listener, upstream.clone(), options),
                    );
                }
                Opened::Secure(listener, limit) => {
                    let options = Options { half_close: true, ..settings.options(&stop, secure, limit) };
                    servers.start(
                        world,
                        anabranch_gateway::run(world.clone(), listener, upstream.clone(), options),
                    );
                }
                // The gateway has already rejected h3:// listeners while reading its flags.
                Opened::Http3(..) => {
                    return Err(Failure::Internal("a gateway over HTTP/3".to_owned()));
                }
                Opened::Ours(here, listener, limit) => {
                    let options = Options { half_close: false, ..settings.options(&stop, secure, limit) };
                    servers.start(world, anabranch_gateway::run(here, listener, upstream.clone(), options));
                }
            }
        }
    }
    heard(&servers);
    servers.ready();
    servers.until_told(world, &stop, settings.grace).await
}

/// The version of HTTP that the gateway speaks. The gateway forwards the bytes of a body as they arrive, but the framing
/// of HTTP/2 would have to be decoded.
const VERSION: Option<&str> = Some("1.1");
/// The accepted limits for the size of a request head, in bytes. A smaller limit would reject requests that ordinary
/// clients send.
const HEADS: RangeInclusive<usize> = 1 << 10..=1 << 20;
