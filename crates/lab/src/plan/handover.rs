//! A client that moves from one network to another: when it leaves, and how long the change takes.
//!
//! Lengths and speeds matter only through their ratio. The overlap L at the speed v gives the time L/v during which
//! both networks reach the client. How the client continues depends on the contestant:
//!
//! - A contestant that can change addresses sends its peer the new address after `detection`. SCTP does this by ASCONF,
//!   which crosses the network like any packet.
//! - A contestant with `reconnect=yes` opens new connections.
//! - Any other contestant keeps its address by Mobile IP. Its packets use the new network after `detection` plus
//!   `registration`. Registration messages are not sent; `registration` is only a time.
//!
//! A contestant with Mobile IP has an outage if `detection` plus `registration` takes longer than the overlap. The
//! outage begins when the client leaves the old network.
//!
//! Three further effects on a moving client are off by default:
//!
//! - Loss grows towards the edge of a network.
//! - The client detects a router only when the router advertises itself.
//! - The tunnel of Mobile IP adds bytes and delay to each packet.

use super::concrete::{Concrete, Setting};
use super::error::PlanError;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::units::{format_duration, parse_duration, parse_length, parse_speed};
use anabranch_base::{Bytes, Ratio};
use anabranch_link::{LinkSpec, SpecError};
use std::fmt::Display;
use std::str::FromStr;

/// The move of a client from the first network to the second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handover {
    /// When the client leaves the first network.
    pub leaves: DepartureTime,
    /// The time for which both networks reach the client before it leaves the old network: the overlap L divided by the
    /// speed v.
    pub shared: Duration,
    /// The time from the moment when the new network reaches the client until the client has an address in this
    /// network.
    pub detection: Duration,
    /// The time after `detection` until Mobile IP delivers packets for the old address in the new network.
    pub registration: Duration,
    /// The time that the client stays in each network, if it moves back and forth.
    pub dwell: Option<Duration>,
    /// The interval at which a router advertises itself. The client waits at most this time for the first
    /// advertisement, after which `detection` begins.
    pub advertisement: Option<Duration>,
    /// The share of packets that are lost at the edge of a network's coverage. During the time `edge` before the client
    /// leaves the old network, the loss there rises to this value. During the time `edge` after the client reaches the
    /// new network, the loss there falls from this value.
    pub edge_loss: Ratio,
    /// The time for which the client is at the edge of a network: the length of the edge divided by the speed. If the
    /// plan sets no length, the edge is as long as the overlap.
    pub edge: Duration,
    /// The number of bytes that Mobile IP adds to each packet of its tunnel. The tunnel carries packets for the old
    /// address to the new network.
    pub tunnel: Bytes,
    /// The additional delay of each packet that Mobile IP sends through its tunnel.
    pub stretch: Duration,
}

/// The time at which a client leaves its network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DepartureTime {
    /// The client leaves at this time after the start of the run.
    At(Duration),
    /// The client leaves at a random time after the start, drawn from the seed. If the client moves back and forth,
    /// this time is less than the duration of one stay in a network. Otherwise, this time is less than the duration of
    /// a run with the same seed in which the client does not move.
    Random,
}

/// The maximum number of moves in a run.
const MAX_MOVES: u64 = 20_000;

/// The number of steps in which the loss rises at the edge of the old network, and falls at the edge of the new one.
pub const EDGE_STEPS: u64 = 10;

/// The maximum of each duration in the settings of a handover: one day.
const MAX_SPAN: Duration = Duration::from_secs(86_400);

impl Handover {
    /// Interprets the handover keys of `concrete`. If `paths` has only one network, a copy is added as the second
    /// network.
    ///
    /// # Errors
    /// [`PlanError`] that names the flag or field.
    pub fn interpret(concrete: &Concrete, paths: &mut Vec<LinkSpec>) -> Result<Option<Self>, PlanError> {
        let others = [
            "overlap",
            "speed",
            "detection",
            "registration",
            "cell",
            "advertisement",
            "edge-loss",
            "edge-length",
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
            "random" => DepartureTime::Random,
            _ => DepartureTime::At(span(when).map_err(|error| match when.value.as_bytes() {
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
        let (edge, edge_length) = (takes("edge-length")?, concrete.setting("edge-length"));
        match (speed, concrete.setting("overlap"), concrete.setting("cell")) {
            (Some(speed), None, None) if edge_length.is_none() => {
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
            edge: edge.unwrap_or(shared),
            tunnel: read(concrete, "tunnel")?.unwrap_or(Bytes(0)),
            stretch: time("stretch")?.unwrap_or_default(),
        };
        handover.check_edge(concrete)?;
        if let Some(tunnel) = concrete.setting("tunnel") {
            handover.with_mobile_ip_tunnel(&paths[1]).map_err(|error| PlanError::at(&tunnel.place, error))?;
        }
        Ok(Some(handover))
    }

    /// Rejects an edge length without an edge loss, an edge loss without a length, and edges that overlap within one
    /// network.
    fn check_edge(&self, concrete: &Concrete) -> Result<(), PlanError> {
        let has_loss = self.edge_loss > Ratio::ZERO;
        match (concrete.setting("edge-loss"), concrete.setting("edge-length")) {
            (_, Some(length)) if !has_loss => Err(PlanError::at(&length.place, "goes with edge-loss")),
            (Some(loss), None) if has_loss && self.edge.is_zero() => Err(PlanError::at(
                &loss.place,
                "grows along the overlap, and there is none; write edge-length 20m",
            )),
            (_, Some(length)) if self.edge.is_zero() => {
                let what = format!("'{}': no length; write one such as 20m", length.value);
                Err(PlanError::at(&length.place, what))
            }
            (_, Some(length)) if self.dwell.is_some_and(|dwell| dwell < 2 * self.edge) => {
                let what = format!("'{}': longer than half the cell", length.value);
                Err(PlanError::at(&length.place, what))
            }
            _ => Ok(()),
        }
    }

    /// Rejects a client that would move too often before the deadline.
    ///
    /// # Errors
    /// [`PlanError`] with the limit, and advice on what to write instead.
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

    /// Returns the new network with the effects of the Mobile IP tunnel. The tunnel adds bytes to packets to the
    /// client, but not to packets from it. The added bytes do not count towards the MTU.
    ///
    /// # Errors
    /// The network has no rate limit, so the added bytes would take no time.
    pub fn with_mobile_ip_tunnel(&self, network: &LinkSpec) -> Result<LinkSpec, SpecError> {
        let mut network = network.clone();
        network.down.overhead.0 += self.tunnel.0;
        network.check().map(|()| network)
    }

    /// Returns how long a client has no usable network if the client keeps its address. Detection begins as soon as the
    /// client reaches the new network, and registration follows. The outage is the part of their total time that
    /// remains when the client leaves the old network. The wait for an advertisement is not included.
    #[must_use]
    pub fn outage(&self) -> Duration {
        (self.detection + self.registration).saturating_sub(self.shared)
    }

    /// Returns a short description of the handover for the heading of the table.
    #[must_use]
    pub fn describe(&self) -> String {
        let when = match self.leaves {
            DepartureTime::At(at) => format!("at {}", format_duration(at)),
            DepartureTime::Random => "at a random moment".to_owned(),
        };
        let again =
            self.dwell.map_or(String::new(), |dwell| format!(" and every {}", format_duration(dwell)));
        let mut text = format!(
            "handover {when}{again}, both networks for {}, detection {}, registration {} (outage of who keeps its \
             address {})",
            format_duration(self.shared),
            format_duration(self.detection),
            format_duration(self.registration),
            format_duration(self.outage()),
        );
        if let Some(period) = self.advertisement {
            text += &format!(", advertisement every {}", format_duration(period));
        }
        if self.edge_loss > Ratio::ZERO {
            text += &format!(", loss at the edge {}", self.edge_loss);
            if self.edge != self.shared {
                text += &format!(" for {}", format_duration(self.edge));
            }
        }
        if self.tunnel.0 > 0 {
            text += &format!(", tunnel {}", self.tunnel);
        }
        if !self.stretch.is_zero() {
            text += &format!(", stretch {}", format_duration(self.stretch));
        }
        text
    }
}

/// Parses the value of the plan key `name`, if the key was given.
fn read<T: FromStr<Err: Display>>(concrete: &Concrete, name: &str) -> Result<Option<T>, PlanError> {
    let Some(setting) = concrete.setting(name) else { return Ok(None) };
    setting.value.parse().map(Some).map_err(|error: T::Err| PlanError::at(&setting.place, error))
}

/// Parses a duration. Returns an error if it is longer than one day.
fn span(setting: &Setting) -> Result<Duration, PlanError> {
    let span = parse_duration(&setting.value).map_err(|error| PlanError::at(&setting.place, error))?;
    if span > MAX_SPAN {
        return Err(PlanError::at(&setting.place, format!("'{}': more than a day", setting.value)));
    }
    Ok(span)
}
