//! Reassembles fragments into messages.
//!
//! Owns fragments whose predecessor is missing, and the messages being reassembled. A message that is the next in its
//! stream is reassembled in the stream's buffer. Other messages have their own buffers until they are next. Complete
//! messages go to [`order`](super::order).
//!
//! Implements RFC 9260 §6.9 (the receiver's half).

use super::Violation;
use super::order::{Delivery, Order};
use super::pool::Pool;
use std::collections::{BTreeMap, VecDeque};

/// One DATA chunk, whose TSN is given as an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'a> {
    pub(crate) offset: u64,
    pub(crate) tsn: u32,
    pub(crate) stream: u16,
    pub(crate) ssn: u16,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    pub(crate) begin: bool,
    pub(crate) end: bool,
    pub(crate) payload: &'a [u8],
}

impl Fragment<'_> {
    /// Returns the delivery information of the message that starts with this fragment.
    fn delivery(&self) -> Delivery {
        let &Self { tsn, stream, ssn, ppid, unordered, .. } = self;
        Delivery { stream, ssn, ppid, tsn, unordered }
    }
}

/// A fragment that waits for the fragment before it.
#[derive(Debug)]
struct WaitingFragment {
    stream: u16,
    ssn: u16,
    ppid: u32,
    unordered: bool,
    end: bool,
    payload: Vec<u8>,
}

/// A message whose first fragment has arrived.
#[derive(Debug)]
struct Assembly {
    /// The TSN offset of the message's first fragment.
    begin: u64,
    /// The TSN offset of the next fragment to be appended.
    next: u64,
    stream: u16,
    ssn: u16,
    ppid: u32,
    /// The TSN of the message's first fragment.
    tsn: u32,
    unordered: bool,
    /// The bytes of the message. `None` while the bytes go directly to the stream's buffer.
    buffer: Option<Vec<u8>>,
}

impl Assembly {
    fn delivery(&self) -> Delivery {
        let &Self { tsn, stream, ssn, ppid, unordered, .. } = self;
        Delivery { stream, ssn, ppid, tsn, unordered }
    }
}

/// The fragments and unfinished messages of an association.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// Waiting fragments by TSN offset. In this tree, a fragment far ahead of the others costs no more memory than its
    /// bytes.
    waiting: BTreeMap<u64, WaitingFragment>,
    /// True once the peer has abandoned a message. Fragments of abandoned messages may then be left in `waiting`.
    peer_abandons: bool,
    /// Bytes of abandoned messages that are not yet credited to the receive window.
    dropped: u64,
    /// Unfinished messages by the TSN offset of their next fragment, ascending.
    assemblies: VecDeque<Assembly>,
    pool: Pool,
}

impl Reassembly {
    /// Returns the reassembly of an association, and creates it if necessary. `shared` says whether memory is shared
    /// with other associations.
    #[inline]
    pub(crate) fn get_or_create(reassembly: &mut Option<Box<Self>>, shared: bool) -> &mut Self {
        reassembly.get_or_insert_with(|| Box::new(Self::new(shared)))
    }

    /// Creates the reassembly. `shared` says whether memory is shared with other associations.
    fn new(shared: bool) -> Self {
        Self { pool: Pool::new(shared), ..Self::default() }
    }

    /// Returns the number of waiting fragments and unfinished messages.
    #[inline]
    pub(crate) fn pieces(&self) -> usize {
        self.waiting.len() + self.assemblies.len()
    }

    /// Returns whether no fragment waits for another fragment.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.assemblies.is_empty()
    }

    /// Receives a new fragment. `next` is the lowest TSN offset that has not arrived. With `at_once`, an unfinished
    /// message is delivered in parts, because buffer space is short.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        fragment: Fragment<'_>,
        next: u64,
        order: &mut Order,
        at_once: bool,
    ) -> Result<(), Violation> {
        if fragment.begin && fragment.end {
            order.deliver(fragment.delivery(), fragment.payload, &mut self.pool)?;
        } else {
            self.accept_part(fragment, order)?;
        }
        self.advance(next)?;
        self.deliver_in_parts(next, order, at_once);
        Ok(())
    }

    /// RFC 9260 §6.9: delivers a large message in parts so that buffer space does not run out. A message delivered in
    /// parts can block later messages of its stream until it is complete. So only the earliest incomplete message is
    /// delivered in parts, and only if all TSNs before it have arrived. Its missing fragments are the first to get
    /// buffer space.
    #[inline]
    pub(super) fn deliver_in_parts(&mut self, next: u64, order: &mut Order, at_once: bool) {
        let Some(first) = self.assemblies.front_mut().filter(|first| first.begin < next) else {
            return;
        };
        let Some(buffer) = &first.buffer else {
            order.expose(first.stream, first.unordered, at_once);
            return;
        };
        let large = at_once || buffer.len() as u64 >= order.partial_delivery();
        if large
            && order.adopt(first.delivery(), buffer)
            && let Some(buffer) = first.buffer.take()
        {
            self.pool.put(buffer);
        }
    }

    fn accept_part(&mut self, fragment: Fragment<'_>, order: &mut Order) -> Result<(), Violation> {
        if fragment.begin {
            let direct = !fragment.unordered && order.begin_direct(fragment.delivery())?;
            let assembly = Assembly {
                begin: fragment.offset,
                next: fragment.offset,
                stream: fragment.stream,
                ssn: fragment.ssn,
                ppid: fragment.ppid,
                tsn: fragment.tsn,
                unordered: fragment.unordered,
                buffer: if direct { None } else { Some(self.pool.take()) },
            };
            let at = self.assemblies.partition_point(|a| a.next < assembly.next);
            if self.assemblies.get(at).is_some_and(|a| a.next == fragment.offset) {
                return Err(Violation("6.9: a message begins inside another"));
            }
            if self.assemblies.len() == self.assemblies.capacity() {
                // Grow by a bounded number of entries, not by doubling, to limit the memory that one packet can
                // allocate.
                self.assemblies.reserve_exact(self.assemblies.len().clamp(4, 256));
            }
            self.assemblies.insert(at, assembly);
            return self.extend(at, fragment, order);
        }
        let at = self.assemblies.partition_point(|a| a.next < fragment.offset);
        if self.assemblies.get(at).is_some_and(|a| a.next == fragment.offset) {
            return self.extend(at, fragment, order);
        }
        self.hold(fragment);
        Ok(())
    }

    /// Appends a fragment to the message at index `at`. Then appends the held fragments that follow it.
    fn extend(&mut self, at: usize, fragment: Fragment<'_>, order: &mut Order) -> Result<(), Violation> {
        if self.append(at, fragment, order)? {
            return Ok(());
        }
        loop {
            let Assembly { next, tsn, .. } = self.assemblies[at];
            let Some(fragment) = self.take_waiting(next) else {
                // `assemblies` stays in ascending order: a message never grows past the start of the next message.
                return Ok(());
            };
            let part = Fragment {
                offset: next,
                tsn,
                stream: fragment.stream,
                ssn: fragment.ssn,
                ppid: fragment.ppid,
                unordered: fragment.unordered,
                begin: false,
                end: fragment.end,
                payload: &fragment.payload,
            };
            let done = self.append(at, part, order)?;
            self.pool.put(fragment.payload);
            if done {
                return Ok(());
            }
        }
    }

    /// Appends one fragment to the message at index `at`. Returns true if the message is complete.
    fn append(&mut self, at: usize, fragment: Fragment<'_>, order: &mut Order) -> Result<bool, Violation> {
        let assembly = &mut self.assemblies[at];
        let fits = assembly.stream == fragment.stream
            && assembly.unordered == fragment.unordered
            && (assembly.unordered || assembly.ssn == fragment.ssn);
        if !fits {
            return Err(Violation("6.9: the fragments of a message differ in stream or number"));
        }
        assembly.next += 1;
        if let Some(buffer) = &mut assembly.buffer {
            buffer.extend_from_slice(fragment.payload);
        } else {
            order.extend_direct(assembly.stream, assembly.unordered, assembly.ssn, fragment.payload);
        }
        if !fragment.end {
            // Checks that no other message starts at the TSN offset at which this message must continue.
            let next = self.assemblies[at].next;
            if self.assemblies.get(at + 1).is_some_and(|after| after.begin == next) {
                return Err(Violation("6.9: a message begins inside another"));
            }
            return Ok(false);
        }
        let Some(assembly) = self.assemblies.remove(at) else {
            return Ok(true);
        };
        let to = assembly.delivery();
        match assembly.buffer {
            None => {
                order.finish_direct(assembly.stream, assembly.unordered, assembly.ssn, &mut self.pool)?;
            }
            Some(buffer) => {
                order.deliver(to, &buffer, &mut self.pool)?;
                self.pool.put(buffer);
            }
        }
        Ok(true)
    }

    /// Returns whether a message of one of `streams` is incomplete. An empty list stands for any stream.
    pub(crate) fn is_inside(&self, streams: &[u16]) -> bool {
        if streams.is_empty() {
            return !self.assemblies.is_empty() || !self.waiting.is_empty();
        }
        self.assemblies.iter().any(|assembly| streams.contains(&assembly.stream))
    }

    /// Drops the waiting fragments.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    fn hold(&mut self, fragment: Fragment<'_>) {
        let mut payload = self.pool.take();
        payload.extend_from_slice(fragment.payload);
        let waiting = WaitingFragment {
            stream: fragment.stream,
            ssn: fragment.ssn,
            ppid: fragment.ppid,
            unordered: fragment.unordered,
            end: fragment.end,
            payload,
        };
        self.waiting.insert(fragment.offset, waiting);
    }

    #[inline]
    fn take_waiting(&mut self, offset: u64) -> Option<WaitingFragment> {
        if self.waiting.is_empty() { None } else { self.waiting.remove(&offset) }
    }

    /// Removes the stored fragments whose TSN offsets are below `next`. All chunks below `next` have arrived, but these
    /// fragments belong to no message. They are a protocol violation by the peer, unless the peer has abandoned a
    /// message.
    #[inline]
    fn advance(&mut self, next: u64) -> Result<(), Violation> {
        if self.waiting.is_empty() { Ok(()) } else { self.advance_waiting(next) }
    }

    fn advance_waiting(&mut self, next: u64) -> Result<(), Violation> {
        while let Some(first) = self.waiting.first_entry()
            && *first.key() < next
        {
            if !self.peer_abandons {
                return Err(Violation("6.9: a fragment follows no beginning"));
            }
            let fragment = first.remove();
            self.dropped += fragment.payload.len() as u64;
            self.pool.put(fragment.payload);
        }
        Ok(())
    }

    /// RFC 3758 §3.6: drops the unfinished messages with missing chunks at TSN offsets below `end`, because these
    /// chunks will not arrive. `next` is the lowest TSN offset that is still missing after the skip.
    pub(super) fn skip_to(&mut self, end: u64, next: u64, order: &mut Order) -> Result<(), Violation> {
        self.peer_abandons = true;
        while self.assemblies.front().is_some_and(|assembly| assembly.next < end) {
            let Some(lost) = self.assemblies.pop_front() else {
                break;
            };
            match lost.buffer {
                Some(buffer) => {
                    self.dropped += buffer.len() as u64;
                    self.pool.put(buffer);
                }
                None => order.cut_short(lost.stream, lost.unordered, lost.ssn, &mut self.pool),
            }
        }
        self.advance(next)
    }

    pub(super) fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Returns the number of bytes dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}
