//! Formats the findings in a capture as text: why conversations were slow or failed.

use super::results::{Conversation, Decoded};
use super::table::{counted, headline, seconds, subject};
use std::fmt::Write;

/// Formats the findings of all conversations, the most expensive of each conversation first. The text ends in a line
/// feed.
#[must_use]
pub fn render(decoded: &Decoded) -> String {
    let mut text = headline(decoded);
    let (found, others): (Vec<&Conversation>, Vec<&Conversation>) =
        decoded.conversations.iter().partition(|conversation| !conversation.findings.is_empty());
    for conversation in found {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{}", subject(conversation));
        for finding in &conversation.findings {
            let cost = if finding.cost_ns > 0 { seconds(finding.cost_ns) } else { "-".to_owned() };
            let _ = writeln!(text, "  {cost:>10}  {}", finding.text);
        }
        if conversation.events_left_out > 0 {
            let left_out = counted(conversation.events_left_out, "event");
            let _ = writeln!(text, "              The last {left_out} were not considered.");
        }
    }
    if !others.is_empty() {
        let _ = writeln!(text, "\nNothing found in {}.", counted(others.len() as u64, "conversation"));
        let left_out: u64 = others.iter().map(|conversation| conversation.events_left_out).sum();
        if left_out > 0 {
            let _ = writeln!(text, "The last {} were not considered.", counted(left_out, "event"));
        }
    }
    text
}
