//! A plan that makes its points on demand, one at a time, instead of storing all of them. It holds the lists of factor
//! levels, and the pages and traces that were read.
//!
//! Before the first run, points are made once, to report mistakes in them. In a plan without a population, these are
//! all points. In a plan with a population, each point belongs to one person, and only the points of a few people are
//! made.
//!
//! During the runs, a race keeps its few points in memory, see [`into_plan`](Outline::into_plan). A sweep makes each
//! point again just before the point's runs.

use super::bare::RECORDED;
use super::causes::{CauseClaim, Causes};
use super::concrete::{Combinations, Concrete, Setting};
use super::expect::Expect;
use super::population::{CHECKED, People};
use super::sources::Sources;
use super::workload::Workload;
use super::{
    BackgroundTraffic, Contestant, DEFAULT, Draft, LossBy, Network, Plan, PlanError, PointPlan, bounds,
    causes, completed, fits, network, seeds, switch, warnings, world,
};
use anabranch_report::people::tally::PERSON;
use anabranch_results::World;
use anabranch_transports::Transports;
use std::cell::RefCell;

/// An interpreted plan whose points are held as lists of factor levels.
#[derive(Debug)]
pub struct Outline {
    plan: Plan,
    /// How thoroughly the program searches for causes. In a plan with a population, the program searches only for a
    /// sample of the people ([`People::is_explained`]).
    causes: Causes,
    points: Points,
}

/// The points of a plan, which are made on demand.
#[derive(Debug)]
struct Points {
    combinations: Combinations,
    /// The population, if each point is a person. Each person has their own network and page.
    people: Option<People>,
    sources: RefCell<Sources>,
}

impl Points {
    fn count(&self) -> usize {
        self.combinations.count().saturating_mul(self.people.as_ref().map_or(1, People::count))
    }

    /// Converts the index of a point to the index of its combination of factor levels and the index of its person. All
    /// three indices are counted from 0. The person varies fastest.
    fn combination_and_person(&self, index: usize) -> (usize, usize) {
        let people = self.people.as_ref().map_or(1, People::count);
        (index / people, index % people)
    }

    fn at(&self, index: usize) -> Result<PointPlan, PlanError> {
        let (combination, person) = self.combination_and_person(index);
        let mut concrete = self.combinations.at(combination);
        // With a population, each point has a page of its own. Therefore the page is not cached for other points.
        let (mut own, mut shared) = (Sources::default(), self.sources.borrow_mut());
        let sources = match &self.people {
            Some(people) => {
                people.apply(person, &mut concrete);
                &mut own
            }
            None => &mut *shared,
        };
        recorded_network(&mut concrete, sources)?;
        let network = Network::interpret(&concrete, sources)?;
        let workload = Workload::interpret(&concrete, sources)?;
        if let Some(handover) = &network.handover {
            handover.check(&concrete, workload.deadline)?;
        }
        Ok(PointPlan {
            network,
            workload,
            loss_by: LossBy::interpret(&concrete)?,
            one_host: super::one_host(&concrete)?,
            one_processor: super::one_processor(&concrete)?,
            factors: concrete.factors,
        })
    }

    /// Makes the points that are checked before the first run. In a plan without a population, these are all points. In
    /// a plan with a population, these are, for each combination of factor levels, the points of the first [`CHECKED`]
    /// people. They stand for all people, because all people are drawn from the same quantiles. These quantiles were
    /// checked when the population was read.
    fn checked(&self) -> impl Iterator<Item = Result<PointPlan, PlanError>> + Clone {
        self.to_check().map(|index| self.at(index))
    }

    /// Returns the indices, counted from 0, of the points that are checked before the first run.
    fn to_check(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.count())
            .filter(|index| self.people.is_none() || self.combination_and_person(*index).1 < CHECKED)
    }

    fn iter(&self) -> impl Iterator<Item = Result<PointPlan, PlanError>> + Clone {
        (0..self.count()).map(|index| self.at(index))
    }
}

/// Sets the round-trip time and the rate to those of a recorded page, if the plan asks for the recorded network. Keys
/// that the plan sets itself are not changed.
fn recorded_network(concrete: &mut Concrete, sources: &mut Sources) -> Result<(), PlanError> {
    let Some(setting) = concrete.setting("network").cloned() else { return Ok(()) };
    let wrong = |what: &str| Err(PlanError::at(&setting.place, what));
    if setting.value != "recorded" {
        return wrong(&format!(
            "'{}': write recorded, or the network's own keys such as --rate",
            setting.value
        ));
    }
    if !concrete.paths.is_empty() || concrete.setting("preset").is_some() {
        return wrong("recorded: gives the rate and round trip of one path; leave out --path and --preset");
    }
    let page = Workload::interpret(concrete, sources)?.page;
    let Some(recording) = &page.recording else {
        return wrong(
            "recorded: the page has no recorded times; write --rtt and --rate, or race a browser's HAR",
        );
    };
    let has = |names: &[&str]| names.iter().any(|name| concrete.setting(name).is_some());
    let mut found = Vec::new();
    if !has(&["rtt", "delay", "up-delay", "down-delay"]) {
        match recording.rtt_ns {
            Some(rtt) => found.push(("rtt", format!("{}us", (rtt.value / 100_000).max(1) * 100))),
            None => return wrong("recorded: no entry of the HAR opened a connection; write --rtt"),
        }
    }
    if !has(&["rate", "up-rate", "down-rate", "trace", "up-trace", "down-trace"]) {
        match recording.rate_bps {
            Some(rate) => found.push(("rate", format!("{}kbit", (rate.value / 1000).max(1)))),
            None => return wrong("recorded: the HAR has too few bytes to tell the rate; write --rate"),
        }
    }
    concrete.settings.extend(found.into_iter().map(|(name, value)| Setting {
        name: name.to_owned(),
        value,
        place: setting.place.clone(),
    }));
    Ok(())
}

impl Outline {
    /// Interprets a plan that may use the given transports.
    ///
    /// # Errors
    /// [`PlanError`] for the first mistake that is found.
    pub fn interpret(draft: Draft, transports: &Transports) -> Result<Self, PlanError> {
        let mut draft = completed(draft, transports);
        draft.rename_knobs(transports);
        let mut contestants: Vec<Contestant> = Vec::new();
        for (text, place) in &draft.transports {
            let contestant = Contestant::parse(text, place, transports)?;
            if let Some(other) = contestants.iter().find(|other| other.label == contestant.label) {
                let is_default = other.place.starts_with(DEFAULT);
                let what = if is_default { "is a default contestant already" } else { "is given twice" };
                return Err(PlanError::at(place, format!("'{}' {what}", contestant.label)));
            }
            contestants.push(contestant);
        }
        let combinations = Combinations::of(&draft)?;
        let first = combinations.at(0);
        let points = Points { combinations, people: People::of(&draft)?, sources: RefCell::default() };
        let mut timeless = false;
        for point in points.checked() {
            let point = point?;
            for contestant in &contestants {
                fits(contestant, &point)?;
            }
            let writes = |contestant: &Contestant| contestant.transport.capabilities().messages;
            if let Some(setting) = first.setting("message-size")
                && !contestants.iter().any(writes)
            {
                let what = "the size of writes to SCTP, and no contestant is SCTP";
                return Err(PlanError::at(&setting.place, what));
            }
            timeless |= point.network.paths.first().is_some_and(network::takes_no_time);
        }
        let seeds = seeds(&first)?;
        let several = points.count() > 1;
        points.checked().try_for_each(|point| bounds::check(&point?, &contestants, seeds.len(), several))?;
        let names: Vec<&str> = contestants.iter().map(|contestant| contestant.text.as_str()).collect();
        let factors: Vec<String> =
            points.combinations.factors().map(|(factor, _)| factor.to_owned()).collect();
        let expects = draft.expects.iter().map(|table| Expect::interpret(table, &names, &factors));
        let expects = expects.collect::<Result<_, _>>()?;
        let claims = draft.causes.iter().map(|table| CauseClaim::interpret(table, &contestants, &factors));
        let claims = claims.collect::<Result<Vec<_>, _>>()?;
        for claim in &claims {
            points.checked().try_for_each(|point| fits(&claim.changed, &point?))?;
        }
        let cross = first.setting("background").map(|setting| {
            let cross = BackgroundTraffic::parse(&setting.value, &setting.place, transports)?;
            if timeless {
                let what = "traffic that never ends needs a path that takes time; give the network a rate or a delay";
                return Err(PlanError::at(&setting.place, what));
            }
            Ok(cross)
        });
        let (together, world) = (switch(&first, "shared-link")?, world(&first)?);
        if let Some(setting) = first.setting("handover").filter(|_| world == World::Emulated) {
            return Err(PlanError::at(&setting.place, "moves clients of the virtual world only"));
        }
        if let Some(setting) = first.setting("tunnel").filter(|_| together || cross.is_some()) {
            let what = "adds to the packets of one client, and others share its network; leave shared-link and background out";
            return Err(PlanError::at(&setting.place, what));
        }
        if switch(&first, "cleartext")?
            && let Some(one) = contestants.iter().find(|contestant| contestant.is_secured())
        {
            let what = format!("cleartext: '{}' is secured; leave one of them out", one.label);
            return Err(PlanError::at(&one.place, what));
        }
        let causes = causes(&first)?;
        let shared = if world == World::Emulated { "takes real time" } else { "shares its network" };
        if let Some(place) = first
            .setting("causes")
            .map(|setting| &setting.place)
            .filter(|_| causes != Causes::Off)
            .or(draft.causes.first().map(|table| &table.place))
            && (together || world == World::Emulated)
        {
            let what =
                format!("a contestant that {shared} cannot be raced again with one change; leave it out");
            return Err(PlanError::at(place, what));
        }
        // The certificates' size and the key exchange are properties of the servers, which the recording does not show.
        let servers = contestants.iter().find_map(|contestant| contestant.security);
        let recorded_by = RECORDED.map(|texts| {
            texts.map(|text| {
                let mut contestant = Contestant::parse(text, "recording", transports).ok()?;
                if let (Some(own), Some(servers)) = (&mut contestant.security, servers) {
                    (own.chain, own.key_exchange) = (servers.chain, servers.key_exchange);
                }
                Some(contestant)
            })
        });
        let plan = Plan {
            points: Vec::new(),
            together,
            causes: if world == World::Emulated { Causes::Off } else { causes },
            claims,
            world,
            cross: cross.transpose()?,
            seeds,
            expects,
            contestants,
            recorded_by,
            draft,
        };
        Ok(Self { causes: plan.causes, plan, points })
    }

    /// Returns the plan. It contains only the point that the last call of [`at`](Self::at) made, or no point before the
    /// first call.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the number of points of the plan.
    #[must_use]
    pub fn count(&self) -> usize {
        self.points.count()
    }

    /// Returns the indices, counted from 0, of the plan's points that are checked before any run starts. A plan without
    /// a population checks all points. A plan with a population checks, for each combination of factor levels, only the
    /// first people. Their number is the constant `CHECKED`.
    pub fn to_check(&self) -> impl Iterator<Item = usize> + Clone {
        self.points.to_check()
    }

    /// Returns the population, if each point is a person.
    #[must_use]
    pub const fn people(&self) -> Option<&People> {
        self.points.people.as_ref()
    }

    /// Returns the factors with their levels. Factors that vary slowest come first.
    pub fn factors(&self) -> impl Iterator<Item = (&str, &[String])> {
        let people = self.points.people.as_ref().filter(|people| people.count() > 1);
        self.points.combinations.factors().chain(people.map(|people| (PERSON, people.numbers())))
    }

    /// Returns the points one at a time. In a plan with a population, returns only the points whose indices
    /// [`to_check`](Self::to_check) returns. No point fails here, because each was already made once when the plan was
    /// interpreted.
    pub fn points(&self) -> impl Iterator<Item = PointPlan> + Clone {
        self.points.checked().flatten()
    }

    /// Returns the plan with a single point, the point with this index. Indices are counted from 0.
    ///
    /// # Errors
    /// None in practice, because interpreting the plan would have reported the mistake.
    pub fn at(&mut self, index: usize) -> Result<&Plan, PlanError> {
        self.plan.points = vec![self.points.at(index)?];
        if let Some(people) = &self.points.people {
            let person = self.points.combination_and_person(index).1;
            self.plan.seeds = people.seeds(person);
            self.plan.causes = if people.is_explained(person) { self.causes } else { Causes::Off };
        }
        Ok(&self.plan)
    }

    /// Returns the plan with all its points in memory.
    ///
    /// # Errors
    /// None in practice, because interpreting the plan would have reported the mistake.
    pub fn into_plan(mut self) -> Result<Plan, PlanError> {
        self.plan.points = self.points.iter().collect::<Result<_, _>>()?;
        Ok(self.plan)
    }

    /// Returns warnings about the plan, to print next to the results.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let said = super::unnamed(&self.plan.draft).into_iter();
        said.chain(warnings(&self.plan.contestants, self.points())).collect()
    }
}
