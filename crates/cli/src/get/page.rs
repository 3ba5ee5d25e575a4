//! `get --page`: fetches a document and its embedded objects into a directory, and draws a waterfall of the page load.

use super::account::{self, LeftOut};
use super::download_dir::DownloadDir;
use super::object::{NoTarget, Settings};
use super::waterfall;
use crate::clock::now;
use crate::dial::{self, dial};
use crate::files::{self, PendingFile};
use crate::outputs::Outputs;
use crate::url::Url;
use crate::{Completion, Failure, complain, say};
use anabranch_gateway::allow::Rules;
use anabranch_gateway::{Associations, Dial, Origins, Peer};
use anabranch_http::authority::{Authority, Origin};
use anabranch_http::browser::Client;
use anabranch_http::get::Requests;
use anabranch_http::har::write::{self as har, Fetch};
use anabranch_http::mapping::Version;
use anabranch_http::page::{Object, Page};
use anabranch_http::upstream::{OneServer, ReachError, Upstream, connect_any};
use anabranch_http::visit::{HTTP1, Plan, Reach, RequestRoute, Visit, visit};
use anabranch_transport::{AnyConnector, Http, Session};
use anabranch_transports::os::{DialFailure, Dialed, StreamConnector, Target};
use anabranch_world::World;
use anabranch_world::os::{OsTask, OsWorld};
use std::cell::RefCell;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

/// The settings of `get --page`, read from its flags.
pub(super) struct PageRequest {
    /// The URL of the document, with which the page load begins.
    pub(super) url: Url,
    /// The directory for the bodies of the objects; `None` if the bodies are not kept.
    pub(super) directory: Option<PathBuf>,
    /// The destination of the HAR (HTTP Archive) file.
    pub(super) har: Har,
    /// The destinations of the JSON and CSV output.
    pub(super) outputs: Outputs,
    /// Whether to omit the waterfall.
    pub(super) quiet: bool,
    /// The client that decides when the objects are requested.
    pub(super) client: Client,
    /// The settings that apply to all requests of the page load.
    pub(super) settings: Settings,
}

/// The destination of the HAR (HTTP Archive) file.
pub(super) enum Har {
    Discard,
    Stdout,
    File(PendingFile),
}

/// Fetches the page and writes all outputs.
pub(super) async fn get(world: &OsWorld, request: PageRequest) -> Result<Completion, Failure> {
    let PageRequest { url, directory, har, outputs, quiet, client, settings } = request;
    let began = now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let start = world.now();
    settings.paths.begin(start);
    let meter = &settings.meter;
    let shown = (!quiet).then(|| world.spawn("progress", meter.clone().show(world.clone())));
    let download_dir = Rc::new(DownloadDir::new(directory, meter.clone()));
    let load = PageLoad { world, url: &url, settings: &settings, client, download_dir };
    let (visit, version) = match load.run().await {
        Ok(loaded) => loaded,
        Err(NotLoaded::Command(failure)) => return Err(failure),
        Err(NotLoaded::Document { reason, line }) => {
            complain(&line);
            settings.ledger.note(0, |fetched| (fetched.issued, fetched.error) = (Some(start), Some(reason)));
            let objects = settings.ledger.objects();
            settings.write(outputs, &objects, &LeftOut::default(), (start, start))?;
            files::clean_up();
            return Ok(Completion::Badly);
        }
    };
    drop(shown);
    meter.clear();
    if !quiet {
        settings.paths.summary().lines().for_each(complain);
        // Whether a connection carries one exchange at a time, as with HTTP/1.1.
        let by_connection = url.scheme.http() == Some(Http::OneStream) && version == HTTP1;
        let drawn = waterfall::draw(&visit, start, by_connection);
        if outputs.takes_stdout() || matches!(har, Har::Stdout) {
            std::io::stderr().write_all(drawn.as_bytes()).unwrap_or(());
        } else {
            say(&drawn)?;
        }
    }
    // Files that could not be written, for example because the disk is full, are reported separately from objects that
    // could not be fetched.
    let text = || as_har(&url, &visit, start, began.as_millis().try_into().unwrap_or(u64::MAX));
    let written_har = match har {
        Har::Discard => Ok(()),
        Har::Stdout => say(&text()),
        Har::File(file) => file.fill(text().as_bytes()).and_then(|file| files::publish(vec![file])),
    };
    let left_out = LeftOut { count: visit.left_out_count, first: visit.left_out.clone() };
    let end = visit.objects.iter().map(|object| object.ended).max().unwrap_or(start);
    let written = settings.write(outputs, &account::of_visit(&url, &visit), &left_out, (start, end));
    let mut unwritten: Vec<Failure> = [written, written_har].into_iter().filter_map(Result::err).collect();
    let done = report_failures(&url, &visit);
    // If every object was fetched, the last write error becomes the error of the command.
    let last = if done == Completion::Well { unwritten.pop() } else { None };
    unwritten.into_iter().for_each(|failure| complain(&failure.line()));
    if let Some(failure) = last {
        return Err(failure);
    }
    if done == Completion::Badly {
        files::clean_up();
    }
    Ok(done)
}

/// Prints a line about each object that failed, and one line about the URLs of other hosts, which are not fetched.
fn report_failures(url: &Url, visit: &Visit) -> Completion {
    let mut done = Completion::Well;
    for object in &visit.objects {
        if let Some(why) = &object.failure {
            complain(&format!("{}{}: {why}", url.origin(), object.target));
            done = Completion::Badly;
        }
    }
    if !visit.left_out.is_empty() {
        let named: Vec<_> = visit.left_out.iter().take(NAMED).map(String::as_str).collect();
        let more = if visit.left_out_count > NAMED { ", …" } else { "" };
        complain(&format!(
            "{} addresses of other hosts left out: {}{more}",
            visit.left_out_count,
            named.join(", ")
        ));
    }
    done
}

/// The reason why no document was loaded.
enum NotLoaded {
    /// The document could not be loaded. `reason` goes into the results, and `line` is the message for the user.
    Document { reason: String, line: String },
    /// The command cannot be carried out.
    Command(Failure),
}

impl NotLoaded {
    fn of_server(reason: String) -> Self {
        Self::Document { line: reason.clone(), reason }
    }
}

/// A page, and the HTTP version over which its document was requested.
type Loaded = (Visit, &'static str);

/// The context that all connections of a page load share: the URL, the settings, and the directory for the objects.
struct PageLoad<'a> {
    world: &'a OsWorld,
    url: &'a Url,
    settings: &'a Settings,
    client: Client,
    download_dir: Rc<DownloadDir>,
}

impl PageLoad<'_> {
    fn authority(&self) -> Authority {
        Authority { host: self.url.host().to_ascii_lowercase(), port: self.url.port }
    }

    fn origin(&self) -> Origin {
        Origin::new(self.authority(), self.url.scheme.is_secure())
    }

    async fn visit<U: Upstream>(
        &self,
        route: RequestRoute<U>,
        at_once: usize,
        reach: Option<Reach>,
    ) -> Visit {
        let plan = Plan {
            authority: self.authority(),
            host: self.url.authority(),
            secure: self.url.scheme.is_secure(),
            document_target: self.url.target.clone(),
            at_once,
            client: self.client,
            takes_priorities: match &route {
                RequestRoute::Requests(requests, _) => requests.version() == "HTTP/2",
                RequestRoute::Streams(_) => at_once > CONNECTIONS,
            },
            timeout: self.settings.timeout,
        };
        visit(self.world, route, plan, self.download_dir.clone(), reach).await
    }

    async fn run(&self) -> Result<Loaded, NotLoaded> {
        let Self { world, url, settings, .. } = *self;
        let (connect, scheme) = (settings.connect, &url.scheme);
        if scheme.is_registered() && settings.tls.is_none() && settings.http.as_deref() != Some("2") {
            let (origin, clear) = (Some(self.origin()), Clear(world.clone()));
            let origins = Rc::new(Origins::new(world, origin, Rules::default(), connect, clear));
            return Ok((self.visit(RequestRoute::Streams(origins), CONNECTIONS, None).await, HTTP1));
        }
        let addresses = url.resolve().map_err(NotLoaded::of_server)?;
        let target = self.target(url, addresses.clone())?;
        let failed = |cause| match cause {
            DialFailure::Trust(cause) => NotLoaded::of_server(cause),
            cause => NotLoaded::Command(dial::failure(scheme, cause)),
        };
        let dialed = dial(world, target, Some(&settings.paths)).await.map_err(failed)?;
        let count = dialed.servers.len();
        let ending = Rc::new(RefCell::default());
        // The client switches to HTTP/3 only if the user named no version of HTTP. A client that acts as a browser
        // switches only on a later visit.
        let http3_url = url.over_http3(&settings.transports);
        let may_switch = settings.http.is_none() && settings.tls.is_some() && self.client == Client::Plain;
        let http3_url = http3_url.filter(|_| may_switch);
        let reach = match http3_url.filter(|http3_url| http3_url.scheme != *scheme) {
            Some(http3_url) => Some(alternative_connector(
                world,
                self.target(&http3_url, addresses)?,
                connect,
                ending.clone(),
            )),
            None => None,
        };
        let connector =
            dialed.connector().map_err(|error| NotLoaded::Command(dial::failure(scheme, error)))?;
        let loaded = match scheme.http() {
            Some(Http::StreamPairs) => {
                let tuned = settings.tuned.of(scheme).map_err(NotLoaded::Command)?;
                let at_once = usize::try_from(tuned.streams()).unwrap_or(usize::MAX);
                let peer = Peer::Origin(self.origin());
                let pool = Rc::new(Associations::new(world, connector, count, peer, connect));
                let loaded = self.visit(RequestRoute::Streams(pool.clone()), at_once, None).await;
                pool.close();
                Ok((loaded, HTTP1))
            }
            _ => self.over_sessions(connector, count, reach).await,
        };
        let task = ending.borrow_mut().take();
        if let Some(task) = task {
            let _ = world.timeout(CLOSING, task).await;
        }
        let _ = world.timeout(CLOSING, dialed.host.wait_idle()).await;
        loaded.map_err(|reason| NotLoaded::Document {
            line: format!("{}{}: {reason}", url.origin(), url.target),
            reason,
        })
    }

    fn target(&self, url: &Url, addresses: Vec<SocketAddr>) -> Result<Target, NotLoaded> {
        self.settings.target(url, addresses).map_err(|error| match error {
            NoTarget::Trust(error) => NotLoaded::of_server(error),
            NoTarget::Host(failure) => NotLoaded::Command(failure),
        })
    }

    /// Loads the page over HTTP/2 or HTTP/3 on one session, or over HTTP/1.1 on several sessions with one stream each.
    /// The server has `count` addresses, and the first that answers is used.
    async fn over_sessions(
        &self,
        connector: AnyConnector,
        count: usize,
        reach: Option<Reach>,
    ) -> Result<Loaded, String> {
        let Self { world, url, settings, .. } = *self;
        let session = connect_any(world, &connector, count, settings.connect).await;
        let session = session.map_err(|error| error.to_string())?;
        let version = url.versions(settings.http.as_deref()).on(&session);
        if version == Version::Http1 {
            let stream = session.open(0).map_err(|error| ReachError::from(error).to_string())?;
            let server = OneServer::new(world, connector, count, settings.connect);
            server.keep((session, stream));
            return Ok((self.visit(RequestRoute::Streams(Rc::new(server)), CONNECTIONS, reach).await, HTTP1));
        }
        let started = Requests::begin(session.clone(), version, url.scheme.is_secure()).await;
        let (requests, conversation, _) = started.map_err(|error| error.to_string())?;
        let name = requests.version();
        let conversation_task = world.spawn("http", conversation);
        let route = RequestRoute::<OneServer<OsWorld, AnyConnector>>::Requests(requests, session.id());
        let visit = self.visit(route, REQUESTS, reach).await;
        let _ = world.timeout(CLOSING, conversation_task).await;
        session.close();
        Ok((visit, name))
    }
}

/// Opens unencrypted connections for a page load, and refuses `https` origins.
struct Clear(OsWorld);

impl Dial for Clear {
    type Connector = StreamConnector<OsWorld>;

    fn check(&self, to: &Origin) -> Result<(), ReachError> {
        let message = "a page in the clear has nothing over TLS";
        if to.secure { Err(ReachError::NoTrust(message.to_owned())) } else { Ok(()) }
    }

    fn connector(&self, _: &Origin, addresses: Vec<SocketAddr>) -> Result<Self::Connector, ReachError> {
        StreamConnector::new(&self.0, addresses, None).map_err(ReachError::NoTrust)
    }
}

/// Returns a function that connects to `target` over HTTP/3. The page load calls this function when a response
/// advertises HTTP/3 (Alt-Svc, RFC 7838).
fn alternative_connector(
    world: &OsWorld,
    target: Target,
    connect: Duration,
    // Receives the task that serves the HTTP/3 connection. The task ends when the connection is closed. After the page
    // load, the caller waits for the task.
    ending: Rc<RefCell<Option<OsTask<()>>>>,
) -> Reach {
    let world = world.clone();
    Box::new(move |alternative| {
        let (world, mut target, ending) = (world.clone(), target.clone(), ending.clone());
        Box::pin(async move {
            // Ignores alternatives on other hosts. For an alternative on the same host, `target` keeps the host's name,
            // and only its port changes. The certificate is therefore checked against the name of the original host, as
            // RFC 7838 §2.1 requires.
            if alternative.host.is_some_and(|host| !host.eq_ignore_ascii_case(&target.name)) {
                return None;
            }
            target.addresses.iter_mut().for_each(|address| address.set_port(alternative.port));
            let dialed = dial(&world, target, None).await.ok()?;
            let (connector, count): (AnyConnector, usize) = (dialed.connector().ok()?, dialed.servers.len());
            let Dialed { host, .. } = dialed;
            let session = connect_any(&world, &connector, count, connect).await.ok()?;
            let id = session.id();
            let (requests, conversation, _) = Requests::begin(session, Version::Http3, true).await.ok()?;
            let inside = world.clone();
            let talking = async move {
                let _ = conversation.await;
                let _ = inside.timeout(CLOSING, host.wait_idle()).await;
            };
            *ending.borrow_mut() = Some(world.spawn("http/3", talking));
            Some((requests, id))
        })
    })
}

fn as_har(url: &Url, visit: &Visit, start: anabranch_base::time::Instant, began: u64) -> String {
    let mut page = Page {
        name: url.text.clone(),
        source: format!("loaded over {}", url.scheme.url()),
        hosts: vec![url.authority()],
        coalesce: vec![0],
        public: Vec::new(),
        objects: Vec::new(),
        tls_objects: 0,
        warnings: Vec::new(),
        body_start: None,
        recording: None,
    };
    let mut fetches = Vec::new();
    let since = |at: anabranch_base::time::Instant| anabranch_base::time::Instant::ZERO + (at - start);
    for (number, object) in visit.objects.iter().enumerate() {
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
            first_byte: Some(since(object.head_received)),
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
/// The maximum number of concurrent requests over HTTP/2 and HTTP/3 until the server announces its limit. Browsers
/// start with the same number.
const REQUESTS: usize = 100;
/// How long to wait until the peer closes a connection.
const CLOSING: Duration = Duration::from_secs(2);
/// The maximum number of URLs that a warning lists.
const NAMED: usize = 3;
