//! Chooses the message from which the next chunk is cut.
//!
//! Without interleaving, a message that has been started is finished first, because its fragments must have
//! consecutive TSNs. With interleaving, each chunk may come from another stream. Within a stream, messages are always
//! sent one after the other. A heap holds the streams with waiting messages, by the rank that the scheduler gives
//! them. Idle streams are not in the heap and cost nothing.
//!
//! Implements RFC 8260 §3.

use crate::config::SchedulerKind;
use crate::streams::Streams;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// The number of messages ahead of a message in the queue at which this message is prefetched into the CPU cache.
const SOON: usize = 8;

/// The messages that wait to be sent. Each message is identified by its index in the queue.
#[derive(Debug)]
pub(crate) struct Scheduler {
    kind: SchedulerKind,
    interleaving: bool,
    /// Priority or weight of each stream for which the application set one.
    values: BTreeMap<u16, u16>,
    order: Order,
}

#[derive(Debug)]
enum Order {
    /// All messages in the order of the calls of `send`.
    Fcfs(VecDeque<u32>),
    /// Streams are served in turn.
    Turns(Box<TurnOrder>),
}

/// The streams with waiting messages, in the order in which they are served.
#[derive(Debug)]
struct TurnOrder {
    queues: Streams<StreamQueue>,
    /// Streams with waiting messages, except the stream that is being served.
    ready: BinaryHeap<Reverse<HeapEntry>>,
    /// The stream that is being served, until its message or the packet ends.
    served: Option<u16>,
    /// Whether some, but not all, chunks of the served stream's first message were cut.
    is_partly_cut: bool,
    /// Whether the served stream has ended a large message in the current packet. If so, no more chunks are added to
    /// the packet.
    used_its_turn: bool,
    /// The number of entries added to `ready` so far. Each new entry stores this number, so that entries with equal
    /// ranks are served in the order in which they were added.
    turns: u64,
    /// The number of messages queued so far.
    arrivals: u64,
    /// Virtual time of fair queueing: the virtual start time of the latest chunk. In virtual time, sending a chunk
    /// takes its size in bytes divided by the weight of its stream.
    now: u64,
}

/// A stream in the heap. The smallest entry is served next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct HeapEntry {
    rank: u64,
    number: u64,
    stream: u16,
}

#[derive(Debug, Default)]
struct StreamQueue {
    /// The waiting messages of the stream. Each entry holds the position of the message among all `send` calls, and the
    /// index of the message in the send queue.
    waiting: VecDeque<(u64, u32)>,
    /// The priority or the weight of the stream.
    value: u16,
    /// The virtual time up to which the stream has used its share.
    virtual_time: u64,
}

impl Scheduler {
    pub(crate) fn new(kind: SchedulerKind) -> Self {
        Self { kind, interleaving: false, values: BTreeMap::new(), order: Order::new(kind) }
    }

    /// Takes over the settings of `before`, the scheduler before a restart of the association.
    pub(crate) fn inherit(&mut self, before: &mut Self) {
        self.kind = before.kind;
        self.order = Order::new(before.kind);
        self.values = std::mem::take(&mut before.values);
    }

    /// Sets whether chunks of several messages may be interleaved.
    pub(crate) fn set_interleaving(&mut self, on: bool) {
        self.interleaving = on;
    }

    /// Changes the kind of scheduler. `is_partly_cut` says whether a chunk was already cut from the message that is
    /// served now. `stream_of` returns the stream of a message.
    pub(crate) fn set_kind(
        &mut self,
        kind: SchedulerKind,
        is_partly_cut: bool,
        stream_of: impl Fn(u32) -> u16,
    ) {
        // Without interleaving, a message of which a chunk was already cut must be completed before all others.
        let first = self.head().filter(|_| is_partly_cut && !self.interleaving);
        let waiting = match &mut self.order {
            Order::Fcfs(queue) => std::mem::take(queue).into(),
            Order::Turns(turns) => turns.drain(),
        };
        self.kind = kind;
        self.order = Order::new(kind);
        if let Some(message) = first {
            self.push(stream_of(message), message);
            if let Order::Turns(turns) = &mut self.order {
                turns.ready.clear();
                turns.served = Some(stream_of(message));
                turns.is_partly_cut = true;
            }
        }
        for message in waiting.into_iter().filter(|&message| Some(message) != first) {
            self.push(stream_of(message), message);
        }
    }

    /// Sets the priority or the weight of a stream. Priority 0 is the highest; weight 0 counts as 1.
    pub(crate) fn set_value(&mut self, stream: u16, value: u16) {
        self.values.insert(stream, value);
        if let Order::Turns(turns) = &mut self.order
            && let Some(slot) = turns.queues.find(stream)
        {
            turns.queues.at(slot).value = value;
            if self.kind == SchedulerKind::Priority {
                // The new value may change the rank of the stream, so the heap is rebuilt.
                let rank = |turn: HeapEntry| if turn.stream == stream { value.into() } else { turn.rank };
                let ready = std::mem::take(&mut turns.ready).into_vec().into_iter();
                turns.ready =
                    ready.map(|Reverse(turn)| Reverse(HeapEntry { rank: rank(turn), ..turn })).collect();
            }
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, stream: u16, message: u32) {
        match &mut self.order {
            Order::Fcfs(queue) => queue.push_back(message),
            Order::Turns(turns) => turns.push(self.kind, &self.values, stream, message),
        }
    }

    /// Returns the message from which the next chunk is cut.
    #[inline]
    pub(crate) fn head(&self) -> Option<u32> {
        match &self.order {
            Order::Fcfs(queue) => queue.front().copied(),
            Order::Turns(turns) => turns.head(),
        }
    }

    /// Returns the message that is `SOON` messages behind the front of the queue. Returns `None` if the queue is
    /// shorter, or if its order is not that of [`SchedulerKind::Fcfs`].
    #[inline]
    pub(crate) fn soon(&self) -> Option<u32> {
        match &self.order {
            Order::Fcfs(queue) => queue.get(SOON).copied(),
            Order::Turns(_) => None,
        }
    }

    /// Removes an abandoned message, unsent or partly sent.
    #[cold]
    pub(crate) fn remove(&mut self, stream: u16, message: u32) {
        match &mut self.order {
            Order::Fcfs(queue) => {
                if let Some(at) = queue.iter().position(|&other| other == message) {
                    queue.remove(at);
                }
            }
            Order::Turns(turns) => turns.remove(self.kind, stream, message),
        }
    }

    /// Records that a chunk was cut from the message that is served now. The chunk has `bytes` user bytes. `done` says
    /// whether these were the last bytes of the message.
    #[inline]
    pub(crate) fn cut(&mut self, bytes: u32, done: bool) {
        match &mut self.order {
            Order::Fcfs(queue) => {
                if done {
                    queue.pop_front();
                }
            }
            Order::Turns(turns) => turns.cut(self.kind, self.interleaving, bytes, done),
        }
    }

    /// Records that a packet with new chunks is complete.
    #[inline]
    pub(crate) fn packet_done(&mut self) {
        if let Order::Turns(turns) = &mut self.order {
            turns.packet_done(self.kind, self.interleaving);
        }
    }

    /// Keeps only the messages for which `keep` returns true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        match &mut self.order {
            Order::Fcfs(queue) => queue.retain(|&message| keep(message)),
            Order::Turns(turns) => turns.retain(self.kind, keep),
        }
    }
}

impl Order {
    fn new(kind: SchedulerKind) -> Self {
        match kind {
            SchedulerKind::Fcfs => Self::Fcfs(VecDeque::new()),
            _ => Self::Turns(Box::new(TurnOrder {
                queues: Streams::new(),
                // Reserve room for only one entry, because most associations have one stream, with one message at a
                // time.
                ready: BinaryHeap::with_capacity(1),
                served: None,
                is_partly_cut: false,
                used_its_turn: false,
                turns: 0,
                arrivals: 0,
                now: 0,
            })),
        }
    }
}

impl TurnOrder {
    #[inline(never)]
    fn push(&mut self, kind: SchedulerKind, values: &BTreeMap<u16, u16>, stream: u16, message: u32) {
        let begin = || StreamQueue {
            waiting: VecDeque::with_capacity(1),
            value: values.get(&stream).copied().unwrap_or(0),
            virtual_time: 0,
        };
        let slot = self.queues.slot(stream, begin);
        let queue = self.queues.at(slot);
        let idle = queue.waiting.is_empty();
        queue.waiting.push_back((self.arrivals, message));
        self.arrivals += 1;
        if idle && self.served != Some(stream) {
            self.queue(kind, stream, slot);
        }
    }

    /// Records that a packet with new chunks is complete. The round-robin scheduler by packet goes on to the next
    /// stream.
    #[inline(never)]
    fn packet_done(&mut self, kind: SchedulerKind, interleaving: bool) {
        if kind == SchedulerKind::RoundRobinPacket
            && (interleaving || !self.is_partly_cut)
            && let Some(stream) = self.served.take()
        {
            self.used_its_turn = false;
            self.queue_again(kind, stream);
        }
    }

    /// Puts a stream with waiting messages into the heap.
    fn queue(&mut self, kind: SchedulerKind, stream: u16, slot: usize) {
        let queue = self.queues.at(slot);
        let rank = match kind {
            // RFC 8260 §3.2, §3.3: all streams have the same rank and are served in turn.
            SchedulerKind::Fcfs | SchedulerKind::RoundRobin | SchedulerKind::RoundRobinPacket => 0,
            // RFC 8260 §3.4, §4.3.2: the value 0 is the highest priority. Streams of equal priority are served in turn.
            SchedulerKind::Priority => queue.value.into(),
            // RFC 8260 §3.5, §3.6: the rank is the virtual time up to which the stream has used its share. The rank is
            // not earlier than the current virtual time, so an idle stream does not accumulate credit.
            SchedulerKind::Fair | SchedulerKind::WeightedFair => {
                queue.virtual_time = queue.virtual_time.max(self.now);
                queue.virtual_time
            }
        };
        self.ready.push(Reverse(HeapEntry { rank, number: self.turns, stream }));
        self.turns += 1;
    }

    fn queue_again(&mut self, kind: SchedulerKind, stream: u16) {
        if let Some(slot) = self.queues.find(stream)
            && !self.queues.at(slot).waiting.is_empty()
        {
            self.queue(kind, stream, slot);
        }
    }

    #[inline(never)]
    fn head(&self) -> Option<u32> {
        let stream = match self.served {
            Some(_) if self.used_its_turn => return None,
            Some(stream) => stream,
            None => self.ready.peek()?.0.stream,
        };
        self.queues.get(stream)?.waiting.front().map(|&(_, message)| message)
    }

    #[inline(never)]
    fn cut(&mut self, kind: SchedulerKind, interleaving: bool, bytes: u32, done: bool) {
        let stream = match self.served.take() {
            Some(stream) => stream,
            None => match self.ready.pop() {
                Some(Reverse(turn)) => {
                    self.now = self.now.max(turn.rank);
                    turn.stream
                }
                None => return,
            },
        };
        let Some(slot) = self.queues.find(stream) else {
            return;
        };
        let queue = self.queues.at(slot);
        let weight = if kind == SchedulerKind::WeightedFair { queue.value.max(1) } else { 1 };
        queue.virtual_time = queue.virtual_time.saturating_add(u64::from(bytes) * BYTE / u64::from(weight));
        if done {
            queue.waiting.pop_front();
        }
        // If the last fragment of a large message goes into this packet, the stream has used its turn. Otherwise the
        // first fragment of its next message might follow in this packet, and that message would continue in the next
        // packet, before the other streams.
        self.used_its_turn =
            self.is_partly_cut && done && kind == SchedulerKind::RoundRobinPacket && !interleaving;
        self.is_partly_cut = !done;
        // RFC 8260 §3.3: with round robin per packet, a packet holds chunks of one stream only. RFC 9260 §6.9: without
        // interleaving, the fragments of a message must have consecutive TSNs. With interleaving, the fragments are
        // numbered, and other chunks may come between them.
        if kind == SchedulerKind::RoundRobinPacket || (self.is_partly_cut && !interleaving) {
            self.served = Some(stream);
        } else if !queue.waiting.is_empty() {
            self.queue(kind, stream, slot);
        }
    }

    /// Removes and returns all messages, in the order of the calls of `send`.
    fn drain(&mut self) -> Vec<u32> {
        let mut all = Vec::new();
        self.ready.clear();
        self.served = None;
        self.used_its_turn = false;
        for queue in self.queues.iter_mut() {
            all.extend(queue.waiting.drain(..));
        }
        all.sort_unstable();
        all.into_iter().map(|(_, message)| message).collect()
    }

    fn remove(&mut self, kind: SchedulerKind, stream: u16, message: u32) {
        let Some(slot) = self.queues.find(stream) else {
            return;
        };
        let queue = self.queues.at(slot);
        let Some(at) = queue.waiting.iter().position(|&(_, other)| other == message) else {
            return;
        };
        queue.waiting.remove(at);
        if queue.waiting.is_empty() {
            self.ready.retain(|Reverse(turn)| turn.stream != stream);
        }
        // If the removed message was partly sent, its stream was served until the end of the message. Now another
        // stream can be chosen.
        if at == 0 && self.is_partly_cut && self.served == Some(stream) {
            (self.served, self.is_partly_cut) = (None, false);
            self.queue_again(kind, stream);
        }
    }

    fn retain(&mut self, kind: SchedulerKind, mut keep: impl FnMut(u32) -> bool) {
        let head = self.served.and_then(|_| self.head());
        for queue in self.queues.iter_mut() {
            queue.waiting.retain(|&(_, message)| keep(message));
        }
        let queues = &self.queues;
        let waits = |stream| queues.get(stream).is_some_and(|queue| !queue.waiting.is_empty());
        self.ready.retain(|Reverse(turn)| waits(turn.stream));
        // If the removed message was partly sent, its stream had to be served until the message ended. Now another
        // stream can be chosen.
        if self.is_partly_cut
            && self.head() != head
            && let Some(stream) = self.served.take()
        {
            self.is_partly_cut = false;
            self.used_its_turn = false;
            self.queue_again(kind, stream);
        }
    }
}

/// The cost of a byte at weight 1, in units of virtual time. The cost is divided by the weight of the stream.
const BYTE: u64 = 1 << 16;

#[cfg(test)]
mod tests;
