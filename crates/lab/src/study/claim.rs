//! The claims of a paper, and the checks that decide them.
//!
//! `claims.csv` holds them: `id,place,kind,claim,check`. [`check`] defines the language of the last column.

use super::check::{self, Check};
use serde::Deserialize;

/// One claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The identifier in the list: a letter for the paper and a number.
    pub id: String,
    /// Location in the paper.
    pub place: String,
    /// The kind of statement: measurement, explanation, mechanism, expectation, conclusion or citation.
    pub kind: String,
    /// The claim, briefly in our own words.
    pub claim: String,
    /// The check, as written.
    pub check: String,
    /// The check, parsed: one reading of the claim, or several.
    pub readings: Vec<Reading>,
}

/// One way to read a claim.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// The name, if there are several readings.
    pub name: String,
    /// The checks for this reading; all must hold.
    pub checks: Vec<Check>,
}

impl Claim {
    /// All checks of all readings.
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
/// One line: which claim is wrong, and how.
pub fn parse(text: &str) -> Result<Vec<Claim>, String> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let claims = reader.deserialize::<Row>().map(|row| {
        let Row { id, place, kind, claim, check } = row.map_err(|error| format!("claims.csv: {error}"))?;
        let readings = check::readings(&check).map_err(|error| format!("claims.csv: {id}: {error}"))?;
        Ok(Claim { id, place, kind, claim, check, readings })
    });
    claims.collect()
}
