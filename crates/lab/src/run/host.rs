//! Starts the transport of a contestant on a simulated host.

use crate::plan::Contestant;
use crate::plan::contestant::Pairs;
use anabranch_dtls::DtlsLayer;
use anabranch_sim::SimWorld;
use anabranch_tls::{Pair, Simulation, Surroundings, TlsHost};
use anabranch_transport::protocol::{Layer, Server, Start};
use anabranch_transport::{Carrier, Host, Settings};
use anabranch_world::World;
use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Starts the contestant's transport on a simulated host. Adds TLS above or DTLS below the transport if `pairs` has the
/// configurations. A `server` that uses UDP listens on the well-known port.
///
/// # Errors
/// The error of the simulation.
pub async fn start(
    world: SimWorld,
    contestant: &Contestant,
    pairs: &Pairs,
    server: bool,
) -> Result<Rc<dyn Host>, String> {
    let protocol = contestant.transport.in_simulation().ok_or("a virtual host has no kernel")?;
    let layer = layer(&world, pairs, server, || surroundings(&world))?;
    let (begin, over) = beginning(contestant, pairs.tls.as_ref(), server, &surroundings(&world));
    let host =
        protocol.start(world.clone(), Start { layer, ..begin }).await.map_err(|error| error.to_string())?;
    let host = secured(&world, host, over, || surroundings(&world))?;
    host.set_tracing(true);
    Ok(host)
}

/// Returns the source of randomness and time for TLS and DTLS on a simulated host.
pub fn surroundings(world: &SimWorld) -> Surroundings {
    let clock = world.clone();
    Surroundings::Simulated(Simulation::new(world.rng("tls"), move || clock.now()))
}

/// Creates the DTLS layer below the host's transport, if `pairs` has DTLS configurations.
///
/// # Errors
/// One line that says why the layer cannot be created.
pub fn layer<W: World>(
    world: &W,
    pairs: &Pairs,
    server: bool,
    surroundings: impl Fn() -> Surroundings,
) -> Result<Option<Rc<dyn Layer>>, String> {
    let Some(pair) = &pairs.dtls else { return Ok(None) };
    let end = pair.end(server, surroundings()).map_err(|error| error.to_string())?;
    Ok(Some(Rc::new(DtlsLayer::new(world.clone(), end, Some(anabranch_dtls::Pair::NAME)))))
}

/// Adds TLS above the host's transport, if `pair` has the configurations.
///
/// # Errors
/// One line that says why TLS cannot be added.
pub fn secured<W: World>(
    world: &W,
    host: Rc<dyn Host>,
    pair: Option<&Pair>,
    surroundings: impl Fn() -> Surroundings,
) -> Result<Rc<dyn Host>, String> {
    let Some(pair) = pair else { return Ok(host) };
    let ends = (pair.client(surroundings()), pair.server(surroundings()));
    Ok(Rc::new(TlsHost::new(world.clone(), host, ends.0, ends.1, Pair::NAME)?))
}

/// Returns the parameters with which a contestant's host starts, and the configurations for a TLS layer above it. A
/// transport with TLS built in gets the configurations as a parameter instead.
pub fn beginning<'a>(
    contestant: &Contestant,
    pair: Option<&'a Pair>,
    server: bool,
    surroundings: &Surroundings,
) -> (Start, Option<&'a Pair>) {
    let within = contestant.transport.capabilities().secure;
    let ends = pair.filter(|_| within).map(|pair| Rc::new(pair.ends(surroundings)) as Rc<dyn Any>);
    let start = Start {
        settings: Box::<dyn Settings>::clone(&contestant.engine),
        carrier: match contestant.dtls {
            // A server listens on the UDP port on which protocol analysers expect DTLS, and not SCTP.
            Some(_) => Carrier::Udp { port: if server { anabranch_dtls::PORT } else { 0 } },
            None => contestant.transport.capabilities().carriers.choose(contestant.encapsulated, server),
        },
        paths: contestant.paths,
        ends,
        congestion: contestant.kernel_cc.as_ref().map(|kernel_cc| kernel_cc.name.clone()),
        layer: None,
    };
    (start, pair.filter(|_| !within))
}

/// Returns the addresses and ports of a contestant's server.
pub fn server(contestant: &Contestant, addresses: &[IpAddr], port: u16) -> Server {
    let carried = match contestant.dtls {
        Some(_) => anabranch_dtls::PORT,
        None => contestant.transport.capabilities().carriers.server_port(contestant.encapsulated),
    };
    let usable = addresses.iter().take(contestant.paths.unwrap_or(usize::MAX));
    Server { addresses: usable.map(|address| SocketAddr::new(*address, carried)).collect(), port }
}
