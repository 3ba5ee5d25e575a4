//! Opens the listeners of `serve` and `gateway`, and shuts these servers down.

use crate::dial::{reason, warn_of_host};
use crate::knobs::Tuned;
use crate::paths;
use crate::privileges::drop_capabilities;
use crate::qlog::LogDestination;
use crate::threads::WorkerHandle;
use crate::url::Listen;
use crate::{Completion, Failure, complain, watchdog};
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_http::serve::Stop;
use anabranch_transport::{CloseReason, Host, Http, Settings};
use anabranch_transports::UrlScheme;
use anabranch_transports::os::{self, ListenFailure, ListenOptions, Listening, ThreadSocket};
use anabranch_transports::security::ServerSecurity;
use anabranch_world::World;
use anabranch_world::os::{Hangups, MemoryTrimmer, OsTask, OsWorld, Signals};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Describes the listeners that one thread opens for one `--listen` address. The socket of the thread may already be
/// open.
pub struct ListenSpec {
    /// The listening address, as the URLs show it.
    pub address: Listen,
    /// The socket of this thread, if several threads share the listening address.
    pub socket: Option<ThreadSocket>,
    /// The limit on concurrent sessions, shared by all threads.
    pub limit: ConcurrencyLimit,
    /// The maximum number of sessions for each listener.
    pub max_sessions: usize,
}

/// An open listener, its scheme, and its limit on sessions.
pub struct Opened {
    /// The listener and its transport.
    pub listening: Listening,
    /// The URL scheme of the listener.
    pub scheme: UrlScheme,
    /// The limit on concurrent sessions.
    pub limit: ConcurrencyLimit,
}

/// The listeners of one thread, and the servers that run on them.
pub struct Servers {
    worker: WorkerHandle,
    signals: Signals,
    tasks: Vec<OsTask<Result<(), CloseReason>>>,
    hosts: Vec<Rc<dyn Host>>,
    /// The URLs of all listeners.
    pub urls: Vec<String>,
    /// The addresses of all listeners, with their schemes.
    listening: Vec<(UrlScheme, SocketAddr)>,
    https_port: Option<u16>,
    http3_port: Option<u16>,
    /// The TLS settings of the listeners; `None` if no listener is encrypted.
    security: Option<ServerSecurity>,
    /// The destination of connection logs.
    logs: LogDestination,
    /// The source of SIGHUP signals, and the function that is called for each signal.
    reload: Option<(Hangups, Box<dyn Fn()>)>,
}

impl Servers {
    /// Creates the servers of one thread, without a listener. From now on, a termination signal starts an orderly
    /// shutdown. If the shutdown takes longer than `grace`, a watchdog ends the process.
    pub fn new(worker: WorkerHandle, grace: Duration) -> Result<Self, Failure> {
        let signals = Signals::new().map_err(|error| Failure::Host(format!("no signals: {error}")))?;
        if worker.is_leader() {
            watchdog::start(grace, 1)?;
        }
        Ok(Self {
            worker,
            signals,
            tasks: Vec::new(),
            hosts: Vec::new(),
            urls: Vec::new(),
            listening: Vec::new(),
            https_port: None,
            http3_port: None,
            security: None,
            logs: None,
            reload: None,
        })
    }

    /// Sets the TLS settings of the listeners, and the destination of connection logs.
    #[must_use]
    pub fn with_security(self, security: Option<ServerSecurity>, logs: LogDestination) -> Self {
        Self { security, logs, ..self }
    }

    /// Calls `reload` on every SIGHUP from now on. Only the leading thread installs the signal handler, for all
    /// threads.
    pub fn with_reload(mut self, reload: impl Fn() + 'static) -> Result<Self, Failure> {
        if self.worker.is_leader() {
            let hangups = Hangups::new().map_err(|error| Failure::Host(format!("no signals: {error}")))?;
            self.reload = Some((hangups, Box::new(reload)));
        }
        Ok(self)
    }

    /// Opens the listeners that `spec` describes, with the settings in `tuned`. If the transport is encapsulated in
    /// UDP, `inner_port` is the port of the transport itself.
    pub async fn open(
        &mut self,
        world: &OsWorld,
        spec: ListenSpec,
        tuned: &Tuned,
        inner_port: u16,
    ) -> Result<Vec<Opened>, Failure> {
        let ListenSpec { address: listen, socket, limit, max_sessions } = spec;
        let settings = tuned.of(&listen.scheme)?;
        let options = ListenOptions {
            inner_port,
            security: self.security.as_ref(),
            logs: self.logs.clone(),
            ..at(&listen, &*settings)
        };
        let shared = socket.is_some();
        let opened = match socket {
            None => {
                warn_of_host(&listen.scheme);
                let opened = os::listen(world, &options).await;
                let opened = opened.map_err(|failure| self::failure(&listen, failure))?;
                for (to, error) in &opened.skipped {
                    complain(&format!("not listening on {to}: {error}"));
                }
                opened.listeners
            }
            Some(socket) => {
                let opened = os::listen_shared(world, &options, socket).await;
                vec![opened.map_err(|failure| self::failure(&listen, failure))?]
            }
        };
        let mut all = Vec::new();
        for listening in opened {
            for address in &listening.local {
                self.record_address(&listen.scheme, *address);
            }
            paths::watch_server(&*listening.host, &listening.world);
            self.hosts.push(listening.host.clone());
            // Each listener of the kernel has a session limit of its own. The listeners of our transports share one
            // limit: a DTLS server has a listener for each address, and its sessions must count together.
            let own = !shared && listen.scheme.can().kernel;
            let limit = if own { ConcurrencyLimit::new(max_sessions) } else { limit.clone() };
            all.push(Opened { listening, scheme: listen.scheme.clone(), limit });
        }
        Ok(all)
    }

    /// Reports that all sockets are open, and drops the privileges that were needed to open them.
    pub fn ready(&self) {
        drop_capabilities(self.logs.is_some());
        self.worker.ready(&self.urls);
    }

    /// Returns the addresses of the listeners whose scheme `is_meant` selects.
    pub fn listening(&self, is_meant: impl Fn(&UrlScheme) -> bool) -> Vec<SocketAddr> {
        let meant = self.listening.iter().filter(|(scheme, _)| is_meant(scheme));
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

    fn record_address(&mut self, scheme: &UrlScheme, address: SocketAddr) {
        self.urls.push(format!("{}://{address}/", scheme.url()));
        self.listening.push((scheme.clone(), address));
        if scheme.is_secure() && scheme.is_registered() {
            self.https_port.get_or_insert(address.port());
        }
        if scheme.http() == Some(Http::Http3) {
            self.http3_port.get_or_insert(address.port());
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

    /// Adds a transport instance without a listener. Its sessions are also closed when the servers shut down.
    pub fn also_close(&mut self, host: Rc<dyn Host>) {
        self.hosts.push(host);
    }

    /// Waits for a signal, and then ends the servers through `stop`. Exchanges in flight have the time `grace` to
    /// complete.
    pub async fn run_until_signal(
        mut self,
        world: &OsWorld,
        stop: &Stop,
        grace: Duration,
    ) -> Result<Completion, Failure> {
        let mut trimmer = self.worker.is_leader().then(|| MemoryTrimmer::new(world));
        // Before a signal arrives, a server task ends only if its transport has failed.
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
                if let Poll::Ready(Err(reason)) = Pin::new(task).poll(cx) {
                    return Poll::Ready(Some(reason));
                }
            }
            Poll::Pending
        })
        .await;
        if let Some(reason) = failed {
            return Err(Failure::Host(format!("a server ended: {reason}")));
        }
        if self.worker.is_leader() {
            complain("ending: exchanges in flight will finish; a second signal ends at once");
        }
        stop.stop();
        let Self { tasks, hosts, mut signals, worker, .. } = self;
        let mut finish = std::pin::pin!(async {
            for task in tasks {
                let _ = task.await;
            }
            for host in &hosts {
                host.close();
                host.wait_idle().await;
            }
        });
        let ended = poll_fn(|cx| match finish.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => signals.poll(cx).map(|()| false),
        });
        let in_time = world.timeout(grace, ended).await == Some(true);
        worker.report_associations(hosts.iter().map(|host| host.accepted()).sum());
        if !in_time && worker.is_alone() {
            complain("some exchanges did not finish");
        }
        Ok(if in_time { Completion::Well } else { Completion::Badly })
    }
}

/// Converts a listening address and the settings of its transport to a [`ListenOptions`].
pub fn at<'a>(listen: &'a Listen, settings: &'a dyn Settings) -> ListenOptions<'a> {
    ListenOptions {
        scheme: &listen.scheme,
        addresses: &listen.addresses,
        port: listen.port,
        inner_port: listen.port,
        settings,
        security: None,
        logs: None,
        backlog: BACKLOG,
    }
}

/// Returns the failure of the command if the server cannot listen at an address.
fn failure(listen: &Listen, failure: ListenFailure) -> Failure {
    let error = match failure {
        ListenFailure::Socket(_, error) => reason(&listen.scheme, Some(listen.port), &error),
        ListenFailure::Refused(error) => error,
        ListenFailure::NoCertificate => {
            return Failure::Internal(format!("{}:// has no certificate", listen.scheme.name()));
        }
    };
    Failure::Host(format!("cannot listen on {}: {error}", display_address(listen)))
}

/// Formats a listening address for messages.
pub fn display_address(listen: &Listen) -> String {
    let hosts: Vec<_> = listen.addresses.iter().map(IpAddr::to_string).collect();
    let hosts = if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") };
    format!("{} (port {}) for {}", hosts, listen.port, listen.scheme.url())
}

/// The maximum number of connections that wait to be accepted (the backlog argument of `listen`).
const BACKLOG: u32 = 1024;
