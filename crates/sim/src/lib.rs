//! The network simulator: executor, hosts, links and packet records. A run with the same seed gives byte-identical
//! results.
//!
//! A [`Network`] holds hosts, routers and links. [`Network::world`] gives the programs of a host their `World`, and
//! [`Network::run`] lets virtual time pass. The network carries real IP packets with headers and checksums. Its links
//! consist of the same elements that emulate links for live traffic.
//!
//! ```
//! use anabranch_base::{Instant, RecvBatch, SendBatch};
//! use anabranch_link::LinkSpec;
//! use anabranch_sim::Network;
//! use anabranch_world::{DatagramSocket, Local, World};
//! use std::future::poll_fn;
//! use std::net::IpAddr;
//!
//! let network = Network::new(1);
//! let near: IpAddr = [10, 0, 0, 1].into();
//! let far: IpAddr = [10, 0, 0, 2].into();
//! let (client, server) = (network.host("client", &[near]), network.host("server", &[far]));
//! network.link(client, server, &LinkSpec::parse("rate=10mbit,rtt=80ms")?)?;
//!
//! let (here, there) = (network.world(client), network.world(server));
//! let arrived = network.run(
//!     async {
//!         let sender = here.bind(Local::Udp { port: 5000 }).await?;
//!         let receiver = there.bind(Local::Udp { port: 7 }).await?;
//!         let mut batch = SendBatch::new(1);
//!         (batch.source, batch.target) = ((near, 5000).into(), (far, 7).into());
//!         batch.push(&[42; 972]);
//!         poll_fn(|cx| sender.poll_send(cx, &mut batch)).await?;
//!         let mut arrived = RecvBatch::new(1);
//!         poll_fn(|cx| receiver.poll_recv(cx, &mut arrived)).await?;
//!         Ok::<_, std::io::Error>((there.now(), arrived.bytes().len()))
//!     },
//!     Instant::MAX,
//! );
//! // The packet of 1000 bytes (28 are headers) takes 0.8 ms at 10 Mbit/s, then propagates for 40 ms.
//! assert_eq!(arrived.expect_done()?, (Instant::from_nanos(40_800_000), 972));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod audit;
mod events;
mod executor;
mod faults;
mod filter;
mod forward;
mod host;
mod ids;
mod network;
mod packet_buf;
mod programs;
mod reassembly;
mod state;
mod tap;
mod topology;
mod world;

pub use anabranch_link::spec::Direction;
pub use audit::HostCounters;
pub use executor::Task;
pub use faults::{NetworkChange, random_link};
pub use host::Cost;
pub use ids::{Attachment, InterfaceId, LinkId, NodeId};
pub use network::{Network, Outcome, Waiting};
pub use tap::{LinkCounters, TapEvent, TapRecord};
pub use world::{SimSocket, SimTimer, SimWorld};
