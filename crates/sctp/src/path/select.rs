//! Chooses the destination address of a packet.
//!
//! Owns the list of paths, the primary path, the association's error counter, and the choice of an alternate path for
//! new data, retransmissions and SACKs.
//!
//! Implements RFC 9260 §6.4 and §6.4.1, and RFC 7829 §4 and §5.

use super::Path;
use super::error_counter::ErrorCounter;
use crate::config::{Config, RetransmitPath};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::SendCause;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The paths of an association. An index refers to the same path until the path is removed and the index is reused.
#[derive(Debug)]
pub(crate) struct Paths {
    list: Vec<Path>,
    primary: usize,
    /// The path for new data: the primary path, or an alternate while the primary has failed.
    current: usize,
    /// The path on which DATA last arrived. SACKs are sent to it.
    data_from: usize,
    /// The number of calls of `poll_transmit` so far.
    polls: u64,
    /// Number of address changes: additions, removals, and changes of a UDP port.
    changes: u32,
    /// The counter of consecutive errors on all paths together.
    errors: ErrorCounter,
    /// For each direction, the time and the path of the last progress of user data. `None` until the association has
    /// several paths and has sent data. Before that, silence of the peer does not mean that a path is interrupted.
    progress: Option<Box<[Progress; 2]>>,
}

/// The progress of user data in one direction.
#[derive(Clone, Copy, Debug)]
struct Progress {
    at: Instant,
    /// The path of the last progress: the path on which data was last acknowledged, or on which data last arrived. When
    /// this side sends data while no chunk is outstanding, both directions start anew. For sent data, the path is then
    /// that of the new data; for received data, it is `None`.
    path: Option<usize>,
    /// Whether this direction is interrupted: since the last progress, either the path has failed, or outstanding data
    /// has waited for longer than an RTO. The next progress ends the interruption.
    late: bool,
    /// For received data: whether this side's receive window was full when DATA last arrived, so that the peer must not
    /// send. For sent data: always false.
    closed: bool,
}

impl Progress {
    #[inline]
    fn advance(&mut self, now: Instant, path: usize) -> Option<Interruption> {
        let next = Self { at: now, path: Some(path), late: false, closed: false };
        let before = std::mem::replace(self, next);
        let from = before.path.filter(|from| before.late || *from != path)?;
        let lasted = now.since(before.at) >= SHORTEST_INTERRUPTION;
        lasted.then_some(Interruption { since: before.at, from, to: path, received: false })
    }
}

/// An interruption of user data that began at `since` and has just ended. The data resumed on another path, or on the
/// same path after this path had failed or data had waited for longer than an RTO.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interruption {
    pub(crate) since: Instant,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Whether the interruption concerns data that the peer sends.
    pub(crate) received: bool,
}

/// Interruptions shorter than this time are not reported. Short interruptions also occur without a failure: concurrent
/// multipath transfer changes paths all the time, and receivers delay SACKs.
const SHORTEST_INTERRUPTION: Duration = Duration::from_millis(100);

impl Paths {
    pub(crate) fn new(mut list: Vec<Path>, now: Instant) -> Self {
        assert!(!list.is_empty(), "an association without a path");
        // Paths are large, and most associations have only one path, so the list has no unused capacity.
        list.shrink_to_fit();
        Self {
            list,
            primary: 0,
            current: 0,
            data_from: 0,
            polls: 0,
            changes: 1,
            errors: ErrorCounter::new(now),
            progress: None,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    #[inline]
    pub(crate) fn at(&mut self, path: usize) -> &mut Path {
        &mut self.list[path]
    }

    #[inline]
    pub(crate) fn get(&self, path: usize) -> &Path {
        &self.list[path]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.list.iter()
    }

    /// Returns the number of address changes: additions, removals, and changes of a UDP port.
    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns a free index for one more address: the index that the address had before, the index of another removed
    /// address, or a new index. `None` if the number of paths has reached its maximum, `most`.
    pub(crate) fn free_index(&self, address: IpAddr, most: usize) -> Option<usize> {
        let previous = self.list.iter().position(|path| path.removed && path.address.ip() == address);
        let any_removed = || self.list.iter().position(|path| path.removed);
        previous.or_else(any_removed).or_else(|| (self.list.len() < most).then_some(self.list.len()))
    }

    /// Puts a path at a free index.
    pub(crate) fn set(&mut self, index: usize, path: Path) {
        if index < self.list.len() {
            self.list[index] = path;
        } else {
            self.list.reserve_exact(1);
            self.list.push(path);
        }
        self.changes += 1;
    }

    /// Sets the peer's UDP port on a path. Port 0 stands for SCTP without UDP.
    pub(crate) fn set_udp_port(&mut self, path: usize, port: u16) {
        self.list[path].address.set_port(port);
        self.changes += 1;
    }

    /// Removes a path. If it was the primary path, the path for new data or the path for SACKs, `successor` becomes
    /// that path instead. The index stays unused until another address gets it.
    pub(crate) fn remove(&mut self, path: usize, successor: usize) {
        self.list[path].removed = true;
        self.list[path].withdraw();
        self.changes += 1;
        if self.primary == path {
            self.primary = successor;
        }
        self.reselect();
        if self.current == path {
            self.current = successor;
        }
        if self.data_from == path {
            self.data_from = successor;
        }
    }

    /// Returns the path to `address`, unless the peer has removed this address.
    #[inline]
    pub(crate) fn find(&self, address: IpAddr) -> Option<usize> {
        self.list.iter().position(|path| path.address.ip() == address && !path.removed)
    }

    /// Returns the path to an address, or the current data path if the address is unknown.
    pub(crate) fn find_or_current(&self, address: IpAddr) -> usize {
        self.find(address).unwrap_or(self.current)
    }

    /// Returns whether `address` was an address of the peer that the peer has deleted (RFC 5061 §5.3 F13).
    pub(crate) fn was_deleted(&self, address: IpAddr) -> bool {
        self.list.iter().any(|path| path.removed && path.address.ip() == address)
    }

    #[inline]
    pub(crate) fn primary(&self) -> usize {
        self.primary
    }

    pub(crate) fn set_primary(&mut self, path: usize) {
        self.primary = path;
        self.reselect();
    }

    /// Returns the path for new data.
    #[inline]
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// RFC 9260 §5.2.4 A: resets all paths after the peer has restarted.
    pub(crate) fn restart(&mut self, config: &Arc<Config>) {
        self.list.iter_mut().for_each(|path| path.restart(config));
    }

    /// RFC 9260 §8.1: resets the association's error counter, because the peer has answered.
    #[inline]
    pub(crate) fn clear_errors(&mut self) {
        self.errors.clear();
    }

    /// RFC 9260 §8.1: counts one more consecutive retransmission or unanswered HEARTBEAT.
    pub(crate) fn count_error(&mut self, now: Instant) {
        self.errors.count(now);
    }

    /// RFC 9260 §8.1: returns whether the peer is unreachable.
    pub(crate) fn is_peer_unreachable(&self, config: &Config, now: Instant) -> bool {
        self.errors.is_exceeded(config, now)
    }

    /// Counts a call of `poll_transmit`.
    #[inline]
    pub(crate) fn count_poll(&mut self) {
        self.polls = self.polls.wrapping_add(1);
    }

    /// Returns the number of calls of `poll_transmit`. A window that was found full counts as full until this number
    /// changes.
    #[inline]
    pub(crate) fn polls(&self) -> u64 {
        self.polls
    }

    /// Returns the path on which DATA last arrived.
    #[inline]
    pub(crate) fn data_from(&self) -> usize {
        self.data_from
    }

    /// Returns whether no DATA has arrived for longer than an RTO although the receive window was open. The peer's RTO
    /// is unknown, so this side's RTO for the same path is used.
    #[inline]
    pub(crate) fn is_data_overdue(&self, now: Instant, path: usize) -> bool {
        let overdue = |it: &Progress| !it.closed && now.since(it.at) > self.list[path].rto();
        self.progress.as_ref().is_some_and(|progress| overdue(&progress[1]))
    }

    /// Records that incoming DATA is late: it arrives after a silence during which the peer had data to send.
    pub(crate) fn on_data_overdue(&mut self) {
        if let Some([_, received]) = self.progress.as_deref_mut() {
            received.late = true;
        }
    }

    /// Records that DATA from the peer has arrived on a path. `closed` says whether this side's receive window is
    /// closed now. If this DATA ends an interruption of the data transfer, returns that interruption.
    #[inline]
    pub(crate) fn on_data_from(&mut self, now: Instant, path: usize, closed: bool) -> Option<Interruption> {
        self.data_from = path;
        let progress = &mut self.progress.as_mut()?[1];
        let interruption = progress.advance(now, path);
        progress.closed = closed;
        Some(Interruption { received: true, ..interruption? })
    }

    /// Records that data sent on a path was acknowledged. If this acknowledgement ends an interruption of the data
    /// transfer, returns that interruption.
    #[inline]
    pub(crate) fn on_data_acked(&mut self, now: Instant, path: usize) -> Option<Interruption> {
        self.progress.as_mut()?[0].advance(now, path)
    }

    /// Returns whether the chunk that was acknowledged last was sent on this path.
    pub(crate) fn is_last_sent_on(&self, path: usize) -> bool {
        self.progress.as_ref().is_some_and(|progress| progress[0].path == Some(path))
    }

    /// Records that data is sent on `path` while no chunk is outstanding. The measurement of interruptions starts anew
    /// in both directions, so the pause before this data does not count.
    pub(crate) fn on_data_begun(&mut self, now: Instant, path: usize) {
        if self.list.len() > 1 {
            let progress = |path| Progress { at: now, path, late: false, closed: false };
            let progress = [progress(Some(path)), progress(None)];
            match &mut self.progress {
                Some(before) => **before = progress,
                none => *none = Some(Box::new(progress)),
            }
        }
    }

    /// Records that the path has failed or potentially failed. If the last progress of data was on this path, the time
    /// until the next progress counts as an interruption, even if the next progress is on this path again.
    pub(crate) fn on_failed(&mut self, path: usize) {
        for progress in self.progress.iter_mut().flat_map(|both| both.iter_mut()) {
            progress.late |= progress.path == Some(path);
        }
    }

    /// Records that no data on any path was acknowledged for an RTO, so the transfer of outgoing data counts as
    /// interrupted. A shorter wait can come from the round trip itself, a queue, or a delayed SACK (RFC 9260 §6.3.1).
    pub(crate) fn on_data_timeout(&mut self) {
        if let Some([sent, _]) = self.progress.as_deref_mut() {
            sent.late = true;
        }
    }

    /// RFC 9260 §6.4: returns the path for SACKs: the path on which DATA last arrived or, if `elsewhere` is true,
    /// preferably another path.
    #[inline]
    pub(crate) fn for_sack(&self, elsewhere: bool) -> usize {
        let same = self.data_from;
        let path = if elsewhere { self.alternate(same).unwrap_or(same) } else { same };
        self.confirmed_or_current(path)
    }

    /// RFC 9260 §6.4, §6.4.1: returns the path for the retransmission of a chunk. The chunk was last sent on path
    /// `last`. `cause` is the reason for the retransmission.
    pub(crate) fn for_retransmission(&self, choice: RetransmitPath, last: usize, cause: SendCause) -> usize {
        let move_away = match choice {
            RetransmitPath::Same => false,
            RetransmitPath::Timeout => cause != SendCause::Fast,
            RetransmitPath::All => true,
        };
        match move_away.then(|| self.alternate(last)).flatten() {
            Some(other) => other,
            _ if self.list[last].is_sound() => last,
            _ => self.current,
        }
    }

    /// RFC 9260 §6.9: returns the first path, from `path` on, whose packets can carry a chunk of `size` bytes. A
    /// chunk that was fragmented before the path MTU shrank cannot be fragmented again. If no path can carry the
    /// chunk, `path` is returned, and IP fragments the packet.
    pub(crate) fn with_sufficient_mtu(&self, path: usize, size: usize) -> usize {
        let n = self.list.len();
        let takes = |&path: &usize| {
            let path = &self.list[path];
            path.is_usable() && path.chunk_limit() >= size
        };
        (0..n).map(|step| (path + step) % n).find(takes).unwrap_or(path)
    }

    /// Repeats the choice of the path for new data, after a path has failed, recovered, or been verified.
    pub(crate) fn reselect(&mut self) {
        // RFC 9260 §6.4.1: data is sent on the primary path while that path is active, otherwise on one alternate path.
        // The return to the primary path is immediate.
        if self.list[self.primary].is_sound() {
            self.current = self.primary;
        } else if !self.list[self.current].is_sound()
            && let Some(other) = self.alternate(self.current)
        {
            self.current = other;
        }
    }

    /// RFC 9260 §5.4: returns `path` if it is confirmed, otherwise the current data path. Only HEARTBEATs are sent to
    /// unconfirmed addresses.
    #[inline]
    pub(crate) fn confirmed_or_current(&self, path: usize) -> usize {
        if self.list[path].confirmed { path } else { self.current }
    }

    /// Returns whether data cannot be sent, because the current path is unconfirmed or has no source address.
    pub(crate) fn is_stranded(&self) -> bool {
        !self.list[self.current].is_reachable()
    }

    /// RFC 9260 §7.3: returns the largest chunk size that fits the path with the smallest MTU. Messages are
    /// fragmented to this size.
    pub(crate) fn smallest_chunk_limit(&self) -> usize {
        self.list.iter().filter(|path| !path.removed).map(Path::chunk_limit).min().unwrap_or(512)
    }

    /// RFC 9260 §6.3.1 C5: on all paths, stops the round-trip measurements that would be wrong after the retransmission
    /// of the chunk at `offset`.
    pub(crate) fn end_measurements_from(&mut self, offset: u64) {
        self.list.iter_mut().for_each(|path| path.end_measurement_from(offset));
    }

    /// Returns an address of the peer, for callers that need only the IP version or the scope of the address.
    pub(crate) fn peer(&self) -> IpAddr {
        self.list[0].address.ip()
    }

    /// Returns the usable path whose source and destination address share the longest prefix (RFC 6724 §6 rule 9).
    /// After the local address that data was sent from has been removed, the ASCONF is sent on this path. On another
    /// path, the local address may belong to a network that cannot reach the peer. The ASCONF would then be lost, and
    /// only an expiry of T4 would reveal the loss.
    pub(crate) fn nearest(&self) -> usize {
        let near = |index: usize| {
            let path = &self.list[index];
            common_bits(path.source.ip(), path.address.ip())
        };
        let usable = (0..self.list.len()).filter(|&index| {
            let path = &self.list[index];
            !path.removed && path.is_usable()
        });
        // If the common prefixes of several paths are equally long, the current path is preferred.
        usable.fold(self.current, |best, index| if near(index) > near(best) { index } else { best })
    }

    /// Returns the next usable path other than `path`.
    pub(crate) fn alternate(&self, path: usize) -> Option<usize> {
        let n = self.list.len();
        let mut others = (1..n).map(|step| (path + step) % n);
        if let Some(sound) = others.clone().find(|&other| self.list[other].is_sound()) {
            return Some(sound);
        }
        let this = &self.list[path];
        if this.is_sound() {
            return None;
        }
        // RFC 7829 §3 (4): if every path has failed or potentially failed, the potentially failed path with the fewest
        // errors is chosen. If the numbers of errors are equal, a path other than `path` is preferred.
        let least =
            others.clone().filter(|&o| self.list[o].is_usable()).map(|o| self.list[o].errors).min()?;
        let better = !this.is_usable() || least <= this.errors;
        others
            .find(|&other| self.list[other].is_usable() && self.list[other].errors == least)
            .filter(|_| better)
    }

    /// If every destination has failed, makes another confirmed destination the current one: the next in the list (RFC
    /// 9260 §8.2 leaves the choice open). If the state "potentially failed" is enabled, the destination with the fewest
    /// errors becomes the current one (RFC 7829 §4.1).
    pub(crate) fn rotate(&mut self) {
        if self.list.iter().any(Path::is_usable) {
            return;
        }
        let n = self.list.len();
        let mut next = (1..=n).map(|step| (self.current + step) % n).filter(|&o| self.list[o].is_reachable());
        let next = if self.list[self.current].pf_max.is_some() {
            next.min_by_key(|&other| self.list[other].errors)
        } else {
            next.next()
        };
        if let Some(next) = next {
            self.current = next;
        }
    }

    /// RFC 7829 §5 (2), (3): makes the current path the primary.
    pub(crate) fn switch_over(&mut self) {
        self.primary = self.current;
    }
}

/// Returns the local address from which to reach `target`: the address that shares the longest prefix with `target`. If
/// several addresses share equally long prefixes, `turn` selects one of them. Callers pass the index of a path as
/// `turn`, so different paths use different addresses.
pub(crate) fn source_for(local: &[SocketAddr], target: IpAddr, turn: usize) -> Option<SocketAddr> {
    let shared = |source: &SocketAddr| common_bits(source.ip(), target);
    let longest = local.iter().filter_map(shared).max()?;
    let equals = || local.iter().filter(|source| shared(source) == Some(longest));
    equals().nth(turn % equals().count()).copied()
}

/// Returns the number of leading bits that two addresses share. `None` if their IP versions differ.
fn common_bits(one: IpAddr, other: IpAddr) -> Option<u32> {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => Some((one.to_bits() ^ other.to_bits()).leading_zeros()),
        (IpAddr::V6(one), IpAddr::V6(other)) => Some((one.to_bits() ^ other.to_bits()).leading_zeros()),
        _ => None,
    }
}
