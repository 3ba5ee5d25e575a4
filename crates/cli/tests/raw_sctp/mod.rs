//! Hand-made SCTP in UDP. The peer stores almost nothing, sends arbitrary chunks, and can act as a thousand peers.
//!
//! Each association needs only a few words of memory. Received data is counted and discarded, and the advertised window
//! does not depend on any buffer.

#![cfg(target_os = "linux")]
#![allow(dead_code, reason = "each test takes what it needs")]

use crate::running::Running;
use socket2::{Domain, Socket, Type};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// All associations of an attacker, on one UDP port.
pub struct Raw {
    socket: UdpSocket,
    server: SocketAddr,
    pub associations: Vec<Association>,
    packets: Vec<u8>,
}

/// The state that the attacker keeps for an association.
#[derive(Clone, Default)]
pub struct Association {
    /// The attacker's SCTP port, which is also the attacker's verification tag.
    port: u16,
    peer_tag: u32,
    pub established: bool,
    pub aborted: bool,
    /// The next TSN that the attacker sends.
    pub tsn: u32,
    /// The cumulative TSN: all TSNs of the peer up to this TSN have arrived.
    cumulative: u32,
    /// The number of bytes of user data received.
    pub received: u64,
    /// The window that the attacker's next SACK advertises.
    pub window: u32,
    /// The number of bytes that this association may receive. After these bytes, its advertised window stays closed.
    pub allowed: u64,
    /// The peer's last advertised window, and its last cumulative acknowledgement of the attacker's TSNs.
    pub peer_window: u32,
    pub acknowledged: u32,
    /// The number of RE-CONFIG requests that the attacker has sent.
    requests: u32,
    /// The peer's result for the last RE-CONFIG request. 1 is success (RFC 6525 §4.4).
    pub result: Option<u32>,
}

/// The B and E flags of a fragment of a message.
pub const BEGIN: u8 = 2;
pub const END: u8 = 1;
pub const WHOLE: u8 = BEGIN | END;

impl Raw {
    /// Opens `count` associations with the SCTP listener of `target`. Each association has all streams that the
    /// listener grants.
    pub fn associate(target: &Running, count: usize, window: u32) -> Self {
        Self::associate_from([127, 0, 0, 1], target.url("http+sctp"), count, window)
    }

    /// Opens `count` associations with the listener at `url`, from a client at address `from`.
    pub fn associate_from(from: [u8; 4], url: &str, count: usize, window: u32) -> Self {
        let url = url.trim_start_matches("http+sctp://").trim_end_matches('/');
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        let _ = socket.set_recv_buffer_size(8 << 20);
        let _ = socket.set_send_buffer_size(8 << 20);
        socket.bind(&SocketAddr::from((from, 0)).into()).expect("bound");
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        let associations = (0..count)
            .map(|number| Association {
                port: 1024 + number as u16,
                tsn: 1,
                window,
                allowed: u64::MAX,
                ..Association::default()
            })
            .collect();
        let server = url.parse().expect("an address");
        let mut raw = Self { socket, server, associations, packets: vec![0; 70_000] };
        for group in 0..count.div_ceil(GROUP) {
            let group = group * GROUP..count.min((group + 1) * GROUP);
            let is_done =
                |raw: &Self| raw.associations[group.clone()].iter().all(|one| one.established || one.aborted);
            for _ in 0..1_200 {
                if is_done(&raw) {
                    break;
                }
                for at in group.clone() {
                    if !raw.associations[at].established {
                        raw.init(at);
                    }
                }
                raw.listen(50);
            }
            assert!(is_done(&raw), "the handshakes do not end");
        }
        raw
    }

    fn init(&mut self, at: usize) {
        let Association { port, window, tsn, .. } = self.associations[at];
        let mut body = Vec::new();
        body.extend(u32::from(port).to_be_bytes());
        body.extend(window.to_be_bytes());
        body.extend([0xff; 4]);
        body.extend(tsn.to_be_bytes());
        // The parameter Supported Extensions, with RE-CONFIG.
        body.extend([0x80, 0x08, 0, 5, 0x82, 0, 0, 0]);
        self.send(at, 0, &[chunk(1, 0, &body)]);
    }

    /// Receives and answers packets, until `silences` reads of one millisecond each have found no packet.
    pub fn listen(&mut self, silences: u32) {
        self.listen_while(silences, |_| true);
    }

    /// Like [`listen`](Self::listen), but only while `is_wanted` holds.
    pub fn listen_while(&mut self, silences: u32, is_wanted: impl Fn(&Self) -> bool) {
        let mut silent = 0;
        while silent < silences && is_wanted(self) {
            silent += u32::from(!self.take_next());
        }
    }

    /// Receives and answers packets until `value` is the same in a hundred consecutive checks.
    pub fn listen_until_steady<T: PartialEq>(&mut self, mut value: impl FnMut() -> T) {
        let (mut last, mut same) = (value(), 0);
        for _ in 0..20_000 {
            if same == 100 {
                return;
            }
            self.listen(5);
            let now = value();
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        panic!("it comes to no rest");
    }

    /// Receives one packet, if one is available within a millisecond.
    pub fn take_next(&mut self) -> bool {
        let mut bytes = std::mem::take(&mut self.packets);
        let come = self.socket.recv(&mut bytes);
        if let Ok(length) = come {
            self.take(&bytes[..length]);
        }
        self.packets = bytes;
        come.is_ok()
    }

    fn take(&mut self, packet: &[u8]) {
        let at = usize::from(u16::from_be_bytes([packet[2], packet[3]])).wrapping_sub(1024);
        if at >= self.associations.len() {
            return;
        }
        let (mut rest, mut data) = (&packet[12..], false);
        while rest.len() >= 4 {
            let length = usize::from(u16::from_be_bytes([rest[2], rest[3]])).clamp(4, rest.len());
            let (kind, value) = (rest[0], &rest[4..length]);
            data |= kind == 0;
            self.chunk(at, kind, value);
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
        if data {
            self.sack(at);
        }
    }

    fn chunk(&mut self, at: usize, kind: u8, value: &[u8]) {
        let word = |from: usize| u32::from_be_bytes(value[from..from + 4].try_into().expect("four bytes"));
        let one = &mut self.associations[at];
        match kind {
            0 if word(0) == one.cumulative.wrapping_add(1) => {
                one.cumulative = word(0);
                one.received += (value.len() - 12) as u64;
                if one.received >= one.allowed {
                    one.window = 0;
                }
            }
            0 => {}
            2 if !one.established => {
                one.peer_tag = word(0);
                one.peer_window = word(4);
                one.cumulative = word(12).wrapping_sub(1);
                let mut parameters = &value[16..];
                while parameters.len() >= 4 {
                    let length = usize::from(u16::from_be_bytes([parameters[2], parameters[3]]));
                    if parameters[..2] == [0, 7] {
                        let echo = chunk(10, 0, &parameters[4..length]);
                        let tag = one.peer_tag;
                        return self.send(at, tag, &[echo]);
                    }
                    parameters = &parameters[length.next_multiple_of(4).min(parameters.len())..];
                }
            }
            3 => (one.acknowledged, one.peer_window) = (word(0), word(4)),
            4 => {
                let (answer, tag) = (chunk(5, 0, value), one.peer_tag);
                self.send(at, tag, &[answer]);
            }
            6 => one.aborted = true,
            11 => one.established = true,
            130 if value.len() >= 12 && value[..2] == [0, 16] => one.result = Some(word(8)),
            _ => {}
        }
    }

    /// Sends a SACK with the cumulative TSN and the window.
    pub fn sack(&mut self, at: usize) {
        let Association { cumulative, window, peer_tag, .. } = self.associations[at];
        let mut body = Vec::new();
        body.extend(cumulative.to_be_bytes());
        body.extend(window.to_be_bytes());
        body.extend([0; 4]);
        self.send(at, peer_tag, &[chunk(3, 0, &body)]);
    }

    /// Returns a DATA chunk whose TSN is `ahead` beyond the next TSN.
    pub fn data(&self, at: usize, ahead: u32, (stream, ssn): (u16, u16), marks: u8, bytes: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend((self.associations[at].tsn.wrapping_add(ahead)).to_be_bytes());
        body.extend(stream.to_be_bytes());
        body.extend(ssn.to_be_bytes());
        body.extend(63_u32.to_be_bytes());
        body.extend(bytes);
        chunk(0, marks, &body)
    }

    /// Sends a complete message with the next TSN.
    pub fn say(&mut self, at: usize, stream: u16, ssn: u16, bytes: &[u8]) {
        let data = self.data(at, 0, (stream, ssn), WHOLE, bytes);
        self.associations[at].tsn += 1;
        self.chunks(at, &[data]);
    }

    /// Requests `more` additional streams. `parameter` is the type of the request: 17 for outgoing streams (RFC 6525
    /// §4.5), 18 for incoming streams (§4.6).
    pub fn add_streams(&mut self, at: usize, parameter: u8, more: u16) {
        let one = &mut self.associations[at];
        // RFC 6525 §4.1: the sequence number of the first request is the initial TSN.
        let number = 1 + one.requests;
        one.requests += 1;
        let mut body = vec![0, parameter, 0, 12];
        body.extend(number.to_be_bytes());
        body.extend(more.to_be_bytes());
        body.extend([0, 0]);
        self.chunks(at, &[chunk(130, 0, &body)]);
    }

    pub fn chunks(&self, at: usize, chunks: &[Vec<u8>]) {
        self.send(at, self.associations[at].peer_tag, chunks);
    }

    fn send(&self, at: usize, tag: u32, chunks: &[Vec<u8>]) {
        let packet = packet(self.associations[at].port, tag, chunks);
        // A packet that does not fit the server's socket buffer is lost, as on any network.
        let _ = self.socket.send_to(&packet, self.server);
    }

    pub fn alive(&self) -> usize {
        self.associations.iter().filter(|one| one.established && !one.aborted).count()
    }
}

/// Returns a packet with these chunks, addressed to SCTP port 80.
pub fn packet(source: u16, tag: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(1500);
    packet.extend(source.to_be_bytes());
    packet.extend(80_u16.to_be_bytes());
    packet.extend(tag.to_be_bytes());
    packet.extend([0; 4]);
    chunks.iter().for_each(|chunk| packet.extend(chunk));
    let sum = crc32c(&packet);
    packet[8..12].copy_from_slice(&sum.to_le_bytes());
    packet
}

/// Returns a chunk, padded to a multiple of four bytes.
pub fn chunk(kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let mut chunk = vec![kind, flags];
    chunk.extend((4 + value.len() as u16).to_be_bytes());
    chunk.extend(value);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

/// RFC 9260 Appendix A: the CRC-32c, with a table that is computed bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    static TABLE: std::sync::OnceLock<[u32; 256]> = std::sync::OnceLock::new();
    let table = TABLE.get_or_init(|| {
        std::array::from_fn(|byte| {
            (0..8).fold(byte as u32, |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 })
        })
    });
    !bytes.iter().fold(!0, |sum: u32, &byte| (sum >> 8) ^ table[usize::from(sum as u8 ^ byte)])
}

/// The number of concurrent handshakes: more would overflow the server's socket buffer.
const GROUP: usize = 64;
