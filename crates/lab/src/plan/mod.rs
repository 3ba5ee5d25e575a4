//! A plan describes a race: the network, the workload, the contestants and the seeds. It comes from flags or a TOML
//! file. All mistakes in a plan are reported before anything runs.
//!
//! [`draft`] holds the plan as it was written, and [`keys`] is the only table of its keys. [`concrete`] makes the
//! combinations of factor levels, and [`outline`] turns each into a point, which is the plan for one set of conditions.
//! [`network`], [`workload`], [`contestant`] and [`expect`] interpret the values. Every error is one line that names
//! the flag or the field of the file, and says what to write instead.

mod bare;
pub mod bounds;
pub mod causes;
pub mod concrete;
pub mod contestant;
pub mod draft;
pub mod error;
pub mod expect;
pub mod file;
pub mod handover;
pub mod harmful;
pub mod heads;
pub mod http2;
pub mod http3;
pub mod keys;
pub mod named;
pub mod network;
pub mod outline;
pub mod population;
mod renamed;
pub mod security;
pub mod sources;
pub mod variation;
pub mod workload;

pub use bare::{BARE_RACE, CLEARTEXT_RACE, DefaultConditions, STANDARD, current_name};
pub use contestant::{BackgroundTraffic, Contestant};
pub use draft::Draft;
pub use error::PlanError;
pub use handover::Handover;
pub use http2::Http2;
pub use network::{LossBy, Network};
pub use outline::Outline;
pub use security::{Dtls, Security};
pub use workload::Workload;

use anabranch_base::Bytes;
use anabranch_http::browser::Visit;
use anabranch_link::LinkSpec;
use anabranch_link::spec::LossSpec;
use anabranch_results::World;
use anabranch_transports::Transports;
use causes::{CauseClaim, Causes};
use concrete::{Combinations, Concrete};
use expect::Expect;
use named::InputKind;
use sources::Sources;
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// A plan whose values have been interpreted.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The points of the plan: one for each combination of factor levels.
    pub points: Vec<PointPlan>,
    /// The contestants. The first one is the baseline with which the other contestants are compared.
    pub contestants: Vec<Contestant>,
    /// Whether all contestants share the network at the same time.
    pub together: bool,
    /// The background traffic, if there is any.
    pub cross: Option<BackgroundTraffic>,
    /// The seeds. Each contestant runs once with each seed at each point.
    pub seeds: Vec<u64>,
    /// The expectations that the results must meet.
    pub expects: Vec<Expect>,
    /// The effort of the search for causes of differences between contestants.
    pub causes: Causes,
    /// Claims in the plan that a certain change to a contestant has a certain effect.
    pub claims: Vec<CauseClaim>,
    /// Where the plan runs: in the simulated network or the emulated network.
    pub world: World,
    /// The contestants that stand for the browser that recorded a page: for HTTP/1.1, HTTP/2 and HTTP/3, each without TLS
    /// and with it. `None` if the transport is not available.
    pub recorded_by: [[Option<Contestant>; 2]; 3],
    /// The plan as it was written, with the defaults filled in.
    pub draft: Draft,
}

/// A combination of factor levels, with its network and workload.
#[derive(Clone, Debug)]
pub struct PointPlan {
    /// The level of each factor, by the name of the factor.
    pub factors: BTreeMap<String, String>,
    /// The network of this point.
    pub network: Network,
    /// The workload of this point: the data that is transferred.
    pub workload: Workload,
    /// The program that drops the packets that the loss models select.
    pub loss_by: LossBy,
    /// Whether both ends of the path are the same host. Only the emulated network supports this.
    pub one_host: bool,
    /// Whether both ends of the path share one processor. Only the simulated network supports this.
    pub one_processor: bool,
}

impl PointPlan {
    /// Returns whether a simulated run depends on its seed.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.workload.has_chance() || self.has_random_network()
    }

    /// Returns whether the behaviour of the network depends on the seed.
    #[must_use]
    pub fn has_random_network(&self) -> bool {
        let network = &self.network;
        network.paths.iter().any(LinkSpec::is_random)
            || network
                .handover
                .as_ref()
                .is_some_and(|handover| handover.leaves == handover::DepartureTime::Random)
    }

    /// Returns n if the only path drops every n-th packet, with one packet count for both directions, and if nothing
    /// else is random. The seed then decides only which packet is dropped first, so there are n distinct runs. Returns
    /// `None` for any other point.
    #[must_use]
    pub fn cases(&self) -> Option<u64> {
        let [path] = self.network.paths.as_slice() else { return None };
        let LossSpec::Nth { every, first: None, shared: true } = path.up.loss else { return None };
        let mut rest = self.clone();
        for path in &mut rest.network.paths {
            (path.up.loss, path.down.loss) = (LossSpec::None, LossSpec::None);
        }
        (!rest.is_random()).then_some(every)
    }

    /// Returns a copy of the point whose workload has the random delays and sizes of `seed`. Returns `None` if the
    /// workload has none.
    #[must_use]
    pub fn of_seed(&self, seed: u64) -> Option<Self> {
        self.workload.of_seed(seed).map(|workload| Self { workload, ..self.clone() })
    }
}

impl Plan {
    /// Interprets a plan. Its contestants may use only the given transports.
    ///
    /// # Errors
    /// [`PlanError`] for the first mistake that is found.
    pub fn interpret(draft: Draft, transports: &Transports) -> Result<Self, PlanError> {
        Outline::interpret(draft, transports)?.into_plan()
    }

    /// Returns the plan as the text of a TOML file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.draft.to_toml()).unwrap_or_default()
    }

    /// Returns the number of runs: points times contestants times seeds. Contestants that share a network run together,
    /// so they count as one.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.points.len() * self.seeds.len() * if self.together { 1 } else { self.contestants.len() }
    }

    /// Returns warnings to print next to the results, for example that an entry of a page cannot be used.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let of_plan = [unnamed(&self.draft), network::without_bursts(&self.draft)].into_iter().flatten();
        of_plan.chain(warnings(&self.contestants, self.points.iter())).collect()
    }
}

/// Returns the warnings about these contestants and these points of the plan.
fn warnings<P: Borrow<PointPlan>>(
    contestants: &[Contestant],
    points: impl Iterator<Item = P> + Clone,
) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    let mut add = |warning: String| {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    };
    for point in points.clone() {
        let workload = &point.borrow().workload;
        let page = &workload.page;
        page.warnings.iter().for_each(|line| add(format!("{}: {line}", page.name)));
        if workload.think && page.objects.iter().all(|object| object.think.is_zero()) {
            add(format!("{}: no think times are recorded, so --think recorded changes nothing", page.name));
        }
        if workload.messages.is_some() || workload.bulk.is_some() {
            let most = workload::MAX_CONNECTIONS;
            for contestant in contestants.iter().filter(|contestant| contestant.connections() > most) {
                let label = &contestant.label;
                add(format!("{label}: messages and bulk transfers open {most} connections at most"));
            }
        }
    }
    for contestant in contestants {
        let told = harmful::warnings_for(contestant, points.clone());
        warnings.extend(told.into_iter().map(|(_, said)| format!("{}: {said}", contestant.text)));
    }
    warnings
}

/// Checks that a contestant is compatible with the network and the workload of a point.
///
/// # Errors
/// [`PlanError`] that names the contestant.
pub(crate) fn fits(contestant: &Contestant, point: &PointPlan) -> Result<(), PlanError> {
    let closes = contestant.policy(point.workload.arrivals.is_some())?.objects_per_connection.is_some();
    point
        .workload
        .heads
        .check(&point.workload.page, closes)
        .map_err(|(key, what)| PlanError::at(&contestant.place, format!("{key} {what}")))?;
    let paths = point.network.paths.len();
    if contestant.paths.is_some_and(|n| n > paths) {
        let what = format!("paths={}: the network has {paths}", contestant.paths.unwrap_or(0));
        return Err(PlanError::at(&contestant.place, what));
    }
    if contestant.changes_address() && !contestant.sends_address_updates() {
        let workload = &point.workload;
        let needed = [
            (point.network.handover.is_some(), "handover: nobody moves"),
            (
                workload.bulk.is_none() && workload.messages.is_none(),
                "a page: nothing else is asked for again",
            ),
        ];
        if let Some((_, what)) = needed.iter().find(|(there, _)| !there) {
            return Err(PlanError::at(
                &contestant.place,
                format!("reconnect=yes needs {what}; leave it out"),
            ));
        }
    }
    if point.workload.visit == Visit::Repeat && contestant.sets_resume() {
        let what = "resume: with --visit repeat the browser resumes all TLS sessions; leave one of them out";
        return Err(PlanError::at(&contestant.place, what));
    }
    let whole = anabranch_transport::Delivery::default();
    if point.workload.messages.is_none() && contestant.delivery != whole {
        let what = "unordered, lifetime and retransmissions go with messages only: HTTP and bulk need every \
                    byte, in order";
        return Err(PlanError::at(&contestant.place, what));
    }
    if point.workload.messages.is_some()
        && contestant.transport.capabilities().streams == anabranch_transport::Streams::Fresh
    {
        let what = "messages go on streams that the server begins, which this transport does not support; race a page or bulk";
        return Err(PlanError::at(&contestant.place, what));
    }
    if point.workload.messages.is_some()
        && let Some(key) = contestant.fetch_keys().first()
    {
        let what = format!("{key} is about requests, and messages have none; leave it out");
        return Err(PlanError::at(&contestant.place, what));
    }
    if let Some(size) = point.workload.bulk.filter(|_| point.workload.messages.is_none())
        && contestant.connections() as u64 > size
    {
        let (connections, size) = (contestant.connections(), Bytes(size));
        let what = format!("connections={connections}: more than there are bytes in --bulk {size}");
        return Err(PlanError::at(&contestant.place, what));
    }
    if let (Some(size), Some(most)) = (point.workload.message_size, contestant.engine.largest_message())
        && size > most
    {
        let (size, most) = (Bytes(size), Bytes(most));
        let what = format!("message-size {size}: more than its send buffer, sndbuf={most}");
        return Err(PlanError::at(&contestant.place, what));
    }
    if let (Some(flow), Some(most)) = (&point.workload.messages, contestant.engine.largest_message())
        && flow.size > most
    {
        let (size, most) = (Bytes(flow.size), Bytes(most));
        let what =
            format!("messages of {size}: more than its send buffer, sndbuf={most}; set a larger sndbuf");
        return Err(PlanError::at(&contestant.place, what));
    }
    Ok(())
}

/// Which network properties a plan's traces record, in addition to the rate.
#[derive(Default)]
struct Recorded {
    rtt: bool,
    loss: bool,
}

/// Returns which network properties the traces named by `draft` record. A plan key for such a property gets no default.
/// An unreadable trace counts as a trace without them. The error is reported when the network is interpreted.
fn recorded(draft: &Draft) -> Recorded {
    let is_trace = |name: &str| matches!(name, "trace" | "up-trace" | "down-trace");
    let given = draft.given.iter().filter(|given| is_trace(given.key.name)).flat_map(|given| &given.levels);
    let own = draft.paths.iter().flat_map(|path| &path.entries).filter(|(key, _)| is_trace(key));
    let mut recorded = Recorded::default();
    for name in given.chain(own.flat_map(|(_, levels)| levels)) {
        if let Ok(trace) = Sources::default().trace(name) {
            recorded.rtt |= trace.delays().is_some();
            recorded.loss |= trace.losses().is_some();
        }
    }
    recorded
}

/// Writes all defaults into the plan, so that it has the same meaning in later versions. The value of a
/// default never depends on other keys, so writing the defaults does not change the meaning of the plan.
fn completed(mut draft: Draft, transports: &Transports) -> Draft {
    let spoken = |draft: &Draft, names: &[&str]| {
        let in_path =
            |name: &str| draft.paths.iter().any(|path| path.entries.iter().any(|(key, _)| key == name));
        names.iter().any(|name| draft.value(name).is_some() || in_path(name))
    };
    let add = |draft: &mut Draft, name: &str, levels: &[&str]| {
        if let Some(key) = keys::find(name) {
            let place = format!("default {name}");
            let levels = levels.iter().map(|&level| level.to_owned()).collect();
            draft.given.push(draft::GivenKey { key, levels, place });
        }
    };
    let drawn = draft.value("population").is_some();
    let recorded = recorded(&draft);
    if !spoken(&draft, &["preset"]) {
        let rate = ["rate", "up-rate", "down-rate", "trace", "up-trace", "down-trace", "network"];
        if !drawn && !spoken(&draft, &rate) {
            add(&mut draft, "rate", &["10mbit"]);
        }
        if !drawn && !recorded.rtt && !spoken(&draft, &["delay", "rtt", "up-delay", "down-delay", "network"])
        {
            add(&mut draft, "rtt", &["80ms"]);
        }
        for (name, value) in [("queue", "1bdp"), ("mtu", "1500")] {
            let known = spoken(&draft, &[name]) || (drawn && name == "queue");
            if !known {
                add(&mut draft, name, &[value]);
            }
        }
        if !drawn && !recorded.loss && !spoken(&draft, &["loss", "up-loss", "down-loss"]) {
            // The default has two levels of loss, because the results must show the effect of loss.
            add(&mut draft, "loss", &["0", "1%"]);
        }
    }
    if spoken(&draft, &["messages"]) {
        for (name, value) in [("size", "300B"), ("for", "30s")] {
            if !spoken(&draft, &[name]) {
                add(&mut draft, name, &[value]);
            }
        }
    } else if !drawn && !spoken(&draft, &["page", "objects", "bulk"]) {
        add(&mut draft, "page", &[anabranch_http::har::shipped::NAMES[0]]);
    }
    let has_page = spoken(&draft, &["page"]);
    let emulated = draft.value("world").is_some_and(|given| given.levels == ["emulated"]);
    // In the emulated network, all hosts of a page are on one server, and no variation is simulated, because real loads
    // vary anyway.
    let simulated_page = has_page && !emulated;
    let arrivals = spoken(&draft, &["arrivals"]);
    // The default client for a page is a browser. The pages of a population are objects without a structure, so their
    // default client is `plain`.
    let client = if has_page && !arrivals { "chromium" } else { "plain" };
    for (name, value) in [("client", client), ("visit", "first")] {
        if draft.value(name).is_none() {
            add(&mut draft, name, &[value]);
        }
    }
    if !spoken(&draft, &["origins"]) {
        add(&mut draft, "origins", &[if simulated_page { "keep" } else { "merge" }]);
    }
    if has_page && !spoken(&draft, &["server-time"]) {
        add(&mut draft, "server-time", &["recorded"]);
    }
    if has_page && !spoken(&draft, &["variation"]) {
        add(&mut draft, "variation", &[if simulated_page && !arrivals { "browser" } else { "none" }]);
    }
    for (name, value) in [("runs", "100"), ("seed", "1")] {
        if draft.value(name).is_none() {
            add(&mut draft, name, &[value]);
        }
    }
    if draft.transports.is_empty() {
        let bare = bare(&draft).contestants(transports).into_iter();
        draft.transports = bare.map(|text| (text.to_owned(), DEFAULT.to_owned())).collect();
    }
    draft.transports.append(&mut draft.also);
    if draft.value("messages").is_some() {
        for (text, _) in &mut draft.transports {
            *text = bare::for_messages(text);
        }
    }
    // Removes from the written plan the settings in `plain`, if they have their default values.
    let plain = [
        ("world", "virtual"),
        ("causes", "quick"),
        ("hosts", "two"),
        ("processors", "two"),
        ("cleartext", "no"),
    ];
    draft.given.retain(|given| {
        !plain.iter().any(|(name, value)| given.key.name == *name && given.levels == [*value])
    });
    // Sorts the keys as in the table of keys, so that plans written in a different order become equal.
    let position = |given: &draft::GivenKey| keys::KEYS.iter().position(|key| key == given.key);
    draft.given.sort_by_key(position);
    draft
}

/// The `place` of a default contestant. The `place` of any other contestant is the flag or field that gave it.
const DEFAULT: &str = "default";

/// Returns the properties of the plan on which its default contestants depend.
fn bare(draft: &Draft) -> DefaultConditions {
    let is = |name: &str, value: &str| {
        draft.value(name).is_some_and(|given| given.levels.iter().any(|it| it == value))
    };
    DefaultConditions {
        cleartext: is("cleartext", "yes"),
        several_paths: draft.paths.len() > 1 || draft.value("handover").is_some(),
        messages: draft.value("messages").is_some(),
        emulated: is("world", "emulated"),
    }
}

/// Returns a warning if the plan has several networks and its contestants are the default ones. The default contestants
/// do not encrypt over several networks.
fn unnamed(draft: &Draft) -> Option<String> {
    let bare = bare(draft);
    let several = bare.several_paths && !bare.cleartext;
    (several && draft.transports.iter().any(|(_, place)| place == DEFAULT)).then(|| {
        "several networks: the contestants are in the clear, as an association under DTLS has one path (RFC 8261)"
            .to_owned()
    })
}

fn switch(concrete: &Concrete, name: &str) -> Result<bool, PlanError> {
    match concrete.setting(name) {
        None => Ok(false),
        Some(setting) => match setting.value.as_str() {
            "yes" => Ok(true),
            "no" => Ok(false),
            other => Err(PlanError::at(&setting.place, format!("'{other}': write yes or no"))),
        },
    }
}

fn world(concrete: &Concrete) -> Result<World, PlanError> {
    let Some(setting) = concrete.setting("world") else { return Ok(World::Virtual) };
    match setting.value.as_str() {
        "virtual" => Ok(World::Virtual),
        "emulated" => Ok(World::Emulated),
        other => Err(PlanError::at(&setting.place, format!("'{other}': write virtual or emulated"))),
    }
}

/// Returns whether the plan puts client and server on the same host.
fn one_host(concrete: &Concrete) -> Result<bool, PlanError> {
    let Some(setting) = concrete.setting("hosts") else { return Ok(false) };
    match setting.value.as_str() {
        "two" => Ok(false),
        "one" if concrete.paths.len() > 1 => {
            Err(PlanError::at(&setting.place, "one: goes with one path; the ends of several are two hosts"))
        }
        "one" => Ok(true),
        other => Err(PlanError::at(&setting.place, format!("'{other}': write two or one"))),
    }
}

/// Returns whether the plan makes client and server share one processor.
fn one_processor(concrete: &Concrete) -> Result<bool, PlanError> {
    let Some(setting) = concrete.setting("processors") else { return Ok(false) };
    match setting.value.as_str() {
        "two" => Ok(false),
        "one" => Ok(true),
        other => Err(PlanError::at(&setting.place, format!("'{other}': write two or one"))),
    }
}

fn causes(concrete: &Concrete) -> Result<Causes, PlanError> {
    let Some(setting) = concrete.setting("causes") else { return Ok(Causes::default()) };
    match setting.value.as_str() {
        "quick" => Ok(Causes::Quick),
        "full" => Ok(Causes::Full),
        "off" => Ok(Causes::Off),
        other => Err(PlanError::at(&setting.place, format!("'{other}': write quick, full or off"))),
    }
}

fn seeds(concrete: &Concrete) -> Result<Vec<u64>, PlanError> {
    let number = |name: &str, range: std::ops::RangeInclusive<u64>| -> Result<u64, PlanError> {
        let Some(setting) = concrete.setting(name) else { return Ok(*range.start()) };
        let accepted = setting.value.parse().ok().filter(|n| range.contains(n));
        accepted.ok_or_else(|| {
            let (low, high, text) = (range.start(), range.end(), &setting.value);
            PlanError::at(&setting.place, format!("'{text}': write a number from {low} to {high}"))
        })
    };
    let runs = number("runs", 1..=1_000_000)?;
    let first = number("seed", 0..=u64::from(u32::MAX))?;
    Ok((first..first + runs).collect())
}

/// Returns the network that command-line flags describe. Properties that the flags leave out are not emulated. A key
/// with several values is an error.
///
/// # Errors
/// [`PlanError`] for the first mistake that is found.
pub fn bare_network<'a>(flags: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Network, PlanError> {
    let draft = Draft::from_flags(flags)?;
    let several = draft.given.iter().find(|given| given.levels.len() > 1);
    if let Some(several) = several {
        let what = "a link has one value of each kind; a list of them is for race";
        return Err(PlanError::at(&several.place, what));
    }
    let concrete = Combinations::of(&draft)?.at(0);
    Network::upon(&LinkSpec::transparent(), &concrete, &mut Sources::default())
}

/// Returns the plan that `file` and the flags describe. `file` is a plan, or a page in any form that `--page` accepts.
/// Flags override the settings of the file. `transports` are the transports that contestants may use.
///
/// # Errors
/// [`PlanError`] if the file cannot be read, if it is neither a plan nor a page, or if the file or a flag has a
/// mistake.
pub fn read<'a>(
    file: Option<&str>,
    flags: impl IntoIterator<Item = (&'a str, &'a str)>,
    transports: &Transports,
) -> Result<Outline, PlanError> {
    let flags = Draft::from_flags(flags)?;
    let draft = match file {
        None => flags,
        Some(name) => match named::identify(name)? {
            InputKind::Plan(text) => Draft::from_toml(name, &text)?.overlaid(flags),
            InputKind::Page => flags.with_page(name)?,
        },
    };
    Outline::interpret(draft, transports)
}
