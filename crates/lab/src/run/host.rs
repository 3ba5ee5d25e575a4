//! A contestant's transport on one virtual host, whichever it is.

use crate::plan::Arm;
use anabranch_sim::SimWorld;
use anabranch_transport::protocol::{Server, Start};
use anabranch_transport::{Host, Settings};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Starts the contestant's transport on a host; `server`: at the well-known UDP port, if in UDP.
///
/// # Errors
/// Why the world does not let it.
pub async fn start(world: SimWorld, arm: &Arm, server: bool) -> Result<Rc<dyn Host>, String> {
    let protocol = arm.transport.in_simulation().ok_or("a virtual host has no kernel")?;
    let host = protocol.start(world, beginning(arm, server)).await.map_err(|error| error.to_string())?;
    host.set_tracing(true);
    Ok(host)
}

/// What a host of a contestant begins with.
pub fn beginning(arm: &Arm, server: bool) -> Start {
    Start {
        settings: Box::<dyn Settings>::clone(&arm.engine),
        carrier: arm.transport.capabilities().carriers.choose(arm.encapsulated, server),
        paths: arm.paths,
        congestion: arm.foreign.as_ref().map(|foreign| foreign.name.clone()),
    }
}

/// A contestant's server at these addresses.
pub fn server(arm: &Arm, addresses: &[IpAddr], port: u16) -> Server {
    let carried = arm.transport.capabilities().carriers.server_port(arm.encapsulated);
    let usable = addresses.iter().take(arm.paths.unwrap_or(usize::MAX));
    Server { addresses: usable.map(|address| SocketAddr::new(*address, carried)).collect(), port }
}
