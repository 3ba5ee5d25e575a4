//! Opens the listeners of `serve` and `gateway`, and shuts these servers down.

use crate::dial::http3::{self, Http3Server};
use crate::paths;
use crate::place::{Carrier, Listen};
use crate::privileges::drop_capabilities;
use crate::secure::{DtlsServer, dtls_server};
use crate::serve::reason;
use crate::threads::WorkerHandle;
use crate::{Done, Failure, complain, watchdog};
use anabranch_dtls::DtlsLayer;
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_http::serve::Stop;
use anabranch_quic::{QuicHost, Shard};
use anabranch_tls::{Server, TlsListener};
use anabranch_transport::kernel::KernelListener;
use anabranch_transport::sctp::Config;
use anabranch_transport::sctp::{Carrier as SctpCarrier, Member, SctpHost, SctpListener};
use anabranch_transport::{AnyListener, CloseReason, Host};
use anabranch_world::World;
use anabranch_world::kernel::KernelTcp;
use anabranch_world::os::{Hangups, MemoryTrimmer, OsTask, OsWorld, Seat, Signals};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// A listener that one thread has to open, with the sockets that were opened for it in advance.
pub enum ListenSpec {
    /// An address that only this thread listens on, and the maximum number of sessions for each of its listeners.
    Place(Listen, usize),
    /// A TCP socket from which all threads accept.
    Kernel {
        /// The address that the URL of the listener names.
        place: Listen,
        /// The listening socket.
        listener: TcpListener,
        /// The limit on concurrent sessions, shared by all threads.
        limit: ConcurrencyLimit,
    },
    /// An SCTP address that the threads share, with the sockets of this thread.
    Shared {
        /// The address that the URL of the listener names.
        place: Listen,
        /// The sockets of this thread.
        seat: Seat,
        /// This thread's number among those that share the address.
        member: Member,
        /// The limit on concurrent sessions, shared by all threads.
        limit: ConcurrencyLimit,
    },
    /// A UDP port for HTTP/3 that the threads share, with the sockets of this thread.
    SharedHttp3 {
        /// The address that the URL of the listener names.
        place: Listen,
        /// The sockets of this thread.
        seat: Seat,
        /// This thread's number among those that share the port.
        shard: Shard,
        /// The limit on concurrent sessions, shared by all threads.
        limit: ConcurrencyLimit,
    },
    /// An address for SCTP over DTLS that the threads share, with the socket of this thread.
    SharedDtls {
        /// The address that the URL of the listener names.
        place: Listen,
        /// The socket of this thread.
        seat: Seat,
        /// The limit on concurrent sessions, shared by all threads.
        limit: ConcurrencyLimit,
    },
}

impl ListenSpec {
    /// Whether the listener uses TLS, DTLS or QUIC.
    pub fn is_secure(&self) -> bool {
        let (Self::Place(place, _)
        | Self::Kernel { place, .. }
        | Self::Shared { place, .. }
        | Self::SharedHttp3 { place, .. }
        | Self::SharedDtls { place, .. }) = self;
        place.carrier.is_secure()
    }
}

/// An open listener and its limit on sessions. Each variant has the concrete type of its transport rather than an
/// erased one, because the servers' cost per packet is benchmarked.
pub enum Opened {
    /// TCP connections of the kernel.
    Kernel(KernelListener<OsWorld>, ConcurrencyLimit),
    /// TCP connections of the kernel, with TLS on top.
    Secure(TlsListener<OsWorld, KernelListener<OsWorld>>, ConcurrencyLimit),
    /// SCTP associations, and the `OsWorld` that is limited to their local addresses.
    Ours(OsWorld, SctpListener<OsWorld>, ConcurrencyLimit),
    /// QUIC connections that carry HTTP/3. Only this listener type is erased, because dynamic dispatch costs little
    /// compared with QUIC streams.
    Http3(AnyListener, ConcurrencyLimit),
}

/// The listeners of one thread, and the servers that run on them.
pub struct Servers {
    worker: WorkerHandle,
    signals: Signals,
    tasks: Vec<OsTask<Result<(), CloseReason>>>,
    hosts: Vec<SctpHost<OsWorld>>,
    quic: Vec<QuicHost<OsWorld>>,
    /// The URLs of all listeners.
    pub urls: Vec<String>,
    /// The addresses of all listeners, with their transports.
    listening: Vec<(Carrier, SocketAddr)>,
    https_port: Option<u16>,
    http3_port: Option<u16>,
    /// The TLS server (certificate and settings), for HTTPS over TCP.
    tls: Option<Server>,
    /// The DTLS server, for SCTP over DTLS.
    dtls: Option<DtlsServer>,
    /// The TLS and QUIC server, for HTTP/3.
    http3: Option<Http3Server>,
    /// The source of SIGHUP signals, and the function that each of them calls.
    reload: Option<(Hangups, Box<dyn Fn()>)>,
}

impl Servers {
    /// Creates the servers of one thread, without a listener. From here on a signal no longer kills the process: the
    /// servers shut down in order, and a watchdog ends the process when `grace` is over.
    pub fn new(worker: WorkerHandle, grace: Duration) -> Result<Self, Failure> {
        let signals = Signals::new().map_err(|why| Failure::Host(format!("no signals: {why}")))?;
        if worker.leads() {
            watchdog::start(grace, 1)?;
        }
        Ok(Self {
            worker,
            signals,
            tasks: Vec::new(),
            hosts: Vec::new(),
            quic: Vec::new(),
            urls: Vec::new(),
            listening: Vec::new(),
            https_port: None,
            http3_port: None,
            tls: None,
            dtls: None,
            http3: None,
            reload: None,
        })
    }

    /// Sets the TLS server and the DTLS server.
    #[must_use]
    pub fn with_tls(self, tls: Option<Server>, dtls: Option<DtlsServer>) -> Self {
        Self { tls, dtls, ..self }
    }

    /// Sets the HTTP/3 server.
    #[must_use]
    pub fn with_http3(self, http3: Option<Http3Server>) -> Self {
        Self { http3, ..self }
    }

    /// Makes SIGHUP call `reload` from here on. Only the leading thread installs the handler, for all threads.
    pub fn with_reload(mut self, reload: impl Fn() + 'static) -> Result<Self, Failure> {
        if self.worker.leads() {
            let hangups = Hangups::new().map_err(|why| Failure::Host(format!("no signals: {why}")))?;
            self.reload = Some((hangups, Box::new(reload)));
        }
        Ok(self)
    }

    /// Wraps a TCP listener of the kernel in TLS if `carrier` requires TLS.
    fn kernel(
        &self,
        world: &OsWorld,
        carrier: Carrier,
        listener: KernelListener<OsWorld>,
        limit: ConcurrencyLimit,
    ) -> Result<Opened, Failure> {
        if !carrier.is_secure() {
            return Ok(Opened::Kernel(listener, limit));
        }
        let Some(tls) = self.tls.clone() else {
            return Err(Failure::Internal("a listener over TLS has no certificate".to_owned()));
        };
        Ok(Opened::Secure(TlsListener::new(world.clone(), listener, tls), limit))
    }

    /// Opens the listeners that `spec` describes. SCTP uses `config`; SCTP in UDP also uses `sctp_port`.
    pub async fn open(
        &mut self,
        world: &OsWorld,
        spec: ListenSpec,
        config: &Config,
        sctp_port: u16,
    ) -> Result<Vec<Opened>, Failure> {
        match spec {
            ListenSpec::Place(place, most) if place.carrier.is_kernels() => {
                self.listen_tcp(world, &place, most)
            }
            ListenSpec::Place(place, most) if place.carrier.is_http3() => {
                Ok(vec![self.listen_http3(world, &place, most).await?])
            }
            ListenSpec::Place(place, most) if place.carrier.is_secure() => {
                self.listen_dtls(world, &place, config, sctp_port, most).await
            }
            ListenSpec::Place(place, most) => {
                let opened = self.listen_sctp(world, &place, config, sctp_port, most).await?;
                Ok(vec![opened])
            }
            ListenSpec::Kernel { place, listener, limit } => {
                let listening = world.take_listener(listener);
                let listening = listening.map_err(|why| Failure::Host(format!("cannot listen: {why}")))?;
                let listener = KernelListener::over(world.clone(), listening);
                self.name(place.carrier, listener.local().ip(), listener.local().port());
                Ok(vec![self.kernel(world, place.carrier, listener, limit)?])
            }
            ListenSpec::SharedHttp3 { place, seat, shard, limit } => {
                let failed =
                    |why: String| Failure::Host(format!("cannot listen on {}: {why}", shown(&place)));
                let server = self.of_http3()?;
                let here = world.at(place.addresses.clone()).map_err(|why| failed(why.to_string()))?;
                let socket = here.take_seat(seat).map_err(|why| failed(why.to_string()))?;
                let host = http3::share(&here, socket, server, shard).map_err(failed)?;
                Ok(vec![self.take_in_http3(&here, host, &place, limit)?])
            }
            ListenSpec::Shared { place, seat, member, limit } => {
                let failed =
                    |why: std::io::Error| Failure::Host(format!("cannot listen on {}: {why}", shown(&place)));
                let here = world.at(place.addresses.clone()).map_err(failed)?;
                let socket = here.take_seat(seat).map_err(failed)?;
                let host = SctpHost::new_shard(here.clone(), config.clone(), socket, member);
                let port = if place.carrier.is_on_ip() { place.port } else { sctp_port };
                Ok(vec![self.take_in(here, host, &place, port, limit)?])
            }
            ListenSpec::SharedDtls { place, seat, limit } => {
                let failed =
                    |why: std::io::Error| Failure::Host(format!("cannot listen on {}: {why}", shown(&place)));
                let here = world.at(place.addresses.clone()).map_err(failed)?;
                let socket = here.take_seat(seat).map_err(failed)?;
                let (config, layer) = self.under_dtls(&here, &place, config)?;
                let host = SctpHost::layered_on(here.clone(), config, socket, layer);
                Ok(vec![self.take_in(here, host, &place, sctp_port, limit)?])
            }
        }
    }

    fn listen_tcp(&mut self, world: &OsWorld, place: &Listen, most: usize) -> Result<Vec<Opened>, Failure> {
        let mut opened = Vec::new();
        let all = [IpAddr::from([0; 4]), IpAddr::from([0_u8; 16])];
        let wanted = if place.addresses.is_empty() { &all[..] } else { &place.addresses };
        for &ip in wanted {
            match world.listen_tcp(SocketAddr::new(ip, place.port), BACKLOG) {
                Ok(listening) => {
                    let listener = KernelListener::over(world.clone(), listening);
                    self.name(place.carrier, ip, listener.local().port());
                    opened.push(self.kernel(world, place.carrier, listener, ConcurrencyLimit::new(most))?);
                }
                // The host has no IPv6, so the server listens on its IPv4 addresses only.
                Err(why) if place.addresses.is_empty() && ip.is_ipv6() => {
                    complain(&format!("not listening on [::]:{}: {why}", place.port));
                }
                Err(why) => {
                    let why = reason(place.carrier, Some(place.port), &why);
                    return Err(Failure::Host(format!("cannot listen on {}: {why}", shown(place))));
                }
            }
        }
        Ok(opened)
    }

    async fn listen_sctp(
        &mut self,
        world: &OsWorld,
        place: &Listen,
        config: &Config,
        sctp_port: u16,
        most: usize,
    ) -> Result<Opened, Failure> {
        let failed = |why: String| Failure::Host(format!("cannot listen on {}: {why}", shown(place)));
        crate::dial::warn_kernel_sctp(place.carrier);
        let (carrier, port) = match place.carrier.is_on_ip() {
            true => (SctpCarrier::Ip, place.port),
            false => (SctpCarrier::Udp { port: place.port }, sctp_port),
        };
        let here = world.at(place.addresses.clone()).map_err(|why| failed(why.to_string()))?;
        let host = SctpHost::new(here.clone(), config.clone(), carrier, None)
            .await
            .map_err(|why| failed(reason(place.carrier, Some(place.port), &why)))?;
        self.take_in(here, host, place, port, ConcurrencyLimit::new(most))
    }

    /// Listens for SCTP over DTLS. Each address has an SCTP host of its own, because an association over DTLS has one
    /// address at each end (RFC 8261 §6.1).
    async fn listen_dtls(
        &mut self,
        world: &OsWorld,
        place: &Listen,
        config: &Config,
        sctp_port: u16,
        most: usize,
    ) -> Result<Vec<Opened>, Failure> {
        let failed = |why: String| Failure::Host(format!("cannot listen on {}: {why}", shown(place)));
        let limit = ConcurrencyLimit::new(most);
        let addresses = if place.addresses.is_empty() { world.addresses() } else { place.addresses.clone() };
        let mut hosts = Vec::new();
        let mut place = place.clone();
        for address in addresses {
            let here = world.at(vec![address]).map_err(|why| failed(why.to_string()))?;
            let (config, layer) = self.under_dtls(&here, &place, config)?;
            let carrier = SctpCarrier::Udp { port: place.port };
            let host = SctpHost::layered(here.clone(), config, carrier, layer)
                .await
                .map_err(|why| failed(reason(place.carrier, Some(place.port), &why)))?;
            // All addresses of one `--listen` share a port, even if the operating system chose the port for the first
            // address.
            place.port =
                host.inspect(|engine| engine.addresses().first().map_or(place.port, SocketAddr::port));
            hosts.push((here, host));
        }
        let open = |(here, host)| self.take_in(here, host, &place, sctp_port, limit.clone());
        hosts.into_iter().map(open).collect()
    }

    async fn listen_http3(
        &mut self,
        world: &OsWorld,
        place: &Listen,
        most: usize,
    ) -> Result<Opened, Failure> {
        let failed = |why: String| Failure::Host(format!("cannot listen on {}: {why}", shown(place)));
        let server = self.of_http3()?;
        let here = world.at(place.addresses.clone()).map_err(|why| failed(why.to_string()))?;
        let host = http3::listen(&here, place, server).await.map_err(failed)?;
        self.take_in_http3(&here, host, place, ConcurrencyLimit::new(most))
    }

    fn of_http3(&self) -> Result<Http3Server, Failure> {
        let none = || Failure::Internal("a listener over HTTP/3 has no certificate".to_owned());
        self.http3.clone().ok_or_else(none)
    }

    /// Listens on the port of the QUIC host `host`.
    fn take_in_http3(
        &mut self,
        here: &OsWorld,
        host: QuicHost<OsWorld>,
        place: &Listen,
        limit: ConcurrencyLimit,
    ) -> Result<Opened, Failure> {
        let failed = |why: String| Failure::Host(format!("cannot listen on {}: {why}", shown(place)));
        let port = host.engine(|engine| engine.port());
        let listener = host.listen(port, 0).map_err(|why| failed(why.to_string()))?;
        for ip in here.addresses() {
            self.name(place.carrier, ip, port);
        }
        self.quic.push(host);
        Ok(Opened::Http3(listener, limit))
    }

    /// Returns the SCTP configuration for use over DTLS, and the DTLS layer that carries SCTP.
    fn under_dtls(
        &self,
        here: &OsWorld,
        place: &Listen,
        config: &Config,
    ) -> Result<(Config, Rc<DtlsLayer<OsWorld>>), Failure> {
        let failed = |why: String| Failure::Host(format!("cannot listen on {}: {why}", shown(place)));
        let Some(dtls) = &self.dtls else {
            return Err(Failure::Internal("a listener over DTLS has no certificate".to_owned()));
        };
        let ends = dtls_server(dtls.identity.clone()).map_err(|why| failed(why.to_string()))?;
        let layer = Rc::new(DtlsLayer::new(here.clone(), ends, None));
        let mut config = config.clone();
        config.zero_checksum |= dtls.unsummed;
        Ok((config, layer))
    }

    /// Listens on SCTP port `port` of the SCTP host `host`.
    fn take_in(
        &mut self,
        here: OsWorld,
        host: SctpHost<OsWorld>,
        place: &Listen,
        port: u16,
        limit: ConcurrencyLimit,
    ) -> Result<Opened, Failure> {
        let listener = host
            .listen(port)
            .map_err(|why| Failure::Host(format!("cannot listen on {}: {why}", shown(place))))?;
        let addresses = host.inspect(|engine| engine.addresses().to_vec());
        for address in addresses {
            let port = if place.carrier.is_on_ip() { port } else { address.port() };
            self.name(place.carrier, address.ip(), port);
        }
        paths::watch_server(&host, &here);
        self.hosts.push(host);
        Ok(Opened::Ours(here, listener, limit))
    }

    /// Reports that all sockets are open, and drops the privileges that were needed to open them.
    pub fn ready(&self) {
        drop_capabilities(self.http3.as_ref().is_some_and(|http3| http3.logs.is_some()));
        self.worker.ready(&self.urls);
    }

    /// Returns the addresses of the listeners whose transport `is_meant` selects.
    pub fn listening(&self, is_meant: impl Fn(Carrier) -> bool) -> Vec<SocketAddr> {
        let meant = self.listening.iter().filter(|(carrier, _)| is_meant(*carrier));
        meant.map(|(_, address)| *address).collect()
    }

    /// The port of the first listener over TLS, if any.
    pub fn https_port(&self) -> Option<u16> {
        self.https_port
    }

    /// The port of the first listener over HTTP/3, if any.
    pub fn http3_port(&self) -> Option<u16> {
        self.http3_port
    }

    fn name(&mut self, carrier: Carrier, ip: IpAddr, port: u16) {
        self.urls.push(format!("{}://{}/", carrier.scheme(), SocketAddr::new(ip, port)));
        self.listening.push((carrier, SocketAddr::new(ip, port)));
        if carrier.is_secure() && carrier.is_kernels() {
            self.https_port.get_or_insert(port);
        }
        if carrier.is_http3() {
            self.http3_port.get_or_insert(port);
        }
    }

    /// Runs `server`, which serves one of the listeners, until it ends or the process shuts down.
    pub fn start(
        &mut self,
        world: &OsWorld,
        server: impl Future<Output = Result<(), CloseReason>> + 'static,
    ) {
        self.tasks.push(world.spawn("server", server));
    }

    /// Adds another SCTP host, whose associations are also closed when the servers shut down.
    pub fn also_close(&mut self, host: SctpHost<OsWorld>) {
        self.hosts.push(host);
    }

    /// Waits for a signal. Then tells the servers to end through `stop`, and gives exchanges in flight the time `grace` to
    /// complete.
    pub async fn until_told(
        mut self,
        world: &OsWorld,
        stop: &Stop,
        grace: Duration,
    ) -> Result<Done, Failure> {
        let mut trimmer = self.worker.leads().then(|| MemoryTrimmer::new(world));
        // A server ends by itself only if its host has failed.
        let failed = poll_fn(|cx| {
            if let Some(trimmer) = &mut trimmer {
                trimmer.poll(cx, world);
            }
            if self.signals.poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            if let Some((hangups, reload)) = &mut self.reload {
                while hangups.poll(cx).is_ready() {
                    reload();
                }
            }
            for task in &mut self.tasks {
                if let Poll::Ready(Err(why)) = Pin::new(task).poll(cx) {
                    return Poll::Ready(Some(why));
                }
            }
            Poll::Pending
        })
        .await;
        if let Some(why) = failed {
            return Err(Failure::Host(format!("a server ended: {why}")));
        }
        if self.worker.leads() {
            complain("ending: exchanges in flight will finish; a second signal ends at once");
        }
        stop.stop();
        let Self { tasks, hosts, quic, mut signals, worker, .. } = self;
        let mut finish = std::pin::pin!(async {
            for task in tasks {
                let _ = task.await;
            }
            for host in &hosts {
                host.close().await;
            }
            for host in &quic {
                host.close().await;
            }
        });
        let ended = poll_fn(|cx| match finish.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => signals.poll(cx).map(|()| false),
        });
        let in_time = world.timeout(grace, ended).await == Some(true);
        let associations: u64 =
            hosts.iter().map(|host| host.inspect(|engine| engine.totals().associations)).sum();
        let connections: u64 = quic.iter().map(|host| host.engine(|engine| engine.accepted())).sum();
        worker.count(associations + connections);
        if !in_time && worker.is_alone() {
            complain("some exchanges did not finish");
        }
        Ok(if in_time { Done::Well } else { Done::Badly })
    }
}

/// Formats a listening address for messages.
pub fn shown(place: &Listen) -> String {
    let hosts: Vec<_> = place.addresses.iter().map(IpAddr::to_string).collect();
    let hosts = if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") };
    format!("{} (port {}) for {}", hosts, place.port, place.carrier.scheme())
}

/// The maximum number of connections that wait to be accepted (the backlog argument of `listen`).
pub const BACKLOG: u32 = 1024;
