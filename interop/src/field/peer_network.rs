//! The network of a peer: a separate network namespace behind two virtual cables, or a guest kernel behind two TAP
//! devices.
//!
//! All devices are created in the namespaces of this process, and disappear when the process ends. Each of the two
//! cables is a network of its own. In both networks, our side has the first address, and the peer has the second.

use super::program::Program;
use super::{Column, LowerLayer, PeerStack};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

/// Our addresses.
pub const OURS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 90, 0, 1), Ipv4Addr::new(10, 91, 0, 1)];
/// The peer's addresses.
pub const THEIRS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 90, 0, 2), Ipv4Addr::new(10, 91, 0, 2)];

/// Our IPv6 addresses.
pub const OURS_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd90, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd91, 0, 0, 0, 0, 0, 0, 1)];
/// The peer's IPv6 addresses.
pub const THEIRS_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd90, 0, 0, 0, 0, 0, 0, 2), Ipv6Addr::new(0xfd91, 0, 0, 0, 0, 0, 0, 2)];

/// Returns the first `count` of our addresses of an IP version.
#[must_use]
pub fn ours(v6: bool, count: usize) -> Vec<IpAddr> {
    first(OURS, OURS_V6, v6, count)
}

/// Returns the first `count` of the peer's addresses.
#[must_use]
pub fn theirs(v6: bool, count: usize) -> Vec<IpAddr> {
    first(THEIRS, THEIRS_V6, v6, count)
}

fn first(four: [Ipv4Addr; 2], six: [Ipv6Addr; 2], v6: bool, count: usize) -> Vec<IpAddr> {
    let all = if v6 { six.map(IpAddr::V6) } else { four.map(IpAddr::V4) };
    all.into_iter().take(count).collect()
}

/// The namespace or guest kernel in which the programs of a peer run, and its links to our namespace.
#[derive(Debug)]
pub struct PeerNetwork {
    /// The peer, and the layer below its SCTP.
    pub column: Column,
    /// The folder of the peers' programs.
    programs: PathBuf,
    /// The process that keeps the peer's namespace alive.
    far: Option<Child>,
    guest: Option<Rc<RefCell<Program>>>,
}

impl PeerNetwork {
    /// Creates the virtual cables to the peer. If the peer is the Linux kernel, also boots the virtual machine in which
    /// it runs.
    pub fn open(column: Column) -> io::Result<Self> {
        let programs = PathBuf::from(std::env::var_os("FIELD_PROGRAMS").unwrap_or_else(|| ".".into()));
        run("ip", ["link", "set", "lo", "up"])?;
        let mut network = Self { column, programs, far: None, guest: None };
        if column.kind == PeerStack::Linux {
            for (number, ours) in OURS.iter().enumerate() {
                let tap = format!("tap{number}");
                run("ip", ["tuntap", "add", "dev", &tap, "mode", "tap"])?;
                run("ip", ["addr", "add", &format!("{ours}/24"), "dev", &tap])?;
                run("ip", ["addr", "add", &format!("{}/64", OURS_V6[number]), "dev", &tap, "nodad"])?;
                run("ip", ["link", "set", &tap, "up"])?;
            }
            network.boot()?;
        } else {
            let far = Command::new("unshare").args(["--net", "sleep", "100000"]).spawn()?;
            let pid = far.id().to_string();
            network.far = Some(far);
            let here = std::fs::read_link("/proc/self/ns/net")?;
            while std::fs::read_link(format!("/proc/{pid}/ns/net"))? == here {
                std::thread::yield_now();
            }
            network.there(&["ip", "link", "set", "lo", "up"])?;
            for (number, (ours, theirs)) in OURS.iter().zip(THEIRS).enumerate() {
                let (near, far) = (format!("near{number}"), format!("far{number}"));
                run("ip", ["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &pid])?;
                run("ip", ["addr", "add", &format!("{ours}/24"), "dev", &near])?;
                run("ip", ["addr", "add", &format!("{}/64", OURS_V6[number]), "dev", &near, "nodad"])?;
                run("ip", ["link", "set", &near, "up"])?;
                network.there(&["ip", "addr", "add", &format!("{theirs}/24"), "dev", &far])?;
                let six = format!("{}/64", THEIRS_V6[number]);
                network.there(&["ip", "addr", "add", &six, "dev", &far, "nodad"])?;
                network.there(&["ip", "link", "set", &far, "up"])?;
            }
        }
        Ok(network)
    }

    fn boot(&mut self) -> io::Result<()> {
        let image = self.programs.join("guest");
        let mut command = Command::new(image.join("linux"));
        command.args([
            "mem=192M",
            "con=null",
            "con0=fd:0,fd:1",
            "con1=null",
            "ssl=null",
            "panic=-1",
            "quiet",
            "loglevel=1",
        ]);
        command.arg(format!("initrd={}", image.join("initrd").display()));
        for number in 0..OURS.len() {
            // The guest uses its older network driver, because the newer driver loses packets of SCTP in UDP before
            // they are sent.
            command.arg(format!("eth{number}=tuntap,tap{number}"));
        }
        let udp = if self.column.carrier == LowerLayer::Udp { super::UDP_PORT } else { 0 };
        command.arg(format!("encapsulation={udp}"));
        self.guest = Some(Rc::new(RefCell::new(Program::start(&mut command)?)));
        Ok(())
    }

    /// Returns the guest kernel in which the peer's programs run; `None` if they run in a namespace. The first line
    /// that a guest prints is `booted`.
    #[must_use]
    pub fn guest(&self) -> Option<Rc<RefCell<Program>>> {
        self.guest.clone()
    }

    /// Boots the guest kernel again, whatever state it is in.
    pub fn boot_again(&mut self) -> io::Result<()> {
        self.guest = None;
        self.boot()
    }

    /// Starts the peer's program.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(&self, arguments: &[String]) -> io::Result<Rc<RefCell<Program>>> {
        if let Some(guest) = &self.guest {
            guest.borrow_mut().tell(&format!("/peer {}", arguments.join(" ")));
            return Ok(guest.clone());
        }
        let name = match (self.column.kind, self.column.carrier) {
            (PeerStack::Pion, _) => "pion",
            (PeerStack::Aiortc, _) => "aiortc",
            (_, LowerLayer::Dtls12) => "usrsctp-dtls12",
            (_, LowerLayer::Dtls13) => "usrsctp-dtls13",
            _ => "usrsctp",
        };
        let mut command = self.enter();
        command.arg(self.programs.join(name)).args(arguments);
        if self.column.carrier.is_secure() {
            command.arg("dtls=1");
        }
        Ok(Rc::new(RefCell::new(Program::start(&mut command)?)))
    }

    fn enter(&self) -> Command {
        let pid = self.far.as_ref().map_or(0, Child::id);
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{pid}/ns/net"));
        command
    }

    fn there(&self, words: &[&str]) -> io::Result<()> {
        finish(self.enter().args(words))
    }
}

impl Drop for PeerNetwork {
    fn drop(&mut self) {
        if let Some(far) = &mut self.far {
            let _ = far.kill();
            let _ = far.wait();
        }
    }
}

/// Loses packets at random in both directions between our programs and the peer, until this value is dropped.
///
/// iptables filters packets in our own namespace: INPUT drops packets of the peer, OUTPUT drops ours. Peers send
/// packets one by one, and neither veth nor TAP joins them (GRO), so INPUT drops single packets. OUTPUT sees a UDP
/// buffer of several datagrams before the kernel splits the buffer (GSO, `UDP_SEGMENT`). One drop therefore loses all
/// datagrams of a call. Our program gets EPERM for the call, and treats its datagrams as lost. Packets of protocol 132
/// are filtered one by one.
#[derive(Debug)]
pub struct Losses {
    percent: u8,
}

impl Losses {
    /// Starts to drop `percent` of the packets in each direction.
    ///
    /// # Errors
    /// iptables is missing, or has no `statistic` match.
    pub fn begin(percent: u8) -> io::Result<Self> {
        // If the second rule cannot be added, dropping `this` removes the first.
        let this = Self { percent };
        for chain in CHAINS {
            this.rule("-A", chain)?;
        }
        Ok(this)
    }

    fn rule(&self, verb: &str, (chain, interface): (&str, &str)) -> io::Result<()> {
        let probability = format!("0.{:02}", self.percent);
        let packets = ["-w", verb, chain, "!", interface, "lo"];
        let chance = ["-m", "statistic", "--mode", "random", "--probability", &probability];
        run("iptables", packets.into_iter().chain(chance).chain(["-j", "DROP"]))
    }

    /// Returns two numbers of dropped packets: packets from the peer (chain `INPUT`), and packets to the peer (chain
    /// `OUTPUT`). All datagrams of one send call (UDP segmentation offload) count as one packet.
    ///
    /// # Errors
    /// iptables does not list its counters.
    pub fn counts(&self) -> io::Result<[u64; 2]> {
        let mut counts = [0; 2];
        for ((chain, _), count) in CHAINS.iter().zip(&mut counts) {
            let output = Command::new("iptables").args(["-w", "-nvxL", chain]).output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            // In the output of iptables, the rule follows two heading lines and begins with its number of packets.
            let packets = text.lines().nth(2).and_then(|rule| rule.split_whitespace().next());
            *count = packets
                .and_then(|packets| packets.parse().ok())
                .ok_or_else(|| io::Error::other(format!("iptables counts no packets of {chain}: {text}")))?;
        }
        Ok(counts)
    }
}

impl Drop for Losses {
    fn drop(&mut self) {
        for chain in CHAINS {
            let _ = self.rule("-D", chain);
        }
    }
}

/// The iptables chains for packets to and from the peer, with the option that names the peer's interface.
const CHAINS: [(&str, &str); 2] = [("INPUT", "-i"), ("OUTPUT", "-o")];

/// Runs a command and waits for its end.
///
/// # Errors
/// The command fails.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = S>) -> io::Result<()> {
    finish(Command::new(program).args(arguments))
}

fn finish(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}
