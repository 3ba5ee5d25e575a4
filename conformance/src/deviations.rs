//! The list of packetdrill scripts that are known to fail, with the reasons.

use crate::report::Outcome;
use crate::toml_text;
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

/// One packetdrill script that is known to fail, with the reason.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// The script as `directory/file`, without `.pkt`. For a case of a suite, `file.suite/id`. The name may include
    /// further parent directories, to distinguish scripts of two suites with the same directory and file name.
    pub name: String,
    /// The line at which the script fails. A failure at another line is not excused.
    pub line: Option<usize>,
    /// The reason why the script fails although the engine is right.
    pub reason: String,
    /// The rule of RFC 4960 that the script follows.
    pub rfc4960: String,
    /// The rule of RFC 9260 that the engine follows.
    pub rfc9260: String,
}

/// The list of scripts that are known to fail.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Deviations {
    /// The scripts that are known to fail, in the order of the file.
    pub deviation: Vec<Deviation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    deviation: Vec<Spanned<Deviation>>,
}

impl Deviations {
    /// Returns the list that is built into the program, `deviations.toml`.
    #[must_use]
    pub fn known() -> Self {
        Self::read(include_str!("../deviations.toml")).unwrap_or_default()
    }

    /// Reads a list of deviations.
    ///
    /// # Errors
    /// Returns the line number and a description of the first mistake.
    pub fn read(text: &str) -> Result<Self, String> {
        let raw: Text = toml_text::read(text)?;
        let mut deviation: Vec<Deviation> = Vec::new();
        for entry in raw.deviation {
            let (at, read) = (entry.span().start, entry.into_inner());
            if Path::new(&read.name).components().count() < 2 || read.name.ends_with(".pkt") {
                let what = format!("name = {:?}: a script is directory/file, without .pkt", read.name);
                return Err(toml_text::fault(text, at, &what));
            }
            deviation.push(read);
        }
        Ok(Self { deviation })
    }

    /// Returns the deviation of a script, if it is listed. `script` is its path without `.pkt`.
    ///
    /// ```
    /// let known = anabranch_conformance::Deviations::known();
    /// assert!(known.of("suite/sctp-d-tests/sctp-d-o-8-7").is_some());
    /// assert!(known.of("suite/other-tests/sctp-d-o-8-7").is_none());
    /// ```
    #[must_use]
    pub fn of(&self, script: &str) -> Option<&Deviation> {
        self.deviation.iter().find(|deviation| Path::new(script).ends_with(&deviation.name))
    }

    /// Returns the listed deviation that explains the failure of a script; `None` if there is none.
    #[must_use]
    pub fn explaining(&self, script: &str, outcome: &Outcome) -> Option<&Deviation> {
        let failed = match outcome {
            Outcome::Fail { location, .. } => location.rsplit(':').next().and_then(|line| line.parse().ok()),
            _ => None,
        };
        self.of(script)
            .filter(|deviation| failed.is_some() && deviation.line.is_none_or(|l| Some(l) == failed))
    }
}
