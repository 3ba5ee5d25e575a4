//! The list of stages: for each script that needs one, the additional set-up and the reason.

use crate::toml_text;
use serde::Deserialize;
use std::ops::RangeInclusive;
use toml::Spanned;

/// The allowed values of `peer_addresses` in the list of stages.
const ADDRESSES: RangeInclusive<u8> = 2..=8;

/// The set-up of a script that the script itself cannot express: the peer's addresses, and the destinations of data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// The script's file name without `.pkt`, or the id of a test case in a suite.
    pub script: String,
    /// The number of addresses of the peer. 1 means that the peer has only the address that the script uses.
    pub peer_addresses: u8,
    /// For each packet with DATA, the number of its destination address, from 1. If the list is empty, any destination
    /// is accepted.
    pub destinations: Vec<u8>,
    /// The reason why the script needs a stage.
    pub reason: String,
}

impl Default for Stage {
    fn default() -> Self {
        Self { script: String::new(), peer_addresses: 1, destinations: Vec::new(), reason: String::new() }
    }
}

/// The list of stages, which are additions to the set-up of scripts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stages {
    /// The listed stages, in the order of the file.
    pub stage: Vec<Stage>,
    /// The stage of every script that `stage` does not list.
    pub other: Stage,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    stage: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    script: Spanned<String>,
    peer_addresses: Spanned<i64>,
    #[serde(default)]
    towards: Vec<Spanned<i64>>,
    reason: Spanned<String>,
}

impl Stages {
    /// Returns the list of stages that is built into the program, `stages.toml`.
    #[must_use]
    pub fn known() -> Self {
        Self::read(include_str!("../../stages.toml")).unwrap_or_default()
    }

    /// Reads a list of stages.
    ///
    /// # Errors
    /// Returns the line number, the first mistake and its correction.
    pub fn read(text: &str) -> Result<Self, String> {
        let raw: Text = toml_text::read(text)?;
        let mut stage: Vec<Stage> = Vec::new();
        for entry in raw.stage {
            let read = entry.read(text)?;
            if stage.iter().any(|other| other.script == read.script) {
                let what = format!("{:?} has a stage already: one for each script", read.script);
                return Err(toml_text::fault(text, entry.script.span().start, &what));
            }
            stage.push(read);
        }
        Ok(Self { stage, other: Stage::default() })
    }

    /// Returns the stage that is listed for a script; `None` if no stage is listed for it.
    #[must_use]
    pub fn listed(&self, script: &str) -> Option<&Stage> {
        self.stage.iter().find(|stage| stage.script == script)
    }

    /// Returns the set-up of a script. A script that is not listed has the set-up `other`.
    #[must_use]
    pub fn of(&self, script: &str) -> &Stage {
        self.listed(script).unwrap_or(&self.other)
    }
}

impl Entry {
    fn read(&self, text: &str) -> Result<Stage, String> {
        let fault = |at: usize, what: &str| Err(toml_text::fault(text, at, what));
        let (least, most) = (ADDRESSES.start(), ADDRESSES.end());
        let script = self.script.get_ref();
        if script.trim().is_empty() || script.ends_with(".pkt") {
            let what = format!("script = {script:?}: a script's name without .pkt is expected");
            return fault(self.script.span().start, &what);
        }
        let told = *self.peer_addresses.get_ref();
        let Some(peer_addresses) = u8::try_from(told).ok().filter(|n| ADDRESSES.contains(n)) else {
            let what = format!("peer_addresses = {told}: it may be {least} to {most}");
            return fault(self.peer_addresses.span().start, &what);
        };
        let mut towards = Vec::new();
        for turn in &self.towards {
            let told = *turn.get_ref();
            let Some(number) = u8::try_from(told).ok().filter(|n| (1..=peer_addresses).contains(n)) else {
                let what = format!("towards {told}: the peer's addresses are numbered 1 to {peer_addresses}");
                return fault(turn.span().start, &what);
            };
            towards.push(number);
        }
        let reason = self.reason.get_ref();
        if reason.trim().is_empty() {
            return fault(
                self.reason.span().start,
                "reason is empty: it says why the script needs the stage",
            );
        }
        Ok(Stage { script: script.clone(), peer_addresses, destinations: towards, reason: reason.clone() })
    }
}
