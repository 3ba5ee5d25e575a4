//! One association between our SCTP endpoint and a foreign program.
//!
//! As in the virtual network, a test case is a script. It sends messages, gives commands to either side, and waits for
//! the result. Each wait has a time limit.

use super::LowerLayer;
use super::path_emulator::{EmulatedSocket, EmulatedWorld, Watched};
use super::peer_network::{OURS, PeerNetwork, ours, theirs};
use super::program::Program;
use crate::cases::By;
use crate::ours::Ours;
use crate::peer::DeliveryOptions;
use crate::traffic::Ledger;
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant, Rng};
use anabranch_dtls::{DtlsLayer, HostConfig, Settings, Version};
use anabranch_sctp::{Associate, AssociationId, Config, Endpoint, Reliability};
use anabranch_tls::{Identity, Surroundings, Trust};
use anabranch_transport::drive::drive;
use anabranch_transport::protocol::Layer;
use anabranch_world::os::{OsTask, OsTimer};
use anabranch_world::{DatagramSocket, Local, Timer, World};
use std::cell::{Ref, RefCell};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// The set-up of an association for a test case.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The side that sends the INIT: our endpoint or the peer.
    pub begins: By,
    /// The settings of our endpoint, in addition to the settings that all cases have.
    pub knobs: Vec<(&'static str, String)>,
    /// The arguments of the peer's program, in addition to the arguments that all cases have.
    pub arguments: Vec<String>,
    /// Whether the association runs over IPv6.
    pub v6: bool,
    /// The number of our addresses when the association starts.
    pub here: usize,
    /// The number of the peer's addresses when the association starts.
    pub there: usize,
}

/// The foreign endpoint of the association, and what its program has reported.
#[derive(Debug)]
pub struct Theirs {
    program: Option<Rc<RefCell<Program>>>,
    /// Whether the program has reported that it is about to accept a connection or to connect.
    pub ready: bool,
    /// Whether the foreign program has reported that the association is established.
    pub up: bool,
    /// The reason why the association ended; `None` while it lasts.
    pub closed: Option<String>,
    /// Whether the foreign program has ended.
    pub ended: bool,
    /// The reports of the foreign program, except those about messages.
    pub reports: Vec<String>,
    /// The messages from our endpoint to the foreign program that have not arrived there yet.
    pub inbox: Ledger,
    fault: Option<String>,
}

/// An association in progress between our endpoint and a foreign program.
pub struct Encounter<'a> {
    /// The `World` (sockets and clock) in which our endpoint runs.
    pub world: EmulatedWorld,
    /// The network in which the peer's program runs.
    pub network: &'a mut PeerNetwork,
    setup: Setup,
    ours: Rc<RefCell<Ours>>,
    driver: Option<OsTask<()>>,
    /// The foreign program, with the messages that are still to arrive there.
    pub theirs: Theirs,
    /// The random generator for the choices of the test script.
    pub rng: Rng,
    timer: OsTimer,
}

/// The SCTP port of both endpoints.
pub const PORT: u16 = 5000;

/// The longest wait of a test script, unless the script sets another limit.
pub const PATIENCE: Duration = Duration::from_secs(40);

fn config(setup: &Setup) -> Result<Config, String> {
    let mut config = Config::default();
    // These cases run in real time over short paths. The timers have small values, so that waits are short.
    let common = [
        ("rto_initial", "500ms"),
        ("rto_min", "300ms"),
        ("rto_max", "1s"),
        ("path_max_retrans", "3"),
        ("assoc_max_retrans", "8"),
        ("num_ostreams", "16"),
        ("sndbuf", "4MiB"),
        ("rcvbuf", "1MiB"),
        // The kernel of a peer with a raw socket sends Protocol Unreachable whenever the socket's buffer is full. Our
        // side therefore does not trust this message.
        ("icmp_doubt", "yes"),
    ];
    let own = setup.knobs.iter().map(|(key, value)| (*key, value.as_str()));
    for (key, value) in common.into_iter().chain(own) {
        config.set(key, value).map_err(|error| error.to_string())?;
    }
    Ok(config)
}

impl<'a> Encounter<'a> {
    /// Creates both endpoints and starts the association.
    ///
    /// # Errors
    /// The part that could not be started.
    pub async fn begin(
        world: EmulatedWorld,
        network: &'a mut PeerNetwork,
        setup: Setup,
    ) -> Result<Self, String> {
        let mut this = Self::idle(world, network, setup)?;
        match this.setup.begins {
            By::Us => {
                this.start_them(By::Us)?;
                this.until("the peer to be ready", PATIENCE, |e| e.theirs.ready).await?;
                this.start_us(By::Us).await?;
            }
            By::Them => {
                this.start_us(By::Them).await?;
                this.start_them(By::Them)?;
            }
        }
        Ok(this)
    }

    /// Starts only the peer's endpoint.
    ///
    /// # Errors
    /// The peer's program does not start.
    pub fn without_us(
        world: EmulatedWorld,
        network: &'a mut PeerNetwork,
        setup: Setup,
    ) -> Result<Self, String> {
        let begins = setup.begins;
        let mut this = Self::idle(world, network, setup)?;
        this.start_them(begins)?;
        Ok(this)
    }

    fn idle(world: EmulatedWorld, network: &'a mut PeerNetwork, setup: Setup) -> Result<Self, String> {
        let rng = world.rng("script");
        let timer = world.timer();
        let endpoint = Endpoint::new(config(&setup)?, Vec::new(), world.rng("none"));
        let ours = Rc::new(RefCell::new(Ours::new(endpoint, None)));
        Ok(Self { theirs: Theirs::none(), world, network, setup, ours, driver: None, rng, timer })
    }

    fn far(&self) -> Vec<SocketAddr> {
        let port = self.network.column.udp_port();
        theirs(self.setup.v6, self.setup.there).into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
    }

    /// Starts our endpoint. If it is already running, it is stopped first.
    ///
    /// # Errors
    /// The socket cannot be bound, or the association cannot be started.
    pub async fn start_us(&mut self, begins: By) -> Result<(), String> {
        if self.driver.take().is_some() {
            // The cancelled task closes its socket during this pause.
            self.pause(Duration::from_millis(50)).await?;
        }
        let local = match self.network.column.carrier {
            LowerLayer::Udp => Local::Udp { port: self.network.column.udp_port() },
            LowerLayer::Ip => Local::Ip { protocol: 132 },
            LowerLayer::Dtls12 | LowerLayer::Dtls13 => Local::Udp { port: self.network.column.udp_port() },
        };
        let socket: EmulatedSocket =
            self.world.bind(local).await.map_err(|error| format!("our socket: {error}"))?;
        let socket: Box<dyn DatagramSocket> = match self.network.column.carrier.is_secure() {
            true => self.secure(socket)?,
            false => Box::new(socket),
        };
        let addresses: Vec<_> = socket.local().into_iter().take(self.setup.here).collect();
        let seed = self.rng.next_u64();
        let mut endpoint = Endpoint::new(config(&self.setup)?, addresses.clone(), Rng::new(seed));
        for address in addresses {
            endpoint.set_mtu(address.ip(), socket.mtu(address.ip()));
        }
        let id = match begins {
            By::Us => {
                let ask =
                    Associate { peer: self.far(), peer_port: PORT, local_port: Some(PORT), streams: None };
                Some(endpoint.associate(self.world.now(), ask).map_err(|error| error.to_string())?)
            }
            By::Them => {
                endpoint.listen(PORT).map_err(|error| error.to_string())?;
                None
            }
        };
        // Messages that the peer had queued for the former association will never arrive. So our endpoint starts a new
        // record of the messages.
        self.ours = Rc::new(RefCell::new(Ours::new(endpoint, id)));
        self.driver = Some(self.world.spawn("ours", drive(self.world.clone(), socket, self.ours.clone())));
        Ok(())
    }

    /// Returns a socket with a DTLS layer over `socket`. The wrapper [`Watched`] above DTLS records the decrypted SCTP
    /// packets.
    fn secure(&self, socket: EmulatedSocket) -> Result<Box<dyn DatagramSocket>, String> {
        let settings = Settings {
            version: Version::From12,
            identity: Some(Identity::self_signed(&[]).map_err(|error| error.to_string())?),
            // The peer's certificate is self-signed, so any certificate is accepted.
            trust: Some(Trust::Anybody),
            key_log: None,
        };
        let host_config = HostConfig::new(settings, Surroundings::Real).map_err(|error| error.to_string())?;
        let layer = DtlsLayer::new(self.world.clone(), host_config, None);
        Ok(Box::new(Watched { inner: layer.over(Box::new(socket)), path: self.world.path.clone() }))
    }

    /// Starts the peer's program. It replaces the previous program, if there is one.
    ///
    /// # Errors
    /// The peer's program does not start.
    pub fn start_them(&mut self, begins: By) -> Result<(), String> {
        let list = |addresses: &[IpAddr]| {
            let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            texts.join(",")
        };
        let role = if begins == By::Them { "connect" } else { "listen" };
        let mut arguments = vec![
            format!("role={role}"),
            format!("local={}", list(&theirs(self.setup.v6, self.setup.there))),
            format!("peer={}", list(&ours(self.setup.v6, self.setup.here))),
            format!("port={PORT}"),
            format!("peer_port={PORT}"),
            format!("encap={}", self.network.column.udp_port()),
        ];
        arguments.extend(self.setup.arguments.iter().cloned());
        let program =
            self.network.start(&arguments).map_err(|error| format!("the peer does not start: {error}"))?;
        self.theirs = Theirs { program: Some(program), ..Theirs::none() };
        Ok(())
    }

    /// Returns our endpoint with its state.
    #[must_use]
    pub fn ours(&self) -> Ref<'_, Ours> {
        self.ours.borrow()
    }

    /// Calls `tell` with our endpoint, the current time and the association. Returns the result of `tell`.
    pub fn tell_ours<T>(&mut self, tell: impl FnOnce(&mut Endpoint, Instant, AssociationId) -> T) -> T {
        self.ours.borrow_mut().tell(self.world.now(), tell)
    }

    /// Sends a command line to the foreign program.
    pub fn tell_theirs(&mut self, line: &str) {
        if let Some(program) = &self.theirs.program {
            program.borrow_mut().tell(line);
        }
    }

    /// Forgets the messages that the peer had sent to us before it restarted. They are not expected any more.
    pub fn forget_ours(&mut self) {
        self.ours.borrow_mut().inbox = Ledger::default();
    }

    /// Sends a message from our endpoint or from the foreign one.
    pub fn post(&mut self, by: By, options: DeliveryOptions, size: usize) {
        match by {
            By::Us => {
                let post = self.theirs.inbox.post(options, size);
                self.ours.borrow_mut().post(self.world.now(), post);
            }
            By::Them => {
                let post = self.ours.borrow_mut().inbox.post(options, size);
                let order = if options.unordered { 'u' } else { 'o' };
                let (policy, limit) = match options.reliability {
                    Reliability::Lifetime(span) => ('t', span.as_millis() as u64),
                    Reliability::Retransmissions(count) => ('r', u64::from(count)),
                    _ => ('f', 0),
                };
                let line =
                    format!("send {} {} {} {order} {policy} {limit}", post.number, options.stream, post.size);
                self.tell_theirs(&line);
            }
        }
    }

    /// Returns whether every message that must arrive has arrived at its receiver.
    #[must_use]
    pub fn all_arrived(&self) -> bool {
        self.ours().inbox.missing() == 0 && self.theirs.inbox.missing() == 0
    }

    /// Processes the reports that the foreign program has printed.
    fn take_reports(&mut self, cx: &Context<'_>) {
        while let Some(program) = &self.theirs.program {
            let line = program.borrow_mut().poll_line(cx);
            match line {
                Poll::Ready(Some(line)) => self.theirs.hear(&line),
                Poll::Ready(None) => {
                    self.theirs.ended = true;
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Waits until the function `done` returns true. `what` names the expected event in error messages.
    ///
    /// # Errors
    /// `done` did not return true within `patience`, or an end reported a failure meanwhile.
    pub async fn until(
        &mut self,
        what: &str,
        patience: Duration,
        done: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        self.timer.set(Some(self.world.now() + patience));
        poll_fn(|cx| {
            self.take_reports(cx);
            if let Some(fault) = self.ours.borrow().fault() {
                return Poll::Ready(Err(format!("to us: {fault}")));
            }
            if let Some(fault) = &self.theirs.fault {
                return Poll::Ready(Err(format!("to them: {fault}")));
            }
            if done(self) {
                return Poll::Ready(Ok(()));
            }
            self.ours.borrow_mut().wait(cx);
            self.timer.poll(cx).map(|()| {
                let (ours, theirs) = (self.ours(), &self.theirs);
                Err(format!(
                    "waited in vain for {what}; missing: {} of theirs, {} of ours; we: up {} closed {:?}; they: up {} closed {:?}; said {:?}; heard {:?}; {:?} {:?}",
                    ours.inbox.missing(),
                    theirs.inbox.missing(),
                    ours.up,
                    ours.closed,
                    theirs.up,
                    theirs.closed,
                    theirs.reports,
                    ours.events,
                    ours.id.and_then(|id| ours.endpoint.info(id)),
                    ours.id.map(|id| (ours.endpoint.writable_bytes(id), ours.all_given(), ours.endpoint.poll_timeout())),
                ))
            })
        })
        .await
    }

    /// Waits for the time `span`, and processes the foreign program's reports meanwhile.
    ///
    /// # Errors
    /// An end reported a failure meanwhile.
    pub async fn pause(&mut self, span: Duration) -> Result<(), String> {
        let end = self.world.now() + span;
        let world = self.world.clone();
        let waited = self.until("", span, |_| world.now() >= end).await;
        if world.now() >= end { Ok(()) } else { waited }
    }

    /// Waits until the association is established at both ends.
    ///
    /// # Errors
    /// The association is not established in time.
    pub async fn up(&mut self) -> Result<(), String> {
        self.until("the association", PATIENCE, |e| e.ours().up && e.theirs.up).await
    }

    /// Kills the peer's program with SIGKILL.
    ///
    /// # Errors
    /// The end of the peer's program is not observed in time.
    pub async fn kill_them(&mut self) -> Result<(), String> {
        match &self.theirs.program {
            Some(program) if self.network.guest().is_none() => program.borrow_mut().kill(),
            Some(program) => program.borrow_mut().tell_first("die"),
            None => {}
        }
        self.until("the peer's end", PATIENCE, |e| e.theirs.ended).await
    }

    /// Drops our endpoint and ends the peer's program, whatever their state. If the program runs in a virtual machine
    /// (a guest) and does not end, the virtual machine is booted again.
    pub async fn end(mut self) {
        if self.network.guest().is_none() {
            return;
        }
        self.theirs.fault = None;
        self.ours =
            Rc::new(RefCell::new(Ours::new(Endpoint::new(Config::default(), Vec::new(), Rng::new(1)), None)));
        if !self.theirs.ended {
            self.tell_theirs("die");
            let _ =
                self.until("the guest's program to end", Duration::from_secs(15), |e| e.theirs.ended).await;
        }
        if !self.theirs.ended && self.network.boot_again().is_ok() {
            self.theirs = Theirs { program: self.network.guest(), ..Theirs::none() };
            let _ =
                self.until("the guest", Duration::from_secs(60), |e| e.theirs.has_reported("booted")).await;
        }
        self.driver = None;
    }
}

impl Theirs {
    fn none() -> Self {
        Self {
            program: None,
            ready: false,
            up: false,
            closed: None,
            ended: false,
            reports: Vec::new(),
            inbox: Ledger::default(),
            fault: None,
        }
    }

    /// Returns whether the foreign program has sent a report with this beginning.
    #[must_use]
    pub fn has_reported(&self, beginning: &str) -> bool {
        self.reports.iter().any(|line| line.starts_with(beginning))
    }

    fn hear(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["message", stream, number, size, verdict] => {
                let read = (stream.parse(), number.parse(), size.parse());
                let (Ok(stream), Ok(number), Ok(size)) = read else {
                    self.fault.get_or_insert(format!("not understood: {line}"));
                    return;
                };
                if let Err(fault) = self.inbox.note(stream, number, size, |_| verdict == "ok") {
                    self.fault.get_or_insert(fault);
                }
            }
            ["ready"] => self.ready = true,
            ["connected"] => self.up = true,
            ["down", ..] => {
                self.closed.get_or_insert(line.to_owned());
            }
            ["ended", ..] => self.ended = true,
            ["fault", ..] => {
                self.fault.get_or_insert(line.to_owned());
            }
            _ => self.reports.push(line.to_owned()),
        }
    }
}

/// Returns all addresses of our endpoint, all IPv6 or all IPv4, for the options of our socket.
#[must_use]
pub fn our_addresses(v6: bool) -> Vec<IpAddr> {
    ours(v6, OURS.len())
}
