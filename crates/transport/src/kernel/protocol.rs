//! The kernel's protocols as transports: their descriptions, and how they are started.

use super::{KernelConnector, KernelListener};
use crate::capabilities::{Capabilities, LowerProtocols};
use crate::connector::ListenError;
use crate::erased::{AnyConnector, AnyListener};
use crate::network::Needs;
use crate::protocol::{
    Host, Http, Opening, Protocol, RunnableProtocol, Scheme, Server, StartOptions, Starting, Totals,
};
use crate::settings::{Knob, Settings};
use anabranch_base::Bytes;
use anabranch_base::trace::TraceRecord;
use anabranch_world::kernel::{KernelOptions, KernelProtocol, KernelTcp};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A transport protocol of the operating system's kernel.
#[derive(Clone, Copy, Debug)]
pub struct Kernel(pub KernelProtocol);

/// The settings in the profile of a kernel protocol: the congestion control.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelSettings {
    /// The congestion control, under the kernel's name for it. `None` if the protocol offers no choice.
    pub congestion: Option<String>,
}

impl KernelSettings {
    /// Returns whether `name` has the form of the names that the kernel gives to its congestion controls.
    #[must_use]
    pub fn may_have(name: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        !name.is_empty() && name.len() < LONGEST_NAME && name.bytes().all(plain)
    }
}

/// The settings of a kernel protocol on a real network: options of its sockets. Only options that were set appear as
/// knobs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SocketSettings(pub KernelOptions);

impl Settings for SocketSettings {
    fn knobs(&self) -> Vec<Knob> {
        let size = |bytes: usize| format!("{bytes}B");
        let congestion = self.0.congestion.clone();
        let knob =
            |key, value: Option<String>, help, source| value.map(|value| Knob { key, value, help, source });
        let knobs = [
            knob("cc", congestion, "congestion control, by the kernel's name", "tcp(7): TCP_CONGESTION"),
            knob("sndbuf", self.0.sndbuf.map(size), "send buffer, such as 4MiB", "socket(7): SO_SNDBUF"),
            knob("rcvbuf", self.0.rcvbuf.map(size), "receive buffer, such as 4MiB", "socket(7): SO_RCVBUF"),
        ];
        knobs.into_iter().flatten().collect()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let has_names = self.0.protocol.has_congestion_names();
        let bytes = || {
            let size = value.parse::<Bytes>().map_err(|why| format!("{key}={value}: {why}"))?;
            Ok::<_, String>(Some(usize::try_from(size.0).unwrap_or(usize::MAX).min(LARGEST_BUFFER)))
        };
        match key {
            "sndbuf" => self.0.sndbuf = bytes()?,
            "rcvbuf" => self.0.rcvbuf = bytes()?,
            "cc" if has_names => self.0.congestion = Some(value.to_owned()),
            _ if has_names => {
                return Err(format!("{key}={value}: the kernel's protocols have cc, sndbuf and rcvbuf"));
            }
            _ => {
                let protocol = self.0.protocol;
                return Err(format!("{key}={value}: the kernel's {protocol} has sndbuf and rcvbuf"));
            }
        }
        Ok(())
    }

    fn suit(&mut self, needs: &Needs, _: &dyn Fn(&str) -> bool) {
        self.0.unsent = needs.unsent.or(self.0.unsent);
    }

    fn uses_shared_keys(&self) -> Result<(), String> {
        Err("the kernel's protocols have no keys".to_owned())
    }
}

/// The largest size in bytes of a socket buffer that may be requested from the kernel.
const LARGEST_BUFFER: usize = 1 << 30;

/// The kernel's limit for the name of a congestion control, in bytes including the final NUL.
const LONGEST_NAME: usize = 16;

impl Settings for KernelSettings {
    fn knobs(&self) -> Vec<Knob> {
        let knob = |value: &String| Knob {
            key: "cc",
            value: value.clone(),
            help: "congestion control, by the kernel's name",
            source: "Linux net.ipv4.tcp_congestion_control = cubic; RFC 9438",
        };
        self.congestion.iter().map(knob).collect()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match (key, &mut self.congestion) {
            ("cc", Some(congestion)) if Self::may_have(value) => value.clone_into(congestion),
            ("cc", Some(_)) => {
                return Err(format!("cc={value}: write a name of the kernel's, such as cubic"));
            }
            _ => return Err(format!("unknown key '{key}'")),
        }
        Ok(())
    }
}

impl Protocol for Kernel {
    fn name(&self) -> &'static str {
        match self.0 {
            KernelProtocol::Tcp => "tcp",
            KernelProtocol::Mptcp => "mptcp",
            KernelProtocol::Sctp => "sctp-kernel",
        }
    }

    fn capabilities(&self) -> Capabilities {
        let (ip, sctp) = match self.0 {
            KernelProtocol::Tcp | KernelProtocol::Mptcp => (crate::tcp::IP_PROTOCOL, false),
            // A one-to-one style SCTP socket is used like a TCP socket, with all data on one stream.
            KernelProtocol::Sctp => (crate::sctp::IP_PROTOCOL, true),
        };
        Capabilities {
            half_close: true,
            messages: sctp,
            paths: self.0 == KernelProtocol::Mptcp,
            carriers: LowerProtocols { ip: Some(ip), udp: None },
            kernel: true,
            ..Capabilities::default()
        }
    }

    fn schemes(&self) -> &'static [Scheme] {
        const TCP: Scheme =
            Scheme { name: "tcp", url: Some("http"), port: 80, in_udp: false, http: Some(Http::OneStream) };
        const MPTCP: Scheme = Scheme { name: "mptcp", url: None, http: None, ..TCP };
        const SCTP: Scheme = Scheme { name: "sctp-kernel", url: None, http: None, ..TCP };
        match self.0 {
            KernelProtocol::Tcp => &[TCP],
            KernelProtocol::Mptcp => &[MPTCP],
            KernelProtocol::Sctp => &[SCTP],
        }
    }

    fn profiles(&self) -> &'static [&'static str] {
        &["kernel"]
    }

    fn default_profile(&self) -> &'static str {
        "kernel"
    }

    fn profile(&self, name: &str) -> Option<Box<dyn Settings>> {
        let congestion = (self.0 != KernelProtocol::Sctp).then(|| "cubic".to_owned());
        (name == "kernel").then(|| Box::new(KernelSettings { congestion }) as Box<dyn Settings>)
    }

    fn deployed(&self) -> Option<Box<dyn Settings>> {
        let options = KernelOptions { protocol: self.0, ..KernelOptions::default() };
        Some(Box::new(SocketSettings(options)))
    }

    fn kernel(&self, settings: &dyn Settings, congestion: Option<&str>) -> Option<KernelOptions> {
        if let Ok(SocketSettings(options)) = settings.downcast::<SocketSettings>() {
            return Some(options);
        }
        // The kernel has the congestion controls of this project's engine under the same names. The engine's setting is
        // therefore also valid for the kernel.
        let own = || settings.knobs().into_iter().find(|knob| knob.key == "cc").map(|knob| knob.value);
        let congestion = congestion.map(str::to_owned).or_else(own);
        Some(KernelOptions { protocol: self.0, congestion, ..KernelOptions::default() })
    }
}

impl<W: KernelTcp> RunnableProtocol<W> for Kernel {
    fn start(&self, world: W, start: StartOptions) -> Starting {
        let options = self.kernel(&*start.settings, start.congestion.as_deref()).unwrap_or_default();
        Box::pin(
            async move { Ok(Rc::new(KernelHost { world: world.with_kernel(options), local: None }) as _) },
        )
    }

    fn open(&self, world: W, opening: Opening<W>) -> Starting {
        let Opening { start, local, .. } = opening;
        let options = self.kernel(&*start.settings, start.congestion.as_deref()).unwrap_or_default();
        Box::pin(async move { Ok(Rc::new(KernelHost { world: world.with_kernel(options), local }) as _) })
    }
}

/// A kernel protocol that runs on a host. It records no traces, and its [`Totals`] are all zero.
struct KernelHost<W> {
    world: W,
    /// The local address at which the host listens. `None` stands for all IPv4 addresses of the host.
    local: Option<IpAddr>,
}

impl<W: KernelTcp> Host for KernelHost<W> {
    fn connector(&self, servers: Vec<Server>) -> AnyConnector {
        // Only the first address of each server is used. A multipath protocol of the kernel finds the server's other
        // addresses itself.
        let first = servers.iter().filter_map(Server::first).collect();
        AnyConnector::new(KernelConnector::new(self.world.clone(), first))
    }

    /// Listens on `local`. If `local` is `None`, listens on every IPv4 address, because peers of a multipath protocol
    /// connect to all addresses.
    fn listen(&self, port: u16, backlog: u32) -> Result<AnyListener, ListenError> {
        let at = SocketAddr::new(self.local.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), port);
        KernelListener::new(self.world.clone(), at, backlog).map(AnyListener::new)
    }

    fn settings(&self) -> Option<Box<dyn Settings>> {
        None
    }

    fn set_tracing(&self, _on: bool) {}

    fn take_trace(&self) -> Vec<TraceRecord> {
        Vec::new()
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }

    /// Always ready, even if connections are still open: the kernel owns them, and they may outlive their sessions.
    fn poll_idle(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn close(&self) {}
}
