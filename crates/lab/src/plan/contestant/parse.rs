//! Parses contestants: `[NICK=]NAME[:key=value,…]`. The name is that of a transport or of a standard contestant.
//!
//! This module parses the keys that say how the client requests objects. The other keys are knobs of the engine, which
//! has a table of its own to parse them.

use super::keys::CONTESTANT_KEYS;
use super::{Contestant, KernelCc};
use crate::plan::bare;
use crate::plan::error::{PlanError, unknown};
use crate::plan::http2::Http2;
use crate::plan::http3;
use crate::plan::security::{Dtls, Security};
use anabranch_base::spelling::nearest;
use anabranch_base::time::Duration;
use anabranch_base::units::{format_duration, parse_duration};
use anabranch_http::mapping::{Choices, WhenFull};
use anabranch_results::label;
use anabranch_sim::Cost;
use anabranch_transport::capabilities::{Feature, Streams};
use anabranch_transport::kernel::KernelSettings;
use anabranch_transport::{Delivery, Protocol, Reliability};
use anabranch_transports::{Transport, Transports};
use std::sync::Arc;

impl Contestant {
    /// Parses a contestant. Its transport must be one of `transports`.
    ///
    /// # Errors
    /// [`PlanError`] that names the contestant, the key and the accepted forms.
    pub fn parse(text: &str, place: &str, transports: &Transports) -> Result<Self, PlanError> {
        let place = format!("{place} {text}");
        let (nick, typed) = label::split(text);
        if let Some(nick) = nick {
            nickname(nick, &transports.names()).map_err(|what| PlanError::at(&place, what))?;
        }
        // The settings that the user typed are checked before the settings of a standard contestant are added to them.
        let (typed_name, typed_settings) = name_and_settings(typed);
        pairs(typed_settings, &place, transports)?;
        let spec = bare::expanded(typed);
        let (name, rest) = name_and_settings(&spec);
        let Some(transport) = transports.find(name) else {
            let names = bare::names(transports);
            let mut what = unknown("transport", typed_name, &names);
            if is_setting(typed_name, transports) {
                what += &format!("; a setting has a value: {typed_name}=VALUE");
            }
            return Err(PlanError::at(&place, what));
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
        let (given, can) = (pairs.clone(), transport.capabilities());
        let wrong = |what: String| PlanError::at(&place, what);
        contestant.security = Security::read(&given, &can).map_err(wrong)?;
        contestant.dtls = Dtls::read(&given, &can).map_err(wrong)?;
        if contestant.dtls.is_some() {
            (contestant.paths, contestant.encapsulated) = (Some(1), true);
            // RFC 9653 §3: DTLS detects every error that the SCTP checksum would detect, so the checksum is turned off.
            if contestant.engine.knobs().iter().any(|knob| knob.key == UNSUMMED) {
                contestant.set((UNSUMMED, "yes"), &given, transports).map_err(wrong)?;
            }
        }
        contestant.http2 = Http2::read(&given, &can).map_err(wrong)?;
        contestant.http3 = http3::read(&given, &can, transport.schemes()).map_err(wrong)?;
        for pair in pairs {
            contestant.set(pair, &given, transports).map_err(wrong)?;
        }
        contestant.engine.check().map_err(wrong)?;
        contestant.needs_extensions(&given).map_err(wrong)?;
        contestant.policy(false)?;
        Ok(contestant)
    }

    /// Rejects a contestant if one of its keys needs an extension and another key disables this extension.
    fn needs_extensions(&self, given: &[(&str, &str)]) -> Result<(), String> {
        let can = self.transport.capabilities();
        let grows = self.choices.when_full == Some(WhenFull::Grow);
        let gives_up = match self.delivery.reliability {
            Reliability::Lifetime(_) => Some("lifetime"),
            Reliability::Retransmissions(_) => Some("retransmissions"),
            _ => None,
        };
        for (key, feature) in
            [(grows.then_some("when-full=grow"), can.can_add_streams), (gives_up, can.partial_reliability)]
        {
            if let (Some(key), Feature::Extension { knob, rule }) = (key, feature)
                && given.contains(&(knob, "no"))
            {
                return Err(format!("{knob}=no: {key} needs it ({rule}); leave one of them out"));
            }
        }
        Ok(())
    }

    fn set(
        &mut self,
        (key, value): (&str, &str),
        given: &[(&str, &str)],
        transports: &Transports,
    ) -> Result<(), String> {
        let can = self.transport.capabilities();
        // The table of settings may have several entries with this key, for transports of different kinds.
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
                    self.enable(can.can_add_streams)?;
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
                    return Err(format!(
                        "{key}={value}: cannot be combined with another limit of a message: lifetime or retransmissions"
                    ));
                }
                self.delivery.reliability = reliability(key, value)?;
                self.enable(can.partial_reliability)?;
            }
            "packet-cost" => self.cost.per_packet = span(key, value)?,
            "byte-cost" => self.cost.per_byte = span(key, value)?,
            "connection-cost" => self.cost.per_connection = span(key, value)?,
            "request-cost" => self.cost.per_request = span(key, value)?,
            "profile" | "tls" | "resume" | "chain" | "group" | "dtls" => {}
            "http" | "windows" | "stream-window" | "connection-window" | "frame" | "concurrent" => {}
            _ => self.set_knob(key, value, transports)?,
        }
        Ok(())
    }

    /// Sets a knob (setting) of the transport engine.
    fn set_knob(&mut self, key: &str, value: &str, transports: &Transports) -> Result<(), String> {
        let keys = self.keys();
        if !keys.contains(&key) {
            let mut what = unknown("key", key, &keys);
            let has = |other: &&Arc<Transport>| {
                let knobs = other.profile(other.default_profile()).map(|engine| engine.knobs());
                !other.is_kernel_only() && knobs.is_some_and(|all| all.iter().any(|knob| knob.key == key))
            };
            if let Some(other) = transports.iter().find(has)
                && nearest(key, &keys).is_none()
            {
                what = format!("'{key}' is a key of {}; accepted: {}", other.name(), keys.join(", "));
            }
            return Err(what);
        }
        // The caller's error already names the contestant, so the transport's name is removed from the engine's
        // message.
        let prefix = format!("{}:", self.transport.name());
        let set = self.engine.set(key, value);
        let set = set.map_err(|error| error.strip_prefix(&prefix).map_or(error.clone(), str::to_owned));
        let stands_in = !self.transport.is_kernel_only() && self.transport.is_kernel_in_emulation();
        if key == "cc" && stands_in && KernelSettings::may_have(value) {
            self.kernel_cc = set.err().map(|refusal| KernelCc { name: value.to_owned(), refusal });
            return Ok(());
        }
        set
    }

    /// Sets the scheduler of an engine so that it orders streams by the priorities that the server gives them.
    fn order_streams(&mut self, given: &[(&str, &str)]) -> Result<(), String> {
        // If each request has a new stream, the transport engine needs no stream priorities: the HTTP server itself
        // writes the responses in the order of urgency.
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

    /// Enables the extension that a key of the contestant needs.
    fn enable(&mut self, feature: Feature) -> Result<(), String> {
        match feature {
            Feature::Extension { knob, .. } => self.engine.set(knob, "yes"),
            Feature::Yes => Ok(()),
            Feature::No => Err(format!("{} has no such feature", self.transport.name())),
        }
    }

    /// Returns all keys that this contestant accepts.
    fn keys(&self) -> Vec<&'static str> {
        let own = CONTESTANT_KEYS.iter().filter(|key| key.is_of(&**self.transport));
        own.map(|key| key.name).chain(self.engine.knobs().into_iter().map(|knob| knob.key)).collect()
    }
}

/// Returns whether a contestant of any transport has a setting with this name.
fn is_setting(name: &str, transports: &Transports) -> bool {
    let is_knob = |transport: &Arc<Transport>| {
        let engine = transport.profile(transport.default_profile());
        engine.is_some_and(|engine| engine.knobs().iter().any(|knob| knob.key == name))
    };
    CONTESTANT_KEYS.iter().any(|key| key.name == name) || transports.iter().any(is_knob)
}

/// Splits a specification into its name and the settings after it, if there are any.
pub(super) fn name_and_settings(spec: &str) -> (&str, Option<&str>) {
    spec.split_once(':').map_or((spec, None), |(name, settings)| (name, Some(settings)))
}

/// Rejects a nickname that is the name of a transport, is too long for tables, or has other characters than letters,
/// digits, blanks and `-_.+`.
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

/// The maximum number of characters in a nickname: the width of the column in tables.
const MAX_NICK: usize = 22;

/// The SCTP knob that turns the checksum of packets off.
const UNSUMMED: &str = "zero_checksum";

/// Parses the reliability of messages: the lifetime or the number of retransmissions after which a message is
/// abandoned.
fn reliability(key: &str, value: &str) -> Result<Reliability, String> {
    match (key, parse_duration(value), value.parse()) {
        ("lifetime", Ok(span), _) if !span.is_zero() => Ok(Reliability::Lifetime(span)),
        ("lifetime", ..) => Err(format!("lifetime={value}: write a time such as 200ms")),
        (_, _, Ok(n)) if n <= 1000 => Ok(Reliability::Retransmissions(n)),
        _ => Err(format!("retransmissions={value}: write a number from 0 to 1000")),
    }
}

/// Parses the CPU time that a host needs for a piece of work, for example for one packet or one request.
fn span(key: &str, value: &str) -> Result<Duration, String> {
    match parse_duration(value) {
        Ok(span) if span <= MAX_COST => Ok(span),
        Ok(_) => Err(format!("{key}={value}: more than {}", format_duration(MAX_COST))),
        Err(error) => Err(format!("{key}={error}")),
    }
}

/// The maximum CPU time for a piece of work. A longer time would let a run make hardly any progress.
const MAX_COST: Duration = Duration::from_secs(1);

/// Splits `key=value,key=value` into pairs of key and value.
pub(super) fn pairs<'a>(
    rest: Option<&'a str>,
    place: &str,
    transports: &Transports,
) -> Result<Vec<(&'a str, &'a str)>, PlanError> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for part in rest.into_iter().flat_map(|rest| rest.split(',')) {
        let Some((key, value)) =
            part.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty())
        else {
            let name = part.split(':').next().unwrap_or(part);
            let hint = if bare::names(transports).contains(&name) {
                "; write each contestant as an item of its own"
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

/// The maximum number of connections of a contestant, and the maximum number of objects on one connection.
const MAX: usize = 100_000;
