//! `anabranch serve`: a directory over TCP and SCTP.

use crate::place::{Carrier, Listen};
use crate::{Done, Failure, complain, say};
use anabranch_base::units::{Bytes, parse_span};
use anabranch_http::observe::Unobserved;
use anabranch_http::serve::files::FileSite;
use anabranch_http::serve::{self, Access, Log, Options, Stop};
use anabranch_transport::engines::sctp::Config;
use anabranch_transport::kernel::KernelListener;
use anabranch_transport::sctp::{Carrier as SctpCarrier, SctpHost};
use anabranch_transport::{CloseReason, Listener};
use anabranch_world::os::{self, OsTask, OsWorld, Signals};
use anabranch_world::{Timer, World};
use clap::ArgMatches;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Serves until a signal comes.
pub fn run(matches: &ArgMatches) -> Result<Done, Failure> {
    let directory = matches.get_one::<String>("directory").map_or(".", String::as_str);
    let site = FileSite::new(Path::new(directory))
        .map_err(|why| Failure::Usage(format!("{directory}: {why}; a directory is to be served")))?;
    let mut places = Vec::new();
    for text in matches.get_many::<String>("listen").into_iter().flatten() {
        places.push(Listen::parse(text).map_err(Failure::Usage)?);
    }
    let settings = Settings::read(matches, directory)?;
    let served = os::run(os::Options::default(), async |world| serve(world, site, places, settings).await);
    served.map_err(|why| Failure::Host(format!("cannot serve here: {why}")))?
}

struct Settings {
    directory: String,
    sctp: Config,
    sctp_port: u16,
    options: Options,
    grace: Duration,
}

impl Settings {
    fn read(matches: &ArgMatches, directory: &str) -> Result<Self, Failure> {
        let span = |name: &str| -> Result<Duration, Failure> {
            let text = matches.get_one::<String>(name).map_or("", String::as_str);
            parse_span(text).map_err(|why| Failure::Usage(format!("--{name} {text}: {why}")))
        };
        let number = |name: &str| matches.get_one::<u16>(name).copied().unwrap_or(1);
        let text = matches.get_one::<String>("max-header").map_or("", String::as_str);
        let head: Bytes =
            text.parse().map_err(|why| Failure::Usage(format!("--max-header {text}: {why}")))?;
        let mut sctp = config()?;
        sctp.streams = number("streams");
        let options = Options {
            idle_timeout: Some(span("idle")?),
            head_timeout: Some(span("header-timeout")?),
            date_from: Some(now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()),
            max_head: Some(usize::try_from(head.0).unwrap_or(usize::MAX).clamp(8 << 10, 1 << 20)),
            max_sessions: Some(usize::from(number("connections"))),
            log: (!matches.get_flag("quiet")).then(|| Log::new(log)),
            stop: Some(Stop::new()),
            ..Options::default()
        };
        let grace = span("grace")?;
        Ok(Self { directory: directory.to_owned(), sctp, sctp_port: number("sctp-port"), options, grace })
    }
}

/// What `serve`, `get`, `load` and `bulk` run SCTP with, unless told otherwise.
pub fn config() -> Result<Config, Failure> {
    Config::profile("rfc9260").ok_or_else(|| Failure::Internal("there is no profile rfc9260".to_owned()))
}

/// Everything that serves.
struct Servers {
    site: Rc<FileSite>,
    options: Options,
    tasks: Vec<OsTask<Result<(), CloseReason>>>,
    hosts: Vec<SctpHost<OsWorld>>,
    /// URLs under which it is served.
    urls: Vec<String>,
}

impl Servers {
    fn start<L: Listener>(&mut self, world: &OsWorld, listener: L) {
        let serving =
            serve::run(world.clone(), listener, self.site.clone(), self.options.clone(), Unobserved);
        self.tasks.push(world.spawn("server", serving));
    }

    fn name(&mut self, carrier: Carrier, ip: IpAddr, port: u16) {
        self.urls.push(format!("{}://{}/", carrier.scheme(), SocketAddr::new(ip, port)));
    }

    async fn listen(&mut self, world: &OsWorld, place: &Listen, settings: &Settings) -> Result<(), Failure> {
        let failed = |why: String| Failure::Host(format!("cannot listen on {}: {why}", shown(place)));
        if place.carrier == Carrier::Tcp {
            let all = [IpAddr::from([0; 4]), IpAddr::from([0_u8; 16])];
            let wanted = if place.addresses.is_empty() { &all[..] } else { &place.addresses };
            for &ip in wanted {
                match KernelListener::new(world.clone(), SocketAddr::new(ip, place.port), BACKLOG) {
                    Ok(listener) => {
                        self.name(place.carrier, ip, listener.port());
                        self.start(world, listener);
                    }
                    // A host without IPv6.
                    Err(why) if place.addresses.is_empty() && ip.is_ipv6() => {
                        complain(&format!("not on [::]:{}: {why}", place.port));
                    }
                    Err(why) => return Err(failed(why.to_string())),
                }
            }
            return Ok(());
        }
        let (carrier, port) = match place.carrier {
            Carrier::SctpIp => (SctpCarrier::Ip, place.port),
            _ => (SctpCarrier::Udp { port: place.port }, settings.sctp_port),
        };
        let here = world.at(place.addresses.clone()).map_err(|why| failed(why.to_string()))?;
        let host = SctpHost::new(here.clone(), settings.sctp.clone(), carrier, None)
            .await
            .map_err(|why| failed(reason(place.carrier, &why)))?;
        let listener = host.listen(port).map_err(|why| failed(why.to_string()))?;
        let addresses = host.inspect(|engine| engine.addresses().to_vec());
        for address in addresses {
            let port = if place.carrier == Carrier::SctpIp { port } else { address.port() };
            self.name(place.carrier, address.ip(), port);
        }
        self.start(&here, listener);
        self.hosts.push(host);
        Ok(())
    }
}

/// What the host says when it does not let us, and what would help.
pub fn reason(carrier: Carrier, why: &io::Error) -> String {
    match (carrier, why.kind()) {
        (Carrier::SctpIp, io::ErrorKind::PermissionDenied) => {
            format!("{why}: raw sockets need root or CAP_NET_RAW; SCTP in UDP needs neither")
        }
        _ => why.to_string(),
    }
}

fn shown(place: &Listen) -> String {
    let hosts: Vec<_> = place.addresses.iter().map(IpAddr::to_string).collect();
    let hosts = if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") };
    format!("{} (port {}) for {}", hosts, place.port, place.carrier.scheme())
}

async fn serve(
    world: OsWorld,
    site: FileSite,
    places: Vec<Listen>,
    settings: Settings,
) -> Result<Done, Failure> {
    let mut signals = Signals::new().map_err(|why| Failure::Host(format!("no signals: {why}")))?;
    let (options, stop) = (settings.options.clone(), settings.options.stop.clone().unwrap_or_default());
    let mut servers =
        Servers { site: Rc::new(site), options, tasks: Vec::new(), hosts: Vec::new(), urls: Vec::new() };
    for place in &places {
        servers.listen(&world, place, &settings).await?;
    }
    complain(&format!("serving {} on {}", settings.directory, servers.urls.join(" ")));
    complain("traffic is in the clear: whoever is on the way can read and change it");

    // A server ends by itself only when its host has failed.
    let failed = poll_fn(|cx| {
        if signals.poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        for task in &mut servers.tasks {
            if let Poll::Ready(Err(why)) = Pin::new(task).poll(cx) {
                return Poll::Ready(Some(why));
            }
        }
        Poll::Pending
    })
    .await;
    if let Some(why) = failed {
        return Err(Failure::Host(format!("a server has ended: {why}")));
    }
    complain("ending: what is in flight is finished; a second signal ends at once");
    stop.stop();
    let mut timer = world.timer();
    timer.set(Some(world.now() + settings.grace));
    let Servers { tasks, hosts, .. } = servers;
    let mut finish = std::pin::pin!(async {
        for task in tasks {
            let _ = task.await;
        }
        for host in &hosts {
            host.close().await;
        }
    });
    let in_time = poll_fn(|cx| match finish.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending if signals.poll(cx).is_ready() => Poll::Ready(false),
        Poll::Pending => timer.poll(cx).map(|()| false),
    })
    .await;
    if !in_time {
        complain("not everything was finished");
    }
    Ok(if in_time { Done::Well } else { Done::Badly })
}

/// One line in the Common Log Format, with the stream after the client's port.
fn log(access: &Access) {
    let peer = access.peer.map_or_else(|| "-".to_owned(), |peer| peer.ip().to_string());
    // `Sun, 06 Nov 1994 08:49:37 GMT` as `06/Nov/1994:08:49:37 +0000`.
    let date = httpdate::fmt_http_date(now());
    let date = date.get(5..25).unwrap_or_default().replacen(' ', "/", 2).replacen(' ', ":", 1);
    let (method, target) = (&access.method, access.target.escape_default());
    let (status, bytes) = (access.status, access.bytes);
    // Whoever closed the log's pipe does not want it.
    let _ = say(&format!("{peer} - - [{date} +0000] \"{method} {target} HTTP/1.1\" {status} {bytes}\n"));
}

#[expect(clippy::disallowed_methods, reason = "dates on the wire and in the log are the wall clock's")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Connections that may wait for the kernel.
const BACKLOG: u32 = 1024;
