//! Records of the sessions that hold a slot, and the order in which they wait for a request.
//!
//! A record is identified by a key that is never reused. Tasks of a session may outlive its record, because an executor
//! drops a cancelled task later. Their reports then find no record and have no effect. The order is a map by sequence
//! number, so each session is in it at most once, whatever is reported, and an iteration over it ends.

use super::Client;
use super::share::{MIN_PROGRESS, STALL_TIME};
use anabranch_base::time::Instant;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The key of one session's record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SlotKey {
    /// The number of the record, counting all records ever made. It is unique.
    generation: u64,
    /// The index of the record. Among sessions that are equally slow, the one with the lowest index is preferred.
    pub(super) index: u32,
}

/// The records of a server's sessions.
#[derive(Debug, Default)]
pub(super) struct WaitOrder(RefCell<Records>);

#[derive(Debug, Default)]
struct Records {
    /// Records by index; an index can be reused.
    records: Vec<Option<Record>>,
    /// Unused indices.
    free: Vec<u32>,
    /// Sessions that wait for a request, by [`State::Waiting`]: the one that has waited longest is first.
    waiting: BTreeMap<u64, SlotKey>,
    /// The next generation, and the next sequence number in `waiting`.
    sequence: u64,
}

#[derive(Debug)]
struct Record {
    generation: u64,
    client: Client,
    state: State,
    /// Bytes transferred in both directions.
    carried: u64,
    /// Exchanges whose next step is the server's.
    server_turns: u32,
    /// The progress at some time, since which it has grown by less than [`MIN_PROGRESS`].
    mark: Option<(u64, Instant)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Waits for a request, with this key in [`Records::waiting`].
    Waiting(u64),
    /// Has a request in progress.
    Busy,
    /// Was ended for a new session.
    Preempted,
}

impl Record {
    fn is_stalled(&self, now: Instant) -> bool {
        self.server_turns == 0 && self.mark.is_some_and(|(_, since)| since + STALL_TIME <= now)
    }
}

impl Records {
    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn get(&self, key: SlotKey) -> Option<&Record> {
        let record = self.records.get(key.index as usize)?.as_ref();
        record.filter(|record| record.generation == key.generation)
    }

    fn get_mut(&mut self, key: SlotKey) -> Option<&mut Record> {
        let record = self.records.get_mut(key.index as usize)?.as_mut();
        record.filter(|record| record.generation == key.generation)
    }

    /// Returns the records that were not preempted, and their keys.
    fn present(&self) -> impl Iterator<Item = (&Record, SlotKey)> {
        self.records.iter().zip(0..).filter_map(|(record, index)| {
            let record = record.as_ref().filter(|record| record.state != State::Preempted)?;
            Some((record, SlotKey { generation: record.generation, index }))
        })
    }

    /// Changes the record's state to one other than [`State::Waiting`], and removes it from the order.
    fn leave(&mut self, key: SlotKey, state: State) {
        let Some(record) = self.get_mut(key) else { return };
        let before = std::mem::replace(&mut record.state, state);
        if let State::Waiting(place) = before {
            self.waiting.remove(&place);
        }
    }

    /// Moves a busy record to the end of the order.
    fn wait(&mut self, key: SlotKey) {
        let place = self.next_sequence();
        let Some(record) = self.get_mut(key).filter(|record| record.state == State::Busy) else { return };
        record.state = State::Waiting(place);
        self.waiting.insert(place, key);
    }
}

impl WaitOrder {
    /// Adds a record for a session of `client`, which waits for a request.
    pub(super) fn join(&self, client: Client) -> SlotKey {
        let mut all = self.0.borrow_mut();
        let index = all.free.pop().unwrap_or_else(|| {
            all.records.push(None);
            all.records.len() as u32 - 1
        });
        let key = SlotKey { generation: all.next_sequence(), index };
        let record = Record {
            generation: key.generation,
            client,
            state: State::Busy,
            carried: 0,
            server_turns: 0,
            mark: None,
        };
        all.records[index as usize] = Some(record);
        all.wait(key);
        key
    }

    /// Removes a record. Its key is invalid from then on.
    pub(super) fn remove(&self, key: SlotKey) {
        let mut all = self.0.borrow_mut();
        if all.get(key).is_some() {
            all.leave(key, State::Busy);
            all.records[key.index as usize] = None;
            all.free.push(key.index);
        }
    }

    /// Records that the session has a request in progress. If it had none before, its progress is measured from now on. A
    /// further request does not count as progress of earlier ones.
    pub(super) fn set_busy(&self, key: SlotKey) {
        let mut all = self.0.borrow_mut();
        if let Some(record) = all.get_mut(key)
            && matches!(record.state, State::Waiting(_))
        {
            record.mark = None;
            all.leave(key, State::Busy);
        }
    }

    /// Records that the session has no request in progress. If it had one, it moves to the end of the order.
    pub(super) fn set_waiting(&self, key: SlotKey) {
        self.0.borrow_mut().wait(key);
    }

    /// Moves a waiting session to the end of the order.
    pub(super) fn wait_anew(&self, key: SlotKey) {
        let mut all = self.0.borrow_mut();
        if all.get(key).is_some_and(|record| matches!(record.state, State::Waiting(_))) {
            all.leave(key, State::Busy);
            all.wait(key);
        }
    }

    /// Records that the session was ended for a new one, which removes it from the order.
    pub(super) fn preempt(&self, key: SlotKey) {
        self.0.borrow_mut().leave(key, State::Preempted);
    }

    /// Counts bytes transferred.
    pub(super) fn add_bytes(&self, key: SlotKey, bytes: usize) {
        if let Some(record) = self.0.borrow_mut().get_mut(key) {
            record.carried += bytes as u64;
        }
    }

    /// Returns the bytes transferred, without the `left` bytes that the client has not acknowledged.
    pub(super) fn progress(&self, key: SlotKey, left: u64) -> u64 {
        self.0.borrow().get(key).map_or(0, |record| record.carried.saturating_sub(left))
    }

    /// Records one more exchange whose next step is the server's.
    pub(super) fn begin_server_turn(&self, key: SlotKey) {
        if let Some(record) = self.0.borrow_mut().get_mut(key) {
            record.server_turns += 1;
        }
    }

    /// Records one exchange fewer whose next step is the server's.
    pub(super) fn end_server_turn(&self, key: SlotKey) {
        if let Some(record) = self.0.borrow_mut().get_mut(key) {
            record.server_turns = record.server_turns.saturating_sub(1);
        }
    }

    /// Records the progress of a session whose client has not acknowledged `left` bytes.
    pub(super) fn note(&self, key: SlotKey, left: u64, now: Instant) {
        let mut all = self.0.borrow_mut();
        let Some(record) = all.get_mut(key) else { return };
        let far = record.carried.saturating_sub(left);
        if record.server_turns > 0 || record.mark.is_none_or(|(mark, _)| far >= mark + MIN_PROGRESS) {
            record.mark = Some((far, now));
        }
    }

    /// Discards the recorded progress of all sessions.
    pub(super) fn forget_progress(&self) {
        self.0.borrow_mut().records.iter_mut().flatten().for_each(|record| record.mark = None);
    }

    /// Returns whether the client of a session has stalled it for [`STALL_TIME`].
    pub(super) fn is_stalled(&self, key: SlotKey, now: Instant) -> bool {
        self.0.borrow().get(key).is_some_and(|record| record.is_stalled(now))
    }

    /// Returns the session that has waited longest.
    pub(super) fn first(&self) -> Option<SlotKey> {
        self.0.borrow().waiting.first_key_value().map(|(_, key)| *key)
    }

    /// Returns the waiting sessions of the given clients, longest first, at most `most`.
    pub(super) fn waiting(&self, clients: &dyn Fn(Client) -> bool, most: usize) -> Vec<SlotKey> {
        let all = self.0.borrow();
        let of_clients = |key: &SlotKey| all.get(*key).is_some_and(|record| clients(record.client));
        all.waiting.values().copied().filter(of_clients).take(most).collect()
    }

    /// Returns the session of the given clients without progress for longest. Sessions whose next step is the server's come
    /// last.
    pub(super) fn slowest(&self, now: Instant, clients: &dyn Fn(Client) -> bool) -> Option<SlotKey> {
        let all = self.0.borrow();
        let theirs = all.present().filter(|(record, _)| clients(record.client));
        let since = |record: &Record| record.mark.map_or(now, |(_, since)| since);
        let slowest = theirs.min_by_key(|(record, _)| (record.server_turns > 0, since(record)));
        slowest.map(|(_, key)| key)
    }

    /// Returns the session of the given clients that has been stalled longest, for at least [`STALL_TIME`].
    pub(super) fn longest_stalled(&self, now: Instant, clients: &dyn Fn(Client) -> bool) -> Option<SlotKey> {
        let all = self.0.borrow();
        let stalled = all.present().filter(|(record, _)| record.is_stalled(now) && clients(record.client));
        stalled.min_by_key(|(record, _)| record.mark.map(|(_, since)| since)).map(|(_, key)| key)
    }
}
