//! Interprets the workload keys of a plan: what is transferred, and how.

use super::concrete::{Concrete, Setting};
use super::error::PlanError;
use super::file;
use super::heads::Heads;
use super::sources::Sources;
use super::variation;
use anabranch_base::spelling::hint;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::units::{format_duration, parse_duration, parse_interval};
use anabranch_base::{Bytes, Rng};
use anabranch_http::browser::rules::CHROMIUM;
use anabranch_http::browser::{Client, Visit};
use anabranch_http::har;
use anabranch_http::har::shipped;
use anabranch_http::page::{Object, Page, directory};
use anabranch_load::bulk::MAX_MESSAGE;
use anabranch_load::messages::{MAX_SIZE, MIN_SIZE};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The maximum number of connections for messages and bulk transfers. The server's accept queue has room for all of
/// them.
pub const MAX_CONNECTIONS: usize = 4096;

/// The data that is transferred at one point of the plan, and the times at which it is requested. A point is one
/// combination of the settings that the plan varies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// The page with its objects. A bulk transfer is an object of the page, and so is each message.
    pub page: Arc<Page>,
    /// The sizes of request and response heads that the plan sets. They are already applied to the objects of `page`.
    pub heads: Heads,
    /// The number of bytes of a bulk transfer without HTTP, if there is one.
    pub bulk: Option<u64>,
    /// Messages that are sent at a fixed rate without HTTP, if there are any. A bulk transfer may run at the same time.
    pub messages: Option<MessageFlow>,
    /// The size in bytes of each write of the server in a bulk transfer, if the plan sets it.
    pub message_size: Option<u64>,
    /// The interval at which objects are requested, if they are requested at fixed times. With fixed times, an object
    /// does not wait for the object that refers to it.
    pub arrivals: Option<Duration>,
    /// If set, the client requests several objects at each time of `arrivals`: as many as a connection of the
    /// contestant has streams. If not set, the client requests one object at each time.
    pub arrivals_of_connections: bool,
    /// Whether the client waits for the think times that are recorded in the page.
    pub think: bool,
    /// The time that the server takes to answer a request; `None` means the recorded time of each object.
    pub server_time: Option<Duration>,
    /// Whether the server answers the requests of a connection one at a time.
    pub serial_server: bool,
    /// Whether every host of the page becomes a separate server.
    pub keep_origins: bool,
    /// The program that loads the page.
    pub client: Client,
    /// The processor time that the browser needs for each response; `None` for the usual time.
    pub client_time: Option<Duration>,
    /// What the browser remembers of the servers from earlier visits.
    pub visit: Visit,
    /// The time without progress after which an object counts as failed.
    pub timeout: Option<Duration>,
    /// The time at which the run ends at the latest.
    pub deadline: Duration,
    /// The maximum of a random delay before each object is requested. The seed decides the delays.
    pub request_jitter: Duration,
    /// The maximum of a random delay before the load begins. The seed decides the delay.
    pub start_jitter: Duration,
    /// Whether the loads of the page vary as in a browser ([`variation`]). The seed decides the variation.
    pub varies: bool,
    /// The delay before the load begins. It is 0 until the seed has decided it ([`of_seed`](Self::of_seed)).
    pub start_delay: Duration,
    /// Whether all connections are established before the first request. The page time begins with the first request.
    /// Only experiments that search for causes set this; no key of a plan does.
    pub preconnect: bool,
}

/// Messages of the same size that are sent at a fixed rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageFlow {
    /// The time between two messages.
    pub interval: Duration,
    /// The size of a message in bytes.
    pub size: u64,
    /// The number of messages in a run.
    pub count: u32,
}

/// The latest time at which a run may end: one day. In longer runs, the time series, with a value every 0.1 s, would
/// take most of the space of the results.
const MAX_DEADLINE: Duration = Duration::from_secs(86_400);

impl Workload {
    /// Returns the workload that the keys of `concrete` describe.
    ///
    /// # Errors
    /// [`PlanError`] that names the flag or field.
    pub fn interpret(concrete: &Concrete, sources: &mut Sources) -> Result<Self, PlanError> {
        let heads = Heads::interpret(concrete)?;
        let page = page(concrete, sources)?;
        heads.check(&page, false).map_err(|(key, what)| {
            PlanError::at(concrete.setting(key).map_or(key, |setting| &setting.place), what)
        })?;
        let page = match heads == Heads::default() {
            true => page,
            // Pages with other head sizes are kept by a key of their own. The key consists of the memory address of the
            // original page, which `sources` keeps in memory, and of `heads`.
            false => {
                sources.page(format!("{:p} {heads:?}", &raw const *page), || Ok(heads.applied(&page)))?
            }
        };
        check_not_empty(concrete, &page)?;
        let [start_jitter, request_jitter] =
            ["start-jitter", "request-jitter"].map(|name| jitter(concrete, name));
        let message_size = match concrete.setting("message-size") {
            Some(setting) if concrete.setting("bulk").is_none() => {
                return Err(PlanError::at(&setting.place, "goes with bulk only"));
            }
            Some(setting) => {
                let size = parse::<Bytes>(setting)?.0;
                if !(1..=MAX_MESSAGE as u64).contains(&size) {
                    let what =
                        format!("'{}': write a size from 1B to {}", setting.value, Bytes(MAX_MESSAGE as u64));
                    return Err(PlanError::at(&setting.place, what));
                }
                Some(size)
            }
            None => None,
        };
        let messages = message_flow(concrete)?;
        let bulk =
            concrete.setting("bulk").map(|setting| parse::<Bytes>(setting).map(|size| size.0)).transpose()?;
        if let (Some(_), Some(setting)) = (bulk, concrete.setting("arrivals")) {
            return Err(PlanError::at(&setting.place, "goes with a page or objects, not with bulk"));
        }
        if let (Some(0), Some(setting)) = (bulk, concrete.setting("bulk")) {
            return Err(PlanError::at(&setting.place, "nothing to transfer; write a size such as 100MB"));
        }
        let span = |name: &str| concrete.setting(name).map(time).transpose();
        let choice = |name: &str, off: &str, on: &str| match concrete.setting(name) {
            None => Ok(false),
            Some(setting) if setting.value == off => Ok(false),
            Some(setting) if setting.value == on => Ok(true),
            Some(setting) => {
                Err(PlanError::at(&setting.place, format!("'{}': write {off} or {on}", setting.value)))
            }
        };
        if messages.is_some() {
            let others = [
                "arrivals",
                "arrivals-of",
                "think",
                "server-time",
                "server",
                "origins",
                "client",
                "client-time",
                "visit",
                "variation",
                "timeout",
            ];
            let given = others.iter().filter_map(|name| concrete.setting(name));
            // These values have no effect on messages. They are accepted because a plan contains them once its defaults
            // are filled in.
            let is_neutral = |setting: &&Setting| {
                let given = (setting.name.as_str(), setting.value.as_str());
                [("origins", "merge"), ("client", "plain"), ("visit", "first")].contains(&given)
            };
            if let Some(setting) = given.into_iter().find(|setting| !is_neutral(setting)) {
                return Err(PlanError::at(&setting.place, "goes with a page or objects, not with messages"));
            }
        }
        check_effective(concrete)?;
        let (client, visit) = browser(concrete)?;
        let workload = Self {
            page,
            heads,
            bulk,
            messages,
            message_size,
            arrivals: concrete.setting("arrivals").map(interval).transpose()?,
            arrivals_of_connections: choice("arrivals-of", "objects", "connections")?,
            think: choice("think", "none", "recorded")?,
            server_time: match concrete.setting("server-time") {
                Some(setting) if setting.value != "recorded" => Some(time(setting)?),
                _ => None,
            },
            serial_server: choice("server", "parallel", "serial")?,
            keep_origins: choice("origins", "merge", "keep")?,
            client,
            client_time: client_time(concrete, client)?,
            visit,
            timeout: span("timeout")?,
            deadline: span("deadline")?.unwrap_or(Duration::from_secs(600)),
            start_jitter: start_jitter?,
            request_jitter: request_jitter?,
            varies: choice("variation", "none", "browser")?,
            start_delay: Duration::ZERO,
            preconnect: false,
        };
        workload.check_times(concrete)?;
        Ok(workload)
    }

    /// Rejects a deadline or timeout of zero, a deadline of more than a day, and messages that are sent after the
    /// deadline.
    fn check_times(&self, concrete: &Concrete) -> Result<(), PlanError> {
        if self.deadline.is_zero() {
            let place = concrete.setting("deadline").map_or("deadline", |setting| &setting.place);
            return Err(PlanError::at(place, "a run of no time; write a time such as 600s"));
        }
        if self.deadline > MAX_DEADLINE {
            let place = concrete.setting("deadline").map_or("deadline", |setting| &setting.place);
            return Err(PlanError::at(place, "more than a day of the run's clock; write at most 1440min"));
        }
        if self.timeout.is_some_and(|span| span.is_zero()) {
            let place = concrete.setting("timeout").map_or("timeout", |setting| &setting.place);
            return Err(PlanError::at(place, "no time; write one such as 15s, or leave it out for none"));
        }
        if let Some(flow) = self.messages
            && flow.interval.saturating_mul(flow.count - 1) >= self.deadline
        {
            let place = ["for", "messages"].iter().find_map(|name| concrete.setting(name));
            let last = flow.interval.saturating_mul(flow.count);
            let what = format!(
                "messages are sent for {}, and a run ends after {}; write a --deadline that is later, or fewer messages",
                format_duration(last),
                format_duration(self.deadline)
            );
            return Err(PlanError::at(place.map_or("messages", |setting| &setting.place), what));
        }
        Ok(())
    }

    /// Returns the workload with the random delays and sizes that this seed decides, or `None` if the workload has
    /// none. They depend only on the seed and on the index of an object in the page, so they are the same for every
    /// contestant.
    #[must_use]
    pub fn of_seed(&self, seed: u64) -> Option<Self> {
        if !self.has_chance() {
            return None;
        }
        let (mut workload, mut page) = (self.clone(), (*self.page).clone());
        if !self.think && (self.varies || !self.request_jitter.is_zero()) {
            page.objects.iter_mut().for_each(|object| object.think = Duration::ZERO);
            workload.think = true;
        }
        // The name of a fork decides its random numbers. So `request_jitter` keeps the name `start-jitter`, although it
        // is not the jitter of the start: another name would change the results of every plan that sets it.
        if !self.request_jitter.is_zero() {
            let mut rng = Rng::new(seed).fork("start-jitter");
            for object in &mut page.objects {
                object.think += Duration::from_nanos(rng.below(nanos(self.request_jitter)));
            }
        }
        if self.varies {
            variation::apply(&mut page, &mut Rng::new(seed).fork("variation"));
        }
        if !self.start_jitter.is_zero() {
            let mut rng = Rng::new(seed).fork("load-start");
            workload.start_delay = Duration::from_nanos(rng.below(nanos(self.start_jitter)));
        }
        Some(Self { page: Arc::new(page), ..workload })
    }

    /// Returns whether the workload has random delays or sizes, which the seed decides.
    #[must_use]
    pub fn has_chance(&self) -> bool {
        self.varies || !self.request_jitter.is_zero() || !self.start_jitter.is_zero()
    }

    /// Returns the time that the server takes to answer the request for `object`.
    #[must_use]
    pub fn server_time_of(&self, object: &Object) -> Duration {
        let recorded = || object.recorded.and_then(|recorded| recorded.server_time);
        self.server_time.or_else(recorded).unwrap_or_default()
    }

    /// Returns the number of servers from which the page is fetched.
    #[must_use]
    pub fn servers(&self) -> usize {
        if self.keep_origins { self.page.hosts.len() } else { 1 }
    }

    /// Returns the time at which each object is requested, if objects are requested at fixed times. `streams` is the
    /// number of streams of a connection.
    #[must_use]
    pub fn issue_times(&self, streams: usize) -> Option<Vec<Duration>> {
        if let Some(flow) = self.messages {
            // If messages and a bulk transfer run at the same time, the bulk transfer begins at the start of the run.
            let due = (0..flow.count).map(|number| flow.interval.saturating_mul(number));
            return Some(due.chain(self.bulk.map(|_| Duration::ZERO)).collect());
        }
        let interval = self.arrivals?;
        let batch = if self.arrivals_of_connections { streams.max(1) } else { 1 };
        let times = (0..self.page.objects.len()).map(|index| interval.saturating_mul((index / batch) as u32));
        Some(times.collect())
    }

    /// Returns a description of the workload in one line, for the heading of the table.
    #[must_use]
    pub fn describe(&self) -> String {
        let page = &self.page;
        if self.messages.is_some() {
            return page.name.clone();
        }
        let n = page.objects.len();
        let objects = if n == 1 { "1 object".to_owned() } else { format!("{n} objects") };
        let mut text = format!("{} ({objects}, {}", page.name, readable(page.body_bytes()));
        match (page.hosts.len(), self.keep_origins) {
            (0 | 1, _) => {}
            (hosts, false) => text += &format!("; {hosts} hosts merged into one"),
            (hosts, true) => {
                let shared: BTreeSet<usize> = page.coalesce.iter().copied().collect();
                text += &format!(", {hosts} hosts");
                if shared.len() < hosts {
                    text += &format!(", {} over HTTP/2 and HTTP/3", shared.len());
                }
            }
        }
        text.push(')');
        text += &self.heads.describe();
        if let Some(interval) = self.arrivals {
            let what = if self.arrivals_of_connections { "a connection's worth" } else { "one" };
            text += &format!(", {what} every {}", format_duration(interval));
        }
        if self.think {
            text += ", recorded think times";
        }
        match self.server_time {
            Some(time) if !time.is_zero() => text += &format!(", server time {}", format_duration(time)),
            None if page.objects.iter().any(|object| !self.server_time_of(object).is_zero()) => {
                text += ", recorded server times";
            }
            _ => {}
        }
        if self.serial_server {
            text += ", one request of a connection at a time";
        }
        if self.client == Client::Chromium {
            text += if self.visit == Visit::Repeat { ", by Chromium, repeat visit" } else { ", by Chromium" };
        }
        if let Some(span) = self.client_time {
            text += &format!(", client time {}", format_duration(span));
        }
        if let Some(span) = self.timeout {
            text += &format!(", timeout {}", format_duration(span));
        }
        if !self.start_jitter.is_zero() {
            text += &format!(", start delayed by up to {}", format_duration(self.start_jitter));
        }
        if !self.request_jitter.is_zero() {
            text += &format!(", requests delayed by up to {}", format_duration(self.request_jitter));
        }
        if self.varies {
            text += &format!(", {}", variation::SHORT);
        }
        text
    }
}

/// Interprets the plan keys `client` and `visit`.
fn browser(concrete: &Concrete) -> Result<(Client, Visit), PlanError> {
    let client = concrete.setting("client").map_or(Ok(Client::Plain), parse)?;
    let visit = concrete.setting("visit").map_or(Ok(Visit::First), parse)?;
    let others = ["objects", "bulk", "arrivals"].iter().find_map(|name| concrete.setting(name));
    if let (Client::Chromium, Some(setting), Some(other)) = (client, concrete.setting("client"), others) {
        let what = format!("chromium needs a page, in which it finds the objects; not with {}", other.place);
        return Err(PlanError::at(&setting.place, what));
    }
    if let (Client::Plain, Visit::Repeat, Some(setting)) = (client, visit, concrete.setting("visit")) {
        let what = "repeat goes with --client chromium: a plain client remembers nothing";
        return Err(PlanError::at(&setting.place, what));
    }
    let recorded = concrete.setting("think").filter(|setting| setting.value == "recorded");
    if let (Client::Chromium, Some(setting)) = (client, recorded) {
        let what =
            "recorded goes with --client plain: the recorded times contain waits that Chromium itself makes";
        return Err(PlanError::at(&setting.place, what));
    }
    Ok((client, visit))
}

/// Interprets the plan key `client-time`. Returns `None` for the usual time.
fn client_time(concrete: &Concrete, client: Client) -> Result<Option<Duration>, PlanError> {
    let Some(setting) = concrete.setting("client-time") else { return Ok(None) };
    if client == Client::Plain {
        let what = "goes with --client chromium: a plain client takes no time for a response";
        return Err(PlanError::at(&setting.place, what));
    }
    let span = time(setting)?;
    if span > MAX_JITTER {
        let what = format!("'{}': more than {}", setting.value, format_duration(MAX_JITTER));
        return Err(PlanError::at(&setting.place, what));
    }
    Ok(Some(span).filter(|span| *span != CHROMIUM.response))
}

/// Interprets the plan key `name`, which sets the maximum of a random delay.
fn jitter(concrete: &Concrete, name: &str) -> Result<Duration, PlanError> {
    let Some(setting) = concrete.setting(name) else { return Ok(Duration::ZERO) };
    let span = time(setting)?;
    if let Some(other) = ["bulk", "messages", "arrivals"].iter().find_map(|name| concrete.setting(name)) {
        let what =
            format!("goes with a page or objects, which wait for nothing else; not with {}", other.place);
        return Err(PlanError::at(&setting.place, what));
    }
    if span > MAX_JITTER {
        let what = format!("'{}': more than {}", setting.value, format_duration(MAX_JITTER));
        return Err(PlanError::at(&setting.place, what));
    }
    Ok(span)
}

/// The largest value that a plan may set as the maximum of a random delay. A longer delay would dominate the page time.
const MAX_JITTER: Duration = Duration::from_secs(60);

/// Rejects a page whose objects are all empty, because there would be nothing to compare. Accepts a page with some
/// empty objects.
fn check_not_empty(concrete: &Concrete, page: &Page) -> Result<(), PlanError> {
    let Some(setting) = ["page", "objects"].iter().find_map(|name| concrete.setting(name)) else {
        return Ok(());
    };
    if page.body_bytes() > 0 {
        return Ok(());
    }
    let objects = match page.objects.len() {
        1 => "its only object has".to_owned(),
        n => format!("its {n} objects have"),
    };
    let right = match setting.name.as_str() {
        "objects" => "write sizes such as 8x100kB".to_owned(),
        _ if Path::new(&setting.value).is_dir() => "write a directory whose files are not empty".to_owned(),
        _ => "export the HAR with sizes, or write --objects 8x100kB".to_owned(),
    };
    let what = format!("'{}': {objects} 0 bytes in all, nothing to transfer; {right}", setting.value);
    Err(PlanError::at(&setting.place, what))
}

/// Rejects keys that have no effect because of the other keys, so that the author of the plan notices the mistake.
fn check_effective(concrete: &Concrete) -> Result<(), PlanError> {
    if let Some(setting) = concrete.setting("arrivals-of").filter(|setting| setting.value != "objects")
        && concrete.setting("arrivals").is_none()
    {
        return Err(PlanError::at(&setting.place, "goes with arrivals only; write --arrivals 25/s"));
    }
    let sizes = ["objects", "bulk"].iter().find_map(|name| concrete.setting(name));
    for (name, value) in [("origins", "keep"), ("think", "recorded"), ("variation", "browser")] {
        if let (Some(setting), Some(sizes)) = (concrete.setting(name), sizes)
            && setting.value == value
        {
            let what = format!("{value} goes with a page, which has them; {} has none", sizes.place);
            return Err(PlanError::at(&setting.place, what));
        }
    }
    Ok(())
}

/// Formats a size with three significant digits and decimal units, for example `1.24 MB`.
#[must_use]
pub fn readable(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (bytes as f64 / 1e3, "kB"),
        1_000_000..1_000_000_000 => (bytes as f64 / 1e6, "MB"),
        _ => (bytes as f64 / 1e9, "GB"),
    };
    match value {
        v if v >= 100.0 => format!("{v:.0} {unit}"),
        v if v >= 10.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    }
}

fn page(concrete: &Concrete, sources: &mut Sources) -> Result<Arc<Page>, PlanError> {
    let first = first_object(concrete)?;
    if let Some(flow) = message_flow(concrete)? {
        let other = ["page", "objects"].iter().find_map(|name| concrete.setting(name));
        if let Some(setting) = other {
            return Err(PlanError::at(
                &setting.place,
                "cannot be combined with messages: give one of page, objects and messages",
            ));
        }
        return message_page(concrete, flow, sources);
    }
    let named: Vec<&Setting> =
        ["page", "objects", "bulk"].iter().filter_map(|name| concrete.setting(name)).collect();
    let setting = match named.as_slice() {
        [] => {
            let name = shipped::NAMES[0];
            return sources.page(format!("page {name}"), || read_page(name, "page", None));
        }
        [one] => *one,
        [one, other, ..] => {
            let what = format!("cannot be combined with {}: give one of page, objects and bulk", other.place);
            return Err(PlanError::at(&one.place, what));
        }
    };
    let number = har_page(concrete, setting)?;
    let name = format!("{} {} {number:?}", setting.name, setting.value);
    let page = sources.page(name.clone(), || match setting.name.as_str() {
        "page" => read_page(&setting.value, &setting.place, number.as_ref()),
        "objects" => Page::from_sizes(&setting.value).map_err(|error| PlanError::at(&setting.place, error)),
        _ => {
            let size = parse::<Bytes>(setting)?;
            let mut page = Page::from_sizes("1x1B").map_err(|error| PlanError::at(&setting.place, error))?;
            page.name = format!("bulk {size}");
            page.objects = vec![Object::new("/bulk", size.0)];
            page.validate().map_err(|error| PlanError::at(&setting.place, error))?;
            Ok(page)
        }
    })?;
    match first {
        None => Ok(page),
        Some((size, place)) => sources.page(format!("{name}, first {size}"), || {
            (*page).clone().with_first(size.0).map_err(|error| PlanError::at(place, error))
        }),
    }
}

/// Returns the size of the first object, and the flag or field that sets this size. All other objects of the workload
/// wait for the first object.
fn first_object(concrete: &Concrete) -> Result<Option<(Bytes, &str)>, PlanError> {
    let Some(setting) = concrete.setting("first-object").filter(|setting| setting.value != "none") else {
        return Ok(None);
    };
    let what = if concrete.setting("objects").is_none() {
        "needs objects: a page has a first object of its own, and nothing else has objects".to_owned()
    } else if let Some(other) = concrete.setting("arrivals") {
        format!(
            "cannot be combined with {}: objects that are requested at a rate wait for no other object",
            other.place
        )
    } else {
        return match setting.value.parse() {
            Ok(size) => Ok(Some((size, &setting.place))),
            Err(error) => Err(PlanError::at(&setting.place, format!("{error}; or none"))),
        };
    };
    Err(PlanError::at(&setting.place, what))
}

/// Returns the messages that are sent at a fixed rate, if the plan has any.
fn message_flow(concrete: &Concrete) -> Result<Option<MessageFlow>, PlanError> {
    let Some(rate) = concrete.setting("messages") else {
        return match ["size", "for"].iter().find_map(|name| concrete.setting(name)) {
            Some(setting) => {
                Err(PlanError::at(&setting.place, "goes with messages only; write --messages 100/s"))
            }
            None => Ok(None),
        };
    };
    let interval = interval(rate)?;
    let size = match concrete.setting("size") {
        None => 300,
        Some(setting) => {
            let size = parse::<Bytes>(setting)?.0;
            if !(MIN_SIZE as u64..=MAX_SIZE as u64).contains(&size) {
                let what = format!(
                    "'{}': write a size from {MIN_SIZE}B to {}",
                    setting.value,
                    Bytes(MAX_SIZE as u64)
                );
                return Err(PlanError::at(&setting.place, what));
            }
            size
        }
    };
    let (span, place) = match concrete.setting("for") {
        None => (Duration::from_secs(30), &rate.place),
        Some(setting) => (time(setting)?, &setting.place),
    };
    let count = nanos(span).div_ceil(nanos(interval).max(1));
    if count == 0 || count > MAX_MESSAGES {
        let what = format!("{count} messages; write a time and a rate that give from 1 to {MAX_MESSAGES}");
        return Err(PlanError::at(place, what));
    }
    Ok(Some(MessageFlow { interval, size, count: count as u32 }))
}

/// The name of the bulk transfer that runs at the same time as messages.
pub const BESIDE: &str = "/bulk";

/// The maximum number of messages in a run. The results have an object for each message.
const MAX_MESSAGES: u64 = 1_000_000;

/// Returns a page whose objects are the messages. If a bulk transfer runs at the same time, it is the last object.
fn message_page(
    concrete: &Concrete,
    flow: MessageFlow,
    sources: &mut Sources,
) -> Result<Arc<Page>, PlanError> {
    let setting = |name: &str| concrete.setting(name).map_or("", |setting| setting.value.as_str());
    let bulk = concrete.setting("bulk").map(parse::<Bytes>).transpose()?;
    let beside = bulk.map_or(String::new(), |size| format!(" beside a bulk transfer of {size}"));
    let span = if setting("for").is_empty() { "30s" } else { setting("for") };
    let name = format!("messages {} of {} for {span}{beside}", setting("messages"), Bytes(flow.size));
    sources.page(name.clone(), || {
        let mut page = Page::from_sizes("1x1B").map_err(|error| PlanError::at("messages", error))?;
        let object = |number| {
            let name = format!("/message-{number}");
            Object { request_head: 0, response_head: 0, ..Object::new(name, flow.size) }
        };
        page.name = name.clone();
        page.objects = (0..flow.count).map(object).collect();
        page.objects.extend(bulk.map(|size| Object {
            request_head: 0,
            response_head: 0,
            ..Object::new(BESIDE, size.0)
        }));
        Ok(page)
    })
}

/// Returns the number (counted from 1) of the page that the plan selects in a HAR file, and the flag or field that
/// selects it. Returns `None` if the plan selects no page.
fn har_page(concrete: &Concrete, source: &Setting) -> Result<Option<(usize, String)>, PlanError> {
    let Some(setting) = concrete.setting("har-page") else { return Ok(None) };
    if source.name != "page" {
        return Err(PlanError::at(
            &setting.place,
            format!("goes with --page FILE.har, not with {}", source.place),
        ));
    }
    match setting.value.parse::<usize>() {
        Ok(number) if number > 0 => Ok(Some((number, setting.place.clone()))),
        _ => Err(PlanError::at(&setting.place, format!("'{}': write a number from 1", setting.value))),
    }
}

/// Reads the page `text`: a page that comes with the program, a directory, or a HAR file. The three are tried in this
/// order. `number` selects a page of a HAR file that has several pages.
fn read_page(text: &str, place: &str, number: Option<&(usize, String)>) -> Result<Page, PlanError> {
    let path = Path::new(text);
    let is_stdin = text == file::STDIN;
    let is_har = is_stdin || (shipped::NAMES.iter().all(|name| *name != text) && path.is_file());
    if let Some((_, asked)) = number.filter(|_| !is_har) {
        return Err(PlanError::at(asked, format!("goes with a HAR file, and '{text}' is none")));
    }
    if let Some(page) = shipped::shipped(text) {
        return Ok(page);
    }
    let page = if is_stdin {
        let bytes = file::stdin().map_err(|error| PlanError::at(place, error))?;
        har::read_bytes("standard input", bytes, number.map(|(number, _)| *number))
    } else if path.is_dir() {
        directory::load(path)
    } else if path.exists() {
        har::load_page(path, number.map(|(number, _)| *number))
    } else {
        let names = shipped::NAMES.join(", ");
        let hint = hint(text, &shipped::NAMES);
        let what = format!(
            "'{text}': no such file{hint}; write a HAR file, a directory, or a shipped page ({names})"
        );
        return Err(PlanError::at(place, what));
    };
    let place = number.map_or(place, |(_, asked)| asked);
    page.map_err(|error| {
        // If the user named the page without a flag, `place` is the path of the page. The text of the error also begins
        // with this path, so the path is removed from the text.
        let line = error.to_string();
        PlanError::at(place, line.strip_prefix(&format!("{place}: ")).unwrap_or(&line))
    })
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(setting: &Setting) -> Result<T, PlanError> {
    setting.value.parse().map_err(|error| PlanError::at(&setting.place, error))
}

fn time(setting: &Setting) -> Result<Duration, PlanError> {
    parse_duration(&setting.value).map_err(|error| PlanError::at(&setting.place, error))
}

/// Parses a rate such as `25/s`, `0.5/s` or `90/min`, and returns the time between two arrivals.
fn interval(setting: &Setting) -> Result<Duration, PlanError> {
    parse_interval(&setting.value).map_err(|error| PlanError::at(&setting.place, error))
}
