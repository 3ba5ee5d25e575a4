//! A contestant's transport on one virtual host, whichever it is.

use crate::plan::Contestant;
use anabranch_sim::SimWorld;
use anabranch_tls::{Pair, Simulation, Surroundings, TlsHost};
use anabranch_transport::protocol::{Server, Start};
use anabranch_transport::{Host, Settings};
use anabranch_world::World;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Starts the contestant's transport on a host, with TLS if it has a pair of ends for it; `server`: at the well-known UDP
/// port, if in UDP.
///
/// # Errors
/// Why the world does not let it.
pub async fn start(
    world: SimWorld,
    contestant: &Contestant,
    pair: Option<&Pair>,
    server: bool,
) -> Result<Rc<dyn Host>, String> {
    let protocol = contestant.transport.in_simulation().ok_or("a virtual host has no kernel")?;
    let host = protocol
        .start(world.clone(), beginning(contestant, server))
        .await
        .map_err(|error| error.to_string())?;
    let host = secured(&world, host, pair, || surroundings(&world))?;
    host.set_tracing(true);
    Ok(host)
}

/// Where TLS of a virtual host has its randomness and its time from.
pub fn surroundings(world: &SimWorld) -> Surroundings {
    let clock = world.clone();
    Surroundings::Simulated(Simulation::new(world.rng("tls"), move || clock.now()))
}

/// The host with TLS over it, if there is a pair of ends for it.
///
/// # Errors
/// One line.
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

/// What a host of a contestant begins with.
pub fn beginning(contestant: &Contestant, server: bool) -> Start {
    Start {
        settings: Box::<dyn Settings>::clone(&contestant.engine),
        carrier: contestant.transport.capabilities().carriers.choose(contestant.encapsulated, server),
        paths: contestant.paths,
        congestion: contestant.kernel_cc.as_ref().map(|kernel_cc| kernel_cc.name.clone()),
        layer: None,
    }
}

/// A contestant's server at these addresses.
pub fn server(contestant: &Contestant, addresses: &[IpAddr], port: u16) -> Server {
    let carried = contestant.transport.capabilities().carriers.server_port(contestant.encapsulated);
    let usable = addresses.iter().take(contestant.paths.unwrap_or(usize::MAX));
    Server { addresses: usable.map(|address| SocketAddr::new(*address, carried)).collect(), port }
}
