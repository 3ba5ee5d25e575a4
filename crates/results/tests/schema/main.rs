//! Tests that results have exactly the fields of the published schema.

mod conforms;

use anabranch_results::{Race, json};
use conforms::conforms;

#[test]
fn a_full_result_conforms() {
    let text = include_str!("../data/race-full.json");
    let race = Race::from_json(text).expect("a result");
    conforms(&json::render(&race));
}

#[test]
fn another_schema_is_refused_in_one_line() {
    for (text, needle) in [
        ("{", "not JSON"),
        ("{\"schema\": \"other/1\"}", "other/1"),
        ("{}", "no schema"),
        ("{\"schema\": \"anabranch.race/1\"}", "of an older version"),
        ("{\"schema\": \"anabranch.race/2\"}", "missing field"),
    ] {
        let error = Race::from_json(text).expect_err(text);
        assert!(error.contains(needle) && !error.contains('\n'), "{error}");
    }
}
