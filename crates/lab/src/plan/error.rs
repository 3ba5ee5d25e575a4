//! Errors of plans: one line that says what is wrong, where, and what to write instead.

use anabranch_base::spelling::hint;

/// Why a plan cannot be run: one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

impl PlanError {
    /// The error `what`, found at `place` (a flag, or a file and its key).
    pub fn at(place: &str, what: impl std::fmt::Display) -> Self {
        // Keeps the message of any parser on one line, and removes control characters, which a terminal would
        // interpret.
        let line = format!("{place}: {what}");
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        Self(line.replace(char::is_control, "?"))
    }
}

/// Returns the error for a name that is not in `accepted`. It lists all accepted names and suggests a similar one.
#[must_use]
pub fn unknown(kind: &str, name: &str, accepted: &[&str]) -> String {
    let hint = hint(name, accepted);
    // Leaves out the keys of one direction, which follow from the others. With them the list would be too long to read.
    let one_way = |name: &&&str| name.starts_with("up-") || name.starts_with("down-");
    let mut list: Vec<&str> = accepted.iter().filter(|name| !one_way(name)).copied().collect();
    if list.len() < accepted.len() {
        list.push("up-.. and down-.. of the network's");
    }
    format!("unknown {kind} '{name}'{hint}; accepted: {}", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_all_are_told() {
        assert_eq!(
            unknown("key", "rat", &["rate", "loss"]),
            "unknown key 'rat' (did you mean 'rate'?); accepted: rate, loss"
        );
    }
}
