//! A client that moves: when it leaves one network for another, and how long the change takes.
//!
//! All that counts of overlap and speed is the time for which both networks reach the client, L/v. A contestant that tells
//! its peer of new addresses (by ASCONF, which crosses the network like all else) does so after `detection`. Any other
//! keeps its address by Mobile IP: packets take the new network after `detection` and `registration`, whose messages are
//! not sent: they are a time. Its outage is what of that is left when the old network ends.

use super::concrete::{Concrete, Setting};
use super::error::PlanError;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::units::{format_span, parse_length, parse_span, parse_speed};
use anabranch_link::LinkSpec;

/// A client's move from the first network to the second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handover {
    /// When the client leaves the old network.
    pub leaves: Leaves,
    /// For how long before that both networks reach it: L/v.
    pub shared: Duration,
    /// From where the new network reaches the client until it has an address there.
    pub detection: Duration,
    /// How much later Mobile IP serves its old address there.
    pub registration: Duration,
    /// It goes to and fro, and leaves a network after each of these.
    pub dwell: Option<Duration>,
}

/// When a client leaves its network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaves {
    /// At this instant of the run's clock.
    At(Duration),
    /// At a moment drawn from the seed: of the same load without a move; of a client that goes to and fro, of its first way.
    Random,
}

/// The most times that a client may move in a run.
const MAX_MOVES: u64 = 20_000;

/// The longest of any of these times: beyond it nothing is a handover.
const MAX_SPAN: Duration = Duration::from_secs(86_400);

impl Handover {
    /// What `concrete` says; `paths` are the networks: of one, a second of its kind is added.
    ///
    /// # Errors
    /// [`PlanError`] naming the flag or field.
    pub fn interpret(concrete: &Concrete, paths: &mut Vec<LinkSpec>) -> Result<Option<Self>, PlanError> {
        let others = ["overlap", "speed", "detection", "registration", "cell"];
        let Some(when) = concrete.setting("handover") else {
            return match others.iter().find_map(|name| concrete.setting(name)) {
                Some(alone) => Err(PlanError::at(&alone.place, "goes with handover")),
                None => Ok(None),
            };
        };
        match paths.as_slice() {
            [one] => paths.push(one.clone()),
            [_, _] => {}
            more => {
                let what =
                    format!("between two networks, and there are {} paths; write one or two", more.len());
                return Err(PlanError::at(&when.place, what));
            }
        }
        let leaves = match when.value.as_str() {
            "random" => Leaves::Random,
            _ => Leaves::At(span(when).map_err(|error| match when.value.as_bytes() {
                [b'0'..=b'9', ..] => error,
                _ => PlanError::at(
                    &when.place,
                    format!("'{}': write a time such as 2s, or random", when.value),
                ),
            })?),
        };
        let speed = concrete.setting("speed");
        let takes = |name: &str| -> Result<Option<Duration>, PlanError> {
            let Some(way) = concrete.setting(name) else { return Ok(None) };
            let length = parse_length(&way.value).map_err(|error| PlanError::at(&way.place, error))?;
            let Some(speed) = speed else {
                return match length {
                    0 => Ok(Some(Duration::ZERO)),
                    _ => Err(PlanError::at(&way.place, "needs a speed; write speed 5m/s")),
                };
            };
            let fast = parse_speed(&speed.value).map_err(|error| PlanError::at(&speed.place, error))?;
            let time = u64::try_from(u128::from(length) * 1_000_000_000 / u128::from(fast));
            let time = time.ok().map(Duration::from_nanos).filter(|time| *time <= MAX_SPAN);
            time.map(Some).ok_or_else(|| PlanError::at(&way.place, "takes more than a day at this speed"))
        };
        let time = |name: &str| concrete.setting(name).map(span).transpose();
        let (shared, dwell) = (takes("overlap")?.unwrap_or_default(), takes("cell")?);
        match (speed, concrete.setting("overlap"), concrete.setting("cell")) {
            (Some(speed), None, None) => {
                return Err(PlanError::at(&speed.place, "goes with overlap or cell"));
            }
            (_, _, Some(cell)) if dwell.is_some_and(|dwell| dwell.is_zero()) => {
                return Err(PlanError::at(
                    &cell.place,
                    format!("'{}': no length; write one such as 15m", cell.value),
                ));
            }
            (_, Some(overlap), Some(_)) if dwell.is_some_and(|dwell| dwell < shared) => {
                let what = format!("'{}': longer than the cell", overlap.value);
                return Err(PlanError::at(&overlap.place, what));
            }
            _ => {}
        }
        Ok(Some(Self {
            leaves,
            shared,
            detection: time("detection")?.unwrap_or_default(),
            registration: time("registration")?.unwrap_or_else(|| paths[1].rtt()),
            dwell,
        }))
    }

    /// Refuses a client that would move too often.
    ///
    /// # Errors
    /// [`PlanError`] with the bound, and what to write instead.
    pub fn check(&self, concrete: &Concrete, deadline: Duration) -> Result<(), PlanError> {
        let moves = self.dwell.map_or(1, |dwell| nanos(deadline) / nanos(dwell).max(1));
        match concrete.setting("cell") {
            Some(cell) if moves > MAX_MOVES => {
                let what = format!(
                    "'{}': {moves} moves until the deadline, more than {MAX_MOVES}; write a larger cell, a lower \
                     speed or an earlier deadline",
                    cell.value
                );
                Err(PlanError::at(&cell.place, what))
            }
            _ => Ok(()),
        }
    }

    /// For how long a client that keeps its address is without a network: what of detection and registration is left when
    /// the old network ends.
    #[must_use]
    pub fn outage(&self) -> Duration {
        (self.detection + self.registration).saturating_sub(self.shared)
    }

    /// In a few words, for the table's heading.
    #[must_use]
    pub fn describe(&self) -> String {
        let when = match self.leaves {
            Leaves::At(at) => format!("at {}", format_span(at)),
            Leaves::Random => "at a random moment".to_owned(),
        };
        let again = self.dwell.map_or(String::new(), |dwell| format!(" and every {}", format_span(dwell)));
        format!(
            "handover {when}{again}, both networks for {}, detection {}, registration {} (outage of who keeps its \
             address {})",
            format_span(self.shared),
            format_span(self.detection),
            format_span(self.registration),
            format_span(self.outage()),
        )
    }
}

/// A time, of a day at most.
fn span(setting: &Setting) -> Result<Duration, PlanError> {
    let span = parse_span(&setting.value).map_err(|error| PlanError::at(&setting.place, error))?;
    if span > MAX_SPAN {
        return Err(PlanError::at(&setting.place, format!("'{}': more than a day", setting.value)));
    }
    Ok(span)
}
