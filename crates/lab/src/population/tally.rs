//! Whom each contestant serves best: people, one after the other in whatever order, and shares of them with their
//! intervals.

use crate::results::label::{shown, split};
use crate::results::{Contestant, Point};
use std::collections::{BTreeMap, BTreeSet};

/// As far apart as all that is called level at most: 3 %.
pub const LEVEL: f64 = 1.03;

/// One person's page loads.
#[derive(Clone, PartialEq, Debug)]
struct One {
    /// Where among the groups.
    group: usize,
    /// Milliseconds by contestant, the geometric mean of the page loads; infinite where one was not done at the deadline.
    times: Vec<f32>,
}

/// Where a person is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Group {
    /// The population as the plan names it; empty where there is one.
    pub population: String,
    /// The region.
    pub region: String,
    /// The access.
    pub access: String,
    /// How much the person's network loses: one of [`LOSSES`].
    pub loss: &'static str,
}

/// Classes of loss, each with the percent that it ends below.
pub const LOSSES: [(&str, f64); 4] =
    [("no loss", 0.001), ("below 0.1 %", 0.1), ("0.1 to 1 %", 1.0), ("1 % and more", f64::INFINITY)];

impl Group {
    /// Of a person with this loss, as a plan says it.
    #[must_use]
    pub fn new(population: &str, region: &str, access: &str, loss: &str) -> Self {
        let percent = loss.trim_end_matches('%').parse().unwrap_or(0.0);
        let (loss, _) = LOSSES.into_iter().find(|(_, below)| percent < *below).unwrap_or(LOSSES[0]);
        Self { population: population.to_owned(), region: region.to_owned(), access: access.to_owned(), loss }
    }
}

/// What was found so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tally {
    /// The contestants as typed.
    typed: Vec<String>,
    names: Vec<String>,
    groups: Vec<Group>,
    people: BTreeMap<(usize, u64), One>,
    /// Of people of whom causes were looked for: population, winner, loser, factor, to the logarithm of its effect.
    causes: BTreeMap<(String, String, String, String), Vec<f64>>,
}

/// A share with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    /// How many.
    pub count: usize,
    /// Of how many.
    pub of: usize,
}

impl Share {
    /// The share itself; 0 of nobody.
    #[must_use]
    pub fn value(self) -> f64 {
        self.count as f64 / self.of.max(1) as f64
    }

    /// Its 95 % interval, by Wilson's score (E. B. Wilson, 1927).
    #[must_use]
    pub fn interval(self) -> [f64; 2] {
        let (n, p, z) = (self.of.max(1) as f64, self.value(), 1.959_964);
        let middle = p + z * z / (2.0 * n);
        let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + z * z / n;
        [((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0)]
    }
}

/// Some of the people, and what their times say.
#[derive(Clone, PartialEq, Debug)]
pub struct Shares {
    /// How many people.
    pub people: usize,
    /// By contestant: sooner than every other by more than [`LEVEL`].
    pub soonest: Vec<Share>,
    /// Nobody is that.
    pub level: Share,
    /// By contestant: a page load was not done at the deadline.
    pub unfinished: Vec<Share>,
}

impl Shares {
    /// The contestant that is soonest for more people than any other, and for more than those for whom the first are level.
    #[must_use]
    pub fn commonest(&self) -> Option<usize> {
        let first = (0..self.soonest.len()).max_by_key(|&at| (self.soonest[at].count, std::cmp::Reverse(at)));
        first.filter(|&at| self.soonest[at].count > self.level.count)
    }
}

/// One contestant beside another.
#[derive(Clone, PartialEq, Debug)]
pub struct Pair {
    /// The one is sooner by more than [`LEVEL`].
    pub sooner: Share,
    /// It is later by more than that.
    pub later: Share,
    /// The other's time over the one's, by person, in order.
    pub ratios: Vec<f64>,
}

/// Something that was found to make the one sooner than the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Why {
    /// The population.
    pub population: String,
    /// Who is sooner.
    pub winner: String,
    /// Who is later.
    pub loser: String,
    /// What the settings are about.
    pub factor: String,
    /// Of how many people it was named.
    pub people: usize,
    /// How much sooner it makes the loser, the geometric mean over them.
    pub effect: f64,
}

impl Tally {
    /// Adds the point of a person.
    pub fn add(&mut self, point: &Point) {
        let factor = |name: &str| point.factors.get(name).map_or("", String::as_str);
        let Ok(number) = factor(super::PERSON).parse() else { return };
        let place = Group::new(factor("population"), factor("region"), factor("access"), factor("loss"));
        let time = |contestant: &Contestant| {
            let stat = &contestant.summary.page_ms;
            stat.geometric_mean.filter(|_| stat.failed == 0)
        };
        let times = point.contestants.iter().map(|one| (one.name.as_str(), time(one))).collect::<Vec<_>>();
        self.add_person(&place, number, &times);
        for comparison in &point.comparisons {
            let Some(experiment) = &comparison.experiment else { continue };
            for cause in &comparison.causes {
                self.add_cause(
                    &place.population,
                    &experiment.winner,
                    &experiment.loser,
                    &cause.factor,
                    cause.effect,
                );
            }
        }
    }

    /// Adds a person with each contestant's time, milliseconds; who is there already is the same again.
    pub fn add_person(&mut self, place: &Group, number: u64, times: &[(&str, Option<f64>)]) {
        if self.names.is_empty() {
            self.typed = times.iter().map(|(name, _)| (*name).to_owned()).collect();
            self.names = times.iter().map(|(name, _)| shown(name).to_owned()).collect();
        }
        let group = self.groups.iter().position(|group| group == place).unwrap_or_else(|| {
            self.groups.push(place.clone());
            self.groups.len() - 1
        });
        let time = |name: &String| {
            let found = times.iter().find(|(own, _)| shown(own) == name);
            found.and_then(|(_, time)| *time).map_or(f32::INFINITY, |time| time as f32)
        };
        let times = self.names.iter().map(time).collect();
        self.people.insert((group, number), One { group, times });
    }

    /// Adds what an experiment named: `factor` makes `loser` later than `winner`.
    pub fn add_cause(&mut self, population: &str, winner: &str, loser: &str, factor: &str, effect: f64) {
        let key =
            (population.to_owned(), shown(winner).to_owned(), shown(loser).to_owned(), factor.to_owned());
        self.causes.entry(key).or_default().push(effect.ln());
    }

    /// What each contestant that has a name of its own is: name, and the rest as typed.
    pub fn nicknames(&self) -> impl Iterator<Item = (&str, &str)> {
        self.typed.iter().filter_map(|typed| split(typed).0.zip(Some(split(typed).1)))
    }

    /// The contestants, in the order of the plan.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// People there are, of all populations together.
    #[must_use]
    pub fn count(&self) -> usize {
        self.people.len()
    }

    /// The populations, as the plan names them, in the order of the alphabet.
    #[must_use]
    pub fn populations(&self) -> Vec<&str> {
        let all: BTreeSet<&str> = self.groups.iter().map(|group| group.population.as_str()).collect();
        all.into_iter().collect()
    }

    /// The values of one property of groups, in order.
    #[must_use]
    pub fn values(&self, of: impl Fn(&Group) -> &str) -> Vec<&str> {
        let all: BTreeSet<&str> = self.groups.iter().map(of).collect();
        all.into_iter().collect()
    }

    /// People of the groups that `fitting` accepts.
    fn among(&self, fitting: impl Fn(&Group) -> bool) -> impl Iterator<Item = &One> {
        let which: Vec<bool> = self.groups.iter().map(fitting).collect();
        self.people.values().filter(move |one| which[one.group])
    }

    /// What the people of some groups say.
    #[must_use]
    pub fn shares(&self, fitting: impl Fn(&Group) -> bool) -> Shares {
        let (mut soonest, mut unfinished) = (vec![0; self.names.len()], vec![0; self.names.len()]);
        let (mut people, mut level) = (0, 0);
        for one in self.among(fitting) {
            people += 1;
            match best(&one.times) {
                Some(best) => soonest[best] += 1,
                None => level += 1,
            }
            for (count, time) in unfinished.iter_mut().zip(&one.times) {
                *count += usize::from(time.is_infinite());
            }
        }
        let share = |count: usize| Share { count, of: people };
        Shares {
            people,
            soonest: soonest.into_iter().map(share).collect(),
            level: share(level),
            unfinished: unfinished.into_iter().map(share).collect(),
        }
    }

    /// One contestant beside another, of the people of some groups; those are left out whom neither serves.
    #[must_use]
    pub fn pair(&self, one: usize, other: usize, fitting: impl Fn(&Group) -> bool) -> Pair {
        let mut ratios: Vec<f64> = self
            .among(fitting)
            .map(|person| f64::from(person.times[other]) / f64::from(person.times[one]))
            .filter(|ratio| !ratio.is_nan())
            .collect();
        ratios.sort_by(f64::total_cmp);
        let share = |fits: &dyn Fn(f64) -> bool| Share {
            count: ratios.iter().filter(|ratio| fits(**ratio)).count(),
            of: ratios.len(),
        };
        let (sooner, later) = (share(&|ratio| ratio > LEVEL), share(&|ratio| ratio < 1.0 / LEVEL));
        Pair { sooner, later, ratios }
    }

    /// What was found to make contestants sooner, what is named of most people first.
    #[must_use]
    pub fn why(&self) -> Vec<Why> {
        let mut all: Vec<Why> = self
            .causes
            .iter()
            .map(|((population, winner, loser, factor), effects)| Why {
                population: population.clone(),
                winner: winner.clone(),
                loser: loser.clone(),
                factor: factor.clone(),
                people: effects.len(),
                effect: (effects.iter().sum::<f64>() / effects.len() as f64).exp(),
            })
            .collect();
        all.sort_by(|a, b| b.people.cmp(&a.people).then_with(|| a.winner.cmp(&b.winner)));
        all
    }

    /// How many people of a population causes were looked for.
    #[must_use]
    pub fn explained(&self, population: &str) -> usize {
        let own = |(group, number): &&(usize, u64)| {
            self.groups[*group].population == population && number.is_multiple_of(super::EXPLAINED as u64)
        };
        self.people.keys().filter(own).count()
    }
}

/// Who is sooner than every other by more than [`LEVEL`].
fn best(times: &[f32]) -> Option<usize> {
    let first = (0..times.len()).min_by(|&a, &b| times[a].total_cmp(&times[b]))?;
    let next = (0..times.len()).filter(|&at| at != first).map(|at| times[at]).fold(f32::INFINITY, f32::min);
    (times[first].is_finite() && f64::from(next) > f64::from(times[first]) * LEVEL).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::super::tests::three;
    use super::*;

    #[test]
    fn each_person_counts_once() {
        let mut tally = three();
        let again = three();
        tally.add_person(&again.groups[0].clone(), 1, &[("six", Some(200.0)), ("quic", Some(100.0))]);
        assert_eq!(tally, again);
        assert_eq!(tally.names(), ["six", "quic"]);
        let all = tally.shares(|_| true);
        assert_eq!((all.people, all.soonest[0].count, all.soonest[1].count, all.level.count), (3, 1, 1, 1));
        assert_eq!(all.unfinished[1].count, 1);
        let pair = tally.pair(1, 0, |_| true);
        assert_eq!((pair.sooner.count, pair.later.count, pair.ratios.len()), (1, 1, 3));
        assert_eq!(pair.ratios.first(), Some(&0.0), "who is never there takes for ever");
        assert_eq!(tally.shares(|group| group.region == "Africa").people, 1);
        assert_eq!(tally.explained(""), 1);
        let why = tally.why();
        assert!((why[0].effect - 1.1).abs() < 1e-9 && why[0].people == 2, "{why:?}");
    }

    #[test]
    fn the_order_of_people_does_not_matter() {
        let place = Group::default();
        let times = |number: u64| [("a", Some(100.0 + number as f64)), ("b", Some(150.0 - number as f64))];
        let (mut one, mut other) = (Tally::default(), Tally::default());
        for number in 1..=50 {
            one.add_person(&place, number, &times(number));
            other.add_person(&place, 51 - number, &times(51 - number));
        }
        assert_eq!(one, other);
    }

    #[test]
    fn losses_have_classes() {
        let class = |loss: &str| Group::new("", "", "", loss).loss;
        assert_eq!(
            ["0%", "0.001%", "0.1%", "1%", "50%"].map(class),
            ["no loss", "below 0.1 %", "0.1 to 1 %", "1 % and more", "1 % and more"]
        );
    }

    #[test]
    fn an_interval_is_that_of_wilson() {
        // Of 10 in 100: 5.5 to 17.4 percent.
        let [low, high] = Share { count: 10, of: 100 }.interval();
        assert!((low - 0.0552).abs() < 1e-3 && (high - 0.1744).abs() < 1e-3, "{low} {high}");
        assert_eq!(Share { count: 0, of: 10 }.interval()[0], 0.0);
        assert_eq!(Share { count: 0, of: 0 }.value(), 0.0);
    }
}
