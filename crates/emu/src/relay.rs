//! One path in real time: packets from either device through a chain to the other.
//!
//! A thread a path. It reads what has come, gives it to the chain with the time
//! at which it was read, takes out what is due, and sleeps until the next
//! instant that a chain names, or until a packet comes. How late packets leave
//! is counted: it is what a real machine adds to the link.

use crate::EmuError;
use crate::device::{Clock, Device};
use crate::packet::{LivePacket, Pool};
use crate::record::{Keep, Packets, Series, Spool};
use crate::report::{DirectionReport, PathReport};
use crate::watch::Watch;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Rng};
use anabranch_link::spec::Direction;
use anabranch_link::{Chain, LinkSpec};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The devices of one path.
#[derive(Debug)]
pub struct Pipe {
    /// Where the commands' packets come from.
    pub near: Device,
    /// The other end.
    pub far: Device,
}

/// A path that is being driven.
#[derive(Debug)]
pub struct Relay {
    stop: Arc<OwnedFd>,
    thread: JoinHandle<Result<Outcome, String>>,
}

/// What is known of a path once it has been driven.
#[derive(Debug)]
pub struct Outcome {
    /// What the link did.
    pub report: PathReport,
    /// Every packet at both ends, if they were to be kept.
    pub packets: Option<Packets>,
    /// Bytes over time: up, down.
    pub series: [Series; 2],
    /// What was waited for down, if anything was.
    pub watch: Option<Watch>,
}

impl Relay {
    /// Drives the link `spec` between the devices of `pipe` from here on. `seed` and `rng` are as in
    /// [`LinkSpec::build`]; `keep` says what is recorded beside counters, `watch` what is waited for
    /// on its way down.
    ///
    /// # Errors
    /// The link contradicts itself, or no thread can be started.
    pub fn start(
        pipe: Pipe,
        spec: &LinkSpec,
        seed: u64,
        rng: &Rng,
        clock: Clock,
        keep: Keep,
        watch: Option<Watch>,
    ) -> Result<Self, EmuError> {
        // A link that cannot be built is told here and not in the thread.
        spec.build::<LivePacket>(seed, rng).map_err(|error| EmuError::Failed(error.to_string()))?;
        let failed = |error: io::Error| EmuError::Failed(format!("a link cannot be driven: {error}"));
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed(error.into()))?;
        let stop = Arc::new(stop);
        let (until, spec, rng) = (stop.clone(), spec.clone(), rng.clone());
        let drive = move || {
            be_prompt();
            let chains = spec.build(seed, &rng).map_err(|error| error.to_string())?;
            let spool = (keep == Keep::Packets).then(Spool::new).transpose();
            let spool = spool.map_err(|error| format!("packets cannot be kept: {error}"))?;
            let mut driver = Driver::new(pipe, chains, clock, keep, spool);
            driver.watch = watch;
            driver.run(&until).map_err(|error| format!("a link has ended: {error}"))?;
            driver.outcome().map_err(|error| format!("packets cannot be kept: {error}"))
        };
        let thread = std::thread::Builder::new().name("link".to_owned()).spawn(drive).map_err(failed)?;
        Ok(Self { stop, thread })
    }

    /// Ends it; what is under way stays there.
    ///
    /// # Errors
    /// The relay has ended by itself: the devices are gone.
    pub fn stop(self) -> Result<Outcome, EmuError> {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        match self.thread.join() {
            Ok(outcome) => outcome.map_err(EmuError::Failed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// What hosts say to a wire (who is there? which groups are wanted?) is no traffic: the simulator's hosts do not say it
/// either, and it would be counted by a loss model that goes by numbers.
fn is_for_the_link(packet: &[u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => packet.get(16..19).is_none_or(|target| target != [224, 0, 0]),
        Some(6) => packet.get(24..26).is_none_or(|target| target != [0xff, 0x02] && target != [0xfe, 0x80]),
        _ => false,
    }
}

/// Has the kernel wake this thread on time, and before others where it lets us.
pub fn be_prompt() {
    // Timers of ordinary threads may be late by 50 µs, to save wakeups.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // Before every ordinary thread, where this may be had (root); else as far before them as it goes. On Linux both
    // are a thread's. A tool sets the first, since no crate in the tree has a safe call for it.
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

/// Both directions of a path.
struct Driver {
    /// Near, far.
    devices: [Device; 2],
    /// Up (from near to far), down.
    ways: [Way; 2],
    clock: Clock,
    pool: Pool,
    scratch: Vec<u8>,
    keep: Keep,
    spool: Option<Spool>,
    watch: Option<Watch>,
}

/// One direction.
struct Way {
    direction: Direction,
    chain: Chain<LivePacket>,
    report: DirectionReport,
    series: Series,
}

impl Way {
    fn new(direction: Direction, chain: Chain<LivePacket>) -> Self {
        Self { direction, chain, report: DirectionReport::default(), series: Series::default() }
    }
}

impl Driver {
    fn new(
        pipe: Pipe,
        (up, down): (Chain<LivePacket>, Chain<LivePacket>),
        clock: Clock,
        keep: Keep,
        spool: Option<Spool>,
    ) -> Self {
        Self {
            devices: [pipe.near, pipe.far],
            ways: [Way::new(Direction::Up, up), Way::new(Direction::Down, down)],
            clock,
            pool: Pool::default(),
            scratch: vec![0; LARGEST_FRAME],
            keep,
            spool,
            watch: None,
        }
    }

    fn run(&mut self, stop: &OwnedFd) -> io::Result<()> {
        // Whether the devices of near and far have packets, as far as is known.
        let mut ready = [true, true];
        loop {
            let mut more = [false, false];
            for way in 0..2 {
                if ready[way] {
                    more[way] = self.take_in(way)?;
                }
            }
            self.let_out();
            let timeout = if more.contains(&true) { Some(Timespec::default()) } else { self.wait() };
            let mut watched = [
                PollFd::new(&self.devices[0], PollFlags::IN),
                PollFd::new(&self.devices[1], PollFlags::IN),
                PollFd::new(stop, PollFlags::IN),
            ];
            match poll(&mut watched, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            ready = [!watched[0].revents().is_empty(), !watched[1].revents().is_empty()];
            if !watched[2].revents().is_empty() {
                return Ok(());
            }
        }
    }

    /// How long there is nothing to do; `None`: until a packet comes.
    fn wait(&self) -> Option<Timespec> {
        let next = self.ways.iter().filter_map(|way| way.chain.next()).min()?;
        let span = next.since(self.clock.now());
        Some(Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) })
    }

    /// Reads what has come for a way; true: there may be more.
    fn take_in(&mut self, way: usize) -> io::Result<bool> {
        let Self { devices, ways, clock, pool, scratch, keep, spool, .. } = self;
        let way_in = &devices[way];
        let way = &mut ways[way];
        for _ in 0..BATCH {
            let packet = match way_in.read(scratch) {
                Ok(Some(packet)) if is_for_the_link(packet) => packet,
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let now = clock.now();
            if *keep >= Keep::Bytes {
                Series::add(&mut way.series.entered, now, packet.len());
            }
            if let Some(spool) = spool {
                spool.add(now, way.direction == Direction::Up, way.direction, packet);
            }
            if way.chain.held() >= MAX_HELD {
                way.report.refused += 1;
                continue;
            }
            way.chain.push(now, pool.packet(packet, now));
        }
        Ok(true)
    }

    /// Hands on what is due.
    fn let_out(&mut self) {
        let Self { devices, ways, clock, pool, keep, spool, watch, .. } = self;
        let [near, far] = devices;
        for (way, out) in ways.iter_mut().zip([&*far, &*near]) {
            while let Some(due) = way.chain.next().filter(|due| *due <= clock.now()) {
                let Some(mut packet) = way.chain.pop(clock.now()) else { continue };
                if let Err(error) = out.write(packet.with_headroom()) {
                    way.report.refuse(&error);
                }
                let now = clock.now();
                way.report.delay.add(anabranch_base::time::nanos(now.since(packet.entered)));
                way.report.late.add(anabranch_base::time::nanos(now.since(due)));
                if *keep >= Keep::Bytes {
                    Series::add(&mut way.series.left, now, packet.bytes().len());
                }
                if let Some(watch) = watch.as_mut().filter(|_| way.direction == Direction::Down) {
                    watch.look(packet.entered, now, packet.bytes());
                }
                if let Some(spool) = spool {
                    spool.add(now, way.direction == Direction::Down, way.direction, packet.bytes());
                }
                pool.give(packet);
            }
            while let Some(dropped) = way.chain.pop_dropped() {
                pool.give(dropped.packet);
            }
        }
    }

    fn outcome(self) -> io::Result<Outcome> {
        let span = self.clock.now().since(Instant::ZERO);
        // Of the thread that drives it.
        let busy = clock_gettime(ClockId::ThreadCPUTime);
        let busy = Duration::new(busy.tv_sec as u64, busy.tv_nsec as u32);
        let [up, down] = self.ways;
        let finish = |way: Way| {
            let held = way.chain.held() as u64;
            (DirectionReport { meter: way.chain.meter().clone(), held, ..way.report }, way.series)
        };
        let ((up, up_series), (down, down_series)) = (finish(up), finish(down));
        Ok(Outcome {
            report: PathReport { span, up, down, busy, unseen: [0, 0] },
            packets: self.spool.map(Spool::finish).transpose()?,
            series: [up_series, down_series],
            watch: self.watch,
        })
    }
}

/// Packets read from one device before the other has its turn.
const BATCH: usize = 64;
/// Packets in a chain beyond which it takes no more: some 400 MB of the usual size.
const MAX_HELD: usize = 1 << 18;
/// The largest IP packet, and an Ethernet header.
const LARGEST_FRAME: usize = 65_535 + crate::device::HEADROOM;
