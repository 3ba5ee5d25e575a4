//! `anabranch gateway`: forwards HTTP between TCP and SCTP.

use crate::dial::{self, dial};
use crate::key_log::key_log;
use crate::knobs::Tuned;
use crate::listen::{ListenSpec, Opened, Servers};
use crate::secure::{self, NegotiatedProtocol, ServerTls};
use crate::serve::{log, unix_seconds};
use crate::threads::ListenSpecs;
use crate::url::{Listen, Url};
use crate::{Completion, Failure, busy_poll, complain, dry_run, memory, say};
use anabranch_base::Budget;
use anabranch_base::units::{Bytes, parse_duration};
use anabranch_gateway::allow::{Rule, Rules};
use anabranch_gateway::{Associations, Dial, Faults, Network, Options, Origins, Peer, Route};
use anabranch_http::authority::{Authority, Origin};
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_http::serve::{Log, Stop};
use anabranch_http::upstream::{OneServer, ReachError, Upstream};
use anabranch_transport::network::{Needs, StreamNeed};
use anabranch_transport::{CloseReason, Connector, Http, Listener};
use anabranch_transports::os::{StreamConnector, Target, WithConnector, WithListener};
use anabranch_transports::security::{ClientSecurity, Trust};
use anabranch_transports::{Transports, UrlScheme};
use anabranch_world::World;
use anabranch_world::os::{self, OsWorld};
use clap::ArgMatches;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

/// Runs the gateway until a signal ends it.
pub fn run(matches: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
    let mut listens = Vec::new();
    for text in matches.get_many::<String>("listen").into_iter().flatten() {
        let listen = Listen::parse(text, transports).map_err(Failure::Usage)?;
        if listen.scheme.http() == Some(Http::Http3) {
            return Err(Failure::Usage(format!(
                "--listen {text}: a gateway speaks HTTP/1.1; write https:// instead of h3://"
            )));
        }
        listens.push(listen);
    }
    let settings = Settings::read(matches, &listens, transports)?;
    settings.mode.check_flags(matches)?;
    let memory = memory::budget(matches, &listens)?;
    let onward = settings.mode.describe();
    if matches.get_flag("dry-run") {
        settings.tuned.warn();
        say(&dry_run(matches, &listens, &settings))?;
        return Ok(Completion::Well);
    }
    // The certificates are read once for all threads, so that a warning appears once and an error is reported before
    // the gateway accepts clients.
    let trust = settings.mode.trust(matches)?;
    let tls = secure::server(matches, &listens, NegotiatedProtocol::Http(VERSION))?;
    let certificate = tls.as_ref().map(|tls| tls.description.clone());
    let in_the_clear = unencrypted_traffic(&listens, &settings.mode);
    let number = |name: &str| matches.get_one::<u16>(name).copied().map_or(1, usize::from);
    let specs = ListenSpecs::open(&listens, number("threads"), number("connections"), &settings.tuned)?;
    let tuned = settings.tuned;
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
        tuned.warn();
    };
    let (matches, name) = (matches.clone(), OnceLock::new());
    let exchanges = ConcurrencyLimit::new(number("exchanges"));
    let reload = tls.as_ref().and_then(ServerTls::reload);
    let security = tls.map(|tls| tls.security);
    let transports = transports.clone();
    specs.run(announce, move |specs, worker| {
        let settings = Settings::read(&matches, &listens, &transports)?;
        let mut settings = Settings { exchanges: exchanges.clone(), ..settings };
        // All threads share one memory account. It covers the associations with clients and with servers, and the data
        // queued between them.
        settings.tuned.share_memory(&memory);
        settings.memory = Some(memory.clone());
        settings.trust = trust.clone();
        let ended = os::run(busy_poll::options(&matches), async |world| {
            // The gateway's name in `Via` fields is random, so that no other gateway is likely to have it.
            let new = || format!("anabranch-{:016x}", world.rng("gateway").next_u64());
            let name = name.get_or_init(new).clone();
            let servers = Servers::new(worker, settings.grace)?;
            let mut servers = servers.with_security(security.clone(), None);
            if let Some(reload) = reload.clone() {
                servers = servers.with_reload(reload)?;
            }
            run_gateway(world.clone(), specs, Settings { name, ..settings }, servers).await
        });
        ended.map_err(|error| Failure::Host(format!("no network here: {error}")))?
    })
}

fn dry_run(matches: &ArgMatches, listens: &[Listen], settings: &Settings) -> String {
    let mut out = String::new();
    for listen in listens {
        out += &format!("listen: {listen}\n");
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
    out += &format!("carries: {}\n", settings.mode.describe());
    out + &dry_run::flags(matches, &names) + &format!("log: {log}\n") + &settings.tuned.lines()
}

/// The destination to which requests are forwarded.
enum ForwardingMode {
    /// Any server that the rules allow.
    Anywhere(Rules),
    /// Another gateway, to which all requests are forwarded. If there are rules, the requests must satisfy them first.
    Via(Url, Option<Rules>),
    /// One fixed server.
    Origin(Url),
}

struct Settings {
    mode: ForwardingMode,
    /// The certificates that are accepted from servers over TLS and DTLS.
    trust: Trust,
    /// Whether SCTP over DTLS omits the SCTP checksum if the peer agrees (RFC 9653).
    unsummed: bool,
    trusted_proxies: Vec<Network>,
    tuned: Tuned,
    /// The memory account that all sessions share.
    memory: Option<Budget>,
    sctp_port: u16,
    /// The name by which this gateway identifies itself. It is the same in all threads.
    name: String,
    connect: Duration,
    idle: Duration,
    head_timeout: Duration,
    max_head: usize,
    exchanges: ConcurrencyLimit,
    log: Option<Log>,
    grace: Duration,
}

impl Settings {
    fn read(matches: &ArgMatches, listens: &[Listen], transports: &Transports) -> Result<Self, Failure> {
        let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
        let span = |name: &str| -> Result<Duration, Failure> {
            parse_duration(text(name))
                .map_err(|error| Failure::Usage(format!("--{name} {}: {error}", text(name))))
        };
        let number = |name: &str| matches.get_one::<u16>(name).copied().unwrap_or(1);
        let max_head_size: Bytes = text("max-header")
            .parse()
            .map_err(|error| Failure::Usage(format!("--max-header {}: {error}", text("max-header"))))?;
        let max_head = usize::try_from(max_head_size.0).ok().filter(|most| HEADS.contains(most));
        let max_head = max_head
            .ok_or_else(|| Failure::Usage(format!("--max-header {}: 1KiB to 1MiB", text("max-header"))))?;
        let needs = Needs {
            streams: Some(StreamNeed::Grant(number("streams"))),
            cancels: true,
            detects_dead_peers: true,
            fair: true,
            unsent: Some(memory::UNSENT),
        };
        let onward = ForwardingMode::read(matches, transports)?;
        let schemes = listens.iter().map(|listen| &listen.scheme).chain(onward.scheme());
        let tuned = Tuned::read(matches, transports, schemes, &needs)?;
        let proxies = matches.get_many::<String>("trusted-proxy").into_iter().flatten();
        let trusted_proxies = proxies
            .map(|text| {
                text.parse().map_err(|error| Failure::Usage(format!("--trusted-proxy {text}: {error}")))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            mode: onward,
            trust: Trust::default(),
            unsummed: secure::is_unsummed(matches)?,
            trusted_proxies,
            tuned,
            memory: None,
            sctp_port: number("sctp-port"),
            name: String::new(),
            connect: span("connect-timeout")?,
            idle: span("idle")?,
            head_timeout: span("header-timeout")?,
            max_head,
            exchanges: ConcurrencyLimit::new(usize::from(number("exchanges"))),
            log: (!matches.get_flag("quiet")).then(|| Log::new(log)),
            grace: span("grace")?,
        })
    }

    fn options(&self, stop: &Stop, secure: bool, sessions: ConcurrencyLimit) -> Options {
        let route = match &self.mode {
            ForwardingMode::Origin(url) => Route::Origin(origin(url)),
            _ => Route::Any,
        };
        Options {
            route,
            trusted_proxies: self.trusted_proxies.clone(),
            half_close: true,
            secure,
            name: self.name.clone(),
            idle: self.idle,
            head_timeout: self.head_timeout,
            max_head: self.max_head,
            sessions,
            exchanges: self.exchanges.clone(),
            wall_clock: Some(unix_seconds),
            memory: self.memory.clone(),
            log: self.log.clone(),
            faults: Some(Faults::new(complain)),
            stop: stop.clone(),
        }
    }

    /// Returns the server of `url` as a target, with the settings of its transport.
    fn target(&self, url: &Url) -> Result<Target, Failure> {
        let security = match url.scheme.is_secure() {
            true => {
                let security = secure::client_for(self.trust.clone(), NegotiatedProtocol::Http(VERSION));
                Some(security.map_err(Failure::Host)?.with_zero_checksum(self.unsummed))
            }
            false => None,
        };
        Ok(Target {
            scheme: url.scheme.clone(),
            addresses: url.resolve().map_err(Failure::Host)?,
            name: url.host().to_owned(),
            inner_port: self.sctp_port,
            settings: self.tuned.of(&url.scheme)?,
            security,
            logs: None,
        })
    }
}

impl ForwardingMode {
    fn read(matches: &ArgMatches, transports: &Transports) -> Result<Self, Failure> {
        let mut rules = Vec::new();
        for text in matches.get_many::<String>("allow").into_iter().flatten() {
            let rule: Rule =
                text.parse().map_err(|error| Failure::Usage(format!("--allow {text}: {error}")))?;
            rules.push(rule);
        }
        let url = |name: &str| -> Result<Option<Url>, Failure> {
            let Some(text) = matches.get_one::<String>(name) else { return Ok(None) };
            let url = Url::parse(text, transports);
            let url = url.map_err(|error| Failure::Usage(format!("--{name} {error}")))?;
            if url.scheme.http() == Some(Http::Http3) {
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
            (Some(via), _, _) if via.scheme.http() != Some(Http::StreamPairs) => Err(Failure::Usage(
                format!("--via {}: must be http+sctp://, https+sctp:// or http+sctp-ip://", via.text),
            )),
            (Some(via), _, allowed) => Ok(Self::Via(via, allowed)),
            (None, Some(origin), _) => Ok(Self::Origin(origin)),
            (None, None, Some(rules)) => Ok(Self::Anywhere(rules)),
            (None, None, None) => Err(Failure::Usage(
                "no target is permitted: use --allow RULE, --via GATEWAY or --origin SERVER (see --help)"
                    .to_owned(),
            )),
        }
    }

    /// The scheme of the server to which requests are forwarded; `None` if it depends on the target of each request.
    fn scheme(&self) -> Option<&UrlScheme> {
        match self {
            Self::Anywhere(_) => None,
            Self::Via(url, _) | Self::Origin(url) => Some(&url.scheme),
        }
    }

    /// Rejects flags that would have no effect with this destination.
    fn check_flags(&self, matches: &ArgMatches) -> Result<(), Failure> {
        if self.scheme().is_none_or(UrlScheme::is_secure) {
            return Ok(());
        }
        let flag = match matches.get_one::<String>("trust") {
            Some(file) => format!("--trust {file}"),
            None if matches.get_flag("insecure") => "--insecure".to_owned(),
            None => return Ok(()),
        };
        let message = "this gateway reaches nothing over TLS; write https:// or https+sctp://";
        Err(Failure::Usage(format!("{flag}: {message}")))
    }

    /// Returns the certificates to accept from servers. If all requests go to a single server, also checks that a TLS
    /// client can be created with these certificates.
    fn trust(&self, matches: &ArgMatches) -> Result<Trust, Failure> {
        let trust = match self.scheme() {
            Some(scheme) if !scheme.is_secure() => return Ok(Trust::default()),
            _ => secure::trust(matches)?,
        };
        if self.scheme().is_some() {
            secure::client_for(trust.clone(), NegotiatedProtocol::Http(VERSION)).map_err(Failure::Host)?;
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
    Origin::new(authority, url.scheme.is_secure())
}

/// Describes the traffic that anybody on the path can read; `None` if all traffic is encrypted.
fn unencrypted_traffic(listens: &[Listen], onward: &ForwardingMode) -> Option<String> {
    let on = onward.scheme();
    let targets = if on.is_none() { vec!["http"] } else { Vec::new() };
    let schemes = listens.iter().map(|listen| &listen.scheme).chain(on);
    let mut cleartext_schemes: Vec<&str> =
        schemes.clone().filter(|one| !one.is_secure()).map(UrlScheme::url).collect();
    cleartext_schemes.extend(targets);
    let mut seen = BTreeSet::new();
    cleartext_schemes.retain(|scheme| seen.insert(*scheme));
    match cleartext_schemes.as_slice() {
        [] => None,
        _ if !schemes.clone().any(UrlScheme::is_secure) => Some("traffic".to_owned()),
        some => Some(format!("traffic of {}://", some.join(":// and "))),
    }
}

async fn run_gateway(
    world: OsWorld,
    specs: Vec<ListenSpec>,
    settings: Settings,
    servers: Servers,
) -> Result<Completion, Failure> {
    let world = world.with_kernel(memory::kernel());
    let trust = settings.trust.clone();
    // Opens the key log now, because the process later gives up privileges that it may need to open the file.
    let _ = key_log();
    let load_security = move || secure::client_for(trust.clone(), NegotiatedProtocol::Http(VERSION));
    let web = Web { world: world.clone(), security: OnceCell::new(), load_security: Box::new(load_security) };
    let connect = settings.connect;
    let gateway = PreparedGateway { world: world.clone(), specs, settings: &settings, servers };
    match &settings.mode {
        ForwardingMode::Anywhere(rules) => {
            let origins = Rc::new(Origins::new(&world, None, rules.clone(), connect, web));
            let pool = origins.clone();
            let on_listening = move |servers: &Servers| pool.never_reach(&servers.listening(uses_kernel_tcp));
            gateway.listen(origins, on_listening).await
        }
        ForwardingMode::Origin(url) if url.scheme.is_registered() => {
            let origins = Origins::new(&world, Some(origin(url)), Rules::default(), connect, web);
            let origins = Rc::new(origins);
            let pool = origins.clone();
            let on_listening = move |servers: &Servers| pool.never_reach(&servers.listening(uses_kernel_tcp));
            gateway.listen(origins, on_listening).await
        }
        ForwardingMode::Origin(url) | ForwardingMode::Via(url, _) => {
            let target = settings.target(url)?;
            let addresses = target.addresses.clone();
            let dialed = dial(&world, target, None).await;
            let dialed = dialed.map_err(|error| dial::failure(&url.scheme, error))?;
            let peer = match &settings.mode {
                ForwardingMode::Via(_, rules) => Peer::Gateway(rules.clone()),
                _ => Peer::Origin(origin(url)),
            };
            let mut gateway = gateway;
            gateway.servers.also_close(dialed.host.clone());
            let count = dialed.servers.len();
            if url.scheme.http() == Some(Http::OneStream) {
                let connector = dialed.connector().map_err(|error| dial::failure(&url.scheme, error))?;
                let server = OneServer::new(&world, connector, count, connect);
                return gateway.listen(Rc::new(server), |_| {}).await;
            }
            let scheme = url.scheme.clone();
            let ended = dialed.with(ForwardToPeer { gateway, scheme, addresses, count, peer, connect });
            ended.map_err(|error| dial::failure(&url.scheme, error))?.await
        }
    }
}

/// Whether a listener of `scheme` uses the kernel's TCP. The gateway connects to origins over TCP, so only such a
/// listener could make it connect to itself.
fn uses_kernel_tcp(scheme: &UrlScheme) -> bool {
    scheme.can().kernel
}

/// Opens connections to origins over TCP, and to `https` origins over TLS.
struct Web {
    world: OsWorld,
    /// The TLS settings for connections to origins. They are created on first use, because loading the certificates of
    /// authorities takes time.
    security: OnceCell<Result<ClientSecurity, String>>,
    load_security: Box<dyn Fn() -> Result<ClientSecurity, String>>,
}

impl Web {
    /// Returns the TLS settings for connections to `to`; `None` if these connections are not encrypted.
    fn security(&self, to: &Origin) -> Result<Option<&ClientSecurity>, ReachError> {
        if !to.secure {
            return Ok(None);
        }
        let security = self.security.get_or_init(|| (self.load_security)());
        security.as_ref().map(Some).map_err(|error| ReachError::NoTrust(error.clone()))
    }
}

impl Dial for Web {
    type Connector = StreamConnector<OsWorld>;

    fn check(&self, to: &Origin) -> Result<(), ReachError> {
        self.security(to).map(|_| ())
    }

    fn connector(&self, to: &Origin, addresses: Vec<SocketAddr>) -> Result<Self::Connector, ReachError> {
        let tls = self.security(to)?.map(|security| (security, to.authority.host.as_str()));
        StreamConnector::new(&self.world, addresses, tls)
            .map_err(|error| ReachError::Closed(CloseReason::Untrusted(error)))
    }
}

/// The parts of a gateway that all its forwarding modes share. Its listeners are not open yet.
struct PreparedGateway<'a> {
    world: OsWorld,
    specs: Vec<ListenSpec>,
    settings: &'a Settings,
    servers: Servers,
}

/// Forwards requests to one peer, with each exchange on a stream of its own.
struct ForwardToPeer<'a> {
    gateway: PreparedGateway<'a>,
    scheme: UrlScheme,
    /// The addresses of the peer to which requests are forwarded.
    addresses: Vec<SocketAddr>,
    count: usize,
    peer: Peer,
    connect: Duration,
}

impl<'a> WithConnector for ForwardToPeer<'a> {
    type Out = Pin<Box<dyn Future<Output = Result<Completion, Failure>> + 'a>>;

    fn on<C: Connector>(self, connector: C) -> Self::Out {
        let Self { gateway, scheme, addresses, count, peer, connect } = self;
        let associations = Associations::new(&gateway.world, connector, count, peer, connect);
        let associations = Rc::new(associations);
        let pool = associations.clone();
        let on_listening = move |servers: &Servers| {
            let is_same_transport = |other: &UrlScheme| {
                other.transport().name() == scheme.transport().name()
                    && other.needs_raw_sockets() == scheme.needs_raw_sockets()
            };
            pool.never_reach(&addresses, &servers.listening(is_same_transport));
        };
        Box::pin(gateway.listen(associations, on_listening))
    }
}

impl PreparedGateway<'_> {
    /// Opens the listeners, and forwards the requests of their clients to `upstream` until a signal ends the gateway.
    /// Calls the function `on_listening` once all listeners are open.
    async fn listen<U: Upstream>(
        self,
        upstream: Rc<U>,
        on_listening: impl FnOnce(&Servers),
    ) -> Result<Completion, Failure> {
        let Self { world, specs, settings, mut servers } = self;
        let stop = Stop::new();
        for spec in specs {
            let secure = spec.address.scheme.is_secure();
            for opened in servers.open(&world, spec, &settings.tuned, settings.sctp_port).await? {
                let Opened { listening, scheme, limit } = opened;
                let half_close = scheme.can().half_close;
                let options = Options { half_close, ..settings.options(&stop, secure, limit) };
                let (world, upstream) = (listening.world.clone(), upstream.clone());
                let listening = listening.with(Gateway { world: world.clone(), upstream, options });
                servers.start(&world, listening);
            }
        }
        on_listening(&servers);
        servers.ready();
        servers.run_until_signal(&world, &stop, settings.grace).await
    }
}

/// Runs the gateway on a listener.
struct Gateway<U> {
    world: OsWorld,
    upstream: Rc<U>,
    options: Options,
}

impl<U: Upstream> WithListener for Gateway<U> {
    type Out = Pin<Box<dyn Future<Output = Result<(), CloseReason>>>>;

    fn on<L: Listener>(self, listener: L) -> Self::Out {
        Box::pin(anabranch_gateway::run(self.world, listener, self.upstream, self.options))
    }
}

/// The only version of HTTP that the gateway offers in TLS. The gateway forwards the bytes of a body as they arrive.
/// With HTTP/2, it would have to decode frames first.
const VERSION: Option<&str> = Some("1.1");
/// The accepted limits for the size of a request head, in bytes. A smaller limit would reject requests that ordinary
/// clients send.
const HEADS: RangeInclusive<usize> = 1 << 10..=1 << 20;
