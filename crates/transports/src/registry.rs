//! The list of transports. Each transport runs in the virtual world, in the emulated world, or in both.
//!
//! The virtual world is the simulation. The emulated world sends real packets through the kernel of this machine.

#[cfg(feature = "quic")]
use anabranch_quic::Quic;
use anabranch_sim::SimWorld;
use anabranch_tls::{Client, Server};
use anabranch_transport::kernel::Kernel;
use anabranch_transport::sctp::Sctp;
use anabranch_transport::tcp::Tcp;
use anabranch_transport::{Protocol, RunnableProtocol, Settings};
use anabranch_world::kernel::KernelProtocol;
use std::ops::Deref;
use std::sync::Arc;

/// A protocol that can run over the operating system's sockets, in an emulated or a real network.
#[cfg(target_os = "linux")]
pub type Emulated = dyn RunnableProtocol<anabranch_world::os::OsWorld>;
/// A placeholder for the interface [`Emulated`] on systems without an emulated world.
#[cfg(not(target_os = "linux"))]
pub type Emulated = dyn Protocol;

/// A transport: an implementation of [`Protocol`] for simulations, one for the operating system's sockets, or both. A
/// `Transport` dereferences to the implementation for simulations or, if there is none, to the other one.
#[derive(Clone, Debug)]
pub struct Transport {
    simulated: Option<Arc<dyn RunnableProtocol<SimWorld>>>,
    emulated: Option<Arc<Emulated>>,
    protocol: Arc<dyn Protocol>,
    visit: Option<Visit>,
}

/// A function that connects a client to a server before an experiment, so that the client holds session tickets. Only
/// transports with built-in encryption have such a function.
pub type Visit = fn(&dyn Settings, &Client, &Server) -> Result<(), String>;

impl Transport {
    /// Returns a transport that runs in the virtual world.
    pub fn simulated(protocol: impl RunnableProtocol<SimWorld> + 'static) -> Self {
        let simulated: Arc<dyn RunnableProtocol<SimWorld>> = Arc::new(protocol);
        Self { protocol: simulated.clone(), simulated: Some(simulated), emulated: None, visit: None }
    }

    /// Returns a transport that runs only over the operating system's sockets: in emulated and real networks.
    #[must_use]
    pub fn emulated(protocol: Arc<Emulated>) -> Self {
        Self { simulated: None, protocol: protocol.clone(), emulated: Some(protocol), visit: None }
    }

    /// Adds the protocol that this transport uses in emulated and real networks.
    #[must_use]
    pub fn and_emulated(self, protocol: Arc<Emulated>) -> Self {
        Self { emulated: Some(protocol), ..self }
    }

    /// Adds the [`Visit`] function, for a transport with built-in encryption.
    #[must_use]
    pub fn with_resumption(self, visit: Visit) -> Self {
        Self { visit: Some(visit), ..self }
    }

    /// Returns the [`Visit`] function; `None` unless the transport has built-in encryption.
    #[must_use]
    pub fn visit(&self) -> Option<Visit> {
        self.visit
    }

    /// Returns the protocol that runs in the virtual world, if any.
    #[must_use]
    pub fn in_simulation(&self) -> Option<&Arc<dyn RunnableProtocol<SimWorld>>> {
        self.simulated.as_ref()
    }

    /// Returns the protocol that runs in emulated and real networks, if any.
    #[must_use]
    pub fn in_emulation(&self) -> Option<&Arc<Emulated>> {
        self.emulated.as_ref()
    }

    /// Returns whether only the kernel implements the transport. Such a transport runs over the operating system's
    /// sockets, but not in simulations.
    #[must_use]
    pub fn is_kernel_only(&self) -> bool {
        self.simulated.is_none()
    }

    /// Returns whether the emulated world uses the kernel's implementation of the transport, and not an engine of this
    /// project.
    #[must_use]
    pub fn is_kernel_in_emulation(&self) -> bool {
        self.emulated.as_ref().is_some_and(|protocol| protocol.capabilities().kernel)
    }
}

impl Deref for Transport {
    type Target = dyn Protocol;

    fn deref(&self) -> &Self::Target {
        &*self.protocol
    }
}

/// The transports, in the order in which they are listed.
#[derive(Clone, Debug, Default)]
pub struct Transports {
    all: Vec<Arc<Transport>>,
}

impl Transports {
    /// Returns the built-in transports.
    #[must_use]
    pub fn standard() -> Self {
        let all = Self::default()
            .with(Transport::simulated(Tcp).and_emulated(Arc::new(Kernel(KernelProtocol::Tcp))))
            .with(Transport::simulated(Sctp).and_emulated(Arc::new(Sctp)));
        #[cfg(feature = "quic")]
        let all = all.with(
            Transport::simulated(Quic)
                .and_emulated(Arc::new(Quic))
                .with_resumption(anabranch_quic::obtain_tickets),
        );
        all.with(Transport::emulated(Arc::new(Kernel(KernelProtocol::Mptcp))))
            .with(Transport::emulated(Arc::new(Kernel(KernelProtocol::Sctp))))
    }

    /// Adds a transport. If the list has a transport with the same name, the new one takes its position in the list.
    #[must_use]
    pub fn with(mut self, transport: Transport) -> Self {
        let new = Arc::new(transport);
        match self.all.iter_mut().find(|old| old.name() == new.name()) {
            Some(old) => *old = new,
            None => self.all.push(new),
        }
        self
    }

    /// Returns the transport of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Transport>> {
        self.iter().find(|transport| transport.name() == name)
    }

    /// Iterates over all transports.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Transport>> {
        self.all.iter()
    }

    /// Returns the description of each transport. The description is the same on real, emulated and simulated networks.
    #[must_use]
    pub fn protocols(&self) -> Vec<&dyn Protocol> {
        self.iter().map(|transport| &***transport).collect()
    }

    /// Returns the names of all transports.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.iter().map(|transport| transport.name()).collect()
    }
}
