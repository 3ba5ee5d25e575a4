//! The record state of a DTLS 1.3 connection (RFC 9147): epochs, acknowledgements, key updates and alerts.
//!
//! Application data is in epoch 3 and later epochs (RFC 9147 §6.1). In epoch 2, a client's last flight is one Finished
//! message. The client retransmits this message until the server acknowledges it (§5.8.1). A server acknowledges each
//! copy (§7).
//!
//! A KeyUpdate is the last message of its epoch. It is retransmitted in that epoch until it is acknowledged, and then
//! the sender's next epoch begins (RFC 9147 §8). Therefore the epoch identifies the KeyUpdate, and handshake messages
//! need not be reordered. Session tickets are acknowledged and discarded. All other messages are refused.

use super::keys::{ACK, ALERT, Content, DATA, HANDSHAKE, Header, Header12, Keys13, TAG};
use super::unacked_message::UnackedMessage;
use super::window::{MAX_NUMBER, Window};
use super::{
    CLOSE_NOTIFY, FATAL, FINISHED, ILLEGAL_PARAMETER, KEY_UPDATE, MAX_FORGED, NEW_SESSION_TICKET, RecordsEnd,
    UNEXPECTED_MESSAGE, USER_CANCELED, messages,
};
use crate::aead::Aead;
use crate::secrets::{
    CLIENT_HANDSHAKE, CLIENT_TRAFFIC, ObservedSecrets, SERVER_HANDSHAKE, SERVER_TRAFFIC, TrafficSecret,
};
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// The bytes that a record adds to a packet: the header, the content type, and the tag.
pub(super) const OVERHEAD: usize = 5 + 1 + TAG;

pub(crate) struct Records {
    aead: Aead,
    client: bool,
    sending: Sending,
    receiving: Receiving,
    /// The keys of the peer's previous epoch, whose records may arrive late.
    previous: Option<Box<Receiving>>,
    handshake_epoch: Option<Box<HandshakeEpoch>>,
    /// Our Finished message, until the server has acknowledged it.
    finished: Option<Box<UnackedMessage>>,
    /// Our KeyUpdate message, until the peer has acknowledged it.
    update: Option<Box<UnackedMessage>>,
    /// The number of our next handshake message.
    next_message_seq: u16,
    /// The number of records after which our key is changed.
    update_after: u64,
    /// The number of records that failed authentication.
    forged: u64,
    /// Whether the handshake is done.
    is_established: bool,
    /// Whether a packet of the peer has arrived.
    has_received: bool,
}

struct Sending {
    keys: Keys13,
    secret: TrafficSecret,
    epoch: u64,
    next: u64,
}

struct Receiving {
    keys: Keys13,
    secret: TrafficSecret,
    epoch: u64,
    window: Window,
}

/// The keys of epoch 2, which protects handshake messages. They are derived on first use, and kept while they are
/// needed.
struct HandshakeEpoch {
    sending: (TrafficSecret, Option<Box<Keys13>>),
    receiving: (TrafficSecret, Option<Box<Keys13>>),
    next: u64,
    window: Window,
    since: Option<Instant>,
}

impl Records {
    pub fn of(secrets: &ObservedSecrets, client: bool, update_after: u64) -> Option<Self> {
        let aead = secrets.aead?;
        let pair = |labels: [&str; 2]| {
            let [first, second] = labels.map(|label| secrets.secret(label));
            let (first, second) = (first?, second?);
            Some(if client { (first, second) } else { (second, first) })
        };
        let (ours, theirs) = pair([CLIENT_TRAFFIC, SERVER_TRAFFIC])?;
        let (ours_handshake, theirs_handshake) = pair([CLIENT_HANDSHAKE, SERVER_HANDSHAKE])?;
        let [keys, their_keys] = [&ours, &theirs].map(|secret| Keys13::new(aead, secret));
        Some(Self {
            aead,
            client,
            sending: Sending { keys: keys?, secret: ours, epoch: FIRST, next: 0 },
            receiving: Receiving {
                keys: their_keys?,
                secret: theirs,
                epoch: FIRST,
                window: Window::default(),
            },
            previous: None,
            handshake_epoch: Some(Box::new(HandshakeEpoch {
                sending: (ours_handshake, None),
                receiving: (theirs_handshake, None),
                next: 0,
                window: Window::default(),
                since: None,
            })),
            finished: None,
            update: None,
            next_message_seq: 0,
            // Keys are changed after at most `UPDATE_AFTER` records, which is below the cipher's limit. The rest of the
            // limit is left for acknowledgements.
            update_after: update_after.min(UPDATE_AFTER),
            forged: 0,
            is_established: false,
            has_received: false,
        })
    }

    /// Reads the record numbers of `datagram`, which the library dimpl sends during the handshake. Our first record has
    /// the number after dimpl's last. If `datagram` contains the client's Finished message, stores the message for retransmission.
    pub fn adopt(&mut self, datagram: &[u8], now: Instant) {
        let mut rest = datagram;
        while let Some(end) = record_end(rest) {
            let mut record = rest[..end].to_vec();
            rest = &rest[end..];
            let Some(header) = Header::read(&record) else { continue };
            let (keys, next) = match (header.epoch, &mut self.handshake_epoch) {
                (2, Some(handshake_epoch)) => {
                    (derive(self.aead, &mut handshake_epoch.sending), &mut handshake_epoch.next)
                }
                _ => (Some(&self.sending.keys), &mut self.sending.next),
            };
            let opened = keys.and_then(|keys| keys.open(&Window::at(*next), header, &mut record));
            let Some(Content { number, kind, range }) = opened else { continue };
            *next = number + 1;
            let content = &record[range];
            if kind != HANDSHAKE {
                continue;
            }
            for (kind, message_seq, _) in messages(content) {
                self.next_message_seq = message_seq.wrapping_add(1);
                if kind == FINISHED && self.client {
                    let mut message = UnackedMessage::new(content.to_vec(), TRIES);
                    message.note(number, now);
                    self.finished = Some(Box::new(message));
                }
            }
        }
    }

    pub fn begin(&mut self, now: Instant) {
        self.is_established = true;
        if let Some(handshake_epoch) = &mut self.handshake_epoch {
            handshake_epoch.since = Some(now);
            (handshake_epoch.sending.1, handshake_epoch.receiving.1) = (None, None);
        }
    }

    /// RFC 9147 §4.5.3: whether the key may encrypt another record.
    #[inline]
    pub fn may_seal(&self) -> bool {
        self.sending.next < MAX_SEALED
    }

    #[inline]
    pub fn seal(&mut self, kind: u8, content: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let Sending { keys, epoch, next, .. } = &mut self.sending;
        if *next >= MAX_SEALED {
            return None;
        }
        let number = *next;
        *next += 1;
        keys.seal(*epoch, number, kind, content, out)
    }

    #[inline]
    pub fn receive(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        mut deliver: impl FnMut(&[u8]),
        mut send: impl FnMut(&[u8]),
    ) -> Option<RecordsEnd> {
        let mut rest = datagram;
        loop {
            let Some(header) = Header::read(rest) else {
                // Unencrypted records are skipped. They belong to the handshake, and encrypted records may follow them
                // in the datagram.
                let end = Header12::read(rest)?.end;
                rest = rest.split_at_mut_checked(end)?.1;
                continue;
            };
            let record;
            (record, rest) = rest.split_at_mut_checked(header.end)?;
            match self.open(header, record) {
                Some((_, Content { kind: DATA, range, .. })) => {
                    self.has_received = true;
                    deliver(&record[range]);
                }
                Some((epoch, Content { number, kind, range })) if self.is_established => {
                    if let Some(ended) = self.handle(now, (epoch, number), kind, &record[range], &mut send) {
                        return Some(ended);
                    }
                }
                Some(_) => {}
                None => {
                    // RFC 9147 §4.5.2: a record that fails authentication is discarded silently. The number of these
                    // records is limited (§4.5.3).
                    self.forged += 1;
                    if self.forged >= MAX_FORGED {
                        return Some(RecordsEnd::KeyLimitReached);
                    }
                }
            }
        }
    }

    /// Decrypts a record with the keys of its epoch.
    #[inline]
    fn open(&mut self, header: Header, record: &mut [u8]) -> Option<(u64, Content)> {
        let is_of = |epoch: u64| epoch & 3 == u64::from(header.epoch);
        // RFC 9147 §4.2.2: the last two bits of the epoch select the keys. Only authentic records move a replay window.
        let receiving = match &mut self.previous {
            _ if is_of(self.receiving.epoch) => &mut self.receiving,
            Some(previous) if is_of(previous.epoch) => previous,
            _ => return self.open_handshake(header, record),
        };
        let content = receiving.keys.open(&receiving.window, header, record)?;
        receiving.window.note(content.number);
        Some((receiving.epoch, content))
    }

    #[cold]
    fn open_handshake(&mut self, header: Header, record: &mut [u8]) -> Option<(u64, Content)> {
        let handshake_epoch = self.handshake_epoch.as_mut().filter(|_| header.epoch == 2)?;
        let content = derive(self.aead, &mut handshake_epoch.receiving)?.open(
            &handshake_epoch.window,
            header,
            record,
        )?;
        handshake_epoch.window.note(content.number);
        Some((2, content))
    }

    /// Handles a record that does not contain a packet.
    #[cold]
    fn handle(
        &mut self,
        now: Instant,
        record: (u64, u64),
        kind: u8,
        content: &[u8],
        send: &mut impl FnMut(&[u8]),
    ) -> Option<RecordsEnd> {
        match (kind, content) {
            (ACK, _) => {
                self.take_ack(content);
                None
            }
            (ALERT, [_, CLOSE_NOTIFY]) => {
                // RFC 8446 §6.1: the peer has closed its sending direction, so we close ours.
                self.send_record(ALERT, &super::GOODBYE, send);
                Some(RecordsEnd::Closed)
            }
            (ALERT, [_, USER_CANCELED]) => None,
            (ALERT, [_, alert]) => Some(RecordsEnd::Alert(*alert)),
            (HANDSHAKE, _) if record.0 == 2 => {
                self.take_repeated_handshake(now, record, content, send);
                None
            }
            (HANDSHAKE, _) => self.take_message(now, record, content, send),
            _ => self.refuse(UNEXPECTED_MESSAGE, "a record that cannot be used", send),
        }
    }

    /// Handles a handshake message that the peer repeats after the handshake is done.
    fn take_repeated_handshake(
        &mut self,
        now: Instant,
        record: (u64, u64),
        content: &[u8],
        send: &mut impl FnMut(&[u8]),
    ) {
        let since = self.handshake_epoch.as_ref().and_then(|handshake_epoch| handshake_epoch.since);
        if since.is_some_and(|since| now > since + KEPT) {
            self.handshake_epoch = None;
        } else if !self.client && messages(content).any(|(kind, ..)| kind == FINISHED) {
            // RFC 9147 §7: the client repeats its Finished because our acknowledgement was lost.
            self.acknowledge(record, send);
        } else if self.finished.as_ref().is_some_and(|message| message.can_send_early(now)) {
            self.send_finished(now, send);
        }
    }

    /// Handles a message of type handshake that arrives after the handshake is done, for example a KeyUpdate.
    fn take_message(
        &mut self,
        now: Instant,
        record: (u64, u64),
        content: &[u8],
        send: &mut impl FnMut(&[u8]),
    ) -> Option<RecordsEnd> {
        for (kind, _, body) in messages(content) {
            match (kind, body) {
                // Session tickets are ignored, because connections are not resumed.
                (NEW_SESSION_TICKET, _) if self.client => {}
                // RFC 9147 §8: a KeyUpdate of an earlier epoch has already been applied, so it is only acknowledged
                // again.
                (KEY_UPDATE, Some(_)) if record.0 < self.receiving.epoch => {}
                (KEY_UPDATE, Some(&[asks @ (0 | 1)])) => {
                    if self.next_receiving().is_none() {
                        return Some(RecordsEnd::KeyLimitReached);
                    }
                    // RFC 8446 §5.1: a KeyUpdate is the last message of its record.
                    self.acknowledge(record, send);
                    if asks == 1 && self.update.is_none() {
                        self.send_update(now, send);
                    }
                    return None;
                }
                (KEY_UPDATE, Some(_)) => {
                    return self.refuse(ILLEGAL_PARAMETER, "a wrong update of keys", send);
                }
                _ => return self.refuse(UNEXPECTED_MESSAGE, "a handshake message of no use", send),
            }
        }
        self.acknowledge(record, send);
        None
    }

    /// Switches to the keys with which the peer encrypts in its next epoch.
    fn next_receiving(&mut self) -> Option<()> {
        let secret = self.receiving.secret.next();
        let epoch = self.receiving.epoch + 1;
        // RFC 9147 §8: an epoch above the highest is refused.
        let keys = Keys13::new(self.aead, &secret).filter(|_| epoch <= MAX_EPOCH)?;
        let newer = Receiving { keys, secret, epoch, window: Window::default() };
        self.previous = Some(Box::new(std::mem::replace(&mut self.receiving, newer)));
        if epoch & 3 == 2 {
            self.handshake_epoch = None;
        }
        Some(())
    }

    /// RFC 9147 §7: handles the peer's acknowledgement of our records.
    fn take_ack(&mut self, content: &[u8]) {
        let Some((length, numbers)) = content.split_first_chunk() else { return };
        if usize::from(u16::from_be_bytes(*length)) != numbers.len() {
            return;
        }
        for pair in numbers.chunks_exact(16) {
            let (Some(&epoch), Some(&number)) = (pair.first_chunk(), pair.last_chunk()) else { return };
            let (epoch, number) = (u64::from_be_bytes(epoch), u64::from_be_bytes(number));
            let has_come = |message: &Option<Box<UnackedMessage>>| {
                message.as_ref().is_some_and(|message| message.contains(number))
            };
            if epoch == 2 && has_come(&self.finished) {
                (self.finished, self.handshake_epoch) = (None, None);
            }
            if epoch == self.sending.epoch && has_come(&self.update) {
                self.update = None;
                let secret = self.sending.secret.next();
                if let Some(keys) = Keys13::new(self.aead, &secret) {
                    self.sending = Sending { keys, secret, epoch: epoch + 1, next: 0 };
                }
            }
        }
    }

    /// Returns whether our key has to be changed.
    #[inline]
    pub fn wants_update(&self) -> bool {
        self.sending.next >= self.update_after && self.update.is_none() && self.sending.epoch < MAX_EPOCH
    }

    pub fn deadline(&self) -> Option<Instant> {
        let due = |message: &Option<Box<UnackedMessage>>| message.as_ref().and_then(|message| message.due());
        due(&self.finished).into_iter().chain(due(&self.update)).min()
    }

    pub fn expire(&mut self, now: Instant, mut send: impl FnMut(&[u8])) -> Option<RecordsEnd> {
        let is_due = |message: &UnackedMessage| message.due().is_some_and(|at| at <= now);
        if let Some(message) = &self.finished
            && is_due(message)
        {
            match message.is_spent() {
                false => self.send_finished(now, &mut send),
                // A received packet proves that the server has our Finished, even if its acknowledgement of our
                // Finished was lost.
                true if self.has_received => (self.finished, self.handshake_epoch) = (None, None),
                true => return Some(RecordsEnd::TimedOut),
            }
        }
        if self.update.as_ref().is_some_and(|message| is_due(message)) || self.wants_update() {
            self.send_update(now, &mut send);
        }
        None
    }

    /// Sends the Finished message again.
    fn send_finished(&mut self, now: Instant, send: &mut impl FnMut(&[u8])) {
        let (Some(message), Some(handshake_epoch)) = (&mut self.finished, &mut self.handshake_epoch) else {
            return;
        };
        let (number, mut out) = (handshake_epoch.next, Vec::new());
        handshake_epoch.next += 1;
        let keys = derive(self.aead, &mut handshake_epoch.sending);
        let sealed = keys.and_then(|keys| keys.seal(2, number, HANDSHAKE, &message.content, &mut out));
        if sealed.is_some() {
            message.note(number, now);
            send(&out);
        }
    }

    /// Sends our KeyUpdate, for the first time or again. The KeyUpdate does not ask the peer to update its keys,
    /// because each host decides when its own keys are changed.
    fn send_update(&mut self, now: Instant, send: &mut impl FnMut(&[u8])) {
        if self.sending.epoch >= MAX_EPOCH {
            return;
        }
        let mut message = self.update.take().unwrap_or_else(|| {
            let [high, low] = self.next_message_seq.to_be_bytes();
            self.next_message_seq = self.next_message_seq.wrapping_add(1);
            let content = vec![KEY_UPDATE, 0, 0, 1, high, low, 0, 0, 0, 0, 0, 1, 0];
            Box::new(UnackedMessage::new(content, u32::MAX))
        });
        message.note(self.sending.next, now);
        self.send_record(HANDSHAKE, &message.content, send);
        self.update = Some(message);
    }

    fn acknowledge(&mut self, (epoch, number): (u64, u64), send: &mut impl FnMut(&[u8])) {
        let mut content = [0; 2 + 16];
        content[1] = 16;
        content[2..10].copy_from_slice(&epoch.to_be_bytes());
        content[10..].copy_from_slice(&number.to_be_bytes());
        self.send_record(ACK, &content, send);
    }

    fn refuse(&mut self, alert: u8, what: &'static str, send: &mut impl FnMut(&[u8])) -> Option<RecordsEnd> {
        self.send_record(ALERT, &[FATAL, alert], send);
        Some(RecordsEnd::Broken(what))
    }

    /// Sends a datagram with a single record that has this type and content.
    fn send_record(&mut self, kind: u8, content: &[u8], send: &mut impl FnMut(&[u8])) {
        let mut out = Vec::new();
        if self.seal(kind, content, &mut out).is_some() {
            send(&out);
        }
    }
}

/// Returns the keys for a secret. The keys are derived on first use.
fn derive(aead: Aead, (secret, keys): &mut (TrafficSecret, Option<Box<Keys13>>)) -> Option<&Keys13> {
    if keys.is_none() {
        *keys = Keys13::new(aead, secret).map(Box::new);
    }
    keys.as_deref()
}

/// Returns the end of the first record (RFC 9147 §4). An unencrypted record has the header of DTLS 1.2.
pub(super) fn record_end(bytes: &[u8]) -> Option<usize> {
    let encrypted = Header::read(bytes).map(|header| header.end);
    encrypted.or_else(|| Header12::read(bytes).map(|header| header.end))
}

/// Returns the end of the first record, if the record belongs to the first epoch of application data.
pub(super) fn data_end(bytes: &[u8]) -> Option<usize> {
    Header::read(bytes).filter(|header| u64::from(header.epoch) == FIRST).map(|header| header.end)
}

/// The first epoch of application data.
const FIRST: u64 = 3;
/// RFC 9147 §8: the highest epoch.
const MAX_EPOCH: u64 = (1 << 48) - 1;
/// The number of records that one key may encrypt. RFC 8446 §5.5: 2^24.5 records for AES-GCM, which RFC 9147 §4.5.3
/// adopts. ChaCha20-Poly1305 has no such limit, but the same limit is applied to it.
const MAX_SEALED: u64 = 23_726_566;
/// The number of records after which our key is changed, well below [`MAX_SEALED`].
pub(crate) const UPDATE_AFTER: u64 = 1 << 23;
const _: () = assert!(UPDATE_AFTER < MAX_SEALED && MAX_SEALED < MAX_NUMBER);
/// The number of times that Finished is sent. All attempts and the waiting times between them together take as long as
/// a handshake may take.
const TRIES: u32 = 5;
/// The time for which repeated handshake messages are answered: twice the maximum segment lifetime. RFC 793 sets that
/// lifetime to two minutes.
const KEPT: Duration = Duration::from_secs(240);

#[cfg(test)]
impl Records {
    /// Returns the epoch and the number of our next record, so that tests can change the number.
    pub fn next(&mut self) -> (u64, &mut u64) {
        (self.sending.epoch, &mut self.sending.next)
    }

    /// Returns the epoch of the peer's records.
    pub fn receiving_epoch(&self) -> u64 {
        self.receiving.epoch
    }
}
