//! Creates the queue element of a chain from the settings of a link.
//!
//! Three keys together define the queue element: `queue` sets its limit, `aqm` its policy and `ecn` the marking.

use super::codel::{CodelConfig, CodelDiscipline, CodelQueue};
use super::fq::{FairQueues, FqCodel};
use super::pie::PieConfig;
use super::red::RedConfig;
use super::{Bottleneck, Limit, Pie, Policy, Red, Threshold};
use crate::contention::Contender;
use crate::half_duplex::HalfDuplex;
use crate::rate::Serializer;
use crate::spec::{AqmSpec, EcnSpec, QueueSpec, SpecError};
use crate::table::{Impairment, Side};
use crate::{Carried, DirectionSpec, Stage};
use anabranch_base::time::{Duration, nanos};

impl Impairment<QueueSpec> for Bottleneck {
    const PLACE: u8 = 20;

    fn read(text: &str) -> Result<QueueSpec, String> {
        text.parse().map_err(|error: SpecError| error.to_string())
    }

    fn show(spec: &DirectionSpec) -> String {
        spec.queue.to_string()
    }

    fn stage<P: Carried>(side: &Side<'_>) -> Result<Option<Stage<P>>, SpecError> {
        Ok(Serializer::of(side)?.map(|serializer| behind(side, serializer)))
    }
}

impl Impairment<AqmSpec> for Policy {
    fn read(text: &str) -> Result<AqmSpec, String> {
        text.parse().map_err(|error: SpecError| error.to_string())
    }

    fn show(spec: &DirectionSpec) -> String {
        if spec.aqm == AqmSpec::DropTail { String::new() } else { spec.aqm.to_string() }
    }
}

impl Impairment<EcnSpec> for Threshold {
    fn read(text: &str) -> Result<EcnSpec, String> {
        text.parse().map_err(|error: SpecError| error.to_string())
    }

    fn show(spec: &DirectionSpec) -> String {
        if spec.ecn == EcnSpec::No { String::new() } else { spec.ecn.to_string() }
    }
}

/// Creates the queue of one direction, in front of its serializer.
fn behind<P: Carried>(side: &Side<'_>, serializer: Serializer) -> Stage<P> {
    let spec = side.spec;
    let limit = spec.queue_limit(side.rtt);
    if let Some((medium, end)) = &side.contention {
        return Stage::Contender(Box::new(Contender::new(limit, medium.clone(), *end, serializer)));
    }
    let ecn = spec.ecn == EcnSpec::Yes;
    let codel = |target, interval| {
        let max_packet = u64::from(spec.mtu);
        CodelConfig { target, interval, ecn, max_packet }
    };
    let policy = match spec.aqm {
        AqmSpec::DropTail => match spec.ecn {
            EcnSpec::Above(threshold) => Policy::DropTail(Some(Threshold(threshold))),
            EcnSpec::No | EcnSpec::Yes => Policy::DropTail(None),
        },
        AqmSpec::Red { min, max, probability, weight, gentle } => {
            let config = RedConfig { min, max, max_probability: probability, weight, gentle, ecn };
            Policy::Red(Box::new(Red::new(config, side.rng.fork("red"))))
        }
        AqmSpec::Pie { target } => {
            let mean_packet = u64::from(spec.mtu);
            let config = PieConfig { target, ecn, mean_packet, ..PieConfig::default() };
            Policy::Pie(Box::new(Pie::new(config, side.rng.fork("pie"))))
        }
        AqmSpec::Codel { target, interval } => {
            let discipline = CodelDiscipline::new(limit, codel(target, interval));
            return Stage::Codel(Box::new(CodelQueue::new(discipline, serializer)));
        }
        AqmSpec::FqCodel { target, interval } => {
            let rng = side.rng.fork("fq");
            let queues = FairQueues::new(limit, spec.mtu, codel(target, interval), rng);
            return Stage::FqCodel(Box::new(FqCodel::new(queues, serializer)));
        }
    };
    Stage::Bottleneck(Bottleneck::new(limit, policy, serializer))
}

impl DirectionSpec {
    /// Returns the queue's limit on a link with the round-trip time `rtt`.
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
                // The division converts the product to packets. The factors of the divisor are 8 bits per byte, 10⁹ ns
                // per second, 10³ for the thousandths, and the MTU in bytes.
                let packets = product.div_ceil(8_000_000_000_000 * u128::from(self.mtu));
                Limit::Packets(u64::try_from(packets).unwrap_or(u64::MAX).max(10))
            }
        }
    }

    /// Rejects contradictory settings of rate, trace, queue and medium.
    pub(crate) fn check_queue(&self, half_duplex: HalfDuplex) -> Result<(), String> {
        let decides_late = matches!(self.aqm, AqmSpec::Codel { .. } | AqmSpec::FqCodel { .. });
        let endless = self.rate.is_unlimited() && self.trace.is_none();
        let contends = matches!(half_duplex, HalfDuplex::Contention(_));
        let half_duplex = half_duplex != HalfDuplex::No;
        let wrong = if half_duplex && (decides_late || self.trace.is_some()) {
            "half-duplex can be combined only with a rate and the queues droptail, red and pie only"
        } else if contends && (self.aqm != AqmSpec::DropTail || self.ecn != EcnSpec::No) {
            "half-duplex with contention needs a drop-tail queue without ECN marks"
        } else if endless && self.aqm != AqmSpec::DropTail {
            "an aqm needs a rate: without one there is no queue"
        } else if endless && half_duplex {
            "half-duplex needs a rate: without one nothing is ever busy"
        } else if matches!(self.ecn, EcnSpec::Above(_)) && self.aqm != AqmSpec::DropTail {
            "ecn: a threshold is for droptail; with an aqm write ecn=yes"
        } else if self.ecn == EcnSpec::Yes && self.aqm == AqmSpec::DropTail {
            "ecn: a drop-tail queue needs a threshold such as 20p, or give an aqm"
        } else {
            return Ok(());
        };
        Err(wrong.to_owned())
    }
}
