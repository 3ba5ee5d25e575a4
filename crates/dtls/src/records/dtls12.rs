//! A connection of DTLS 1.2 (RFC 6347) by its keys: one epoch, alerts, and the server's last flight.
//!
//! There is no renegotiation, so that the epoch is 1 for ever. A server's last flight goes again when the client's Finished comes
//! again (§4.2.4), until a packet shows that the client has it.

use super::keys::{
    ALERT, CHANGE_CIPHER_SPEC, Content, DATA, EPOCH_12, HANDSHAKE, HEADER_12, Header12, Keys12, TAG,
};
use super::window::{MAX_NUMBER, Window};
use super::{
    CLIENT_HELLO, CLOSE_NOTIFY, Ended, FATAL, FINISHED, HELLO_REQUEST, MAX_FORGED, NO_RENEGOTIATION, WARNING,
    messages,
};
use crate::provider::Aead;
use crate::secrets::Seen;

pub(crate) struct Records {
    explicit: usize,
    client: bool,
    sending: Keys12,
    receiving: Keys12,
    next: u64,
    window: Window,
    /// What the nonces begin with that a record names: the epoch, unless the library has used one that begins so.
    prefix: u16,
    library: Option<Box<Library>>,
    /// Records that were not authentic.
    forged: u64,
    /// The handshake is over.
    begun: bool,
}

/// What the library has sent.
#[derive(Default)]
struct Library {
    /// What its nonces have begun with.
    prefixes: Vec<u16>,
    /// The next number of a record in the clear.
    clear: u64,
    /// Finished, as a message.
    finished: Vec<u8>,
}

impl Records {
    pub fn of(seen: &Seen, client: bool) -> Option<Self> {
        let aead: Aead = seen.aead?;
        let [clients, servers] = Keys12::pair(aead, &seen.key_block)?;
        let (sending, receiving) = if client { (clients, servers) } else { (servers, clients) };
        Some(Self {
            explicit: aead.explicit,
            client,
            sending,
            receiving,
            next: 0,
            window: Window::default(),
            prefix: EPOCH_12,
            library: Some(Box::default()),
            forged: 0,
            begun: false,
        })
    }

    pub fn overhead(&self) -> usize {
        HEADER_12 + self.explicit + TAG
    }

    /// Takes over the numbers and nonces of what the library sends, and what of it may have to be sent again.
    pub fn adopt(&mut self, datagram: &[u8]) {
        let Some(library) = &mut self.library else { return };
        let mut rest = datagram;
        while let Some(header) = Header12::read(rest) {
            let mut record = rest[..header.end].to_vec();
            rest = &rest[header.end..];
            if header.epoch == 0 {
                library.clear = library.clear.max(header.number + 1);
                continue;
            }
            self.next = self.next.max(header.number + 1);
            if let Some(&[high, low]) = record.get(HEADER_12..).and_then(<[u8]>::first_chunk) {
                library.prefixes.push(u16::from_be_bytes([high, low]));
            }
            if let Some(content) = self.sending.open(&Window::default(), header, &mut record)
                && content.kind == HANDSHAKE
            {
                library.finished = record[content.range].to_vec();
            }
        }
        while library.prefixes.contains(&self.prefix) {
            self.prefix = self.prefix.wrapping_add(1);
        }
    }

    pub fn begin(&mut self) {
        self.begun = true;
        if self.client {
            self.library = None;
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
    ) -> Option<Ended> {
        let mut rest = datagram;
        loop {
            let header = Header12::read(rest)?;
            let record;
            (record, rest) = rest.split_at_mut_checked(header.end)?;
            // What is in the clear is of the handshake, and not to be believed any more.
            if header.epoch != EPOCH_12 {
                continue;
            }
            let Some(content) = self.receiving.open(&self.window, header, record) else {
                // RFC 6347 §4.1.2.7: in silence; but not for ever, as RFC 9147 §4.5.3 has it.
                self.forged += 1;
                if self.forged >= MAX_FORGED {
                    return Some(Ended::UsedUp);
                }
                continue;
            };
            let Content { number, kind, range } = content;
            self.window.note(number);
            match kind {
                DATA => {
                    // The client has our last flight.
                    if self.begun && self.library.is_some() {
                        self.library = None;
                    }
                    deliver(&record[range]);
                }
                _ if self.begun => {
                    if let Some(ended) = self.handle(kind, &record[range], &mut send) {
                        return Some(ended);
                    }
                }
                _ => {}
            }
        }
    }

    /// What is no data.
    #[cold]
    fn handle(&mut self, kind: u8, content: &[u8], send: &mut impl FnMut(&[u8])) -> Option<Ended> {
        match (kind, content) {
            (ALERT, [_, CLOSE_NOTIFY]) => {
                // RFC 5246 §7.2.1.
                self.say(ALERT, &super::GOODBYE, send);
                return Some(Ended::Closed);
            }
            (ALERT, [FATAL, alert]) => return Some(Ended::Alert(*alert)),
            (HANDSHAKE, _) => {
                for (kind, ..) in messages(content) {
                    match kind {
                        FINISHED => self.send_last(send),
                        // RFC 5246 §7.2.2: there is none.
                        CLIENT_HELLO | HELLO_REQUEST => self.say(ALERT, &[WARNING, NO_RENEGOTIATION], send),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        None
    }

    /// Sends the last flight once more: ChangeCipherSpec in the clear, and Finished, in one datagram.
    fn send_last(&mut self, send: &mut impl FnMut(&[u8])) {
        let Some(mut library) = self.library.take() else { return };
        if !library.finished.is_empty() && library.clear <= MAX_NUMBER {
            let mut out = Header12::write(CHANGE_CIPHER_SPEC, 0, library.clear, 1).to_vec();
            out.push(1);
            library.clear += 1;
            if self.seal(HANDSHAKE, &library.finished, &mut out).is_some() {
                send(&out);
            }
        }
        self.library = Some(library);
    }

    /// Sends a record of its own.
    fn say(&mut self, kind: u8, content: &[u8], send: &mut impl FnMut(&[u8])) {
        let mut out = Vec::new();
        if self.seal(kind, content, &mut out).is_some() {
            send(&out);
        }
    }
}

/// Where a record of data ends, if one is there.
pub(super) fn data(bytes: &[u8]) -> Option<usize> {
    let is_data = |header: &Header12| header.kind == DATA && header.epoch == EPOCH_12;
    Header12::read(bytes).filter(is_data).map(|header| header.end)
}

#[cfg(test)]
impl Records {
    /// The number of the next record, to be set.
    pub fn next(&mut self) -> &mut u64 {
        &mut self.next
    }

    /// What nonces that are named begin with.
    pub fn prefix(&self) -> u16 {
        self.prefix
    }
}
