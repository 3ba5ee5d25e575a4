//! Contestants: `[NICK=]NAME[:key=value,…]`.
//!
//! How a client fetches (`connections`, `pipeline`, `streams`, …) is read here;
//! everything else is a knob of the engine, whose own table reads it and says
//! what it accepts.

use super::error::{PlanError, unknown};
use super::http2::{self, Http2};
use super::http3;
use super::security::{Dtls, Security};
use crate::results::label;
use crate::transports::{Transport, Transports};
use anabranch_base::spelling::nearest;
use anabranch_base::time::Duration;
use anabranch_base::units::{format_span, parse_span};
use anabranch_http::mapping::{Choices, Policy, Version, WhenFull};
use anabranch_sim::Cost;
use anabranch_tls::{Pair, Surroundings};
use anabranch_transport::capabilities::{Feature, Streams};
use anabranch_transport::kernel::KernelSettings;
use anabranch_transport::{Capabilities, Delivery, Protocol, Reliability, Settings};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A key of a contestant that is not a knob of its engine.
#[derive(Clone, Copy, Debug)]
pub struct ContestantKey {
    /// The key.
    pub name: &'static str,
    /// Whether a transport that can do this has it.
    of: fn(&Capabilities) -> bool,
    /// Meaning, forms and default.
    pub help: &'static str,
}

/// The contestants' keys, apart from the engines' knobs.
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
        "bytes of the server's certificates, to within 4, from 1500B to 60kB (under dtls of its one certificate, to 30kB); \
         default 3kB",
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
        |can| can.partial_reliability.is_there(),
        "give a message up when it is so old: 200ms (RFC 3758); default never",
    ),
    key(
        "retransmissions",
        |can| can.partial_reliability.is_there(),
        "give a message up after so many (RFC 7496), from 0; default never",
    ),
    key(
        "reconnect",
        |can| !can.moves.is_there(),
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

/// Every transport has it.
const ALL: fn(&Capabilities) -> bool = |_| true;

/// Those whose connections carry one stream have it.
const ONE_STREAM: fn(&Capabilities) -> bool = |can| !can.is_multistream();

/// Those whose streams are begun anew for each exchange have it.
const FRESH: fn(&Capabilities) -> bool = |can| matches!(can.streams, Streams::Fresh);

/// Those that have TLS over them or inside.
const TLS: fn(&Capabilities) -> bool = |can| !can.is_multistream() || can.secure;

impl ContestantKey {
    /// Whether a transport has it.
    #[must_use]
    pub fn is_of(&self, transport: &dyn Protocol) -> bool {
        (self.of)(&transport.capabilities())
    }
}

/// A congestion control that our engine has not. A real kernel may have it, which shows when it is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelCc {
    /// The kernel's name for it.
    pub name: String,
    /// What our engine says.
    pub refusal: String,
}

/// Both ends of what a contestant is secured by.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Of TLS on its connections, if it has that.
    pub tls: Option<Pair>,
    /// Of DTLS beneath its transport, if it has that.
    pub dtls: Option<anabranch_dtls::Pair>,
}

impl Pairs {
    /// The secrets of all sessions so far, for decoders.
    #[must_use]
    pub fn secrets(&self) -> String {
        let over = self.tls.as_ref().map(Pair::secrets);
        over.or_else(|| self.dtls.as_ref().map(anabranch_dtls::Pair::secrets)).unwrap_or_default()
    }
}

/// One contestant.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// As typed.
    pub text: String,
    /// What it is called where people read: its nickname, or as it was typed.
    pub label: String,
    /// Which transport.
    pub transport: Arc<Transport>,
    /// How its client fetches, but for what the workload says (think, timeout, …).
    choices: Choices,
    /// Paths to use; `None` for all.
    pub paths: Option<usize>,
    /// Its client has no Mobile IP, and opens anew at each address that it gets.
    reconnects: bool,
    /// Encapsulated in UDP.
    pub encapsulated: bool,
    /// How its messages are delivered.
    pub delivery: Delivery,
    /// The profile's name.
    pub profile: String,
    /// What its hosts' processors take for their work.
    pub cost: Cost,
    /// HTTP/2 with these windows, if it speaks that.
    pub http2: Option<Http2>,
    /// It speaks HTTP/3.
    pub http3: bool,
    /// TLS on its connections, if any.
    pub security: Option<Security>,
    /// DTLS beneath its transport, if any.
    pub dtls: Option<Dtls>,
    /// The engine's knobs.
    pub engine: Box<dyn Settings>,
    /// A congestion control that only a kernel can have, instead of the engine's.
    pub kernel_cc: Option<KernelCc>,
    /// Where it stands.
    pub place: String,
}

impl Contestant {
    /// Reads a contestant, one of those that there are.
    ///
    /// # Errors
    /// [`PlanError`] naming the contestant, the key and the accepted forms.
    pub fn parse(text: &str, place: &str, transports: &Transports) -> Result<Self, PlanError> {
        let place = format!("{place} {text}");
        let names = transports.names();
        let (nick, spec) = label::split(text);
        if let Some(nick) = nick {
            nickname(nick, &names).map_err(|what| PlanError::at(&place, what))?;
        }
        let (name, rest) = spec.split_once(':').map_or((spec, None), |(name, rest)| (name, Some(rest)));
        let Some(transport) = transports.find(name) else {
            return Err(PlanError::at(&place, unknown("transport", name, &names)));
        };
        let pairs = pairs(rest, &place, transports)?;
        let profile = match pairs.iter().find(|(key, _)| *key == "profile") {
            Some((_, name)) => *name,
            None => transport.default_profile(),
        };
        let Some(engine) = transport.profile(profile) else {
            return Err(PlanError::at(&place, unknown("profile", profile, transport.profiles())));
        };
        let mut contestant = Self {
            text: text.to_owned(),
            label: nick.unwrap_or(text).to_owned(),
            transport: transport.clone(),
            choices: Choices::default(),
            paths: None,
            reconnects: false,
            encapsulated: false,
            delivery: Delivery::default(),
            profile: profile.to_owned(),
            cost: Cost::default(),
            http2: None,
            http3: false,
            security: None,
            dtls: None,
            engine,
            kernel_cc: None,
            place: place.clone(),
        };
        let given = pairs.clone();
        contestant.security =
            Security::read(&given, &transport.capabilities()).map_err(|what| PlanError::at(&place, what))?;
        contestant.dtls =
            Dtls::read(&given, &transport.capabilities()).map_err(|what| PlanError::at(&place, what))?;
        if contestant.dtls.is_some() {
            (contestant.paths, contestant.encapsulated) = (Some(1), true);
            // RFC 9653 §3: DTLS finds what a checksum would find.
            if contestant.engine.knobs().iter().any(|knob| knob.key == UNSUMMED) {
                let set = contestant.set((UNSUMMED, "yes"), &given, transports);
                set.map_err(|what| PlanError::at(&place, what))?;
            }
        }
        contestant.http2 =
            Http2::read(&given, &transport.capabilities()).map_err(|what| PlanError::at(&place, what))?;
        contestant.http3 =
            http3::read(&given, &transport.capabilities()).map_err(|what| PlanError::at(&place, what))?;
        for (key, value) in pairs {
            contestant.set((key, value), &given, transports).map_err(|what| PlanError::at(&place, what))?;
        }
        contestant.engine.check().map_err(|what| PlanError::at(&contestant.place, what))?;
        contestant.needs_extensions(&given).map_err(|what| PlanError::at(&contestant.place, what))?;
        contestant.policy(false)?;
        Ok(contestant)
    }

    /// The same contestant with other settings: keys with their values, or without one, so that the default holds. What
    /// comes of it is what its text says, so that anyone can race it; it has no nickname.
    ///
    /// # Errors
    /// [`PlanError`] when the settings contradict each other.
    pub fn with(&self, changes: &[(String, Option<String>)]) -> Result<Self, PlanError> {
        let (_, spec) = label::split(&self.text);
        let rest = spec.split_once(':').map(|(_, rest)| rest);
        let alone = Transports::default().with(Transport::clone(&self.transport));
        let mut kept: Vec<(String, String)> = pairs(rest, &self.place, &alone)?
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        for (key, value) in changes {
            match (kept.iter().position(|(old, _)| old == key), value) {
                (Some(at), Some(value)) => kept[at].1.clone_from(value),
                (Some(at), None) => drop(kept.remove(at)),
                (None, Some(value)) => kept.push((key.clone(), value.clone())),
                (None, None) => {}
            }
        }
        let kept: Vec<String> = kept.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut text = self.transport.name().to_owned();
        if !kept.is_empty() {
            text += &format!(":{}", kept.join(","));
        }
        Self::parse(&text, &self.place, &alone)
    }

    /// Whether it does the same as the other in every run; `open_loop`: objects arrive at given instants.
    #[must_use]
    pub fn races_as(&self, other: &Self, open_loop: bool) -> bool {
        let own = |contestant: &Self| {
            let paths = contestant.paths;
            (
                paths,
                contestant.reconnects,
                contestant.encapsulated,
                contestant.delivery,
                contestant.cost,
                contestant.security,
                contestant.dtls,
                contestant.http2,
                contestant.kernel_cc.clone(),
            )
        };
        // Whoever set them.
        let knobs = |contestant: &Self| -> Vec<String> {
            contestant.engine.knobs().into_iter().map(|knob| knob.value).collect()
        };
        self.transport.name() == other.transport.name()
            && knobs(self) == knobs(other)
            && self.connections() == other.connections()
            && self.policy(open_loop).ok() == other.policy(open_loop).ok()
            && own(self) == own(other)
    }

    /// Finds an extension that a key of the contestant turns on and its own knob turns off: one of them would not be in
    /// force.
    fn needs_extensions(&self, given: &[(&str, &str)]) -> Result<(), String> {
        let can = self.transport.capabilities();
        let grows = self.choices.when_full == Some(WhenFull::Grow);
        let gives_up = match self.delivery.reliability {
            Reliability::Lifetime(_) => Some("lifetime"),
            Reliability::Retransmissions(_) => Some("retransmissions"),
            _ => None,
        };
        for (key, feature) in
            [(grows.then_some("when-full=grow"), can.grows), (gives_up, can.partial_reliability)]
        {
            if let (Some(key), Feature::Extension { knob, rule }) = (key, feature)
                && given.contains(&(knob, "no"))
            {
                return Err(format!("{knob}=no: {key} needs it ({rule}); leave one of them out"));
            }
        }
        Ok(())
    }

    /// Whether it tells its peers of new addresses, and so follows its host to another network.
    #[must_use]
    pub fn moves(&self) -> bool {
        match self.transport.capabilities().moves {
            Feature::No => false,
            Feature::Yes => true,
            Feature::Extension { knob, .. } => {
                self.engine.knobs().iter().any(|known| known.key == knob && known.value == "yes")
            }
        }
    }

    /// Whether its client has the addresses of the network that it is in: it [`moves`](Self::moves), or opens anew. Any other
    /// keeps its address by Mobile IP.
    #[must_use]
    pub fn changes_address(&self) -> bool {
        self.reconnects || self.moves()
    }

    /// The keys it was given that say which request takes which connection or stream, or what one costs.
    #[must_use]
    pub fn fetch_keys(&self) -> Vec<&'static str> {
        let choices = &self.choices;
        let given = [
            ("per-object", choices.per_object),
            ("objects-per-connection", choices.objects_per_connection.is_some()),
            ("outstanding", choices.outstanding.is_some()),
            ("pipeline", choices.pipeline.is_some()),
            ("when-full", choices.when_full.is_some()),
            ("priority", choices.priority.is_some()),
            ("request-cost", !self.cost.per_request.is_zero()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect()
    }

    /// How its client fetches; `open_loop`: objects arrive at given instants.
    ///
    /// # Errors
    /// [`PlanError`] when its keys contradict each other.
    pub fn policy(&self, open_loop: bool) -> Result<Policy, PlanError> {
        let multistream = self.transport.capabilities().is_multistream();
        let policy = self.choices.policy(multistream, open_loop);
        let policy = policy.map_err(|error| PlanError::at(&self.place, error))?;
        match &self.http2 {
            None if self.http3 => Ok(Policy { version: Version::Http3, ..policy }),
            None => Ok(policy),
            // Each request has a stream: there is nothing to pipeline, and no reason to open a connection for one.
            Some(_) if self.choices.pipeline.is_some() => Err(PlanError::at(
                &self.place,
                "pipeline is of HTTP/1.1: with http=2 each request has a stream",
            )),
            Some(http2) => {
                let connections = self.choices.connections.unwrap_or(if self.choices.per_object {
                    policy.connections
                } else {
                    1
                });
                Ok(Policy {
                    connections,
                    spread: connections > 1,
                    when_full: WhenFull::Wait,
                    version: Version::Http2(http2.windows),
                    ..policy
                })
            }
        }
    }

    /// Whether what it carries is encrypted and its server proves who it is, over its transport, inside or beneath.
    #[must_use]
    pub fn is_secured(&self) -> bool {
        self.security.is_some() || self.dtls.is_some()
    }

    /// The same without TLS over its transport or DTLS beneath it, in whose place is bare UDP; `None` where it has neither.
    #[must_use]
    pub fn in_the_clear(&self) -> Option<Self> {
        let change = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
        let changes = match (&self.security, &self.dtls) {
            (Some(_), _) if !self.transport.capabilities().secure => {
                vec![change("tls", None), change("resume", None), change("chain", None)]
            }
            (_, Some(_)) => {
                let udp = Some("udp").filter(|_| self.transport.capabilities().carriers.is_choice());
                vec![change("dtls", None), change("chain", None), change("encap", udp)]
            }
            _ => return None,
        };
        self.with(&changes).ok()
    }

    /// In the emulated world it is a protocol of the kernel's that uses several paths.
    #[must_use]
    pub fn is_kernels_multipath(&self) -> bool {
        self.transport.is_kernels_emulated() && self.transport.capabilities().paths
    }

    /// How many connections it was told to use; one unless told.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.choices.connections.unwrap_or(1)
    }

    /// How many objects a connection of it carries at once: its streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        if let Some(http2) = &self.http2 {
            return http2.windows.concurrent as usize;
        }
        usize::try_from(self.engine.streams()).unwrap_or(usize::MAX)
    }

    /// Both ends of its TLS or DTLS; `before`: the surroundings of what was before the run.
    ///
    /// # Errors
    /// One line.
    pub fn pairs(&self, before: &Surroundings) -> Result<Pairs, String> {
        let ours = (&*self.transport, &*self.engine);
        Ok(Pairs {
            tls: self.security.map(|security| security.pair(ours, self.protocol(), before)).transpose()?,
            dtls: self.dtls.map(|dtls| dtls.pair()).transpose()?,
        })
    }

    /// What its ends agree to speak (ALPN).
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        match (&self.http2, self.http3, self.transport.capabilities().secure) {
            (Some(_), ..) => "h2",
            (None, true, _) => "h3",
            (None, false, false) => "http/1.1",
            // One exchange of HTTP/1.1 on each stream, which nobody has registered a name for.
            (None, false, true) => "h1-quic",
        }
    }

    /// Bytes of a frame's header, at least, where messages are frames with compressed heads.
    #[must_use]
    pub fn frame(&self) -> Option<u64> {
        self.http2.map(|_| http2::FRAME).or(self.http3.then_some(http3::FRAME))
    }

    /// Everything it runs with, as text.
    #[must_use]
    pub fn settings(&self, policy: &Policy) -> BTreeMap<String, String> {
        let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let mut settings: BTreeMap<String, String> =
            self.engine.knobs().into_iter().map(|knob| (knob.key.to_owned(), knob.value)).collect();
        let mut set = |key: &str, value: String| settings.insert(key.to_owned(), value);
        if let Some(kernel_cc) = &self.kernel_cc {
            set("cc", kernel_cc.name.clone());
        }
        for (key, value) in self.transport.fixed() {
            set(key, (*value).to_owned());
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
        if let Some(outstanding) = policy.outstanding {
            set("outstanding", outstanding.to_string());
        }
        set("priority", yes_no(policy.says_priority()));
        let cost = &self.cost;
        for (key, span) in [
            ("packet-cost", cost.per_packet),
            ("byte-cost", cost.per_byte),
            ("connection-cost", cost.per_connection),
            ("request-cost", cost.per_request),
        ] {
            set(key, format_span(span));
        }
        let can = self.transport.capabilities();
        if can.streams == Streams::Reusable {
            set("when-full", policy.when_full.to_string());
        }
        if can.streams == Streams::Fresh {
            set("http", if self.http3 { "3" } else { "1.1" }.to_owned());
        }
        if can.secure {
            for (key, value) in self.security.iter().flat_map(Security::settings) {
                set(key, value);
            }
        }
        if !can.is_multistream() {
            match &self.http2 {
                None => {
                    set("pipeline", yes_no(policy.pipelines()));
                    set("http", "1".to_owned());
                }
                Some(http2) => http2.settings().into_iter().for_each(|(key, value)| drop(set(key, value))),
            }
            set("tls", yes_no(self.security.is_some()));
            for (key, value) in self.security.iter().flat_map(Security::settings) {
                set(key, value);
            }
        }
        if can.layered {
            set("dtls", "no".to_owned());
            for (key, value) in self.dtls.iter().flat_map(Dtls::settings) {
                set(key, value);
            }
        }
        if can.unordered {
            set("unordered", yes_no(self.delivery.unordered));
        }
        match self.delivery.reliability {
            Reliability::Lifetime(span) => drop(set("lifetime", format_span(span))),
            Reliability::Retransmissions(n) => drop(set("retransmissions", n.to_string())),
            _ => {}
        }
        if can.carriers.is_choice() {
            let encap = match (self.encapsulated, self.dtls) {
                (false, _) => "none",
                (true, None) => "udp",
                (true, Some(_)) => "dtls in udp",
            };
            set("encap", encap.to_owned());
        }
        if can.paths {
            set("paths", self.paths.map_or("all".to_owned(), |n| n.to_string()));
        }
        if self.reconnects {
            set("reconnect", yes_no(true));
        }
        settings
    }

    fn set(
        &mut self,
        (key, value): (&str, &str),
        given: &[(&str, &str)],
        transports: &Transports,
    ) -> Result<(), String> {
        let can = self.transport.capabilities();
        // Transports of different kinds may have a key of one name each.
        let has = |transport: &dyn Protocol| {
            CONTESTANT_KEYS.iter().any(|own| own.name == key && own.is_of(transport))
        };
        if CONTESTANT_KEYS.iter().any(|own| own.name == key) && !has(&**self.transport) {
            let of = transports.iter().filter(|other| has(&****other));
            let of: Vec<_> = of.map(|other| other.name()).collect();
            return Err(format!("'{key}' is a key of {}", of.join(", ")));
        }
        let yes_no = || match value {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(format!("{key}={value}: write yes or no")),
        };
        let count = || match value.parse::<usize>() {
            Ok(n) if (1..=MAX).contains(&n) => Ok(n),
            _ => Err(format!("{key}={value}: write a number from 1 to {MAX}")),
        };
        match key {
            "connections" => self.choices.connections = Some(count()?),
            "per-object" => self.choices.per_object = yes_no()?,
            "outstanding" => self.choices.outstanding = Some(count()? as u32),
            "objects-per-connection" => self.choices.objects_per_connection = Some(count()? as u32),
            "pipeline" => self.choices.pipeline = Some(yes_no()?),
            "priority" => {
                let priority = yes_no()?;
                self.choices.priority = Some(priority);
                if priority {
                    self.order_streams(given)?;
                }
            }
            "when-full" => {
                let when_full = value.parse::<WhenFull>().map_err(|error| error.to_string())?;
                self.choices.when_full = Some(when_full);
                if when_full == WhenFull::Grow {
                    self.turn_on(can.grows)?;
                }
            }
            "paths" => self.paths = Some(count()?),
            "reconnect" => self.reconnects = yes_no()?,
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
                self.turn_on(can.partial_reliability)?;
            }
            "packet-cost" => self.cost.per_packet = span(key, value)?,
            "byte-cost" => self.cost.per_byte = span(key, value)?,
            "connection-cost" => self.cost.per_connection = span(key, value)?,
            "request-cost" => self.cost.per_request = span(key, value)?,
            "profile" | "tls" | "resume" | "chain" | "dtls" => {}
            "http" | "windows" | "stream-window" | "connection-window" | "frame" | "concurrent" => {}
            _ => {
                let keys = self.keys();
                if !keys.contains(&key) {
                    let mut what = unknown("key", key, &keys);
                    let has = |other: &&Arc<Transport>| {
                        let knobs = other.profile(other.default_profile()).map(|engine| engine.knobs());
                        !other.is_kernels() && knobs.is_some_and(|all| all.iter().any(|knob| knob.key == key))
                    };
                    if let Some(other) = transports.iter().find(has)
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
                let stands_in = !self.transport.is_kernels() && self.transport.is_kernels_emulated();
                if key == "cc" && stands_in && KernelSettings::may_have(value) {
                    self.kernel_cc = set.err().map(|refusal| KernelCc { name: value.to_owned(), refusal });
                } else {
                    set?;
                }
            }
        }
        Ok(())
    }

    /// Has an engine that schedules streams do so by the values that the server gives them.
    fn order_streams(&mut self, given: &[(&str, &str)]) -> Result<(), String> {
        // Streams that are fresh each time are ordered by whoever writes on them.
        if self.transport.capabilities().streams != Streams::Reusable {
            return Ok(());
        }
        match given.iter().find(|(key, _)| *key == "scheduler") {
            Some((_, "priority")) => Ok(()),
            Some((_, other)) => {
                Err(format!("priority=yes: needs scheduler=priority, which it implies, and not {other}"))
            }
            None => self.engine.set("scheduler", "priority"),
        }
    }

    /// Turns on what a key of the contestant needs.
    fn turn_on(&mut self, feature: Feature) -> Result<(), String> {
        match feature {
            Feature::Extension { knob, .. } => self.engine.set(knob, "yes"),
            Feature::Yes => Ok(()),
            Feature::No => Err(format!("{} has no such feature", self.transport.name())),
        }
    }

    /// Every key this contestant's transport has.
    fn keys(&self) -> Vec<&'static str> {
        let own = CONTESTANT_KEYS.iter().filter(|key| key.is_of(&**self.transport));
        own.map(|key| key.name).chain(self.engine.knobs().into_iter().map(|knob| knob.key)).collect()
    }
}

/// Refuses a nickname that would be taken for something else, or break a line.
fn nickname(nick: &str, transports: &[&str]) -> Result<(), String> {
    let plain = |letter: char| letter.is_alphanumeric() || "-_.+ ".contains(letter);
    let fits = (1..=MAX_NICK).contains(&nick.chars().count());
    if !fits || !nick.chars().all(plain) || nick.trim() != nick {
        return Err(format!(
            "'{nick}': write a name of at most {MAX_NICK} letters, digits, and the signs - _ . + as in \
             six=tcp:connections=6"
        ));
    }
    if transports.contains(&nick) {
        return Err(format!("'{nick}' is a transport; write another name, such as my-{nick}={nick}:.."));
    }
    Ok(())
}

/// The most letters of a nickname: what the tables have room for.
const MAX_NICK: usize = 22;

/// The knob of SCTP without its own checksum.
const UNSUMMED: &str = "zero_checksum";

/// A processing cost.
fn span(key: &str, value: &str) -> Result<Duration, String> {
    match parse_span(value) {
        Ok(span) if span <= MAX_COST => Ok(span),
        Ok(_) => Err(format!("{key}={value}: more than {}", format_span(MAX_COST))),
        Err(error) => Err(format!("{key}={error}")),
    }
}

/// A cost above which nothing would ever be done.
const MAX_COST: Duration = Duration::from_secs(1);

/// Background traffic: `tcp:flows=2`, with the keys of the transport's engine.
#[derive(Clone, Debug)]
pub struct Cross {
    /// Endless downloads at once.
    pub flows: usize,
    /// Over what.
    pub transport: Arc<Transport>,
    /// The settings of its engine.
    pub engine: Box<dyn Settings>,
}

impl Cross {
    /// Reads the background traffic.
    ///
    /// # Errors
    /// [`PlanError`] with the accepted forms.
    pub fn parse(text: &str, place: &str, transports: &Transports) -> Result<Self, PlanError> {
        let possible = |other: &&Arc<Transport>| other.capabilities().background && !other.is_kernels();
        let example = transports.iter().find(possible).map_or("", |other| other.name());
        let wrong = |why: String| PlanError::at(place, format!("'{text}': {why}; write {example}:flows=2"));
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let Some(transport) = transports.find(name).filter(possible) else {
            return Err(wrong(format!("'{name}' is no background traffic")));
        };
        let pairs = pairs(rest, place, transports)?;
        let profile = pairs.iter().find(|(key, _)| *key == "profile");
        let profile = profile.map_or(transport.default_profile(), |(_, profile)| profile);
        let mut engine = transport
            .profile(profile)
            .ok_or_else(|| PlanError::at(place, unknown("profile", profile, transport.profiles())))?;
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
        Ok(Self { flows, transport: transport.clone(), engine })
    }
}

/// The pairs of `key=value,key=value`.
fn pairs<'a>(
    rest: Option<&'a str>,
    place: &str,
    transports: &Transports,
) -> Result<Vec<(&'a str, &'a str)>, PlanError> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for part in rest.into_iter().flat_map(|rest| rest.split(',')) {
        let Some((key, value)) =
            part.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty())
        else {
            let hint = if transports.find(part.split(':').next().unwrap_or(part)).is_some() {
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
const MAX: usize = 100_000;

/// The transports with every key, its default and its meaning.
#[must_use]
pub fn listing(transports: &Transports) -> String {
    let mut out = String::new();
    for transport in transports.iter() {
        let whose = if transport.is_kernels() { " (the kernel's: --world emulated)" } else { "" };
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

/// Every profile of our engines with every value and its source.
#[must_use]
pub fn profile_listing(transports: &Transports) -> String {
    let mut out = String::new();
    for transport in transports.iter().filter(|transport| !transport.is_kernels()) {
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
