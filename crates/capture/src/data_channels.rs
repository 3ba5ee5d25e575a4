//! The data channels of WebRTC in an SCTP association, as the Data Channel Establishment Protocol opens them.
//!
//! Implements RFC 8832 §5.1 (DATA_CHANNEL_OPEN), §5.2 (DATA_CHANNEL_ACK), §8.2.1 (message types), §8.2.2 (channel types).

use super::arrival::Side;
use super::results::{DataChannel, Direction};
use super::timeline::{Entry, Event};
use std::collections::BTreeMap;

/// The payload protocol identifier of the Data Channel Establishment Protocol (RFC 8832).
pub(super) const PPID: u32 = 50;

const ACK: u8 = 2;
const OPEN: u8 = 3;
/// The maximum number of data channels of an association.
const MAX_CHANNELS: usize = 1_024;
/// The maximum number of characters that are kept of a label or a protocol.
const MAX_TEXT: usize = 255;
/// The maximum number of points in a series over time.
const MAX_POINTS: usize = 256;
/// The bit of a channel type that says that the channel is unordered.
const UNORDERED: u8 = 0x80;

/// Processes a message of the protocol. `payload` is its first fragment.
pub(super) fn message(
    channels: &mut Vec<DataChannel>,
    directions: &[Direction; 2],
    at: u64,
    (side, stream): (Side, u16),
    payload: &[u8],
) {
    match payload.first() {
        Some(&OPEN) if channels.len() < MAX_CHANNELS => {
            let Some(mut opened) = open(payload) else { return };
            // A new channel may reuse the stream of a closed channel. The messages of the closed channel are counted
            // now.
            if let Some(before) = channels.iter_mut().rfind(|channel| channel.stream == stream) {
                before.before[side].0 += 1;
                before.before[side].1 += payload.len() as u64;
                before.count(directions);
            }
            (opened.stream, opened.by, opened.opened_ns) = (stream, ["A", "B"][side], at);
            opened.before = [0, 1].map(|side| counters(directions, side, stream));
            channels.push(opened);
        }
        Some(&ACK) => {
            let opened = channels.iter_mut().rfind(|channel| channel.stream == stream);
            if let Some(channel) = opened.filter(|channel| channel.accepted_ns.is_none()) {
                channel.accepted_ns = Some(at);
                channel.before[side].0 += 1;
                channel.before[side].1 += payload.len() as u64;
            }
        }
        _ => {}
    }
}

fn open(payload: &[u8]) -> Option<DataChannel> {
    let (&[_, kind, _, _, r0, r1, r2, r3, l0, l1, p0, p1], texts) = payload.split_first_chunk::<12>()?;
    let reliability = u32::from_be_bytes([r0, r1, r2, r3]);
    let length = |high, low| usize::from(u16::from_be_bytes([high, low]));
    let (label, rest) = texts.split_at(length(l0, l1).min(texts.len()));
    let protocol = &rest[..length(p0, p1).min(rest.len())];
    let text = |bytes: &[u8]| -> String {
        String::from_utf8_lossy(bytes).chars().filter(|letter| !letter.is_control()).take(MAX_TEXT).collect()
    };
    Some(DataChannel {
        label: text(label),
        protocol: text(protocol),
        unordered: kind & UNORDERED != 0,
        max_retransmits: (kind & !UNORDERED == 1).then_some(reliability),
        max_lifetime_ms: (kind & !UNORDERED == 2).then_some(reliability),
        ..DataChannel::default()
    })
}

/// Returns the numbers of messages and bytes that a side has sent on a stream.
fn counters(directions: &[Direction; 2], side: Side, stream: u16) -> (u64, u64) {
    directions[side].streams.get(&stream.into()).map_or((0, 0), |stream| (stream.messages, stream.bytes))
}

impl DataChannel {
    /// Sets the numbers of messages and bytes from those of the stream. Does nothing if they are set.
    fn count(&mut self, directions: &[Direction; 2]) {
        if self.is_counted {
            return;
        }
        self.is_counted = true;
        for side in [0, 1] {
            let (messages, bytes) = counters(directions, side, self.stream);
            self.messages[side] = messages.saturating_sub(self.before[side].0);
            self.bytes[side] = bytes.saturating_sub(self.before[side].1);
        }
    }
}

/// Counts the messages of the channels that are open at the end of the capture.
pub(super) fn count(channels: &mut [DataChannel], directions: &[Direction; 2]) {
    channels.iter_mut().for_each(|channel| channel.count(directions));
}

/// The number of bytes of a channel that one side has sent and that are not acknowledged.
#[derive(Clone, Default)]
struct Unacknowledged {
    sum: u64,
    most: Option<(u64, u64)>,
    series: Series,
}

impl Unacknowledged {
    fn set(&mut self, at: u64, sum: u64) {
        self.sum = sum;
        if sum > self.most.map_or(0, |(_, most)| most) {
            self.most = Some((at, sum));
        }
        self.series.push(at, sum);
    }
}

/// Values over time, of which a limited number is kept.
#[derive(Clone, Default)]
struct Series {
    points: Vec<(u64, u64)>,
    /// The points that are joined to one, and how many of them have come since the last one.
    joined: usize,
    pending: usize,
}

impl Series {
    /// Adds a value. Of values that are joined, the largest one stays.
    fn push(&mut self, at: u64, value: u64) {
        self.joined = self.joined.max(1);
        match self.points.last_mut() {
            // All changes of one instant are one.
            Some(last) if last.0 == at && self.joined == 1 => last.1 = value,
            Some(last) if self.pending > 0 && self.pending < self.joined => {
                if value >= last.1 {
                    *last = (at, value);
                }
                self.pending += 1;
            }
            _ => {
                self.points.push((at, value));
                self.pending = 1;
            }
        }
        if self.points.len() > MAX_POINTS {
            let larger =
                |pair: &[(u64, u64)]| *pair.iter().max_by_key(|(at, value)| (*value, *at)).unwrap_or(&(0, 0));
            self.points = self.points.chunks(2).map(larger).collect();
            self.joined *= 2;
        }
    }
}

/// Finds the numbers of bytes of each channel that were sent and not acknowledged, over time.
pub(super) fn unacknowledged(channels: &mut [DataChannel], entries: &[Entry]) {
    if channels.is_empty() {
        return;
    }
    // The channels of each stream, with their times, in the order in which they were opened.
    let mut by_stream: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
    for (index, channel) in channels.iter().enumerate() {
        by_stream.entry(channel.stream.into()).or_default().push((channel.opened_ns, index));
    }
    let mut waiting: [BTreeMap<i64, (usize, u64)>; 2] = Default::default();
    let mut all = vec![[Unacknowledged::default(), Unacknowledged::default()]; channels.len()];
    for entry in entries {
        match &entry.event {
            Event::Data(data) => {
                let of_stream = by_stream.get(&data.stream).into_iter().flatten();
                let open = of_stream.take_while(|(opened, _)| *opened <= entry.at).last();
                let Some(&(_, index)) = open else { continue };
                let bytes = u64::from(data.bytes);
                waiting[entry.side].entry(data.units.0).or_insert_with(|| {
                    let one = &mut all[index][entry.side];
                    one.set(entry.at, one.sum + bytes);
                    (index, bytes)
                });
            }
            Event::Ack(ack) => {
                let sender = 1 - entry.side;
                while let Some(first) = waiting[sender].first_entry().filter(|e| *e.key() < ack.cumulative) {
                    let (index, bytes) = first.remove();
                    let one = &mut all[index][sender];
                    one.set(entry.at, one.sum - bytes);
                }
            }
            _ => {}
        }
    }
    for (channel, sides) in channels.iter_mut().zip(all) {
        for (side, one) in sides.into_iter().enumerate() {
            channel.most_unacknowledged[side] = one.most.map_or(0, |(_, most)| most);
            channel.most_unacknowledged_ns[side] = one.most.map(|(at, _)| at);
            channel.unacknowledged[side] = one.series.points;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_has_its_label_protocol_and_reliability() {
        let head = |kind: u8| [&[OPEN, kind, 0, 0][..], &[0, 0, 1, 44], &[0, 4, 0, 2], b"chatv1"].concat();
        let kinds = [
            (0x00, false, None, None),
            (0x80, true, None, None),
            (0x01, false, Some(300), None),
            (0x81, true, Some(300), None),
            (0x02, false, None, Some(300)),
            (0x82, true, None, Some(300)),
        ];
        for (kind, unordered, retransmits, lifetime) in kinds {
            let channel = open(&head(kind)).expect("a channel");
            assert_eq!((channel.label.as_str(), channel.protocol.as_str()), ("chat", "v1"));
            assert_eq!((channel.unordered, channel.max_retransmits), (unordered, retransmits), "{kind:#x}");
            assert_eq!(channel.max_lifetime_ms, lifetime, "{kind:#x}");
        }
    }

    #[test]
    fn a_message_that_is_too_short_opens_nothing_and_a_long_label_is_cut() {
        let whole = [&[OPEN, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff][..], &[b'x'; 900]].concat();
        for cut in 0..12 {
            assert_eq!(open(&whole[..cut]), None);
        }
        let channel = open(&whole).expect("a channel");
        assert_eq!((channel.label.len(), channel.protocol.len()), (MAX_TEXT, 0));
    }

    /// A long series keeps its largest value and has a limited length.
    #[test]
    fn a_long_series_keeps_its_largest_value() {
        let mut series = Series::default();
        (0..100_000).for_each(|n| series.push(n, if n == 54_321 { 9 } else { n % 7 }));
        assert!((MAX_POINTS / 2..=MAX_POINTS).contains(&series.points.len()), "{}", series.points.len());
        assert!(series.points.contains(&(54_321, 9)));
        assert!(series.points.is_sorted_by_key(|(at, _)| *at));
        let mut short = Series::default();
        [(1, 5), (1, 8), (2, 3)].into_iter().for_each(|(at, value)| short.push(at, value));
        assert_eq!(short.points, [(1, 8), (2, 3)]);
    }
}
