//! SCTP's ports among the programs of a host.
//!
//! On IP every SCTP of the host hears every packet. A port that another one
//! has is that one's to answer for (RFC 9260 §8.4 speaks of the host).

use anabranch_sctp::{Neighbours, Shard};
use anabranch_world::Ports;
use std::net::IpAddr;
use std::sync::Arc;

/// The other programs, as an endpoint asks for them.
#[derive(Debug)]
pub(super) struct Programs(pub(super) Arc<dyn Ports>);

impl Neighbours for Programs {
    fn have(&self, _: Shard, _: IpAddr, _: u16, _: u16) -> bool {
        false
    }

    fn have_port(&self, address: Option<IpAddr>, port: u16) -> bool {
        self.0.are_anothers(address, port)
    }
}
