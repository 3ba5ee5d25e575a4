//! Prints races whose true causes are known, next to the causes that the search for causes finds.
//!
//!     cargo run --release --bin causes [-- RUNS [quick|full [NAME..]]]
//!
//! RUNS is the number of runs of each contestant, by default 100. `quick` (the default) and `full` select the search
//! for causes. NAME selects the situations whose names contain it. With a NAME, the table also lists every tested
//! factor. The exit status is 1 if a result is wrong.

use anabranch_benches::causes::{ALL, Row, run, table};
use anabranch_results::Effect;
use std::process::ExitCode;

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let runs = given.first().map_or("100", String::as_str);
    let causes = given.get(1).map_or("quick", String::as_str);
    let names = given.get(2..).unwrap_or_default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let chosen = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(part.as_str()));
    let rows: Vec<Row> = ALL
        .iter()
        .filter(|situation| chosen(situation.name))
        .map(|situation| run(situation, runs, causes, threads))
        .collect();
    print!("{}", table(&rows));
    for row in rows.iter().filter(|_| !names.is_empty()) {
        details(row);
    }
    ExitCode::from(u8::from(rows.iter().any(|row| !row.right)))
}

fn details(row: &Row) {
    let Some(experiment) = &row.experiment else { return };
    let ratio = |effect: &Effect| format!("x{:.3} ({:.3}-{:.3})", effect.ratio, effect.ci[0], effect.ci[1]);
    let optional = |effect: &Option<Effect>| effect.as_ref().map_or("-".to_owned(), ratio);
    println!("\n{}: {} runs of experiments", row.situation.name, experiment.runs);
    for tried in &experiment.factors {
        println!("  {} in place of {}: {}", tried.change, tried.was, tried.contestant);
        println!("    alone {}, marginal {}", ratio(&tried.alone), optional(&tried.marginal_effect));
        if tried.shapley.is_some() {
            println!(
                "    over all orders {}, in the winner {}",
                optional(&tried.shapley),
                optional(&tried.reverse)
            );
        }
    }
    println!("  left {}", optional(&experiment.unexplained));
    for condition in &experiment.conditions {
        println!("  without {}: x{:.3}", condition.without, condition.gap);
    }
    for note in &experiment.notes {
        println!("  {note}");
    }
}
