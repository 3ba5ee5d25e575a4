//! The list of fuzz targets.

mod api;
mod decode;
mod dtls;
mod encrypted;
mod endpoint;
mod http;
mod http3_stream;
mod text;
mod tunnels;

/// A fuzz target: a function that takes an input and must not panic.
pub struct Target {
    /// The name of the target on the command line.
    pub name: &'static str,
    /// The name of the folder that has the target's corpus: the inputs that are changed at random.
    pub corpus: &'static str,
    /// The maximum length of a random input, in bytes.
    pub length: usize,
    /// Runs the target with an input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const ALL: &[Target] = &[
    Target { name: "sctp", corpus: "sctp", length: 400, run: decode::sctp },
    Target { name: "ip", corpus: "ip", length: 200, run: decode::ip },
    Target { name: "pcap", corpus: "pcap", length: 400, run: decode::pcap },
    Target { name: "tunnels", corpus: "tunnels", length: 600, run: tunnels::run },
    Target { name: "decode-tls", corpus: "decode-tls", length: 2_000, run: encrypted::tls },
    Target { name: "decode-dtls", corpus: "decode-dtls", length: 2_000, run: encrypted::dtls },
    Target { name: "decode-quic", corpus: "decode-quic", length: 2_000, run: encrypted::quic },
    Target { name: "qlog", corpus: "qlog", length: 2_000, run: text::log },
    Target { name: "packet-log", corpus: "packet-log", length: 2_000, run: text::log },
    Target { name: "statistics", corpus: "statistics", length: 2_000, run: text::log },
    Target { name: "har", corpus: "har", length: 400, run: text::har },
    Target { name: "har-text", corpus: "har-text", length: 4_000, run: text::har_text },
    Target { name: "plan", corpus: "plan", length: 400, run: text::plan },
    Target { name: "endpoint", corpus: "endpoint", length: 3_000, run: endpoint::run },
    Target { name: "tcp", corpus: "endpoint", length: 1_000, run: endpoint::tcp },
    Target { name: "quic", corpus: "quic", length: 1_200, run: decode::quic },
    Target { name: "http1", corpus: "http", length: 400, run: http::http1 },
    Target { name: "http2", corpus: "http", length: 600, run: http::http2 },
    Target { name: "http3", corpus: "http", length: 600, run: http::http3 },
    Target { name: "http3-stream", corpus: "http", length: 400, run: http3_stream::run },
    Target { name: "priority", corpus: "http", length: 200, run: http::priority },
    Target { name: "alt-svc", corpus: "http", length: 60, run: http::alt_svc },
    Target { name: "dtls", corpus: "dtls", length: 300, run: dtls::run },
    Target { name: "api", corpus: "api", length: 600, run: api::run },
];

/// Returns the target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}
