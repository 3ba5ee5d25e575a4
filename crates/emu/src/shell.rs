//! `anabranch link`: runs a command behind emulated links.
//!
//! The command runs in a network namespace of its own. The far end of the links is the namespace in which this program
//! was started. If the program may not change that namespace, or if a second command runs at the far end, the program
//! creates a namespace for the far end. Signals that ask this program to stop are passed on to the command. When the
//! command exits, the links are removed.

use crate::EmuError;
use crate::device::{Clock, DeviceKind};
use crate::netns::{self, Namespace};
use crate::record::RecordLevel;
use crate::relay::Relay;
use crate::report::PathReport;
use crate::wiring::{AddressRange, ENVIRONMENT, LinkEnd, Wiring};
use anabranch_base::{Instant, Rng};
use anabranch_link::LinkSpec;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use rustix::process::{Pid, kill_process, kill_process_group, test_kill_process_group};
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The command to run, and the links behind which it runs.
#[derive(Clone, Debug)]
pub struct Request {
    /// The links, one for each path; at least one.
    pub links: Vec<LinkSpec>,
    /// The seed of all random events.
    pub seed: u64,
    /// The kind of device that transfers packets between a namespace and the links.
    pub device: DeviceKind,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// A shell command to run at the other end of the links, if any.
    pub far: Option<String>,
}

/// The addresses of the two ends of the links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkAddresses {
    /// The command's addresses, one per link.
    pub near: Vec<IpAddr>,
    /// The other end's addresses, one per link.
    pub far: Vec<IpAddr>,
    /// Whether the other end is in the network namespace in which this program was started.
    pub shared: bool,
}

/// The result of running a command.
#[derive(Clone, PartialEq, Debug)]
pub struct CommandOutcome {
    /// The command's exit status as a shell reports it: its own status, or 128 plus the number of the signal that ended
    /// it.
    pub status: u8,
    /// The exit status of the second command, which runs at the other end of the links, if it failed before it was
    /// asked to end.
    pub far_failed: Option<u8>,
    /// The report of each link.
    pub paths: Vec<PathReport>,
}

/// Runs the command until it ends. `begun` is called with the addresses directly before the command starts. Call this
/// while the process has a single thread.
///
/// # Errors
/// [`EmuError`]: links cannot be created on this host, or the command does not exist.
pub fn run(request: &Request, begun: impl FnOnce(&LinkAddresses)) -> Result<CommandOutcome, EmuError> {
    // Threads that are started from now on inherit the signal mask, so only `signals` receives these signals.
    let mask: SigSet = HEARD.into_iter().collect();
    let failed = |what: &str, error: io::Error| EmuError::Failed(format!("{what}: {error}"));
    mask.thread_block().map_err(|error| failed("signals", error.into()))?;
    let signals = SignalFd::new(&mask).map_err(|error| failed("signals", error.into()))?;

    let rootless = netns::prepare()?;
    let shared = request.far.is_none() && !rootless;
    let far = if shared { Namespace::current() } else { Namespace::create() };
    let far = far.map_err(|error| failed("a namespace", error))?;
    let outer = std::env::var(ENVIRONMENT).ok();
    let mut attempt = 0;
    let (addresses, (wiring, pipes), near) = loop {
        // Each attempt uses a new namespace, because the interfaces of a failed attempt are removed only after a while.
        let near = Namespace::create().map_err(|error| failed("a namespace", error))?;
        let addresses = far.run(|| AddressRange::within(outer.as_deref().filter(|_| shared), attempt));
        let addresses = addresses.map_err(|error| failed("a namespace", error))??;
        match Wiring::join(&request.links, (near.clone(), far.clone()), shared, addresses, request.device) {
            Ok(joined) => break (addresses, joined, near),
            // Another program may have taken the addresses for its links at the same time, so the next block is tried.
            Err(_) if shared && attempt < ATTEMPTS => attempt = addresses.block + 1,
            Err(error) => return Err(error),
        }
    };

    let count = request.links.len();
    let ends = LinkAddresses {
        near: addresses.addresses(count, LinkEnd::Near),
        far: addresses.addresses(count, LinkEnd::Far),
        shared,
    };
    let environment = [
        (ENVIRONMENT, addresses.to_string()),
        ("ANABRANCH_NEAR", joined(&ends.near)),
        ("ANABRANCH_FAR", joined(&ends.far)),
    ];
    let (clock, rng) = (Clock::begin(), Rng::new(request.seed));
    let relays = pipes.into_iter().zip(&request.links).enumerate().map(|(number, (pipe, spec))| {
        let own = rng.fork(&format!("link/{number}"));
        Relay::start(vec![pipe], spec, request.seed, &own, clock, RecordLevel::Counters, None)
    });
    let relays: Vec<Relay> = relays.collect::<Result<_, _>>()?;

    let mut server = None;
    if let Some(line) = &request.far {
        let words = ["sh", "-c", line].map(OsString::from);
        let Guard(child) = server.insert(Guard(start(&far, &words, &environment, true)?));
        far.run(|| wait_until_listening(child)).map_err(|error| failed("a namespace", error))?;
    }
    begun(&ends);
    let status =
        start(&near, &request.command, &environment, false).and_then(|child| attend(child, &signals));
    let ended = server.as_mut().and_then(|Guard(child)| child.try_wait().ok().flatten());
    let far_failed = ended.filter(|status| !status.success()).map(shell_status);
    drop(server);
    let paths = relays.into_iter().enumerate().map(|(number, relay)| {
        let unseen = wiring.unseen(number);
        let report = relay.stop()?.report;
        Ok(PathReport { unseen, ..report })
    });
    let paths: Result<Vec<PathReport>, EmuError> = paths.collect();
    Ok(CommandOutcome { status: shell_status(status?), far_failed, paths: paths? })
}

/// Starts a command in a namespace. If `own_group` is set, the command and its children have their own process group and
/// no input.
fn start(
    namespace: &Namespace,
    words: &[OsString],
    environment: &[(&str, String)],
    own_group: bool,
) -> Result<Child, EmuError> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(EmuError::Failed("no command is given".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().map(|(name, value)| (*name, value.as_str())));
    if own_group {
        command.process_group(0).stdin(Stdio::null());
    }
    let started = std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            namespace.enter(true)?;
            // A child inherits the signal mask. The signals are unblocked, so that the command receives them normally.
            let mask: SigSet = HEARD.into_iter().collect();
            mask.thread_unblock()?;
            command.spawn()
        });
        starter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    started.map_err(|error| {
        let line = format!("{}: {error}", program.to_string_lossy());
        match error.kind() {
            io::ErrorKind::NotFound => EmuError::NotFound(line),
            io::ErrorKind::PermissionDenied => EmuError::NotExecutable(line),
            _ if error.raw_os_error() == Some(nix::libc::ENOEXEC) => EmuError::NotExecutable(line),
            _ => EmuError::Failed(line),
        }
    })
}

/// Waits until the command ends, and passes signals on to it meanwhile.
fn attend(mut child: Child, signals: &SignalFd) -> Result<ExitStatus, EmuError> {
    let failed = |error: io::Error| EmuError::Failed(format!("waiting for the command: {error}"));
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        let Some(signal) = signals.read_signal().map_err(|error| failed(error.into()))? else { continue };
        // A signal that the kernel sends, for example after Ctrl-C, reaches both this process and the command. The
        // signal is therefore not passed on.
        let everybody = signal.ssi_code == SI_KERNEL;
        let known = Signal::try_from(signal.ssi_signo as i32);
        let pid = Pid::from_raw(child.id() as i32);
        if let (Ok(known), Some(pid), false) = (known, pid, everybody)
            && known != Signal::SIGCHLD
            && let Some(known) = rustix::process::Signal::from_named_raw(known as i32)
        {
            let _ = kill_process(pid, known);
        }
    }
}

/// A running command in the namespace at the far end of the links. Dropping this value ends the command and its
/// children.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.id() as i32);
        let send = |signal| group.map(|group| kill_process_group(group, signal));
        let _ = send(rustix::process::Signal::TERM);
        for _ in 0..MAX_WAIT_CENTISECONDS {
            // Returns once all processes of the group have ended and have been waited for. The group then no longer
            // exists.
            let ended = !matches!(self.0.try_wait(), Ok(None));
            if ended && group.is_none_or(|group| !is_alive(group)) {
                return;
            }
            pause();
        }
        let _ = send(rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Returns whether any process of a group is still running. Orphans that have ended remain in the group until the
/// host's init process collects them, perhaps seconds later.
fn is_alive(group: Pid) -> bool {
    if test_kill_process_group(group).is_err() {
        return false;
    }
    // Without a list of the host's processes, the group counts as running.
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    processes.flatten().any(|process| {
        let status = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        runs_in(&status, group.as_raw_nonzero().get())
    })
}

/// Returns whether `status`, the content of `/proc/PID/stat`, belongs to a running process of this process group.
fn runs_in(status: &str, group: i32) -> bool {
    // The name of the process, in parentheses, may contain any characters, so parsing starts after it.
    let mut words = status.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let (state, its_group) = (words.next(), words.nth(1));
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
        && its_group.is_some_and(|its| its.parse() == Ok(group))
}

/// Waits until a socket is open in the namespace of the calling thread. Returns earlier if a time limit is reached, or
/// if the command that should open the socket has ended with all its children.
fn wait_until_listening(command: &mut Child) {
    let tables = ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"];
    // The wait is limited by time and not by the number of attempts, because the kernel may list even short tables
    // slowly.
    let clock = Clock::begin();
    while clock.now() < Instant::from_millis(10 * u64::from(MAX_WAIT_CENTISECONDS)) {
        let some = tables.iter().any(|table| {
            // The first line of each table is a heading.
            std::fs::read_to_string(format!("/proc/thread-self/net/{table}"))
                .is_ok_and(|text| text.lines().count() > 1)
        });
        let group = Pid::from_raw(command.id() as i32);
        let gone = !matches!(command.try_wait(), Ok(None)) && group.is_none_or(|group| !is_alive(group));
        if some || gone {
            return;
        }
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "commands live in real time")]
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

fn joined(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the exit status that a shell would report.
fn shell_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128_u8.wrapping_add(signal as u8),
        (None, None) => 125,
    }
}

/// The signals that this program handles itself.
const HEARD: [Signal; 5] =
    [Signal::SIGCHLD, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP];
/// The value of `si_code` for a signal that the kernel sends, for example after Ctrl-C on a terminal. The kernel sends
/// such a signal to the whole process group, so the children have received it, too.
const SI_KERNEL: i32 = 0x80;
/// The maximum number of address blocks that are tried.
const ATTEMPTS: u8 = 8;
/// The maximum time that a command may take to start or to end, in hundredths of a second.
const MAX_WAIT_CENTISECONDS: u32 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_processes_are_not_waited_for() {
        assert!(runs_in("3205 (anabranch) S 1 3204 3188 0 -1 4194560", 3204));
        assert!(runs_in("3205 (a) Z (b) R 1 3204 3188 0 -1", 3204), "a name is no state");
        assert!(!runs_in("3205 (anabranch) Z 1 3204 3188 0 -1 4194560", 3204));
        assert!(!runs_in("3205 (anabranch) S 3204 3205 3188 0 -1", 3204));
        assert!(!runs_in("", 3204));
    }
}
