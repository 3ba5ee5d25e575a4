//! The stacks that ours meets: which there are, and what each cannot do.

mod dcsctp;
mod rtc;
mod sctp_proto;

use crate::cases::{By, Case};
use crate::meeting::{CUT_OFF, OVERLAPPING};
use crate::peer::Peer;
use anabranch_base::Instant;
use std::time::{Duration, Instant as Clock};

/// A foreign stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// `dcsctp`.
    DcSctp,
    /// `rtc-sctp`.
    Rtc,
    /// `sctp-proto`.
    SctpProto,
}

/// What an end is opened with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// It waits for the other side to begin.
    pub server: bool,
    /// I-DATA and I-FORWARD-TSN (RFC 8260).
    pub interleaving: bool,
    /// Packets without a checksum (RFC 9653).
    pub zero_checksum: bool,
}

/// Port of both ends: the one that is written down for WebRTC.
pub const PORT: u16 = 5000;

/// Largest SCTP packet of the foreign ends, bytes.
const PACKET: usize = 1400;

/// Largest message, bytes.
const MESSAGE: usize = 1 << 18;

impl Stack {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::DcSctp, Self::Rtc, Self::SctpProto];

    /// Its name on crates.io.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DcSctp => "dcsctp",
            Self::Rtc => "rtc-sctp",
            Self::SctpProto => "sctp-proto",
        }
    }

    /// Why a case is not tried with it: what it does not have.
    #[must_use]
    pub fn lacks(self, case: Case) -> Option<&'static str> {
        match (self, case) {
            (Self::DcSctp, _) => None,
            (_, Case::Interleaving | Case::ForwardInterleaved(_)) => Some("no RFC 8260"),
            (_, Case::ZeroChecksum) => Some("no RFC 9653"),
            (Self::SctpProto, Case::Abort(By::Them)) => Some("no such call"),
            _ => None,
        }
    }

    /// What is known to go wrong in a case by the peer's fault: its number in `README.md`, and how
    /// the run says so. Anything else that goes wrong is not excused by it.
    #[must_use]
    pub fn fault(self, case: Case) -> Option<(u8, &'static str)> {
        match (self, case) {
            (Self::DcSctp, Case::Lifetime(By::Them) | Case::LifetimeBulk) => Some((1, CUT_OFF)),
            (Self::Rtc | Self::SctpProto, Case::ShutdownQueued) => {
                Some((2, "closed before everything was delivered"))
            }
            (Self::Rtc, Case::Reset(By::Them)) => Some((4, OVERLAPPING)),
            _ => None,
        }
    }

    /// The fault of a case shows in most runs, not now and then.
    #[must_use]
    pub const fn always_shows(self, case: Case) -> bool {
        !matches!(case, Case::Lifetime(_) | Case::Reset(_))
    }

    /// It answers an INIT with Supported Address Types in it (RFC 9260 §3.3.2.1.5).
    #[must_use]
    pub const fn takes_address_types(self) -> bool {
        !matches!(self, Self::Rtc)
    }

    /// Opens an end.
    #[must_use]
    pub fn open(self, wanted: Wanted) -> Box<dyn Peer> {
        match self {
            Self::DcSctp => Box::new(dcsctp::End::new(wanted)),
            Self::Rtc => Box::new(rtc::End::new(wanted)),
            Self::SctpProto => Box::new(sctp_proto::End::new(wanted)),
        }
    }
}

/// Virtual time in the form of stacks that want the operating system's.
#[derive(Clone, Copy, Debug)]
struct Epoch(Clock);

impl Epoch {
    #[expect(
        clippy::disallowed_methods,
        reason = "there is no other way to make one; it stands still from then on"
    )]
    fn new() -> Self {
        Self(Clock::now())
    }

    fn at(self, now: Instant) -> Clock {
        self.0 + Duration::from_nanos(now.as_nanos())
    }

    fn back(self, at: Clock) -> Instant {
        Instant::ZERO + at.saturating_duration_since(self.0)
    }
}
