//! Contestants: `NAME[:key=value,…]`.
//!
//! How a client fetches (`connections`, `pipeline`, `streams`, …) is read here;
//! everything else is a knob of the engine, whose own table reads it and says
//! what it accepts.

use super::engine::{EngineConfig, Kernel};
use super::error::{PlanError, nearest, unknown};
use anabranch_base::time::Duration;
use anabranch_base::units::{format_span, parse_span};
use anabranch_http::mapping::{Choices, Policy, WhenFull};
use anabranch_sim::Cost;
use anabranch_transport::Delivery;
use anabranch_transport::engines::sctp::Reliability;
use std::collections::BTreeMap;

/// The transports, by name.
pub const TRANSPORTS: [&str; 4] = ["tcp", "sctp", "mptcp", "sctp-kernel"];

/// Which transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// SCTP.
    Sctp,
    /// The kernel's Multipath TCP: the emulated world only.
    Mptcp,
    /// The kernel's SCTP, on sockets of the one-to-one style used as TCP's are, all on one stream: the emulated world
    /// only.
    KernelSctp,
}

impl Transport {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Sctp => "sctp",
            Self::Mptcp => "mptcp",
            Self::KernelSctp => "sctp-kernel",
        }
    }

    /// The kernel's alone: no engine of ours speaks it.
    #[must_use]
    pub const fn is_kernels(self) -> bool {
        matches!(self, Self::Mptcp | Self::KernelSctp)
    }
}

/// A key of a contestant that is not a knob of its engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArmKey {
    /// The key.
    pub name: &'static str,
    /// The transports that have it; none named: all.
    pub of: &'static [Transport],
    /// Meaning, forms and default.
    pub help: &'static str,
}

/// The contestants' keys, apart from the engines' knobs.
pub const ARM_KEYS: [ArmKey; 15] = [
    key("connections", &[], "connections or associations to the server, from 1; default 1"),
    key("per-object", &[], "a new connection for each object: yes or no; default no"),
    key(
        "objects-per-connection",
        &[],
        "objects after which a connection is replaced, from 1; default no limit",
    ),
    key(
        "pipeline",
        ONE_STREAM,
        "several requests outstanding on a connection: yes or no; default yes for one connection, no for more",
    ),
    key("http", ONE_STREAM, "1 (HTTP/1.1); 2 comes in a later version"),
    key(
        "when-full",
        &[Transport::Sctp],
        "all streams busy: wait, rr (pipeline in turn) or spf (smallest pending first); default wait",
    ),
    key("paths", &[Transport::Sctp, Transport::Mptcp], "paths to use, from 1; default all of the network"),
    key(
        "unordered",
        &[Transport::Sctp],
        "messages without order: yes or no; default no (HTTP needs the order)",
    ),
    key(
        "lifetime",
        &[Transport::Sctp],
        "give a message up when it is so old: 200ms (RFC 3758); default never",
    ),
    key(
        "retransmissions",
        &[Transport::Sctp],
        "give a message up after so many (RFC 7496), from 0; default never",
    ),
    key("encap", &[Transport::Sctp], "none (IP protocol 132) or udp (RFC 6951); default none"),
    key("packet-cost", &[], "processor time of its hosts for each packet in or out: 10us; default 0"),
    key("byte-cost", &[], "processor time of its hosts for each byte in or out: 6ns; default 0"),
    key(
        "connection-cost",
        &[],
        "processor time of its servers for each accepted connection: 50us; default 0",
    ),
    key("profile", &[], "a named, sourced set of knobs (see --list profiles)"),
];

const fn key(name: &'static str, of: &'static [Transport], help: &'static str) -> ArmKey {
    ArmKey { name, of, help }
}

impl ArmKey {
    /// Whether a transport has it.
    #[must_use]
    pub fn is_of(&self, transport: Transport) -> bool {
        self.of.is_empty() || self.of.contains(&transport)
    }
}

/// Those whose connections carry one stream.
const ONE_STREAM: &[Transport] = &[Transport::Tcp, Transport::Mptcp, Transport::KernelSctp];

/// A congestion control of TCP that our engine has not. A real kernel may have it, which shows when it is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// Its name, the kernel's.
    pub name: String,
    /// What our engine says.
    pub refusal: String,
}

/// One contestant.
#[derive(Clone, Debug)]
pub struct Arm {
    /// As typed.
    pub text: String,
    /// Which transport.
    pub transport: Transport,
    /// How its client fetches, but for what the workload says (think, timeout, …).
    choices: Choices,
    /// Paths to use; `None` for all.
    pub paths: Option<usize>,
    /// Encapsulated in UDP.
    pub encapsulated: bool,
    /// How its messages are delivered.
    pub delivery: Delivery,
    /// The profile's name.
    pub profile: String,
    /// What its hosts' processors take for their work.
    pub cost: Cost,
    /// The engine's knobs.
    pub engine: EngineConfig,
    /// A congestion control that only a kernel can have, instead of the engine's.
    pub foreign: Option<Foreign>,
    /// Where it stands.
    pub place: String,
}

impl Arm {
    /// Reads a contestant.
    ///
    /// # Errors
    /// [`PlanError`] naming the contestant, the key and the accepted forms.
    pub fn parse(text: &str, place: &str) -> Result<Self, PlanError> {
        let place = format!("{place} {text}");
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let transport = match name {
            "tcp" => Transport::Tcp,
            "sctp" => Transport::Sctp,
            "mptcp" => Transport::Mptcp,
            "sctp-kernel" => Transport::KernelSctp,
            "quic" => {
                let what = "quic comes in a later version; accepted now: tcp, sctp, mptcp, sctp-kernel";
                return Err(PlanError::at(&place, what));
            }
            _ => return Err(PlanError::at(&place, unknown("transport", name, &TRANSPORTS))),
        };
        let pairs = pairs(rest, &place)?;
        let profile = match pairs.iter().find(|(key, _)| *key == "profile") {
            Some((_, name)) => *name,
            None => EngineConfig::default_profile(transport),
        };
        let Some(engine) = EngineConfig::profile(transport, profile) else {
            let known = EngineConfig::profiles(transport);
            return Err(PlanError::at(&place, unknown("profile", profile, known)));
        };
        let mut arm = Self {
            text: text.to_owned(),
            transport,
            choices: Choices::default(),
            paths: None,
            encapsulated: false,
            delivery: Delivery::default(),
            profile: profile.to_owned(),
            cost: Cost::default(),
            engine,
            foreign: None,
            place: place.clone(),
        };
        let given = pairs.clone();
        for (key, value) in pairs {
            arm.set(key, value).map_err(|what| PlanError::at(&place, what))?;
        }
        arm.engine.check().map_err(|what| PlanError::at(&arm.place, what))?;
        arm.needs_extensions(&given).map_err(|what| PlanError::at(&arm.place, what))?;
        arm.policy(false)?;
        Ok(arm)
    }

    /// Finds an extension that a key of the contestant turns on and its own knob turns off: one of them would not be in
    /// force.
    fn needs_extensions(&self, given: &[(&str, &str)]) -> Result<(), String> {
        let grows = self.choices.when_full == Some(WhenFull::Grow);
        let gives_up = match self.delivery.reliability {
            Reliability::Lifetime(_) => Some("lifetime"),
            Reliability::Retransmissions(_) => Some("retransmissions"),
            _ => None,
        };
        for (key, knob, rule) in [
            (grows.then_some("when-full=grow"), "reconfig", "RFC 6525 adds the streams"),
            (gives_up, "partial_reliability", "RFC 3758 skips the messages"),
        ] {
            if let Some(key) = key.filter(|_| given.contains(&(knob, "no"))) {
                return Err(format!("{knob}=no: {key} needs it ({rule}); leave one of them out"));
            }
        }
        Ok(())
    }

    /// The keys it was given that say which request takes which connection or stream.
    #[must_use]
    pub fn fetch_keys(&self) -> Vec<&'static str> {
        let choices = &self.choices;
        let given = [
            ("per-object", choices.per_object),
            ("objects-per-connection", choices.objects_per_connection.is_some()),
            ("pipeline", choices.pipeline.is_some()),
            ("when-full", choices.when_full.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect()
    }

    /// How its client fetches; `open_loop`: objects arrive at given instants.
    ///
    /// # Errors
    /// [`PlanError`] when its keys contradict each other.
    pub fn policy(&self, open_loop: bool) -> Result<Policy, PlanError> {
        let multistream = self.transport == Transport::Sctp;
        self.choices.policy(multistream, open_loop).map_err(|error| PlanError::at(&self.place, error))
    }

    /// How many connections it was told to use; one unless told.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.choices.connections.unwrap_or(1)
    }

    /// How many objects a connection of it carries at once: its streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        match &self.engine {
            // Of both directions the smaller one.
            EngineConfig::Sctp(config) => usize::from(config.streams.min(config.inbound_streams())),
            EngineConfig::Tcp(_) | EngineConfig::Kernel(_) => 1,
        }
    }

    /// Everything it runs with, as text.
    #[must_use]
    pub fn settings(&self, policy: &Policy) -> BTreeMap<String, String> {
        let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let mut settings: BTreeMap<String, String> =
            self.engine.knobs().into_iter().map(|knob| (knob.key.to_owned(), knob.value)).collect();
        let mut set = |key: &str, value: String| settings.insert(key.to_owned(), value);
        if let Some(foreign) = &self.foreign {
            set("cc", foreign.name.clone());
        }
        set("transport", self.transport.name().to_owned());
        set("profile", self.profile.clone());
        let connections = match policy.connections {
            usize::MAX => "as needed".to_owned(),
            n => n.to_string(),
        };
        set("connections", connections);
        let per_connection = policy.objects_per_connection.map_or("no limit".to_owned(), |k| k.to_string());
        set("objects-per-connection", per_connection);
        let cost = &self.cost;
        for (key, span) in [
            ("packet-cost", cost.per_packet),
            ("byte-cost", cost.per_byte),
            ("connection-cost", cost.per_connection),
        ] {
            set(key, format_span(span));
        }
        match self.transport {
            Transport::Tcp | Transport::Mptcp | Transport::KernelSctp => {
                set("pipeline", yes_no(policy.pipelines()));
                set("http", "1".to_owned());
                if self.transport == Transport::Mptcp {
                    set("paths", self.paths.map_or("all".to_owned(), |n| n.to_string()));
                }
            }
            Transport::Sctp => {
                set("when-full", policy.when_full.to_string());
                set("unordered", yes_no(self.delivery.unordered));
                match self.delivery.reliability {
                    Reliability::Lifetime(span) => drop(set("lifetime", format_span(span))),
                    Reliability::Retransmissions(n) => drop(set("retransmissions", n.to_string())),
                    _ => {}
                }
                set("encap", if self.encapsulated { "udp" } else { "none" }.to_owned());
                set("paths", self.paths.map_or("all".to_owned(), |n| n.to_string()));
            }
        }
        settings
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if let Some(own) = ARM_KEYS.iter().find(|own| own.name == key)
            && !own.is_of(self.transport)
        {
            let of: Vec<_> = own.of.iter().map(|of| of.name()).collect();
            return Err(format!("'{key}' is a key of {}", of.join(", ")));
        }
        let yes_no = || match value {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(format!("{key}={value}: write yes or no")),
        };
        let count = || match value.parse::<usize>() {
            Ok(n) if (1..=MOST).contains(&n) => Ok(n),
            _ => Err(format!("{key}={value}: write a number from 1 to {MOST}")),
        };
        match key {
            "connections" => self.choices.connections = Some(count()?),
            "per-object" => self.choices.per_object = yes_no()?,
            "objects-per-connection" => self.choices.objects_per_connection = Some(count()? as u32),
            "pipeline" => self.choices.pipeline = Some(yes_no()?),
            "when-full" => {
                let when_full = value.parse::<WhenFull>().map_err(|error| error.to_string())?;
                self.choices.when_full = Some(when_full);
                if when_full == WhenFull::Grow {
                    // RFC 6525 is what adds streams.
                    self.engine.set("reconfig", "yes")?;
                }
            }
            "paths" => self.paths = Some(count()?),
            "encap" => {
                self.encapsulated = match value {
                    "none" => false,
                    "udp" => true,
                    _ => return Err(format!("encap={value}: write none or udp")),
                };
            }
            "unordered" => self.delivery.unordered = yes_no()?,
            "lifetime" | "retransmissions" => {
                if self.delivery.reliability != Reliability::Full {
                    return Err(format!("{key}={value}: goes not with another way of giving messages up"));
                }
                self.delivery.reliability = match (key, parse_span(value), value.parse()) {
                    ("lifetime", Ok(span), _) if !span.is_zero() => Reliability::Lifetime(span),
                    ("lifetime", ..) => return Err(format!("lifetime={value}: write a time such as 200ms")),
                    (_, _, Ok(n)) if n <= 1000 => Reliability::Retransmissions(n),
                    _ => return Err(format!("retransmissions={value}: write a number from 0 to 1000")),
                };
                // RFC 3758 is what skips them at the receiver.
                self.engine.set("partial_reliability", "yes")?;
            }
            "packet-cost" => self.cost.per_packet = span(key, value)?,
            "byte-cost" => self.cost.per_byte = span(key, value)?,
            "connection-cost" => self.cost.per_connection = span(key, value)?,
            "http" if value == "1" => {}
            "http" if value == "2" => return Err("http=2 comes in a later version; write http=1".to_owned()),
            "http" => return Err(format!("http={value}: write 1")),
            "profile" => {}
            _ => {
                let keys = self.keys();
                if !keys.contains(&key) {
                    let mut what = unknown("key", key, &keys);
                    let has = |transport: &Transport| {
                        EngineConfig::default_of(*transport).knobs().iter().any(|knob| knob.key == key)
                    };
                    if let Some(other) = [Transport::Tcp, Transport::Sctp].into_iter().find(has)
                        && nearest(key, &keys).is_none()
                    {
                        what = format!("'{key}' is a key of {}; accepted: {}", other.name(), keys.join(", "));
                    }
                    return Err(what);
                }
                // The place names the contestant already.
                let prefix = format!("{}:", self.transport.name());
                let set = self.engine.set(key, value);
                let set =
                    set.map_err(|error| error.strip_prefix(&prefix).map_or(error.clone(), str::to_owned));
                if key == "cc" && self.transport == Transport::Tcp && Kernel::may_have(value) {
                    self.foreign = set.err().map(|refusal| Foreign { name: value.to_owned(), refusal });
                } else {
                    set?;
                }
            }
        }
        Ok(())
    }

    /// Every key this contestant's transport has.
    fn keys(&self) -> Vec<&'static str> {
        let own = ARM_KEYS.iter().filter(|key| key.is_of(self.transport));
        own.map(|key| key.name).chain(self.engine.knobs().into_iter().map(|knob| knob.key)).collect()
    }
}

/// A processing cost.
fn span(key: &str, value: &str) -> Result<Duration, String> {
    match parse_span(value) {
        Ok(span) if span <= MOST_COST => Ok(span),
        Ok(_) => Err(format!("{key}={value}: more than {}", format_span(MOST_COST))),
        Err(error) => Err(format!("{key}={error}")),
    }
}

/// A cost above which nothing would ever be done.
const MOST_COST: Duration = Duration::from_secs(1);

/// Background traffic: `tcp:flows=2`, with the keys of a TCP contestant's engine.
#[derive(Clone, Debug)]
pub struct Cross {
    /// Endless downloads at once.
    pub flows: usize,
    /// Their engine.
    pub engine: EngineConfig,
}

impl Cross {
    /// Reads the background traffic.
    ///
    /// # Errors
    /// [`PlanError`] with the accepted forms.
    pub fn parse(text: &str, place: &str) -> Result<Self, PlanError> {
        let wrong = |why: String| PlanError::at(place, format!("'{text}': {why}; write tcp:flows=2"));
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        if name != "tcp" {
            return Err(wrong(format!("'{name}' is no background traffic")));
        }
        let mut engine = EngineConfig::default_of(Transport::Tcp);
        let pairs = pairs(rest, place)?;
        if let Some((_, profile)) = pairs.iter().find(|(key, _)| *key == "profile") {
            let known = EngineConfig::profiles(Transport::Tcp);
            engine = EngineConfig::profile(Transport::Tcp, profile)
                .ok_or_else(|| PlanError::at(place, unknown("profile", profile, known)))?;
        }
        let mut flows = 1;
        for (key, value) in pairs {
            match key {
                "flows" => {
                    let accepted = value.parse().ok().filter(|n| (1..=1000).contains(n));
                    flows = accepted.ok_or_else(|| wrong("flows is a number from 1 to 1000".to_owned()))?;
                }
                "profile" => {}
                _ => engine.set(key, value).map_err(|what| PlanError::at(place, what))?,
            }
        }
        Ok(Self { flows, engine })
    }
}

/// The pairs of `key=value,key=value`.
fn pairs<'a>(rest: Option<&'a str>, place: &str) -> Result<Vec<(&'a str, &'a str)>, PlanError> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for part in rest.into_iter().flat_map(|rest| rest.split(',')) {
        let Some((key, value)) =
            part.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty())
        else {
            let hint = if TRANSPORTS.contains(&part.split(':').next().unwrap_or(part)) {
                "; a contestant with keys needs a --transport of its own"
            } else {
                ""
            };
            return Err(PlanError::at(place, format!("'{part}' where key=value was expected{hint}")));
        };
        if pairs.iter().any(|(old, _)| *old == key) {
            return Err(PlanError::at(place, format!("'{key}' is given twice")));
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// The most connections, and objects a connection.
const MOST: usize = 100_000;

/// The transports with every key, its default and its meaning.
#[must_use]
pub fn listing() -> String {
    let mut out = String::new();
    for transport in [Transport::Tcp, Transport::Sctp, Transport::Mptcp, Transport::KernelSctp] {
        let whose = if transport.is_kernels() { " (the kernel's: --world emulated)" } else { "" };
        out += &format!("{}{whose}\n", transport.name());
        for key in ARM_KEYS.iter().filter(|key| key.is_of(transport)) {
            out += &format!("  {:<24} {}\n", key.name, key.help);
        }
        let profile = EngineConfig::default_profile(transport);
        out += &format!("  knobs, with their values in profile {profile}:\n");
        for knob in EngineConfig::default_of(transport).knobs() {
            out += &format!("  {:<24} {}\n", format!("{}={}", knob.key, knob.value), knob.help);
        }
        out.push('\n');
    }
    out
}

/// Every profile with every value and its source.
#[must_use]
pub fn profile_listing() -> String {
    let mut out = String::new();
    for transport in [Transport::Tcp, Transport::Sctp] {
        for name in EngineConfig::profiles(transport) {
            let default = if *name == EngineConfig::default_profile(transport) { " (default)" } else { "" };
            out += &format!("{}:profile={name}{default}\n", transport.name());
            let Some(engine) = EngineConfig::profile(transport, name) else { continue };
            for knob in engine.knobs() {
                out += &format!("  {:<20} {:<12} {}\n", knob.key, knob.value, knob.source);
            }
            out.push('\n');
        }
    }
    out
}
