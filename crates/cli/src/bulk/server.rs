//! The server of `anabranch bulk`: listens on any mix of protocols and runs every test that a client requests.

use super::ending::{CLOSING, signals};
use crate::dial::{reason, warn_of_host};
use crate::knobs;
use crate::listen::at;
use crate::paths::ServerLog;
use crate::privileges::drop_capabilities;
use crate::secure::ServerTls;
use crate::url::Listen;
use crate::{Completion, Failure, complain};
use anabranch_load::throughput::{self, Event};
use anabranch_transport::network::{Needs, StreamNeed};
use anabranch_transport::{CloseReason, Host, ListenError, Listener, Settings};
use anabranch_transports::os::{self, ListenFailure, ListenOptions, WithListener, possible};
use anabranch_world::World;
use anabranch_world::os::{OsTask, OsWorld, processor_time};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// The settings of a `bulk` server.
pub(super) struct Server {
    pub(super) listeners: Vec<(Box<dyn Settings>, Listen)>,
    pub(super) sctp_port: u16,
    /// The TLS, DTLS and QUIC settings of the listeners.
    pub(super) tls: Option<ServerTls>,
    pub(super) timeout: Duration,
    pub(super) once: bool,
}

impl Server {
    pub(super) async fn run(self, world: OsWorld) -> Result<Completion, Failure> {
        let mut signals = signals()?;
        // The outcome of the first session, set when that session ends.
        let first_result: Rc<Cell<Option<Completion>>> = Rc::default();
        let (mut tasks, mut urls, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        let mut hosts: Vec<Rc<dyn Host>> = Vec::new();
        for (settings, listen) in &self.listeners {
            let mut settings = settings.clone();
            let streams = Some(StreamNeed::AtLeast(MAX_STREAMS));
            settings.suit(&Needs { streams, ..Needs::default() }, &|_| false);
            let first_address = listen.addresses.first().copied();
            let first_address = first_address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            possible(&listen.scheme, &*settings, &[SocketAddr::new(first_address, 0)])
                .map_err(Failure::Host)?;
            warn_of_host(&listen.scheme);
            let security = self.tls.as_ref().map(|tls| &tls.security);
            let listen_options =
                ListenOptions { inner_port: self.sctp_port, security, ..at(listen, &*settings) };
            let opened = os::listen(&world, &listen_options).await;
            let opened = opened.map_err(|failure| self::failure(listen, failure))?;
            left_out.extend(
                opened.skipped.iter().map(|(to, why)| format!("not on {to}: {}", listen_error(*to, why))),
            );
            for listening in opened.listeners {
                let name = listen.scheme.name();
                urls.extend(listening.local.iter().map(|address| format!("{name}://{address}")));
                let host = listening.host.clone();
                let in_use = host.settings().unwrap_or_else(|| settings.clone());
                let world = listening.world.clone();
                let log = ServerLog::new(knobs::describe(&*in_use));
                log.watch(&*host, &world);
                let test = Testing { server: &self, world, log, first_result: &first_result };
                tasks.push(listening.with(test));
                hosts.push(host);
            }
        }
        drop_capabilities(false);
        complain(&format!("listening on {}", urls.join(" ")));
        let certificate = self.tls.as_ref().map(|tls| &tls.description);
        certificate.into_iter().chain(&left_out).for_each(|line| complain(line));
        self.listeners.iter().for_each(|(settings, _)| knobs::warn(&**settings));
        let mut timer = world.timer();
        let ended = poll_fn(|cx| {
            if signals.poll(cx).is_ready() {
                return Poll::Ready(Ok(Completion::Well));
            }
            for task in &mut tasks {
                if let Poll::Ready(Err(why)) = Pin::new(task).poll(cx) {
                    return Poll::Ready(Err(Failure::Host(format!("a listener ended: {why}"))));
                }
            }
            if self.once
                && let Some(done) = first_result.get()
            {
                return Poll::Ready(Ok(done));
            }
            if self.once {
                // This future is not woken when a session ends. A timer therefore wakes it at intervals to check
                // whether the session has ended.
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
                    host.wait_idle().await;
                }
            };
            let _ = world.timeout(CLOSING, idle).await;
        }
        ended
    }

    /// Serves tests on a listener. `log` holds the settings and the path events of the listener, which the server sends
    /// to its clients.
    fn start<L: Listener>(
        &self,
        world: &OsWorld,
        listener: L,
        log: ServerLog,
        first_result: &Rc<Cell<Option<Completion>>>,
    ) -> OsTask<Result<(), CloseReason>> {
        let first_result = first_result.clone();
        let report = move |event: Event| {
            let name = |peer: Option<SocketAddr>| peer.map_or("a client".to_owned(), |peer| peer.to_string());
            match event {
                Event::Began(peer) => complain(&format!("{} connected", name(peer))),
                Event::Ended { peer, received, sent, failed } => {
                    let totals = format!("received {} B, sent {} B", received.bytes, sent.bytes);
                    let failure = failed.as_ref().map_or_else(String::new, |error| format!("; {error}"));
                    complain(&format!("{}: {totals}{failure}", name(peer)));
                    first_result.set(Some(if failed.is_some() {
                        Completion::Badly
                    } else {
                        Completion::Well
                    }));
                }
            }
        };
        let serving = throughput::serve(
            world.clone(),
            listener,
            self.timeout,
            MAX_SESSIONS,
            processor_time,
            log,
            Rc::new(report),
        );
        world.spawn("bulk server", serving)
    }
}

/// Serves throughput tests on one listener. The code is generic over the type of the listener (the transport).
struct Testing<'a> {
    server: &'a Server,
    world: OsWorld,
    log: ServerLog,
    first_result: &'a Rc<Cell<Option<Completion>>>,
}

impl WithListener for Testing<'_> {
    type Out = OsTask<Result<(), CloseReason>>;

    fn on<L: Listener>(self, listener: L) -> Self::Out {
        self.server.start(&self.world, listener, self.log, self.first_result)
    }
}

/// Returns the failure of the command if the server cannot listen at an address.
fn failure(listen: &Listen, failure: ListenFailure) -> Failure {
    let cause = match failure {
        ListenFailure::Socket(Some(to), error) => format!("{to}: {}", listen_error(to, &error)),
        ListenFailure::Socket(None, error) => reason(&listen.scheme, Some(listen.port), &error),
        ListenFailure::Refused(error) => error,
        ListenFailure::NoCertificate => {
            return Failure::Internal("a listener over TLS has no certificate".to_owned());
        }
    };
    Failure::Host(format!("cannot listen: {cause}"))
}

/// Says why the kernel does not listen at `to`.
fn listen_error(to: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => ListenError::PortInUse(to.port()).to_string(),
        _ => error.to_string(),
    }
}

const LOOKING: Duration = Duration::from_millis(100);
const MAX_SESSIONS: usize = 1024;
/// The maximum number of streams that the server grants to an association.
const MAX_STREAMS: u16 = 65_535;
