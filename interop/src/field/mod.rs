//! Runs our SCTP and TCP against real programs on a real network. The peers are other user-space SCTP stacks, the SCTP
//! of a Linux kernel in a virtual machine (the guest), and this kernel's TCP.
//!
//! | module | owns |
//! |---|---|
//! | [`peer_network`] | namespaces, virtual cables, the guest |
//! | [`program`] | another implementation's program, controlled line by line |
//! | [`path_emulator`] | an emulator between our engine and the socket, which can lose packets |
//! | [`encounter`] | one association between our engine and another implementation |
//! | [`cases`] | the test cases and the conditions that they must meet |
//! | [`http`] | HTTP between our commands and the peer's program |
//! | [`tun`], [`tcp`] | our TCP against the kernel's |
//! | [`matrix`] | every case with every peer |

pub mod cases;
pub mod encounter;
pub mod http;
pub mod matrix;
pub mod path_emulator;
pub mod peer_network;
pub mod program;
pub mod tcp;
pub mod tun;

use std::fmt;

/// The peer's stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerStack {
    /// usrsctp: the stack of FreeBSD's kernel in user space.
    Usrsctp,
    /// pion/sctp, written for WebRTC.
    Pion,
    /// The Linux kernel.
    Linux,
    /// aiortc, an implementation of WebRTC in Python. It is a client of our `serve` and a server for our `get`.
    Aiortc,
}

/// The layer that carries the SCTP packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LowerLayer {
    /// UDP (RFC 6951).
    Udp,
    /// IP, with protocol number 132.
    Ip,
    /// DTLS 1.2 (RFC 8261). The peer uses the DTLS of OpenSSL, or pion's own.
    Dtls12,
    /// DTLS 1.3. The peer uses the DTLS of wolfSSL.
    Dtls13,
}

impl LowerLayer {
    /// Returns whether SCTP packets are encrypted in DTLS records.
    #[must_use]
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Dtls12 | Self::Dtls13)
    }
}

/// A column of the matrix of results: a peer, and the layer that carries its SCTP packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// The stack of the peer.
    pub kind: PeerStack,
    /// The layer that carries the SCTP packets.
    pub carrier: LowerLayer,
}

impl Column {
    /// All columns, in the order of the matrix of results.
    pub const ALL: [Self; 9] = [
        Self { kind: PeerStack::Usrsctp, carrier: LowerLayer::Udp },
        Self { kind: PeerStack::Usrsctp, carrier: LowerLayer::Ip },
        Self { kind: PeerStack::Pion, carrier: LowerLayer::Udp },
        Self { kind: PeerStack::Linux, carrier: LowerLayer::Udp },
        Self { kind: PeerStack::Linux, carrier: LowerLayer::Ip },
        Self { kind: PeerStack::Usrsctp, carrier: LowerLayer::Dtls12 },
        Self { kind: PeerStack::Usrsctp, carrier: LowerLayer::Dtls13 },
        Self { kind: PeerStack::Pion, carrier: LowerLayer::Dtls12 },
        Self { kind: PeerStack::Aiortc, carrier: LowerLayer::Dtls12 },
    ];

    /// Returns the UDP port of both ends; 0 on IP.
    #[must_use]
    pub const fn udp_port(self) -> u16 {
        match self.carrier {
            LowerLayer::Udp => UDP_PORT,
            LowerLayer::Ip => 0,
            LowerLayer::Dtls12 | LowerLayer::Dtls13 => anabranch_dtls::PORT,
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            PeerStack::Usrsctp => "usrsctp",
            PeerStack::Pion => "pion",
            PeerStack::Linux => "linux",
            PeerStack::Aiortc => "aiortc",
        };
        let carrier = match self.carrier {
            LowerLayer::Udp => "udp",
            LowerLayer::Ip => "ip",
            LowerLayer::Dtls12 => "dtls12",
            LowerLayer::Dtls13 => "dtls13",
        };
        write!(f, "{kind}/{carrier}")
    }
}

/// Returns whether `chosen` selects a row of the matrix. `chosen` is a part of the row's name, or `#` and row numbers
/// separated by commas.
#[must_use]
pub fn is_chosen(number: usize, name: &str, chosen: &str) -> bool {
    match chosen.strip_prefix('#') {
        Some(numbers) => numbers.split(',').any(|one| one.parse() == Ok(number)),
        None => name.contains(chosen),
    }
}

/// The maximum number of attempts of each test case. A case is repeated if it fails, because a busy machine can miss
/// any deadline. From the second attempt on, the case runs alone. It counts as failed only if every attempt fails.
pub const TRIES: usize = 3;

/// Returns the note in a cell of the matrix. If the attempt is not the first, its number is added to the note.
#[must_use]
pub fn with_try(note: &str, attempt: usize) -> String {
    let ordinal = match attempt {
        1 => return note.to_owned(),
        2 => "2nd try",
        3 => "3rd try",
        _ => "later try",
    };
    if note.is_empty() { ordinal.to_owned() } else { format!("{note}, {ordinal}") }
}

/// RFC 6951 §8: the UDP port of SCTP.
const UDP_PORT: u16 = 9899;
