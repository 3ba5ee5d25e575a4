//! Reads TOML tables. A mistake is reported in one line with its line number.

use serde::de::DeserializeOwned;

/// Reads a TOML table. A mistake is reported as `line: what`.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        fault(text, at, &error.message().split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

/// Describes the mistake at an offset, as `line: what`.
pub(crate) fn fault(text: &str, at: usize, what: &str) -> String {
    let before = text.as_bytes().iter().take(at);
    format!("{}: {what}", before.filter(|&&byte| byte == b'\n').count() + 1)
}
