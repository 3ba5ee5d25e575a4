//! How many bytes each stream has in the send buffer, and when that has become little.
//!
//! Home of no rule of SCTP: the `bufferedAmount` of W3C WebRTC §6.2, with what is sent and not acknowledged.

use super::{Queue, Stream};

/// The buffered amount of one stream.
#[derive(Debug, Default)]
pub(super) struct Amount {
    /// Bytes that were given and are neither acknowledged nor given up.
    buffered: u64,
    low: Option<Box<Low>>,
}

/// Somebody is told when there are so few bytes on this stream.
#[derive(Clone, Copy, Debug)]
struct Low {
    bytes: u64,
    stream: u16,
}

impl Amount {
    #[inline]
    pub(super) fn add(&mut self, bytes: u64) {
        self.buffered += bytes;
    }

    /// The threshold, if the amount is above it.
    #[inline]
    fn exceeds(&self) -> Option<Low> {
        self.low.as_deref().copied().filter(|low| self.buffered > low.bytes)
    }
}

impl Queue {
    /// Bytes of `stream` that are unsent or unacknowledged.
    pub(crate) fn buffered_on(&self, stream: u16) -> u64 {
        self.streams.get(stream).map_or(0, |stream| stream.amount.buffered)
    }

    /// Somebody is told when `stream` comes to have at most `low` bytes; `None` for nobody.
    pub(crate) fn set_low(&mut self, stream: u16, low: Option<u64>) {
        let slot = self.streams.slot(stream, Stream::default);
        self.streams.at(slot).amount.low = low.map(|bytes| Box::new(Low { bytes, stream }));
    }

    /// So many bytes of the stream in `slot` are buffered no longer.
    #[inline]
    pub(super) fn count_off(&mut self, slot: u32, bytes: u64) {
        let amount = &mut self.streams.at(slot as usize).amount;
        let above = amount.exceeds();
        amount.buffered -= bytes;
        if let Some(low) = above
            && amount.buffered <= low.bytes
        {
            self.low.push(low.stream);
        }
    }

    /// A stream whose buffered amount has become low, once each time.
    #[inline]
    pub(crate) fn take_low(&mut self) -> Option<u16> {
        self.low.pop()
    }

    /// The association begins anew, and nothing is buffered: thresholds stay, and who waited is told.
    pub(super) fn inherit_low(&mut self, before: &Self) {
        self.low = before.low.clone();
        for amount in before.streams.iter().map(|stream| &stream.amount) {
            self.low.extend(amount.exceeds().map(|low| low.stream));
            if let Some(low) = amount.low.as_deref() {
                self.set_low(low.stream, Some(low.bytes));
            }
        }
    }
}
