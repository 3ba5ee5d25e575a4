//! The claims of a published work, and the checks that decide them.
//!
//! `claims.csv` holds the claims, with the columns `id,place,kind,claim,check` and, optionally, `evidence`. [`check`]
//! defines the language of the column `check`.

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
    /// The text of the check that decides the claim, as in `claims.csv`.
    pub check: String,
    /// The parsed check, once for each reading (interpretation) of the claim.
    pub readings: Vec<Reading>,
    /// The kind of evidence that decides the claim.
    pub evidence: ClaimEvidence,
}

/// The kind of evidence that decides a claim. Only [`Transport`](Self::Transport) is evidence from runs of the
/// transports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ClaimEvidence {
    /// The claim is decided by runs whose results depend on the transports.
    Transport,
    /// The claim is decided only by rows of the feature table, which say that a mechanism exists.
    Features,
    /// The claim is decided by numbers that follow from the plan by arithmetic.
    Arithmetic,
    /// The claim is decided by numbers from which an input of the runs was calibrated.
    Calibrated,
    /// There is no evidence: the claim has no published value, or no run decides it.
    Nothing,
}

impl ClaimEvidence {
    /// All kinds of evidence, in the order in which output lists their counts.
    pub const ALL: [Self; 5] =
        [Self::Transport, Self::Features, Self::Arithmetic, Self::Calibrated, Self::Nothing];

    /// Returns the word for this kind of evidence in files. The word for [`Nothing`](Self::Nothing) is empty.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Features => "features",
            Self::Arithmetic => "arithmetic",
            Self::Calibrated => "calibrated",
            Self::Nothing => "",
        }
    }

    /// Returns the kind of evidence that `column`, the text of the column `evidence`, names. If the column is empty,
    /// the kind follows from the claim's checks.
    fn of(column: &str, readings: &[Reading]) -> Result<Self, String> {
        let checks = || readings.iter().flat_map(|reading| &reading.checks);
        let undecided = |check: &Check| matches!(check, Check::Prediction(_) | Check::Undecidable(_));
        Ok(match column {
            "arithmetic" => Self::Arithmetic,
            "calibrated" => Self::Calibrated,
            "" if checks().all(undecided) => Self::Nothing,
            "" if checks().all(|check| matches!(check, Check::Feature { .. })) => Self::Features,
            "" => Self::Transport,
            other => {
                return Err(format!(
                    "evidence '{other}' where arithmetic, calibrated or nothing was expected"
                ));
            }
        })
    }
}

impl Claim {
    /// Returns the checks of all readings (interpretations) of the claim.
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
    #[serde(default)]
    evidence: String,
}

/// Reads the text of `claims.csv`.
///
/// # Errors
/// A one-line message that names the wrong claim and the error.
pub fn parse(text: &str) -> Result<Vec<Claim>, String> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let claims = reader.deserialize::<Row>().map(|row| {
        let Row { id, place, kind, claim, check, evidence } =
            row.map_err(|error| format!("claims.csv: {error}"))?;
        let wrong = |error| format!("claims.csv: {id}: {error}");
        let readings = check::readings(&check).map_err(wrong)?;
        let evidence = ClaimEvidence::of(&evidence, &readings).map_err(wrong)?;
        Ok(Claim { id, location: place, kind, claim, check, readings, evidence })
    });
    claims.collect()
}
