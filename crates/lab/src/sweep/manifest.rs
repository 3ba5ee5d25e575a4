//! The manifest of a sweep's directory: the plan, a digest of the files that the plan reads, and the program version.
//! Results of single points can only be combined if plan, digest and version are the same.

use super::{Digesting, Shard};
use crate::plan::{Draft, Outline, Plan, PlanError};
use anabranch_report::Input;
use anabranch_results::axes::{Axes, Axis};
use anabranch_results::{Host, Race, SCHEMA, World};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write;

/// The name and version of the manifest's schema.
pub const MANIFEST: &str = "anabranch.sweep/1";

/// The file of a sweep's directory that holds its [`Manifest`].
pub const NAME: &str = "sweep.json";

/// The description of a sweep's directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The schema, always [`MANIFEST`].
    pub schema: String,
    /// The program that runs the sweep.
    pub program: Program,
    /// The plan of the sweep: its keys and values.
    pub plan: Value,
    /// The name of the plan's file, as used in messages; null if flags define the plan.
    pub plan_file: Option<String>,
    /// The command that reproduces the results.
    pub command: String,
    /// Which packet captures the sweep keeps.
    pub pcap: String,
    /// The factors of the sweep. The factor that varies slowest is first.
    pub factors: Axes,
    /// The SHA-256 digest of all points of the sweep, including the content of the files that the plan names.
    pub inputs: String,
    /// The input files of the sweep, with the names that the report gives them.
    pub files: Vec<Input>,
    /// Warnings that the reader must know before trusting the numbers.
    pub warnings: Vec<String>,
    /// The shard in this directory; absent if the directory holds all points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
}

/// The program's version, and the platform for which it was built.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Program {
    /// The version number of the program.
    pub version: String,
    /// The operating system.
    pub os: String,
    /// The processor architecture.
    pub arch: String,
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "anabranch {} on {} {}", self.version, self.os, self.arch)
    }
}

impl Manifest {
    /// Creates the manifest of a sweep over the whole plan.
    #[must_use]
    pub fn new(
        outline: &Outline,
        plan_file: Option<&str>,
        program: Program,
        command: String,
        pcap: &str,
    ) -> Self {
        let mut inputs = Digesting::default();
        for point in outline.points() {
            let _ = writeln!(inputs, "{point:?}");
        }
        if let Some(people) = outline.people() {
            let _ = writeln!(inputs, "{}", people.described());
        }
        let axis =
            |(factor, levels): (&str, &[String])| Axis { factor: factor.to_owned(), levels: levels.to_vec() };
        Self {
            schema: MANIFEST.to_owned(),
            program,
            plan: written(outline.plan()),
            plan_file: plan_file.map(str::to_owned),
            command,
            pcap: pcap.to_owned(),
            factors: Axes(outline.factors().map(axis).collect()),
            inputs: inputs.hex(),
            files: Vec::new(),
            warnings: outline.warnings(),
            shard: None,
        }
    }

    /// Reads the text of a manifest file ([`NAME`]).
    ///
    /// # Errors
    /// A one-line description of the defect.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("damaged: {error}"))?;
        match value.get("schema").and_then(Value::as_str) {
            Some(MANIFEST) => {}
            other => return Err(format!("schema '{}' where '{MANIFEST}' is needed", other.unwrap_or("?"))),
        }
        let manifest: Self = serde_json::from_value(value).map_err(|error| format!("damaged: {error}"))?;
        manifest.part()?;
        Ok(manifest)
    }

    /// Returns the text of the manifest file.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Returns the shard in this directory; `None` if the directory holds all points.
    ///
    /// # Errors
    /// A one-line message if the field `shard` does not name a valid shard.
    pub fn part(&self) -> Result<Option<Shard>, String> {
        self.shard
            .as_deref()
            .map(|text| text.parse().map_err(|error| format!("damaged: {error}")))
            .transpose()
    }

    /// Returns the names of the populations in the plan. If there are any, each point of the sweep is one person of a
    /// population.
    pub fn populations(&self) -> impl Iterator<Item = &str> {
        let several = self.plan.get("population").and_then(Value::as_array);
        let one = self.plan.get("population").and_then(Value::as_str);
        several.into_iter().flatten().filter_map(Value::as_str).chain(one)
    }

    /// Returns the SHA-256 of everything that determines the results. It is the same for all shards of a sweep.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut identity = Digesting::default();
        let Program { version, os, arch } = &self.program;
        let _ = write!(identity, "{version}\n{os}\n{arch}\n{}\n{}\n{}\n", self.plan, self.pcap, self.inputs);
        identity.hex()
    }

    /// Returns the stored plan as a draft. Interpreting the draft gives the same plan again.
    ///
    /// # Errors
    /// [`PlanError`] if the stored plan was modified and is invalid.
    pub fn draft(&self) -> Result<Draft, PlanError> {
        let file = self.plan_file.as_deref().unwrap_or(NAME);
        let table: toml::Table = serde_json::from_value(self.plan.clone())
            .map_err(|error| PlanError::at(NAME, format!("damaged: {error}")))?;
        Draft::from_table(file, &table)
    }

    /// Describes how `other` differs from this sweep. Returns `None` if the two are shards of the same sweep.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.program != other.program {
            return Some(format!("was made by {}, and not by {}", other.program, self.program));
        }
        if self.plan != other.plan {
            return Some(format!("has another plan: {} differs", differing(&self.plan, &other.plan)));
        }
        if self.pcap != other.pcap {
            return Some(format!("has --pcap {}, and not {}", other.pcap, self.pcap));
        }
        (self.identity() != other.identity())
            .then(|| "was made with other contents of the files that the plan names".to_owned())
    }

    /// Returns a race that has the fields of the sweep, but neither points nor expectations. The writer of
    /// `results.json` adds both to the JSON of this race.
    #[must_use]
    pub fn frame(&self) -> Race {
        let Program { version, os, arch } = self.program.clone();
        Race {
            schema: SCHEMA.to_owned(),
            plan: self.plan.clone(),
            world: World::Virtual,
            // The host and the elapsed time are left out, because the result must be identical on all machines.
            host: Host { version, os, arch, ..Host::default() },
            warnings: self.warnings.clone(),
            calibrations: Vec::new(),
            points: Vec::new(),
            expectations: Vec::new(),
        }
    }
}

/// Returns the keys and values of the plan as JSON.
fn written(plan: &Plan) -> Value {
    serde_json::to_value(plan.draft.to_toml()).unwrap_or_default()
}

/// Returns the name of the first plan key that has different values in `one` and `other`.
fn differing(one: &Value, other: &Value) -> String {
    let keys = |value: &Value| value.as_object().map_or(Vec::new(), |map| map.keys().cloned().collect());
    let all = keys(one).into_iter().chain(keys(other));
    all.into_iter().find(|key| one.get(key) != other.get(key)).unwrap_or_else(|| "something".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_transports::Transports;

    #[test]
    fn every_point_is_one_of_its_inputs() {
        let inputs = |objects: &str| {
            let draft = Draft::from_flags([("objects", objects), ("loss", "0")]).expect("flags");
            let outline = Outline::interpret(draft, &Transports::standard()).expect("a plan");
            let program = Program { version: String::new(), os: String::new(), arch: String::new() };
            Manifest::new(&outline, None, program, String::new(), "off").inputs
        };
        let found = inputs("1x1kB,1x2kB");
        assert_eq!(found, inputs("1x1kB,1x2kB"));
        assert_ne!(found, inputs("1x3kB,1x2kB"), "the first");
        assert_ne!(found, inputs("1x1kB,1x3kB"), "the last");
    }
}
