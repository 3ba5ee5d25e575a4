//! The DTLS connections in a capture. Their records carry SCTP packets (RFC 8261), as in WebRTC.
//!
//! A connection is recognized by its ClientHello. Records with connection IDs (RFC 9146) are not decrypted.
//!
//! Implements RFC 6347 §4.1 (records of DTLS 1.2) and §4.2.2 (handshake messages), RFC 9147 §4 (records of DTLS 1.3) and
//! §6.1 (epochs).

use super::arrival::{Arrival, Endpoint, Pair, Side, endpoints};
use super::conversation::ConversationBuilder;
use super::copies;
use super::frame::IpPayload;
use super::handshake::Agreed;
use super::key_log::{KeyLog, Label};
use super::keys::{self, Key, Protocol, SAMPLE, TAG, TrafficKeys, nearest};
use super::ranges::Ranges;
use super::reassembly::MAX_AHEAD;
use super::results::Conversation;
use super::timeline::Event;
use super::{PacketOutcome, Settings};
use anabranch_wire::udp::Datagram;
use ring::aead::quic::HeaderProtectionKey;
use std::collections::BTreeMap;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
/// The length of a record header of DTLS 1.2 in bytes.
const HEAD: usize = 13;
/// The length of the header of a handshake message in bytes.
const MESSAGE_HEAD: usize = 12;
/// The maximum number of incomplete handshake messages of a connection, and the maximum length of each.
const MAX_PARTIAL: usize = 8;
const MAX_MESSAGE: usize = 1 << 16;
/// The maximum number of records of a connection that wait for the ServerHello.
const MAX_WAITING: usize = 16;

/// The result of processing a datagram: the outcome for its packet, the name of the protocol, and the application data.
type Taken = (PacketOutcome, &'static str, Vec<Vec<u8>>);

/// All DTLS connections of a capture.
pub(super) struct Connections {
    all: Vec<Connection>,
    by_pair: BTreeMap<Pair, usize>,
    /// The number of bytes that the incomplete handshake messages of all connections may still take.
    room: usize,
}

impl Default for Connections {
    fn default() -> Self {
        Self { all: Vec::new(), by_pair: BTreeMap::new(), room: MAX_AHEAD }
    }
}

/// The keys of one epoch of DTLS 1.3, and the largest record number decrypted with them.
struct Epoch {
    keys: TrafficKeys,
    header: HeaderProtectionKey,
    largest: Option<u64>,
}

struct Connection {
    conversation: ConversationBuilder,
    initiator: Endpoint,
    agreed: Agreed,
    /// The incomplete handshake messages by side and number.
    partial: BTreeMap<(Side, u16), (Vec<u8>, Ranges)>,
    keys12: [Option<Key>; 2],
    /// The keys of each side in DTLS 1.3, by epoch.
    epochs: [BTreeMap<u64, Epoch>; 2],
    /// The records that came before the ServerHello. Their keys are not known yet.
    waiting: Vec<(u64, Side, Vec<u8>)>,
    opened: [u64; 2],
    had_secret: bool,
}

impl Connections {
    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Processes a datagram. `room` says whether another connection can be followed. Returns `None` if the datagram does
    /// not belong to DTLS.
    pub fn take(
        &mut self,
        at: u64,
        carried: &IpPayload<'_>,
        datagram: &Datagram<'_>,
        log: &KeyLog,
        (settings, room): (&Settings, bool),
    ) -> Option<Taken> {
        let bytes = datagram.payload;
        // RFC 7983 §7: ignores other protocols on the same port, such as STUN and SRTP. Their packets begin with other
        // bytes.
        bytes.first().filter(|first| (20..=63).contains(*first))?;
        let (source, pair) = endpoints(carried, datagram);
        let random = hello_random(bytes);
        let known = self.by_pair.get(&pair).copied().filter(|index| {
            // A ClientHello with another random value after a completed handshake begins another connection.
            let agreed = &self.all[*index].agreed;
            agreed.times[3].is_none() || random.is_none() || random == agreed.client_random
        });
        let index = match known {
            Some(index) => index,
            None if random.is_none() => return None,
            None if !room => return Some((PacketOutcome::NotFollowed { opening: true }, "", Vec::new())),
            None => {
                let arrival = Arrival::new(at, 0, carried, bytes);
                let ports = [datagram.source_port, datagram.target_port];
                let mut conversation = ConversationBuilder::new(&arrival, ports, settings);
                conversation.end.how = "incomplete";
                self.all.push(Connection::new(conversation, source));
                self.all.len() - 1
            }
        };
        self.by_pair.insert(pair, index);
        let connection = &mut self.all[index];
        let side = usize::from(source != connection.initiator);
        let mut arrival = Arrival::new(at, side, carried, bytes);
        (arrival.is_unique, arrival.digest) = (true, copies::digest(bytes, 0..0));
        let data = connection.datagram(&arrival, log, &mut self.room);
        Some((PacketOutcome::Counted, connection.protocol(), data))
    }

    /// Discards the ladder diagrams of all connections.
    pub fn forget_ladders(&mut self) {
        self.all.iter_mut().for_each(|connection| connection.conversation.forget_ladder());
    }

    /// Returns the results of all connections.
    pub fn finish(self) -> Vec<Conversation> {
        self.all.into_iter().map(|connection| connection.finish()).collect()
    }
}

/// Returns the random value of the ClientHello with which a datagram begins.
fn hello_random(bytes: &[u8]) -> Option<[u8; 32]> {
    let [HANDSHAKE, 0xfe, _, 0, 0, ..] = *bytes else { return None };
    let (message, hello) = bytes.get(HEAD..)?.split_at_checked(MESSAGE_HEAD)?;
    let is_first_fragment = message[0] == super::handshake::CLIENT_HELLO && message[6..9] == [0; 3];
    hello.get(2..34)?.try_into().ok().filter(|_| is_first_fragment)
}

impl Connection {
    fn new(conversation: ConversationBuilder, initiator: Endpoint) -> Self {
        Self {
            conversation,
            initiator,
            agreed: Agreed::default(),
            partial: BTreeMap::new(),
            keys12: [None, None],
            epochs: [BTreeMap::new(), BTreeMap::new()],
            waiting: Vec::new(),
            opened: [0; 2],
            had_secret: false,
        }
    }

    fn protocol(&self) -> &'static str {
        match self.agreed.version {
            Some(0xfefc) => "DTLS 1.3",
            Some(0xfefd) => "DTLS 1.2",
            Some(0xfeff) => "DTLS 1.0",
            _ => "DTLS",
        }
    }

    /// Processes a datagram. Returns the application data in its records.
    fn datagram(&mut self, arrival: &Arrival<'_>, log: &KeyLog, room: &mut usize) -> Vec<Vec<u8>> {
        let mut data = Vec::new();
        if self.conversation.arrive(arrival).is_none() {
            // Returns the application data even though the packet is a copy. The SCTP decoder then also counts its
            // packet as a copy.
            self.records(arrival, log, None, &mut data);
            return data;
        }
        if let ([_, Some(asked), Some(answered), _], 0) = (self.agreed.times, arrival.side) {
            // The round-trip time has two parts: from the ClientHello to the ServerHello, and from the ServerHello to
            // the client's next flight.
            let nanos = answered.saturating_sub(asked) + arrival.at.saturating_sub(answered);
            self.conversation.handshake.rtt_ns.get_or_insert(nanos);
        }
        let text = self.records(arrival, log, Some(&mut *room), &mut data);
        if self.agreed.suite.is_some() {
            for (at, side, record) in std::mem::take(&mut self.waiting) {
                self.record((at, side), &record, log, Some(&mut *room), &mut data);
            }
        }
        let direction = &mut self.conversation.directions[arrival.side];
        direction.data += data.len() as u64;
        direction.bytes += data.iter().map(|data| data.len() as u64).sum::<u64>();
        self.conversation.draw(arrival, |_, _| text, String::new());
        data
    }

    /// Decrypts the records of a datagram. Returns a description of them. For a copy of a datagram, `room` is `None`,
    /// and only the application data is delivered.
    fn records(
        &mut self,
        arrival: &Arrival<'_>,
        log: &KeyLog,
        mut room: Option<&mut usize>,
        data: &mut Vec<Vec<u8>>,
    ) -> String {
        let (mut rest, mut names) = (arrival.bytes, Vec::new());
        while let Some(end) = record_end(rest) {
            let (record, more) = rest.split_at(end);
            rest = more;
            let room = room.as_deref_mut();
            names.push(self.record((arrival.at, arrival.side), record, log, room, data));
        }
        names.join(" + ")
    }

    fn record(
        &mut self,
        (at, side): (u64, Side),
        record: &[u8],
        log: &KeyLog,
        room: Option<&mut usize>,
        data: &mut Vec<Vec<u8>>,
    ) -> String {
        let is_13 = record[0] & 0xe0 == 0x20;
        let is_plain = !is_13 && record[3..5] == [0, 0];
        // RFC 9147 §6.1: application data begins in epoch 3. In DTLS 1.2, its records have their own type.
        let is_open = if is_13 { record[0] & 3 == 3 } else { !is_plain && record[0] == DATA };
        if is_open && self.conversation.end.how == "incomplete" {
            self.conversation.end.how = "open";
        }
        let opened = match is_13 {
            true => self.open13(side, record, log),
            false if is_plain => Some((record[0], record[HEAD..].to_vec())),
            false => self.open12(side, record, log),
        };
        let counts = room.is_some();
        let Some((kind, content)) = opened else {
            if counts && self.agreed.suite.is_none() && self.waiting.len() < MAX_WAITING {
                self.waiting.push((at, side, record.to_vec()));
            } else {
                self.opened[1] += u64::from(counts);
            }
            return "record (not decrypted)".to_owned();
        };
        self.opened[0] += u64::from(counts && !is_plain);
        let name = name(kind, content.len());
        match (kind, room) {
            (HANDSHAKE, Some(room)) => self.handshake(at, side, &content, room),
            (ALERT, Some(_)) => self.alert(at, side, &content),
            (DATA, _) => data.push(content),
            _ => {}
        }
        name
    }

    fn handshake(&mut self, at: u64, side: Side, mut content: &[u8], room: &mut usize) {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
        while let Some((head, rest)) = content.split_at_checked(MESSAGE_HEAD) {
            let [length, sequence, offset, count] =
                [number(&head[1..4]), number(&head[4..6]), number(&head[6..9]), number(&head[9..12])];
            let Some((fragment, rest)) = rest.split_at_checked(count) else { return };
            content = rest;
            if length > MAX_MESSAGE || offset + count > length {
                continue;
            }
            if count == length {
                self.message(at, side, head[0], fragment);
                continue;
            }
            let key = (side, sequence as u16);
            if !self.partial.contains_key(&key) {
                if self.partial.len() >= MAX_PARTIAL
                    && let Some((_, (bytes, _))) = self.partial.pop_first()
                {
                    *room += bytes.len();
                }
                if *room < length {
                    continue;
                }
                *room -= length;
                self.partial.insert(key, (vec![0; length], Ranges::default()));
            }
            let Some((bytes, known)) = self.partial.get_mut(&key).filter(|known| known.0.len() == length)
            else {
                continue;
            };
            bytes[offset..offset + count].copy_from_slice(fragment);
            known.insert(offset as i64, (offset + count) as i64);
            if known.covers(0, length as i64)
                && let Some((bytes, _)) = self.partial.remove(&key)
            {
                *room += length;
                self.message(at, side, head[0], &bytes);
            }
        }
    }

    fn message(&mut self, at: u64, side: Side, kind: u8, body: &[u8]) {
        let hellos = self.agreed.hellos;
        self.agreed.message(at, side, kind, body, true);
        if self.agreed.hellos > hellos {
            self.conversation.request(at);
            self.conversation.event(side, Event::Request);
        } else if side == 1 {
            self.conversation.event(side, Event::Answer);
        }
        if let [Some(first), _, _, Some(finished)] = self.agreed.times {
            self.conversation.handshake.took_ns.get_or_insert(finished.saturating_sub(first));
        }
    }

    fn alert(&mut self, at: u64, side: Side, content: &[u8]) {
        let end = &mut self.conversation.end;
        let [level, code] = *content else { return };
        // RFC 8446 §6.1: code 0 is close_notify. RFC 5246 §7.2: level 1 is a warning, which does not end the
        // connection.
        if end.at_ns.is_some() || level == 1 && code != 0 {
            return;
        }
        (end.how, end.by, end.at_ns) =
            (if code == 0 { "closed" } else { "abort" }, Some(["A", "B"][side]), Some(at));
        end.reason = (code != 0).then(|| format!("alert {code}"));
    }

    fn open12(&mut self, side: Side, record: &[u8], log: &KeyLog) -> Option<(u8, Vec<u8>)> {
        let suite = keys::suite(self.agreed.suite?)?;
        if self.keys12[side].is_none() {
            let client = self.agreed.client_random?;
            let master = log.secret(&client, Label::Master)?;
            self.had_secret = true;
            self.keys12 = keys::tls12(suite, master, &client, &self.agreed.server_random?)?.map(Some);
        }
        let key = self.keys12[side].as_ref()?;
        let mut body = record[HEAD..].to_vec();
        let (nonce, sealed) = body.split_at_mut_checked(suite.explicit)?;
        let number = u64::from_be_bytes(*record[3..].first_chunk()?);
        let length = (sealed.len().checked_sub(TAG)? as u16).to_be_bytes();
        let head = [&record[3..11], &record[..3], &length].concat();
        let opened = match suite.explicit {
            0 => key.open(number, &head, sealed)?,
            _ => key.open_explicit(nonce, &head, sealed)?,
        };
        Some((record[0], opened.to_vec()))
    }

    fn open13(&mut self, side: Side, record: &[u8], log: &KeyLog) -> Option<(u8, Vec<u8>)> {
        let bits = u64::from(record[0] & 3);
        let current = self.epochs[side].last_key_value().map_or(1, |(epoch, _)| *epoch);
        // RFC 9147 §4.2.2: the header has the last two bits of the epoch.
        let next = (2..=current + 1).rev().filter(|epoch| epoch & 3 == bits).take(2);
        next.into_iter().find_map(|epoch| self.open_epoch(side, epoch, record, log))
    }

    fn open_epoch(&mut self, side: Side, number: u64, record: &[u8], log: &KeyLog) -> Option<(u8, Vec<u8>)> {
        if let Some(epoch) = self.epochs[side].get_mut(&number) {
            return epoch.open(record);
        }
        let random = self.agreed.client_random?;
        let keys = match number {
            2 | 3 => {
                let label = if number == 2 { Label::Handshake(side) } else { Label::Traffic(side) };
                let secret = log.secret(&random, label)?;
                self.had_secret = true;
                TrafficKeys::new(keys::suite(self.agreed.suite?)?, Protocol::Dtls, secret)?
            }
            _ => self.epochs[side].get(&(number - 1))?.keys.next()?,
        };
        let mut epoch = Epoch { header: keys.header_protection()?, keys, largest: None };
        let opened = epoch.open(record)?;
        self.epochs[side].insert(number, epoch);
        if self.epochs[side].len() > 3 {
            self.epochs[side].pop_first();
        }
        Some(opened)
    }

    fn finish(mut self) -> Conversation {
        self.opened[1] += self.waiting.len() as u64;
        let why = self.agreed.why_sealed(self.had_secret);
        let security = self.agreed.describe(self.protocol().to_owned(), self.opened, why);
        self.conversation.security = Some(Box::new(security));
        self.conversation.finish("dtls")
    }
}

impl Epoch {
    /// RFC 9147 §4, §4.2.3: decrypts a record. Returns its content and the type of the content.
    fn open(&mut self, record: &[u8]) -> Option<(u8, Vec<u8>)> {
        let first = *record.first()?;
        let number_len = if first & 0b1000 == 0 { 1 } else { 2 };
        let body_at = 1 + number_len + if first & 0b100 == 0 { 0 } else { 2 };
        let mut record = record.to_vec();
        let (head, body) = record.split_at_mut_checked(body_at)?;
        let mask = self.header.new_mask(body.get(..SAMPLE)?).ok()?;
        let number = &mut head[1..1 + number_len];
        number.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        let low = number.iter().fold(0, |low, byte| low << 8 | u64::from(*byte));
        let expected = self.largest.map_or(0, |largest| largest + 1);
        let number = nearest(low, 8 * number_len as u32, expected);
        let opened = self.keys.key.open(number, head, body)?;
        self.largest = self.largest.max(Some(number));
        let end = opened.iter().rposition(|byte| *byte != 0)?;
        Some((opened[end], opened[..end].to_vec()))
    }
}

/// Returns the length of the record at the start of `bytes`, or `None` if there is no record.
fn record_end(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    let (length_at, has_length) = match first {
        // RFC 9147 §4: the bits are 001CSLEE. C announces a connection ID, whose length is not known here.
        0x20..=0x2f => (if first & 0b1000 == 0 { 2 } else { 3 }, first & 0b100 != 0),
        CHANGE_CIPHER_SPEC..=26 if bytes.get(1) == Some(&0xfe) => (HEAD - 2, true),
        _ => return None,
    };
    if !has_length {
        return (bytes.len() > length_at).then_some(bytes.len());
    }
    let length = u16::from_be_bytes(*bytes.get(length_at..)?.first_chunk()?);
    Some(length_at + 2 + usize::from(length)).filter(|end| *end <= bytes.len())
}

fn name(kind: u8, length: usize) -> String {
    match kind {
        CHANGE_CIPHER_SPEC => "ChangeCipherSpec".to_owned(),
        ALERT => "alert".to_owned(),
        HANDSHAKE => format!("handshake ({length} bytes)"),
        DATA => format!("application data ({length} bytes)"),
        26 => "ACK".to_owned(),
        _ => format!("record of type {kind}"),
    }
}
