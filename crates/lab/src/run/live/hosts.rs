//! The two hosts of an emulated run: a thread each, in a namespace each, with a world of the operating system.

use super::counters::{self, Counters};
use crate::plan::engine::EngineConfig;
use crate::plan::{Arm, PointPlan, Transport};
use crate::run::contest::{self, BACKLOG, Job, PORT};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::TraceRecord;
use anabranch_emu::device::Clock;
use anabranch_emu::netns::Namespace;
use anabranch_emu::relay::be_prompt;
use anabranch_emu::wiring::{End, Place};
use anabranch_http::fetch::Outcome as Fetched;
use anabranch_http::observe::{Record, Recorder};
use anabranch_transport::engines::sctp::PathChange;
use anabranch_transport::kernel::{KernelConnector, KernelListener};
use anabranch_transport::sctp::{Carrier, ENCAPSULATION_PORT, SctpConnector, SctpHost, SctpServer};
use anabranch_world::os::{self, KernelOptions, KernelProtocol, OsWorld};
use anabranch_world::{Timer, World};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::Poll;
use std::thread::JoinHandle;

/// What the hosts of a run are to do.
#[derive(Clone)]
pub struct Task {
    point: PointPlan,
    arm: Arm,
    seed: u64,
    client: Vec<IpAddr>,
    server: Vec<IpAddr>,
    /// What its packets are marked with, where others of its protocol are to be told apart.
    mark: Option<u32>,
}

/// What a host's engine has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// SCTP's trace, on the clock of the host's world.
    pub trace: Vec<TraceRecord>,
    /// Its retransmission timers that ran out.
    pub timeouts: u64,
    /// Its paths found dead or alive.
    pub path_changes: Vec<PathChange>,
    /// What the kernel counted of its TCP.
    pub kernel: Counters,
    /// One moment on the clock of the host's world, and on the network's.
    pub moment: (Instant, Instant),
}

/// What became of the server.
#[derive(Debug)]
pub struct Served {
    /// Its milestones.
    pub record: Record,
    /// What its engine has seen.
    pub seen: Seen,
}

/// What became of the client.
#[derive(Debug)]
pub struct Ended {
    /// Its outcome.
    pub fetched: Fetched,
    /// Its milestones.
    pub record: Record,
    /// What its engine has seen.
    pub seen: Seen,
}

/// A server at work.
pub struct Serving {
    /// Set when it is to end: the network's clock.
    end: Arc<OnceLock<Clock>>,
    thread: JoinHandle<Result<Served, String>>,
}

impl Task {
    /// The task of a run.
    ///
    /// # Errors
    /// One line when the arm contradicts the workload.
    pub fn new(
        point: &PointPlan,
        arm: &Arm,
        seed: u64,
        place: Place,
        mark: Option<u32>,
    ) -> Result<Self, String> {
        let links = point.network.paths.len();
        let (client, server) = (place.addresses(links, End::Near), place.addresses(links, End::Far));
        let task = Self { point: point.clone(), arm: arm.clone(), seed, client, server, mark };
        task.job()?;
        Ok(task)
    }

    fn longest_rtt(&self) -> Duration {
        self.point.network.paths.iter().map(|path| path.rtt()).max().unwrap_or_default()
    }

    /// How long a host waits for the ends of its connections: two round trips, and time to send a packet again.
    fn farewell(&self) -> Duration {
        self.longest_rtt() * 2 + Duration::from_secs(1)
    }

    fn job(&self) -> Result<Job, String> {
        contest::job(&self.arm, &self.point.workload)
    }

    /// Enters a namespace for good and runs a world there.
    fn world<T>(
        &self,
        namespace: &Namespace,
        addresses: &[IpAddr],
        side: u64,
        program: impl AsyncFnOnce(OsWorld) -> Result<T, String>,
    ) -> Result<T, String> {
        let wrong = |error: std::io::Error| error.to_string();
        namespace.enter(true).map_err(wrong)?;
        // Engines in user space share the machine with whatever else runs; a kernel's TCP does not wait for it.
        be_prompt();
        let seed = self.seed.wrapping_mul(2).wrapping_add(side);
        let options = os::Options { addresses: addresses.to_vec(), seed: Some(seed), sleep_at_once: true };
        let ended = os::run(options, async |world| {
            let world = world.with_kernel(kernel_options(&self.arm));
            program(self.mark.map_or(world.clone(), |mark| world.marked(mark))).await
        });
        ended.map_err(wrong)?
    }

    async fn sctp(&self, world: &OsWorld, server: bool) -> Result<SctpHost<OsWorld>, String> {
        let EngineConfig::Sctp(config) = &self.arm.engine else { return Err("not SCTP".to_owned()) };
        let carrier = match (self.arm.encapsulated, server) {
            (false, _) => Carrier::Ip,
            (true, true) => Carrier::Udp { port: ENCAPSULATION_PORT },
            (true, false) => Carrier::Udp { port: 0 },
        };
        let host = SctpHost::new(world.clone(), (**config).clone(), carrier, self.arm.paths).await;
        let host = host.map_err(|error| format!("SCTP: {error}"))?;
        host.set_tracing(true);
        Ok(host)
    }
}

/// What a contestant asks of the kernel.
pub fn kernel_options(arm: &Arm) -> KernelOptions {
    let protocol = match arm.transport {
        Transport::Tcp | Transport::Sctp => KernelProtocol::Tcp,
        Transport::Mptcp => KernelProtocol::Mptcp,
        Transport::KernelSctp => KernelProtocol::Sctp,
    };
    // The kernel has our congestion controls, under our names, and others.
    let foreign = || arm.foreign.as_ref().map(|foreign| foreign.name.clone());
    let ours = || arm.engine.knobs().into_iter().find(|knob| knob.key == "cc").map(|knob| knob.value);
    let congestion = match arm.transport {
        Transport::Sctp => None,
        _ => foreign().or_else(ours),
    };
    KernelOptions { protocol, congestion, ..KernelOptions::default() }
}

impl Seen {
    fn of(world: &OsWorld, network: Clock, sctp: Option<&SctpHost<OsWorld>>) -> Self {
        let moment = (world.now(), network.now());
        let mut seen = Self { kernel: Counters::read(), moment, ..Self::default() };
        if let Some(host) = sctp {
            seen.trace = host.take_trace();
            host.inspect(|engine| {
                let totals = engine.totals();
                seen.timeouts = totals.sum.t3_expirations + totals.sum.t1_expirations;
                seen.path_changes = totals.path_changes;
            });
        }
        seen
    }

    /// An instant of the host's world on the network's clock.
    #[must_use]
    pub fn on_network(&self, at: Instant) -> Instant {
        translated(at, self.moment.0, self.moment.1)
    }

    /// An instant of the network's clock on that of the host's world.
    #[must_use]
    pub fn on_host(&self, at: Instant) -> Instant {
        translated(at, self.moment.1, self.moment.0)
    }
}

/// `at`, of a clock that showed `here` when another showed `there`, on that other.
fn translated(at: Instant, here: Instant, there: Instant) -> Instant {
    if at >= here { there + (at - here) } else { there - (here - at) }
}

impl Serving {
    /// Starts the server; it listens when this returns.
    ///
    /// # Errors
    /// Why it does not.
    pub fn start(namespace: &Namespace, task: &Task) -> Result<Self, String> {
        let end = Arc::new(OnceLock::new());
        let (ready, listening) = mpsc::channel::<Result<(), String>>();
        let (asked, namespace, task) = (end.clone(), namespace.clone(), task.clone());
        let serve = move || {
            let told = ready.clone();
            let ended = task.world(&namespace, &task.server, 1, async |world| {
                let (job, recorder) = (task.job()?, Recorder::new());
                let observer = recorder.clone();
                let mut sctp = None;
                match &task.arm.engine {
                    EngineConfig::Tcp(_) | EngineConfig::Kernel(_) => {
                        // At every address: what has several paths is called at them, too.
                        let at = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
                        let listener = KernelListener::new(world.clone(), at, BACKLOG);
                        contest::serve(world.clone(), listener.map_err(|e| e.to_string())?, &job, observer);
                    }
                    EngineConfig::Sctp(_) => {
                        let host = task.sctp(&world, true).await?;
                        let listener = host.listen(PORT).map_err(|error| error.to_string())?;
                        contest::serve(world.clone(), listener, &job, observer);
                        sctp = Some(host);
                    }
                }
                // Nobody waits for it any more when the run has been given up.
                let _ = ready.send(Ok(()));
                let network = loop {
                    match asked.get() {
                        Some(clock) => break *clock,
                        None => world.sleep_until(world.now() + LOOK).await,
                    }
                };
                let served =
                    Served { record: recorder.take(), seen: Seen::of(&world, network, sctp.as_ref()) };
                // The last packets are on their way to it: captures show how its connections close.
                closed(&world, sctp.as_ref(), task.farewell()).await;
                Ok(served)
            });
            if let Err(why) = &ended {
                let _ = told.send(Err(why.clone()));
            }
            ended
        };
        let thread = std::thread::Builder::new().name("server".to_owned()).spawn(serve);
        let thread = thread.map_err(|error| error.to_string())?;
        match listening.recv() {
            Ok(Ok(())) => Ok(Self { end, thread }),
            Ok(Err(why)) => Err(format!("the server: {why}")),
            Err(_) => Err("the server has ended".to_owned()),
        }
    }

    /// Ends it, once its connections are closed, or a little later; what it has seen until it was asked to.
    ///
    /// # Errors
    /// Why it had ended before.
    pub fn end(self, network: Clock) -> Result<Served, String> {
        let _ = self.end.set(network);
        match self.thread.join() {
            Ok(served) => served.map_err(|why| format!("the server: {why}")),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Runs the client to its end, and a little further, until its connections are closed.
///
/// # Errors
/// Why it could not be started.
pub fn fetch(namespace: &Namespace, task: &Task, network: Clock) -> Result<Ended, String> {
    let run = || {
        task.world(namespace, &task.client, 0, async |world| {
            let (job, recorder) = (task.job()?, Recorder::new());
            let (fetched, sctp) = match &task.arm.engine {
                EngineConfig::Tcp(_) | EngineConfig::Kernel(_) => {
                    let targets =
                        task.server.first().map(|ip| SocketAddr::new(*ip, PORT)).into_iter().collect();
                    let connector = KernelConnector::new(world.clone(), targets);
                    (contest::load(world.clone(), connector, &job, recorder.clone()).await, None)
                }
                EngineConfig::Sctp(_) => {
                    let host = task.sctp(&world, false).await?;
                    let port = if task.arm.encapsulated { ENCAPSULATION_PORT } else { 0 };
                    let usable = task.server.iter().take(task.arm.paths.unwrap_or(usize::MAX));
                    let addresses = usable.map(|ip| SocketAddr::new(*ip, port)).collect();
                    let connector =
                        SctpConnector::new(host.clone(), vec![SctpServer { addresses, port: PORT }]);
                    (contest::load(world.clone(), connector, &job, recorder.clone()).await, Some(host))
                }
            };
            let record = recorder.take();
            let seen = Seen::of(&world, network, sctp.as_ref());
            let span = if sctp.is_some() { CLOSING } else { task.farewell() };
            closed(&world, sctp.as_ref(), span).await;
            Ok(Ended { fetched, record, seen })
        })
    };
    std::thread::scope(|scope| {
        let client = std::thread::Builder::new().name("client".to_owned()).spawn_scoped(scope, run);
        let client = client.map_err(|error| error.to_string())?;
        let ended = client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.map_err(|why| format!("the client: {why}"))
    })
}

/// Waits until the host has no connection any more, for so long at most.
async fn closed(world: &OsWorld, sctp: Option<&SctpHost<OsWorld>>, span: Duration) {
    match sctp {
        Some(host) => within(world, span, host.idle()).await,
        None => {
            let end = world.now() + span;
            while counters::any_connection() && world.now() < end {
                world.sleep_until(world.now() + LOOK).await;
            }
        }
    }
}

/// Does something for so long at most.
async fn within(world: &OsWorld, span: Duration, what: impl Future<Output = ()>) {
    let mut what = std::pin::pin!(what);
    let mut timer = world.timer();
    timer.set(Some(world.now() + span));
    poll_fn(|cx| match what.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => timer.poll(cx),
    })
    .await;
}

/// How often a host looks whether it is to end, and whether its kernel's connections have.
const LOOK: Duration = Duration::from_millis(20);
/// How long connections may take to close.
const CLOSING: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_told_from_clock_to_clock() {
        let at = Instant::from_millis;
        // The client's world begins after the network's clock, the server's before it.
        for (here, there) in [(5, 25), (90, 25)] {
            let seen = Seen { moment: (at(here), at(there)), ..Seen::default() };
            for host in [here, here + 7] {
                let network = seen.on_network(at(host));
                assert_eq!((network, seen.on_host(network)), (at(there + host - here), at(host)));
            }
        }
        let early = Seen { moment: (at(90), at(25)), ..Seen::default() };
        assert_eq!((early.on_network(at(80)), early.on_network(at(3))), (at(15), Instant::ZERO));
    }
}
