//! The sliding window that detects replays (RFC 9147 §4.5.1, RFC 6347 §4.1.2.6). Also reconstructs record numbers from
//! their last bits (RFC 9147 §4.2.2).

/// The replay window of one epoch.
#[derive(Clone, Default, Debug)]
pub(super) struct Window {
    /// The highest record number received, plus one.
    next: u64,
    /// A bitmap of the received numbers below `next`. The lowest bit is the number `next - 1`.
    bitmap: u128,
}

impl Window {
    /// Creates a window in which `next` is the next expected number.
    pub fn at(next: u64) -> Self {
        Self { next, bitmap: 0 }
    }

    /// Returns whether a record with this number may be accepted. The record must not have been received before, and
    /// must not be older than the window.
    #[inline]
    pub fn is_fresh(&self, number: u64) -> bool {
        match self.next.checked_sub(number) {
            None | Some(0) => number <= MAX_NUMBER,
            Some(back) => back <= u64::from(u128::BITS) && self.bitmap >> (back - 1) & 1 == 0,
        }
    }

    /// Marks the number of an authentic record as received.
    #[inline]
    pub fn note(&mut self, number: u64) {
        match self.next.checked_sub(number) {
            None | Some(0) => {
                let ahead = number - self.next + 1;
                self.bitmap = if ahead < u64::from(u128::BITS) { self.bitmap << ahead | 1 } else { 1 };
                self.next = number + 1;
            }
            Some(back) if back <= u64::from(u128::BITS) => self.bitmap |= 1 << (back - 1),
            Some(_) => {}
        }
    }

    /// Returns the record number that is nearest to the expected record number and whose last `bits` bits are `low`.
    #[inline]
    pub fn nearest(&self, low: u64, bits: u32) -> u64 {
        let span = 1_u64 << bits;
        let same = self.next & !(span - 1) | low;
        if same > self.next + span / 2 && same >= span {
            same - span
        } else if same + span / 2 < self.next {
            same + span
        } else {
            same
        }
    }
}

/// The highest record number. It has 48 bits in DTLS 1.2 (RFC 6347 §4.1), and DTLS 1.3 adopts this maximum (RFC 9147
/// §4.2.1).
pub(super) const MAX_NUMBER: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_comes_once_and_not_too_late() {
        let mut window = Window::default();
        for number in [0, 1, 5, 3, 200, 199, 73] {
            assert!(window.is_fresh(number), "{number}");
            window.note(number);
            assert!(!window.is_fresh(number), "{number}");
        }
        // The window remembers the 128 record numbers below 201.
        for (number, fresh) in [(72, false), (74, true), (198, true), (201, true), (MAX_NUMBER, true)] {
            assert_eq!(window.is_fresh(number), fresh, "{number}");
        }
        assert!(!window.is_fresh(MAX_NUMBER + 1));
        window.note(MAX_NUMBER);
        assert!(!window.is_fresh(200) && !window.is_fresh(MAX_NUMBER) && window.is_fresh(MAX_NUMBER - 1));
    }

    /// Compares `nearest` with its definition. Covers all values of the low bits around each wrap.
    #[test]
    fn a_number_is_the_nearest_one_with_its_last_bits() {
        for bits in [8, 16] {
            let span = 1_u64 << bits;
            for next in
                [0, 1, 100, span / 2, span - 1, span, span + 3, 5 * span + span / 2 + 1, MAX_NUMBER - 2]
            {
                let window = Window::at(next);
                for number in next.saturating_sub(span / 2 - 1)..next + span / 2 {
                    assert_eq!(window.nearest(number % span, bits), number, "{next} {bits}");
                }
            }
        }
    }
}
