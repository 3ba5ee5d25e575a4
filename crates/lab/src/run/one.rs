//! One world: a network, its contestants, one seed.

use crate::plan::{Arm, Cross, PointPlan};
use crate::results::Run;

/// What runs in one world.
#[derive(Clone, Debug)]
pub struct Scenario<'a> {
    /// Network and workload.
    pub point: &'a PointPlan,
    /// The contestants that share it; mostly one.
    pub arms: Vec<&'a Arm>,
    /// Background traffic.
    pub cross: Option<&'a Cross>,
    /// The seed.
    pub seed: u64,
}

/// Runs it: one result a contestant.
///
/// # Errors
/// One line when the world cannot be built.
pub fn run(scenario: &Scenario<'_>) -> Result<Vec<Run>, String> {
    let _ = scenario;
    Err("no world yet".to_owned())
}
