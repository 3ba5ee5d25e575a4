//! Formats the findings in a capture as text: why conversations were slow or failed.

use super::handshake::NO_SECRETS;
use super::results::{Conversation, Decoded, Security};
use super::table::{counted, encryption_unit, headline, seconds, subject};
use std::fmt::Write;

/// Formats the findings of all conversations, the most expensive of each conversation first, and says which conversations
/// stayed encrypted. The text ends in a line feed.
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
    let encrypted = decoded.conversations.iter().filter(|conversation| is_encrypted(conversation));
    let mut needs_secrets = false;
    for conversation in encrypted {
        let Some(Security { opened, sealed, why_sealed, protocol, .. }) = conversation.security.as_deref()
        else {
            continue;
        };
        let why = why_sealed.as_deref().unwrap_or_default();
        needs_secrets |= why == NO_SECRETS;
        let _ = writeln!(
            text,
            "\n{}\n  Encrypted: {sealed} of {} were not decrypted ({why}). Reasons inside them cannot be found.",
            subject(conversation),
            counted(opened + sealed, encryption_unit(protocol)),
        );
    }
    if needs_secrets {
        let _ = writeln!(
            text,
            "\nGive the secrets with --keylog FILE; an endpoint writes them to SSLKEYLOGFILE."
        );
    }
    let searched: Vec<&Conversation> = others.into_iter().filter(|other| !is_encrypted(other)).collect();
    if !searched.is_empty() {
        let _ = writeln!(text, "\nNothing found in {}.", counted(searched.len() as u64, "conversation"));
        let left_out: u64 = searched.iter().map(|conversation| conversation.events_left_out).sum();
        if left_out > 0 {
            let _ = writeln!(text, "The last {} were not considered.", counted(left_out, "event"));
        }
    }
    text
}

/// Returns whether a reason is known why a part of the conversation could not be decrypted.
fn is_encrypted(conversation: &Conversation) -> bool {
    conversation.security.as_ref().is_some_and(|security| security.why_sealed.is_some())
}
