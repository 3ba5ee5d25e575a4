//! One line that says what is wrong with a plan, where, and what would be right.

/// Why a plan cannot be run: one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

impl PlanError {
    /// The error `what`, found at `place` (a flag, or a file and its key).
    pub fn at(place: &str, what: impl std::fmt::Display) -> Self {
        // One line, whatever a parser below had to say, and nothing that steers a terminal.
        let line = format!("{place}: {what}");
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        Self(line.replace(char::is_control, "?"))
    }
}

/// The line for a name that is none of `accepted`: the nearest one, if near, and all of them.
#[must_use]
pub fn unknown(kind: &str, name: &str, accepted: &[&str]) -> String {
    let hint = nearest(name, accepted).map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default();
    // Keys of one direction follow from the others; a list with them is too long to read.
    let one_way = |name: &&&str| name.starts_with("up-") || name.starts_with("down-");
    let mut list: Vec<&str> = accepted.iter().filter(|name| !one_way(name)).copied().collect();
    if list.len() < accepted.len() {
        list.push("up-.. and down-.. of the network's");
    }
    format!("unknown {kind} '{name}'{hint}; accepted: {}", list.join(", "))
}

/// The accepted name that `name` is probably a misspelling of.
#[must_use]
pub fn nearest<'a>(name: &str, accepted: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    accepted
        .iter()
        .map(|candidate| (distance(&plain(name), &plain(candidate)), *candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 5 && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits from one to the other: insertions, deletions, substitutions, and neighbours that changed places. Long texts
/// are not worth comparing.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let substituted = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let edited = substituted.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    if swapped { edited.min(rows[i - 2][j - 2] + 1) } else { edited }
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_not() {
        let names = ["rate", "loss", "per-object", "rto_min"];
        assert_eq!(nearest("los", &names), Some("loss"));
        assert_eq!(nearest("per_object", &names), Some("per-object"));
        assert_eq!(nearest("rto-mim", &names), Some("rto_min"));
        assert_eq!(nearest("bandwidth", &names), None);
        assert_eq!(
            unknown("key", "rat", &["rate", "loss"]),
            "unknown key 'rat' (did you mean 'rate'?); accepted: rate, loss"
        );
    }
}
