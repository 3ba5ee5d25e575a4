//! The two hosts of a contestant in an emulated run. Each has a thread and a network namespace of its own, and runs a
//! world of the operating system.

use super::counters::{self, Counters};
use crate::plan::contestant::Pairs;
use crate::plan::{Contestant, PointPlan};
use crate::run::contest::{self, BACKLOG, Job, PORT};
use crate::run::host::{beginning, layer, secured, server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::TraceRecord;
use anabranch_emu::device::Clock;
use anabranch_emu::netns::Namespace;
use anabranch_emu::relay::be_prompt;
use anabranch_emu::wiring::{End, Place};
use anabranch_http::fetch::Outcome as Fetched;
use anabranch_http::observe::{Record, Recorder};
use anabranch_tls::Surroundings;
use anabranch_transport::protocol::{Start, Totals};
use anabranch_transport::{Carrier, Host};
use anabranch_world::World;
use anabranch_world::kernel::KernelOptions;
use anabranch_world::os::{self, OsWorld};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;

/// What the hosts of a run do.
#[derive(Clone)]
pub struct Task {
    point: PointPlan,
    contestant: Contestant,
    /// The seed of its worlds. Two contestants that share a network draw different numbers.
    seed: u64,
    client: Vec<IpAddr>,
    server: Vec<IpAddr>,
    /// Both ends of its TLS or DTLS.
    pairs: Pairs,
    /// The mark of its packets, if they must be distinguished from others of the same protocol.
    mark: Option<u32>,
}

/// What a host recorded.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The trace of the host's engine, on the clock of the host's world.
    pub trace: Vec<TraceRecord>,
    /// The totals of the engine.
    pub totals: Totals,
    /// The counters of the kernel's protocols.
    pub kernel: Counters,
    /// The same moment on the clock of the host's world and on the network's clock.
    pub moment: (Instant, Instant),
}

/// The outcome of the server.
#[derive(Debug)]
pub struct Served {
    /// The server's milestones.
    pub record: Record,
    /// What the server's host recorded.
    pub seen: Seen,
}

/// The outcome of the client.
#[derive(Debug)]
pub struct Ended {
    /// The result of the fetch.
    pub fetched: Fetched,
    /// The client's milestones.
    pub record: Record,
    /// What the client's host recorded.
    pub seen: Seen,
}

/// A running host in a thread of its own.
pub struct Working<T> {
    name: &'static str,
    cue: Arc<OnceLock<Clock>>,
    thread: JoinHandle<Result<T, String>>,
}

/// The signal that a host waits for: the client to begin, the server to end.
struct Cue {
    ready: mpsc::Sender<Result<(), String>>,
    given: Arc<OnceLock<Clock>>,
}

impl Task {
    /// Makes the task of a run.
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
        let seed = seed.wrapping_mul(2).wrapping_add(u64::from(place.block) << 48);
        // Never the virtual world's: the secrets come from the operating system.
        let pairs = contestant.pairs(&Surroundings::Real)?;
        let (point, contestant) = (point.clone(), contestant.clone());
        let task = Self { point, contestant, seed, client, server, pairs, mark };
        task.job()?;
        Ok(task)
    }

    /// Returns the secrets of its sessions so far, for decoders.
    pub fn secrets(&self) -> String {
        self.pairs.secrets()
    }

    fn longest_rtt(&self) -> Duration {
        self.point.network.paths.iter().map(|path| path.rtt()).max().unwrap_or_default()
    }

    /// Returns how long a host waits for its connections to close: two round trips, and time to retransmit a packet.
    fn farewell(&self) -> Duration {
        self.longest_rtt() * 2 + Duration::from_secs(1)
    }

    fn job(&self) -> Result<Job, String> {
        contest::job(&self.contestant, &self.point.workload)
    }

    /// Moves the thread into a namespace permanently and runs a world there.
    fn world<T>(
        &self,
        namespace: &Namespace,
        addresses: &[IpAddr],
        side: u64,
        program: impl AsyncFnOnce(OsWorld) -> Result<T, String>,
    ) -> Result<T, String> {
        let wrong = |error: std::io::Error| error.to_string();
        namespace.enter(true).map_err(wrong)?;
        // Engines in user space compete for CPU time with other programs. The kernel's TCP does not wait for them.
        be_prompt();
        let seed = Some(self.seed.wrapping_add(side));
        let options = os::Options { addresses: addresses.to_vec(), seed, sleep_at_once: true };
        let ended = os::run(options, async |world| {
            program(self.mark.map_or(world.clone(), |mark| world.marked(mark))).await
        });
        ended.map_err(wrong)?
    }

    /// Starts the contestant's transport on this host.
    async fn host(&self, world: &OsWorld, server: bool) -> Result<Rc<dyn Host>, String> {
        let transport = &self.contestant.transport;
        let protocol = transport.in_emulation().ok_or("it does not run in the emulated world")?;
        let layer = layer(world, &self.pairs, server, || Surroundings::Real)?;
        let (begin, over) = beginning(&self.contestant, self.pairs.tls.as_ref(), server, &Surroundings::Real);
        let host = protocol.start(world.clone(), Start { layer, ..begin }).await;
        let host = host.map_err(|error| format!("{}: {error}", transport.name().to_uppercase()))?;
        let host = secured(world, host, over, || Surroundings::Real)?;
        host.set_tracing(true);
        Ok(host)
    }

    /// Waits until the host has no open connections, for at most `span`.
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

/// Returns the options that a contestant sets in the kernel, if the kernel runs its transport.
pub fn kernel_options(contestant: &Contestant) -> Option<KernelOptions> {
    let congestion = contestant.kernel_cc.as_ref().map(|kernel_cc| kernel_cc.name.as_str());
    contestant.transport.in_emulation()?.kernel(&*contestant.engine, congestion)
}

/// Returns whether its packets have this IP protocol number.
pub fn speaks(contestant: &Contestant, protocol: u8) -> bool {
    let carriers = contestant.transport.capabilities().carriers;
    carriers.ip == Some(protocol) && carriers.choose(contestant.encapsulated, false) == Carrier::Ip
}

impl Seen {
    fn of(world: &OsWorld, network: Clock, host: &Rc<dyn Host>) -> Self {
        let moment = (world.now(), network.now());
        Self { trace: host.take_trace(), totals: host.totals(), kernel: Counters::read(), moment }
    }

    /// Converts a time of the host's world to the network's clock.
    #[must_use]
    pub fn on_network(&self, at: Instant) -> Instant {
        translated(at, self.moment.0, self.moment.1)
    }

    /// Converts a time of the network's clock to that of the host's world.
    #[must_use]
    pub fn on_host(&self, at: Instant) -> Instant {
        translated(at, self.moment.1, self.moment.0)
    }
}

/// Converts `at` from one clock to another. The first clock showed `here` when the other showed `there`.
fn translated(at: Instant, here: Instant, there: Instant) -> Instant {
    if at >= here { there + (at - here) } else { there - (here - at) }
}

impl Cue {
    /// Reports that the host is ready and waits for the signal, which is the network's clock.
    async fn wait(&self, world: &OsWorld) -> Result<Clock, String> {
        let _ = self.ready.send(Ok(()));
        loop {
            if let Some(clock) = self.given.get() {
                return Ok(*clock);
            }
            // The other end was dropped, so the signal will never come.
            if Arc::strong_count(&self.given) == 1 {
                return Err("the run was given up".to_owned());
            }
            world.sleep_until(world.now() + LOOK).await;
        }
    }
}

impl<T: Send + 'static> Working<T> {
    /// Starts a host and waits until it is ready.
    fn start(
        name: &'static str,
        work: impl FnOnce(&Cue) -> Result<T, String> + Send + 'static,
    ) -> Result<Self, String> {
        let given = Arc::new(OnceLock::new());
        let (ready, is_ready) = mpsc::channel();
        let cue = Cue { ready, given: given.clone() };
        let run = move || {
            let ended = work(&cue);
            if let Err(why) = &ended {
                let _ = cue.ready.send(Err(why.clone()));
            }
            ended
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|error| error.to_string())?;
        match is_ready.recv() {
            Ok(Ok(())) => Ok(Self { name, cue: given, thread }),
            Ok(Err(why)) => Err(format!("the {name}: {why}")),
            Err(_) => Err(format!("the {name} has ended")),
        }
    }

    /// Sends the signal: the client begins when the network's clock starts, and the server ends.
    pub fn cue(&self, network: Clock) {
        let _ = self.cue.set(network);
    }

    /// Waits until the host has ended.
    ///
    /// # Errors
    /// The error with which the host ended early.
    pub fn join(self) -> Result<T, String> {
        match self.thread.join() {
            Ok(ended) => ended.map_err(|why| format!("the {}: {why}", self.name)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Starts the server, which is listening when this function returns. After the signal it ends when its connections are
/// closed, or a little later. Its records end at the signal.
///
/// # Errors
/// The reason why it is not listening.
pub fn serve(namespace: &Namespace, task: &Task) -> Result<Working<Served>, String> {
    let (namespace, task) = (namespace.clone(), task.clone());
    Working::start("server", move |cue| {
        task.world(&namespace, &task.server, 1, async |world| {
            let (job, recorder) = (task.job()?, Recorder::new());
            let host = task.host(&world, true).await?;
            let listener = host.listen(PORT, BACKLOG).map_err(|error| error.to_string())?;
            contest::serve(world.clone(), listener, &job, recorder.clone());
            let network = cue.wait(&world).await?;
            let served = Served { record: recorder.take(), seen: Seen::of(&world, network, &host) };
            // The last packets are still in flight to the server, and captures show how connections close.
            task.closed(&world, &host, task.farewell()).await;
            Ok(served)
        })
    })
}

/// Starts the client. After the signal it waits for the start of the network's clock and runs to its end. Then it waits
/// until its connections are closed.
///
/// # Errors
/// The reason why it cannot be started.
pub fn fetch(namespace: &Namespace, task: &Task) -> Result<Working<Ended>, String> {
    let (namespace, task) = (namespace.clone(), task.clone());
    Working::start("client", move |cue| {
        task.world(&namespace, &task.client, 0, async |world| {
            let (job, recorder) = (task.job()?, Recorder::new());
            let host = task.host(&world, false).await?;
            let connector = host.connector(vec![server(&task.contestant, &task.server, PORT)]);
            let network = cue.wait(&world).await?;
            world.sleep_until(world.now() + network.ahead()).await;
            let fetched = contest::load(world.clone(), connector, &job, recorder.clone()).await;
            let record = recorder.take();
            let seen = Seen::of(&world, network, &host);
            let span =
                if task.contestant.transport.is_kernels_emulated() { task.farewell() } else { CLOSING };
            task.closed(&world, &host, span).await;
            Ok(Ended { fetched, record, seen })
        })
    })
}

/// The interval at which a host checks for its signal and whether the kernel's connections are closed.
const LOOK: Duration = Duration::from_millis(20);
/// The time that connections have to close.
const CLOSING: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// No thread is left behind when the sender of the signal is gone.
    #[test]
    fn a_host_whose_run_is_given_up_ends() {
        let options = || os::Options { addresses: Vec::new(), seed: Some(1), sleep_at_once: true };
        let wait =
            move |cue: &Cue| os::run(options(), async |world| cue.wait(&world).await).expect("a world");
        let Working { cue, thread, .. } = Working::start("client", wait).expect("ready");
        drop(cue);
        assert_eq!(thread.join().expect("an end").err().as_deref(), Some("the run was given up"));
        let working = Working::start("client", wait).expect("ready");
        working.cue(Clock::begin());
        assert!(working.join().is_ok());
        let refused = Working::<()>::start("server", |_| Err("no socket".to_owned())).err();
        assert_eq!(refused.as_deref(), Some("the server: no socket"));
    }

    #[test]
    fn instants_are_told_from_clock_to_clock() {
        let at = Instant::from_millis;
        // The client's world starts after the network's clock, and the server's before it.
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
