//! Assigns each exchange to a stream of a connection.
//!
//! The client alone assigns streams, because the server responds on the stream of the request. As long as a stream is
//! free, an exchange takes the lowest free stream of the oldest connection that has a free stream. If no stream is
//! free, the client opens another connection. When the policy allows no more connections, [`WhenFull`] decides what
//! happens. A TCP connection counts as a connection with one stream. With [`WhenFull::RoundRobin`], requests are pipelined
//! on TCP connections.
//!
//! If the policy spreads exchanges ([`Policy::spread`]), each exchange takes the lowest free stream of the connection
//! with the fewest exchanges in flight. A connection gets a second exchange only when no other connection may be opened
//! and none is being opened. So six associations share the exchanges of a page as six TCP connections do.
//!
//! With [`Mapping::fresh`], each exchange gets a new stream. The exchange takes the next unused stream number, as long
//! as fewer streams are busy than the limit allows.
//!
//! While a browser does not know whether a server speaks HTTP/2, it opens a connection for each waiting exchange
//! ([`Mapping::probing`]).
//!
//! [`Mapping`] is a plain state machine: `fetch` reports events to it and asks it to choose streams.

mod policy;

pub use policy::{Choices, NETSCAPE_CONNECTIONS, Policy, PolicyError, Think, Version, WhenFull};

/// The decision about the exchange at the head of the queue: a stream for it, or that it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Send the exchange on this stream. The exchange counts as in flight from now on.
    Assign {
        /// The connection, by the index passed to [`Mapping::opened`].
        connection: usize,
        /// The number of the stream.
        stream: u64,
        /// True if this is the last exchange that the policy allows on the connection. The request then asks the server
        /// to close the connection after this exchange.
        last: bool,
    },
    /// Wait for a free stream or a new connection.
    Wait,
}

/// The connections to one server and the exchanges in flight on them.
#[derive(Clone, Debug)]
pub struct Mapping {
    limit: usize,
    /// The number of streams that a new connection is expected to have.
    streams: u64,
    spread: bool,
    /// Whether each exchange has a new stream.
    fresh: bool,
    allowance: Option<u32>,
    /// The maximum number of exchanges in flight on one connection.
    outstanding: u32,
    when_full: WhenFull,
    /// The maximum number of connections that are opened until one is established; `None` if the protocol is known.
    probes: Option<usize>,
    connections: Vec<Connection>,
    /// The connection index and the stream of the last exchange assigned. The round-robin order continues after this
    /// stream.
    last_taken: Option<(usize, u64)>,
}

#[derive(Clone, Debug)]
struct Connection {
    connection_index: usize,
    streams: u64,
    /// Whether exchanges can be written to the connection.
    usable: bool,
    /// Whether the connection must not get further exchanges.
    retired: bool,
    /// True if no streams can be added to the connection now. Either its handshake is in progress, or streams are
    /// already being added, or an earlier request to add streams failed.
    cannot_grow: bool,
    /// The total number of exchanges assigned to the connection.
    used: u32,
    /// The number of exchanges in flight on each stream, up to the highest stream used. Empty if each exchange has a
    /// new stream.
    in_flight: Vec<u32>,
    /// The next stream number, if each exchange has a new stream.
    next: Option<u64>,
    /// The number of exchanges in flight on all streams.
    total_in_flight: u32,
    /// A lower bound of the lowest free stream: all streams with lower numbers are busy.
    lowest_free: u64,
}

impl Mapping {
    /// Returns a mapping that follows `policy` and has no connections. A new connection is expected to have `streams`
    /// streams.
    #[must_use]
    pub fn new(policy: &Policy, streams: u64) -> Self {
        Self {
            limit: policy.connections,
            streams: streams.max(1),
            spread: policy.spread,
            fresh: false,
            allowance: policy.objects_per_connection,
            outstanding: policy.outstanding.unwrap_or(u32::MAX),
            when_full: policy.when_full,
            probes: None,
            connections: Vec::new(),
            last_taken: None,
        }
    }

    /// Sets whether each exchange opens a new stream. If so, the configured number of streams is the maximum number of
    /// streams that are open at the same time.
    #[must_use]
    pub fn fresh(self, fresh: bool) -> Self {
        Self { fresh, ..self }
    }

    /// Makes each waiting exchange open a connection of its own, but at most `connections`, until one is established.
    /// Only then is it known that one connection carries all exchanges.
    #[must_use]
    pub fn probing(self, connections: Option<usize>) -> Self {
        Self { probes: connections, ..self }
    }

    /// Makes each waiting exchange open a connection of its own, as [`probing`](Self::probing) does, unless a connection
    /// has been established.
    pub fn probe(&mut self, connections: usize) {
        if !self.connections.iter().any(|connection| connection.usable) {
            self.probes = Some(connections);
        }
    }

    /// Returns how many connections should be opened now. `queued` is the number of exchanges that wait because
    /// [`choose`](Self::choose) could not assign them.
    #[must_use]
    pub fn wanted(&self, queued: usize) -> usize {
        if let Some(most) = self.probes {
            return queued.min(most).saturating_sub(self.connections.len());
        }
        let open = self.connections.iter().filter(|c| !c.retired || c.busy()).count();
        let coming: usize = self.connections.iter().filter(|c| !c.usable).map(|c| self.room(c)).sum();
        let streams = if self.spread { 1 } else { self.max_concurrent(self.streams) };
        let each = self.allowance.map_or(streams, |k| streams.min(k as usize)).max(1);
        let missing = queued.saturating_sub(coming).div_ceil(each);
        missing.min(self.limit.saturating_sub(open))
    }

    /// Records that the connection `connection_index` is being opened. `usable` says whether exchanges can be written
    /// to the connection before it is established.
    pub fn opened(&mut self, connection_index: usize, streams: u64, usable: bool) {
        self.connections.push(Connection {
            connection_index,
            streams: streams.max(1),
            usable,
            retired: false,
            cannot_grow: true,
            used: 0,
            in_flight: Vec::new(),
            next: self.fresh.then_some(0),
            total_in_flight: 0,
            lowest_free: 0,
        });
    }

    /// Records that the connection `connection_index` is established and has `streams` stream pairs. Exchanges that
    /// were sent during the handshake on streams numbered `streams` or higher must be sent again. Therefore these
    /// exchanges no longer count as in flight, and no longer count towards the connection's maximum number of
    /// exchanges.
    pub fn established(&mut self, connection_index: usize, streams: u64) {
        self.probes = None;
        if let Some(connection) = self.find(connection_index) {
            connection.streams = streams.max(1);
            let there = connection.in_flight.len().min(connection.streams as usize);
            let in_vain: u32 = connection.in_flight.drain(there..).sum();
            connection.used -= in_vain;
            connection.total_in_flight -= in_vain;
            connection.lowest_free = connection.lowest_free.min(connection.streams);
            connection.usable = true;
            connection.cannot_grow = false;
        }
    }

    /// Returns a connection that should get more streams, and how many streams to add. `queued` is the number of
    /// waiting exchanges that [`choose`](Self::choose) could not assign and for which no connection may be opened. Call
    /// this method until it returns `None`. A connection is not returned again before [`grown`](Self::grown) is called
    /// for it.
    pub fn growth(&mut self, queued: usize) -> Option<(usize, u64)> {
        if self.when_full != WhenFull::Grow || queued == 0 || self.connections.iter().any(|c| !c.usable) {
            return None;
        }
        let grows = |&i: &usize| self.accepts_more(&self.connections[i]) && !self.connections[i].cannot_grow;
        let i = (0..self.connections.len()).find(grows)?;
        // If the client spreads exchanges over its connections, each connection gets an equal share of the new streams.
        // `sharing` also counts connections for which the client has already requested more streams.
        let sharing = self.connections.iter().filter(|c| self.accepts_more(c)).count();
        let queued = if self.spread { queued.div_ceil(sharing) } else { queued };
        let left = self.allowance.map_or(usize::MAX, |k| k.saturating_sub(self.connections[i].used) as usize);
        let connection = &mut self.connections[i];
        let most = MAX_STREAMS.saturating_sub(connection.streams) as usize;
        connection.cannot_grow = true;
        let more = queued.min(most).min(left) as u64;
        (more > 0).then_some((connection.connection_index, more))
    }

    /// Records that the connection `connection_index` now has `streams` stream pairs. If the number has not grown, no
    /// more streams are requested for the connection.
    pub fn grown(&mut self, connection_index: usize, streams: u64) {
        if let Some(connection) = self.find(connection_index) {
            connection.cannot_grow = streams <= connection.streams;
            connection.streams = connection.streams.max(streams);
        }
    }

    /// Forbids further exchanges on the connection `connection_index`, which is about to close.
    pub fn retire(&mut self, connection_index: usize) {
        if let Some(connection) = self.find(connection_index) {
            connection.retired = true;
        }
    }

    /// Removes the connection `connection_index` and all exchanges in flight on it.
    pub fn closed(&mut self, connection_index: usize) {
        self.connections.retain(|c| c.connection_index != connection_index);
    }

    /// Records that an exchange on `stream` of the connection `connection_index` is over. Returns true if the
    /// connection should be closed: it is retired or has carried its maximum number of exchanges, and no exchange is in
    /// flight on it.
    pub fn finished(&mut self, connection_index: usize, stream: u64) -> bool {
        let allowance = self.allowance;
        let Some(connection) = self.find(connection_index) else { return false };
        if connection.next.is_some() {
            connection.total_in_flight = connection.total_in_flight.saturating_sub(1);
        } else if let Some(count) = connection.in_flight.get_mut(stream as usize)
            && *count > 0
        {
            *count -= 1;
            connection.total_in_flight -= 1;
            if *count == 0 {
                connection.lowest_free = connection.lowest_free.min(stream);
            }
        }
        (connection.retired || allowance.is_some_and(|k| connection.used >= k)) && !connection.busy()
    }

    /// Whether exchanges can be written to the connection `connection_index`, and none is in flight on it.
    #[must_use]
    pub fn is_idle(&self, connection_index: usize) -> bool {
        self.connections.iter().any(|it| it.connection_index == connection_index && it.usable && !it.busy())
    }

    /// Assigns the next exchange to a stream, or makes it wait.
    pub fn choose(&mut self) -> Choice {
        for i in self.in_order() {
            // Before a connection gets a second exchange, every other connection gets its first.
            if self.spread && self.connections[i].busy() && self.awaits_connection() {
                return Choice::Wait;
            }
            if let Some(stream) = self.connections[i].lowest_free() {
                return self.assign(i, stream);
            }
        }
        // All streams are busy. The exchange waits if the policy says so, if another connection may be opened, or if
        // one is being opened.
        if matches!(self.when_full, WhenFull::Wait | WhenFull::Grow) || self.awaits_connection() {
            return Choice::Wait;
        }
        let place = match self.when_full {
            WhenFull::Wait | WhenFull::Grow => None,
            WhenFull::RoundRobin => self.next_round_robin(),
            WhenFull::SmallestPending => self.smallest_pending(),
        };
        place.map_or(Choice::Wait, |(i, stream)| self.assign(i, stream))
    }

    /// Returns the indices of the connections that can take an exchange, in the order of preference.
    fn in_order(&self) -> Vec<usize> {
        let open = |&i: &usize| self.accepts_more(&self.connections[i]);
        let mut order: Vec<usize> = (0..self.connections.len()).filter(open).collect();
        if self.spread {
            // The sort is stable: among connections with equally many exchanges, the connection that was opened first
            // comes first.
            order.sort_by_key(|&i| self.connections[i].total_in_flight);
        }
        order
    }

    /// Whether another connection may be opened or is being opened.
    fn awaits_connection(&self) -> bool {
        self.wanted(1) > 0 || self.connections.iter().any(|c| !c.usable)
    }

    fn find(&mut self, connection_index: usize) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|c| c.connection_index == connection_index)
    }

    fn accepts_more(&self, connection: &Connection) -> bool {
        connection.usable
            && !connection.retired
            && connection.total_in_flight < self.outstanding
            && self.allowance.is_none_or(|k| connection.used < k)
    }

    /// Returns how many exchanges a connection that is being opened can take at the same time. Its maximum number of
    /// exchanges in total also limits the result.
    fn room(&self, connection: &Connection) -> usize {
        let streams = if self.spread { 1 } else { self.max_concurrent(connection.streams) };
        self.allowance.map_or(streams, |k| streams.min(k.saturating_sub(connection.used) as usize))
    }

    /// Returns how many exchanges a connection with `streams` streams carries at the same time.
    fn max_concurrent(&self, streams: u64) -> usize {
        streams.min(u64::from(self.outstanding)) as usize
    }

    fn assign(&mut self, i: usize, stream: u64) -> Choice {
        let allowance = self.allowance;
        let connection = &mut self.connections[i];
        connection.used += 1;
        if let Some(next) = &mut connection.next {
            *next = stream + 1;
        } else {
            let slot = stream as usize;
            if connection.in_flight.len() <= slot {
                connection.in_flight.resize(slot + 1, 0);
            }
            connection.in_flight[slot] += 1;
        }
        connection.total_in_flight += 1;
        let last = allowance.is_some_and(|k| connection.used >= k);
        self.last_taken = Some((connection.connection_index, stream));
        Choice::Assign { connection: self.connections[i].connection_index, stream, last }
    }

    /// Returns the stream that follows the last assigned stream in round-robin order. If `spread` is set, the order is:
    /// the first stream of each connection, then the second stream of each connection, and so on. Otherwise all streams
    /// of one connection precede those of the next connection.
    fn next_round_robin(&self) -> Option<(usize, u64)> {
        let turn = |connection_index: usize, stream: u64| match self.spread {
            true => (stream as usize, connection_index),
            false => (connection_index, stream as usize),
        };
        let last = self.last_taken.map(|(connection_index, stream)| turn(connection_index, stream));
        let all = self
            .connections
            .iter()
            .enumerate()
            .filter(|(_, c)| self.accepts_more(c))
            .flat_map(|(i, c)| (0..c.streams).map(move |s| (turn(c.connection_index, s), i, s)));
        // Returns the next stream in this order after the last assigned stream. If no stream follows, returns the first
        // stream in the order.
        all.min_by_key(|&(at, ..)| (last.is_some_and(|last| at <= last), at)).map(|(_, i, s)| (i, s))
    }

    /// Returns the stream with the fewest exchanges in flight. Exchanges count equally, because the client does not
    /// know how long the responses are. If several streams have equally few exchanges, the first of them is returned.
    /// If `spread` is set, the first of those whose connection has the fewest exchanges in flight is returned instead.
    fn smallest_pending(&self) -> Option<(usize, u64)> {
        self.connections
            .iter()
            .enumerate()
            .filter(|(_, c)| self.accepts_more(c))
            .flat_map(|(i, c)| {
                let riding = if self.spread { c.total_in_flight } else { 0 };
                (0..c.streams).map(move |s| (c.pending(s), riding, i, s))
            })
            .min()
            .map(|(_, _, i, s)| (i, s))
    }
}

impl Connection {
    fn pending(&self, stream: u64) -> u32 {
        self.in_flight.get(stream as usize).copied().unwrap_or(0)
    }

    fn busy(&self) -> bool {
        self.total_in_flight > 0
    }

    fn lowest_free(&mut self) -> Option<u64> {
        if let Some(next) = self.next {
            return Some(next).filter(|_| u64::from(self.total_in_flight) < self.streams);
        }
        while self.lowest_free < self.streams && self.pending(self.lowest_free) > 0 {
            self.lowest_free += 1;
        }
        (self.lowest_free < self.streams).then_some(self.lowest_free)
    }
}

/// The maximum number of streams of one connection. The client does not request more.
const MAX_STREAMS: u64 = u16::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(connections: usize, allowance: Option<u32>, when_full: WhenFull) -> Policy {
        Policy { connections, objects_per_connection: allowance, when_full, ..Policy::default() }
    }

    fn assigned(connection: usize, stream: u64) -> Choice {
        Choice::Assign { connection, stream, last: false }
    }

    /// The mapping must request one additional stream for each waiting exchange. It must not request the same streams
    /// again while the first request is outstanding. If a connection did not get more streams, no further streams must
    /// be requested for it.
    #[test]
    fn streams_are_added_when_full() {
        let mut mapping = Mapping::new(&policy(1, None, WhenFull::Grow), 1);
        mapping.opened(0, 1, true);
        assert!(matches!(mapping.choose(), Choice::Assign { stream: 0, .. }));
        assert_eq!(mapping.choose(), Choice::Wait);
        assert_eq!(mapping.growth(3), None, "not before the handshake is over");
        mapping.established(0, 1);
        assert_eq!(mapping.growth(0), None);
        assert_eq!(mapping.growth(3), Some((0, 3)));
        assert_eq!(mapping.growth(3), None, "under way");
        mapping.grown(0, 3);
        assert!(matches!(mapping.choose(), Choice::Assign { stream: 1, .. }));
        assert!(matches!(mapping.choose(), Choice::Assign { stream: 2, .. }));
        assert_eq!(mapping.choose(), Choice::Wait);
        assert_eq!(mapping.growth(1), Some((0, 1)));
        mapping.grown(0, 3);
        assert_eq!(mapping.growth(1), None, "the server does not want to");
        assert!(!mapping.finished(0, 1));
        assert!(matches!(mapping.choose(), Choice::Assign { stream: 1, .. }));
    }

    #[test]
    fn the_lowest_free_stream_is_taken_and_taken_again() {
        let mut mapping = Mapping::new(&policy(1, None, WhenFull::Wait), 3);
        assert_eq!(mapping.choose(), Choice::Wait);
        assert_eq!(mapping.wanted(5), 1);
        mapping.opened(0, 3, false);
        assert_eq!((mapping.choose(), mapping.wanted(5)), (Choice::Wait, 0));
        mapping.established(0, 3);
        assert_eq!(
            [mapping.choose(), mapping.choose(), mapping.choose()],
            [assigned(0, 0), assigned(0, 1), assigned(0, 2)]
        );
        assert_eq!(mapping.choose(), Choice::Wait);
        assert!(!mapping.finished(0, 1));
        assert!(!mapping.finished(0, 0));
        assert_eq!([mapping.choose(), mapping.choose()], [assigned(0, 0), assigned(0, 1)]);
    }

    /// Exchanges are sent with the handshake, but the server then grants fewer streams than these exchanges use.
    /// Exchanges on streams that were not granted must count neither as in flight nor towards the maximum number of
    /// exchanges.
    #[test]
    fn exchanges_on_ungranted_streams_are_reassigned() {
        let mut mapping = Mapping::new(&policy(1, Some(4), WhenFull::Wait), 4);
        mapping.opened(0, 4, true);
        let last = Choice::Assign { connection: 0, stream: 3, last: true };
        let early = [mapping.choose(), mapping.choose(), mapping.choose(), mapping.choose()];
        assert_eq!(early, [assigned(0, 0), assigned(0, 1), assigned(0, 2), last]);
        mapping.established(0, 2);
        assert_eq!(mapping.choose(), Choice::Wait, "two streams, two exchanges");
        assert!(!mapping.finished(0, 1));
        assert_eq!((mapping.choose(), mapping.choose()), (assigned(0, 1), Choice::Wait));
        assert!(!mapping.finished(0, 0));
        assert_eq!(mapping.choose(), Choice::Assign { connection: 0, stream: 0, last: true });
        assert!(!mapping.finished(0, 1));
        assert!(mapping.finished(0, 0), "four in all");
    }

    #[test]
    fn connections_are_opened_only_for_queued_exchanges() {
        let mut mapping = Mapping::new(&policy(6, None, WhenFull::Wait), 1);
        assert_eq!(mapping.wanted(1), 1);
        mapping.opened(0, 1, false);
        assert_eq!((mapping.wanted(1), mapping.wanted(3), mapping.wanted(300)), (0, 2, 5));
        mapping.established(0, 1);
        assert_eq!(mapping.choose(), assigned(0, 0));
        // The streams of one association are filled before the next association is opened.
        let mut mapping = Mapping::new(&policy(6, None, WhenFull::Wait), 10);
        assert_eq!((mapping.wanted(10), mapping.wanted(11), mapping.wanted(31)), (1, 2, 4));
        mapping.opened(0, 10, false);
        assert_eq!((mapping.wanted(10), mapping.wanted(11), mapping.wanted(31)), (0, 1, 3));
    }

    /// A browser opens a connection for each waiting exchange until it knows that one connection carries all of them.
    #[test]
    fn each_exchange_opens_a_connection_until_one_is_established() {
        let mut mapping = Mapping::new(&policy(1, None, WhenFull::Wait), 100).probing(Some(6));
        assert_eq!(mapping.wanted(1), 1);
        mapping.opened(0, 100, false);
        assert_eq!((mapping.wanted(1), mapping.wanted(4), mapping.wanted(9)), (0, 3, 5));
        mapping.opened(1, 100, false);
        mapping.established(0, 100);
        assert_eq!((mapping.wanted(9), mapping.choose()), (0, assigned(0, 0)));
        mapping.closed(1);
        mapping.probe(6);
        assert_eq!(mapping.wanted(9), 0, "the protocol is known");
        let mut slow = Mapping::new(&policy(1, None, WhenFull::Wait), 100);
        slow.opened(0, 100, false);
        assert_eq!(slow.wanted(3), 0);
        slow.probe(6);
        assert_eq!(slow.wanted(3), 2, "the first connection was not established in time");
    }

    #[test]
    fn new_streams_are_numbered_consecutively_and_limited_in_number() {
        let mut mapping = Mapping::new(&policy(1, None, WhenFull::Wait), 2).fresh(true);
        mapping.opened(0, 2, false);
        mapping.established(0, 2);
        assert_eq!(
            [mapping.choose(), mapping.choose(), mapping.choose()],
            [assigned(0, 0), assigned(0, 1), Choice::Wait]
        );
        assert!(!mapping.finished(0, 0));
        assert_eq!([mapping.choose(), mapping.choose()], [assigned(0, 2), Choice::Wait]);
        assert!(!mapping.finished(0, 1) && !mapping.finished(0, 2));
        assert_eq!([mapping.choose(), mapping.choose()], [assigned(0, 3), assigned(0, 4)]);
    }

    fn spread(connections: usize, allowance: Option<u32>, when_full: WhenFull, streams: u64) -> Mapping {
        Mapping::new(&Policy { spread: true, ..policy(connections, allowance, when_full) }, streams)
    }

    /// Each association gets one exchange before any association gets a second. Then they share the exchanges evenly.
    #[test]
    fn spread_exchanges_fill_all_connections_alike() {
        let mut mapping = spread(3, None, WhenFull::Wait, 10);
        assert_eq!((mapping.choose(), mapping.wanted(1), mapping.wanted(7)), (Choice::Wait, 1, 3));
        mapping.opened(0, 10, true);
        assert_eq!(mapping.choose(), assigned(0, 0));
        assert_eq!((mapping.choose(), mapping.wanted(6)), (Choice::Wait, 2), "a free stream is no reason");
        mapping.opened(1, 10, false);
        assert_eq!((mapping.choose(), mapping.wanted(6)), (Choice::Wait, 1));
        mapping.opened(2, 10, true);
        assert_eq!((mapping.choose(), mapping.wanted(5)), (assigned(2, 0), 0));
        assert_eq!(mapping.choose(), Choice::Wait, "the second is on its way");
        mapping.established(1, 10);
        let more: Vec<_> = (0..4).map(|_| mapping.choose()).collect();
        assert_eq!(more, [assigned(1, 0), assigned(0, 1), assigned(1, 1), assigned(2, 1)]);
        assert!(!mapping.finished(2, 0) && !mapping.finished(2, 1));
        assert_eq!([mapping.choose(), mapping.choose()], [assigned(2, 0), assigned(2, 1)]);
        // A connection that has closed is opened again for the next exchange.
        mapping.closed(1);
        assert_eq!((mapping.choose(), mapping.wanted(1)), (Choice::Wait, 1));
    }

    #[test]
    fn spread_exchanges_keep_to_an_allowance_and_to_what_happens_when_full() {
        let mut two = spread(2, Some(2), WhenFull::Wait, 10);
        assert_eq!(two.wanted(3), 2);
        two.opened(0, 10, true);
        two.opened(1, 10, true);
        let last = |connection, stream| Choice::Assign { connection, stream, last: true };
        let all: Vec<_> = (0..5).map(|_| two.choose()).collect();
        assert_eq!(all, [assigned(0, 0), assigned(1, 0), last(0, 1), last(1, 1), Choice::Wait]);
        assert!(!two.finished(0, 0) && two.finished(0, 1), "used up");
        two.retire(0);
        assert_eq!(two.wanted(1), 1);
        for (when_full, order) in [
            (WhenFull::RoundRobin, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 0), (1, 0), (0, 1), (1, 1)]),
            (WhenFull::SmallestPending, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 0), (1, 0), (0, 1), (1, 1)]),
        ] {
            let mut full = spread(2, None, when_full, 2);
            full.opened(0, 2, true);
            full.opened(1, 2, true);
            assert_eq!(
                order.map(|_| full.choose()),
                order.map(|(connection_index, stream)| assigned(connection_index, stream))
            );
        }
        let mut grow = spread(2, None, WhenFull::Grow, 1);
        for connection_index in [0, 1] {
            grow.opened(connection_index, 1, true);
            grow.established(connection_index, 1);
            assert_eq!(grow.choose(), assigned(connection_index, 0));
        }
        assert_eq!(
            (grow.choose(), grow.growth(3), grow.growth(1)),
            (Choice::Wait, Some((0, 2)), Some((1, 1)))
        );
    }

    #[test]
    fn an_allowance_of_one_is_a_connection_an_object() {
        let mut mapping = Mapping::new(&policy(4, Some(1), WhenFull::Wait), 100);
        assert_eq!(mapping.wanted(9), 4);
        for connection_index in 0..4 {
            mapping.opened(connection_index, 100, true);
        }
        assert_eq!(mapping.choose(), Choice::Assign { connection: 0, stream: 0, last: true });
        assert_eq!(mapping.choose(), Choice::Assign { connection: 1, stream: 0, last: true });
        assert!(mapping.finished(0, 0), "to be closed");
        mapping.retire(0);
        assert_eq!(mapping.wanted(7), 1, "the place of the one that is done is free");
        mapping.closed(0);
        assert_eq!(mapping.wanted(7), 1);
    }

    #[test]
    fn pipelining_goes_round_or_to_the_shortest_queue() {
        let mut rr = Mapping::new(&policy(1, None, WhenFull::RoundRobin), 2);
        rr.opened(7, 2, true);
        let all: Vec<_> = (0..5).map(|_| rr.choose()).collect();
        assert_eq!(all, [assigned(7, 0), assigned(7, 1), assigned(7, 0), assigned(7, 1), assigned(7, 0)]);
        let mut spf = Mapping::new(&policy(1, None, WhenFull::SmallestPending), 2);
        spf.opened(7, 2, true);
        let all: Vec<_> = (0..4).map(|_| spf.choose()).collect();
        assert_eq!(all, [assigned(7, 0), assigned(7, 1), assigned(7, 0), assigned(7, 1)]);
        assert!(!spf.finished(7, 1));
        assert_eq!([spf.choose(), spf.choose()], [assigned(7, 1), assigned(7, 0)]);
    }

    /// The limit on exchanges in flight and the number of streams are separate settings. The test changes one of them
    /// and keeps the other.
    #[test]
    fn outstanding_exchanges_stay_within_the_limit() {
        let mapping = |when_full, streams| {
            let policy = Policy { outstanding: Some(2), ..policy(1, None, when_full) };
            let mut mapping = Mapping::new(&policy, streams);
            mapping.opened(0, streams, true);
            mapping
        };
        let mut many = mapping(WhenFull::Wait, 100);
        assert_eq!(
            [many.choose(), many.choose(), many.choose()],
            [assigned(0, 0), assigned(0, 1), Choice::Wait]
        );
        many.finished(0, 0);
        assert_eq!([many.choose(), many.choose()], [assigned(0, 0), Choice::Wait]);
        let mut one = mapping(WhenFull::RoundRobin, 1);
        assert_eq!(
            [one.choose(), one.choose(), one.choose()],
            [assigned(0, 0), assigned(0, 0), Choice::Wait]
        );
        one.finished(0, 0);
        assert_eq!([one.choose(), one.choose()], [assigned(0, 0), Choice::Wait]);
        // Each connection may have two outstanding exchanges. For more, the client must open further connections.
        let two = Mapping::new(&Policy { outstanding: Some(2), ..policy(6, None, WhenFull::Wait) }, 100);
        assert_eq!((two.wanted(2), two.wanted(3), two.wanted(100)), (1, 2, 6));
    }

    #[test]
    fn a_pipelined_connection_waits_while_another_may_come() {
        let mut mapping = Mapping::new(&policy(2, None, WhenFull::RoundRobin), 1);
        mapping.opened(0, 1, true);
        assert_eq!(mapping.choose(), assigned(0, 0));
        assert_eq!((mapping.choose(), mapping.wanted(1)), (Choice::Wait, 1));
        mapping.opened(1, 1, false);
        assert_eq!(mapping.choose(), Choice::Wait);
        mapping.established(1, 1);
        assert_eq!(
            [mapping.choose(), mapping.choose(), mapping.choose()],
            [assigned(1, 0), assigned(0, 0), assigned(1, 0)]
        );
    }
}
