//! Runs one path in real time: packets from either device pass through a chain to the other.
//!
//! There is one thread per path. It reads the packets that have arrived, hands them to the chain with the time of
//! reading, and takes out packets that are due. Then it sleeps until the next instant that a chain names, or until a
//! packet arrives. It counts how late packets leave: that is the delay that a real machine adds to the link.
//!
//! Several pairs of devices may share a path: each is a *lane*, whose packets meet
//! those of the others in the chains and leave by their own lane's device.

use crate::EmuError;
use crate::device::{Clock, Device};
use crate::packet::{LivePacket, Pool};
use crate::record::{Keep, Packets, Series, Spool};
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

/// The devices of one lane of a path.
#[derive(Debug)]
pub struct Pipe {
    /// The device from which the commands' packets come.
    pub near: Device,
    /// The device at the other end.
    pub far: Device,
}

/// A path that is running.
#[derive(Debug)]
pub struct Relay {
    stop: Stop,
    thread: JoinHandle<Result<Outcome, String>>,
}

/// Ends the thread of a path when it is dropped, for whatever reason.
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
    /// Every packet at both ends, if they were recorded.
    pub packets: Option<Packets>,
    /// The result of each lane, in the order of the lanes.
    pub lanes: Vec<LaneOutcome>,
}

/// The result of one lane.
#[derive(Debug)]
pub struct LaneOutcome {
    /// The packets up and down.
    pub ways: [Passed; 2],
    /// The watch on the down direction, if there was one.
    pub watch: Option<Watch>,
}

/// The packets of one lane in one direction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Packets read from the lane's device.
    pub entered: Tally,
    /// Packets that did not arrive, or were discarded on arrival.
    pub lost: u64,
    /// Bytes over time.
    pub series: Series,
}

impl Relay {
    /// Starts running the link `spec` between the devices of these lanes, which share it. `seed` and `rng` are as in
    /// [`LinkSpec::build`]. `keep` says what is recorded besides counters; `watch` says what to detect in the down
    /// direction of each lane.
    ///
    /// # Errors
    /// The link's settings contradict each other, or no thread can be started.
    pub fn start(
        lanes: Vec<Pipe>,
        spec: &LinkSpec,
        seed: u64,
        rng: &Rng,
        clock: Clock,
        keep: Keep,
        watch: Option<Watch>,
    ) -> Result<Self, EmuError> {
        // Report an invalid link here and not in the thread.
        spec.build::<LivePacket>(seed, rng).map_err(|error| EmuError::Failed(error.to_string()))?;
        let failed = |error: io::Error| EmuError::Failed(format!("a link cannot be driven: {error}"));
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed(error.into()))?;
        let stop = Stop(Arc::new(stop));
        let (until, spec, rng) = (stop.0.clone(), spec.clone(), rng.clone());
        let drive = move || {
            be_prompt();
            let chains = spec.build(seed, &rng).map_err(|error| error.to_string())?;
            let spool = (keep == Keep::Packets).then(Spool::new).transpose();
            let spool = spool.map_err(|error| format!("packets cannot be kept: {error}"))?;
            let lanes = lanes.into_iter().map(|pipe| Lane::new(pipe, watch)).collect();
            let mut driver = Driver::new(lanes, chains, clock, keep, spool);
            driver.run(&until).map_err(|error| format!("a link has ended: {error}"))?;
            driver.outcome().map_err(|error| format!("packets cannot be kept: {error}"))
        };
        let thread = std::thread::Builder::new().name("link".to_owned()).spawn(drive).map_err(failed)?;
        Ok(Self { stop, thread })
    }

    /// Stops it; packets that are under way remain in the link.
    ///
    /// # Errors
    /// The relay has already ended because the devices are gone.
    pub fn stop(self) -> Result<Outcome, EmuError> {
        drop(self.stop);
        match self.thread.join() {
            Ok(outcome) => outcome.map_err(EmuError::Failed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Whether a packet goes through the link. Link-local traffic of hosts (neighbour discovery, multicast groups) does
/// not: the simulator's hosts do not send it either, and loss models that count packets would count it.
fn is_for_the_link(packet: &[u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => packet.get(16..19).is_none_or(|target| target != [224, 0, 0]),
        Some(6) => packet.get(24..26).is_none_or(|target| target != [0xff, 0x02] && target != [0xfe, 0x80]),
        _ => false,
    }
}

/// Makes the kernel wake this thread on time, and before other threads if permitted.
pub fn be_prompt() {
    // By default, timers of ordinary threads may be late by 50 µs, to save wakeups.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // Use real-time priority, before every ordinary thread, if permitted (root); otherwise the highest ordinary
    // priority. On Linux both apply to a thread. A tool sets the first, because no crate in the tree has a safe call
    // for it.
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

/// Runs both directions of a path.
struct Driver {
    lanes: Vec<Lane>,
    /// The directions: up (from near to far), down.
    ways: [Way; 2],
    clock: Clock,
    pool: Pool,
    scratch: Vec<u8>,
    keep: Keep,
    spool: Option<Spool>,
}

/// A pair of devices, and the results of their packets.
struct Lane {
    /// The devices: near, far.
    devices: [Device; 2],
    outcome: LaneOutcome,
}

impl Lane {
    fn new(pipe: Pipe, watch: Option<Watch>) -> Self {
        let outcome = LaneOutcome { ways: Default::default(), watch };
        Self { devices: [pipe.near, pipe.far], outcome }
    }
}

/// One direction.
struct Way {
    direction: Direction,
    chain: Chain<LivePacket>,
    report: DirectionReport,
}

impl Way {
    fn new(direction: Direction, chain: Chain<LivePacket>) -> Self {
        Self { direction, chain, report: DirectionReport::default() }
    }
}

impl Driver {
    fn new(
        lanes: Vec<Lane>,
        (up, down): (Chain<LivePacket>, Chain<LivePacket>),
        clock: Clock,
        keep: Keep,
        spool: Option<Spool>,
    ) -> Self {
        Self {
            lanes,
            ways: [Way::new(Direction::Up, up), Way::new(Direction::Down, down)],
            clock,
            pool: Pool::default(),
            scratch: vec![0; LARGEST_FRAME],
            keep,
            spool,
        }
    }

    fn run(&mut self, stop: &OwnedFd) -> io::Result<()> {
        // Whether the near and far devices of each lane may have packets to read.
        let mut ready = vec![[true; 2]; self.lanes.len()];
        loop {
            let mut more = false;
            for (lane, ready) in ready.iter().enumerate() {
                for way in (0..2).filter(|way| ready[*way]) {
                    more |= self.take_in(lane, way)?;
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

    /// The time until something is due; `None`: wait until a packet arrives.
    fn wait(&self) -> Option<Timespec> {
        let next = self.ways.iter().filter_map(|way| way.chain.next()).min()?;
        let span = next.since(self.clock.now());
        Some(Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) })
    }

    /// Reads packets from a lane in one direction; returns true if there may be more.
    fn take_in(&mut self, lane: usize, way: usize) -> io::Result<bool> {
        let Self { lanes, ways, clock, pool, scratch, keep, spool } = self;
        for _ in 0..BATCH {
            let packet = match lanes[lane].devices[way].read(scratch) {
                Ok(Some(packet)) if is_for_the_link(packet) => packet,
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let now = clock.now();
            let passed = &mut lanes[lane].outcome.ways[way];
            passed.entered.add(packet.len());
            if *keep >= Keep::Bytes {
                Series::add(&mut passed.series.entered, now, packet.len());
            }
            let Way { direction, chain, report } = &mut ways[way];
            if let Some(spool) = spool {
                spool.add(now, lane, *direction == Direction::Up, *direction, packet);
            }
            if chain.held() >= MAX_HELD {
                report.refused += 1;
                passed.lost += 1;
                continue;
            }
            chain.push(now, pool.packet(packet, now, lane));
            count_dropped(chain, way, lanes, pool);
        }
        Ok(true)
    }

    /// Writes all packets that are due.
    fn let_out(&mut self) {
        let Self { lanes, ways, clock, pool, keep, spool, .. } = self;
        for (index, way) in ways.iter_mut().enumerate() {
            while let Some(due) = way.chain.next().filter(|due| *due <= clock.now()) {
                let Some(mut packet) = way.chain.pop(clock.now()) else { continue };
                let Lane { devices, outcome } = &mut lanes[packet.lane];
                let written = devices[1 - index].write(packet.with_headroom());
                if let Err(error) = &written {
                    way.report.refuse(error);
                }
                let now = clock.now();
                way.report.delay.add(anabranch_base::time::nanos(now.since(packet.entered)));
                way.report.late.add(anabranch_base::time::nanos(now.since(due)));
                let passed = &mut outcome.ways[index];
                passed.lost += u64::from(written.is_err() || packet.is_corrupted);
                if *keep >= Keep::Bytes {
                    Series::add(&mut passed.series.left, now, packet.bytes().len());
                }
                if let Some(watch) = outcome.watch.as_mut().filter(|_| way.direction == Direction::Down) {
                    watch.look(packet.entered, now, packet.bytes());
                }
                if let Some(spool) = spool {
                    let near = way.direction == Direction::Down;
                    spool.add(now, packet.lane, near, way.direction, packet.bytes());
                }
                pool.give(packet);
            }
            count_dropped(&mut way.chain, index, lanes, pool);
        }
    }

    fn outcome(self) -> io::Result<Outcome> {
        let span = self.clock.now().since(Instant::ZERO);
        // The CPU time of this thread.
        let busy = clock_gettime(ClockId::ThreadCPUTime);
        let busy = Duration::new(busy.tv_sec as u64, busy.tv_nsec as u32);
        let [up, down] = self.ways.map(|way| {
            let held = way.chain.held() as u64;
            DirectionReport { meter: way.chain.meter().clone(), held, ..way.report }
        });
        Ok(Outcome {
            report: PathReport { span, up, down, busy, unseen: [0, 0] },
            packets: self.spool.map(Spool::finish).transpose()?,
            lanes: self.lanes.into_iter().map(|lane| lane.outcome).collect(),
        })
    }
}

/// Counts the packets that a chain has lost, by lane; must be called often, because a chain remembers only a limited
/// number.
fn count_dropped(chain: &mut Chain<LivePacket>, way: usize, lanes: &mut [Lane], pool: &mut Pool) {
    while let Some(dropped) = chain.pop_dropped() {
        lanes[dropped.packet.lane].outcome.ways[way].lost += 1;
        pool.give(dropped.packet);
    }
}

/// The number of packets read from one device before the other gets its turn.
const BATCH: usize = 64;
/// The number of packets in a chain beyond which it accepts no more: some 400 MB at the usual size.
const MAX_HELD: usize = 1 << 18;
/// The size of the largest IP packet and an Ethernet header.
const LARGEST_FRAME: usize = 65_535 + crate::device::HEADROOM;
