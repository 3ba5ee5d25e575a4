//! Interprets the network keys of a plan, and makes a link for each path.

use super::concrete::{Concrete, Setting};
use super::draft::Draft;
use super::error::{PlanError, unknown};
use super::handover::{DepartureTime, Handover};
use super::sources::Sources;
use super::{draft, keys};
use anabranch_base::time::Duration;
use anabranch_base::units::format_duration;
use anabranch_link::spec::LossSpec;
use anabranch_link::{LinkSpec, PathOutage, SpecError};

/// The program that drops the packets selected by the loss models of a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LossBy {
    /// The simulated or emulated link drops the packets.
    #[default]
    Link,
    /// iptables rules with the match `statistic` drop the packets on the receiving host. Only the emulated network
    /// supports this.
    Iptables,
    /// A rule in the OUTPUT chain of the sending host drops the packets. In the emulated network this is a rule of
    /// iptables with the match `statistic`. TCP notices such a drop: the segment stays unsent. SCTP considers the
    /// packet sent, as Linux's SCTP does.
    IptablesOut,
}

impl LossBy {
    /// Returns whether iptables drops the packets, on the sending or the receiving host.
    #[must_use]
    pub const fn is_iptables(self) -> bool {
        matches!(self, Self::Iptables | Self::IptablesOut)
    }

    /// Interprets the plan key `loss-by`, which says which component drops packets.
    ///
    /// # Errors
    /// [`PlanError`] with the accepted values.
    pub fn interpret(concrete: &Concrete) -> Result<Self, PlanError> {
        let Some(setting) = concrete.setting("loss-by") else { return Ok(Self::default()) };
        match setting.value.as_str() {
            "link" => Ok(Self::Link),
            "iptables" => Ok(Self::Iptables),
            "iptables-out" => Ok(Self::IptablesOut),
            other => {
                Err(PlanError::at(&setting.place, format!("'{other}': write link, iptables or iptables-out")))
            }
        }
    }
}

/// Returns whether a round trip on this path takes no time at all.
pub(super) fn takes_no_time(path: &LinkSpec) -> bool {
    [&path.up, &path.down].into_iter().all(|side| {
        side.rate.first().is_none() && side.trace.is_none() && side.delay.is_zero() && side.jitter.is_zero()
    })
}

/// The network at one point of the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// The paths, each of which has a link of its own. There is at least one path.
    pub paths: Vec<LinkSpec>,
    /// The failures of paths. The outages of `paths` already include them. They are kept here to compute the failover
    /// time.
    pub fails: Vec<PathOutage>,
    /// The move of the client from the first path to the second, if there is one.
    pub handover: Option<Handover>,
}

impl Network {
    /// Returns the network that the keys of `concrete` describe.
    ///
    /// # Errors
    /// [`PlanError`] that names the flag or field.
    pub fn interpret(concrete: &Concrete, sources: &mut Sources) -> Result<Self, PlanError> {
        Self::upon(&LinkSpec::default(), concrete, sources)
    }

    /// Returns the network that the keys of `concrete` describe. If a property of a link has no key in `concrete`, its
    /// value comes from `base`.
    ///
    /// # Errors
    /// [`PlanError`] that names the flag or field.
    pub fn upon(base: &LinkSpec, concrete: &Concrete, sources: &mut Sources) -> Result<Self, PlanError> {
        let shared: Vec<Setting> = concrete.network();
        let mut paths = Vec::new();
        if concrete.paths.is_empty() {
            paths.push(link(base, &shared, sources)?);
        }
        for path in &concrete.paths {
            let accepted = draft::path_keys();
            for own in path {
                if !accepted.contains(&own.name.as_str()) {
                    let place = own.place.trim_end_matches(&own.name).trim_end_matches(": ");
                    return Err(PlanError::at(place, unknown("key", &own.name, &accepted)));
                }
            }
            // A setting of a single path overrides the setting of the same name that applies to all paths.
            let displaced = |old: &Setting| {
                path.iter().any(|own| own.name == old.name || draft::displaces(&own.name, &old.name))
            };
            let inherited = shared.iter().filter(|old| !displaced(old));
            let settings: Vec<Setting> = inherited.chain(path).cloned().collect();
            paths.push(link(base, &settings, sources)?);
        }
        let handover = Handover::interpret(concrete, &mut paths)?;
        let mut fails = Vec::new();
        for (text, place) in &concrete.fails {
            let fail: PathOutage = text.parse().map_err(|e: SpecError| PlanError::at(place, e))?;
            let Some(path) = fail.path.checked_sub(1).and_then(|i| paths.get_mut(i)) else {
                let n = paths.len();
                let some =
                    if n == 1 { "there is one path".to_owned() } else { format!("there are {n} paths") };
                return Err(PlanError::at(place, format!("path {}: {some}, numbered from 1", fail.path)));
            };
            if fail.span.is_some_and(|span| span.is_zero()) {
                let what = "for=0s: no time; write how long, such as for=5s, or leave it out: for good";
                return Err(PlanError::at(place, what));
            }
            path.fail(&fail);
            fails.push(fail);
        }
        Ok(Self { paths, fails, handover })
    }

    /// Returns the number of the path that fails first, counted from 1, and the time of its failure. If the client
    /// leaves the first path at a fixed time, this counts as a failure of the first path.
    #[must_use]
    pub fn first_failure(&self) -> Option<(u64, Duration)> {
        let fails = self.fails.iter().map(|fail| (fail.at, fail.path as u64));
        let left = self.handover.as_ref().and_then(|handover| match handover.leaves {
            DepartureTime::At(at) => Some((at, 1)),
            DepartureTime::Random => None,
        });
        fails.chain(left).min().map(|(at, path)| (path, at))
    }

    /// Returns a description of the network in one line, for the heading of the table of results.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let alike = self.handover.is_some() && self.paths.windows(2).all(|pair| pair[0] == pair[1]);
        for (i, path) in self.paths.iter().enumerate() {
            let text = one_line(path);
            match (self.paths.len(), alike) {
                (1, _) => parts.push(text),
                (_, false) => parts.push(format!("path {}: {text}", i + 1)),
                (_, true) if i == 0 => parts.push(format!("both networks: {text}")),
                _ => {}
            }
        }
        parts.extend(self.handover.as_ref().map(Handover::describe));
        for fail in &self.fails {
            let span =
                fail.span.map_or(" for good".to_owned(), |span| format!(" for {}", format_duration(span)));
            parts.push(format!("path {} fails at {}{span}", fail.path, format_duration(fail.at)));
        }
        parts.join("; ")
    }
}

/// Creates a link from its settings. Errors name the setting that caused them.
fn link(base: &LinkSpec, settings: &[Setting], sources: &mut Sources) -> Result<LinkSpec, PlanError> {
    let mut link = base.clone();
    // More specific keys must override less specific keys. A preset is therefore applied first, then the keys for both
    // directions, and then the keys for one direction.
    let rank = |name: &str| match name {
        "preset" => 0,
        name => 1 + usize::from(keys::find(name).is_some_and(|key| key.both.is_some())),
    };
    let mut ordered: Vec<&Setting> = settings.iter().collect();
    ordered.sort_by_key(|setting| rank(&setting.name));
    for setting in ordered {
        link.set(&setting.name, &setting.value).map_err(|error| {
            let line = error.to_string();
            let bare = setting.name.trim_start_matches("up-").trim_start_matches("down-");
            let line = line.strip_prefix(&format!("{bare}: ")).unwrap_or(&line);
            PlanError::at(&setting.place, line)
        })?;
    }
    // If settings contradict each other, the error names the keys that the user gave, and not the defaults.
    let said =
        settings.iter().map(|setting| setting.place.as_str()).filter(|place| !place.starts_with("default "));
    let place = said.collect::<Vec<_>>().join(", ");
    link.load_traces(|name| sources.trace(name)).map_err(|error| PlanError::at(&place, error))?;
    link.check().map_err(|error| PlanError::at(&place, error))?;
    Ok(link)
}

/// Formats a link in one line, for example `10mbit, rtt 80ms, loss 1%, queue 1bdp`. If the directions differ in a
/// property, both values are shown.
fn one_line(link: &LinkSpec) -> String {
    let mut text = link.to_string().replace(',', ", ").replace('=', " ");
    if link.up.delay == link.down.delay {
        let one_way = format!("delay {}", format_duration(link.up.delay));
        text = text.replace(&one_way, &format!("rtt {}", format_duration(link.rtt())));
    }
    let traces = [&link.up, &link.down].map(|side| side.trace.as_ref().and_then(|spec| spec.trace.as_ref()));
    for (what, has) in [
        ("rtt", traces.iter().flatten().any(|trace| trace.delays().is_some())),
        ("loss", traces.iter().flatten().any(|trace| trace.losses().is_some())),
    ] {
        if has {
            text += &format!(", {what} of the trace");
        }
    }
    text.strip_prefix("rate ").map_or(text.clone(), str::to_owned)
}

/// Returns a warning if the plan names a network that loses packets in bursts, and a share of packets to lose instead,
/// each independently of the others.
pub(super) fn without_bursts(draft: &Draft) -> Option<String> {
    let is_share = |level: &String| matches!(level.parse(), Ok(LossSpec::Bernoulli(_)));
    let mut keys = ["loss", "up-loss", "down-loss"].iter().filter_map(|key| draft.value(key));
    let given = keys.find(|given| given.levels.iter().any(is_share))?;
    let has_bursts = |name: &&String| {
        let link = LinkSpec::parse(&format!("preset={name}"));
        link.is_ok_and(|link| matches!(link.down.loss, LossSpec::GilbertElliott { .. }))
    };
    let name = draft.value("preset")?.levels.iter().find(has_bursts)?;
    Some(format!(
        "{}: {name} loses packets in bursts, and this loses each independently; ge:1%/50% enters a burst at 1 % of the \
         packets and leaves it at 50 %",
        given.place
    ))
}
