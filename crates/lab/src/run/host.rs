//! A contestant's transport on one virtual host, whichever it is.

use crate::plan::Contestant;
use anabranch_sim::SimWorld;
use anabranch_transport::protocol::{Server, Start};
use anabranch_transport::{Host, Settings};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Starts the contestant's transport on a host; `server`: at the well-known UDP port, if in UDP.
///
/// # Errors
/// Why the world does not let it.
pub async fn start(world: SimWorld, contestant: &Contestant, server: bool) -> Result<Rc<dyn Host>, String> {
    let protocol = contestant.transport.in_simulation().ok_or("a virtual host has no kernel")?;
    let host =
        protocol.start(world, beginning(contestant, server)).await.map_err(|error| error.to_string())?;
    host.set_tracing(true);
    Ok(host)
}

/// What a host of a contestant begins with.
pub fn beginning(contestant: &Contestant, server: bool) -> Start {
    Start {
        settings: Box::<dyn Settings>::clone(&contestant.engine),
        carrier: contestant.transport.capabilities().carriers.choose(contestant.encapsulated, server),
        paths: contestant.paths,
        congestion: contestant.kernel_cc.as_ref().map(|kernel_cc| kernel_cc.name.clone()),
    }
}

/// A contestant's server at these addresses.
pub fn server(contestant: &Contestant, addresses: &[IpAddr], port: u16) -> Server {
    let carried = contestant.transport.capabilities().carriers.server_port(contestant.encapsulated);
    let usable = addresses.iter().take(contestant.paths.unwrap_or(usize::MAX));
    Server { addresses: usable.map(|address| SocketAddr::new(*address, carried)).collect(), port }
}
