//! A rule that finds handshakes with more than one attempt.

use super::{Case, Evidence, packets};
use crate::arrival::Side;
use crate::table::{counted, seconds};
use crate::timeline::{Entry, Event};

/// The opening packets (such as INITs or SYNs) and cookies of a handshake that were sent again.
#[derive(Default)]
struct Retries<'a> {
    /// The requests to which no answer was captured before the next one.
    unanswered: Vec<&'a Entry>,
    /// The requests that were sent again although an answer had been captured.
    answered: Vec<&'a Entry>,
    /// The transmissions of the COOKIE ECHO.
    cookies: Vec<&'a Entry>,
    is_accepted: bool,
    first: Option<&'a Entry>,
    last_answer: Option<&'a Entry>,
    /// The total time from each request or COOKIE ECHO to its repetition.
    nanos: u64,
}

/// Finds a client that sent its first packet, or its COOKIE ECHO, more than once.
pub(super) fn retries(case: &Case<'_>) -> Option<Evidence> {
    const CLIENT: Side = 0;
    if case.side != CLIENT || case.talk.end.how == "refused" {
        return None;
    }
    // The server of DTLS or QUIC may ask for another ClientHello (RFC 6347 §4.2.1, RFC 8446 §4.1.4, RFC 9000 §8.1.2).
    let mut allowed = u64::from(matches!(case.talk.transport, "dtls" | "quic"));
    let (mut found, mut last) = (Retries::default(), None::<&Entry>);
    let mut is_answered = false;
    for entry in case.entries {
        match entry.event {
            Event::Request if entry.side == CLIENT => {
                found.first.get_or_insert(entry);
                if let Some(before) = last {
                    if is_answered && allowed > 0 {
                        allowed -= 1;
                    } else {
                        found.nanos += entry.at.saturating_sub(before.at);
                        let kind = if is_answered { &mut found.answered } else { &mut found.unanswered };
                        kind.push(entry);
                    }
                }
                (last, is_answered) = (Some(entry), false);
            }
            Event::Answer if entry.side != CLIENT => {
                (is_answered, found.last_answer) = (true, Some(entry));
            }
            Event::CookieEcho if entry.side == CLIENT => {
                if let Some(before) = found.cookies.last() {
                    found.nanos += entry.at.saturating_sub(before.at);
                }
                found.cookies.push(entry);
            }
            Event::CookieAck => found.is_accepted = true,
            _ => {}
        }
    }
    found.evidence(case, last?)
}

impl Retries<'_> {
    fn evidence(self, case: &Case<'_>, last: &Entry) -> Option<Evidence> {
        let (request, answer) = match case.talk.transport {
            "sctp" => ("INIT", "INIT ACK"),
            "tcp" => ("SYN", "SYN ACK"),
            _ => ("ClientHello", "response"),
        };
        let first = self.first?.packet;
        let numbers = |entries: &[&Entry]| entries.iter().map(|entry| entry.packet).collect::<Vec<u64>>();
        let mut requests = vec![first];
        requests.extend(numbers(&self.unanswered));
        let mut cost_ns = self.nanos;
        let text = if self.unanswered.is_empty() && self.answered.is_empty() {
            if self.cookies.len() < 2 {
                return None;
            }
            requests = numbers(&self.cookies);
            let end = match self.is_accepted {
                true => "before a COOKIE ACK came",
                false => "and no COOKIE ACK came",
            };
            format!(
                "A sent its COOKIE ECHO {} times, in {}, {end}. It was lost, its answer was lost, or B rejected the cookie.",
                requests.len(),
                packets(&requests),
            )
        } else if self.unanswered.is_empty() {
            requests.extend(numbers(&self.answered));
            format!(
                "A sent its {request} {} times, in {}, although the {answer} of B was captured. The {answer} was lost, came too \
                 late, or was not accepted.",
                requests.len(),
                packets(&requests),
            )
        } else if let Some(answered) = self.last_answer {
            format!(
                "A sent its {request} {} times, in {}, before B answered in packet {}. The first attempts or their \
                 answers were lost; the capture does not show which.",
                requests.len(),
                packets(&requests),
                answered.packet,
            )
        } else {
            cost_ns += case.until().saturating_sub(last.at);
            // Such packets belong to an earlier connection between the same ports. B takes the requests for packets of that
            // connection (RFC 6347 §4.2.8, RFC 9293 §3.10.7.4).
            let reason = match (case.icmp(0), case.talk.directions[1].packets) {
                (Some((reason, _)), _) => reason,
                (None, 0) => {
                    "A firewall, a wrong address or a stopped host explains this; the capture does not show which."
                        .to_owned()
                }
                (None, others) => format!(
                    "B sent {} meanwhile, so it is reachable. It may still have an earlier connection between these ports.",
                    counted(others, "packet")
                ),
            };
            format!(
                "B never answered: A sent its {request} {} times, in {}, and no {answer} was captured. {reason}",
                requests.len(),
                packets(&requests),
            )
        };
        let text = format!("{text} The attempts took {}.", seconds(cost_ns));
        Some(Evidence { cost_ns, text, packets: requests })
    }
}
