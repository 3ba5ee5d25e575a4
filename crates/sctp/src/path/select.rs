//! Which destination a packet goes to.
//!
//! Owns the list of paths, the primary, the errors on all of them together, and the choice of an alternate for new
//! data, retransmissions and SACKs.
//!
//! Home of RFC 9260 §6.4 and §6.4.1, and of RFC 7829 §4 and §5.

use super::Path;
use super::error_counter::ErrorCounter;
use crate::config::{Config, RetransmitPath};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::SendCause;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The paths of an association, by index; an index never changes its meaning.
#[derive(Debug)]
pub(crate) struct Paths {
    list: Vec<Path>,
    primary: usize,
    /// Where data goes: the primary, or an alternate while it has failed.
    current: usize,
    /// Where DATA last came from: SACKs go there.
    data_from: usize,
    /// Chances to send so far: calls of `poll_transmit`.
    polls: u64,
    /// How often addresses were put in or taken out, or had another UDP port.
    changes: u32,
    /// Consecutive errors on all of them together.
    errors: ErrorCounter,
    /// When and where user data last got on, sent and received, of an association with several paths that has sent some. Who
    /// has asked for nothing waits for nothing.
    progress: Option<Box<[Progress; 2]>>,
}

/// The progress of user data in one direction.
#[derive(Clone, Copy, Debug)]
struct Progress {
    at: Instant,
    /// None: nothing has got on since the last pause.
    path: Option<usize>,
    /// The path has failed since.
    failed: bool,
}

impl Progress {
    #[inline]
    fn advance(&mut self, now: Instant, path: usize) -> Option<Interruption> {
        let before = std::mem::replace(self, Self { at: now, path: Some(path), failed: false });
        let from = before.path.filter(|from| before.failed || *from != path)?;
        let lasted = now.since(before.at) >= SHORTEST_INTERRUPTION;
        lasted.then_some(Interruption { since: before.at, from, to: path, received: false })
    }
}

/// No data got on between `since` and now; it went on on another path, or on one that had failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interruption {
    pub(crate) since: Instant,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Of the data that the peer sends.
    pub(crate) received: bool,
}

/// A shorter pause is none: concurrent multipath transfer changes paths all the time, and SACKs are delayed.
const SHORTEST_INTERRUPTION: Duration = Duration::from_millis(100);

impl Paths {
    pub(crate) fn new(mut list: Vec<Path>, now: Instant) -> Self {
        assert!(!list.is_empty(), "an association without a path");
        // Paths are large, and most associations have one.
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

    /// How often addresses were put in or taken out, or had another UDP port.
    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }

    /// A place for one more address: the one it had, that of another which is gone, or a new one.
    pub(crate) fn free_place(&self, address: IpAddr, most: usize) -> Option<usize> {
        let had = self.list.iter().position(|path| path.removed && path.address.ip() == address);
        let gone = || self.list.iter().position(|path| path.removed);
        had.or_else(gone).or_else(|| (self.list.len() < most).then_some(self.list.len()))
    }

    /// Puts a path into a free place.
    pub(crate) fn put(&mut self, place: usize, path: Path) {
        if place < self.list.len() {
            self.list[place] = path;
        } else {
            self.list.reserve_exact(1);
            self.list.push(path);
        }
        self.changes += 1;
    }

    /// The UDP port that a path's address is reached at; 0 without UDP.
    pub(crate) fn set_udp_port(&mut self, path: usize, port: u16) {
        self.list[path].address.set_port(port);
        self.changes += 1;
    }

    /// Takes a path out; `heir` takes its part. Its index stays its own until it is put to new use.
    pub(crate) fn remove(&mut self, path: usize, heir: usize) {
        self.list[path].removed = true;
        self.list[path].withdraw();
        self.changes += 1;
        if self.primary == path {
            self.primary = heir;
        }
        self.reselect();
        if self.current == path {
            self.current = heir;
        }
        if self.data_from == path {
            self.data_from = heir;
        }
    }

    /// The path of an address that the peer has now.
    #[inline]
    pub(crate) fn find(&self, address: IpAddr) -> Option<usize> {
        self.list.iter().position(|path| path.address.ip() == address && !path.removed)
    }

    /// The path of an address; where it is none, that of data.
    pub(crate) fn find_or_current(&self, address: IpAddr) -> usize {
        self.find(address).unwrap_or(self.current)
    }

    /// It was an address of the peer, which has given it up (RFC 5061 §5.3 F13).
    pub(crate) fn had(&self, address: IpAddr) -> bool {
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

    /// Where new data goes.
    #[inline]
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// RFC 9260 §5.2.4 A: the peer has restarted.
    pub(crate) fn restart(&mut self, config: &Arc<Config>) {
        self.list.iter_mut().for_each(|path| path.restart(config));
    }

    /// RFC 9260 §8.1: the peer has shown that it is there.
    #[inline]
    pub(crate) fn clear_errors(&mut self) {
        self.errors.clear();
    }

    /// RFC 9260 §8.1: one more retransmission in a row, or HEARTBEAT without an answer.
    pub(crate) fn count_error(&mut self, now: Instant) {
        self.errors.count(now);
    }

    /// RFC 9260 §8.1: whether the peer is unreachable.
    pub(crate) fn are_silent(&self, config: &Config, now: Instant) -> bool {
        self.errors.is_exceeded(config, now)
    }

    /// There is a chance to send.
    #[inline]
    pub(crate) fn count_poll(&mut self) {
        self.polls = self.polls.wrapping_add(1);
    }

    /// Chances to send so far: what a window that was found full is compared by.
    #[inline]
    pub(crate) fn polls(&self) -> u64 {
        self.polls
    }

    /// Where DATA last came from.
    #[inline]
    pub(crate) fn data_from(&self) -> usize {
        self.data_from
    }

    /// DATA has come from a path. Returns the interruption that this ends.
    #[inline]
    pub(crate) fn on_data_from(&mut self, now: Instant, path: usize) -> Option<Interruption> {
        self.data_from = path;
        let interruption = self.progress.as_mut()?[1].advance(now, path)?;
        Some(Interruption { received: true, ..interruption })
    }

    /// Data that went to a path was acknowledged. Returns the interruption that this ends.
    #[inline]
    pub(crate) fn on_data_acked(&mut self, now: Instant, path: usize) -> Option<Interruption> {
        self.progress.as_mut()?[0].advance(now, path)
    }

    /// What was last acknowledged had gone to this path.
    pub(crate) fn is_last_sent_on(&self, path: usize) -> bool {
        self.progress.as_ref().is_some_and(|progress| progress[0].path == Some(path))
    }

    /// Data leaves to a path while nothing is outstanding: the pause before it was no interruption, neither of the data nor of
    /// what the peer answers, on whatever path.
    pub(crate) fn on_data_begun(&mut self, now: Instant, path: usize) {
        if self.list.len() > 1 {
            let begun = |path| Progress { at: now, path, failed: false };
            let progress = [begun(Some(path)), begun(None)];
            match &mut self.progress {
                Some(before) => **before = progress,
                none => *none = Some(Box::new(progress)),
            }
        }
    }

    /// The path has failed, or potentially failed: data that goes on there later was interrupted, too.
    pub(crate) fn on_failed(&mut self, path: usize) {
        for progress in self.progress.iter_mut().flat_map(|both| both.iter_mut()) {
            progress.failed |= progress.path == Some(path);
        }
    }

    /// RFC 9260 §6.4: where SACKs go: where DATA last came from, or, if there is another way, `elsewhere`.
    #[inline]
    pub(crate) fn for_sack(&self, elsewhere: bool) -> usize {
        let same = self.data_from;
        let path = if elsewhere { self.alternate(same).unwrap_or(same) } else { same };
        self.confirmed_or_current(path)
    }

    /// RFC 9260 §6.4, §6.4.1: where a chunk goes that was lost, by `cause`, on the way to `last`.
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

    /// RFC 9260 §6.9: a chunk of `size` that was cut before a path MTU shrank cannot be cut again: it goes
    /// where a packet takes it whole, if there is such a path, `path` first; else IP cuts the packet.
    pub(crate) fn wide_enough(&self, path: usize, size: usize) -> usize {
        let n = self.list.len();
        let takes = |&path: &usize| {
            let path = &self.list[path];
            path.is_usable() && path.chunk_limit() >= size
        };
        (0..n).map(|step| (path + step) % n).find(takes).unwrap_or(path)
    }

    /// A path has failed, come back, or been verified: choose anew where data goes.
    pub(crate) fn reselect(&mut self) {
        // RFC 9260 §6.4.1: the primary while it is active, else one alternate; failback is at once.
        if self.list[self.primary].is_sound() {
            self.current = self.primary;
        } else if !self.list[self.current].is_sound()
            && let Some(other) = self.alternate(self.current)
        {
            self.current = other;
        }
    }

    /// RFC 9260 §5.4: a path, or that of data where it is not verified: nothing but HEARTBEATs go there.
    #[inline]
    pub(crate) fn confirmed_or_current(&self, path: usize) -> usize {
        if self.list[path].confirmed { path } else { self.current }
    }

    /// Nothing goes where data would go: it is not verified, or has no source.
    pub(crate) fn is_stranded(&self) -> bool {
        !self.list[self.current].is_reachable()
    }

    /// RFC 9260 §7.3: chunks are cut for the smallest path.
    pub(crate) fn smallest_chunk_limit(&self) -> usize {
        self.list.iter().filter(|path| !path.removed).map(Path::chunk_limit).min().unwrap_or(512)
    }

    /// RFC 9260 §6.3.1 C5: the chunk at `offset` is sent again, wherever it went before.
    pub(crate) fn end_measurements_from(&mut self, offset: u64) {
        self.list.iter_mut().for_each(|path| path.end_measurement_from(offset));
    }

    /// An address of the peer, where its kind is what counts.
    pub(crate) fn peer(&self) -> IpAddr {
        self.list[0].address.ip()
    }

    /// The path whose ends have most in common (RFC 6724 §6 rule 9). Who has lost the address that
    /// data left from knows no better where its other addresses lead: from one network there may
    /// be no route to the peer's address in the other, and a T4 would pass until that is noticed.
    pub(crate) fn nearest(&self) -> usize {
        let near = |index: usize| {
            let path = &self.list[index];
            common_bits(path.source.ip(), path.address.ip())
        };
        let usable = (0..self.list.len()).filter(|&index| {
            let path = &self.list[index];
            !path.removed && path.is_usable()
        });
        // The current one among equals.
        usable.fold(self.current, |best, index| if near(index) > near(best) { index } else { best })
    }

    /// Another usable path than `path`, the next in order.
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
        // RFC 7829 §3 (4): where none is sound, the one with the fewest errors; among equals another.
        let least =
            others.clone().filter(|&o| self.list[o].is_usable()).map(|o| self.list[o].errors).min()?;
        let better = !this.is_usable() || least <= this.errors;
        others
            .find(|&other| self.list[other].is_usable() && self.list[other].errors == least)
            .filter(|_| better)
    }

    /// Every destination has failed: data is tried on the verified ones in turn
    /// (RFC 9260 §8.2 leaves the choice open), or, where failures are foreseen,
    /// on that with the fewest errors (RFC 7829 §4.1).
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

    /// RFC 7829 §5 (2), (3): where data goes now is the primary from here on.
    pub(crate) fn switch_over(&mut self) {
        self.primary = self.current;
    }
}

/// The local address to reach `target` from: the one that shares the longest
/// prefix with it; `turn` decides among equals, so that the paths of
/// multi-homed hosts pair up in order.
pub(crate) fn source_for(local: &[SocketAddr], target: IpAddr, turn: usize) -> Option<SocketAddr> {
    let shared = |source: &SocketAddr| common_bits(source.ip(), target);
    let longest = local.iter().filter_map(shared).max()?;
    let equals = || local.iter().filter(|source| shared(source) == Some(longest));
    equals().nth(turn % equals().count()).copied()
}

/// How many leading bits two addresses share; `None` of different versions.
fn common_bits(one: IpAddr, other: IpAddr) -> Option<u32> {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => Some((one.to_bits() ^ other.to_bits()).leading_zeros()),
        (IpAddr::V6(one), IpAddr::V6(other)) => Some((one.to_bits() ^ other.to_bits()).leading_zeros()),
        _ => None,
    }
}
