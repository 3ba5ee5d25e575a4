//! Unique names of contestants for tables, figures and files.

/// Splits the command-line text of a contestant into its nickname, if any, and its specification. For example,
/// `six=tcp:connections=6` has the nickname `six`, because the first `=` comes before any `:`.
#[must_use]
pub fn split(typed: &str) -> (Option<&str>, &str) {
    match typed.split_once('=') {
        Some((nick, spec)) if !nick.contains(':') => (Some(nick), spec),
        _ => (None, typed),
    }
}

/// Returns the display name of a contestant that a user typed, for example `mine` for `mine=sctp:num_ostreams=1`. Without a
/// nickname, it is the whole text.
#[must_use]
pub fn shown(typed: &str) -> &str {
    split(typed).0.unwrap_or(typed)
}

/// Returns one file name part per contestant, in the order of the contestants. The parts consist of letters, digits,
/// dots, underscores and hyphens. They are distinct even on file systems that ignore case.
#[must_use]
pub fn file_names(typed: &[&str]) -> Vec<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' };
    let mut names: Vec<String> = Vec::new();
    for one in typed {
        let bare: String = shown(one).chars().take(100).map(plain).collect();
        // File systems may ignore case, so the names must still differ if case is ignored.
        let is_taken = |name: &String| names.iter().any(|other| other.eq_ignore_ascii_case(name));
        let numbered = (2..).map(|number| format!("{bare}-{number}"));
        let free = std::iter::once(bare.clone()).chain(numbered).find(|name| !is_taken(name));
        names.extend(free);
    }
    names
}

/// Shortens each name to `width` characters: the two ends of the name around an ellipsis. If several shortened names
/// are equal, the labels are made from the transport and the settings that differ. If labels are still equal, a number
/// is added to each.
#[must_use]
pub fn labels(names: &[&str], width: usize) -> Vec<String> {
    let mut labels: Vec<String> = names.iter().map(|name| shortened(name, width)).collect();
    let first = labels.clone();
    for i in alike(&first) {
        let group: Vec<&str> = (0..names.len()).filter(|&j| first[j] == first[i]).map(|j| names[j]).collect();
        labels[i] = shortened(&own(names[i], &group), width);
    }
    for i in alike(&labels) {
        let number = format!(" #{}", i + 1);
        labels[i] = shortened(names[i], width.saturating_sub(number.len())) + &number;
    }
    labels
}

/// Returns the indices of the labels that occur more than once.
fn alike(labels: &[String]) -> Vec<usize> {
    (0..labels.len()).filter(|&i| labels.iter().filter(|other| **other == labels[i]).count() > 1).collect()
}

/// Returns the name of a contestant without the settings that all contestants in `group` have in common.
fn own(name: &str, group: &[&str]) -> String {
    let settings = |name: &str| -> Vec<String> {
        let rest = name.split_once(':').map_or("", |(_, rest)| rest);
        rest.split(',').map(str::to_owned).collect()
    };
    let all = settings(name);
    let shared = |setting: &&String| group.iter().all(|other| settings(other).contains(setting));
    let mut own: Vec<&str> = all.iter().filter(|setting| !shared(setting)).map(String::as_str).collect();
    if own.len() < all.len() {
        own.push("…");
    }
    let transport = name.split_once(':').map_or(name, |(transport, _)| transport);
    format!("{transport}:{}", own.join(","))
}

/// Returns the text if it has at most `width` characters, otherwise its two ends around an ellipsis.
#[must_use]
pub fn shortened(text: &str, width: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= width || width < 3 {
        return text.to_owned();
    }
    let tail = (width - 1) / 2;
    let head = width - 1 - tail;
    let ends = (chars[..head].iter(), chars[chars.len() - tail..].iter());
    ends.0.collect::<String>() + "…" + &ends.1.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nickname_comes_before_what_it_is() {
        assert_eq!(split("six=tcp:connections=6"), (Some("six"), "tcp:connections=6"));
        assert_eq!(split("tcp:connections=6"), (None, "tcp:connections=6"));
        assert_eq!((shown("one=sctp"), shown("sctp")), ("one", "sctp"));
    }

    #[test]
    fn files_stay_distinct() {
        let contestants =
            ["tcp:cc=reno", "tcp-cc=tcp:cc=reno", "a b=tcp", "a-b=sctp", "A-b=tcp", "a-b-2=tcp:iw=4"];
        let names = file_names(&contestants);
        assert_eq!(names, ["tcp-cc-reno", "tcp-cc", "a-b", "a-b-2", "A-b-3", "a-b-2-2"]);
    }

    #[test]
    fn what_is_cut_stays_distinct() {
        let full = ["spf", "rr", "wait"].map(|full| format!("sctp:when-full={full},num_ostreams=2"));
        let names: Vec<&str> = full.iter().map(String::as_str).chain(["tcp"]).collect();
        let expected = ["sctp:when-full=spf,…", "sctp:when-full=rr,…", "sctp:when-full=wait,…", "tcp"];
        assert_eq!(labels(&names, 22), expected);

        let long = ["10ms", "20ms"].map(|at| format!("sctp:rto_initial=1000ms,rto_min=1000{at},rto_max=60s"));
        let names: Vec<&str> = long.iter().map(String::as_str).collect();
        let labels = labels(&names, 22);
        assert!(
            labels[0] != labels[1] && labels.iter().all(|label| label.chars().count() <= 22),
            "{labels:?}"
        );
    }
}
