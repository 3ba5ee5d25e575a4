//! Prints the results of every case with every peer: `cargo run --release`.
//!
//! These environment variables change the run: `SEEDS` is the number of seeds, 200 by default. `STACK` and `CASE`
//! select the peers and the cases whose names contain the given text. `SEED` runs only one seed.

use anabranch_interop::cases::Case;
use anabranch_interop::peers::Stack;
use anabranch_interop::table::table;
use std::process::ExitCode;

fn main() -> ExitCode {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (stack, case) =
        (std::env::var("STACK").unwrap_or_default(), std::env::var("CASE").unwrap_or_default());
    if let Some(seed) = number("SEED") {
        let mut status = ExitCode::SUCCESS;
        for one in Stack::ALL.into_iter().filter(|one| one.name().contains(&stack)) {
            for which in Case::ALL.into_iter().filter(|which| which.to_string().contains(&case)) {
                match one.lacks(which).map_or_else(|| which.run(one, seed), |what| Err(what.to_owned())) {
                    Ok(_) => println!("{which} with {}: holds", one.name()),
                    Err(why) => {
                        println!("{which} with {}: {why}", one.name());
                        status = ExitCode::FAILURE;
                    }
                }
            }
        }
        return status;
    }
    let chosen = |one: Stack, which: Case| one.name().contains(&stack) && which.to_string().contains(&case);
    let holds =
        table(number("SEEDS").unwrap_or(200), chosen, |row| println!("{row}"), |why| eprintln!("{why}"));
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
