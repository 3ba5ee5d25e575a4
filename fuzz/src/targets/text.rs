//! Files that people write or get from elsewhere: refused with one line, or read.

use anabranch_lab::plan::{Draft, Plan};

/// A HAR file.
pub fn har(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Err(error) = anabranch_http::har::read("fuzz.har", &text) {
        assert!(!error.to_string().is_empty());
    }
}

/// A plan.
pub fn plan(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(draft) = Draft::from_toml("fuzz.toml", &text)
        && let Err(error) = Plan::interpret(draft)
    {
        assert!(!error.to_string().is_empty());
    }
}
