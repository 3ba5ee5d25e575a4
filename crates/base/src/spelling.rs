//! Finds the accepted name that is closest to a misspelled name, for "did you mean" hints.

/// Returns the accepted name that is closest to `name`, if it is so close that the user probably meant it.
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

/// Returns a hint such as ` (did you mean 'rate'?)` if an accepted name is close to `name`, otherwise the empty string.
#[must_use]
pub fn hint(name: &str, accepted: &[&str]) -> String {
    nearest(name, accepted).map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default()
}

/// Returns the number of edits between `a` and `b`: insertions, deletions, substitutions, and swaps of adjacent
/// characters. Only the first 64 characters are compared.
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
        let names = ["rate", "loss", "per-object", "rto_min", "fibre"];
        assert_eq!(nearest("los", &names), Some("loss"));
        assert_eq!(nearest("per_object", &names), Some("per-object"));
        assert_eq!(nearest("rto-mim", &names), Some("rto_min"));
        assert_eq!(nearest("fiber", &names), Some("fibre"));
        assert_eq!(nearest("bandwidth", &names), None);
        assert_eq!(
            (hint("rat", &names).as_str(), hint("x", &names).as_str()),
            (" (did you mean 'rate'?)", "")
        );
    }
}
