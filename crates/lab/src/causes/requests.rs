//! Describes how requests use connections and streams, in terms that all transports share.
//!
//! A client's keys confound two effects. With one stream, a request waits for the one before it. With six connections,
//! TCP does not pipeline by default. [`Requests`] separates them: the numbers of connections, of streams per
//! connection, and of outstanding requests per connection. Each can be set to the rival's value while the others stay.

use super::settings::Group;
use crate::plan::{Contestant, PlanError, PointPlan};
use anabranch_http::mapping::WhenFull;

/// How a contestant's client fetches a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requests {
    /// The number of connections to a server, or `None` for as many as needed (in open loop).
    connections: Option<usize>,
    /// The most objects on a connection, if limited.
    allowance: Option<u32>,
    /// The number of streams of a connection.
    streams: usize,
    /// The most outstanding requests on a connection, or `None` for as many as there are objects.
    outstanding: Option<usize>,
    /// How a stream is chosen for a request if none is free.
    pick: WhenFull,
}

/// A property that can be changed independently of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aspect {
    /// `connections`
    Connections,
    /// `objects-per-connection`, and `per-object`, which is one of them.
    Allowance,
    /// `streams`
    Streams,
    /// `outstanding`, and what stands for it: `pipeline`, `when-full`.
    Order,
}

impl Aspect {
    /// All aspects, in the order in which they are tried.
    pub const ALL: [Self; 4] = [Self::Connections, Self::Allowance, Self::Streams, Self::Order];

    /// Returns the group of its settings.
    pub const fn group(self) -> Group {
        match self {
            Self::Connections | Self::Allowance | Self::Streams => Group::Connections,
            Self::Order => Group::Order,
        }
    }
}

impl Requests {
    /// Returns how a contestant fetches the workload of a point.
    ///
    /// # Errors
    /// The keys contradict the workload.
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
                // Messages are distributed over the existing connections.
                Some(_) => Some(contestant.connections()),
                None => Some(policy.connections).filter(|n| *n != usize::MAX),
            },
            allowance: policy.objects_per_connection.filter(|_| exchanges),
            streams,
            // A limit that the workload never reaches is ignored.
            outstanding: outstanding.into_iter().flatten().min().filter(|n| exchanges && *n < objects),
            pick: if policy.when_full == WhenFull::Wait { WhenFull::RoundRobin } else { policy.when_full },
        })
    }

    /// Returns whether an aspect is the same for a workload with this number of objects.
    pub fn alike(&self, other: &Self, aspect: Aspect, objects: usize) -> bool {
        match aspect {
            Aspect::Connections => self.connections == other.connections,
            Aspect::Allowance => self.allowance == other.allowance,
            Aspect::Streams => self.streams.min(objects) == other.streams.min(objects),
            Aspect::Order => {
                let grows = |requests: &Self| requests.pick == WhenFull::Grow;
                self.outstanding == other.outstanding && grows(self) == grows(other)
            }
        }
    }

    /// Sets an aspect to the other's.
    pub fn take(&mut self, aspect: Aspect, other: &Self) {
        match aspect {
            Aspect::Connections => self.connections = other.connections,
            Aspect::Allowance => self.allowance = other.allowance,
            Aspect::Streams => self.streams = other.streams,
            Aspect::Order => {
                self.outstanding = other.outstanding;
                self.pick = other.pick;
            }
        }
        if let Some(k) = self.allowance {
            self.outstanding = Some(self.outstanding.map_or(k as usize, |n| n.min(k as usize)));
        }
    }

    /// Formats an aspect as it is typed, and as the table shows the old value.
    fn typed(&self, aspect: Aspect, multistream: bool) -> String {
        let number = |n: Option<usize>, none: &str| n.map_or(none.to_owned(), |n| n.to_string());
        match (aspect, self.outstanding) {
            (Aspect::Connections, _) => format!("connections={}", number(self.connections, "as needed")),
            (Aspect::Allowance, _) => {
                let allowance = self.allowance.map(|k| k as usize);
                format!("objects-per-connection={}", number(allowance, "no limit"))
            }
            (Aspect::Streams, _) => format!("streams={}", self.streams),
            (Aspect::Order, None) if !multistream => "pipeline=yes".to_owned(),
            (Aspect::Order, Some(1)) if !multistream => "pipeline=no".to_owned(),
            (Aspect::Order, None) => format!("when-full={}", self.pick),
            (Aspect::Order, Some(n)) => format!("outstanding={n}"),
        }
    }

    /// Formats an aspect for a contestant. Over HTTP/2 each request has a stream, so only `outstanding` is shown.
    pub fn typed_for(&self, aspect: Aspect, contestant: &Contestant) -> String {
        match (aspect, self.outstanding) {
            (Aspect::Order, None) if contestant.http2.is_some() => "outstanding=no limit".to_owned(),
            (Aspect::Order, Some(n)) if contestant.http2.is_some() => format!("outstanding={n}"),
            _ => self.typed(aspect, contestant.transport.capabilities().is_multistream()),
        }
    }

    /// Returns the keys that change the requests of `contestant` from `own` to these.
    pub fn keys(
        &self,
        own: &Self,
        contestant: &Contestant,
        point: &PointPlan,
    ) -> Vec<(String, Option<String>)> {
        let workload = &point.workload;
        let multistream = contestant.transport.capabilities().is_multistream();
        // Over HTTP/2 each request has a stream, even if the transport has none.
        let streamed = multistream || contestant.http2.is_some();
        let mut keys: Vec<(String, Option<String>)> = Vec::new();
        let mut set = |key: &str, value: Option<String>| keys.push((key.to_owned(), value));
        if self.connections != own.connections {
            set("connections", self.connections.map(|n| n.to_string()));
        }
        if multistream && self.streams != own.streams {
            set("streams", Some(self.streams.to_string()));
            set("inbound", None);
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
            let full = match self.pick {
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
