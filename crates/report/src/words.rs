//! Names and explanations that the report shows to readers who do not know SCTP.
//!
//! Provides the names of contestants, numbers in words, and the meaning of each term. The page shows a meaning
//! as a tooltip, and lists all used terms at its end.

use super::svg::{self, escape};
use anabranch_results::{Contestant, Point, label};
use std::fmt::Write;

/// Returns the names of the contestants of a point as every text and figure shows them: the nickname, or else the name
/// as typed. Long names are shortened, and stay distinct.
pub(super) fn names(point: &Point) -> Vec<String> {
    let typed: Vec<&str> = point.contestants.iter().map(Contestant::label).collect();
    label::labels(&typed, NAME)
}

/// The greatest length of a contestant's name, in characters.
pub(super) const NAME: usize = 22;

/// Writes what each contestant's name stands for, once for the whole page.
pub(super) fn contestants(out: &mut String, point: &Point) {
    let has_requests = !point.workload.messages && !point.workload.is_bulk();
    out.push_str("<dl class=\"names\">");
    for (contestant, name) in point.contestants.iter().zip(names(point)) {
        let (_, typed) = label::split(&contestant.name);
        let _ = write!(
            out,
            "<div><dt>{}</dt><dd>{} (<code>{}</code>)</dd></div>",
            escape(&name),
            escape(&in_words(contestant, has_requests)),
            escape(typed)
        );
    }
    out.push_str("</dl>");
}

/// Describes a contestant in words. If `has_requests` is set, the workload is HTTP, and the name uses the HTTP version,
/// which says more than the transport.
fn in_words(contestant: &Contestant, has_requests: bool) -> String {
    let setting = |key: &str| contestant.settings.get(key).map(String::as_str);
    let (_, name) = label::split(&contestant.name);
    let bare = name.split(':').next().unwrap_or(name);
    let transport_name = setting("transport").unwrap_or(bare);
    let version = setting("http").filter(|version| has_requests && ["2", "3"].contains(version));
    let transport = match transport_name.strip_suffix("-kernel") {
        _ if version.is_some() => format!("HTTP/{}", version.unwrap_or_default()),
        Some(own) => format!("the kernel's {}", own.to_uppercase()),
        None => transport_name.to_uppercase(),
    };
    if setting("per-object") == Some("yes") {
        return format!("a {transport} connection for each object");
    }
    let opened = contestant.runs.iter().map(|run| run.connections).max().unwrap_or(0);
    match setting("connections").and_then(|n| n.parse::<u64>().ok()) {
        Some(n) if n > 1 && opened > n => format!("{} {transport} connections per host", number(n)),
        Some(1) if opened > 1 => format!("one {transport} connection per host"),
        Some(n) if n > 1 => format!("{} {transport} connections", number(n)),
        _ => format!("one {transport} connection"),
    }
}

/// Returns the heading of a contestant's row or column as HTML.
pub(super) fn head(contestant: &Contestant) -> String {
    svg::name(contestant.label())
}

/// Formats a number as a word up to twelve, and in digits above twelve.
pub(super) fn number(n: u64) -> String {
    const WORDS: [&str; 13] = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    usize::try_from(n)
        .ok()
        .and_then(|n| WORDS.get(n))
        .map_or_else(|| n.to_string(), |word| (*word).to_owned())
}

/// Capitalizes the first letter.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Escapes a text, as HTML. A browser does not break a word after its hyphens, so that names and options stay whole.
pub(super) fn unbroken(text: &str) -> String {
    let word = |word: &str| match word.contains('-') && word.chars().count() <= NAME {
        true => format!("<span class=\"unbroken\">{}</span>", escape(word)),
        false => escape(word),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Returns each of the items once, in the order in which they first occur.
pub(super) fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut all, item| {
        if !all.contains(&item) {
            all.push(item);
        }
        all
    })
}

/// Formats milliseconds briefly, as in a headline, for example `2.3 s`, `340 ms`, `41 ms` or `8.2 ms`.
pub(super) fn short_time(ms: f64) -> String {
    match ms {
        ms if ms >= 99_500.0 => format!("{:.0}\u{a0}s", ms / 1e3),
        ms if ms >= 999.5 => format!("{:.1}\u{a0}s", ms / 1e3),
        ms if ms >= 9.95 => format!("{ms:.0}\u{a0}ms"),
        ms => format!("{ms:.1}\u{a0}ms"),
    }
}

/// A term of the report and its meaning.
type Term = (&'static str, &'static str);

/// All terms of the page, in alphabetical order.
pub(super) const TERMS: [Term; 25] = [
    (
        "acknowledgement",
        "The receiver's word that data has arrived; the sender then forgets it, and may send more.",
    ),
    ("association", "SCTP's word for a connection. One association carries many streams."),
    (
        "byte index",
        "The mean of the times at which the page's bytes arrive: the integral over time of the share of the bytes that is missing. It is the Speed Index with bytes in place of pixels.",
    ),
    (
        "congestion window",
        "How much a sender lets be under way at a time. It grows while nothing is lost and shrinks when something is.",
    ),
    (
        "fast retransmission",
        "Sending lost data again as soon as acknowledgements of later data tell of the gap: about one round trip after the loss.",
    ),
    ("flight", "Bytes sent and not yet acknowledged."),
    (
        "geometric mean",
        "The mean of ratios: the number whose logarithm is the mean of the logarithms. The quotient of two of them is the mean ratio.",
    ),
    ("goodput", "Bytes of content delivered in a second, without headers and repetitions."),
    (
        "head-of-line blocking",
        "What has arrived must wait, because something sent before it is still missing.",
    ),
    (
        "interval",
        "A 95 % interval: made anew from other seeds again and again, it would hold the true value 95 times of 100.",
    ),
    (
        "Jain index",
        "How equally a network is shared: 1 when all have the same, 1/n when one of n has everything.",
    ),
    ("largest image", "When the image with the most bytes is complete."),
    (
        "limit",
        "The least time possible on this network: the bytes at its full rate, plus the delay of its wires. No transport can be faster.",
    ),
    ("object", "One file of a page: the document, a picture, a script."),
    ("page time", "From the first request to the last byte of the last object."),
    ("queue", "Where packets wait before the slowest wire. A full queue loses packets."),
    ("retransmission", "Data sent again because it was lost, or taken for lost."),
    ("round trip", "From sending something to the arrival of its acknowledgement."),
    (
        "SCTP",
        "Stream Control Transmission Protocol: like TCP, but one association has many streams, and a loss on one does not hold up the others.",
    ),
    (
        "seed",
        "The number that a run's random losses and delays are drawn from. The same seed gives the same run.",
    ),
    (
        "start render",
        "When a browser can show something for the first time: it has read the document up to the body, and the style sheets and blocking scripts of the head have arrived.",
    ),
    ("stream", "One of many independent flows in an association. Order is kept within a stream only."),
    ("TCP", "Transmission Control Protocol: carries one ordered flow of bytes for each connection."),
    (
        "timeout",
        "A retransmission timer ran out: nothing told of the loss, so the sender waited long and starts anew, slowly.",
    ),
    ("TSN", "Transmission sequence number: SCTP's number of each piece of data, in the order of sending."),
];

/// Renders a term with its meaning as a tooltip, as HTML.
pub(super) fn term(key: &str, shown: &str) -> String {
    let meaning = TERMS.iter().find(|(term, _)| term.eq_ignore_ascii_case(key)).map(|(_, meaning)| *meaning);
    explained(shown, meaning.unwrap_or_default())
}

/// Renders a word with its meaning as a tooltip, as HTML.
pub(super) fn explained(shown: &str, meaning: &str) -> String {
    if meaning.is_empty() {
        return escape(shown);
    }
    format!("<dfn tabindex=\"0\" data-tip=\"{}\">{}</dfn>", escape(meaning), escape(shown))
}

/// Lists the terms that occur in the page, with their meanings. Only the text that is already in `out` is searched.
pub(super) fn glossary(out: &mut String) {
    let body = out.find("<body>").map_or("", |start| &out[start..]).to_lowercase();
    let used: Vec<&Term> = TERMS.iter().filter(|(term, _)| body.contains(&term.to_lowercase())).collect();
    if used.is_empty() {
        return;
    }
    out.push_str("<h2 id=\"words\">Words</h2>\n<dl class=\"words\">");
    for (term, meaning) in used {
        let _ = write!(out, "<div><dt>{term}</dt><dd>{meaning}</dd></div>");
    }
    out.push_str("</dl>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_results::verdict::and;

    #[test]
    fn numbers_and_times_are_short() {
        assert_eq!((number(6), number(40)), ("six".to_owned(), "40".to_owned()));
        let times = [2_300.0, 340.2, 9.96, 8.24, 999.6, 120_000.0].map(short_time);
        let expected = ["2.3\u{a0}s", "340\u{a0}ms", "10\u{a0}ms", "8.2\u{a0}ms", "1.0\u{a0}s", "120\u{a0}s"];
        assert_eq!(times, expected);
        assert_eq!((and(&["a"]), and(&["a", "b", "c"])), ("a".to_owned(), "a, b and c".to_owned()));
    }

    #[test]
    fn names_and_options_are_not_broken() {
        assert_eq!(unbroken("a<b uses tcp"), "a&lt;b uses tcp");
        assert_eq!(unbroken("use sctp-dtls"), "use <span class=\"unbroken\">sctp-dtls</span>");
        assert_eq!(capital("no loss"), "No loss");
    }

    #[test]
    fn terms_are_in_order_and_explained() {
        assert!(TERMS.is_sorted_by_key(|(term, _)| term.to_lowercase()));
        assert_eq!(term("nothing", "x<y"), "x&lt;y");
        assert!(term("SCTP", "SCTP").contains("data-tip=\"Stream Control"));
    }

    #[test]
    fn only_words_that_are_used_are_listed() {
        let mut page = "<style>limit</style><body>Goodput of each stream".to_owned();
        glossary(&mut page);
        assert!(page.contains("<dt>goodput</dt>") && page.contains("<dt>stream</dt>"));
        assert_eq!(page.matches("<dt>").count(), 2);
        let mut nothing = "<body>".to_owned();
        glossary(&mut nothing);
        assert_eq!(nothing, "<body>");
    }
}
