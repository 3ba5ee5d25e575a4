//! `anabranch get`: fetches objects over TCP and SCTP, into files or to standard output.
//!
//! Objects of one server share a session: over SCTP each has a stream of its
//! own and they are fetched at once, and so it is over HTTP/2 and HTTP/3; else
//! over TCP one after the other.
//!
//! - `account`: the result as JSON and CSV
//! - `keep`: names and places of a page's files
//! - `meter`: progress on the terminal
//! - `page`: a document and all it embeds
//! - `waterfall`: a page load over time, as bars

mod account;
mod keep;
mod meter;
mod page;
mod waterfall;

use crate::dial::http3::Http3Target;
use crate::dial::{SctpTarget, SecureTarget};
use crate::files::{self, Reserved};
use crate::outputs::Outputs;
use crate::place::{Carrier, Url};
use crate::secure::Believing;
use crate::{Done, Failure, complain, dry_run, knobs, qlog, say, secure};
use account::{Ledger, LeftOut};
use anabranch_base::units::{format_span, parse_span};
use anabranch_http::get::{Answer, GetError, Requests, get_with_fields};
use anabranch_http::http2::ALPN;
use anabranch_http::upstream::connect_any;
use anabranch_http::visit::{Destination, Step, resolve, resolve_secure};
use anabranch_tls::{TlsConnector, Trust};
use anabranch_transport::kernel::KernelConnector;
use anabranch_transport::sctp::Config;
use anabranch_transport::{AnyStream, CloseReason, Connector, Session};
use anabranch_world::World;
use anabranch_world::os::{self, OsWorld};
use clap::ArgMatches;
use meter::Meter;
use std::collections::{BTreeMap, VecDeque};
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Runs `anabranch get`.
pub fn run(matches: &ArgMatches) -> Result<Done, Failure> {
    let mut urls = Vec::new();
    let http = matches.get_one::<String>("http").cloned();
    for text in matches.get_many::<String>("url").into_iter().flatten() {
        let url = Url::parse(text).map_err(Failure::Usage)?;
        urls.push(secure::with_http_version(http.as_deref(), url)?);
    }
    let outputs: Vec<&String> = matches.get_many("output").into_iter().flatten().collect();
    if outputs.iter().any(|name| name.is_empty()) {
        return Err(Failure::Usage("--output '': expected a file name".to_owned()));
    }
    let given = matches
        .get_one::<String>("timeout")
        .map(|text| parse_span(text).map_err(|why| Failure::Usage(format!("--timeout {text}: {why}"))));
    let given = given.transpose()?;
    let (connect, timeout) = (given.unwrap_or(CONNECT), given.unwrap_or(SILENCE));
    let sctp_port = matches.get_one::<u16>("sctp-port").copied().unwrap_or(80);
    if matches.get_flag("dry-run") {
        say(&dry_run(matches, &urls, &outputs, (connect, timeout))?)?;
        return Ok(Done::Well);
    }
    let page = matches.get_flag("page");
    let over_dtls = |url: &&Url| page && url.carrier.is_over_dtls();
    if let Some(url) = urls.iter().find(over_dtls) {
        return Err(Failure::Usage(format!(
            "--page {}: pages are not got over DTLS; write https://, h3:// or http+sctp://",
            url.text
        )));
    }
    let tls = secure::client(matches, urls.iter().map(|url| url.carrier))?;
    if page {
        return whole_page(matches, urls, &outputs, (connect, timeout), (tls, http));
    }
    // A directory can hold any number of objects.
    let directory = outputs.first().filter(|name| name.ends_with('/') || Path::new(name.as_str()).is_dir());
    let directory = directory.filter(|_| outputs.len() == 1).map(|name| Path::new(name.as_str()));
    if !outputs.is_empty() && outputs.len() != urls.len() && directory.is_none() {
        let message = format!(
            "{} URLs and {} files; write -o FILE once for each, or -o DIR/",
            urls.len(),
            outputs.len()
        );
        return Err(Failure::Usage(message));
    }
    if let Some(directory) = directory {
        files::reserve_directory(directory)?;
    }
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let mut wanted: Vec<Wanted> = Vec::new();
    for (number, url) in urls.into_iter().enumerate() {
        let file = match (directory, outputs.get(number)) {
            (Some(directory), _) => Some(Reserved::new(&directory.join(last_name(&url.target)))?),
            (None, Some(name)) if name.ends_with('/') => {
                return Err(Failure::Usage(format!(
                    "--output {name}: with several outputs, each must be a file"
                )));
            }
            (None, Some(name)) if name.as_str() != "-" => Some(Reserved::new(Path::new(name.as_str()))?),
            _ => None,
        };
        let same =
            |other: &&Wanted| other.file.as_ref().zip(file.as_ref()).is_some_and(|(a, b)| a.same_place(b));
        if let Some(other) = wanted.iter().find(same) {
            let message =
                format!("{} and {} would be one file; write -o FILE once for each", other.url.text, url.text);
            return Err(Failure::Usage(message));
        }
        wanted.push(Wanted { number, url, file, moves: 0 });
    }
    let outputs = Outputs::reserve(text("json"), text("csv"))?;
    if let Some(one) = wanted.iter().find(|one| outputs.takes(one.file.as_ref())) {
        let message = format!(
            "--json or --csv and {} would be written to one place; write -o FILE and --json FILE",
            one.url.text
        );
        return Err(Failure::Usage(message));
    }
    let carriers: Vec<Carrier> = wanted.iter().map(|one| one.url.carrier).collect();
    let (sctp, quic) = config(matches, &carriers)?;
    let described = describe(&carriers, &sctp, &quic);
    let ledger = Ledger::new(wanted.iter().map(|one| &one.url));
    let logs = qlog::given(matches, carriers)?;
    let meter = Meter::new();
    let settings = Settings { connect, timeout, sctp, quic, logs, sctp_port, tls, http, meter, ledger };
    // A terminal shows either the object or the progress.
    let on_terminal = wanted.iter().any(|one| one.file.is_none()) && std::io::stdout().is_terminal();
    let quiet = matches.get_flag("quiet") || on_terminal;
    let done = os::run(os::Options::default(), async |world| {
        let shown = (!quiet).then(|| world.spawn("progress", settings.meter.clone().show(world.clone())));
        let (settings, start) = (Rc::new(settings), world.now());
        let done = get_all(world.clone(), wanted, settings.clone()).await?;
        drop(shown);
        let objects = settings.ledger.objects();
        outputs.write(
            "",
            || account::json(&objects, &LeftOut::default(), described, (start, world.now())),
            || account::csv(&objects, start),
        )?;
        Ok(done)
    });
    done.map_err(|why| Failure::Host(format!("no network here: {why}")))?
}

/// The output of `--dry-run`.
fn dry_run(
    matches: &ArgMatches,
    urls: &[Url],
    outputs: &[&String],
    (connect, timeout): (Duration, Duration),
) -> Result<String, Failure> {
    let mut out: String = urls.iter().map(|url| format!("url: {}\n", url.text)).collect();
    if outputs.is_empty() {
        out += if matches.get_flag("page") { "output: nowhere\n" } else { "output: standard output\n" };
    }
    out += &dry_run::flags(
        matches,
        &["output", "page", "har", "json", "csv", "trust", "insecure", "http", "qlog"],
    );
    out += &format!("timeout: {} for a connection, then {}\n", format_span(connect), format_span(timeout));
    let carriers: Vec<Carrier> = urls.iter().map(|url| url.carrier).collect();
    let (sctp, quic) = config(matches, &carriers)?;
    if carriers.iter().any(|carrier| !carrier.is_kernels() && !carrier.is_http3()) {
        out += &dry_run::flags(matches, &["sctp-port", "key-file"]);
    }
    if carriers.iter().any(|carrier| !carrier.is_kernels()) {
        out += &dry_run::both_knobs(carriers, &sctp, &quic);
    }
    Ok(out)
}

/// What results say of the settings.
fn describe(carriers: &[Carrier], sctp: &Config, quic: &anabranch_quic::Config) -> Vec<(String, String)> {
    // Where both are used, SCTP's: they share names.
    if carriers.iter().any(|carrier| !carrier.is_kernels() && !carrier.is_http3()) {
        return knobs::describe(sctp);
    }
    let quic = carriers.iter().any(|carrier| carrier.is_http3()).then(|| knobs::describe_quic(quic));
    quic.unwrap_or_default()
}

/// The settings of SCTP, and of QUIC.
fn config(matches: &ArgMatches, carriers: &[Carrier]) -> Result<(Config, anabranch_quic::Config), Failure> {
    let set = knobs::divided(matches, carriers.iter().copied())?;
    let quic = knobs::quic(&set.quic)?;
    let set = set.sctp;
    let mut config = knobs::sctp(matches, &set)?;
    knobs::asks_after_peers(&mut config, &set);
    // If an exchange is cancelled, its stream is reset (RFC 6525); without that the association would have to end.
    config.reconfig |= !set.iter().any(|(key, _)| key == "reconfig");
    knobs::warn(&config);
    Ok((config, quic))
}

/// Runs `anabranch get --page`.
fn whole_page(
    matches: &ArgMatches,
    urls: Vec<Url>,
    outputs: &[&String],
    (connect, timeout): (Duration, Duration),
    (tls, http): (Option<Believing>, Option<String>),
) -> Result<Done, Failure> {
    let mut urls = urls.into_iter();
    let (Some(url), None, false) = (urls.next(), urls.next(), outputs.len() > 1) else {
        return Err(Failure::Usage("--page takes one URL and at most one -o DIR".to_owned()));
    };
    if outputs.iter().any(|name| name.as_str() == "-") {
        return Err(Failure::Usage("--page writes several files: use -o DIR, not -o -".to_owned()));
    }
    let directory = outputs.first().map(|name| Path::new(name.as_str()).to_owned());
    // The directory comes first: the other files may lie in it.
    if let Some(directory) = &directory {
        files::reserve_directory(directory)?;
    }
    let har = match matches.get_one::<String>("har").map(String::as_str) {
        None => page::Har::Nowhere,
        Some("-") => page::Har::Stdout,
        Some("") => return Err(Failure::Usage("--har '': expected a file name".to_owned())),
        Some(name) => page::Har::File(Reserved::new(Path::new(name))?),
    };
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let outputs = Outputs::reserve(text("json"), text("csv"))?;
    let same = match &har {
        page::Har::Nowhere => false,
        page::Har::Stdout => outputs.takes(None),
        page::Har::File(file) => outputs.takes(Some(file)),
    };
    if same {
        return Err(Failure::Usage("--json or --csv and --har need different files".to_owned()));
    }
    let quiet = matches.get_flag("quiet");
    let (sctp, quic) = config(matches, &[url.carrier])?;
    let sctp_port = matches.get_one::<u16>("sctp-port").copied().unwrap_or(80);
    let asked = page::Asked {
        logs: qlog::given(matches, [url.carrier])?,
        url,
        directory,
        har,
        outputs,
        quiet,
        tls,
        http,
        connect,
        timeout,
        sctp,
        quic,
        sctp_port,
    };
    let done = os::run(os::Options::default(), async |world| page::get(&world, asked).await);
    done.map_err(|why| Failure::Host(format!("no network here: {why}")))?
}

/// The file name for a target: the last part of its path.
fn last_name(target: &str) -> &str {
    let path = target.split('?').next().unwrap_or_default();
    match path.rsplit('/').next().unwrap_or_default() {
        "" | "." | ".." => "index.html",
        name => name,
    }
}

struct Wanted {
    /// The object's number, from 0.
    number: usize,
    url: Url,
    file: Option<Reserved>,
    /// Redirections so far.
    moves: u32,
}

struct Settings {
    connect: Duration,
    timeout: Duration,
    sctp: Config,
    quic: anabranch_quic::Config,
    logs: qlog::LogsTo,
    sctp_port: u16,
    /// Whom it believes over TLS and DTLS; `None`: no URL was over either.
    tls: Option<Believing>,
    /// The version of HTTP that is spoken, where it was said.
    http: Option<String>,
    meter: Rc<Meter>,
    ledger: Ledger,
}

impl Settings {
    /// Notes that object `number` has failed.
    fn failed(&self, number: usize, why: String) -> Ended {
        self.ledger.note(number, |fetched| fetched.error = Some(why.clone()));
        Ended::Failed(why)
    }
}

/// The result of one object.
enum Ended {
    Delivered,
    /// The transfer failed: a message, and exit code 1.
    Failed(String),
    /// The server redirects to another URL.
    Moved(Wanted),
    /// This host does not permit it: exit code 3.
    Host(Failure),
}

async fn get_all(world: OsWorld, wanted: Vec<Wanted>, settings: Rc<Settings>) -> Result<Done, Failure> {
    let mut done = Done::Well;
    let mut left = wanted;
    for one in &left {
        settings.meter.step(one.number, Step::Found);
        settings.ledger.note(one.number, |fetched| fetched.issued = Some(world.now()));
    }
    while !left.is_empty() {
        let mut servers: BTreeMap<(Carrier, Vec<String>, u16), Vec<Wanted>> = BTreeMap::new();
        for one in left.drain(..) {
            servers.entry((one.url.carrier, one.url.hosts.clone(), one.url.port)).or_default().push(one);
        }
        for ((carrier, ..), of_server) in servers {
            let Some(first) = of_server.first() else { continue };
            let origin = first.url.origin();
            let numbers: Vec<usize> = of_server.iter().map(|one| one.number).collect();
            // A failure of the server is printed once, and noted for each object.
            let all_failed = |why: &str| {
                for &number in &numbers {
                    settings.ledger.note(number, |fetched| {
                        if fetched.delivered.is_none() && fetched.error.is_none() {
                            fetched.error = Some(why.to_owned());
                        }
                    });
                }
            };
            let ended = match first.url.resolve() {
                Err(why) => {
                    all_failed(&why);
                    settings.meter.clear();
                    complain(&why);
                    done = Done::Badly;
                    continue;
                }
                Ok(addresses) if carrier.is_kernels() => {
                    over_tcp(&world, addresses, of_server, &settings).await
                }
                Ok(addresses) if carrier.is_http3() => {
                    match over_http3(&world, addresses, of_server, &settings).await {
                        Ok(ended) => ended,
                        Err(ended) => {
                            if let Ended::Failed(why) = &ended {
                                all_failed(why);
                            }
                            vec![ended]
                        }
                    }
                }
                Ok(addresses) => match over_sctp(&world, carrier, addresses, of_server, &settings).await {
                    Ok(ended) => ended,
                    Err(ended) => {
                        if let Ended::Failed(why) = &ended {
                            all_failed(why);
                        }
                        vec![ended]
                    }
                },
            };
            for one in ended {
                match one {
                    Ended::Delivered => {}
                    Ended::Moved(one) => left.push(one),
                    Ended::Failed(why) => {
                        settings.meter.clear();
                        // The message of one object begins with its target.
                        let gap = if why.starts_with('/') { "" } else { ": " };
                        complain(&format!("{origin}{gap}{why}"));
                        done = Done::Badly;
                    }
                    Ended::Host(failure) => return Err(failure),
                }
            }
        }
    }
    settings.meter.clear();
    Ok(done)
}

async fn over_tcp(
    world: &OsWorld,
    addresses: Vec<SocketAddr>,
    wanted: Vec<Wanted>,
    settings: &Rc<Settings>,
) -> Vec<Ended> {
    let count = addresses.len();
    let connector = KernelConnector::new(world.clone(), addresses);
    let Some(first) = wanted.first().filter(|one| one.url.carrier.is_secure()) else {
        return one_by_one(world, connector, count, wanted, settings).await;
    };
    let names = vec![first.url.host().to_owned(); count];
    let secure = match settings.tls.clone() {
        Some(it) => TlsConnector::new(world.clone(), connector, it.client, &names),
        // Redirected there from a URL in the clear: nothing was said of whom to believe.
        None => Believing::by_default(settings.http.as_deref())
            .and_then(|it| TlsConnector::new(world.clone(), connector, it.client, &names)),
    };
    match secure {
        Ok(connector) => one_by_one(world, connector, count, wanted, settings).await,
        Err(why) => wanted.iter().map(|one| settings.failed(one.number, why.clone())).collect(),
    }
}

/// Fetches one after the other, over one connection as far as it goes.
async fn one_by_one<C: Connector>(
    world: &OsWorld,
    connector: C,
    count: usize,
    wanted: Vec<Wanted>,
    settings: &Rc<Settings>,
) -> Vec<Ended> {
    let mut ended = Vec::new();
    let mut kept = None;
    let mut wanted = VecDeque::from(wanted);
    while let Some(one) = wanted.pop_front() {
        if kept.is_none() {
            // The first address that answers is used.
            match connect_any(world, &connector, count, settings.connect).await {
                Ok(session) => kept = session.open(0).ok().map(|stream| (session, stream)),
                Err(why) => {
                    ended.push(settings.failed(one.number, why.to_string()));
                    continue;
                }
            }
        }
        let Some((session, mut stream)) = kept.take() else {
            ended.push(settings.failed(one.number, "the connection was closed at once".to_owned()));
            continue;
        };
        let http2 = match settings.http.as_deref() {
            None => session.protocol().is_some_and(|name| name == ALPN),
            Some(version) => version == "2",
        };
        if http2 {
            wanted.push_front(one);
            ended.extend(at_once(world, (session, stream), wanted.into(), settings).await);
            return ended;
        }
        let (how, keep) = get_one(world, Way::Stream(&mut stream), session.id(), one, settings).await;
        ended.push(how);
        if keep {
            kept = Some((session, stream));
        }
    }
    ended
}

/// Fetches all over HTTP/2, on a connection that is there.
async fn at_once<N: Session>(
    world: &OsWorld,
    (session, stream): (N, N::Stream),
    wanted: Vec<Wanted>,
    settings: &Rc<Settings>,
) -> Vec<Ended> {
    let secure = wanted.first().is_some_and(|one| one.url.carrier.is_secure());
    let (requests, conversation) = match Requests::begin(stream, secure).await {
        Ok(begun) => begun,
        Err(why) => return wanted.iter().map(|one| settings.failed(one.number, why.to_string())).collect(),
    };
    let talking = world.spawn("http/2", conversation);
    let ended = ask_all(world, requests, session.id(), wanted, settings).await;
    let _ = world.timeout(CLOSING, talking).await;
    session.close();
    ended
}

/// Fetches all over HTTP/3, on one connection.
async fn over_http3(
    world: &OsWorld,
    addresses: Vec<SocketAddr>,
    wanted: Vec<Wanted>,
    settings: &Rc<Settings>,
) -> Result<Vec<Ended>, Ended> {
    let believing = settings.tls.clone().map_or_else(|| Believing::by_default(None), Ok);
    let client = believing.and_then(|it| it.http3()).map_err(Ended::Failed)?;
    let count = addresses.len();
    let name = wanted.first().map_or("", |one| one.url.host()).to_owned();
    let (config, logs) = (settings.quic.clone(), settings.logs.clone());
    let to = Http3Target { addresses, name, client, config, logs };
    let (host, connector) = to.host(world).await.map_err(Ended::Host)?;
    let session = connect_any(world, &connector, count, settings.connect).await;
    let session = session.map_err(|why| Ended::Failed(why.to_string()))?;
    let id = session.id();
    let begun = Requests::begin_http3(session).await;
    let (requests, conversation, _) = begun.map_err(|why| Ended::Failed(why.to_string()))?;
    let talking = world.spawn("http/3", conversation);
    let ended = ask_all(world, requests, id, wanted, settings).await;
    let _ = world.timeout(CLOSING, talking).await;
    let _ = world.timeout(CLOSING, host.idle()).await;
    Ok(ended)
}

/// Asks for all of them at once.
async fn ask_all(
    world: &OsWorld,
    requests: Requests,
    id: u64,
    wanted: Vec<Wanted>,
    settings: &Rc<Settings>,
) -> Vec<Ended> {
    let (mut tasks, mut ended) = (Vec::new(), Vec::new());
    for one in wanted {
        // Objects for standard output come one after the other.
        if one.file.is_none() {
            for task in tasks.drain(..) {
                ended.push(task.await);
            }
        }
        let (inside, requests, settings) = (world.clone(), requests.clone(), settings.clone());
        tasks.push(world.spawn("get", async move {
            get_one::<AnyStream>(&inside, Way::Requests(&requests), id, one, &settings).await.0
        }));
    }
    for task in tasks {
        ended.push(task.await);
    }
    ended
}

async fn over_sctp(
    world: &OsWorld,
    carrier: Carrier,
    addresses: Vec<SocketAddr>,
    wanted: Vec<Wanted>,
    settings: &Rc<Settings>,
) -> Result<Vec<Ended>, Ended> {
    // Redirected there from a URL in the clear: nothing was said of whom to believe.
    let name = wanted.first().map_or("", |one| one.url.host());
    let by_default = || SecureTarget { trust: Trust::default(), name: name.to_owned(), unsummed: true };
    let secure = settings.tls.as_ref().map_or_else(by_default, |it| it.target(name));
    let to = SctpTarget {
        carrier,
        addresses,
        port: settings.sctp_port,
        config: settings.sctp.clone(),
        secure: Some(secure),
    };
    let (host, ways) = match to.host(world).await {
        Ok(made) => made,
        Err(failure) => return Err(Ended::Host(failure)),
    };
    let session = match ways.session(world, settings.connect).await {
        Ok(session) => session,
        Err(why) => return Err(Ended::Failed(why)),
    };
    let streams = session.streams().max(1);
    let mut tasks = Vec::new();
    let mut ended = Vec::new();
    for (number, one) in (0_u32..).zip(wanted) {
        // Objects for standard output come one after the other, and so do those that have no stream of their own.
        let alone = one.file.is_none() || u64::from(number) >= streams;
        if alone {
            for task in tasks.drain(..) {
                ended.push(task.await);
            }
        }
        let stream = u64::from(number) % streams;
        let (inside, session, settings) = (world.clone(), session.clone(), settings.clone());
        tasks.push(world.spawn("get", async move {
            match session.open(stream) {
                Ok(mut stream) => {
                    get_one(&inside, Way::Stream(&mut stream), session.id(), one, &settings).await.0
                }
                Err(why) => settings.failed(one.number, why.to_string()),
            }
        }));
    }
    for task in tasks {
        ended.push(task.await);
    }
    session.close();
    drop(session);
    let _ = world.timeout(CLOSING, host.idle()).await;
    Ok(ended)
}

/// How an object is asked for.
enum Way<'a, T> {
    /// On this stream.
    Stream(&'a mut T),
    /// On a stream of its own, over HTTP/2 or HTTP/3.
    Requests(&'a Requests),
}

/// Fetches one object. `true`: the stream can carry another.
async fn get_one<T: anabranch_transport::Stream>(
    world: &OsWorld,
    way: Way<'_, T>,
    connection: u64,
    wanted: Wanted,
    settings: &Settings,
) -> (Ended, bool) {
    let number = wanted.number;
    settings.ledger.note(number, |fetched| {
        if let Way::Stream(stream) = &way {
            fetched.place = Some((connection, stream.number()));
        }
        fetched.assigned = Some(world.now());
        (fetched.status, fetched.bytes, fetched.first_byte) = (None, 0, None);
    });
    let (ended, keep) = exchange(world, way, connection, wanted, settings).await;
    settings.ledger.note(number, |fetched| match &ended {
        Ended::Delivered => fetched.delivered = Some(world.now()),
        Ended::Failed(why) => fetched.error = Some(why.clone()),
        Ended::Moved(_) | Ended::Host(_) => {}
    });
    (ended, keep)
}

/// The exchange of [`get_one`].
async fn exchange<T: anabranch_transport::Stream>(
    world: &OsWorld,
    way: Way<'_, T>,
    connection: u64,
    wanted: Wanted,
    settings: &Settings,
) -> (Ended, bool) {
    let Wanted { number, url, mut file, moves } = wanted;
    let authority = url.authority();
    let take = |answer: &Answer, bytes: &[u8]| {
        let head = &answer.head;
        settings.ledger.note(number, |fetched| {
            if bytes.is_empty() {
                (fetched.status, fetched.first_byte) = (Some(head.status), Some(world.now()));
            }
            fetched.bytes += bytes.len() as u64;
        });
        if head.status != 200 {
            return Ok(());
        }
        let came = Step::Came(bytes.len() as u64);
        settings.meter.step(number, if bytes.is_empty() { Step::Begun(head.length) } else { came });
        match &mut file {
            Some(file) => file.write(bytes),
            None => deliver(bytes),
        }
    };
    let taken = match way {
        Way::Stream(stream) => {
            get_with_fields(world, stream, &authority, &url.target, settings.timeout, take).await
        }
        Way::Requests(requests) => {
            let place =
                |stream| settings.ledger.note(number, |fetched| fetched.place = Some((connection, stream)));
            requests.get(world, &authority, &url.target, settings.timeout, place, take).await
        }
    };
    let moved = |status: u16| matches!(status, 301..=303 | 307 | 308);
    if !taken.as_ref().is_ok_and(|(answer, _)| moved(answer.head.status) && answer.location.is_some()) {
        settings.meter.step(number, Step::Over);
    }
    match taken {
        Ok((answer, _)) if matches!(answer.head.status, 200 | 204) => {
            let published =
                file.map_or(Ok(()), |file| file.done().and_then(|file| files::publish(vec![file])));
            let ended = published.map_or_else(|why| Ended::Failed(why.line()), |()| Ended::Delivered);
            (ended, !answer.head.close)
        }
        Ok((Answer { head, location: Some(location), .. }, _)) if moved(head.status) => {
            let ended = match elsewhere(&url, &location) {
                _ if moves >= MAX_MOVES => {
                    Ended::Failed(format!("{}: redirected more than {MAX_MOVES} times", url.target))
                }
                Ok(url) => Ended::Moved(Wanted { number, url, file, moves: moves + 1 }),
                Err(why) => Ended::Failed(format!("{}: redirected to {why}", url.target)),
            };
            (ended, !head.close)
        }
        Ok((Answer { head, .. }, _)) => {
            (Ended::Failed(format!("{}: status {}", url.target, head.status)), !head.close)
        }
        Err(GetError::Taker(failure)) => (Ended::Failed(failure.line()), false),
        Err(GetError::Closed(CloseReason::Finished)) => (
            Ended::Failed(format!("{}: the server closed before the answer was complete", url.target)),
            false,
        ),
        Err(why) => (Ended::Failed(format!("{}: {why}", url.target)), false),
    }
}

/// Writes an object to standard output. A reader that closes early is an error, because it has no whole object.
fn deliver(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|error| Failure::Host(format!("cannot write to standard output: {error}")))
}

/// The URL that `location` names, relative to `url`.
fn elsewhere(url: &Url, location: &str) -> Result<Url, String> {
    let resolved = match url.carrier.is_http3() {
        true => resolve_secure(&url.authority(), &url.target, location),
        false => resolve(&url.authority(), &url.target, location),
    };
    match resolved {
        Destination::Here(target) => Ok(Url { target, ..url.clone() }),
        Destination::Elsewhere(other) if other.starts_with("//") => {
            let scheme = if url.carrier.is_http3() { "https" } else { url.carrier.scheme() };
            Url::parse(&format!("{scheme}:{other}"))
        }
        Destination::Elsewhere(other) => Url::parse(&other),
        Destination::Nowhere => Err(format!("'{location}'")),
    }
}

/// Most redirections of an object.
const MAX_MOVES: u32 = 10;
/// The default timeout of a connection.
const CONNECT: Duration = Duration::from_secs(30);
/// The default timeout of a response without progress. A path that was cut for 60 s is tried again within 63 s of the cut:
/// retransmission timers double from 1 s on (RFC 9260 §6.3.3 E2).
const SILENCE: Duration = Duration::from_secs(120);
/// How long a peer may take to close.
const CLOSING: Duration = Duration::from_secs(2);
