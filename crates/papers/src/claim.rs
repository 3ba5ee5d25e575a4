//! The claims of a published work, and the checks that decide them.
//!
//! `claims.csv` holds the claims, with the columns `id,place,kind,claim,check`. [`check`] defines the language of the
//! last column.

use super::check::{self, Check, Reading};
use serde::Deserialize;

/// One claim of the published work.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The identifier of the claim: a letter for the work, and a number.
    pub id: String,
    /// The location of the claim in the work.
    pub location: String,
    /// The kind of claim: measurement, explanation, mechanism, expectation, conclusion or citation.
    pub kind: String,
    /// The claim, briefly and in our own words.
    pub claim: String,
    /// The check, as written.
    pub check: String,
    /// The parsed check: one or several readings of the claim.
    pub readings: Vec<Reading>,
}

impl Claim {
    /// Returns the checks of all readings.
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

/// Reads the text of `claims.csv`.
///
/// # Errors
/// A one-line message that names the wrong claim and the error.
pub fn parse(text: &str) -> Result<Vec<Claim>, String> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let claims = reader.deserialize::<Row>().map(|row| {
        let Row { id, place, kind, claim, check } = row.map_err(|error| format!("claims.csv: {error}"))?;
        let readings = check::readings(&check).map_err(|error| format!("claims.csv: {id}: {error}"))?;
        Ok(Claim { id, location: place, kind, claim, check, readings })
    });
    claims.collect()
}
