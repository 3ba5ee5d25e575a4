//! The record state of a DTLS 1.2 connection (RFC 6347). This module seals and opens records of the encrypted epoch,
//! handles alerts, and repeats the server's last flight.
//!
//! There is no renegotiation, so the only encrypted epoch is 1. Whenever the client's Finished arrives again, the
//! server sends its last flight again (RFC 6347 §4.2.4). The server stops repeating the flight when a packet shows that
//! the client has received it.

use super::keys::{
    ALERT, CHANGE_CIPHER_SPEC, Content, DATA, EPOCH_12, HANDSHAKE, HEADER_12, Header12, Keys12, TAG,
};
use super::window::{MAX_NUMBER, Window};
use super::{
    CLIENT_HELLO, CLOSE_NOTIFY, FATAL, FINISHED, HELLO_REQUEST, MAX_FORGED, NO_RENEGOTIATION, RecordsEnd,
    WARNING, messages,
};
use crate::aead::Aead;
use crate::secrets::ObservedSecrets;

pub(crate) struct Records {
    explicit: usize,
    client: bool,
    sending: Keys12,
    receiving: Keys12,
    next: u64,
    window: Window,
    /// The first two bytes of this side's explicit nonces: the epoch, or a higher number if the handshake library dimpl
    /// has used a nonce that begins with the epoch.
    prefix: u16,
    dimpl: Option<Box<DimplState>>,
    /// The number of records that failed authentication.
    forged: u64,
    /// Whether the handshake is done.
    is_established: bool,
}

/// The state taken over from dimpl, which is needed to send the server's last flight again.
#[derive(Default)]
struct DimplState {
    /// The first two bytes of each explicit nonce that dimpl has used.
    prefixes: Vec<u16>,
    /// The number of the next unencrypted record.
    next_plaintext_number: u64,
    /// The server's Finished message.
    finished: Vec<u8>,
}

impl Records {
    pub fn of(secrets: &ObservedSecrets, client: bool) -> Option<Self> {
        let aead: Aead = secrets.aead?;
        let [clients, servers] = Keys12::pair(aead, &secrets.key_block)?;
        let (sending, receiving) = if client { (clients, servers) } else { (servers, clients) };
        Some(Self {
            explicit: aead.explicit,
            client,
            sending,
            receiving,
            next: 0,
            window: Window::default(),
            prefix: EPOCH_12,
            dimpl: Some(Box::default()),
            forged: 0,
            is_established: false,
        })
    }

    pub fn overhead(&self) -> usize {
        HEADER_12 + self.explicit + TAG
    }

    /// Notes the record numbers, nonces and Finished message in a datagram that dimpl sends. Our record numbers
    /// continue after dimpl's, and our nonces differ from dimpl's.
    pub fn adopt(&mut self, datagram: &[u8]) {
        let Some(dimpl) = &mut self.dimpl else { return };
        let mut rest = datagram;
        while let Some(header) = Header12::read(rest) {
            let mut record = rest[..header.end].to_vec();
            rest = &rest[header.end..];
            if header.epoch == 0 {
                dimpl.next_plaintext_number = dimpl.next_plaintext_number.max(header.number + 1);
                continue;
            }
            self.next = self.next.max(header.number + 1);
            if let Some(&[high, low]) = record.get(HEADER_12..).and_then(<[u8]>::first_chunk) {
                dimpl.prefixes.push(u16::from_be_bytes([high, low]));
            }
            if let Some(content) = self.sending.open(&Window::default(), header, &mut record)
                && content.kind == HANDSHAKE
            {
                dimpl.finished = record[content.range].to_vec();
            }
        }
        while dimpl.prefixes.contains(&self.prefix) {
            self.prefix = self.prefix.wrapping_add(1);
        }
    }

    pub fn begin(&mut self) {
        self.is_established = true;
        if self.client {
            self.dimpl = None;
        }
    }

    #[inline]
    pub fn may_seal(&self) -> bool {
        self.next <= MAX_NUMBER
    }

    #[inline]
    pub fn seal(&mut self, kind: u8, content: &[u8], out: &mut Vec<u8>) -> Option<()> {
        if self.next > MAX_NUMBER {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.sending.seal(self.prefix, number, kind, content, out)
    }

    #[inline]
    pub fn receive(
        &mut self,
        datagram: &mut [u8],
        mut deliver: impl FnMut(&[u8]),
        mut send: impl FnMut(&[u8]),
    ) -> Option<RecordsEnd> {
        let mut rest = datagram;
        loop {
            let header = Header12::read(rest)?;
            let record;
            (record, rest) = rest.split_at_mut_checked(header.end)?;
            // Unencrypted records are skipped. They belong to the handshake and are not trusted after it.
            if header.epoch != EPOCH_12 {
                continue;
            }
            let Some(content) = self.receiving.open(&self.window, header, record) else {
                // RFC 6347 §4.1.2.7: a record that fails authentication is discarded silently. The number of these
                // records is limited, as in RFC 9147 §4.5.3.
                self.forged += 1;
                if self.forged >= MAX_FORGED {
                    return Some(RecordsEnd::KeyLimitReached);
                }
                continue;
            };
            let Content { number, kind, range } = content;
            self.window.note(number);
            match kind {
                DATA => {
                    // A packet from the client shows that the client has received our last flight.
                    if self.is_established && self.dimpl.is_some() {
                        self.dimpl = None;
                    }
                    deliver(&record[range]);
                }
                _ if self.is_established => {
                    if let Some(ended) = self.handle(kind, &record[range], &mut send) {
                        return Some(ended);
                    }
                }
                _ => {}
            }
        }
    }

    /// Handles a record that does not contain a packet: an alert or a handshake message.
    #[cold]
    fn handle(&mut self, kind: u8, content: &[u8], send: &mut impl FnMut(&[u8])) -> Option<RecordsEnd> {
        match (kind, content) {
            (ALERT, [_, CLOSE_NOTIFY]) => {
                // RFC 5246 §7.2.1: a closure alert is answered with a closure alert.
                self.send_record(ALERT, &super::GOODBYE, send);
                return Some(RecordsEnd::Closed);
            }
            (ALERT, [FATAL, alert]) => return Some(RecordsEnd::Alert(*alert)),
            (HANDSHAKE, _) => {
                for (kind, ..) in messages(content) {
                    match kind {
                        FINISHED => self.send_last(send),
                        // RFC 5246 §7.2.2: a request to renegotiate is refused with a warning.
                        CLIENT_HELLO | HELLO_REQUEST => {
                            self.send_record(ALERT, &[WARNING, NO_RENEGOTIATION], send)
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        None
    }

    /// Sends the server's last flight again, in one datagram: an unencrypted ChangeCipherSpec and the Finished message.
    fn send_last(&mut self, send: &mut impl FnMut(&[u8])) {
        let Some(mut dimpl) = self.dimpl.take() else { return };
        if !dimpl.finished.is_empty() && dimpl.next_plaintext_number <= MAX_NUMBER {
            let mut out = Header12::write(CHANGE_CIPHER_SPEC, 0, dimpl.next_plaintext_number, 1).to_vec();
            out.push(1);
            dimpl.next_plaintext_number += 1;
            if self.seal(HANDSHAKE, &dimpl.finished, &mut out).is_some() {
                send(&out);
            }
        }
        self.dimpl = Some(dimpl);
    }

    /// Sends a datagram with a single record that has this type and content.
    fn send_record(&mut self, kind: u8, content: &[u8], send: &mut impl FnMut(&[u8])) {
        let mut out = Vec::new();
        if self.seal(kind, content, &mut out).is_some() {
            send(&out);
        }
    }
}

/// Returns the end of the first record, if the record contains application data.
pub(super) fn data_end(bytes: &[u8]) -> Option<usize> {
    let is_data = |header: &Header12| header.kind == DATA && header.epoch == EPOCH_12;
    Header12::read(bytes).filter(is_data).map(|header| header.end)
}

#[cfg(test)]
impl Records {
    /// Returns the number of the next record, so that tests can change it.
    pub fn next(&mut self) -> &mut u64 {
        &mut self.next
    }

    /// Returns the first two bytes of our explicit nonces.
    pub fn prefix(&self) -> u16 {
        self.prefix
    }
}
