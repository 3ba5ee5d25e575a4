//! The foreign SCTP stacks, the features that each lacks, and the known faults of each.

mod dcsctp;
mod rtc;
mod sctp_proto;

use crate::cases::{By, Case};
use crate::meeting::{CUT_OFF, OVERLAPPING};
use crate::peer::Peer;
use anabranch_base::Instant;
use std::time::{Duration, Instant as Clock};

/// A foreign SCTP stack that runs in the simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// `dcsctp`.
    DcSctp,
    /// `rtc-sctp`.
    Rtc,
    /// `sctp-proto`.
    SctpProto,
}

/// Settings that a test case requires of the foreign stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndOptions {
    /// Whether this endpoint waits for the other endpoint to start the association.
    pub server: bool,
    /// Whether this endpoint supports I-DATA and I-FORWARD-TSN (RFC 8260).
    pub interleaving: bool,
    /// Whether this endpoint accepts packets without a checksum (RFC 9653).
    pub zero_checksum: bool,
}

/// The SCTP port of both ends, which is the port that WebRTC uses.
pub const PORT: u16 = 5000;

/// The largest SCTP packet that the foreign endpoints send, in bytes.
const PACKET: usize = 1400;

/// The largest message that the tests send, in bytes.
const MESSAGE: usize = 1 << 18;

impl Stack {
    /// All foreign stacks, in the order of the output.
    pub const ALL: [Self; 3] = [Self::DcSctp, Self::Rtc, Self::SctpProto];

    /// Returns the name of the stack on crates.io.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DcSctp => "dcsctp",
            Self::Rtc => "rtc-sctp",
            Self::SctpProto => "sctp-proto",
        }
    }

    /// Returns the feature that a test case needs and that the stack lacks, if any.
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

    /// Returns the known fault of the peer in a case: its number in `README.md`, and the text of the failure. The fault
    /// does not excuse failures with another text.
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

    /// Returns whether the known fault of this stack shows so often in a test case that a test with a few seeds can
    /// rely on it.
    #[must_use]
    pub const fn always_shows(self, case: Case) -> bool {
        !matches!(case, Case::Lifetime(_) | Case::Reset(_))
    }

    /// Returns whether the stack answers an INIT that contains the parameter Supported Address Types (RFC 9260
    /// §3.3.2.1.5).
    #[must_use]
    pub const fn takes_address_types(self) -> bool {
        !matches!(self, Self::Rtc)
    }

    /// Creates an endpoint of the stack with these options.
    #[must_use]
    pub fn open(self, options: EndOptions) -> Box<dyn Peer> {
        match self {
            Self::DcSctp => Box::new(dcsctp::DcSctpPeer::new(options)),
            Self::Rtc => Box::new(rtc::RtcSctp::new(options)),
            Self::SctpProto => Box::new(sctp_proto::SctpProto::new(options)),
        }
    }
}

/// Converts virtual time to times of the operating system, for stacks that need them.
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
