//! Our SCTP and TCP meet real programs on a real network: other stacks in user
//! space, the Linux kernel's SCTP in a guest, this kernel's TCP.
//!
//! | module | owns |
//! |---|---|
//! | [`place`] | namespaces, cables, the guest |
//! | [`program`] | a foreign end, told what to do line by line |
//! | [`road`] | the operating system's world, with losses |
//! | [`encounter`] | one association with such an end |
//! | [`cases`] | what is tried, and what has to hold |
//! | [`http`] | our commands and their HTTP |
//! | [`tun`], [`tcp`] | our TCP beside the kernel's |
//! | [`matrix`] | every case with every peer |

pub mod cases;
pub mod encounter;
pub mod http;
pub mod matrix;
pub mod place;
pub mod program;
pub mod road;
pub mod tcp;
pub mod tun;

use std::fmt;

/// Who is met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// usrsctp, of FreeBSD's kernel, in user space.
    Usrsctp,
    /// pion/sctp, of WebRTC.
    Pion,
    /// The Linux kernel.
    Linux,
    /// aiortc, of WebRTC in Python: a client of `serve` alone.
    Aiortc,
}

/// What carries the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// UDP (RFC 6951).
    Udp,
    /// IP protocol 132.
    Ip,
    /// DTLS 1.2 (RFC 8261): theirs is OpenSSL's, or pion's.
    Dtls12,
    /// DTLS 1.3: theirs is wolfSSL's.
    Dtls13,
}

impl Carrier {
    /// Whether packets are records.
    #[must_use]
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Dtls12 | Self::Dtls13)
    }
}

/// A peer, and what carries the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Who.
    pub kind: Kind,
    /// Over what.
    pub carrier: Carrier,
}

impl Column {
    /// All of them, in the order of the matrix.
    pub const ALL: [Self; 9] = [
        Self { kind: Kind::Usrsctp, carrier: Carrier::Udp },
        Self { kind: Kind::Usrsctp, carrier: Carrier::Ip },
        Self { kind: Kind::Pion, carrier: Carrier::Udp },
        Self { kind: Kind::Linux, carrier: Carrier::Udp },
        Self { kind: Kind::Linux, carrier: Carrier::Ip },
        Self { kind: Kind::Usrsctp, carrier: Carrier::Dtls12 },
        Self { kind: Kind::Usrsctp, carrier: Carrier::Dtls13 },
        Self { kind: Kind::Pion, carrier: Carrier::Dtls12 },
        Self { kind: Kind::Aiortc, carrier: Carrier::Dtls12 },
    ];

    /// The UDP port of both ends, 0 on IP.
    #[must_use]
    pub const fn udp_port(self) -> u16 {
        match self.carrier {
            Carrier::Udp => UDP_PORT,
            Carrier::Ip => 0,
            Carrier::Dtls12 | Carrier::Dtls13 => anabranch_dtls::PORT,
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Usrsctp => "usrsctp",
            Kind::Pion => "pion",
            Kind::Linux => "linux",
            Kind::Aiortc => "aiortc",
        };
        let carrier = match self.carrier {
            Carrier::Udp => "udp",
            Carrier::Ip => "ip",
            Carrier::Dtls12 => "dtls12",
            Carrier::Dtls13 => "dtls13",
        };
        write!(f, "{kind}/{carrier}")
    }
}

/// Whether a row is among what was asked for: a part of its name, or `#` and numbers with commas.
#[must_use]
pub fn is_chosen(number: usize, name: &str, chosen: &str) -> bool {
    match chosen.strip_prefix('#') {
        Some(numbers) => numbers.split(',').any(|one| one.parse() == Ok(number)),
        None => name.contains(chosen),
    }
}

/// How often a cell may fail before it counts: a busy machine can be late for any deadline, and only what
/// fails each time, alone from the second on, is held against anybody.
pub const TRIES: usize = 3;

/// What a cell says of the try that it is about, behind its note.
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
