//! `get --page`: fetches a document and its embedded objects into a directory, and draws a waterfall of the page load.

use super::account::{self, Fetched, LeftOut};
use super::keep::DownloadDir;
use super::meter::Meter;
use super::waterfall;
use crate::clock::now;
use crate::dial::{self, dial};
use crate::files::{self, Reserved};
use crate::knobs::Tuned;
use crate::outputs::Outputs;
use crate::paths::PathLog;
use crate::place::Url;
use crate::qlog::LogDestination;
use crate::{Done, Failure, complain, say, secure};
use anabranch_gateway::allow::Rules;
use anabranch_gateway::{Associations, Dial, Origins, Peer};
use anabranch_http::authority::{Authority, Origin};
use anabranch_http::get::Requests;
use anabranch_http::har::write::{self as har, Fetch};
use anabranch_http::http2::ALPN;
use anabranch_http::page::{Object, Page};
use anabranch_http::upstream::{OneServer, ReachError, connect_any};
use anabranch_http::visit::{HTTP1, Plan, Reach, Visit, Way, visit};
use anabranch_transport::{AnyConnector, Http, Session};
use anabranch_transports::Transports;
use anabranch_transports::os::{DialFailure, Dialed, StreamConnector, Target};
use anabranch_transports::security::ClientSecurity;
use anabranch_world::World;
use anabranch_world::os::{OsTask, OsWorld};
use std::cell::RefCell;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

/// The settings of `get --page`, read from its flags.
pub struct Asked {
    /// The URL of the document.
    pub url: Url,
    /// The directory for the bodies of the objects; `None` if the bodies are not kept.
    pub directory: Option<PathBuf>,
    /// The destination of the HAR (HTTP Archive) file.
    pub har: Har,
    /// The destinations of the JSON and CSV output.
    pub outputs: Outputs,
    /// Whether to omit the waterfall.
    pub quiet: bool,
    /// The client's security; `None` if the URL is not encrypted.
    pub tls: Option<ClientSecurity>,
    /// The version of HTTP; `None` if `--http` was not given.
    pub http: Option<String>,
    /// The timeout for connecting.
    pub connect: Duration,
    /// The timeout for an object that makes no progress.
    pub timeout: Duration,
    pub tuned: Tuned,
    pub transports: Transports,
    /// The directory for qlog files; `None` disables logging.
    pub logs: LogDestination,
    pub sctp_port: u16,
}

/// The destination of the HAR (HTTP Archive) file.
pub enum Har {
    Nowhere,
    Stdout,
    File(Reserved),
}

/// Fetches the page and writes all outputs.
pub async fn get(world: &OsWorld, asked: Asked) -> Result<Done, Failure> {
    let Asked {
        url,
        directory,
        har,
        outputs,
        quiet,
        tls,
        http,
        connect,
        timeout,
        tuned,
        transports,
        logs,
        sctp_port,
    } = asked;
    let settings = tuned.describe();
    let began = now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let start = world.now();
    let paths = PathLog::new(quiet);
    paths.begin(start);
    let meter = Meter::new();
    let shown = (!quiet).then(|| world.spawn("progress", meter.clone().show(world.clone())));
    let keeper = Rc::new(DownloadDir::new(directory, meter.clone()));
    let authority = Authority { host: url.host().to_ascii_lowercase(), port: url.port };
    let origin = Origin::new(authority.clone(), url.scheme.is_secure());
    let plan = |at_once| Plan {
        authority: authority.clone(),
        host: url.authority(),
        secure: url.scheme.is_secure(),
        start: url.target.clone(),
        at_once,
        timeout,
    };
    let mut spoken = HTTP1;
    let come = if url.scheme.is_registered() && tls.is_none() && http.as_deref() != Some("2") {
        let clear = Clear(world.clone());
        let origins = Rc::new(Origins::new(world, Some(origin), Rules::default(), connect, clear));
        visit(world, Way::Streams(origins), plan(CONNECTIONS), keeper, None).await
    } else {
        // Called if the page cannot be loaded: prints one line and records that the document failed.
        let nothing = |outputs: Outputs, why: String, line: String| {
            complain(&line);
            let (url, issued) = (url.text.clone(), Some(start));
            let objects = [Fetched { url, issued, error: Some(why), ..Fetched::default() }];
            let none = LeftOut::default();
            outputs.write(
                "",
                || {
                    account::json(
                        &objects,
                        &transports,
                        &none,
                        settings.clone(),
                        (start, start),
                        paths.fields_with_paths(),
                    )
                },
                || account::csv(&objects, &transports, start),
            )?;
            files::clean_up();
            Ok(Done::Badly)
        };
        let addresses = match url.resolve() {
            Ok(addresses) => addresses,
            Err(why) => return nothing(outputs, why.clone(), why),
        };
        let inner_port = sctp_port;
        let target = |url: &Url, addresses, security| {
            Ok::<_, Failure>(Target {
                scheme: url.scheme.clone(),
                addresses,
                name: url.host().to_owned(),
                inner_port,
                settings: tuned.of(&url.scheme)?,
                security,
                logs: logs.clone(),
            })
        };
        let security = match tls.clone() {
            None if url.scheme.is_secure() => match secure::client_by_default(None) {
                Ok(security) => Some(security),
                Err(why) => return nothing(outputs, why.clone(), why),
            },
            given => given,
        };
        let dialed = match dial(world, target(&url, addresses.clone(), security)?, Some(&paths)).await {
            Err(DialFailure::Trust(why)) => return nothing(outputs, why.clone(), why),
            dialed => dialed.map_err(|why| dial::failure(&url.scheme, why))?,
        };
        let count = dialed.servers.len();
        // If the user named a version of HTTP, the client does not switch to HTTP/3.
        let elsewhere = url.over_http3(&transports).filter(|_| http.is_none() && tls.is_some());
        let ending = Rc::new(RefCell::default());
        let reach = match elsewhere.filter(|other| other.scheme != url.scheme) {
            Some(other) => {
                let target = target(&other, addresses, tls)?;
                Some(self::elsewhere(world, target, connect, ending.clone()))
            }
            None => None,
        };
        let at_once = usize::try_from(tuned.of(&url.scheme)?.streams()).unwrap_or(usize::MAX);
        let connector = dialed.connector().map_err(|why| dial::failure(&url.scheme, why))?;
        let come = match url.scheme.http() {
            Some(Http::Http3) => over_http3(world, connector, (count, connect), plan, keeper).await,
            Some(Http::StreamPairs) => {
                let peer = Peer::Origin(origin);
                let pool = Rc::new(Associations::new(world, connector, count, peer, connect));
                let come = visit(world, Way::Streams(pool.clone()), plan(at_once), keeper, None).await;
                pool.close();
                Ok((come, HTTP1))
            }
            _ => {
                let server = OneServer::new(world, connector, count, connect);
                let http2 = http.as_deref() == Some("2");
                over_one_stream(world, server, http2, plan, (keeper, reach)).await
            }
        };
        let task = ending.borrow_mut().take();
        if let Some(task) = task {
            let _ = world.timeout(CLOSING, task).await;
        }
        let _ = world.timeout(CLOSING, dialed.host.idle()).await;
        match come {
            Ok((come, version)) => {
                spoken = version;
                come
            }
            Err(why) => {
                return nothing(outputs, why.clone(), format!("{}{}: {why}", url.origin(), url.target));
            }
        }
    };
    // Whether a connection carries one exchange at a time, as with HTTP/1.1.
    let alone = url.scheme.http() == Some(Http::OneStream) && spoken == HTTP1;
    drop(shown);
    meter.clear();
    if !quiet {
        paths.summary().lines().for_each(complain);
        let drawn = waterfall::draw(&come, start, alone);
        match har {
            _ if outputs.takes_stdout() => std::io::stderr().write_all(drawn.as_bytes()).unwrap_or(()),
            Har::Stdout => std::io::stderr().write_all(drawn.as_bytes()).unwrap_or(()),
            _ => say(&drawn)?,
        }
    }
    // Two kinds of failures are reported separately: files that cannot be written, for example because the disk is full,
    // and objects that could not be fetched.
    let text = || as_har(&url, &come, start, began.as_millis().try_into().unwrap_or(u64::MAX));
    let kept = match har {
        Har::Nowhere => Ok(()),
        Har::Stdout => say(&text()),
        Har::File(file) => file.fill(text().as_bytes()).and_then(|file| files::publish(vec![file])),
    };
    let left_out = LeftOut { count: come.left_out_count, first: come.left_out.clone() };
    let objects = account::of_visit(&url, &come);
    let end = come.objects.iter().map(|object| object.ended).max().unwrap_or(start);
    let written = outputs.write(
        "",
        || account::json(&objects, &transports, &left_out, settings, (start, end), paths.fields_with_paths()),
        || account::csv(&objects, &transports, start),
    );
    let mut unwritten: Vec<Failure> = [written, kept].into_iter().filter_map(Result::err).collect();
    let mut done = Done::Well;
    for object in &come.objects {
        if let Some(why) = &object.failure {
            complain(&format!("{}{}: {why}", url.origin(), object.target));
            done = Done::Badly;
        }
    }
    if !come.left_out.is_empty() {
        let named: Vec<_> = come.left_out.iter().take(NAMED).map(String::as_str).collect();
        let more = if come.left_out_count > NAMED { ", …" } else { "" };
        complain(&format!(
            "{} addresses of other hosts left out: {}{more}",
            come.left_out_count,
            named.join(", ")
        ));
    }
    // If every object was fetched, the last write error becomes the error of the command.
    let last = if done == Done::Well { unwritten.pop() } else { None };
    unwritten.into_iter().for_each(|failure| complain(&failure.line()));
    if let Some(failure) = last {
        return Err(failure);
    }
    if done == Done::Badly {
        files::clean_up();
    }
    Ok(done)
}

/// Opens connections to the origin of a page in the clear.
struct Clear(OsWorld);

impl Dial for Clear {
    type Connector = StreamConnector<OsWorld>;

    fn check(&self, to: &Origin) -> Result<(), ReachError> {
        let why = "a page in the clear has nothing over TLS";
        if to.secure { Err(ReachError::NoTrust(why.to_owned())) } else { Ok(()) }
    }

    fn connector(&self, _: &Origin, addresses: Vec<SocketAddr>) -> Result<Self::Connector, ReachError> {
        StreamConnector::new(&self.0, addresses, None).map_err(ReachError::NoTrust)
    }
}

/// Loads a page over sessions with one stream. Uses HTTP/2 on one session if `http2` is set or the server chooses HTTP/2;
/// otherwise HTTP/1.1 on several sessions. Returns the page and the version of HTTP.
async fn over_one_stream(
    world: &OsWorld,
    server: OneServer<OsWorld, AnyConnector>,
    http2: bool,
    plan: impl Fn(usize) -> Plan,
    (keeper, reach): (Rc<DownloadDir>, Option<Reach>),
) -> Result<(Visit, &'static str), String> {
    let (session, stream) = server.connect().await.map_err(|why| why.to_string())?;
    if !http2 && session.protocol().is_none_or(|name| name != ALPN) {
        server.keep((session, stream));
        let way = Way::Streams(Rc::new(server));
        return Ok((visit(world, way, plan(CONNECTIONS), keeper, reach).await, HTTP1));
    }
    let at_once = plan(REQUESTS);
    let begun = Requests::begin(stream, at_once.secure).await.map_err(|why| why.to_string())?;
    let (requests, conversation) = begun;
    let version = requests.version();
    let talking = world.spawn("http/2", conversation);
    let way = Way::<OneServer<OsWorld, AnyConnector>>::Requests(requests, session.id());
    let come = visit(world, way, at_once, keeper, reach).await;
    let _ = world.timeout(CLOSING, talking).await;
    session.close();
    Ok((come, version))
}

/// Loads a page over HTTP/3, on one connection to the first of `count` addresses that answers. Returns the page and the
/// version of HTTP.
async fn over_http3(
    world: &OsWorld,
    connector: AnyConnector,
    (count, connect): (usize, Duration),
    plan: impl Fn(usize) -> Plan,
    keeper: Rc<DownloadDir>,
) -> Result<(Visit, &'static str), String> {
    let session = connect_any(world, &connector, count, connect).await.map_err(|why| why.to_string())?;
    let id = session.id();
    let begun = Requests::begin_http3(session).await;
    let (requests, conversation, _) = begun.map_err(|why| why.to_string())?;
    let version = requests.version();
    let talking = world.spawn("http/3", conversation);
    let way = Way::<OneServer<OsWorld, AnyConnector>>::Requests(requests, id);
    let come = visit(world, way, plan(REQUESTS), keeper, None).await;
    let _ = world.timeout(CLOSING, talking).await;
    Ok((come, version))
}

/// Returns the function that connects to `target`, the same host over HTTP/3, when a response advertises HTTP/3 (Alt-Svc).
fn elsewhere(
    world: &OsWorld,
    target: Target,
    connect: Duration,
    // Receives the task that closes the HTTP/3 connection. The caller waits for this task at the end.
    ending: Rc<RefCell<Option<OsTask<()>>>>,
) -> Reach {
    let world = world.clone();
    Box::new(move |alternative| {
        let (world, mut target, ending) = (world.clone(), target.clone(), ending.clone());
        Box::pin(async move {
            // The certificate must be valid for the original host (RFC 7838 §2.1). Alternatives on other hosts are
            // ignored.
            if alternative.host.is_some_and(|host| !host.eq_ignore_ascii_case(&target.name)) {
                return None;
            }
            target.addresses.iter_mut().for_each(|address| address.set_port(alternative.port));
            let dialed = dial(&world, target, None).await.ok()?;
            let (connector, count): (AnyConnector, usize) = (dialed.connector().ok()?, dialed.servers.len());
            let Dialed { host, .. } = dialed;
            let session = connect_any(&world, &connector, count, connect).await.ok()?;
            let id = session.id();
            let (requests, conversation, _) = Requests::begin_http3(session).await.ok()?;
            let inside = world.clone();
            let talking = async move {
                let _ = conversation.await;
                let _ = inside.timeout(CLOSING, host.idle()).await;
            };
            *ending.borrow_mut() = Some(world.spawn("http/3", talking));
            Some((requests, id))
        })
    })
}

fn as_har(url: &Url, come: &Visit, start: anabranch_base::time::Instant, began: u64) -> String {
    let mut page = Page {
        name: url.text.clone(),
        source: format!("loaded over {}", url.scheme.url()),
        hosts: vec![url.authority()],
        coalesce: vec![0],
        objects: Vec::new(),
        tls: 0,
        warnings: Vec::new(),
        body_start: None,
        recording: None,
    };
    let mut fetches = Vec::new();
    let since = |at: anabranch_base::time::Instant| anabranch_base::time::Instant::ZERO + (at - start);
    for (number, object) in come.objects.iter().enumerate() {
        let mut entry = Object::new(object.target.clone(), object.bytes);
        entry.initiator = object.initiator;
        entry.content_type.clone_from(&object.content_type);
        page.objects.push(entry);
        let connection = match (
            object.connection,
            url.scheme.http() == Some(Http::OneStream) && object.version == HTTP1,
        ) {
            (None, _) => String::new(),
            (Some(connection), true) => connection.to_string(),
            (Some(connection), false) => format!("{connection}/{}", object.stream),
        };
        fetches.push(Fetch {
            object: number,
            issued: since(object.issued),
            assigned: Some(since(object.assigned)),
            first_byte: Some(since(object.first_byte)),
            ended: since(object.ended),
            version: object.version,
            connection,
            status: object.status,
            failure: object.failure.clone(),
        });
    }
    // URLs that are fetched over HTTP/3 have the scheme https (RFC 9114 §3.1).
    let scheme = match url.scheme.http() {
        Some(Http::Http3) => "https",
        _ => url.scheme.url(),
    };
    har::write(&page, scheme, &fetches, began, env!("CARGO_PKG_VERSION"), "anabranch get --page")
}

/// The maximum number of connections to one server, the same as in browsers.
const CONNECTIONS: usize = 6;
/// The maximum number of concurrent requests over HTTP/2 and HTTP/3 until the server announces its limit. Browsers start
/// with the same number.
const REQUESTS: usize = 100;
/// The time that the peer has to close a connection.
const CLOSING: Duration = Duration::from_secs(2);
/// The maximum number of URLs that a warning lists.
const NAMED: usize = 3;
