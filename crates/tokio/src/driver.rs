//! The thread of an endpoint. It has an `OsWorld`, a socket, and the loop that passes packets and time to the engine
//! and sends the engine's packets.

#[cfg(feature = "dtls")]
use crate::dtls::ServerNames;
use crate::options::Options;
use crate::shared::Shared;
use crate::state::State;
use anabranch_base::Budget;
#[cfg(feature = "dtls")]
use anabranch_dtls::DtlsLayer;
use anabranch_sctp::Config;
use anabranch_transport::CloseReason;
use anabranch_transport::drive::Driver;
use anabranch_transport::protocol::Layer;
use anabranch_transport::sctp::{IP_PROTOCOL, LowerProtocol, endpoint_over};
use anabranch_world::os::{self, OsWorld};
use anabranch_world::{DatagramSocket, Local, World};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

/// The result of starting an endpoint.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) shared: Arc<Shared>,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// Starts an endpoint in a thread of its own, and waits until it has bound its socket.
pub(crate) async fn start(
    options: Options,
    #[cfg(feature = "dtls")] names: Option<ServerNames>,
) -> io::Result<Started> {
    let (started_sender, started_receiver) = oneshot::channel();
    let world = os::Options { addresses: options.addresses.clone(), seed: None, sleep_at_once: true };
    std::thread::Builder::new().name("anabranch".to_owned()).spawn(move || {
        // If the `OsWorld` cannot be created, this closure is dropped, and so is `started_sender`. Waiting for
        // `started_receiver` below then returns an error.
        os::run(world, async |world| {
            let ready = Thread::begin(
                world,
                options,
                #[cfg(feature = "dtls")]
                names,
            );
            match ready.await {
                Ok((thread, started)) => {
                    if started_sender.send(Ok(started)).is_ok() {
                        thread.run().await;
                    }
                }
                Err(error) => drop(started_sender.send(Err(error))),
            }
        })
    })?;
    started_receiver.await.map_err(|_| io::Error::other("the endpoint's thread could not begin"))?
}

/// Adapts the settings of an association to this crate. Buffers take their memory from the budget that all associations
/// share. If the program has set no method of path MTU discovery, black-hole detection is used: packets become smaller
/// when large packets are lost.
pub(crate) fn prepared(mut config: Config, memory: &Budget) -> Config {
    let set =
        config.set_unless_user_set("pmtud", "blackhole", "RFC 8899 §1.1: real networks lose ICMP messages");
    debug_assert!(set.is_ok(), "a value of the knob");
    config.track_arrivals = true;
    config.return_undelivered = true;
    config.memory.get_or_insert_with(|| memory.clone());
    config
}

/// Half of the memory is divided by this number of associations. Each association may always use one such share.
const FLOORS: u64 = 4096;

/// The state of the endpoint's thread.
struct Thread {
    world: OsWorld,
    driver: Driver<OsWorld, Box<dyn DatagramSocket>>,
    /// The DTLS layer, which gives the reason when DTLS with a peer has failed; `None` without DTLS.
    layer: Option<Rc<dyn Layer>>,
    #[cfg(feature = "dtls")]
    names: Option<(Rc<DtlsLayer<OsWorld>>, ServerNames)>,
    shared: Arc<Shared>,
    /// The local UDP encapsulation port; 0 if SCTP packets are sent directly over IP.
    port: u16,
    /// Whether changes of the host's addresses are announced to peers.
    dynamic: bool,
}

impl Drop for Thread {
    fn drop(&mut self) {
        let reason = CloseReason::Network("the endpoint has ended".to_owned());
        self.shared.lock().fail(self.world.now(), &reason);
    }
}

impl Thread {
    async fn begin(
        world: OsWorld,
        options: Options,
        #[cfg(feature = "dtls")] names: Option<ServerNames>,
    ) -> io::Result<(Self, Started)> {
        let memory = Budget::new(options.memory, FLOORS);
        let mut config = prepared(options.config, &memory);
        let at = match options.carrier {
            LowerProtocol::Ip => Local::Ip { protocol: IP_PROTOCOL },
            LowerProtocol::Udp { port } => Local::Udp { port },
        };
        let mut socket: Box<dyn DatagramSocket> = Box::new(world.bind(at).await?);
        #[cfg(feature = "dtls")]
        let dtls = options.dtls.map(|dtls| dtls.layer(&world)).transpose()?;
        #[cfg(feature = "dtls")]
        let layer = dtls.clone().map(|layer| layer as Rc<dyn Layer>);
        #[cfg(not(feature = "dtls"))]
        let layer: Option<Rc<dyn Layer>> = None;
        let mut max_paths = None;
        if let Some(layer) = &layer {
            // RFC 8261 §6.1: an association over DTLS has a single path, because a peer has one DTLS connection.
            socket = layer.over(socket);
            max_paths = Some(1);
            config.asconf = false;
        }
        let dynamic = config.auth && config.asconf;
        let (endpoint, ports) = endpoint_over(&world, config, &socket, max_paths, None);
        let addresses = endpoint.addresses().to_vec();
        let mut state = State::new(endpoint, ports, memory);
        (state.backlog, state.max_receive) = (options.backlog, options.max_receive);
        state.layered = layer.is_some();
        if let Some(port) = options.listen {
            state.listen(port)?;
        }
        let shared = Arc::new(Shared::new(state, world.clock()));
        let port = addresses.first().map_or(0, SocketAddr::port);
        let driver = Driver::new(world.clone(), socket);
        let thread = Self {
            world,
            driver,
            layer,
            #[cfg(feature = "dtls")]
            names: dtls.zip(names),
            shared: shared.clone(),
            port,
            dynamic,
        };
        Ok((thread, Started { shared, addresses }))
    }

    /// Runs the endpoint until its socket fails, or until the program has released the endpoint and nothing is left to
    /// send.
    async fn run(mut self) {
        poll_fn(|cx| {
            #[cfg(feature = "dtls")]
            if let Some((layer, names)) = &self.names {
                names.tell(layer);
            }
            let Self { world, driver, layer, shared, port, dynamic, .. } = &mut self;
            let mut state = shared.lock();
            while world.poll_address_change(cx).is_ready() {
                let present = dynamic.then(|| world.addresses());
                state.follow(world.now(), *port, present.as_deref());
            }
            let polled = driver.poll(cx, &mut *state);
            state.notify_incoming();
            for (id, peer) in state.take_lost_peers() {
                let fault = layer.as_ref().and_then(|layer| layer.loss_reason(peer));
                state.end_lost(world.now(), id, fault);
            }
            state.wake_drained();
            if state.is_done() { Poll::Ready(()) } else { polled }
        })
        .await;
    }
}
