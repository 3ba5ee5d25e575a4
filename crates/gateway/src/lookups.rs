//! Resolves names for clients. No client can delay the lookups of other clients.
//!
//! A host can resolve only a few names at a time, and a name without an answer occupies a lookup for many seconds.
//! Therefore a client may start a lookup only while it has fewer lookups in progress than the host could still start. A
//! name that several clients ask for at the same time is resolved once. Names that the host's own configuration
//! contains need no lookup.

use anabranch_http::authority::Authority;
use anabranch_http::limits::{Client, ConcurrencyLimit, Share, SharePermit};
use anabranch_world::Detach;
use anabranch_world::names::NameResolver;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Resolves names for the clients of a gateway.
pub(super) struct Lookups<W> {
    world: W,
    limit: ConcurrencyLimit,
    clients: RefCell<BTreeMap<Client, Rc<Share>>>,
    lookups: RefCell<BTreeMap<Authority, Rc<Lookup>>>,
    /// The tasks that wait until their client may start a lookup.
    waiting: RefCell<Vec<Waker>>,
}

/// A lookup that is in progress or complete.
#[derive(Default)]
struct Lookup {
    /// The addresses after the lookup is complete; an empty list if the name does not exist.
    addresses: RefCell<Option<Vec<SocketAddr>>>,
    waiting: RefCell<Vec<Waker>>,
}

impl<W: NameResolver> Lookups<W> {
    pub(super) fn new(world: &W) -> Rc<Self> {
        let (clients, under_way, waiting) = Default::default();
        Rc::new(Self {
            world: world.clone(),
            limit: ConcurrencyLimit::new(W::LOOKUPS),
            clients,
            lookups: under_way,
            waiting,
        })
    }

    /// Resolves `name` for `client`. Returns an empty list if the name does not exist. The caller has to limit the
    /// waiting time.
    pub(super) async fn look_up(
        self: &Rc<Self>,
        name: &Authority,
        client: Option<IpAddr>,
    ) -> Vec<SocketAddr> {
        if let Ok(ip) = name.host.parse() {
            return vec![SocketAddr::new(ip, name.port)];
        }
        let lookup = match self.pending(name) {
            Some(lookup) => lookup,
            None => match self.begin(name, client).await {
                Ok(lookup) => lookup,
                Err(known) => return known,
            },
        };
        poll_fn(|cx| match &*lookup.addresses.borrow() {
            Some(found) => Poll::Ready(found.clone()),
            None => {
                lookup.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn pending(&self, name: &Authority) -> Option<Rc<Lookup>> {
        self.lookups.borrow().get(name).cloned()
    }

    /// Returns a running lookup of `name`, or starts one as soon as the client's share of lookups permits it. If the
    /// client would have to wait, but the gateway's host knows the addresses without a lookup, returns the addresses as
    /// `Err`.
    async fn begin(
        self: &Rc<Self>,
        name: &Authority,
        client: Option<IpAddr>,
    ) -> Result<Rc<Lookup>, Vec<SocketAddr>> {
        let share = self.share(client);
        let mut checked_local = false;
        poll_fn(|cx| {
            if let Some(lookup) = self.pending(name) {
                return Poll::Ready(Ok(lookup));
            }
            if let Some(permit) = share.try_acquire() {
                return Poll::Ready(Ok(self.start(name, permit)));
            }
            if !std::mem::replace(&mut checked_local, true) {
                let known = self.world.lookup_local(&name.host, name.port);
                if !known.is_empty() {
                    return Poll::Ready(Err(known));
                }
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn share(&self, client: Option<IpAddr>) -> Rc<Share> {
        let new = || Share::new(self.limit.clone(), 1);
        self.clients.borrow_mut().entry(Client::at(client)).or_insert_with(new).clone()
    }

    /// Starts a lookup. The resolver continues even if no client waits for the result any more. The lookup therefore
    /// keeps `permit` until the resolver answers.
    fn start(self: &Rc<Self>, name: &Authority, permit: SharePermit) -> Rc<Lookup> {
        let lookup = Rc::<Lookup>::default();
        self.lookups.borrow_mut().insert(name.clone(), lookup.clone());
        let (lookups, name, result) = (self.clone(), name.clone(), lookup.clone());
        let resolve = async move {
            let found = lookups.world.resolve(&name.host, name.port).await.unwrap_or_default();
            *result.addresses.borrow_mut() = Some(found);
            lookups.lookups.borrow_mut().remove(&name);
            drop(permit);
            lookups.clients.borrow_mut().retain(|_, share| !share.is_idle() || Rc::strong_count(share) > 1);
            let wakers =
                [&lookups.waiting, &result.waiting].map(|waiting| std::mem::take(&mut *waiting.borrow_mut()));
            wakers.into_iter().flatten().for_each(Waker::wake);
        };
        self.world.spawn("gateway lookup", resolve).detach();
        lookup
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::{Duration, Instant};
    use anabranch_sim::{Network, SimWorld};
    use anabranch_world::World;
    use std::cell::Cell;
    use std::io;

    /// A simulated host whose resolver takes a minute for names that begin with `slow`.
    #[derive(Clone)]
    struct Named {
        world: SimWorld,
        queries: Rc<Cell<usize>>,
    }

    anabranch_sim::world_of_field!(Named);

    fn at(port: u16) -> Vec<SocketAddr> {
        vec![SocketAddr::from(([192, 0, 2, 1], port))]
    }

    impl NameResolver for Named {
        const LOOKUPS: usize = 4;

        fn lookup_local(&self, host: &str, port: u16) -> Vec<SocketAddr> {
            if host == "near" { at(port) } else { Vec::new() }
        }

        async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            self.queries.set(self.queries.get() + 1);
            if host.starts_with("slow") {
                self.sleep_until(self.now() + Duration::from_secs(60)).await;
                return Err(io::ErrorKind::TimedOut.into());
            }
            Ok(at(port))
        }
    }

    #[test]
    fn slow_lookups_delay_only_their_own_client() {
        let network = Network::new(1);
        let node = network.host("gateway", &[]);
        let world = Named { world: network.world(node), queries: Rc::default() };
        let lookups = Lookups::new(&world);
        let run = async {
            let client = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
            let name = |host: &str| Authority { host: host.to_owned(), port: 80 };
            // The client waits only ten seconds for each of these names, but the resolver continues its lookups.
            for number in 0..10 {
                let (lookups, inside, slow) =
                    (lookups.clone(), world.clone(), name(&format!("slow{number}")));
                let asks = async move {
                    inside.timeout(Duration::from_secs(10), lookups.look_up(&slow, client(1))).await
                };
                world.spawn("client", asks).detach();
            }
            let soon = async |host: &str, last| {
                world.timeout(Duration::from_secs(1), lookups.look_up(&name(host), client(last))).await
            };
            for second in [1, 30] {
                world.sleep_until(Instant::ZERO + Duration::from_secs(second)).await;
                assert_eq!(world.queries.get(), if second == 1 { 2 } else { 3 }, "half of four are its own");
                assert_eq!(soon("quick", 2).await, Some(at(80)), "{second}");
                assert_eq!(soon("quick", 1).await, None, "{second}");
                assert_eq!(soon("near", 1).await, Some(at(80)), "{second}");
                assert_eq!(soon("198.51.100.7", 1).await.expect("it is written there").len(), 1);
            }
            // The name is resolved once, although two clients ask for it.
            assert_eq!(soon("slow0", 2).await, None);
            assert_eq!(world.queries.get(), 4);
            world.sleep_until(Instant::ZERO + Duration::from_secs(61)).await;
            assert_eq!(soon("quick", 1).await, Some(at(80)));
            assert_eq!(soon("slow0", 1).await, None);
            world.sleep_until(Instant::ZERO + Duration::from_secs(200)).await;
            assert!(lookups.lookups.borrow().is_empty() && lookups.waiting.borrow().len() < 20);
            assert!(lookups.clients.borrow().len() <= 1, "who has gone is forgotten");
        };
        network.run(run, Instant::MAX).expect_done();
    }
}
