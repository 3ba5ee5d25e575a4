//! The contestants of a race whose plan names none.

use anabranch_results::label;
use anabranch_transports::Transports;

/// The default contestants of a race: the transports that carry web pages today, each with the settings that browsers
/// and servers use. All are encrypted, and all send objects in the order of urgency.
pub const BARE_RACE: [&str; 4] = [
    "http1=tcp:connections=6,tls=yes,priority=yes",
    "http2=tcp:http=2,tls=yes",
    "http3=quic",
    "sctp-dtls=sctp:dtls=yes,priority=yes",
];

/// The contestants that stand for the browser that recorded a page: for HTTP/1.1, HTTP/2 and HTTP/3, each without TLS and
/// with it. HTTP/3 always has TLS.
pub const RECORDED: [[&str; 2]; 3] = [
    ["tcp:connections=6,priority=yes", "tcp:connections=6,tls=yes,priority=yes"],
    ["tcp:http=2", "tcp:http=2,tls=yes"],
    ["quic", "quic"],
];

/// The default contestants for a workload of messages, which have no requests. QUIC is not among them: the server would
/// have to open the streams for the messages, which a workload of messages does not support yet.
const BARE_MESSAGES: [&str; 3] =
    ["six-tls=tcp:connections=6,tls=yes", "tcp-tls=tcp:tls=yes", "sctp-dtls=sctp:dtls=yes"];

/// The default contestants of a race without encryption:
///
/// - six TCP connections, as browsers open them;
/// - one TCP connection;
/// - one SCTP association;
/// - six SCTP associations, which claim as much bandwidth as six connections.
pub const CLEARTEXT_RACE: [&str; 4] = ["six=tcp:connections=6", "tcp", "sctp", "six-sctp=sctp:connections=6"];

/// The properties of a race that determine its default contestants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DefaultConditions {
    /// Whether the plan asks for a race without encryption.
    pub cleartext: bool,
    /// Whether there are several networks. If so, all contestants race without encryption, because an association over
    /// DTLS has only one path (RFC 8261 §6.1).
    pub several_paths: bool,
    /// Whether the workload is messages.
    pub messages: bool,
    /// Whether the race runs in the emulated world.
    pub emulated: bool,
}

/// The syntax in which a user writes background traffic, for help texts.
pub const BACKGROUND_FORM: &str = "tcp:flows=N";

impl DefaultConditions {
    /// Returns the default contestants of a race with these properties. Leaves out contestants whose transports are not
    /// in `transports`.
    #[must_use]
    pub fn contestants(self, transports: &Transports) -> Vec<&'static str> {
        let all: &[&str] = match self {
            Self { cleartext: true, .. } | Self { several_paths: true, .. } => &CLEARTEXT_RACE,
            Self { messages: true, .. } => &BARE_MESSAGES,
            _ => &BARE_RACE,
        };
        let there = |text: &str| {
            let spec = label::split(text).1;
            transports
                .find(spec.split(':').next().unwrap_or(spec))
                .is_some_and(|one| !self.emulated || one.in_emulation().is_some())
        };
        all.iter().copied().filter(|text| there(text)).collect()
    }
}
