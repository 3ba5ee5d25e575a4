//! Draws packet ladders (sequence diagrams) side by side: connection set-up, termination, stream sequence numbers, and
//! the addresses of an association.

use super::harness::{MessageOptions, MessageTransport};
use super::testbed::{A, B, PORT, QUIET, Testbed};
use super::{Drawing, TransportKind, connected, with_harness};

pub(super) fn all() -> Result<Vec<Drawing>, String> {
    Ok(vec![
        setup(
            EARLY,
            "INIT and INIT ACK leave no memory at B; the cookie brings back what B needs to know. The cookie is \
             authenticated (a keyed hash), not encrypted as some slides have it: its content may be read by all.",
            (TransportKind::Sctp, &[("cookie_data", "yes")]),
        )?,
        setup(
            LATE,
            "the same with cookie_data=no: the first byte of data is a round trip later.",
            (TransportKind::Sctp, &[("cookie_data", "no")]),
        )?,
        setup(
            HANDSHAKE,
            "data may follow the third packet at once; B remembers A from the first packet on.",
            (TransportKind::Tcp, &[]),
        )?,
        ending(
            THREE,
            "SHUTDOWN, SHUTDOWN ACK, SHUTDOWN COMPLETE: both directions end together.",
            TransportKind::Sctp,
        )?,
        ending(FOUR, "each direction has its FIN and its acknowledgement.", TransportKind::Tcp)?,
        streams()?,
        addresses()?,
    ])
}

/// Renders packet ladders side by side, each with its own times. The ladders show the names of packets, without their
/// contents.
pub(super) fn side_by_side(titles: &[(&str, &str)], drawings: &[Drawing]) -> String {
    let columns: Vec<(&str, Vec<String>)> = titles
        .iter()
        .filter_map(|(name, title)| {
            let drawing = drawings.iter().find(|drawing| drawing.title == *title)?;
            Some((*name, drawing.ladder.lines().map(leg).collect()))
        })
        .collect();
    let rows = columns.iter().map(|(_, legs)| legs.len()).max().unwrap_or(0);
    let mut out = String::new();
    let mut line = |texts: Vec<&str>| {
        let mut row = String::new();
        for ((name, legs), text) in columns.iter().zip(texts) {
            let width = legs.iter().map(|leg| leg.chars().count()).max().unwrap_or(0).max(name.len());
            row += &format!("   {text:<width$}");
        }
        out += row.trim_end();
        out.push('\n');
    };
    line(columns.iter().map(|(name, _)| *name).collect());
    for row in 0..rows {
        line(columns.iter().map(|(_, legs)| legs.get(row).map_or("", String::as_str)).collect());
    }
    out
}

/// Shortens a line of a packet diagram. The result has the time and the direction of the packet, and the names of its
/// chunks or flags.
fn leg(line: &str) -> String {
    let Some((arrow, (ends, content))) = ["──►", "◄──"].iter().find_map(|a| Some((a, line.split_once(a)?)))
    else {
        return String::new();
    };
    let time = ends.split_whitespace().next().unwrap_or("");
    // `content` begins with the name of the other host. Then come chunks or flags, separated by semicolons. Each begins
    // with its name: one or more words in capital letters. The other words are values.
    let content = content.trim_start().split_once(' ').map_or("", |(_, rest)| rest);
    let name = |part: &str| {
        let words = part.split_whitespace();
        let upper = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '-');
        words.take_while(upper).collect::<Vec<_>>().join(" ")
    };
    let names: Vec<String> = content.split("; ").map(name).collect();
    format!("{time} {arrow} {}", names.join("; "))
}

/// The titles of the packet ladders that show connection set-up, by transport.
pub(super) const SETUPS: [(&str, &str); 3] =
    [("SCTP", EARLY), ("SCTP, cookie_data=no", LATE), ("TCP", HANDSHAKE)];
/// The titles of the packet ladders that show termination, by transport.
pub(super) const ENDINGS: [(&str, &str); 2] = [("SCTP", THREE), ("TCP", FOUR)];

const EARLY: &str = "4-way set-up of SCTP, data in the third packet";
const LATE: &str = "4-way set-up of SCTP, data after it";
const HANDSHAKE: &str = "3-way set-up of TCP";
const THREE: &str = "3-way termination of SCTP";
const FOUR: &str = "4-way termination of TCP";

fn setup(
    title: &str,
    note: &str,
    (kind, changes): (TransportKind, &[(&str, &str)]),
) -> Result<Drawing, String> {
    let testbed = Testbed::quiet()?;
    let first = with_harness(&testbed, &kind.carrier(changes), async |harness| {
        let started_at = harness.now();
        harness.open(PORT);
        if kind == TransportKind::Tcp {
            harness.until(1_000, |harness| harness.established[A]).await;
        }
        harness.send(A, b"first bytes of data", MessageOptions::default());
        harness.until(1_000, |harness| !harness.received[B].is_empty()).await;
        // Waits for packets that are still in flight to A, so that the ladder includes them.
        harness.pass(30).await;
        harness.received[B].first().map(|part| (part.at - started_at).as_millis())
    })?;
    let first = first.map_or("never".to_owned(), |ms| format!("after {ms} ms (the round trip is 40 ms)"));
    let note = format!("{note} First byte of data at B: {first}.");
    Ok(Drawing { title: title.to_owned(), note, ladder: testbed.ladder(kind.ladder())? })
}

fn ending(title: &str, note: &str, kind: TransportKind) -> Result<Drawing, String> {
    let testbed = Testbed::quiet()?;
    let started_at = connected(&testbed, &kind.carrier(&[]), async |harness| {
        harness.pass(1_000).await;
        let started_at = harness.now();
        harness.finish(A);
        harness.until(1_000, |harness| harness.finished[B]).await;
        if kind == TransportKind::Tcp {
            harness.finish(B);
        }
        harness.pass(1_000).await;
        started_at
    })?;
    // This packet ladder leaves out the packets of the handshake, because other ladders show them.
    let from = started_at.as_nanos() / 1_000_000;
    let ladder = testbed.ladder(kind.ladder())?;
    let late = |line: &&str| {
        let clock = line.split_whitespace().next().and_then(|clock| clock.parse::<f64>().ok());
        clock.is_some_and(|seconds| seconds * 1000.0 + 0.5 >= from as f64)
    };
    let ladder = ladder.lines().filter(late).map(|line| format!("{line}\n")).collect();
    Ok(Drawing { title: title.to_owned(), note: note.to_owned(), ladder })
}

fn streams() -> Result<Drawing, String> {
    let testbed = Testbed::quiet()?;
    connected(&testbed, &MessageTransport::sctp(&[("num_ostreams", "3")]), async |harness| {
        harness.pass(300).await;
        for _ in 0..2 {
            for stream in 0..3 {
                harness.send(A, &[stream as u8; 100], MessageOptions { stream, ..MessageOptions::default() });
            }
        }
        harness.pass(500).await;
    })?;
    Ok(Drawing {
        title: "stream sequence numbers on three streams".to_owned(),
        note: "TSNs count all DATA of the association, for acknowledgement; SSNs (ssn=) count each stream's messages by \
               themselves, for their order."
            .to_owned(),
        ladder: testbed.ladder(TransportKind::Sctp.ladder())?,
    })
}

fn addresses() -> Result<Drawing, String> {
    let testbed = Testbed::new(&[QUIET, QUIET])?;
    connected(&testbed, &MessageTransport::sctp(&[]), async |harness| {
        harness.pass(300).await;
        harness.send(A, &[0; 100], MessageOptions::default());
        harness.pass(500).await;
    })?;
    Ok(Drawing {
        title: "the addresses of an association".to_owned(),
        note: "INIT and INIT ACK list them; an address that only the peer has named is verified by a HEARTBEAT before data \
               may go there (A was told both of B's by its user, RFC 9260 §5.4); data goes to the primary."
            .to_owned(),
        ladder: testbed.ladder(TransportKind::Sctp.ladder())?,
    })
}
