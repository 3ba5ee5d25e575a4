//! Contestants: what each is, and what follows from its keys.

mod cross;
mod keys;
mod parse;
mod settings;

pub use cross::Cross;
pub use keys::{CONTESTANT_KEYS, ContestantKey, listing, profile_listing};

use super::error::PlanError;
use super::http2::{self, Http2};
use super::http3;
use super::security::{Dtls, Security};
use crate::results::label;
use crate::transports::{Transport, Transports};
use anabranch_http::mapping::{Choices, Policy, Version, WhenFull};
use anabranch_sim::Cost;
use anabranch_tls::{Pair, Surroundings};
use anabranch_transport::capabilities::Feature;
use anabranch_transport::{Delivery, Settings};
use std::sync::Arc;

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
    /// The same contestant with other settings: keys with their values, or without one, so that the default holds. What
    /// comes of it is what its text says, so that anyone can race it; it has no nickname.
    ///
    /// # Errors
    /// [`PlanError`] when the settings contradict each other.
    pub fn with(&self, changes: &[(String, Option<String>)]) -> Result<Self, PlanError> {
        let (_, spec) = label::split(&self.text);
        let rest = spec.split_once(':').map(|(_, rest)| rest);
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
}
