//! The knobs of a QUIC endpoint: the key, meaning, unit, text form and source of each.

use anabranch_base::knobs::forms::{Names, Number, SWITCH, SpanOrZero};
use anabranch_base::knobs::{BY_USER, Form, KnobError, Profile, Table, names};
use anabranch_base::time::Duration;
use anabranch_base::{Budget, Bytes};

/// The congestion control algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cc {
    /// anabranch's CUBIC (RFC 9438), which TCP and SCTP also use.
    Cubic,
    /// anabranch's NewReno (RFC 9002 §7).
    Reno,
    /// anabranch's BBR (draft-ietf-ccwg-bbr), which sets its own pacing rate.
    Bbr,
    /// quinn's CUBIC.
    QuinnCubic,
}

/// The order in which streams with data to send are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduler {
    /// Streams take turns, one packet each.
    RoundRobin,
    /// The stream that was the first to have data is served until it has no more data.
    Fcfs,
}

/// The condition under which a server makes clients validate their addresses before it keeps state for them (RFC 9000
/// §8.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// The server requires the validation only while many handshakes are in progress.
    Load,
    /// Clients always validate their addresses, which costs each client one more round trip.
    Always,
}

/// The text form of a knob whose value is a number of bytes between a minimum and a maximum.
struct Size(u64, u64);

impl Form<u64> for Size {
    fn show(&self, value: &u64) -> String {
        Bytes(*value).to_string()
    }

    fn read(&self, text: &str) -> Result<u64, String> {
        let Self(least, most) = self;
        let Bytes(bytes) =
            text.parse().map_err(|error: anabranch_base::units::UnitError| error.to_string())?;
        if (least..=most).contains(&&bytes) {
            return Ok(bytes);
        }
        Err(format!("'{text}' is not from {} to {}", Bytes(*least), Bytes(*most)))
    }
}

anabranch_base::knobs! {
    /// All settings of an endpoint.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Config {
        /// The congestion control algorithm.
        cc: Cc = Cc::Cubic, "RFC 9438; RFC 9002 §7 allows any",
            Names(&[
                ("cubic", Cc::Cubic),
                ("reno", Cc::Reno),
                ("bbr", Cc::Bbr),
                ("quinn-cubic", Cc::QuinnCubic),
            ]),
            "congestion control: cubic, reno or bbr (ours, as tcp and sctp have them) or quinn-cubic";
        /// With `cc=reno`, the percentage of the congestion window that remains after a loss.
        reno_beta: u64 = 50, "RFC 9002 §7.3.2: half",
            Number(1, 99), "with cc=reno, percent of the window that a loss leaves: 1 to 99";
        /// Whether slow start ends when round-trip times grow, as in Linux's HyStart without the detection of ACK
        /// trains.
        hystart_delay: bool = false, "RFC 9002 §7.3.1 has none",
            SWITCH,
            "slow start ends when round trips grow (HyStart without trains; not of quinn-cubic): yes or no";
        /// The initial congestion window in packets.
        iw: u64 = 10, "RFC 9002 §7.2: ten packets",
            Number(1, 100), "initial window: packets from 1 to 100";
        /// The number of bidirectional streams that the peer may have open at the same time: initial_max_streams_bidi
        /// (RFC 9000 §18.2).
        streams: u64 = 100, "RFC 9114 §6.1: no fewer than 100",
            Number(1, 65_535), "streams that a client may have open at once: 1 to 65535";
        /// The flow control window of a stream in bytes: initial_max_stream_data (RFC 9000 §4.1).
        stream_window: u64 = 6_291_456, "Chromium: 6 MiB a stream",
            Size(1_200, 1 << 30), "flow control: bytes that a stream may have unread, such as 6MiB";
        /// The flow control window of a connection in bytes: initial_max_data (RFC 9000 §4.1).
        window: u64 = 15_728_640, "Chromium: 15 MiB a connection",
            Size(1_200, 1 << 32), "flow control: bytes that a connection may have unread, such as 15MiB";
        /// The maximum number of bytes per connection that the application has written and the peer has not
        /// acknowledged.
        sndbuf: u64 = 4_194_304, "as in the modern profiles of sctp and tcp",
            Size(1_200, 1 << 32), "bytes written and not acknowledged, such as 4MiB";
        /// The order in which streams with data to send are served.
        scheduler: Scheduler = Scheduler::RoundRobin, "quinn-proto 0.11, TransportConfig::default",
            Names(&[("rr", Scheduler::RoundRobin), ("fcfs", Scheduler::Fcfs)]),
            "streams with bytes to send: rr (in turn, a packet each) or fcfs (one after the other)";
        /// The idle timeout: a connection ends after this time without packets (max_idle_timeout, RFC 9000 §10.1).
        idle: Duration = Duration::from_secs(30), "RFC 9308 §3.2: 30 s",
            SpanOrZero, "a connection ends after this time without a packet, such as 30s";
        /// The round-trip time that is assumed before the first measurement: kInitialRtt (RFC 9002 §6.2.2).
        initial_rtt: Duration = Duration::from_millis(333), "RFC 9002 §6.2.2",
            SpanOrZero, "the round trip before the first measurement, such as 333ms";
        /// The largest UDP payload that may be sent before the path has been probed (RFC 9000 §14.1).
        packet: u64 = 1_200, "RFC 9000 §14.1: 1200 bytes",
            Size(1_200, 65_527), "largest payload of UDP at first, such as 1200B";
        /// The packet threshold: kPacketThreshold (RFC 9002 §6.1.1). When a packet is acknowledged, an unacknowledged
        /// packet that was sent at least this many packets earlier is declared lost.
        dupthresh: u64 = 3, "RFC 9002 §6.1.1: three packets",
            Number(3, 1_000), "a packet is lost when a packet sent this many later is acknowledged: 3 to 1000";
        /// Whether the sender asks for fewer acknowledgements (draft-ietf-quic-ack-frequency).
        ack_frequency: bool = false, "RFC 9000 §13.2.2: one for two packets",
            SWITCH,
            "the sender asks for fewer acknowledgements (draft-ietf-quic-ack-frequency): yes or no";
        /// When clients have to validate their addresses (Retry).
        retry: Retry = Retry::Load, "RFC 9000 §8.1.2: a server may",
            Names(&[("load", Retry::Load), ("always", Retry::Always)]),
            "when a server makes clients prove their address with a Retry, a round trip more: load (while many handshakes run) or always";
        /// Whether the path is probed for larger packet sizes (RFC 8899).
        pmtud: bool = true, "RFC 9000 §14.3",
            SWITCH, "packets grow to the path MTU (RFC 8899): yes or no";
    }
    beside {
        /// The number of packets that the peer acknowledges together, and the maximum delay of an acknowledgement. The
        /// sender asks its peer for them (draft-ietf-quic-ack-frequency). With `None`, `ack_frequency` decides.
        acknowledgements: Option<(u32, Duration)> = None;
        /// The memory budget that the connections of all endpoints share. With a budget, a send buffer has at most
        /// `sndbuf` bytes, and fewer if little memory is left. Unread data is buffered only in the memory that the
        /// budget reserves for each connection (the floor). With `None`, only the other settings limit a connection's
        /// buffers.
        memory: Option<Budget> = None;
    }
}

/// The default profile: the RFCs' defaults, with Chromium's flow control limits.
const MODERN: Profile = Profile { name: "modern", parent: None, rows: &[] };

/// The defaults of quinn, without any setting changed.
const QUINN: Profile = Profile {
    name: "quinn",
    parent: None,
    rows: &[
        ("cc", "quinn-cubic", QUINN_SOURCE),
        ("stream_window", "1250000B", QUINN_SOURCE),
        ("window", "4GiB", "quinn-proto 0.11, TransportConfig::default: no limit; here the largest value"),
        ("sndbuf", "10MB", QUINN_SOURCE),
    ],
};
const QUINN_SOURCE: &str = "quinn-proto 0.11, TransportConfig::default";

/// The defaults of quic-go, with which Caddy serves HTTP/3. Loss recovery, pacing and acknowledgements remain quinn's.
const QUIC_GO: Profile = Profile {
    name: "quic-go",
    parent: None,
    rows: &[
        (
            "cc",
            "reno",
            "quic-go 0.63, internal/ackhandler/sent_packet_handler.go: NewCubicSender with reno = true",
        ),
        ("reno_beta", "70", "quic-go 0.63, internal/congestion/cubic_sender.go: renoBeta = 0.7"),
        ("hystart_delay", "yes", "quic-go 0.63, internal/congestion/hybrid_slow_start.go"),
        ("iw", "32", "quic-go 0.63, internal/congestion/cubic_sender.go: initialCongestionWindow = 32"),
        ("packet", "1280B", "quic-go 0.63, internal/protocol/params.go: InitialPacketSize = 1280"),
        ("streams", "100", "quic-go 0.63, internal/protocol/params.go: DefaultMaxIncomingStreams = 100"),
        ("idle", "30s", "quic-go 0.63, internal/protocol/params.go: DefaultIdleTimeout = 30 s"),
        ("dupthresh", "3", "quic-go 0.63, internal/ackhandler/sent_packet_handler.go: packetThreshold = 3"),
    ],
};

const ALL: &[&Profile; 3] = &[&MODERN, &QUINN, &QUIC_GO];

/// The names of the profiles.
pub const PROFILES: [&str; 3] = names(ALL);

impl Default for Config {
    fn default() -> Self {
        Self::defaults()
    }
}

impl Config {
    /// Returns the profile with this name, one of [`PROFILES`].
    #[must_use]
    pub fn profile(name: &str) -> Option<Self> {
        Self::named(ALL, name)
    }

    /// Sets the knob `key` from text.
    ///
    /// # Errors
    /// A one-line text that names the accepted forms, if the key is unknown or the value is not accepted.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), KnobError> {
        let Some(at) = Self::position(key) else {
            return Err(KnobError(format!("'{key}' is not a knob of quic; there are {}", Self::keys())));
        };
        self.set_row(at, value, BY_USER).map_err(|why| KnobError(format!("{key}: {why}")))
    }
}
