//! The settings of a link and their text forms.
//!
//! This module applies the keys in [`ROWS`] to one or both directions, and rejects keys that contradict each other.
//! [`forms`] parses values that are more than a number. [`build`](LinkSpec::build) creates the chain of elements of
//! each direction.

mod build;
mod forms;

use crate::half_duplex::HalfDuplex;
use crate::outage::Down;
use crate::table::{OfLink, Scope};
use crate::trace::Trace;
use crate::{ROWS, Row};
use anabranch_base::time::{Duration, Instant, nanos};
use anabranch_base::units::parse_duration;
use anabranch_base::{BitRate, Ratio, spelling};
use std::fmt;

pub use crate::DirectionSpec;
pub use crate::reorder::ReorderSpec;
pub use forms::{AqmSpec, EcnSpec, LossSpec, PathOutage, QueueSpec, RateSpec};

/// The reason why a text does not describe a link: one line of text that names the setting and shows the accepted
/// forms.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

impl SpecError {
    /// Creates an error with this message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Creates an error about the value of the key `key`.
    fn of(key: &str, message: impl fmt::Display) -> Self {
        Self(format!("{key}: {message}"))
    }
}

/// A trace file and, once the caller has loaded it, its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceSpec {
    /// The name of the file, as the user gave it.
    pub file: String,
    /// The content of the trace file; `None` until [`LinkSpec::load_traces`] has loaded it.
    pub trace: Option<Trace>,
}

/// The settings of both directions of a link. The default is the network that is simulated if the user sets nothing:
/// 10 Mbit/s, a round-trip time of 80 ms, a queue of one bandwidth-delay product, MTU 1500, no loss.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkSpec {
    /// The direction from client to server.
    pub up: DirectionSpec,
    /// The direction from server to client.
    pub down: DirectionSpec,
    /// Whether both directions share one medium, and by which rules.
    pub half_duplex: HalfDuplex,
    /// The keys that the user has set explicitly. These keys are needed to find contradictions.
    explicit_keys: Vec<String>,
}

/// A direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Direction {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
}

impl LinkSpec {
    /// Parses `key=value` pairs separated by commas, as in `--path 'rate=10mbit,rtt=80ms,loss=ge:1%/30%'`. Keys that do
    /// not occur keep their defaults. A `preset` is applied first, wherever it stands in the text.
    ///
    /// # Errors
    /// The first unknown key, invalid value or contradiction.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut pairs = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key.trim(), value.trim()),
                None if part == "half-duplex" => (part, "yes"),
                None => return Err(SpecError(format!("'{part}': write key=value, such as rate=10mbit"))),
            };
            pairs.push((key, value));
        }
        pairs.sort_by_key(|(key, _)| *key != "preset");
        let mut link = Self::default();
        for (key, value) in pairs {
            link.set(key, value)?;
        }
        link.check()?;
        Ok(link)
    }

    /// Sets the value of one key. A key of [`ROWS`] applies to both directions. With the prefix `up-` or `down-` the
    /// key applies only to that direction. [`check`](Self::check) finds contradictions between keys.
    ///
    /// # Errors
    /// The key is unknown or was set before, or the value is invalid.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        if self.explicit_keys.iter().any(|given| given == key) {
            return Err(SpecError::of(key, "is given twice"));
        }
        let (row, side) = find(key)?;
        let name = row.key;
        match (&row.scope, side) {
            (Scope::Link { set, .. }, None) => set(self, value),
            (Scope::Link { .. }, Some(_)) => return Err(no_direction(row)),
            (Scope::Direction { set, .. }, Some(side)) => set(self.direction_mut(side), value),
            (Scope::Direction { set, .. }, None) => {
                set(&mut self.up, value).and_then(|()| set(&mut self.down, value))
            }
        }
        .map_err(|error| SpecError::of(name, error))?;
        if name == "rate" {
            self.drop_overridden_traces(key);
        }
        self.explicit_keys.push(key.to_owned());
        Ok(())
    }

    /// Removes a preset's recorded trace from the directions for which the user has set an explicit rate. `rate` is the
    /// key that sets the rate: `rate`, `up-rate` or `down-rate`.
    fn drop_overridden_traces(&mut self, rate: &str) {
        let given = &self.explicit_keys;
        let explicit = |key: &str| given.iter().any(|given| given == key);
        for (side, link) in [("up", &mut self.up), ("down", &mut self.down)] {
            let speaks_of_it = rate == "rate" || rate == format!("{side}-rate");
            if speaks_of_it && !explicit("trace") && !explicit(&format!("{side}-trace")) {
                link.trace = None;
            }
        }
    }

    /// Copies the settings of `other`, except for keys that the user has set explicitly.
    pub(crate) fn set_defaults_from(&mut self, other: Self) {
        let given = std::mem::take(&mut self.explicit_keys);
        let explicit = std::mem::replace(self, Self { explicit_keys: Vec::new(), ..other });
        for key in &given {
            self.take(key, &explicit);
        }
        // An explicit rate replaces a recorded trace.
        let is_given = |key: &str| given.iter().any(|given| given == key);
        for (side, link) in [("up", &mut self.up), ("down", &mut self.down)] {
            if is_given("rate") || is_given(&format!("{side}-rate")) {
                link.trace = None;
            }
        }
        self.explicit_keys = given;
    }

    /// Copies the setting of the key `key` from `other`.
    fn take(&mut self, key: &str, other: &Self) {
        let Ok((row, side)) = find(key) else { return };
        match &row.scope {
            Scope::Link { copy: take, .. } => take(self, other),
            Scope::Direction { copy: take, .. } => {
                for one in [Direction::Up, Direction::Down] {
                    if side.is_none_or(|side| side == one) {
                        take(self.direction_mut(one), other.direction(one));
                    }
                }
            }
        }
    }

    /// Returns a link that leaves packets unchanged: no rate, no delay, no loss. Its queue has room for 1000 packets in
    /// case a rate is set later, because an unlimited queue could use unlimited memory.
    #[must_use]
    pub fn transparent() -> Self {
        let side = DirectionSpec {
            rate: RateSpec::UNLIMITED,
            delay: Duration::ZERO,
            queue: QueueSpec::Packets(1000),
            ..DirectionSpec::default()
        };
        Self { up: side.clone(), down: side, ..Self::default() }
    }

    /// Returns whether randomness decides what the link does to a packet, so that the seed matters.
    #[must_use]
    pub fn is_random(&self) -> bool {
        let collides = matches!(self.half_duplex, HalfDuplex::Contention(_));
        collides
            || [&self.up, &self.down].into_iter().any(|side| {
                let loss = match &side.loss {
                    LossSpec::None | LossSpec::List(_) => false,
                    LossSpec::Nth { first, .. } => first.is_none(),
                    LossSpec::Bernoulli(_) | LossSpec::GilbertElliott { .. } | LossSpec::Recorded(_) => true,
                };
                // FQ-CoDel, PIE and RED depend on the seed. FQ-CoDel hashes flows with a seeded hash, and PIE and RED
                // drop at random.
                let queue =
                    matches!(side.aqm, AqmSpec::FqCodel { .. } | AqmSpec::Pie { .. } | AqmSpec::Red { .. });
                let other = [side.duplicate, side.corrupt].into_iter().any(|share| share != Ratio::ZERO);
                loss || queue || other || !side.jitter.is_zero() || side.reorder.is_some()
            })
    }

    /// Returns the round-trip time without queueing.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        self.up.delay + self.down.delay
    }

    /// Returns the settings of one direction.
    #[must_use]
    pub fn direction(&self, direction: Direction) -> &DirectionSpec {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    fn direction_mut(&mut self, direction: Direction) -> &mut DirectionSpec {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Adds an outage of both directions.
    pub fn fail(&mut self, fail: &PathOutage) {
        let down = Down::new(Instant::ZERO + fail.at, fail.span);
        self.up.outages.push(down);
        self.down.outages.push(down);
    }

    /// Loads the content of the trace files. `read` returns the content of the file with a given name. If a trace has
    /// round-trip times, `delay` becomes half of the shortest round-trip time. If a trace has losses, they replace the
    /// setting `loss`.
    ///
    /// # Errors
    /// `read` failed, a file is invalid, or a setting of the link gives a value that a column of the trace also gives.
    pub fn load_traces(
        &mut self,
        mut read: impl FnMut(&str) -> Result<Trace, String>,
    ) -> Result<(), SpecError> {
        let given = &self.explicit_keys;
        for (side, direction) in [("up", &mut self.up), ("down", &mut self.down)] {
            let Some(spec) = &mut direction.trace else { continue };
            if spec.trace.is_some() {
                continue;
            }
            let wrong = |why: String| SpecError(format!("trace '{}': {why}", spec.file));
            let trace = read(&spec.file).map_err(wrong)?;
            let explicit = |keys: &[&str]| {
                let is_of_side = |key: &str| {
                    keys.iter()
                        .any(|name| key == *name || key.strip_prefix(side) == Some(&format!("-{name}")))
                };
                given.iter().find(|key| is_of_side(key))
            };
            let conflict = |column: &str, key: &str| {
                Err(wrong(format!("its column {column} says what {key} would: leave out one of them")))
            };
            if let Some(delays) = trace.delays() {
                if let Some(key) = explicit(&["rtt", "delay"]) {
                    return conflict("rtt", key);
                }
                let least = delays.steps().iter().map(|(_, nanos)| *nanos).min().unwrap_or(0);
                direction.delay = Duration::from_nanos(least);
            }
            if let Some(losses) = trace.losses() {
                if let Some(key) = explicit(&["loss"]) {
                    return conflict("loss", key);
                }
                let has_loss = losses.steps().iter().any(|(_, loss)| *loss != Ratio::ZERO);
                direction.loss = if has_loss { LossSpec::Recorded(losses.clone()) } else { LossSpec::None };
            }
            spec.trace = Some(trace);
        }
        Ok(())
    }

    /// Checks that no two settings contradict each other.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), SpecError> {
        let given = |key: &str| self.explicit_keys.iter().any(|given| given == key);
        if given("rtt") && ["delay", "up-delay", "down-delay"].iter().any(|key| given(key)) {
            return Err(SpecError::new("delay is one way and rtt the round trip: give one of them"));
        }
        for side in ["", "up-", "down-"] {
            let rate = given("rate") || given(&format!("{side}rate"));
            if rate && (given("trace") || given(&format!("{side}trace"))) {
                return Err(SpecError::new("a trace replaces the rate: give one of them"));
            }
        }
        self.up.check("up", self.half_duplex)?;
        self.down.check("down", self.half_duplex)?;
        let shared = |spec: &LossSpec| matches!(spec, LossSpec::Nth { shared: true, .. });
        if (shared(&self.up.loss) || shared(&self.down.loss)) && self.up.loss != self.down.loss {
            return Err(SpecError::new(
                "loss: a shared counter counts both directions: give it with 'loss', not 'up-loss' or 'down-loss'",
            ));
        }
        Ok(())
    }
}

/// Returns the row of [`ROWS`] for a key, and the direction that the key's prefix names, if it has a prefix.
fn find(key: &str) -> Result<(&'static Row, Option<Direction>), SpecError> {
    let (side, bare) = match key.split_once('-') {
        Some(("up", bare)) => (Some(Direction::Up), bare),
        Some(("down", bare)) => (Some(Direction::Down), bare),
        _ => (None, key),
    };
    match ROWS.iter().find(|row| row.key == bare) {
        Some(row) => Ok((row, side)),
        None => {
            let keys: Vec<_> = ROWS.iter().map(|row| row.key).collect();
            let hint = spelling::hint(bare, &keys);
            Err(SpecError(format!("'{bare}' is unknown{hint}; write one of {}", keys.join(", "))))
        }
    }
}

/// Returns the error for a prefix on a key that applies to the whole link, for example `up-rtt`.
fn no_direction(row: &Row) -> SpecError {
    match row.key {
        "rtt" => SpecError::of("rtt", "a round trip has no direction; write down-delay or up-delay"),
        key => SpecError::of(key, "is of the link, and has no direction"),
    }
}

/// The key `rtt`: a round-trip time. Each direction gets half of it as its delay.
pub(crate) struct RoundTrip;

impl OfLink for RoundTrip {
    fn set(link: &mut LinkSpec, text: &str) -> Result<(), String> {
        let rtt = parse_duration(text).map_err(|error| error.to_string())?;
        let half = Duration::from_nanos(nanos(rtt) / 2);
        (link.up.delay, link.down.delay) = (half, rtt - half);
        Ok(())
    }

    fn take(link: &mut LinkSpec, other: &LinkSpec) {
        (link.up.delay, link.down.delay) = (other.up.delay, other.down.delay);
    }
}

impl DirectionSpec {
    fn check(&self, side: &str, half_duplex: HalfDuplex) -> Result<(), SpecError> {
        let mut checked = Ok(());
        for row in ROWS {
            if let (Ok(()), Scope::Direction { check, .. }) = (&checked, &row.scope) {
                checked = check(self);
            }
        }
        checked.and_then(|()| self.check_queue(half_duplex)).map_err(|message| SpecError::of(side, message))
    }

    /// Returns the mean rate of the trace or, without a trace, the initial rate. Returns `None` if the rate is
    /// unlimited or the trace is not loaded.
    #[must_use]
    pub fn mean_rate(&self) -> Option<BitRate> {
        match &self.trace {
            Some(spec) => spec.trace.as_ref().map(Trace::mean_rate),
            None => self.rate.first(),
        }
    }
}

impl fmt::Display for LinkSpec {
    /// Writes every setting in the form that [`LinkSpec::parse`] reads. Outages are not written, because the command
    /// line has a separate flag for them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut settings = Vec::new();
        for row in ROWS {
            if let Scope::Direction { show, .. } = row.scope {
                settings.push((row.key, show(&self.up), show(&self.down)));
            }
        }
        // The first setting written is the rate or, if the link plays a trace, the trace.
        settings.sort_by_key(|(key, ..)| !["rate", "trace"].contains(key));
        let mut first = true;
        let mut item = |f: &mut fmt::Formatter<'_>, side: &str, key: &str, value: &str| {
            let comma = if std::mem::take(&mut first) { "" } else { "," };
            write!(f, "{comma}{side}{key}={value}")
        };
        for (key, up, down) in &settings {
            if up == down {
                if !up.is_empty() {
                    item(f, "", key, up)?;
                }
                continue;
            }
            for (side, value) in [("up-", up), ("down-", down)] {
                if !value.is_empty() {
                    item(f, side, key, value)?;
                }
            }
        }
        if self.half_duplex != HalfDuplex::No {
            item(f, "", "half-duplex", self.half_duplex.word())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
