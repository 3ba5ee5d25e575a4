//! Errors in plans. Each is one line that says what is wrong, where it is wrong, and what to write instead.

use anabranch_base::spelling::hint;

/// The reason why a plan cannot be run, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

impl PlanError {
    /// Creates an error with the message `what`. `place` is the flag, or the file and its key, where the mistake was
    /// found.
    pub fn at(place: &str, what: impl std::fmt::Display) -> Self {
        // Joins the lines of a parser's message into one line. Replaces control characters, which a terminal would
        // interpret.
        let line = format!("{place}: {what}");
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        Self(line.replace(char::is_control, "?"))
    }
}

/// Returns the error message for a name that is not in `accepted`. The message lists the accepted names and suggests a
/// similar name.
#[must_use]
pub fn unknown(kind: &str, name: &str, accepted: &[&str]) -> String {
    let hint = hint(name, accepted);
    // Leaves out the keys of a single direction (`up-` and `down-`), because the list would be too long with them.
    // Their names follow from the names of the keys for both directions.
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
