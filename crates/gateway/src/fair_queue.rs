//! Limits the number of new connections to an origin, and shares them fairly among clients.
//!
//! The kernel of a server queues a limited number of connections that the server has not accepted yet, and drops
//! further SYNs. The SYNs are retransmitted after 1 s, 3 s, 7 s and 15 s. If a client asks for thousands of connections
//! at once, all other clients would have to wait that long.
//!
//! The gateway limits the number of new connections to an origin to the usual size of a server's queue. A connection
//! counts as new until the origin has sent data on it, or has had time to accept it. The client with the fewest new
//! connections gets the next *turn*, which is the permission to begin one connection.
//!
//! The number of free places is the limit on new connections minus the number of new connections of all clients. A
//! client may begin a connection only while it has fewer new connections than there are free places. This is the
//! dynamic threshold of Choudhury and Hahne (1998).

use anabranch_http::authority::Authority;
use anabranch_http::limits::Client;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The new connections of a gateway, by origin.
#[derive(Debug, Default)]
pub(super) struct ConnectionQueue {
    origins: RefCell<BTreeMap<Authority, OriginQueue>>,
}

/// The queue of one origin: the number of its new connections, and the clients that have new connections or wait for a
/// turn.
#[derive(Debug, Default)]
struct OriginQueue {
    new: usize,
    clients: BTreeMap<Client, ClientQueue>,
    /// The number of turns (permissions to begin a connection) that have been granted so far.
    granted: u64,
}

/// The number of new connections of one client, and a queue of its connections that wait for a turn.
#[derive(Debug, Default)]
struct ClientQueue {
    new: usize,
    /// The value of [`OriginQueue::granted`] when the client last got a turn. Before the client's first turn: the value
    /// when the client entered the queue.
    last: u64,
    waiting: VecDeque<Rc<QueueEntry>>,
}

/// A connection that waits for its turn, and whether the turn has been granted.
#[derive(Debug, Default)]
struct QueueEntry {
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// The place of a new connection in the queue. Once the turn is granted, this value is the permission to begin the
/// connection. When the value is dropped, the next connection may begin.
#[derive(Debug)]
pub(super) struct Turn {
    queue: Rc<ConnectionQueue>,
    origin: Authority,
    client: Client,
    entry: Rc<QueueEntry>,
}

impl ConnectionQueue {
    /// Waits until `client` may begin a connection to the origin `authority`.
    pub(super) async fn next(self: &Rc<Self>, authority: &Authority, client: Option<IpAddr>) -> Turn {
        let turn = self.enter(authority, Client::at(client));
        poll_fn(|cx| {
            if turn.entry.granted.get() {
                return Poll::Ready(());
            }
            *turn.entry.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        turn
    }

    fn enter(self: &Rc<Self>, authority: &Authority, client: Client) -> Turn {
        let entry = Rc::<QueueEntry>::default();
        let mut origins = self.origins.borrow_mut();
        let origin = origins.entry(authority.clone()).or_default();
        let client_queue = ClientQueue { last: origin.granted, ..ClientQueue::default() };
        origin.clients.entry(client).or_insert(client_queue).waiting.push_back(entry.clone());
        origin.grant();
        drop(origins);
        Turn { queue: self.clone(), origin: authority.clone(), client, entry }
    }
}

impl OriginQueue {
    /// Grants all turns (permissions to begin a connection) that are possible now.
    fn grant(&mut self) {
        while self.new < MAX_NEW {
            let left = MAX_NEW - self.new;
            let may = self
                .clients
                .values_mut()
                .filter(|client_queue| !client_queue.waiting.is_empty() && client_queue.new < left);
            let Some(client_queue) = may.min_by_key(|client_queue| (client_queue.new, client_queue.last))
            else {
                return;
            };
            let Some(entry) = client_queue.waiting.pop_front() else { return };
            (self.new, self.granted) = (self.new + 1, self.granted + 1);
            (client_queue.new, client_queue.last) = (client_queue.new + 1, self.granted);
            entry.granted.set(true);
            if let Some(waker) = entry.waker.take() {
                waker.wake();
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut origins = self.queue.origins.borrow_mut();
        let Some(origin) = origins.get_mut(&self.origin) else { return };
        let Some(client_queue) = origin.clients.get_mut(&self.client) else { return };
        if self.entry.granted.get() {
            client_queue.new -= 1;
            origin.new -= 1;
        } else {
            client_queue.waiting.retain(|entry| !Rc::ptr_eq(entry, &self.entry));
        }
        if client_queue.new == 0 && client_queue.waiting.is_empty() {
            origin.clients.remove(&self.client);
        }
        origin.grant();
        if origin.clients.is_empty() {
            origins.remove(&self.origin);
        }
    }
}

/// The maximum number of connections to one origin that are new at the same time. Common servers call `listen` with a
/// backlog of 511. Linux then queues 512 connections that the server has not accepted yet.
const MAX_NEW: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;

    fn origin(port: u16) -> Authority {
        Authority { host: "a.example".to_owned(), port }
    }

    fn client(last: u8) -> Client {
        Client::at(Some(IpAddr::from([192, 0, 2, last])))
    }

    fn granted(turns: &[Turn]) -> usize {
        turns.iter().filter(|turn| turn.entry.granted.get()).count()
    }

    #[test]
    fn one_client_cannot_take_all_new_connections() {
        let queue = Rc::<ConnectionQueue>::default();
        let enter = |port, last, count| -> Vec<Turn> {
            (0..count).map(|_| queue.enter(&origin(port), client(last))).collect()
        };
        let mut greedy = enter(80, 1, 5000);
        assert_eq!(granted(&greedy), MAX_NEW / 2);
        // Connections of a second client begin immediately, and so do connections to a second origin, which has port 81.
        let modest = enter(80, 2, 10);
        assert_eq!((granted(&modest), granted(&enter(81, 3, 10))), (10, 10));
        let second = enter(80, 3, 5000);
        assert!(granted(&second) > MAX_NEW / 8 && granted(&greedy) + granted(&second) + 10 < MAX_NEW);
        // When new connections end, waiting connections take their places in the queue of the origin, and each client's
        // connections begin in order.
        let before = granted(&greedy);
        drop(greedy.drain(..100));
        assert!(granted(&greedy) >= before - 100 && granted(&greedy) + granted(&second) + 10 < MAX_NEW);
        while !greedy.is_empty() {
            let first = greedy.remove(0);
            assert!(first.entry.granted.get(), "{} wait", greedy.len());
        }
        // Clients that neither hold a turn nor wait for one are removed, and so are origins without clients.
        drop((modest, second));
        assert!(queue.origins.borrow().is_empty());
    }

    #[test]
    fn the_client_with_the_fewest_connections_is_next() {
        let (queue, to) = (Rc::<ConnectionQueue>::default(), origin(80));
        let all = (0..20).flat_map(|last| (0..300).map(move |_| last));
        let mut turns_held: Vec<Turn> = all.map(|last| queue.enter(&to, client(last))).collect();
        assert_eq!(granted(&turns_held), MAX_NEW);
        let late = queue.enter(&to, client(250));
        // Ten clients that have no connection yet are ahead of the late client. Each connection that ends admits one
        // waiting client. Therefore the late client is admitted when the eleventh connection ends, or earlier.
        let mut over = 0;
        while !late.entry.granted.get() {
            assert!(turns_held[0].entry.granted.get() && turns_held[0].client == client(0), "{over}");
            turns_held.remove(0);
            over += 1;
        }
        assert!((1..=11).contains(&over), "{over}");
    }

    /// In this test, connections enter the queue and leave it in a million random steps. At regular intervals, the
    /// counters of the queue must equal a count over all connections in the queue.
    #[test]
    fn a_million_random_turns_are_counted_as_a_naive_model_counts_them() {
        let (queue, mut rng) = (Rc::<ConnectionQueue>::default(), Rng::new(39));
        let mut turns_held: Vec<Turn> = Vec::new();
        for step in 0..1_000_000_u64 {
            // The number of turns grows to thousands, and shrinks again.
            let comes = if step / 10_000 % 2 == 0 { 6 } else { 4 };
            if turns_held.is_empty() || rng.below(10) < comes {
                turns_held.push(queue.enter(&origin(80 + rng.below(2) as u16), client(rng.below(6) as u8)));
            } else {
                let ends = rng.below(turns_held.len() as u64) as usize;
                drop(turns_held.swap_remove(ends));
            }
            if step % 5_000 > 1 {
                continue;
            }
            for port in [80, 81] {
                let of_origin = || turns_held.iter().filter(|turn| turn.origin == origin(port));
                let is_granted = |turn: &&Turn| turn.entry.granted.get();
                let origins = queue.origins.borrow();
                let Some(counted) = origins.get(&origin(port)) else {
                    assert_eq!(of_origin().count(), 0, "{step}: {port}");
                    continue;
                };
                assert_eq!(counted.new, of_origin().filter(is_granted).count(), "{step}: {port}");
                assert!(counted.new <= MAX_NEW);
                for last in 0..6 {
                    let of_client = || of_origin().filter(|turn| turn.client == client(last));
                    let all = of_client().count();
                    let Some(client_queue) = counted.clients.get(&client(last)) else {
                        assert_eq!(all, 0, "{step}: {port}, {last}");
                        continue;
                    };
                    let granted = of_client().filter(is_granted).count();
                    assert_eq!(
                        (client_queue.new, client_queue.waiting.len()),
                        (granted, all - granted),
                        "{step}: {port}, {last}"
                    );
                    let may = client_queue.new < MAX_NEW - counted.new;
                    assert!(
                        !may || client_queue.waiting.is_empty(),
                        "{step}: {port}, {last} waits for nothing"
                    );
                }
            }
        }
        drop(turns_held);
        assert!(queue.origins.borrow().is_empty());
    }
}
