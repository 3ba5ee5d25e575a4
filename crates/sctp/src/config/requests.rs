//! The set of RE-CONFIG requests that this side accepts from the peer. Other requests are denied.
//!
//! Implements RFC 6525 §5.2.1 (which requests are denied) and §6.3.1 (`SCTP_ENABLE_STREAM_RESET`).

use std::fmt;

/// The requests that the peer may make with RE-CONFIG. Other requests are answered "Denied".
///
/// ```
/// use anabranch_sctp::{Config, ReconfigRequests};
///
/// let mut config = Config::default();
/// assert_eq!(config.reconfig_requests, ReconfigRequests::ALL);
/// config.set("reconfig_requests", "streams+change")?;
/// assert!(config.reconfig_requests.streams && !config.reconfig_requests.association);
/// config.set("reconfig_requests", "none")?;
/// assert_eq!(config.reconfig_requests, ReconfigRequests::default());
/// # Ok::<(), anabranch_sctp::KnobError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReconfigRequests {
    /// Whether the peer may request a reset of its own outgoing streams or of this side's outgoing streams
    /// (`SCTP_ENABLE_RESET_STREAM_REQ`).
    pub streams: bool,
    /// Whether the peer may request a reset of all SSNs and TSNs (`SCTP_ENABLE_RESET_ASSOC_REQ`).
    pub association: bool,
    /// Whether the peer may request that streams are added (`SCTP_ENABLE_CHANGE_ASSOC_REQ`).
    pub change: bool,
}

const NAMES: [&str; 3] = ["streams", "association", "change"];

impl ReconfigRequests {
    /// The set of all requests.
    pub const ALL: Self = Self { streams: true, association: true, change: true };

    const fn flags(self) -> [bool; 3] {
        [self.streams, self.association, self.change]
    }

    /// Parses `none`, `all`, or names of requests joined by `+`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "none" => return Ok(Self::default()),
            "all" => return Ok(Self::ALL),
            _ => {}
        }
        let mut set = Self::default();
        for name in text.split('+') {
            match name {
                "streams" => set.streams = true,
                "association" => set.association = true,
                "change" => set.change = true,
                _ => return Err(format!("'{name}' is none of them")),
            }
        }
        Ok(set)
    }
}

impl fmt::Display for ReconfigRequests {
    /// Writes the text form that the knob `reconfig_requests` parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        let named: Vec<_> =
            NAMES.into_iter().zip(self.flags()).filter(|(_, on)| *on).map(|(n, _)| n).collect();
        f.write_str(if named.is_empty() { "none" } else { "" })?;
        f.write_str(&named.join("+"))
    }
}
