//! Races of two contestants that test the program's search for causes. Each race is built so that the setting that
//! makes one contestant slower is known.
//!
//! Each situation consists of two contestants, a network and a workload. All settings are written out, so that no
//! default matters. The contestants differ in few settings. The true cause is one or more of these settings; in some
//! situations there is none, because the contestants are equally fast. In many situations, some of these settings have
//! no effect on this network and workload, so that the search could name a wrong one.
//!
//! The pages are loaded without a browser, and all their hosts are one server. The gaps of the situations were measured
//! with such loads.

/// The true cause of a situation: the settings that make one contestant slower than the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truth {
    /// No setting is a cause: the contestants are equally fast, or nearly.
    Nothing,
    /// This setting alone is the cause.
    One(&'static str),
    /// These settings control one mechanism, which is the cause. The search for causes must name at least one of them,
    /// and no other setting.
    Within(&'static [&'static str]),
    /// All of these settings are causes, each with its own effect.
    Each(&'static [&'static str]),
    /// These settings are a cause only together. None of them has an effect without the others.
    Together(&'static [&'static str]),
    /// Each of these settings alone would remove the gap.
    Either(&'static [&'static str]),
}

/// Two contestants, a network and a workload, with the reason why one contestant is faster.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// A short description of the situation, for the output.
    pub name: &'static str,
    /// Network and workload, as flags of `race` without the dashes.
    pub flags: Flags,
    /// The faster contestant, or one of two that are equally fast.
    pub fast: &'static str,
    /// The slower contestant. If both are equally fast, the one that `fast` does not name.
    pub slow: &'static str,
    /// The slower contestant's time divided by the faster contestant's time, as measured in races in which no setting
    /// is changed.
    pub gap: f64,
    /// The true cause of the gap between the two contestants.
    pub truth: Truth,
    /// Settings that slow the faster contestant down. It is faster in spite of them.
    pub against: &'static [&'static str],
}

/// Network and workload of a situation, as flags of `race` without the dashes.
type Flags = &'static [(&'static str, &'static str)];

const NEWS_LOSSY: Flags = &[
    ("page", "news"),
    ("client", "plain"),
    ("visit", "first"),
    ("origins", "merge"),
    ("variation", "none"),
    ("rate", "10mbit"),
    ("rtt", "80ms"),
    ("queue", "1bdp"),
    ("loss", "1%"),
];
const LARGE_OBJECTS_LOSSY: Flags =
    &[("objects", "12x100kB"), ("rate", "10mbit"), ("rtt", "80ms"), ("queue", "1bdp"), ("loss", "2%")];
const SMALL_OBJECTS: Flags =
    &[("objects", "20x5kB"), ("rate", "10mbit"), ("rtt", "80ms"), ("queue", "1bdp"), ("loss", "0")];
const MESSAGES_LOSSY: Flags = &[
    ("messages", "100/s"),
    ("size", "300B"),
    ("for", "30s"),
    ("rate", "10mbit"),
    ("rtt", "80ms"),
    ("queue", "1bdp"),
    ("loss", "2%"),
];
const ONE_OBJECT: Flags =
    &[("objects", "1x1kB"), ("rate", "10mbit"), ("rtt", "80ms"), ("queue", "1bdp"), ("loss", "0")];
const BULK: Flags = &[("bulk", "2MB"), ("rate", "10mbit"), ("rtt", "80ms"), ("queue", "1bdp"), ("loss", "0")];
const FEW_MESSAGES: Flags = &[
    ("messages", "20/s"),
    ("size", "300B"),
    ("for", "10s"),
    ("rate", "10mbit"),
    ("rtt", "80ms"),
    ("queue", "1bdp"),
    ("loss", "0"),
];
const NEWS: Flags = &[
    ("page", "news"),
    ("client", "plain"),
    ("visit", "first"),
    ("origins", "merge"),
    ("variation", "none"),
    ("rate", "10mbit"),
    ("rtt", "80ms"),
    ("queue", "1bdp"),
    ("loss", "0"),
];

/// All situations.
pub const ALL: &[Situation] = &[
    Situation {
        name: "a largest RTO that is never reached",
        flags: NEWS_LOSSY,
        fast: "tcp:profile=modern,connections=1,pipeline=yes",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,rto_max=60s",
        gap: 1.0,
        truth: Truth::Nothing,
        against: &[],
    },
    Situation {
        name: "TCP and SCTP with the same choices",
        flags: NEWS_LOSSY,
        fast: "tcp:profile=modern,connections=1,pipeline=yes",
        slow: "sctp:profile=modern,connections=1,num_ostreams=100",
        gap: 1.03,
        truth: Truth::Nothing,
        against: &[],
    },
    Situation {
        name: "a smallest RTO where losses are found sooner",
        flags: NEWS_LOSSY,
        fast: "tcp:profile=modern,connections=1,pipeline=yes",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,rto_min=1s",
        gap: 1.0,
        truth: Truth::Nothing,
        against: &[],
    },
    Situation {
        name: "the RTO of NewReno with many losses",
        flags: &[
            ("objects", "8x5kB"),
            ("rate", "10mbit"),
            ("rtt", "80ms"),
            ("queue", "1bdp"),
            ("loss", "5%"),
        ],
        fast: "tcp:profile=modern,connections=1,pipeline=yes,recovery=newreno,sack=no,rack=no,tlp=no",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,recovery=newreno,sack=no,rack=no,tlp=no,rto_min=1s,\
               rto_var_min=0ms",
        gap: 1.25,
        truth: Truth::Within(&["rto_min", "rto_var_min"]),
        // The RTO is SRTT plus 4 RTTVAR, but at least SRTT plus `rto_var_min`, and at least `rto_min`. In the faster
        // contestant, `rto_min` has no effect because it is low, and `rto_var_min` makes the RTO longer than SRTT plus
        // 4 RTTVAR.
        against: &["rto_var_min"],
    },
    Situation {
        name: "the initial window, one object",
        flags: &[
            ("objects", "1x20kB"),
            ("rate", "10mbit"),
            ("rtt", "80ms"),
            ("queue", "1bdp"),
            ("loss", "0"),
        ],
        fast: "tcp:profile=modern,connections=1,pipeline=yes,iw=10",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,iw=2",
        gap: 1.64,
        truth: Truth::One("iw"),
        against: &[],
    },
    Situation {
        name: "the initial window, where capacity is the limit",
        flags: &[
            ("objects", "1x20kB"),
            ("rate", "64kbit"),
            ("rtt", "80ms"),
            ("queue", "1000p"),
            ("loss", "0"),
        ],
        fast: "tcp:profile=modern,connections=1,pipeline=yes,iw=10",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,iw=2",
        gap: 1.0,
        truth: Truth::Nothing,
        against: &[],
    },
    Situation {
        name: "six connections, pipelined as the one",
        flags: LARGE_OBJECTS_LOSSY,
        fast: "tcp:profile=modern,connections=6,pipeline=yes",
        slow: "tcp:profile=modern,connections=1,pipeline=yes",
        gap: 3.27,
        truth: Truth::One("connections"),
        against: &[],
    },
    Situation {
        name: "pipelining",
        flags: SMALL_OBJECTS,
        fast: "tcp:profile=modern,connections=1,pipeline=yes",
        slow: "tcp:profile=modern,connections=1,pipeline=no",
        gap: 4.34,
        truth: Truth::One("outstanding"),
        against: &[],
    },
    Situation {
        name: "messages behind a lost one",
        flags: MESSAGES_LOSSY,
        fast: "sctp:profile=modern,connections=1,num_ostreams=100",
        slow: "sctp:profile=modern,connections=1,num_ostreams=1",
        gap: 2.93,
        truth: Truth::One("num_ostreams"),
        against: &[],
    },
    Situation {
        name: "one stream, one request at a time",
        flags: &[
            ("objects", "20x20kB"),
            ("rate", "10mbit"),
            ("rtt", "80ms"),
            ("queue", "1bdp"),
            ("loss", "3%"),
        ],
        fast: "sctp:profile=modern,connections=1,num_ostreams=100",
        slow: "sctp:profile=modern,connections=1,num_ostreams=1",
        gap: 2.69,
        truth: Truth::One("outstanding"),
        against: &[],
    },
    Situation {
        name: "a handshake that carries the request",
        flags: ONE_OBJECT,
        fast: "sctp:profile=rfc9260,connections=1,num_ostreams=100,cookie_data=yes",
        slow: "sctp:profile=rfc9260,connections=1,num_ostreams=100,cookie_data=no",
        gap: 1.5,
        truth: Truth::One("cookie_data"),
        against: &[],
    },
    Situation {
        name: "two small buffers",
        flags: &[("bulk", "5MB"), ("rate", "10mbit"), ("rtt", "80ms"), ("queue", "10000p"), ("loss", "0")],
        fast: "sctp:profile=modern,connections=1,num_ostreams=100",
        slow: "sctp:profile=modern,connections=1,num_ostreams=100,rcvbuf=8KiB,sndbuf=8KiB",
        gap: 11.9,
        truth: Truth::Together(&["rcvbuf", "sndbuf"]),
        against: &[],
    },
    Situation {
        name: "a small receive buffer",
        flags: BULK,
        fast: "sctp:profile=modern,connections=1,num_ostreams=100,rcvbuf=1MiB,sndbuf=1MiB,hb_interval=30s,rto_max=60s",
        slow: "sctp:profile=modern,connections=1,num_ostreams=100,rcvbuf=32KiB,sndbuf=512KiB,hb_interval=10s,rto_max=30s",
        gap: 3.05,
        truth: Truth::One("rcvbuf"),
        against: &[],
    },
    Situation {
        name: "late acknowledgements, where a small packet waits for them",
        flags: FEW_MESSAGES,
        fast: "sctp:profile=modern,connections=1,num_ostreams=100,nagle=yes,delack=0ms,ack_every=2",
        slow: "sctp:profile=modern,connections=1,num_ostreams=100,nagle=yes,delack=200ms,ack_every=3",
        gap: 2.07,
        truth: Truth::One("delack"),
        against: &[],
    },
    Situation {
        name: "Nagle's algorithm",
        flags: FEW_MESSAGES,
        fast: "sctp:profile=modern,connections=1,num_ostreams=100,nagle=no,rto_max=60s",
        slow: "sctp:profile=modern,connections=1,num_ostreams=100,nagle=yes,rto_max=30s",
        gap: 3.84,
        truth: Truth::One("nagle"),
        against: &[],
    },
    Situation {
        name: "a hundred duplicates for a loss",
        flags: &[
            ("objects", "8x20kB"),
            ("rate", "10mbit"),
            ("rtt", "80ms"),
            ("queue", "1bdp"),
            ("loss", "3%"),
        ],
        fast: "tcp:profile=modern,connections=1,pipeline=yes,rack=no,tlp=no,dupthresh=3,rto_max=120s,syn_retries=6",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,rack=no,tlp=no,dupthresh=100,rto_max=60s,syn_retries=5",
        gap: 1.72,
        truth: Truth::One("dupthresh"),
        against: &[],
    },
    Situation {
        name: "a lost SYN and the first RTO",
        flags: &[
            ("objects", "1x1kB"),
            ("rate", "10mbit"),
            ("rtt", "80ms"),
            ("queue", "1bdp"),
            ("up-loss", "list:1"),
        ],
        fast: "tcp:profile=modern,connections=1,pipeline=yes,rto_initial=1s,rto_min=200ms",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,rto_initial=3s,rto_min=400ms",
        gap: 2.72,
        truth: Truth::One("rto_initial"),
        against: &[],
    },
    Situation {
        name: "a lost SYN, and a small window after it",
        flags: &[
            ("objects", "1x20kB"),
            ("rate", "10mbit"),
            ("rtt", "80ms"),
            ("queue", "1bdp"),
            ("up-loss", "list:1"),
        ],
        fast: "tcp:profile=modern,connections=1,pipeline=yes,iw=10,rto_initial=1s",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,iw=2,rto_initial=2s",
        gap: 1.93,
        truth: Truth::Each(&["iw", "rto_initial"]),
        against: &[],
    },
    Situation {
        name: "a connection for each object",
        flags: SMALL_OBJECTS,
        fast: "tcp:profile=modern,connections=4,pipeline=no",
        slow: "tcp:profile=modern,connections=4,per-object=yes",
        gap: 1.62,
        truth: Truth::One("objects-per-connection"),
        against: &[],
    },
    Situation {
        name: "two objects on a connection",
        flags: SMALL_OBJECTS,
        fast: "tcp:profile=modern,connections=1,pipeline=no,syn_retries=6",
        slow: "tcp:profile=modern,connections=1,pipeline=no,objects-per-connection=2,syn_retries=5",
        gap: 1.41,
        truth: Truth::One("objects-per-connection"),
        against: &[],
    },
    Situation {
        name: "Reno and CUBIC where a packet is far on its way",
        flags: &[("bulk", "40MB"), ("rate", "50mbit"), ("rtt", "120ms"), ("queue", "0.1bdp"), ("loss", "0")],
        fast: "tcp:profile=modern,connections=1,pipeline=yes,cc=cubic,rto_max=120s",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,cc=reno,rto_max=60s",
        gap: 1.32,
        truth: Truth::One("cc"),
        against: &[],
    },
    Situation {
        name: "bursts of two packets",
        flags: &[
            ("objects", "1x200kB"),
            ("rate", "10mbit"),
            ("rtt", "80ms"),
            ("queue", "1bdp"),
            ("loss", "0"),
        ],
        fast: "sctp:profile=modern,connections=1,num_ostreams=100,max_burst=0,dupthresh=3",
        slow: "sctp:profile=modern,connections=1,num_ostreams=100,max_burst=2,dupthresh=4",
        gap: 6.24,
        truth: Truth::One("max_burst"),
        against: &[],
    },
    Situation {
        name: "small segments",
        flags: BULK,
        fast: "tcp:profile=modern,connections=1,pipeline=yes,mss=auto,pmtu=yes",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,mss=300B,pmtu=no",
        gap: 1.41,
        truth: Truth::One("mss"),
        against: &[],
    },
    Situation {
        name: "messages in order on one stream, or neither",
        flags: MESSAGES_LOSSY,
        fast: "sctp:profile=modern,connections=1,num_ostreams=100,unordered=yes",
        slow: "sctp:profile=modern,connections=1,num_ostreams=1,unordered=no",
        gap: 2.95,
        truth: Truth::Either(&["num_ostreams", "unordered"]),
        against: &[],
    },
    Situation {
        name: "pipelining, with a window that is too small",
        flags: SMALL_OBJECTS,
        fast: "tcp:profile=modern,connections=1,pipeline=yes,iw=2",
        slow: "tcp:profile=modern,connections=1,pipeline=no,iw=10",
        gap: 3.03,
        truth: Truth::One("outstanding"),
        against: &["iw"],
    },
    Situation {
        name: "timers of 1988 and of today, few messages, many losses",
        flags: &[
            ("messages", "10/s"),
            ("size", "300B"),
            ("for", "30s"),
            ("rate", "10mbit"),
            ("rtt", "80ms"),
            ("queue", "1bdp"),
            ("loss", "10%"),
        ],
        fast: "sctp:profile=rfc9260,connections=1,num_ostreams=100,rto_min=200ms,rto_var_min=200ms,delack=40ms,hb_interval=30s",
        slow: "sctp:profile=rfc9260,connections=1,num_ostreams=100,rto_min=1s,rto_var_min=0ms,delack=200ms,hb_interval=10s",
        gap: 1.28,
        truth: Truth::Within(&["rto_min", "rto_var_min", "delack"]),
        // The RTO is SRTT plus 4 RTTVAR, but at least SRTT plus `rto_var_min`, and at least `rto_min`. In the faster
        // contestant, `rto_min` has no effect because it is low, and `rto_var_min` makes the RTO longer than SRTT plus
        // 4 RTTVAR.
        against: &["rto_var_min"],
    },
    Situation {
        name: "six TCP connections and one association",
        flags: LARGE_OBJECTS_LOSSY,
        fast: "tcp:profile=modern,connections=6,pipeline=yes",
        slow: "sctp:profile=modern,connections=1,num_ostreams=100",
        gap: 2.61,
        truth: Truth::One("connections"),
        against: &[],
    },
    Situation {
        name: "streams, and TCP that asks for one object at a time",
        flags: SMALL_OBJECTS,
        fast: "sctp:profile=modern,connections=1,num_ostreams=100",
        slow: "tcp:profile=modern,connections=1,pipeline=no",
        gap: 4.27,
        truth: Truth::One("outstanding"),
        against: &[],
    },
    Situation {
        name: "five settings that nothing there asks for",
        flags: NEWS,
        fast: "sctp:profile=modern,connections=1,num_ostreams=100,hb_interval=30s,cookie_life=60s,path_max_retrans=5,rto_max=60s,assoc_max_retrans=10",
        slow: "sctp:profile=modern,connections=1,num_ostreams=100,hb_interval=10s,cookie_life=30s,path_max_retrans=3,rto_max=30s,assoc_max_retrans=5",
        gap: 1.0,
        truth: Truth::Nothing,
        against: &[],
    },
    Situation {
        name: "TLS, one request",
        flags: ONE_OBJECT,
        fast: "tcp:profile=modern,connections=1,pipeline=yes",
        slow: "tcp:profile=modern,connections=1,pipeline=yes,tls=yes",
        gap: 1.51,
        truth: Truth::One("tls"),
        against: &[],
    },
    Situation {
        name: "DTLS beneath one transport beside another in the clear",
        flags: ONE_OBJECT,
        fast: "tcp:profile=modern,connections=1,pipeline=yes",
        slow: "sctp:profile=modern,connections=1,num_ostreams=100,dtls=yes",
        gap: 2.02,
        truth: Truth::One("dtls"),
        against: &[],
    },
    Situation {
        name: "a request with the first packet",
        flags: ONE_OBJECT,
        fast: "quic:profile=modern,resume=0rtt",
        slow: "quic:profile=modern,resume=full",
        gap: 2.01,
        truth: Truth::One("resume"),
        against: &[],
    },
    Situation {
        name: "certificates that a TCP server may send at once",
        flags: ONE_OBJECT,
        fast: "tcp:profile=modern,connections=1,tls=yes,chain=3kB",
        slow: "tcp:profile=modern,connections=1,tls=yes,chain=6kB",
        gap: 1.01,
        truth: Truth::Nothing,
        against: &[],
    },
    Situation {
        name: "answers by urgency, where scripts bring more",
        flags: &[
            ("page", "article"),
            ("client", "plain"),
            ("visit", "first"),
            ("origins", "merge"),
            ("variation", "none"),
            ("rate", "10mbit"),
            ("rtt", "80ms"),
            ("queue", "1bdp"),
            ("loss", "0"),
        ],
        fast: "sctp:profile=modern,connections=1,num_ostreams=100,dtls=yes,priority=yes",
        slow: "sctp:profile=modern,connections=1,num_ostreams=100,dtls=yes,priority=no",
        gap: 1.035,
        truth: Truth::Within(&["priority", "scheduler"]),
        against: &[],
    },
    Situation {
        name: "answers by urgency, where a page asks in that order",
        flags: NEWS,
        fast: "tcp:profile=modern,http=2,tls=yes,priority=yes",
        slow: "tcp:profile=modern,http=2,tls=yes,priority=no",
        gap: 1.0,
        truth: Truth::Nothing,
        against: &[],
    },
    Situation {
        name: "the controller, the same for all transports",
        flags: &[("bulk", "300kB"), ("rate", "10mbit"), ("rtt", "80ms"), ("queue", "1bdp"), ("loss", "2%")],
        fast: "tcp:profile=modern,connections=1,tls=yes,cc=bbr",
        slow: "tcp:profile=modern,connections=1,tls=yes,cc=cubic,rack=yes,prr=no,hystart=no",
        gap: 2.5,
        truth: Truth::One("cc"),
        against: &[],
    },
];
