//! Streams whose numbers begin anew.
//!
//! Home of RFC 6525 §5.2.2 E3 and §5.2.4 G5 (what they ask of the receiver's order).

use super::super::reassembly::Pool;
use super::{Order, Stream};

impl Stream {
    /// What waited for an earlier message has nothing to wait for any more.
    fn begin_anew(&mut self, pool: &mut Pool) -> u64 {
        let mut released = 0;
        // In their order, which may wrap.
        let mut before = std::mem::take(&mut self.waiting);
        let after = before.split_off(&self.next_ssn);
        for (_, (to, payload)) in after.into_iter().chain(before) {
            self.ordered.push(&payload, to);
            pool.put(payload);
            released += 1;
        }
        self.next_ssn = 0;
        released
    }
}

impl Order {
    /// `streams` (none: all) expect number 0 next. None of them is inside a message.
    pub(crate) fn begin_anew(&mut self, streams: &[u16], pool: &mut Pool) {
        if let Some(skips) = &mut self.skips {
            skips.begin_anew(streams);
        }
        if streams.is_empty() {
            for stream in self.streams.in_use() {
                self.begin_one(stream, pool);
            }
        }
        for &stream in streams {
            self.begin_one(stream, pool);
        }
    }

    fn begin_one(&mut self, stream: u16, pool: &mut Pool) {
        if let Some(slot) = self.streams.find(stream) {
            let released = self.streams.at(slot).begin_anew(pool);
            self.pass(released);
            self.tell(slot, stream);
        }
    }

    /// Unfinished messages at the ends of lanes are cut off: the rest will not come.
    pub(crate) fn drop_tails(&mut self) {
        for stream in self.streams.iter_mut() {
            stream.drop_tail(false);
            if stream.unordered.is_some() {
                stream.drop_tail(true);
            }
            for (to, payload) in std::mem::take(&mut stream.behind) {
                self.aside = self.aside.saturating_sub(1);
                stream.unordered.get_or_insert_default().push(&payload, to);
            }
        }
    }

    /// Bytes that wait to be read, or for their turn.
    pub(crate) fn held_bytes(&self) -> u64 {
        let of = |stream: &Stream| {
            let unordered = stream.unordered.as_deref().map_or(0, |lane| lane.bytes.len());
            let waiting: usize = stream.waiting.values().map(|(_, payload)| payload.len()).sum();
            let behind: usize = stream.behind.iter().map(|(_, payload)| payload.len()).sum();
            (stream.ordered.bytes.len() + unordered + waiting + behind) as u64
        };
        self.streams.iter().map(of).sum::<u64>() + self.lent.left()
    }
}
