//! The table of all keys of a plan. Each key has a long flag, a field of the plan file, and a line of help.
//!
//! The keys that describe the network are the keys of a link ([`ROWS`]), and in addition `path` and `fail`.
//!
//! The flags of the command line and the fields of plan files come from this table. The values of flags and fields are
//! passed, as text, to the same parsers. A value therefore has the same meaning and the same error messages in a flag
//! and in a field.

use super::bare::BACKGROUND_FORM;
use anabranch_link::ROWS;
use std::sync::LazyLock;

/// The group to which a key belongs. Help shows the keys of a group under one heading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// The properties of the simulated or emulated network.
    Network,
    /// A client that moves from one network to another.
    Handover,
    /// The objects, data or messages that are transferred.
    Workload,
    /// The contestants, and the kind of network in which they run (simulated or emulated).
    Contestants,
    /// The number of runs, and the seeds.
    Runs,
}

impl Group {
    /// Returns the heading of the group in help texts.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Network => "Network",
            Self::Handover => "Handover",
            Self::Workload => "Workload",
            Self::Contestants => "Contestants",
            Self::Runs => "Runs",
        }
    }
}

/// What several values of one plan key mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Several {
    /// The key is a factor and the values are its levels. On the command line, commas separate the levels.
    Factor,
    /// The key is a factor and the values are its levels. On the command line, the flag is repeated for each level,
    /// because a value may contain commas.
    FactorRepeated,
    /// The values are the entries of one list, and all of them apply. On the command line, the flag is repeated for
    /// each entry.
    Entries,
    /// The key accepts only a single value.
    No,
}

/// One key of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The name of the key: the long flag without dashes, and the field of the plan file.
    pub name: &'static str,
    /// The placeholder for the value in help texts. It is empty for a switch, whose value is `yes` if none is given.
    pub value: &'static str,
    /// One line of help with the accepted forms. It is empty for a key that applies to one direction only.
    pub help: &'static str,
    /// The group under which help texts show the key.
    pub group: Group,
    /// What several values of this key mean.
    pub several: Several,
    /// If this key applies to one direction (for example `down-loss`), the name of the key for both directions
    /// (`loss`).
    pub both: Option<&'static str>,
}

/// Returns the key with this name, if there is one.
#[must_use]
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The names that keys had in earlier versions, each with the current name. Version 0.2 no longer accepts them.
pub const RENAMED: [(&str, &str); 2] = [("together", "shared-link"), ("cross", "background")];

/// Returns the current name of a key that had the name `old` in an earlier version.
#[must_use]
pub fn current_name(old: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(renamed, _)| *renamed == old).map(|(_, current)| *current)
}

/// Returns the names of all keys of a group.
#[must_use]
pub fn names(group: Group) -> Vec<&'static str> {
    KEYS.iter().filter(|key| key.group == group).map(|key| key.name).collect()
}

const fn handover(name: &'static str, value: &'static str, help: &'static str) -> Key {
    Key { name, value, help, group: Group::Handover, several: Several::Factor, both: None }
}

const fn workload(name: &'static str, value: &'static str, help: &'static str) -> Key {
    Key { name, value, help, group: Group::Workload, several: Several::Factor, both: None }
}

const fn contestants(name: &'static str, value: &'static str, several: Several, help: &'static str) -> Key {
    Key { name, value, help, group: Group::Contestants, several, both: None }
}

const fn runs(name: &'static str, value: &'static str, help: &'static str) -> Key {
    Key { name, value, help, group: Group::Runs, several: Several::No, both: None }
}

/// The table of all keys of a plan.
pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let mut keys = Vec::new();
    for row in ROWS {
        let key = |name, help, both| {
            let several = Several::Factor;
            Key { name, value: row.value, help, group: Group::Network, several, both }
        };
        keys.push(key(row.key, row.help, None));
        keys.extend(row.one_way.into_iter().flatten().map(|name| key(name, "", Some(row.key))));
    }
    keys.extend_from_slice(OURS);
    keys
});

const OURS: &[Key] = &[
    Key {
        name: "path",
        value: "KEY=VALUE,..",
        help: "One path of several, numbered from 1: 'rate=10mbit,rtt=80ms,loss=1%'; the flags above are its defaults",
        group: Group::Network,
        several: Several::Entries,
        both: None,
    },
    Key {
        name: "fail",
        value: "path=N,at=TIME[,for=TIME]",
        help: "A path goes down: 'path=1,at=10s' for good, 'path=1,at=10s,for=5s' for a while",
        group: Group::Network,
        several: Several::Entries,
        both: None,
    },
    handover(
        "handover",
        "WHEN",
        "The client moves from the first network to the second (of one --path a second of its kind): when it leaves the \
         first, 2s, or random: at any moment of the load, drawn from the seed",
    ),
    handover("overlap", "LENGTH", "Distance over which both networks are in range: 10m [default: 0m]"),
    handover("speed", "SPEED", "How fast the client moves: 5m/s"),
    handover(
        "detection",
        "TIME",
        "Time from entering the range of the new network until the client has an address there: 500ms [default: 0]",
    ),
    handover(
        "registration",
        "TIME",
        "Mobile IP registration delay, for contestants that cannot change addresses: 300ms [default: the round trip of the \
         new network]",
    ),
    handover(
        "advertisement",
        "TIME",
        "Router advertisement interval; its phase is drawn from the seed, and detection counts from an advertisement: 1s \
         [default: advertised at once]",
    ),
    handover(
        "edge-loss",
        "SHARE",
        "Loss at the edge of a network: it grows to this along the overlap in the old network, and falls from it in the new \
         one: 20% [default: 0]",
    ),
    handover(
        "edge-length",
        "LENGTH",
        "Distance from the end of a network at which edge-loss begins to grow: 20m [default: the overlap]",
    ),
    handover(
        "tunnel",
        "SIZE",
        "Bytes that Mobile IP's tunnel adds to each packet to a client in the second network: 20B [default: 0B]",
    ),
    handover("stretch", "TIME", "Extra delay of such a packet, by way of the home agent: 4ms [default: 0]"),
    handover(
        "cell",
        "LENGTH",
        "The client moves back and forth, with a handover after each of these distances: 15m [default: once]",
    ),
    Key {
        name: "page",
        value: "PAGE",
        help: "A shipped page (see --list pages), a HAR file, or a directory with index.html [default: news]",
        group: Group::Workload,
        several: Several::FactorRepeated,
        both: None,
    },
    workload(
        "har-page",
        "N",
        "Of a HAR file with several pages, the N-th [default: the first; a warning lists them]",
    ),
    Key {
        name: "objects",
        value: "SIZES",
        help: "Objects requested at once: 8x100kB or 1kB,10kB,100kB",
        group: Group::Workload,
        several: Several::FactorRepeated,
        both: None,
    },
    workload(
        "first-object",
        "SIZE",
        "Before --objects one of this size, alone; the others are requested when it has arrived: 60kB [default: none]",
    ),
    workload("bulk", "SIZE", "One transfer of this size: 100MB; with --messages it runs beside them"),
    workload("message-size", "SIZE", "Size of the server's writes to SCTP in a bulk transfer: 2048B"),
    workload("messages", "RATE", "Messages from the server at a fixed rate, each with its own delay: 100/s"),
    workload("size", "SIZE", "Size of a message, from 8B to 1MB: 300B [default: 300B]"),
    workload("for", "TIME", "How long messages are sent: 30s [default: 30s]"),
    workload(
        "arrivals",
        "RATE",
        "Request the objects one after the other at a fixed rate, whatever has arrived: 25/s",
    ),
    workload(
        "arrivals-of",
        "WHAT",
        "objects: one at each arrival; connections: as many as a connection has streams, on one of its own \
         [default: objects]",
    ),
    workload(
        "think",
        "WHAT",
        "none, or recorded: with --client plain, wait before each request as the HAR did [default: none]",
    ),
    workload(
        "server-time",
        "TIME",
        "Time the server takes for each request: 5ms; or recorded: as the HAR shows [default: recorded; 0 without a \
         recording]",
    ),
    workload(
        "server",
        "WHAT",
        "parallel: work on all requests at once; serial: on one of a connection at a time [default: parallel]",
    ),
    workload(
        "origins",
        "WHAT",
        "keep: each host of the page has a server and connections of its own; merge: all hosts are one [default: keep, \
         for pages in virtual time]",
    ),
    workload(
        "client",
        "WHO",
        "chromium: Chromium's requests, in its phases and with its priorities; plain: each object as soon as the object that \
         causes it has arrived [default: chromium for a page, plain for all else]",
    ),
    workload(
        "client-time",
        "TIME",
        "Processor time of Chromium for each response over TCP, which takes one after the other: 0ms, 10ms on a slow \
         machine [default: 2ms]",
    ),
    workload(
        "visit",
        "WHAT",
        "first: the browser knows nothing of the servers; repeat: their protocols and the tickets of their sessions \
         [default: first]",
    ),
    workload(
        "request-head",
        "SIZE",
        "Size of each request's head: 60B [default: the page's; 400B of --objects]",
    ),
    workload(
        "response-head",
        "SIZE",
        "Size of each response's head: 247B [default: the page's; 300B of --objects]",
    ),
    workload("timeout", "TIME", "Fail an object that makes no progress for this long: 15s [default: never]"),
    workload(
        "start-jitter",
        "TIME",
        "Begin each load later by less than this, drawn from the seed; its time counts from then on: 10ms [default: 0]",
    ),
    workload(
        "request-jitter",
        "TIME",
        "Delay each request by less than this, drawn from the seed, one by one, so that they change places: 10ms \
         [default: 0]",
    ),
    workload(
        "variation",
        "HOW",
        "browser: loads of a page differ a little, in times and sizes, as a browser's do, drawn from the seed; none \
         [default: browser, for pages in virtual time]",
    ),
    workload(
        "network",
        "WHICH",
        "recorded: round trip and rate as the HAR shows them, for what the flags of the network leave out",
    ),
    workload("deadline", "TIME", "End a run after this time of its own clock [default: 600s]"),
    contestants(
        "transport",
        "[NICK=]NAME[:KEY=VALUE,..]",
        Several::Entries,
        "A contestant: http1, http2, http3, sctp-dtls, or a transport such as tcp or sctp, with settings after a colon: \
         http3:cc=bbr or sctp:num_ostreams=10,rto_min=200ms (names and settings: --list transports). Repeat the flag, or write \
         http1,http3:cc=bbr,sctp. NICK= before it gives it a name: 'mine=tcp:connections=6' [default: http1, http2, http3 and \
         sctp-dtls, all encrypted]",
    ),
    contestants(
        "also",
        "[NICK=]NAME[:KEY=VALUE,..]",
        Several::Entries,
        "One more contestant, beside the default ones or those of --transport: http3:cc=bbr",
    ),
    contestants(
        "cleartext",
        "",
        Several::No,
        "No contestant is encrypted. Without --transport, the contestants are six (TCP connections), tcp, sctp and six-sctp. \
         Only the settings of a contestant that you name encrypt it: tls=yes or dtls=yes",
    ),
    contestants("shared-link", "", Several::No, "All contestants share the network at the same time"),
    contestants(
        "background",
        BACKGROUND_FORM,
        Several::No,
        "Background traffic: N endless downloads over TCP",
    ),
    Key {
        name: "population",
        value: "WHO",
        help: "Each point is a person, whose network and page are drawn from the population: world, or a file (docs/population.md); \
               multiplied in one thing, world:loss=x0. Needs --out",
        group: Group::Runs,
        several: Several::Factor,
        both: None,
    },
    runs("people", "N", "How many people are drawn from the population, up to 1000000 [default: 1000]"),
    runs("runs", "N", "Seeds, each a run of every contestant [default: 100]"),
    runs("seed", "N", "The first seed, up to 4294967295 [default: 1]"),
    runs(
        "causes",
        "HOW",
        "Why the winner wins, by experiments with one change each: quick (against the next that is not level, at most \
         20 runs with each seed), full (every pair, all combinations) or off [default: quick]",
    ),
    Key {
        name: "loss-by",
        value: "WHO",
        help: "Who loses packets: link, or iptables-out (a rule in the sender's OUTPUT chain: TCP learns of each drop), or \
               in the emulated world iptables (rules with `statistic` where packets arrive: a share, or nth:N) \
               [default: link]",
        group: Group::Runs,
        several: Several::Factor,
        both: None,
    },
    runs(
        "hosts",
        "HOW-MANY",
        "two, or in the emulated world one: both ends of the path are one host, so that nth:N/shared is one rule of \
         iptables [default: two]",
    ),
    runs(
        "processors",
        "HOW-MANY",
        "two, or in the virtual world one: both ends share a processor, and each program runs until it has to wait \
         [default: two]",
    ),
    runs(
        "world",
        "WORLD",
        "virtual (time), or emulated: real time, between network namespaces, with the kernel's own TCP, MPTCP and SCTP \
         (Linux; as root, or where users may make user namespaces) [default: virtual]",
    ),
];
