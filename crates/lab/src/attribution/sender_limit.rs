//! The reasons why a sender waited, over time. A binary search finds the time that a sender spent in one [`Class`]
//! within an interval.
//!
//! Each [`Class`] is a reason why a sender waits. The time spent in a class counts as the part `send` or `stalled` of a
//! response time. The sending engine reports a [`Limit`] whenever its limit changes, and `classify` converts it to a
//! class. This module adds two rules:
//!
//! - Before the engine's first report, the sender is assumed to have no bytes to send.
//! - A sender does not know that it waits for an acknowledgement that will never arrive. Therefore the time without
//!   packets before a timer's retransmission counts as recovery (`stalled`), whatever limit the engine reported. The
//!   exception is a full receive window, which holds new bytes back even after the retransmission.

use anabranch_base::trace::Limit;

/// The reason why waiting bytes are not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// The sender first repairs the loss of earlier bytes: it retransmits them, or it waits for the timer that detects
    /// their loss.
    Stalled = 0,
    /// The congestion window is full.
    Congestion = 1,
    /// The receiver's window is full.
    Receiver = 2,
    /// No bytes wait to be sent, or pacing delays them.
    Other = 3,
}

/// The reason why bytes wait, over time: consecutive periods without gaps, each with its [`Class`].
#[derive(Default)]
pub(super) struct Timeline {
    spans: Vec<Span>,
}

struct Span {
    from: u64,
    class: Class,
    /// The time spent in each class of waiting before `from`, in nanoseconds.
    before: [u64; 4],
}

impl Timeline {
    /// Creates the timeline of a sender. `limits` has the times and limits that the engine reported. `silences` has the
    /// periods in which the sender was silent until a timer expired. Both lists must be sorted by time.
    pub fn new(limits: &[(u64, Limit)], silences: &[(u64, u64)]) -> Self {
        let mut edges: Vec<u64> = limits.iter().map(|&(at, _)| at).collect();
        edges.extend(silences.iter().flat_map(|&(from, until)| [from, until]));
        edges.sort_unstable();
        edges.dedup();
        let mut timeline = Self::default();
        let (mut limit, mut silence) = (0, 0);
        for from in edges {
            limit += limits[limit..].iter().take_while(|&&(at, _)| at <= from).count();
            silence += silences[silence..].iter().take_while(|&&(_, until)| until <= from).count();
            let current = limit.checked_sub(1).map_or(Limit::Application, |last| limits[last].1);
            let silent = silences.get(silence).is_some_and(|&(began, _)| began <= from);
            timeline.push(from, classify(current, silent));
        }
        timeline
    }

    fn push(&mut self, from: u64, class: Class) {
        let mut before = [0; 4];
        if let Some(last) = self.spans.last() {
            if last.class == class {
                return;
            }
            before = last.before;
            before[last.class as usize] += from - last.from;
        } else {
            before[Class::Other as usize] = from;
        }
        self.spans.push(Span { from, class, before });
    }

    /// Returns how many nanoseconds of the interval from `from` to `until` belong to `class`.
    pub fn time(&self, class: Class, from: u64, until: u64) -> u64 {
        self.until(class, until).saturating_sub(self.until(class, from))
    }

    fn until(&self, class: Class, at: u64) -> u64 {
        let next = self.spans.partition_point(|span| span.from <= at);
        let Some(span) = next.checked_sub(1).map(|last| &self.spans[last]) else {
            return if class == Class::Other { at } else { 0 };
        };
        span.before[class as usize] + if span.class == class { at - span.from } else { 0 }
    }
}

fn classify(limit: Limit, silent: bool) -> Class {
    match limit {
        Limit::Receiver => Class::Receiver,
        Limit::Recovery | Limit::Timeout => Class::Stalled,
        _ if silent => Class::Stalled,
        Limit::Congestion => Class::Congestion,
        Limit::Application | Limit::Pacing => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nanosecond_has_exactly_one_class() {
        let limits =
            [(10, Limit::Congestion), (30, Limit::Receiver), (50, Limit::Recovery), (60, Limit::Application)];
        let timeline = Timeline::new(&limits, &[(20, 40), (70, 90)]);
        let times = |from, until| {
            [Class::Stalled, Class::Congestion, Class::Receiver, Class::Other]
                .map(|class| timeline.time(class, from, until))
        };
        assert_eq!(times(0, 100), [10 + 10 + 20, 10, 20, 10 + 10 + 10]);
        assert_eq!(times(15, 35), [10, 5, 5, 0]);
        assert_eq!(times(200, 210), [0, 0, 0, 10]);
        for (from, until) in [(0, 1), (0, 55), (33, 71), (89, 1000)] {
            assert_eq!(times(from, until).iter().sum::<u64>(), until - from);
        }
        assert_eq!(Timeline::default().time(Class::Other, 5, 9), 4);
    }
}
