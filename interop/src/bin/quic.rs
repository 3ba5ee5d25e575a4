//! Runs our HTTP/3 against other implementations. `quic.sh` builds those implementations and starts this program.
//!
//! `quic STACK[,STACK..] [CASE]` runs the cases between these stacks and ours, and prints a table of the results. If
//! CASE is given, only the cases whose names contain CASE are run.

use anabranch_interop::quic::{Stack, matrix};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (stacks, chosen) = match &words[..] {
        [stacks] => (stacks, ""),
        [stacks, chosen] => (stacks, chosen.as_str()),
        _ => return usage(),
    };
    let known = [Stack::Ours, Stack::Aioquic, Stack::Quiche];
    let named: Option<Vec<_>> =
        stacks.split(',').map(|name| known.into_iter().find(|stack| stack.to_string() == name)).collect();
    let Some(named) = named else { return usage() };
    match matrix::matrix(&named, chosen, |row| println!("{row}"), |why| eprintln!("{why}")) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn usage() -> ExitCode {
    eprintln!("quic STACK[,STACK..] [CASE], of ours, aioquic, quiche");
    ExitCode::from(2)
}
