//! Connects a client to its server: starts the transport with local addresses that suit the server's addresses, and
//! creates a connector.

use crate::layers::Security;
use crate::scheme::{Encryption, UrlScheme};
use crate::security::ClientSecurity;
use anabranch_tls::{Client, TlsConnector};
use anabranch_transport::kernel::KernelConnector;
use anabranch_transport::network::Logs;
use anabranch_transport::protocol::{Opening, Server, StartOptions};
use anabranch_transport::sctp::SctpConnector;
use anabranch_transport::{AnyConnector, Connector, Host, Settings};
use anabranch_world::os::OsWorld;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;

/// The server that a client connects to, and the settings of the connection.
#[derive(Clone)]
pub struct Target {
    /// The scheme, which selects the transport and the encryption.
    pub scheme: UrlScheme,
    /// The server's addresses. If the transport runs in UDP, they contain the UDP port. Otherwise they contain the port
    /// of the transport or of the kernel's protocol.
    pub addresses: Vec<SocketAddr>,
    /// The host name that the server's certificate must be valid for.
    pub name: String,
    /// The transport's own port, if the transport runs in UDP.
    pub inner_port: u16,
    /// The settings of the transport.
    pub settings: Box<dyn Settings>,
    /// The client's security; `None` if the scheme is not encrypted.
    pub security: Option<ClientSecurity>,
    /// The destination of connection logs; `None` if connections are not logged.
    pub logs: Option<Arc<dyn Logs>>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("scheme", &self.scheme.name())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The reason why connecting failed before any packet was sent.
#[derive(Debug)]
pub enum DialFailure {
    /// The operating system refused a socket.
    Socket(io::Error),
    /// The trusted certificates cannot be used.
    Trust(String),
    /// The server's name is neither a DNS name nor an IP address, so no certificate can be valid for it.
    Name(String),
}

/// A started transport with a connector to a server.
pub struct Dialed {
    /// The transport.
    pub host: Rc<dyn Host>,
    /// The addresses of the server: the first address of each list in the connector. The lists contain the same
    /// addresses in different orders.
    pub servers: Vec<SocketAddr>,
    /// Whether one handshake tries all addresses. Otherwise a client tries the addresses in parallel (RFC 8305).
    pub tries_all: bool,
    world: OsWorld,
    connector: AnyConnector,
    tls: Option<(Client, Vec<String>)>,
}

impl fmt::Debug for Dialed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialed").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// A program that takes a connector of any type. It is compiled for each type that [`Dialed::with`] uses.
pub trait WithConnector {
    /// The result of the program.
    type Out;

    /// Runs the program on `connector`.
    fn on<C: Connector>(self, connector: C) -> Self::Out;
}

impl Dialed {
    /// Returns the connector with its type erased.
    ///
    /// # Errors
    /// [`DialFailure::Name`]
    pub fn connector(&self) -> Result<AnyConnector, DialFailure> {
        Ok(match self.tls.clone() {
            None => self.connector.clone(),
            Some((client, names)) => {
                let connector = TlsConnector::new(self.world.clone(), self.connector.clone(), client, &names);
                AnyConnector::new(connector.map_err(DialFailure::Name)?)
            }
        })
    }

    /// Passes the connector to `program`. The connectors of SCTP and of the kernel's protocols (with and without TLS)
    /// are passed with their concrete type, which saves indirect calls. The types of all other connectors are erased.
    ///
    /// # Errors
    /// [`DialFailure::Name`]
    pub fn with<P: WithConnector>(&self, program: P) -> Result<P::Out, DialFailure> {
        if let Some(kernel) = self.connector.concrete::<KernelConnector<OsWorld>>() {
            return Ok(match self.tls.clone() {
                None => program.on(kernel),
                Some((client, names)) => {
                    let connector = TlsConnector::new(self.world.clone(), kernel, client, &names);
                    program.on(connector.map_err(DialFailure::Name)?)
                }
            });
        }
        let connector = self.connector()?;
        Ok(match connector.concrete::<SctpConnector<OsWorld>>() {
            Some(sctp) => program.on(sctp),
            None => program.on(connector),
        })
    }
}

/// Starts the transport of `target` and creates a connector to the server.
///
/// # Errors
/// [`DialFailure`]
pub async fn dial(world: &OsWorld, target: Target) -> Result<Dialed, DialFailure> {
    let Target { scheme, mut addresses, name, inner_port, mut settings, security, logs } = target;
    let can = scheme.can();
    let none = || DialFailure::Trust("a client of an encrypted scheme trusts nobody".to_owned());
    let tls = match scheme.encryption() {
        Encryption::Above => {
            let client = security.as_ref().ok_or_else(none)?.tls();
            Some((client, vec![name.clone(); addresses.len()]))
        }
        _ => None,
    };
    let below = scheme.encryption() == Encryption::Below;
    let local = if can.kernel || scheme.protocol().is_routed() {
        Vec::new()
    } else {
        local_addresses(&scheme, &mut addresses)
    };
    // An association over DTLS has one address at each end (RFC 8261 §6.1), so only the server's first address is used.
    if below {
        addresses.truncate(1);
    }
    let local = match addresses.first() {
        Some(to) if below && local.is_empty() => vec![source_for(*to).map_err(DialFailure::Socket)?],
        _ => local,
    };
    let here = if can.kernel { world.clone() } else { world.at(local).map_err(DialFailure::Socket)? };
    let security = match (scheme.encryption(), security) {
        (Encryption::None | Encryption::Above, _) => None,
        (_, None) => return Err(none()),
        (Encryption::Below, Some(security)) => {
            if security.zero_checksum {
                settings.rely_on_layer();
            }
            let config = security.dtls().map_err(|why| DialFailure::Trust(why.to_string()))?;
            Some(Security::Below(config, Some(name)))
        }
        (Encryption::Within, Some(security)) => {
            Some(Security::Within(security.within(&name).map_err(DialFailure::Trust)?))
        }
    };
    let start = StartOptions {
        settings,
        carrier: scheme.carrier(0),
        paths: None,
        credentials: None,
        congestion: None,
        layer: None,
    };
    let start = match security {
        Some(security) => security.begin(&here, start).0,
        None => start,
    };
    let protocol = scheme.transport().in_emulation();
    let protocol =
        protocol.ok_or_else(|| DialFailure::Socket(io::Error::from(io::ErrorKind::Unsupported)))?;
    let opening = Opening { logs, ..Opening::from(start) };
    let host = protocol.open(here.clone(), opening).await.map_err(DialFailure::Socket)?;
    let tries_all = can.paths && !can.kernel;
    let routes = if tries_all {
        by_family(&addresses)
    } else {
        addresses.iter().map(|address| vec![*address]).collect()
    };
    let servers = routes.iter().filter_map(|addresses| addresses.first().copied()).collect();
    let route = |mut addresses: Vec<SocketAddr>| {
        let port = addresses.first().map_or(0, SocketAddr::port);
        if scheme.needs_raw_sockets() {
            addresses.iter_mut().for_each(|address| address.set_port(0));
        }
        Server { addresses, port: scheme.transport_port(port, inner_port) }
    };
    let connector = host.connector(routes.into_iter().map(route).collect());
    Ok(Dialed { host, servers, tries_all, world: world.clone(), connector, tls })
}

/// Returns the local addresses from which a client sends to a server; an empty list stands for all addresses of the
/// host. `addresses` are the server's addresses. If the first of them is a loopback address, the client must send from
/// loopback addresses, because the server cannot reply to others. In this case, the function removes all addresses from
/// `addresses` that are not loopback addresses.
fn local_addresses(scheme: &UrlScheme, addresses: &mut Vec<SocketAddr>) -> Vec<IpAddr> {
    let is_loopback = |address: &SocketAddr| address.ip().is_loopback();
    if !addresses.first().is_some_and(is_loopback) {
        return Vec::new();
    }
    addresses.retain(is_loopback);
    let mut local: Vec<IpAddr> = addresses.iter().map(|to| facing(to.ip(), scheme)).collect();
    local.dedup();
    local
}

/// Returns the loopback address from which a client sends to the loopback address `ip`.
fn facing(ip: IpAddr, scheme: &UrlScheme) -> IpAddr {
    match ip {
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        // Chooses another address than the server's. Every raw socket receives every packet, so with the same address,
        // the client's stack would answer packets for the server with an ABORT.
        IpAddr::V4(v4) if scheme.needs_raw_sockets() && v4 == Ipv4Addr::LOCALHOST => {
            IpAddr::from([127, 0, 0, 2])
        }
        IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
    }
}

/// Returns the local address that this host's routing table currently selects for packets to `to`.
fn source_for(to: SocketAddr) -> io::Result<IpAddr> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let probe = UdpSocket::bind(any)?;
    // Connecting a UDP socket sends no packet: the kernel only looks up the route.
    probe.connect(to)?;
    probe.local_addr().map(|address| address.ip())
}

/// Groups the addresses of a server for parallel connection attempts. The first list has the given order. If both IP
/// versions occur, a second list begins with the addresses of the other version. One list would not be enough: an ICMP
/// message about its first address ends the attempt, although other addresses might answer (RFC 9260 §10, RFC 6951
/// §5.5).
fn by_family(addresses: &[SocketAddr]) -> Vec<Vec<SocketAddr>> {
    let v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (like, other): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| address.is_ipv4() == v4);
    let mut routes = vec![addresses.to_vec()];
    if !other.is_empty() {
        routes.push(other.into_iter().chain(like).collect());
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_both_ip_versions_has_two_ways() {
        let all = |text: &str| -> Vec<SocketAddr> {
            text.split_whitespace().map(|one| one.parse().expect("an address")).collect()
        };
        let both = all("[::1]:1 10.0.0.1:1 [::2]:1 10.0.0.2:1");
        let turned = all("10.0.0.1:1 10.0.0.2:1 [::1]:1 [::2]:1");
        assert_eq!(by_family(&both), [both.clone(), turned]);
        let one = all("10.0.0.1:1 10.0.0.2:1");
        assert_eq!(by_family(&one), std::slice::from_ref(&one));
    }
}
