//! Scripts that are known to fail, and why.

use crate::toml_text;
use serde::Deserialize;

/// One script that is known to fail.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// The script's file name without `.pkt`.
    pub name: String,
    /// Why it fails, and why that is right.
    pub reason: String,
    /// The rule that the script follows.
    pub rfc4960: String,
    /// The rule that the engine follows.
    pub rfc9260: String,
}

/// The list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviations {
    /// In the order of the file.
    #[serde(default)]
    pub deviation: Vec<Deviation>,
}

impl Deviations {
    /// The list that comes with the interpreter, `deviations.toml`.
    #[must_use]
    pub fn known() -> Self {
        Self::read(include_str!("../deviations.toml")).unwrap_or_default()
    }

    /// Reads a list.
    ///
    /// # Errors
    /// The line and what is wrong there, as `line: what`.
    pub fn read(text: &str) -> Result<Self, String> {
        toml_text::read(text)
    }

    /// The deviation of a script, if it is known.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&Deviation> {
        self.deviation.iter().find(|deviation| deviation.name == name)
    }
}
