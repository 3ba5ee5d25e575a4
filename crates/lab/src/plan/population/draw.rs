//! Draws a person from a population. First a country is drawn in proportion to its number of users. The access is then
//! mobile with the probability of mobile access in the country's region, or else fixed. The network and the page are
//! drawn from distributions given by quantiles.
//!
//! Person `i` depends only on the seed and on `i`. People are therefore the same in any order and on any machine. Each
//! property of a person has random numbers of its own. A change of one parameter of a population therefore changes only
//! the corresponding property of its people.

use super::data::{ACCESS, Data};
use anabranch_base::Rng;

/// A parameter of a population that a plan can multiply, to see its influence on the results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScaledParameter {
    /// The packet loss.
    Loss,
    /// The mean length of a burst of losses, which is 1 packet without a factor.
    Bursts,
    /// The capacity of the bottleneck's queue.
    Queue,
    /// The round-trip time.
    Rtt,
    /// The download rate and the upload rate.
    Rate,
    /// The size of the page.
    Bytes,
}

impl ScaledParameter {
    /// The names of the parameters in plans, in the order of help texts.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("loss", Self::Loss),
        ("bursts", Self::Bursts),
        ("queue", Self::Queue),
        ("rtt", Self::Rtt),
        ("rate", Self::Rate),
        ("bytes", Self::Bytes),
    ];
}

/// A person drawn from a population, in the form of plan keys and their values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Person {
    /// The name of the person's country.
    pub country: String,
    /// The region to which the country belongs.
    pub region: String,
    /// The kind of Internet access: `fixed` or `mobile`.
    pub access: &'static str,
    /// The plan keys and values that describe the person's network and page.
    pub settings: [(&'static str, String); 7],
}

/// The maximum download or upload rate of a person, in kbit/s.
const MOST_KBIT: f64 = 10_000_000.0;
/// The maximum size of an object in bytes, for the page of a person.
const MOST_OBJECT: f64 = 100_000_000.0;

/// Draws the random properties of the person with this number. The seed and the number determine them. The parameters
/// in `scaled` are multiplied by their factors.
#[must_use]
pub fn person(data: &Data, seed: u64, number: u64, scaled: &[(ScaledParameter, f64)]) -> Person {
    let own = Rng::new(seed).fork(&format!("person {number}"));
    // The random number has 53 bits, which is the precision of an `f64`.
    let share = |part: &str| (own.fork(part).next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let times = |what: ScaledParameter| {
        scaled.iter().filter(|(one, _)| *one == what).map(|(_, by)| by).product::<f64>()
    };
    let all: u64 = data.countries.iter().map(|country| country.thousands).sum();
    let mut left = own.fork("country").below(all.max(1));
    let at = data.countries.iter().position(|country| {
        let found = left < country.thousands;
        left = left.saturating_sub(country.thousands);
        found
    });
    let country = &data.countries[at.unwrap_or(0)];
    let mobile = data.file.mobile_share.get(&country.region).copied().unwrap_or(0.0);
    let kind = usize::from(share("access") < mobile);
    let access = &data.file.access[ACCESS[kind]];
    let far = if share("far") < data.file.far.share { data.far_ms } else { 0.0 };
    let down =
        (country.medians[kind] * country.rate.at(share("rate")) * 1000.0 * times(ScaledParameter::Rate))
            .clamp(64.0, MOST_KBIT);
    let up = (down * country.up).clamp(64.0, MOST_KBIT);
    let rtt_ms = ((country.rtt.at(share("rtt")) * access.rtt + far) * times(ScaledParameter::Rtt))
        .clamp(1.0, 10_000.0);
    let loss =
        (country.loss.at(share("loss")) * data.file.loss_share * times(ScaledParameter::Loss)).min(50.0);
    // A rate in kbit/s times a time in ms gives bits, which are converted to bytes.
    let queue = (data.queues[kind].at(share("queue")) * down / 8.0 * times(ScaledParameter::Queue))
        .clamp(15_000.0, 1e9);
    let size = share("page");
    let (bytes, requests) = (data.bytes.at(size) * times(ScaledParameter::Bytes), data.requests.at(size));
    let median: f64 = data.file.page.kind.iter().map(|kind| kind.kb).sum::<f64>() + data.file.page.html_kb;
    let count: f64 = data.file.page.kind.iter().map(|kind| kind.requests).sum::<f64>() + 1.0;
    let of = |bytes: f64| (bytes.round().clamp(200.0, MOST_OBJECT)) as u64;
    let objects = data.file.page.kind.iter().map(|kind| {
        let number = (kind.requests * requests * access.requests / count).round().max(1.0);
        let kb = kind.kb * bytes * access.page_kb / median;
        format!("{}x{}B", number as u64, of(kb * 1000.0 / number))
    });
    Person {
        country: country.name.clone(),
        region: country.region.clone(),
        access: ACCESS[kind],
        settings: [
            ("down-rate", format!("{}kbit", down.round() as u64)),
            ("up-rate", format!("{}kbit", up.round() as u64)),
            ("rtt", format!("{}us", (rtt_ms * 1000.0).round() as u64)),
            ("queue", format!("{}B", queue.round() as u64)),
            ("loss", loss_model(loss, times(ScaledParameter::Bursts))),
            ("first-object", format!("{}B", of(data.file.page.html_kb * 1000.0))),
            ("objects", objects.collect::<Vec<_>>().join(",")),
        ],
    }
}

/// Returns a loss of `percent` of all packets as a plan writes it. The losses come in bursts with a mean length of `burst`
/// packets. A burst of one packet is a random loss.
fn loss_model(percent: f64, burst: f64) -> String {
    // The loss is rounded to thousandths of a percent.
    let percent = (percent * 1000.0).round() / 1000.0;
    if burst <= 1.0 || percent <= 0.0 {
        return format!("{percent}%");
    }
    // In the bad state of the Gilbert-Elliott model, each packet is lost.
    let to_good = 100.0 / burst;
    let to_bad = percent * to_good / (100.0 - percent);
    let rounded = |percent: f64| (percent * 1e6).round() / 1e6;
    format!("ge:{}%/{}%", rounded(to_bad), rounded(to_good))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn value(person: &Person, key: &str) -> String {
        person.settings.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone()).expect("a key")
    }

    #[test]
    fn a_person_follows_from_seed_and_number_alone() {
        let world = Data::world().expect("the world");
        let one = person(&world, 1, 17, &[]);
        assert_eq!(one, person(&world, 1, 17, &[]));
        assert_ne!(one, person(&world, 2, 17, &[]));
        assert_ne!(one, person(&world, 1, 18, &[]));
    }

    #[test]
    fn what_is_multiplied_changes_and_nothing_else() {
        let world = Data::world().expect("the world");
        let lossy = (0..100)
            .map(|number| (number, person(&world, 1, number, &[])))
            .find(|(_, one)| value(one, "loss") != "0%");
        let (number, as_is) = lossy.expect("one of a hundred loses packets");
        for (name, what) in ScaledParameter::NAMES {
            let factor = if what == ScaledParameter::Bursts { 2.0 } else { 0.5 };
            let changed = person(&world, 1, number, &[(what, factor)]);
            assert_ne!(changed, as_is, "{name}");
            let differing: Vec<&str> = (0..7)
                .filter(|&at| changed.settings[at] != as_is.settings[at])
                .map(|at| as_is.settings[at].0)
                .collect();
            let expected: &[&str] = match what {
                ScaledParameter::Loss | ScaledParameter::Bursts => &["loss"],
                ScaledParameter::Queue => &["queue"],
                ScaledParameter::Rtt => &["rtt"],
                // The capacity of the queue is given as a time, so its size in bytes depends on the download rate.
                ScaledParameter::Rate => &["down-rate", "up-rate", "queue"],
                ScaledParameter::Bytes => &["objects"],
            };
            assert_eq!(differing, expected, "{name}");
        }
        assert_eq!(value(&person(&world, 1, number, &[(ScaledParameter::Loss, 0.0)]), "loss"), "0%");
    }

    #[test]
    fn bursts_lose_as_many_packets_as_random_losses() {
        assert_eq!([loss_model(2.0, 1.0), loss_model(0.0, 3.0)], ["2%", "0%"]);
        assert_eq!(loss_model(2.0, 2.0), "ge:1.020408%/50%");
        assert_eq!(loss_model(50.0, 4.0), "ge:25%/25%");
    }

    #[test]
    fn many_people_are_as_the_tables_say() {
        let world = Data::world().expect("the world");
        let people: Vec<Person> = (0..20_000).map(|number| person(&world, 1, number, &[])).collect();
        let mut regions: BTreeMap<&str, u64> = BTreeMap::new();
        for one in &people {
            *regions.entry(&one.region).or_default() += 1;
        }
        let all: u64 = world.countries.iter().map(|country| country.thousands).sum();
        for (region, drawn) in regions {
            let own: u64 =
                world.countries.iter().filter(|one| one.region == region).map(|one| one.thousands).sum();
            let (wanted, drawn) = (own as f64 / all as f64, drawn as f64 / 20_000.0);
            assert!((wanted - drawn).abs() < 0.015, "{region}: {drawn} where {wanted} live");
        }
        let mut indian: Vec<u64> = people
            .iter()
            .filter(|one| one.country == "India" && one.access == "mobile")
            .map(|one| value(one, "down-rate").trim_end_matches("kbit").parse().expect("a number"))
            .collect();
        indian.sort_unstable();
        let median = indian[indian.len() / 2] as f64 / 1000.0;
        assert!((85.0..108.0).contains(&median), "India's mobile median is 96.38 Mbit/s, not {median}");
    }
}
