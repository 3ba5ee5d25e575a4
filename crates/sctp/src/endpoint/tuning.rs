//! Settings that differ between the ports and associations of one endpoint.
//!
//! A listening port and a new association can each have their own configuration. The configuration of an existing
//! association can be changed.
//!
//! Implements RFC 9260 §11.1.13 (Set Protocol Parameters).

use super::{Associate, AssociationId, Endpoint};
use crate::config::Config;
use crate::error::{AssociateError, ListenError};
use anabranch_base::Instant;
use std::sync::Arc;

impl Endpoint {
    /// Like [`listen`](Self::listen), with a configuration for the associations with this port.
    ///
    /// ```
    /// # use anabranch_sctp::testing::Pair;
    /// # use anabranch_sctp::Config;
    /// # let mut endpoint = Pair::new(Config::default(), Config::default(), 1, 1).a;
    /// let mut config = endpoint.config().clone();
    /// config.set("num_ostreams", "1000")?;
    /// endpoint.listen_with(80, config)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen_with(&mut self, port: u16, config: Config) -> Result<(), ListenError> {
        self.listen(port)?;
        let config = self.fit(config);
        self.accepts_zero_checksum |= config.zero_checksum;
        self.port_configs.insert(port, Arc::new(config));
        Ok(())
    }

    /// Like [`associate`](Self::associate), with a configuration for this association.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{address, Pair, Side};
    /// # use anabranch_sctp::{Associate, Config};
    /// # let mut pair = Pair::new(Config::default(), Config::default(), 1, 1);
    /// # pair.b.listen(80)?;
    /// let mut config = pair.a.config().clone();
    /// config.set("num_ostreams", "3")?;
    /// let id = pair.a.associate_with(pair.now, Associate::to(address(Side::B, 0), 80), config)?;
    /// pair.settle();
    /// assert_eq!(pair.a.info(id).map(|info| info.outbound_streams), Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AssociateError`].
    pub fn associate_with(
        &mut self,
        now: Instant,
        ask: Associate,
        config: Config,
    ) -> Result<AssociationId, AssociateError> {
        let config = self.fit(config);
        self.associate_as(now, ask, Arc::new(config))
    }

    /// Returns the configuration of an association; `None` if there is no such association any more.
    #[must_use]
    pub fn config_of(&self, id: AssociationId) -> Option<&Config> {
        self.association(id).map(|association| &**association.config())
    }

    /// Changes the configuration of an existing association (RFC 9260 §11.1.13). Returns false and changes nothing if
    /// there is no such association, or if the result does not pass [`Config::check`]. Values settled in the handshake
    /// (streams, extensions, windows) stay the same.
    ///
    /// ```
    /// # use anabranch_base::time::Duration;
    /// # use anabranch_sctp::{testing::Pair, Config};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// assert!(pair.a.tune(pair.now, id, |config| config.rto_min = Duration::from_millis(200)));
    /// assert_eq!(pair.a.config_of(id).map(|config| config.rto_min), Some(Duration::from_millis(200)));
    /// // This is more than RTO.Max.
    /// assert!(!pair.a.tune(pair.now, id, |config| config.rto_min = Duration::from_secs(61)));
    /// assert_eq!(pair.a.config_of(id).map(|config| config.rto_min), Some(Duration::from_millis(200)));
    /// ```
    pub fn tune(&mut self, now: Instant, id: AssociationId, change: impl FnOnce(&mut Config)) -> bool {
        let Some(slot) = self.find(id) else {
            return false;
        };
        self.with(now, slot, |association, ctx| association.tune(ctx, change)) == Some(true)
    }

    /// Returns the configuration for associations with a listening port.
    pub(super) fn config_at(&self, port: u16) -> &Arc<Config> {
        self.port_configs.get(&port).unwrap_or(&self.config)
    }

    /// Enables or disables the fast path, which is enabled by default. Without the fast path, every packet takes the
    /// slow path, with the same results. Disable the fast path only in tests and measurements.
    ///
    /// ```
    /// # let mut endpoint = anabranch_sctp::testing::Pair::new(Default::default(), Default::default(), 1, 1).a;
    /// endpoint.set_fast_path(false);
    /// ```
    pub fn set_fast_path(&mut self, on: bool) {
        self.fast_path = on;
        for association in self.slots.iter_mut().filter_map(|slot| slot.association.as_mut()) {
            association.invalidate_fast_path();
        }
    }
}
