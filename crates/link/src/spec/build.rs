//! Builds chains and loss rules from the settings of a link.

use super::{LinkSpec, LossSpec, SpecError};
use crate::DirectionSpec;
use crate::chain::{Chain, Stage};
use crate::contention::Contention;
use crate::element::Carried;
use crate::half_duplex::{HalfDuplex, Medium};
use crate::loss::{LossRule, Nth};
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
        let counter = self.shared_counter(seed);
        let side = |spec: &DirectionSpec, label: &str, end: usize| {
            let (medium, counter) = (medium.clone(), counter.clone());
            let contention = contention.clone().map(|contention| (contention, end));
            chain(&Side { spec, rtt: self.rtt(), seed, rng: rng.fork(label), medium, contention, counter })
        };
        Ok((side(&self.up, "up", 0)?, side(&self.down, "down", 1)?))
    }

    /// Builds the loss models of both directions as rules for the sending hosts; `None` for a direction that loses
    /// nothing. `seed` and `rng` are those of [`build`](Self::build), so the models choose the same packets.
    ///
    /// # Errors
    /// The settings contradict each other (see [`check`](Self::check)).
    pub fn loss_rules(&self, seed: u64, rng: &Rng) -> Result<[Option<LossRule>; 2], SpecError> {
        self.check()?;
        let counter = self.shared_counter(seed);
        let sides = [(&self.up, "up"), (&self.down, "down")];
        Ok(sides.map(|(side, label)| LossRule::of(&side.loss, counter.as_ref(), seed, &rng.fork(label))))
    }

    /// Returns the link without its loss models.
    #[must_use]
    pub fn lossless(&self) -> Self {
        let mut link = self.clone();
        (link.up.loss, link.down.loss) = (LossSpec::None, LossSpec::None);
        link
    }

    /// Returns the packet counter that the loss models of both directions share, if they share one.
    fn shared_counter(&self, seed: u64) -> Option<Rc<Cell<Nth>>> {
        match self.up.loss {
            LossSpec::Nth { every, first, shared: true } => {
                Some(Rc::new(Cell::new(Nth::of(every, first, seed))))
            }
            _ => None,
        }
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
