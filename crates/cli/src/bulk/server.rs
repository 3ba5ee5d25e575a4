//! The server of `anabranch bulk`: listens on any mix of protocols and runs every test that a client requests.

use super::protocol::{Knobs, possible};
use super::verb::{CLOSING, signals};
use crate::dial::http3::{self, Http3Server};
use crate::knobs::describe;
use crate::paths::ServerLog;
use crate::place::Listen;
use crate::privileges::drop_capabilities;
use crate::secure::{ServerTls, dtls_server};
use crate::serve::reason;
use crate::{Done, Failure, complain};
use anabranch_dtls::DtlsLayer;
use anabranch_load::throughput::paths::ServerReports;
use anabranch_load::throughput::{self, Event, Settings};
use anabranch_tls::{TlsListener, TlsSession};
use anabranch_transport::kernel::{KernelListener, KernelSession};
use anabranch_transport::sctp::{Carrier as SctpCarrier, SctpHost};
use anabranch_transport::{CloseReason, Host, Listener};
use anabranch_world::World;
use anabranch_world::os::{OsTask, OsWorld, processor_time};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// The settings of a `bulk` server.
pub(super) struct Server {
    pub(super) places: Vec<(Knobs, Listen)>,
    pub(super) sctp_port: u16,
    /// The TLS, DTLS and QUIC settings.
    pub(super) tls: Option<ServerTls>,
    pub(super) timeout: Duration,
    pub(super) once: bool,
}

impl Server {
    pub(super) async fn run(self, world: OsWorld) -> Result<Done, Failure> {
        let mut signals = signals()?;
        // The outcome of the first session, set when that session ends.
        let first: Rc<Cell<Option<Done>>> = Rc::default();
        let (mut tasks, mut hosts, mut urls) = (Vec::new(), Vec::new(), Vec::new());
        let (mut left_out, mut quic) = (Vec::new(), Vec::new());
        for (knobs, place) in &self.places {
            let at = |what: &str| Failure::Host(format!("cannot listen: {what}"));
            match knobs {
                Knobs::Kernel(options) => {
                    let world = world.with_kernel(options.clone());
                    let all = [IpAddr::from([0; 4]), IpAddr::from([0_u8; 16])];
                    let wanted = if place.addresses.is_empty() { &all[..] } else { &place.addresses };
                    possible(&[SocketAddr::new(wanted[0], 0)], options)?;
                    let mut port = place.port;
                    for &ip in wanted {
                        let to = SocketAddr::new(ip, port);
                        let listener = match KernelListener::new(world.clone(), to, BACKLOG) {
                            Ok(listener) => listener,
                            // The host has no IPv6, so the server listens on its IPv4 addresses only.
                            Err(why) if place.addresses.is_empty() && ip.is_ipv6() => {
                                left_out.push(format!("not on {to}: {why}"));
                                continue;
                            }
                            Err(why) => return Err(at(&format!("{to}: {why}"))),
                        };
                        // All addresses of one `--listen` share a port, even if the operating system chose the port for
                        // the first address.
                        port = listener.port();
                        let name = place.carrier.name();
                        urls.push(format!("{name}://{}", SocketAddr::new(ip, listener.port())));
                        let settings = knobs.settings();
                        let settings = move |session: &KernelSession<OsWorld>| {
                            let mut settings = settings.clone();
                            if settings.iter().all(|(key, _)| key != "cc") {
                                settings.extend(session.congestion().map(|name| ("cc".to_owned(), name)));
                            }
                            settings
                        };
                        if !place.carrier.is_secure() {
                            tasks.push(self.start(&world, listener, settings, &first));
                            continue;
                        }
                        let tls = self.tls.as_ref().and_then(|tls| tls.server.clone());
                        let listener =
                            TlsListener::new(world.clone(), listener, tls.ok_or_else(uncertified)?);
                        let settings = move |session: &TlsSession<_>| session.below(&settings);
                        tasks.push(self.start(&world, listener, settings, &first));
                    }
                }
                Knobs::Quinn(config) => {
                    let server = self.tls.as_ref().and_then(|tls| tls.http3.clone());
                    let config = (**config).clone();
                    let server = Http3Server { server: server.ok_or_else(uncertified)?, config, logs: None };
                    let here = world.at(place.addresses.clone()).map_err(|why| at(&why.to_string()))?;
                    let host = http3::listen(&here, place, server).await.map_err(|why| at(&why))?;
                    let port = host.engine(|engine| engine.port());
                    let listener = host.listen(port, 0).map_err(|why| at(&why.to_string()))?;
                    for ip in here.addresses() {
                        urls.push(format!("{}://{}", place.carrier.name(), SocketAddr::new(ip, port)));
                    }
                    let settings = knobs.settings();
                    tasks.push(self.start(&here, listener, move |_: &_| settings.clone(), &first));
                    quic.push(host);
                }
                Knobs::Ours(config) => {
                    crate::dial::warn_kernel_sctp(place.carrier);
                    let (mut carrier, port) = match place.carrier.is_on_ip() {
                        true => (SctpCarrier::Ip, place.port),
                        false => (SctpCarrier::Udp { port: place.port }, self.sctp_port),
                    };
                    let mut config = (**config).clone();
                    config.streams = MAX_STREAMS;
                    let dtls = self.tls.as_ref().and_then(|tls| tls.dtls.as_ref());
                    let dtls = dtls.filter(|_| place.carrier.is_over_dtls());
                    config.zero_checksum |= dtls.is_some_and(|dtls| dtls.unsummed);
                    // Over DTLS each address needs an SCTP host of its own, because an association has one address at each
                    // end (RFC 8261 §6.1).
                    let all = match (dtls, place.addresses.is_empty()) {
                        (None, _) => vec![place.addresses.clone()],
                        (Some(_), true) => world.addresses().into_iter().map(|one| vec![one]).collect(),
                        (Some(_), false) => place.addresses.iter().map(|one| vec![*one]).collect(),
                    };
                    for addresses in all {
                        let here = world.at(addresses).map_err(|why| at(&why.to_string()))?;
                        let host = match dtls {
                            None => SctpHost::new(here.clone(), config.clone(), carrier, None).await,
                            Some(dtls) => {
                                let ends = dtls_server(dtls.identity.clone());
                                let ends = ends.map_err(|why| at(&why.to_string()))?;
                                let layer = Rc::new(DtlsLayer::new(here.clone(), ends, None));
                                SctpHost::layered(here.clone(), config.clone(), carrier, layer).await
                            }
                        };
                        let host = host.map_err(|why| at(&reason(place.carrier, Some(place.port), &why)))?;
                        let listener = host.listen(port).map_err(|why| at(&why.to_string()))?;
                        for address in host.inspect(|engine| engine.addresses().to_vec()) {
                            let port = if place.carrier.is_on_ip() { port } else { address.port() };
                            // All addresses of one `--listen` share a port, even if the operating system chose the port
                            // for the first address.
                            if let (Some(_), SctpCarrier::Udp { port: udp }) = (dtls, &mut carrier) {
                                *udp = port;
                            }
                            let name = place.carrier.name();
                            urls.push(format!("{name}://{}", SocketAddr::new(address.ip(), port)));
                        }
                        let log = ServerLog::new(host.inspect(|engine| describe(engine.config())));
                        log.watch(&host, &here);
                        tasks.push(self.start_reporting(&here, listener, log, &first));
                        hosts.push(host);
                    }
                }
            }
        }
        drop_capabilities(false);
        complain(&format!("listening on {}", urls.join(" ")));
        let certificate = self.tls.as_ref().map(|tls| &tls.shown);
        certificate.into_iter().chain(&left_out).for_each(|line| complain(line));
        self.places.iter().for_each(|(knobs, _)| knobs.warn());
        let mut timer = world.timer();
        let ended = poll_fn(|cx| {
            if signals.poll(cx).is_ready() {
                return Poll::Ready(Ok(Done::Well));
            }
            for task in &mut tasks {
                if let Poll::Ready(Err(why)) = Pin::new(task).poll(cx) {
                    return Poll::Ready(Err(Failure::Host(format!("a listener ended: {why}"))));
                }
            }
            if self.once
                && let Some(done) = first.get()
            {
                return Poll::Ready(Ok(done));
            }
            if self.once {
                // A session that ends wakes no task that this future polls, so a timer polls for the end of the session.
                anabranch_world::Timer::set(&mut timer, Some(world.now() + LOOKING));
                let _ = anabranch_world::Timer::poll(&mut timer, cx);
            }
            Poll::Pending
        })
        .await;
        if ended.is_ok() {
            // Wait until the clients have closed the last sessions.
            let idle = async {
                for host in &hosts {
                    host.idle().await;
                }
                for host in &quic {
                    host.idle().await;
                }
            };
            let _ = world.timeout(CLOSING, idle).await;
        }
        ended
    }

    fn start<L: Listener>(
        &self,
        world: &OsWorld,
        listener: L,
        settings: impl Fn(&L::Session) -> Settings + 'static,
        first: &Rc<Cell<Option<Done>>>,
    ) -> OsTask<Result<(), CloseReason>> {
        self.start_reporting(world, listener, settings, first)
    }

    fn start_reporting<L: Listener>(
        &self,
        world: &OsWorld,
        listener: L,
        reports: impl ServerReports<L::Session> + 'static,
        first: &Rc<Cell<Option<Done>>>,
    ) -> OsTask<Result<(), CloseReason>> {
        let first = first.clone();
        let tell = move |event: Event| {
            let who = |peer: Option<SocketAddr>| peer.map_or("a client".to_owned(), |peer| peer.to_string());
            match event {
                Event::Began(peer) => complain(&format!("{} connected", who(peer))),
                Event::Ended { peer, received, sent, failed } => {
                    let counted = format!("received {} B, sent {} B", received.bytes, sent.bytes);
                    let how = failed.as_ref().map_or_else(String::new, |why| format!("; {why}"));
                    complain(&format!("{}: {counted}{how}", who(peer)));
                    first.set(Some(if failed.is_some() { Done::Badly } else { Done::Well }));
                }
            }
        };
        let serving = throughput::serve(
            world.clone(),
            listener,
            self.timeout,
            MAX_SESSIONS,
            processor_time,
            reports,
            Rc::new(tell),
        );
        world.spawn("bulk server", serving)
    }
}

/// Returns the error for a TLS or QUIC listener that has no certificate.
fn uncertified() -> Failure {
    Failure::Internal("a listener over TLS has no certificate".to_owned())
}

const LOOKING: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 1024;
const MAX_SESSIONS: usize = 1024;
/// The maximum number of streams that the server grants to an association.
const MAX_STREAMS: u16 = 65_535;
