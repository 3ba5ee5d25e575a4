//! Draws a report again from its results: `cargo run -p anabranch-lab --example redraw -- results.json > report.html`.

use anabranch_report::{PageContext, table};
use anabranch_results::Race;
use anabranch_transports::Transports;
use std::error::Error;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("which results.json?")?;
    let race = Race::from_json(&std::fs::read_to_string(file)?)?;
    let transports = Transports::standard();
    let terms: Vec<Vec<String>> = race
        .points
        .iter()
        .map(|point| table::terms(point, &transports.protocols(), &anabranch_report::names(point)))
        .collect();
    let framing = PageContext { command: "anabranch race", terms: &terms, ..PageContext::default() };
    std::io::stdout().write_all(anabranch_report::html(&race, &framing).as_bytes())?;
    Ok(())
}
