//! The two hosts of a contestant in an emulated run. Each host has a thread and a network namespace of its own. It uses
//! the operating system's clock and sockets.

use super::counters::{self, Counters};
use crate::plan::contestant::SecurityConfigs;
use crate::plan::workload::MAX_CONNECTIONS;
use crate::plan::{Contestant, PointPlan};
use crate::run::contest::{self, Job, PORT};
use crate::run::host::{beginning, server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::TraceRecord;
use anabranch_emu::device::Clock;
use anabranch_emu::netns::Namespace;
use anabranch_emu::relay::raise_thread_priority;
use anabranch_emu::wiring::{AddressRange, LinkEnd};
use anabranch_http::fetch::Outcome as Fetched;
use anabranch_http::observe::{Record, Recorder};
use anabranch_tls::Surroundings;
use anabranch_transport::protocol::Totals;
use anabranch_transport::{Host, LowerProtocol};
use anabranch_world::World;
use anabranch_world::kernel::KernelOptions;
use anabranch_world::os::{self, OsWorld};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;

/// The parameters that the client and the server of an emulated run need.
#[derive(Clone)]
pub struct Task {
    point: PointPlan,
    contestant: Contestant,
    /// The seed for the hosts' random numbers. Two contestants that share a network get different numbers.
    seed: u64,
    client: Vec<IpAddr>,
    server: Vec<IpAddr>,
    /// The configurations of the contestant's TLS or DTLS, for client and server.
    pairs: SecurityConfigs,
    /// The firewall mark of the contestant's packets. Set if the firewall must distinguish them from packets of the
    /// same protocol that the kernel itself sends.
    mark: Option<u32>,
}

/// The records of a host at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct HostRecords {
    /// The trace of the host's engine. Its times are on the host's clock.
    pub trace: Vec<TraceRecord>,
    /// The totals that the transport's engine counted on this host.
    pub totals: Totals,
    /// The counters of the kernel's TCP and SCTP.
    pub kernel: Counters,
    /// One moment, read on the host's clock and on the network's clock. With this pair, times can be converted between
    /// the two clocks.
    pub moment: (Instant, Instant),
}

/// The records of the server at the end of an emulated run.
#[derive(Debug)]
pub struct Served {
    /// The times at which the server established connections, and received and answered requests.
    pub record: Record,
    /// The records of the server's host during the run.
    pub seen: HostRecords,
}

/// What the client fetched and when, and the records of the client's host.
#[derive(Debug)]
pub struct ClientOutcome {
    /// How the fetch of the objects ended.
    pub fetched: Fetched,
    /// The times at which the client established connections, sent requests, and received objects.
    pub record: Record,
    /// The records of the client's host during the run.
    pub seen: HostRecords,
}

/// A host that is running in a thread of its own.
pub struct HostThread<T> {
    name: &'static str,
    cue: Arc<OnceLock<Clock>>,
    thread: JoinHandle<Result<T, String>>,
}

/// The signal that begins the next phase of a host's run. It tells the client to begin its requests. It tells the
/// server, which listens already, that the client has finished and recording can stop.
struct StartSignal {
    ready: mpsc::Sender<Result<(), String>>,
    given: Arc<OnceLock<Clock>>,
}

impl Task {
    /// Creates the parameters for the two hosts of an emulated run.
    ///
    /// # Errors
    /// A one-line message if the contestant contradicts the workload.
    pub fn new(
        point: &PointPlan,
        contestant: &Contestant,
        seed: u64,
        place: AddressRange,
        mark: Option<u32>,
    ) -> Result<Self, String> {
        let links = point.network.paths.len();
        let (client, server) = (place.addresses(links, LinkEnd::Near), place.addresses(links, LinkEnd::Far));
        let seed = seed.wrapping_mul(2).wrapping_add(u64::from(place.block) << 48);
        // An emulated run uses real sockets, so its TLS keys come from the operating system's random numbers and not
        // from a simulation.
        let pairs = contestant.pairs(&Surroundings::Real, point.workload.visit)?;
        let (point, contestant) = (point.clone(), contestant.clone());
        let task = Self { point, contestant, seed, client, server, pairs, mark };
        task.job()?;
        Ok(task)
    }

    /// Returns the secrets of all sessions so far, with which other programs can decrypt a capture.
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

    /// Moves the calling thread into the network namespace permanently, and runs `program` there.
    fn world<T>(
        &self,
        namespace: &Namespace,
        addresses: &[IpAddr],
        side: u64,
        program: impl AsyncFnOnce(OsWorld) -> Result<T, String>,
    ) -> Result<T, String> {
        let wrong = |error: std::io::Error| error.to_string();
        namespace.enter(true).map_err(wrong)?;
        // Engines in user space compete for CPU time with other programs, so this thread gets priority. The kernel's
        // TCP does not need the priority.
        raise_thread_priority();
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
        let (begin, above) =
            beginning(world, &self.point, &self.contestant, &self.pairs, server, || Surroundings::Real)?;
        let host = protocol.start(world.clone(), begin).await;
        let host = host.map_err(|error| format!("{}: {error}", transport.name().to_uppercase()))?;
        let host = above.map_or(Ok(host.clone()), |above| above.over(world, host))?;
        host.set_tracing(true);
        Ok(host)
    }

    /// Waits until the host has no open connections, but no longer than `span`.
    async fn closed(&self, world: &OsWorld, host: &Rc<dyn Host>, span: Duration) {
        if !self.contestant.transport.is_kernel_in_emulation() {
            let _ = world.timeout(span, host.wait_idle()).await;
            return;
        }
        let end = world.now() + span;
        while counters::any_connection() && world.now() < end {
            world.sleep_until(world.now() + LOOK).await;
        }
    }
}

/// Returns the socket options for the contestant, if the kernel runs its transport. Otherwise `None`.
pub fn kernel_options(contestant: &Contestant) -> Option<KernelOptions> {
    let congestion = contestant.kernel_cc.as_ref().map(|kernel_cc| kernel_cc.name.as_str());
    contestant.transport.in_emulation()?.kernel(&*contestant.engine, congestion)
}

/// Returns whether the contestant's packets have this IP protocol number.
pub fn uses_protocol(contestant: &Contestant, protocol: u8) -> bool {
    let carriers = contestant.transport.capabilities().carriers;
    carriers.ip == Some(protocol) && carriers.choose(contestant.encapsulated, false) == LowerProtocol::Ip
}

impl HostRecords {
    fn of(world: &OsWorld, network: Clock, host: &Rc<dyn Host>) -> Self {
        let moment = (world.now(), network.now());
        Self { trace: host.take_trace(), totals: host.totals(), kernel: Counters::read(), moment }
    }

    /// Converts a time on the host's clock to the network's clock.
    #[must_use]
    pub fn on_network(&self, at: Instant) -> Instant {
        translated(at, self.moment.0, self.moment.1)
    }

    /// Converts a time on the network's clock to the host's clock.
    #[must_use]
    pub fn on_host(&self, at: Instant) -> Instant {
        translated(at, self.moment.1, self.moment.0)
    }
}

/// Converts the time `at` from one clock to another. At one moment, the first clock showed `here` and the other clock
/// showed `there`.
fn translated(at: Instant, here: Instant, there: Instant) -> Instant {
    if at >= here { there + (at - here) } else { there - (here - at) }
}

impl StartSignal {
    /// Reports that the host is ready, and waits for the start signal. Returns the network's clock, which the signal
    /// carries.
    async fn wait(&self, world: &OsWorld) -> Result<Clock, String> {
        let _ = self.ready.send(Ok(()));
        loop {
            if let Some(clock) = self.given.get() {
                return Ok(*clock);
            }
            // The side that sends the signal has dropped it, so the signal will never arrive.
            if Arc::strong_count(&self.given) == 1 {
                return Err("the run was given up".to_owned());
            }
            world.sleep_until(world.now() + LOOK).await;
        }
    }
}

impl<T: Send + 'static> HostThread<T> {
    /// Starts a host of an emulated run in a thread of its own, and waits until the host is ready.
    fn start(
        name: &'static str,
        work: impl FnOnce(&StartSignal) -> Result<T, String> + Send + 'static,
    ) -> Result<Self, String> {
        let given = Arc::new(OnceLock::new());
        let (ready, is_ready) = mpsc::channel();
        let cue = StartSignal { ready, given: given.clone() };
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

    /// Gives the host the network's clock. A client begins its requests when that clock starts. For a server, the call
    /// means that the transfer is over. The server stops recording, and ends when its connections are closed, or after
    /// a short wait.
    pub fn cue(&self, network: Clock) {
        let _ = self.cue.set(network);
    }

    /// Waits until the host has ended, and returns its outcome.
    ///
    /// # Errors
    /// The error that ended the host early.
    pub fn join(self) -> Result<T, String> {
        match self.thread.join() {
            Ok(ended) => ended.map_err(|why| format!("the {}: {why}", self.name)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Starts the server. It is listening when this function returns. [`HostThread::cue`] tells the server that the
/// transfer is over. The server then stops recording. It ends when its connections are closed, or after a short wait.
///
/// # Errors
/// One line that says why the server is not listening.
pub fn serve(namespace: &Namespace, task: &Task) -> Result<HostThread<Served>, String> {
    let (namespace, task) = (namespace.clone(), task.clone());
    HostThread::start("server", move |cue| {
        task.world(&namespace, &task.server, 1, async |world| {
            let (job, recorder) = (task.job()?, Recorder::new());
            let host = task.host(&world, true).await?;
            let listener = host.listen(PORT, MAX_CONNECTIONS as u32).map_err(|error| error.to_string())?;
            contest::serve(world.clone(), listener, &job, recorder.clone());
            let network = cue.wait(&world).await?;
            let served = Served { record: recorder.take(), seen: HostRecords::of(&world, network, &host) };
            // Waits until the connections are closed, so that a capture also shows the packets that close them.
            task.closed(&world, &host, task.farewell()).await;
            Ok(served)
        })
    })
}

/// Starts the client. After [`HostThread::cue`], the client waits until the network's clock starts, and then fetches
/// the workload. Finally it waits until its connections are closed.
///
/// # Errors
/// One line that says why the client cannot be started.
pub fn fetch(namespace: &Namespace, task: &Task) -> Result<HostThread<ClientOutcome>, String> {
    let (namespace, task) = (namespace.clone(), task.clone());
    HostThread::start("client", move |cue| {
        task.world(&namespace, &task.client, 0, async |world| {
            let (job, recorder) = (task.job()?, Recorder::new());
            let host = task.host(&world, false).await?;
            let connector = host.connector(vec![server(&task.contestant, &task.server, PORT)]);
            let network = cue.wait(&world).await?;
            world.sleep_until(world.now() + network.ahead()).await;
            let fetched = contest::load(world.clone(), connector, &job, recorder.clone()).await;
            let record = recorder.take();
            let seen = HostRecords::of(&world, network, &host);
            let span =
                if task.contestant.transport.is_kernel_in_emulation() { task.farewell() } else { CLOSING };
            task.closed(&world, &host, span).await;
            Ok(ClientOutcome { fetched, record, seen })
        })
    })
}

/// The interval at which a host checks whether the start signal has arrived, or whether the kernel's connections are
/// closed.
const LOOK: Duration = Duration::from_millis(20);
/// The maximum time that the client waits for the connections of our own engines to close.
const CLOSING: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread of a host must end if the sender of its start signal is dropped.
    #[test]
    fn a_host_whose_run_is_given_up_ends() {
        let options = || os::Options { addresses: Vec::new(), seed: Some(1), sleep_at_once: true };
        let wait = move |cue: &StartSignal| {
            os::run(options(), async |world| cue.wait(&world).await).expect("a world")
        };
        let HostThread { cue, thread, .. } = HostThread::start("client", wait).expect("ready");
        drop(cue);
        assert_eq!(thread.join().expect("an end").err().as_deref(), Some("the run was given up"));
        let working = HostThread::start("client", wait).expect("ready");
        working.cue(Clock::begin());
        assert!(working.join().is_ok());
        let refused = HostThread::<()>::start("server", |_| Err("no socket".to_owned())).err();
        assert_eq!(refused.as_deref(), Some("the server: no socket"));
    }

    #[test]
    fn instants_are_told_from_clock_to_clock() {
        let at = Instant::from_millis;
        // In the first test case, the host's clock starts after the network's clock, as on a client. In the second test
        // case, the host's clock starts first, as on a server.
        for (here, there) in [(5, 25), (90, 25)] {
            let seen = HostRecords { moment: (at(here), at(there)), ..HostRecords::default() };
            for host in [here, here + 7] {
                let network = seen.on_network(at(host));
                assert_eq!((network, seen.on_host(network)), (at(there + host - here), at(host)));
            }
        }
        let early = HostRecords { moment: (at(90), at(25)), ..HostRecords::default() };
        assert_eq!((early.on_network(at(80)), early.on_network(at(3))), (at(15), Instant::ZERO));
    }
}
