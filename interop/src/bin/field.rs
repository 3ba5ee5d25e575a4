//! Runs our SCTP and TCP against real programs. `field.sh` builds those programs and starts this program.
//!
//! `field matrix PEER[,PEER..] [CASE]` prints the SCTP results, with a row for each test case and a column for each
//! peer. For each column it starts `field column PEER/CARRIER [CASE [TRY]]` in new network namespaces. TRY is the
//! number of the attempt, from 1. `field tcp [CASE]`, also in new namespaces, prints the results of TCP. CASE selects
//! rows by a part of their names, or by their numbers, written as `#0,3,7`.

use anabranch_interop::field::{Column, PeerStack};
use anabranch_interop::field::{matrix, tcp};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let done = match word(0) {
        "column" => match Column::ALL.into_iter().find(|column| column.to_string() == word(1)) {
            Some(column) => matrix::column(column, word(2), word(3).parse().unwrap_or(1)).map(|()| true),
            None => return usage(),
        },
        "tcp" => tcp::column(word(1)),
        "matrix" => {
            let names = [
                ("usrsctp", PeerStack::Usrsctp),
                ("pion", PeerStack::Pion),
                ("linux", PeerStack::Linux),
                ("aiortc", PeerStack::Aiortc),
            ];
            let kinds: Vec<_> =
                names.into_iter().filter(|(name, _)| word(1).split(',').any(|one| one == *name)).collect();
            let kinds: Vec<_> = kinds.into_iter().map(|(_, kind)| kind).collect();
            matrix::matrix(&kinds, word(2), |row| println!("{row}"), |why| eprintln!("{why}"))
        }
        _ => return usage(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("field: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "field matrix PEER[,PEER..] [CASE] | field column PEER/CARRIER [CASE [TRY]] | field tcp [CASE]"
    );
    ExitCode::from(2)
}
