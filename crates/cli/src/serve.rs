//! `anabranch serve`: serves a directory over TCP, SCTP and HTTP/3.

use crate::dial::http3::Http3Server;
use crate::listen::{ListenSpec, Opened, Servers};
use crate::place::{self, Carrier, Listen};
use crate::secure::{ServerTls, Spoken};
use crate::threads::ListenSpecs;
use crate::{Done, Failure, busy_poll, complain, dry_run, knobs, memory, qlog, say, secure};
use anabranch_base::units::{Bytes, parse_span};
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_http::observe::Recorder;
use anabranch_http::serve::files::FileSite;
use anabranch_http::serve::{self, Access, Log, Names, Options, OwnOrigins, Redirected, Stop, Versions};
use anabranch_tls::Shared;
use anabranch_transport::ListenError;
use anabranch_transport::sctp::Config;
use anabranch_world::os::{self, OsWorld};
use clap::ArgMatches;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Serves the directory until a signal ends the process.
pub fn run(matches: &ArgMatches) -> Result<Done, Failure> {
    let directory = matches.get_one::<String>("directory").map_or(".", String::as_str);
    let site = FileSite::new(Path::new(directory))
        .map_err(|why| Failure::Usage(format!("{directory}: {why}; expected a directory")))?;
    let mut places = Vec::new();
    for text in matches.get_many::<String>("listen").into_iter().flatten() {
        places.push(Listen::parse(text).map_err(Failure::Usage)?);
    }
    let redirects = matches.get_flag("redirect");
    for secure in [false, true].into_iter().filter(|_| redirects) {
        let so = |carrier: Carrier| carrier.is_kernels() && carrier.is_secure() == secure;
        if !places.iter().any(|place| so(place.carrier)) {
            let scheme = place::kernels_scheme(secure);
            let message =
                format!("--redirect: from tcp:// to https://; add --listen {scheme}://ADDRESS[:PORT]");
            return Err(Failure::Usage(message));
        }
    }
    let settings = Settings::read(matches, &places)?;
    let memory = memory::budget(matches, &places)?;
    drop(site);
    if matches.get_flag("dry-run") {
        knobs::warn(&settings.sctp);
        say(&dry_run(matches, directory, &places, &settings))?;
        return Ok(Done::Well);
    }
    let tls = secure::server(matches, &places, Spoken::Http(None))?;
    let logs = qlog::given(matches, places.iter().map(|place| place.carrier))?;
    let number = |name: &str| matches.get_one::<u16>(name).copied().map_or(1, usize::from);
    let (matches, shown) = (matches.clone(), directory.to_owned());
    let specs = ListenSpecs::open(&places, number("threads"), number("connections"))?;
    let open: Vec<&str> = places
        .iter()
        .map(|place| place.carrier)
        .filter(|one| !one.is_secure())
        .map(Carrier::scheme)
        .collect();
    let open = match open.as_slice() {
        [] => None,
        _ if open.len() == places.len() => Some("traffic".to_owned()),
        some => Some(format!("traffic of {}://", some.join(":// and "))),
    };
    let certificate = tls.as_ref().map(|tls| tls.shown.clone());
    let announce = move |urls: &[String]| {
        complain(&format!("serving {shown} on {}", urls.join(" ")));
        if let Some(open) = &open {
            complain(&format!("{open} is in the clear: anyone on the path can read and change it"));
        }
        if let Some(certificate) = &certificate {
            complain(certificate);
        }
        knobs::warn(&settings.sctp);
    };
    let directory = directory.to_owned();
    let reload = tls.as_ref().and_then(ServerTls::reload);
    let (tls, http3, dtls) = tls.map_or((None, None, None), |tls| (tls.server, tls.http3, tls.dtls));
    let [shared, http3] = [tls, http3].map(|server| server.map(|server| server.shared()));
    // A client may know this host by any name, and a self-signed certificate cannot list them all. So requested host names
    // are checked only against a certificate that the user gave.
    let given = matches.get_one::<String>("cert").is_some();
    specs.run(announce, move |specs, worker| {
        let site = FileSite::new(Path::new(&directory))
            .map_err(|why| Failure::Host(format!("{directory}: {why}")))?
            .with_dotfiles(matches.get_flag("dotfiles"));
        let mut settings = Settings::read(&matches, &places)?;
        // All threads share one memory account.
        (settings.sctp.memory, settings.options.memory) = (Some(memory.clone()), Some(memory.clone()));
        settings.quic.memory = Some(memory.clone());
        let own = Certified {
            tls: shared.as_ref().filter(|_| given).map(names_of),
            http3: http3.as_ref().filter(|_| given).map(names_of),
            dtls: dtls
                .clone()
                .filter(|_| given)
                .map(|dtls| Names::new(move |host| dtls.identity.names(host))),
        };
        let served = os::run(busy_poll::options(&matches), async |world| {
            let tls = shared.clone().map(Shared::server);
            let mut servers = Servers::new(worker, settings.grace)?.with_tls(tls, dtls.clone());
            let (config, logs) = (settings.quic.clone(), logs.clone());
            let http3 = http3.clone().map(Shared::server);
            servers = servers.with_http3(http3.map(|server| Http3Server { server, config, logs }));
            if let Some(reload) = reload.clone() {
                servers = servers.with_reload(reload)?;
            }
            serve(world, site, specs, settings, servers, own, redirects).await
        });
        served.map_err(|why| Failure::Host(format!("cannot serve here: {why}")))?
    })
}

fn dry_run(matches: &ArgMatches, directory: &str, places: &[Listen], settings: &Settings) -> String {
    let dotfiles = if matches.get_flag("dotfiles") { "served" } else { "only /.well-known/" };
    let mut out = format!("directory: {directory}\ndotfiles: {dotfiles}\n");
    for place in places {
        out += &format!("listen: {place}\n");
    }
    let names = [
        "sctp-port",
        "key-file",
        "cert",
        "key",
        "qlog",
        "connections",
        "memory",
        "streams",
        "threads",
        "busy-poll",
        "max-header",
        "header-timeout",
        "idle",
        "grace",
    ];
    let log = if settings.options.log.is_some() { "standard output" } else { "none" };
    out += if matches.get_flag("redirect") { "redirect: from tcp:// to https://\n" } else { "" };
    out += &(dry_run::flags(matches, &names) + &format!("log: {log}\n"));
    out + &dry_run::both_knobs(places.iter().map(|place| place.carrier), &settings.sctp, &settings.quic)
}

struct Settings {
    sctp: Config,
    quic: anabranch_quic::Config,
    sctp_port: u16,
    options: Options,
    grace: Duration,
}

impl Settings {
    fn read(matches: &ArgMatches, places: &[Listen]) -> Result<Self, Failure> {
        let span = |name: &str| -> Result<Duration, Failure> {
            let text = matches.get_one::<String>(name).map_or("", String::as_str);
            parse_span(text).map_err(|why| Failure::Usage(format!("--{name} {text}: {why}")))
        };
        let number = |name: &str| matches.get_one::<u16>(name).copied().unwrap_or(1);
        let text = matches.get_one::<String>("max-header").map_or("", String::as_str);
        let head: Bytes =
            text.parse().map_err(|why| Failure::Usage(format!("--max-header {text}: {why}")))?;
        let most_head = usize::try_from(head.0).ok().filter(|most| (1..=1 << 20).contains(most));
        let most_head =
            most_head.ok_or_else(|| Failure::Usage(format!("--max-header {text}: must be 1 B to 1 MiB")))?;
        let set = knobs::divided(matches, places.iter().map(|place| place.carrier))?;
        let mut quic = knobs::quic(&set.quic)?;
        if !set.quic.iter().any(|(key, _)| key == "streams") {
            quic.streams = number("streams").into();
        }
        let set = set.sctp;
        let mut sctp = knobs::sctp(matches, &set)?;
        knobs::streams(&mut sctp, &set, number("streams"));
        // When an exchange is abandoned, its stream is reset instead of closing the association (RFC 6525).
        sctp.reconfig |= !set.iter().any(|(key, _)| key == "reconfig");
        let options = Options {
            idle_timeout: Some(span("idle")?),
            head_timeout: Some(span("header-timeout")?),
            wall_clock: Some(unix_seconds),
            max_head: Some(most_head),
            log: (!matches.get_flag("quiet")).then(|| Log::new(log)),
            stop: Some(Stop::new()),
            versions: Versions::Both,
            ..Options::default()
        };
        let grace = span("grace")?;
        Ok(Self { sctp, quic, sctp_port: number("sctp-port"), options, grace })
    }
}

/// The default SCTP configuration of `serve`, `get`, `gateway`, `load` and `bulk`, which follows current stacks. Bursts of
/// at most four packets, which RFC 9260 recommends, would triple the CPU cost on a fast link.
pub fn config() -> Result<Config, Failure> {
    let mut config = Config::profile("modern")
        .ok_or_else(|| Failure::Internal("there is no profile modern".to_owned()))?;
    // Real networks lose ICMP messages (RFC 8899 §1.1). Without black-hole detection, a path whose MTU is smaller than
    // that of its interface would carry the handshake and nothing else.
    config
        .prefer("pmtud", "blackhole", "RFC 8899 §1.1: real networks lose ICMP messages")
        .map_err(|why| Failure::Internal(why.to_string()))?;
    Ok(config)
}

/// Explains why this host does not permit listening (at `port`, if it is given) or sending, and says what would help.
pub fn reason(carrier: Carrier, port: Option<u16>, why: &io::Error) -> String {
    match (carrier.is_on_ip(), why.kind()) {
        (_, io::ErrorKind::AddrInUse) if port.is_some() => {
            ListenError::PortInUse(port.unwrap_or_default()).to_string()
        }
        (true, io::ErrorKind::PermissionDenied) => {
            format!("{why}: raw sockets need root or CAP_NET_RAW; SCTP in UDP needs neither")
        }
        (_, io::ErrorKind::PermissionDenied) if port.is_some_and(|port| port < 1024) => {
            format!("{why}: ports below 1024 need root or CAP_NET_BIND_SERVICE; write a higher one")
        }
        _ => why.to_string(),
    }
}

async fn serve(
    world: OsWorld,
    site: FileSite,
    specs: Vec<ListenSpec>,
    settings: Settings,
    mut servers: Servers,
    own: Certified,
    redirects: bool,
) -> Result<Done, Failure> {
    let world = world.with_kernel(memory::kernel());
    let stop = settings.options.stop.clone().unwrap_or_default();
    let mut opened = Vec::new();
    for spec in specs {
        let is_secure = spec.is_secure();
        let here = servers.open(&world, spec, &settings.sctp, settings.sctp_port).await?;
        opened.extend(here.into_iter().map(|opened| (opened, is_secure)));
    }
    let https = if redirects { servers.https_port() } else { None };
    let site = Rc::new(site);
    let clear = Rc::new(Redirected { site: site.clone(), https, http3: None });
    // RFC 9114 §3.1.1: responses over TLS advertise HTTP/3, and responses over HTTP/3 repeat the advertisement.
    let secure = Rc::new(Redirected { site: site.clone(), https: None, http3: servers.http3_port() });
    let site = Rc::new(Redirected { site, https: None, http3: None });
    for (opened, is_secure) in opened {
        let names = match &opened {
            _ if !is_secure => None,
            Opened::Kernel(..) | Opened::Secure(..) => own.tls.clone(),
            Opened::Http3(..) => own.http3.clone(),
            Opened::Ours(..) => own.dtls.clone(),
        };
        let own_origins = Some(OwnOrigins { secure: is_secure, names });
        let options = |limit: ConcurrencyLimit| Options {
            sessions: Some(limit),
            own_origins: own_origins.clone(),
            ..settings.options.clone()
        };
        match opened {
            Opened::Kernel(listener, limit) => {
                let server =
                    serve::run(world.clone(), listener, clear.clone(), options(limit), Recorder::default());
                servers.start(&world, server);
            }
            Opened::Secure(listener, limit) => {
                let server =
                    serve::run(world.clone(), listener, secure.clone(), options(limit), Recorder::default());
                servers.start(&world, server);
            }
            Opened::Http3(listener, limit) => {
                let options = Options { versions: Versions::Http3, ..options(limit) };
                let server =
                    serve::run(world.clone(), listener, secure.clone(), options, Recorder::default());
                servers.start(&world, server);
            }
            Opened::Ours(here, listener, limit) => {
                let server = serve::run(here, listener, site.clone(), options(limit), Recorder::default());
                servers.start(&world, server);
            }
        }
    }
    servers.ready();
    servers.until_told(&world, &stop, settings.grace).await
}

/// The host names in the certificate that the user gave, for each kind of listener. All are `None` with a self-signed
/// certificate.
struct Certified {
    tls: Option<Names>,
    http3: Option<Names>,
    dtls: Option<Names>,
}

fn names_of(shared: &Shared) -> Names {
    let names = shared.names();
    Names::new(move |host| names.include(host))
}

/// Prints a request in the Common Log Format.
pub fn log(access: &Access) {
    let peer = access.peer.map_or_else(|| "-".to_owned(), |peer| peer.ip().to_string());
    // Converts for example `Sun, 06 Nov 1994 08:49:37 GMT` to `06/Nov/1994:08:49:37 +0000`.
    let date = httpdate::fmt_http_date(now());
    let date = date.get(5..25).unwrap_or_default().replacen(' ', "/", 2).replacen(' ', ":", 1);
    let (method, target) = (&access.method, access.target.escape_default());
    let (version, status, bytes) = (access.version, access.status, access.bytes);
    // If the reader has closed the pipe, the line is dropped without an error.
    let _ = say(&format!("{peer} - - [{date} +0000] \"{method} {target} {version:?}\" {status} {bytes}\n"));
}

/// The current time in seconds since the Unix epoch.
pub fn unix_seconds() -> u64 {
    now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The current wall-clock time.
#[expect(clippy::disallowed_methods, reason = "dates on the wire and in the log are the wall clock's")]
pub fn now() -> SystemTime {
    SystemTime::now()
}
