//! How a client reaches its server: SCTP made ready for it, and waits that end.

use crate::place::Carrier;
use crate::serve::reason;
use crate::{Failure, complain};
use anabranch_transport::engines::sctp::Config;
use anabranch_transport::sctp::{Carrier as SctpCarrier, SctpConnector, SctpHost, SctpServer};
use anabranch_world::os::{OsWorld, kernel_has_sctp};
use anabranch_world::{Timer, World};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Once;
use std::task::Poll;
use std::time::Duration;

/// A server that is reached by SCTP.
pub struct Sctp {
    /// In UDP or on IP.
    pub carrier: Carrier,
    /// Its addresses, with its UDP port or its SCTP port.
    pub addresses: Vec<SocketAddr>,
    /// Its SCTP port behind the UDP port.
    pub port: u16,
    /// What SCTP runs with here.
    pub config: Config,
}

impl Sctp {
    /// This host's SCTP, from addresses that the server can answer to, and what opens associations to it.
    pub async fn host(
        mut self,
        world: &OsWorld,
    ) -> Result<(SctpHost<OsWorld>, SctpConnector<OsWorld>), Failure> {
        // Who talks to a host on the loopback interface talks from there; who does not, from everywhere else.
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
        beside_the_kernel(self.carrier);
        let (bound, port) = match self.carrier {
            Carrier::SctpIp => {
                let port = self.addresses.first().map_or(0, SocketAddr::port);
                self.addresses.iter_mut().for_each(|address| address.set_port(0));
                (SctpCarrier::Ip, port)
            }
            _ => (SctpCarrier::Udp { port: 0 }, self.port),
        };
        let made = match world.at(local) {
            Ok(here) => SctpHost::new(here, self.config, bound, None).await,
            Err(why) => Err(why),
        };
        let told = |why| Failure::Host(format!("cannot use SCTP: {}", reason(self.carrier, &why)));
        let host = made.map_err(told)?;
        let server = SctpServer { addresses: self.addresses, port };
        Ok((host.clone(), SctpConnector::new(host, vec![server])))
    }
}

/// Says once that the kernel's SCTP will answer packets that are ours.
pub fn beside_the_kernel(carrier: Carrier) {
    static ONCE: Once = Once::new();
    if carrier == Carrier::SctpIp && kernel_has_sctp() {
        ONCE.call_once(|| {
            complain(
                "warning: this kernel's own SCTP is loaded, and aborts associations of ours over protocol 132; unload \
                 it (rmmod sctp), or use UDP",
            );
        });
    }
}

/// The loopback address to talk to `ip` from.
fn facing(ip: IpAddr, carrier: Carrier) -> IpAddr {
    match ip {
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        // Every raw socket gets every packet: on one address the client would answer for the server, that nobody
        // listens here.
        IpAddr::V4(v4) if carrier == Carrier::SctpIp && v4 == Ipv4Addr::LOCALHOST => {
            IpAddr::from([127, 0, 0, 2])
        }
        IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
    }
}

/// `None`: it took longer.
pub async fn within<T>(world: &OsWorld, span: Duration, wait: impl Future<Output = T>) -> Option<T> {
    let mut wait = std::pin::pin!(wait);
    let mut timer = world.timer();
    timer.set(Some(world.now() + span));
    poll_fn(|cx| match wait.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => timer.poll(cx).map(|()| None),
    })
    .await
}
