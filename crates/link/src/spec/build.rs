//! From values to chains.

use super::{AqmSpec, DirectionSpec, EcnSpec, LinkSpec, LossSpec, QueueSpec, SpecError};
use crate::chain::{Chain, Stage};
use crate::corrupt::Corrupt;
use crate::delay::Delay;
use crate::duplicate::Duplicate;
use crate::element::Carried;
use crate::half_duplex::Medium;
use crate::jitter::Jitter;
use crate::loss::{GilbertElliott, List, Loss, Nth, SharedLoss};
use crate::mtu::Mtu;
use crate::outage::Outage;
use crate::queue::codel::{CodelConfig, CodelDiscipline, CodelQueue};
use crate::queue::fq::{FairQueues, FqCodel};
use crate::queue::pie::PieConfig;
use crate::queue::red::RedConfig;
use crate::queue::{Bottleneck, Limit, Pie, Policy, Red, Threshold};
use crate::rate::{Rate, Serializer};
use crate::reorder::Reorder;
use crate::trace::TracePlayer;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{Ratio, Rng};

impl LinkSpec {
    /// The chains of both directions, up first. `seed` is the run's (it chooses
    /// the first packet of `nth`), `rng` this link's own: every element draws
    /// from a fork of it, so that no element's luck depends on another's.
    ///
    /// # Errors
    /// Contradictions (see [`check`](Self::check)), or a trace that is not loaded.
    pub fn build<P: Carried>(&self, seed: u64, rng: &Rng) -> Result<(Chain<P>, Chain<P>), SpecError> {
        self.check()?;
        let medium = self.half_duplex.then(Medium::shared);
        let (mut up, mut down) = (None, None);
        if let LossSpec::Nth { every, first, shared: true } = self.up.loss {
            let (one, other) = SharedLoss::pair(nth(every, first, seed));
            (up, down) = (Some(one), Some(other));
        }
        let side = |spec: &DirectionSpec, label: &str, shared: Option<SharedLoss<P>>| {
            let side = Side { spec, rtt: self.rtt(), seed, rng: rng.fork(label) };
            side.chain(medium.as_ref(), shared)
        };
        Ok((side(&self.up, "up", up)?, side(&self.down, "down", down)?))
    }
}

/// One direction in the making.
struct Side<'a> {
    spec: &'a DirectionSpec,
    rtt: Duration,
    seed: u64,
    rng: Rng,
}

impl Side<'_> {
    fn chain<P: Carried>(
        &self,
        medium: Option<&Medium>,
        shared: Option<SharedLoss<P>>,
    ) -> Result<Chain<P>, SpecError> {
        let spec = self.spec;
        let mut stages = vec![Stage::Mtu(Mtu::new(spec.mtu))];
        if let Some(serializer) = self.serializer(medium)? {
            stages.push(self.queue(serializer));
        }
        if !spec.outages.is_empty() {
            stages.push(Stage::Outage(Outage::new(&spec.outages)));
        }
        match shared {
            Some(shared) => stages.push(Stage::SharedLoss(shared)),
            None => stages.extend(self.loss().map(Stage::Loss)),
        }
        if spec.corrupt != Ratio::ZERO {
            stages.push(Stage::Corrupt(Corrupt::new(spec.corrupt, self.rng.fork("corrupt"))));
        }
        if spec.duplicate != Ratio::ZERO {
            stages.push(Stage::Duplicate(Duplicate::new(spec.duplicate, self.rng.fork("duplicate"))));
        }
        if !spec.delay.is_zero() {
            stages.push(Stage::Delay(Delay::new(spec.delay)));
        }
        if !spec.jitter.is_zero() {
            let in_order = spec.reorder.is_none();
            stages.push(Stage::Jitter(Jitter::new(spec.jitter, in_order, self.rng.fork("jitter"))));
        }
        if let Some(reorder) = spec.reorder {
            let lead = reorder.lead.unwrap_or(spec.delay - spec.jitter);
            stages.push(Stage::Reorder(Reorder::new(reorder.share, lead, self.rng.fork("reorder"))));
        }
        Ok(Chain::new(stages))
    }

    fn serializer(&self, medium: Option<&Medium>) -> Result<Option<Serializer>, SpecError> {
        if let Some(spec) = &self.spec.trace {
            let Some(trace) = &spec.trace else {
                return Err(SpecError(format!("trace '{}' has not been read", spec.file)));
            };
            return Ok(Some(Serializer::Trace(Box::new(TracePlayer::new(trace.clone())))));
        }
        let Some(rate) = self.spec.rate.first() else { return Ok(None) };
        let mut rate = Rate::new(rate).with_changes(self.spec.rate.changes());
        if let Some(medium) = medium {
            rate = rate.on(medium.clone());
        }
        Ok(Some(Serializer::Rate(rate)))
    }

    fn queue<P: Carried>(&self, serializer: Serializer) -> Stage<P> {
        let limit = self.spec.queue_limit(self.rtt);
        let ecn = self.spec.ecn == EcnSpec::Yes;
        let codel = |target, interval| {
            let max_packet = u64::from(self.spec.mtu);
            CodelConfig { target, interval, ecn, max_packet }
        };
        let policy = match self.spec.aqm {
            AqmSpec::DropTail => match self.spec.ecn {
                EcnSpec::Above(threshold) => Policy::DropTail(Some(Threshold(threshold))),
                EcnSpec::No | EcnSpec::Yes => Policy::DropTail(None),
            },
            AqmSpec::Red { min, max, probability } => {
                let config =
                    RedConfig { min, max, max_probability: probability, ecn, ..RedConfig::default() };
                Policy::Red(Box::new(Red::new(config, self.rng.fork("red"))))
            }
            AqmSpec::Pie { target } => {
                let mean_packet = u64::from(self.spec.mtu);
                let config = PieConfig { target, ecn, mean_packet, ..PieConfig::default() };
                Policy::Pie(Box::new(Pie::new(config, self.rng.fork("pie"))))
            }
            AqmSpec::Codel { target, interval } => {
                let discipline = CodelDiscipline::new(limit, codel(target, interval));
                return Stage::Codel(Box::new(CodelQueue::new(discipline, serializer)));
            }
            AqmSpec::FqCodel { target, interval } => {
                let rng = self.rng.fork("fq");
                let queues = FairQueues::new(limit, self.spec.mtu, codel(target, interval), rng);
                return Stage::FqCodel(Box::new(FqCodel::new(queues, serializer)));
            }
        };
        Stage::Bottleneck(Bottleneck::new(limit, policy, serializer))
    }

    fn loss(&self) -> Option<Loss> {
        let rng = self.rng.fork("loss");
        match &self.spec.loss {
            LossSpec::None => None,
            LossSpec::Bernoulli(share) => Some(Loss::Bernoulli(*share, rng)),
            LossSpec::Nth { every, first, .. } => Some(Loss::Nth(nth(*every, *first, self.seed))),
            LossSpec::GilbertElliott { to_bad, to_good, bad_loss, good_loss } => {
                let model = GilbertElliott::new(*to_bad, *to_good, *bad_loss, *good_loss, rng);
                Some(Loss::GilbertElliott(model))
            }
            LossSpec::List(numbers) => Some(Loss::List(List::new(numbers))),
        }
    }
}

impl DirectionSpec {
    /// The queue's limit on a link of this round trip.
    #[must_use]
    pub fn queue_limit(&self, rtt: Duration) -> Limit {
        match self.queue {
            QueueSpec::Packets(packets) => Limit::Packets(packets),
            QueueSpec::Bytes(bytes) => Limit::Bytes(bytes.0),
            QueueSpec::Unlimited => Limit::Unlimited,
            QueueSpec::Bdp { thousandths } => {
                let Some(rate) = self.mean_rate() else { return Limit::Unlimited };
                let product =
                    u128::from(rate.bits_per_second()) * u128::from(nanos(rtt)) * u128::from(thousandths);
                // 8 bits, 10⁹ ns, 10³ thousandths.
                let packets = product.div_ceil(8_000_000_000_000 * u128::from(self.mtu));
                Limit::Packets(u64::try_from(packets).unwrap_or(u64::MAX).max(10))
            }
        }
    }
}

fn nth(every: u64, first: Option<u64>, seed: u64) -> Nth {
    Nth::new(every, first.unwrap_or(1 + seed % every))
}
