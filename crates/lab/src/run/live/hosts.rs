//! The two hosts of an emulated run: a thread each, in a namespace each, with a world of the operating system.

use super::counters::{self, Counters};
use crate::plan::{Contestant, PointPlan};
use crate::run::contest::{self, BACKLOG, Job, PORT};
use crate::run::host::{beginning, server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::TraceRecord;
use anabranch_emu::device::Clock;
use anabranch_emu::netns::Namespace;
use anabranch_emu::relay::be_prompt;
use anabranch_emu::wiring::{End, Place};
use anabranch_http::fetch::Outcome as Fetched;
use anabranch_http::observe::{Record, Recorder};
use anabranch_transport::protocol::Totals;
use anabranch_transport::{Carrier, Host};
use anabranch_world::World;
use anabranch_world::kernel::KernelOptions;
use anabranch_world::os::{self, OsWorld};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;

/// What the hosts of a run are to do.
#[derive(Clone)]
pub struct Task {
    point: PointPlan,
    contestant: Contestant,
    seed: u64,
    client: Vec<IpAddr>,
    server: Vec<IpAddr>,
    /// What its packets are marked with, where others of its protocol are to be told apart.
    mark: Option<u32>,
}

/// What a host's engine has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The host's trace, on the clock of its world.
    pub trace: Vec<TraceRecord>,
    /// What it counted.
    pub totals: Totals,
    /// What the kernel counted of its protocols.
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
    /// One line when the contestant contradicts the workload.
    pub fn new(
        point: &PointPlan,
        contestant: &Contestant,
        seed: u64,
        place: Place,
        mark: Option<u32>,
    ) -> Result<Self, String> {
        let links = point.network.paths.len();
        let (client, server) = (place.addresses(links, End::Near), place.addresses(links, End::Far));
        let task = Self { point: point.clone(), contestant: contestant.clone(), seed, client, server, mark };
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
        contest::job(&self.contestant, &self.point.workload)
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
            program(self.mark.map_or(world.clone(), |mark| world.marked(mark))).await
        });
        ended.map_err(wrong)?
    }

    /// Starts the contestant's transport.
    async fn host(&self, world: &OsWorld, server: bool) -> Result<Rc<dyn Host>, String> {
        let transport = &self.contestant.transport;
        let protocol = transport.in_emulation().ok_or("it does not run in the emulated world")?;
        let host = protocol.start(world.clone(), beginning(&self.contestant, server)).await;
        let host = host.map_err(|error| format!("{}: {error}", transport.name().to_uppercase()))?;
        host.set_tracing(true);
        Ok(host)
    }

    /// Waits until the host has no connection any more, for so long at most.
    async fn closed(&self, world: &OsWorld, host: &Rc<dyn Host>, span: Duration) {
        if !self.contestant.transport.is_kernels_emulated() {
            let _ = world.timeout(span, host.idle()).await;
            return;
        }
        let end = world.now() + span;
        while counters::any_connection() && world.now() < end {
            world.sleep_until(world.now() + LOOK).await;
        }
    }
}

/// What a contestant asks of the kernel, where that runs it.
pub fn kernel_options(contestant: &Contestant) -> Option<KernelOptions> {
    let congestion = contestant.kernel_cc.as_ref().map(|kernel_cc| kernel_cc.name.as_str());
    contestant.transport.in_emulation()?.kernel(&*contestant.engine, congestion)
}

/// Whether its packets are of this protocol of IP.
pub fn speaks(contestant: &Contestant, protocol: u8) -> bool {
    let carriers = contestant.transport.capabilities().carriers;
    carriers.ip == Some(protocol) && carriers.choose(contestant.encapsulated, false) == Carrier::Ip
}

impl Seen {
    fn of(world: &OsWorld, network: Clock, host: &Rc<dyn Host>) -> Self {
        let moment = (world.now(), network.now());
        Self { trace: host.take_trace(), totals: host.totals(), kernel: Counters::read(), moment }
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
            let failed = ready.clone();
            let ended = task.world(&namespace, &task.server, 1, async |world| {
                let (job, recorder) = (task.job()?, Recorder::new());
                let observer = recorder.clone();
                let host = task.host(&world, true).await?;
                let listener = host.listen(PORT, BACKLOG).map_err(|error| error.to_string())?;
                contest::serve(world.clone(), listener, &job, observer);
                // Nobody waits for it any more when the run has been given up.
                let _ = ready.send(Ok(()));
                let network = loop {
                    match asked.get() {
                        Some(clock) => break *clock,
                        None => world.sleep_until(world.now() + LOOK).await,
                    }
                };
                let served = Served { record: recorder.take(), seen: Seen::of(&world, network, &host) };
                // The last packets are on their way to it: captures show how its connections close.
                task.closed(&world, &host, task.farewell()).await;
                Ok(served)
            });
            if let Err(why) = &ended {
                let _ = failed.send(Err(why.clone()));
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
            let host = task.host(&world, false).await?;
            let connector = host.connector(vec![server(&task.contestant, &task.server, PORT)]);
            let fetched = contest::load(world.clone(), connector, &job, recorder.clone()).await;
            let record = recorder.take();
            let seen = Seen::of(&world, network, &host);
            let span =
                if task.contestant.transport.is_kernels_emulated() { task.farewell() } else { CLOSING };
            task.closed(&world, &host, span).await;
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
