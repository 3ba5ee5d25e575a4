//! The text forms of a link, and the values they stand for.
//!
//! Owns the keys of `--path` and of the network flags, what each means for
//! either direction, and what does not go together. [`forms`] reads single
//! values, [`build`](LinkSpec::build) makes the two chains.

mod build;
mod forms;

use crate::outage::Down;
use crate::preset::{PRESETS, Preset};
use crate::trace::Trace;
use anabranch_base::BitRate;
use anabranch_base::Ratio;
use anabranch_base::time::{Duration, Instant, nanos};
use anabranch_base::units::{format_span, parse_span};
use std::fmt;

pub use forms::{AqmSpec, EcnSpec, Fail, LossSpec, QueueSpec, RateSpec, ReorderSpec};

/// Why a text is not a link: one line that names the place and the accepted forms.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

impl SpecError {
    /// With this message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The same, said of a key.
    fn of(key: &str, message: impl fmt::Display) -> Self {
        Self(format!("{key}: {message}"))
    }
}

/// One direction of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectionSpec {
    /// Bits per second, perhaps changing; not used when there is a trace.
    pub rate: RateSpec,
    /// Propagation, one way.
    pub delay: Duration,
    /// Spread of the propagation either way.
    pub jitter: Duration,
    /// Which packets are lost on the wire.
    pub loss: LossSpec,
    /// How much waits at most.
    pub queue: QueueSpec,
    /// What the queue does beyond its limit.
    pub aqm: AqmSpec,
    /// Whether it marks.
    pub ecn: EcnSpec,
    /// Packets that overtake.
    pub reorder: Option<ReorderSpec>,
    /// Share of packets that arrive twice.
    pub duplicate: Ratio,
    /// Share of packets whose bits are flipped.
    pub corrupt: Ratio,
    /// Largest packet, IP header included, in bytes.
    pub mtu: u32,
    /// Recorded capacity in place of a rate.
    pub trace: Option<TraceSpec>,
    /// When it is down.
    pub outages: Vec<Down>,
}

/// A trace file, and its content once the caller has read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceSpec {
    /// The file's name as given.
    pub file: String,
    /// Its content (see [`LinkSpec::load_traces`]).
    pub trace: Option<Trace>,
}

/// Both directions of a link. The default is the network of the bare race:
/// 10 Mbit/s, 80 ms, a queue of one bandwidth-delay product, MTU 1500, no loss.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkSpec {
    /// Client to server.
    pub up: DirectionSpec,
    /// Server to client.
    pub down: DirectionSpec,
    /// Both directions share one medium.
    pub half_duplex: bool,
    /// The keys that were set by hand, to find contradictions.
    given: Vec<String>,
}

/// A direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Direction {
    /// Client to server.
    Up,
    /// Server to client.
    Down,
}

impl Default for DirectionSpec {
    fn default() -> Self {
        Self {
            rate: RateSpec::constant(TEN_MBIT),
            delay: Duration::from_millis(40),
            jitter: Duration::ZERO,
            loss: LossSpec::None,
            queue: QueueSpec::Bdp { thousandths: 1000 },
            aqm: AqmSpec::DropTail,
            ecn: EcnSpec::No,
            reorder: None,
            duplicate: Ratio::ZERO,
            corrupt: Ratio::ZERO,
            mtu: 1500,
            trace: None,
            outages: Vec::new(),
        }
    }
}

impl LinkSpec {
    /// Reads `key=value` pairs joined by commas, as in `--path
    /// 'rate=10mbit,rtt=80ms,loss=ge:1%/30%'`. What is not named keeps its
    /// default; a `preset` comes first wherever it stands.
    ///
    /// # Errors
    /// The first unknown key, bad value or contradiction.
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

    /// Sets one key: one of [`KEYS`], for both directions, or with `up-` or
    /// `down-` in front for one. Contradictions between keys are found by
    /// [`check`](Self::check).
    ///
    /// # Errors
    /// An unknown key, a bad value, or a key set before.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        if self.given.iter().any(|given| given == key) {
            return Err(SpecError::of(key, "is given twice"));
        }
        match key {
            "rtt" => {
                let rtt = parse_span(value).map_err(|error| SpecError::of(key, error))?;
                let half = Duration::from_nanos(nanos(rtt) / 2);
                (self.up.delay, self.down.delay) = (half, rtt - half);
            }
            "half-duplex" => self.half_duplex = forms::yes_or_no(value).map_err(|e| SpecError::of(key, e))?,
            "preset" => return self.set_preset(value),
            _ => match key.split_once('-') {
                Some(("up", key)) => self.up.set(key, value)?,
                Some(("down", key)) => self.down.set(key, value)?,
                _ => {
                    self.up.set(key, value)?;
                    self.down.set(key, value)?;
                }
            },
        }
        self.given.push(key.to_owned());
        Ok(())
    }

    fn set_preset(&mut self, name: &str) -> Result<(), SpecError> {
        let Some(preset) = Preset::named(name) else {
            let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
            return Err(SpecError(format!("preset: '{name}' is unknown; write one of {}", names.join(", "))));
        };
        let named = Self::parse(preset.settings)?;
        // What was set by hand before the preset stays.
        let mut merged = named;
        merged.given.clear();
        let mut given = std::mem::take(&mut self.given);
        for key in &given {
            merged.take(key, self);
        }
        given.push("preset".to_owned());
        *self = Self { given, ..merged };
        Ok(())
    }

    /// Copies what `key` governs from `other`.
    fn take(&mut self, key: &str, other: &Self) {
        match key {
            "rtt" => (self.up.delay, self.down.delay) = (other.up.delay, other.down.delay),
            "half-duplex" => self.half_duplex = other.half_duplex,
            _ => match key.split_once('-') {
                Some(("up", key)) => self.up.take(key, &other.up),
                Some(("down", key)) => self.down.take(key, &other.down),
                _ => {
                    self.up.take(key, &other.up);
                    self.down.take(key, &other.down);
                }
            },
        }
    }

    /// The round trip without queues.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        self.up.delay + self.down.delay
    }

    /// One of the directions.
    #[must_use]
    pub fn direction(&self, direction: Direction) -> &DirectionSpec {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Adds an outage of both directions.
    pub fn fail(&mut self, fail: &Fail) {
        let down = Down::new(Instant::ZERO + fail.at, fail.span);
        self.up.outages.push(down);
        self.down.outages.push(down);
    }

    /// Fills in the trace files' contents, which `read` fetches by name.
    ///
    /// # Errors
    /// What `read` says, or what is wrong with a file.
    pub fn load_traces(
        &mut self,
        mut read: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<(), SpecError> {
        for direction in [&mut self.up, &mut self.down] {
            if let Some(spec) = &mut direction.trace
                && spec.trace.is_none()
            {
                let text = read(&spec.file).map_err(|e| SpecError(format!("trace '{}': {e}", spec.file)))?;
                let trace =
                    Trace::parse(&text).map_err(|e| SpecError(format!("trace '{}': {e}", spec.file)))?;
                spec.trace = Some(trace);
            }
        }
        Ok(())
    }

    /// Looks for what does not go together.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), SpecError> {
        let given = |key: &str| self.given.iter().any(|given| given == key);
        if given("rtt") && ["delay", "up-delay", "down-delay"].iter().any(|key| given(key)) {
            return Err(SpecError::new("delay is one way and rtt the round trip: give one of them"));
        }
        for side in ["", "up-", "down-"] {
            let rate = given("rate") || given(&format!("{side}rate"));
            if rate && (given("trace") || given(&format!("{side}trace"))) {
                return Err(SpecError::new("a trace takes the place of the rate: give one of them"));
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

impl DirectionSpec {
    fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        let wrong = |error: &dyn fmt::Display| SpecError::of(key, error);
        match key {
            "rate" => self.rate = value.parse().map_err(|e| wrong(&e))?,
            "delay" => self.delay = parse_span(value).map_err(|e| wrong(&e))?,
            "jitter" => self.jitter = parse_span(value).map_err(|e| wrong(&e))?,
            "loss" => self.loss = value.parse().map_err(|e| wrong(&e))?,
            "queue" => self.queue = value.parse().map_err(|e| wrong(&e))?,
            "aqm" => self.aqm = value.parse().map_err(|e| wrong(&e))?,
            "ecn" => self.ecn = value.parse().map_err(|e| wrong(&e))?,
            "reorder" => self.reorder = forms::reorder(value).map_err(|e| wrong(&e))?,
            "duplicate" => self.duplicate = value.parse().map_err(|e| wrong(&e))?,
            "corrupt" => self.corrupt = value.parse().map_err(|e| wrong(&e))?,
            "mtu" => self.mtu = forms::mtu(value).map_err(|e| wrong(&e))?,
            "trace" if value.is_empty() => return Err(wrong(&"write the name of a file")),
            "trace" => self.trace = Some(TraceSpec { file: value.to_owned(), trace: None }),
            "rtt" => return Err(wrong(&"a round trip has no direction; write down-delay or up-delay")),
            _ => return Err(SpecError(format!("'{key}' is unknown; write one of {}", KEYS.join(", ")))),
        }
        Ok(())
    }

    fn take(&mut self, key: &str, other: &Self) {
        match key {
            "rate" => self.rate = other.rate.clone(),
            "delay" => self.delay = other.delay,
            "jitter" => self.jitter = other.jitter,
            "loss" => self.loss = other.loss.clone(),
            "queue" => self.queue = other.queue,
            "aqm" => self.aqm = other.aqm,
            "ecn" => self.ecn = other.ecn,
            "reorder" => self.reorder = other.reorder,
            "duplicate" => self.duplicate = other.duplicate,
            "corrupt" => self.corrupt = other.corrupt,
            "mtu" => self.mtu = other.mtu,
            "trace" => self.trace = other.trace.clone(),
            _ => {}
        }
    }

    fn check(&self, side: &str, half_duplex: bool) -> Result<(), SpecError> {
        let says = |message: String| Err(SpecError(format!("{side}: {message}")));
        if self.jitter > self.delay {
            let (jitter, delay) = (format_span(self.jitter), format_span(self.delay));
            return says(format!(
                "jitter {jitter} is more than the delay {delay}: a packet cannot leave before it came"
            ));
        }
        if let Some(lead) = self.reorder.and_then(|reorder| reorder.lead)
            && lead > self.delay - self.jitter
        {
            let most = format_span(self.delay - self.jitter);
            let lead = format_span(lead);
            return says(format!("reorder by {lead} is more than the delay leaves; write at most {most}"));
        }
        let decides_late = matches!(self.aqm, AqmSpec::Codel { .. } | AqmSpec::FqCodel { .. });
        if half_duplex && (decides_late || self.trace.is_some()) {
            return says("half-duplex goes with a rate and the queues droptail, red and pie only".to_owned());
        }
        let endless = self.rate.is_unlimited() && self.trace.is_none();
        if endless && self.aqm != AqmSpec::DropTail {
            return says("an aqm needs a rate: without one there is no queue".to_owned());
        }
        if endless && half_duplex {
            return says("half-duplex needs a rate: without one nothing is ever busy".to_owned());
        }
        if matches!(self.ecn, EcnSpec::Above(_)) && self.aqm != AqmSpec::DropTail {
            return says("ecn: a threshold is for droptail; with an aqm write ecn=yes".to_owned());
        }
        if self.ecn == EcnSpec::Yes && self.aqm == AqmSpec::DropTail {
            return says("ecn: a drop-tail queue needs a threshold such as 20p, or give an aqm".to_owned());
        }
        Ok(())
    }

    /// The rate, or the mean rate of the trace; `None` when unlimited or when
    /// the trace is not loaded.
    #[must_use]
    pub fn mean_rate(&self) -> Option<BitRate> {
        match &self.trace {
            Some(spec) => spec.trace.as_ref().map(Trace::mean_rate),
            None => self.rate.first(),
        }
    }
}

impl fmt::Display for LinkSpec {
    /// Every setting, in the form that [`LinkSpec::parse`] reads (outages, which
    /// have a flag of their own, excepted).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (up, down) = (self.up.settings(), self.down.settings());
        let mut first = true;
        let mut item = |f: &mut fmt::Formatter<'_>, side: &str, key: &str, value: &str| {
            let comma = if std::mem::take(&mut first) { "" } else { "," };
            write!(f, "{comma}{side}{key}={value}")
        };
        for ((key, up), (_, down)) in up.iter().zip(&down) {
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
        if self.half_duplex {
            item(f, "", "half-duplex", "yes")?;
        }
        Ok(())
    }
}

impl DirectionSpec {
    /// Each key with its value; an empty value for what is not set.
    fn settings(&self) -> [(&'static str, String); 12] {
        let text = |set: bool, value: &dyn fmt::Display| if set { value.to_string() } else { String::new() };
        let file = self.trace.as_ref().map(|spec| spec.file.clone()).unwrap_or_default();
        [
            ("rate", text(self.trace.is_none(), &self.rate)),
            ("trace", file),
            ("delay", format_span(self.delay)),
            ("jitter", text(!self.jitter.is_zero(), &format_span(self.jitter))),
            ("loss", text(self.loss != LossSpec::None, &self.loss)),
            ("queue", self.queue.to_string()),
            ("aqm", text(self.aqm != AqmSpec::DropTail, &self.aqm)),
            ("ecn", text(self.ecn != EcnSpec::No, &self.ecn)),
            ("reorder", self.reorder.map(|reorder| reorder.to_string()).unwrap_or_default()),
            ("duplicate", text(self.duplicate != Ratio::ZERO, &self.duplicate)),
            ("corrupt", text(self.corrupt != Ratio::ZERO, &self.corrupt)),
            ("mtu", self.mtu.to_string()),
        ]
    }
}

/// The keys of a link. All but the last three may have `up-` or `down-` in front.
pub const KEYS: &[&str] = &[
    "rate",
    "delay",
    "jitter",
    "loss",
    "queue",
    "aqm",
    "ecn",
    "reorder",
    "duplicate",
    "corrupt",
    "mtu",
    "trace",
    "rtt",
    "half-duplex",
    "preset",
];

const TEN_MBIT: BitRate = match BitRate::from_bits_per_second(10_000_000) {
    Some(rate) => rate,
    None => panic!("10 million is not 0"),
};

#[cfg(test)]
mod tests;
