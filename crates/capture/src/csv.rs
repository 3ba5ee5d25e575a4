//! The streams of a capture as CSV, with a row for each stream and direction. A TCP connection counts as a single
//! stream and has a row for each direction that carried data.

use super::results::{Conversation, Decoded, Retransmitted};
use anabranch_results::csv::field;
use std::fmt::Write;

/// Returns a header and the rows. The format is that of RFC 4180, but lines end in a line feed alone. Fields that a
/// transport does not have are empty.
#[must_use]
pub fn render(decoded: &Decoded) -> String {
    let mut out = COLUMNS.join(",") + "\n";
    for (number, conversation) in (1..).zip(&decoded.conversations) {
        rows(&mut out, number, conversation);
    }
    out
}

fn rows(out: &mut String, number: usize, conversation: &Conversation) {
    let sides: Vec<String> = conversation
        .sides
        .iter()
        .map(|side| format!("{},{}", field(&side.addresses.join(" ")), side.port))
        .collect();
    let begin = format!("{number},{},{}", conversation.transport, sides.join(","));
    for (label, direction) in ["A to B", "B to A"].iter().zip(&conversation.directions) {
        let mut row = |stream: &str, counts: [u64; 2], numbers: [u32; 2], of: Retransmitted| {
            let ([data, bytes], [first, last]) = (counts, numbers);
            let Retransmitted { fast, timeout, other, inferred, spurious } = of;
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "{begin},{label},{stream},{data},{bytes},{first},{last},{fast},{timeout},{other},{inferred},{spurious}"
            );
        };
        for (id, stream) in &direction.streams {
            let columns = format!("{id},{},{}", stream.messages, stream.unordered);
            row(&columns, [stream.chunks, stream.bytes], stream.tsns, stream.retransmitted);
        }
        if let (true, Some(numbers)) = (conversation.transport == "tcp", direction.numbers) {
            row(",,", [direction.data, direction.bytes], numbers, direction.retransmitted);
        }
    }
}

/// `data` is the number of DATA or I-DATA chunks (SCTP), or of segments with data (TCP). Retransmissions are not
/// counted in `data`. `first` and `last` are TSNs or sequence numbers. The columns from `fast` to `spurious` count
/// retransmissions.
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
