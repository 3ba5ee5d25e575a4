//! The exchanges of one stream: their numbers, the positions of their responses, and the bytes that wait for the
//! transport.
//!
//! Bytes that were read from a file and not yet accepted by the transport occupy memory in addition to the transport's
//! buffers. A session may hold [`MAX_HELD`] such bytes on all its streams, or fewer if the common memory budget is
//! nearly used up. Beyond that limit, each stream with a response may hold [`MIN_PIECE`] bytes, because it would
//! otherwise make no progress.

use super::Activity;
use super::unread_body::UnreadBody;
use crate::fetch::pipeline::first_after;
use crate::head::Refusal;
use crate::observe::ExchangeId;
use anabranch_base::time::Instant;
use anabranch_transport::Stream;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The state of the exchanges of one stream.
#[derive(Debug)]
pub(super) struct StreamExchanges {
    pub(super) connection: u64,
    pub(super) stream: u64,
    pub(super) next: Cell<u32>,
    /// The position at which the latest response ends and the next one begins, in bytes from the start of the stream to
    /// the client.
    pub(super) end: Cell<u64>,
    /// The number of bytes that the transport has accepted so far, from the start of the stream to the client.
    pub(super) accepted: Cell<u64>,
    /// The responses of which no byte has been passed to the transport yet.
    pub(super) unwritten: RefCell<VecDeque<(ExchangeId, u64)>>,
    /// The number of times that the client has reset the stream.
    resets: Cell<u64>,
    /// The number of requests whose responses hyper has not taken completely.
    unfinished_responses: Cell<u32>,
    /// True from the receipt of a request until its response has been written completely.
    is_request_in_progress: Cell<bool>,
    /// Whether the latest request, not its response, had no body. If this is true and no request is in progress, hyper
    /// holds no data.
    pub(super) answered_without_content: Cell<bool>,
    /// The body of the latest request, until its rest has been read and discarded.
    pub(super) unread_body: RefCell<Option<UnreadBody>>,
    /// The number of response bytes in hyper's buffers that the transport has not accepted yet.
    buffered: Cell<usize>,
    /// The rank that the stream gets in the transport when the next response is written. The transport sends data of a
    /// lower rank first.
    pub(super) rank: Cell<Option<u32>>,
    /// The reason why the last head on the stream was refused; `None` once the refusal was sent.
    pub(super) refusal: RefCell<Option<Refusal>>,
    /// The waker of a response that waits until the transport has accepted some of the bytes in hyper's buffers.
    waiting: RefCell<Option<Waker>>,
}

impl StreamExchanges {
    /// Returns the exchanges of `stream`. Creates their state if there is none.
    pub(super) fn of(
        exchanges_by_stream: &mut BTreeMap<u64, Rc<Self>>,
        connection: u64,
        stream: &impl Stream,
    ) -> Rc<Self> {
        let number = stream.number();
        let resets = stream.bytes_read() >> 32;
        let exchanges = exchanges_by_stream.entry(number).or_insert_with(|| {
            Rc::new(Self {
                connection,
                stream: number,
                next: Cell::new(0),
                end: Cell::default(),
                accepted: Cell::default(),
                unwritten: RefCell::default(),
                resets: Cell::new(0),
                unfinished_responses: Cell::new(0),
                is_request_in_progress: Cell::new(false),
                answered_without_content: Cell::new(false),
                unread_body: RefCell::default(),
                buffered: Cell::new(0),
                rank: Cell::new(None),
                refusal: RefCell::default(),
                waiting: RefCell::default(),
            })
        });
        // A reset cancels the exchanges in progress, and begins a new range of exchange numbers (see `first_after`).
        if exchanges.resets.replace(resets) != resets {
            exchanges.next.set(first_after(resets));
        }
        exchanges.end.set(stream.bytes_written());
        exchanges.accepted.set(stream.bytes_written());
        exchanges.unwritten.borrow_mut().clear();
        exchanges.unread_body.take();
        exchanges.clone()
    }

    /// Returns true if hyper holds no data: no request is in progress, and the latest request had no body. Returns true
    /// only once after each request.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.is_request_in_progress.get() && self.answered_without_content.replace(false)
    }

    /// Discards the data that has arrived of a request body whose response was sent. Returns true if the rest of the body
    /// is given up, because the server is stopping or the body has lasted too long.
    pub(super) fn gives_up_body(&self, cx: &mut Context<'_>, now: Instant, stopping: bool) -> bool {
        let mut unread = self.unread_body.borrow_mut();
        let Some(body) = &mut *unread else { return false };
        if !stopping && body.poll(cx, now).is_pending() {
            return false;
        }
        let is_complete = body.is_complete();
        *unread = None;
        !is_complete
    }

    /// Returns whether a request is in progress, which means that its response is not completely written.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_request_in_progress.get()
    }

    /// Records that hyper has no more buffered response bytes. If hyper has also taken every response completely, no
    /// request is in progress any more.
    pub(super) fn flushed(&self, activity: &Activity) {
        if self.unfinished_responses.get() == 0 && self.is_request_in_progress.replace(false) {
            activity.done();
        }
    }

    /// Records that no request is in progress any more, and releases all held bytes.
    pub(super) fn end_all(&self, activity: &Activity) {
        self.release(activity, usize::MAX);
        if self.is_request_in_progress.replace(false) {
            activity.done();
        }
    }

    /// Records that hyper's buffers hold `bytes` more bytes of responses.
    pub(super) fn hold(&self, activity: &Activity, bytes: usize) {
        self.buffered.set(self.buffered.get() + bytes);
        activity.buffered.set(activity.buffered.get() + bytes);
        activity.memory.hold(bytes);
    }

    /// Records that the transport has accepted `bytes` bytes. Bytes of responses that hyper generated itself were never
    /// counted, so `bytes` may exceed the count.
    pub(super) fn release(&self, activity: &Activity, bytes: usize) {
        let bytes = bytes.min(self.buffered.get());
        self.buffered.set(self.buffered.get() - bytes);
        activity.buffered.set(activity.buffered.get() - bytes);
        activity.memory.release(bytes);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

/// A guard for a response in progress. It is dropped when hyper has taken the whole response.
#[derive(Debug)]
pub(super) struct Answering {
    exchanges: Rc<StreamExchanges>,
    activity: Rc<Activity>,
}

impl Answering {
    pub(super) fn begin(exchanges: &Rc<StreamExchanges>, activity: &Rc<Activity>) -> Self {
        exchanges.unfinished_responses.set(exchanges.unfinished_responses.get() + 1);
        if !exchanges.is_request_in_progress.replace(true) {
            activity.begin();
        }
        // Even if a part of the next head has arrived, the head timeout does not run while this response is sent.
        activity.head_ends(exchanges.stream);
        Self { exchanges: exchanges.clone(), activity: activity.clone() }
    }

    /// Waits until more of the response may be buffered. Returns how many bytes may be read next from the response's
    /// source, at most `most`.
    pub(super) fn poll_room(&self, cx: &Context<'_>, most: usize) -> Poll<usize> {
        let room = MAX_HELD.saturating_sub(self.activity.buffered.get());
        if room < MIN_PIECE && self.exchanges.buffered.get() > 0 {
            *self.exchanges.waiting.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(self.activity.memory.piece(room.clamp(MIN_PIECE, most)))
    }

    /// Records that `bytes` bytes of the response were read.
    pub(super) fn hold(&self, bytes: usize) {
        self.exchanges.hold(&self.activity, bytes);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.exchanges.unfinished_responses.set(self.exchanges.unfinished_responses.get() - 1);
    }
}

/// The maximum number of file bytes that a session holds in addition to the transport's buffers, as the sum over its
/// streams. One response may use the whole limit.
const MAX_HELD: usize = 128 * 1024;
/// The number of bytes that a response may hold even if the session has reached [`MAX_HELD`].
const MIN_PIECE: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeStream, activity};
    use super::*;
    use anabranch_base::Budget;

    fn stream_exchanges() -> Rc<StreamExchanges> {
        StreamExchanges::of(&mut BTreeMap::new(), 1, &FakeStream::default())
    }

    #[test]
    fn a_stream_is_at_rest_once_after_an_answered_request_without_content() {
        for (under_way, answered_without_content, rests) in
            [(false, false, false), (true, false, false), (true, true, false), (false, true, true)]
        {
            let exchanges = stream_exchanges();
            exchanges.is_request_in_progress.set(under_way);
            exchanges.answered_without_content.set(answered_without_content);
            assert_eq!(exchanges.is_at_rest(), rests, "{under_way} {answered_without_content}");
            assert!(!rests || !exchanges.is_at_rest(), "it was asked before");
        }
    }

    #[test]
    fn held_response_bytes_count_for_stream_session_and_budget() {
        let budget = Budget::new(4 << 20, 10);
        let before = budget.room();
        let (exchanges, activity) = (stream_exchanges(), activity(&budget));
        let buffered = || (exchanges.buffered.get(), activity.buffered.get());
        exchanges.hold(&activity, 300 << 10);
        assert_eq!(buffered(), (300 << 10, 300 << 10));
        assert!(budget.room() < before);
        exchanges.release(&activity, 100 << 10);
        assert_eq!(buffered(), (200 << 10, 200 << 10));
        exchanges.end_all(&activity);
        assert_eq!((buffered(), budget.room()), ((0, 0), before));
    }
}
