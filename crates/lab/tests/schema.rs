//! The results of a real race have exactly the fields of the published schema.

#[path = "../../results/tests/schema/conforms.rs"]
mod conforms;

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_results::json;
use anabranch_transports::Transports;
use conforms::conforms;
use std::sync::atomic::AtomicBool;

#[test]
fn a_real_race_conforms() {
    let flags = [
        ("page", "gallery"),
        ("runs", "12"),
        ("loss", "0,2%"),
        ("transport", "tcp,sctp"),
        ("deadline", "2s"),
        ("causes", "full"),
    ];
    let plan =
        Plan::interpret(Draft::from_flags(flags).expect("flags"), &Transports::standard()).expect("a plan");
    let options = Options { threads: 1, progress: &|_| {}, stop: &AtomicBool::new(false) };
    let race = causes::race(&plan, &options).unwrap_or_else(|e| panic!("{e}"));
    conforms(&json::render(&race));
}
