//! The contestants of a race, and the properties that follow from the settings of a contestant.

mod cross;
mod keys;
mod parse;
mod settings;

pub use cross::BackgroundTraffic;
pub use keys::{CONTESTANT_KEYS, ContestantKey, listing, profile_listing};

use super::bare;
use super::error::PlanError;
use super::http2::{self, Http2};
use super::http3;
use super::security::{Dtls, Security};
use anabranch_http::browser::Visit;
use anabranch_http::mapping::{Choices, Policy, Version, WhenFull};
use anabranch_results::label;
use anabranch_sim::Cost;
use anabranch_tls::{Pair, ResumptionMode, Surroundings};
use anabranch_transport::capabilities::Feature;
use anabranch_transport::{Delivery, Settings};
use anabranch_transports::{Transport, Transports};
use std::sync::Arc;

/// The name of a congestion control that our engine does not implement. Whether a kernel implements it is known only
/// when the kernel is asked to use it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelCc {
    /// The kernel's name for the congestion control.
    pub name: String,
    /// The error that our engine reports for this congestion control.
    pub refusal: String,
}

/// The TLS or DTLS configurations of a contestant's client and server.
#[derive(Clone, Debug, Default)]
pub struct SecurityConfigs {
    /// The configurations of TLS on the contestant's connections, if it uses TLS.
    pub tls: Option<Pair>,
    /// The configurations of DTLS below the contestant's transport, if it uses DTLS.
    pub dtls: Option<anabranch_dtls::Pair>,
}

impl SecurityConfigs {
    /// Returns the TLS and DTLS secrets of all sessions so far. With these secrets, other programs can decrypt a
    /// capture.
    #[must_use]
    pub fn secrets(&self) -> String {
        let over = self.tls.as_ref().map(Pair::secrets);
        over.or_else(|| self.dtls.as_ref().map(anabranch_dtls::Pair::secrets)).unwrap_or_default()
    }
}

/// A contestant of a race: a transport with its settings.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// The text that the user typed for the contestant.
    pub text: String,
    /// The contestant's name in reports: the nickname, or else the text that the user typed.
    pub label: String,
    /// The transport that the contestant uses.
    pub transport: Arc<Transport>,
    /// The settings of how the client requests objects. Think times and timeouts belong to the workload instead.
    choices: Choices,
    /// The number of network paths that the contestant uses, or `None` for all paths.
    pub paths: Option<usize>,
    /// Whether the client opens new connections when its address changes, instead of using Mobile IP.
    reconnects: bool,
    /// Whether the contestant's packets are encapsulated in UDP.
    pub encapsulated: bool,
    /// The order and reliability with which messages are delivered.
    pub delivery: Delivery,
    /// The name of the engine's profile, a named set of settings.
    pub profile: String,
    /// The simulated CPU time that a host needs for the contestant's packets, bytes and requests.
    pub cost: Cost,
    /// HTTP/2 with the windows that its client grants, if the contestant uses it.
    pub http2: Option<Http2>,
    /// Whether the contestant uses HTTP/3.
    pub http3: bool,
    /// The TLS settings of the contestant's connections; `None` without TLS.
    pub security: Option<Security>,
    /// The settings of DTLS below the contestant's transport; `None` without DTLS.
    pub dtls: Option<Dtls>,
    /// The knobs (settings) of the transport's engine.
    pub engine: Box<dyn Settings>,
    /// A congestion control that only the kernel has. A transport in the kernel uses it instead of the engine's
    /// setting.
    pub kernel_cc: Option<KernelCc>,
    /// Where the contestant was given, for error messages: a command-line flag, or a field of the plan file.
    pub place: String,
}

impl Contestant {
    /// Returns a copy of this contestant with the settings in `changes`. A key without a value is reset to its default.
    /// The text of the copy contains all its settings, so that users can race the copy by typing the text. The copy has
    /// no nickname.
    ///
    /// # Errors
    /// [`PlanError`] when the settings contradict each other.
    pub fn with(&self, changes: &[(String, Option<String>)]) -> Result<Self, PlanError> {
        let spec = self.spec();
        let (_, rest) = parse::name_and_settings(&spec);
        let alone = Transports::default().with(Transport::clone(&self.transport));
        let mut kept: Vec<(String, String)> = parse::pairs(rest, &self.place, &alone)?
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

    /// Returns the transport and the settings that were given, without the nickname. A standard contestant is spelled
    /// out: `quic:cc=bbr` for `http3:cc=bbr`.
    #[must_use]
    pub fn spec(&self) -> String {
        bare::expanded(label::split(&self.text).1)
    }

    /// Returns whether this contestant and `other` behave the same in every run. `open_loop` is set if objects are
    /// requested at planned times, whether or not earlier objects have arrived.
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
        // The values of all engine settings (knobs) are compared, because a profile and single keys of the plan may set
        // the same values.
        let knobs = |contestant: &Self| -> Vec<String> {
            contestant.engine.knobs().into_iter().map(|knob| knob.value).collect()
        };
        self.transport.name() == other.transport.name()
            && knobs(self) == knobs(other)
            && self.connections() == other.connections()
            && self.policy(open_loop).ok() == other.policy(open_loop).ok()
            && own(self) == own(other)
    }

    /// Returns whether the contestant tells its peer its new addresses. Its connections then survive when the client
    /// moves to another network.
    #[must_use]
    pub fn sends_address_updates(&self) -> bool {
        match self.transport.capabilities().survives_address_change {
            Feature::No => false,
            Feature::Yes => true,
            Feature::Extension { knob, .. } => {
                self.engine.knobs().iter().any(|known| known.key == knob && known.value == "yes")
            }
        }
    }

    /// Returns whether the client uses the addresses of its current network. This is the case if the contestant tells
    /// its peer new addresses ([`sends_address_updates`](Self::sends_address_updates)) or opens new connections. Other
    /// contestants keep their address by Mobile IP.
    #[must_use]
    pub fn changes_address(&self) -> bool {
        self.reconnects || self.sends_address_updates()
    }

    /// Returns the keys that were set for this contestant and that concern its requests: their connections, their
    /// streams, or their CPU cost.
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

    /// Returns whether the text of this contestant sets the key `resume` (resumption of TLS sessions).
    #[must_use]
    pub fn sets_resume(&self) -> bool {
        let spec = self.spec();
        let (_, keys) = spec.split_once(':').unwrap_or_default();
        keys.split(',').any(|pair| pair.split_once('=').is_some_and(|(key, _)| key.trim() == "resume"))
    }

    /// Returns the rules by which the client requests objects. `open_loop` says whether objects are requested at given
    /// times.
    ///
    /// # Errors
    /// [`PlanError`] when keys of the contestant contradict each other.
    pub fn policy(&self, open_loop: bool) -> Result<Policy, PlanError> {
        let multistream = self.transport.capabilities().is_multistream();
        let policy = self.choices.policy(multistream, open_loop);
        let policy = policy.map_err(|error| PlanError::at(&self.place, error))?;
        match &self.http2 {
            None if self.http3 => Ok(Policy { version: Version::Http3, ..policy }),
            None => Ok(policy),
            // With HTTP/2, each request has a stream of its own. There is thus no pipelining, and one connection is
            // enough.
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

    /// Returns whether the contestant's data is encrypted and its server authenticated. This is the case with TLS on
    /// top of the transport, TLS built into the transport, and DTLS below the transport.
    #[must_use]
    pub fn is_secured(&self) -> bool {
        self.security.is_some() || self.dtls.is_some()
    }

    /// Returns a copy of this contestant without TLS, or with plain UDP instead of DTLS. Returns `None` if the
    /// contestant uses neither TLS nor DTLS.
    #[must_use]
    pub fn in_the_clear(&self) -> Option<Self> {
        let change = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
        let changes = match (&self.security, &self.dtls) {
            (Some(_), _) if !self.transport.capabilities().secure => {
                ["tls", "resume", "chain", "group"].map(|key| change(key, None)).to_vec()
            }
            (_, Some(_)) => {
                let udp = Some("udp").filter(|_| self.transport.capabilities().carriers.is_choice());
                vec![change("dtls", None), change("chain", None), change("encap", udp)]
            }
            _ => return None,
        };
        self.with(&changes).ok()
    }

    /// Returns whether the transport is a multipath protocol of the kernel, which runs only in the emulated network.
    #[must_use]
    pub fn is_kernels_multipath(&self) -> bool {
        self.transport.is_kernel_in_emulation() && self.transport.capabilities().paths
    }

    /// Returns the maximum number of connections that the contestant may use. The default is one.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.choices.connections.unwrap_or(1)
    }

    /// Returns the number of objects that a connection of the contestant carries at the same time: its number of
    /// streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        if let Some(http2) = &self.http2 {
            return http2.windows.concurrent as usize;
        }
        usize::try_from(self.engine.streams()).unwrap_or(usize::MAX)
    }

    /// Creates the TLS or DTLS configurations of the contestant's client and server. For resumption, the client gets
    /// its tickets in handshakes before the run, with the clock and the random numbers of `before`. On a repeat visit,
    /// each TLS session is resumed. Over QUIC, the resumed session carries requests with the handshake; over TCP it
    /// does not, as in Chromium. DTLS never resumes a session.
    ///
    /// # Errors
    /// One line that says why the configurations cannot be created.
    pub fn pairs(&self, before: &Surroundings, visit: Visit) -> Result<SecurityConfigs, String> {
        let ours = (&*self.transport, &*self.engine);
        let resumption = match (visit, self.transport.capabilities().secure) {
            (Visit::First, _) => None,
            (Visit::Repeat, true) => Some(ResumptionMode::Early),
            (Visit::Repeat, false) => Some(ResumptionMode::Before),
        };
        let security =
            self.security.map(|own| Security { resumption: resumption.unwrap_or(own.resumption), ..own });
        Ok(SecurityConfigs {
            tls: security.map(|security| security.pair(ours, self.protocol(), before)).transpose()?,
            dtls: self.dtls.map(|dtls| dtls.pair()).transpose()?,
        })
    }

    /// Returns the name of the application protocol that client and server agree on (ALPN).
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        match (&self.http2, self.http3, self.transport.capabilities().secure) {
            (Some(_), ..) => "h2",
            (None, true, _) => "h3",
            (None, false, false) => "http/1.1",
            // Each stream carries one request and response of HTTP/1.1. No ALPN name is registered for that.
            (None, false, true) => "h1-quic",
        }
    }

    /// Returns the minimum size of a frame header in bytes, if the contestant uses HTTP/2 or HTTP/3. Otherwise `None`.
    #[must_use]
    pub fn frame_header_bytes(&self) -> Option<u64> {
        self.http2.map(|_| http2::FRAME_HEADER_BYTES).or(self.http3.then_some(http3::FRAME_HEADER_BYTES))
    }
}
