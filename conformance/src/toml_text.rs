//! Reads TOML tables. A mistake is reported in one line with its line number.

use serde::de::DeserializeOwned;

/// Reads a TOML table. The error has the form `line: description`.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        fault(text, at, &error.message().split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

/// Returns an error of the form `line: what`. The line is that of the byte offset `at`.
pub(crate) fn fault(text: &str, at: usize, what: &str) -> String {
    let before = text.as_bytes().iter().take(at);
    format!("{}: {what}", before.filter(|&&byte| byte == b'\n').count() + 1)
}
