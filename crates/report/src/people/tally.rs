//! For each contestant, counts the people whom it serves best, and computes their share with its confidence interval.
//! People are added one by one, in any order. As in a race, two contestants are compared for a person by the ratio of
//! their page times. The confidence interval of this ratio decides which one is faster
//! ([`anabranch_results::stats::decision`]).

use anabranch_results::label::{shown, split};
use anabranch_results::stats::decision::{GAP, LeaderStatus};
use anabranch_results::{Cause, Contestant, Point, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the factor that numbers the people, from 1.
pub const PERSON: &str = "person";
/// The program searches for the causes of the results for one person out of this many.
pub const EXPLAINED: usize = 10;
/// The name of the metric that decides which contestant serves a person best: the page time.
const METRIC: &str = "page_ms";

/// The results of the page loads of one simulated person.
#[derive(Clone, PartialEq, Debug)]
struct PersonResult {
    /// The index of the group to which the person belongs.
    group: usize,
    /// The geometric mean of the page times in milliseconds, for each contestant. It is infinite if a page load missed
    /// the deadline.
    times: Vec<f32>,
    /// The verdicts for each contestant compared with each earlier contestant. [`pair`] gives the index of a verdict.
    verdicts: Vec<Verdict>,
}

impl PersonResult {
    /// Returns the verdict for contestant `one` compared with contestant `other`.
    fn verdict(&self, one: usize, other: usize) -> Verdict {
        match one > other {
            true => self.verdicts[pair(one, other)],
            false => self.verdicts[pair(other, one)].inverse(),
        }
    }

    /// Returns the contestant with the smallest time for this person. Also returns the result of comparing it with the
    /// other contestants: a win, a tie, or undecided.
    fn first(&self) -> (usize, LeaderStatus) {
        let all = 0..self.times.len();
        let first = all.clone().min_by(|&a, &b| self.times[a].total_cmp(&self.times[b])).unwrap_or(0);
        if self.times.get(first).is_none_or(|time| time.is_infinite()) {
            return (first, LeaderStatus::Nobody);
        }
        let others = all.filter(|&other| other != first).map(|other| Some(self.verdict(other, first)));
        (first, LeaderStatus::of_first(others))
    }

    /// Returns whether any contestant is significantly faster than another one for this person.
    fn differs(&self) -> bool {
        self.verdicts.iter().any(|verdict| matches!(verdict, Verdict::Less | Verdict::More))
    }
}

/// Returns the index of the pair of the contestants `one` and `before`. `before` comes earlier in the plan.
const fn pair(one: usize, before: usize) -> usize {
    one * (one - 1) / 2 + before
}

/// The properties of people that the results distinguish. People with the same properties form a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Group {
    /// The name of the population in the plan. It is empty if there is only one population.
    pub population: String,
    /// The region to which the person's country belongs.
    pub region: String,
    /// The kind of Internet access: `fixed` or `mobile`.
    pub access: String,
    /// The loss class of the person's network. It is one of [`LOSSES`].
    pub loss: &'static str,
}

/// The classes of packet loss, each with its exclusive upper bound in percent.
pub const LOSSES: [(&str, f64); 4] =
    [("no loss", 0.001), ("below 0.1 %", 0.1), ("0.1 to 1 %", 1.0), ("1 % and more", f64::INFINITY)];

impl Group {
    /// Returns the group of a person. `loss` is the loss in the person's network, as it is written in the plan.
    #[must_use]
    pub fn new(population: &str, region: &str, access: &str, loss: &str) -> Self {
        let percent = lost_percent(loss);
        let (loss, _) = LOSSES.into_iter().find(|(_, below)| percent < *below).unwrap_or(LOSSES[0]);
        Self { population: population.to_owned(), region: region.to_owned(), access: access.to_owned(), loss }
    }
}

/// Returns the mean share of lost packets in percent. `loss` is a share such as `2%`, or a model of bursts such as
/// `ge:1%/49%`.
fn lost_percent(loss: &str) -> f64 {
    let share = |text: &str| text.trim_end_matches('%').parse::<f64>().unwrap_or(0.0);
    match loss.strip_prefix("ge:").and_then(|bursts| bursts.split_once('/')) {
        // The percentage is rounded to three decimals, because percentages in a plan have no more than three.
        Some((to_bad, to_good)) => {
            let (to_bad, to_good) = (share(to_bad), share(to_good));
            (100_000.0 * to_bad / (to_bad + to_good)).round() / 1000.0
        }
        None => share(loss),
    }
}

/// The results of all simulated people that were added so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tally {
    /// The contestants as the user typed them.
    specs: Vec<String>,
    names: Vec<String>,
    groups: Vec<Group>,
    people: BTreeMap<(usize, u64), PersonResult>,
    /// The causes that experiments found, with their effects.
    causes: BTreeMap<CauseKey, Effects>,
    /// The people for whom an experiment found a setting that explains the result of the race. Each person is
    /// identified by the population and a number.
    named: BTreeSet<(String, u64)>,
}

/// The properties that identify a cause. If the same cause is found for several people, these people are counted
/// together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct CauseKey {
    population: String,
    winner: String,
    loser: String,
    /// Whether the loser is even slower with the winner's settings of the group `factor`.
    holds_back: bool,
    factor: String,
}

/// The effects of one cause on the people for whom it was found.
#[derive(Clone, PartialEq, Debug, Default)]
struct Effects {
    logarithms: Vec<f64>,
    /// Maps each change of the slower contestant's settings, in the syntax of the command line, to a number of people.
    /// For each of them, an experiment found that the change is a cause of the difference between the two contestants.
    changes: BTreeMap<String, usize>,
}

/// A cause that an experiment for one person found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NamedCause<'a> {
    /// The faster contestant, as the user typed it.
    pub winner: &'a str,
    /// The slower contestant, as the user typed it.
    pub loser: &'a str,
    /// The name of the group of settings.
    pub factor: &'a str,
    /// The change of the slower contestant's settings, as a user types it.
    pub change: &'a str,
    /// How many times faster the change makes the slower contestant.
    pub effect: f64,
    /// Whether the slower contestant becomes even slower with the winner's setting. If so, the winner leads despite
    /// this setting.
    pub holds_back: bool,
}

/// A share of people, as two counts from which a 95 % confidence interval can be computed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    /// The number of people in the share.
    pub count: usize,
    /// The number of people of whom the share is taken.
    pub of: usize,
}

impl Share {
    /// Returns the share as a number from 0 to 1, or 0 if there are no people.
    #[must_use]
    pub fn value(self) -> f64 {
        self.count as f64 / self.of.max(1) as f64
    }

    /// Returns the 95 % confidence interval of the share, by Wilson's score (E. B. Wilson, 1927).
    #[must_use]
    pub fn interval(self) -> [f64; 2] {
        let (n, p, z) = (self.of.max(1) as f64, self.value(), 1.959_964);
        let middle = p + z * z / (2.0 * n);
        let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + z * z / n;
        [((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0)]
    }
}

/// The shares of the possible outcomes among selected people of a population, for example those with the same access.
#[derive(Clone, PartialEq, Debug)]
pub struct Shares {
    /// The number of selected people.
    pub people: usize,
    /// For each contestant, the share of people for whom it is faster than every other contestant.
    pub fastest: Vec<Share>,
    /// The share of people for whom the fastest contestants tie, because their times are within 3 %.
    pub tied: Share,
    /// The share of people with too few page loads to decide, or for whom no contestant finished.
    pub undecided: Share,
    /// For each contestant, the share of people for whom a page load missed the deadline.
    pub unfinished: Vec<Share>,
}

impl Shares {
    /// Returns the shares of all outcomes: one for each contestant as the fastest (in the order of the plan), then
    /// ties, then undecided.
    pub fn outcomes(&self) -> impl Iterator<Item = Share> {
        self.fastest.iter().copied().chain([self.tied, self.undecided])
    }

    /// Returns the index of the most common outcome in [`Self::outcomes`], or several indices if outcomes are equally
    /// common.
    #[must_use]
    pub fn most_common(&self) -> Vec<usize> {
        let most = self.outcomes().map(|share| share.count).max();
        self.outcomes().enumerate().filter(|(_, share)| Some(share.count) == most).map(|(at, _)| at).collect()
    }
}

/// The comparison of two contestants over a selection of the simulated people.
#[derive(Clone, PartialEq, Debug)]
pub struct Pair {
    /// The share of people for whom the first contestant is faster.
    pub faster: Share,
    /// The share of people for whom the first contestant is slower than the second.
    pub slower: Share,
    /// The share of people for whom the two contestants tie, because their times are within 3 %.
    pub tied: Share,
    /// For each person, the time of the second contestant divided by the time of the first. The ratios are sorted.
    pub ratios: Vec<f64>,
}

/// How much longer people would wait if everyone used one contestant, compared with the fastest contestant for each
/// person.
#[derive(Clone, PartialEq, Debug)]
pub struct Cost {
    /// The share of people for whom the time of this contestant is at most 3 % above the smallest time of all
    /// contestants.
    pub near_fastest: Share,
    /// For each person, the time of this contestant divided by the smallest time of all contestants. The ratios are
    /// sorted.
    pub ratios: Vec<f64>,
}

impl Cost {
    /// Returns the geometric mean of the ratios of this contestant's time to the smallest time.
    #[must_use]
    pub fn mean(&self) -> f64 {
        (self.ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / self.ratios.len().max(1) as f64).exp()
    }
}

/// A group of settings that explains why the winner is faster than the loser. If `holds_back` is set, the winner is
/// faster despite its settings in this group.
#[derive(Clone, PartialEq, Debug)]
pub struct CauseSummary {
    /// The name of the population in the plan.
    pub population: String,
    /// The name of the faster contestant.
    pub winner: String,
    /// The name of the slower contestant.
    pub loser: String,
    /// Whether the loser is even slower with the winner's settings of the group `factor`.
    pub holds_back: bool,
    /// The name of the group of settings.
    pub factor: String,
    /// The most common change of the slower contestant's settings, as a user writes it in a plan.
    pub change: String,
    /// The number of people for whom this cause was found.
    pub people: usize,
    /// The factor by which the slower contestant becomes faster when its settings of the group `factor` are changed. It
    /// is the geometric mean over the people for whom this cause was found.
    pub effect: f64,
}

impl Tally {
    /// Adds the results of a point that simulates a person. Ignores any other point.
    pub fn add(&mut self, point: &Point) {
        let factor = |name: &str| point.factors.get(name).map_or("", String::as_str);
        let Ok(number) = factor(PERSON).parse() else { return };
        let group = Group::new(factor("population"), factor("region"), factor("access"), factor("loss"));
        let time = |contestant: &Contestant| {
            let stat = &contestant.summary.page_ms;
            stat.geometric_mean.filter(|_| stat.failed == 0)
        };
        let times = point.contestants.iter().map(|one| (one.name.as_str(), time(one))).collect::<Vec<_>>();
        self.add_person(&group, number, &times);
        for comparison in &point.comparisons {
            if comparison.metric == METRIC {
                self.decide(&group, number, &comparison.a, &comparison.b, comparison.verdict);
            }
            let Some(experiment) = &comparison.experiment else { continue };
            let helps = comparison.causes.iter().map(|cause| (cause, false));
            let holds_back = experiment.adverse_causes.iter().map(|cause| (cause, true));
            for (cause, holds_back) in helps.chain(holds_back) {
                let Cause { factor, change, effect, .. } = cause;
                let (winner, loser) = (&experiment.winner, &experiment.loser);
                let found = NamedCause { winner, loser, factor, change, effect: *effect, holds_back };
                self.add_cause(&group.population, number, &found);
            }
        }
    }

    /// Adds a person with the time of each contestant in milliseconds. Does nothing if the person was already added, or
    /// if there are no contestants.
    pub fn add_person(&mut self, to: &Group, number: u64, times: &[(&str, Option<f64>)]) {
        if times.is_empty() {
            return;
        }
        if self.names.is_empty() {
            self.specs = times.iter().map(|(name, _)| (*name).to_owned()).collect();
            self.names = times.iter().map(|(name, _)| shown(name).to_owned()).collect();
        }
        let group = self.groups.iter().position(|group| group == to).unwrap_or_else(|| {
            self.groups.push(to.clone());
            self.groups.len() - 1
        });
        let time = |name: &String| {
            let found = times.iter().find(|(own, _)| shown(own) == name);
            found.and_then(|(_, time)| *time).map_or(f32::INFINITY, |time| time as f32)
        };
        let times: Vec<f32> = self.names.iter().map(time).collect();
        let pairs = times.len() * times.len().saturating_sub(1) / 2;
        let person = self.people.entry((group, number));
        person.or_insert_with(|| PersonResult { group, times, verdicts: vec![Verdict::Undecided; pairs] });
    }

    /// Records the verdict for contestant `a` compared with contestant `b`, for a person that was already added.
    pub fn decide(&mut self, of_group: &Group, number: u64, a: &str, b: &str, verdict: Verdict) {
        let at = |name: &str| self.names.iter().position(|own| own == shown(name));
        let Some(group) = self.groups.iter().position(|group| group == of_group) else { return };
        let (Some(a), Some(b)) = (at(a), at(b)) else { return };
        let Some(person) = self.people.get_mut(&(group, number)).filter(|_| a != b) else { return };
        let (at, verdict) = if a > b { (pair(a, b), verdict) } else { (pair(b, a), verdict.inverse()) };
        person.verdicts[at] = verdict;
    }

    /// Adds a cause that an experiment for this person found.
    pub fn add_cause(&mut self, population: &str, number: u64, found: &NamedCause<'_>) {
        let kind = CauseKey {
            population: population.to_owned(),
            winner: shown(found.winner).to_owned(),
            loser: shown(found.loser).to_owned(),
            holds_back: found.holds_back,
            factor: found.factor.to_owned(),
        };
        let effects = self.causes.entry(kind).or_default();
        effects.logarithms.push(found.effect.ln());
        *effects.changes.entry(found.change.to_owned()).or_default() += 1;
        if !found.holds_back {
            self.named.insert((population.to_owned(), number));
        }
    }

    /// Returns the nickname of each contestant, if it has one, and the rest of the text that the user typed.
    pub fn contestants(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        self.specs.iter().map(|typed| split(typed))
    }

    /// Returns the names of the contestants, in the order of the plan.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of people in all populations.
    #[must_use]
    pub fn count(&self) -> usize {
        self.people.len()
    }

    /// Returns the names of the populations in the plan, in alphabetical order.
    #[must_use]
    pub fn populations(&self) -> Vec<&str> {
        let all: BTreeSet<&str> = self.groups.iter().map(|group| group.population.as_str()).collect();
        all.into_iter().collect()
    }

    /// Returns the values of the property `of` in all groups, each value once, in alphabetical order.
    #[must_use]
    pub fn values(&self, of: impl Fn(&Group) -> &str) -> Vec<&str> {
        let all: BTreeSet<&str> = self.groups.iter().map(of).collect();
        all.into_iter().collect()
    }

    /// Returns the people in the groups that `fitting` accepts.
    fn among(&self, fitting: impl Fn(&Group) -> bool) -> impl Iterator<Item = &PersonResult> {
        let selected: Vec<bool> = self.groups.iter().map(fitting).collect();
        self.people.values().filter(move |one| selected[one.group])
    }

    /// Returns the shares of the outcomes among the people in the groups that `fitting` accepts.
    #[must_use]
    pub fn shares(&self, fitting: impl Fn(&Group) -> bool) -> Shares {
        let (mut fastest, mut unfinished) = (vec![0; self.names.len()], vec![0; self.names.len()]);
        let (mut people, mut tied, mut undecided) = (0, 0, 0);
        for one in self.among(fitting) {
            people += 1;
            match one.first() {
                (first, LeaderStatus::Wins) => fastest[first] += 1,
                (_, LeaderStatus::Level) => tied += 1,
                (_, LeaderStatus::Undecided | LeaderStatus::Nobody) => undecided += 1,
            }
            for (count, time) in unfinished.iter_mut().zip(&one.times) {
                *count += usize::from(time.is_infinite());
            }
        }
        let share = |count: usize| Share { count, of: people };
        Shares {
            people,
            fastest: fastest.into_iter().map(share).collect(),
            tied: share(tied),
            undecided: share(undecided),
            unfinished: unfinished.into_iter().map(share).collect(),
        }
    }

    /// Compares two contestants for the people in the groups that `fitting` accepts. People for whom neither contestant
    /// finished are left out.
    #[must_use]
    pub fn pair(&self, one: usize, other: usize, fitting: impl Fn(&Group) -> bool) -> Pair {
        let (mut ratios, mut verdicts) = (Vec::new(), Vec::new());
        for person in self.among(fitting) {
            let ratio = f64::from(person.times[other]) / f64::from(person.times[one]);
            if !ratio.is_nan() {
                ratios.push(ratio);
                verdicts.push(person.verdict(one, other));
            }
        }
        ratios.sort_by(f64::total_cmp);
        let share = |is: Verdict| Share {
            count: verdicts.iter().filter(|verdict| **verdict == is).count(),
            of: ratios.len(),
        };
        let (faster, slower, tied) = (share(Verdict::Less), share(Verdict::More), share(Verdict::Level));
        Pair { faster, slower, tied, ratios }
    }

    /// Returns how much longer people would wait with the contestant `one` than with the contestant that is fastest for
    /// each person. Counts only people in the groups that `fitting` accepts. People for whom no contestant finished are
    /// left out.
    #[must_use]
    pub fn cost(&self, one: usize, fitting: impl Fn(&Group) -> bool) -> Cost {
        let least = |person: &PersonResult| person.times.iter().copied().fold(f32::INFINITY, f32::min);
        let over = |person: &PersonResult| f64::from(person.times[one]) / f64::from(least(person));
        let mut ratios: Vec<f64> = self.among(fitting).map(over).filter(|ratio| !ratio.is_nan()).collect();
        ratios.sort_by(f64::total_cmp);
        let near_fastest = Share { count: ratios.partition_point(|ratio| *ratio <= GAP), of: ratios.len() };
        Cost { near_fastest, ratios }
    }

    /// Returns the causes that experiments found, sorted by the number of people for whom each cause was found, largest
    /// first.
    #[must_use]
    pub fn causes(&self) -> Vec<CauseSummary> {
        let mut all: Vec<CauseSummary> = self
            .causes
            .iter()
            .map(|(kind, effects)| CauseSummary {
                population: kind.population.clone(),
                winner: kind.winner.clone(),
                loser: kind.loser.clone(),
                holds_back: kind.holds_back,
                factor: kind.factor.clone(),
                change: effects.most_common_change().to_owned(),
                people: effects.logarithms.len(),
                effect: (effects.logarithms.iter().sum::<f64>() / effects.logarithms.len() as f64).exp(),
            })
            .collect();
        all.sort_by(|a, b| b.people.cmp(&a.people).then_with(|| a.winner.cmp(&b.winner)));
        all
    }

    /// Returns the number of people of a population for whom experiments searched for causes. Also returns a share: of
    /// those people for whom one contestant is faster than another, the share without a known cause.
    #[must_use]
    pub fn explained(&self, population: &str) -> (usize, Share) {
        let own = |(group, number): &(usize, u64)| {
            self.groups[*group].population == population && number.is_multiple_of(EXPLAINED as u64)
        };
        let all = self.people.iter().filter(|(key, _)| own(key));
        let (mut people, mut differ, mut named) = (0, 0, 0);
        for ((_, number), one) in all {
            let is_named = self.named.contains(&(population.to_owned(), *number));
            people += 1;
            differ += usize::from(is_named || one.differs());
            named += usize::from(is_named);
        }
        (people, Share { count: differ - named, of: differ })
    }
}

impl Effects {
    /// Returns the most common change. If several are equally common, returns the first in alphabetical order.
    fn most_common_change(&self) -> &str {
        let most = self.changes.iter().rev().max_by_key(|(_, count)| **count);
        most.map_or("", |(change, _)| change.as_str())
    }
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
        assert_eq!(all.people, 3);
        assert_eq!(all.outcomes().map(|share| share.count).collect::<Vec<_>>(), [1, 1, 1, 0]);
        assert_eq!(all.most_common(), [0, 1, 2]);
        assert_eq!(all.unfinished[1].count, 1);
        let pair = tally.pair(1, 0, |_| true);
        assert_eq!([pair.faster, pair.slower, pair.tied].map(|share| share.count), [1, 1, 1]);
        let inverse = tally.pair(0, 1, |_| true);
        assert_eq!((inverse.faster, inverse.slower), (pair.slower, pair.faster));
        assert_eq!(pair.ratios.first(), Some(&0.0), "who is never there takes for ever");
        assert_eq!(tally.shares(|group| group.region == "Africa").people, 1);
    }

    #[test]
    fn cost_is_the_time_relative_to_the_fastest() {
        let tally = three();
        let six = tally.cost(0, |_| true);
        assert_eq!(
            (six.near_fastest.count, six.near_fastest.of, six.ratios.as_slice()),
            (2, 3, [1.0, 1.0, 2.0].as_slice())
        );
        assert!((six.mean() - 2f64.cbrt()).abs() < 1e-9);
        assert_eq!(tally.cost(1, |_| true).mean(), f64::INFINITY);
        assert_eq!(Cost { near_fastest: Share { count: 0, of: 0 }, ratios: vec![] }.mean(), 1.0);
    }

    #[test]
    fn causes_are_counted_by_people() {
        let tally = three();
        let causes = tally.causes();
        assert!((causes[0].effect - 1.1).abs() < 1e-9 && causes[0].people == 2, "{causes:?}");
        assert_eq!(causes[0].change, "iw=40");
        assert!(causes[1].holds_back && causes[1].people == 1, "{causes:?}");
        // The program searches for causes only for people whose number is a multiple of [`EXPLAINED`]: in this test,
        // for one person. A cause was found for this person, so 0 of 1 people are without a known cause.
        assert_eq!(tally.explained(""), (1, Share { count: 0, of: 1 }));
    }

    #[test]
    fn insignificant_gaps_count_for_no_contestant() {
        let group = Group::default();
        let outcome = |verdicts: [Verdict; 3]| {
            let mut tally = Tally::default();
            tally.add_person(&group, 1, &[("a", Some(100.0)), ("b", Some(150.0)), ("c", Some(200.0))]);
            for ((one, other), verdict) in [("b", "a"), ("c", "a"), ("c", "b")].into_iter().zip(verdicts) {
                tally.decide(&group, 1, one, other, verdict);
            }
            tally.shares(|_| true).most_common()[0]
        };
        use Verdict::{Less, Level, More, Undecided};
        assert_eq!(outcome([More, More, More]), 0);
        assert_eq!(outcome([More, More, Undecided]), 0, "who is second does not matter");
        assert_eq!(outcome([Level, More, More]), 3);
        assert_eq!(outcome([More, Level, More]), 3);
        for one in [
            [Undecided, More, More],
            [More, Undecided, More],
            [Level, Undecided, More],
            [Undecided, Level, More],
        ] {
            assert_eq!(outcome(one), 4, "{one:?}");
        }
        // Contestant `a` has the smallest mean time, but the comparison with `b` finds `b` faster. No contestant counts
        // as the fastest.
        assert_eq!(outcome([Less, More, More]), 4);
    }

    #[test]
    fn the_order_of_people_does_not_matter() {
        let group = Group::default();
        let times = |number: u64| [("a", Some(100.0 + number as f64)), ("b", Some(150.0 - number as f64))];
        let (mut first_tally, mut second_tally) = (Tally::default(), Tally::default());
        for number in 1..=50 {
            first_tally.add_person(&group, number, &times(number));
            second_tally.add_person(&group, 51 - number, &times(51 - number));
        }
        assert_eq!(first_tally, second_tally);
    }

    #[test]
    fn losses_have_classes() {
        let class = |loss: &str| Group::new("", "", "", loss).loss;
        assert_eq!(
            ["0%", "0.001%", "0.1%", "1%", "50%"].map(class),
            ["no loss", "below 0.1 %", "0.1 to 1 %", "1 % and more", "1 % and more"]
        );
        assert_eq!(["ge:0.05%/49.95%", "ge:1.020408%/50%"].map(class), ["0.1 to 1 %", "1 % and more"]);
    }

    #[test]
    fn an_interval_is_that_of_wilson() {
        // If 10 of 100 people are in the share, the 95 % interval is 5.5 to 17.4 percent.
        let [low, high] = Share { count: 10, of: 100 }.interval();
        assert!((low - 0.0552).abs() < 1e-3 && (high - 0.1744).abs() < 1e-3, "{low} {high}");
        assert_eq!(Share { count: 0, of: 10 }.interval()[0], 0.0);
        assert_eq!(Share { count: 0, of: 0 }.value(), 0.0);
    }
}
