//! What a paper says in words, and the run that decides each.
//!
//! `claims.csv` holds them: `id,place,kind,claim,check`; [`check`] is the language of the last column.

use super::check::{self, Check};
use serde::Deserialize;

/// One claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What the list calls it: a letter for the paper and a number.
    pub id: String,
    /// Where in the paper it stands.
    pub place: String,
    /// What kind of statement it is: measurement, explanation, mechanism, expectation, conclusion or citation.
    pub kind: String,
    /// The claim, in short words of ours.
    pub claim: String,
    /// What decides it, as written.
    pub check: String,
    /// What decides it: one way to read the claim, or several.
    pub readings: Vec<Reading>,
}

/// A way to read a claim.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// What it is called where there are several.
    pub name: String,
    /// What decides it, read so: all must hold.
    pub checks: Vec<Check>,
}

impl Claim {
    /// What decides it, whatever the reading.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.readings.iter().flat_map(|reading| &reading.checks)
    }
}

#[derive(Deserialize)]
struct Row {
    id: String,
    place: String,
    kind: String,
    claim: String,
    check: String,
}

/// Reads `claims.csv`.
///
/// # Errors
/// One line: which claim, and what is wrong.
pub fn parse(text: &str) -> Result<Vec<Claim>, String> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let claims = reader.deserialize::<Row>().map(|row| {
        let Row { id, place, kind, claim, check } = row.map_err(|error| format!("claims.csv: {error}"))?;
        let readings = check::readings(&check).map_err(|error| format!("claims.csv: {id}: {error}"))?;
        Ok(Claim { id, place, kind, claim, check, readings })
    });
    claims.collect()
}
