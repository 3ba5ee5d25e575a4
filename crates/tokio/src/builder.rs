//! Typed methods for the most common settings. All other settings are set by key.
//!
//! Implements RFC 9260 §16 in part. The table of settings in `anabranch-sctp` gives the source of each value.

use anabranch_sctp::{Config, KnobError, SchedulerKind};
use std::time::Duration;

/// Builds a [`Config`] that starts from the profile `modern`.
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
/// assert_eq!(config.num_ostreams, 1000);
/// let wrong = ConfigBuilder::new().rto(Duration::from_secs(3), Duration::from_secs(1)).build();
/// assert!(wrong.is_err(), "RTO.Min is more than RTO.Max");
/// # Ok::<(), anabranch_tokio::KnobError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "`build` makes the settings"]
pub struct ConfigBuilder {
    config: Config,
    /// The first error of a `set` call.
    first_error: Option<KnobError>,
}

impl Default for ConfigBuilder {
    fn default() -> Self {
        Self::from(Config::profile("modern").unwrap_or_default())
    }
}

impl From<Config> for ConfigBuilder {
    fn from(config: Config) -> Self {
        Self { config, first_error: None }
    }
}

impl ConfigBuilder {
    /// Creates a builder that starts from the profile `modern`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a builder that starts from the literal values of RFC 9260.
    pub fn rfc9260() -> Self {
        Self::from(Config::default())
    }

    /// Sets any setting from its key and its text form; see [`Config::knobs`].
    pub fn set(mut self, key: &str, value: &str) -> Self {
        if let Err(why) = self.config.set(key, value) {
            self.first_error.get_or_insert(why);
        }
        self
    }

    /// Sets the number of streams that this side requests and grants in each direction.
    pub fn streams(self, streams: u16) -> Self {
        self.set("num_ostreams", &streams.to_string())
    }

    /// Sets the size of an association's receive buffer in bytes. While the buffer is full of unread data, the peer
    /// cannot send.
    pub fn receive_buffer(self, bytes: u64) -> Self {
        self.set("rcvbuf", &format!("{bytes}B"))
    }

    /// Sets the size of an association's send buffer in bytes. The buffer holds unsent and unacknowledged data. A
    /// message cannot be longer than the buffer.
    pub fn send_buffer(self, bytes: u64) -> Self {
        self.set("sndbuf", &format!("{bytes}B"))
    }

    /// Sets the minimum and the maximum retransmission timeout.
    pub fn rto(mut self, least: Duration, most: Duration) -> Self {
        (self.config.rto_min, self.config.rto_max) = (least, most);
        self
    }

    /// Sets the retransmission timeout that applies before the first round-trip time measurement.
    pub fn rto_initial(mut self, initial: Duration) -> Self {
        self.config.rto_initial = initial;
        self
    }

    /// Sets the heartbeat interval of idle paths; `None` turns heartbeats off.
    pub fn heartbeat(mut self, interval: Option<Duration>) -> Self {
        self.config.hb_interval = interval;
        self
    }

    /// Sets the numbers of consecutive errors after which a path fails, and after which an association fails.
    pub fn retransmissions(mut self, path: u32, association: u32) -> Self {
        (self.config.path_max_retrans, self.config.assoc_max_retrans) = (path, association);
        self
    }

    /// Sets the number of consecutive errors after which a path counts as potentially failed (RFC 7829). Data avoids a
    /// potentially failed path until the path answers. With `None`, data leaves a path only when the path has failed.
    pub fn potentially_failed(mut self, errors: Option<u32>) -> Self {
        self.config.pf_max_retrans = errors;
        self
    }

    /// Sets the maximum number of retransmissions of an INIT or a COOKIE ECHO. This number limits how long
    /// [`Endpoint::connect`](crate::Endpoint::connect) waits.
    pub fn connect_retransmissions(mut self, most: u32) -> Self {
        self.config.init_max_retrans = most;
        self
    }

    /// Sets the order in which streams with data are served (RFC 8260 §3).
    pub fn scheduler(mut self, kind: SchedulerKind) -> Self {
        self.config.scheduler = kind;
        self
    }

    /// Sets whether messages may be abandoned (RFC 3758); see [`SendOptions`](crate::SendOptions).
    pub fn partial_reliability(mut self, on: bool) -> Self {
        self.config.partial_reliability = on;
        self
    }

    /// Sets whether chunks of other messages may be sent between the chunks of a large message (RFC 8260).
    pub fn interleaving(mut self, on: bool) -> Self {
        self.config.interleaving = on;
        self
    }

    /// Sets whether streams can be reset and added (RFC 6525).
    pub fn reconfiguration(mut self, on: bool) -> Self {
        self.config.reconfig = on;
        self
    }

    /// Sets whether chunks are authenticated (RFC 4895).
    pub fn authentication(mut self, on: bool) -> Self {
        self.config.auth = on;
        self
    }

    /// Sets whether addresses may be added and removed during an association (RFC 5061). Turning this on also turns
    /// authentication on, which RFC 5061 requires.
    pub fn dynamic_addresses(mut self, on: bool) -> Self {
        self.config.asconf = on;
        self.config.auth |= on;
        self
    }

    /// Returns the settings.
    ///
    /// # Errors
    /// [`KnobError`], if a value is invalid, or if two values contradict each other.
    pub fn build(self) -> Result<Config, KnobError> {
        match self.first_error {
            Some(error) => Err(error),
            None => self.config.check().map(|()| self.config),
        }
    }
}
