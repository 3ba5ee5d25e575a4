//! The application at each end. It sends numbered messages and checks the messages that it reads.

use super::TestEndpoint;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_sctp::{AssociationId, Event, Message, Reliability, SendError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A message that the peer has sent and this side has to receive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Expected {
    pub number: u64,
    pub length: usize,
    pub ppid: u32,
    /// Whether the sender may abandon the message.
    pub limited: bool,
}

/// The messages that one side still has to receive.
#[derive(Default)]
pub struct App {
    /// The ordered messages that are not yet received, by stream.
    pub ordered: BTreeMap<u16, VecDeque<Expected>>,
    /// The unordered messages that are not yet received, by stream.
    pub unordered: BTreeMap<u16, BTreeSet<Expected>>,
    /// All messages that the peer has sent in its current association. Each entry has the stream, whether the message
    /// is unordered, and the expected content.
    sent_by_peer: Vec<(u16, bool, Expected)>,
    /// Messages that the peer sent before its host rebooted. This side may have received these messages before the
    /// reboot, and may read them after it.
    before_reboot: BTreeSet<(u16, bool, Expected)>,
    /// The numbers of the messages that did not arrive although later messages did.
    pub missing: BTreeSet<u64>,
    /// The numbers of the messages that this side's engine has abandoned. The number of a message is its context.
    pub given_up: BTreeSet<u64>,
    /// The numbers of the messages that this side's engine has reported as undelivered.
    pub failed: BTreeSet<u64>,
    /// The part of a message that was read so far, by stream.
    partial: BTreeMap<u16, Vec<u8>>,
    /// The numbers of messages and bytes received.
    pub messages: u64,
    pub bytes: u64,
    /// Whether the peer cancels streams, so that any of its messages may be missing.
    pub peer_cancels: bool,
    /// The delay before readable data is read; zero to read data at once.
    pub reading_pause: Duration,
    /// The streams with readable data, and the time of the next read.
    readable: BTreeSet<(AssociationId, u16)>,
    read_at: Option<Instant>,
    /// Whether parts of messages are reported as they arrive.
    pub report_parts: bool,
}

/// Returns the content of message `number`, in which each byte is a fixed function of `number` and of the byte's
/// position. If the message is long enough, it begins with its number. The content is computed eight bytes at a time,
/// because the random tests in `storm` produce gigabytes of it.
pub fn content(number: u64, length: usize) -> Vec<u8> {
    if length < 8 {
        return number.to_le_bytes()[..length].to_vec();
    }
    let mut bytes = vec![0; length.next_multiple_of(8)];
    let mut word = number;
    for place in bytes.as_chunks_mut::<8>().0 {
        *place = word.to_be_bytes();
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    }
    bytes.truncate(length);
    bytes
}

impl App {
    /// Returns whether all messages were received, except those that the peer has abandoned.
    pub fn is_served(&self, peer_gave_up: &BTreeSet<u64>) -> bool {
        let ordered = self.ordered.values().flatten();
        let unordered = self.unordered.values().flatten();
        let owed = ordered.chain(unordered).map(|expected| &expected.number);
        owed.chain(&self.missing).all(|number| peer_gave_up.contains(number))
    }

    /// Returns the number of messages that did not arrive.
    pub fn count_missing(&self) -> u64 {
        let owed = self.ordered.values().map(VecDeque::len).chain(self.unordered.values().map(BTreeSet::len));
        owed.sum::<usize>() as u64 + self.missing.len() as u64
    }

    /// Describes the messages that are still expected.
    pub fn owed(&self) -> String {
        let ordered = self.ordered.iter().filter(|(_, owed)| !owed.is_empty());
        let unordered = self.unordered.iter().filter(|(_, owed)| !owed.is_empty());
        let (ordered, unordered): (Vec<_>, Vec<_>) = (ordered.collect(), unordered.collect());
        format!("ordered {ordered:?}, unordered {unordered:?}, and {:?} did not come", self.missing)
    }

    /// Called when the peer's host has rebooted. The expected messages need not arrive any more, and a partly read
    /// message stays incomplete. This side can still read complete messages that it received before the reboot (RFC
    /// 9260 §5.2.4 A).
    pub fn forgive_rebooted(&mut self) {
        let partial = std::mem::take(&mut self.partial);
        let mut before = std::mem::take(&mut self.before_reboot);
        before.extend(
            self.ordered.iter().flat_map(|(&stream, owed)| owed.iter().map(move |&e| (stream, false, e))),
        );
        before.extend(
            self.unordered.iter().flat_map(|(&stream, owed)| owed.iter().map(move |&e| (stream, true, e))),
        );
        self.forgive();
        (self.partial, self.before_reboot) = (partial, before);
    }

    /// Returns the numbers of the messages that are still expected.
    pub fn owed_numbers(&self) -> impl Iterator<Item = u64> {
        let ordered = self.ordered.values().flatten();
        let unordered = self.unordered.values().flatten();
        ordered.chain(unordered).map(|expected| expected.number).chain(self.missing.iter().copied())
    }

    /// Forgets all expected messages. Called when the association has ended, because the messages were lost with it.
    pub fn forgive(&mut self) {
        self.ordered.clear();
        self.unordered.clear();
        self.missing.clear();
        self.partial.clear();
        self.readable.clear();
        self.sent_by_peer.clear();
        self.before_reboot.clear();
    }

    /// Forgets the messages sent so far. Called when the peer starts another association: only messages sent from now
    /// on count.
    pub fn forget_history(&mut self) {
        self.sent_by_peer.clear();
    }

    /// Called when this side has given up an association, and then accepts the peer's repeated COOKIE ECHO as a new
    /// association. The peer continues its association, and sends all its messages again. `unacknowledged` is the
    /// number of bytes that the peer still buffers for retransmission.
    pub fn owe_again(&mut self, unacknowledged: u64, peer_gave_up: &BTreeSet<u64>) {
        let all = std::mem::take(&mut self.sent_by_peer);
        let kept = all.iter().filter(|(_, _, expected)| !peer_gave_up.contains(&expected.number));
        let bytes: usize = kept.map(|(_, _, expected)| expected.length).sum();
        assert_eq!(bytes as u64, unacknowledged, "acknowledged by an association that has ended");
        self.forgive();
        for (stream, unordered, expected) in all {
            self.owe(stream, unordered, expected);
        }
    }

    pub fn next_read(&self) -> Option<Instant> {
        self.read_at
    }

    /// Records that the peer's application has sent a message.
    pub fn owe(&mut self, stream: u16, unordered: bool, expected: Expected) {
        self.sent_by_peer.push((stream, unordered, expected));
        if unordered {
            self.unordered.entry(stream).or_default().insert(expected);
        } else {
            self.ordered.entry(stream).or_default().push_back(expected);
        }
    }

    /// Drops the message that is being read, because it will never be complete. Returns the number of bytes that were
    /// already read.
    fn drop_part(&mut self, stream: u16) -> usize {
        std::mem::take(self.partial.entry(stream).or_default()).len()
    }

    fn take(&mut self, stream: u16, ppid: u32, unordered: bool, end: bool, part: &[u8]) -> Option<usize> {
        let peer_cancels = self.peer_cancels;
        let whole = self.partial.entry(stream).or_default();
        whole.extend_from_slice(part);
        self.bytes += part.len() as u64;
        if !end {
            return None;
        }
        let whole = std::mem::take(whole);
        self.messages += 1;
        let old = self.before_reboot.iter().find(|(of, kind, expected)| {
            (*of, *kind, expected.ppid) == (stream, unordered, ppid)
                && whole == content(expected.number, expected.length)
        });
        if let Some(&old) = old {
            self.before_reboot.remove(&old);
            return Some(whole.len());
        }
        let expected = if unordered {
            let number = u64::from_be_bytes(whole[..8].try_into().expect("eight bytes"));
            let owed = self.unordered.entry(stream).or_default();
            let expected = owed.iter().find(|expected| expected.number == number).copied();
            let expected = expected
                .unwrap_or_else(|| panic!("stream {stream}: unordered {number} was not owed (any more)"));
            owed.remove(&expected);
            expected
        } else {
            let owed = self.ordered.entry(stream).or_default();
            // Messages that are expected before this message may have been abandoned by the peer. They count as
            // missing, because in an ordered stream they cannot arrive after this message.
            while let Some(first) = owed.front()
                && (first.limited || peer_cancels)
                && (first.ppid != ppid || whole != content(first.number, first.length))
            {
                self.missing.insert(first.number);
                owed.pop_front();
            }
            owed.pop_front()
                .unwrap_or_else(|| panic!("stream {stream}: {} bytes that were not owed", whole.len()))
        };
        assert_eq!((whole.len(), ppid), (expected.length, expected.ppid), "stream {stream}: {expected:?}");
        assert!(
            whole == content(expected.number, expected.length),
            "stream {stream}: {expected:?} is damaged"
        );
        Some(whole.len())
    }
}

impl TestEndpoint {
    /// Sends message `number`, and records that `peer` expects it. Returns an error if the send buffer has no room.
    pub fn send(
        &mut self,
        now: Instant,
        id: AssociationId,
        message: Message,
        number: u64,
        length: usize,
        peer: &mut App,
    ) -> Result<(), SendError> {
        let limited = message.reliability != Reliability::Full;
        let message = Message { context: number as u32, ..message };
        self.engine.send(now, id, message, &content(number, length))?;
        peer.owe(message.stream, message.unordered, Expected { number, length, ppid: message.ppid, limited });
        Ok(())
    }

    /// Reacts as an application to an event of the endpoint. Returns the lines to add to the ladder diagram.
    pub fn hear(&mut self, now: Instant, event: &Event) -> Vec<String> {
        if let Event::Abandoned { context, .. } = *event {
            let new = self.app.given_up.insert(u64::from(context));
            assert!(new, "message {context} is given up twice");
        }
        if let Event::SendFailed { context, .. } = *event {
            let number = u64::from(context);
            let new = self.app.failed.insert(number) && !self.app.given_up.contains(&number);
            // Messages that a test gives to the engine directly all have the number 0, so several messages with this
            // number may fail.
            assert!(new || number == 0, "message {context} has failed twice");
        }
        let Event::Readable { id, stream } = *event else { return Vec::new() };
        if self.app.reading_pause.is_zero() {
            return self.read(now, id, stream);
        }
        self.app.readable.insert((id, stream));
        self.app.read_at.get_or_insert(now + self.app.reading_pause);
        Vec::new()
    }

    /// Reads all streams that have readable data.
    pub fn read_all(&mut self, now: Instant) {
        self.app.read_at = None;
        for (id, stream) in std::mem::take(&mut self.app.readable) {
            self.read(now, id, stream);
        }
    }

    fn read(&mut self, now: Instant, id: AssociationId, stream: u16) -> Vec<String> {
        let mut lines = Vec::new();
        let mut buffer = vec![0; 9_000];
        // Reads until no data is available, or until the association no longer exists.
        while let Ok(Some(got)) = self.engine.recv(now, id, stream, &mut buffer) {
            assert!(got.bytes > 0 || got.end_of_message, "an empty part");
            let part = &buffer[..got.bytes];
            if got.incomplete {
                let read = self.app.drop_part(stream);
                assert!(read > 0 && got.end_of_message && got.bytes == 0, "told of what it never saw");
                lines.push(format!("sid={stream} ends after {read}"));
                continue;
            }
            let whole = self.app.take(stream, got.ppid, got.unordered, got.end_of_message, part);
            if let Some(length) = whole {
                lines.push(format!("received sid={stream} len={length}"));
            } else if self.app.report_parts {
                lines.push(format!("received sid={stream} part of {}", got.bytes));
            }
        }
        lines
    }
}

/// Describes an event for the ladder diagram. Returns `None` for an event that the diagram does not show.
pub fn describe(event: &Event) -> Option<String> {
    Some(match event {
        Event::Established { outbound_streams, inbound_streams, .. } => {
            format!("established, {outbound_streams} streams out, {inbound_streams} in")
        }
        Event::Accepted { outbound_streams, inbound_streams, .. } => {
            format!("accepted, {outbound_streams} streams out, {inbound_streams} in")
        }
        // These events get no line in the diagram. An interruption shows as a pause between packets, and `PathUp`
        // precedes `PathRestored`.
        Event::Readable { .. } | Event::Interrupted { .. } | Event::PathRestored { .. } => return None,
        Event::Writable { .. } => "writable".into(),
        Event::Abandoned { stream, bytes, context, policy, sent, .. } => {
            let sent = if *sent { "sent" } else { "unsent" };
            format!("gave up sid={stream} len={bytes} context={context}, {sent}, by {policy:?}")
        }
        Event::SendFailed { stream, bytes, context, sent, .. } => {
            let sent = if *sent { "sent" } else { "unsent" };
            format!("not delivered: sid={stream} len={bytes} context={context}, {sent}")
        }
        Event::PathUp { address, .. } => format!("path to {address} is up"),
        Event::PathPotentiallyFailed { address, .. } => format!("path to {address} may have failed"),
        Event::PathDown { address, .. } => format!("path to {address} is down"),
        Event::Restarted { .. } => "peer restarted".into(),
        Event::PeerShutdown { .. } => "peer wants to shut down".into(),
        Event::StreamsReset { direction, streams, .. } => {
            format!("streams reset: {direction:?} {}", listed(streams))
        }
        // The diagram shows the peer's RE-CONFIG chunk instead.
        Event::ResetRequested { .. } => return None,
        Event::StreamsAdded { outgoing, incoming, .. } => {
            format!("streams added: {outgoing} out, {incoming} in")
        }
        Event::AssociationReset { .. } => "association reset".into(),
        Event::ResetFailed { direction: None, result, .. } => format!("association not reset: {result:?}"),
        Event::ResetFailed { direction: Some(direction), streams, result, .. } => {
            format!("streams not reset: {direction:?} {}: {result:?}", listed(streams))
        }
        Event::AddFailed { outgoing, incoming, result, .. } => {
            format!("streams not added: {outgoing} out, {incoming} in: {result:?}")
        }
        Event::PathAdded { address, .. } => format!("peer has {address}"),
        Event::PathRemoved { address, .. } => format!("peer gives {address} up"),
        Event::PrimaryChanged { address, .. } => format!("primary is {address}"),
        Event::LocalAddress { address, change, .. } => format!("{address}: {change:?}"),
        Event::Key { key, change, .. } => format!("key {key}: {change:?}"),
        Event::Adaptation { code, .. } => format!("adaptation {code}"),
        // The diagram shows the peer's ERROR or ABORT chunk instead.
        Event::PeerError { .. } | Event::AbortReason { .. } => return None,
        Event::Closed { reason, .. } => format!("closed: {reason:?}"),
        Event::BufferedAmountLow { stream, .. } => format!("little is left of sid={stream}"),
        other => format!("{other:?}"),
    })
}

fn listed(streams: &[u16]) -> String {
    match streams {
        [] => "all".into(),
        [first, .., last] if streams.len() > 8 => format!("[{first}, … {last}], {} in all", streams.len()),
        _ => format!("{streams:?}"),
    }
}
