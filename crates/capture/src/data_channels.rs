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

/// Finds the largest number of bytes of each channel that were sent and not acknowledged.
pub(super) fn unacknowledged(channels: &mut [DataChannel], entries: &[Entry]) {
    if channels.is_empty() {
        return;
    }
    // The last channel of each stream.
    let by_stream: BTreeMap<u64, usize> =
        channels.iter().enumerate().map(|(index, channel)| (channel.stream.into(), index)).collect();
    let mut waiting: [BTreeMap<i64, (usize, u64)>; 2] = Default::default();
    let mut sums = vec![[0_u64; 2]; channels.len()];
    for entry in entries {
        match &entry.event {
            Event::Data(data) => {
                let Some(&index) = by_stream.get(&data.stream) else { continue };
                let bytes = u64::from(data.bytes);
                waiting[entry.side].entry(data.units.0).or_insert_with(|| {
                    let sum = &mut sums[index][entry.side];
                    *sum += bytes;
                    let most = &mut channels[index].most_unacknowledged[entry.side];
                    *most = (*most).max(*sum);
                    (index, bytes)
                });
            }
            Event::Ack(ack) => {
                let sender = 1 - entry.side;
                while let Some(first) = waiting[sender].first_entry().filter(|e| *e.key() < ack.cumulative) {
                    let (index, bytes) = first.remove();
                    sums[index][sender] -= bytes;
                }
            }
            _ => {}
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
}
