//! Goodput over round trips and losses, as it stands: a change of behaviour shows here as a difference to be looked at.
//!
//! Ten megabytes and one seed a cell say little of a mean; `cargo run --release -p anabranch-lab --example grid` runs
//! more.

#[path = "../examples/grid.rs"]
#[expect(dead_code, reason = "the example's main is a command of its own")]
mod grid;

#[test]
fn goodput_is_what_was_recorded() {
    let transports: Vec<String> = grid::TRANSPORTS.iter().map(|&name| name.to_owned()).collect();
    expect_test::expect_file!["grid.txt"].assert_eq(&grid::render("10MB", "1", &transports));
}
