//! SCTP's ports among the programs of a host.
//!
//! On IP every SCTP of the host hears every packet. A port that another one
//! has is that one's to answer for (RFC 9260 §8.4 speaks of the host).

use super::shards::Directory;
use anabranch_sctp::{Neighbours, Shard};
use anabranch_world::Ports;
use std::net::IpAddr;
use std::sync::Arc;

/// The other SCTPs of a host, as an endpoint asks for them.
#[derive(Debug)]
pub(super) struct Others {
    /// Those of this program that are behind the same port.
    pub(super) directory: Option<Arc<Directory>>,
    /// Those of other programs.
    pub(super) ports: Option<Arc<dyn Ports>>,
}

impl Neighbours for Others {
    fn have(&self, shard: Shard, peer: IpAddr, peer_port: u16, local_port: u16) -> bool {
        let directory = self.directory.as_ref();
        directory.is_some_and(|directory| directory.have(shard, peer, peer_port, local_port))
    }

    fn have_port(&self, address: Option<IpAddr>, port: u16) -> bool {
        self.ports.as_ref().is_some_and(|ports| ports.are_anothers(address, port))
    }
}
