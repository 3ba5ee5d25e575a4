//! The transports that can race: the one list of them, and where each runs.
//!
//! A transport is a line of [`Transports::standard`]; one from outside is added by [`Transports::with`]. Everything else
//! asks this list, and what a transport is asked are its capabilities.

use crate::results::label;
use anabranch_quic::Quic;
use anabranch_sim::SimWorld;
use anabranch_tls::{Client, Server};
use anabranch_transport::kernel::Kernel;
use anabranch_transport::sctp::Sctp;
use anabranch_transport::tcp::Tcp;
use anabranch_transport::{Protocol, Runs, Settings};
use anabranch_world::kernel::KernelProtocol;
use std::ops::Deref;
use std::sync::Arc;

/// What runs a transport in the emulated world.
#[cfg(target_os = "linux")]
pub type Emulated = dyn Runs<anabranch_world::os::OsWorld>;
/// What would run a transport in the emulated world, which this system has not.
#[cfg(not(target_os = "linux"))]
pub type Emulated = dyn Protocol;

/// A transport that can race. It derefs to what the transport is where our engine speaks it, or else the kernel.
#[derive(Clone, Debug)]
pub struct Transport {
    simulated: Option<Arc<dyn Runs<SimWorld>>>,
    emulated: Option<Arc<Emulated>>,
    protocol: Arc<dyn Protocol>,
    visit: Option<Visit>,
}

/// A visit of a client to a server before an experiment, which leaves it tickets: of a transport that is secure by itself.
pub type Visit = fn(&dyn Settings, &Client, &Server) -> Result<(), String>;

impl Transport {
    /// One that runs in the virtual world.
    pub fn simulated(protocol: impl Runs<SimWorld> + 'static) -> Self {
        let simulated: Arc<dyn Runs<SimWorld>> = Arc::new(protocol);
        Self { protocol: simulated.clone(), simulated: Some(simulated), emulated: None, visit: None }
    }

    /// One that runs in the emulated world only.
    #[must_use]
    pub fn emulated(protocol: Arc<Emulated>) -> Self {
        Self { simulated: None, protocol: protocol.clone(), emulated: Some(protocol), visit: None }
    }

    /// A transport with what runs in its name in the emulated world.
    #[must_use]
    pub fn and_emulated(self, protocol: Arc<Emulated>) -> Self {
        Self { emulated: Some(protocol), ..self }
    }

    /// A transport that is secure by itself, whose visits are such.
    #[must_use]
    pub fn with_visits(self, visit: Visit) -> Self {
        Self { visit: Some(visit), ..self }
    }

    /// A visit over it, where it is secure by itself.
    #[must_use]
    pub fn visit(&self) -> Option<Visit> {
        self.visit
    }

    /// What runs in the virtual world, if it does there.
    #[must_use]
    pub fn in_simulation(&self) -> Option<&Arc<dyn Runs<SimWorld>>> {
        self.simulated.as_ref()
    }

    /// What runs in the emulated world, if it does there.
    #[must_use]
    pub fn in_emulation(&self) -> Option<&Arc<Emulated>> {
        self.emulated.as_ref()
    }

    /// No engine of ours speaks it: the kernel's, in the emulated world only.
    #[must_use]
    pub fn is_kernels(&self) -> bool {
        self.simulated.is_none()
    }

    /// In the emulated world it is the kernel's, whether or not we have an engine for it.
    #[must_use]
    pub fn is_kernels_emulated(&self) -> bool {
        self.emulated.as_ref().is_some_and(|protocol| protocol.capabilities().kernel)
    }
}

impl Deref for Transport {
    type Target = dyn Protocol;

    fn deref(&self) -> &Self::Target {
        &*self.protocol
    }
}

/// The contestants of a race that names none: what a page of today is carried by, each as browsers and servers set it, all
/// secured and all in the order of the objects' urgency.
pub const BARE_RACE: [&str; 4] = [
    "http1=tcp:connections=6,tls=yes,priority=yes",
    "http2=tcp:http=2,tls=yes",
    "http3=quic",
    "sctp-dtls=sctp:dtls=yes,priority=yes",
];

/// The same where messages are sent, which are no requests. QUIC is not among them: messages go on streams that the server
/// begins.
const BARE_MESSAGES: [&str; 3] =
    ["six-tls=tcp:connections=6,tls=yes", "tcp-tls=tcp:tls=yes", "sctp-dtls=sctp:dtls=yes"];

/// The contestants of a race in the clear that names none: six connections, as browsers have them; one of either transport;
/// and six associations, which bid for as much bandwidth as six connections.
pub const CLEARTEXT_RACE: [&str; 4] = ["six=tcp:connections=6", "tcp", "sctp", "six-sctp=sctp:connections=6"];

/// What decides which contestants race where none is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bare {
    /// In the clear was asked for.
    pub cleartext: bool,
    /// There are several networks. An association under DTLS has one path (RFC 8261 §6.1), so all are in the clear.
    pub several_paths: bool,
    /// Messages are sent.
    pub messages: bool,
    /// In the emulated world.
    pub emulated: bool,
}

/// How background traffic is written, in help.
pub const BACKGROUND_FORM: &str = "tcp:flows=N";

/// The transports that can race, in the order in which they are listed.
#[derive(Clone, Debug, Default)]
pub struct Transports {
    all: Vec<Arc<Transport>>,
}

impl Transports {
    /// All that there are.
    #[must_use]
    pub fn standard() -> Self {
        Self::default()
            .with(Transport::simulated(Tcp).and_emulated(Arc::new(Kernel(KernelProtocol::Tcp))))
            .with(Transport::simulated(Sctp).and_emulated(Arc::new(Sctp)))
            .with(Transport::simulated(Quic).and_emulated(Arc::new(Quic)).with_visits(anabranch_quic::visit))
            .with(Transport::emulated(Arc::new(Kernel(KernelProtocol::Mptcp))))
            .with(Transport::emulated(Arc::new(Kernel(KernelProtocol::Sctp))))
    }

    /// With one more, in the place of what had its name.
    #[must_use]
    pub fn with(mut self, transport: Transport) -> Self {
        let new = Arc::new(transport);
        match self.all.iter_mut().find(|old| old.name() == new.name()) {
            Some(old) => *old = new,
            None => self.all.push(new),
        }
        self
    }

    /// The contestants of a race that names none.
    #[must_use]
    pub fn bare(&self, bare: Bare) -> Vec<&'static str> {
        let all: &[&str] = match bare {
            Bare { cleartext: true, .. } | Bare { several_paths: true, .. } => &CLEARTEXT_RACE,
            Bare { messages: true, .. } => &BARE_MESSAGES,
            _ => &BARE_RACE,
        };
        let there = |text: &str| {
            let spec = label::split(text).1;
            self.find(spec.split(':').next().unwrap_or(spec))
                .is_some_and(|one| !bare.emulated || one.in_emulation().is_some())
        };
        all.iter().copied().filter(|text| there(text)).collect()
    }

    /// The transport of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Transport>> {
        self.iter().find(|transport| transport.name() == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Transport>> {
        self.all.iter()
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.iter().map(|transport| transport.name()).collect()
    }
}
