//! The settings of a contestant in the plan file that are not knobs of its engine, and the texts that list all
//! settings and knobs.

use crate::plan::bare::{self, STANDARD};
use anabranch_transport::capabilities::Streams;
use anabranch_transport::{Capabilities, Protocol};
use anabranch_transports::Transports;

/// A setting of a contestant in the plan file, for example `connections`. Knobs, the settings of the transport engine,
/// are not included.
#[derive(Clone, Copy, Debug)]
pub struct ContestantKey {
    /// The name of the setting in plans.
    pub name: &'static str,
    /// Returns whether a contestant over a transport with these capabilities accepts the setting.
    of: fn(&Capabilities) -> bool,
    /// One line of help with the meaning, the accepted forms and the default.
    pub help: &'static str,
}

/// The settings of contestants, except the knobs of transport engines.
pub const CONTESTANT_KEYS: &[ContestantKey] = &[
    key("connections", ALL, "connections or associations to the server, from 1; default 1"),
    key("per-object", ALL, "a new connection for each object: yes or no; default no"),
    key(
        "objects-per-connection",
        ALL,
        "objects after which a connection is replaced, from 1; default no limit",
    ),
    key("outstanding", ALL, "requests outstanding on a connection, at most, from 1; default no such limit"),
    key(
        "pipeline",
        ONE_STREAM,
        "several requests outstanding on a connection: yes or no; default yes for one connection, no for more",
    ),
    key(
        "priority",
        ALL,
        "requests say how urgent they are (RFC 9218); the client asks, and the server answers, in that order: yes or no; \
         default yes over HTTP/2 and HTTP/3, else no",
    ),
    key("http", ONE_STREAM, "1 (HTTP/1.1) or 2 (HTTP/2, a stream for each request); default 1"),
    key("http", FRESH, "3 (HTTP/3) or 1.1 (HTTP/1.1 on each stream); default 3"),
    key(
        "windows",
        ONE_STREAM,
        "of HTTP/2: what the client grants, as chromium, firefox, nginx (to servers behind it) or rfc (says nothing); default chromium",
    ),
    key(
        "stream-window",
        ONE_STREAM,
        "of HTTP/2: bytes on a stream before more is granted, from 1kB; default that of windows",
    ),
    key(
        "connection-window",
        ONE_STREAM,
        "of HTTP/2: and on all streams, from 65535B; default that of windows",
    ),
    key(
        "frame",
        ONE_STREAM,
        "of HTTP/2: largest frame the client takes, from 16384B; default that of windows",
    ),
    key(
        "concurrent",
        ONE_STREAM,
        "of HTTP/2: requests outstanding at once, from 1 to 128 (nginx's limit); default 100",
    ),
    key("tls", ONE_STREAM, "TLS 1.3 on each connection: yes or no; default no"),
    key(
        "resume",
        TLS,
        "how sessions of TLS begin: full (handshake) or session (of an earlier visit, as far as its tickets go), and over \
         quic 0rtt (requests ride with the handshake of such a session); default full",
    ),
    key(
        "chain",
        |can| TLS(can) || can.layered,
        "bytes of the server's certificates, to within 8, from 700B to 60kB (under dtls of its one certificate, to 30kB); \
         default 3kB",
    ),
    key(
        "group",
        TLS,
        "key exchange of TLS that the server selects: x25519mlkem768 or x25519; the client offers both; default \
         x25519mlkem768",
    ),
    key(
        "dtls",
        |can| can.layered,
        "DTLS beneath the transport, over UDP, on one path: yes (1.3), 1.2, 1.3 or no; default no",
    ),
    key(
        "when-full",
        |can| can.streams == Streams::Reusable,
        "all streams busy: wait, rr (pipeline in turn) or spf (smallest pending first); default wait",
    ),
    key("paths", |can| can.paths, "paths to use, from 1; default all of the network"),
    key(
        "unordered",
        |can| can.unordered,
        "messages without order: yes or no; default no (HTTP needs the order)",
    ),
    key(
        "lifetime",
        |can| can.partial_reliability.is_available(),
        "age at which a message is abandoned: 200ms (RFC 3758); default never",
    ),
    key(
        "retransmissions",
        |can| can.partial_reliability.is_available(),
        "retransmissions after which a message is abandoned (RFC 7496), from 0; default never",
    ),
    key(
        "reconnect",
        |can| !can.survives_address_change.is_available(),
        "a client that moves does without Mobile IP: when its address is gone and it has another, it opens anew from there \
         and asks again for what it has not in whole: yes or no; default no",
    ),
    key("encap", |can| can.carriers.is_choice(), "none (IP protocol 132) or udp (RFC 6951); default none"),
    key("packet-cost", ALL, "processor time of its hosts for each packet in or out: 10us; default 0"),
    key("byte-cost", ALL, "processor time of its hosts for each byte in or out: 6ns; default 0"),
    key(
        "connection-cost",
        ALL,
        "processor time of its servers for each accepted connection: 50us; default 0",
    ),
    key("request-cost", ALL, "processor time of its servers for each request: 200us; default 0"),
    key("profile", ALL, "a named, sourced set of knobs (see --list profiles)"),
];

const fn key(name: &'static str, of: fn(&Capabilities) -> bool, help: &'static str) -> ContestantKey {
    ContestantKey { name, of, help }
}

/// The condition of settings that every transport accepts.
const ALL: fn(&Capabilities) -> bool = |_| true;

/// The condition of settings that apply only to transports whose connections carry a single stream.
const ONE_STREAM: fn(&Capabilities) -> bool = |can| !can.is_multistream();

/// The condition of settings that apply only to transports that open a new stream for each request and response.
const FRESH: fn(&Capabilities) -> bool = |can| matches!(can.streams, Streams::Fresh);

/// The condition of settings that apply only to transports with TLS: above their byte stream, or built in.
const TLS: fn(&Capabilities) -> bool = |can| !can.is_multistream() || can.secure;

impl ContestantKey {
    /// Returns whether a contestant over `transport` accepts this setting.
    #[must_use]
    pub fn is_of(&self, transport: &dyn Protocol) -> bool {
        (self.of)(&transport.capabilities())
    }
}

/// Returns a text that lists the standard contestants, and all transports with their keys, defaults and meanings.
#[must_use]
pub fn listing(transports: &Transports) -> String {
    let mut out = "names of contestants\n".to_owned();
    let available = bare::names(transports);
    for standard in STANDARD.iter().filter(|standard| available.contains(&standard.name)) {
        out += &format!("  {:<24} {}\n", standard.name, standard.spec);
    }
    out.push('\n');
    for transport in transports.iter() {
        let whose = if transport.is_kernel_only() { " (the kernel's: --world emulated)" } else { "" };
        out += &format!("{}{whose}\n", transport.name());
        for key in CONTESTANT_KEYS.iter().filter(|key| key.is_of(&***transport)) {
            out += &format!("  {:<24} {}\n", key.name, key.help);
        }
        let profile = transport.default_profile();
        out += &format!("  knobs, with their values in profile {profile}:\n");
        for knob in transport.profile(profile).map(|engine| engine.knobs()).unwrap_or_default() {
            out += &format!("  {:<24} {}\n", format!("{}={}", knob.key, knob.value), knob.help);
        }
        out.push('\n');
    }
    out
}

/// Returns a text that lists every profile (named set of settings) of our own engines, with all values and their
/// sources.
#[must_use]
pub fn profile_listing(transports: &Transports) -> String {
    let mut out = String::new();
    for transport in transports.iter().filter(|transport| !transport.is_kernel_only()) {
        for name in transport.profiles() {
            let default = if *name == transport.default_profile() { " (default)" } else { "" };
            out += &format!("{}:profile={name}{default}\n", transport.name());
            let Some(engine) = transport.profile(name) else { continue };
            for knob in engine.knobs() {
                out += &format!("  {:<20} {:<12} {}\n", knob.key, knob.value, knob.source);
            }
            out.push('\n');
        }
    }
    out
}
