//! Fetches all objects of one `get` command. Objects of the same server share a session. A redirected object may move
//! to another server.

use super::exchange::{RequestChannel, get_one};
use super::object::{NoTarget, ObjectOutcome, ObjectRequest, Settings};
use crate::dial::{self, dial};
use crate::{Completion, Failure, complain};
use anabranch_http::get::Requests;
use anabranch_http::mapping::Version;
use anabranch_http::upstream::connect_any;
use anabranch_http::visit::Step;
use anabranch_transport::{AnyConnector, AnySession, AnyStream, Http, Session};
use anabranch_transports::UrlScheme;
use anabranch_transports::os::DialFailure;
use anabranch_world::World;
use anabranch_world::os::OsWorld;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

pub(super) async fn get_all(
    world: OsWorld,
    requests: Vec<ObjectRequest>,
    settings: Rc<Settings>,
) -> Result<Completion, Failure> {
    let mut done = Completion::Well;
    let mut left = requests;
    for one in &left {
        settings.meter.step(one.number, Step::Found);
        settings.ledger.note(one.number, |fetched| fetched.issued = Some(world.now()));
    }
    while !left.is_empty() {
        let mut servers: BTreeMap<(UrlScheme, Vec<String>, u16), Vec<ObjectRequest>> = BTreeMap::new();
        for one in left.drain(..) {
            let key = (one.url.scheme.clone(), one.url.hosts.clone(), one.url.port);
            servers.entry(key).or_default().push(one);
        }
        for of_server in servers.into_values() {
            let Some(first) = of_server.first() else { continue };
            let origin = first.url.origin();
            let numbers: Vec<usize> = of_server.iter().map(|one| one.number).collect();
            // If the server as a whole fails, the failure is printed once and recorded for each of its unfinished
            // objects.
            let all_failed = |reason: &str| {
                for &number in &numbers {
                    settings.ledger.note(number, |fetched| {
                        if fetched.delivered.is_none() && fetched.error.is_none() {
                            fetched.error = Some(reason.to_owned());
                        }
                    });
                }
            };
            let ended = match first.url.resolve() {
                Err(reason) => {
                    all_failed(&reason);
                    settings.meter.clear();
                    complain(&reason);
                    done = Completion::Badly;
                    continue;
                }
                Ok(addresses) => match from_server(&world, addresses, of_server, &settings).await {
                    Ok(ended) => ended,
                    Err(ended) => {
                        if let ObjectOutcome::Failed(reason) = &ended {
                            all_failed(reason);
                        }
                        vec![ended]
                    }
                },
            };
            for one in ended {
                match one {
                    ObjectOutcome::Delivered => {}
                    ObjectOutcome::Redirected(one) => left.push(*one),
                    ObjectOutcome::Failed(reason) => {
                        settings.meter.clear();
                        // A message about a single object begins with the path of that object. The path is printed
                        // directly after the origin, without a colon between them.
                        let gap = if reason.starts_with('/') { "" } else { ": " };
                        complain(&format!("{origin}{gap}{reason}"));
                        done = Completion::Badly;
                    }
                    ObjectOutcome::Host(failure) => return Err(failure),
                }
            }
        }
    }
    settings.meter.clear();
    Ok(done)
}

/// Fetches all objects of one server.
async fn from_server(
    world: &OsWorld,
    addresses: Vec<SocketAddr>,
    requests: Vec<ObjectRequest>,
    settings: &Rc<Settings>,
) -> Result<Vec<ObjectOutcome>, ObjectOutcome> {
    let Some(url) = requests.first().map(|one| one.url.clone()) else { return Ok(Vec::new()) };
    let each_failed = |requests: &[ObjectRequest], reason: &str| -> Vec<ObjectOutcome> {
        requests.iter().map(|one| settings.failed(one.number, reason.to_owned())).collect()
    };
    let one_stream = url.scheme.http() == Some(Http::OneStream);
    let target = match settings.target(&url, addresses) {
        Err(NoTarget::Trust(reason)) if one_stream => return Ok(each_failed(&requests, &reason)),
        target => target?,
    };
    let dialed = match dial(world, target, Some(&settings.paths)).await {
        Ok(dialed) => dialed,
        Err(DialFailure::Trust(reason)) => return Err(ObjectOutcome::Failed(reason)),
        Err(failure) => return Err(ObjectOutcome::Host(dial::failure(&url.scheme, failure))),
    };
    let connector = match dialed.connector() {
        Ok(connector) => connector,
        // Each request to a server fails if no certificate can be valid for the server's name.
        Err(DialFailure::Name(reason)) => return Ok(each_failed(&requests, &reason)),
        Err(failure) => return Err(ObjectOutcome::Host(dial::failure(&url.scheme, failure))),
    };
    let count = dialed.servers.len();
    let ended = match url.scheme.http() {
        Some(Http::Http3) => {
            let session = connect_any(world, &connector, count, settings.connect).await;
            let session = session.map_err(|error| ObjectOutcome::Failed(error.to_string()))?;
            concurrently(world, session, Version::Http3, requests, settings).await
        }
        Some(Http::StreamPairs) => {
            over_stream_pairs(world, connector, &dialed.servers, requests, settings).await?
        }
        _ => one_by_one(world, connector, count, requests, settings).await,
    };
    let _ = world.timeout(CLOSING, dialed.host.wait_idle()).await;
    Ok(ended)
}

/// Fetches objects one after the other, on the same connection as long as it stays open.
async fn one_by_one(
    world: &OsWorld,
    connector: AnyConnector,
    count: usize,
    requests: Vec<ObjectRequest>,
    settings: &Rc<Settings>,
) -> Vec<ObjectOutcome> {
    let mut ended = Vec::new();
    let mut open_session = None;
    let mut requests = VecDeque::from(requests);
    while let Some(one) = requests.pop_front() {
        if open_session.is_none() {
            // Connect to the first address that answers.
            let session = match connect_any(world, &connector, count, settings.connect).await {
                Ok(session) => session,
                Err(why) => {
                    ended.push(settings.failed(one.number, why.to_string()));
                    continue;
                }
            };
            let version = one.url.versions(settings.http.as_deref()).on(&session);
            if version != Version::Http1 {
                requests.push_front(one);
                ended.extend(concurrently(world, session, version, requests.into(), settings).await);
                return ended;
            }
            open_session = session.open(0).ok().map(|stream| (session, stream));
        }
        let Some((session, mut stream)) = open_session.take() else {
            ended.push(settings.failed(one.number, "the connection was closed at once".to_owned()));
            continue;
        };
        let (how, keep) =
            get_one(world, RequestChannel::Stream(&mut stream), session.id(), one, settings).await;
        ended.push(how);
        if keep {
            open_session = Some((session, stream));
        }
    }
    ended
}

/// Fetches all objects concurrently over HTTP/2 or HTTP/3, on an established session.
async fn concurrently(
    world: &OsWorld,
    session: AnySession,
    version: Version,
    objects: Vec<ObjectRequest>,
    settings: &Rc<Settings>,
) -> Vec<ObjectOutcome> {
    let secure = objects.first().is_some_and(|one| one.url.scheme.is_secure());
    let (requests, conversation, _) = match Requests::begin(session.clone(), version, secure).await {
        Ok(begun) => begun,
        Err(error) => {
            return objects.iter().map(|one| settings.failed(one.number, error.to_string())).collect();
        }
    };
    let talking = world.spawn("http", conversation);
    let ended = ask_all(world, requests, session.id(), objects, settings).await;
    let _ = world.timeout(CLOSING, talking).await;
    session.close();
    ended
}

/// Requests all objects concurrently.
async fn ask_all(
    world: &OsWorld,
    requests: Requests,
    id: u64,
    objects: Vec<ObjectRequest>,
    settings: &Rc<Settings>,
) -> Vec<ObjectOutcome> {
    let (mut tasks, mut ended) = (Vec::new(), Vec::new());
    for one in objects {
        // Objects for standard output are written one after the other. Such an object waits until the earlier exchanges
        // have ended.
        if one.file.is_none() {
            for task in tasks.drain(..) {
                ended.push(task.await);
            }
        }
        let (inside, requests, settings) = (world.clone(), requests.clone(), settings.clone());
        tasks.push(world.spawn("get", async move {
            get_one::<AnyStream>(&inside, RequestChannel::Requests(&requests), id, one, &settings).await.0
        }));
    }
    for task in tasks {
        ended.push(task.await);
    }
    ended
}

/// Fetches all objects over one session. Each object has its own pair of streams, as long as the session has unused
/// pairs.
async fn over_stream_pairs(
    world: &OsWorld,
    connector: AnyConnector,
    servers: &[SocketAddr],
    requests: Vec<ObjectRequest>,
    settings: &Rc<Settings>,
) -> Result<Vec<ObjectOutcome>, ObjectOutcome> {
    let session = dial::session(world, &connector, servers, settings.connect).await;
    let session = session.map_err(ObjectOutcome::Failed)?;
    let streams = session.streams().max(1);
    let mut tasks = Vec::new();
    let mut ended = Vec::new();
    for (number, one) in (0_u32..).zip(requests) {
        // An object waits for the earlier exchanges if it goes to standard output, or if the association has no unused
        // stream left.
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
                    get_one(&inside, RequestChannel::Stream(&mut stream), session.id(), one, &settings)
                        .await
                        .0
                }
                Err(error) => settings.failed(one.number, error.to_string()),
            }
        }));
    }
    for task in tasks {
        ended.push(task.await);
    }
    session.close();
    Ok(ended)
}

/// How long to wait until the peer closes a connection.
const CLOSING: Duration = Duration::from_secs(2);
