//! Starts the transport of a contestant on a simulated host.

use crate::plan::contestant::SecurityConfigs;
use crate::plan::{Contestant, PointPlan};
use anabranch_http::browser::Client;
use anabranch_http::browser::rules::CHROMIUM;
use anabranch_sim::SimWorld;
use anabranch_tls::{Encryption, Pair, Simulation, Surroundings};
use anabranch_transport::protocol::{Server, StartOptions};
use anabranch_transport::{Host, LowerProtocol, Settings};
use anabranch_transports::Security;
use anabranch_world::World;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Starts the contestant's transport on a simulated host. If `pairs` has a DTLS configuration, DTLS runs below the
/// transport. If `pairs` has a TLS configuration, TLS runs inside the transport (QUIC) or above it. If `server` is true
/// and the transport uses UDP, the host listens on the well-known port. TLS and DTLS encrypt by `encryption`.
///
/// # Errors
/// The error of the simulation.
pub async fn start(
    world: SimWorld,
    point: &PointPlan,
    contestant: &Contestant,
    pairs: &SecurityConfigs,
    server: bool,
    encryption: Encryption,
) -> Result<Rc<dyn Host>, String> {
    let protocol = contestant.transport.in_simulation().ok_or("a virtual host has no kernel")?;
    let (begin, above) =
        beginning(&world, point, contestant, pairs, server, || surroundings(&world, encryption))?;
    let host = protocol.start(world.clone(), begin).await.map_err(|error| error.to_string())?;
    let host = above.map_or(Ok(host.clone()), |above| above.over(&world, host))?;
    host.set_tracing(true);
    Ok(host)
}

/// Returns the source of randomness and time for TLS and DTLS on a simulated host, and how they encrypt.
pub fn surroundings(world: &SimWorld, encryption: Encryption) -> Surroundings {
    let clock = world.clone();
    let simulation = Simulation::new(world.rng("tls"), move || clock.now());
    Surroundings::Simulated(simulation.with_encryption(encryption))
}

/// Returns the parameters with which a contestant's host starts. `pairs` are the contestant's configurations of TLS and
/// DTLS. With a DTLS configuration, DTLS runs below the transport. With a TLS configuration, TLS runs inside the
/// transport (QUIC) or above it. If TLS runs above the transport, also returns the TLS layer.
///
/// # Errors
/// One line that says why the TLS or DTLS layer cannot be created.
pub fn beginning<W: World>(
    world: &W,
    point: &PointPlan,
    contestant: &Contestant,
    pairs: &SecurityConfigs,
    server: bool,
    surroundings: impl Fn() -> Surroundings,
) -> Result<(StartOptions, Option<Security>), String> {
    let can = contestant.transport.capabilities();
    let start = StartOptions {
        settings: settings(point, contestant, server),
        carrier: match contestant.dtls {
            // For SCTP over DTLS, a server listens on the UDP port for which protocol analysers expect DTLS packets. On
            // the port of SCTP over UDP they would expect SCTP packets.
            Some(_) => LowerProtocol::Udp { port: if server { anabranch_dtls::PORT } else { 0 } },
            None => can.carriers.choose(contestant.encapsulated, server),
        },
        paths: contestant.paths,
        credentials: None,
        congestion: contestant.kernel_cc.as_ref().map(|kernel_cc| kernel_cc.name.clone()),
        layer: None,
    };
    let security = match (&pairs.dtls, &pairs.tls) {
        (Some(pair), _) => {
            let end = pair.host_config(server, surroundings()).map_err(|error| error.to_string())?;
            Security::Below(end, Some(anabranch_dtls::Pair::NAME.to_owned()))
        }
        (None, Some(pair)) if can.secure => Security::Within(pair.host_tls(&surroundings())),
        (None, Some(pair)) => {
            Security::Above(pair.client(surroundings()), pair.server(surroundings()), Pair::NAME)
        }
        (None, None) => return Ok((start, None)),
    };
    Ok(security.begin(world, start))
}

/// Returns the settings of the engine at one of the contestant's hosts. A server lets the client of `point` acknowledge
/// as often as a browser does.
pub fn settings(point: &PointPlan, contestant: &Contestant, server: bool) -> Box<dyn Settings> {
    let mut settings = Box::<dyn Settings>::clone(&contestant.engine);
    if let (true, Client::Chromium, [path, ..]) = (server, point.workload.client, &*point.network.paths) {
        settings.delay_acknowledgements(CHROMIUM.ack_packets, CHROMIUM.ack_delay(path.rtt()));
    }
    settings
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
