//! Made-up results of simulated people, for the tests of the text and the HTML page.

use super::Tally;
use super::tally::{Group, NamedCause};
use anabranch_results::Verdict;

/// Returns made-up results of three people in two regions.
pub fn three() -> Tally {
    let mut tally = Tally::default();
    let group = |region: &str| Group::new("", region, "fixed", if region == "Africa" { "2%" } else { "0%" });
    tally.add_person(&group("Europe"), 1, &[("six=tcp:connections=6", Some(200.0)), ("quic", Some(100.0))]);
    tally.add_person(&group("Europe"), 2, &[("quic", Some(101.0)), ("six=tcp:connections=6", Some(100.0))]);
    tally.add_person(&group("Africa"), 10, &[("quic", None), ("six=tcp:connections=6", Some(100.0))]);
    tally.decide(&group("Europe"), 1, "quic", "six=tcp:connections=6", Verdict::Less);
    tally.decide(&group("Europe"), 2, "six=tcp:connections=6", "quic", Verdict::Level);
    tally.decide(&group("Africa"), 10, "six=tcp:connections=6", "quic", Verdict::Less);
    let found = NamedCause {
        winner: "six=tcp:connections=6",
        loser: "quic",
        factor: "windows",
        change: "iw=40",
        effect: 1.21,
        holds_back: false,
    };
    tally.add_cause("", 10, &found);
    tally.add_cause("", 20, &NamedCause { effect: 1.0, ..found });
    tally.add_cause("", 10, &NamedCause { effect: 0.5, factor: "request order", holds_back: true, ..found });
    tally
}
