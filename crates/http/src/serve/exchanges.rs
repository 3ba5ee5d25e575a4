//! The exchanges of one stream: how many, where their answers begin, and what of them waits for the transport.
//!
//! What has been read of a file and the transport has not taken is memory beside the transport's buffers. A session may
//! have [`MAX_HELD`] of it for all its streams, less where there is a budget for all and others hold much; beyond that, each stream with an answer has [`MIN_PIECE`], without which it
//! would stand still.

use super::Activity;
use crate::fetch::pipeline::first_after;
use crate::head::Refusal;
use crate::observe::ExchangeId;
use anabranch_transport::Stream;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The exchanges of one stream.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) connection: u64,
    pub(super) stream: u64,
    pub(super) next: Cell<u32>,
    /// Where the next answer begins on the stream towards the client.
    pub(super) end: Cell<u64>,
    /// How far the transport has taken what is written there.
    pub(super) taken: Cell<u64>,
    /// Answers of which no byte has been given to the transport yet.
    pub(super) unwritten: RefCell<VecDeque<(ExchangeId, u64)>>,
    /// How often the client has reset the stream.
    resets: Cell<u64>,
    /// Requests whose answer hyper has not taken whole.
    answering: Cell<u32>,
    /// There was one, and its answer is not written.
    under_way: Cell<bool>,
    /// The latest request had no body, and was answered: hyper holds nothing of it any more when nothing is under way.
    pub(super) plain: Cell<bool>,
    /// Bytes of answers that hyper has and the transport has not.
    held: Cell<usize>,
    /// What an answer that is about to be written asks of the transport's order.
    pub(super) rank: Cell<Option<u32>>,
    /// Why the last head on the stream was refused, until it is answered.
    pub(super) refusal: RefCell<Option<Refusal>>,
    /// An answer that may not go on before the transport has taken some of them.
    waiting: RefCell<Option<Waker>>,
}

impl Log {
    /// The log of this stream, begun if there is none.
    pub(super) fn of(logs: &mut BTreeMap<u64, Rc<Self>>, connection: u64, stream: &impl Stream) -> Rc<Self> {
        let number = stream.number();
        let resets = stream.bytes_read() >> 32;
        let log = logs.entry(number).or_insert_with(|| {
            Rc::new(Self {
                connection,
                stream: number,
                next: Cell::new(0),
                end: Cell::default(),
                taken: Cell::default(),
                unwritten: RefCell::default(),
                resets: Cell::new(0),
                answering: Cell::new(0),
                under_way: Cell::new(false),
                plain: Cell::new(false),
                held: Cell::new(0),
                rank: Cell::new(None),
                refusal: RefCell::default(),
                waiting: RefCell::default(),
            })
        });
        // A reset cancels what was under way: numbers do not count on.
        if log.resets.replace(resets) != resets {
            log.next.set(first_after(resets));
        }
        log.end.set(stream.bytes_written());
        log.taken.set(stream.bytes_written());
        log.unwritten.borrow_mut().clear();
        log.clone()
    }

    /// A request has been answered whole since this was last asked, and what comes next begins anew.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.under_way.get() && self.plain.replace(false)
    }

    /// There is a request whose answer is not written.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.get()
    }

    /// What hyper had of answers is written: nothing is under way, unless there is more of one.
    pub(super) fn flushed(&self, activity: &Activity) {
        if self.answering.get() == 0 && self.under_way.replace(false) {
            activity.done();
        }
    }

    /// Nothing is under way any more, and nothing held.
    pub(super) fn over(&self, activity: &Activity) {
        self.release(activity, usize::MAX);
        if self.under_way.replace(false) {
            activity.done();
        }
    }

    /// hyper has so many bytes more.
    pub(super) fn hold(&self, activity: &Activity, bytes: usize) {
        self.held.set(self.held.get() + bytes);
        activity.held.set(activity.held.get() + bytes);
        activity.memory.hold(bytes);
    }

    /// The transport has taken so many. What hyper itself has answered was not counted.
    pub(super) fn release(&self, activity: &Activity, bytes: usize) {
        let bytes = bytes.min(self.held.get());
        self.held.set(self.held.get() - bytes);
        activity.held.set(activity.held.get() - bytes);
        activity.memory.release(bytes);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

/// A request's answer is not taken whole, as long as this lives.
#[derive(Debug)]
pub(super) struct Answering {
    log: Rc<Log>,
    activity: Rc<Activity>,
}

impl Answering {
    pub(super) fn begin(log: &Rc<Log>, activity: &Rc<Activity>) -> Self {
        log.answering.set(log.answering.get() + 1);
        if !log.under_way.replace(true) {
            activity.begin();
        }
        // What has come of the next head, if anything, is not waited for.
        activity.head_ends(log.stream);
        Self { log: log.clone(), activity: activity.clone() }
    }

    /// How many bytes of the answer may be read next.
    pub(super) fn poll_room(&self, cx: &Context<'_>, most: usize) -> Poll<usize> {
        let room = MAX_HELD.saturating_sub(self.activity.held.get());
        if room < MIN_PIECE && self.log.held.get() > 0 {
            *self.log.waiting.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(self.activity.memory.piece(room.clamp(MIN_PIECE, most)))
    }

    /// So many have been read.
    pub(super) fn hold(&self, bytes: usize) {
        self.log.hold(&self.activity, bytes);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.log.answering.set(self.log.answering.get() - 1);
    }
}

/// Of files: what a session holds beside the transport's buffers, in all its streams. One answer alone never has more.
const MAX_HELD: usize = 128 * 1024;
/// What an answer may have where there is no room.
const MIN_PIECE: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeStream, activity};
    use super::*;
    use anabranch_base::Budget;

    fn log() -> Rc<Log> {
        Log::of(&mut BTreeMap::new(), 1, &FakeStream::default())
    }

    #[test]
    fn a_stream_is_at_rest_once_after_an_answered_request_without_content() {
        for (under_way, plain, rests) in
            [(false, false, false), (true, false, false), (true, true, false), (false, true, true)]
        {
            let log = log();
            log.under_way.set(under_way);
            log.plain.set(plain);
            assert_eq!(log.is_at_rest(), rests, "{under_way} {plain}");
            assert!(!rests || !log.is_at_rest(), "it was asked before");
        }
    }

    #[test]
    fn what_is_held_of_answers_is_counted_for_stream_session_and_budget() {
        let budget = Budget::new(4 << 20, 10);
        let before = budget.room();
        let (log, activity) = (log(), activity(&budget));
        let held = || (log.held.get(), activity.held.get());
        log.hold(&activity, 300 << 10);
        assert_eq!(held(), (300 << 10, 300 << 10));
        assert!(budget.room() < before);
        log.release(&activity, 100 << 10);
        assert_eq!(held(), (200 << 10, 200 << 10));
        log.over(&activity);
        assert_eq!((held(), budget.room()), ((0, 0), before));
    }
}
