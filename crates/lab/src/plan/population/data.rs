//! The file of a population of simulated users. It has countries with their numbers of users and measurements, and
//! assumptions.
//!
//! The file is TOML, and a CSV table next to it has the countries. The file and the table are checked completely before
//! people are drawn at random from them, so that every person gets a valid network.

use super::quantiles::{LEVELS, Quantiles};
use anabranch_base::units::parse_duration;
use anabranch_report::people::page::Parameter;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The text of the population file that is part of the program.
pub const WORLD: &str = include_str!("world.toml");
/// The table of countries that belongs to the population file [`WORLD`].
pub const WORLD_COUNTRIES: &str = include_str!("countries.csv");

/// The maximum number of countries in a population.
const MOST_COUNTRIES: usize = 1000;

/// A population file as it was written.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    /// The name of the population.
    pub name: String,
    /// The name of the file with the table of countries. The file must be in the directory of this population file.
    pub countries: String,
    /// The assumptions about each kind of Internet access: `fixed` and `mobile`.
    pub access: BTreeMap<String, Access>,
    /// For each region, the share of page loads that use `mobile` access.
    pub mobile_share: BTreeMap<String, f64>,
    /// The assumptions about distant servers.
    pub far: DistantServers,
    /// The share of the measured packet loss that affects the loading of a page.
    pub loss_share: f64,
    /// The distribution of page sizes.
    pub page: Pages,
    /// The origin of each value in the population file.
    pub parameter: Vec<Parameter>,
}

/// The assumptions about a kind of Internet access.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Access {
    /// The factor by which the country's round-trip time is multiplied.
    pub rtt: f64,
    /// The quantiles, at [`LEVELS`], of the capacity of the bottleneck's queue. The capacity is given as the time in
    /// milliseconds to send a full queue at the person's download rate.
    pub queue_ms: Vec<f64>,
    /// The size of the median page in kilobytes.
    pub page_kb: f64,
    /// The number of requests of the median page.
    pub requests: f64,
}

/// The assumptions about distant servers.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistantServers {
    /// The share of page loads that use distant servers.
    pub share: f64,
    /// The time that a distant server adds to the round-trip time, with a unit, for example `80ms`.
    pub rtt: String,
}

/// The variation of pages around the median page, and the composition of pages.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pages {
    /// The quantiles of the page size, as multiples of the median. The probabilities of the quantiles are [`LEVELS`].
    pub bytes: Vec<f64>,
    /// The quantiles of the number of requests, as multiples of the median. The probabilities of the quantiles are
    /// [`LEVELS`].
    pub requests: Vec<f64>,
    /// The size of the HTML document in kilobytes. It is loaded before all other objects.
    pub html_kb: f64,
    /// The kinds of the other objects of a page.
    pub kind: Vec<ObjectTotals>,
}

/// The objects of one kind in the median page.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectTotals {
    /// The number of objects of this kind.
    pub requests: f64,
    /// The total size of the objects of this kind in kilobytes.
    pub kb: f64,
}

/// The measurements for one country.
#[derive(Clone, PartialEq, Debug)]
pub struct Country {
    /// The name of the country.
    pub name: String,
    /// The region to which the country belongs.
    pub region: String,
    /// The number of Internet users in thousands.
    pub thousands: u64,
    /// The median download rates in Mbit/s, for `fixed` and `mobile` access.
    pub medians: [f64; 2],
    /// The distribution of the download rate, as a multiple of the median rate.
    pub rate: Quantiles,
    /// The upload rate, as a multiple of the download rate.
    pub up: f64,
    /// The distribution of the round-trip time to the nearest server, in milliseconds.
    pub rtt: Quantiles,
    /// The distribution of the packet loss, in percent.
    pub loss: Quantiles,
}

/// The kinds of Internet access, in the order of [`Country::medians`].
pub const ACCESS: [&str; 2] = ["fixed", "mobile"];

/// A population after parsing and checking.
#[derive(Clone, PartialEq, Debug)]
pub struct Data {
    /// The population file as it was written.
    pub file: File,
    /// The rows of the table of countries.
    pub countries: Vec<Country>,
    /// The time in milliseconds that distant servers add to the round-trip time.
    pub far_ms: f64,
    /// The distribution of the queue's capacity in milliseconds, for each kind of access.
    pub queues: [Quantiles; 2],
    /// The distribution of the size of a page, divided by the median size.
    pub bytes: Quantiles,
    /// The distribution of the number of requests of a page, divided by the median number.
    pub requests: Quantiles,
}

impl Data {
    /// Parses the text of a population file and of its table of countries. Error messages call the population file
    /// `name`.
    ///
    /// # Errors
    /// One line that says where the mistake is and what to write instead.
    pub fn parse(name: &str, text: &str, table: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            format!("{name}: line {line}: {}", error.message())
        })?;
        let at = |what: String| format!("{name}: {what}");
        let share = |key: &str, value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(at(format!("{key} = {value}: write a share from 0 to 1"))),
        };
        share("far.share", file.far.share)?;
        share("loss-share", file.loss_share)?;
        for (region, value) in &file.mobile_share {
            share(&format!("mobile-share.{region}"), *value)?;
        }
        let access = |kind: &str| {
            let found = file.access.get(kind).ok_or_else(|| at(format!("has no table [access.{kind}]")))?;
            let positive = [found.rtt, found.page_kb, found.requests].iter().all(|value| *value > 0.0);
            match positive && found.page_kb <= 100_000.0 && found.requests <= 1000.0 && found.rtt <= 100.0 {
                true => Ok(found.clone()),
                false => Err(at(format!(
                    "access.{kind}: rtt, page-kb and requests are positive, at most 100, 100000 and 1000"
                ))),
            }
        };
        let kinds = [access(ACCESS[0])?, access(ACCESS[1])?];
        if let Some(other) = file.access.keys().find(|kind| !ACCESS.contains(&kind.as_str())) {
            return Err(at(format!("access.{other}: write access.fixed and access.mobile")));
        }
        let quantiles = |key: &str, values: &[f64], most: f64| {
            Quantiles::new(values, most).map_err(|error| at(format!("{key}: {error}")))
        };
        let queue =
            |at: usize| quantiles(&format!("access.{}.queue-ms", ACCESS[at]), &kinds[at].queue_ms, 60_000.0);
        let queues = [queue(0)?, queue(1)?];
        let bytes = quantiles("page.bytes", &file.page.bytes, 100.0)?;
        let requests = quantiles("page.requests", &file.page.requests, 100.0)?;
        let whole = file.page.kind.iter().all(|kind| kind.requests > 0.0 && kind.kb > 0.0);
        if !(whole && (1..=20).contains(&file.page.kind.len()) && file.page.html_kb > 0.0) {
            return Err(at(
                "page: html-kb, and requests and kb of one to twenty kinds, are positive".to_owned()
            ));
        }
        let far = parse_duration(&file.far.rtt).map_err(|error| at(format!("far.rtt: {error}")))?;
        let countries = countries(&file.countries, table)?;
        if let Some(one) = countries.iter().find(|one| !file.mobile_share.contains_key(&one.region)) {
            return Err(at(format!("mobile-share has no '{}', the region of {}", one.region, one.name)));
        }
        Ok(Self { countries, far_ms: far.as_secs_f64() * 1e3, queues, bytes, requests, file })
    }

    /// Returns the population that is part of the program.
    ///
    /// # Errors
    /// None in practice, because a test parses this population.
    pub fn world() -> Result<Self, String> {
        Self::parse("world.toml", WORLD, WORLD_COUNTRIES)
    }
}

/// Parses the table of countries.
fn countries(name: &str, table: &str) -> Result<Vec<Country>, String> {
    let mut lines = table.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    let heading = lines.next().map_or("", |(_, line)| line);
    let levels =
        |what: &str| LEVELS.iter().map(move |level| format!("{what}{level}")).collect::<Vec<_>>().join(",");
    let wanted = format!(
        "country,region,users,fixed,mobile,{},up50,{},{}",
        levels("down"),
        levels("rtt"),
        levels("loss")
    );
    if heading != wanted {
        return Err(format!("{name}: its first line is not '{wanted}'"));
    }
    let mut found: Vec<Country> = Vec::new();
    for (number, line) in lines {
        let at = |what: &str| format!("{name}: line {}: {what}", number + 1);
        let fields: Vec<&str> = line.split(',').collect();
        let [country, region, rest @ ..] = fields.as_slice() else {
            return Err(at("a country and its region come first"));
        };
        let numbers: Option<Vec<f64>> = rest
            .iter()
            .map(|field| field.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0))
            .collect();
        let wide = 4 + 3 * LEVELS.len();
        let Some(numbers) = numbers.filter(|numbers| numbers.len() == wide) else {
            return Err(at(&format!("{wide} numbers follow the region, 0 or more")));
        };
        let (users, fixed, mobile, up) = (numbers[0], numbers[1], numbers[2], numbers[3 + LEVELS.len()]);
        let part = |from: usize| &numbers[from..from + LEVELS.len()];
        let down = part(3);
        let median = down[LEVELS.len() / 2];
        if !((0.001..=10_000.0).contains(&users) && fixed > 0.0 && mobile > 0.0 && up > 0.0 && down[0] > 0.0)
        {
            return Err(at("users (millions, up to 10000) and rates are positive"));
        }
        let over: Vec<f64> = down.iter().map(|rate| rate / median).collect();
        let quantiles = |values: &[f64], most| Quantiles::new(values, most).map_err(|error| at(&error));
        if found.iter().any(|other| other.name == *country) {
            return Err(at(&format!("'{country}' stands twice")));
        }
        found.push(Country {
            name: (*country).to_owned(),
            region: (*region).to_owned(),
            thousands: (users * 1000.0) as u64,
            medians: [fixed, mobile],
            rate: quantiles(&over, 10_000.0)?,
            up: up / median,
            rtt: quantiles(part(4 + LEVELS.len()), 10_000.0)?,
            loss: quantiles(part(4 + 2 * LEVELS.len()), 100.0)?,
        });
    }
    match (1..=MOST_COUNTRIES).contains(&found.len()) {
        true => Ok(found),
        false => Err(format!("{name}: holds {} countries; write 1 to {MOST_COUNTRIES}", found.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_is_understood() {
        let world = Data::world().expect("the population that the program contains");
        assert!(world.countries.len() > 50);
        assert!(world.file.parameter.iter().all(|one| ["measured", "assumed"].contains(&one.is.as_str())));
        assert!(world.file.parameter.iter().all(|one| !one.source.is_empty()));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let with = |from: &str, to: &str| {
            assert!(WORLD.contains(from), "{from}");
            Data::parse("p.toml", &WORLD.replacen(from, to, 1), WORLD_COUNTRIES).expect_err(to)
        };
        for (from, to, said) in [
            ("loss-share = 0.1", "loss-share = 7", "p.toml: loss-share = 7: write a share from 0 to 1"),
            ("loss-share = 0.1", "los-share = 0.1", "p.toml: line"),
            ("[access.mobile]", "[access.radio]", "p.toml: has no table [access.mobile]"),
            ("Oceania", "Oceanien", "p.toml: mobile-share has no 'Oceania', the region of Australia"),
            ("rtt = \"80ms\"", "rtt = \"80\"", "p.toml: far.rtt: "),
        ] {
            let line = with(from, to);
            assert!(line.starts_with(said) && !line.contains('\n'), "{line}");
        }
        let table = |from: &str, to: &str| {
            assert!(WORLD_COUNTRIES.contains(from), "{from}");
            Data::parse("p.toml", WORLD, &WORLD_COUNTRIES.replacen(from, to, 1)).expect_err(to)
        };
        for (from, to, said) in [
            ("country,region", "land,region", "its first line is not"),
            ("India,Southern Asia,600.4", "India,Southern Asia,-1", "numbers follow the region"),
            ("India,Southern Asia,600.4", "India,Southern Asia", "numbers follow the region"),
            ("\nIndia,", "\nBrazil,", "'Brazil' stands twice"),
        ] {
            let line = table(from, to);
            assert!(
                line.starts_with("countries.csv: ") && line.contains(said) && !line.contains('\n'),
                "{line}"
            );
        }
        assert!(Data::parse("p", WORLD, "").is_err());
    }
}
