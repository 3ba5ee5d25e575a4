//! Connects a client to its server over SCTP: sets up an SCTP host with addresses that suit the server's, and applies
//! timeouts.
//!
//! - `http3`: connects a client to its server over QUIC

pub mod http3;

use crate::paths::PathLog;
use crate::place::Carrier;
use crate::secure::dtls_client;
use crate::serve::reason;
use crate::{Failure, complain};
use anabranch_dtls::DtlsLayer;
use anabranch_http::upstream::{ReachError, connect_in_turn};
use anabranch_tls::Trust;
use anabranch_transport::sctp::Config;
use anabranch_transport::sctp::{Carrier as SctpCarrier, SctpConnector, SctpHost, SctpServer, SctpSession};
use anabranch_transport::{Connector, Session};
use anabranch_world::World;
use anabranch_world::os::{OsWorld, kernel_has_sctp};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Once;
use std::time::Duration;

/// A server that a client reaches over SCTP.
pub struct SctpTarget {
    /// The transport beneath SCTP: UDP, IP or DTLS.
    pub carrier: Carrier,
    /// The server's addresses. Their port is the UDP port, or the SCTP port if SCTP runs directly on IP.
    pub addresses: Vec<SocketAddr>,
    /// The server's SCTP port, used if SCTP runs in UDP.
    pub port: u16,
    /// The SCTP configuration of the client.
    pub config: Config,
    /// The DTLS settings; `None` if SCTP does not run over DTLS.
    pub secure: Option<SecureTarget>,
    /// The log of path events, if they are logged.
    pub paths: Option<PathLog>,
}

/// The DTLS settings for connections to one server.
pub struct SecureTarget {
    /// The certificates that the client trusts.
    pub trust: Trust,
    /// The host name that the server's certificate must be valid for.
    pub name: String,
    /// Whether SCTP omits its own checksum if the peer agrees (RFC 9653).
    pub unsummed: bool,
}

impl SctpTarget {
    /// Sets up an SCTP host on addresses to which the server can reply. Returns the host and the routes to the server.
    pub async fn host(mut self, world: &OsWorld) -> Result<(SctpHost<OsWorld>, Routes), Failure> {
        // A server at a loopback address can reply only to loopback addresses. Any other server can reply only to
        // addresses that are not loopback addresses.
        let near = |ip: IpAddr| ip.is_loopback();
        let local: Vec<IpAddr> = match self.addresses.first() {
            Some(first) if near(first.ip()) => {
                self.addresses.retain(|address| near(address.ip()));
                let facing = |to: &SocketAddr| facing(to.ip(), self.carrier);
                let mut local: Vec<IpAddr> = self.addresses.iter().map(facing).collect();
                local.dedup();
                local
            }
            _ => Vec::new(),
        };
        warn_kernel_sctp(self.carrier);
        let (bound, port) = match self.carrier.is_on_ip() {
            true => {
                let port = self.addresses.first().map_or(0, SocketAddr::port);
                self.addresses.iter_mut().for_each(|address| address.set_port(0));
                (SctpCarrier::Ip, port)
            }
            false => (SctpCarrier::Udp { port: 0 }, self.port),
        };
        let failure = |why| Failure::Host(format!("cannot use SCTP: {}", reason(self.carrier, None, &why)));
        let secure = self.secure.take().filter(|_| self.carrier.is_secure());
        // An association over DTLS has one address at each end, so only the server's first address is used.
        if secure.is_some() {
            self.addresses.truncate(1);
        }
        let local = match (&secure, self.addresses.first()) {
            (Some(_), Some(to)) if local.is_empty() => vec![source_for(*to).map_err(failure)?],
            _ => local,
        };
        let here = world.at(local).map_err(failure)?;
        let host = match secure {
            None => SctpHost::new(here, self.config, bound, None).await.map_err(failure)?,
            Some(secure) => {
                let ends = dtls_client(secure.trust).map_err(|why| Failure::Host(why.to_string()))?;
                let layer = Rc::new(DtlsLayer::new(here.clone(), ends, Some(&secure.name)));
                self.config.zero_checksum |= secure.unsummed;
                SctpHost::layered(here, self.config, bound, layer).await.map_err(failure)?
            }
        };
        if let Some(log) = &self.paths {
            log.watch(&host);
        }
        let servers = by_family(&self.addresses);
        let first = servers.iter().filter_map(|addresses| addresses.first().copied()).collect();
        let servers = servers.into_iter().map(|addresses| SctpServer { addresses, port }).collect();
        Ok((host.clone(), Routes { connector: SctpConnector::new(host, servers), first }))
    }
}

/// Opens associations to one server. The routes differ in the server address to which the handshake is sent first.
pub struct Routes {
    /// The connector, for which each route is a server.
    pub connector: SctpConnector<OsWorld>,
    /// The first server address of each route.
    pub first: Vec<SocketAddr>,
}

impl Routes {
    /// The number of routes.
    pub fn count(&self) -> usize {
        self.first.len()
    }

    /// Tries the routes in order. Returns an established association, or the reasons why all routes failed.
    pub async fn session(&self, world: &OsWorld, timeout: Duration) -> Result<SctpSession<OsWorld>, String> {
        let whys = match connect_in_turn(world, &self.connector, self.count(), timeout).await {
            Ok(session) => return Ok(session),
            Err(whys) => whys,
        };
        let text = |why: &ReachError| match why {
            ReachError::Timeout => format!("no connection within {} s", timeout.as_secs_f32()),
            ReachError::Closed(why) => why.to_string(),
            why => why.to_string(),
        };
        let several = whys.len() > 1;
        let each = whys.iter().zip(&self.first).map(|(why, at)| match several {
            true => format!("{}: {}", at.ip(), text(why)),
            false => text(why),
        });
        Err(each.collect::<Vec<_>>().join("; "))
    }

    /// Returns the number of the first route on which the server answers, or of the last route if the server answers on
    /// none.
    pub async fn answering(&self, world: &OsWorld, timeout: Duration) -> usize {
        // The last route is returned in any case, so trying it is unnecessary.
        let last = self.count().saturating_sub(1);
        for route in 0..last {
            let Ok(session) = self.connector.connect(route) else { continue };
            if let Some(Ok(())) = world.timeout(timeout, session.established()).await {
                session.close();
                return route;
            }
            session.abort();
        }
        last
    }
}

/// Returns `addresses` in their order. If they contain both IP versions, a second list begins with the other version, for
/// a second attempt. An ICMP message about the first address ends a handshake that could have succeeded at the other
/// addresses (RFC 9260 §10, RFC 6951 §5.5).
fn by_family(addresses: &[SocketAddr]) -> Vec<Vec<SocketAddr>> {
    let v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (like, other): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| address.is_ipv4() == v4);
    let mut routes = vec![addresses.to_vec()];
    if !other.is_empty() {
        routes.push(other.into_iter().chain(like).collect());
    }
    routes
}

/// Warns once that the kernel's SCTP stack will also answer our packets.
pub fn warn_kernel_sctp(carrier: Carrier) {
    static ONCE: Once = Once::new();
    if carrier.is_on_ip() && kernel_has_sctp() {
        ONCE.call_once(|| {
            complain(
                "warning: the kernel's SCTP is loaded, receives our packets of protocol 132, and may abort our associations; \
                 unload it (rmmod sctp), or use UDP",
            );
        });
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

/// Returns the loopback address from which a client sends to the loopback address `ip`.
fn facing(ip: IpAddr, carrier: Carrier) -> IpAddr {
    match ip {
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        // Every raw socket receives every packet. If client and server shared an address, the client's stack would answer
        // packets for the server with an ABORT.
        IpAddr::V4(v4) if carrier.is_on_ip() && v4 == Ipv4Addr::LOCALHOST => IpAddr::from([127, 0, 0, 2]),
        IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
    }
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
