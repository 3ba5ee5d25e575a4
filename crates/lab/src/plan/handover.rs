//! A client that moves: when it leaves one network for another, and how long the change takes.
//!
//! Only the ratio of overlap and speed matters: the time L/v for which both networks reach the client. A contestant
//! that tells its peer its new addresses (by ASCONF, which crosses the network like any packet) does so after
//! `detection`. Any other contestant keeps its address by Mobile IP: its packets take the new network after `detection`
//! and `registration`. Registration messages are not sent; `registration` is only a time. The outage is the part of
//! these two times that is left when the old network ends. A contestant with `reconnect=yes` does neither: it opens new
//! connections.
//!
//! Other effects on a moving client are off by default. These are loss that grows towards the edge, and routers that
//! are detected only when they advertise themselves. Mobile IP's tunnel can also add bytes and delay to each packet.

use super::concrete::{Concrete, Setting};
use super::error::PlanError;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::units::{format_span, parse_length, parse_span, parse_speed};
use anabranch_base::{Bytes, Ratio};
use anabranch_link::{LinkSpec, SpecError};
use std::fmt::Display;
use std::str::FromStr;

/// A client's move from the first network to the second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handover {
    /// When the client leaves the old network.
    pub leaves: Leaves,
    /// For how long before that both networks reach the client: L/v.
    pub shared: Duration,
    /// The time from the new network reaching the client until the client has an address there.
    pub detection: Duration,
    /// The additional time until Mobile IP delivers packets for the old address in the new network.
    pub registration: Duration,
    /// The time after which the client leaves each network, if it moves to and fro.
    pub dwell: Option<Duration>,
    /// The interval at which a router advertises itself. The client waits up to this long for the first one, and then
    /// detects.
    pub advertisement: Option<Duration>,
    /// The loss at the edge of a network. Loss grows to it along the overlap, and falls from it in the network that is
    /// entered.
    pub edge_loss: Ratio,
    /// The bytes that Mobile IP adds to each packet for the old address in the new network.
    pub tunnel: Bytes,
    /// The additional delay of such a packet.
    pub stretch: Duration,
}

/// When a client leaves its network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaves {
    /// At this time of the run.
    At(Duration),
    /// At a moment drawn from the seed, during the same load without a move. A client that moves to and fro draws a
    /// moment of its first stay.
    Random,
}

/// The most times that a client may move in a run.
const MAX_MOVES: u64 = 20_000;

/// The number of steps in which a move changes the loss.
pub const EDGE_STEPS: u64 = 10;

/// The longest of any of these times: one day.
const MAX_SPAN: Duration = Duration::from_secs(86_400);

impl Handover {
    /// Reads the handover from `concrete`. If `paths` holds only one network, a copy of it is added as the second.
    ///
    /// # Errors
    /// [`PlanError`] naming the flag or field.
    pub fn interpret(concrete: &Concrete, paths: &mut Vec<LinkSpec>) -> Result<Option<Self>, PlanError> {
        let others = [
            "overlap",
            "speed",
            "detection",
            "registration",
            "cell",
            "advertisement",
            "edge-loss",
            "tunnel",
            "stretch",
        ];
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
        let handover = Self {
            leaves,
            shared,
            detection: time("detection")?.unwrap_or_default(),
            registration: time("registration")?.unwrap_or_else(|| paths[1].rtt()),
            dwell,
            advertisement: time("advertisement")?.filter(|period| !period.is_zero()),
            edge_loss: read(concrete, "edge-loss")?.unwrap_or(Ratio::ZERO),
            tunnel: read(concrete, "tunnel")?.unwrap_or(Bytes(0)),
            stretch: time("stretch")?.unwrap_or_default(),
        };
        if let Some(edge) = concrete.setting("edge-loss")
            && handover.edge_loss > Ratio::ZERO
            && shared.is_zero()
        {
            return Err(PlanError::at(&edge.place, "grows along the overlap, and there is none"));
        }
        if let Some(tunnel) = concrete.setting("tunnel") {
            handover.through_the_tunnel(&paths[1]).map_err(|error| PlanError::at(&tunnel.place, error))?;
        }
        Ok(Some(handover))
    }

    /// Rejects a client that would move too often.
    ///
    /// # Errors
    /// [`PlanError`] with the bound, and what to write instead.
    pub fn check(&self, concrete: &Concrete, deadline: Duration) -> Result<(), PlanError> {
        let moves = self.dwell.map_or(1, |dwell| nanos(deadline) / nanos(dwell).max(1));
        let most = if self.edge_loss > Ratio::ZERO { MAX_MOVES / EDGE_STEPS } else { MAX_MOVES };
        match concrete.setting("cell") {
            Some(cell) if moves > most => {
                let what = format!(
                    "'{}': {moves} moves until the deadline, more than {most}; write a larger cell, a lower \
                     speed or an earlier deadline",
                    cell.value
                );
                Err(PlanError::at(&cell.place, what))
            }
            _ => Ok(()),
        }
    }

    /// Returns the new network as a client with Mobile IP sees it. The tunnel adds bytes to packets to the client, not
    /// from it, and they do not count towards the MTU.
    ///
    /// # Errors
    /// The network has no rate, so additional bytes would take no time.
    pub fn through_the_tunnel(&self, network: &LinkSpec) -> Result<LinkSpec, SpecError> {
        let mut network = network.clone();
        network.down.overhead.0 += self.tunnel.0;
        network.check().map(|()| network)
    }

    /// Returns for how long a client that keeps its address has no network. That is the part of detection and
    /// registration that is left when the old network ends. Advertisements are not counted.
    #[must_use]
    pub fn outage(&self) -> Duration {
        (self.detection + self.registration).saturating_sub(self.shared)
    }

    /// Returns a short description for the heading of the table.
    #[must_use]
    pub fn describe(&self) -> String {
        let when = match self.leaves {
            Leaves::At(at) => format!("at {}", format_span(at)),
            Leaves::Random => "at a random moment".to_owned(),
        };
        let again = self.dwell.map_or(String::new(), |dwell| format!(" and every {}", format_span(dwell)));
        let mut text = format!(
            "handover {when}{again}, both networks for {}, detection {}, registration {} (outage of who keeps its \
             address {})",
            format_span(self.shared),
            format_span(self.detection),
            format_span(self.registration),
            format_span(self.outage()),
        );
        if let Some(period) = self.advertisement {
            text += &format!(", advertisement every {}", format_span(period));
        }
        if self.edge_loss > Ratio::ZERO {
            text += &format!(", loss at the edge {}", self.edge_loss);
        }
        if self.tunnel.0 > 0 {
            text += &format!(", tunnel {}", self.tunnel);
        }
        if !self.stretch.is_zero() {
            text += &format!(", stretch {}", format_span(self.stretch));
        }
        text
    }
}

/// Parses the value of a key.
fn read<T: FromStr<Err: Display>>(concrete: &Concrete, name: &str) -> Result<Option<T>, PlanError> {
    let Some(setting) = concrete.setting(name) else { return Ok(None) };
    setting.value.parse().map(Some).map_err(|error: T::Err| PlanError::at(&setting.place, error))
}

/// Parses a time of at most one day.
fn span(setting: &Setting) -> Result<Duration, PlanError> {
    let span = parse_span(&setting.value).map_err(|error| PlanError::at(&setting.place, error))?;
    if span > MAX_SPAN {
        return Err(PlanError::at(&setting.place, format!("'{}': more than a day", setting.value)));
    }
    Ok(span)
}
