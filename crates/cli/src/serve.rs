//! `anabranch serve`: serves a directory over TCP, SCTP and HTTP/3.

use crate::clock::now;
use crate::knobs::Tuned;
use crate::listen::{ListenSpec, Opened, Servers};
use crate::secure::{NegotiatedProtocol, ServerTls};
use crate::threads::ListenSpecs;
use crate::url::Listen;
use crate::{Completion, Failure, busy_poll, complain, dry_run, memory, qlog, say, secure};
use anabranch_base::units::{Bytes, parse_duration};
use anabranch_http::observe::Recorder;
use anabranch_http::serve::files::FileSite;
use anabranch_http::serve::{self, Access, Log, Names, Options, OwnOrigins, Redirected, Stop, Versions};
use anabranch_transport::network::{Needs, StreamNeed};
use anabranch_transport::{CloseReason, Http, Listener};
use anabranch_transports::os::WithListener;
use anabranch_transports::security::ServerSecurity;
use anabranch_transports::{Transports, UrlScheme};
use anabranch_world::os::{self, OsWorld};
use clap::ArgMatches;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

/// Serves the directory until a signal ends the process.
pub fn run(matches: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
    let directory = matches.get_one::<String>("directory").map_or(".", String::as_str);
    let site = FileSite::new(Path::new(directory))
        .map_err(|error| Failure::Usage(format!("{directory}: {error}; expected a directory")))?;
    let mut listens = Vec::new();
    for text in matches.get_many::<String>("listen").into_iter().flatten() {
        listens.push(Listen::parse(text, transports).map_err(Failure::Usage)?);
    }
    let redirects = matches.get_flag("redirect");
    for secure in [false, true].into_iter().filter(|_| redirects) {
        let is_of_kind = |scheme: &UrlScheme| scheme.is_registered() && scheme.is_secure() == secure;
        if !listens.iter().any(|listen| is_of_kind(&listen.scheme)) {
            let scheme = transports.schemes().into_iter().find(is_of_kind).map_or("", |scheme| scheme.name());
            let message =
                format!("--redirect: from tcp:// to https://; add --listen {scheme}://ADDRESS[:PORT]");
            return Err(Failure::Usage(message));
        }
    }
    let settings = Settings::read(matches, &listens, transports)?;
    let memory = memory::budget(matches, &listens)?;
    drop(site);
    if matches.get_flag("dry-run") {
        settings.tuned.warn();
        say(&dry_run(matches, directory, &listens, &settings))?;
        return Ok(Completion::Well);
    }
    let tls = secure::server(matches, &listens, NegotiatedProtocol::Http(None))?;
    let logs = qlog::log_destination(matches, listens.iter().map(|listen| &listen.scheme))?;
    let number = |name: &str| matches.get_one::<u16>(name).copied().map_or(1, usize::from);
    let (matches, shown) = (matches.clone(), directory.to_owned());
    let specs = ListenSpecs::open(&listens, number("threads"), number("connections"), &settings.tuned)?;
    let cleartext_schemes: Vec<&str> = listens
        .iter()
        .map(|listen| &listen.scheme)
        .filter(|one| !one.is_secure())
        .map(UrlScheme::url)
        .collect();
    let cleartext_traffic = match cleartext_schemes.as_slice() {
        [] => None,
        _ if cleartext_schemes.len() == listens.len() => Some("traffic".to_owned()),
        some => Some(format!("traffic of {}://", some.join(":// and "))),
    };
    let certificate = tls.as_ref().map(|tls| tls.description.clone());
    let announce = move |urls: &[String]| {
        complain(&format!("serving {shown} on {}", urls.join(" ")));
        if let Some(cleartext_traffic) = &cleartext_traffic {
            complain(&format!(
                "{cleartext_traffic} is in the clear: anyone on the path can read and change it"
            ));
        }
        if let Some(certificate) = &certificate {
            complain(certificate);
        }
        settings.tuned.warn();
    };
    let directory = directory.to_owned();
    let reload = tls.as_ref().and_then(ServerTls::reload);
    let security = tls.map(|tls| tls.security);
    let transports = transports.clone();
    // A client may know this host by any name, and a self-signed certificate cannot list them all. Requested host names
    // are therefore checked only against a certificate that the user gave.
    let has_certificate = matches.get_one::<String>("cert").is_some();
    specs.run(announce, move |specs, worker| {
        let site = FileSite::new(Path::new(&directory))
            .map_err(|error| Failure::Host(format!("{directory}: {error}")))?
            .with_dotfiles(matches.get_flag("dotfiles"));
        let mut settings = Settings::read(&matches, &listens, &transports)?;
        // All threads share one memory account.
        settings.options.memory = Some(memory.clone());
        settings.tuned.share_memory(&memory);
        let own = security.clone().filter(|_| has_certificate);
        let served = os::run(busy_poll::options(&matches), async |world| {
            let servers = Servers::new(worker, settings.grace)?;
            let mut servers = servers.with_security(security.clone(), logs.clone());
            if let Some(reload) = reload.clone() {
                servers = servers.with_reload(reload)?;
            }
            serve(world, site, specs, settings, servers, own, redirects).await
        });
        served.map_err(|error| Failure::Host(format!("cannot serve here: {error}")))?
    })
}

fn dry_run(matches: &ArgMatches, directory: &str, listens: &[Listen], settings: &Settings) -> String {
    let dotfiles = if matches.get_flag("dotfiles") { "served" } else { "only /.well-known/" };
    let mut out = format!("directory: {directory}\ndotfiles: {dotfiles}\n");
    for listen in listens {
        out += &format!("listen: {listen}\n");
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
    out + &settings.tuned.lines()
}

struct Settings {
    tuned: Tuned,
    sctp_port: u16,
    options: Options,
    grace: Duration,
}

impl Settings {
    fn read(matches: &ArgMatches, listens: &[Listen], transports: &Transports) -> Result<Self, Failure> {
        let span = |name: &str| -> Result<Duration, Failure> {
            let text = matches.get_one::<String>(name).map_or("", String::as_str);
            parse_duration(text).map_err(|error| Failure::Usage(format!("--{name} {text}: {error}")))
        };
        let number = |name: &str| matches.get_one::<u16>(name).copied().unwrap_or(1);
        let text = matches.get_one::<String>("max-header").map_or("", String::as_str);
        let max_head_size: Bytes =
            text.parse().map_err(|error| Failure::Usage(format!("--max-header {text}: {error}")))?;
        let most_head = usize::try_from(max_head_size.0).ok().filter(|most| (1..=1 << 20).contains(most));
        let most_head =
            most_head.ok_or_else(|| Failure::Usage(format!("--max-header {text}: must be 1 B to 1 MiB")))?;
        let needs = Needs {
            streams: Some(StreamNeed::Grant(number("streams"))),
            cancels: true,
            unsent: Some(memory::UNSENT),
            ..Needs::default()
        };
        let schemes = listens.iter().map(|listen| &listen.scheme);
        let tuned = Tuned::read(matches, transports, schemes, &needs)?;
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
        Ok(Self { tuned, sctp_port: number("sctp-port"), options, grace })
    }
}

async fn serve(
    world: OsWorld,
    site: FileSite,
    specs: Vec<ListenSpec>,
    settings: Settings,
    mut servers: Servers,
    // The TLS settings with a certificate that the user gave; `None` if the certificate is self-signed.
    own: Option<ServerSecurity>,
    redirects: bool,
) -> Result<Completion, Failure> {
    let stop = settings.options.stop.clone().unwrap_or_default();
    let mut opened = Vec::new();
    for spec in specs {
        opened.extend(servers.open(&world, spec, &settings.tuned, settings.sctp_port).await?);
    }
    let https = if redirects { servers.https_port() } else { None };
    let site = Rc::new(site);
    let clear = Rc::new(Redirected { site: site.clone(), https, http3: None });
    // RFC 9114 §3.1.1: responses over TLS advertise HTTP/3, and responses over HTTP/3 repeat the advertisement.
    let secure = Rc::new(Redirected { site: site.clone(), https: None, http3: servers.http3_port() });
    let site = Rc::new(Redirected { site, https: None, http3: None });
    for Opened { listening, scheme, limit } in opened {
        let is_secure = scheme.is_secure();
        let names = own.as_ref().and_then(|own| own.names(&scheme)).map(Names::new);
        let versions = match scheme.http() {
            Some(Http::Http3) => Versions::Http3,
            _ => settings.options.versions,
        };
        let site = match scheme.http() {
            Some(Http::Http3) => secure.clone(),
            Some(Http::OneStream) if is_secure => secure.clone(),
            _ if scheme.is_registered() => clear.clone(),
            _ => site.clone(),
        };
        let options = Options {
            sessions: Some(limit),
            own_origins: Some(OwnOrigins { secure: is_secure, names }),
            versions,
            ..settings.options.clone()
        };
        let server = ServeSite { world: listening.world.clone(), site, options };
        let server = listening.with(server);
        servers.start(&world, server);
    }
    servers.ready();
    servers.run_until_signal(&world, &stop, settings.grace).await
}

/// Serves a site on a listener.
struct ServeSite {
    world: OsWorld,
    site: Rc<Redirected<FileSite>>,
    options: Options,
}

impl WithListener for ServeSite {
    type Out = Pin<Box<dyn Future<Output = Result<(), CloseReason>>>>;

    fn on<L: Listener>(self, listener: L) -> Self::Out {
        Box::pin(serve::run(self.world, listener, self.site, self.options, Recorder::default()))
    }
}

/// Prints a request in the Common Log Format.
pub fn log(access: &Access) {
    let peer = access.peer.map_or_else(|| "-".to_owned(), |peer| peer.ip().to_string());
    // Converts for example `Sun, 06 Nov 1994 08:49:37 GMT` to `06/Nov/1994:08:49:37 +0000`.
    let date = httpdate::fmt_http_date(now());
    let date = date.get(5..25).unwrap_or_default().replacen(' ', "/", 2).replacen(' ', ":", 1);
    let (method, target) = (&access.method, access.target.escape_default());
    let (version, status, bytes) = (access.version, access.status, access.bytes);
    // An error is ignored, because the reader may have closed the pipe.
    let _ = say(&format!("{peer} - - [{date} +0000] \"{method} {target} {version:?}\" {status} {bytes}\n"));
}

/// The current time in seconds since the Unix epoch.
pub fn unix_seconds() -> u64 {
    now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
