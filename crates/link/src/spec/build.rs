//! Builds chains from the settings of a link.

use super::{LinkSpec, LossSpec, SpecError};
use crate::DirectionSpec;
use crate::chain::{Chain, Stage};
use crate::contention::Contention;
use crate::element::Carried;
use crate::half_duplex::{HalfDuplex, Medium};
use crate::loss::Nth;
use crate::outage::Outage;
use crate::table::Side;
use anabranch_base::Rng;
use std::cell::Cell;
use std::rc::Rc;

impl LinkSpec {
    /// Builds the chains of both directions and returns the up direction first. The setting of the loss model `nth` may
    /// name the first packet to lose. If it does not, `seed` (the seed of the run) selects that packet. `rng` belongs
    /// to this link. Every element draws from its own fork of `rng`, so the random events of one element do not depend
    /// on other elements.
    ///
    /// # Errors
    /// The settings contradict each other (see [`check`](Self::check)), or a trace is not loaded.
    pub fn build<P: Carried>(&self, seed: u64, rng: &Rng) -> Result<(Chain<P>, Chain<P>), SpecError> {
        self.check()?;
        let medium = (self.half_duplex == HalfDuplex::InTurn).then(Medium::shared);
        let contention = match self.half_duplex {
            HalfDuplex::Contention(rules) => Some(Contention::new(rules, rng.fork("contention"))),
            HalfDuplex::No | HalfDuplex::InTurn => None,
        };
        let counter = match self.up.loss {
            LossSpec::Nth { every, first, shared: true } => {
                Some(Rc::new(Cell::new(Nth::of(every, first, seed))))
            }
            _ => None,
        };
        let side = |spec: &DirectionSpec, label: &str, end: usize| {
            let (medium, counter) = (medium.clone(), counter.clone());
            let contention = contention.clone().map(|contention| (contention, end));
            chain(&Side { spec, rtt: self.rtt(), seed, rng: rng.fork(label), medium, contention, counter })
        };
        Ok((side(&self.up, "up", 0)?, side(&self.down, "down", 1)?))
    }
}

/// Builds the chain of one direction.
fn chain<P: Carried>(side: &Side<'_>) -> Result<Chain<P>, SpecError> {
    let mut stages = DirectionSpec::stages(side)?;
    if !side.spec.outages.is_empty() {
        stages.push((Outage::PLACE, Stage::Outage(Outage::new(&side.spec.outages))));
    }
    stages.sort_by_key(|(place, _)| *place);
    Ok(Chain::new(stages.into_iter().map(|(_, stage)| stage).collect()))
}
