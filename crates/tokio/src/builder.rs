//! The settings that programs change most often, as typed calls; the others are reached by key.
//!
//! Home of RFC 9260 §16 as far as this crate goes: which settings there are, and their sources, says the engine's table.

use anabranch_sctp::{Config, KnobError, SchedulerKind};
use std::time::Duration;

/// Builds a [`Config`], from the profile `modern` on.
///
/// ```
/// use anabranch_tokio::{ConfigBuilder, SchedulerKind};
/// use std::time::Duration;
///
/// let config = ConfigBuilder::new()
///     .streams(1000)
///     .receive_buffer(8 << 20)
///     .heartbeat(Some(Duration::from_secs(5)))
///     .scheduler(SchedulerKind::WeightedFair)
///     .set("delack", "20ms")
///     .build()?;
/// assert_eq!(config.streams, 1000);
/// let wrong = ConfigBuilder::new().rto(Duration::from_secs(3), Duration::from_secs(1)).build();
/// assert!(wrong.is_err(), "RTO.Min is more than RTO.Max");
/// # Ok::<(), anabranch_tokio::KnobError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "`build` makes the settings"]
pub struct ConfigBuilder {
    config: Config,
    /// The first thing that was wrong.
    wrong: Option<KnobError>,
}

impl Default for ConfigBuilder {
    fn default() -> Self {
        Self::from(Config::profile("modern").unwrap_or_default())
    }
}

impl From<Config> for ConfigBuilder {
    fn from(config: Config) -> Self {
        Self { config, wrong: None }
    }
}

impl ConfigBuilder {
    /// From the profile `modern`.
    pub fn new() -> Self {
        Self::default()
    }

    /// From RFC 9260 by the letter.
    pub fn rfc9260() -> Self {
        Self::from(Config::default())
    }

    /// Any setting by its key and text form: see [`Config::knobs`].
    pub fn set(mut self, key: &str, value: &str) -> Self {
        if let Err(why) = self.config.set(key, value) {
            self.wrong.get_or_insert(why);
        }
        self
    }

    /// Streams that are asked for and granted in each direction.
    pub fn streams(self, streams: u16) -> Self {
        self.set("streams", &streams.to_string())
    }

    /// The receive buffer of an association, bytes: what a peer may send that is not read yet.
    pub fn receive_buffer(self, bytes: u64) -> Self {
        self.set("rcvbuf", &format!("{bytes}B"))
    }

    /// The send buffer of an association, bytes: what is not sent, or not acknowledged. No message may be larger.
    pub fn send_buffer(self, bytes: u64) -> Self {
        self.set("sndbuf", &format!("{bytes}B"))
    }

    /// The least and the largest retransmission timeout.
    pub fn rto(mut self, least: Duration, most: Duration) -> Self {
        (self.config.rto_min, self.config.rto_max) = (least, most);
        self
    }

    /// The retransmission timeout before the first measurement.
    pub fn rto_initial(mut self, initial: Duration) -> Self {
        self.config.rto_initial = initial;
        self
    }

    /// How often an idle path is asked whether it works; `None`: never.
    pub fn heartbeat(mut self, interval: Option<Duration>) -> Self {
        self.config.hb_interval = interval;
        self
    }

    /// Errors in a row that a path survives, and an association.
    pub fn retransmissions(mut self, path: u32, association: u32) -> Self {
        (self.config.path_max_retrans, self.config.assoc_max_retrans) = (path, association);
        self
    }

    /// Errors in a row after which data leaves a path for the time being (RFC 7829); `None`: once the path is given up.
    pub fn potentially_failed(mut self, errors: Option<u32>) -> Self {
        self.config.pf_max_retrans = errors;
        self
    }

    /// Retransmissions of the first two packets of an association: how long [`Endpoint::connect`](crate::Endpoint::connect)
    /// waits.
    pub fn connect_retransmissions(mut self, most: u32) -> Self {
        self.config.init_max_retrans = most;
        self
    }

    /// The order in which streams with something to send take turns (RFC 8260 §3).
    pub fn scheduler(mut self, kind: SchedulerKind) -> Self {
        self.config.scheduler = kind;
        self
    }

    /// Whether messages may be given up (RFC 3758): [`SendOptions`](crate::SendOptions).
    pub fn partial_reliability(mut self, on: bool) -> Self {
        self.config.partial_reliability = on;
        self
    }

    /// Whether large messages let others pass (RFC 8260).
    pub fn interleaving(mut self, on: bool) -> Self {
        self.config.interleaving = on;
        self
    }

    /// Whether streams can be reset and added (RFC 6525).
    pub fn reconfiguration(mut self, on: bool) -> Self {
        self.config.reconfig = on;
        self
    }

    /// Whether chunks can be authenticated (RFC 4895).
    pub fn authentication(mut self, on: bool) -> Self {
        self.config.auth = on;
        self
    }

    /// Whether addresses may come and go while an association lives (RFC 5061), which takes authentication.
    pub fn dynamic_addresses(mut self, on: bool) -> Self {
        self.config.asconf = on;
        self.config.auth |= on;
        self
    }

    /// The settings.
    ///
    /// # Errors
    /// [`KnobError`]: a value that cannot be, or two that contradict each other.
    pub fn build(self) -> Result<Config, KnobError> {
        match self.wrong {
            Some(wrong) => Err(wrong),
            None => self.config.check().map(|()| self.config),
        }
    }
}
