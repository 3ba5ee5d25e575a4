//! Interfaces, addresses and routes: connects two namespaces by one or several links.
//!
//! The command runs at the *near end* of its links. A link has a block k of addresses, a nesting depth d, and a number
//! p. The far end of the link has the address 100.(64+k).d.(4p+1), and the near end has the next address. RFC 6598
//! reserves this range, and hosts have no addresses in it. The IPv6 addresses are in fd61:6e61:kkdd:pp::/64. The
//! default route in the namespace of the near end leads through the first link.
//!
//! A command behind a link may start another link. The inner link gets the block k of the outer link, and a depth that
//! is higher by one. At the far end of the outer link, routes lead packets for inner links into the outer link. All
//! nested namespaces can therefore reach each other without address translation. With several links, a packet leaves
//! through the link of its *source* address, as in the simulator.
//!
//! Both ends may be in one namespace, as on a loopback interface ([`Wiring::on_one_host`]). By default the kernel would
//! deliver packets between the two addresses directly. Routing rules make these packets leave through the link, and
//! make the host accept them at the other end.
//!
//! `ip` of iproute2 configures the interfaces, with one call for each namespace.

use crate::EmuError;
use crate::device::{Device, DeviceKind};
use crate::netns::Namespace;
use crate::relay::Pipe;
use anabranch_link::LinkSpec;
use anabranch_world::os::{PacketSocket, open_tun};
use nix::ifaddrs::getifaddrs;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

/// The address range of a set of parallel links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddressRange {
    /// The index of the address block. A link and the links nested in it have addresses in one block.
    pub block: u8,
    /// The nesting depth: the number of links that enclose these links.
    pub depth: u8,
}

/// One end of a set of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkEnd {
    /// The end at which the command runs.
    Near,
    /// The other end of the links.
    Far,
}

impl AddressRange {
    /// Chooses a free address range for links whose far end is in the calling thread's namespace. `name` is the value
    /// of the variable [`ENVIRONMENT`]: the range of the enclosing links, if this program runs behind emulated links.
    /// `block` is the index of the first block to try.
    ///
    /// If `block` is 0 and there are enclosing links, the new range is in the block of these links, at the next greater
    /// depth. Otherwise, or if that range is not free, the new range is at depth 0 of the first free block from `block`
    /// on.
    ///
    /// # Errors
    /// Too many links are nested, or no block of addresses is free on this host.
    pub fn within(name: Option<&str>, block: u8) -> Result<Self, EmuError> {
        if let Some(outer) = name.and_then(Self::parse).filter(|_| block == 0) {
            if outer.depth + 1 >= DEPTHS {
                return Err(EmuError::Failed(format!("more than {DEPTHS} links inside one another")));
            }
            let inner = Self { depth: outer.depth + 1, ..outer };
            if inner.is_free() {
                return Ok(inner);
            }
        }
        (block..BLOCKS).map(|block| Self { block, depth: 0 }).find(Self::is_free).ok_or_else(|| {
            EmuError::Failed("every block of addresses for links is in use on this host".to_owned())
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let (block, depth) = text.split_once(':')?;
        let (block, depth) = (block.parse().ok()?, depth.parse().ok()?);
        (block < BLOCKS && depth < DEPTHS).then_some(Self { block, depth })
    }

    /// Returns whether this range is free. The range is in use if an interface in the thread's namespace has an address
    /// of the same block and of at least this depth. Addresses of a smaller depth belong to links that enclose this
    /// range, so they do not count.
    fn is_free(&self) -> bool {
        let Ok(interfaces) = getifaddrs() else { return true };
        let taken = |address: Ipv4Addr| {
            let [a, b, depth, _] = address.octets();
            a == 100 && b == 64 + self.block && depth >= self.depth
        };
        let mut addresses =
            interfaces.filter_map(|interface| Some(interface.address?.as_sockaddr_in()?.ip()));
        !addresses.any(taken)
    }

    /// Returns the IPv4 address of one end of a link. Links are counted from 0.
    #[must_use]
    pub fn address(&self, link: usize, end: LinkEnd) -> IpAddr {
        Ipv4Addr::new(100, 64 + self.block, self.depth, (link * 4) as u8 + 1 + u8::from(end == LinkEnd::Near))
            .into()
    }

    /// Returns the IPv6 address of one end of a link. Links are counted from 0.
    #[must_use]
    pub fn address_v6(&self, link: usize, end: LinkEnd) -> IpAddr {
        let subnet = u16::from(self.block) << 8 | u16::from(self.depth);
        let host = 1 + u16::from(end == LinkEnd::Near);
        Ipv6Addr::new(0xfd61, 0x6e61, subnet, link as u16, 0, 0, 0, host).into()
    }

    /// Returns the IPv4 addresses of one end, one for each link.
    #[must_use]
    pub fn addresses(&self, links: usize, end: LinkEnd) -> Vec<IpAddr> {
        (0..links).map(|link| self.address(link, end)).collect()
    }

    /// Returns the name of the interface at one end of a link.
    fn interface(&self, link: usize, end: LinkEnd, far_is_shared: bool) -> String {
        match end {
            LinkEnd::Far if far_is_shared => format!("ab{}-{}-{}", self.block, self.depth, link + 1),
            _ => format!("path{}", link + 1),
        }
    }

    /// Returns the number of the routing table for packets whose source is the link's address.
    fn table(&self, link: usize) -> u32 {
        FIRST_TABLE + (u32::from(self.block) * u32::from(DEPTHS) + u32::from(self.depth)) * 64 + link as u32
    }
}

impl std::fmt::Display for AddressRange {
    /// Writes the form that [`AddressRange::within`] reads: block and depth.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.block, self.depth)
    }
}

/// Two namespaces, and the links that connect them.
#[derive(Debug)]
pub struct Wiring {
    /// The namespace in which the command runs.
    pub near: Namespace,
    /// The namespace at the far end of the links.
    pub far: Namespace,
    /// A third namespace, if the links are Ethernet (veth) pairs. One interface of each pair is here, where this
    /// program reads and writes the packets; the other is in `near` or `far`.
    outer: Option<Namespace>,
    addresses: AddressRange,
    links: usize,
    /// Whether programs other than this one and its command also use the namespace `far`.
    shared: bool,
    /// Whether the near end and the far end are in the same namespace.
    is_one_host: bool,
}

impl Wiring {
    /// Connects the namespaces `near` and `far` by links. This program has created `near`. If `shared` is set, other
    /// programs also use `far`, so nothing but the links is configured in `far`.
    ///
    /// # Errors
    /// [`EmuError::Impossible`] if the host does not permit links, or if iproute2 is missing.
    pub fn join(
        links: &[LinkSpec],
        (near, far): (Namespace, Namespace),
        shared: bool,
        addresses: AddressRange,
        choice: DeviceKind,
    ) -> Result<(Self, Vec<Pipe>), EmuError> {
        let links_of =
            Self { near, far, outer: None, addresses, links: links.len(), shared, is_one_host: false };
        links_of.open(links, choice)
    }

    /// Creates a link whose two ends are both in `host`, a namespace that this program has created. Packets from one
    /// end's address to the other end's address nevertheless pass through the link.
    ///
    /// # Errors
    /// The errors of [`join`](Self::join). [`EmuError::Impossible`] if `host` cannot be made to accept packets whose
    /// source address is one of its own addresses.
    pub fn on_one_host(
        link: &LinkSpec,
        host: Namespace,
        addresses: AddressRange,
        choice: DeviceKind,
    ) -> Result<(Self, Vec<Pipe>), EmuError> {
        let (near, far) = (host.clone(), host);
        let wiring = Self { near, far, outer: None, addresses, links: 1, shared: false, is_one_host: true };
        let (wiring, pipes) = wiring.open(std::slice::from_ref(link), choice)?;
        let routed = wiring.near.run(|| {
            fs::write("/proc/sys/net/ipv4/conf/all/accept_local", "1").map_err(|error| {
                EmuError::Impossible(format!("a host does not take packets from its own addresses: {error}"))
            })?;
            ip(&[], &wiring.loopback_commands())
        });
        routed.map_err(|error| EmuError::Failed(format!("a namespace cannot be entered: {error}")))??;
        Ok((wiring, pipes))
    }

    /// Returns the routing rules for a link with both ends in one namespace. Packets for the host's own addresses enter
    /// the link. Packets that come out of the link are delivered to the host.
    fn loopback_commands(&self) -> String {
        let mut text = String::new();
        for (end, other) in [(LinkEnd::Near, LinkEnd::Far), (LinkEnd::Far, LinkEnd::Near)] {
            let (name, source, target) =
                (self.interface(0, end), self.addresses.address(0, end), self.addresses.address(0, other));
            let table = self.addresses.table(usize::from(end == LinkEnd::Far));
            let _ = writeln!(
                text,
                "rule add iif {name} lookup local priority {ARRIVED_PRIORITY}\n\
                 route add {target} dev {name} src {source} table {table}\n\
                 rule add to {target} lookup {table} priority {LEAVING_PRIORITY}"
            );
        }
        // The kernel's initial rule for the table `local` has priority 0, so it would precede all other rules. It is
        // replaced by the same rule with a larger priority number, which the kernel consults after the rules above.
        text + &format!("rule add lookup local priority {LOCAL_PRIORITY}\nrule del priority 0\n")
    }

    /// Returns one end for each namespace: both ends, or only the near end if both ends are in the same namespace.
    fn hosts(&self) -> &'static [LinkEnd] {
        if self.is_one_host { &[LinkEnd::Near] } else { &[LinkEnd::Near, LinkEnd::Far] }
    }

    /// Returns whether both ends are in the same namespace.
    #[must_use]
    pub const fn is_one_host(&self) -> bool {
        self.is_one_host
    }

    /// Creates the interfaces of the links and configures both ends.
    fn open(mut self, links: &[LinkSpec], choice: DeviceKind) -> Result<(Self, Vec<Pipe>), EmuError> {
        if links.len() > MAX_LINKS {
            return Err(EmuError::Failed(format!(
                "{} links; at most {MAX_LINKS} can be joined",
                links.len()
            )));
        }
        let pipes = match choice {
            DeviceKind::Tun => self.tuns()?,
            DeviceKind::Veth => self.ethernets()?,
            DeviceKind::Auto => match self.tuns() {
                Ok(pipes) => pipes,
                // Both errors are reported, because it is enough to remove the cause of either error.
                Err(no_tun) => self.ethernets().map_err(|no_ethernet| match (no_tun, no_ethernet) {
                    (EmuError::Impossible(tun), EmuError::Impossible(why) | EmuError::Failed(why)) => {
                        EmuError::Impossible(format!("{tun}; nor a pair of Ethernet interfaces: {why}"))
                    }
                    (_, other) => other,
                })?,
            },
        };
        self.settle(links, LinkEnd::Near)?;
        self.settle(links, LinkEnd::Far)?;
        Ok((self, pipes))
    }

    /// Returns the name of the interface at one end of a link. Links are counted from 0.
    #[must_use]
    pub fn interface(&self, link: usize, end: LinkEnd) -> String {
        self.addresses.interface(link, end, self.shared || self.is_one_host)
    }

    fn namespace(&self, end: LinkEnd) -> &Namespace {
        match end {
            LinkEnd::Near => &self.near,
            LinkEnd::Far => &self.far,
        }
    }

    fn tuns(&self) -> Result<Vec<Pipe>, EmuError> {
        let open = |end: LinkEnd| {
            let open = |link| open_tun(&self.interface(link, end));
            let opened =
                self.namespace(end).run(|| (0..self.links).map(open).collect::<io::Result<Vec<_>>>());
            opened.and_then(|opened| opened).map_err(|error| {
                EmuError::Impossible(format!("no TUN interface (/dev/net/tun) can be made: {error}"))
            })
        };
        let pipes = open(LinkEnd::Near)?.into_iter().zip(open(LinkEnd::Far)?);
        Ok(pipes.map(|(near, far)| Pipe { near: Device::Tun(near), far: Device::Tun(far) }).collect())
    }

    /// Creates pairs of Ethernet interfaces. Each pair connects one of the two namespaces with a third namespace, in
    /// which packets are read and written.
    fn ethernets(&mut self) -> Result<Vec<Pipe>, EmuError> {
        let refused =
            |error: io::Error| EmuError::Impossible(format!("no Ethernet interfaces can be made: {error}"));
        let namespace = Namespace::create().map_err(refused)?;
        let pipes = namespace.run(|| -> Result<Vec<Pipe>, EmuError> {
            // IPv6 is disabled in the third namespace, because its kernel would send packets of its own into the links.
            write_if_possible("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
            write_if_possible("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            let mut commands = String::new();
            for link in 0..self.links {
                for end in [LinkEnd::Near, LinkEnd::Far] {
                    let (outer, inner) = (outer(link, end), self.interface(link, end));
                    let target = self.namespace(end).path();
                    let address = self.hardware(link, end).map(|byte| format!("{byte:02x}")).join(":");
                    let _ = writeln!(
                        commands,
                        "link add {outer} type veth peer name {inner} address {address} netns {target}\n\
                         link set {outer} arp off mtu 65535 txqueuelen 10000\n\
                         link set {outer} up"
                    );
                }
            }
            ip(&[], &commands)?;
            let open = |link: usize, end: LinkEnd| {
                let socket = PacketSocket::bind(&outer(link, end)).map_err(refused)?;
                Ok(Device::Ethernet(socket, self.hardware(link, end)))
            };
            (0..self.links)
                .map(|link| Ok(Pipe { near: open(link, LinkEnd::Near)?, far: open(link, LinkEnd::Far)? }))
                .collect()
        });
        let pipes = pipes.map_err(refused)??;
        self.outer = Some(namespace);
        Ok(pipes)
    }

    /// Returns a locally administered hardware address for the interface at one end of a link.
    fn hardware(&self, link: usize, end: LinkEnd) -> [u8; 6] {
        [
            0x02,
            0x61,
            0x62,
            self.addresses.block,
            self.addresses.depth,
            (link * 2) as u8 + u8::from(end == LinkEnd::Near),
        ]
    }

    /// Configures the interfaces, addresses and routes of one end.
    fn settle(&self, links: &[LinkSpec], end: LinkEnd) -> Result<(), EmuError> {
        let ours = end == LinkEnd::Near || !self.shared;
        let settled = self.namespace(end).run(|| {
            if ours {
                for (setting, value) in SETTINGS {
                    write_if_possible(setting, value);
                }
            }
            ip(&[], &self.commands(links, end, ours))?;
            // The error is ignored, because the host may have no IPv6. In that case, the link has no IPv6 either.
            let _ = ip(&["-6", "-force"], &self.commands_v6(end));
            Ok(())
        });
        settled.map_err(|error| EmuError::Failed(format!("a namespace cannot be entered: {error}")))?
    }

    fn commands(&self, links: &[LinkSpec], end: LinkEnd, ours: bool) -> String {
        let mut text = if ours { "link set lo up\n".to_owned() } else { String::new() };
        let ethernet = self.outer.is_some();
        for (number, link) in links.iter().enumerate() {
            let name = self.interface(number, end);
            let (address, mtu) = match end {
                LinkEnd::Near => (self.addresses.address(number, end), link.up.mtu),
                LinkEnd::Far => (self.addresses.address(number, end), link.down.mtu),
            };
            // `gso_max_segs 1` makes the kernel pass single packets to the interface: links and iptables rules cannot
            // count the packets in a large segment. `txqueuelen 10000` keeps the interface from dropping packets of a
            // burst, which should wait in the emulated link's queue.
            let no_arp = if ethernet { " arp off" } else { "" };
            let _ = writeln!(text, "link set {name}{no_arp} gso_max_segs 1 mtu {mtu} txqueuelen 10000");
            let _ = writeln!(text, "link set {name} up\naddr add {address}/30 dev {name}");
            if self.links > 1 {
                let table = self.addresses.table(number);
                let _ = writeln!(text, "route add default dev {name} table {table}");
                let _ = writeln!(text, "rule add from {address} lookup {table} priority {}", self.priority());
            }
        }
        let first = self.interface(0, end);
        match end {
            LinkEnd::Near => {
                let source = self.addresses.address(0, end);
                let _ = writeln!(text, "route add default dev {first} src {source}");
            }
            LinkEnd::Far => {
                for depth in self.addresses.depth + 1..DEPTHS {
                    let _ = writeln!(
                        text,
                        "route add 100.{}.{depth}.0/24 dev {first}",
                        64 + self.addresses.block
                    );
                }
            }
        }
        text
    }

    fn commands_v6(&self, end: LinkEnd) -> String {
        let mut text = String::new();
        for link in 0..self.links {
            let (name, address) = (self.interface(link, end), self.addresses.address_v6(link, end));
            let _ = writeln!(text, "addr add {address}/64 dev {name} nodad");
            if self.links > 1 {
                let table = self.addresses.table(link);
                let _ = writeln!(text, "route add default dev {name} table {table}");
                let _ = writeln!(text, "rule add from {address} lookup {table} priority {}", self.priority());
            }
        }
        let first = self.interface(0, end);
        match end {
            LinkEnd::Near => {
                let _ = writeln!(text, "route add default dev {first}");
            }
            LinkEnd::Far => {
                for depth in self.addresses.depth + 1..DEPTHS {
                    let addresses = AddressRange { depth, ..self.addresses };
                    let IpAddr::V6(inner) = addresses.address_v6(0, LinkEnd::Far) else { continue };
                    let [a, b, c, ..] = inner.segments();
                    let _ = writeln!(text, "route add {a:x}:{b:x}:{c:x}::/48 dev {first}");
                }
            }
        }
        text
    }

    /// Returns the priority of the rules that choose a route by source address. These rules precede the host's own
    /// rules.
    fn priority(&self) -> u32 {
        100 + u32::from(self.addresses.depth)
    }

    /// Makes Multipath TCP connections use the first `paths` links. The far end announces its addresses
    /// (RFC 8684 §3.4.1), and the near end opens a subflow to each of them. The subflow leaves through the link to that
    /// address.
    ///
    /// # Errors
    /// `ip` or the kernel does not support the configuration of Multipath TCP.
    pub fn announce(&self, paths: usize) -> Result<(), EmuError> {
        let more = paths.min(self.links).saturating_sub(1).min(MAX_SUBFLOWS);
        for &end in self.hosts() {
            let mut commands = format!("mptcp limits set subflows {more} add_addr_accepted {more}\n");
            if end == LinkEnd::Far {
                for link in 1..=more {
                    let (address, name) = (self.addresses.address(link, end), self.interface(link, end));
                    let _ = writeln!(commands, "mptcp endpoint add {address} dev {name} signal");
                }
            }
            let result = self.namespace(end).run(|| ip(&[], &commands));
            result.map_err(|error| EmuError::Failed(format!("a namespace cannot be entered: {error}")))??;
        }
        Ok(())
    }

    /// Prevents the kernel's own SCTP from answering at both ends. The kernel's SCTP does not know the associations of
    /// a user-space SCTP over protocol 132, and would answer their packets with an ABORT (RFC 9260 §8.4). A routing
    /// rule discards SCTP packets of this host unless they carry `mark`.
    ///
    /// # Errors
    /// `ip` or the kernel does not support the routing rule.
    pub fn silence_sctp(&self, mark: u32) -> Result<(), EmuError> {
        let rule = format!(
            "rule add iif lo ipproto sctp fwmark 0/{mark:#x} blackhole priority {SILENCE_PRIORITY}\n"
        );
        for &end in self.hosts() {
            let result = self.namespace(end).run(|| {
                ip(&[], &rule)?;
                // The error is ignored, because the host may have no IPv6.
                let _ = ip(&["-6", "-force"], &rule);
                Ok::<(), EmuError>(())
            });
            let result = result
                .map_err(|error| EmuError::Failed(format!("a namespace cannot be entered: {error}")))?;
            result.map_err(|error| {
                EmuError::Impossible(format!(
                    "this kernel's SCTP cannot be kept from answering for ours ({error}); unload it (rmmod sctp), or \
                     race sctp:encap=udp"
                ))
            })?;
        }
        Ok(())
    }

    /// Returns two numbers of packets that never entered a link, because the kernel dropped them at the link's
    /// interfaces. The first number is for the up direction, the second for the down direction.
    #[must_use]
    pub fn unseen(&self, link: usize) -> [u64; 2] {
        [LinkEnd::Near, LinkEnd::Far].map(|end| {
            let name = self.interface(link, end);
            let text = self
                .namespace(end)
                .run(|| fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default());
            dropped(&text.unwrap_or_default(), &name)
        })
    }
}

impl Drop for Wiring {
    fn drop(&mut self) {
        // The kernel removes the interfaces when this program closes their devices. The kernel keeps the routing rules
        // in a shared namespace, so they are removed here.
        if !self.shared || self.links < 2 {
            return;
        }
        for (options, address) in [
            (&["-force"][..], AddressRange::address as fn(&AddressRange, usize, LinkEnd) -> IpAddr),
            (&["-6", "-force"][..], AddressRange::address_v6),
        ] {
            let rule = |link| {
                let (source, table) =
                    (address(&self.addresses, link, LinkEnd::Far), self.addresses.table(link));
                format!("rule del from {source} lookup {table}\n")
            };
            let commands: String = (0..self.links).map(rule).collect();
            let _ = self.far.run(|| ip(options, &commands));
        }
    }
}

/// Returns the name of the outer interface of a veth pair, from which the relay reads packets.
fn outer(link: usize, end: LinkEnd) -> String {
    format!("{}{}", if end == LinkEnd::Near { "near" } else { "far" }, link + 1)
}

/// Writes a kernel setting that not every host has or permits. Errors are ignored.
fn write_if_possible(file: &str, value: &str) {
    let _ = fs::write(file, value);
}

/// Runs `ip` with `options` and a list of `commands` in the namespace of the calling thread.
fn ip(options: &[&str], commands: &str) -> Result<(), EmuError> {
    let mut command = Command::new("ip");
    command.args(options).args(["-batch", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            EmuError::Impossible("there is no 'ip' to set up interfaces; install iproute2".to_owned())
        }
        _ => EmuError::Failed(format!("ip: {error}")),
    };
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // The write fails if the command `ip` has already ended. The failure is ignored, because the error output of
        // `ip` says why it ended.
        let _ = input.write_all(commands.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(EmuError::Failed(format!("interfaces cannot be set up: ip says: {message}")))
}

/// Returns the number of outgoing packets that the interface `name` has dropped, from the content `text` of
/// `/proc/net/dev`.
fn dropped(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    // Without the name, columns 0 to 7 of a line are about received packets, and columns 8 to 15 about sent packets.
    // Columns 8 to 11 are bytes, packets, errors and drops.
    line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok()).unwrap_or(0)
}

/// The kernel settings of a namespace that this program has created. The namespace forwards packets for nested links,
/// and accepts packets from any interface.
const SETTINGS: [(&str, &str); 6] = [
    ("/proc/sys/net/ipv4/ip_forward", "1"),
    ("/proc/sys/net/ipv6/conf/all/forwarding", "1"),
    ("/proc/sys/net/ipv4/conf/all/rp_filter", "0"),
    ("/proc/sys/net/ipv4/conf/default/rp_filter", "0"),
    ("/proc/sys/net/ipv6/conf/default/accept_dad", "0"),
    // The kernel must not use what it learned from one connection for the next connection, because runs are
    // independent.
    ("/proc/sys/net/ipv4/tcp_no_metrics_save", "1"),
];

/// The environment variable from which a nested link learns the address range of the link around it.
pub const ENVIRONMENT: &str = "ANABRANCH_LINK";
/// The number of address blocks: 100.64.0.0/10 consists of 64 blocks of size /16.
pub const BLOCKS: u8 = 64;
/// The maximum number of subflows of a Multipath TCP connection in addition to the first subflow.
pub const MAX_SUBFLOWS: usize = 8;
/// The maximum number of links that are nested inside one another.
const DEPTHS: u8 = 16;
/// The maximum number of parallel links in a set.
pub const MAX_LINKS: usize = 63;
/// The priority of the rule that discards packets of the kernel's SCTP. It precedes the rules that choose a link.
const SILENCE_PRIORITY: u32 = 50;
/// The priority of the routing rule for packets that have arrived over a link with both ends in one namespace.
const ARRIVED_PRIORITY: u32 = 40;
/// The priority of the routing rules that send packets into a link with both ends in one namespace.
const LEAVING_PRIORITY: u32 = 60;
/// The priority of the routing rule for local delivery.
const LOCAL_PRIORITY: u32 = 70;
/// The number of the first routing table that this program uses. The tables with lower numbers belong to the host.
const FIRST_TABLE: u32 = 0x6162_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_back_and_lie_apart() {
        let addresses = AddressRange { block: 3, depth: 2 };
        assert_eq!(AddressRange::parse(&addresses.to_string()), Some(addresses));
        assert_eq!(
            (AddressRange::parse("64:0"), AddressRange::parse("0:16"), AddressRange::parse("x")),
            (None, None, None)
        );
        let mut seen = std::collections::BTreeSet::new();
        for depth in 0..DEPTHS {
            for link in 0..MAX_LINKS {
                for end in [LinkEnd::Near, LinkEnd::Far] {
                    let addresses = AddressRange { block: 63, depth };
                    assert!(
                        seen.insert(addresses.address(link, end))
                            && seen.insert(addresses.address_v6(link, end))
                    );
                }
            }
        }
        assert_eq!(addresses.address(1, LinkEnd::Near).to_string(), "100.67.2.6");
        assert_eq!(addresses.address_v6(1, LinkEnd::Far).to_string(), "fd61:6e61:302:1::1");
    }

    #[test]
    fn drops_are_found_in_the_table_of_interfaces() {
        let text = "Inter-| Receive\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n path1: 10 2 0 0 0 0 0 0 20 3 0 7 0 0 0 0\n";
        assert_eq!((dropped(text, "path1"), dropped(text, "lo"), dropped(text, "path")), (7, 12, 0));
    }
}
