//! `anabranch get`: objects over TCP and SCTP, into files or to standard output.
//!
//! Objects of one server share a session: over SCTP each has a stream of its
//! own and all come at once; over TCP they come one after the other.
//!
//! - `page`: a document and all it embeds
//! - `waterfall`: when what came

mod page;
mod waterfall;

use crate::dial::{Sctp, within};
use crate::files::{self, Reserved};
use crate::place::{Carrier, Url};
use crate::progress::Meter;
use crate::{Done, Failure, complain, knobs};
use anabranch_base::units::parse_span;
use anabranch_http::gateway::connect_any;
use anabranch_http::get::{Answer, GetError, get_telling};
use anabranch_http::visit::{Place, resolve};
use anabranch_transport::engines::sctp::Config;
use anabranch_transport::kernel::KernelConnector;
use anabranch_transport::{CloseReason, Session};
use anabranch_world::World;
use anabranch_world::os::{self, OsWorld};
use clap::ArgMatches;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Gets what the flags name.
pub fn run(matches: &ArgMatches) -> Result<Done, Failure> {
    let mut urls = Vec::new();
    for text in matches.get_many::<String>("url").into_iter().flatten() {
        urls.push(Url::parse(text).map_err(Failure::Usage)?);
    }
    let outputs: Vec<&String> = matches.get_many("output").into_iter().flatten().collect();
    let given = matches
        .get_one::<String>("timeout")
        .map(|text| parse_span(text).map_err(|why| Failure::Usage(format!("--timeout {text}: {why}"))));
    let given = given.transpose()?;
    let (connect, timeout) = (given.unwrap_or(CONNECT), given.unwrap_or(SILENCE));
    let sctp_port = matches.get_one::<u16>("sctp-port").copied().unwrap_or(80);
    if matches.get_flag("page") {
        return whole_page(matches, urls, &outputs, (connect, timeout), sctp_port);
    }
    // A directory takes any number of objects.
    let directory = outputs.first().map(|name| Path::new(name.as_str())).filter(|path| path.is_dir());
    let directory = directory.filter(|_| outputs.len() == 1);
    if !outputs.is_empty() && outputs.len() != urls.len() && directory.is_none() {
        let told = format!(
            "{} URLs and {} files; write -o FILE once for each, or -o DIR",
            urls.len(),
            outputs.len()
        );
        return Err(Failure::Usage(told));
    }
    let mut wanted: Vec<Wanted> = Vec::new();
    for (number, url) in urls.into_iter().enumerate() {
        let file = match (directory, outputs.get(number)) {
            (Some(directory), _) => Some(Reserved::new(&directory.join(last_name(&url.target)))?),
            (None, Some(name)) if name.as_str() != "-" => Some(Reserved::new(Path::new(name.as_str()))?),
            _ => None,
        };
        let same =
            |other: &&Wanted| other.file.as_ref().zip(file.as_ref()).is_some_and(|(a, b)| a.same_place(b));
        if let Some(other) = wanted.iter().find(same) {
            let told =
                format!("{} and {} would be one file; write -o FILE once for each", other.url.text, url.text);
            return Err(Failure::Usage(told));
        }
        wanted.push(Wanted { url, file, moves: 0 });
    }
    let settings = Settings {
        connect,
        timeout,
        sctp: knobs::from(matches)?,
        sctp_port,
        meter: Meter::new(matches.get_flag("quiet")),
    };
    let done = os::run(os::Options::default(), async |world| get_all(world, wanted, Rc::new(settings)).await);
    done.map_err(|why| Failure::Host(format!("no network here: {why}")))?
}

/// `get --page`.
fn whole_page(
    matches: &ArgMatches,
    urls: Vec<Url>,
    outputs: &[&String],
    (connect, timeout): (Duration, Duration),
    sctp_port: u16,
) -> Result<Done, Failure> {
    let mut urls = urls.into_iter();
    let (Some(url), None, false) = (urls.next(), urls.next(), outputs.len() > 1) else {
        return Err(Failure::Usage("--page takes one URL and at most one -o DIR".to_owned()));
    };
    let directory = outputs.first().map(|name| Path::new(name.as_str()).to_owned());
    let har = matches.get_one::<String>("har").map(|name| Reserved::new(Path::new(name))).transpose()?;
    let quiet = matches.get_flag("quiet");
    let sctp = knobs::from(matches)?;
    let asked = page::Asked { url, directory, har, quiet, connect, timeout, sctp, sctp_port };
    let done = os::run(os::Options::default(), async |world| page::get(&world, asked).await);
    done.map_err(|why| Failure::Host(format!("no network here: {why}")))?
}

/// The last part of a path, as a file is called.
fn last_name(target: &str) -> &str {
    let path = target.split('?').next().unwrap_or_default();
    match path.rsplit('/').next().unwrap_or_default() {
        "" | "." | ".." => "index.html",
        name => name,
    }
}

struct Wanted {
    url: Url,
    file: Option<Reserved>,
    /// Redirections so far.
    moves: u32,
}

struct Settings {
    connect: Duration,
    timeout: Duration,
    sctp: Config,
    sctp_port: u16,
    meter: Meter,
}

/// How one object went.
enum Ended {
    Delivered,
    /// The transfer failed: told, exit 1.
    Failed(String),
    /// It is somewhere else.
    Moved(Wanted),
    /// This host does not let us: exit 3.
    Host(Failure),
}

async fn get_all(world: OsWorld, wanted: Vec<Wanted>, settings: Rc<Settings>) -> Result<Done, Failure> {
    let mut done = Done::Well;
    let mut left = wanted;
    while !left.is_empty() {
        let mut servers: BTreeMap<(Carrier, String, u16), Vec<Wanted>> = BTreeMap::new();
        for one in left.drain(..) {
            servers.entry((one.url.carrier, one.url.host.clone(), one.url.port)).or_default().push(one);
        }
        for ((carrier, host, _), of_server) in servers {
            let Some(first) = of_server.first() else { continue };
            let ended = match first.url.resolve() {
                Err(why) => vec![Ended::Failed(why)],
                Ok(addresses) if carrier == Carrier::Tcp => {
                    over_tcp(&world, addresses, of_server, &settings).await
                }
                Ok(addresses) => over_sctp(&world, carrier, addresses, of_server, &settings).await,
            };
            for one in ended {
                match one {
                    Ended::Delivered => {}
                    Ended::Moved(one) => left.push(one),
                    Ended::Failed(why) => {
                        complain(&format!("{host}: {why}"));
                        done = Done::Badly;
                    }
                    Ended::Host(failure) => return Err(failure),
                }
            }
        }
    }
    settings.meter.finish();
    if done == Done::Badly {
        files::clean_up();
    }
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
    let mut ended = Vec::new();
    let mut kept = None;
    for one in wanted {
        if kept.is_none() {
            // Of several addresses the first that answers.
            match connect_any(world, &connector, count, settings.connect).await {
                Ok(session) => kept = session.open(0).ok().map(|stream| (session, stream)),
                Err(why) => {
                    ended.push(Ended::Failed(why.to_string()));
                    continue;
                }
            }
        }
        let Some((session, mut stream)) = kept.take() else { continue };
        let (how, keep) = get_one(world, &mut stream, one, settings).await;
        ended.push(how);
        if keep {
            kept = Some((session, stream));
        }
    }
    ended
}

async fn over_sctp(
    world: &OsWorld,
    carrier: Carrier,
    addresses: Vec<SocketAddr>,
    wanted: Vec<Wanted>,
    settings: &Rc<Settings>,
) -> Vec<Ended> {
    let to = Sctp { carrier, addresses, port: settings.sctp_port, config: settings.sctp.clone() };
    let (host, ways) = match to.host(world).await {
        Ok(made) => made,
        Err(failure) => return vec![Ended::Host(failure)],
    };
    let session = match ways.session(world, settings.connect).await {
        Ok(session) => session,
        Err(why) => return vec![Ended::Failed(why)],
    };
    let streams = session.streams().max(1);
    let mut tasks = Vec::new();
    let mut ended = Vec::new();
    for (number, one) in (0_u32..).zip(wanted) {
        // What has no file takes its turn on standard output; nor are there more streams than there are.
        let alone = one.file.is_none() || number >= u32::from(streams);
        if alone {
            for task in tasks.drain(..) {
                ended.push(task.await);
            }
        }
        let stream = (number % u32::from(streams)) as u16;
        let (inside, session, settings) = (world.clone(), session.clone(), settings.clone());
        tasks.push(world.spawn("get", async move {
            match session.open(stream) {
                Ok(mut stream) => get_one(&inside, &mut stream, one, &settings).await.0,
                Err(why) => Ended::Failed(why.to_string()),
            }
        }));
    }
    for task in tasks {
        ended.push(task.await);
    }
    session.close();
    drop(session);
    let _ = within(world, CLOSING, host.idle()).await;
    ended
}

/// Gets one object; and whether the stream is of use for another.
async fn get_one<T: anabranch_transport::Stream>(
    world: &OsWorld,
    stream: &mut T,
    wanted: Wanted,
    settings: &Settings,
) -> (Ended, bool) {
    let Wanted { url, mut file, moves } = wanted;
    let authority = url.authority();
    let taken = get_telling(world, stream, &authority, &url.target, settings.timeout, |answer, bytes| {
        let head = &answer.head;
        if head.status != 200 {
            return Ok(());
        }
        settings.meter.add(bytes.len() as u64, head.length.filter(|_| bytes.is_empty()));
        match &mut file {
            Some(file) => file.write(bytes),
            None => deliver(bytes),
        }
    });
    match taken.await {
        Ok((answer, _)) if answer.head.status == 200 => {
            let published =
                file.map_or(Ok(()), |file| file.done().and_then(|file| files::publish(vec![file])));
            let ended = published.map_or_else(|why| Ended::Failed(why.line()), |()| Ended::Delivered);
            (ended, !answer.head.close)
        }
        Ok((Answer { head, location: Some(location), .. }, _))
            if matches!(head.status, 301..=303 | 307 | 308) =>
        {
            let ended = match elsewhere(&url, &location) {
                _ if moves >= MOST_MOVES => {
                    Ended::Failed(format!("{}: redirected more than {MOST_MOVES} times", url.target))
                }
                Ok(url) => Ended::Moved(Wanted { url, file, moves: moves + 1 }),
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

/// An object on standard output. Unlike a table's, its rest matters: whoever closes early gets no whole object.
fn deliver(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|error| Failure::Host(format!("cannot write to standard output: {error}")))
}

/// Where `location` leads from `url`: the same server by the same carrier, or another one.
fn elsewhere(url: &Url, location: &str) -> Result<Url, String> {
    match resolve(&url.authority(), &url.target, location) {
        Place::Here(target) => Ok(Url { target, ..url.clone() }),
        Place::Elsewhere(other) if other.starts_with("//") => {
            Url::parse(&format!("{}:{other}", url.carrier.scheme()))
        }
        Place::Elsewhere(other) => Url::parse(&other),
        Place::Nowhere => Err(format!("'{location}'")),
    }
}

/// How often an object may be somewhere else.
const MOST_MOVES: u32 = 10;
/// How long a connection may take, unless told otherwise.
const CONNECT: Duration = Duration::from_secs(30);
/// How long an answer may be silent, unless told otherwise. After a path was cut for 60 s its packets are sent again within
/// 63 s of the cut: retransmission timers double from 1 s on (RFC 9260 §6.3.3 E2).
const SILENCE: Duration = Duration::from_secs(120);
/// What a peer has to answer that we are done.
const CLOSING: Duration = Duration::from_secs(2);
