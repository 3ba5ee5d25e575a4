//! People for the tests of what is said of them.

use super::Tally;
use super::tally::Group;

/// Three people in two regions.
pub fn three() -> Tally {
    let mut tally = Tally::default();
    let place = |region: &str| Group::new("", region, "fixed", if region == "Africa" { "2%" } else { "0%" });
    tally.add_person(&place("Europe"), 1, &[("six=tcp:connections=6", Some(200.0)), ("quic", Some(100.0))]);
    tally.add_person(&place("Europe"), 2, &[("quic", Some(101.0)), ("six=tcp:connections=6", Some(100.0))]);
    tally.add_person(&place("Africa"), 10, &[("quic", None), ("six=tcp:connections=6", Some(100.0))]);
    tally.add_cause("", "six=tcp:connections=6", "quic", "windows", 1.21);
    tally.add_cause("", "six=tcp:connections=6", "quic", "windows", 1.0);
    tally
}
