//! The kernel's protocols as transports: their descriptions, and how they are started.

use super::{KernelConnector, KernelListener};
use crate::capabilities::{Capabilities, Carriers};
use crate::connector::ListenError;
use crate::erased::{AnyConnector, AnyListener};
use crate::protocol::{Host, Protocol, Runs, Scheme, Server, Start, Starting, Totals};
use crate::settings::{Knob, Settings};
use anabranch_base::trace::TraceRecord;
use anabranch_world::kernel::{KernelOptions, KernelProtocol, KernelTcp};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A protocol of the kernel as a transport, for hosts that have a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Kernel(pub KernelProtocol);

/// The settings of a kernel protocol.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelSettings {
    /// The kernel's name of the congestion control, if the protocol accepts one.
    pub congestion: Option<String>,
}

impl KernelSettings {
    /// Returns whether `name` can be the name of a congestion control in the kernel.
    #[must_use]
    pub fn may_have(name: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        !name.is_empty() && name.len() < LONGEST_NAME && name.bytes().all(plain)
    }
}

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
            carriers: Carriers { ip: Some(ip), udp: None },
            kernel: true,
            ..Capabilities::default()
        }
    }

    fn schemes(&self) -> &'static [Scheme] {
        const TCP: Scheme = Scheme { name: "tcp", url: Some("http"), port: 80, in_udp: false };
        const MPTCP: Scheme = Scheme { name: "mptcp", url: None, ..TCP };
        const SCTP: Scheme = Scheme { name: "sctp-kernel", url: None, ..TCP };
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

    fn kernel(&self, settings: &dyn Settings, congestion: Option<&str>) -> Option<KernelOptions> {
        // The kernel has the congestion controls of this project's engine under the same names, and others. So the
        // engine's setting is also valid for the kernel.
        let own = || settings.knobs().into_iter().find(|knob| knob.key == "cc").map(|knob| knob.value);
        let congestion = congestion.map(str::to_owned).or_else(own);
        Some(KernelOptions { protocol: self.0, congestion, ..KernelOptions::default() })
    }
}

impl<W: KernelTcp> Runs<W> for Kernel {
    fn start(&self, world: W, start: Start) -> Starting {
        let options = self.kernel(&*start.settings, start.congestion.as_deref()).unwrap_or_default();
        Box::pin(async move { Ok(Rc::new(KernelHost { world: world.with_kernel(options) }) as _) })
    }
}

/// A kernel protocol that runs on a host. It records no traces and has no counters.
struct KernelHost<W> {
    world: W,
}

impl<W: KernelTcp> Host for KernelHost<W> {
    fn connector(&self, servers: Vec<Server>) -> AnyConnector {
        // The kernel finds the other addresses of a server itself, if the protocol is a multipath protocol.
        let first = servers.iter().filter_map(Server::first).collect();
        AnyConnector::new(KernelConnector::new(self.world.clone(), first))
    }

    /// Listens on every address, because peers of a multipath protocol connect to all of them.
    fn listen(&self, port: u16, backlog: u32) -> Result<AnyListener, ListenError> {
        let at = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
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

    /// Always ready, because connections belong to the kernel and outlive the sessions. The kernel's own tables show
    /// them.
    fn poll_idle(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn close(&self) {}
}
