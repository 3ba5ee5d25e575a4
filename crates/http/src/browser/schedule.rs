//! Chromium's two schedulers of requests, which hold requests back: one in the renderer, one in the network service.
//!
//! The renderer's scheduler is in tight mode until the body of the document begins. Source: blink
//! `resource_load_scheduler.cc`, `GetNextPendingRequest`, `GetOutstandingLimit` and
//! `IsRunningThrottleableRequestsLessThanOutStandingLimit`. The scheduler of the network service limits requests that
//! can be delayed, unless their host is known to support priorities. Source: services/network `resource_scheduler.cc`,
//! `ShouldStartRequest` and `LoadAnyStartablePendingRequests`; net `http_server_properties.cc`,
//! `SupportsRequestPriority`.

use super::Rules;
use super::quality::Quality;
use crate::page::reference::{LoadPriority, ResourceType};
use anabranch_base::Instant;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Requests in the order in which a scheduler takes them: by priority, and by age within a priority.
type Pending = BTreeSet<(Reverse<LoadPriority>, u64, usize)>;

/// Changes the priority of the request for `object` if the request is waiting. Returns whether it is.
fn reinsert(pending: &mut Pending, object: usize, priority: LoadPriority) -> bool {
    let found = pending.iter().find(|(_, _, waiting)| *waiting == object).copied();
    let Some((old, age, _)) = found else { return false };
    pending.remove(&(old, age, object));
    pending.insert((Reverse(priority), age, object))
}

/// The scheduler of the renderer.
#[derive(Debug)]
pub struct Renderer {
    tight_limit: usize,
    tight_medium_limit: usize,
    is_tight: bool,
    pending: Pending,
    next: u64,
    /// Requests that are never held back and that `next` has not returned yet.
    at_once: VecDeque<(usize, LoadPriority)>,
    /// The requests that run, each with its priority and whether it counts against the limit.
    running: BTreeMap<usize, (LoadPriority, bool)>,
}

impl Renderer {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            tight_limit: rules.tight_limit,
            tight_medium_limit: rules.tight_medium_limit,
            is_tight: true,
            pending: Pending::new(),
            next: 0,
            at_once: VecDeque::new(),
            running: BTreeMap::new(),
        }
    }

    pub(super) fn request(&mut self, object: usize, priority: LoadPriority, kind: ResourceType) {
        // blink `resource_loader.cc`, `IsThrottlableRequestContext`: requests that scripts make, and requests for
        // media, are never throttled.
        if matches!(kind, ResourceType::Fetch | ResourceType::Media) {
            self.at_once.push_back((object, priority));
        } else {
            self.pending.insert((Reverse(priority), self.next, object));
            self.next += 1;
        }
    }

    /// Changes the priority of a waiting request. A running request keeps its priority (`SetPriority`).
    pub(super) fn reprioritize(&mut self, object: usize, priority: LoadPriority) {
        reinsert(&mut self.pending, object, priority);
    }

    /// Ends tight mode.
    pub(super) fn loosen(&mut self) {
        self.is_tight = false;
    }

    pub(super) fn finished(&mut self, object: usize) {
        self.running.remove(&object);
    }

    /// Returns the next request that may run now. Only the first request in order is considered.
    pub(super) fn next(&mut self) -> Option<usize> {
        if let Some((object, priority)) = self.at_once.pop_front() {
            self.running.insert(object, (priority, false));
            return Some(object);
        }
        let &(Reverse(priority), _, object) = self.pending.first()?;
        if !self.may_run(priority) {
            return None;
        }
        self.pending.pop_first();
        self.running.insert(object, (priority, true));
        Some(object)
    }

    fn may_run(&self, priority: LoadPriority) -> bool {
        if !self.is_tight || priority >= LoadPriority::High {
            return true;
        }
        let running = self.running.values();
        let medium = running.clone().filter(|(priority, _)| *priority == LoadPriority::Medium).count();
        if priority == LoadPriority::Medium && medium < self.tight_medium_limit {
            return true;
        }
        running.filter(|(_, counts)| *counts).count() < self.tight_limit
    }
}

/// The scheduler of the network service. It decides about a request when the request arrives. It decides again about
/// the waiting requests when another request ends, when priorities or limits change, and from time to time. It does not
/// decide again when a host turns out to support priorities.
#[derive(Debug)]
pub struct Service {
    delayable_requests: usize,
    /// The number of delayable requests for which each other request in flight counts.
    weight: usize,
    requests_per_host: usize,
    longest_wait: Duration,
    /// The current time, and the time when each waiting request arrived.
    now: Instant,
    arrived: BTreeMap<usize, Instant>,
    /// The host of each object.
    hosts: Vec<usize>,
    prioritising: BTreeSet<usize>,
    pending: Pending,
    next: u64,
    /// Requests that have been started and that `next` has not returned yet.
    started: VecDeque<usize>,
    /// Each request in flight, and whether it was delayable when it was started or last changed its priority.
    in_flight: BTreeMap<usize, bool>,
    delayable: usize,
    /// The number of requests in flight for each host.
    per_host: BTreeMap<usize, usize>,
}

/// What the scheduler of the network service decides about a request.
enum Decision {
    Start,
    /// The request waits, but requests after it may be started.
    Wait,
    /// The request waits, and so do all requests after it.
    Stop,
}

impl Service {
    pub(super) fn new(rules: &Rules, hosts: Vec<usize>) -> Self {
        Self {
            delayable_requests: rules.delayable_requests,
            weight: 0,
            requests_per_host: rules.requests_per_host,
            longest_wait: Quality::of(rules, rules.default_rtt).longest_wait,
            now: Instant::ZERO,
            arrived: BTreeMap::new(),
            hosts,
            prioritising: BTreeSet::new(),
            pending: Pending::new(),
            next: 0,
            started: VecDeque::new(),
            in_flight: BTreeMap::new(),
            delayable: 0,
            per_host: BTreeMap::new(),
        }
    }

    /// Adds an object of the page. Its index is the next one, and the object is on `host`.
    pub(super) fn add(&mut self, host: usize) {
        self.hosts.push(host);
    }

    /// Sets the limits for a network of this quality. Source: `UpdateParamsForNetworkQuality` and
    /// `OnEffectiveConnectionTypeChanged`.
    pub(super) fn limit(&mut self, rules: &Rules, quality: Quality) {
        (self.delayable_requests, self.weight) = match quality.is_slow {
            true => (rules.slow_delayable_requests, rules.slow_weight),
            false => (rules.delayable_requests, 0),
        };
        self.longest_wait = quality.longest_wait;
        self.start_waiting();
    }

    pub(super) const fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// Whether requests are waiting.
    pub(super) fn has_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn takes_priorities(&mut self, host: usize) {
        self.prioritising.insert(host);
    }

    pub(super) fn request(&mut self, object: usize, priority: LoadPriority) {
        match self.decide(object, priority) {
            Decision::Start => self.start(object, priority),
            Decision::Wait | Decision::Stop => {
                self.pending.insert((Reverse(priority), self.next, object));
                self.arrived.insert(object, self.now);
                self.next += 1;
            }
        }
    }

    /// Changes the priority of a request that is waiting or in flight.
    pub(super) fn reprioritize(&mut self, object: usize, priority: LoadPriority) {
        let is_delayable = self.is_delayable(object, priority);
        if reinsert(&mut self.pending, object, priority) {
            self.start_waiting();
        } else if let Some(delayable) = self.in_flight.get_mut(&object) {
            self.delayable -= usize::from(*delayable);
            self.delayable += usize::from(is_delayable);
            *delayable = is_delayable;
        }
    }

    pub(super) fn finished(&mut self, object: usize) {
        let Some(delayable) = self.in_flight.remove(&object) else { return };
        self.delayable -= usize::from(delayable);
        if let Some(count) = self.per_host.get_mut(&self.hosts[object]) {
            *count -= 1;
        }
        self.start_waiting();
    }

    /// Starts the waiting requests that may be started now. Source: `LoadAnyStartablePendingRequests`.
    pub(super) fn start_waiting(&mut self) {
        while let Some(request) = self.startable() {
            self.pending.remove(&request);
            let (Reverse(priority), _, object) = request;
            self.start(object, priority);
        }
    }

    /// Returns the first waiting request that may be started.
    fn startable(&self) -> Option<(Reverse<LoadPriority>, u64, usize)> {
        for request in &self.pending {
            let (Reverse(priority), _, object) = *request;
            match self.decide(object, priority) {
                Decision::Start => return Some(*request),
                Decision::Wait => {}
                Decision::Stop => return None,
            }
        }
        None
    }

    /// Returns the next request to send now.
    pub(super) fn next(&mut self) -> Option<usize> {
        self.started.pop_front()
    }

    fn is_delayable(&self, object: usize, priority: LoadPriority) -> bool {
        // The threshold `kDelayablePriorityThreshold` is MEDIUM in Chromium's net, which corresponds to High in Blink.
        priority < LoadPriority::High && !self.prioritising.contains(&self.hosts[object])
    }

    fn decide(&self, object: usize, priority: LoadPriority) -> Decision {
        let has_waited = self.arrived.get(&object).is_some_and(|&at| self.now.since(at) >= self.longest_wait);
        if has_waited || !self.is_delayable(object, priority) {
            return Decision::Start;
        }
        let to_host = self.per_host.get(&self.hosts[object]).copied().unwrap_or(0);
        let others = self.in_flight.len() - self.delayable;
        match (
            self.delayable + self.weight * others >= self.delayable_requests,
            to_host >= self.requests_per_host,
        ) {
            (true, _) => Decision::Stop,
            (false, true) => Decision::Wait,
            (false, false) => Decision::Start,
        }
    }

    fn start(&mut self, object: usize, priority: LoadPriority) {
        let delayable = self.is_delayable(object, priority);
        self.delayable += usize::from(delayable);
        self.in_flight.insert(object, delayable);
        self.arrived.remove(&object);
        *self.per_host.entry(self.hosts[object]).or_default() += 1;
        self.started.push_back(object);
    }
}
