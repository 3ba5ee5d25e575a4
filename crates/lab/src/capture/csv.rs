//! What a capture says of streams, as CSV: a row for each stream and direction; of a TCP connection, which has but one
//! stream, a row for each direction that carried data.

use super::results::{Conversation, Decoded, Repairs};
use crate::csv::field;
use std::fmt::Write;

/// The rows, under a header (RFC 4180, but lines end in a line feed alone). What a transport does not have is an empty
/// field.
#[must_use]
pub fn render(decoded: &Decoded) -> String {
    let mut out = COLUMNS.join(",") + "\n";
    for (number, talk) in (1..).zip(&decoded.conversations) {
        conversation(&mut out, number, talk);
    }
    out
}

fn conversation(out: &mut String, number: usize, talk: &Conversation) {
    let sides: Vec<String> =
        talk.sides.iter().map(|side| format!("{},{}", field(&side.addresses.join(" ")), side.port)).collect();
    let begin = format!("{number},{},{}", talk.transport, sides.join(","));
    for (way, direction) in ["A to B", "B to A"].iter().zip(&talk.directions) {
        let mut row = |stream: &str, counts: [u64; 2], numbers: [u32; 2], again: Repairs| {
            let ([data, bytes], [first, last]) = (counts, numbers);
            let Repairs { fast, timeout, other, inferred, spurious } = again;
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "{begin},{way},{stream},{data},{bytes},{first},{last},{fast},{timeout},{other},{inferred},{spurious}"
            );
        };
        for (id, stream) in &direction.streams {
            let place = format!("{id},{},{}", stream.messages, stream.unordered);
            row(&place, [stream.chunks, stream.bytes], stream.tsns, stream.repairs);
        }
        if let (true, Some(numbers)) = (talk.transport == "tcp", direction.numbers) {
            row(",,", [direction.data, direction.bytes], numbers, direction.repairs);
        }
    }
}

/// `data` counts DATA or I-DATA chunks, or segments with data, the first time they were sent; `first` and `last` are TSNs or
/// sequence numbers; what follows was retransmitted.
const COLUMNS: &[&str] = &[
    "conversation",
    "transport",
    "a",
    "a_port",
    "b",
    "b_port",
    "direction",
    "stream",
    "messages",
    "unordered",
    "data",
    "bytes",
    "first",
    "last",
    "fast",
    "timeout",
    "other",
    "inferred",
    "spurious",
];
