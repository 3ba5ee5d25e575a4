//! Runs one path in real time. Each direction has a chain of link elements, which delays, limits and drops packets as
//! in the simulator. Packets from the device at one end pass through the chain to the device at the other end.
//!
//! Each path has one thread. The thread reads the packets that have arrived at the devices, and passes each packet and
//! the current time to the chain of its direction. When a packet is due, the thread writes it to the device at the
//! other end. Then the thread sleeps until the next event of a chain, or until a packet arrives. The thread also
//! measures how late packets leave. This delay is what the real machine adds to the link.
//!
//! Several pairs of devices may share a path. Each pair is a *lane*. Each direction has one chain, through which the
//! packets of all lanes pass. Each packet leaves through a device of its own lane.

use crate::EmuError;
use crate::device::{Clock, Device};
use crate::packet::{LivePacket, Pool};
use crate::record::{Packets, RecordLevel, Series, Spool};
use crate::report::{DirectionReport, PathReport};
use crate::watch::Watch;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Rng};
use anabranch_link::spec::Direction;
use anabranch_link::{Chain, LinkSpec, Tally};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The two devices of one lane of a path.
#[derive(Debug)]
pub struct Pipe {
    /// The device at the near end of the link, where the packets of the user's programs enter the link.
    pub near: Device,
    /// The device at the far end of the link.
    pub far: Device,
}

/// A path whose thread is running.
#[derive(Debug)]
pub struct Relay {
    stop: Stop,
    thread: JoinHandle<Result<Outcome, String>>,
}

/// Ends the thread of a path when this value is dropped, also when the owner fails with an error.
#[derive(Debug)]
struct Stop(Arc<OwnedFd>);

impl Drop for Stop {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// The result of running a path.
#[derive(Debug)]
pub struct Outcome {
    /// The link's report.
    pub report: PathReport,
    /// The packets seen at both ends, if the relay was asked to record them.
    pub packets: Option<Packets>,
    /// The outcome of each lane (a pair of devices between which the relay carries packets), in the order of the lanes.
    pub lanes: Vec<LaneOutcome>,
}

/// The result of one lane of a path.
#[derive(Debug)]
pub struct LaneOutcome {
    /// The counts of the packets of the up direction and of the down direction.
    pub directions: [LaneCounts; 2],
    /// The time at which user data first left the link in the down direction, and the time until which user data was
    /// ignored. `None` if the lane was not watched.
    pub watch: Option<Watch>,
}

/// The counts of one lane's packets in one direction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LaneCounts {
    /// Packets read from the lane's device.
    pub entered: Tally,
    /// The number of packets that the link did not deliver, or delivered corrupted, so that the receiver will discard
    /// them.
    pub lost: u64,
    /// The bytes that entered and left, over time.
    pub series: Series,
}

impl Relay {
    /// Starts a thread that carries packets between the two devices of each lane. All lanes share the link `spec`.
    /// `seed` and `rng` have the same meaning as in [`LinkSpec::build`]. `level` selects what is recorded. `watch`
    /// detects user data in the down direction of each lane.
    ///
    /// # Errors
    /// Two settings of the link contradict each other, or the operating system cannot start a thread.
    pub fn start(
        lanes: Vec<Pipe>,
        spec: &LinkSpec,
        seed: u64,
        rng: &Rng,
        clock: Clock,
        level: RecordLevel,
        watch: Option<Watch>,
    ) -> Result<Self, EmuError> {
        // The link's settings are checked here, so that an error is reported to the caller and not in the thread.
        spec.build::<LivePacket>(seed, rng).map_err(|error| EmuError::Failed(error.to_string()))?;
        let failed = |error: io::Error| EmuError::Failed(format!("a link cannot be driven: {error}"));
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed(error.into()))?;
        let stop = Stop(Arc::new(stop));
        let (until, spec, rng) = (stop.0.clone(), spec.clone(), rng.clone());
        let drive = move || {
            raise_thread_priority();
            let chains = spec.build(seed, &rng).map_err(|error| error.to_string())?;
            let spool = (level == RecordLevel::Packets).then(Spool::new).transpose();
            let spool = spool.map_err(|error| format!("packets cannot be kept: {error}"))?;
            let lanes = lanes.into_iter().map(|pipe| Lane::new(pipe, watch)).collect();
            let mut driver = Driver::new(lanes, chains, clock, level, spool);
            driver.run(&until).map_err(|error| format!("a link has ended: {error}"))?;
            driver.outcome().map_err(|error| format!("packets cannot be kept: {error}"))
        };
        let thread = std::thread::Builder::new().name("link".to_owned()).spawn(drive).map_err(failed)?;
        Ok(Self { stop, thread })
    }

    /// Stops the path. Packets that are inside the link at this time do not leave it.
    ///
    /// # Errors
    /// The path has already ended because its devices are gone.
    pub fn stop(self) -> Result<Outcome, EmuError> {
        drop(self.stop);
        match self.thread.join() {
            Ok(outcome) => outcome.map_err(EmuError::Failed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Returns whether a packet may enter the link. Link-local packets of the kernel (neighbour discovery, multicast
/// groups) may not: hosts in the simulator do not send them, and loss models that count packets would count them.
fn is_for_the_link(packet: &[u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => packet.get(16..19).is_none_or(|target| target != [224, 0, 0]),
        Some(6) => packet.get(24..26).is_none_or(|target| target != [0xff, 0x02] && target != [0xfe, 0x80]),
        _ => false,
    }
}

/// Makes the kernel wake the calling thread on time and, if permitted, before other threads.
pub fn raise_thread_priority() {
    // By default, the kernel may fire the timers of an ordinary thread up to 50 µs late, to save wakeups. This call
    // reduces the limit to 1 ns.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // As root, the thread gets real-time priority, and runs before every ordinary thread. Otherwise the thread gets the
    // highest ordinary priority. On Linux both kinds of priority apply to a single thread. The tool `chrt` sets
    // real-time priority, because no crate in use has a safe call for it.
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut chrt = Command::new("chrt");
    chrt.args(["--rr", "--pid", "1", &thread])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if !chrt.status().is_ok_and(|status| status.success()) {
        let _ = rustix::process::setpriority_process(None, -19);
    }
}

/// The state of the thread that runs both directions of a path.
struct Driver {
    lanes: Vec<Lane>,
    /// The two directions: up (from the near to the far end), then down.
    directions: [DirectionState; 2],
    clock: Clock,
    pool: Pool,
    scratch: Vec<u8>,
    level: RecordLevel,
    spool: Option<Spool>,
}

/// A pair of network devices, one at each end of the path, and the counts of the packets between these two devices.
struct Lane {
    /// The devices at the near and at the far end.
    devices: [Device; 2],
    outcome: LaneOutcome,
}

impl Lane {
    fn new(pipe: Pipe, watch: Option<Watch>) -> Self {
        let outcome = LaneOutcome { directions: Default::default(), watch };
        Self { devices: [pipe.near, pipe.far], outcome }
    }
}

/// One direction of the path: its chain and its report.
struct DirectionState {
    direction: Direction,
    chain: Chain<LivePacket>,
    report: DirectionReport,
}

impl DirectionState {
    fn new(direction: Direction, chain: Chain<LivePacket>) -> Self {
        Self { direction, chain, report: DirectionReport::default() }
    }
}

impl Driver {
    fn new(
        lanes: Vec<Lane>,
        (up, down): (Chain<LivePacket>, Chain<LivePacket>),
        clock: Clock,
        level: RecordLevel,
        spool: Option<Spool>,
    ) -> Self {
        Self {
            lanes,
            directions: [DirectionState::new(Direction::Up, up), DirectionState::new(Direction::Down, down)],
            clock,
            pool: Pool::default(),
            scratch: vec![0; LARGEST_FRAME],
            level,
            spool,
        }
    }

    fn run(&mut self, stop: &OwnedFd) -> io::Result<()> {
        // For each lane: whether its near device and its far device may have packets to read.
        let mut ready = vec![[true; 2]; self.lanes.len()];
        loop {
            let mut more = false;
            for (lane, ready) in ready.iter().enumerate() {
                for direction in (0..2).filter(|direction| ready[*direction]) {
                    more |= self.take_in(lane, direction)?;
                }
            }
            self.let_out();
            let timeout = if more { Some(Timespec::default()) } else { self.wait() };
            let devices = self.lanes.iter().flat_map(|lane| &lane.devices);
            let mut watched: Vec<PollFd<'_>> =
                devices.map(|device| PollFd::new(device, PollFlags::IN)).collect();
            watched.push(PollFd::new(stop, PollFlags::IN));
            match poll(&mut watched, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let stirred = |watched: &PollFd<'_>| !watched.revents().is_empty();
            if watched.last().is_some_and(stirred) {
                return Ok(());
            }
            for (ready, watched) in ready.iter_mut().zip(watched.chunks_exact(2)) {
                *ready = [stirred(&watched[0]), stirred(&watched[1])];
            }
        }
    }

    /// Returns the time until the next event of a chain; `None` if there is no event to wait for.
    fn wait(&self) -> Option<Timespec> {
        let next = self.directions.iter().filter_map(|state| state.chain.next()).min()?;
        let span = next.since(self.clock.now());
        Some(Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) })
    }

    /// Reads packets from one device of a lane. `index` is the index of the device, and of the direction of its
    /// packets: up is 0, down is 1. Returns true if more packets may be ready to be read.
    fn take_in(&mut self, lane: usize, index: usize) -> io::Result<bool> {
        let Self { lanes, directions, clock, pool, scratch, level, spool } = self;
        for _ in 0..BATCH {
            let packet = match lanes[lane].devices[index].read(scratch) {
                Ok(Some(packet)) if is_for_the_link(packet) => packet,
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let now = clock.now();
            let passed = &mut lanes[lane].outcome.directions[index];
            passed.entered.add(packet.len());
            if *level >= RecordLevel::Bytes {
                Series::add(&mut passed.series.entered, now, packet.len());
            }
            let DirectionState { direction, chain, report } = &mut directions[index];
            if let Some(spool) = spool {
                spool.add(now, lane, *direction == Direction::Up, *direction, packet);
            }
            if chain.held() >= MAX_HELD {
                report.refused += 1;
                passed.lost += 1;
                continue;
            }
            chain.push(now, pool.packet(packet, now, lane));
            count_dropped(chain, index, lanes, pool);
        }
        Ok(true)
    }

    /// Writes all due packets, each to the device at which it leaves the link.
    fn let_out(&mut self) {
        let Self { lanes, directions, clock, pool, level, spool, .. } = self;
        for (index, state) in directions.iter_mut().enumerate() {
            while let Some(due) = state.chain.next().filter(|due| *due <= clock.now()) {
                let Some(mut packet) = state.chain.pop(clock.now()) else { continue };
                let Lane { devices, outcome } = &mut lanes[packet.lane];
                let written = devices[1 - index].write(packet.with_headroom());
                if let Err(error) = &written {
                    state.report.refuse(error);
                }
                let now = clock.now();
                state.report.delay.add(now.since(packet.entered));
                state.report.late.add(now.since(due));
                let passed = &mut outcome.directions[index];
                passed.lost += u64::from(written.is_err() || packet.is_corrupted);
                if *level >= RecordLevel::Bytes {
                    Series::add(&mut passed.series.left, now, packet.bytes().len());
                }
                if let Some(watch) = outcome.watch.as_mut().filter(|_| state.direction == Direction::Down) {
                    watch.inspect(packet.entered, now, packet.bytes());
                }
                if let Some(spool) = spool {
                    let near = state.direction == Direction::Down;
                    spool.add(now, packet.lane, near, state.direction, packet.bytes());
                }
                pool.give(packet);
            }
            count_dropped(&mut state.chain, index, lanes, pool);
        }
    }

    fn outcome(self) -> io::Result<Outcome> {
        let span = self.clock.now().since(Instant::ZERO);
        // `busy` is the processor time that this thread has used.
        let busy = clock_gettime(ClockId::ThreadCPUTime);
        let busy = Duration::new(busy.tv_sec as u64, busy.tv_nsec as u32);
        let [up, down] = self.directions.map(|state| {
            let held = state.chain.held() as u64;
            DirectionReport { meter: state.chain.meter().clone(), held, ..state.report }
        });
        Ok(Outcome {
            report: PathReport { span, up, down, busy, unseen: [0, 0] },
            packets: self.spool.map(Spool::finish).transpose()?,
            lanes: self.lanes.into_iter().map(|lane| lane.outcome).collect(),
        })
    }
}

/// Takes the lost packets out of a chain, and adds each packet to the `lost` count of the packet's lane. Call this
/// often, because a chain keeps only a limited number of lost packets.
fn count_dropped(chain: &mut Chain<LivePacket>, direction: usize, lanes: &mut [Lane], pool: &mut Pool) {
    while let Some(dropped) = chain.pop_dropped() {
        lanes[dropped.packet.lane].outcome.directions[direction].lost += 1;
        pool.give(dropped.packet);
    }
}

/// The number of packets that are read from one device before the next device gets its turn.
const BATCH: usize = 64;
/// The maximum number of packets inside one direction of a path. If all of them have full size, they take about 400 MB.
/// Further packets are refused.
const MAX_HELD: usize = 1 << 18;
/// The size in bytes of the largest IP packet with an Ethernet header.
const LARGEST_FRAME: usize = 65_535 + crate::device::HEADROOM;
