//! The terms on which contestants raced, as lines of text. The lines say how each contestant uses the network, which
//! settings differ between contestants, and which are equal for all. The short form is one line with what differs.

use super::Protocols;
use anabranch_base::Bytes;
use anabranch_results::{Contestant, Point, label};
use anabranch_transport::{Protocol, Streams};

/// Settings that can decide a race: key, short name, and name in words. A report says of each whether its values differ
/// or are equal for all contestants.
const DECISIVE: [(&str, &str, &str); 9] = [
    ("profile", "profile", "set of settings"),
    ("iw", "initial window", "packets sent at once at the start"),
    ("rcvbuf", "receive buffer", "receive buffer"),
    ("sndbuf", "send buffer", "send buffer"),
    ("rto_min", "RTO min", "shortest wait before data is taken for lost"),
    ("delack", "ACK delay", "longest wait of an acknowledgement"),
    ("cc", "cc", "congestion control"),
    ("priority", "priority", "requests in order of urgency"),
    (SECURITY, "security", "security"),
];

/// The style in which the terms of a race (the settings of the contestants) are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TermStyle {
    /// Short names, for the lines below a table.
    Table,
    /// Full words, for readers who do not know the terminology.
    Words,
}

/// The key of a pseudo-setting. Its value says whether and how a contestant encrypts, and is derived from several
/// settings and the transport's capabilities.
const SECURITY: &str = "security";

/// Settings that affect how much bandwidth a contestant gets. The first line of text about the terms of a race
/// describes them, so the other lines leave them out.
const BANDWIDTH_SETTINGS: [&str; 13] = [
    "connections",
    "per-object",
    "objects-per-connection",
    "streams",
    "num_ostreams",
    "max_instreams",
    "pipeline",
    "when-full",
    "http",
    "concurrent",
    // The pseudo-setting `security` shows the values of the settings `tls`, `dtls` and `transport`.
    "tls",
    "dtls",
    "transport",
];

/// Returns the terms of the race at a point as lines: how the contestants use the network, then unequal settings, equal
/// settings, and caveats.
#[must_use]
pub fn lines(point: &Point, protocols: Protocols<'_>) -> Vec<String> {
    let labels: Vec<String> = point.contestants.iter().map(|one| one.label().to_owned()).collect();
    describe(point, protocols, &labels, TermStyle::Table)
}

/// Returns the caveats that apply to the results of the transports at a point.
#[must_use]
pub fn caveats(point: &Point, protocols: Protocols<'_>) -> Vec<String> {
    let names: Vec<String> = point.contestants.iter().map(|one| one.label().to_owned()).collect();
    caveats_of(&point.contestants, &names, protocols)
}

/// Returns one line, of at most `width` columns, with the settings that differ between the contestants. Returns nothing
/// if no setting differs.
#[must_use]
pub fn brief(point: &Point, protocols: Protocols<'_>, width: usize) -> Vec<String> {
    let contestants = &point.contestants;
    let opened: Vec<Option<String>> = contestants.iter().map(|one| Some(opened(one).to_string())).collect();
    let mut settings = vec![("connections".to_owned(), opened)];
    for (key, name) in keys(contestants, TermStyle::Table) {
        let values = contestants.iter().map(|one| value(one, &key, protocols)).collect();
        settings.insert(if key == SECURITY { 1 } else { settings.len() }, (name, values));
    }
    let differs = |values: &[Option<String>]| values.windows(2).any(|pair| pair[0] != pair[1]);
    let mut line = String::new();
    for (name, values) in settings.iter().filter(|(_, values)| differs(values)) {
        let part = format!("{name} ({})", by_contestant(contestants, values));
        let longer =
            if line.is_empty() { format!("Contestants differ in {part}") } else { format!("{line}, {part}") };
        if longer.chars().count() + MORE.len() > width {
            break;
        }
        line = longer;
    }
    let line = (!line.is_empty()).then(|| line + MORE);
    line.into_iter().collect()
}

/// Lists the values of a setting, each with the contestant that has it. The most frequent value comes last, for example
/// `sctp-dtls DTLS 1.3, others TLS 1.3`.
fn by_contestant(contestants: &[Contestant], values: &[Option<String>]) -> String {
    let shown: Vec<&str> = values.iter().map(|value| value.as_deref().unwrap_or("none")).collect();
    let count = |value: &str| shown.iter().filter(|other| **other == value).count();
    let usual = shown.iter().rev().copied().max_by_key(|value| count(value)).unwrap_or_default();
    let named = |value: &dyn Fn(&str) -> bool| -> Vec<String> {
        let pairs = contestants.iter().zip(&shown).filter(|(_, shown)| value(shown));
        pairs.map(|(one, shown)| format!("{} {shown}", one.label())).collect()
    };
    if count(usual) < 2 {
        return named(&|_| true).join(", ");
    }
    format!("{}, others {usual}", named(&|value| value != usual).join(", "))
}

/// The hint at the end of a shortened line: how to see all terms.
const MORE: &str = "; -v lists all";

/// Like [`lines`], but in full words for a report, with `names` as the names of the contestants.
#[must_use]
pub fn in_words(point: &Point, protocols: Protocols<'_>, names: &[String]) -> Vec<String> {
    describe(point, protocols, names, TermStyle::Words)
}

fn describe(point: &Point, protocols: Protocols<'_>, names: &[String], style: TermStyle) -> Vec<String> {
    let contestants = &point.contestants;
    let has_requests = !point.workload.messages;
    let uses = contestants
        .iter()
        .zip(names)
        .map(|(one, name)| format!("{name} {}", bandwidth_use(one, protocols, has_requests)));
    let mut bandwidth_line = format!("connections: {}", uses.collect::<Vec<_>>().join("; "));
    if contestants.windows(2).any(|pair| opened(&pair[0]) != opened(&pair[1])) {
        bandwidth_line += " (more connections get a larger share of a full link)";
    }
    let (mut unequal, mut equal) = (Vec::new(), Vec::new());
    for (key, name) in keys(contestants, style) {
        let values: Vec<Option<String>> =
            contestants.iter().map(|contestant| value(contestant, &key, protocols)).collect();
        match values.first() {
            Some(first) if values.iter().all(|other| other == first) => {
                equal.extend(first.as_ref().map(|value| term(&name, value)));
            }
            _ => unequal.push(by_value(&name, names, &values)),
        }
    }
    let mut lines = vec![bandwidth_line];
    if contestants.len() > 1 {
        let none = || "nothing else".to_owned();
        lines.push(format!(
            "not equal: {}",
            Some(unequal.join("; ")).filter(|text| !text.is_empty()).unwrap_or_else(none)
        ));
    }
    if !equal.is_empty() {
        let prefix = if contestants.len() > 1 { "equal: " } else { "terms: " };
        lines.push(format!("{prefix}{}", equal.join(", ")));
    }
    lines.extend(caveats_of(contestants, names, protocols));
    lines
}

/// Returns the transport with this name, if `protocols` has it.
fn find<'a>(protocols: Protocols<'a>, name: &str) -> Option<&'a dyn Protocol> {
    protocols.iter().copied().find(|protocol| protocol.name() == name)
}

/// Returns the caveats of transports, each with the contestants to which it applies. The results of a transport must
/// not be shown without its caveats.
fn caveats_of(contestants: &[Contestant], names: &[String], protocols: Protocols<'_>) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for (contestant, name) in contestants.iter().zip(names) {
        let transport = contestant.settings.get("transport").and_then(|name| find(protocols, name));
        let Some(caveat) = transport.and_then(|transport| transport.caveat()) else { continue };
        match found.iter_mut().find(|(known, _)| *known == caveat) {
            Some((_, contestants_with)) => contestants_with.push(name),
            None => found.push((caveat, vec![name])),
        }
    }
    found
        .into_iter()
        .map(|(caveat, contestants_with)| format!("{}: {caveat}", contestants_with.join(", ")))
        .collect()
}

/// Returns the key and the displayed name of each setting in [`DECISIVE`] and of each setting in a contestant's name.
fn keys(contestants: &[Contestant], style: TermStyle) -> Vec<(String, String)> {
    let named = |(key, short, words): &(&str, &str, &str)| {
        let name = if style == TermStyle::Words { words } else { short };
        ((*key).to_owned(), (*name).to_owned())
    };
    let mut keys: Vec<(String, String)> = DECISIVE.iter().map(named).collect();
    for contestant in contestants {
        let (_, spec) = label::split(&contestant.name);
        let settings = spec.split_once(':').map_or("", |(_, keys)| keys).split(',');
        for key in settings.filter_map(|pair| pair.split_once('=')).map(|(key, _)| key) {
            if !BANDWIDTH_SETTINGS.contains(&key) && !keys.iter().any(|(known, _)| known == key) {
                keys.push((key.to_owned(), key.to_owned()));
            }
        }
    }
    keys
}

fn value(contestant: &Contestant, key: &str, protocols: Protocols<'_>) -> Option<String> {
    if key == SECURITY {
        // A contestant encrypts with DTLS below the transport, with TLS above it, or with encryption built into the
        // transport.
        if let Some(dtls) = contestant.settings.get("dtls").filter(|dtls| *dtls != "no") {
            return Some(format!("DTLS {dtls} with X25519"));
        }
        if contestant.settings.contains_key("cipher") {
            let group =
                contestant.settings.get("group").map(|group| format!(" with {}", group.to_uppercase()));
            return Some(format!("TLS 1.3{}", group.unwrap_or_default()));
        }
        let transport = find(protocols, contestant.settings.get("transport")?)?;
        return Some(if transport.capabilities().secure { "secured" } else { "in the clear" }.to_owned());
    }
    let value = contestant.settings.get(key)?;
    // A user can type one size in several forms, for example `1MiB` and `1024KiB`. Equal sizes must give equal text.
    Some(value.parse::<Bytes>().map_or_else(|_| value.clone(), |bytes| size(bytes.0)))
}

/// Formats a size in the largest unit that divides it, for example `6MiB`, `54KiB` or `20000B`.
fn size(bytes: u64) -> String {
    match bytes {
        0 => "0B".to_owned(),
        n if n.is_multiple_of(1 << 20) => format!("{}MiB", n >> 20),
        n if n.is_multiple_of(1 << 10) => format!("{}KiB", n >> 10),
        n => format!("{n}B"),
    }
}

fn term(name: &str, value: &str) -> String {
    // The value of the pseudo-setting `security`, for example `TLS 1.3`, explains itself, so it is written without the
    // name of the setting.
    if name == SECURITY { value.to_owned() } else { format!("{name} {value}") }
}

/// Lists each value of a setting once, with the contestants that have it, for example `RTO min 200ms (tcp), 1s (sctp)`.
fn by_value(name: &str, contestants: &[String], values: &[Option<String>]) -> String {
    let mut groups: Vec<(&Option<String>, Vec<&str>)> = Vec::new();
    for (contestant, value) in contestants.iter().zip(values) {
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, group)) => group.push(contestant),
            None => groups.push((value, vec![contestant])),
        }
    }
    let all = groups.iter().map(|(value, group)| {
        format!("{} ({})", value.as_deref().unwrap_or("no such setting"), group.join(", "))
    });
    format!("{name} {}", all.collect::<Vec<_>>().join(", "))
}

/// Returns the number of connections that a contestant opened: the largest of any run.
fn opened(contestant: &Contestant) -> u64 {
    contestant.runs.iter().map(|run| run.connections).max().unwrap_or(0)
}

/// Describes what determines a contestant's share of the bandwidth: its numbers of connections and streams, and how it
/// sends requests over them.
fn bandwidth_use(contestant: &Contestant, protocols: Protocols<'_>, has_requests: bool) -> String {
    let setting = |key: &str| contestant.settings.get(key).map_or("?", String::as_str);
    // A transport that is not in `protocols` is described with the default words.
    let can = find(protocols, setting("transport")).map(|it| it.capabilities()).unwrap_or_default();
    let [session, sessions] = can.words.session;
    // The setting is a limit for each host of the page. If the runs opened another number of connections, both numbers
    // are given.
    let opened = opened(contestant);
    let connections = match (setting("connections"), setting("connections").parse::<u64>()) {
        (_, Ok(n)) if opened > n => {
            let noun = if n == 1 { session } else { sessions };
            format!("{n} {noun} per host, {opened} in all")
        }
        (_, Ok(n)) if opened > 0 && opened < n => format!("at most {n} {sessions} ({opened} opened)"),
        ("1", _) => format!("1 {session}"),
        ("as needed", _) => format!("{sessions} as needed"),
        (n, _) => format!("{n} {sessions}"),
    };
    let mut terms = vec![connections];
    match setting("objects-per-connection") {
        "no limit" | "?" => {}
        "1" => terms.push("a new one for each object".to_owned()),
        k => terms.push(format!("{k} objects each")),
    }
    // Only transports with several streams have the setting `when-full`. It decides what happens to requests while all
    // streams are busy.
    if contestant.settings.contains_key("when-full") {
        let full = match setting("when-full") {
            "rr" => ", pipelined in turn when full",
            "spf" => ", pipelined on the least busy when full",
            "grow" => ", more when full",
            _ => "",
        };
        // A request and its response take one stream in each direction, so the smaller of the two limits counts.
        let pairs = ["num_ostreams", "max_instreams"]
            .map(|key| setting(key).parse::<u64>().ok())
            .into_iter()
            .flatten()
            .min();
        let streams = pairs.map_or_else(|| setting("num_ostreams").to_owned(), |pairs| pairs.to_string());
        terms.push(format!("{streams} {}{full}", if streams == "1" { "stream" } else { "streams" }));
    } else if can.streams == Streams::Fresh {
        let http3 = if has_requests && setting("http") == "3" { "HTTP/3, " } else { "" };
        terms.push(format!("{http3}at most {} streams at a time", setting("streams")));
    } else if has_requests && setting("http") == "2" {
        terms.push(format!("HTTP/2 with {} requests at once", setting("concurrent")));
    } else if has_requests {
        terms.push(if setting("pipeline") == "yes" { "pipelined" } else { "not pipelined" }.to_owned());
    }
    terms.join(", ")
}
