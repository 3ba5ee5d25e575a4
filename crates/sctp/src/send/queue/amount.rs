//! Counts the buffered bytes of each stream and stores the threshold at which this amount counts as low.
//!
//! SCTP has no rule for the buffered amount. It corresponds to the `bufferedAmount` of W3C WebRTC §6.2, but includes
//! data that was sent and is not acknowledged.

use super::{Queue, Stream};

/// The buffered amount of one stream.
#[derive(Debug, Default)]
pub(super) struct Amount {
    /// The number of bytes that are queued and neither acknowledged nor abandoned.
    buffered: u64,
    low: Option<Box<Low>>,
}

/// The threshold of a stream. A buffered amount that is not larger is reported as low.
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

    /// Returns the threshold if the buffered amount is above it.
    #[inline]
    fn exceeds(&self) -> Option<Low> {
        self.low.as_deref().copied().filter(|low| self.buffered > low.bytes)
    }
}

impl Queue {
    /// Returns the number of buffered user bytes of `stream`: those not sent yet, and those sent that may have to be
    /// retransmitted.
    pub(crate) fn buffered_on(&self, stream: u16) -> u64 {
        self.streams.get(stream).map_or(0, |stream| stream.amount.buffered)
    }

    /// Sets the threshold at or below which the buffered amount of `stream` is reported as low. `None` turns reports
    /// off.
    pub(crate) fn set_low(&mut self, stream: u16, low: Option<u64>) {
        let slot = self.streams.slot(stream, Stream::default);
        self.streams.at(slot).amount.low = low.map(|bytes| Box::new(Low { bytes, stream }));
    }

    /// Subtracts bytes that the stream in `slot` no longer buffers. If the buffered amount becomes low, the stream is
    /// reported.
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

    /// Returns a stream whose buffered amount has fallen to its threshold, and removes it from the list of these
    /// streams.
    #[inline]
    pub(crate) fn take_low(&mut self) -> Option<u16> {
        self.low.pop()
    }

    /// Copies each stream's threshold for the buffered amount from `before` when the association restarts. The new send
    /// buffer is empty, so each stream that was above its threshold is reported as low.
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
