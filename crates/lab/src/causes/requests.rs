//! Describes how a contestant's requests use connections and streams, in terms that all transports share.
//!
//! One setting of a contestant's client can have several effects. For example, one stream per connection makes a
//! request wait for the request before it. With several connections, pipelining is off unless the user enables it.
//! [`Requests`] separates the effects into three numbers: connections, streams per connection, and outstanding requests
//! per connection. Each number can be set to the other contestant's value while the other two numbers stay unchanged.

use super::settings::Group;
use crate::plan::{Contestant, PlanError, PointPlan};
use anabranch_http::mapping::WhenFull;

/// The connections, streams and outstanding requests that a contestant's client uses for a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requests {
    /// The number of connections to a server. `None` if objects are requested at fixed times: the client then opens as
    /// many connections as it needs.
    connections: Option<usize>,
    /// The maximum number of objects that a connection carries before it is replaced, or `None` if there is no limit.
    allowance: Option<u32>,
    /// The number of streams of each connection.
    streams: usize,
    /// The maximum number of outstanding requests on a connection, or `None` if there is no limit.
    outstanding: Option<usize>,
    /// The rule for choosing a stream for a request if no stream is free.
    when_full: WhenFull,
}

/// A property of how a client sends requests, which can be changed independently of the other properties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aspect {
    /// The key `connections`.
    Connections,
    /// The number of objects per connection. The keys are `objects-per-connection` and `per-object`. `per-object`
    /// limits a connection to one object.
    Allowance,
    /// The number of streams: `num_ostreams` of SCTP, `streams` of QUIC.
    Streams,
    /// The order of requests. The number of requests that may be outstanding on a connection decides whether a request
    /// waits for earlier ones. The key is `outstanding`, or for some transports `pipeline` or `when-full`.
    Order,
}

impl Aspect {
    /// All aspects of requests, in the order in which experiments change them.
    pub const ALL: [Self; 4] = [Self::Connections, Self::Allowance, Self::Streams, Self::Order];

    /// Returns the group to which the settings of this aspect belong.
    pub const fn group(self) -> Group {
        match self {
            Self::Connections | Self::Allowance | Self::Streams => Group::Connections,
            Self::Order => Group::Order,
        }
    }
}

impl Requests {
    /// Returns how a contestant's client uses connections and streams for the workload of a point.
    ///
    /// # Errors
    /// [`PlanError`] when keys of the contestant contradict the workload.
    pub fn of(contestant: &Contestant, point: &PointPlan) -> Result<Self, PlanError> {
        let workload = &point.workload;
        let policy = contestant.policy(workload.arrivals.is_some())?;
        let exchanges = workload.messages.is_none() && workload.bulk.is_none();
        let objects = workload.page.objects.len();
        let streamed = contestant.transport.capabilities().is_multistream() || contestant.http2.is_some();
        let streams = if streamed { contestant.streams() } else { 1 };
        let limit = |n: Option<u32>| n.map(|n| n as usize);
        let outstanding = match policy.when_full {
            WhenFull::Wait => Some(streams),
            _ => None,
        };
        let outstanding = [outstanding, limit(policy.outstanding), limit(policy.objects_per_connection)];
        Ok(Self {
            connections: match workload.messages {
                // For a workload of messages, the contestant opens all its connections at the start and distributes the
                // messages over them.
                Some(_) => Some(contestant.connections()),
                None => Some(policy.connections).filter(|n| *n != usize::MAX),
            },
            allowance: policy.objects_per_connection.filter(|_| exchanges),
            streams,
            // A limit on outstanding requests that is larger than the number of objects has no effect, so it is left
            // out.
            outstanding: outstanding.into_iter().flatten().min().filter(|n| exchanges && *n < objects),
            when_full: if policy.when_full == WhenFull::Wait {
                WhenFull::RoundRobin
            } else {
                policy.when_full
            },
        })
    }

    /// Returns whether `aspect` has the same effect in `self` and `other` when a page of `objects` objects is loaded.
    pub fn alike(&self, other: &Self, aspect: Aspect, objects: usize) -> bool {
        match aspect {
            Aspect::Connections => self.connections == other.connections,
            Aspect::Allowance => self.allowance == other.allowance,
            Aspect::Streams => self.streams.min(objects) == other.streams.min(objects),
            Aspect::Order => {
                let grows = |requests: &Self| requests.when_full == WhenFull::Grow;
                self.outstanding == other.outstanding && grows(self) == grows(other)
            }
        }
    }

    /// Sets one aspect of these requests to the value that it has in `other`.
    pub fn take(&mut self, aspect: Aspect, other: &Self) {
        match aspect {
            Aspect::Connections => self.connections = other.connections,
            Aspect::Allowance => self.allowance = other.allowance,
            Aspect::Streams => self.streams = other.streams,
            Aspect::Order => {
                self.outstanding = other.outstanding;
                self.when_full = other.when_full;
            }
        }
        if let Some(k) = self.allowance {
            self.outstanding = Some(self.outstanding.map_or(k as usize, |n| n.min(k as usize)));
        }
    }

    /// Formats the value of an aspect as a setting of `contestant`, for example `connections=6`.
    fn typed(&self, aspect: Aspect, contestant: &Contestant) -> String {
        let multistream = contestant.transport.capabilities().is_multistream();
        let number = |n: Option<usize>, none: &str| n.map_or(none.to_owned(), |n| n.to_string());
        match (aspect, self.outstanding) {
            (Aspect::Connections, _) => format!("connections={}", number(self.connections, "as needed")),
            (Aspect::Allowance, _) => {
                let allowance = self.allowance.map(|k| k as usize);
                format!("objects-per-connection={}", number(allowance, "no limit"))
            }
            (Aspect::Streams, _) => format!("{}={}", streams_knob(contestant), self.streams),
            (Aspect::Order, None) if !multistream => "pipeline=yes".to_owned(),
            (Aspect::Order, Some(1)) if !multistream => "pipeline=no".to_owned(),
            (Aspect::Order, None) => format!("when-full={}", self.when_full),
            (Aspect::Order, Some(n)) => format!("outstanding={n}"),
        }
    }

    /// Formats the value of `aspect` as a setting of `contestant`. With HTTP/2 each request has its own stream, so the
    /// order of requests depends only on the setting `outstanding`.
    pub fn typed_for(&self, aspect: Aspect, contestant: &Contestant) -> String {
        match (aspect, self.outstanding) {
            (Aspect::Order, None) if contestant.http2.is_some() => "outstanding=no limit".to_owned(),
            (Aspect::Order, Some(n)) if contestant.http2.is_some() => format!("outstanding={n}"),
            _ => self.typed(aspect, contestant),
        }
    }

    /// Returns the settings that change the requests of `contestant` from `own` to `self`. Each is a key and its new
    /// value, or `None` for the key's default.
    pub fn keys(
        &self,
        own: &Self,
        contestant: &Contestant,
        point: &PointPlan,
    ) -> Vec<(String, Option<String>)> {
        let workload = &point.workload;
        let multistream = contestant.transport.capabilities().is_multistream();
        // Over HTTP/2 each request has a stream of its own, even if the transport (TCP) has no streams.
        let streamed = multistream || contestant.http2.is_some();
        let mut keys: Vec<(String, Option<String>)> = Vec::new();
        let mut set = |key: &str, value: Option<String>| keys.push((key.to_owned(), value));
        if self.connections != own.connections {
            set("connections", self.connections.map(|n| n.to_string()));
        }
        if multistream && self.streams != own.streams {
            set(streams_knob(contestant), Some(self.streams.to_string()));
            set(INBOUND, None);
        }
        if workload.messages.is_some() || workload.bulk.is_some() {
            return keys;
        }
        if self.allowance != own.allowance {
            set("per-object", None);
            set("objects-per-connection", self.allowance.map(|k| k.to_string()));
        }
        let single = self.allowance == Some(1);
        let limit = self.outstanding.filter(|_| !single);
        if multistream {
            let fits = limit.map_or(self.streams >= workload.page.objects.len(), |n| n <= self.streams);
            let full = match self.when_full {
                WhenFull::Grow => WhenFull::Grow,
                _ if fits || single => WhenFull::Wait,
                pick => pick,
            };
            set("when-full", (full != WhenFull::Wait).then(|| full.to_string()));
            set(
                "outstanding",
                limit.filter(|n| *n != self.streams || full != WhenFull::Wait).map(|n| n.to_string()),
            );
        } else if streamed {
            set("outstanding", limit.filter(|n| *n != own.streams).map(|n| n.to_string()));
        } else {
            let pipelines = !single && limit != Some(1);
            set("pipeline", Some(if pipelines { "yes" } else { "no" }.to_owned()));
            set("outstanding", limit.filter(|n| *n > 1).map(|n| n.to_string()));
        }
        keys
    }
}

/// The SCTP knob that sets the number of outbound streams.
const OUTBOUND: &str = "num_ostreams";

/// The SCTP knob that limits inbound streams apart from outbound ones. By default they have the same limit.
const INBOUND: &str = "max_instreams";

/// Returns the name of the knob that sets the number of streams: `num_ostreams` of SCTP, `streams` of QUIC.
fn streams_knob(contestant: &Contestant) -> &'static str {
    let is_sctp = contestant.engine.knobs().iter().any(|knob| knob.key == OUTBOUND);
    if is_sctp { OUTBOUND } else { "streams" }
}
