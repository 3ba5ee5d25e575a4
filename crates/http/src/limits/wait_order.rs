//! Keeps a record of each session that holds a slot, and the order in which the sessions began to wait for their next
//! request.
//!
//! A record is identified by a key that is never reused. A task of a session may outlive the session's record, because
//! executors may drop cancelled tasks late. What such a task reports has no effect, because its record is gone. The
//! order is a map from sequence numbers to sessions, and a session has at most one sequence number at a time. Therefore
//! each session is in the order at most once, and an iteration over the order always ends.

use super::Client;
use super::share::{MIN_PROGRESS, STALL_TIME};
use anabranch_base::time::Instant;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The key of one session's record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SlotKey {
    /// The sequence number of the record among all records ever created. It is unique.
    generation: u64,
    /// The index of the record in the list of records. Among sessions that are equally slow, the session with the
    /// lowest index is ended first.
    pub(super) index: u32,
}

/// A record of each session that holds a slot of a server, and the order in which the sessions began to wait.
#[derive(Debug, Default)]
pub(super) struct WaitOrder(RefCell<Records>);

#[derive(Debug, Default)]
struct Records {
    /// The records by index. An index can be reused.
    records: Vec<Option<Record>>,
    /// The indices that are not in use.
    free: Vec<u32>,
    /// The sessions without a request in progress. The keys are the sequence numbers in [`State::Waiting`], so the
    /// session that has waited longest is first.
    waiting: BTreeMap<u64, SlotKey>,
    /// A counter. It numbers each new record (its generation), and each session that begins to wait (its place in the
    /// order).
    sequence: u64,
}

#[derive(Debug)]
struct Record {
    generation: u64,
    client: Client,
    state: State,
    /// The number of bytes transferred in both directions.
    transferred: u64,
    /// The number of exchanges that wait for the server, not for the client. While there are any, the session does not
    /// count as stalled.
    server_turns: u32,
    /// The progress in bytes at some time, and that time. Since then, the progress has grown by less than
    /// [`MIN_PROGRESS`]. `None` if no progress is recorded.
    mark: Option<(u64, Instant)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The session waits for a request. It has this key in [`Records::waiting`].
    Waiting(u64),
    /// The session has a request in progress.
    Busy,
    /// The session was ended to free its slot for a new session.
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

    /// Returns the records of sessions that were not preempted, and their keys.
    fn present(&self) -> impl Iterator<Item = (&Record, SlotKey)> {
        self.records.iter().zip(0..).filter_map(|(record, index)| {
            let record = record.as_ref().filter(|record| record.state != State::Preempted)?;
            Some((record, SlotKey { generation: record.generation, index }))
        })
    }

    /// Changes the state of a record to `state`, which is not [`State::Waiting`], and removes the session from the
    /// order of waiting sessions.
    fn leave(&mut self, key: SlotKey, state: State) {
        let Some(record) = self.get_mut(key) else { return };
        let before = std::mem::replace(&mut record.state, state);
        if let State::Waiting(sequence) = before {
            self.waiting.remove(&sequence);
        }
    }

    /// If the session is busy, marks it as waiting for a request and appends it to `waiting`.
    fn wait(&mut self, key: SlotKey) {
        let sequence = self.next_sequence();
        let Some(record) = self.get_mut(key).filter(|record| record.state == State::Busy) else { return };
        record.state = State::Waiting(sequence);
        self.waiting.insert(sequence, key);
    }
}

impl WaitOrder {
    /// Adds a record for a session of `client`. The session has no request in progress, so it is appended to the order
    /// of waiting sessions.
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
            transferred: 0,
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

    /// Records that the session has a request in progress. If it had no request before, its progress is measured from
    /// now on. A further request does not count as progress of earlier requests.
    pub(super) fn set_busy(&self, key: SlotKey) {
        let mut all = self.0.borrow_mut();
        if let Some(record) = all.get_mut(key)
            && matches!(record.state, State::Waiting(_))
        {
            record.mark = None;
            all.leave(key, State::Busy);
        }
    }

    /// Records that the session has no request in progress. If it had a request before, it moves to the end of the
    /// order of waiting sessions.
    pub(super) fn set_waiting(&self, key: SlotKey) {
        self.0.borrow_mut().wait(key);
    }

    /// Moves a waiting session to the end of the order of waiting sessions.
    pub(super) fn wait_anew(&self, key: SlotKey) {
        let mut all = self.0.borrow_mut();
        if all.get(key).is_some_and(|record| matches!(record.state, State::Waiting(_))) {
            all.leave(key, State::Busy);
            all.wait(key);
        }
    }

    /// Records that the session was ended for a new session. The session is removed from the order of waiting sessions.
    pub(super) fn preempt(&self, key: SlotKey) {
        self.0.borrow_mut().leave(key, State::Preempted);
    }

    /// Counts `bytes` transferred bytes.
    pub(super) fn add_bytes(&self, key: SlotKey, bytes: usize) {
        if let Some(record) = self.0.borrow_mut().get_mut(key) {
            record.transferred += bytes as u64;
        }
    }

    /// Returns the number of bytes transferred, without the `left` bytes that the client has not acknowledged.
    pub(super) fn progress(&self, key: SlotKey, left: u64) -> u64 {
        self.0.borrow().get(key).map_or(0, |record| record.transferred.saturating_sub(left))
    }

    /// Records that one more exchange of the session waits for the server, not for the client.
    pub(super) fn begin_server_turn(&self, key: SlotKey) {
        if let Some(record) = self.0.borrow_mut().get_mut(key) {
            record.server_turns += 1;
        }
    }

    /// Records that one exchange of the session no longer waits for the server.
    pub(super) fn end_server_turn(&self, key: SlotKey) {
        if let Some(record) = self.0.borrow_mut().get_mut(key) {
            record.server_turns = record.server_turns.saturating_sub(1);
        }
    }

    /// Records the progress of a session. `left` is the number of bytes sent to the session's client and not yet
    /// acknowledged.
    pub(super) fn note(&self, key: SlotKey, left: u64, now: Instant) {
        let mut all = self.0.borrow_mut();
        let Some(record) = all.get_mut(key) else { return };
        let acknowledged = record.transferred.saturating_sub(left);
        if record.server_turns > 0 || record.mark.is_none_or(|(mark, _)| acknowledged >= mark + MIN_PROGRESS)
        {
            record.mark = Some((acknowledged, now));
        }
    }

    /// Discards the recorded progress of all sessions.
    pub(super) fn forget_progress(&self) {
        self.0.borrow_mut().records.iter_mut().flatten().for_each(|record| record.mark = None);
    }

    /// Returns whether the client has stalled the session for [`STALL_TIME`].
    pub(super) fn is_stalled(&self, key: SlotKey, now: Instant) -> bool {
        self.0.borrow().get(key).is_some_and(|record| record.is_stalled(now))
    }

    /// Returns the session that has waited longest for a request, if any waits.
    pub(super) fn first(&self) -> Option<SlotKey> {
        self.0.borrow().waiting.first_key_value().map(|(_, key)| *key)
    }

    /// Returns at most `most` waiting sessions of the given clients. The session that has waited longest is first.
    pub(super) fn waiting(&self, clients: &dyn Fn(Client) -> bool, most: usize) -> Vec<SlotKey> {
        let all = self.0.borrow();
        let of_clients = |key: &SlotKey| all.get(*key).is_some_and(|record| clients(record.client));
        all.waiting.values().copied().filter(of_clients).take(most).collect()
    }

    /// Among the sessions of the given clients, returns the session that has made no progress for longest. Sessions
    /// that wait for the server come last.
    pub(super) fn slowest(&self, now: Instant, clients: &dyn Fn(Client) -> bool) -> Option<SlotKey> {
        let all = self.0.borrow();
        let candidates = all.present().filter(|(record, _)| clients(record.client));
        let since = |record: &Record| record.mark.map_or(now, |(_, since)| since);
        let slowest = candidates.min_by_key(|(record, _)| (record.server_turns > 0, since(record)));
        slowest.map(|(_, key)| key)
    }

    /// Among the sessions of the given clients, returns the session that has been stalled longest. Returns `None` if no
    /// session was stalled for [`STALL_TIME`].
    pub(super) fn longest_stalled(&self, now: Instant, clients: &dyn Fn(Client) -> bool) -> Option<SlotKey> {
        let all = self.0.borrow();
        let stalled = all.present().filter(|(record, _)| record.is_stalled(now) && clients(record.client));
        stalled.min_by_key(|(record, _)| record.mark.map(|(_, since)| since)).map(|(_, key)| key)
    }
}
