//! Where a server listens, and how it ends.

use crate::place::{Carrier, Listen};
use crate::serve::reason;
use crate::{Done, Failure, complain};
use anabranch_http::serve::Stop;
use anabranch_transport::CloseReason;
use anabranch_transport::engines::sctp::Config;
use anabranch_transport::kernel::KernelListener;
use anabranch_transport::sctp::{Carrier as SctpCarrier, SctpHost, SctpListener};
use anabranch_world::os::{OsTask, OsWorld, Signals, give_back_memory};
use anabranch_world::{Timer, World};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// A listener of either kind.
pub enum Opened {
    /// Connections of the kernel.
    Tcp(KernelListener<OsWorld>),
    /// Associations, and the world with their addresses.
    Sctp(OsWorld, SctpListener<OsWorld>),
}

/// Everything that listens.
#[derive(Default)]
pub struct Servers {
    tasks: Vec<OsTask<Result<(), CloseReason>>>,
    hosts: Vec<SctpHost<OsWorld>>,
    /// URLs under which it is reached.
    pub urls: Vec<String>,
}

impl Servers {
    /// Opens what `place` names: SCTP with `config`, behind `sctp_port` where UDP carries it.
    pub async fn listen(
        &mut self,
        world: &OsWorld,
        place: &Listen,
        config: &Config,
        sctp_port: u16,
    ) -> Result<Vec<Opened>, Failure> {
        let failed = |why: String| Failure::Host(format!("cannot listen on {}: {why}", shown(place)));
        let mut opened = Vec::new();
        if place.carrier == Carrier::Tcp {
            let all = [IpAddr::from([0; 4]), IpAddr::from([0_u8; 16])];
            let wanted = if place.addresses.is_empty() { &all[..] } else { &place.addresses };
            for &ip in wanted {
                match KernelListener::new(world.clone(), SocketAddr::new(ip, place.port), BACKLOG) {
                    Ok(listener) => {
                        self.name(place.carrier, ip, listener.local().port());
                        opened.push(Opened::Tcp(listener));
                    }
                    // A host without IPv6.
                    Err(why) if place.addresses.is_empty() && ip.is_ipv6() => {
                        complain(&format!("not on [::]:{}: {why}", place.port));
                    }
                    Err(why) => return Err(failed(why.to_string())),
                }
            }
            return Ok(opened);
        }
        let (carrier, port) = match place.carrier {
            Carrier::SctpIp => (SctpCarrier::Ip, place.port),
            _ => (SctpCarrier::Udp { port: place.port }, sctp_port),
        };
        let here = world.at(place.addresses.clone()).map_err(|why| failed(why.to_string()))?;
        let host = SctpHost::new(here.clone(), config.clone(), carrier, None)
            .await
            .map_err(|why| failed(reason(place.carrier, &why)))?;
        let listener = host.listen(port).map_err(|why| failed(why.to_string()))?;
        let addresses = host.inspect(|engine| engine.addresses().to_vec());
        for address in addresses {
            let port = if place.carrier == Carrier::SctpIp { port } else { address.port() };
            self.name(place.carrier, address.ip(), port);
        }
        self.hosts.push(host);
        opened.push(Opened::Sctp(here, listener));
        Ok(opened)
    }

    fn name(&mut self, carrier: Carrier, ip: IpAddr, port: u16) {
        self.urls.push(format!("{}://{}/", carrier.scheme(), SocketAddr::new(ip, port)));
    }

    /// Runs `server` on one of the listeners.
    pub fn start(
        &mut self,
        world: &OsWorld,
        server: impl Future<Output = Result<(), CloseReason>> + 'static,
    ) {
        self.tasks.push(world.spawn("server", server));
    }

    /// Another host whose associations are to end in good order, too.
    pub fn also_close(&mut self, host: SctpHost<OsWorld>) {
        self.hosts.push(host);
    }

    /// Until a signal comes; then `stop` ends the servers, which have `grace` for what is in flight.
    pub async fn until_told(
        mut self,
        world: &OsWorld,
        stop: &Stop,
        grace: Duration,
    ) -> Result<Done, Failure> {
        let mut signals = Signals::new().map_err(|why| Failure::Host(format!("no signals: {why}")))?;
        let mut tidy = world.timer();
        tidy.set(Some(world.now() + TIDYING));
        // A server ends by itself only when its host has failed.
        let failed = poll_fn(|cx| {
            while tidy.poll(cx).is_ready() {
                give_back_memory();
                tidy.set(Some(world.now() + TIDYING));
            }
            if signals.poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            for task in &mut self.tasks {
                if let Poll::Ready(Err(why)) = Pin::new(task).poll(cx) {
                    return Poll::Ready(Some(why));
                }
            }
            Poll::Pending
        })
        .await;
        if let Some(why) = failed {
            return Err(Failure::Host(format!("a server has ended: {why}")));
        }
        complain("ending: what is in flight is finished; a second signal ends at once");
        stop.stop();
        let mut timer = world.timer();
        timer.set(Some(world.now() + grace));
        let Self { tasks, hosts, .. } = self;
        let mut finish = std::pin::pin!(async {
            for task in tasks {
                let _ = task.await;
            }
            for host in &hosts {
                host.close().await;
            }
        });
        let in_time = poll_fn(|cx| match finish.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending if signals.poll(cx).is_ready() => Poll::Ready(false),
            Poll::Pending => timer.poll(cx).map(|()| false),
        })
        .await;
        if !in_time {
            complain("not everything was finished");
        }
        Ok(if in_time { Done::Well } else { Done::Badly })
    }
}

fn shown(place: &Listen) -> String {
    let hosts: Vec<_> = place.addresses.iter().map(IpAddr::to_string).collect();
    let hosts = if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") };
    format!("{} (port {}) for {}", hosts, place.port, place.carrier.scheme())
}

/// How often memory that a busy time has left behind is given back.
const TIDYING: Duration = Duration::from_secs(10);
/// Connections that may wait for the kernel.
const BACKLOG: u32 = 1024;
