//! Coordinates the use of SCTP ports between the programs of a host.
//!
//! On IP, every SCTP stack on the host receives every SCTP packet. Only the program that owns a port may answer packets
//! to that port, because RFC 9260 §8.4 applies to the host as a whole.

use super::shards::Directory;
use crate::connector::ListenError;
use anabranch_sctp::{AssociationId, Endpoint, ListenError as EngineListenError, OtherShards, Shard};
use anabranch_world::{PortClaim, PortRegistry};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// The other SCTP endpoints of a host. An endpoint consults them before it answers a packet that is out of the blue.
#[derive(Debug)]
pub(super) struct OtherEndpoints {
    /// The endpoints of this program that share the port of this endpoint.
    pub(super) directory: Option<Arc<Directory>>,
    /// The ports that other programs own.
    pub(super) ports: Option<Arc<dyn PortRegistry>>,
}

impl OtherShards for OtherEndpoints {
    fn has_association(&self, shard: Shard, peer: IpAddr, peer_port: u16, local_port: u16) -> bool {
        let directory = self.directory.as_ref();
        directory.is_some_and(|directory| directory.has_association(shard, peer, peer_port, local_port))
    }

    fn have_port(&self, address: Option<IpAddr>, port: u16) -> bool {
        self.ports.as_ref().is_some_and(|ports| ports.is_owned_by_other(address, port))
    }
}

/// The ports that an endpoint has claimed: those on which it listens, and those of its associations. Each claim lasts
/// while the port is in use.
#[derive(Debug, Default)]
pub struct PortClaims {
    /// The registry of the ports that the programs on this host use. `None` if no other program receives the packets
    /// that this endpoint receives.
    ports: Option<Arc<dyn PortRegistry>>,
    listening: BTreeMap<u16, PortClaim>,
    associations: BTreeMap<AssociationId, PortClaim>,
}

impl PortClaims {
    pub(super) fn new(ports: Option<Arc<dyn PortRegistry>>) -> Self {
        Self { ports, ..Self::default() }
    }

    /// Makes the endpoint accept associations on `port`, and claims the port, so that no other program can use it.
    ///
    /// # Errors
    /// [`ListenError`]: this program or another program already uses the port.
    pub fn listen(&mut self, endpoint: &mut Endpoint, port: u16) -> Result<(), ListenError> {
        endpoint.listen(port).map_err(|error| match error {
            EngineListenError::InUse => ListenError::PortInUse(port),
            error => ListenError::Refused(error.to_string()),
        })?;
        match self.ports.as_ref().map(|ports| ports.listen(port)) {
            None => {}
            Some(Ok(claim)) => drop(self.listening.insert(port, claim)),
            Some(Err(why)) => {
                endpoint.close_listener(port);
                return Err(match why.kind() {
                    io::ErrorKind::AddrInUse => ListenError::PortInUse(port),
                    _ => ListenError::Refused(why.to_string()),
                });
            }
        }
        Ok(())
    }

    /// Makes the endpoint stop accepting associations on `port`.
    pub fn close_listener(&mut self, endpoint: &mut Endpoint, port: u16) {
        endpoint.close_listener(port);
        self.listening.remove(&port);
    }

    /// Claims the local port of an association that this side has started.
    pub fn connected(&mut self, endpoint: &Endpoint, id: AssociationId) {
        if let Some(ports) = &self.ports {
            let claim = endpoint.info(id).and_then(|info| ports.connect(info.local_port));
            self.associations.extend(claim.map(|claim| (id, claim)));
        }
    }

    /// Adds an association that a peer has started to the owners of the listener's claim of `port`. The port stays
    /// claimed until the listener is closed and all such associations have ended.
    pub fn accepted(&mut self, id: AssociationId, port: u16) {
        self.associations.extend(self.listening.get(&port).map(|claim| (id, claim.clone())));
    }

    /// Releases the claim of an association that has ended.
    pub fn release(&mut self, id: AssociationId) {
        self.associations.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_sctp::Claim;

    /// RFC 9260 §8.4: several endpoints can share one port. A packet is not out of the blue if any of them has the
    /// association to which the packet belongs.
    #[test]
    fn other_endpoints_of_the_port_are_consulted() {
        let peer = IpAddr::from([192, 0, 2, 7]);
        let [here, there] = [0, 1].map(|index| Shard::new(index, 2).expect("one of two"));
        let directory = Directory::new(2).expect("two");
        directory.record(there, Claim { peer, peer_port: 5000, local_port: 80, gained: true });
        let others = OtherEndpoints { directory: Some(directory), ports: None };
        assert!(others.has_association(here, peer, 5000, 80));
        assert!(
            !others.has_association(there, peer, 5000, 80) && !others.has_association(here, peer, 5001, 80)
        );
        let alone = OtherEndpoints { directory: None, ports: None };
        assert!(!alone.has_association(here, peer, 5000, 80) && !alone.have_port(None, 80));
    }
}
