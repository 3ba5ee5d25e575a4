//! Every key of a plan, once: the long flag without dashes, the plan file's field, its help.
//!
//! The command line declares its flags from this table, the plan file its
//! fields; both carry the values as text to the same parsers, so that a value
//! means the same, and fails with the same words, wherever it stands.

/// What a key is about; the heading under which help shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// The emulated network.
    Network,
    /// What is transferred.
    Workload,
    /// Who races.
    Contestants,
    /// How often, and from which seed.
    Runs,
}

impl Group {
    /// The heading in help texts.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Network => "Network",
            Self::Workload => "Workload",
            Self::Contestants => "Contestants",
            Self::Runs => "Runs",
        }
    }
}

/// What several values of one key mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Several {
    /// A factor; on the command line a comma separates the levels.
    Factor,
    /// A factor; commas belong to the value, so on the command line the flag is repeated.
    FactorRepeated,
    /// Entries that all hold at once; the flag is repeated.
    Entries,
    /// Not allowed.
    No,
}

/// One key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The long flag without dashes, and the plan file's field.
    pub name: &'static str,
    /// What stands for the value in help texts; empty for a switch (`yes` when no value is given).
    pub value: &'static str,
    /// One line of help, the accepted forms included; empty for a key of one direction.
    pub help: &'static str,
    /// Where it belongs.
    pub group: Group,
    /// What several values mean.
    pub several: Several,
    /// For a key of one direction (`down-loss`): the key of both.
    pub both: Option<&'static str>,
}

/// The key of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The names of all keys of a group.
#[must_use]
pub fn names(group: Group) -> Vec<&'static str> {
    KEYS.iter().filter(|key| key.group == group).map(|key| key.name).collect()
}

const fn network(name: &'static str, value: &'static str, help: &'static str) -> Key {
    Key { name, value, help, group: Group::Network, several: Several::Factor, both: None }
}

const fn one_way(both: &'static str, name: &'static str, value: &'static str) -> Key {
    Key { name, value, help: "", group: Group::Network, several: Several::Factor, both: Some(both) }
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

/// The table.
pub static KEYS: &[Key] = &[
    network(
        "rate",
        "RATE",
        "Capacity: 10mbit, 56kbit, 10mbit/5s:2mbit (changing) or unlimited [default: 10mbit]",
    ),
    one_way("rate", "up-rate", "RATE"),
    one_way("rate", "down-rate", "RATE"),
    network("delay", "TIME", "Propagation delay one way: 40ms (not with --rtt)"),
    one_way("delay", "up-delay", "TIME"),
    one_way("delay", "down-delay", "TIME"),
    network("rtt", "TIME", "Propagation delay of the round trip: 80ms [default: 80ms]"),
    network("jitter", "TIME", "Uniform ± around the delay, in order unless --reorder: 5ms"),
    one_way("jitter", "up-jitter", "TIME"),
    one_way("jitter", "down-jitter", "TIME"),
    network(
        "loss",
        "LOSS",
        "1%, nth:N[/first=K][/shared], ge:P/R[/..] (Gilbert-Elliott) or list:3/17 [default: 1% when no network flag \
         is given, else 0]",
    ),
    one_way("loss", "up-loss", "LOSS"),
    one_way("loss", "down-loss", "LOSS"),
    network("queue", "SIZE", "Drop-tail queue: 50p packets, 100kB, 1bdp [default: 1bdp, at least 10p]"),
    one_way("queue", "up-queue", "SIZE"),
    one_way("queue", "down-queue", "SIZE"),
    network("aqm", "NAME", "Queue management: droptail, codel, fq-codel, pie or red [default: droptail]"),
    one_way("aqm", "up-aqm", "NAME"),
    one_way("aqm", "down-aqm", "NAME"),
    network(
        "ecn",
        "MARK",
        "Mark ECN-capable packets: yes (with an aqm), or a drop-tail queue's threshold: 20p",
    ),
    one_way("ecn", "up-ecn", "MARK"),
    one_way("ecn", "down-ecn", "MARK"),
    network("reorder", "SHARE[/TIME]", "Packets that overtake others: 1%, 1%/10ms"),
    one_way("reorder", "up-reorder", "SHARE[/TIME]"),
    one_way("reorder", "down-reorder", "SHARE[/TIME]"),
    network("duplicate", "SHARE", "Packets that arrive twice: 0.1%"),
    one_way("duplicate", "up-duplicate", "SHARE"),
    one_way("duplicate", "down-duplicate", "SHARE"),
    network("corrupt", "SHARE", "Packets that arrive with flipped bits: 0.1%"),
    one_way("corrupt", "up-corrupt", "SHARE"),
    one_way("corrupt", "down-corrupt", "SHARE"),
    network("mtu", "BYTES", "Largest IP packet: 1500 [default: 1500]"),
    one_way("mtu", "up-mtu", "BYTES"),
    one_way("mtu", "down-mtu", "BYTES"),
    network("trace", "FILE", "Recorded capacity, in the format of mahimahi"),
    one_way("trace", "up-trace", "FILE"),
    one_way("trace", "down-trace", "FILE"),
    network("half-duplex", "", "Both directions share one medium"),
    network("preset", "NAME", "A named network (see --list presets); other flags change it"),
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
    Key {
        name: "page",
        value: "PAGE",
        help: "A shipped page (see --list pages), a HAR file, or a directory with index.html [default: news]",
        group: Group::Workload,
        several: Several::FactorRepeated,
        both: None,
    },
    Key {
        name: "objects",
        value: "SIZES",
        help: "Objects issued at once: 8x100kB or 1kB,10kB,100kB",
        group: Group::Workload,
        several: Several::FactorRepeated,
        both: None,
    },
    workload("bulk", "SIZE", "One transfer of this size: 100MB; with --messages it runs beside them"),
    workload("message-size", "SIZE", "Size of the server's writes to SCTP in a bulk transfer: 2048B"),
    workload("messages", "RATE", "Messages from the server, open-loop, each with its own delay: 100/s"),
    workload("size", "SIZE", "Size of a message, from 8B to 60kB: 300B [default: 300B]"),
    workload("for", "TIME", "How long messages are sent: 30s [default: 30s]"),
    workload("arrivals", "RATE", "Issue the objects open-loop, one after the other: 25/s"),
    workload(
        "arrivals-of",
        "WHAT",
        "objects: one at each arrival; connections: as many as a connection has streams, on one of its own \
         [default: objects]",
    ),
    workload("think", "WHAT", "none, or recorded: wait before each request as the HAR did [default: none]"),
    workload("server-time", "TIME", "Service time of each request: 5ms [default: 0]"),
    workload(
        "server",
        "WHAT",
        "parallel: work on all requests at once; serial: on one of a connection at a time [default: parallel]",
    ),
    workload(
        "origins",
        "WHAT",
        "merge: all hosts of the page are one server; keep: one each [default: merge]",
    ),
    workload("timeout", "TIME", "Fail an object that makes no progress for so long: 15s [default: never]"),
    workload("deadline", "TIME", "End a run at this time of its own clock [default: 600s]"),
    contestants(
        "transport",
        "NAME[:KEY=VALUE,..]",
        Several::Entries,
        "A contestant: tcp, tcp:connections=6, sctp:streams=10,rto_min=200ms; repeat the flag, or tcp,sctp without \
         keys (keys: --list transports) [default: tcp, tcp:connections=6, sctp]",
    ),
    contestants("together", "", Several::No, "All contestants share the network at once"),
    contestants("cross", "tcp:flows=N", Several::No, "Background traffic: N endless downloads over TCP"),
    runs("runs", "N", "Seeds, each a run of every contestant [default: 30]"),
    runs("seed", "N", "The first seed, up to 4294967295 [default: 1]"),
    Key {
        name: "loss-by",
        value: "WHO",
        help: "Who loses packets in the emulated world: link, or iptables (rules with `statistic` in the hosts' own \
               namespaces: a share, or nth:N) [default: link]",
        group: Group::Runs,
        several: Several::Factor,
        both: None,
    },
    runs(
        "world",
        "WORLD",
        "virtual (time), or emulated: real time, between network namespaces, with the kernel's own TCP, MPTCP and SCTP \
         (Linux; as root, or where users may make user namespaces) [default: virtual]",
    ),
];
