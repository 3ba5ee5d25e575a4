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
    /// What decides it.
    pub checks: Vec<Check>,
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
        let checks = check::parse(&check).map_err(|error| format!("claims.csv: {id}: {error}"))?;
        Ok(Claim { id, place, kind, claim, check, checks })
    });
    claims.collect()
}
