//! The transports that can race: the one list of them, and where each runs.
//!
//! A transport is a line of [`Transports::standard`]; one from outside is added by [`Transports::with`]. Everything else
//! asks this list, and what a transport is asked are its capabilities.

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

/// The contestants of a race that names none: six connections, as browsers have them; one of either transport; and six
/// associations, which bid for as much bandwidth as six connections.
pub const BARE_RACE: [&str; 4] = ["six=tcp:connections=6", "tcp", "sctp", "six-sctp=sctp:connections=6"];

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
